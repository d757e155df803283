"""Geometries in kernels: structs, and the functions of each kind of them.

`FUNCTIONS` of a kind has `position(geometry, cell, x)`, `jacobian(geometry, cell, x)` and perhaps `lookup`, where x are
coordinates along the axes of the cell.
"""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

import functools
from typing import Any

import jaxwarp as wp
from jaxwarp.fem.geometry.lookup import grid_lookup, grid_lookup_in, mesh_lookup
from jaxwarp.fem.geometry.reference import (
    Element,
    coords_function,
    local_function,
    vertex_gradient_function,
    vertex_weight_function,
)
from jaxwarp.fem.types import matrix, vector


def make_kind(name: str, fields: dict[str, Any], functions: dict[str, Any], **attributes: Any) -> Any:
    """A struct whose class knows the functions of its instances."""
    if not fields:  # a struct without fields is no argument in JAX
        fields = {"nothing": wp.int32}
    members = {"__annotations__": fields, "__module__": __name__, "FUNCTIONS": functions, **attributes}
    return wp.struct(type(name, (), members))


def side_fields(element: Element, scalar: Any) -> dict[str, Any]:
    one = vector(element.dimension, scalar)
    return {
        "side_cells": wp.array2d[int],
        "side_corners": wp.array2d[int],
        "side_local": wp.array[int],
        "normals": wp.array[one],
        "vertices": wp.array[one],
    }


def attributes(element: Element, dimension: int, scalar: Any, is_affine: bool) -> dict[str, Any]:
    """Return what all kinds know; `is_affine`: whether the Jacobian is the same in all of a cell."""
    return {"ELEMENT": element, "DIMENSION": dimension, "SCALAR": scalar, "IS_AFFINE": is_affine}


@functools.cache
def cell_of_grid(dimension: int) -> Any:
    """Make the function `(res, cell)`: the place of a cell along each axis."""
    places = vector(dimension, wp.int32)

    @wp.func
    def get_cell(res: places, cell: int):
        found = places()
        for d in range(dimension):
            k = wp.static(dimension - 1) - d
            found[k] = cell % res[k]
            cell = cell // res[k]
        return found

    return get_cell


