"""Threads that have to follow each other: a function around the one for a rectangle of threads.

    if no two threads meet, asked of extents and numbers:   part(rectangle)
    else, if the rectangle has the first thread:            part(whole launch); or for each thread: part(it)

So a launch may be cut and given to several threads all the same: one of them does all of it, the others nothing. What
is asked is computed in floating point, which is exact as far as the answer is yes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jaxwarp.analysis.succession import Apart, Leaf, Succession, Uniform
from jaxwarp.codegen.abi import Geometry
from jaxwarp.codegen.cpu.llvm.arguments import FunctionFrame
from jaxwarp.codegen.cpu.llvm.loops import LoopHeader
from jaxwarp.codegen.cpu.llvm.vectors import FunctionText
from jaxwarp.ir.kernel import Kernel

SIGNATURE = (
    "define {linkage}void @{symbol}(ptr %buffers, ptr %geometry, i64 %row_begin, i64 %row_end, "
    "i64 %col_begin, i64 %col_end)"
)
_LIMIT = float(2**31)  # of indices, which are of 32 bits


def emit_in_order(frame: FunctionFrame, symbol: str, part: str, succession: Succession) -> tuple[Geometry, list[str]]:
    """The geometry and the text of the function `symbol` around `part`, whose frame is given."""
    writer = _Writer(FunctionFrame(frame.kernel, 1, frame.machine, frame.geometry), part)
    writer.write(succession)
    lines = [*writer.frame.lines, *writer.function.lines]
    text = [SIGNATURE.format(linkage="", symbol=symbol) + " #0 {", "entry:", *lines, "}"]
    return writer.frame.geometry, [*writer.function.declarations, *text]


class _Writer:
    def __init__(self, frame: FunctionFrame, part: str):
        self.frame = frame
        self.part = part
        self.function = FunctionText()
        self.inst = self.function.inst

    @property
    def kernel(self) -> Kernel:
        return self.frame.kernel

    def call(self, *rectangle: str) -> None:
        arguments = ", ".join(f"i64 {n}" for n in rectangle)
        self.function.line(f"call void @{self.part}(ptr %buffers, ptr %geometry, {arguments})")

    def write(self, succession: Succession) -> None:
        function = self.function
        if succession.apart is not None:
            is_apart = self.all([self.is_apart(question) for question in succession.apart])
            function.line(f"br i1 {is_apart}, label %together, label %ordered")
            function.open("together")
            self.call("%row_begin", "%row_end", "%col_begin", "%col_end")
            function.line("ret void")
            function.open("ordered")
        begin = self.inst("or i64 %row_begin, %col_begin")
        is_first = self.inst(f"icmp eq i64 {begin}, 0")
        rows, columns = self.extents()
        is_any = self.inst(f"icmp ne i64 {self.inst(f'mul i64 {rows}, {columns}')}, 0")
        function.line(f"br i1 {self.all([is_first, is_any])}, label %first, label %end")
        function.open("first")
        if succession.one_by_one:
            self.each(rows, columns)
        else:
            self.call("0", rows, "0", columns)
            function.line("br label %end")
        function.open("end")
        function.line("ret void")

    def extents(self) -> tuple[str, str]:
        """Rows and columns of the launch."""
        *outer, last = [self.frame.grid_extent(axis) for axis in range(self.kernel.grid_rank)]
        rows = "1"
        for extent in outer:
            rows = self.inst(f"mul i64 {rows}, {extent}")
        return rows, last

    def each(self, rows: str, columns: str) -> None:
        """A call for each thread; there is one at least."""
        function = self.function
        outer = LoopHeader(function, "rows")
        row = outer.phi("i64", "0")
        after_row = self.inst(f"add i64 {row}, 1")
        inner = LoopHeader(function, "columns")
        column = inner.phi("i64", "0")
        after = self.inst(f"add i64 {column}, 1")
        self.call(row, after_row, column, after)
        inner.close([after], branch=f"{self.inst(f'icmp slt i64 {after}, {columns}')}, label %row_done")
        function.open("row_done")
        outer.close([after_row], branch=f"{self.inst(f'icmp slt i64 {after_row}, {rows}')}, label %end")

    # What is asked, in float64.

    def all(self, bits: Sequence[str]) -> str:
        found = bits[0]
        for bit in bits[1:]:
            found = self.inst(f"and i1 {found}, {bit}")
        return found

    def is_apart(self, question: Apart) -> str:
        """See Apart. The sizes of all terms together are below 2^31: no index wraps, and no float is rounded."""
        steps = {axis: self.steps(self.frame.grid_extent(axis)) for axis, _ in question.axes}
        sizes = [self.product(self.size(c), steps[axis]) for axis, c in question.axes]
        spread = _literal(question.spread)
        for loop in question.loops:
            ends = self.total([self.size(loop.start), self.size(loop.stop)])
            sizes.append(self.product(self.size(loop.coefficient), ends))
            span = self.absolute(self.value(loop.stop.plus(loop.start, -1)))
            iterations = self.larger(self.inst(f"fsub double {span}, {_literal(1)}"), _literal(0))
            spread = self.total([spread, self.product(self.absolute(self.value(loop.coefficient)), iterations)])
        fits = [self.is_less(self.total([*sizes, self.size(c)]), _literal(_LIMIT)) for c in question.constants]
        if question.counted:
            falls = self.falls(question, steps)
            fits += [self.inst(f"fcmp oge double {self.value(c)}, {falls}") for c in question.constants]
        weights = {axis: self.absolute(self.value(c)) for axis, c in question.axes}
        return self.all([*fits, *(self.is_larger(axis, weights, steps, spread) for axis in weights)])

    def falls(self, question: Apart, steps: Mapping[int, str]) -> str:
        """Return the most by which an index may be less than its constant."""
        terms = [(c, steps[axis]) for axis, c in question.axes]
        for loop in question.loops:
            terms.append((loop.coefficient, self.absolute(self.value(loop.stop.plus(loop.start, -1)))))
        falls = [self.inst(f"fsub double {_literal(0)}, {self.product(self.value(c), many)}") for c, many in terms]
        return self.total([self.larger(down, _literal(0)) for down in falls])

    def is_larger(self, axis: int, weights: dict[int, str], steps: dict[int, str], spread: str) -> str:
        """Test that an axis' coefficient exceeds the rest and all smaller ones together, or the axis does not move."""
        reach = spread
        for other, weight in weights.items():
            if other != axis:
                is_smaller = self.inst(f"fcmp ole double {weight}, {weights[axis]}")
                adds = self.product(weight, steps[other])
                reach = self.total([reach, self.inst(f"select i1 {is_smaller}, double {adds}, double {_literal(0)}")])
        is_one = self.inst(f"fcmp ole double {steps[axis]}, {_literal(0)}")
        return self.inst(f"or i1 {is_one}, {self.is_less(reach, weights[axis])}")

    def steps(self, extent: str) -> str:
        """The largest index along a grid axis."""
        return self.inst(f"sitofp i64 {self.inst(f'sub i64 {extent}, 1')} to double")

    def leaf(self, leaf: Leaf) -> str:
        if leaf.axis is not None:
            return self.inst(f"sitofp i64 {self.frame.extent(leaf.param, leaf.axis)} to double")
        return self.inst(f"sitofp i{leaf.param.dtype.bits} {self.frame.scalar(leaf.param)} to double")

    def value(self, uniform: Uniform) -> str:
        return self.total([self.products(leaves, number, False) for leaves, number in uniform.terms])

    def size(self, uniform: Uniform) -> str:
        """Return an upper bound on the absolute values of the value and of each of its parts."""
        return self.total([self.products(leaves, number, True) for leaves, number in uniform.terms])

    def products(self, leaves: Sequence[Leaf], number: int, is_size: bool) -> str:
        found = _literal(abs(number) if is_size else number)
        for leaf in leaves:
            value = self.leaf(leaf)
            found = self.product(found, self.absolute(value) if is_size else value)
        return found

    def total(self, values: Sequence[str]) -> str:
        found = _literal(0)
        for value in values:
            found = self.inst(f"fadd double {found}, {value}")
        return found

    def product(self, a: str, b: str) -> str:
        return self.inst(f"fmul double {a}, {b}")

    def absolute(self, value: str) -> str:
        self.function.declare("declare double @llvm.fabs.f64(double)")
        return self.inst(f"call double @llvm.fabs.f64(double {value})")

    def larger(self, a: str, b: str) -> str:
        return self.inst(f"select i1 {self.inst(f'fcmp ogt double {a}, {b}')}, double {a}, double {b}")

    def is_less(self, a: str, b: str) -> str:
        return self.inst(f"fcmp olt double {a}, {b}")


def _literal(value: float) -> str:
    """Return the literal of a number. Very large numbers become infinite, so that no test can succeed with them."""
    return f"{float(value):.17e}" if abs(value) < 2**53 else "0x7FF0000000000000" if value > 0 else "0xFFF0000000000000"
