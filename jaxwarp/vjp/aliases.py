"""Elements that a reverse sweep takes for two, because their indices differ, though one counts from the end.

Where the order of loads and stores at an element cannot be told for all indices, and what was overwritten cannot be
recorded either, the sweep takes indices as they are written (`analysis/dependence.py`): i and i + n are for two
elements. That is wrong if i is negative. So a launch beside the sweep looks for negative indices, and fails at one:

    k = from_end(i, n)           ->        k = from_end(i, n)
    v = load a[k]                          if i < 0 { expect "..."; store a_from_end[k], 1 }

Where nobody is told of what fails (docs/design/0022), all that the sweep gives is NaN. That has to be asked of the
launch: what a thread does with a wrong value may well be finite. Nothing is taken so of integers in arrays, and of
what decides how often a loop runs. A kernel that shows that its indices are not negative (`max(i, 0)`) has no
`from_end`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from jaxwarp.analysis.addresses import Access
from jaxwarp.deep import with_deep_stack
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import EXPECT, Block, Call, If, Load, Op, Param, Tell, Value, walk
from jaxwarp.ir.rewrite import Rewriter
from jaxwarp.types import float32
from jaxwarp.vjp.calculus import Calculus
from jaxwarp.vjp.derived import Derived, marking

Written = Mapping[Value, tuple[Value, ...]]


def written_from_end(kernel: Kernel) -> frozenset[Param]:
    """The arrays of floats that a kernel reads and writes, by indices that may count from the end."""
    written = _written(kernel)
    accesses = [op for op in walk(kernel.body) if isinstance(op, Access)]
    ops = [op for op in accesses if op.param.dtype.is_float and op.param not in kernel.locals]
    read, changed = ({op.param for op in ops if isinstance(op, Load) is is_read} for is_read in (True, False))
    return frozenset(op.param for op in ops if not written.keys().isdisjoint(op.indices)) & read & changed


@with_deep_stack
def make_search(kernel: Kernel) -> Derived | None:
    """Build the kernel that marks the elements that are indexed from the end, in arrays that are written so.

    Its slots "winner" are the marks, which are zero elsewhere. The result is None if there are no such arrays.

    Args:
        kernel: one whose rounding is fixed.
    """
    marks = {p: Param(f"{p.name}_from_end", float32, p.shape) for p in written_from_end(kernel)}
    if not marks:
        return None
    found = _Search(marks, _written(kernel)).kernel(kernel)
    of = {kernel.params.index(p): mark for p, mark in marks.items()}
    return marking(replace(found, name=f"{kernel.name}_from_end"), (), of)


def _written(kernel: Kernel) -> Written:
    """Indices that count from the end, also those of slices, and what is to be negative for that."""
    found: dict[Value, tuple[Value, ...]] = {}
    for op in walk(kernel.body):
        if isinstance(op, Call) and op.result.type.is_int:
            inner = [v for a in op.args for v in found.get(a, ())]
            if op.builtin.name == "from_end":
                inner.append(op.args[0])
            if inner:
                found[op.result] = tuple(dict.fromkeys(inner))
    return found


class _Search(Rewriter):
    def __init__(self, marks: Mapping[Param, Param], written: Written):
        super().__init__()
        self.marks = marks
        self.written = written

    def op(self, op: Op) -> None:
        self.copy(op)
        if not isinstance(op, Access) or op.param not in self.marks:
            return
        builder = Builder()
        builder.loc = op.loc
        o = Calculus(builder)
        for written in dict.fromkeys(v for index in op.indices for v in self.written.get(index, ())):
            below = o.lt(written, 0)
            with builder.block() as ops:
                builder.append(_failure(op, written))
                builder.store(self.marks[op.param], op.indices, builder.const(1.0, float32))
            builder.append(If((), below, Block((), tuple(ops), ()), Block((), (), ()), loc=op.loc))
        for made in builder.here:
            self.emit(made)


def _failure(op: Access, index: Value) -> Tell:
    before = f"{op.param.name} is read and written, and its index "
    after = (
        " counts from the end here; the reverse derivative would have to know before the launch which elements are the"
        " same. Use an index that is not negative, or let the loops around have a number of iterations that is known"
    )
    return Tell(EXPECT, (before, after), ("%u" if not index.type.is_signed else "%d",), (index,), loc=op.loc)
