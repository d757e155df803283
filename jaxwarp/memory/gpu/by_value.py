"""What a kernel on a GPU gets by value: memory that holds it, which later launches of the kernel use again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from jaxwarp.memory.cuda_scope import padded
from jaxwarp.memory.gpu.scope import GpuScope
from jaxwarp.memory.region import Region

_MOST = 256  # of what late launches got
_BYTE = np.dtype(np.uint8)

Contents = tuple[bytes, ...]


class ByValue:
    """Memory for what launches of one kernel get by value.

    What is alike is not written again; what is new overwrites what was used longest ago, in the order of the stream.
    Who takes memory has it alone until it is kept again: other threads take other memory.

    Args:
        scope: of the GPU.
        sizes: of the values, in bytes.

    Attributes:
        places: where each value is, from the start of the memory.
    """

    def __init__(self, scope: GpuScope, sizes: Sequence[int]):
        self._scope = scope
        ends = np.cumsum([0, *map(padded, sizes)]).tolist()
        self.places, self._size = ends[:-1], ends[-1]
        self._kept: OrderedDict[Contents, Region] = OrderedDict()  # what was kept last is at the end

    def take(self, contents: Contents) -> Region:
        """Memory that holds the values."""
        return self._kept.pop(contents, None) or self._filled(contents)

    def keep(self, contents: Contents, memory: Region) -> None:
        """What reads the memory has been queued."""
        if self._scope.is_recorded:
            memory.owner.work.is_fixed = True  # the graph reads it at any time
        self._kept[contents] = memory

    def _filled(self, contents: Contents) -> Region:
        before, memory = self._kept.popitem(last=False) if len(self._kept) >= _MOST else (None, None)
        if before is None or memory is None or self._scope.is_recorded or not self._scope.has_alone(memory):
            # No graph sets values that others find later; and streams need not wait to overwrite what others read.
            before, memory = [None] * len(contents), self._scope.new(_BYTE, (self._size,))
        self._scope.uses([], [memory])
        for place, old, new in zip(self.places, before, contents, strict=True):
            if new != old:
                self._scope.set_bytes(memory.address + place, new)
        return memory
