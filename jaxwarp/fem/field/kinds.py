"""Fields in kernels: structs, and the functions of each kind of them.

Fields of cells have `value(f, cell, x, dof, which)` and `reference_gradient` of the same arguments, by the coordinates
x along the axes. A virtual field, which a test or trial function is, is the shape function of a degree of freedom
`dof`: its node, counted on sides through the inner cell and then the outer one, and its component. `which` of the two
cells is asked for: functions of the other one are zero there.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jaxwarp as wp
from jaxwarp.fem import operators
from jaxwarp.fem.calls import constant
from jaxwarp.fem.field import vectors
from jaxwarp.fem.field.nodes import NodeFunctions, node_functions
from jaxwarp.fem.geometry.kinds import make_kind
from jaxwarp.fem.geometry.places import metric_functions, of_cells, of_sides
from jaxwarp.fem.space.mapper import DofMapper
from jaxwarp.fem.space.shapes import ShapeFunctions
from jaxwarp.fem.space.vectors import VectorShapeFunctions
from jaxwarp.fem.types import matrix, sample_type, vector
from jaxwarp.types import Mat, Scalar

TEST, TRIAL = "test_dof", "trial_dof"


def components(dtype: Any) -> int:
    """Return how many numbers a value has."""
    return 1 if isinstance(dtype, Scalar) else dtype.size


@functools.cache
def _outer_function(dtype: Any, dimension: int, scalar: Any) -> tuple[Any, Any]:
    """`(times, gradient type)`: a value times a gradient of its shape function."""
    if isinstance(dtype, Scalar):

        @wp.func
        def scaled(value: Any, gradient: Any):
            return gradient * value

        return scaled, vector(dimension, scalar)

    @wp.func
    def outer(value: Any, gradient: Any):
        return wp.outer(value, gradient)

    return outer, matrix(components(dtype), dimension, scalar)


@functools.cache
def unit_function(dtype: Any, scalar: Any) -> Any:
    """The value whose component is one."""
    if isinstance(dtype, Scalar):

        @wp.func
        def one(component: int):
            return scalar(1.0)

        return one
    if isinstance(dtype, Mat):
        columns = dtype.shape[1]

        @wp.func
        def unit_matrix(component: int):
            value = dtype()
            value[component // columns, component % columns] = scalar(1.0)
            return value

        return unit_matrix

    @wp.func
    def unit(component: int):
        value = dtype()
        value[component] = scalar(1.0)
        return value

    return unit


def _hints(shape: ShapeFunctions) -> dict[str, str]:
    return vectors.HINTS if shape.is_vector else {}


@functools.cache
def discrete_kind(geometry: Any, shape: ShapeFunctions, mapper: DofMapper, is_whole: bool = True) -> Any:
    """The struct of fields with values at nodes; if not at all (`is_whole`), zero at the others, whose number is -1."""
    scalar, dtype = geometry.SCALAR, mapper.dtype
    of = node_functions(geometry, shape)
    weight, slope, bound = of.weight, of.slope, of.bound
    to_value, is_full = mapper.function, is_whole and not of.is_ragged

    @wp.func
    def node_value(f: Any, cell: int, k: int):
        node = f.nodes[cell, k]
        if wp.static(not is_full) and node < 0:
            return dtype(scalar(0.0))
        return to_value(f.dofs[node])

    @wp.func
    def value(f: Any, cell: int, x: Any, dof: wp.vec2i, which: int):
        found = dtype(scalar(0.0))
        for k in range(bound(f, cell)):  # not unrolled: long texts take long to compile
            found += node_value(f, cell, k) * weight(f, cell, x, k)
        return found

    @wp.func
    def node_gradient(f: Any, cell: int, x: Any, dof: wp.vec2i, k: int):
        return node_value(f, cell, k), slope(f, cell, x, k)

    fields = {"dofs": wp.array[mapper.dof_dtype], "nodes": wp.array2d[int], "coefficients": of.coefficients,
              "geometry": geometry}  # fmt: skip
    if isinstance(shape, VectorShapeFunctions):
        fields["signs"] = wp.array2d[scalar]
        functions = vectors.discrete_functions(geometry, shape, is_whole)
    else:
        functions = {"value": value, "reference_gradient": _reference_gradient(geometry, dtype, bound, node_gradient)}
    name = f"{'Discrete' if is_whole else 'Partial'}_{shape.basis.value}{shape.degree}_{dtype}_{geometry.__name__}"
    made = make_kind(name, fields, functions, GEOMETRY=geometry, VALUE=dtype, SHAPE=shape, HINTS=_hints(shape),
                     __call__=operators.inner)  # fmt: skip
    functions |= _operators(made, _itself, of_cells(geometry), _no_dof) | _node_operators(made, of)
    if not shape.is_vector:
        functions["divergence"] = _divergence(made, bound, node_gradient)
    functions["div"] = functions["div_outer"] = _of_cell(
        functions["divergence"], _itself, of_cells(geometry), _no_dof, 0
    )
    if not is_whole:
        del functions["node_index"]  # the numbers of its nodes are not those of the space
    return made


def _reference_gradient(geometry: Any, dtype: Any, bound: Any, node_gradient: Any) -> Any:
    scalar, dimension = geometry.SCALAR, geometry.ELEMENT.dimension
    if isinstance(dtype, Mat):
        return None
    times, made = _outer_function(dtype, dimension, scalar)

    @wp.func
    def reference_gradient(f: Any, cell: int, x: Any, dof: wp.vec2i, which: int):
        found = made()
        for k in range(bound(f, cell)):
            value, slope = node_gradient(f, cell, x, dof, k)
            found += times(value, slope)
        return found

    return reference_gradient


def _divergence(kind: Any, bound: Any, node_gradient: Any) -> Any:
    """Make the divergence of vectors and matrices: the sum of derivatives of components, or rows, by coordinate."""
    geometry, dtype = kind.GEOMETRY, kind.VALUE
    scalar = geometry.SCALAR
    inverse, _ = metric_functions(geometry.DIMENSION, geometry.ELEMENT.dimension, scalar)
    jacobian = geometry.FUNCTIONS["jacobian"]
    if isinstance(dtype, Scalar):
        return None
    made = vector(dtype.shape[1], scalar) if isinstance(dtype, Mat) else scalar
    is_matrix = isinstance(dtype, Mat)

    @wp.func
    def divergence(f: Any, cell: int, x: Any, dof: wp.vec2i, which: int):
        across = wp.transpose(inverse(jacobian(f.geometry, cell, x)))
        found = made(scalar(0.0))
        for k in range(bound(f, cell)):
            value, slope = node_gradient(f, cell, x, dof, k)
            if wp.static(is_matrix):
                found += wp.transpose(value) * (across * slope)
            else:
                found += wp.dot(value, across * slope)
        return found

    return divergence


@functools.cache
def virtual_kind(geometry: Any, shape: ShapeFunctions, mapper: DofMapper, dof_name: str, is_cells: bool) -> Any:
    """The struct of test and trial functions of a space, on cells or on sides."""
    scalar, dtype = geometry.SCALAR, mapper.dtype
    of = node_functions(geometry, shape)
    weight, slope, width = of.weight, of.slope, of.width
    unit, to_value = unit_function(mapper.dof_dtype, scalar), mapper.function

    @wp.func
    def value(f: Any, cell: int, x: Any, dof: wp.vec2i, which: int):
        one = to_value(unit(dof[1]))
        if wp.static(is_cells):
            return one * weight(f, cell, x, dof[0])
        count = width(f)
        return one * wp.where(dof[0] // count == which, weight(f, cell, x, dof[0] % count), scalar(0.0))

    @wp.func
    def node_gradient(f: Any, cell: int, x: Any, dof: wp.vec2i, which: int):
        one = to_value(unit(dof[1]))
        if wp.static(is_cells):
            return one, slope(f, cell, x, dof[0])
        count = width(f)
        return one, slope(f, cell, x, dof[0] % count) * wp.where(dof[0] // count == which, scalar(1.0), scalar(0.0))

    times, _ = _outer_function(dtype, geometry.ELEMENT.dimension, scalar)

    @wp.func
    def reference_gradient(f: Any, cell: int, x: Any, dof: wp.vec2i, which: int):
        one, gradient = node_gradient(f, cell, x, dof, which)
        return times(one, gradient)

    fields = {"nodes": wp.array2d[int], "coefficients": of.coefficients, "geometry": geometry}
    if isinstance(shape, VectorShapeFunctions):
        fields["signs"] = wp.array2d[scalar]
        functions = vectors.virtual_functions(geometry, shape, is_cells)
    else:
        functions = {"value": value, "reference_gradient": None if isinstance(dtype, Mat) else reference_gradient}
    name = f"{dof_name.removesuffix('_dof').title()}_{shape.basis.value}{shape.degree}_{dtype}_{geometry.__name__}"
    made = make_kind(name, fields, functions, GEOMETRY=geometry, VALUE=dtype, SHAPE=shape, HINTS=_hints(shape),
                     __call__=operators.inner)  # fmt: skip
    places = of_cells(geometry) if is_cells else of_sides(geometry)
    dof_of = _test_dof if dof_name == TEST else _trial_dof
    functions |= _operators(made, _itself, places, dof_of)
    if not shape.is_vector:
        functions["divergence"] = _virtual_divergence(made, node_gradient)
    functions["div"] = _of_cell(functions["divergence"], _itself, places, dof_of, 0)
    functions["div_outer"] = _of_cell(functions["divergence"], _itself, places, dof_of, 1)
    if is_cells:
        functions |= _virtual_node_operators(made, dof_of, of)
    return made


def _virtual_divergence(kind: Any, node_gradient: Any) -> Any:
    geometry, is_matrix = kind.GEOMETRY, isinstance(kind.VALUE, Mat)
    if isinstance(kind.VALUE, Scalar):
        return None
    inverse, _ = metric_functions(geometry.DIMENSION, geometry.ELEMENT.dimension, geometry.SCALAR)
    jacobian = geometry.FUNCTIONS["jacobian"]

    @wp.func
    def divergence(f: Any, cell: int, x: Any, dof: wp.vec2i, which: int):
        value, slope = node_gradient(f, cell, x, dof, which)
        along = wp.transpose(inverse(jacobian(f.geometry, cell, x))) * slope
        if wp.static(is_matrix):
            return wp.transpose(value) * along
        return wp.dot(value, along)

    return divergence


@functools.cache
def trace_kind(field: Any) -> Any:
    """The struct of a field of cells on sides."""
    fields = {"field": field}
    functions: dict[str, Any] = {}
    made = make_kind(f"Trace_{field.__name__}", fields, functions, GEOMETRY=field.GEOMETRY, VALUE=field.VALUE,
                     SHAPE=field.SHAPE, HINTS=field.HINTS, __call__=operators.inner)  # fmt: skip
    places = of_sides(field.GEOMETRY)
    functions |= _operators(field, _traced, places, _no_dof)
    functions["div"] = _of_cell(field.FUNCTIONS["divergence"], _traced, places, _no_dof, 0)
    functions["div_outer"] = _of_cell(field.FUNCTIONS["divergence"], _traced, places, _no_dof, 1)
    functions["cells"] = _traced
    return made


@wp.func
def _itself(f: Any):
    return f


@wp.func
def _traced(f: Any):
    return f.field


@wp.func
def _no_dof(s: Any):
    return wp.vec2i()


@wp.func
def _test_dof(s: Any):
    return s.test_dof


@wp.func
def _trial_dof(s: Any):
    return s.trial_dof


def _of_cell(function: Any, field_of: Any, places: dict[str, Any], dof_of: Any, which: int) -> Any:
    """A function of a cell as an operator: on sides that of the inner or outer cell, which are one at the boundary."""
    if function is None:
        return None
    cell_of, x_of = places["cell"], places["x"]

    @wp.func
    def evaluated(f: Any, s: Any):
        field = field_of(f)
        cell = cell_of(field.geometry, s, which)
        x = x_of(field.geometry, s, which)
        owner = wp.where(cell == cell_of(field.geometry, s, 0), 0, which)
        return function(field, cell, x, dof_of(s), owner)

    return evaluated


def _operators(kind: Any, field_of: Any, places: dict[str, Any], dof_of: Any) -> dict[str, Any]:
    """Values and gradients, inner and outer."""
    functions = kind.FUNCTIONS
    found = {
        "degree": constant(kind.SHAPE.degree), "scalar_type": constant(kind.GEOMETRY.SCALAR),
        "inner": _of_cell(functions["value"], field_of, places, dof_of, 0),
        "outer": _of_cell(functions["value"], field_of, places, dof_of, 1),
        "cells": field_of,
    }  # fmt: skip
    if functions["reference_gradient"] is not None:
        gradient = _world_gradient(kind)
        found["grad"] = _of_cell(gradient, field_of, places, dof_of, 0)
        found["grad_outer"] = _of_cell(gradient, field_of, places, dof_of, 1)
    if "twist" in functions:
        found["curl"] = _of_cell(functions["twist"], field_of, places, dof_of, 0)
    return found


def _world_gradient(kind: Any) -> Any:
    geometry = kind.GEOMETRY
    reference = kind.FUNCTIONS["reference_gradient"]
    inverse, _ = metric_functions(geometry.DIMENSION, geometry.ELEMENT.dimension, geometry.SCALAR)
    jacobian = geometry.FUNCTIONS["jacobian"]
    if isinstance(kind.VALUE, Scalar):

        @wp.func
        def gradient(f: Any, cell: int, x: Any, dof: wp.vec2i, which: int):
            across = inverse(jacobian(f.geometry, cell, x))
            return wp.transpose(across) * reference(f, cell, x, dof, which)

        return gradient

    @wp.func
    def gradients(f: Any, cell: int, x: Any, dof: wp.vec2i, which: int):
        return reference(f, cell, x, dof, which) * inverse(jacobian(f.geometry, cell, x))

    return gradients


def _node_operators(kind: Any, of: NodeFunctions) -> dict[str, Any]:
    """Make the node operators of a field with values at nodes. They count nodes in the element."""
    geometry = kind.GEOMETRY
    local, coords = geometry.FUNCTIONS["local"], geometry.FUNCTIONS["coords"]
    inverse, _ = metric_functions(geometry.DIMENSION, geometry.ELEMENT.dimension, geometry.SCALAR)
    jacobian, sample = geometry.FUNCTIONS["jacobian"], sample_type(geometry.SCALAR)
    weight, slope, count, node_x = of.weight, of.slope, of.count, of.node_x

    @wp.func
    def node_count(f: Any, s: Any):
        return count(f, s.element_index)

    @wp.func
    def node_index(f: Any, s: Any, k: int):
        return f.nodes[s.element_index, k]

    @wp.func
    def at_node(f: Any, s: Any, k: int):
        return sample(s.element_index, coords(node_x(f, s.element_index, k)))

    @wp.func
    def node_inner_weight(f: Any, s: Any, k: int):
        return weight(f, s.element_index, local(s.element_coords), k)

    @wp.func
    def node_inner_weight_gradient(f: Any, s: Any, k: int):
        x = local(s.element_coords)
        return wp.transpose(inverse(jacobian(f.geometry, s.element_index, x))) * slope(f, s.element_index, x, k)

    found = {"node_count": node_count, "node_index": node_index, "at_node": at_node}
    weights = {"node_inner_weight": node_inner_weight, "node_inner_weight_gradient": node_inner_weight_gradient}
    return found if kind.SHAPE.is_vector else found | weights


def _virtual_node_operators(kind: Any, dof_of: Any, of: NodeFunctions) -> dict[str, Any]:
    """The same of test and trial functions, whose node is the sample's."""
    geometry = kind.GEOMETRY
    local, coords = geometry.FUNCTIONS["local"], geometry.FUNCTIONS["coords"]
    sample = sample_type(geometry.SCALAR)
    weight, count, node_x = of.weight, of.count, of.node_x

    @wp.func
    def node_count(f: Any, s: Any):
        return count(f, s.element_index)

    @wp.func
    def node_index(f: Any, s: Any):
        return f.nodes[s.element_index, dof_of(s)[0]]

    @wp.func
    def at_node(f: Any, s: Any):
        x = node_x(f, s.element_index, dof_of(s)[0])
        return sample(s.element_index, coords(x), s.qp_index, s.qp_weight, s.test_dof, s.trial_dof)

    @wp.func
    def node_inner_weight(f: Any, s: Any):
        return weight(f, s.element_index, local(s.element_coords), dof_of(s)[0])

    found = {"node_count": node_count, "node_index": node_index, "at_node": at_node}
    return found if kind.SHAPE.is_vector else found | {"node_inner_weight": node_inner_weight}


