"""The values of a kernel that decide which elements are touched: indices, conditions and loops around accesses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Call, Const, For, If, Load, Op, Store, Value, While, walk

ACCESSES = (Load, Store, Atomic)


class Steering:
    """The operations and values of a kernel that steer its accesses.

    Attributes:
        values: those that an index, or whether an access is reached, is made of.
        ops: accesses, what contains them, and what makes these values.
    """

    def __init__(self, kernel: Kernel):
        self._makers: dict[Value, Op] = {}
        for op in walk(kernel.body):
            self._makers.update((v, op) for v in (*op.defined, *(v for b in op.blocks for v in b.params)))
        reaching = frozenset(_around_accesses(kernel.body.ops))
        self.values: set[Value] = set()
        pending = [v for op in reaching for v in _own(op)]
        while pending:
            value = pending.pop()
            if value not in self.values:
                self.values.add(value)
                pending += self._sources(value)
        self.ops = reaching.union(op for v in self.values if (op := self._makers.get(v)) is not None)

    def carries(self, loop: For) -> bool:
        """Do its iterations hand something on that steers?"""
        return any(v in self.values for v in (*loop.results, *loop.body.params[1:]))

    def _sources(self, value: Value) -> Iterator[Value]:
        """Yield the values that a value is made of."""
        op = self._makers.get(value)
        match op:
            case Call():
                yield from op.args
            case If():
                yield op.condition
                at = op.results.index(value)
                yield from (block.results[at] for block in op.blocks)
            case For():
                yield from _own(op)
                yield from _carried(op.body.params[1:], op.results, op.inits, op.body.results, value)
            case While():
                yield from _own(op)
                for params in (op.condition.params, op.body.params):
                    yield from _carried(params, op.results, op.inits, op.body.results, value)
            case _:
                pass


def _around_accesses(ops: Sequence[Op]) -> Iterator[Op]:
    """The accesses of arrays that have indices, and the operations that contain one."""
    for op in ops:
        inside = [found for block in op.blocks for found in _around_accesses(block.ops)]
        if inside or (isinstance(op, ACCESSES) and op.indices):
            yield op
        yield from inside


def _own(op: Op) -> Iterable[Value]:
    """Return the values that decide where an access goes, or whether and how often a block runs."""
    match op:
        case Load() | Store() | Atomic():
            return op.indices
        case If():
            return (op.condition,)
        case For():
            return op.start, op.stop, op.step
        case While():
            return op.condition.results
        case _:
            return ()


def _carried(
    params: Sequence[Value], results: Sequence[Value], inits: Sequence[Value], handed_on: Sequence[Value], value: Value
) -> Iterator[Value]:
    """All values of the one that a loop carries under the name `value`, inside or after it."""
    for row in zip(params, results, inits, handed_on, strict=True):
        if value in row[:2]:
            yield from row


def landmarks(kernel: Kernel, shapes: Iterable[Sequence[int | None]]) -> list[int]:
    """Numbers near which indices go astray: extents, and the constants of the kernel."""
    constants = (int(op.value) for op in walk(kernel.body) if isinstance(op, Const) and op.result.type.is_int)
    return sorted({*constants, *(n for shape in shapes for n in shape if n is not None)})
