"""Sums that threads make in elements around their own, seen from the elements.

    thread i:  x[i] += u;  if i > 0 { x[i - 1] += v }

is for the element p the sum of u of thread p and of v of thread p + 1, if p + 1 is a thread that has one. So are sums
whose indices wrap or stop at the ends: the threads that add to an element are, along each axis, at a few distances
from it. Where an index depends on data or on a loop, nothing is known.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jaxwarp.analysis.integers.conditions import conjuncts
from jaxwarp.analysis.scatter.lines import Line, Piece, ThreadLines
from jaxwarp.deep import with_deep_stack
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, If, Load, Op, Param, Store, Tell, Value, walk
from jaxwarp.types import float32, float64, int32, int64, uint32, uint64

_SUMMED = (float32, float64, int32, int64, uint32, uint64)
# Of one axis: pieces of an index, and intervals of threads that run an addition. A clamped index of several threads is
# a piece for each.
_MOST_MOVES = 8
# Of an array: threads for each element, of which each has a copy of the code, and operations of all copies.
_MOST_SOURCES = 64
_MOST_COPIED = 2000

Interval = tuple[int, int]


class Move(NamedTuple):
    """Threads from `first` to `last` along an axis of the grid, whose elements are `by` further along the array's."""

    first: int
    last: int
    by: int


class AddingThreads(NamedTuple):
    """The threads along an axis of the grid that add to elements, by elements in order and without gaps."""

    moves: tuple[Move, ...]

    @property
    def is_own(self) -> bool:
        """True if each thread adds to its own element."""
        return all(move.by == 0 for move in self.moves)

    @property
    def first(self) -> int:
        """The first of the elements."""
        return self.moves[0].first + self.moves[0].by

    @property
    def last(self) -> int:
        return self.moves[-1].last + self.moves[-1].by


class Addition(NamedTuple):
    """One atomic addition, and where it is along the axes of the array that no axis of the grid goes along."""

    op: Atomic
    component: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Scatter:
    """The additions of threads to an array.

    Attributes:
        param: the array.
        axes: of each of its axes, which axis of the grid it follows; None: its index is a constant.
        sources: the additions that come from one thread for each element; a source for each axis of the grid, None
            for those of one thread, which the array does not follow.
    """

    param: Param
    axes: tuple[int | None, ...]
    sources: Mapping[tuple[AddingThreads | None, ...], Sequence[Addition]]

    def reach(self, axis: int) -> Interval:
        """The first and last element along an axis of the grid."""
        along = [source for sources in self.sources if (source := sources[axis]) is not None]
        return (min(s.first for s in along), max(s.last for s in along)) if along else (0, 0)


def only_added_to(kernel: Kernel) -> dict[Param, list[Atomic]]:
    """The arrays that a kernel does nothing to but add, and the additions, if threads could do those of others."""
    ops = list(walk(kernel.body))
    if kernel.locals or any(isinstance(op, Tell) for op in ops):
        return {}
    used = {v for op in ops for v in (*op.operands, *(r for b in op.blocks for r in b.results))}
    touched: dict[Param, list[Op]] = {}
    for op in ops:
        if isinstance(op, (Load, Store, Atomic)):
            touched.setdefault(op.param, []).append(op)
    found: dict[Param, list[Atomic]] = {}
    for param in kernel.params:
        adds = [op for op in touched.get(param, ()) if isinstance(op, Atomic) and _is_sum(op, used)]
        if adds and len(adds) == len(touched[param]) and param.dtype in _SUMMED:
            found[param] = adds
    return found


def scatters(kernel: Kernel, grid: Sequence[int], lines: ThreadLines) -> list[Scatter]:
    """The arrays that a kernel does nothing to but add, with values that any thread could compute.

    Args:
        kernel: a prepared one, of constant extents.
        grid: the launch.
        lines: of the kernel.
    """
    if math.prod(grid) == 0:
        return []
    written = {op.param for op in walk(kernel.body) if isinstance(op, (Store, Atomic))}
    paths = _Paths(kernel)
    found: list[Scatter] = []
    for param, adds in only_added_to(kernel).items():
        if None not in param.shape and all(op in paths.around for op in adds) and paths.are_pure(adds, written):
            scatter = _scatter(param, adds, grid, lines, paths)
            found += [scatter] if scatter is not None else []
    return found


