"""Elements that a reverse sweep takes for two, because their indices differ, though one counts from the end.

That loads and stores of a thread are of different elements is shown by their indices as they are written, see
analysis/dependence.py: i and i + n are the same element where i is negative. So where an array is read and written,
what goes through a negative index is NaN in the derivative:

    v = load a[from_end(i, n)]        ->        v = load a[from_end(i, n)] * (NaN if i < 0 else 1)

A kernel that shows that its indices are not negative (`max(i, 0)`) has no `from_end`.
"""

from __future__ import annotations

from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Call, Const, Load, Op, Param, Store, Value, walk
from jaxwarp.ir.rewrite import Rewriter, rebuild
from jaxwarp.types import Scalar, bool_


def written_from_end(kernel: Kernel) -> frozenset[Param]:
    """The arrays of floats that a kernel reads and writes, by indices that may count from the end."""
    counted = _counted(kernel)
    ops = [op for op in walk(kernel.body) if isinstance(op, Load | Store | Atomic) and op.param.dtype.is_float]
    read, written = ({op.param for op in ops if isinstance(op, Load) is is_read} for is_read in (True, False))
    return frozenset(op.param for op in ops if not counted.keys().isdisjoint(op.indices)) & read & written


def without_aliases(kernel: Kernel) -> Kernel:
    """The kernel as its reverse sweep may be made, see above."""
    params = written_from_end(kernel)
    return _Marked(params, _counted(kernel)).kernel(kernel) if params else kernel


def _counted(kernel: Kernel) -> dict[Value, Value]:
    """Indices that count from the end, and what they are as they are written."""
    return {op.result: op.args[0] for op in walk(kernel.body) if isinstance(op, Call) and op.builtin.name == "from_end"}


class _Marked(Rewriter):
    def __init__(self, arrays: frozenset[Param], counted: dict[Value, Value]):
        super().__init__()
        self.arrays = arrays
        self.counted = counted

    def op(self, op: Op) -> None:
        match op:
            case Load() if op.param in self.arrays:
                factor = self.factor(op)
                self.copy(op)
                if factor is not None:
                    self.values[op.result] = self.call(ROWS["mul"], op.result, factor, loc=op.loc)
            case Store() if op.param in self.arrays:
                factor = self.factor(op)
                if factor is None:
                    self.copy(op)
                    return
                value = self.call(ROWS["mul"], self.value(op.value), factor, loc=op.loc)
                self.emit(rebuild(op, (), (*self.all(op.indices), value)))
            case _:
                self.copy(op)

    def factor(self, op: Load | Store) -> Value | None:
        """1, or NaN where an index is negative; None if none can be. The NaN is made of 0 / 0: debug mode names it."""
        found: Value | None = None
        for index in op.indices:
            written = self.counted.get(index)
            if written is not None:
                below = self.call(ROWS["lt"], self.value(written), self.const(0, written.type), dtype=bool_, loc=op.loc)
                found = below if found is None else self.call(ROWS["logical_or"], found, below, loc=op.loc)
        if found is None:
            return None
        dtype = op.param.dtype
        one = self.call(ROWS["select"], found, self.const(0.0, dtype), self.const(1.0, dtype), loc=op.loc)
        return self.call(ROWS["div"], one, one, loc=op.loc)

    def const(self, value: float, dtype: Scalar) -> Value:
        op = Const(Value(dtype), value)
        self.emit(op)
        return op.result