@functools.cache
def grid_kind(element: Element, scalar: Any, has_environments: bool) -> Any:
    """The struct of grids. Where they have several environments, positions are looked up in one of them only."""
    dimension = element.dimension
    one, places, coords = vector(dimension, scalar), vector(dimension, wp.int32), vector(3, scalar)

    get_cell = cell_of_grid(dimension)

    @wp.func
    def place(geometry: Any, cell: int):
        return get_cell(geometry.res, cell)

    @wp.func
    def position(geometry: Any, cell: int, x: Any):
        return geometry.origin + wp.cw_mul(one(place(geometry, cell)) + x, geometry.cell_size)

    @wp.func
    def jacobian(geometry: Any, cell: int, x: Any):
        return wp.diag(geometry.cell_size)

    @wp.func
    def coordinates(geometry: Any, cell: int, position: Any):
        u = wp.cw_div(position - geometry.origin, geometry.cell_size) - one(place(geometry, cell))
        found = coords()
        for d in range(dimension):
            found[d] = u[d]
        return found

    environment_lookup = grid_lookup(dimension, scalar)

    @wp.func
    def lookup(geometry: Any, position: Any):
        return environment_lookup(geometry, position, 0)

    @wp.func
    def environment(geometry: Any, cell: int):
        count = 1
        for d in range(dimension):
            count *= geometry.res[d]
        return wp.where(cell < 0, -1, cell // count)

    fields = {"origin": one, "cell_size": one, "res": places, "environments": int, **side_fields(element, scalar)}
    functions = {"position": position, "jacobian": jacobian, "coordinates": coordinates,
                 "environment_lookup": environment_lookup, "environment": environment,
                 "lookup_in": grid_lookup_in(dimension, scalar, environment_lookup, place),
                 **side_functions(element, scalar)}  # fmt: skip
    if not has_environments:
        functions["lookup"] = lookup
    name = f"{'Environments' if has_environments else 'Grid'}{dimension}D_{scalar}"
    return make_kind(name, fields, functions, **attributes(element, dimension, scalar, True))


@functools.cache
def mesh_kind(element: Element, dimension: int, scalar: Any, is_searched: bool) -> Any:
    count = len(element.value.vertices)
    one, jacobian_type = vector(dimension, scalar), matrix(dimension, element.dimension, scalar)
    weight, gradient = vertex_weight_function(element, scalar), vertex_gradient_function(element, scalar)

    @wp.func
    def position(geometry: Any, cell: int, x: Any):
        found = one()
        for k in range(count):
            found += geometry.positions[geometry.cells[cell, k]] * weight(x, k)
        return found

    @wp.func
    def jacobian(geometry: Any, cell: int, x: Any):
        found = jacobian_type()
        for k in range(count):
            found += wp.outer(geometry.positions[geometry.cells[cell, k]], gradient(x, k))
        return found

    fields = {"positions": wp.array[one], "cells": wp.array2d[int], **side_fields(element, scalar)}
    functions = {"position": position, "jacobian": jacobian, **side_functions(element, scalar)}
    if is_searched:
        fields |= {"bvh": wp.Bvh, "extent": scalar}
        functions["lookup"] = mesh_lookup(element, dimension, scalar, position, jacobian)
    name = f"Mesh{dimension}D_{element.name}_{scalar}"
    return make_kind(name, fields, functions, **attributes(element, dimension, scalar, element.value.is_simplex))


@functools.cache
def deformed_kind(field: Any, is_relative: bool) -> Any:
    """The geometry whose positions are values of a field."""
    base = field.GEOMETRY
    element, scalar = base.ELEMENT, base.SCALAR
    value, slope = field.FUNCTIONS["value"], field.FUNCTIONS["reference_gradient"]
    base_position, base_jacobian = base.FUNCTIONS["position"], base.FUNCTIONS["jacobian"]

    @wp.func
    def position(geometry: Any, cell: int, x: Any):
        found = value(geometry.field, cell, x, wp.vec2i(), 0)
        if wp.static(is_relative):
            found += base_position(geometry.field.geometry, cell, x)
        return found

    @wp.func
    def jacobian(geometry: Any, cell: int, x: Any):
        found = slope(geometry.field, cell, x, wp.vec2i(), 0)
        if wp.static(is_relative):
            found += base_jacobian(geometry.field.geometry, cell, x)
        return found

    fields = {"field": field, **side_fields(element, scalar)}
    functions = {"position": position, "jacobian": jacobian, **side_functions(element, scalar)}
    if "environment" in base.FUNCTIONS:
        functions["environment"] = _environment_of_field(base.FUNCTIONS["environment"])
    degree = field.SHAPE.degree if hasattr(field, "SHAPE") else None  # None: of a function
    is_affine = base.IS_AFFINE and element.value.is_simplex and degree in (0, 1)
    known = attributes(element, base.DIMENSION, scalar, is_affine)
    return make_kind(f"Deformed_{field.__name__}", fields, functions, **known)


def _environment_of_field(function: Any) -> Any:
    @wp.func
    def environment(geometry: Any, cell: int):
        return function(geometry.field.geometry, cell)

    return environment


@functools.cache
def side_functions(element: Element, scalar: Any) -> dict[str, Any]:
    """Make the functions that turn coordinates of samples on sides into those along the axes of cells."""
    side = element.side
    corners = len(side.value.vertices)
    dimension, side_dimension = element.dimension, side.dimension
    one, across = vector(dimension, scalar), matrix(dimension, side_dimension, scalar)
    side_local = local_function(side, scalar)
    weight, gradient = vertex_weight_function(side, scalar), vertex_gradient_function(side, scalar)

    @wp.func
    def cell_coordinates(geometry: Any, side_index: int, which: int, coords: Any):
        t = side_local(coords)
        x = one()
        for k in range(corners):
            x += geometry.vertices[geometry.side_corners[side_index, which * corners + k]] * weight(t, k)
        return x

    @wp.func
    def side_tangents(geometry: Any, side_index: int, coords: Any):
        """Return the derivatives of the inner cell's coordinates by the side's."""
        t = side_local(coords)
        found = across()
        for k in range(corners):
            corner = geometry.vertices[geometry.side_corners[side_index, k]]
            found += wp.outer(corner, gradient(t, k))
        return found

    return {
        "local": local_function(element, scalar),
        "coords": coords_function(element, scalar),
        "cell_coordinates": cell_coordinates,
        "side_tangents": side_tangents,
    }
