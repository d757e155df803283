"""Memory for the values that a kernel on a GPU receives by value. Later launches of the kernel reuse it."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxwarp.memory.cuda_scope import padded
from jaxwarp.memory.gpu.scope import GpuScope
from jaxwarp.memory.region import Region

_MOST = 256  # of what late launches got
_BYTE = np.dtype(np.uint8)

# Of each argument, what is given by value; None of arrays.
Contents = tuple[bytes | None, ...]


class StoredValues(NamedTuple):
    """Memory that holds values: where each is; 0 for arrays."""

    memory: Region
    places: tuple[int, ...]


class ByValue:
    """Memory for what launches of one kernel get by value.

    What is alike is not written again; what is new overwrites what was used longest ago, in the order of the stream.
    Who takes memory has it alone until it is kept again: other threads take other memory.

    Args:
        scope: of the GPU.
    """

    def __init__(self, scope: GpuScope):
        self._scope = scope
        self._lock = threading.Lock()  # an `OrderedDict` is no whole while it changes
        self._kept: OrderedDict[Contents, StoredValues] = OrderedDict()  # what was kept last is at the end

    def take(self, contents: Contents) -> StoredValues:
        """Memory that holds the values, of which there are as many, and as large ones, each time."""
        with self._lock:
            found = self._kept.pop(contents, None)
        return found or self._filled(contents)

    def keep(self, contents: Contents, stored: StoredValues) -> None:
        """Keep the memory for later launches, once the work that reads it has been queued."""
        if self._scope.is_recorded:
            stored.memory.owner.work.is_fixed = True  # the graph reads it at any time
        with self._lock:
            self._kept[contents] = stored

    def _filled(self, contents: Contents) -> StoredValues:
        if self._scope.is_recorded:  # no graph sets values that others find later
            with self._scope.beside_record():
                return self._set(self._made(contents), [None] * len(contents), contents)
        with self._lock:
            before, stored = self._kept.popitem(last=False) if len(self._kept) >= _MOST else (None, None)
        if before is None or stored is None or not self._scope.has_alone(stored.memory):
            # Streams need not wait to overwrite what others read.
            before, stored = [None] * len(contents), self._made(contents)
        return self._set(stored, before, contents)

    def _set(self, stored: StoredValues, before: Sequence[bytes | None], contents: Contents) -> StoredValues:
        """Write the values that are not what the memory held before."""
        self._scope.uses([], [stored.memory])
        for place, old, new in zip(stored.places, before, contents, strict=True):
            if new is not None and new != old:
                self._scope.set_bytes(place, new)
        return stored

    def _made(self, contents: Contents) -> StoredValues:
        sizes = [0 if value is None else padded(len(value)) for value in contents]
        memory = self._scope.new(_BYTE, (sum(sizes),))
        places = itertools.accumulate(sizes, initial=memory.address)
        return StoredValues(memory, tuple(place if size else 0 for place, size in zip(places, sizes, strict=False)))
