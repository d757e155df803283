"""Nests that count up, made of those of adjoints, which go over elements from the last to the first.

    for r in range(0, 32) {                for i in range(0, 32) {
      i = cast(31 - r)              ->       store c[i], ...
      store c[i], ... }                    }

Iterations are independent, or summed in any order. So the index can be the element's, and arrays lie in registers.
"""

from __future__ import annotations

from jaxwarp.analysis.loops.folds import SUM, fold_of
from jaxwarp.analysis.loops.nests import Nests
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Block, Call, Const, For, Op, Value, walk
from jaxwarp.ir.rewrite import Rewriter
from jaxwarp.ir.rows import count_uses
from jaxwarp.types import int32


def forwards(kernel: Kernel, nests: Nests) -> Kernel:
    """Return the kernel with the loops of nests over the indices of elements."""
    return _Turner(kernel, nests).kernel(kernel)


class _Turner(Rewriter):
    def __init__(self, kernel: Kernel, nests: Nests):
        super().__init__()
        self._nests = nests
        self._uses = count_uses(kernel)
        self._turned = {
            loop
            for nest in nests.found.values()
            if nest.fold is None or (nest.fold.kind == SUM and not nest.is_scan)
            for loop in nest.loops
        }
        self._calls: dict[Value, list[Call]] = {}
        for op in walk(kernel.body):
            if isinstance(op, For) and op.inits:
                fold = fold_of([op], nests.defining, self._uses)
                self._turned |= {op} if fold is not None and fold.kind == SUM else set()
            if isinstance(op, Call):
                for value in op.args:
                    self._calls.setdefault(value, []).append(op)
        self._dropped: set[Op] = set()

    def op(self, op: Op) -> None:
        if op in self._dropped:
            return
        index = self._from_the_end(op) if isinstance(op, For) and op in self._turned else None
        if index is None:
            self.copy(op)
            return
        assert isinstance(op, For)
        end, numbers = index
        element = Value(int32, op.body.params[0].name)
        for cast in self._calls[end.result]:
            self.values[cast.result] = element
            self._dropped.add(cast)
        self._dropped.add(end)
        last = self._nests.number(end.args[0]) or 0
        start, stop, step = Value(int32), Value(int32), Value(int32)
        for value, number in ((start, last - numbers[-1]), (stop, last - numbers[0] + 1), (step, 1)):
            self.emit(Const(value, number))
        body = self.block(op.body)
        body = Block((element, *body.params[1:]), body.ops, body.results)
        self.emit(For(op.results, start, stop, step, self.all(op.inits), body, op.over_tile, loc=op.loc))

    def _from_the_end(self, loop: For) -> tuple[Call, range] | None:
        """Return the operation that makes a loop's index that of an element, and what the index goes over."""
        numbers, index = self._nests.range_of(loop), loop.body.params[0]
        found = self._calls.get(index, [])
        if numbers.step != 1 or not numbers or len(found) != 1 or self._uses[index] != 1:
            return None
        end = found[0]
        if end.builtin.name != "sub" or self._nests.number(end.args[0]) is None:
            return None
        casts = self._calls.get(end.result, [])
        if len(casts) != self._uses[end.result] or not all(x.builtin.typed and x.result.type is int32 for x in casts):
            return None
        last = self._nests.number(end.args[0]) or 0
        return (end, numbers) if abs(last - numbers[-1]) < 1 << 30 and abs(last - numbers[0]) < 1 << 30 else None
