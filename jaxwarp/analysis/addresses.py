"""The assumptions of the reverse sweep about arrays: whose elements are whose, and which loads it can do again."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from jaxwarp.analysis import affine
from jaxwarp.analysis.affine import forms_of
from jaxwarp.analysis.dependence import Dependence
from jaxwarp.analysis.effects import analyze, told_apart
from jaxwarp.analysis.guards import Guards
from jaxwarp.analysis.indirect_indices import indirect_indices
from jaxwarp.analysis.integers.facts import Facts
from jaxwarp.analysis.own_elements import StoredElements, ThreadIndices
from jaxwarp.analysis.thread_values import Shapes
from jaxwarp.errors import DifferentiationError
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, For, Load, Op, Param, Store, Value, While, walk
from jaxwarp.unlocked import cached_property

# A derivative asks about each of its stages a few times.
_KEPT = 64

Access = Load | Store | Atomic
Grid = Sequence[int | None]
# An index as it can be compared: its affine form ("form", terms, constant), or ("value", value).
Position = tuple[Any, ...]
Key = tuple[Position, ...]


class Addresses:
    """Comparable addresses of a kernel's accesses."""

    def __init__(self, kernel: Kernel, grid: Grid | None = None, shapes: Shapes | None = None):
        self.kernel = kernel
        self.grid = list(grid) if grid is not None else [None] * kernel.grid_rank
        self.forms = forms_of(kernel, self.grid, shapes)
        # What counts the iterations of a loop: the iterator of its forms, or its index.
        self.counters: dict[Any, Op] = {}
        for op in walk(kernel.body):
            if isinstance(op, For):
                index = op.body.params[0]
                form = self.forms[index]
                self.counters.update((it, op) for it in ((index,) if form is None else form.terms))

    def key(self, op: Access) -> Key:
        return tuple(self.position(v) for v in op.indices)

    def position(self, value: Value) -> Position:
        form = self.forms[value]
        if form is not None:
            return ("form", frozenset(form.terms.items()), form.constant)
        return ("form", frozenset({(value, 1)}), 0) if value in self.counters else ("value", value)

    def loops_of(self, position: Position) -> dict[Op, int]:
        """The loops that an index moves with, and its stride in each."""
        terms = position[1] if position[0] == "form" else ()
        return {self.counters[it]: coefficient for it, coefficient in terms if it in self.counters}

    def threads(self, positions: Sequence[Position]) -> tuple[Mapping[affine.Iterator, int], int] | None:
        """Return the thread's part of the indices and by how much they vary besides; None if the parts differ.

        The indices 3 * i, 3 * i + 1 and 3 * i + k with k < 3 share 3 * i, and vary by 2.
        """
        if any(position[0] != "form" for position in positions):
            return None
        grid = set(self.forms.grid)
        parts = [{it: c for it, c in position[1] if it in grid} for position in positions]
        if any(part != parts[0] for part in parts):
            return None
        ends = [self._rest(position, grid) for position in positions]
        return parts[0], max(most for _, most in ends) - min(least for least, _ in ends)

    def _rest(self, position: Position, grid: Collection[Any]) -> tuple[int, int]:
        """Between what numbers an index is without the thread's part."""
        least = most = position[2]
        for it, coefficient in position[1]:
            if it not in grid:
                low, high = (0, it.last) if isinstance(it, affine.Iterator) else self.facts[it]
                least += min(coefficient * low, coefficient * high)
                most += max(coefficient * low, coefficient * high)
        return least, most

    def is_indirect(self, index: Value) -> bool:
        """Return whether the index is found in data, at a place that depends on the thread."""
        return index in self._indirect

    @cached_property
    def _indirect(self) -> set[Value]:
        return indirect_indices(self.kernel)

    @cached_property
    def facts(self) -> Facts:
        return Facts(self.kernel, self.grid)

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
        """Return whether the address differs in each iteration of `loops`."""
        varying = [set(self.loops_of(position)) for position in key]
        return all({loop} in varying for loop in loops)


