"""The driver's pool of memory, from which arrays outside of JAX on GPUs are made: what is kept when it is freed."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from jaxwarp.memory.driver import CudaError
from jaxwarp.memory.gpu.ordering import Entry

_KEPT = 2**30  # bytes


def keep_freed(entry: Entry, device: Any) -> None:
    """Lets the pool keep a gibibyte of what is freed: by default the driver gives all back to the system whenever
    somebody waits, and to make an array again takes as long as the first time. Who has said otherwise is right.
    """
    with suppress(CudaError):  # it would only be slower
        pool = entry.call("DeviceGetDefaultMemPool", device)
        attribute = entry.types.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        if not int(entry.call("MemPoolGetAttribute", pool, attribute)):
            entry.call("MemPoolSetAttribute", pool, attribute, entry.types.cuuint64_t(_KEPT))
