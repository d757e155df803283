"""The stores of different threads that may meet at an element.

Two stores do not meet if their indices differ, as far as extents are known. Stores do not meet either if all of them
have one and the same value, such as a flag that every thread sets.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

from jaxwarp.analysis.addresses import Grid, ownership_of
from jaxwarp.analysis.affine import Form
from jaxwarp.analysis.succession import Apart, LinearForms, Succession, told_at_run_time
from jaxwarp.analysis.thread_values import Shapes
from jaxwarp.analysis.waiting import waits
from jaxwarp.deep import with_deep_stack
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Call, Const, For, Load, Op, Param, Size, Store, Value, While, walk

# Of more stores to one array, no pairs are looked at.
_MOST_STORES = 24

Pair = tuple[Store, Store]


class Collisions:
    """Stores of a kernel that may meet.

    Args:
        kernel: the kernel.
        grid: launch extents, as far as they are known.
        shapes: extents of arrays, likewise.
    """

    def __init__(self, kernel: Kernel, grid: Grid | None = None, shapes: Shapes | None = None):
        self.kernel = kernel
        self.ownership = ownership_of(kernel, grid, shapes, sized=True)
        self._makers = {op.result: op for op in walk(kernel.body) if isinstance(op, Const | Size | Call | Load)}
        self._written = {op.param for op in walk(kernel.body) if isinstance(op, Store | Atomic)}
        self._same: dict[Value, Any] = {}

    def stored_only(self) -> Iterator[Param]:
        """The arrays to which the kernel stores, and does nothing else with."""
        for param, accesses in self.ownership.accesses.items():
            if param not in self.ownership.locals and all(isinstance(op, Store) for op in accesses):
                yield param

    def of(self, param: Param) -> list[Pair]:
        """The pairs of stores to an array that may meet (a store with itself, too); none if all are apart."""
        stores = [op for op in self.ownership.accesses.get(param, []) if isinstance(op, Store)]
        if not stores or self.ownership.tells_apart(stores):
            return []
        if len(stores) > _MOST_STORES:
            return [(stores[0], op) for op in stores]
        return [pair for pair in itertools.combinations_with_replacement(stores, 2) if self._may_meet(*pair)]

    def _may_meet(self, a: Store, b: Store) -> bool:
        if self._shared(a.value) is not None and self._shared(a.value) == self._shared(b.value):
            return False
        if a is b:
            return not self.ownership.tells_apart([a])
        is_apart = self._is_elsewhere(a, b) or self.ownership.tells_apart([a, b])
        return not (is_apart or self.ownership.never_meet_across(a, b))

    def _is_elsewhere(self, a: Store, b: Store) -> bool:
        """Do the addresses differ, whichever threads and iterations they are of?"""
        forms = self.ownership.addresses.forms
        return any(_are_apart(forms[i], forms[j]) for i, j in zip(a.indices, b.indices, strict=True))

    def _shared(self, value: Value) -> Any:
        """Return a key for a value that is the same for all threads and iterations; None if the value is not."""
        if value not in self._same:
            self._same[value] = self._find_shared(self._makers.get(value))
        return self._same[value]

    def _find_shared(self, op: Op | None) -> Any:
        match op:
            case Const():
                return (op.result.type, repr(op.value))
            case Size():
                return (op.param, op.axis)
            case Load() if not op.param.rank and op.param not in self._written | self.ownership.locals:
                return (op.param,)
            case Call():
                args = tuple(self._shared(v) for v in op.args)
                return None if None in args else (op.builtin, op.result.type, args)
            case _:
                return None


def _are_apart(a: Form | None, b: Form | None) -> bool:
    if a is None or b is None:
        return False
    (low, high), (least, most) = a.range(), b.range()
    step = math.gcd(*a.terms.values(), *b.terms.values())
    gap = a.constant - b.constant
    return high < least or most < low or bool(gap % step if step else gap)


@with_deep_stack
def succession_of(kernel: Kernel, grid: Grid, shapes: Shapes | None = None) -> Succession | None:
    """Return how the threads of a launch must follow each other, so that the last one to store to an element wins.

    None means in any order, at the same time. Arrays that the kernel also reads, or updates by atomics, require no
    order: a thread that meets another one there may or may not see what that one has done.
    """
    if waits(kernel, grid):
        return Succession(one_by_one=True)
    if all(n == 1 for n in grid):
        return None
    collisions = Collisions(kernel, grid, shapes)
    meeting = {p: pairs for p in collisions.stored_only() if (pairs := collisions.of(p))}
    if not meeting:
        return None
    in_loops = set(_stores_in_loops(kernel.body, False))
    in_step = all(a is b and a not in in_loops for pairs in meeting.values() for a, b in pairs)
    forms, found = LinearForms(kernel), list[Apart]()
    for param in meeting:
        stores = [op for op in collisions.ownership.accesses[param] if isinstance(op, Store)]
        left = {it.axis for it in collisions.ownership.addresses.forms.grid if it.extent != 1}
        left -= {it.axis for it in collisions.ownership.told(stores)}
        asked = told_at_run_time(forms, [op.indices for op in stores], frozenset(a for a in left if a is not None))
        if asked is None:
            return Succession(not in_step)
        found += asked
    return Succession(not in_step, tuple(found))


def _stores_in_loops(block: Block, is_inside: bool) -> Iterator[Store]:
    for op in block.ops:
        if isinstance(op, Store) and is_inside:
            yield op
        for inner in op.blocks:
            yield from _stores_in_loops(inner, is_inside or isinstance(op, For | While))