@functools.cache
def function_kind(geometry: Any, is_cells: bool, of: ImplicitFunctions, values: Any, degree: int) -> Any:
    """The struct of a field that is a function of the position, or of the index of the quadrature point."""
    places = of_cells(geometry) if is_cells else of_sides(geometry)
    position, by_index = places["position"], of.by_index

    def evaluated(function: Any) -> Any:
        @wp.func
        def at_sample(f: Any, s: Any):
            if wp.static(by_index):
                return function(s.qp_index, f.values)
            return function(position(f.geometry, s), f.values)

        return at_sample

    functions = {"degree": constant(degree), "scalar_type": constant(geometry.SCALAR)}
    for name, outer, function in (("inner", "outer", of.value), ("grad", "grad_outer", of.gradient),
                                  ("div", "div_outer", of.divergence)):  # fmt: skip
        if function is not None:
            functions[name] = functions[outer] = evaluated(function)
    if is_cells and of.gradient is not None and not by_index:
        functions |= _at_coordinates(geometry, of)
    fields = {"geometry": geometry, "values": values}
    name = f"Implicit_{'Cells' if is_cells else 'Sides'}_{geometry.__name__}"
    return make_kind(name, fields, functions, GEOMETRY=geometry, HINTS=_NEEDS_DERIVATIVES, __call__=operators.inner)


