"""`interpolate`: values of an integrand at nodes, at the points of a quadrature, or at any samples."""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.fem import operators
from jaxwarp.fem.calls import Integrand, applied, integrand
from jaxwarp.fem.domain import Cells, GeometryDomain
from jaxwarp.fem.field.fields import DiscreteField, FieldLike, FieldRestriction, make_test
from jaxwarp.fem.field.nodes import node_functions
from jaxwarp.fem.field.vectors import dual_kind, flux_function
from jaxwarp.fem.integration.faces import evaluated, is_of_jax, needs_gradient, overlaps
from jaxwarp.fem.integration.integrate import BoundIntegrand, make_form
from jaxwarp.fem.integration.kernels import point_count, quadrature_sample, sample_at
from jaxwarp.fem.integration.options import BlockOptions, block_options
from jaxwarp.fem.quadrature import Quadrature, RegularQuadrature
from jaxwarp.fem.space.parts import SpacePartition, SpaceRestriction, partition_of
from jaxwarp.fem.space.points import PointFunctions
from jaxwarp.fem.space.spaces import FunctionSpace
from jaxwarp.fem.space.vectors import VectorShapeFunctions
from jaxwarp.fem.types import ElementKind, Field, Sample, matrix, vector
from jaxwarp.sparse import BsrMatrix, bsr_set_from_triplets

measure = operators.measure
REDUCTIONS = ("weighted_average", "mean", "sum", "first")


@integrand
def _value_of(s: Sample, field: Field):
    return field(s)


@boundary
def interpolate(
    integrand: Any,
    dest: Any = None,
    at: Any = None,
    dest_space: Any = None,
    dim: int | None = None,
    fields: Mapping[str, Any] | None = None,
    values: Mapping[str, Any] | None = None,
    reduction: str = "weighted_average",
    device: Any = None,
    kernel_options: Any = None,
    temporary_store: Any = None,
    bsr_options: Any = None,
) -> Any:
    """Evaluate an integrand, or a field, at samples.

    Args:
        integrand: a function made by `@fem.integrand`, or a field.
        dest: a field, which gets the values at its nodes; the restriction of one to a domain; an array; a `BsrMatrix`,
            which gets the values of a trial function at the nodes of `dest_space`; or None.
        at: a domain, a quadrature, or a restriction. A domain with `dim`: at that many samples, which the integrand
            finds by itself; without: at the nodes of the field, or at the middle of each element.
        dest_space: the space whose values at nodes an array gets.
        dim: how many samples.
        fields, values: the integrand's arguments by their names.
        reduction: what becomes of values at nodes that several elements share: "weighted_average" by measure, "mean",
            "sum", "first".
        bsr_options: of a `BsrMatrix`, as of `integrate`.
        device, kernel_options, temporary_store: accepted, no effect.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit.
    """
    del device, kernel_options, temporary_store
    what = "interpolate"
    options = block_options(what, bsr_options, isinstance(dest, BsrMatrix))
    if isinstance(integrand, FieldLike):
        integrand, fields, values = _value_of, {"field": integrand}, {}
    if reduction not in REDUCTIONS:
        raise KernelValueError(f"{what}: reduction: expected one of {', '.join(REDUCTIONS)}, got {reduction!r}")
    if not (dest is None or isinstance(dest, (DiscreteField, FieldRestriction, HostArray, BsrMatrix))):
        raise KernelTypeError(
            f"{what}: dest: expected a field, a restriction of one, an array outside of JAX, a BsrMatrix, or None, got"
            f" {type_text(dest)}"
        )
    domain = _domain(at, dest, fields, dest_space)
    form = make_form(what, integrand, domain, fields, values)
    if isinstance(dest, BsrMatrix):
        return _to_matrix(form, dest_space, at, dest, reduction, options)
    _require_fitting(form, dest, at, dest_space)
    if form.test is not None or form.trial is not None:
        raise KernelValueError(f"{what}: fields: test and trial functions have no values", hint="pass discrete fields")
    restricted = dest.field if isinstance(dest, FieldRestriction) else dest
    if isinstance(restricted, DiscreteField):
        restricted.dof_values = _to_nodes(
            form, restricted.space, restricted.space_partition, restricted.dof_values, reduction
        )
    elif dest_space is not None:
        return _to_nodes(form, dest_space, SpacePartition(dest_space.topology), dest, reduction)
    elif is_of_jax(list(form.arguments)):
        raise KernelValueError(
            f"{what}: with values of JAX, results are fields' values at nodes",
            hint="pass dest=space.make_field(), or dest_space=",
        )
    elif isinstance(at, Quadrature):
        _at_points(form, at, dest)
    elif dim is None:
        _at_points(form, RegularQuadrature(form.domain, order=0), dest)
    else:
        _anywhere(form, dim, dest)
    return dest


