"""What the reverse sweep may assume about arrays: whose elements are whose, and which loads it can do again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from jaxwarp.errors import DifferentiationError
from jaxwarp.ir.nodes import Atomic, For, Kernel, Load, Op, Param, Store, Value, While, walk
from jaxwarp.passes.affine import Forms
from jaxwarp.passes.effects import analyze

Access = Load | Store | Atomic
Grid = Sequence[int | None]
# An index as it can be compared: its affine form ("form", terms, constant), or ("value", value).
Position = tuple[Any, ...]
Key = tuple[Position, ...]


class Addresses:
    """Comparable addresses of a kernel's accesses."""

    def __init__(self, kernel: Kernel, grid: Grid | None = None):
        self.grid = list(grid) if grid is not None else [None] * kernel.grid_rank
        self.forms = Forms(kernel, self.grid)
        # What counts the iterations of a loop: the iterator of its forms, or its index.
        self.counters: dict[Any, Op] = {}
        for op in walk(kernel.body):
            if isinstance(op, For):
                index = op.body.params[0]
                form = self.forms[index]
                self.counters.update((it, op) for it in ((index,) if form is None else form.terms))

    def key(self, op: Access) -> Key:
        return tuple(self._position(v) for v in op.indices)

    def _position(self, value: Value) -> Position:
        form = self.forms[value]
        if form is not None:
            return ("form", frozenset(form.terms.items()), form.constant)
        return ("form", frozenset({(value, 1)}), 0) if value in self.counters else ("value", value)

    def loops_of(self, position: Position) -> dict[Op, int]:
        """The loops that an index moves with, and its stride in each."""
        terms = position[1] if position[0] == "form" else ()
        return {self.counters[it]: coefficient for it, coefficient in terms if it in self.counters}

    def never_meet(self, a: Key, b: Key, loops: set[Op]) -> bool:
        """Do the addresses provably differ in every thread, also in different iterations of `loops`?

        Two accesses with the same address are not meant: they meet.
        """
        for p, q in zip(a, b, strict=True):
            if p[0] == q[0] == "form" and p[1] == q[1] and p[2] != q[2]:
                stride = math.gcd(*(c for loop, c in self.loops_of(p).items() if loop in loops))
                if stride == 0 or (p[2] - q[2]) % stride:
                    return True
        return False

    def is_new_each_time(self, key: Key, loops: set[Op]) -> bool:
        """Is the address another one in each iteration of `loops`?"""
        moving = [set(self.loops_of(position)) for position in key]
        return all({loop} in moving for loop in loops)


def are_disjoint(a: Key, b: Key) -> bool:
    """Do the addresses provably differ, in every thread and at any one time?"""
    return any(p[0] == q[0] == "form" and p[1] == q[1] and p[2] != q[2] for p, q in zip(a, b, strict=True))


class Ownership:
    """Which arrays are partitioned among the threads: no element is touched by two of them."""

    def __init__(self, kernel: Kernel, grid: Grid | None = None):
        self.addresses = Addresses(kernel, grid)
        self.locals = frozenset(kernel.locals)
        self.effects = analyze(kernel)
        self.accesses: dict[Param, list[Access]] = {}
        for op in walk(kernel.body):
            if isinstance(op, (Load, Store, Atomic)):
                self.accesses.setdefault(op.param, []).append(op)
        self._private: dict[Param, bool] = {}

    def is_private(self, param: Param) -> bool:
        """True if some axes of the array are indexed alike by all accesses, and tell all threads apart."""
        if param not in self._private:
            self._private[param] = param in self.locals or self._is_partitioned(param)
        return self._private[param]

    def _is_partitioned(self, param: Param) -> bool:
        accesses = self.accesses.get(param, [])
        keys = [self.addresses.key(op) for op in accesses]
        alike = [axis for axis in range(param.rank) if len({key[axis] for key in keys}) == 1]
        if not accesses:
            return False
        common = Load(Value(param.dtype), param, tuple(accesses[0].indices[axis] for axis in alike))
        return self.effects.injective(common, self.addresses.grid)


def require_pure_conditions(kernel: Kernel) -> None:
    """Refuses effects in the condition of a `while`, which would have to be reversed too."""
    for op in walk(kernel.body):
        if isinstance(op, While):
            for inner in walk(op.condition):
                if isinstance(inner, (Store, Atomic)):
                    raise DifferentiationError(
                        f"the condition of a while loop writes to {inner.param.name}; "
                        "the derivative of that is not available",
                        inner.loc,
                        hint="write in the body of the loop",
                    )


def require_no_visible_race(kernel: Kernel, grid: Grid | None = None) -> None:
    """Refuses a load of what another thread writes, where addresses are known well enough to see it.

    Forward mode asks no more: it runs as the kernel does.
    """
    ownership = Ownership(kernel, grid)
    for param, load in _shared_loads(ownership):
        writes = [op for op in ownership.accesses[param] if not isinstance(op, Load)]
        keys = [ownership.addresses.key(op) for op in (load, *writes)]
        if all(position[0] == "form" for key in keys for position in key):
            raise _race(param, load)


def require_partitioned(kernel: Kernel, grid: Grid | None = None) -> None:
    """Refuses arrays that are read and written where threads may see each other's writes."""
    for param, load in _shared_loads(Ownership(kernel, grid)):
        raise _race(param, load)


def _shared_loads(ownership: Ownership) -> Iterator[tuple[Param, Load]]:
    """Arrays that are read and written and not partitioned among the threads, with their first load."""
    for param, accesses in ownership.accesses.items():
        loads = [op for op in accesses if isinstance(op, Load)]
        if 0 < len(loads) < len(accesses) and not ownership.is_private(param):
            yield param, loads[0]


def _race(param: Param, load: Load) -> DifferentiationError:
    return DifferentiationError(
        f"the kernel reads {param.name} and writes it, and a thread may read what another one writes; "
        "the derivative of that is not defined",
        load.loc,
        hint="read from an input and write to an output",
    )
