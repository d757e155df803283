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
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxwarp.ir.interpret import apply_builtin
from jaxwarp.ir.nodes import Atomic, Block, Call, Const, For, Kernel, Load, Op, Store, Tid, Value, walk
from jaxwarp.vjp.order import Order, Sum

Access = Load | Store | Atomic
# Launches of more threads are not looked at, nor indices made by longer chains of operations.
_MOST_THREADS = 1 << 16
_MOST_STEPS = 64
# How many turns ago an element may have been stored.
_MOST_LAG = 8


class ThreadIndices:
    """Integers of a kernel that depend on the thread's index alone, for each thread of a launch."""

    def __init__(self, kernel: Kernel, grid: Sequence[int | None]):
        extents = [n for n in grid if n is not None]
        self.known = len(extents) == len(grid) and 0 < math.prod(extents) <= _MOST_THREADS
        self._definitions = {op.result: op for op in walk(kernel.body) if isinstance(op, Const | Tid | Call)}
        self._found: dict[Value, np.ndarray | None] = {}
        self._grid = [np.ravel(n) for n in np.indices(extents, np.int32)] if self.known else []

    def tell_apart(self, accesses: Sequence[Access]) -> bool:
        """Does every element that these touch belong to one thread? Told by the indices that are known in all."""
        if not self.known or not accesses:
            return False
        found = [[self._of(index, _MOST_STEPS) for index in op.indices] for op in accesses]
        axes = [axis for axis in range(len(found[0])) if all(of[axis] is not None for of in found)]
        if not axes:
            return False
        count = len(self._grid[0])
        places = np.concatenate([np.stack([np.broadcast_to(of[axis], count) for axis in axes], 1) for of in found])
        threads = np.tile(np.arange(count), len(found))
        _, which = np.unique(places, axis=0, return_inverse=True)
        which = which.reshape(-1)
        owner = np.zeros(len(which), np.int64)
        owner[which] = threads
        return bool((owner[which] == threads).all())

    def _of(self, value: Value, steps: int) -> Any:
        if value not in self._found:
            self._found[value] = self._computed(self._definitions.get(value), steps) if steps else None
        return self._found[value]

    def _computed(self, op: Op | None, steps: int) -> Any:
        match op:
            case Const():
                return np.full(1, op.value, op.result.type.numpy)
            case Tid():
                return self._grid[op.axis]
            case Call() if not any(v.type.is_float for v in (op.result, *op.args)):
                args = [self._of(v, steps - 1) for v in op.args]
                if any(a is None for a in args):
                    return None
                with np.errstate(all="ignore"):
                    return apply_builtin(op, [np.array(a) for a in np.broadcast_arrays(*args)])
            case _:
                return None


class StoredElements:
    """Does a thread certainly store to an element that it reads, whenever it reads it?

    Args:
        order: of the kernel.
        blocks: the blocks around each access and each loop, the outermost first.
    """

    def __init__(self, order: Order, blocks: Mapping[Op, tuple[Block, ...]]):
        self.order = order
        self.blocks = blocks

    def covers(self, stores: Sequence[Store], op: Access) -> bool:
        """By a store some turns ago, or in a loop over as many elements; other turns than these are looked at too."""
        read = [self.order.sum(index) for index in op.indices]
        return any(
            self._in_the_loop(stores, read, loop, variable) or self._in_another(stores, read, loop, variable)
            for loop in self.order.loops[op]
            for variable in loop.blocks[-1].params
            if variable in self.order.steps and loop.blocks[-1] in self.blocks[op]
            if all(self._is_fixed(sum_, loop, variable) for sum_ in read)
        )

    def _is_fixed(self, sum_: Sum, loop: Op, variable: Value) -> bool:
        """Is the variable all that moves in the loop?"""
        return all(value is variable or loop not in self.order.home[value] for value in sum_.terms)

    def _in_the_loop(self, stores: Sequence[Store], read: Sequence[Sum], loop: Op, variable: Value) -> bool:
        """Stored `lag` turns ago in the same loop, and before it what the first turns read."""
        step = self.order.steps[variable]
        first = (self.order.lowest if step > 0 else self.order.highest).get(variable)
        body = loop.blocks[-1]
        for lag in range(1, _MOST_LAG):
            if any(self._stores(s, [_moved(r, variable, lag * step) for r in read]) for s in stores
                   if self.blocks[s][-1] is body):  # fmt: skip
                outside = [s for s in stores if self.blocks[s][-1] in self.blocks[loop]]
                return first is not None and all(
                    any(self._stores(s, [_at(r, variable, first, turn * step) for r in read]) for s in outside)
                    for turn in range(lag)
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
            if self.blocks[other][-1] not in self.blocks[loop] or index not in self.order.steps:
                continue
            if self._goes_over(store, read, variable, index):
                return True
        return False

    def _goes_over(self, store: Store, read: Sequence[Sum], variable: Value, index: Value) -> bool:
        order = self.order
        if abs(order.steps[variable]) != 1 or abs(order.steps[index]) != 1:
            return False
        shifts: set[int] = set()
        for r, place in zip(read, store.indices, strict=True):
            factor = r.terms.get(variable, 0)
            gap = r.plus(Sum(0, {variable: -factor, index: factor} if factor else {})).plus(order.sum(place), -1)
            if gap.terms or (gap.constant % factor if factor else gap.constant):
                return False
            shifts |= {gap.constant // factor} if factor else set()
        if len(shifts) != 1:
            return False
        (shift,) = shifts
        least = order.lowest[variable].plus(Sum(shift, {})).plus(order.lowest[index], -1)
        most = order.highest[index].plus(order.highest[variable].plus(Sum(shift, {})), -1)
        return not least.terms and not most.terms and least.constant >= 0 and most.constant >= 0

    def _stores(self, store: Store, place: Sequence[Sum]) -> bool:
        return all(self.order.sum(index) == p for index, p in zip(store.indices, place, strict=True))


def _moved(sum_: Sum, variable: Value, by: int) -> Sum:
    return Sum(sum_.constant + sum_.terms.get(variable, 0) * by, sum_.terms)


def _at(sum_: Sum, variable: Value, first: Sum, by: int) -> Sum:
    """The sum where the variable is `first + by`."""
    factor = sum_.terms.get(variable, 0)
    return sum_.plus(Sum(0, {variable: -factor})).plus(first.plus(Sum(by, {})), factor) if factor else sum_
