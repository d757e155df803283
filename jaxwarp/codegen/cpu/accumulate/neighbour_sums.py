"""Sums for neighbouring elements: updates of one row of an array, at columns that differ by constants.

The adjoint of a stencil adds to its own element and to those left and right of it. Each of these updates would load
what the one before has just stored, at another offset: such a load has to wait until the store has reached the cache
(a stencil's adjoint took half as long again). So they are summed in registers first. With two updates at columns c and
c + 1, of vectors of four lanes,

    lane            0    1    2    3  |  4
    at c            a0   a1   a2   a3 |
    at c + 1             b0   b1   b2 |  b3

what lies in the first four columns is added to memory, by one load and one store; the rest waits for the next chunk of
threads, which begins there. If that one comes, it starts with the rest; if another one does, or none, the rest is added
to memory by itself.

So elements are added to in another order, and later. Other threads cannot tell, whose updates have no order, nor can
the thread itself, since nothing but such additions and arithmetic comes after the first of them (one array may be an
alias of another).
"""

from __future__ import annotations

from jaxwarp.codegen.cpu.accumulate.accumulators import Updates
from jaxwarp.codegen.cpu.accumulate.scalar_atomics import combine
from jaxwarp.codegen.cpu.analysis.neighbours import Neighbours
from jaxwarp.codegen.cpu.llvm.lanes import Lanes
from jaxwarp.codegen.cpu.llvm.vectors import FRAME_ALIGN, VectorBuilder, memory_type
from jaxwarp.ir.nodes import Atomic


class NeighbourSum:
    """Code for the additions of one group.

    Args:
        many: builds vectors of the body that they are in.
        group: the additions.
    """

    def __init__(self, many: VectorBuilder, group: Neighbours):
        self.group = group
        self.many = many
        self.function = many.function
        self.dtype = self.group.ends[0].param.dtype
        self.vector = many.type(self.dtype)
        self.identity = many.const(self.dtype, -0.0 if self.dtype.is_float else 0)
        # What waits for the next chunk, and the address of its first element; null where nothing waits. In the frame,
        # which LLVM keeps in registers.
        self.rest = self.function.alloca(self.vector)
        self.address = self.function.alloca("ptr")
        self.values: dict[Atomic, str] = {}

    def clear(self) -> None:
        """At the start of the function."""
        self.function.line(f"store {self.vector} {self.identity}, ptr {self.rest}, align {FRAME_ALIGN}")
        self.function.line(f"store ptr null, ptr {self.address}")

    def takes(self, lanes: Lanes, op: Atomic) -> bool:
        """Only the body for full chunks."""
        del op
        return lanes.mask is None and lanes.width == self.many.width

    def add(self, lanes: Lanes, op: Atomic, updates: Updates) -> None:
        """Emit the code that replaces the addition `op`: the group's last addition emits the code for all of them."""
        self.values[op] = lanes.vector(op.args[0])
        if len(self.values) < len(self.group.columns):
            return
        function = self.function
        first, last = self.group.ends
        pointer = updates.pointer(first)
        own, others, after = (function.new_label(hint) for hint in ("together", "apart", "summed"))
        both = function.inst(f"and i1 {updates.is_own(first)}, {updates.is_own(last)}")
        function.line(f"br i1 {both}, label %{own}, label %{others}")
        function.open(own)
        with lanes.region(lanes.mask):
            self.together(pointer)
        function.line(f"br label %{after}")
        function.open(others)
        with lanes.region(lanes.mask):
            for each in self.group.columns:
                updates.by_lane(each)
        function.line(f"br label %{after}")
        function.open(after)
        self.values.clear()

    def together(self, pointer: str) -> None:
        function, inst = self.function, self.function.inst
        expected = inst(f"load ptr, ptr {self.address}")
        apart, joined = function.new_label("elsewhere"), function.new_label("continued")
        function.line(f"br i1 {inst(f'icmp eq ptr {pointer}, {expected}')}, label %{joined}, label %{apart}")
        function.open(apart)
        self.finish()
        function.line(f"store {self.vector} {self.identity}, ptr {self.rest}, align {FRAME_ALIGN}")
        function.line(f"br label %{joined}")
        function.open(joined)
        held = inst(f"load {self.vector}, ptr {self.rest}, align {FRAME_ALIGN}")
        now, later = self.sums()
        now = self.plus(now, held)
        align = self.dtype.bytes
        old = inst(f"load {self.vector}, ptr {pointer}, align {align}")
        function.line(f"store {self.vector} {self.added(self.many, old, now)}, ptr {pointer}, align {align}")
        function.line(f"store {self.vector} {later}, ptr {self.rest}, align {FRAME_ALIGN}")
        next_ = inst(f"getelementptr {memory_type(self.dtype)}, ptr {pointer}, i64 {self.many.width}")
        function.line(f"store ptr {next_}, ptr {self.address}")

    def sums(self) -> tuple[str, str]:
        """Return the vector to add to the first columns (as many as lanes), and the one to add to those after them."""
        by_column: dict[int, str] = {}
        for op, column in self.group.columns.items():
            value = self.values[op]
            by_column[column] = self.plus(by_column[column], value) if column in by_column else value
        now, later = by_column.pop(0), ""
        for column, value in sorted(by_column.items()):
            now = self.plus(now, self.shuffle(self.identity, value, self.many.width - column))
            past = self.shuffle(value, self.identity, self.many.width - column)
            later = self.plus(later, past) if later else past
        return now, later

    def shuffle(self, low: str, high: str, begin: int) -> str:
        """A vector of two vectors' lanes, from lane `begin` on."""
        lanes = ", ".join(f"i32 {begin + lane}" for lane in range(self.many.width))
        mask = f"<{self.many.width} x i32> <{lanes}>"
        return self.function.inst(f"shufflevector {self.vector} {low}, {self.vector} {high}, {mask}")

    def added(self, ops: VectorBuilder, old: str, value: str) -> str:
        """Return the new value of an element that only this rectangle updates, given the sum of several updates."""
        return combine(ops, "add", self.dtype, old, value)

    def plus(self, a: str, b: str) -> str:
        return self.function.inst(f"{'fadd' if self.dtype.is_float else 'add'} {self.vector} {a}, {b}")

    def finish(self) -> None:
        """Adds what waits, if anything does: where another chunk comes, and at the end of the function."""
        function, inst = self.function, self.function.inst
        pointer = inst(f"load ptr, ptr {self.address}")
        some, after = function.new_label("waiting"), function.new_label("none")
        function.line(f"br i1 {inst(f'icmp eq ptr {pointer}, null')}, label %{after}, label %{some}")
        function.open(some)
        held = inst(f"load {self.vector}, ptr {self.rest}, align {FRAME_ALIGN}")
        type_, align, one = memory_type(self.dtype), self.dtype.bytes, VectorBuilder(1, function)
        for lane in range(self.group.span):
            value = inst(f"extractelement {self.vector} {held}, i32 {lane}")
            at = inst(f"getelementptr {type_}, ptr {pointer}, i64 {lane}")
            old = inst(f"load {type_}, ptr {at}, align {align}")
            function.line(f"store {type_} {self.added(one, old, value)}, ptr {at}, align {align}")
        function.line(f"br label %{after}")
        function.open(after)