def _require_fitting(form: BoundIntegrand, dest: Any, at: Any, dest_space: Any) -> None:
    """Check that the values to write and the places to write to fit each other.

    Raises:
        KernelTypeError, KernelValueError: they do not.
    """
    what = form.what
    if not (at is None or isinstance(at, (GeometryDomain, Quadrature, SpaceRestriction))):
        raise KernelTypeError(f"{what}: at: expected a domain, a quadrature or a restriction, got {type_text(at)}")
    is_field = isinstance(dest, (DiscreteField, FieldRestriction))
    space = dest.space if is_field else dest_space
    if isinstance(dest, FieldRestriction) and not form.domain.same_elements(dest.domain):
        raise KernelValueError(
            f"{what}: at: expected the domain of the restriction that is written, or None", hint="leave it out"
        )
    if space is None:
        if isinstance(at, SpaceRestriction):
            raise KernelValueError(f"{what}: at: a restriction has nodes of a space", hint="pass its dest_space=")
        return
    if not isinstance(space, FunctionSpace):
        raise KernelTypeError(f"{what}: dest_space: expected a function space, got {type_text(space)}")
    if isinstance(at, Quadrature):
        raise KernelValueError(
            f"{what}: at: values at nodes are not those at the points of a quadrature", hint="pass its domain"
        )
    if space.geometry is not form.domain.geometry:
        raise KernelValueError(
            f"{what}: at: expected a domain of the geometry whose nodes get values",
            hint="interpolate fem.NonconformingField(domain, field)",
        )
    if dest is not None and not is_field:
        count = space.node_count()
        if dest.dtype != space.dof_dtype or dest.ndim != 1 or dest.shape[0] < count:
            raise KernelValueError(
                f"{what}: dest: expected {count} values of {space.dof_dtype}, got {dest.dtype} of shape {dest.shape}"
            )


def _domain(at: Any, dest: Any, fields: Any, dest_space: Any) -> Any:
    if isinstance(at, (Quadrature, SpaceRestriction)):
        return at.domain
    if isinstance(at, GeometryDomain):
        return at
    if isinstance(dest, FieldRestriction):
        return dest.domain
    space = dest.space if isinstance(dest, DiscreteField) else dest_space
    if space is not None:
        return Cells(space.geometry)
    del fields
    return None


def _to_nodes(form: BoundIntegrand, space: Any, partition: SpacePartition, values: Any, reduction: str) -> Any:
    topology, domain = space.topology, form.domain
    if topology.is_discontinuous and domain.has_outer_cells:
        raise KernelValueError(
            f"{form.what}: a discontinuous space has nodes for each of the cells at a side",
            hint="interpolate at BoundarySides, at cells, or to a continuous space",
        )
    where, _, is_used = topology.nodal_arrays(domain)
    nodes = partition.numbered(topology.element_nodes(domain)[:, : is_used.shape[1]])
    if domain.element_kind is ElementKind.SIDE:
        nodes = nodes.copy()
        nodes[~is_used] = -1
    scalar = domain.geometry.scalar_type
    arguments = form.arguments
    device = form.device
    table = domain.geometry.integers(nodes)
    if reduction == "first":
        owner = _first_elements(nodes)
        table = domain.geometry.integers(owner)
        reduction = "sum"
    to_dof, dual = _dual(space, domain)
    kernel = _node_kernel(form.integrand, space.dof_dtype, to_dof, scalar, reduction)
    count = partition.node_count()
    is_value = isinstance(values, jax.Array)  # then all is of JAX, in a program that it traces, too
    inputs = [*arguments, dual, where, int(where.shape[0] != 1), table.to_jax() if is_value else table]
    sums, total = evaluated(kernel, nodes.shape, inputs, [(count, space.dof_dtype), (count, scalar)], device)
    if values is None:
        values = wp.zeros(count, dtype=space.dof_dtype, device=device, requires_grad=needs_gradient(inputs))
    given = [sums, total, reduction == "sum"]
    if isinstance(sums, HostArray) and isinstance(values, HostArray):
        wp.launch(_divide, count, [*given, None], [values], device=device)
        return values
    old = values if is_value else values.to_jax()
    return evaluated(_divide, count, [*given, old], [(count, space.dof_dtype)], device)[0]