@with_deep_stack
def placing_numbers(kernel: Kernel) -> frozenset[int]:
    """The parameters that hold one integer, by position, on which it depends where the kernel adds, and whether."""
    added = only_added_to(kernel)
    if not added:
        return frozenset()
    paths = _Paths(kernel)
    adds = [op for ops in added.values() for op in ops if op in paths.around]
    written = {op.param for op in walk(kernel.body) if isinstance(op, (Store, Atomic))}
    read = {op.param for op in paths.made_of(v for op in adds for v in op.indices) if isinstance(op, Load)}
    read |= {op.param for op in paths.made_of(paths.conditions(adds)) if isinstance(op, Load)}
    is_number = (p in read and not p.shape and p.dtype.is_int and p not in written for p in kernel.params)
    return frozenset(i for i, found in enumerate(is_number) if found)


def _is_sum(op: Atomic, used: set[Value]) -> bool:
    return op.kind == "add" and op.result not in used


class _Paths:
    """The conditions under which operations outside of loops run, and what values are computed from."""

    def __init__(self, kernel: Kernel):
        self.around: dict[Op, tuple[tuple[Value, bool], ...]] = {}
        self.definition: dict[Value, Op] = {}
        self._block(kernel.body, ())
        for op in walk(kernel.body):
            self.definition.update((v, op) for v in (*op.defined, *(p for b in op.blocks for p in b.params)))

    def _block(self, block: Block, around: tuple[tuple[Value, bool], ...]) -> None:
        for op in block.ops:
            self.around[op] = around
            if isinstance(op, If):
                self._block(op.then, (*around, (op.condition, True)))
                self._block(op.orelse, (*around, (op.condition, False)))

    def conditions(self, adds: Iterable[Atomic]) -> list[Value]:
        return [c for op in adds for c, _ in self.around[op]]

    def slice(self, adds: Sequence[Atomic]) -> set[Op]:
        """Return the operations that compute the values added and the conditions of the additions."""
        return self.made_of((*(v for op in adds for v in op.args), *self.conditions(adds)))

    def made_of(self, values: Iterable[Value]) -> set[Op]:
        """Return the operations that compute values."""
        waiting = [*values]
        found: set[Op] = set()
        while waiting:
            op = self.definition[waiting.pop()]
            if op not in found:
                found.add(op)
                waiting += op.operands
                waiting += (v for inner in op.blocks for v in inner.results)
        return found

    def are_pure(self, adds: Sequence[Atomic], written: set[Param]) -> bool:
        """Could any thread compute the values, at any time?"""
        return not any(
            isinstance(op, (Store, Atomic)) or (isinstance(op, Load) and op.param in written) for op in self.slice(adds)
        )


def _scatter(
    param: Param, adds: Sequence[Atomic], grid: Sequence[int], lines: ThreadLines, paths: _Paths
) -> Scatter | None:
    known = [[lines.of(index) for index in op.indices] for op in adds]
    axes = _axes(known, grid)
    if axes is None:
        return None
    sources: dict[tuple[AddingThreads | None, ...], list[Addition]] = {}
    for op, indices in zip(adds, known, strict=True):
        runs = _runs(op, grid, lines, paths)
        if runs is None:  # too many intervals
            return None
        by_axis: list[list[AddingThreads | None]] = [[None] for _ in grid]
        component: list[int] = []
        for place, (axis, line) in enumerate(zip(axes, indices, strict=True)):
            assert line is not None
            if axis is None:
                component.append(line.pieces[0].offset)
                continue
            found = _sources(line, runs[axis], param.shape[place] or 0)
            if found is None:
                return None
            by_axis[axis] = list(found)
        for each in itertools.product(*by_axis) if all(runs) else ():
            sources.setdefault(each, []).append(Addition(op, tuple(component)))
    if not sources or len(sources) > _MOST_SOURCES or not _are_inside(param, axes, sources):
        return None
    copied = sum(len(paths.slice([add.op for add in each])) for each in sources.values())
    return Scatter(param, axes, sources) if copied <= _MOST_COPIED else None


