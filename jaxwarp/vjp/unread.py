"""Writes that nobody asks for are left out, and what only they need goes with them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Load, Op, Param, Store, walk
from jaxwarp.ir.rewrite import Rewriter
from jaxwarp.passes.simplify import simplify
from jaxwarp.vjp.activity import used_values


def without_unread(kernel: Kernel, asked: Collection[Param]) -> Kernel:
    """The kernel without writes to arrays that are not `asked` for, and on which nothing depends that is."""
    while True:
        kernel = simplify(kernel)
        ops, used = list(walk(kernel.body)), used_values(kernel)
        read = {op.param for op in ops if isinstance(op, Load) or (isinstance(op, Atomic) and op.result in used)}
        read |= set(asked)
        if all(op.param in read for op in ops if isinstance(op, (Store, Atomic))):
            return kernel
        kernel = replace(kernel, body=_Unread(read).block(kernel.body))


class _Unread(Rewriter):
    """Leaves out writes to arrays that nobody reads."""

    def __init__(self, read: Collection[Param]):
        super().__init__()
        self.read = read

    def op(self, op: Op) -> None:
        if not isinstance(op, (Store, Atomic)) or op.param in self.read:
            self.copy(op)
