"""Outputs too large for the caches are written past them.

A store to memory that is not cached reads the line first: a quarter of the traffic of `y = a*x + z`. A streaming store
does not. It must fill whole lines at once, or it is many times slower; and what is read again soon is better cached. So
an array is streamed where

* the kernel only stores to it, outside of loops, and all lanes side by side fill lines of 64 bytes;
* the arrays of the launch together exceed half of the last cache (at run time), those that may be streamed counted
  twice: results get fresh memory while the last ones are still there, and other launches want the other half;
* the address is at a line's beginning (at run time, each time).

The last two are one test of the address against a mask of a launch: 63, or all ones, which no address passes.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from jaxwarp.codegen.cpu.analysis.streamed import LINE
from jaxwarp.codegen.cpu.llvm.arguments import FunctionFrame
from jaxwarp.codegen.cpu.llvm.vectors import FunctionText
from jaxwarp.ir.nodes import Param

_LEAST = 16  # bytes that one instruction streams


class Streaming:
    """The code of streaming stores of one launch function. `params` may be streamed; `used` is, in what was written."""

    def __init__(self, frame: FunctionFrame, function: FunctionText, params: Set[Param]):
        self.frame = frame
        self.function = function
        self.params = params
        self.used = False

    def store(self, param: Param, type_: str, pieces: Sequence[tuple[str, str]], size: int) -> bool:
        """Stores vectors that all lanes fill, one after the other in memory, if they may be streamed.

        Args:
            param: the array.
            type_: LLVM's name of the vectors' type.
            pieces: vectors, and pointers to where they go.
            size: bytes of one.

        Returns:
            Whether they are stored.
        """
        if param not in self.params or len(pieces) * size % LINE or size < _LEAST:
            return False
        self.used = True
        inst, function = self.function.inst, self.function
        labels = [function.new_label(hint) for hint in ("stream", "cache", "stored")]
        address = inst(f"ptrtoint ptr {pieces[0][1]} to i64")
        is_line = inst(f"icmp eq i64 {inst(f'and i64 {address}, %lines')}, 0")
        function.line(f"br i1 {is_line}, label %{labels[0]}, label %{labels[1]}")
        # The largest power of two that divides where each piece lies.
        align = min(size & -size, LINE)
        details = (f"align {align}, !nontemporal !4", f"align {param.dtype.bytes}")
        for label, detail in zip(labels[:2], details, strict=True):
            function.open(label)
            for value, pointer in pieces:
                function.line(f"store {type_} {value}, ptr {pointer}, {detail}")
            function.line(f"br label %{labels[2]}")
        function.open(labels[2])
        return True

    def prologue(self) -> list[str]:
        """Lines at the function's start: the mask."""
        if not self.used:
            return []
        lines, total = [], "0"
        for number, param in enumerate(self.frame.kernel.params):
            size = str(param.dtype.bytes * (2 if param in self.params else 1))
            for axis in range(param.rank):
                lines.append(f"  %b{number}.{axis} = mul i64 {size}, {self.frame.extent(param, axis)}")
                size = f"%b{number}.{axis}"
            lines.append(f"  %b{number} = add i64 {total}, {size}")
            total = f"%b{number}"
        lines.append(f"  %streams = icmp ugt i64 {total}, {self.frame.machine.streaming_bytes}")
        lines.append(f"  %lines = select i1 %streams, i64 {LINE - 1}, i64 -1")
        return lines

    def finish(self) -> None:
        """At the function's end: whoever learns that the launch is over sees what was streamed."""
        if self.used:
            self.function.line("br i1 %streams, label %fence, label %over")
            self.function.open("fence")
            self.function.line("fence seq_cst")
            self.function.line("br label %over")
            self.function.open("over")