def _to_matrix(
    form: BoundIntegrand, space: Any, at: Any, output: BsrMatrix, reduction: str, options: BlockOptions
) -> BsrMatrix:
    """Each row has a node's values, one for each node of the trial function."""
    what, trial, domain = form.what, form.trial, form.domain
    if not isinstance(space, FunctionSpace) or space.geometry is not domain.geometry:
        raise KernelTypeError(
            f"{what}: dest_space: expected a function space of the domain's geometry, as dest is a matrix, got"
            f" {type_text(space)}"
        )
    if trial is None or form.test is not None:
        raise KernelValueError(f"{what}: fields: expected a trial function and no test function, as dest is a matrix")
    if domain.element_kind is ElementKind.SIDE or isinstance(at, Quadrature):
        raise KernelValueError(f"{what}: at: expected cells, or a restriction to cells, as dest is a matrix")
    if reduction == "weighted_average":
        raise KernelValueError(
            f"{what}: reduction: expected first, mean or sum, as dest is a matrix, got {reduction}",
            hint="all are the same for continuous functions but sum",
        )
    if is_of_jax(list(form.arguments)):
        raise KernelValueError(f"{what}: dest: values of JAX cannot be written to a matrix")
    restricted = at.space_partition if isinstance(at, SpaceRestriction) else None
    partition = partition_of(f"{what}: at", space, restricted)
    topology, geometry, scalar = space.topology, domain.geometry, domain.geometry.scalar_type
    points, _, _ = topology.nodal_arrays(domain)
    nodes = partition.numbered(topology.element_nodes(domain))
    if reduction == "first":
        nodes = _first_elements(nodes)
    factors = np.ones(partition.node_count())
    if reduction == "mean":
        factors /= np.maximum(np.bincount(nodes[nodes >= 0], minlength=len(factors)), 1)
    columns = trial.space_restriction.element_nodes()
    extents = partition.node_count(), trial.space_partition.node_count()
    block_shape = space.VALUE_DOF_COUNT, trial.space.VALUE_DOF_COUNT
    if (output.nrow, output.ncol) != extents or output.block_shape != block_shape:
        raise KernelValueError(
            f"{what}: dest: expected {extents} blocks of {block_shape}, got {(output.nrow, output.ncol)} of"
            f" {output.block_shape}"
        )
    block = output.scalar_type if block_shape == (1, 1) else matrix(*block_shape, output.scalar_type)
    e, k, m = np.nonzero((nodes >= 0)[:, :, None] & (columns >= 0)[:, None, :])
    rows = nodes[e, k]
    blocks = wp.zeros(len(e), dtype=block, device=form.device)
    to_dof, dual = _dual(space, domain)
    kernel = _matrix_kernel(form.integrand, to_dof, block, *block_shape, scalar)
    inputs = [*form.arguments, dual, points, int(points.shape[0] != 1), *(geometry.integers(a) for a in (e, k, m)),
              wp.array(factors[rows], dtype=output.scalar_type, device=form.device)]  # fmt: skip
    wp.launch(kernel, len(e), inputs, [blocks], device=form.device)
    bsr_set_from_triplets(output, geometry.integers(rows), geometry.integers(columns[e, m]), blocks,
                          prune_numerical_zeros=options.prunes, topology=options.topology)  # fmt: skip
    return output


