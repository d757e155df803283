"""Loops whose iterations threads of a block may share: those that are independent, and sums and extrema over tiles.

A nest is a loop with the loops right inside it, as one over all of their indices. What is between the loops is pure, so
that each iteration of the innermost one may do it again. Independence is proved: each element that a nest stores to has
the index of every loop in one of its own, the same in all accesses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jaxwarp.analysis.folds import Fold, fold_of
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

# Updates whose order does not matter where nobody reads what was there before.
_IN_ANY_ORDER = ("add", "min", "max", "and", "or", "xor")


@dataclass(frozen=True, eq=False)
class Nest:
    """A loop with loops right inside it.

    Attributes:
        loops: from the outside.
        ranges: of their indices.
        fold: how it combines what it carries; None: it carries nothing, and its iterations are independent.
    """

    loops: tuple[For, ...]
    ranges: tuple[range, ...]
    fold: Fold | None = None

    @property
    def indices(self) -> tuple[Value, ...]:
        return tuple(loop.body.params[0] for loop in self.loops)

    @property
    def count(self) -> int:
        """Return the number of iterations."""
        return math.prod(map(len, self.ranges))


class Nests:
    """The nests of a kernel.

    Attributes:
        found: by their outermost loop.
        of: for each operation inside of a nest, that nest.
    """

    def __init__(self, kernel: Kernel):
        ops = list(walk(kernel.body))
        self.constants = {op.result: op.value for op in ops if isinstance(op, Const)}
        self._uses = count_uses(kernel)
        self.defining: dict[Value, Op] = {value: op for op in ops for value in op.defined}
        self.found: dict[For, Nest] = {}
        self._find(kernel.body)
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
        chain, ranges = [op], [self.range_of(op)]
        if not ranges[0]:
            return None
        while (inner := self._loop_inside(chain[-1])) is not None:
            chain.append(inner)
            ranges.append(self.range_of(inner))
        if op.inits:
            fold = fold_of(chain, self.defining, self._uses) if all(ranges) else None
            return Nest(tuple(chain), tuple(ranges), fold) if fold is not None else None
        for depth in range(len(chain), 0, -1):
            loops = tuple(chain[:depth])
            if all(ranges[:depth]) and not any(x.inits for x in loops) and self._are_independent(loops):
                return Nest(loops, tuple(ranges[:depth]))
        return None

    def range_of(self, op: For) -> range:
        """Return the numbers that a loop goes over; nothing if they are not known."""
        start, stop, step = (self.number(v) for v in (op.start, op.stop, op.step))
        return range(0) if start is None or stop is None or not step else range(start, stop, step)

    def _loop_inside(self, loop: For) -> For | None:
        """Return the one loop of a body that does nothing else but compute values for it."""
        found: list[For] = []
        for op in _around_loops(loop.body):
            match op:
                case For():
                    found.append(op)
                case Store() | Atomic() | Tell() | While():
                    return None
                case _:
                    pass
        return found[0] if len(found) == 1 and self.range_of(found[0]) else None

    def _are_independent(self, loops: Sequence[For]) -> bool:
        ops = list(walk(loops[0].body))
        if any(isinstance(op, Tell) for op in ops):
            return False
        inside = {v for op in ops for v in (*op.defined, *(p for b in op.blocks for p in b.params))}
        indices = [loop.body.params[0] for loop in loops]
        inside.update(indices)
        accesses: dict[Param, list[Load | Store | Atomic]] = {}
        for op in ops:
            if isinstance(op, (Load, Store, Atomic)):
                accesses.setdefault(op.param, []).append(op)
        return all(
            all(isinstance(op, Load) for op in found) or self._in_any_order(found) or self._own(found, indices, inside)
            for found in accesses.values()
        )

    def _in_any_order(self, found: Sequence[Load | Store | Atomic]) -> bool:
        kinds = {op.kind if isinstance(op, Atomic) and not self._uses[op.result] else "" for op in found}
        return len(kinds) == 1 and kinds.pop() in _IN_ANY_ORDER

    def _own(self, found: Sequence[Load | Store | Atomic], indices: Sequence[Value], inside: set[Value]) -> bool:
        """Return whether every iteration has elements of its own: an index of theirs tells which iteration it is."""
        common: set[tuple[object, ...]] | None = None
        for op in found:
            terms = [self.term(v, indices, inside) for v in op.indices]
            known = {(axis, *term) for axis, term in enumerate(terms) if term is not None}
            common = known if common is None else common & known
        return {index for _, index, _ in common or ()} >= set(indices)

    def term(self, value: Value, indices: Sequence[Value], inside: set[Value]) -> tuple[Value, object] | None:
        """Return the index of a loop that a value is a function of, different for each index; and which function."""
        if value in indices:
            return value, ()
        op = self.defining.get(value)
        if not isinstance(op, Call) or value not in inside:
            return None
        name = op.builtin.name
        if len(op.args) == 1 and op.result.type.is_int and op.result.type.bits >= op.args[0].type.bits:
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

    def _is_fixed(self, value: Value, inside: set[Value], is_factor: bool) -> bool:
        known = self.number(value)
        return bool(known) if is_factor else known is not None or value not in inside


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
