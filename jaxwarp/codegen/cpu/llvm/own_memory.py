"""Memory of the arrays of threads' own: on the stack, or all of a kernel together on the heap.

Threads have stacks of 2 to 8 MiB mostly, but `threading.stack_size`, `ulimit -s` and programs that embed Python make
some with 128 KiB. So a launch function puts little on the stack. What it takes from the heap it gives back at its end,
and the allocator has it at hand for the next call.
"""

from __future__ import annotations

from jaxwarp.analysis.own_bytes import own_bytes
from jaxwarp.codegen.cpu.llvm.vectors import FunctionText, memory_type
from jaxwarp.ir.kernel import Kernel
from jaxwarp.types import Scalar

STACK_BYTES = 16 << 10
"""Of the arrays of all lanes, that may be on the stack."""

_ALIGN = 64
_MEMORY = "%own.memory"
_DECLARATIONS = (
    "declare noalias ptr @aligned_alloc(i64, i64)",
    "declare void @free(ptr nocapture)",  # else LLVM takes arguments for aliases of the memory
    "declare void @abort()",
)
_HELPER = "jaxwarp.own_memory"
# A function, so that its caller's first basic block stays one. Where no memory is left the process ends with SIGABRT,
# as it does where XLA finds none.
_HELPER_TEXT = f"""define internal noalias ptr @{_HELPER}(i64 %bytes) #2 {{
entry:
  %memory = call ptr @aligned_alloc(i64 {_ALIGN}, i64 %bytes)
  %is_none = icmp eq ptr %memory, null
  br i1 %is_none, label %none, label %some
none:
  call void @abort()
  unreachable
some:
  ret ptr %memory
}}"""


class LaneMemory:
    """The arrays of the threads' own in one launch function of `width` lanes."""

    def __init__(self, kernel: Kernel, width: int):
        self.width = width
        self.is_on_heap = own_bytes(kernel) * width > STACK_BYTES
        self._bytes = 0

    def place(self, name: str, dtype: Scalar, count: int) -> str:
        """The line that gives an array of `count` elements for each lane its address, in the function's first block."""
        count *= self.width
        if not self.is_on_heap:
            return f"  {name} = alloca [{count} x {memory_type(dtype)}], align {_ALIGN}"
        at = self._bytes
        self._bytes += -(-count * dtype.bytes // _ALIGN) * _ALIGN
        return f"  {name} = getelementptr i8, ptr {_MEMORY}, i64 {at}"

    def begin(self, function: FunctionText) -> list[str]:
        """The lines before those of `place`, once there are no more of these."""
        if not self._bytes:
            return []
        for line in _DECLARATIONS:
            function.declare(line)
        function.helpers[_HELPER] = _HELPER_TEXT
        return [f"  {_MEMORY} = call noalias ptr @{_HELPER}(i64 {self._bytes})"]

    def end(self, function: FunctionText) -> None:
        """Adds what comes last in the function."""
        if self._bytes:
            function.line(f"call void @free(ptr {_MEMORY})")