class ImplicitFunctions(NamedTuple):
    """The functions `(position or index, values)` of an implicit field."""

    value: Any
    gradient: Any
    divergence: Any
    by_index: bool


_NEEDS_DERIVATIVES = {
    "grad": "give its gradient: ImplicitField(domain, func, grad_func=...), or interpolate it into a field",
    "div": "give its divergence: ImplicitField(domain, func, div_func=...), or interpolate it into a field",
}


def _at_coordinates(geometry: Any, of: ImplicitFunctions) -> dict[str, Any]:
    """Make the functions of a cell and coordinates in it that deform a geometry."""
    place, jacobian, function, gradient = (
        geometry.FUNCTIONS["position"], geometry.FUNCTIONS["jacobian"], of.value, of.gradient
    )  # fmt: skip

    @wp.func
    def value(f: Any, cell: int, x: Any, dof: wp.vec2i, which: int):
        return function(place(f.geometry, cell, x), f.values)

    @wp.func
    def reference_gradient(f: Any, cell: int, x: Any, dof: wp.vec2i, which: int):
        return gradient(place(f.geometry, cell, x), f.values) * jacobian(f.geometry, cell, x)

    return {"value": value, "reference_gradient": reference_gradient}


@functools.cache
def uniform_kind(dtype: Any, dimension: int, scalar: Any) -> Any:
    """The struct of a field that is the same everywhere."""

    @wp.func
    def inner(f: Any, s: Any):
        return f.value

    functions = {"inner": inner, "outer": inner, "degree": constant(0), "scalar_type": constant(scalar)}
    if not isinstance(dtype, Mat):
        functions["grad"] = functions["grad_outer"] = _zero(_outer_function(dtype, dimension, scalar)[1])
    if not isinstance(dtype, Scalar):
        flux = vector(dtype.shape[1], scalar) if isinstance(dtype, Mat) else scalar
        functions["div"] = functions["div_outer"] = _zero(flux)
    return make_kind(f"Uniform{dimension}_{dtype}", {"value": dtype}, functions, __call__=operators.inner)


