"""Memory of the host that GPUs copy from and to without a detour: it stays where it is."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxwarp.memory.devices import is_cuda_available
from jaxwarp.memory.driver import CudaError
from jaxwarp.memory.gpu.scope import gpu_scope
from jaxwarp.memory.host_scope import HOST, HostScope, Outside
from jaxwarp.memory.region import Region, bytes_of, dense_region
from jaxwarp.memory.tensor_owner import Owner

_PORTABLE = 1  # CU_MEMHOSTALLOC_PORTABLE: pinned for all devices


class Pinned:
    """Pinned memory, which is given back when nobody has it any more. Copies from and to it have ended by then."""

    def __init__(self, nbytes: int):
        self._entry = gpu_scope(0).ready()
        self.address = int(self._entry.call("MemHostAlloc", nbytes, _PORTABLE, what=f" of {nbytes} bytes"))

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if hasattr(self, "address") and not is_finalizing():
            with contextlib.suppress(CudaError):
                self._entry.call("MemFreeHost", self.address)


class _PinnedScope(HostScope):
    """Makes pinned memory; arrays in it are those of the host."""

    def make(self, dtype: np.dtype, shape: Sequence[int]) -> Region:
        nbytes = math.prod(shape) * dtype.itemsize
        if not nbytes:
            return HOST.make(dtype, shape)
        memory = Pinned(nbytes)
        region = dense_region(memory.address, dtype, shape, Owner(memory))
        region.view(bytes_of(region))[...] = np.zeros((), dtype)
        return region


_PINNED = _PinnedScope()


def host_memory(pinned: Any) -> Outside:
    """Memory of the host; pinned, if that is asked for and there is a GPU."""
    return _PINNED if pinned and is_cuda_available() else HOST
