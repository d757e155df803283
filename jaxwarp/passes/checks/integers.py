"""Integers: division by zero, shifts and conversions out of range. They give what the IR says, and the thread says so.

    %q = floordiv %a, %b     ->     if eq %b, 0 { report (%a) }
                                    %q = floordiv %a, %b

Done before the kernel is simplified, which moves what is pure out of loops that may not run at all. What one side of a
select alone uses fails where that side is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxwarp.analysis.integers.facts import Facts
from jaxwarp.analysis.thread_values import Shapes
from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Call, Op, Value
from jaxwarp.ir.rewrite import Rewriter
from jaxwarp.passes.checks.choices import Choices, choices_of
from jaxwarp.passes.checks.reports import Reports
from jaxwarp.types import Scalar, float32

_DIVISIONS = {"div": "/", "floordiv": "//", "mod": "%"}
_SHIFTS = {"shl": "<<", "shr": ">>"}


def check_integers(kernel: Kernel, reports: Reports, grid: Sequence[Any], shapes: Shapes) -> Kernel:
    """The kernel with tests of divisors, of shift counts and of what is converted to integers.

    Integers of one size are converted to each other bit by bit, which is no failure.
    """
    return _CheckIntegers(kernel, reports, grid, shapes).kernel(kernel)


class _CheckIntegers(Rewriter):
    def __init__(self, kernel: Kernel, reports: Reports, grid: Sequence[Any], shapes: Shapes):
        super().__init__()
        self.facts = Facts(kernel, grid, shapes)
        self.b = Builder(self.scopes)
        self.reports = reports
        self.choices = choices_of(kernel)
        self.chosen: Choices = ()

    def op(self, op: Op) -> None:
        if isinstance(op, Call):
            self.b.loc = op.loc
            self.chosen = self.choices.get(op.result, ())
            self.test(op)
        super().op(op)

    def test(self, op: Call) -> None:
        name, types = op.builtin.name, [a.type for a in op.args]
        if name in _DIVISIONS and types[0].is_int:
            self.divisor(op, _DIVISIONS[name])
        elif name in _SHIFTS:
            self.shift(op, _SHIFTS[name])
        elif name == "cast" and op.result.type.is_int and types[0].is_float:
            self.from_float(op, types[0])
        elif name == "cast" and op.result.type.is_int and types[0].is_int and types[0].bits > op.result.type.bits:
            self.narrowed(op)

    def report(self, bad: Value, text: str, words: Sequence[Value] = ()) -> None:
        def failed() -> Sequence[Value]:
            self.reports.emit(self.b, text, words, self.b.loc)
            return ()

        for condition, way in self.chosen:
            chosen = self.value(condition) if way else self.b.call(ROWS["logical_not"], self.value(condition))
            bad = self.b.call(ROWS["logical_and"], bad, chosen)
        self.b.if_(bad, failed)

    def divisor(self, op: Call, symbol: str) -> None:
        dividend, divisor = op.args
        most = int(np.iinfo(divisor.type.numpy).max)
        if self.facts.is_within(divisor, 1, most, op) or self.facts.is_within(divisor, -most - 1, -1, op):
            return
        zero = self.b.const(0, divisor.type)
        self.report(self.b.call(ROWS["eq"], divisor, zero), f"division by zero: {{0}} {symbol} 0", [dividend])

    def shift(self, op: Call, symbol: str) -> None:
        value, count = op.args
        bits = value.type.bits
        if self.facts.is_within(count, 0, bits - 1, op):
            return
        low = self.b.call(ROWS["lt"], count, self.b.const(0, count.type))
        high = self.b.call(ROWS["ge"], count, self.b.const(bits, count.type))
        bad = self.b.call(ROWS["logical_or"], low, high)
        self.report(bad, f"shift out of range: {{0}} {symbol} {{1}}, of {bits} bits", [value, count])

    def from_float(self, op: Call, source: Scalar) -> None:
        (value,) = op.args
        target = op.result.type
        if source.is_half:
            source = float32
            value = self.b.call(ROWS["cast"], value, dtype=source)
        limits = np.iinfo(target.numpy)
        # It is cut off toward zero. A limit that the float does not hold exactly is a power of two, or beyond one.
        below, least = float(limits.min) - 1.0, float(limits.min)
        is_exact = float(source.numpy.type(below)) == below and below != least
        low = ("gt", below) if is_exact else ("ge", least)
        tests = [self.b.call(ROWS[name], value, self.b.const(limit, source))
                 for name, limit in (low, ("lt", 2.0 ** (target.bits - target.is_signed)))]  # fmt: skip
        good = self.b.call(ROWS["logical_and"], *tests)  # of NaN, too
        text = f"conversion of a {op.args[0].type} to {target}, which does not hold it"
        self.report(self.b.call(ROWS["logical_not"], good), text)

    def narrowed(self, op: Call) -> None:
        (value,) = op.args
        target = op.result.type
        limits = np.iinfo(target.numpy)
        if self.facts.is_within(value, int(limits.min), int(limits.max), op):
            return
        back = self.b.call(ROWS["cast"], self.b.call(ROWS["cast"], value, dtype=target), dtype=value.type)
        bad = self.b.call(ROWS["ne"], back, value)
        self.report(bad, f"conversion of {{0}} to {target}, which does not hold it", [value])
