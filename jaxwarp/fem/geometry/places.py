"""The place of a sample: its cell, its coordinates there, and how coordinates and positions change with each other.

These are functions of a geometry's struct that fields and domains share, for cells (`of_cells`) and sides (`of_sides`).
"""

from __future__ import annotations

import functools
from typing import Any

import jaxwarp as wp
from jaxwarp.fem.types import make_free_sample, vector


@functools.cache
def metric_functions(rows: int, columns: int, scalar: Any) -> tuple[Any, Any]:
    """Make functions of a Jacobian: `(inverse, measure)`. If it is not square, its inverse is that of least squares."""
    if rows == columns:

        @wp.func
        def square_inverse(j: Any):
            return wp.inverse(j)

        @wp.func
        def square_measure(j: Any):
            return wp.abs(wp.determinant(j))

        return square_inverse, square_measure

    @wp.func
    def inverse(j: Any):
        jt = wp.transpose(j)
        return wp.inverse(jt * j) * jt

    # The root of a determinant would have no derivative where an element has no extent.
    @wp.func
    def length(j: Any):
        return wp.length(wp.transpose(j)[0])

    @wp.func
    def area(j: Any):
        across = wp.transpose(j)
        return wp.length(wp.cross(across[0], across[1]))

    return inverse, length if columns == 1 else area


@functools.cache
def of_cells(kind: Any) -> dict[str, Any]:
    """`cell(geometry, s, which)`, `x(geometry, s, which)`, and the operators of domains."""
    functions, scalar = kind.FUNCTIONS, kind.SCALAR
    local, place, jacobian_at = functions["local"], functions["position"], functions["jacobian"]
    _, jacobian_measure = metric_functions(kind.DIMENSION, kind.ELEMENT.dimension, scalar)

    @wp.func
    def cell(geometry: Any, s: Any, which: int):
        return s.element_index

    @wp.func
    def x(geometry: Any, s: Any, which: int):
        return local(s.element_coords)

    @wp.func
    def position(geometry: Any, s: Any):
        return place(geometry, s.element_index, local(s.element_coords))

    @wp.func
    def jacobian(geometry: Any, s: Any):
        return jacobian_at(geometry, s.element_index, local(s.element_coords))

    @wp.func
    def measure(geometry: Any, s: Any):
        return jacobian_measure(jacobian(geometry, s)) * scalar(wp.static(kind.ELEMENT.value.measure))

    @wp.func
    def ratio(geometry: Any, s: Any):
        return scalar(1.0)

    return {"cell": cell, "x": x, "position": position, "deformation_gradient": jacobian, "measure": measure,
            "measure_ratio": ratio, "normal": _surface_normal(kind, jacobian)}  # fmt: skip


def _surface_normal(kind: Any, jacobian: Any) -> Any:
    dimension, made = kind.DIMENSION, vector(kind.DIMENSION, kind.SCALAR)
    if dimension == kind.ELEMENT.dimension:

        @wp.func
        def none(geometry: Any, s: Any):
            return made()

        return none

    @wp.func
    def normal(geometry: Any, s: Any):
        j = jacobian(geometry, s)
        return wp.normalize(wp.cross(wp.transpose(j)[0], wp.transpose(j)[1]))

    return normal


@wp.func
def _perpendicular(tangents: Any):
    t = tangents[0]
    return type(t)(t[1], -t[0])


@wp.func
def _crossed(tangents: Any):
    return wp.cross(tangents[0], tangents[1])


@functools.cache
def of_sides(kind: Any) -> dict[str, Any]:
    """The same of sides, `which` is 0 for the inner cell and 1 for the outer one."""
    functions, element, scalar = kind.FUNCTIONS, kind.ELEMENT, kind.SCALAR
    place, jacobian_at = functions["position"], functions["jacobian"]
    coordinates, tangents, coords_of = functions["cell_coordinates"], functions["side_tangents"], functions["coords"]
    inverse, cell_measure = metric_functions(kind.DIMENSION, element.dimension, scalar)
    _, side_measure = metric_functions(kind.DIMENSION, element.side.dimension, scalar)
    cell_unit, side_unit = element.value.measure, element.side.value.measure
    is_flat = element.dimension == kind.DIMENSION
    perpendicular = _perpendicular if kind.DIMENSION == 2 else _crossed

    @wp.func
    def cell(geometry: Any, s: Any, which: int):
        return geometry.side_cells[s.element_index, which]

    @wp.func
    def x(geometry: Any, s: Any, which: int):
        return coordinates(geometry, s.element_index, which, s.element_coords)

    @wp.func
    def position(geometry: Any, s: Any):
        return place(geometry, cell(geometry, s, 0), x(geometry, s, 0))

    @wp.func
    def inner_jacobian(geometry: Any, s: Any, which: int):
        return jacobian_at(geometry, cell(geometry, s, which), x(geometry, s, which))

    @wp.func
    def jacobian(geometry: Any, s: Any):
        return inner_jacobian(geometry, s, 0) * tangents(geometry, s.element_index, s.element_coords)

    @wp.func
    def measure(geometry: Any, s: Any):
        return side_measure(jacobian(geometry, s)) * scalar(wp.static(side_unit))

    @wp.func
    def normal(geometry: Any, s: Any):
        reference = geometry.normals[geometry.side_local[s.element_index]]
        outward = wp.transpose(inverse(inner_jacobian(geometry, s, 0))) * reference
        if wp.static(not is_flat):
            return outward
        # Of tangents: components that are zero are exactly so, which the inverse does not promise.
        across = wp.transpose(jacobian(geometry, s))
        found = perpendicular(across)
        return wp.where(wp.dot(found, outward) > scalar(0.0), found, -found)

    @wp.func
    def unit_normal(geometry: Any, s: Any):
        return wp.normalize(normal(geometry, s))

    @wp.func
    def ratio(geometry: Any, s: Any):
        inner = cell_measure(inner_jacobian(geometry, s, 0))
        outer = cell_measure(inner_jacobian(geometry, s, 1))
        return measure(geometry, s) / (wp.min(inner, outer) * scalar(wp.static(cell_unit)))

    @wp.func
    def inner_cell(geometry: Any, s: Any):
        return make_free_sample(cell(geometry, s, 0), coords_of(x(geometry, s, 0)))

    @wp.func
    def outer_cell(geometry: Any, s: Any):
        return make_free_sample(cell(geometry, s, 1), coords_of(x(geometry, s, 1)))

    return {"cell": cell, "x": x, "position": position, "deformation_gradient": jacobian, "measure": measure,
            "measure_ratio": ratio, "normal": unit_normal, "inner_cell": inner_cell,
            "outer_cell": outer_cell}  # fmt: skip
