"""Sums for a few elements that all lanes add to together: gradients of weights that each thread reads in a loop, say.

Every element has a vector of partial sums in the function's frame, which memory gets once, when the function is done.
That takes an array of few elements: how many it has is known at run time, and where it has more (or an index is outside
of it) the atomics are those of atomics.py.
"""

from __future__ import annotations

from collections.abc import Callable

from jaxwarp.codegen.cpu.accumulate.accumulators import Updates
from jaxwarp.codegen.cpu.accumulate.lane_sums import sum_of_lanes
from jaxwarp.codegen.cpu.accumulate.scalar_atomics import atomic
from jaxwarp.codegen.cpu.llvm.arguments import FunctionFrame
from jaxwarp.codegen.cpu.llvm.lanes import Lanes
from jaxwarp.codegen.cpu.llvm.loops import LoopHeader
from jaxwarp.codegen.cpu.llvm.vectors import VectorBuilder, memory_type, scalar_constant
from jaxwarp.codegen.cpu.plan.privatization import MOST_ELEMENTS
from jaxwarp.ir.nodes import Atomic, Param

_LINE = 64


class ElementSums:
    """The partial sums of one array."""

    def __init__(self, frame: FunctionFrame, many: VectorBuilder, param: Param):
        self.frame = frame
        self.many = many
        self.function = many.function
        self.param = param
        self.dtype = param.dtype
        self.vector = many.type(self.dtype)
        # A frame is aligned to less than a vector, see FRAME_ALIGN.
        size = many.width * self.dtype.bytes
        self.align = min(size, _LINE)
        self.memory = self.function.alloca(f"[{MOST_ELEMENTS * size + _LINE} x i8]")
        self.partial = ""
        self.identity = many.const(self.dtype, -0.0)
        self.count = ""

    def clear(self) -> None:
        """At the start of the function."""
        function = self.function
        address = function.inst(f"ptrtoint ptr {self.memory} to i64")
        gap = function.inst(f"and i64 {function.inst(f'sub i64 0, {address}')}, {_LINE - 1}")
        self.partial = function.inst(f"getelementptr i8, ptr {self.memory}, i64 {gap}")
        count = "1"
        for axis in range(self.param.rank):
            count = function.inst(f"mul i64 {count}, {self.frame.extent(self.param, axis)}")
        is_small = function.inst(f"icmp ule i64 {count}, {MOST_ELEMENTS}")
        self.count = function.inst(f"select i1 {is_small}, i64 {count}, i64 0")
        self.each(lambda slot, _: function.line(f"store {self.vector} {self.identity}, ptr {slot}, align {self.align}"))

    def each(self, emit: Callable[[str, str], None]) -> None:
        """A loop over the elements: `emit` gets where the partial sums are, and the element's number."""
        function = self.function
        body, after = function.new_label("sum"), function.new_label("summed")
        loop = LoopHeader(function, function.new_label("sums"))
        number = loop.phi("i64", "0")
        is_more = function.inst(f"icmp ult i64 {number}, {self.count}")
        function.line(f"br i1 {is_more}, label %{body}, label %{after}")
        function.open(body)
        emit(self.slot(number), number)
        loop.close([function.inst(f"add i64 {number}, 1")])
        function.open(after)

    def slot(self, number: str) -> str:
        return self.function.inst(f"getelementptr {self.vector}, ptr {self.partial}, i64 {number}")

    def held(self, slot: str) -> str:
        return self.function.inst(f"load {self.vector}, ptr {slot}, align {self.align}")

    def takes(self, lanes: Lanes, op: Atomic) -> bool:
        """Only where all lanes add to one element."""
        return lanes.strides.is_uniform(*op.indices) and not lanes.frame.lane_step(op.param)

    def add(self, lanes: Lanes, op: Atomic, updates: Updates) -> None:
        """Emit the code that replaces the atomic."""
        function, pointer = self.function, updates.pointer(op)
        ends = [function.inst(f"ptrtoint ptr {p} to i64") for p in (pointer, self.frame.pointer(self.param))]
        distance = function.inst(f"sub i64 {ends[0]}, {ends[1]}")
        number = function.inst(f"ashr i64 {distance}, {self.dtype.bytes.bit_length() - 1}")
        value, vector = lanes.vector(op.args[0]), lanes.many.type(self.dtype)
        if lanes.mask is not None:
            value = lanes.many.select(lanes.mask, vector, value, lanes.many.const(self.dtype, -0.0))
        here, there, after = (function.new_label(hint) for hint in ("gather", "atomic", "added"))
        is_here = function.inst(f"icmp ult i64 {number}, {self.count}")
        function.line(f"br i1 {is_here}, label %{here}, label %{there}")
        function.open(here)
        slot = self.slot(number)
        # A body of fewer lanes adds to the first ones.
        held = function.inst(f"load {vector}, ptr {slot}, align {self.align}")
        total = function.inst(f"fadd {vector} {held}, {value}")
        function.line(f"store {vector} {total}, ptr {slot}, align {self.align}")
        function.line(f"br label %{after}")
        function.open(there)
        with lanes.region(lanes.mask):
            updates.at_once([op])
        function.line(f"br label %{after}")
        function.open(after)

    def finish(self) -> None:
        """At the end of the function; what nobody added to is left."""
        function, type_ = self.function, memory_type(self.dtype)

        def emit(slot: str, number: str) -> None:
            total = sum_of_lanes(self.many, self.dtype, self.held(slot), self.combine)
            bits = f"i{self.dtype.bits}"
            nothing = function.inst(f"bitcast {type_} {scalar_constant(self.dtype, -0.0)} to {bits}")
            is_none = function.inst(f"icmp eq {bits} {function.inst(f'bitcast {type_} {total} to {bits}')}, {nothing}")
            some, after = function.new_label("some"), function.new_label("none")
            function.line(f"br i1 {is_none}, label %{after}, label %{some}")
            function.open(some)
            pointer = self.frame.pointer(self.param)
            at = function.inst(f"getelementptr {type_}, ptr {pointer}, i64 {number}")
            atomic(VectorBuilder(1, function), "add", self.dtype, at, [total])
            function.line(f"br label %{after}")
            function.open(after)

        self.each(emit)

    def combine(self, ops: VectorBuilder, a: str, b: str) -> str:
        return ops.inst(f"fadd {ops.type(self.dtype)} {a}, {b}")
