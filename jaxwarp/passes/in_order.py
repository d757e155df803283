"""Sums over tiles in the order that they are in, if something is decided by them."""

from __future__ import annotations

from dataclasses import replace

from jaxwarp.analysis.loops.decisions import deciding_values
from jaxwarp.analysis.loops.folds import SUM, chain_of, fold_of, scan_of
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, For, Op, walk
from jaxwarp.ir.rewrite import Rewriter
from jaxwarp.ir.rows import count_uses


def in_order(kernel: Kernel) -> Kernel:
    """The kernel with sums as one thread does them, where what derivatives and checks are made of has to replay them.

    A sum that only enters smooth functions may be in any order, and an extremum is the same in each. Loops that carry
    nothing have the same values in any order, too. Threads may share all of these, and the reversed ones.
    """
    return _Unmarker(kernel).kernel(kernel)


def selected_in_order(kernel: Kernel) -> Kernel:
    """The kernel as `in_order` leaves it, if an atomic selects a float of several threads.

    Its derivative computes the operands again, and looks for the thread whose operand is equal to the result.
    """
    atomics = [op for op in walk(kernel.body) if isinstance(op, Atomic) and op.param not in kernel.locals]
    selects = any(op.kind in ("min", "max") and op.param.dtype.is_float for op in atomics)
    return in_order(kernel) if selects else kernel


class _Unmarker(Rewriter):
    def __init__(self, kernel: Kernel):
        super().__init__()
        ops = list(walk(kernel.body))
        loops = [op for op in ops if isinstance(op, For) and op.over_tile and op.inits]
        self._in_order: set[Op] = set()
        if not loops:
            return
        defining, uses = {v: op for op in ops for v in op.defined}, count_uses(kernel)
        deciding = deciding_values(kernel)
        for loop in loops:
            chain = chain_of(loop)
            fold = fold_of(chain, defining, uses) or scan_of(chain, defining, uses)
            sums = (*loop.results, *loop.body.results, *loop.body.params[1:])
            decides = any(v in deciding and v.type.is_float for v in sums)
            if fold is None or (fold.kind == SUM and decides):
                self._in_order.add(loop)

    def op(self, op: Op) -> None:
        self.copy(replace(op, over_tile=False) if isinstance(op, For) and op in self._in_order else op)
