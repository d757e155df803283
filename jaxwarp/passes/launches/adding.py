"""Kernels that add to what an array holds, where they were made for one that holds zeros.

    store @x_ct[%i], %v       ->       %before = load @x_ct[%i]
                                       store @x_ct[%i], add %before, %v

The reverse of a launch adds to the cotangents of what the launch only reads. Where it visits each element at most once
it stores: nobody else has added anything. Where an array holds the cotangents of other launches, it adds to these.
"""

from __future__ import annotations

from collections.abc import Collection

from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.deep import with_deep_stack
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Load, Op, Param, Store, walk
from jaxwarp.ir.rewrite import Rewriter


@with_deep_stack
def adding(kernel: Kernel, params: Collection[int]) -> Kernel:
    """Return the kernel that adds to the arrays at these positions what it was made to leave in arrays of zeros.

    Args:
        kernel: what it does to these arrays is to add to elements, by atomics, or by a load and a store where no other
            thread visits them, or to store to each at most once.
        params: their positions.
    """
    loaded = {op.param for op in walk(kernel.body) if isinstance(op, Load)}
    stored = {op.param for op in walk(kernel.body) if isinstance(op, Store)}
    once = {kernel.params[i] for i in params} & stored - loaded
    return _Adding(once).kernel(kernel) if once else kernel


class _Adding(Rewriter):
    def __init__(self, once: set[Param]):
        super().__init__()
        self._once = once
        self._build = Builder(self.scopes)

    def op(self, op: Op) -> None:
        if not isinstance(op, Store) or op.param not in self._once:
            self.copy(op)
            return
        indices = self.all(op.indices)
        before = self._build.load(op.param, indices)
        self._build.store(op.param, indices, self._build.call(ROWS["add"], before, self.value(op.value)))
