"""Transposes of what reverse mode made, by the symmetry of second derivatives.

A launch A that is the transpose of a launch D, linear in l, computes A(p, c) = D(p)^T c. Its derivatives need nothing
but D:

    transpose in c, by u        D(p) u                            a launch of D
    transpose in dp, by u       d/dp <c, D(p) u>                  the reverse of D by p, at l = u
    tangent along dp, dc        D(p)^T dc + (d/dp D(p) l [dp])^T c   transposes by l of D and of its tangent

so no reverse sweep is ever transposed. A launch remembers where it is from (`LaunchSpec.origin`), and what these
formulas ask for is put together from launches by JAX's own transformations. Every launch in it is again a transpose of
a launch that runs forward, or its tangent: derivatives of any order come out of the same few lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jaxwarp.ffi.derivatives.zeros import Values, pulled, pushed, transposed
from jaxwarp.ir.nodes import While, walk
from jaxwarp.launches.spec import IN_OUT, OUTPUT, BatchOf, LaunchSpec, TangentOf, TransposeOf

Bind = Callable[[LaunchSpec, Sequence[Any]], list[Any]]


class NotKeptError(Exception):
    """An operand that a formula asks for is not there: the launch itself did not need it."""


def is_reverse(launch: LaunchSpec) -> bool:
    """Return whether a launch is a transpose, or was made from one."""
    origin = launch.origin
    while origin is not None:
        if isinstance(origin, TransposeOf):
            return True
        origin = origin.launch.origin
    return False


def transpose_reverse(
    bind: Bind, launch: LaunchSpec, values: Values, linear: Mapping[int, Any], cotangents: Values
) -> Values:
    """Cotangents of the operands in which a launch is linear, where `is_reverse(launch)`; zeros may be left out.

    Args:
        values: the operands in which it is not linear.
        linear: abstract values of those in which it is.
        cotangents: of the results, where they are not zero.

    Raises:
        NotKeptError: what has to be launched needs an operand that this launch has no use for.
    """
    origin = launch.origin
    if isinstance(origin, TangentOf) and all(origin.slots[i].kind == "tangent" for i in linear):
        # The transpose of the derivative of a launch at a point.
        at = _of_kind(origin, values, "primal")
        wanted = [origin.slots[i].index for i in linear]
        found = _pull(bind, origin.launch, at, wanted, _of_kind(origin, cotangents, "tangent"))
        return {i: found[origin.slots[i].index] for i in linear if origin.slots[i].index in found}
    zeros = {i: jnp.zeros(aval.shape, aval.dtype) for i, aval in linear.items()}
    return _pull(bind, launch, values | zeros, list(linear), cotangents)


def _pull(bind: Bind, launch: LaunchSpec, values: Values, wanted: Sequence[int], cotangents: Values) -> Values:
    """Return what the reverse of a launch at `values` gives for the `wanted` operands."""
    match launch.origin:
        case TransposeOf() as origin:
            return _pull_transpose(bind, origin, values, wanted, cotangents)
        case BatchOf() as origin if is_reverse(launch):
            axes, result_axes = _axes(launch, origin)
            found = jax.vmap(
                lambda v, c: _pull(bind, origin.launch, v, wanted, c),
                ({i: axes[i] for i in values}, {i: result_axes[i] for i in cotangents}),
                axis_size=origin.size,
            )(values, cotangents)
            # What all items share gets what each of them contributes.
            return {i: x.sum(0) if axes[i] is None else jnp.moveaxis(x, 0, axes[i]) for i, x in found.items()}
        case _:
            active = {i: values[i] for i in wanted}
            return pulled(lambda moved: _results(bind, launch, values | moved), active, cotangents)[1]


def _pull_transpose(
    bind: Bind, origin: TransposeOf, values: Values, wanted: Sequence[int], cotangents: Values
) -> Values:
    given, slots = _given(origin, values), origin.slots
    incoming = _of_kind(origin, cotangents, "cotangent")
    along = {i: incoming[i].astype(_dtype(origin, i)) for i, _ in origin.linear if i in incoming}
    # The others stand for what an output holds on entry, or for extents.
    active = {i: slots[i].index for i in wanted if slots[i].kind == "primal" and slots[i].index in given}
    results, back = pulled(
        lambda moved: _forward(bind, origin, given | moved, along),
        {n: given[n] for n in active.values()},
        _of_kind(origin, values, "cotangent"),
    )
    found = {i: results[slots[i].index] for i in wanted if slots[i].kind == "cotangent" and slots[i].index in results}
    return found | {i: back[n] for i, n in active.items() if n in back}


def _results(bind: Bind, launch: LaunchSpec, values: Values) -> Values:
    """Return the results of a launch, by launches whose tangents can be transposed. Scratch may be left out."""
    match launch.origin:
        case BatchOf() as origin if is_reverse(launch):
            axes, result_axes = _axes(launch, origin)
            f = jax.vmap(
                lambda v: _results(bind, origin.launch, v), ({i: axes[i] for i in values},), axis_size=origin.size
            )
            return {i: jnp.moveaxis(x, 0, result_axes[i]) for i, x in f(values).items()}
        case TangentOf() as origin if is_reverse(launch):
            at, along = _of_kind(origin, values, "primal"), _of_kind(origin, values, "tangent")
            found = _push(bind, origin.launch, at, along)
            slots = [(i, launch.kernel.params[i], origin.slots[i]) for i in launch.result_params]
            return {
                i: found[s.index].astype(p.dtype.numpy) for i, p, s in slots if s.kind == "tangent" and s.index in found
            }
        case _:
            return _bound(bind, launch, values)


def _push(bind: Bind, launch: LaunchSpec, values: Values, tangents: Values) -> Values:
    """Tangents of what a launch computes, likewise."""
    match launch.origin:
        case TransposeOf() as origin:
            return _push_transpose(bind, origin, values, tangents)
        case BatchOf() as origin if is_reverse(launch):
            axes, result_axes = _axes(launch, origin)
            f = jax.vmap(
                lambda v, t: _push(bind, origin.launch, v, t),
                ({i: axes[i] for i in values}, {i: axes[i] for i in tangents}),
                axis_size=origin.size,
            )
            return {i: jnp.moveaxis(x, 0, result_axes[i]) for i, x in f(values, tangents).items()}
        case _:
            at = {i: values[i] for i in tangents}
            return jax.jvp(lambda moved: _results(bind, launch, values | moved), (at,), (tangents,))[1]


def _push_transpose(bind: Bind, origin: TransposeOf, values: Values, tangents: Values) -> Values:
    """D(p)^T dc + (d/dp D(p) l [dp])^T c."""
    given, slots = _given(origin, values), origin.slots
    moved = {slots[i].index: t for i, t in tangents.items() if slots[i].kind == "primal" and slots[i].index in given}
    at = {n: given[n] for n in moved}

    def both(along: Values) -> tuple[Values, Values]:
        return jax.jvp(lambda p: _forward(bind, origin, given | p, along), (at,), (moved,))

    shapes = {i: jax.ShapeDtypeStruct(shape, _dtype(origin, i)) for i, shape in origin.linear}
    cotangents = _of_kind(origin, tangents, "cotangent"), _of_kind(origin, values, "cotangent")
    found = transposed(both, shapes, cotangents)
    return {i: found[s.index] for i, s in enumerate(slots) if s.kind == "cotangent" and s.writes and s.index in found}


def _forward(bind: Bind, origin: TransposeOf, given: Values, along: Values) -> Values:
    """D(p) l, where l is zero but for the operands in `along`; what does not depend on these may be left out."""
    launch = origin.launch
    zeros = {i: jnp.zeros(shape, _dtype(origin, i)) for i, shape in origin.linear}
    given = _without_need(launch, given | zeros) | given
    if launch.origin is not None and len(along) == len(zeros):
        return _bound(bind, launch, given | along)
    # Zeros that are only zero would meet infinite slopes. And what a user transposes (`jax.linear_transpose`) may have
    # a constant part.
    at = {i: zeros[i] for i in along}
    return pushed(lambda moved: _bound(bind, launch, given | zeros | moved), at, along)[1]


def _without_need(launch: LaunchSpec, given: Values) -> Values:
    """Zeros for in-out operands of D that A has no use for.

    What A does not depend on, D does not: A is its transpose. A `while` in D may still look at it, and never end.
    """
    if any(isinstance(op, While) for op in walk(launch.kernel.body)):
        return {}
    shapes = dict(zip(launch.result_params, launch.results, strict=True))
    return {
        i: jnp.zeros(shapes[i], launch.kernel.params[i].dtype.numpy)
        for i in launch.operand_params
        if i not in given and launch.roles[i] == IN_OUT
    }


def _bound(bind: Bind, launch: LaunchSpec, values: Values) -> Values:
    missing = [launch.kernel.params[i].name for i in launch.operand_params if i not in values]
    if missing:
        raise NotKeptError(f"{launch.name}: {missing}")
    results = bind(launch, [values[i] for i in launch.operand_params])
    return dict(zip(launch.result_params, results, strict=True))


def _given(origin: TransposeOf, values: Values) -> Values:
    """The operands p of the launch that was transposed."""
    linear = {i for i, _ in origin.linear}
    found = _of_kind(origin, values, "primal")
    return {i: x for i, x in found.items() if i not in linear and origin.launch.roles[i] != OUTPUT}


def _of_kind(origin: TangentOf | TransposeOf, values: Values, kind: str) -> Values:
    """Return the values of one kind, by the parameter of the launch that `origin` is about."""
    return {origin.slots[i].index: x for i, x in values.items() if origin.slots[i].kind == kind}


def _dtype(origin: TransposeOf, index: int) -> Any:
    return origin.launch.kernel.params[index].dtype.numpy


def _axes(launch: LaunchSpec, origin: BatchOf) -> tuple[dict[int, Any], dict[int, int]]:
    """The batch axes of operands (None: shared by all items) and results."""
    operands = zip(launch.operand_params, origin.dims, strict=True)
    return dict(operands), dict(zip(launch.result_params, origin.result_dims, strict=True))
