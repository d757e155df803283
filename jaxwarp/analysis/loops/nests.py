"""Loops whose iterations threads of a block may share: those that are independent, and sums and extrema over tiles.

A nest is a loop with the loops right inside it, as one over all of their indices. What is between the loops is pure, so
that each iteration of the innermost one may do it again. Independence is proved: each element that a nest stores to has
the index of every loop in one of its own, the same in all accesses, or as digits of one (`digits.py`). Other loads are
of elements that the nest does not store to (`apart.py`): a column of a factor is made of those before it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from jaxwarp.analysis.affine import Forms, forms_of
from jaxwarp.analysis.integers.facts import Facts
from jaxwarp.analysis.integers.ranges import all_of, is_inside
from jaxwarp.analysis.loops.apart import IndexEnds
from jaxwarp.analysis.loops.digits import are_of_one_iteration
from jaxwarp.analysis.loops.folds import SUM, Fold, fold_of, scan_of
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import (
    Atomic,
    Block,
    Call,
    Const,
    For,
    If,
    Load,
    Op,
    Param,
    Size,
    Store,
    Tell,
    Tid,
    Value,
    While,
    walk,
)
from jaxwarp.ir.rows import count_uses
from jaxwarp.types import Scalar
from jaxwarp.unlocked import cached_property

# Updates whose order does not matter where nobody reads what was there before.
_IN_ANY_ORDER = ("add", "min", "max", "and", "or", "xor")
_MOST_TRIPS = 1 << 20
_MOST_OF_WARP = 128
MANY_TRIPS = 8  # of loops of which nothing is known


@dataclass(frozen=True, eq=False)
class Nest:
    """A loop with loops right inside it.

    Attributes:
        loops: from the outside.
        ranges: of their indices; an empty one has bounds that are known when the nest begins.
        most: the number of iterations, at most or by a guess.
        fold: how it combines what it carries; None: it carries nothing, and its iterations are independent.
    """

    loops: tuple[For, ...]
    ranges: tuple[range, ...]
    most: int
    fold: Fold | None = None

    @property
    def indices(self) -> tuple[Value, ...]:
        return tuple(loop.body.params[0] for loop in self.loops)

    @property
    def is_of_each_warp(self) -> bool:
        """Return whether each warp does all of it: a short sum, for which warps would wait longer for each other."""
        is_short = self.fold is not None and self.is_open and self.most <= _MOST_OF_WARP
        return is_short and not any(isinstance(op, (Store, Atomic)) for op in walk(self.loops[0].body))

    @property
    def is_scan(self) -> bool:
        """Return whether each iteration uses what those before it have combined."""
        return self.fold is not None and bool(self.fold.running)

    @property
    def is_open(self) -> bool:
        """Return whether the number of iterations depends on values."""
        return not all(self.ranges)


class Nests:
    """The nests of a kernel.

    Attributes:
        found: by their outermost loop.
        of: for each operation inside of a nest, that nest.
        locals: the kernel's arrays of its own.
        varying: the values that may differ between the iterations of a nest.
        elements: what is known of the indices of elements.
    """

    def __init__(self, kernel: Kernel):
        ops = list(walk(kernel.body))
        self._kernel = kernel
        self.locals = frozenset(kernel.locals)
        self.constants = {op.result: op.value for op in ops if isinstance(op, Const)}
        self._uses = count_uses(kernel)
        self.defining: dict[Value, Op] = {value: op for op in ops for value in op.defined}
        self.facts = Facts(kernel, None)
        self.elements = IndexEnds(ops, self.constants)
        self.found: dict[For, Nest] = {}
        self._find(kernel.body)
        self.varying = frozenset(v for loop in self.found for v in _defined_in(loop))
        self.of: dict[Op, Nest] = {op: nest for loop, nest in self.found.items() for op in walk(loop.body)}

    def number(self, value: Value) -> int | None:
        """Return an integer that is known."""
        known = self.constants.get(value)
        return int(known) if known is not None else None

    def of_value(self, value: Value, nest: Nest) -> bool:
        """Return whether a value may differ between the iterations of a nest."""
        if self.number(value) is not None:
            return False
        op = self.defining.get(value)
        return value in nest.indices or (op is not None and self.of.get(op) is nest)

    def _find(self, block: Block) -> None:
        for op in block.ops:
            nest = self._nest(op) if isinstance(op, For) else None
            if nest is not None:
                self.found[nest.loops[0]] = nest
                continue
            for inner in op.blocks:
                self._find(inner)

    def _nest(self, op: For) -> Nest | None:
        if not self._can_divide(op, ()):
            return None
        chain = [op]
        while (inner := self._loop_inside(chain)) is not None:
            chain.append(inner)
        if op.inits:
            is_independent = self._are_independent(chain)
            fold = fold_of(chain, self.defining, self._uses, may_store=is_independent)
            if fold is None and is_independent and all(map(self.range_of, chain)):
                fold = scan_of(chain, self.defining, self._uses)
            made = self._made(chain, fold)
            return made if fold is not None and (fold.kind == SUM or not made.is_open) else None
        for depth in range(len(chain), 0, -1):
            loops = chain[:depth]
            if not any(x.inits for x in loops) and self._are_independent(loops):
                return self._made(loops)
        return None

    def _made(self, loops: Sequence[For], fold: Fold | None = None) -> Nest:
        ranges = tuple(map(self.range_of, loops))
        return Nest(tuple(loops), ranges, math.prod(map(self.most_trips, loops)), fold)

    def _can_divide(self, loop: For, outer: Sequence[For]) -> bool:
        """Return whether the indices of a loop are known when the outermost loop around it begins."""
        if self.range_of(loop):
            return True
        step = self.number(loop.step)
        inside = {v for o in outer[:1] for v in _defined_in(o)}
        if not step or inside.intersection((loop.start, loop.stop)):
            return False
        # If nobody knows how many trips there are, what is inside is the better part to divide.
        known = self._span(loop) is not None
        return known or not any(isinstance(x, For) and x.over_tile for x in walk(loop.body))

    def _span(self, loop: For) -> tuple[int, int, int] | None:
        """Return the least start and the last stop of a loop that counts up, and its step; None: who knows."""
        (start, _), (_, stop), step = self.facts[loop.start], self.facts[loop.stop], self.number(loop.step) or 0
        return (start, stop, step) if step > 0 and stop - start < _MOST_TRIPS else None

    def most_trips(self, loop: For) -> int:
        """Return how often a loop runs, at most or by a guess."""
        if known := self.range_of(loop):
            return len(known)
        span = self._span(loop)
        return max(1, len(range(*span))) if span else MANY_TRIPS

    def trips(self, loop: For) -> int:
        """Return how often a loop runs, about: one whose bounds move runs half as often as it could."""
        return len(self.range_of(loop)) or max(1, self.most_trips(loop) // 2)

    def range_of(self, op: For) -> range:
        """Return the numbers that a loop goes over; nothing if they are not known."""
        start, stop, step = (self.number(v) for v in (op.start, op.stop, op.step))
        return range(0) if start is None or stop is None or not step else range(start, stop, step)

    def _loop_inside(self, chain: Sequence[For]) -> For | None:
        """Return the one loop of the last body that does nothing else but compute values for it."""
        found: list[For] = []
        for op in _around_loops(chain[-1].body):
            match op:
                case For():
                    found.append(op)
                case Store() | Atomic() | Tell() | While():
                    return None
                case _:
                    pass
        return found[0] if len(found) == 1 and self._can_divide(found[0], chain) else None

    def _are_independent(self, loops: Sequence[For]) -> bool:
        ops = list(walk(loops[0].body))
        if any(isinstance(op, Tell) for op in ops):
            return False
        inside = _defined_in(loops[0])
        indices = [loop.body.params[0] for loop in loops]
        accesses: dict[Param, list[Load | Store | Atomic]] = {}
        for op in ops:
            if isinstance(op, (Load, Store, Atomic)):
                accesses.setdefault(op.param, []).append(op)
        return all(
            all(isinstance(op, Load) for op in found)
            or self._in_any_order(found)
            or self._own(found, indices, inside)
            or self._have_digits(found, loops)
            for found in accesses.values()
        )

    def _in_any_order(self, found: Sequence[Load | Store | Atomic]) -> bool:
        kinds = {op.kind if isinstance(op, Atomic) and not self._uses[op.result] else "" for op in found}
        return len(kinds) == 1 and kinds.pop() in _IN_ANY_ORDER

    def _have_digits(self, found: Sequence[Load | Store | Atomic], loops: Sequence[For]) -> bool:
        inner = [op.body.params[0] for op in walk(loops[0].body) if isinstance(op, For) and op not in loops]
        indices = [loop.body.params[0] for loop in loops]
        return are_of_one_iteration(found, indices, inner, self._forms, self.defining)

    @cached_property
    def _forms(self) -> Forms:
        return forms_of(self._kernel, (None,) * self._kernel.grid_rank)

    def _own(self, found: Sequence[Load | Store | Atomic], indices: Sequence[Value], inside: set[Value]) -> bool:
        """Return whether every iteration has elements of its own: an index of theirs tells which iteration it is."""
        stores = [op for op in found if not isinstance(op, Load)]
        common: set[tuple[object, ...]] | None = None
        for op in found:
            if isinstance(op, Load) and all(self.elements.are_apart(op, store, inside) for store in stores):
                continue
            terms = [self.term(v, indices, inside) for v in op.indices]
            known = {(axis, *term) for axis, term in enumerate(terms) if term is not None}
            common = known if common is None else common & known
        return {index for _, index, _ in common or ()} >= set(indices)

    def term(self, value: Value, indices: Sequence[Value], inside: Collection[Value]) -> tuple[Value, object] | None:
        """Return the index of a loop that a value is a function of, different for each index; and which function."""
        if value in indices:
            return value, ()
        op = self.defining.get(value)
        if not isinstance(op, Call) or value not in inside:
            return None
        name = op.builtin.name
        if len(op.args) == 1 and op.result.type.is_int and self._keeps_value(op.result.type, op.args[0]):
            inner = self.term(op.args[0], indices, inside) if op.builtin.typed else None
            return (inner[0], (name, op.result.type, inner[1])) if inner is not None else None
        if len(op.args) != 2 or name not in ("add", "sub", "mul"):
            return None
        for at, other in ((0, 1), (1, 0)):
            inner = self.term(op.args[at], indices, inside)
            if inner is not None and self._is_fixed(op.args[other], inside, is_factor=name == "mul"):
                fixed = self.number(op.args[other])
                return inner[0], (
                    name,
                    at if name == "sub" else 0,
                    inner[1],
                    op.args[other] if fixed is None else fixed,
                )
        return None

    def _keeps_value(self, dtype: Scalar, value: Value) -> bool:
        """Return whether different values of a cast's operand are different results."""
        return dtype.bits >= value.type.bits or (value.type.is_int and is_inside(self.facts[value], all_of(dtype)))

    def _is_fixed(self, value: Value, inside: Collection[Value], is_factor: bool) -> bool:
        known = self.number(value)
        return bool(known) if is_factor else known is not None or value not in inside


def _defined_in(loop: For) -> set[Value]:
    params = set(loop.body.params)
    return params.union(*((*op.defined, *(p for b in op.blocks for p in b.params)) for op in walk(loop.body)))


def _around_loops(block: Block) -> Iterator[Op]:
    """The operations of a block and of the branches in it, without what is in loops."""
    for op in block.ops:
        yield op
        if isinstance(op, If):
            for inner in op.blocks:
                yield from _around_loops(inner)


def is_pure(op: Op) -> bool:
    """Return whether an operation may be done again."""
    return isinstance(op, (Const, Tid, Size, Call, Load)) or (isinstance(op, If) and all(map(is_pure, _inside(op))))


def _inside(op: Op) -> list[Op]:
    return [inner for block in op.blocks for inner in block.ops]
