"""The launch function of a kernel: rows, chunks of columns, and the bodies that run on them.

for each row: thread indices of the outer axes
  for each chunk of W columns, all lanes on: the unmasked body
  for what is left of the columns: the masked body

Where it pays, several rows run at once, see coarsening.py:

for each group of rows, of one value of the axes before
  for each chunk of columns: the body for several rows
  for what is left of the columns, row by row: the masked body
for what is left of the rows: as above

The masked body runs seldom, so it is as narrow as a register: half as much code for LLVM to make where W is two. It is
run as often as it takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from jaxwarp.analysis.succession import Succession
from jaxwarp.codegen.abi import Geometry
from jaxwarp.codegen.cpu.accumulate.accumulators import Accumulator, Accumulators
from jaxwarp.codegen.cpu.accumulate.element_sums import ElementSums
from jaxwarp.codegen.cpu.accumulate.exclusive import Rectangle
from jaxwarp.codegen.cpu.accumulate.neighbour_sums import NeighbourSum
from jaxwarp.codegen.cpu.accumulate.row_sums import RowSum
from jaxwarp.codegen.cpu.analysis.interior import Interior
from jaxwarp.codegen.cpu.analysis.uniformity import Strides
from jaxwarp.codegen.cpu.control.blocks import Emitter
from jaxwarp.codegen.cpu.control.in_order import SIGNATURE, emit_in_order
from jaxwarp.codegen.cpu.control.interior import emit_tests
from jaxwarp.codegen.cpu.control.task_calls import TaskCode
from jaxwarp.codegen.cpu.llvm.arguments import FunctionFrame
from jaxwarp.codegen.cpu.llvm.formulas import shared_formulas
from jaxwarp.codegen.cpu.llvm.hoisting import Invariants
from jaxwarp.codegen.cpu.llvm.lanes import Lanes
from jaxwarp.codegen.cpu.llvm.loops import LoopHeader
from jaxwarp.codegen.cpu.llvm.streaming import Streaming
from jaxwarp.codegen.cpu.llvm.vectors import FunctionText
from jaxwarp.codegen.cpu.plan.coarsening import Coarse
from jaxwarp.codegen.cpu.plan.plan import Plan, make_plan
from jaxwarp.codegen.cpu.plan.target import Machine
from jaxwarp.codegen.cpu.plan.tasks import Task
from jaxwarp.codegen.cpu.plan.width import require_width
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, For, walk

# #0 is the launch function, #1 library calls, #2 functions of ours, #3 those that seldom run, #4 formulas. A kernel of
# one lane is for debugging, and kept as written. The stack of vector code is aligned to lines: LLVM decides to spill
# when it is too late to align it, and a vector that lies across two lines costs several times as much.
_ATTRIBUTES = (
    "attributes #0 = {{ nounwind{debug} }}\nattributes #1 = {{ nobuiltin nounwind willreturn memory(none) }}\n"
    "attributes #2 = {{ nounwind willreturn }}\n"
    "attributes #3 = {{ noinline cold nounwind willreturn memory(none){cold} }}\n"
)
_FORMULAS = "attributes #4 = {{ noinline nounwind willreturn memory(read){cold} }}\n"
_ALIGNED = " alignstack=64"

_NO_UNROLLING = ", !llvm.loop !1"


@dataclass(frozen=True)
class FunctionCode:
    """LLVM text of a launch function, the library functions it calls, and the plan that it was written by."""

    symbol: str
    text: str
    geometry: Geometry
    libm: tuple[str, ...]
    plan: Plan


def emit_function(
    kernel: Kernel,
    width: int,
    machine: Machine,
    succession: Succession | None = None,
    tasks: Mapping[For, Task] | None = None,
) -> FunctionCode:
    """The launch function of a prepared kernel, `width` threads at a time, shaped for a machine.

    `succession`: how threads follow each other. `tasks`: loops that are functions, where the width is one.
    """
    plan = make_plan(kernel, require_width(width), machine, succession is not None)
    symbol = "jaxwarp_" + re.sub(r"\W", "_", kernel.name, flags=re.ASCII)
    inner = _TaskWriters(tasks or {}, machine, symbol)
    writer = _Writer(plan, inner.codes)
    writer.rows()
    function, streaming = writer.function, writer.streaming.prologue()
    own = writer.frame.own.begin(function)
    # The prologue asks for extents too, so the geometry comes after it.
    geometry, wrapper, name, linkage = writer.frame.geometry, list[str](), symbol, ""
    if succession is not None:
        name, linkage = f"{symbol}.part", "internal "
        geometry, wrapper = emit_in_order(writer.frame, symbol, name, succession)
    debug, cold = (" noinline optnone", " optnone") if width == 1 and not tasks else (_ALIGNED, "")
    functions = [function, *inner.functions]
    lines = [
        *dict.fromkeys(line for f in functions for line in f.declarations),
        *(function.constants or ()),
        *inner.constants,
        *{name: text for f in functions for name, text in f.helpers.items()}.values(),
        *inner.lines,
        SIGNATURE.format(linkage=linkage, symbol=name) + " #0 {",
        "entry:",
        *function.allocas,
        *own,
        *writer.frame.lines,
        *streaming,
        *writer.invariants.launch,
        *writer.lines(),
        "}",
        *wrapper,
        (_ATTRIBUTES + _FORMULAS * any(f.shared for f in functions)).format(debug=debug, cold=cold),
        # Chunks are long already, and rows and chunks longer still: LLVM need not unroll them.
        "!0 = !{}",
        "!1 = distinct !{!1, !2}",
        '!2 = !{!"llvm.loop.unroll.disable"}',
        '!3 = !{!"branch_weights", i32 1, i32 2000}',
        "!4 = !{i32 1}",
        "!5 = distinct !{!5, !6}",
        '!6 = !{!"llvm.loop.unroll.runtime.disable"}',
        "",
    ]
    return FunctionCode(symbol, "\n".join(lines), geometry, tuple(name for f in functions for name in f.libm), plan)


class _TaskWriters:
    """The functions of tasks.

    Attributes:
        codes: by loops.
        functions, lines, constants: what the module has of them.
    """

    def __init__(self, tasks: Mapping[For, Task], machine: Machine, symbol: str):
        self.codes: dict[For, TaskCode] = {}
        self.functions: list[FunctionText] = []
        self.lines: list[str] = []
        self.constants: list[str] = []
        for number, (loop, task) in enumerate(tasks.items()):
            self.codes[loop] = self._write(task, machine, f"{symbol}.task{number}")

    def _write(self, task: Task, machine: Machine, symbol: str) -> TaskCode:
        writer = _Writer(make_plan(task.kernel, task.width, machine, False, task.extents))
        function = writer.function
        if function.constants is not None:
            function.constants = self.constants  # numbered
        writer.rows()
        streaming = writer.streaming.prologue()
        self.functions.append(function)
        self.lines += [
            SIGNATURE.format(linkage="internal ", symbol=symbol) + " noinline #0 {",
            "entry:",
            *function.allocas,
            *writer.frame.lines,
            *streaming,
            *writer.invariants.launch,
            *writer.lines(),
            "}",
        ]
        return TaskCode(task, symbol, writer.frame.geometry)


def _accumulators(plan: Plan, lanes: Lanes) -> Accumulators:
    """Return the accumulators that a plan names. `lanes`: values of the function's start."""
    frame, many, of = lanes.frame, lanes.many, dict[Atomic, Accumulator]()
    rows = [RowSum(frame, many, op, op in plan.own_rows) for op in plan.row_sums]
    of |= zip(plan.row_sums, rows, strict=True)
    elements = {param: ElementSums(frame, many, param) for param in plan.element_sums}
    of |= {op: elements[param] for param, ops in plan.element_sums.items() for op in ops}
    near = [NeighbourSum(many, group) for group in plan.neighbours]
    of |= {op: total for total in near for op in total.group.columns}
    if plan.coarse is not None:
        for op in walk(plan.coarse.kernel.body):
            if isinstance(op, Atomic) and op.param in elements and plan.coarse.strides.is_uniform(*op.indices):
                of[op] = elements[op.param]
    rectangle = None if plan.exclusive is None else Rectangle(lanes, plan.kernel, plan.exclusive)
    return Accumulators(of, rows, [*elements.values(), *near], rectangle)


