"""Loops over the few elements of an array that all threads add to, written out: each is then summed in a register.

    for %k in range(16) {                   %p0 = mul %c, load @x[%i];      atomic_add @w[0], %p0
        %p = mul %c, load @x[%i + %k]  ->   %p1 = mul %c, load @x[%i + 1];  atomic_add @w[1], %p1
        atomic_add @w[%k], %p }             ...

In a loop it is not known which element is meant, and each addition is one of the warp's, to shared memory.
"""

from __future__ import annotations

import math

from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Const, For, Op, Value, walk
from jaxwarp.ir.rewrite import Rewriter
from jaxwarp.passes.simplify import simplify

MOST_ELEMENTS = 16
_MOST_OPERATIONS = 512


def unrolled(kernel: Kernel) -> Kernel:
    """The kernel with such loops written out; as it was, if that would be long, or no element is known by it."""
    wanted = _Wanted(kernel)
    if not wanted.loops or wanted.operations(kernel.body) > _MOST_OPERATIONS:
        return kernel
    made = simplify(_Unroller(wanted).kernel(kernel))
    constants = {op.result for op in walk(made.body) if isinstance(op, Const)}
    added = [op for op in walk(made.body) if isinstance(op, Atomic) and _is_small(op)]
    return made if all(index in constants for op in added for index in op.indices) else kernel


def _is_small(op: Atomic) -> bool:
    return None not in op.param.shape and 1 < math.prod(n or 0 for n in op.param.shape) <= MOST_ELEMENTS


class _Wanted:
    """Loops of few iterations, with additions to few elements in them."""

    def __init__(self, kernel: Kernel):
        self.constants = {op.result: op.value for op in walk(kernel.body) if isinstance(op, Const)}
        self.loops: dict[Op, range] = {}
        for op in walk(kernel.body):
            if isinstance(op, For) and any(isinstance(one, Atomic) and _is_small(one) for one in walk(op.body)):
                numbers = self._numbers(op)
                if 0 < len(numbers) <= MOST_ELEMENTS:
                    self.loops[op] = numbers

    def _numbers(self, op: For) -> range:
        """Return the numbers that the loop goes over; nothing if they are not known."""
        start, stop, step = (self.constants.get(v) for v in (op.start, op.stop, op.step))
        return range(0) if start is None or stop is None or not step else range(int(start), int(stop), int(step))

    def operations(self, block: Block) -> int:
        """Return how many operations the block would have after unrolling."""
        return sum(1 + len(self.loops.get(op, range(1))) * sum(map(self.operations, op.blocks)) for op in block.ops)


class _Unroller(Rewriter):
    def __init__(self, wanted: _Wanted):
        super().__init__(fresh=True)
        self._wanted = wanted

    def op(self, op: Op) -> None:
        if not isinstance(op, For) or op not in self._wanted.loops:
            self.copy(op)
            return
        carried = self.all(op.inits)
        for number in self._wanted.loops[op]:
            index = Value(op.body.params[0].type)
            self.emit(Const(index, number))
            self.values.update(zip(op.body.params, (index, *carried), strict=True))
            for inner in op.body.ops:
                self.op(inner)
            carried = self.all(op.body.results)
        self.values.update(zip(op.results, carried, strict=True))
