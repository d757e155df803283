"""Fields of vector elements in kernels: Piola's maps of values, and derivatives that are exact.

The derivative of a map is part of a value's gradient where cells are curved. The divergence of fluxes and the curl of
circulations do not have it; other derivatives are there only if J is constant in each cell.
"""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

import functools
from typing import Any

import jaxwarp as wp
from jaxwarp.fem.geometry.kinds import make_kind
from jaxwarp.fem.geometry.places import metric_functions, of_cells, of_sides
from jaxwarp.fem.space.shapes import shape_functions
from jaxwarp.fem.space.vectors import VectorShapeFunctions
from jaxwarp.fem.types import matrix, vector

_CURVED = "cells may be curved: use div of Raviart-Thomas elements, curl of Nedelec's, or a grid, or simplices"
HINTS = {"grad": _CURVED, "grad_outer": _CURVED, "div": _CURVED, "div_outer": _CURVED, "curl": _CURVED}
_NO_WEIGHT = "functions of nodes are vectors: evaluate a test function, or a field"
HINTS |= {"node_inner_weight": _NO_WEIGHT, "node_inner_weight_gradient": _NO_WEIGHT}


@functools.cache
def piola(geometry: Any, is_flux: bool) -> tuple[Any, Any]:
    """Make functions of a Jacobian: the map of values from the element to a cell, and the one back."""
    inverse, measure = metric_functions(geometry.DIMENSION, geometry.ELEMENT.dimension, geometry.SCALAR)
    if is_flux:

        @wp.func
        def contravariant(j: Any):
            return j / measure(j)

        @wp.func
        def from_contravariant(j: Any):
            return inverse(j) * measure(j)

        return contravariant, from_contravariant

    @wp.func
    def covariant(j: Any):
        return wp.transpose(inverse(j))

    @wp.func
    def from_covariant(j: Any):
        return wp.transpose(j)

    return covariant, from_covariant


@functools.cache
def _rows(shape: VectorShapeFunctions, scalar: Any) -> tuple[Any, Any]:
    """`(coefficients, x, k)`: a function's value in the element, and its derivatives, one row for each component."""
    dimension = shape.element.dimension
    weight, slope = shape_functions(shape, scalar)
    one, all_ = vector(dimension, scalar), matrix(dimension, dimension, scalar)

    @wp.func
    def reference(coefficients: Any, x: Any, k: int):
        found = one()
        for c in range(dimension):
            found[c] = weight(coefficients, x, k * dimension + c)
        return found

    @wp.func
    def reference_slope(coefficients: Any, x: Any, k: int):
        found = all_()
        for c in range(dimension):
            found[c] = slope(coefficients, x, k * dimension + c)
        return found

    return reference, reference_slope


def discrete_functions(geometry: Any, shape: VectorShapeFunctions, is_whole: bool) -> dict[str, Any]:
    """The functions of a field with values at sides or edges, as `discrete_kind` has them."""
    scalar, dimension = geometry.SCALAR, shape.element.dimension
    value, slope = _rows(shape, scalar)

    def summed(function: Any, made: Any) -> Any:
        @wp.func
        def sum_of_nodes(f: Any, cell: int, x: Any, dof: wp.vec2i, which: int):
            found = made()
            for k in range(f.nodes.shape[1]):
                node = f.nodes[cell, k]
                if wp.static(is_whole) or node >= 0:
                    found += function(f.coefficients, x, k) * (f.dofs[node] * f.signs[cell, k])
            return found

        return sum_of_nodes

    return _functions(geometry, shape, summed(value, vector(dimension, scalar)),
                      summed(slope, matrix(dimension, dimension, scalar)))  # fmt: skip


def virtual_functions(geometry: Any, shape: VectorShapeFunctions, is_cells: bool) -> dict[str, Any]:
    """The functions of test and trial functions, as `virtual_kind` has them."""
    scalar, count = geometry.SCALAR, len(shape.nodes)

    def chosen(function: Any) -> Any:
        @wp.func
        def one_of_nodes(f: Any, cell: int, x: Any, dof: wp.vec2i, which: int):
            k = dof[0] % count
            factor = f.signs[cell, k]
            if wp.static(not is_cells):
                factor = wp.where(dof[0] // count == which, factor, scalar(0.0))
            return function(f.coefficients, x, k) * factor

        return one_of_nodes

    value, slope = _rows(shape, scalar)
    return _functions(geometry, shape, chosen(value), chosen(slope))


def _functions(geometry: Any, shape: VectorShapeFunctions, reference: Any, slope: Any) -> dict[str, Any]:
    push, _ = piola(geometry, shape.is_flux)
    inverse, measure = metric_functions(geometry.DIMENSION, geometry.ELEMENT.dimension, geometry.SCALAR)
    jacobian = geometry.FUNCTIONS["jacobian"]

    @wp.func
    def value(f: Any, cell: int, x: Any, dof: wp.vec2i, which: int):
        return push(jacobian(f.geometry, cell, x)) * reference(f, cell, x, dof, which)

    @wp.func
    def reference_gradient(f: Any, cell: int, x: Any, dof: wp.vec2i, which: int):
        return push(jacobian(f.geometry, cell, x)) * slope(f, cell, x, dof, which)

    @wp.func
    def mapped_gradient(f: Any, cell: int, x: Any, dof: wp.vec2i, which: int):
        j = jacobian(f.geometry, cell, x)
        return push(j) * slope(f, cell, x, dof, which) * inverse(j)

    @wp.func
    def divergence_of_flux(f: Any, cell: int, x: Any, dof: wp.vec2i, which: int):
        return wp.trace(slope(f, cell, x, dof, which)) / measure(jacobian(f.geometry, cell, x))

    @wp.func
    def divergence(f: Any, cell: int, x: Any, dof: wp.vec2i, which: int):
        return wp.trace(mapped_gradient(f, cell, x, dof, which))

    is_affine = geometry.IS_AFFINE
    return {
        "value": value,
        "reference_gradient": reference_gradient if is_affine else None,
        "divergence": divergence_of_flux if shape.is_flux else divergence if is_affine else None,
        "twist": mapped_gradient if is_affine or not shape.is_flux else None,
    }


@functools.cache
def dual_kind(dimension: int, scalar: Any) -> Any:
    """The struct of what degrees of freedom are: the axes of sides or edges in the element, and signs in each cell."""
    fields = {"axes": wp.array[vector(dimension, scalar)], "signs": wp.array2d[scalar]}
    return make_kind(f"Dual{dimension}_{scalar}", fields, {})


@functools.cache
def flux_function(geometry: Any, shape: VectorShapeFunctions, is_cells: bool) -> Any:
    """`(dual, domain, s, k, value)`: the degree of freedom of a value at the center of a side or edge.

    `dual` is of `dual_kind`, k the number of the side or edge in the sample's cell, which is the inner one on sides.
    """
    places = of_cells(geometry) if is_cells else of_sides(geometry)
    cell_of, x_of = places["cell"], places["x"]
    _, pull = piola(geometry, shape.is_flux)
    jacobian = geometry.FUNCTIONS["jacobian"]

    @wp.func
    def to_dof(dual: Any, domain: Any, s: Any, k: int, value: Any):
        cell = cell_of(domain.geometry, s, 0)
        j = jacobian(domain.geometry, cell, x_of(domain.geometry, s, 0))
        return wp.dot(pull(j) * value, dual.axes[k]) * dual.signs[cell, k]

    return to_dof
