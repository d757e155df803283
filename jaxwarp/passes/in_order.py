"""Loops over tiles as loops like any other, whose sums are in the order that they are in."""

from __future__ import annotations

from dataclasses import replace

from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import For, Op
from jaxwarp.ir.rewrite import Rewriter


def in_order(kernel: Kernel) -> Kernel:
    """The kernel as one thread does it: what derivatives and checks are made of replays it to the bit."""
    return _Unmarker().kernel(kernel)


class _Unmarker(Rewriter):
    def op(self, op: Op) -> None:
        self.copy(replace(op, over_tile=False) if isinstance(op, For) and op.over_tile else op)
