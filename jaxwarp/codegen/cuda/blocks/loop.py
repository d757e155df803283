"""The loop over the threads of a launch, of which each block has one at a time."""

from __future__ import annotations

from jaxwarp.codegen.cuda.layout import ParameterLayout
from jaxwarp.codegen.cuda.loops import GridLoop
from jaxwarp.codegen.cuda.statements import TextLine
from jaxwarp.types import int32


class BlockLoop(GridLoop):
    """A thread of the launch for each block, or strides. The launch counts CUDA's threads."""

    def __init__(self, layout: ParameterLayout, threads: int):
        super().__init__(layout, False)
        self._threads = threads

    def before(self) -> list[TextLine]:
        thread, wide = self.layout.thread, self.layout.counter is not int32
        counter = "long long" if wide else "unsigned int"
        end = f"{self.layout.total} / {self._threads}"
        if not wide:
            end = f"(unsigned int)({end})"
        header = f"for ({counter} {thread} = blockIdx.x; {thread} < {end}; {thread} += gridDim.x) {{"
        return [TextLine(1, header, None)]