def are_disjoint(a: Key, b: Key) -> bool:
    """Do the addresses provably differ, in every thread and at any one time?"""
    return any(p[0] == q[0] == "form" and p[1] == q[1] and p[2] != q[2] for p, q in zip(a, b, strict=True))


class Ownership:
    """The arrays that are partitioned among the threads, so that no two threads touch the same element.

    Args:
        kernel: the kernel.
        grid: launch extents, as far as they are known.
        shapes: extents of arrays, likewise.
        sized: whether what is known of the arrays' extents counts in the comparison of addresses, too.
    """

    def __init__(self, kernel: Kernel, grid: Grid | None = None, shapes: Shapes | None = None, *, sized: bool = False):
        self.addresses = Addresses(kernel, grid, shapes if sized else None)
        self.shapes = shapes
        self.locals = frozenset(kernel.locals)
        self.effects = analyze(kernel)
        self.accesses: dict[Param, list[Access]] = {}
        for op in walk(kernel.body):
            if isinstance(op, (Load, Store, Atomic)):
                self.accesses.setdefault(op.param, []).append(op)
        self._private: dict[Param, bool] = {}
        self._blocks: dict[Op, tuple[Block, ...]] = {}
        self._place(kernel.body, ())

    def _place(self, block: Block, around: tuple[Block, ...]) -> None:
        for op in block.ops:
            if isinstance(op, (Load, Store, Atomic, For, While)):
                self._blocks[op] = (*around, block)
            for inner in op.blocks:
                self._place(inner, (*around, block))

    def is_own(self, param: Param) -> bool:
        """Does a thread read no element that another one writes, if no two threads store to one element?

        Where indices are found in data, that is for the caller to see to, as with all scatters. An element that a
        thread certainly stores to itself is then its own; other reads may be of what others have written.
        """
        if self.is_private(param):
            return True
        # Else the indices show whether threads share elements.
        return self._is_indirect(param) and self.unstored(param) is None

    def _is_indirect(self, param: Param) -> bool:
        """Return whether all elements of an array that the kernel touches are found in data."""
        accesses = self.accesses.get(param, [])
        return all(any(self.addresses.is_indirect(i) for i in op.indices) for op in accesses)

    def unstored(self, param: Param) -> Access | None:
        """The first access, where elements are found in data, to one that the thread might not store to itself."""
        accesses = self.accesses.get(param, []) if self._is_indirect(param) else []
        stores = [op for op in accesses if isinstance(op, Store)]
        others = [op for op in accesses if not isinstance(op, Store)]
        return next(
            (
                op
                for op in others
                if not any(self._stands_with(store, op) for store in stores) and not self._stored.covers(stores, op)
            ),
            None,
        )

    @cached_property
    def _stored(self) -> StoredElements:
        return StoredElements(Dependence(self.addresses.kernel, self.addresses.grid, self.shapes), self._blocks)

    @cached_property
    def _guards(self) -> Guards:
        return Guards(self.addresses.kernel)

    @cached_property
    def _threads(self) -> ThreadIndices:
        return ThreadIndices(self.addresses.kernel, self.addresses.grid, self.shapes)

    def never_meet(self, a: Access, b: Access) -> bool:
        """Do the addresses provably differ, in every thread, since their indices differ for each thread's?"""
        return _is_other(self.addresses.key(a)) and _is_other(self.addresses.key(b)) and self._threads.never_meet(a, b)

    def never_meet_across(self, a: Access, b: Access) -> bool:
        """Do the addresses provably differ, likewise, also where they are those of two threads?"""
        keys = self.addresses.key(a), self.addresses.key(b)
        return any(map(_is_other, keys)) and self._threads.never_meet_across(a, b)

    def _stands_with(self, store: Store, op: Access) -> bool:
        """Whenever `op` runs, does the store run with the same address, in the same iteration of all loops around?"""
        return self._blocks[store][-1] in self._blocks[op] and self.addresses.key(store) == self.addresses.key(op)

    def is_private(self, param: Param) -> bool:
        """True if the threads are told apart by some axes of the array, which all accesses index nearly alike."""
        if param not in self._private:
            self._private[param] = param in self.locals or self.tells_apart(self.accesses.get(param, []))
        return self._private[param]

    def told(self, accesses: Sequence[Access]) -> set[affine.Iterator]:
        """The axes of the grid on which threads agree that share an element of these accesses of one array."""
        keys = [self.addresses.key(op) for op in accesses]
        columns = [list(column) for column in zip(*keys, strict=True)]
        if owners := self._guards.owners(accesses, self.addresses.position):
            columns.append([self.addresses.position(v) for v in owners])
        axes = [self.addresses.threads(column) for column in columns]
        return told_apart([axis for axis in axes if axis is not None])

    def tells_apart(self, accesses: Sequence[Access]) -> bool:
        """Does every element that these accesses of one array touch belong to one thread?"""
        if not accesses:
            return False
        told = self.told(accesses)
        if told.issuperset(it for it in self.addresses.forms.grid if it.extent is None or it.extent > 1):
            return True
        keys = [self.addresses.key(op) for op in accesses]
        # Of sums of thread indices no more would be found.
        return any(map(_is_other, keys)) and self._threads.tell_apart(
            accesses, [it.axis for it in told if it.axis is not None]
        )


