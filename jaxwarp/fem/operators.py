"""The operators that integrands call on fields and domains."""

# pyright: reportInvalidTypeForm=false, reportRedeclaration=false

from __future__ import annotations

from typing import Any

import jaxwarp as wp
from jaxwarp.fem.calls import integrand, operator
from jaxwarp.fem.types import Domain, Field, Sample

position = operator("position", "The position of a sample: `domain(s)`.")
normal = operator("normal", "The unit normal of a side, out of its inner cell; of a surface in space, its own.")
deformation_gradient = operator("deformation_gradient", "The derivatives of the position by an element's coordinates.")
lookup = operator("lookup", "The sample of a position, or of the closest point of the geometry.")
partition_lookup = operator(
    "partition_lookup", "The sample of a position in a part of a grid, or of the part's closest point nearby."
)
element_partition_index = operator("element_partition_index", "The place of a cell in the domain's part, or -1.")
measure = operator("measure", "How much area, volume or length an element's unit has at a sample.")
measure_ratio = operator("measure_ratio", "The largest ratio of a side's measure to that of its cells; 1 in cells.")
element_index = operator("element_index", "The number in the geometry of a domain's element.")
environment_index = operator("environment_index", "The environment of a sample: 0 where a geometry has one.")
cells = operator("cells", "Of a domain of sides, or a trace: the cells, the field.")
inner = operator("inner", "The value of a field at a sample, on sides that in the inner cell: `u(s)`.")
outer = operator("outer", "The value in the outer cell of a side; elsewhere that of `inner`.")
grad = operator("grad", "The gradient by position, on sides in the inner cell.")
grad_outer = operator("grad_outer", "The gradient in the outer cell.")
div = operator("div", "The divergence, on sides in the inner cell.")
div_outer = operator("div_outer", "The divergence in the outer cell.")
degree = operator("degree", "The degree of a field's polynomials.")
node_count = operator("node_count", "How many nodes a field has in an element.")
node_index = operator("node_index", "The number of a field's node in its space, by its number in the element.")
at_node = operator("at_node", "The sample at a node of a field.")
node_inner_weight = operator("node_inner_weight", "The shape function of a node at a sample.")
node_inner_weight_gradient = operator("node_inner_weight_gradient", "The gradient of a node's shape function.")
scalar_type = operator("scalar_type", "float32 or float64, as the geometry is.")
_inner_cell = operator("inner_cell", "")
_outer_cell = operator("outer_cell", "")
_gradient_for_curl = operator("curl", "", instead="grad")


@wp.func
def _symmetric_part(m: Any):
    return (m + wp.transpose(m)) * m.dtype(0.5)


@wp.func
def _skew_part(m: wp.types.matrix(shape=(2, 2), dtype=Any)):
    return (m[1, 0] - m[0, 1]) * m.dtype(0.5)


@wp.func
def _skew_part(m: wp.types.matrix(shape=(3, 3), dtype=Any)):
    half = m.dtype(0.5)
    axis = type(m[0])(m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1])
    return axis * half


@integrand
def D(f: Field, s: Sample):
    """The symmetric part of the gradient."""
    return _symmetric_part(grad(f, s))


@integrand
def curl(f: Field, s: Sample):
    """The skew part c of the gradient: cross(c, v) is its product with v; in the plane a number."""
    return _skew_part(_gradient_for_curl(f, s))


@integrand
def jump(f: Field, s: Sample):
    """Return the value in the inner cell minus that in the outer cell."""
    return inner(f, s) - outer(f, s)


@integrand
def average(f: Field, s: Sample):
    """The mean of the values in the inner and the outer cell."""
    return s.element_coords.dtype(0.5) * (inner(f, s) + outer(f, s))


@integrand
def grad_jump(f: Field, s: Sample):
    """Return the gradient in the inner cell minus that in the outer cell."""
    return grad(f, s) - grad_outer(f, s)


@integrand
def grad_average(f: Field, s: Sample):
    """The mean of the gradients in the inner and the outer cell."""
    return s.element_coords.dtype(0.5) * (grad(f, s) + grad_outer(f, s))


@integrand
def to_inner_cell(domain: Domain, s: Sample):
    """The sample in the inner cell of a side."""
    return _inner_cell(domain, s)


@integrand
def to_outer_cell(domain: Domain, s: Sample):
    """The sample in the outer cell of a side."""
    return _outer_cell(domain, s)
