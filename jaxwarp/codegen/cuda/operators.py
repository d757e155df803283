"""Integer operations for which C++'s own operators mean what the IR means: no overflow, zero divisor or promotion.

Integers of the IR wrap, but signed overflow is undefined in C++; so builtins spell `+` as a helper, wrap_add. Plain
operators are easier to read, and tell the compiler that index arithmetic cannot wrap, so that the neighbours of a
stencil become one address with offsets. They are used where the ranges of the operands prove them right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from jaxwarp.analysis.integers.facts import Facts
from jaxwarp.analysis.integers.ranges import LARGEST_EXTENT, all_of, is_inside
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Call, Load, Op, Store, Value, walk
from jaxwarp.types import int32

_OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "/", "mod": "%",
    "bit_and": "&", "bit_or": "|", "bit_xor": "^", "shl": "<<", "shr": ">>",
}  # fmt: skip


class Operators:
    """The C++ operators of a kernel's integers."""

    def __init__(self, kernel: Kernel, grid: Sequence[int | None]):
        self.facts = Facts(kernel, grid)
        self._only_indexes = _only_indexes(list(walk(kernel.body)))

    def operator(self, call: Call) -> str | None:
        """The C++ operator that computes exactly what this call means, if there is one."""
        symbol = _OPERATORS.get(call.builtin.name)
        t = call.result.type
        if symbol is None or not t.is_int or t.bits < 32:
            return None
        match symbol:
            case "&" | "|" | "^":
                return symbol
            case "<<" | ">>":
                shifts_plainly = symbol == ">>" or not t.is_signed
                return symbol if shifts_plainly and is_inside(self.facts[call.args[1]], (0, t.bits - 1)) else None
            case "/" | "%":
                rounds_down = call.builtin.name == "floordiv" and self.facts[call.args[0]][0] < 0
                return symbol if self.facts[call.args[1]][0] > 0 and not rounds_down else None
            case _:
                return symbol if not t.is_signed or self._cannot_wrap(call) else None

    def wrapped(self, call: Call) -> tuple[int, int] | None:
        """`(below, divisor)` where `a % divisor` is a - below or a - below - divisor, whichever is not negative.

        That is what indices of periodic neighbours are: no division is needed.
        """
        if call.builtin.name != "mod" or call.result.type is not int32:
            return None
        (least, most), (divisor, same) = (self.facts[x] for x in call.args)
        if divisor != same or divisor <= 0 or least < 0 or most >= LARGEST_EXTENT:
            return None
        below = least // divisor * divisor
        return (below, divisor) if most < below + 2 * divisor else None

    def _cannot_wrap(self, call: Call) -> bool:
        exact, limits = self.facts.result(call), all_of(call.result.type)
        if call.result in self._only_indexes and call.result.type is int32:
            # Above 2**31 the sum would wrap to a negative number, which no array has as an index.
            limits = limits[0], 2**32 - 1
        return exact is not None and is_inside(exact, limits)


def _only_indexes(ops: Sequence[Op]) -> set[Value]:
    """Values whose every use is as an index of an array."""
    uses: Counter[Value] = Counter()
    indexes: Counter[Value] = Counter()
    for op in ops:
        uses.update(op.operands)
        for block in op.blocks:
            uses.update(block.results)
        if isinstance(op, (Load, Store, Atomic)):
            indexes.update(op.indices)
    return {value for value, count in indexes.items() if uses[value] == count}
