"""The functions of nodes in kernels, and where nodes are: polynomials, or functions of the distance from a point."""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jaxwarp as wp
from jaxwarp.fem.calls import of_values
from jaxwarp.fem.space.points import PointFunctions
from jaxwarp.fem.space.shapes import ShapeFunctions, shape_functions
from jaxwarp.fem.types import vector


class NodeFunctions(NamedTuple):
    """Functions of a field's struct `f`, whose `nodes` have a row for each cell and whose `coefficients` are theirs."""

    coefficients: Any
    """The type of `f.coefficients`."""
    weight: Any
    """`(f, cell, x, k)`: the function of a cell's node k."""
    slope: Any
    """`(f, cell, x, k)`: its derivatives by x."""
    bound: Any
    """`(f, cell)`: how many nodes of a cell a loop visits."""
    count: Any
    """`(f, cell)`: the same number, a constant if all cells have as many."""
    width: Any
    """`(f)`: the length of a row of `f.nodes`."""
    node_x: Any
    """`(f, cell, k)`: the coordinates of a node."""
    is_ragged: bool
    """Whether rows may have fewer nodes than `width`, or none. The rest of a row is -1."""


@functools.cache
def node_functions(geometry: Any, shape: ShapeFunctions | PointFunctions) -> NodeFunctions:
    return _of_points(geometry, shape) if isinstance(shape, PointFunctions) else _of_polynomials(geometry, shape)


def _of_polynomials(geometry: Any, shape: ShapeFunctions) -> NodeFunctions:
    scalar, nodes = geometry.SCALAR, shape.nodes
    total, points = len(nodes), vector(shape.element.dimension, scalar)
    of_shape, slope_of_shape = shape_functions(shape, scalar)

    @wp.func
    def weight(f: Any, cell: int, x: Any, k: int):
        return of_shape(f.coefficients, x, k)

    @wp.func
    def slope(f: Any, cell: int, x: Any, k: int):
        return slope_of_shape(f.coefficients, x, k)

    @wp.func
    def bound(f: Any, cell: int):
        return f.nodes.shape[1]

    @wp.func
    def count(f: Any, cell: int):
        return wp.static(total)

    @wp.func
    def width(f: Any):
        return wp.static(total)

    @wp.func
    def node_x(f: Any, cell: int, k: int):
        x = points()
        for n in range(total):
            for d in range(wp.static(nodes.shape[1])):
                x[d] = wp.where(k == n, scalar(wp.static(float(nodes[n, d]))), x[d])
        return x

    return NodeFunctions(wp.array2d[scalar], weight, slope, bound, count, width, node_x, False)


def _of_points(geometry: Any, shape: PointFunctions) -> NodeFunctions:
    scalar = geometry.SCALAR
    position, jacobian, local = (geometry.FUNCTIONS[n] for n in ("position", "jacobian", "local"))
    point_count, point_at = shape.points.FUNCTIONS["point_count"], shape.points.FUNCTIONS["point_at"]
    function = of_values(shape.function, shape.names)
    gradient: Any = None if shape.gradient is None else of_values(shape.gradient, shape.names)
    distance, is_world = shape.distance, shape.is_world

    @wp.func
    def place(f: Any, cell: int, k: int):
        coords, _, number = point_at(f.coefficients.points, cell, f.coefficients.places[cell], k)
        return local(coords), number

    @wp.func
    def away(f: Any, cell: int, x: Any, at: Any):
        if wp.static(is_world):
            return position(f.geometry, cell, x) - position(f.geometry, cell, at)
        return x - at

    @wp.func
    def weight(f: Any, cell: int, x: Any, k: int):
        at, number = place(f, cell, k)
        return scalar(function(distance(wp.length_sq(away(f, cell, x, at))), number, f.coefficients.values))

    @wp.func
    def slope(f: Any, cell: int, x: Any, k: int):
        if wp.static(gradient is None):
            return x * scalar(0.0)
        else:
            at, number = place(f, cell, k)
            along = away(f, cell, x, at)
            factor = scalar(gradient(distance(wp.length_sq(along)), number, f.coefficients.values))
            if wp.static(is_world):
                along = wp.transpose(jacobian(f.geometry, cell, x)) * along
            return along * (scalar(2.0) * factor)

    @wp.func
    def bound(f: Any, cell: int):
        return wp.min(f.nodes.shape[1], point_count(f.coefficients.points, cell))

    @wp.func
    def width(f: Any):
        return f.nodes.shape[1]

    @wp.func
    def node_x(f: Any, cell: int, k: int):
        at, _ = place(f, cell, k)
        return at

    return NodeFunctions(shape.kind, weight, slope, bound, bound, width, node_x, True)
