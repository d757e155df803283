"""The launches of a kernel in which atomics on integers decide what moves: see vjp/handed_out.py."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jaxwarp.errors import DifferentiationError
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Load, Size, Store, walk
from jaxwarp.launches.spec import IN_OUT, INPUT, OUTPUT, LaunchSpec, intern_kernel
from jaxwarp.passes.pipeline import fix_rounding
from jaxwarp.vjp.handed_out import HandedOut, split_handed_out

Bind = Callable[[LaunchSpec, Sequence[Any]], list[Any]]

_CACHE = 512


def handed_out(launch: LaunchSpec, wanted: tuple[int, ...]) -> HandedOut | None:
    """Return the split of a launch in which atomics on integers decide what moves by `wanted`, or None."""
    if launch.origin is not None or not _returns_integers(launch.kernel):
        return None
    return _split(launch.kernel, launch.fma, wanted)


def require_no_handing_out(launch: LaunchSpec, wanted: tuple[int, ...]) -> None:
    """Refuse a launch that has run already, and has not recorded what atomics on integers have returned."""
    split = handed_out(launch, wanted)
    if split is None:
        return
    access = next(s.access for s in split.seen if isinstance(s.access, Atomic))
    raise DifferentiationError(
        f"what atomic_{access.kind} on {access.param.name} returns depends on the order of threads, and decides what "
        "moves or where it goes; a launch outside of JAX has not recorded it",
        access.loc,
        hint="differentiate in JAX, put it in a function with a func_replay, or launch a kernel for the indices first",
    )


@functools.lru_cache(maxsize=_CACHE)
def _returns_integers(kernel: Kernel) -> bool:
    return any(isinstance(op, Atomic) and not op.param.dtype.is_float for op in walk(kernel.body))


@functools.lru_cache(maxsize=_CACHE)
def _split(kernel: Kernel, fma: bool, wanted: tuple[int, ...]) -> HandedOut | None:
    found = split_handed_out(fix_rounding(kernel, fma=fma), wanted)
    if found is None:
        return None
    kernels = {name: intern_kernel(getattr(found, name)) for name in ("recorder", "everything", "kernel")}
    return dataclasses.replace(found, **kernels)


@dataclasses.dataclass(frozen=True)
class Recorded:
    """The record of a launch, and the launch of the rest.

    Attributes:
        launch: does all the rest, by these records.
        operands: those of that launch.
        params: for each parameter of that launch but the records, its position in the launch that was split.
        results: what has been found already, by parameter of the launch that was split.
        failures: the record of failures, if that is a result too.
    """

    launch: LaunchSpec
    operands: list[Any]
    params: tuple[int, ...]
    results: Mapping[int, Any]
    failures: list[Any]


def record_handed_out(
    bind: Bind, launch: LaunchSpec, split: HandedOut, primals: Sequence[Any], *, is_told: bool
) -> Recorded:
    """Launch what makes the records.

    Args:
        launch: what was split.
        primals: its operands.
        is_told: whether it prints, fails or is checked: then it is launched as a whole.
    """
    given = dict(zip(launch.operand_params, primals, strict=True))
    known = dict(zip(launch.result_params, launch.results, strict=True))
    known |= {i: tuple(jnp.shape(x)) for i, x in given.items()}
    extents = [known[i] for i in range(len(launch.roles))]
    shapes = split.shapes(launch.grid, extents)
    before = launch.replace(factors=None, unrepeatable=True)
    results, failures = launch.results, []
    if is_told:
        debug = launch.debug and dataclasses.replace(
            launch.debug, arrays=launch.debug.arrays and (*launch.debug.arrays, *(s.param.name for s in split.seen))
        )
        roles = (*launch.roles, *[OUTPUT] * len(shapes))
        whole = before.replace(kernel=split.everything, roles=roles, results=(*results, *shapes), debug=debug)
        outcome = bind(whole, primals)
        found = dict(zip(launch.result_params, outcome, strict=False))
        records, failures = outcome[len(results) : len(results) + len(shapes)], outcome[len(results) + len(shapes) :]
    else:
        found, records = _record(bind, before, split, given, extents, shapes)
    return _rest(launch, split, given, extents, records, found, failures)


def _record(
    bind: Bind,
    launch: LaunchSpec,
    split: HandedOut,
    given: Mapping[int, Any],
    extents: Sequence[tuple[Any, ...]],
    shapes: Sequence[tuple[Any, ...]],
) -> tuple[dict[int, Any], list[Any]]:
    """Launch the recorder: what it leaves in the arrays, by parameter, and the records."""
    count = len(launch.roles)
    written = {op.param for op in walk(split.recorder.body) if isinstance(op, (Store, Atomic))}
    used = written | {op.param for op in walk(split.recorder.body) if isinstance(op, (Load, Size))}
    kept = [i for i, p in enumerate(split.recorder.params[:count]) if p in used]
    roles: list[str] = []
    operands: list[Any] = []
    for i in kept:
        is_written = split.recorder.params[i] in written
        is_output = is_written and launch.roles[i] == OUTPUT
        roles.append(OUTPUT if is_output else IN_OUT if is_written else INPUT)
        if not is_output:
            operands.append(_still(_entry(launch, given, extents, i)))
    params = (*(split.recorder.params[i] for i in kept), *split.recorder.params[count:])
    changed = [i for i, role in zip(kept, roles, strict=True) if role != INPUT]
    made = launch.replace(
        kernel=intern_kernel(dataclasses.replace(split.recorder, params=params)),
        roles=(*roles, *[OUTPUT] * len(shapes)),
        results=(*(extents[i] for i in changed), *shapes),
        has_side_effect=False,
    )
    outcome = bind(made, operands)
    found = {i: x for i, x in zip(changed, outcome, strict=False) if i in split.arrays}
    # An array that no thread writes is as it was.
    still = {i: given[i] for i in split.arrays & set(launch.result_params) - set(found)}
    return still | found, outcome[len(changed) :]


def _rest(
    launch: LaunchSpec,
    split: HandedOut,
    given: Mapping[int, Any],
    extents: Sequence[tuple[Any, ...]],
    records: Sequence[Any],
    found: Mapping[int, Any],
    failures: list[Any],
) -> Recorded:
    sized = {op.param for op in walk(split.kernel.body) if isinstance(op, Size)}
    params = split.kernel.params
    kept = tuple(i for i in range(len(launch.roles)) if i not in split.arrays or params[i] in sized)
    roles = [INPUT if i in split.arrays else launch.roles[i] for i in kept]
    operands = [_entry(launch, given, extents, i) for i, role in zip(kept, roles, strict=True) if role != OUTPUT]
    names = (launch.debug and launch.debug.arrays) or tuple(f"array {p.name}" for p in launch.kernel.params)
    own = (*(names[i] for i in kept), *(s.param.name for s in split.seen))
    made = launch.replace(
        kernel=intern_kernel(
            dataclasses.replace(split.kernel, params=(*(params[i] for i in kept), *params[len(launch.roles) :]))
        ),
        roles=(*roles, *[INPUT] * len(records)),
        results=tuple(extents[i] for i, role in zip(kept, roles, strict=True) if role != INPUT),
        factors=None,
        has_side_effect=False,
        debug=launch.debug and launch.debug.for_derivative(own),
    )
    return Recorded(made, [*operands, *records], kept, found, failures)


def _entry(launch: LaunchSpec, given: Mapping[int, Any], extents: Sequence[tuple[Any, ...]], i: int) -> Any:
    """Return what a parameter holds on entry: an output holds zeros."""
    return given[i] if i in given else jnp.zeros(extents[i], launch.kernel.params[i].dtype.numpy)


def _still(x: Any) -> Any:
    """Return an operand as a constant: integers do not move with it."""
    return jax.lax.stop_gradient(x)
