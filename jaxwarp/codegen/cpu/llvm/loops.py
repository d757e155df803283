"""The elements of loops: the header block, and the distance and trip count of a range."""

from __future__ import annotations

from collections.abc import Sequence

from jaxwarp.codegen.cpu.llvm.vectors import FunctionText, VectorBuilder
from jaxwarp.types import Scalar

# What the names of the header blocks of a kernel's loops start with, if LLVM's passes over loops may find work in them.
LOOP_HEADERS = ("for", "while")


class LoopHeader:
    """The header block of a loop under construction: phis whose second arm comes at the end."""

    def __init__(self, function: FunctionText, header: str):
        self.function = function
        self.header = header
        self.before = function.label
        self.open_phis: list[tuple[int, str]] = []  # line and its text so far
        function.line(f"br label %{header}")
        function.open(header)

    def phi(self, type_: str, init: str) -> str:
        """A value that is `init` on entry and what `close` is given later on."""
        name = self.function.name()
        self.open_phis.append((len(self.function.lines), f"  {name} = phi {type_} [ {init}, %{self.before} ]"))
        self.function.lines.append("")
        return name

    def close(self, nexts: Sequence[str], metadata: str = "", branch: str = "") -> None:
        """Jumps back to the header with the phis' next values, in the order of their making.

        With `branch`, a condition and the label of another block ("%v1, label %past"), only if the condition holds.
        """
        for (line, text), value in zip(self.open_phis, nexts, strict=True):
            self.function.lines[line] = f"{text}, [ {value}, %{self.function.label} ]"
        condition, _, past = branch.partition(", ")
        target = f"i1 {condition}, label %{self.header}, {past}" if branch else f"label %{self.header}"
        self.function.line(f"br {target}{metadata}")


def range_distance(ops: VectorBuilder, dtype: Scalar, bounds: Sequence[str], literal: str) -> tuple[str, str]:
    """Return the distance that a range covers, as an unsigned number (0 if it is empty), and that of one step.

    Args:
        ops: builder of scalars or vectors.
        dtype: type of the index.
        bounds: start, stop, step.
        literal: the step, if it is a number known here, else something that starts with "%".
    """
    type_ = ops.type(dtype)
    start, stop, step = bounds
    less = "icmp slt" if dtype.is_signed else "icmp ult"
    zero = ops.const(dtype, 0)

    def reach(low: str, high: str) -> str:
        distance = ops.inst(f"sub {type_} {high}, {low}")
        return ops.select(ops.inst(f"{less} {type_} {low}, {high}"), type_, distance, zero)

    if not literal.startswith("%"):
        known = int(literal)
        if known == 0:
            return zero, zero
        return (reach(start, stop), step) if known > 0 else (reach(stop, start), ops.const(dtype, -known))
    goes_up = ops.inst(f"{less} {type_} {zero}, {step}")
    distance = ops.select(goes_up, type_, reach(start, stop), reach(stop, start) if dtype.is_signed else zero)
    is_zero = ops.inst(f"icmp eq {type_} {step}, {zero}")
    distance = ops.select(is_zero, type_, zero, distance)
    return distance, ops.select(goes_up, type_, step, ops.inst(f"sub {type_} {zero}, {step}"))


def trip_count(one: VectorBuilder, dtype: Scalar, bounds: Sequence[str]) -> str:
    """Return the number of iterations of a range, as an unsigned scalar."""
    type_ = one.type(dtype)
    distance, pace = range_distance(one, dtype, bounds, bounds[2])
    if pace == "1" or pace == "0":
        return distance
    safe = pace
    if pace.startswith("%"):
        safe = one.select(one.inst(f"icmp eq {type_} {pace}, 0"), type_, "1", pace)
    # Rounded up without overflow: (distance - 1) / pace + 1 unless the distance is 0.
    before_last = one.inst(f"sub {type_} {distance}, 1")
    quotient = one.inst(f"udiv {type_} {before_last}, {safe}")
    count = one.inst(f"add {type_} {quotient}, 1")
    return one.select(one.inst(f"icmp eq {type_} {distance}, 0"), type_, "0", count)
