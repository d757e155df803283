"""Accesses that are out of range for certain, found before a launch.

    y[i] = x[i + 1] - x[i]        4 threads, 4 elements: thread (3,) reads x[4]

Certain: some thread reaches the access whatever the data are, and its index is made of the thread's own index and of
extents that are known. The kernel is run as the interpreter runs it, with values that are known for some threads, or
for none, and with those threads that are known to be there: none where data decide. So there is no false alarm. Work is
bounded: of large launches and long loops a part is looked at, both ends and the surroundings of every extent and
constant, since that is where indices go astray.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxwarp.deep import with_deep_stack
from jaxwarp.errors import OutOfRangeError
from jaxwarp.ir.interpret import apply_builtin, counted_from_end, trip_counts
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Call, Const, For, If, Load, Op, Param, Size, Store, Tid, Value, While
from jaxwarp.passes.checks.reach import is_inside
from jaxwarp.passes.checks.steering import Steering, landmarks
from jaxwarp.passes.erase_rules import erase_rules

# A launch of more threads, and a loop of more iterations, is looked at in part.
_MOST_THREADS = 1 << 14
_MOST_ITERATIONS = 64
# Operations computed for one launch, some microseconds each; numbers in one of them, and in all, 1 to 3 ns each.
_MOST_STEPS = 4096
_MOST_NUMBERS = 1 << 20
_MOST_WORK = 1 << 23

_Shape = tuple[int | None, ...]


def require_in_range(kernel: Kernel, grid: Sequence[Any], shapes: Sequence[Sequence[Any] | None], fewer: str) -> None:
    """Refuses a launch in which some thread is certain to leave an array.

    Args:
        kernel: as the frontend makes it: its places in the source are the user's.
        grid: launch extents, at least as many as the kernel has indices. If one is no integer, nothing is certain.
        shapes: extents of each parameter; None, or an entry that is no integer, is unknown.
        fewer: how the caller would launch fewer threads, for the hint.

    Raises:
        OutOfRangeError: for the first such access of the program, and its first thread.
    """
    extents = [_static(n) for n in grid]
    threads = tuple(n for n in extents if n is not None)
    if len(threads) < len(extents) or 0 in threads:
        return
    known = tuple(_known_extents(p, shape) for p, shape in zip(kernel.params, shapes, strict=True))
    if is_inside(_erased(kernel), threads, known):
        return
    found = _first(kernel, threads, known)
    if found is not None:
        raise found.error(kernel.name, fewer)


def _static(extent: Any) -> int | None:
    return int(extent) if isinstance(extent, (int, np.integer)) else None


def _known_extents(param: Param, shape: Sequence[Any] | None) -> _Shape:
    """Return the known extents of a parameter; a value passed by value has those of its type, however it is given."""
    if shape is None or len(shape) != param.rank:
        return param.shape
    return tuple(_static(n) if fixed is None else fixed for n, fixed in zip(shape, param.shape, strict=True))


@dataclass(frozen=True)
class _Stray:
    """An access that leaves its array."""

    op: Load | Store | Atomic
    axis: int
    extent: int
    thread: tuple[int, ...]
    index: int

    def error(self, kernel: str, fewer: str) -> OutOfRangeError:
        hint = "reach it under a condition, or clamp the index with min and max"
        if self.index < 0 < self.extent:
            hint = f"indices go from 0 to {self.extent - 1}, or from -{self.extent} to -1; {hint}"
        elif any(self.thread):
            hint += f", or launch fewer threads: {fewer}"
        place = self.thread, self.index, self.axis, self.op.param.name, self.extent
        return OutOfRangeError.at(kernel, *place, loc=self.op.loc, hint=hint)


class _FoundError(Exception):
    """Ends the search."""

    def __init__(self, stray: _Stray):
        super().__init__()
        self.stray = stray


class _TooMuchError(Exception):
    """Ends the search: more would cost too much."""


@functools.lru_cache(maxsize=2048)
@with_deep_stack
def _first(kernel: Kernel, grid: tuple[int, ...], shapes: tuple[_Shape, ...]) -> _Stray | None:
    kernel = _erased(kernel)
    try:
        _Search(kernel, grid, dict(zip(kernel.params, shapes, strict=True))).run()
    except _FoundError as found:
        return found.stray
    except _TooMuchError:
        pass
    return None


# Once for all extents.
_erased = functools.lru_cache(maxsize=512)(erase_rules)
_steering = functools.lru_cache(maxsize=512)(Steering)


@dataclass(frozen=True)
class _Known:
    """A value, and for which threads it is known.

    The arrays broadcast. Their last axes are those of the grid; before them come the iterations of loops.
    """

    value: np.ndarray
    where: np.ndarray


class _Search:
    """Runs a kernel on what is known. A value that is not in `values` is known for no thread."""

    def __init__(self, kernel: Kernel, grid: tuple[int, ...], shapes: dict[Param, _Shape]):
        self.kernel = kernel
        self.shapes = shapes | {p: p.shape for p in kernel.locals}
        self.steering = _steering(kernel)
        self.landmarks = landmarks(kernel, self.shapes.values())
        self.threads = [_sample(n, most, self.landmarks) for n, most in zip(grid, _shares(grid), strict=True)]
        self.everywhere = np.ones([1] * len(grid), np.bool_)
        self.values: dict[Value, _Known] = {}
        self.loops = 0  # that are run in all their iterations at once
        self.steps, self.work = _MOST_STEPS, _MOST_WORK

    def run(self) -> None:
        self.block(self.kernel.body, self.everywhere)

    def block(self, block: Block, active: np.ndarray) -> list[_Known | None]:
        """Runs it for the threads that are certain to be there; what it hands on."""
        if not active.any():
            return [None] * len(block.results)
        for op in block.ops:
            if op in self.steering.ops:
                self.steps -= 1
                if self.steps < 0 or self.work < 0:
                    raise _TooMuchError
                self.op(op, active)
        return [self.values.get(v) for v in block.results]

    def op(self, op: Op, active: np.ndarray) -> None:
        match op:
            case Const():
                self.bind(op.result, self.number(op.result, op.value))
            case Tid():
                self.bind(op.result, _Known(self.thread_index(op.axis), self.everywhere))
            case Size():
                extent = self.shapes[op.param][op.axis]
                self.bind(op.result, None if extent is None else self.number(op.result, extent))
            case Call():
                self.bind(op.result, self.call(op))
            case Load() | Store() | Atomic():
                self.access(op, active)
            case If():
                self.if_(op, active)
            case For():
                self.for_(op, active)
            case While():
                self.while_(op, active)
            case _:
                pass

    def bind(self, value: Value, known: _Known | None) -> None:
        if known is None:
            self.values.pop(value, None)
        else:
            self.values[value] = known

    def bind_all(self, values: Sequence[Value], known: Sequence[_Known | None]) -> None:
        for value, one in zip(values, known, strict=True):
            self.bind(value, one if value in self.steering.values else None)

    def number(self, value: Value, number: Any) -> _Known:
        return _Known(np.full_like(self.everywhere, number, value.type.numpy), self.everywhere)

    def thread_index(self, axis: int) -> np.ndarray:
        points = self.threads[axis].astype(np.int32)
        return points.reshape([len(points) if a == axis else 1 for a in range(len(self.threads))])

    def together(self, *arrays: np.ndarray) -> list[np.ndarray] | None:
        """The arrays in one shape; None where that is too large to be worth it."""
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        self.work -= math.prod(shape)
        if math.prod(shape) > _MOST_NUMBERS:
            return None
        return [a if a.shape == shape else np.array(np.broadcast_to(a, shape)) for a in arrays]

    def all(self, *masks: np.ndarray) -> np.ndarray:
        """Return where all masks hold; nowhere if that is too much to compute."""
        arrays = self.together(*masks)
        return np.logical_and.reduce(arrays) if arrays is not None else np.zeros_like(self.everywhere)

    def call(self, op: Call) -> _Known | None:
        args = [self.values.get(v) for v in op.args]
        if op.builtin.name in ("logical_and", "logical_or"):
            return self.joined(op, args)
        if op.builtin.name == "select":
            return self.chosen(*args)
        known = [a for a in args if a is not None]
        # Machine code may contract floats, and rounds elementary functions in its own way.
        if len(known) < len(args) or any(v.type.is_float for v in (op.result, *op.args)):
            return None
        values = self.together(*(a.value for a in known))
        if values is None:
            return None
        with np.errstate(all="ignore"):
            return _Known(apply_builtin(op, values), self.all(*(a.where for a in known)))

    def joined(self, op: Call, args: Sequence[_Known | None]) -> _Known | None:
        """`and` and `or`: one side may decide whatever the other one is."""
        decisive = op.builtin.name == "logical_or"
        sides = [_Known(a.where & (a.value == decisive), a.where) for a in args if a is not None]
        if not sides:
            return None
        arrays = self.together(*(side.value for side in sides), *(side.where for side in sides))
        if arrays is None:
            return None
        decided = np.logical_or.reduce(arrays[: len(sides)])
        both = np.logical_and.reduce(arrays[len(sides) :]) if len(sides) == len(args) else np.False_
        return _Known(decided == decisive, decided | both)

    def access(self, op: Load | Store | Atomic, active: np.ndarray) -> None:
        for axis, value in enumerate(op.indices):
            known, extent = self.values.get(value), self.shapes[op.param][axis]
            if known is None or extent is None:
                continue
            outside = (known.value < 0) | (known.value >= extent)
            if outside.any():
                stray = self.all(outside, known.where, active)
                if stray.any():
                    thread, index = self.first(stray, known.value)
                    written = index - extent if value in counted_from_end(self.kernel) else index
                    raise _FoundError(_Stray(op, axis, extent, thread, written))

    def first(self, where: np.ndarray, index: np.ndarray) -> tuple[tuple[int, ...], int]:
        """The first thread, and its index in the first iteration."""
        iterations = where.ndim - len(self.threads)
        full = (*where.shape[:iterations], *map(len, self.threads))
        by_thread = np.broadcast_to(where, full).reshape(math.prod(full[:iterations]), -1)
        thread = int(np.flatnonzero(by_thread.any(axis=0))[0])
        iteration = int(np.flatnonzero(by_thread[:, thread])[0])
        at = (*np.unravel_index(iteration, full[:iterations]), *np.unravel_index(thread, full[iterations:]))
        place = tuple(int(points[i]) for points, i in zip(self.threads, at[iterations:], strict=True))
        return place, int(np.broadcast_to(index, full)[at])

    def either(self, test: np.ndarray, one: _Known | None, other: _Known | None) -> _Known | None:
        """`one` where the test holds, else `other`."""
        present = one or other
        if present is None:
            return None
        nothing = _Known(np.zeros_like(present.value), np.zeros_like(present.where))
        one, other = one or nothing, other or nothing
        arrays = self.together(test, one.value, other.value, one.where, other.where)
        if arrays is None:
            return None
        test, *rest = arrays
        return _Known(np.where(test, rest[0], rest[1]), np.where(test, rest[2], rest[3]))

    def chosen(self, test: _Known | None, one: _Known | None, other: _Known | None) -> _Known | None:
        return None if test is None else self.limited(self.either(test.value, one, other), test.where)

    def limited(self, known: _Known | None, where: np.ndarray) -> _Known | None:
        return None if known is None else _Known(known.value, self.all(known.where, where))

    def if_(self, op: If, active: np.ndarray) -> None:
        test = self.values.get(op.condition)
        if test is None:
            self.bind_all(op.results, [None] * len(op.results))
            return
        then = self.block(op.then, self.all(active, test.where, test.value))
        orelse = self.block(op.orelse, self.all(active, test.where, ~test.value))
        self.bind_all(op.results, [self.chosen(test, *sides) for sides in zip(then, orelse, strict=True)])

    def for_(self, op: For, active: np.ndarray) -> None:
        bounds = [self.values.get(v) for v in (op.start, op.stop, op.step)]
        known = [b for b in bounds if b is not None]
        arrays = self.together(*(b.value for b in known), self.everywhere) if len(known) == len(bounds) else None
        if arrays is None:
            self.bind_all(op.results, [None] * len(op.results))
            return
        start, stop, step = arrays[:3]
        active = self.all(active, *(b.where for b in known))
        trips = trip_counts(start, stop, step)
        most = int(np.where(active, trips, 0).max())
        run = self.one_by_one if self.steering.carries(op) else self.all_iterations
        run(op, active, _Iterations(start, step, trips, most))

    def all_iterations(self, op: For, active: np.ndarray, iterations: _Iterations) -> None:
        """Iterations that do not steer each other: along an axis of their own."""
        if not 0 < iterations.most < 1 << 62:
            return
        sample = _sample(iterations.most, _MOST_ITERATIONS, self.landmarks)
        numbers = sample.reshape(-1, *[1] * (self.loops + len(self.threads)))
        self.bind(op.body.params[0], _Known(iterations.index(numbers), self.everywhere))
        self.loops += 1
        self.block(op.body, self.all(active, iterations.trips > numbers))
        self.loops -= 1

    def one_by_one(self, op: For, active: np.ndarray, iterations: _Iterations) -> None:
        carried = [self.values.get(v) for v in op.inits]
        for number in range(min(iterations.most, _MOST_ITERATIONS)):
            running = self.all(active, iterations.trips > number)
            index = _Known(iterations.index(np.full_like(self.everywhere, number, np.int64)), self.everywhere)
            self.bind_all(op.body.params, [index, *carried])
            handed_on = self.block(op.body, running)
            carried = [self.either(running, new, old) for new, old in zip(handed_on, carried, strict=True)]
        over = self.all(active, iterations.trips <= _MOST_ITERATIONS)
        self.bind_all(op.results, [self.limited(known, over) for known in carried])

    def while_(self, op: While, active: np.ndarray) -> None:
        carried = [self.values.get(v) for v in op.inits]
        running, over = active, np.zeros_like(active)
        for _ in range(_MOST_ITERATIONS):
            self.bind_all(op.condition.params, carried)
            (going,) = self.block(op.condition, running)
            if going is None:
                break
            over = over | self.all(running, going.where, ~going.value)
            running = self.all(running, going.where, going.value)
            if not running.any():
                break
            self.bind_all(op.body.params, carried)
            handed_on = self.block(op.body, running)
            carried = [self.either(running, new, old) for new, old in zip(handed_on, carried, strict=True)]
        self.bind_all(op.results, [self.limited(known, over) for known in carried])


@dataclass(frozen=True)
class _Iterations:
    """The iterations of a `for`: where each thread starts, its step, how many it makes, and the most of any thread."""

    start: np.ndarray
    step: np.ndarray
    trips: np.ndarray
    most: int

    def index(self, number: np.ndarray) -> np.ndarray:
        return self.start + number.astype(self.start.dtype) * self.step


def _shares(grid: Sequence[int]) -> list[int]:
    """Return how many indices of each axis are looked at: all of them if their product is not too large."""
    shares, left = [0] * len(grid), _MOST_THREADS
    for done, axis in enumerate(sorted(range(len(grid)), key=grid.__getitem__)):
        shares[axis] = min(grid[axis], int(left ** (1 / (len(grid) - done)) + 1e-9))
        left //= shares[axis]
    return shares


def _sample(extent: int, most: int, marks: Sequence[int]) -> np.ndarray:
    """All numbers below the extent; of many both ends, what is around the landmarks, and some between."""
    if extent <= most:
        return np.arange(extent)
    part = most // 4
    near = [m + d for m in marks for d in range(-2, 3) if 0 <= m + d < extent][:part]
    between = np.linspace(0, extent - 1, part).astype(np.int64)
    steps = np.concatenate([np.arange(part), np.arange(extent - part, extent), np.array(near, int), between])
    # With indices NumPy sorts. Its hash table is C++ that aborts the process if Python ends in a daemon thread's call.
    return np.unique(steps, return_index=True)[0]
