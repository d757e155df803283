"""Loops in which LLVM's passes over loops would find nothing to do.

These passes move what a loop computes anew in each turn before it, keep in a register an element that each turn loads
and stores, and write out loops of a constant number of turns. Where none of that is there to gain they are left out:
for products of matrices they are a third of LLVM's time. Index arithmetic that stays in a loop costs nothing here:
code generation moves what is left of it. But for addresses of gathers, and where lanes lie backwards: without these
passes such loops took 1.3 to 1.7 times as long.
"""

from __future__ import annotations

from jaxwarp.codegen.cpu.analysis.speculation import is_cheap
from jaxwarp.codegen.cpu.analysis.uniformity import Strides
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Block, Call, Const, For, If, Load, Op, Size, Tid, Value, While, walk


def has_plain_loops(kernel: Kernel, strides: Strides) -> bool:
    """Does each turn of each loop load from other elements, side by side, compute from these, and store nothing?"""
    constants = {op.result for op in walk(kernel.body) if isinstance(op, Const)}
    return all(_Turns(strides).are_plain(op, constants) for op in walk(kernel.body) if isinstance(op, (For, While)))


class _Turns:
    """Those of a loop. `changing` are the values that may differ between them, or between those of a loop in it."""

    def __init__(self, strides: Strides):
        self.strides = strides
        self.changing: set[Value] = set()

    def are_plain(self, loop: For | While, constants: set[Value]) -> bool:
        if isinstance(loop, For) and constants.issuperset((loop.start, loop.stop, loop.step)):
            return False
        return all(self.block(block) for block in loop.blocks)

    def block(self, block: Block) -> bool:
        self.changing.update(block.params)
        return all(self.op(op) for op in block.ops)

    def op(self, op: Op) -> bool:
        """Does an operation that costs something follow from what changes?"""
        follows = any(v in self.changing for v in op.operands)
        if follows:
            self.changing.update(op.defined)
        match op:
            case Const() | Size() | Tid():
                return True
            case Load():
                return follows and self.is_beside(op)
            case Call():
                return follows or (op.result.type.is_int and is_cheap(Block((), (op,), ())))
            case If() | For() | While():
                self.changing.update(op.defined)
                return all(self.block(inner) for inner in op.blocks)
            case _:
                return False

    def is_beside(self, op: Load) -> bool:
        """Do lanes load one element, or each the one beside that of the lane before?"""
        *outer, last = (self.strides.of[i] for i in op.indices)
        return last in (0, 1) and all(stride == 0 for stride in outer)