def ownership_of(
    kernel: Kernel, grid: Grid | None = None, shapes: Shapes | None = None, *, sized: bool = False
) -> Ownership:
    """Return the ownership of a kernel's arrays; a cache keeps it for later callers."""
    known = None if shapes is None else tuple((param, tuple(shape)) for param, shape in shapes.items())
    return _ownership_of(kernel, None if grid is None else tuple(grid), known, sized)


@functools.lru_cache(maxsize=_KEPT)
def _ownership_of(
    kernel: Kernel,
    grid: tuple[int | None, ...] | None,
    shapes: tuple[tuple[Param, tuple[int | None, ...]], ...] | None,
    sized: bool,
) -> Ownership:
    return Ownership(kernel, grid, None if shapes is None else dict(shapes), sized=sized)


def _is_other(key: Key) -> bool:
    """Return whether some index is not a sum of thread indices."""
    return any(position[0] != "form" for position in key)


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
    ownership = ownership_of(kernel, grid)
    for param, load in _shared_loads(ownership):
        writes = [op for op in ownership.accesses[param] if not isinstance(op, Load)]
        addresses = ownership.addresses
        indices = [index for op in (load, *writes) for index in op.indices]
        if all(addresses.position(index)[0] == "form" and not addresses.is_indirect(index) for index in indices):
            raise _race(param, load)


def require_partitioned(kernel: Kernel, grid: Grid | None = None, shapes: Shapes | None = None) -> None:
    """Refuses arrays that are read and written where threads may see each other's writes."""
    ownership = ownership_of(kernel, grid, shapes)
    for param, load in _shared_loads(ownership):
        unstored = ownership.unstored(param)
        raise _race(param, unstored or load, unstored is not None)


def _shared_loads(ownership: Ownership) -> Iterator[tuple[Param, Load]]:
    """Arrays that are read and written and not partitioned among the threads, with their first load."""
    for param, accesses in ownership.accesses.items():
        loads = [op for op in accesses if isinstance(op, Load)]
        if 0 < len(loads) < len(accesses) and not ownership.is_own(param):
            yield param, loads[0]


def _race(param: Param, op: Access, is_indirect: bool = False) -> DifferentiationError:
    hint = "read from an input and write to an output"
    if is_indirect:
        hint += f"; or let the thread itself store to every element of {param.name} that it reads, also to the first"
    return DifferentiationError(
        f"the kernel reads {param.name} and writes it, and a thread may read what another one writes; "
        "the derivative of that is not defined",
        op.loc,
        hint=hint,
    )
