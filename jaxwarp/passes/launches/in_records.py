"""Arrays that are fields of records in memory, seen as all words of the records.

    p_x[i, 2]  of (n, 3)      p_x[i, 1 + 2]  of (n, 5)

if a record has five words of the array's type, and the field begins at the second one. So code for dense arrays works
on the records themselves. Words of other fields are never written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.deep import with_deep_stack
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Const, Load, Op, Param, Store, Value
from jaxwarp.ir.rewrite import Rewriter
from jaxwarp.types import int32

Place = tuple[int, int]
"""How many words of an array's type a record has, and which of them is the first one of the field."""


@with_deep_stack
def in_records(kernel: Kernel, places: Mapping[int, Place]) -> Kernel:
    """The kernel whose parameters of these numbers have one component axis: the words of records."""
    return _InRecords({kernel.params[i]: place for i, place in places.items()}).kernel(kernel)


class _InRecords(Rewriter):
    def __init__(self, places: Mapping[Param, Place]):
        super().__init__()
        self.places = places
        self.known: dict[Value, int] = {}
        for param, (words, _) in places.items():
            axes = tuple(n for n in param.shape if n is None)
            self.params[param] = Param(param.name, param.dtype, (*axes, words))

    def op(self, op: Op) -> None:
        if isinstance(op, Const) and type(op.value) is int:
            self.known[op.result] = op.value
        if not isinstance(op, (Load, Store, Atomic)) or op.param not in self.places:
            self.copy(op)
            return
        param, indices = self.param(op.param), self.indices(op.param, op.indices)
        match op:
            case Load():
                self.emit(Load(op.result, param, indices, loc=op.loc))
            case Store():
                self.emit(Store(param, indices, self.value(op.value), loc=op.loc))
            case Atomic():
                self.emit(Atomic(op.result, op.kind, param, indices, self.all(op.args), op.takes, loc=op.loc))

    def indices(self, param: Param, indices: tuple[Value, ...]) -> tuple[Value, ...]:
        """Return the indices of an element among the words."""
        axes = param.shape.count(None)
        word, rest = self.places[param][1], list[tuple[Value, int]]()
        for k, index in enumerate(indices[axes:], axes):
            stride = math.prod(n or 1 for n in param.shape[k + 1 :])
            if index in self.known:
                word += self.known[index] * stride
            else:
                rest.append((self.value(index), stride))
        place = self.number(word)
        for index, stride in rest:
            narrow = index if index.type is int32 else self.call(ROWS["cast"], index, dtype=int32)
            place = self.call(ROWS["add"], place, self.call(ROWS["mul"], narrow, self.number(stride)))
        return (*self.all(indices[:axes]), place)

    def number(self, value: int) -> Value:
        result = Value(int32)
        self.emit(Const(result, value))
        return result
