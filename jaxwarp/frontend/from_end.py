"""Indices that count from the end where they are negative, at run time: `from_end(i, n)`.

That is written for each index that is no constant, and taken back where the kernel shows that it is not below 0: by
types, conditions and loops (`analysis/integers/facts.py`).

Arithmetic is taken as that of whole numbers: an index whose computation leaves its type is outside of its array anyway.
So are all indices of an array without elements; the extents of the array in question are 1 at least. Not so of what is
made smaller, or compared: `h % n` is inside where the product `h`, a hash say, has wrapped. Only sums and differences
of indices and extents are taken not to wrap there.

    Tid, Size, a % b, a // b, a & b          of operands that are not negative (a % b takes the sign of a)
    i - 1    where i > 0 or i != 0           i - k    where i >= k
    max(i - 1, 0)    min(i + 1, n - 1)       the indices of loops that start and stop at such numbers
    carried values that start at, and in each iteration stay at, what they start at or above
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from jaxwarp.analysis.indirect_indices import flow
from jaxwarp.analysis.integers.facts import REDUCING, Facts
from jaxwarp.analysis.integers.ranges import all_of, is_inside
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Call, Op, Param, Value, walk
from jaxwarp.ir.rewrite import Rewriter


@dataclass(frozen=True, eq=False)
class FromEnd:
    """An index that counts from the end, with the operations that make it so; the last of them gives it.

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
    facts = Facts(kernel, exact=_may_wrap(kernel))
    # Some are of statements that were lowered twice. One array after the other: what follows from its elements is kept.
    made = [(v, made) for v, made in from_end.items() if made.ops[-1] in facts.around]
    arrays = {param: place for place, param in enumerate(dict.fromkeys(each.param for _, each in made))}
    made.sort(key=lambda pair: arrays[pair[1].param])
    taken = {v: made.index for v, made in made if facts.at(made.index, made.ops[-1], made.param)[0] >= 0}
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


def _may_wrap(kernel: Kernel) -> set[Value]:
    """Products, what was made narrower, and all that is made of those."""
    ops = [op for op in walk(kernel.body) if not op.defined or op.defined[0].type.is_int or op.blocks]
    found = {op.result for op in ops if isinstance(op, Call) and _is_product(op)}
    if not found:
        return found
    made = defaultdict[Value, list[Value]](list)
    for op in ops:
        if not isinstance(op, Call) or op.builtin.name not in REDUCING:
            for target, sources in flow(op):
                for source in sources:
                    made[source].append(target)
    left = list(found)
    while left:
        more = [target for target in made.pop(left.pop(), ()) if target not in found]
        found.update(more)
        left += more
    return found


def _is_product(op: Call) -> bool:
    if op.builtin.name == "cast":
        if not op.args[0].type.is_int:
            return False
        return not is_inside(all_of(op.args[0].type), all_of(op.result.type))
    return op.builtin.name in ("mul", "shl")
