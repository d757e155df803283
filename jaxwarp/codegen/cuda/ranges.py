"""Where C++'s own operators on integers mean what the IR means: no overflow, no zero divisor, no promotion.

Integers of the IR wrap, but signed overflow is undefined in C++; so builtins spell `+` as a helper, wrap_add. Plain
operators are easier to read, and tell the compiler that index arithmetic cannot wrap, so that the neighbours of a
stencil become one address with offsets. They are used where intervals of the operands prove them right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Call, Const, For, Load, Op, Size, Store, Tid, Value, walk
from jaxwarp.types import Scalar, bool_, int32

_OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "/", "mod": "%",
    "bit_and": "&", "bit_or": "|", "bit_xor": "^", "shl": "<<", "shr": ">>",
}  # fmt: skip
# An extent fits int32, so an index below it is smaller.
_LARGEST_INDEX = 2**31 - 2


@dataclass(frozen=True)
class Interval:
    low: int
    high: int

    def inside(self, other: Interval) -> bool:
        return other.low <= self.low and self.high <= other.high


def _limits(t: Scalar) -> Interval:
    if t is bool_:
        return Interval(0, 1)
    return Interval(-(1 << (t.bits - 1)), (1 << (t.bits - 1)) - 1) if t.is_signed else Interval(0, (1 << t.bits) - 1)


class Ranges:
    """Intervals of a kernel's integer values, and what follows from them."""

    def __init__(self, kernel: Kernel, grid: Sequence[int | None]):
        self._grid = grid
        self._known: dict[Value, Interval] = {}
        ops = list(walk(kernel.body))
        self._only_indexes = _only_indexes(ops)
        for op in ops:
            self._visit(op)

    def of(self, value: Value) -> Interval:
        return self._known.get(value) or _limits(value.type)

    def _visit(self, op: Op) -> None:
        if isinstance(op, Const) and op.result.type.is_int:
            self._known[op.result] = Interval(int(op.value), int(op.value))
        elif isinstance(op, Tid):
            extent = self._grid[op.axis]
            self._known[op.result] = Interval(0, _LARGEST_INDEX if extent is None else max(0, extent - 1))
        elif isinstance(op, Size):
            self._known[op.result] = Interval(0, _LARGEST_INDEX + 1)
        elif isinstance(op, For):
            self._known[op.body.params[0]] = self._loop_index(op)
        elif isinstance(op, Call) and op.result.type.is_int:
            exact = self._exact(op)
            if exact is not None and exact.inside(_limits(op.result.type)):
                self._known[op.result] = exact

    def _loop_index(self, loop: For) -> Interval:
        start, stop, step = self.of(loop.start), self.of(loop.stop), self.of(loop.step)
        up = Interval(start.low, max(start.low, stop.high - 1))
        down = Interval(min(start.high, stop.low + 1), start.high)
        if step.low >= 0:
            return up
        if step.high <= 0:
            return down
        return Interval(min(up.low, down.low), max(up.high, down.high))

    def _exact(self, call: Call) -> Interval | None:
        """The interval of the result before it wraps."""
        args = [self.of(a) for a in call.args]
        match call.builtin.name, args:
            case "add", [a, b]:
                return Interval(a.low + b.low, a.high + b.high)
            case "sub", [a, b]:
                return Interval(a.low - b.high, a.high - b.low)
            case "mul", [a, b]:
                products = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
                return Interval(min(products), max(products))
            case (name, [a, b]) if b.low > 0 and (name == "floordiv" or (name == "div" and a.low >= 0)):
                quotients = [x // y for x in (a.low, a.high) for y in (b.low, b.high)]
                return Interval(min(quotients), max(quotients))
            case "mod", [a, b] if b.low > 0:
                return Interval(0 if a.low >= 0 else 1 - b.high, b.high - 1)
            case "min", [a, b]:
                return Interval(min(a.low, b.low), min(a.high, b.high))
            case "max", [a, b]:
                return Interval(max(a.low, b.low), max(a.high, b.high))
            case "select", [_, a, b]:
                return Interval(min(a.low, b.low), max(a.high, b.high))
            case "cast", [a] if call.args[0].type.is_int:
                return a
            case _:
                return None

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
                return symbol if shifts_plainly and self.of(call.args[1]).inside(Interval(0, t.bits - 1)) else None
            case "/" | "%":
                rounds_down = call.builtin.name == "floordiv" and self.of(call.args[0]).low < 0
                return symbol if self.of(call.args[1]).low > 0 and not rounds_down else None
            case _:
                return symbol if not t.is_signed or self._cannot_wrap(call) else None

    def wrapped(self, call: Call) -> tuple[int, int] | None:
        """`(below, divisor)` where `a % divisor` is a - below or a - below - divisor, whichever is not negative.

        That is what indices of periodic neighbours are: no division is needed.
        """
        if call.builtin.name != "mod" or call.result.type is not int32:
            return None
        a, b = (self.of(x) for x in call.args)
        if b.low != b.high or b.low <= 0 or a.low < 0 or a.high > _LARGEST_INDEX:
            return None
        below = a.low // b.low * b.low
        return (below, b.low) if a.high < below + 2 * b.low else None

    def _cannot_wrap(self, call: Call) -> bool:
        exact = self._exact(call)
        limits = _limits(call.result.type)
        if exact is None:
            return False
        if call.result in self._only_indexes and call.result.type is int32:
            # Above 2**31 the sum would wrap to a negative number, which no array has as an index.
            limits = Interval(limits.low, 2**32 - 1)
        return exact.inside(limits)


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
