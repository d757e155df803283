"""One thread: its indices are zero.

    %i = tid 0          -> 0                   in a launch over (1, 1)

Code for a thread that has no neighbours has no lanes: its values are scalars, and no access is a gather of one lane.
"""

from __future__ import annotations

import functools

from jaxwarp.deep import with_deep_stack
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Const, Op, Tid
from jaxwarp.ir.rewrite import Rewriter
from jaxwarp.passes.simplify import simplify


@functools.lru_cache(maxsize=512)
@with_deep_stack
def alone(kernel: Kernel) -> Kernel:
    """A kernel for a launch of one thread."""
    return simplify(_Alone().kernel(kernel))


class _Alone(Rewriter):
    def op(self, op: Op) -> None:
        if isinstance(op, Tid):
            self.emit(Const(op.result, 0, loc=op.loc))
        else:
            self.copy(op)
