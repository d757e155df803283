"""The derivatives of a launch are launches: of the tangent kernel forward, of the adjoint kernel backward."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad

from jaxwarp import compat
from jaxwarp.analysis.addresses import require_no_visible_race
from jaxwarp.analysis.thread_values import extents_in_indices
from jaxwarp.deep import with_deep_stack
from jaxwarp.errors import DifferentiationError
from jaxwarp.ffi.derivatives.contests import (
    from_end_factor,
    may_be_from_end,
    meeting_factor,
    shapes_of,
    with_selected,
    with_winners,
)
from jaxwarp.ffi.derivatives.handed_out import handed_out, record_handed_out
from jaxwarp.ffi.derivatives.own_copies import CopiedLaunch, copied_launch
from jaxwarp.ffi.derivatives.recording import Point, record_launch
from jaxwarp.ffi.derivatives.second_order import NotKeptError, is_reverse, transpose_reverse
from jaxwarp.ffi.derivatives.used_results import used_part
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Load, walk
from jaxwarp.launches.spec import (
    IN_OUT,
    INPUT,
    OUTPUT,
    BatchOf,
    LaunchSpec,
    TangentOf,
    TransposeOf,
    intern_kernel,
    is_static,
)
from jaxwarp.passes.checks.checked import Debug
from jaxwarp.passes.launches.tells import says, silent
from jaxwarp.passes.pipeline import fix_rounding
from jaxwarp.vjp.derived import Derived, Slot, without_idle
from jaxwarp.vjp.forward.tangent import tangent
from jaxwarp.vjp.handed_out import HandedOut
from jaxwarp.vjp.replay import take_replays
from jaxwarp.vjp.reverse.adjoint import Assumed, adjoint

Bind = Callable[[LaunchSpec, Sequence[Any]], list[Any]]
Extents = tuple[int | None, ...]

_CACHE = 512


@functools.lru_cache(maxsize=_CACHE)
@with_deep_stack
def _tangent(kernel: Kernel, fma: bool, wanted: tuple[int, ...], grid: tuple[int | None, ...], slim: bool) -> Derived:
    # As it is written: the kernel of fixed rounding need not load what a thread has just stored.
    require_no_visible_race(take_replays(kernel, grid).kernel, grid)
    # Derivatives compute parts of the kernel again, and must find the same to the last bit.
    derived = tangent(fix_rounding(kernel, fma=fma), wanted, grid, from_finals=slim)
    if slim:
        # So that the transpose needs all that this needs, which makes the transpose of its own derivative possible.
        derived = without_idle(derived, ("primal", "tangent", "final"))
    return Derived(intern_kernel(derived.kernel), derived.slots)


@functools.lru_cache(maxsize=_CACHE)
@with_deep_stack
def _adjoint(
    kernel: Kernel,
    fma: bool,
    wanted: tuple[int, ...],
    grid: Extents,
    sweep: bool,
    extents: tuple[Extents, ...],
    silent: tuple[int, ...],
    assumed: Assumed,
) -> Derived:
    kernel = fix_rounding(kernel, fma=fma)
    derived = adjoint(kernel, wanted, grid, sweep, sweep, extents, silent, assumed)
    return dataclasses.replace(derived, kernel=intern_kernel(derived.kernel))


def _known_grid(launch: LaunchSpec) -> Extents:
    return tuple(int(n) if is_static(n) else None for n in launch.grid)


def _known_extents(launch: LaunchSpec, shapes: Mapping[int, Sequence[Any]]) -> tuple[Extents, ...]:
    """Return, for each parameter, the known extents among those that the kernel's indices are made of.

    Other extents play no part in what is proved: launches that differ only in them share a derivative.
    """
    asked = _extents_in_indices(launch.kernel)

    def known(i: int, axis: int) -> int | None:
        extent = shapes[i][axis] if (i, axis) in asked and i in shapes else None
        return int(extent) if extent is not None and is_static(extent) else None

    return tuple(tuple(known(i, axis) for axis in range(p.rank)) for i, p in enumerate(launch.kernel.params))


@functools.lru_cache(maxsize=_CACHE)
def _extents_in_indices(kernel: Kernel) -> frozenset[tuple[int, int]]:
    return extents_in_indices(kernel)


def is_active(tangent: Any) -> bool:
    """Return whether a tangent is not known to be zero. Tangents of integers and bools are always known to be."""
    return type(tangent) is not ad.Zero and jax.typeof(tangent).dtype != jax.dtypes.float0


def launch_jvp(
    bind: Bind, launch: LaunchSpec, primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """The results of a launch, and their tangents: one more launch, linear in the tangents given."""
    active = {i: t for i, t in zip(launch.operand_params, tangents, strict=True) if is_active(t)}
    plain = launch, primals
    launch = silent_launch(launch)
    is_told = launch is not plain[0] or launch.debug is not None
    split = handed_out(plain[0], tuple(active)) if active else None
    if split is not None:
        return _jvp_of_split(bind, plain[0], split, primals, tangents, is_told=is_told)
    shapes = shapes_of(launch, primals)
    copied = copied_launch(launch, shapes, tuple(active)) if active and launch.in_order else None
    if copied is not None:
        return _jvp_of_copied(bind, plain[0] if is_told else None, launch, copied, primals, shapes, active)
    may_meet = bool(active) and launch.in_order  # else it was made of a launch in which threads do not meet
    if may_meet:
        launch, primals = with_winners(bind, launch, primals, tuple(active))
    # What prints, fails, or is told of in debug mode is the kernel as it is written.
    results = bind(*(plain if is_told else (launch, primals)))
    # Also of the record of a launch in debug mode, where it is a value.
    zeros: list[Any] = [ad.Zero(jax.typeof(r).to_tangent_aval()) for r in results]
    if not active:
        return results, zeros
    launch = _without_record(launch)
    if may_meet:
        launch, primals = with_selected(bind, launch, primals, results, tuple(active))
    derived = _tangent(launch.kernel, launch.fma, tuple(active), _known_grid(launch), not is_reverse(launch))
    zeros, rest = zeros[: len(launch.results)], zeros[len(launch.results) :]
    given = dict(zip(launch.operand_params, primals, strict=True))
    # An in-out argument that the kernel does not write keeps the tangent it came with.
    kept = {i: active[i] for i in launch.result_params if i in active}
    if not any(slot.kind == "tangent" and slot.writes for slot in derived.slots):
        return results, [*(kept.get(i, z) for i, z in zip(launch.result_params, zeros, strict=True)), *rest]
    roles = tuple(_tangent_role(launch, slot, active) for slot in derived.slots)
    finals = dict(zip(launch.result_params, results, strict=False))
    factor = meeting_factor(bind, launch, given, finals, derived) if launch.in_order else None
    values = {"primal": given, "tangent": _scaled(active, factor), "final": finals}
    operands = [
        values[slot.kind][slot.index] for slot, role in zip(derived.slots, roles, strict=True) if role != OUTPUT
    ]
    origin = TangentOf(launch, derived.slots)
    outcome = _bind_derived(bind, launch, derived, roles, operands, origin)
    found = _scaled(_results(derived.slots, roles, outcome, "tangent"), factor)
    moved = {**kept, **found}
    return results, [*(moved.get(i, z) for i, z in zip(launch.result_params, zeros, strict=True)), *rest]


def _jvp_of_split(
    bind: Bind,
    launch: LaunchSpec,
    split: HandedOut,
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    is_told: bool,
) -> tuple[list[Any], list[Any]]:
    """The results and tangents of a launch of which a part is done and recorded first."""
    recorded = record_handed_out(bind, launch, split, primals, is_told=is_told)
    rest, source = recorded.launch, dict(enumerate(recorded.params))  # the last parameters are records
    moved = dict(zip(launch.operand_params, tangents, strict=True))
    along = [
        moved.get(source.get(n, -1), ad.Zero(jax.typeof(x).to_tangent_aval()))
        for n, x in zip(rest.operand_params, recorded.operands, strict=True)
    ]
    results, found = launch_jvp(bind, rest, recorded.operands, along)
    made = {source[n]: x for n, x in zip(rest.result_params, results, strict=False)} | dict(recorded.results)
    all_results = [*(made[i] for i in launch.result_params), *recorded.failures]
    towards = {source[n]: t for n, t in zip(rest.result_params, found, strict=False)}
    zeros = [ad.Zero(jax.typeof(x).to_tangent_aval()) for x in all_results]
    count = len(launch.result_params)
    return all_results, [
        *(towards.get(i, z) for i, z in zip(launch.result_params, zeros, strict=False)),
        *zeros[count:],
    ]


def _jvp_of_copied(
    bind: Bind,
    told: LaunchSpec | None,
    launch: LaunchSpec,
    copied: CopiedLaunch,
    primals: Sequence[Any],
    shapes: Sequence[Any],
    active: Mapping[int, Any],
) -> tuple[list[Any], list[Any]]:
    """The results and tangents of a launch whose threads work on copies of their own; `told`: what has messages."""
    given = dict(zip(launch.operand_params, primals, strict=True))
    dtypes = [p.dtype.numpy for p in launch.kernel.params]
    entries = [given[i] if i in given else jnp.zeros(shapes[i], dtypes[i]) for i in copied.entries]
    operands = [*primals, *entries]
    params = [*launch.operand_params, *copied.entries]

    def along(factor: Any) -> list[Any]:
        moved = _scaled(dict(active), factor)
        return [moved.get(i, ad.Zero(jax.typeof(x).to_tangent_aval())) for i, x in zip(params, operands, strict=True)]

    factor = copied.factor(bind, launch, bind(copied.launch, operands))
    results, found = launch_jvp(bind, copied.launch, operands, along(factor))
    count = len(launch.results)
    results, found = results[:count], found[:count]
    found = [t if type(t) is ad.Zero else t * factor.astype(jnp.result_type(t)) for t in found]
    if told is not None:
        results = bind(told, primals)
        found += [ad.Zero(jax.typeof(x).to_tangent_aval()) for x in results[count:]]
    return results, found


def silent_launch(launch: LaunchSpec) -> LaunchSpec:
    """The launch that derivatives are made of: its threads say nothing, since those of the launch itself do."""
    kernel = _silent_kernel(launch.kernel)
    if kernel is launch.kernel:
        if launch.debug is None or not launch.debug.is_kept:
            return launch
        return launch.replace(debug=dataclasses.replace(launch.debug, is_kept=False))
    origin = launch.origin
    if isinstance(origin, BatchOf):
        origin = dataclasses.replace(origin, launch=silent_launch(origin.launch))
    debug = launch.debug and launch.debug.checks and launch.debug.without_record()
    return launch.replace(kernel=kernel, has_side_effect=False, origin=origin, debug=debug or None)


@functools.lru_cache(maxsize=_CACHE)
def _silent_kernel(kernel: Kernel) -> Kernel:
    return intern_kernel(silent(kernel)) if says(kernel) else kernel


def _without_record(launch: LaunchSpec) -> LaunchSpec:
    return launch.replace(debug=launch.debug and launch.debug.without_record())


def _scaled(tangents: dict[int, Any], factor: Any) -> dict[int, Any]:
    """Times a number, if there is one: tangents that go in and come out, so cotangents come out and go in."""
    return tangents if factor is None else {i: t * factor.astype(jnp.result_type(t)) for i, t in tangents.items()}


def _tangent_role(launch: LaunchSpec, slot: Slot, active: dict[int, Any]) -> str:
    role = launch.roles[slot.index]
    if slot.kind == "final":
        return INPUT
    if slot.kind == "tangent" and slot.index not in active:
        return OUTPUT
    return INPUT if role == IN_OUT and not slot.writes else role


def launch_transpose(bind: Bind, launch: LaunchSpec, cotangents: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    """Cotangents of the operands in which a launch is linear; None for the others."""
    launch = silent_launch(launch)
    given = dict(zip(launch.operand_params, operands, strict=True))
    incoming = {i: c for i, c in zip(launch.result_params, cotangents, strict=True) if is_active(c)}
    found: dict[int, Any] = {}
    if incoming and is_reverse(launch):
        found = _transpose_of_reverse(bind, launch, incoming, given)
    elif incoming:
        # What nobody uses has no part in it: a cotangent of zeros would make NaN of an infinite slope.
        part, kept = used_part(launch, tuple(incoming))
        places = {i: n for n, i in enumerate(kept)}
        own = {places[i]: x for i, x in given.items() if i in places}
        made = _transpose(bind, part, {places[i]: c for i, c in incoming.items()}, own)
        found = {i: made[n] for i, n in places.items() if n in made}
    linear = {i: x.aval for i, x in given.items() if ad.is_undefined_primal(x)}
    found = {i: compat.sharded_as(c, linear[i]) for i, c in found.items() if i in linear and is_active(c)}
    return [found.get(i, ad.Zero(linear[i])) if i in linear else None for i in launch.operand_params]


def _transpose(
    bind: Bind, launch: LaunchSpec, incoming: Mapping[int, Any], operands: Mapping[int, Any], is_sweep: bool = False
) -> dict[int, Any]:
    """Cotangents of the linear operands by a reverse sweep, by parameter; those that are zero are not there."""
    linear = {i: x.aval for i, x in operands.items() if ad.is_undefined_primal(x)}
    given = {i: x for i, x in operands.items() if i not in linear}
    wanted = tuple(i for i in linear if launch.kernel.params[i].dtype.is_float)
    point = Point(launch, given, linear)
    known = _known_extents(launch, {i: point.shape(i) for i in range(len(launch.roles))})
    silent = tuple(i for i in launch.result_params if i not in incoming)
    key = launch.kernel, launch.fma, wanted, _known_grid(launch), is_sweep, known, silent
    # The tangents of a launch have been watched: see `meeting_factor`.
    is_watched = launch.origin is not None and not is_sweep
    derived, found = _first_sweep(bind, point, key, incoming, is_watched=is_watched)
    # An in-out argument that the kernel does not write goes through: the cotangent of the result joins its own.
    written = {slot.index for slot in derived.slots if slot.kind == "cotangent" and slot.reads}
    for i in linear:
        if i in incoming and i not in written:
            found[i] = incoming[i] + found[i] if i in found else incoming[i]
    return found


def _first_sweep(
    bind: Bind, point: Point, key: tuple[Any, ...], incoming: Mapping[int, Any], *, is_watched: bool
) -> tuple[Derived, dict[int, Any]]:
    """The reverse sweep that asks least of the launch, and its cotangents: see `adjoint`."""
    refusal: DifferentiationError | None = None
    for assumed in (
        Assumed(watched=is_watched),
        Assumed(watched=is_watched, as_written=True),
        Assumed(watched=is_watched, settled=True),
    ):
        if assumed.as_written and not may_be_from_end(point.launch):
            continue
        try:
            derived = _adjoint(*key, assumed)
            found = _sweep(bind, point, derived, incoming, key[2])
        except DifferentiationError as error:
            refusal = refusal if refusal is not None and assumed.settled else error
            continue
        return derived, _scaled(found, from_end_factor(bind, point)) if assumed.as_written else found
    assert refusal is not None
    raise refusal


def _sweep(
    bind: Bind, point: Point, derived: Derived, incoming: Mapping[int, Any], wanted: Sequence[int]
) -> dict[int, Any]:
    """Launches a reverse sweep: the cotangents that it makes, by parameter; those that are zero are not there."""
    if not any(slot.kind == "cotangent" and slot.writes for slot in derived.slots):
        return {}
    launch = point.launch
    records, factor = [], None
    if derived.residual_launch is not None:
        records, factor = record_launch(bind, point, derived.residual_launch)
    values: list[Any] = []
    roles: list[str] = []
    for slot in derived.slots:
        if slot.kind == "cotangent":
            # One that starts as zeros is an output.
            is_given = slot.reads and slot.index in incoming
            roles.append(OUTPUT if not is_given else IN_OUT if slot.writes else INPUT)
            values += [incoming[slot.index]] if is_given else []
            continue
        if slot.kind == "final":
            raise _needs_final(launch.kernel, slot.index)
        roles.append(INPUT)
        values.append(records.pop(0) if slot.kind == "residual" else point.value(slot.index, slot.reads))
    origin = TransposeOf(launch, derived.slots, tuple((i, point.shape(i)) for i in wanted))
    outcome = _bind_derived(bind, launch, derived, tuple(roles), values, origin)
    found = _results(derived.slots, tuple(roles), outcome, "cotangent")
    # Those of half precision are accumulated in float32.
    return {i: c.astype(launch.kernel.params[i].dtype.numpy) for i, c in _scaled(found, factor).items()}


def _transpose_of_reverse(
    bind: Bind, launch: LaunchSpec, incoming: dict[int, Any], operands: Mapping[int, Any]
) -> dict[int, Any]:
    linear = {i: x.aval for i, x in operands.items() if ad.is_undefined_primal(x)}
    values = {i: x for i, x in operands.items() if i not in linear}
    try:
        return transpose_reverse(bind, launch, values, linear, incoming)
    except NotKeptError:
        return _transpose(bind, launch, incoming, operands, is_sweep=True)


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
    launch: LaunchSpec,
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
        debug=launch.debug and _debug_of(launch.debug, launch.kernel, derived.slots),
        in_order=False,
    )
    return bind(made, operands)


def _debug_of(debug: Debug, kernel: Kernel, slots: Sequence[Slot]) -> Debug:
    """Debug mode for a derivative of `kernel`: its parameters, `slots`, are called after those that they belong to."""
    before = debug.arrays or tuple(f"array {p.name}" for p in kernel.params)
    arrays: list[str] = []
    for slot in slots:
        is_moved = slot.kind in ("tangent", "cotangent")
        # The reverse of a launch is made of its tangents.
        array = before[slot.index].removeprefix("the tangent of ")
        arrays.append(f"the {slot.kind} of {array}" if is_moved else before[slot.index])
    return debug.for_derivative(tuple(arrays))


def _results(slots: Sequence[Slot], roles: Sequence[str], values: Sequence[Any], kind: str) -> dict[int, Any]:
    """The results of one kind by the parameter they belong to; scratch is left out."""
    written = [slot for slot, role in zip(slots, roles, strict=True) if role != INPUT]
    return {slot.index: value for slot, value in zip(written, values, strict=True) if slot.kind == kind}
