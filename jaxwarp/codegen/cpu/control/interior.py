"""The tests, at the start of a chunk of threads, that tell whether it is in the interior, see interior.py."""

from __future__ import annotations

from dataclasses import dataclass

from jaxwarp.codegen.cpu.accumulate.accumulators import Accumulators
from jaxwarp.codegen.cpu.analysis.interior import EQUAL, ORDERED, QUOTIENT, Interior
from jaxwarp.codegen.cpu.control.blocks import Emitter
from jaxwarp.codegen.cpu.llvm.lanes import Lanes
from jaxwarp.ir.nodes import Block, Call, Value


def emit_tests(interior: Interior, lanes: Lanes, tids: list[str]) -> str:
    """Computes, as an i1, whether the chunk whose first thread has indices `tids` is one of the interior.

    `lanes` has the interior's strides: what is assumed is a scalar, which is right for the first lane in any case, and
    for the last one if all tests hold. The operands of the tests stay bound, for the body that comes after them.
    """
    Emitter(lanes, tids, Accumulators(), interior.choices).block(Block((), tuple(interior.slice), ()))
    tester = _Tester(lanes)
    for op in interior.tests:
        tester.test(op, interior.choices.get(op.result))
    return tester.holds


@dataclass(frozen=True)
class _Ends:
    """A value in the first and in the last lane, i64; between them it does not wrap."""

    first: str
    last: str
    stride: int

    @property
    def least(self) -> str:
        return self.first if self.stride >= 0 else self.last

    @property
    def greatest(self) -> str:
        return self.last if self.stride >= 0 else self.first


class _Tester:
    def __init__(self, lanes: Lanes):
        self.lanes = lanes
        self.inst = lanes.function.inst
        self.holds = "true"

    def require(self, condition: str) -> None:
        self.holds = condition if self.holds == "true" else self.inst(f"and i1 {self.holds}, {condition}")

    def ends(self, value: Value) -> _Ends:
        """Return the ends (first and last lane) of a value, and require that no lane between them has wrapped."""
        scalar, stride = self.lanes.scalar(value), self.lanes.strides.of[value] or 0
        wide = self.lanes.widened.get(scalar)
        first = wide or self.lanes.derive((scalar, "i32"), lambda: self.inst(f"sext i32 {scalar} to i64"))
        if stride == 0:
            return _Ends(first, first, 0)
        last = self.lanes.derive(
            (first, "last", stride), lambda: self.inst(f"add i64 {first}, {stride * (self.lanes.width - 1)}")
        )
        # A thread index does not wrap: the chunk's last thread is one of the launch.
        if wide is None:
            narrow = self.inst(f"trunc i64 {last} to i32")
            back = self.inst(f"sext i32 {narrow} to i64")
            self.require(self.inst(f"icmp eq i64 {back}, {last}"))
        return _Ends(first, last, stride)

    def test(self, op: Call, choice: bool | None) -> None:
        name = op.builtin.name
        a, b = (self.ends(v) for v in op.args)
        if name in ORDERED:
            at_first = self.inst(f"icmp s{name} i64 {a.first}, {b.first}")
            at_last = self.inst(f"icmp s{name} i64 {a.last}, {b.last}")
            self.require(self.inst(f"icmp eq i1 {at_first}, {at_last}"))
            if choice is not None:
                self.require(at_first if choice else self.inst(f"xor i1 {at_first}, true"))
        elif name in EQUAL:
            self.require(self.inst(f"or i1 {self.is_below(a, b)}, {self.is_below(b, a)}"))
            if choice is (name == "eq"):
                self.require("false")
        elif name == "from_end":
            self.require(self.inst(f"icmp sge i64 {a.least}, 0"))
        elif name in QUOTIENT:
            self.same_quotient(op, a, b)
        else:
            steps, other = (a, b) if a.stride else (b, a)
            self.require(self.is_below(steps, other) if name == "min" else self.is_below(other, steps))

    def is_below(self, a: _Ends, b: _Ends) -> str:
        """Return an i1: whether a < b in all lanes."""
        if a.stride == 0 or b.stride == 0:
            return self.inst(f"icmp slt i64 {a.greatest}, {b.least}")
        first, last = (self.inst(f"icmp slt i64 {x}, {y}") for x, y in ((a.first, b.first), (a.last, b.last)))
        return self.inst(f"and i1 {first}, {last}")

    def same_quotient(self, op: Call, a: _Ends, b: _Ends) -> None:
        is_natural = self.inst(f"icmp sge i64 {a.first}, 0")
        is_positive = self.inst(f"icmp sgt i64 {b.first}, 0")
        self.require(is_natural)
        self.require(is_positive)
        # In 32 bits, where division is faster, and guarded: the operands need not be what was just required.
        divisor = self.inst(f"select i1 {is_positive}, i32 {self.lanes.scalar(op.args[1])}, i32 1")
        dividend = self.inst(f"select i1 {is_natural}, i32 {self.lanes.scalar(op.args[0])}, i32 0")
        rest = self.inst(f"urem i32 {dividend}, {divisor}")
        rest = self.inst(f"zext i32 {rest} to i64")
        last = self.inst(f"add i64 {rest}, {a.stride * (self.lanes.width - 1)}")
        self.require(self.inst(f"icmp slt i64 {last}, {b.first}"))
