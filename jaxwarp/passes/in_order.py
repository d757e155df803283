"""Sums over tiles in the order that they are in."""

from __future__ import annotations

from dataclasses import replace

from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import For, Op
from jaxwarp.ir.rewrite import Rewriter


def in_order(kernel: Kernel) -> Kernel:
    """The kernel with sums as one thread does them: what derivatives and checks are made of replays them to the bit.

    Loops that carry nothing have the same values in any order. Threads may share them, and the reversed ones.
    """
    return _Unmarker().kernel(kernel)


class _Unmarker(Rewriter):
    def op(self, op: Op) -> None:
        self.copy(replace(op, over_tile=False) if isinstance(op, For) and op.over_tile and op.inits else op)
