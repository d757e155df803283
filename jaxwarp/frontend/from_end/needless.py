"""Indices that count from the end where they are negative, at run time: `from_end(i, n)`.

That is written for each index that is no constant, and taken back where the kernel shows that it is not below 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jaxwarp.frontend.from_end.naturals import Naturals
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Op, Param, Value
from jaxwarp.ir.rewrite import Rewriter


@dataclass(frozen=True, eq=False)
class FromEnd:
    """How an index was made one that counts from the end: by the operations, the last of which gives it.

    Attributes:
        index: as it was.
        param: the array, None for components of a vector.
        ops: all of which only this index uses.
    """

    index: Value
    param: Param | None
    ops: tuple[Op, ...]


def without_needless(kernel: Kernel, from_end: Mapping[Value, FromEnd]) -> Kernel:
    """The kernel in which indices that are never negative are as they were written.

    Args:
        kernel: the kernel.
        from_end: by the values that stand for them.
    """
    naturals = Naturals(kernel)
    # Some are of statements that were lowered twice.
    made = [(v, made) for v, made in from_end.items() if made.ops[-1] in naturals.facts]
    taken = {v: made.index for v, made in made if naturals.is_natural(made.index, made.ops[-1], made.param)}
    if not taken:
        return kernel
    return _WithoutOps(taken, {op for v in taken for op in from_end[v].ops}).kernel(kernel)


class _WithoutOps(Rewriter):
    def __init__(self, values: Mapping[Value, Value], ops: set[Op]):
        super().__init__()
        self.values.update(values)
        self.ops = ops

    def op(self, op: Op) -> None:
        if op not in self.ops:
            self.copy(op)