def _are_inside(
    param: Param, axes: Sequence[int | None], sources: Mapping[tuple[AddingThreads | None, ...], Sequence[Addition]]
) -> bool:
    extents = [n or 0 for n, axis in zip(param.shape, axes, strict=True) if axis is None]
    return all(
        all(0 <= c < n for c, n in zip(add.component, extents, strict=True))
        for adds in sources.values()
        for add in adds
    )


def _axes(known: Sequence[Sequence[Line | None]], grid: Sequence[int]) -> tuple[int | None, ...] | None:
    """Return the grid axis that each index follows, alike in all additions; None: threads share elements, or may."""
    found: list[int | None] = []
    for column in zip(*known, strict=True):
        lines = [line for line in column if line is not None]
        axes = {line.axis for line in lines}
        if len(lines) < len(column) or len(axes) != 1:
            return None
        found += axes
    followed = [axis for axis in found if axis is not None]
    wanted = {axis for axis, extent in enumerate(grid) if extent > 1}
    return tuple(found) if len(set(followed)) == len(followed) and wanted <= set(followed) else None


def _runs(op: Atomic, grid: Sequence[int], lines: ThreadLines, paths: _Paths) -> list[list[Interval]] | None:
    """Along each axis of the grid, the threads that may run an operation."""
    runs: list[list[Interval]] = [[(0, extent - 1)] for extent in grid]
    for condition, truth in paths.around[op]:
        for value, wanted in conjuncts(condition, truth, paths.definition):
            line = lines.of(value)
            if line is None:
                continue
            held = [(p.first, p.last) for p in line.pieces if bool(p.offset) == wanted]
            if line.axis is not None:
                runs[line.axis] = _common(runs[line.axis], held)
            elif not held:
                return [[] for _ in grid]
    return runs if all(len(along) <= _MOST_MOVES for along in runs) else None


def _common(a: Sequence[Interval], b: Sequence[Interval]) -> list[Interval]:
    both = ((max(p[0], q[0]), min(p[1], q[1])) for p in a for q in b)
    return sorted((first, last) for first, last in both if first <= last)


def _sources(line: Line, runs: Sequence[Interval], extent: int) -> list[AddingThreads] | None:
    """Return which threads add to which elements along an axis; an element occurs at most once in a source."""
    moves: list[Move] = []
    for piece in line.pieces:
        for first, last in _common(runs, [(piece.first, piece.last)]):
            if last > first and (piece.slope not in (0, 1) or (piece.slope == 0 and last - first >= _MOST_MOVES)):
                return None
            for move in _moves(piece, first, last):
                # Elements outside of the array are nobody's.
                low, high = max(move.first, -move.by), min(move.last, extent - 1 - move.by)
                moves += [Move(low, high, move.by)] if low <= high else []
    if len(moves) > _MOST_MOVES:
        return None
    found: list[list[Move]] = []
    for move in sorted(moves, key=lambda m: m.first + m.by):
        end = move.first + move.by - 1
        joined = next((s for s in found if s[-1].last + s[-1].by == end), None)
        if joined is not None:
            joined.append(move)
        else:
            found.append([move])
    return [AddingThreads(tuple(s)) for s in found]


def _moves(piece: Piece, first: int, last: int) -> list[Move]:
    """One, if elements follow one another as threads do, else one for each thread."""
    if piece.slope == 1:
        return [Move(first, last, piece.offset)]
    return [Move(t, t, piece.at(t) - t) for t in range(first, last + 1)]