def _zero(dtype: Any) -> Any:
    @wp.func
    def zero(f: Any, s: Any):
        return dtype()

    return zero


def _lookup_at_samples(domain: Any, geometry: Any) -> Any:
    """Make the lookup in another geometry, where that has several environments in that of the sample."""
    in_environment = geometry.FUNCTIONS.get("environment_lookup")
    function, environment_of = geometry.FUNCTIONS.get("lookup"), domain.FUNCTIONS["environment_index"]

    @wp.func
    def lookup(domain: Any, geometry: Any, s: Any, point: Any):
        return function(geometry, point)

    @wp.func
    def lookup_beside(domain: Any, geometry: Any, s: Any, point: Any):
        return in_environment(geometry, point, environment_of(domain, s))

    return lookup_beside if function is None else lookup


# How far from a geometry positions are that still are in it.
_NEAR = 1e-3


@functools.cache
def nonconforming_kind(domain: Any, field: Any, background: Any) -> Any:
    """The struct of a field of another geometry, which is looked up at positions of the domain."""
    geometry = field.GEOMETRY
    position, scalar = domain.FUNCTIONS["position"], geometry.SCALAR
    lookup, place, local = _lookup_at_samples(domain, geometry), *(geometry.FUNCTIONS[n] for n in ("position", "local"))

    def looked_up(inside: Any, outside: Any) -> Any:
        @wp.func
        def evaluated(f: Any, s: Any):
            point = position(f.domain, s)
            found = lookup(f.domain, f.field.geometry, s, point)
            value = outside(f.background, s)
            if found.element_index >= 0:  # none of what is not finite
                at = place(f.field.geometry, found.element_index, local(found.element_coords))
                if wp.length(at - point) < scalar(_NEAR):
                    value = inside(f.field, found)
            return value

        return evaluated

    functions = {"degree": constant(field.SHAPE.degree), "scalar_type": constant(scalar)}
    for name in ("inner", "grad", "div"):
        if field.FUNCTIONS.get(name) is not None and background.FUNCTIONS.get(name) is not None:
            functions[name] = looked_up(field.FUNCTIONS[name], background.FUNCTIONS[name])
    functions["outer"] = functions["inner"]
    fields = {"domain": domain, "field": field, "background": background}
    return make_kind(f"Elsewhere_{field.__name__}", fields, functions, __call__=operators.inner)
