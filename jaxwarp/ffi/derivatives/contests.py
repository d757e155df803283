"""Launches before that of a derivative: who is the last to store to an element, and whether threads meet that may not.

See vjp/winners.py, and docs/design/0016-colliding-stores.md. And whether elements are named from the end, see
vjp/aliases.py.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp

from jaxwarp.ffi.derivatives.recording import Point, report
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Load, Size, Store, walk
from jaxwarp.launches.modes import debug_for
from jaxwarp.launches.spec import IN_OUT, INPUT, OUTPUT, LaunchSpec, intern_kernel, is_static
from jaxwarp.passes.checks.checked import Debug
from jaxwarp.passes.pipeline import fix_rounding
from jaxwarp.vjp.aliases import make_search
from jaxwarp.vjp.derived import Derived
from jaxwarp.vjp.winners import (
    LIMIT,
    Contest,
    Survey,
    hold_contest,
    hold_selection,
    make_survey,
    report_meeting,
    selected_only,
)

Bind = Callable[[LaunchSpec, Sequence[Any]], list[Any]]
Shape = tuple[Any, ...]
Extents = tuple[int | None, ...]

_CACHE = 512


@dataclasses.dataclass(frozen=True)
class _Key:
    """The data that a contest depends on: the kernel, the known extents, and where to find those of the grid."""

    kernel: Kernel
    fma: bool
    grid: Extents
    shapes: tuple[Extents, ...]
    extents: tuple[tuple[int, tuple[int, int]], ...]


def with_winners(
    bind: Bind, launch: LaunchSpec, operands: Sequence[Any], wanted: tuple[int, ...]
) -> tuple[LaunchSpec, list[Any]]:
    """A launch that does the same, in which no stores meet that are active by `wanted`, and its operands."""
    shapes = shapes_of(launch, operands)
    contest = _contest(_key(launch, shapes), wanted) if _may_store_twice(launch.kernel) else None
    if contest is None:
        return launch, list(operands)
    given = dict(zip(launch.operand_params, operands, strict=True))
    winners = _find(bind, launch, contest.finder, shapes, given, {})
    factors = launch.factors and (*launch.factors, *(launch.factors[i] for i in contest.arrays))
    made = launch.replace(
        kernel=contest.kernel,
        roles=(*launch.roles, *[INPUT] * len(contest.arrays)),
        factors=factors,
        debug=_debug_with(launch, contest.kernel),
    )
    return made, [*operands, *winners]


def with_selected(
    bind: Bind, launch: LaunchSpec, operands: Sequence[Any], results: Sequence[Any], wanted: tuple[int, ...]
) -> tuple[LaunchSpec, list[Any]]:
    """A launch that leaves the same minima and maxima, by stores that do not meet, and its operands.

    Args:
        results: those of the launch.
        wanted: the parameters by which it is to be differentiated.
    """
    shapes = shapes_of(launch, operands)
    selection = _selection(_key(launch, shapes), wanted) if _selects(launch.kernel) else None
    if selection is None:
        return launch, list(operands)
    given = dict(zip(launch.operand_params, operands, strict=True))
    finals = dict(zip(launch.result_params, results, strict=False))
    winners = _find(bind, launch, selection.finder, shapes, given, finals)
    arrays = (*selection.arrays, *selection.arrays)
    factors = launch.factors and (*launch.factors, *(launch.factors[i] for i in arrays))
    made = launch.replace(
        kernel=selection.kernel,
        roles=(*launch.roles, *[INPUT] * len(arrays)),
        factors=factors,
        debug=_debug_with(launch, selection.kernel),
    )
    return made, [*operands, *winners, *(finals[i] for i in selection.arrays)]


def meeting_factor(
    bind: Bind, launch: LaunchSpec, given: Mapping[int, Any], results: Mapping[int, Any], derived: Derived
) -> Any:
    """Return the factor of tangents: NaN if threads that read and write one array have met, else 1.

    None: no threads can meet. Where failures are reported, the call fails instead of giving NaN.

    Args:
        given, results: operands and results of the launch, by parameter.
        derived: its tangent. Arrays that this does not have do not matter.
    """
    asked = {slot.index for slot in derived.slots if slot.kind != "primal" or slot.reads}
    shapes = shapes_of(launch, [given[i] for i in launch.operand_params])
    survey = _survey(_key(launch, shapes))
    if survey is None or not any(i in asked for i, _ in survey.ways):
        return None
    found = iter(_find(bind, launch, survey.finder, shapes, given, results))
    factor: Any = None
    for i, ways in survey.ways:
        marks = {way: (next(found), next(found)) for way in ways}
        if i in asked:
            met = report(bind, launch, _meeting(launch.kernel, i), _have_met(marks))
            factor = met if factor is None else factor * met
    return factor


def may_be_from_end(launch: LaunchSpec) -> bool:
    """May the launch name elements from the end in an array of floats that it reads and writes?"""
    return _search(launch.kernel, launch.fma) is not None


def from_end_factor(bind: Bind, point: Point) -> Any:
    """Return the factor of cotangents where a sweep takes indices as they are written.

    The launch for it fails if an index counts from the end. Where nobody is told, it is NaN then, else 1.
    """
    launch = point.launch
    search = _search(launch.kernel, launch.fma)
    assert search is not None
    shapes = [point.shape(i) for i in range(len(launch.roles))]
    marks = _find(bind, launch, search, shapes, point.given, {})
    return jnp.where(functools.reduce(jnp.logical_or, [jnp.any(mark != 0) for mark in marks]), jnp.nan, 1.0)


def _have_met(marks: Mapping[str, tuple[Any, Any]]) -> Any:
    """Do stores of two threads meet at an element, or accesses of two threads in two ways?"""
    met = jnp.zeros((), bool)
    ways = list(marks)
    for n, a in enumerate(ways):
        last, first = marks[a]
        if a == "stores":
            met |= jnp.any((last != 0) & (last + first != LIMIT))
        for b in ways[n + 1 :]:
            other, others = marks[b]
            is_one = (last == other) & (first == others) & (last + first == LIMIT)
            met |= jnp.any((last != 0) & (other != 0) & ~is_one)
    return met


def _find(
    bind: Bind,
    launch: LaunchSpec,
    derived: Derived,
    shapes: Sequence[Shape],
    given: Mapping[int, Any],
    results: Mapping[int, Any],
) -> list[Any]:
    """Launches a finder; what it has found."""
    roles: list[str] = []
    made: list[Shape] = []
    operands: list[Any] = []
    for slot in derived.slots:
        is_output = launch.roles[slot.index] == OUTPUT or slot.kind == "winner"
        role = (OUTPUT if is_output else IN_OUT) if slot.writes else INPUT
        roles.append(role)
        if role != INPUT:
            made.append(shapes[slot.index])
        if role != OUTPUT:
            dtype = launch.kernel.params[slot.index].dtype.numpy
            empty = functools.partial(jnp.zeros, shapes[slot.index], dtype)  # what an output holds on entry
            operands.append(
                results[slot.index] if slot.kind == "final" else given[slot.index] if slot.index in given else empty()
            )
    finder = launch.replace(
        kernel=derived.kernel,
        roles=tuple(roles),
        results=tuple(made),
        has_side_effect=False,
        factors=launch.factors and tuple(launch.factors[slot.index] for slot in derived.slots),
        in_order=False,
        debug=_called_after(launch, [slot.index for slot in derived.slots])
        if launch.debug
        else debug_for(derived.kernel, "release"),
    )
    written = [slot for slot, role in zip(derived.slots, roles, strict=True) if role != INPUT]
    values = bind(finder, operands)
    return [value for slot, value in zip(written, values, strict=True) if slot.kind == "winner"]


def _debug_with(launch: LaunchSpec, kernel: Kernel) -> Debug | None:
    """Debug mode for a kernel that has more parameters than that of the launch."""
    if launch.debug is None or not launch.debug.arrays:
        return launch.debug
    more = (p.name for p in kernel.params[len(launch.roles) :])
    return dataclasses.replace(launch.debug, arrays=(*launch.debug.arrays, *more))


def _called_after(launch: LaunchSpec, params: Sequence[int]) -> Debug:
    """Debug mode for a kernel whose parameters are called after these of the launch."""
    assert launch.debug is not None
    before = launch.debug.arrays or tuple(f"array {p.name}" for p in launch.kernel.params)
    return launch.debug.for_derivative(tuple(before[i] for i in params))


def shapes_of(launch: LaunchSpec, operands: Sequence[Any]) -> list[Shape]:
    """Return the shapes of all parameters."""
    known: dict[int, Shape] = dict(zip(launch.result_params, launch.results, strict=True))
    known |= {i: tuple(jnp.shape(x)) for i, x in zip(launch.operand_params, operands, strict=True)}
    return [known[i] for i in range(len(launch.roles))]


def _key(launch: LaunchSpec, shapes: Sequence[Shape]) -> _Key:
    asked = _extents_asked(launch.kernel)
    known = tuple(
        tuple(int(n) if (i, axis) in asked and is_static(n) else None for axis, n in enumerate(shape))
        for i, shape in enumerate(shapes)
    )
    extents = {
        axis: next(
            ((i, a) for i, shape in enumerate(shapes) for a, n in enumerate(shape) if not is_static(n) and n == dim),
            None,
        )
        for axis, dim in enumerate(launch.grid)
        if not is_static(dim)
    }
    grid = tuple(int(n) if is_static(n) else None for n in launch.grid)
    found = tuple((axis, place) for axis, place in extents.items() if place is not None)
    return _Key(launch.kernel, launch.fma, grid, known, found)


@functools.lru_cache(maxsize=_CACHE)
def _extents_asked(kernel: Kernel) -> frozenset[tuple[int, int]]:
    """The extents that the kernel computes with."""
    sizes = [op for op in walk(kernel.body) if isinstance(op, Size) and op.param in kernel.params]
    return frozenset((kernel.params.index(op.param), op.axis) for op in sizes)


@functools.lru_cache(maxsize=_CACHE)
def _may_store_twice(kernel: Kernel) -> bool:
    """Return whether there is a store of floats to an array that the kernel does not read."""
    read = {op.param for op in walk(kernel.body) if isinstance(op, Load)}
    return any(isinstance(op, Store) and op.param.dtype.is_float and op.param not in read for op in walk(kernel.body))


@functools.lru_cache(maxsize=_CACHE)
def _selects(kernel: Kernel) -> bool:
    return bool(selected_only(kernel))


@functools.lru_cache(maxsize=_CACHE)
def _contest(key: _Key, wanted: tuple[int, ...]) -> Contest | None:
    return _held(hold_contest, key, wanted)


@functools.lru_cache(maxsize=_CACHE)
def _selection(key: _Key, wanted: tuple[int, ...]) -> Contest | None:
    return _held(hold_selection, key, wanted)


def _held(hold: Callable[..., Contest | None], key: _Key, wanted: tuple[int, ...]) -> Contest | None:
    kernel = fix_rounding(key.kernel, fma=key.fma)
    found = hold(kernel, wanted, key.grid, dict(zip(kernel.params, key.shapes, strict=True)), dict(key.extents))
    if found is None:
        return None
    finder = dataclasses.replace(found.finder, kernel=intern_kernel(found.finder.kernel))
    return dataclasses.replace(found, finder=finder, kernel=intern_kernel(found.kernel))


@functools.lru_cache(maxsize=_CACHE)
def _search(kernel: Kernel, fma: bool) -> Derived | None:
    found = make_search(fix_rounding(kernel, fma=fma))
    return found and dataclasses.replace(found, kernel=intern_kernel(found.kernel))


@functools.lru_cache(maxsize=_CACHE)
def _meeting(kernel: Kernel, index: int) -> Kernel:
    return intern_kernel(report_meeting(kernel, index))


@functools.lru_cache(maxsize=_CACHE)
def _survey(key: _Key) -> Survey | None:
    kernel = fix_rounding(key.kernel, fma=key.fma)
    found = make_survey(kernel, key.grid, dict(zip(kernel.params, key.shapes, strict=True)), dict(key.extents))
    if found is None:
        return None
    finder = dataclasses.replace(found.finder, kernel=intern_kernel(found.finder.kernel))
    return dataclasses.replace(found, finder=finder)