class _Writer:
    def __init__(self, plan: Plan, tasks: Mapping[For, TaskCode] | None = None):
        self.plan = plan
        self.tasks = tasks or {}
        self.kernel, self.width = plan.kernel, plan.width
        self.frame = FunctionFrame(plan.kernel, plan.width, plan.machine)
        self.invariants = Invariants()
        invariants = self.invariants if plan.width > 1 else None
        self.function = FunctionText(plan.machine.has_mask_registers, invariants, plan.has_stored_constants)
        self.function.shared = shared_formulas(plan.kernel, plan.width)
        self.streaming = Streaming(self.frame, self.function, plan.streamed)
        self.strides = plan.strides
        self.accumulators = _accumulators(plan, self.lanes(plan.strides, None))

    def emitter(self, lanes: Lanes, tids: Sequence[str]) -> Emitter:
        return Emitter(lanes, tids, self.accumulators, tasks=self.tasks)

    def rows(self) -> None:
        function = self.function
        for total in self.accumulators.of_calls:
            total.clear()
        rectangle = self.accumulators.rectangle
        if rectangle is not None:
            rectangle.begin(self.emitter(rectangle.lanes, []).block)
        if self.kernel.grid_rank == 1:
            is_any = function.inst("icmp slt i64 %row_begin, %row_end")
            function.line(f"br i1 {is_any}, label %row, label %end")
            function.open("row")
            self.columns([])
            function.line("br label %end")
        else:
            loop = LoopHeader(function, "rows")
            row = loop.phi("i64", "%row_begin")
            is_more = function.inst(f"icmp slt i64 {row}, %row_end")
            function.line(f"br i1 {is_more}, label %row, label %end")
            function.open("row")
            if rectangle is not None:
                rectangle.row(row)
            outer, done = self.outer_tids(row), "1"
            self.invariants.begin_row(len(function.lines), (row, *outer))
            if self.plan.coarse is not None:
                done = self.rows_at_once(self.plan.coarse, outer, row)
            else:
                self.columns(outer)
            loop.close([function.inst(f"add i64 {row}, {done}")], _NO_UNROLLING)
        function.open("end")
        for total in self.accumulators.of_calls:
            total.finish()
        self.streaming.finish()
        self.frame.own.end(function)
        function.line("ret void")

    def lines(self) -> list[str]:
        """Return the function's lines, from the rows on, with a row's invariant instructions at its start."""
        lines, at = self.function.lines, self.invariants.row_at
        return lines if at is None else [*lines[:at], *self.invariants.row, *lines[at:]]

    def outer_tids(self, row: str) -> list[str]:
        """The thread indices of all axes but the last: the digits of the row number, i64."""
        function, digits = self.function, []
        for axis in range(self.kernel.grid_rank - 2, -1, -1):
            digit = row
            if axis > 0:
                extent = self.frame.grid_extent(axis)
                digit = function.inst(f"urem i64 {row}, {extent}")
                row = function.inst(f"udiv i64 {row}, {extent}")
            digits.append(digit)
        return digits[::-1]

    def rows_at_once(self, coarse: Coarse, outer: list[str], row: str) -> str:
        """The rows from `row` on, if there are as many as the body for several does, or this one; returns how many."""
        function = self.function
        if self.plan.is_even(-2, coarse.rows) and self.plan.is_even(-1, coarse.width):
            self.group_chunks(coarse, outer)
            function.line("br label %past")
            function.open("past")
            return str(coarse.rows)
        is_group = function.inst(f"icmp sle i64 {function.inst(f'add i64 {row}, {coarse.rows}')}, %row_end")
        if self.kernel.grid_rank > 2:
            end = function.inst(f"add i64 {outer[-1]}, {coarse.rows}")
            fits = function.inst(f"icmp sle i64 {end}, {self.frame.grid_extent(self.kernel.grid_rank - 2)}")
            is_group = function.inst(f"and i1 {is_group}, {fits}")
        function.line(f"br i1 {is_group}, label %group, label %single")
        function.open("group")
        group = self.group_chunks(coarse, outer)
        function.line("br label %others")
        in_group = function.label
        function.open("single")
        single = self.full_chunks(outer)
        function.line("br label %others")
        in_single = function.label
        function.open("others")
        column = function.inst(f"phi i64 [ {group}, %{in_group} ], [ {single}, %{in_single} ]")
        count = function.inst(f"phi i64 [ {coarse.rows}, %{in_group} ], [ 1, %{in_single} ]")
        is_more = function.inst(f"icmp slt i64 {column}, %col_end")
        function.line(f"br i1 {is_more}, label %partial, label %past")
        function.open("partial")
        loop = LoopHeader(function, "one_by_one")
        number = loop.phi("i64", "0")
        self.masked([*outer[:-1], function.inst(f"add i64 {outer[-1]}, {number}")], column, "%col_end")
        following = function.inst(f"add i64 {number}, 1")
        is_more = function.inst(f"icmp slt i64 {following}, {count}")
        loop.close([following], _NO_UNROLLING, f"{is_more}, label %past")
        function.open("past")
        return count

    def group_chunks(self, coarse: Coarse, outer: list[str]) -> str:
        """The full chunks of several rows; returns the first column after them."""
        last = self.function.inst(f"sub i64 %col_end, {coarse.width}")

        def emit(column: str) -> None:
            lanes = self.lanes(coarse.strides, None, coarse.width)
            self.emitter(lanes, [*outer, column]).block(coarse.kernel.body)

        return self.chunk_loop("group_", coarse.width, last, emit)

    def columns(self, outer: list[str]) -> None:
        for total in self.accumulators.of_rows:
            total.clear()
        if self.width > 1 and self.plan.interior is None:
            column = self.full_chunks(outer)
            if self.plan.is_even(-1, self.width):
                self.function.line("br label %past")
            else:
                self.rest(outer, column)
        else:
            self.chunks(outer)
        self.function.open("past")
        for total in self.accumulators.of_rows:
            total.finish()

    def full_chunks(self, outer: list[str]) -> str:
        """The chunks with all lanes on, in a loop that tests at its end only; returns the first column after them.

        One jump an iteration: with two, sums along a row, and what else does next to nothing, took a tenth longer.
        """
        last = self.frame.last_chunk
        return self.chunk_loop("", self.width, last, lambda column: self.body(outer, column, self.strides))

    def chunk_loop(self, name: str, width: int, last: str, body: Callable[[str], None]) -> str:
        """The loop over chunks that begin at the column `last` at most; the names of its blocks start with `name`."""
        function, before = self.function, self.function.label
        is_any = function.inst(f"icmp sle i64 %col_begin, {last}")
        function.line(f"br i1 {is_any}, label %{name}full, label %{name}rest")
        function.open(f"{name}full")
        loop = LoopHeader(function, f"{name}chunk")
        column = loop.phi("i64", "%col_begin")
        body(column)
        end = self.next_chunk(column, width)
        latest = function.label
        is_more = function.inst(f"icmp sle i64 {end}, {last}")
        loop.close([end], _NO_UNROLLING, f"{is_more}, label %{name}rest")
        function.open(f"{name}rest")
        return function.inst(f"phi i64 [ %col_begin, %{before} ], [ {end}, %{latest} ]")

    def next_chunk(self, column: str, width: int) -> str:
        """The column after a chunk's.

        Hidden from LLVM, which would look for other ways to count: measured, for a stencil a third of its time, and the
        addresses that are written are those that memory operands have: a pointer that is the same in a row, and the
        column.
        """
        end = self.function.inst(f"add i64 {column}, {width}")
        return end if width == 1 else self.function.inst(f'call i64 asm "", "=r,0"(i64 {end})')

    def rest(self, outer: list[str], column: str) -> None:
        """The columns that are left, fewer than a chunk."""
        function = self.function
        is_more = function.inst(f"icmp slt i64 {column}, %col_end")
        function.line(f"br i1 {is_more}, label %partial, label %past")
        function.open("partial")
        self.masked(outer, column, "%col_end")
        function.line("br label %past")

    def chunks(self, outer: list[str]) -> None:
        """Chunks of the interior, and between them and after them, under a mask, those that are not."""
        function = self.function
        loop = LoopHeader(function, "columns")
        column = loop.phi("i64", "%col_begin")
        end = self.next_chunk(column, self.width)
        is_full = function.inst(f"icmp sle i64 {end}, %col_end")
        function.line(f"br i1 {is_full}, label %chunk, label %rest")
        function.open("chunk")
        if self.plan.interior is None:
            self.body(outer, column, self.strides)
        else:
            self.inside(self.plan.interior, [*outer, column])
        function.line("br label %following")
        function.open("rest")
        if self.width > 1:
            is_more = function.inst(f"icmp slt i64 {column}, %col_end")
            function.line(f"br i1 {is_more}, label %partial, label %past")
            function.open("partial")
            function.declare("declare i64 @llvm.smin.i64(i64, i64)")
            self.masked(outer, column, function.inst(f"call i64 @llvm.smin.i64(i64 {end}, i64 %col_end)"))
            function.line("br label %following")
        else:
            function.line("br label %past")
        function.open("following")
        loop.close([end], _NO_UNROLLING)

    def inside(self, interior: Interior, tids: list[str]) -> None:
        """The body for chunks of the interior, after the tests whether this is one."""
        function, lanes = self.function, self.lanes(interior.strides, None)
        is_inside = emit_tests(interior, lanes, tids)
        function.line(f"br i1 {is_inside}, label %inside, label %rest")
        function.open("inside")
        known = frozenset(interior.slice)
        Emitter(lanes, tids, self.accumulators, interior.choices, known).block(self.kernel.body)

    def masked(self, outer: list[str], column: str, end: str) -> None:
        """The masked body, on the columns up to `end`: one at least, a chunk at most."""
        function = self.function
        if self.plan.rest_width == self.width:
            self.rest_body(outer, column)
            return
        loop = LoopHeader(function, "part")
        at = loop.phi("i64", column)
        self.rest_body(outer, at)
        following = function.inst(f"add i64 {at}, {self.plan.rest_width}")
        is_more = function.inst(f"icmp slt i64 {following}, {end}")
        loop.close([following], _NO_UNROLLING, f"{is_more}, label %parts_done")
        function.open("parts_done")

    def column_mask(self, column: str) -> str:
        """The lanes of the masked body that are below the end of the columns."""
        function, lanes = self.function, self.lanes(self.strides, None, self.plan.rest_width)
        left = function.inst(f"sub i64 %col_end, {column}")
        function.declare("declare i64 @llvm.smin.i64(i64, i64)")
        left = function.inst(f"call i64 @llvm.smin.i64(i64 {left}, i64 {self.plan.rest_width})")
        left = function.inst(f"trunc i64 {left} to i32")
        vector = lanes.many.wide("i32")
        return function.inst(f"icmp ult {vector} {lanes.lane_numbers(32)}, {lanes.splat('i32', left)}")

    def lanes(self, strides: Strides, mask: str | None, width: int | None = None) -> Lanes:
        return Lanes(self.frame, self.streaming, strides, mask, width)

    def body(self, outer: list[str], column: str, strides: Strides) -> None:
        self.emitter(self.lanes(strides, None), [*outer, column]).block(self.kernel.body)

    def rest_body(self, outer: list[str], column: str) -> None:
        mask = None if self.plan.rest_width == 1 else self.column_mask(column)
        lanes = self.lanes(self.plan.rest_strides, mask, self.plan.rest_width)
        self.emitter(lanes, [*outer, column]).block(self.kernel.body)
