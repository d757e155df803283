"""Elements that are a thread's own though their indices are no sums of thread indices.

j = (7 * i) % 5                          by computing the index for every thread of the launch
a[j] = f(a[j])

y[s] = x[s]                              since the thread stores to every element that it reads, and `s` is found
for k in range(n) {                      in data: that no two threads store to one element is for the caller to
  y[s + k + 1] = f(y[s + k])             see to, as with all scatters
}
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from jaxwarp.analysis.dependence import Dependence, Sum
from jaxwarp.analysis.thread_values import Shapes, ThreadValues
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, For, Load, Op, Store, Value

Access = Load | Store | Atomic
# Of indices that are compared with each other, and of accesses.
_MOST_NUMBERS = 1 << 22
_MOST_PAIRS = 256
# Where these spread over more than so many times their count, they are sorted, if they are not too many for that.
_SPREAD = 2
_MOST_SORTED = 1 << 20
# How many iterations ago an element may have been stored.
_MOST_LAG = 8


class ThreadIndices:
    """The indices of a kernel's accesses, thread by thread, as far as they depend on the thread's index alone."""

    def __init__(self, kernel: Kernel, grid: Sequence[int | None], shapes: Shapes | None = None):
        self.values = ThreadValues(kernel, grid, shapes)

    def tell_apart(self, accesses: Sequence[Access], told: Collection[int] = ()) -> bool:
        """Does every element that these touch belong to one thread?

        Threads t and u meet at an element if all indices agree, and a part of the indices that depends on some axes of
        the grid agrees or not whatever the other axes are. So the pairs that meet are all combinations of those that
        meet in each part: they are pairs of a thread with itself if that is so in every part, or if there is a part
        in which nobody meets.

        Args:
            accesses: all of an array.
            told: axes of the grid on which threads that share an element are known to agree.
        """
        grid = self.values.grid
        wanted = {axis for axis, extent in enumerate(grid) if extent != 1} - set(told)
        if not accesses or not wanted or 0 in grid:
            return bool(accesses) and not wanted
        parts = _parts(self._columns(accesses), grid)
        if parts is None or not wanted <= {axis for part in parts for axis in part.axes}:
            return False
        # Constant indices that differ keep accesses apart, whatever the others are.
        kinds: dict[tuple[int, ...], list[int]] = {}
        fixed, varying = [p for p in parts if not p.axes], [p for p in parts if p.axes]
        for n in range(len(parts[0].codes)):
            kinds.setdefault(tuple(int(part.codes[n][0]) for part in fixed), []).append(n)
        return all(_share_nothing(varying, wanted, alike) for alike in kinds.values())

    def never_meet(self, a: Access, b: Access) -> bool:
        """Do the addresses provably differ, in every thread, whatever iterations of loops they are in?"""
        grid = self.values.grid
        if a.indices == b.indices or 0 in grid:
            return False
        parts = _parts(self._columns((a, b)), grid)
        return parts is not None and any(not (part.codes[0] == part.codes[1]).any() for part in parts)

    def never_meet_across(self, a: Access, b: Access) -> bool:
        """Do the addresses provably differ, also where they are those of two threads?"""
        if a.indices == b.indices or 0 in self.values.grid:
            return False
        parts = _parts(self._columns((a, b)), self.values.grid)
        return parts is not None and any(_are_disjoint(part, 0, 1) for part in parts)

    def _columns(self, accesses: Sequence[Access]) -> list[list[np.ndarray]]:
        """The indices along the axes of the array where they are known in all accesses."""
        distinct = dict.fromkeys(op.indices for op in accesses)
        found = [[self.values.of(index) for index in indices] for indices in distinct]
        by_axis = zip(*found, strict=True)
        return [known for column in by_axis if len(known := [v for v in column if v is not None]) == len(column)]


@dataclass(frozen=True)
class _Part:
    """Axes of an array whose indices depend on some axes of the grid, which no other part depends on.

    Attributes:
        axes: of the grid.
        codes: of each access, a number for each thread index along these axes: equal where the indices are.
        count: the numbers are less than that.
    """

    axes: frozenset[int]
    codes: list[np.ndarray]
    count: int


def _parts(columns: Sequence[Sequence[np.ndarray]], grid: Sequence[int | None]) -> list[_Part] | None:
    """`columns` has the indices of all accesses, for each axis of an array. None: too many threads, or no such axis."""
    groups: list[tuple[frozenset[int], list[Sequence[np.ndarray]]]] = []
    for column in columns:
        shape = np.broadcast_shapes(*(index.shape for index in column))
        axes, members = frozenset(axis for axis, extent in enumerate(shape) if extent > 1), [column]
        for group in [g for g in groups if g[0] & axes]:
            groups.remove(group)
            axes, members = axes | group[0], [*group[1], *members]
        groups.append((axes, members))
    parts: list[_Part] = []
    for axes, members in groups:
        shape = [int(extent or 0) if axis in axes else 1 for axis, extent in enumerate(grid)]
        part = _part(axes, members, shape) if math.prod(shape) * len(members[0]) <= _MOST_NUMBERS else None
        if part is None:
            return None
        parts.append(part)
    return parts or None


def _part(axes: frozenset[int], columns: Sequence[Sequence[np.ndarray]], shape: Sequence[int]) -> _Part | None:
    codes, count = [np.zeros(math.prod(shape), np.int64) for _ in columns[0]], 1
    numbers = len(codes[0]) * len(codes)
    for column in columns:
        wide = [np.broadcast_to(index, shape).ravel().astype(np.int64) for index in column]
        least = min(int(w.min()) for w in wide)
        span = max(int(w.max()) for w in wide) - least + 1
        if count * span > _SPREAD * numbers:
            if numbers > _MOST_SORTED:
                return None
            (count, codes), (span, wide), least = _renumbered(codes), _renumbered(wide), 0
        codes = [w - least if count == 1 else code * span + (w - least) for code, w in zip(codes, wide, strict=True)]
        count *= span
        if count > _SPREAD * numbers:
            count, codes = _renumbered(codes)
    return _Part(axes, codes, count)


def _renumbered(codes: Sequence[np.ndarray]) -> tuple[int, list[np.ndarray]]:
    """Equal where they were, and as small as that allows."""
    found, which = np.unique(np.concatenate(codes), return_inverse=True)
    return len(found), np.split(which.reshape(-1).astype(np.int64), len(codes))


def _share_nothing(parts: Sequence[_Part], wanted: Collection[int], accesses: Sequence[int]) -> bool:
    """Do no two threads that differ on axes in `wanted` meet at elements of these accesses?"""
    apart = [part for part in parts if not part.axes.isdisjoint(wanted)]
    if len(parts) == 1:
        return _is_own(parts[0], accesses)
    if not all(_is_own(part, (n,)) for part in apart for n in accesses):
        return False
    pairs = list(itertools.combinations(accesses, 2))
    return len(pairs) <= _MOST_PAIRS and all(
        all(_is_own(part, pair) for part in apart) or any(_are_disjoint(part, *pair) for part in parts)
        for pair in pairs
    )


def _is_own(part: _Part, accesses: Sequence[int]) -> bool:
    """Does a number stand for one thread index only, in all of these accesses?"""
    codes = [part.codes[n] for n in accesses]
    owner = np.zeros(part.count, np.int32)
    threads = np.arange(len(codes[0]), dtype=np.int32)
    for code in codes:
        owner[code] = threads
    return all(bool((owner[code] == threads).all()) for code in codes)


def _are_disjoint(part: _Part, a: int, b: int) -> bool:
    seen = np.zeros(part.count, bool)
    seen[part.codes[a]] = True
    return not seen[part.codes[b]].any()


class StoredElements:
    """Does a thread certainly store to an element that it reads, whenever it reads it?

    Args:
        dependence: of the kernel.
        blocks: the blocks around each access and each loop, the outermost first.
    """

    def __init__(self, dependence: Dependence, blocks: Mapping[Op, tuple[Block, ...]]):
        self.dependence = dependence
        self.blocks = blocks

    def covers(self, stores: Sequence[Store], op: Access) -> bool:
        """Return whether the thread has certainly stored to the element that `op` accesses.

        It did so some iterations ago, or in a loop over at least these elements.
        """
        if not all(map(self.dependence.are_of_one_array, zip(op.indices, *(s.indices for s in stores), strict=True))):
            return False
        read = [self.dependence.sum(index) for index in op.indices]
        return any(
            self._in_the_loop(stores, read, loop, variable) or self._in_another(stores, read, loop, variable)
            for loop in self.dependence.loops[op]
            for variable in loop.blocks[-1].params
            if variable in self.dependence.steps and loop.blocks[-1] in self.blocks[op]
            if all(self._is_fixed(sum_, loop, variable) for sum_ in read)
        )

    def _is_fixed(self, sum_: Sum, loop: Op, variable: Value) -> bool:
        """Return whether the variable is the only part of the sum that moves in the loop."""
        return all(value is variable or loop not in self.dependence.home[value] for value in sum_.terms)

    def _in_the_loop(self, stores: Sequence[Store], read: Sequence[Sum], loop: Op, variable: Value) -> bool:
        """Stored `lag` iterations ago in the same loop, and before it what the first iterations read."""
        step = self.dependence.steps[variable]
        first = (self.dependence.lowest if step > 0 else self.dependence.highest).get(variable)
        body = loop.blocks[-1]
        for lag in range(1, _MOST_LAG):
            if any(self._stores(s, [_moved(r, variable, lag * step) for r in read]) for s in stores
                   if self.blocks[s][-1] is body):  # fmt: skip
                outside = [s for s in stores if self.blocks[s][-1] in self.blocks[loop]]
                return first is not None and all(
                    any(self._stores(s, [_at(r, variable, first, iteration * step) for r in read]) for s in outside)
                    for iteration in range(lag)
                )
        return False

    def _in_another(self, stores: Sequence[Store], read: Sequence[Sum], loop: Op, variable: Value) -> bool:
        """Stored in a loop that goes over these elements too."""
        if not isinstance(loop, For) or variable is not loop.body.params[0]:
            return False
        for store, other in itertools.product(stores, self.blocks):
            if not isinstance(other, For) or self.blocks[store][-1] is not other.body or other is loop:
                continue
            index = other.body.params[0]
            if self.blocks[other][-1] not in self.blocks[loop] or index not in self.dependence.steps:
                continue
            if self._goes_over(store, read, variable, index):
                return True
        return False

    def _goes_over(self, store: Store, read: Sequence[Sum], variable: Value, index: Value) -> bool:
        dependence = self.dependence
        if abs(dependence.steps[variable]) != 1 or abs(dependence.steps[index]) != 1:
            return False
        shifts: set[int] = set()
        for r, place in zip(read, store.indices, strict=True):
            factor = r.terms.get(variable, 0)
            gap = r.plus(Sum(0, {variable: -factor, index: factor} if factor else {})).plus(dependence.sum(place), -1)
            if gap.terms or (gap.constant % factor if factor else gap.constant):
                return False
            shifts |= {gap.constant // factor} if factor else set()
        if len(shifts) != 1:
            return False
        (shift,) = shifts
        least = dependence.lowest[variable].plus(Sum(shift, {})).plus(dependence.lowest[index], -1)
        most = dependence.highest[index].plus(dependence.highest[variable].plus(Sum(shift, {})), -1)
        return not least.terms and not most.terms and least.constant >= 0 and most.constant >= 0

    def _stores(self, store: Store, place: Sequence[Sum]) -> bool:
        return all(self.dependence.sum(index) == p for index, p in zip(store.indices, place, strict=True))


def _moved(sum_: Sum, variable: Value, by: int) -> Sum:
    return Sum(sum_.constant + sum_.terms.get(variable, 0) * by, sum_.terms)


def _at(sum_: Sum, variable: Value, first: Sum, by: int) -> Sum:
    """The sum where the variable is `first + by`."""
    factor = sum_.terms.get(variable, 0)
    return sum_.plus(Sum(0, {variable: -factor})).plus(first.plus(Sum(by, {})), factor) if factor else sum_
