"""Sums of a row of threads, which memory gets once."""

from __future__ import annotations

from jaxwarp.codegen.cpu.accumulate.accumulators import Updates
from jaxwarp.codegen.cpu.accumulate.lane_sums import sum_of_lanes
from jaxwarp.codegen.cpu.accumulate.scalar_atomics import atomic, combine, identity_of
from jaxwarp.codegen.cpu.llvm.arguments import FunctionFrame
from jaxwarp.codegen.cpu.llvm.lanes import Lanes
from jaxwarp.codegen.cpu.llvm.vectors import VectorBuilder
from jaxwarp.ir.nodes import Atomic


class RowSum:
    """Partial results of an atomic, one per lane, and the address they are for; see privatization.py.

    They are memory of the function's frame here, which LLVM keeps in registers. The address is null until some thread
    has come by: one that none reaches may lie outside the array. `is_own`: the element is that of one row.
    """

    def __init__(self, frame: FunctionFrame, many: VectorBuilder, op: Atomic, is_own: bool):
        self.frame = frame
        self.is_own = is_own
        self.many = many
        self.function = many.function
        self.kind = op.kind
        self.dtype = op.param.dtype
        self.vector = many.type(self.dtype)
        self.identity = identity_of(op.kind, self.dtype)
        self.partial = self.function.alloca(self.vector)
        self.address = self.function.alloca("ptr")

    def clear(self) -> None:
        """At the start of a row."""
        self.function.line(f"store {self.vector} {self.many.const(self.dtype, self.identity)}, ptr {self.partial}")
        self.function.line(f"store ptr null, ptr {self.address}")

    def takes(self, lanes: Lanes, op: Atomic) -> bool:
        """Bodies of all chunks are as wide as the sums."""
        del lanes, op
        return True

    def add(self, lanes: Lanes, op: Atomic, updates: Updates) -> None:
        """Emit the code that replaces the atomic."""
        pointer = updates.pointer(op)
        value = lanes.vector(op.args[0])
        if lanes.mask is not None:
            value = self.many.select(lanes.mask, self.vector, value, self.many.const(self.dtype, self.identity))
        old = self.function.inst(f"load {self.vector}, ptr {self.partial}")
        self.function.line(f"store {self.vector} {self.combine(self.many, old, value)}, ptr {self.partial}")
        self.function.line(f"store ptr {pointer}, ptr {self.address}")

    def combine(self, ops: VectorBuilder, a: str, b: str) -> str:
        return combine(ops, self.kind, self.dtype, a, b)

    def finish(self) -> None:
        """At the end of a row."""
        is_whole_row = self.frame.is_whole_row if self.is_own else ""
        function, one = self.function, VectorBuilder(1, self.many.function)
        pointer = function.inst(f"load ptr, ptr {self.address}")
        reached, after = function.new_label("reached"), function.new_label("gathered")
        function.line(f"br i1 {function.inst(f'icmp eq ptr {pointer}, null')}, label %{after}, label %{reached}")
        function.open(reached)
        total = sum_of_lanes(
            self.many, self.dtype, function.inst(f"load {self.vector}, ptr {self.partial}"), self.combine
        )
        if self.is_own:
            alone, shared = function.new_label("alone"), function.new_label("shared")
            function.line(f"br i1 {is_whole_row}, label %{alone}, label %{shared}")
            function.open(alone)
            type_ = one.type(self.dtype)
            old = function.inst(f"load {type_}, ptr {pointer}, align {self.dtype.bytes}")
            new = self.combine(one, old, total)
            function.line(f"store {type_} {new}, ptr {pointer}, align {self.dtype.bytes}")
            function.line(f"br label %{after}")
            function.open(shared)
        atomic(one, self.kind, self.dtype, pointer, [total])
        function.line(f"br label %{after}")
        function.open(after)