@functools.cache
def _matrix_kernel(integrand: Integrand, to_dof: Any, block: Any, rows: int, columns: int, scalar: Any) -> Any:
    evaluate = applied(integrand)
    is_number = (rows, columns) == (1, 1)

    @wp.kernel
    def trial_at_nodes(
        domain: Any, fields: Any, values: Any, dual: Any, points: wp.array2d[vector(3, scalar)], stride: int,
        elements: wp.array[int], nodes: wp.array[int], trials: wp.array[int], factors: wp.array[Any],
        blocks: wp.array[block],
    ):  # fmt: skip
        i = wp.tid()
        e, k = elements[i], nodes[i]
        none = wp.vec2i(-1, -1)
        found = block()
        for d in range(columns):
            trial = wp.vec2i(trials[i], d)
            s = sample_at(domain.index.elements[e], points[e * stride, k], -1, scalar(0.0), none, trial)
            dof = to_dof(dual, domain, s, k, evaluate(s, domain, fields, values))
            if wp.static(is_number):
                found = block(dof) * factors[i]
            elif wp.static(rows == 1):
                found[0, d] = found.dtype(dof) * factors[i]
            else:
                for c in range(rows):
                    found[c, d] = found.dtype(dof[c]) * factors[i]
        blocks[i] = found

    return trial_at_nodes


def _dual(space: FunctionSpace, domain: GeometryDomain) -> tuple[Any, Any]:
    """The function `(dual, domain, s, k, value)` that gives what is stored at the node k of a cell, and `dual`."""
    shape, geometry = space.shape, space.geometry
    if isinstance(shape, PointFunctions):
        return _scaled(space.mapper.inverse, type(geometry.arguments), shape), make_test(space).arguments
    if not isinstance(shape, VectorShapeFunctions):
        return _stored(space.mapper.inverse), _Nothing(0)
    is_cells = domain.element_kind is ElementKind.CELL
    axes = wp.array(shape.axes, dtype=vector(geometry.cell_dimension, geometry.scalar_type), device=geometry.device)
    kind = dual_kind(geometry.cell_dimension, geometry.scalar_type)
    return flux_function(type(geometry.arguments), shape, is_cells), kind(axes=axes, **space.topology.orientation)


@wp.struct
class _Nothing:
    nothing: int


@functools.cache
def _stored(inverse: Any) -> Any:
    @wp.func
    def to_dof(dual: Any, domain: Any, s: Any, k: int, value: Any):
        return inverse(value)

    return to_dof


@functools.cache
def _scaled(inverse: Any, geometry: Any, shape: PointFunctions) -> Any:
    """A node's function need not be one at its point. `dual` is the struct of test functions, on cells."""
    weight, local = node_functions(geometry, shape).weight, geometry.FUNCTIONS["local"]

    @wp.func
    def to_dof(dual: Any, domain: Any, s: Any, k: int, value: Any):
        return inverse(value) / weight(dual, s.element_index, local(s.element_coords), k)

    return to_dof


def _first_elements(nodes: Any) -> Any:
    """The table with each node in its first element only."""
    found = np.full(nodes.shape, -1, np.int32)
    numbers, first = np.unique(nodes.reshape(-1), return_index=True)
    found.reshape(-1)[first] = numbers
    return found


@functools.cache
def _node_kernel(integrand: Integrand, dof_dtype: Any, to_dof: Any, scalar: Any, reduction: str) -> Any:
    evaluate = applied(integrand)

    @wp.kernel
    def at_nodes(domain: Any, fields: Any, values: Any, dual: Any, points: wp.array2d[vector(3, scalar)],
                 stride: int, nodes: wp.array2d[int], sums: wp.array[dof_dtype], total: wp.array[scalar]):  # fmt: skip
        e, k = wp.tid()
        node = nodes[e, k]
        if node >= 0:
            none = wp.vec2i(-1, -1)
            s = sample_at(domain.index.elements[e], points[e * stride, k], -1, scalar(0.0), none, none)
            weight = scalar(1.0)
            if wp.static(reduction == "weighted_average"):
                weight = measure(domain, s)
            dof = to_dof(dual, domain, s, k, evaluate(s, domain, fields, values))
            wp.atomic_add(sums, node, dof * weight)
            wp.atomic_add(total, node, weight)

    return at_nodes


