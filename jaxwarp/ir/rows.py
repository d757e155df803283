"""Rows of threads, indices of the last axis but one: which values differ between them, and what they do alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, For, If, Op, Tid, Value, While, walk
from jaxwarp.types import bool_


def values_read(kernel: Kernel) -> frozenset[Value]:
    """Return the values that some operation or block reads."""
    used = [v for op in walk(kernel.body) for v in (*op.operands, *(v for block in op.blocks for v in block.results))]
    return frozenset(used)


def count_uses(kernel: Kernel) -> Counter[Value]:
    """Count how often each value is read, by operations and as a block's result."""
    uses: Counter[Value] = Counter()
    for op in walk(kernel.body):
        uses.update(op.operands)
        for block in op.blocks:
            uses.update(block.results)
    return uses


def adds_once(op: Op, differing: frozenset[Value] | set[Value], used: Collection[Value]) -> bool:
    """Return whether an operation adds to one element from all rows, so that one addition of their sum would do."""
    return (
        isinstance(op, Atomic)
        and op.kind == "add"
        and not op.param.dtype.is_half
        and op.param.dtype is not bool_
        and op.result not in used
        and not any(i in differing for i in op.indices)
    )


def find_differing(kernel: Kernel) -> frozenset[Value]:
    """The values that may differ between the rows of a column."""
    analysis = _Differing(kernel.grid_rank - 2)
    while analysis.changed:
        analysis.changed = False
        analysis.block(kernel.body)
    return frozenset(analysis.values)


def is_apart(op: Op, differing: frozenset[Value] | set[Value]) -> bool:
    """Return whether rows may take a branch or loop differently."""
    match op:
        case If():
            return op.condition in differing
        case For():
            return any(v in differing for v in (op.start, op.stop, op.step))
        case While():
            return op.condition.results[0] in differing
        case _:
            return False


class _Differing:
    """Optimistic: all values are alike but those that are found to differ, until no more are."""

    def __init__(self, axis: int):
        self.axis = axis
        self.values: set[Value] = set()
        self.changed = True

    def note(self, pairs: Iterable[tuple[Value, Value]]) -> None:
        """Note that, in each pair, the first value differs between rows if the second one does."""
        self.add([value for value, source in pairs if source in self.values])

    def add(self, values: Iterable[Value]) -> None:
        new = set(values) - self.values
        self.values |= new
        self.changed = self.changed or bool(new)

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.op(op)

    def op(self, op: Op) -> None:
        match op:
            case For():
                carried = op.body.params[1:]
                self.note(zip(carried, op.inits, strict=True))
                self.block(op.body)
                self.note(zip(carried, op.body.results, strict=True))
                self.note(zip(op.results, carried, strict=True))
            case While():
                before, after = op.condition.params, op.body.params
                self.note(zip(before, op.inits, strict=True))
                self.block(op.condition)
                self.note(zip(after, before, strict=True))
                self.block(op.body)
                self.note(zip(before, op.body.results, strict=True))
                self.note(zip(op.results, before, strict=True))
            case If():
                for block in op.blocks:
                    self.block(block)
                    self.note(zip(op.results, block.results, strict=True))
            case Tid() if op.axis == self.axis:
                self.add([op.result])
            case Atomic():
                self.add([op.result])
            case _:
                if any(v in self.values for v in op.operands):
                    self.add(op.defined)
        if is_apart(op, self.values):
            self.add(op.defined)
