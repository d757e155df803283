"""Arrays of which a launch visits each element at most once: what it takes or gives there, nobody else asks for.

Of such an array the reverse sweep need not clear the cotangent that a store consumed, nor add to the one that a load
makes: no other operation of the launch would see the difference.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jaxwarp.analysis.addresses import Access, Key, Ownership
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, For, If, Load, Op, Param, Store, While


@dataclass(frozen=True)
class _Visit:
    """An access, the loops around it, and which side of which branches it is on."""

    op: Access
    key: Key
    loops: frozenset[Op]
    sides: dict[Op, int]

    def excludes(self, other: _Visit) -> bool:
        """Do both stand in one branch, on different sides of it?"""
        return any(other.sides.get(branch, side) != side for branch, side in self.sides.items())


class SingleAccess:
    """The arrays of a kernel that are visited at most once."""

    def __init__(self, kernel: Kernel, ownership: Ownership):
        self.ownership = ownership
        self.addresses = ownership.addresses
        self.visits: dict[Param, list[_Visit]] = {}
        self._collect(kernel.body.ops, frozenset(), {})
        self._once: dict[Param, bool] = {}

    def at_most_once(self, param: Param) -> bool:
        """Does every element provably see at most one access, of all threads and iterations together?"""
        if param not in self._once:
            self._once[param] = self._is_once(param)
        return self._once[param]

    def only(self, param: Param, kind: type[Load] | type[Store] | type[Atomic]) -> bool:
        """Return whether all accesses of the array are of one kind."""
        return all(isinstance(visit.op, kind) for visit in self.visits.get(param, ()))

    def _collect(self, ops: Iterable[Op], loops: frozenset[Op], sides: dict[Op, int]) -> None:
        for op in ops:
            if isinstance(op, (Load, Store, Atomic)):
                self.visits.setdefault(op.param, []).append(_Visit(op, self.addresses.key(op), loops, sides))
            for n, block in enumerate(op.blocks):
                inside = loops | {op} if isinstance(op, (For, While)) else loops
                self._collect(block.ops, inside, {**sides, op: n} if isinstance(op, If) else sides)

    def _is_once(self, param: Param) -> bool:
        visits: Sequence[_Visit] = self.visits.get(param, ())
        if visits and not self.ownership.is_private(param):
            return False
        return all(self.addresses.is_new_each_time(v.key, set(v.loops)) for v in visits) and not any(
            self._may_meet(a, b) for a, b in itertools.combinations(visits, 2)
        )

    def _may_meet(self, a: _Visit, b: _Visit) -> bool:
        """Two operations of one thread, in any of their iterations."""
        loops = set(a.loops | b.loops)
        if self.addresses.never_meet(a.key, b.key, loops) or self.ownership.never_meet(a.op, b.op):
            return False
        # An element that both address is addressed in one iteration, which takes one side.
        return not (a.key == b.key and a.excludes(b) and self.addresses.is_new_each_time(a.key, loops))