@wp.kernel
def _divide(sums: wp.array[Any], total: wp.array[Any], is_sum: bool, old: wp.array[Any], values: wp.array[Any]):
    """Nodes that no element has keep their values: those that are there, or old ones."""
    node = wp.tid()
    weight = total[node]
    if weight != total.dtype(0.0):  # NaN is one
        values[node] = sums[node] / wp.where(is_sum, total.dtype(1.0), weight)
    elif old:
        values[node] = old[node]


def _at_points(form: BoundIntegrand, quadrature: Quadrature, dest: Any) -> None:
    count = quadrature.total_point_count()
    if dest is not None and dest.shape[0] < count:
        raise KernelValueError(f"{form.what}: dest: expected room for {count} points, got {dest.shape[0]}")
    if dest is not None and quadrature.has_repeated_points:
        raise KernelValueError(
            f"{form.what}: dest: points that are in several elements have a value in each",
            hint="let the integrand write what it finds, by s.qp_index",
        )
    kernel = _point_kernel(form.integrand, None if dest is None else dest.dtype)
    shape = form.domain.element_count(), quadrature.max_points_per_element()
    _write(form, kernel, shape, [*form.arguments, quadrature.arguments], dest, count)


def _write(form: BoundIntegrand, kernel: Any, shape: Any, inputs: list[Any], dest: Any, count: int) -> None:
    """Launches a kernel that writes to the first `count` elements of an array, which may be one that it reads."""
    if dest is None:
        wp.launch(kernel, shape, inputs, [], device=form.device)
        return
    is_apart = not overlaps(dest, inputs)
    made = dest if is_apart else wp.zeros(count, dtype=dest.dtype, device=form.device, requires_grad=dest.requires_grad)
    wp.launch(kernel, shape, inputs, [made], device=form.device)
    if not is_apart:
        wp.copy(dest, made, count=count)


@functools.cache
def _point_kernel(integrand: Integrand, dtype: Any) -> Any:
    evaluate = applied(integrand)
    if dtype is None:

        @wp.kernel
        def run(domain: Any, fields: Any, values: Any, points: Any):
            e, q = wp.tid()
            if q < point_count(points, domain.index.elements[e]):
                s = quadrature_sample(domain, points, e, q, wp.vec2i(-1, -1), wp.vec2i(-1, -1))
                evaluate(s, domain, fields, values)

        return run

    @wp.kernel
    def at_points(domain: Any, fields: Any, values: Any, points: Any, out: wp.array[dtype]):
        e, q = wp.tid()
        if q < point_count(points, domain.index.elements[e]):
            s = quadrature_sample(domain, points, e, q, wp.vec2i(-1, -1), wp.vec2i(-1, -1))
            out[s.qp_index] = dtype(evaluate(s, domain, fields, values))

    return at_points


def _anywhere(form: BoundIntegrand, dim: int, dest: Any) -> None:
    if dest is not None and dest.shape[0] < dim:
        raise KernelValueError(f"{form.what}: dest: expected room for {dim} samples, got {dest.shape[0]}")
    scalar = form.domain.geometry.scalar_type
    kernel = _free_kernel(form.integrand, None if dest is None else dest.dtype, vector(3, scalar), scalar)
    _write(form, kernel, dim, list(form.arguments), dest, dim)


@functools.cache
def _free_kernel(integrand: Integrand, dtype: Any, coords: Any, scalar: Any) -> Any:
    evaluate = applied(integrand)
    if dtype is None:

        @wp.kernel
        def run_anywhere(domain: Any, fields: Any, values: Any):
            none = wp.vec2i(-1, -1)
            evaluate(sample_at(-1, coords(), wp.tid(), scalar(0.0), none, none), domain, fields, values)

        return run_anywhere

    @wp.kernel
    def anywhere(domain: Any, fields: Any, values: Any, out: wp.array[dtype]):
        i = wp.tid()
        none = wp.vec2i(-1, -1)
        out[i] = dtype(evaluate(sample_at(-1, coords(), i, scalar(0.0), none, none), domain, fields, values))

    return anywhere
