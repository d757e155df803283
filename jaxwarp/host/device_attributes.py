"""Attributes of devices for streams and captures, and the versions of CUDA."""

from __future__ import annotations

from typing import Any

from jaxwarp.boundary import boundary
from jaxwarp.errors import CompileError
from jaxwarp.memory.devices import Device
from jaxwarp.memory.driver import CudaError, driver
from jaxwarp.memory.gpu.streams import Stream, get_stream, set_stream
from jaxwarp.memory.host_scope import capturing


def _stream(device: Device) -> Stream:
    """The stream of a GPU that work outside of JAX is queued on.

    Raises:
        KernelTypeError: of the CPU.
    """
    return get_stream(device)


def _set_stream(device: Device, stream: Any, sync: bool = True) -> None:
    """See `jaxwarp.set_stream`."""
    set_stream(stream, device, sync)


def _has_stream(device: Device) -> bool:
    """Return whether a device has streams: GPUs do."""
    return device.is_cuda


def _is_cubin_supported(device: Device) -> bool:
    """Return whether NVRTC makes binary code for a GPU."""
    return device.is_cuda and device.arch in get_cuda_supported_archs()


def _is_capturing(_: Device) -> bool:
    """Return whether a capture is under way. A capture takes the work of all devices."""
    return capturing.get() is not None


_ATTRIBUTES = {
    "has_stream": property(_has_stream),
    "is_capturing": property(_is_capturing),
    "is_cubin_supported": property(_is_cubin_supported),
    "set_stream": boundary(_set_stream),
    "stream": property(boundary(_stream)),
}
for _name, _attribute in _ATTRIBUTES.items():
    setattr(Device, _name, _attribute)


def get_cuda_driver_version() -> tuple[int, int] | None:
    """The version of CUDA that the driver has, as (13, 0); None if there is no driver."""
    try:
        found = int(driver().call("DriverGetVersion"))
    except CudaError:
        return None
    return found // 1000, found % 1000 // 10


def get_cuda_toolkit_version() -> tuple[int, int] | None:
    """The version of NVRTC, which compiles kernels for GPUs, as (13, 0); None if there is none."""
    try:
        from jaxwarp.codegen.cuda import nvrtc

        return nvrtc.version()
    except CompileError:
        return None


def get_cuda_supported_archs() -> list[int]:
    """The compute capabilities that NVRTC compiles for, 90 for sm_90, in ascending order; none if there is no NVRTC."""
    try:
        from jaxwarp.codegen.cuda import nvrtc

        return sorted(nvrtc.supported_architectures())
    except CompileError:
        return []
