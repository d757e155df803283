"""Properties of a device, as the CUDA driver and the host report them."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jaxwarp.memory.driver import driver


class DeviceFacts:
    """The properties of a device. Those of a GPU are queried from the driver at each access.

    Raises:
        CudaError: the driver refuses to tell.
    """

    alias: str

    @property
    def is_cuda(self) -> bool:
        return self.alias != "cpu"

    @property
    def is_cpu(self) -> bool:
        return self.alias == "cpu"

    @property
    def ordinal(self) -> int:
        """The number of a CUDA device in this process; -1 for the CPU."""
        return int(self.alias.removeprefix("cuda:")) if self.is_cuda else -1

    @property
    def name(self) -> str:
        """The manufacturer's name for the model."""
        return platform.processor() or "CPU" if self.is_cpu else driver().name(self._handle)

    @property
    def arch(self) -> int:
        """The compute capability: 90 is 9.0. 0 of the CPU."""
        return 0 if self.is_cpu else driver().architecture(self._handle)

    @property
    def sm_count(self) -> int:
        """The number of multiprocessors; 0 for the CPU."""
        return self._attribute("MULTIPROCESSOR_COUNT")

    @property
    def max_shared_memory_per_block(self) -> int:
        """The most shared memory that a block can ask for, in bytes. 0 of the CPU."""
        return self._attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")

    @property
    def is_uva(self) -> bool:
        """True if the GPU and the host share one address space."""
        return self._attribute("UNIFIED_ADDRESSING") > 0

    @property
    def is_mempool_supported(self) -> bool:
        """True if the driver has memory pools on the GPU."""
        return self._attribute("MEMORY_POOLS_SUPPORTED") > 0

    @property
    def is_mempool_enabled(self) -> bool:
        """True if arrays outside of JAX are allocated from the driver's pool: always, if the device has one."""
        return self.is_mempool_supported

    @property
    def is_ipc_supported(self) -> bool:
        """True if processes can share arrays: always False."""
        return False

    @property
    def is_cpu_memory_access_from_gpu_supported(self) -> bool:
        """True if the GPU can read and write all memory of the host."""
        return self._attribute("PAGEABLE_MEMORY_ACCESS") > 0

    @property
    def is_gpu_memory_access_from_cpu_supported(self) -> bool:
        """True if the host can read and write managed memory in place on the GPU."""
        return self._attribute("DIRECT_MANAGED_MEM_ACCESS_FROM_HOST") > 0

    @property
    def is_cpu_gpu_atomic_supported(self) -> bool:
        """True if the hardware has atomics between the GPU and the host."""
        return self._attribute("HOST_NATIVE_ATOMIC_SUPPORTED") > 0

    @property
    def is_managed_memory_supported(self) -> bool:
        """True if the driver can allocate managed memory on the GPU."""
        return self._attribute("MANAGED_MEMORY") > 0

    @property
    def is_concurrent_managed_access_supported(self) -> bool:
        """True if the GPU and the host can use managed memory at the same time."""
        return self._attribute("CONCURRENT_MANAGED_ACCESS") > 0

    @property
    def uuid(self) -> str | None:
        """The identifier that `nvidia-smi -L` shows. None of the CPU."""
        if self.is_cpu:
            return None
        text = bytes(driver().call("DeviceGetUuid", self._handle).bytes).hex()
        return f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    @property
    def pci_bus_id(self) -> str | None:
        """Domain, bus and device in hexadecimal: "00000000:3B:00". None of the CPU."""
        if self.is_cpu:
            return None
        domain, bus, device = (self._attribute(f"PCI_{part}_ID") for part in ("DOMAIN", "BUS", "DEVICE"))
        return f"{domain:08X}:{bus:02X}:{device:02X}"

    @property
    def total_memory(self) -> int:
        """All its memory, in bytes."""
        return _pages("SC_PHYS_PAGES") if self.is_cpu else int(driver().call("DeviceTotalMem", self._handle))

    @property
    def free_memory(self) -> int:
        """The memory that nobody has, in bytes. What the driver's pool keeps is not free."""
        if self.is_cpu:
            return _pages("SC_AVPHYS_PAGES")
        with self._entered():
            return int(driver().call("MemGetInfo"))

    @property
    def _handle(self) -> Any:
        return driver().call("DeviceGet", self.ordinal)

    def _attribute(self, name: str) -> int:
        if self.is_cpu:
            return 0
        attribute = getattr(driver().types.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(driver().call("DeviceGetAttribute", attribute, self._handle))

    @contextmanager
    def _entered(self) -> Iterator[None]:
        """Return a context in which the device's primary context, which JAX also uses, is current."""
        handle = self._handle
        driver().call("CtxPushCurrent", driver().call("DevicePrimaryCtxRetain", handle))
        try:
            yield
        finally:
            driver().call("CtxPopCurrent")
            driver().call("DevicePrimaryCtxRelease", handle)


def _pages(name: str) -> int:
    """Memory of the host that the system counts in pages, in bytes."""
    return os.sysconf(name) * os.sysconf("SC_PAGE_SIZE")
