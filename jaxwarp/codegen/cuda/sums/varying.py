"""Values that differ between threads that are neighbours along the last axis.

The result is an estimate: threads of a warp may also be in different rows, or in different iterations of a loop.
"""

from __future__ import annotations

from collections.abc import Iterable

from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Call, For, If, Load, Op, Store, Tid, Value, While, walk


def varying_values(kernel: Kernel) -> set[Value]:
    """The values that may differ, found by adding to them until nothing is new."""
    analysis, before = _Analysis(kernel), -1
    while len(analysis.varying) != before:
        before = len(analysis.varying)
        analysis.block(kernel.body)
    return analysis.varying


class _Analysis:
    def __init__(self, kernel: Kernel):
        self.varying: set[Value] = set()
        self.last_axis = kernel.grid_rank - 1
        self.written = {op.param for op in walk(kernel.body) if isinstance(op, (Store, Atomic))}

    def block(self, block: Block) -> None:
        for op in block.ops:
            if self.differs(op):
                self.varying.update(op.defined)
            self.enter(op)
            for inner in op.blocks:
                self.block(inner)
            self.leave(op)

    def differs(self, op: Op) -> bool:
        match op:
            case Tid():
                return op.axis == self.last_axis
            case Load():
                return op.param in self.written or self.any(op.indices)
            case Call():
                return self.any(op.args)
            case If():
                return op.condition in self.varying
            case _:
                return isinstance(op, Atomic)

    def any(self, values: Iterable[Value]) -> bool:
        return any(v in self.varying for v in values)

    def join(self, targets: Iterable[Value], sources: Iterable[Value]) -> None:
        self.varying.update(t for t, s in zip(targets, sources, strict=True) if s in self.varying)

    def enter(self, op: Op) -> None:
        """Propagate to the blocks the values that they get from outside."""
        match op:
            case For():
                index, *carried = op.body.params
                if self.any((op.start, op.step)):
                    self.varying.add(index)
                self.join(carried, op.inits)
            case While():
                self.join(op.condition.params, op.inits)
                self.join(op.body.params, op.condition.params)
            case _:
                pass

    def leave(self, op: Op) -> None:
        """Propagate the values that the blocks hand on."""
        match op:
            case If():
                self.join(op.results, op.then.results)
                self.join(op.results, op.orelse.results)
            case For():
                self.join(op.body.params[1:], op.body.results)
                self.join(op.results, op.body.params[1:])
            case While():
                self.join(op.condition.params, op.body.results)
                self.join(op.results, op.condition.params)
            case _:
                pass
