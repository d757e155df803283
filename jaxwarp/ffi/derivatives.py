"""The derivatives of a launch are launches: of the tangent kernel forward, of the adjoint kernel backward."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad

from jaxwarp.deep import roomy
from jaxwarp.errors import DifferentiationError
from jaxwarp.ffi import compat
from jaxwarp.ffi.duality import NotKeptError, is_reverse, transpose_reverse
from jaxwarp.ffi.launch import IN_OUT, INPUT, OUTPUT, Launch, TangentOf, TransposeOf, intern_kernel, is_static
from jaxwarp.ffi.records import Point, record_launch
from jaxwarp.ir.nodes import Kernel, Load, walk
from jaxwarp.passes import settle
from jaxwarp.passes.thread_values import extents_in_indices
from jaxwarp.vjp.adjoint import adjoint
from jaxwarp.vjp.derived import Derived, Slot, without_idle
from jaxwarp.vjp.memory import require_no_visible_race
from jaxwarp.vjp.replay import take_replays
from jaxwarp.vjp.tangent import tangent

Bind = Callable[[Launch, Sequence[Any]], list[Any]]
Extents = tuple[int | None, ...]

_CACHE = 512


@functools.lru_cache(maxsize=_CACHE)
@roomy
def _tangent(kernel: Kernel, fma: bool, wanted: tuple[int, ...], grid: tuple[int | None, ...], slim: bool) -> Derived:
    # As it is written: the settled kernel need not load what a thread has just stored.
    require_no_visible_race(take_replays(kernel, grid).kernel, grid)
    # Derivatives compute parts of the kernel again, and must find the same to the last bit.
    derived = tangent(settle(kernel, fma=fma), wanted, grid, settle=slim)
    if slim:
        # So that the transpose needs all that this needs, which makes the transpose of its own derivative possible.
        derived = without_idle(derived, ("primal", "tangent", "final"))
    return Derived(intern_kernel(derived.kernel), derived.slots)


@functools.lru_cache(maxsize=_CACHE)
@roomy
def _adjoint(
    kernel: Kernel, fma: bool, wanted: tuple[int, ...], grid: Extents, sweep: bool, extents: tuple[Extents, ...]
) -> Derived:
    derived = adjoint(settle(kernel, fma=fma), wanted, grid, sweep, finals=sweep, extents=extents)
    return dataclasses.replace(derived, kernel=intern_kernel(derived.kernel))


def _known_grid(launch: Launch) -> Extents:
    return tuple(int(n) if is_static(n) else None for n in launch.grid)


def _known_extents(launch: Launch, shapes: Mapping[int, Sequence[Any]]) -> tuple[Extents, ...]:
    """Of each parameter, the extents that its kernel's indices are made of, as far as they are known.

    Others have no part in what is proved: launches that differ in these alone share a derivative.
    """
    asked = _extents_in_indices(launch.kernel)

    def known(i: int, axis: int) -> int | None:
        extent = shapes[i][axis] if (i, axis) in asked and i in shapes else None
        return int(extent) if extent is not None and is_static(extent) else None

    return tuple(tuple(known(i, axis) for axis in range(p.rank)) for i, p in enumerate(launch.kernel.params))


@functools.lru_cache(maxsize=_CACHE)
def _extents_in_indices(kernel: Kernel) -> frozenset[tuple[int, int]]:
    return extents_in_indices(kernel)


def is_moving(tangent: Any) -> bool:
    """Whether a tangent is not known to be zero (those of integers and bools always are)."""
    return type(tangent) is not ad.Zero and jax.typeof(tangent).dtype != jax.dtypes.float0


def launch_jvp(
    bind: Bind, launch: Launch, primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """The results of a launch, and their tangents: one more launch, linear in the tangents given."""
    moving = {i: t for i, t in zip(launch.operand_params, tangents, strict=True) if is_moving(t)}
    derived = None
    if moving:
        grid, is_first = _known_grid(launch), not is_reverse(launch)
        derived = _tangent(launch.kernel, launch.fma, tuple(moving), grid, is_first)
    results = bind(launch, primals)
    zeros: list[Any] = [ad.Zero(jax.typeof(r).to_tangent_aval()) for r in results]
    if derived is None:
        return results, zeros
    given = dict(zip(launch.operand_params, primals, strict=True))
    # An in-out argument that the kernel does not write keeps the tangent it came with.
    kept = {i: moving[i] for i in launch.result_params if i in moving}
    if not any(slot.kind == "tangent" and slot.writes for slot in derived.slots):
        return results, [kept.get(i, z) for i, z in zip(launch.result_params, zeros, strict=True)]
    roles = tuple(_tangent_role(launch, slot, moving) for slot in derived.slots)
    values = {"primal": given, "tangent": moving, "final": dict(zip(launch.result_params, results, strict=True))}
    operands = [
        values[slot.kind][slot.index] for slot, role in zip(derived.slots, roles, strict=True) if role != OUTPUT
    ]
    origin = TangentOf(launch, derived.slots)
    outcome = _bind_derived(bind, launch, derived, roles, operands, origin)
    found = _results(derived.slots, roles, outcome, "tangent")
    return results, [{**kept, **found}.get(i, z) for i, z in zip(launch.result_params, zeros, strict=True)]


def _tangent_role(launch: Launch, slot: Slot, moving: dict[int, Any]) -> str:
    role = launch.roles[slot.index]
    if slot.kind == "final":
        return INPUT
    if slot.kind == "tangent" and slot.index not in moving:
        return OUTPUT
    return INPUT if role == IN_OUT and not slot.writes else role


def launch_transpose(bind: Bind, launch: Launch, cotangents: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    """Cotangents of the operands in which a launch is linear; None for the others."""
    linear = {i: x for i, x in zip(launch.operand_params, operands, strict=True) if ad.is_undefined_primal(x)}
    wanted = tuple(i for i in linear if launch.kernel.params[i].dtype.is_float)
    shapes = dict(zip(launch.result_params, launch.results, strict=True))
    incoming = dict(zip(launch.result_params, cotangents, strict=True))
    if all(type(c) is ad.Zero for c in cotangents):
        return [ad.Zero(x.aval) if ad.is_undefined_primal(x) else None for x in operands]
    if is_reverse(launch):
        try:
            return _transpose_of_reverse(bind, launch, cotangents, operands)
        except NotKeptError:
            pass
    given = {i: x for i, x in zip(launch.operand_params, operands, strict=True) if i not in linear}
    known = _known_extents(
        launch, shapes | {i: jnp.shape(x) for i, x in given.items()} | {i: x.aval.shape for i, x in linear.items()}
    )
    derived = _adjoint(launch.kernel, launch.fma, wanted, _known_grid(launch), is_reverse(launch), known)
    origin = TransposeOf(launch, derived.slots, tuple((i, tuple(linear[i].aval.shape)) for i in wanted))
    point = Point(launch, given, {i: x.aval for i, x in linear.items()})
    records: list[Any] = []
    if derived.recording is not None:
        records = record_launch(bind, point, derived.recording)
    values: list[Any] = []
    roles: list[str] = []
    for slot in derived.slots:
        if slot.kind == "cotangent":
            roles.append(OUTPUT if not slot.reads else IN_OUT if slot.writes else INPUT)
            if slot.reads:
                moved = incoming.get(slot.index)
                is_zero = moved is None or type(moved) is ad.Zero
                dtype = launch.kernel.params[slot.index].dtype.numpy
                values.append(jnp.zeros(shapes[slot.index], dtype) if is_zero else moved)
            continue
        if slot.kind == "final":
            raise _needs_final(launch.kernel, slot.index)
        roles.append(INPUT)
        values.append(records.pop(0) if slot.kind == "record" else point.value(slot.index, slot.reads))
    outcome = _bind_derived(bind, launch, derived, tuple(roles), values, origin)
    found = _results(derived.slots, tuple(roles), outcome, "cotangent")
    # Those of half precision are accumulated in float32.
    found = {i: c.astype(launch.kernel.params[i].dtype.numpy) for i, c in found.items()}
    # An in-out argument that the kernel does not write goes through: the cotangent of the result joins its own.
    written = {slot.index for slot in derived.slots if slot.kind == "cotangent" and slot.reads}
    for i in linear:
        if i in incoming and i not in written and type(incoming[i]) is not ad.Zero:
            found[i] = incoming[i] + found[i] if i in found else incoming[i]
    found = {i: compat.sharded_as(c, linear[i].aval) for i, c in found.items() if i in linear}
    return [
        found.get(i, ad.Zero(x.aval)) if ad.is_undefined_primal(x) else None
        for i, x in zip(launch.operand_params, operands, strict=True)
    ]


def _transpose_of_reverse(bind: Bind, launch: Launch, cotangents: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    given = dict(zip(launch.operand_params, operands, strict=True))
    linear = {i: x.aval for i, x in given.items() if ad.is_undefined_primal(x)}
    moving = {i: c for i, c in zip(launch.result_params, cotangents, strict=True) if is_moving(c)}
    values = {i: x for i, x in given.items() if i not in linear}
    found = transpose_reverse(bind, launch, values, linear, moving)
    found = {i: compat.sharded_as(c, linear[i]) for i, c in found.items() if i in linear and is_moving(c)}
    return [found.get(i, ad.Zero(linear[i])) if i in linear else None for i in launch.operand_params]


def _needs_final(kernel: Kernel, index: int) -> DifferentiationError:
    param = kernel.params[index]
    read = next(op for op in walk(kernel.body) if isinstance(op, Load) and op.param is param)
    return DifferentiationError(
        f"{param.name} is read here after it has been written, and the reverse sweep would need what was written",
        read.loc,
        hint="carry the value in a local variable, or write to another output",
    )


def _bind_derived(
    bind: Bind,
    launch: Launch,
    derived: Derived,
    roles: tuple[str, ...],
    operands: Sequence[Any],
    origin: TangentOf | TransposeOf,
) -> list[Any]:
    """Launches a derivative kernel on the grid of the launch it comes from."""
    shapes = dict(zip(launch.result_params, launch.results, strict=True))
    if isinstance(origin, TransposeOf):
        shapes |= dict(origin.linear)
    own = iter(operands)
    results = []
    for slot, role in zip(derived.slots, roles, strict=True):
        shape = jnp.shape(next(own)) if role != OUTPUT else shapes[slot.index]
        if role != INPUT:
            results.append(tuple(shape))
    # A derivative has the shape of what it belongs to, and goes with it where a launch is partitioned.
    factors = None if launch.factors is None else tuple(launch.factors[slot.index] for slot in derived.slots)
    made = launch.replace(
        kernel=derived.kernel,
        roles=roles,
        results=tuple(results),
        has_side_effect=False,
        origin=origin,
        factors=factors,
    )
    return bind(made, operands)


def _results(slots: Sequence[Slot], roles: Sequence[str], values: Sequence[Any], kind: str) -> dict[int, Any]:
    """The results of one kind by the parameter they belong to; scratch is left out."""
    written = [slot for slot, role in zip(slots, roles, strict=True) if role != INPUT]
    return {slot.index: value for slot, value in zip(written, values, strict=True) if slot.kind == kind}
