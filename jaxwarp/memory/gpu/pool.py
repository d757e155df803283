"""The driver's pool of memory, from which arrays outside of JAX on GPUs are made: what is kept when it is freed."""

from __future__ import annotations

from contextlib import suppress
from numbers import Real
from typing import Any

from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.memory.devices import Device, require_device
from jaxwarp.memory.driver import CudaError, driver
from jaxwarp.memory.gpu.ordering import ContextDriver

_KEPT = 2**30  # bytes


def keep_freed(entry: ContextDriver, device: Any) -> None:
    """Lets the pool keep a gibibyte of what is freed: by default the driver gives all back to the system whenever
    somebody waits, and to make an array again takes as long as the first time. Who has said otherwise is right.
    """
    with suppress(CudaError):  # it would only be slower
        pool = entry.call("DeviceGetDefaultMemPool", device)
        attribute = entry.types.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        if not int(entry.call("MemPoolGetAttribute", pool, attribute)):
            entry.call("MemPoolSetAttribute", pool, attribute, entry.types.cuuint64_t(_KEPT))


@boundary
def is_mempool_supported(device: Any) -> bool:
    """Return whether the driver has memory pools on a device.

    Raises:
        KernelTypeError, KernelValueError: there is no such device.
    """
    return require_device(device, "is_mempool_supported").is_mempool_supported


@boundary
def is_mempool_enabled(device: Any) -> bool:
    """Return whether arrays outside of JAX are allocated from the driver's pool on a device: always, if it has one.

    Raises:
        KernelTypeError, KernelValueError: there is no such device.
    """
    return require_device(device, "is_mempool_enabled").is_mempool_enabled


@boundary
def set_mempool_enabled(device: Any, enable: bool) -> None:
    """Accept the only setting that there is: arrays outside of JAX come from the driver's pool on GPUs that have one.

    Raises:
        KernelTypeError, KernelValueError: there is no such device, or it is not so.
    """
    found = require_device(device, "set_mempool_enabled")
    if bool(enable) != found.is_mempool_enabled:
        has = "are made from the driver's pool" if found.is_mempool_enabled else "are made without a pool"
        raise KernelValueError(
            f"set_mempool_enabled: arrays outside of JAX on {found} {has}", hint="leave it out"
        )


@boundary
def get_mempool_release_threshold(device: Any = None) -> int:
    """Return how many bytes of freed memory the driver's pool keeps at a synchronization.

    Raises:
        KernelTypeError, KernelValueError: there is no such device, or no pool on it.
    """
    return _told("get_mempool_release_threshold", device, "RELEASE_THRESHOLD")


@boundary
def get_mempool_used_mem_current(device: Any = None) -> int:
    """Return how many bytes of the driver's pool are in use.

    Raises:
        KernelTypeError, KernelValueError: there is no such device, or no pool on it.
    """
    return _told("get_mempool_used_mem_current", device, "USED_MEM_CURRENT")


@boundary
def get_mempool_used_mem_high(device: Any = None) -> int:
    """The most bytes of the driver's pool that have been in use.

    Raises:
        KernelTypeError, KernelValueError: there is no such device, or no pool on it.
    """
    return _told("get_mempool_used_mem_high", device, "USED_MEM_HIGH")


@boundary
def set_mempool_release_threshold(device: Any, threshold: int | float) -> None:
    """Set how many bytes of freed memory the driver's pool keeps at a synchronization.

    Args:
        device: the device; None: the current device.
        threshold: a number of bytes; a value up to 1 is a fraction of the device's memory.

    Raises:
        KernelTypeError, KernelValueError: there is no such device, or no pool on it; `threshold` is not a number.
    """
    where = "set_mempool_release_threshold"
    if not isinstance(threshold, Real) or isinstance(threshold, bool) or not float(threshold) >= 0.0:
        raise KernelTypeError(
            f"{where}: threshold: expected a number of bytes, got {threshold!r}",
            hint="write 2**30, or 0.5 for half of the memory",
        )
    found = _with_pool(where, device)
    size = int(threshold * found.total_memory) if threshold <= 1 else int(threshold)
    kind = driver().types.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    driver().call("MemPoolSetAttribute", _pool(found), kind, driver().types.cuuint64_t(size))


def _told(where: str, device: Any, what: str) -> int:
    pool = _pool(_with_pool(where, device))
    kind = getattr(driver().types.CUmemPool_attribute, f"CU_MEMPOOL_ATTR_{what}")
    return int(driver().call("MemPoolGetAttribute", pool, kind))


def _with_pool(where: str, device: Any) -> Device:
    found = require_device(device, where)
    if not found.is_mempool_supported:
        raise KernelValueError(
            f"{where}: {found} has no pool of memory", hint="ask is_mempool_supported(device) first"
        )
    return found


def _pool(device: Device) -> Any:
    return driver().call("DeviceGetDefaultMemPool", driver().call("DeviceGet", device.ordinal))
