"""`integrate`: functionals, linear forms and bilinear forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import jaxwarp as wp
from jaxwarp import compat
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.fem.calls import Integrand
from jaxwarp.fem.domain import GeometryDomain
from jaxwarp.fem.field.fields import FieldLike, TestField, TrialField, require_on
from jaxwarp.fem.integration.faces import as_jax, evaluated, is_of_jax, overlaps
from jaxwarp.fem.integration.kernels import add_kernel, bilinear_kernel, functional_kernel, linear_kernel
from jaxwarp.fem.integration.options import BlockOptions, block_options
from jaxwarp.fem.quadrature import Quadrature, RegularQuadrature, quadrature_kind
from jaxwarp.fem.types import matrix
from jaxwarp.fem.values import struct_of_structs, struct_of_values
from jaxwarp.memory.current import scope_now
from jaxwarp.memory.host_scope import HOST
from jaxwarp.sparse import BsrMatrix, bsr_axpy, bsr_from_triplets, bsr_set_from_triplets
from jaxwarp.types import Scalar, as_dtype, element_scalar, element_shape

ASSEMBLIES = (None, "generic", "dispatch", "nodal")


@dataclass(frozen=True)
class BoundIntegrand:
    """An integrand with what it is given.

    Attributes:
        is_traced: whether JAX traces the call: then the result is a JAX value, whatever is given.
    """

    what: str
    integrand: Integrand
    domain: GeometryDomain
    fields: Mapping[str, Any]
    values: Mapping[str, Any]
    test: TestField | None = None
    trial: TrialField | None = None
    is_traced: bool = False

    @property
    def arguments(self) -> tuple[Any, Any, Any]:
        """The domain, fields and values as structs."""
        fields = struct_of_structs("Fields", {name: f.arguments for name, f in self.fields.items()})
        domain = as_jax(self.domain.arguments) if self.is_traced else self.domain.arguments
        return domain, fields, struct_of_values(self.what, self.integrand.types, self.values)

    @property
    def device(self) -> Any:
        return self.domain.geometry.device


def make_form(what: str, integrand: Any, domain: Any, fields: Any, values: Any) -> BoundIntegrand:
    """Checks an integrand's arguments.

    Raises:
        KernelTypeError, KernelValueError: some are missing, or none of the integrand's, or not what they should be.
    """
    for name, given in (("fields", fields), ("values", values)):
        if given is not None and not isinstance(given, Mapping):
            raise KernelTypeError(
                f"{what}: {name}: expected a dictionary, got {type_text(given)}",
                hint=f"write {name}={{name: ...}}, with the names of the integrand's arguments",
            )
    fields, values = dict(fields or {}), dict(values or {})
    if not isinstance(integrand, Integrand):
        raise KernelTypeError(
            f"{what}: integrand: expected a function made by @fem.integrand, got {type_text(integrand)}"
        )
    _require_names(what, integrand, "field", fields)
    _require_names(what, integrand, "value", values)
    for name, field in fields.items():
        if not isinstance(field, FieldLike):
            raise KernelTypeError(
                f"{what}: fields: {name}: expected a field, got {type_text(field)}",
                hint="make one: space.make_field(), fem.make_test(space)",
            )
    tests = [f for f in fields.values() if isinstance(f, TestField)]
    trials = [f for f in fields.values() if isinstance(f, TrialField)]
    for kind, found in (("test", tests), ("trial", trials)):
        if len(found) > 1:
            raise KernelValueError(f"{what}: fields: expected at most one {kind} function, got {len(found)}")
    test, trial = tests[0] if tests else None, trials[0] if trials else None
    chosen = domain if domain is not None else next((f.domain for f in (test, trial) if f is not None), None)
    if not isinstance(chosen, GeometryDomain):
        raise KernelTypeError(
            f"{what}: domain: expected a domain, got {type_text(chosen)}",
            hint="pass domain=, quadrature=, or a test function",
        )
    for field in (test, trial):
        if field is not None and not field.domain.same_elements(chosen):
            raise KernelValueError(
                f"{what}: fields: expected test and trial functions of the domain that is integrated"
            )
    for name, field in fields.items():
        require_on(f"{what}: fields: {name}", field, chosen)
    return BoundIntegrand(what, integrand, chosen, fields, values, test, trial)


def _require_names(what: str, integrand: Integrand, role: str, given: Mapping[str, Any]) -> None:
    known = [name for name, r in integrand.roles.items() if r == role]
    optional = integrand.defaults
    wrong = [name for name in given if name not in known]
    missing = [name for name in known if name not in given and name not in optional]
    if role == "field" and any(integrand.roles.get(name) == "value" for name in wrong):
        name = next(name for name in wrong if integrand.roles.get(name) == "value")
        raise KernelValueError(
            f"{what}: fields: argument {name} of {integrand.name} is not annotated as a field",
            hint=f"write {name}: fem.Field, or pass it in values=",
        )
    if wrong or missing:
        raise KernelValueError(
            f"{what}: {role}s: {integrand.name} takes {', '.join(known) or 'none'}, got {', '.join(given) or 'none'}",
            hint="pass each by the name of the integrand's argument",
        )


@boundary
def integrate(
    integrand: Any,
    domain: Any = None,
    quadrature: Any = None,
    fields: Mapping[str, Any] | None = None,
    values: Mapping[str, Any] | None = None,
    accumulate_dtype: Any = wp.float64,
    output_dtype: Any = None,
    output: Any = None,
    device: Any = None,
    temporary_store: Any = None,
    kernel_options: Any = None,
    assembly: str | None = None,
    add: bool = False,
    bsr_options: Any = None,
) -> Any:
    """Integrate a function over a domain.

    The result is a number; with a test function it is an array with a value for each node; with a test and a trial
    function it is a `BsrMatrix`. If a field, a value or the geometry holds JAX arrays, or if JAX traces the call, it is
    a JAX value.

    Args:
        integrand: a function made by `@fem.integrand`.
        domain: where to integrate. None: on the domain of the quadrature or of the test function.
        quadrature: the points. None: a Gauss formula, exact for polynomials whose degree is the sum of the fields'
            degrees.
        fields, values: the integrand's arguments by their names.
        accumulate_dtype: the type of sums in an element.
        output_dtype: the type of the result's numbers; None: the geometry's.
        output: an array or matrix for the result.
        assembly: "nodal": the nodes of the test functions are the points, and each function is used at its own node
            only.
        add: whether the result is added to what the output holds.
        bsr_options: of a matrix. "prune_numerical_zeros": False keeps blocks of zeros; "topology": of a matrix that is
            passed as `output`. Both as in `sparse.bsr_set_from_triplets`. "capacity" and "construction" change no
            result, except that "mapped" and "mapped_atomic" keep blocks of zeros.
        device, temporary_store, kernel_options: accepted, no effect.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit.
    """
    del device, temporary_store, kernel_options
    what = "integrate"
    options = block_options(what, bsr_options, output is not None)
    if quadrature is not None and domain is None:
        domain = quadrature.domain
    form = make_form(what, integrand, domain, fields, values)
    if output is None and compat.is_tracing() and scope_now() is HOST:
        form = replace(form, is_traced=True)
    if assembly not in ASSEMBLIES:
        raise KernelValueError(f"{what}: assembly: expected 'nodal', 'generic', 'dispatch' or None, got {assembly!r}")
    if add and output is None:
        raise KernelValueError(f"{what}: add: there is no output to add to", hint="pass output=")
    if form.trial is not None and form.test is None:
        raise KernelValueError(
            f"{what}: fields: a trial function needs a test function", hint="add fem.make_test(space)"
        )
    if output is not None and is_of_jax(list(form.arguments)):
        raise KernelValueError(
            f"{what}: output: values of JAX do not change", hint="leave it out: the result is returned"
        )
    accumulate = as_dtype(accumulate_dtype)
    if assembly == "nodal":
        return _nodal(form, quadrature, accumulate, output_dtype, output, add, options)
    if quadrature is None:
        quadrature = RegularQuadrature(form.domain, order=sum(f.degree for f in form.fields.values()))
    elif not isinstance(quadrature, Quadrature) or not quadrature.domain.same_elements(form.domain):
        raise KernelValueError(f"{what}: quadrature: expected one of the domain that is integrated")
    if form.test is None:
        return _functional(form, quadrature, accumulate, output_dtype, output, add)
    points = quadrature.arguments
    nodes = form.test.space_restriction.element_nodes()
    if form.trial is None:
        return _linear(form, points, nodes, accumulate, output_dtype, output, add, False)
    columns = form.trial.space_restriction.element_nodes()
    return _bilinear(form, points, (nodes, columns), accumulate, output_dtype, output, add, False, options)


def _nodal(form: BoundIntegrand, quadrature: Any, accumulate: Any, output_dtype: Any, output: Any, add: bool,
           options: BlockOptions) -> Any:  # fmt: skip
    test, trial, domain = form.test, form.trial, form.domain
    if test is None or quadrature is not None:
        raise KernelValueError(
            f"{form.what}: assembly: 'nodal' needs a test function, whose nodes are the quadrature",
            hint="leave assembly out, or pass quadrature=fem.NodalQuadrature(domain, space)",
        )
    if trial is not None and trial.space.topology is not test.space.topology and not _same_nodes(trial, test):
        raise KernelValueError(f"{form.what}: assembly: 'nodal' needs test and trial functions with the same nodes")
    topology = test.space.topology
    if domain.has_outer_cells:
        raise KernelValueError(
            f"{form.what}: assembly: 'nodal' is not available between cells",
            hint="integrate over BoundarySides, or leave assembly out",
        )
    points, weights, is_used = topology.nodal_arrays(domain)
    scalar = domain.geometry.scalar_type
    kind = quadrature_kind(scalar)
    rule = kind(points=points, weights=weights, stride=int(points.shape[0] != 1))
    nodes, columns = (
        np.where(is_used, f.space_restriction.element_nodes()[:, : is_used.shape[1]], -1) for f in (test, trial or test)
    )
    if trial is None:
        return _linear(form, rule, nodes, accumulate, output_dtype, output, add, True)
    return _bilinear(form, rule, (nodes, columns), accumulate, output_dtype, output, add, True, options)


def _same_nodes(a: Any, b: Any) -> bool:
    return a.geometry is b.geometry and np.array_equal(a.space.topology.table, b.space.topology.table)


def _functional(
    form: BoundIntegrand, quadrature: Quadrature, accumulate: Any, output_dtype: Any, output: Any, add: bool
) -> Any:
    shape = form.domain.element_count(), quadrature.max_points_per_element()
    domain, fields, values = form.arguments
    inputs = [domain, quadrature.arguments, fields, values]
    dtype = as_dtype(output_dtype or form.domain.geometry.scalar_type)
    if is_of_jax(inputs):
        return evaluated(functional_kernel(form.integrand, dtype), shape, inputs, [(1, dtype)], form.device)[0][0]
    if output is not None:
        dtype = _require_output(form, output, None, 1).dtype
    _require_floats(form, "output_dtype", dtype)
    sums = accumulate if isinstance(dtype, Scalar) else dtype.with_dtype(accumulate)
    (total,) = evaluated(functional_kernel(form.integrand, sums), shape, inputs, [(1, sums)], form.device)
    if output is None:
        return dtype(total.numpy()[0]) if isinstance(dtype, Scalar) else total.numpy()[0].astype(dtype.dtype.numpy)
    if not add:
        output.zero_()
    wp.launch(add_kernel(dtype), 1, [total], [output], device=form.device)
    return output


def _require_output(form: BoundIntegrand, output: Any, dtype: Any, count: int) -> Any:
    """An array of floats that has room for a result."""
    if not isinstance(output, HostArray) or output.ndim != 1:
        raise KernelTypeError(
            f"{form.what}: output: expected an array of one axis outside of JAX, got {type_text(output)}"
        )
    if output.shape[0] < count or (dtype is not None and element_shape(output.dtype) != element_shape(dtype)):
        raise KernelValueError(
            f"{form.what}: output: expected {count} of {dtype}, got {output.shape[0]} of {output.dtype}"
        )
    _require_floats(form, "output", output.dtype)
    return output


def _require_floats(form: BoundIntegrand, name: str, dtype: Any) -> None:
    if not element_scalar(dtype).is_float:
        raise KernelTypeError(f"{form.what}: {name}: expected floats, got {dtype}", hint="integrals are no integers")


def _output_scalar(form: BoundIntegrand, output_dtype: Any) -> Any:
    found = element_scalar(as_dtype(output_dtype)) if output_dtype is not None else form.domain.geometry.scalar_type
    _require_floats(form, "output_dtype", found)
    return found


def _linear(form: BoundIntegrand, points: Any, nodes: np.ndarray, accumulate: Any, output_dtype: Any, output: Any,
            add: bool, is_nodal: bool) -> Any:  # fmt: skip
    test = form.test
    assert test is not None
    count, dtype = test.space.VALUE_DOF_COUNT, test.space.dof_dtype
    domain, fields, values = form.arguments
    inputs = [domain, points, fields, values, form.domain.geometry.integers(nodes)]
    if output is not None:
        total = _require_output(form, output, dtype, test.space_partition.node_count())
        kernel = linear_kernel(form.integrand, accumulate, output.dtype, count, is_nodal)
        if overlaps(output, inputs):  # which are read until all is summed
            (total,) = evaluated(kernel, nodes.shape, inputs, [(output.shape[0], output.dtype)], form.device)
        if not add:
            output.zero_()
        if total is output:
            wp.launch(kernel, nodes.shape, inputs, [output], device=form.device)
        else:
            wp.launch(add_kernel(output.dtype), output.shape[0], [total], [output], device=form.device)
        return output
    scalar = _output_scalar(form, output_dtype)
    dtype = scalar if isinstance(dtype, Scalar) else dtype.with_dtype(scalar)
    kernel = linear_kernel(form.integrand, accumulate, dtype, count, is_nodal)
    return evaluated(kernel, nodes.shape, inputs, [(test.space_partition.node_count(), dtype)], form.device)[0]


def _bilinear(form: BoundIntegrand, points: Any, nodes: tuple[np.ndarray, np.ndarray], accumulate: Any,
              output_dtype: Any, output: Any, add: bool, is_nodal: bool,
              options: BlockOptions) -> Any:  # fmt: skip
    test, trial = form.test, form.trial
    assert test is not None
    assert trial is not None
    height, width = test.space.VALUE_DOF_COUNT, trial.space.VALUE_DOF_COUNT
    if output is not None and not isinstance(output, BsrMatrix):
        raise KernelTypeError(
            f"{form.what}: output: expected a BsrMatrix, as there is a trial function, got {type_text(output)}",
            hint="make it with sparse.bsr_zeros, or leave it out",
        )
    scalar = _output_scalar(form, output_dtype if output is None else output.scalar_type)
    block = scalar if (height, width) == (1, 1) else matrix(height, width, scalar)
    shape = (*nodes[0].shape, 1 if is_nodal else nodes[1].shape[1])
    if is_nodal:
        i, j = np.broadcast_to(nodes[0][:, :, None], shape), np.broadcast_to(nodes[1][:, :, None], shape)
    else:
        i, j = np.broadcast_to(nodes[0][:, :, None], shape), np.broadcast_to(nodes[1][:, None, :], shape)
    is_used = (i >= 0) & (j >= 0)
    places = np.where(is_used, np.cumsum(is_used).reshape(shape) - 1, -1)
    domain, fields, values = form.arguments
    geometry = form.domain.geometry
    kernel = bilinear_kernel(form.integrand, accumulate, block, height, width, is_nodal)
    inputs = [domain, points, fields, values, geometry.integers(places)]
    (blocks,) = evaluated(kernel, shape, inputs, [(int(is_used.sum()), block)], form.device)
    rows, columns = i[is_used], j[is_used]
    at = geometry.integers(rows), geometry.integers(columns)
    i, j = at if isinstance(blocks, HostArray) else [a.to_jax() for a in at]
    extents = test.space_partition.node_count(), trial.space_partition.node_count()
    if output is None:
        made = bsr_from_triplets(*extents, i, j, blocks, options.prunes)
        if is_nodal and isinstance(blocks, HostArray):  # one block a node: programs go through `values` by nodes
            count = len(np.unique(rows.astype(np.int64) * extents[1] + columns))
            made.columns, made.values, made.nnz = made.columns[:count], made.values[:count], count
        return made
    if (output.nrow, output.ncol) != extents or output.block_shape != (height, width):
        raise KernelValueError(
            f"{form.what}: output: expected {extents[0]} by {extents[1]} blocks of {height} by {width}, got"
            f" {output.nrow} by {output.ncol} of {output.block_shape[0]} by {output.block_shape[1]}"
        )
    if add:
        bsr_axpy(bsr_from_triplets(*extents, i, j, blocks, options.prunes), output, topology=options.topology)
    else:
        bsr_set_from_triplets(output, i, j, blocks, prune_numerical_zeros=options.prunes, topology=options.topology)
    return output
