"""The CUDA driver from Python: what a function that runs on the memory of a GPU needs, found at run time."""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_ushort, c_void_p
from typing import Any

from jaxwarp.errors import JaxwarpError


class CudaError(JaxwarpError):
    """The driver refused something, or there is none."""


class LaunchConfig(Structure):
    """CUlaunchConfig."""

    _fields_ = [
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared_bytes", c_uint),
        ("stream", c_void_p),
        ("attributes", c_void_p),
        ("attribute_count", c_uint),
    ]


class Copy2D(Structure):
    """CUDA_MEMCPY2D."""

    _fields_ = [
        (f"{end}_{name}", kind)
        for end in ("source", "target")
        for name, kind in (
            ("x", c_size_t),
            ("y", c_size_t),
            ("memory_type", c_int),
            ("host", c_void_p),
            ("address", c_uint64),
            ("array", c_void_p),
            ("pitch", c_size_t),
        )
    ] + [("width", c_size_t), ("height", c_size_t)]


DEVICE_MEMORY = 2  # CU_MEMORYTYPE_DEVICE
_CAPABILITY = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*

# Less the prefix "cu": the version of the driver's interface that the signature belongs to, and the signature.
_FUNCTIONS: dict[str, tuple[int, list[Any]]] = {
    "Init": (2000, [c_uint]),
    "GetErrorName": (6000, [c_int, POINTER(c_char_p)]),
    "GetErrorString": (6000, [c_int, POINTER(c_char_p)]),
    "DeviceGet": (2000, [POINTER(c_int), c_int]),
    "DeviceGetAttribute": (2000, [POINTER(c_int), c_int, c_int]),
    "DevicePrimaryCtxRetain": (7000, [POINTER(c_void_p), c_int]),
    "DevicePrimaryCtxRelease": (11000, [c_int]),
    "CtxPushCurrent": (4000, [c_void_p]),
    "CtxPopCurrent": (4000, [POINTER(c_void_p)]),
    "LibraryLoadData": (12000, [POINTER(c_void_p), c_char_p, *[c_void_p] * 2, c_uint, *[c_void_p] * 2, c_uint]),
    "LibraryGetKernel": (12000, [POINTER(c_void_p), c_void_p, c_char_p]),
    "LaunchKernelEx": (11060, [POINTER(LaunchConfig), c_void_p, c_void_p, c_void_p]),
    "MemAlloc": (3020, [POINTER(c_uint64), c_size_t]),
    "MemAllocAsync": (11020, [POINTER(c_uint64), c_size_t, c_void_p]),
    "MemFreeAsync": (11020, [c_uint64, c_void_p]),
    "MemcpyDtoDAsync": (3020, [c_uint64, c_uint64, c_size_t, c_void_p]),
    "MemcpyDtoHAsync": (3020, [c_void_p, c_uint64, c_size_t, c_void_p]),
    "MemcpyHtoDAsync": (3020, [c_uint64, c_void_p, c_size_t, c_void_p]),
    "Memcpy2DAsync": (3020, [POINTER(Copy2D), c_void_p]),
    "MemsetD8Async": (3020, [c_uint64, c_ubyte, c_size_t, c_void_p]),
    "MemsetD16Async": (3020, [c_uint64, c_ushort, c_size_t, c_void_p]),
    "MemsetD32Async": (3020, [c_uint64, c_uint, c_size_t, c_void_p]),
    "MemsetD2D8Async": (3020, [c_uint64, c_size_t, c_ubyte, c_size_t, c_size_t, c_void_p]),
    "MemsetD2D16Async": (3020, [c_uint64, c_size_t, c_ushort, c_size_t, c_size_t, c_void_p]),
    "MemsetD2D32Async": (3020, [c_uint64, c_size_t, c_uint, c_size_t, c_size_t, c_void_p]),
    "StreamIsCapturing": (10000, [c_void_p, POINTER(c_int)]),
    "StreamSynchronize": (2000, [c_void_p]),
}


class Driver:
    """The driver, initialised.

    Raises:
        CudaError: there is none, or it is older than CUDA 12.0.
    """

    def __init__(self) -> None:
        try:
            library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise CudaError(f"there is no CUDA driver on this machine ({error})") from None
        find: Any = getattr(library, "cuGetProcAddress_v2", None)
        if find is None:
            raise CudaError("the CUDA driver is older than CUDA 12.0")
        self._functions: dict[str, Any] = {}
        for name, (version, signature) in _FUNCTIONS.items():
            address, status = c_void_p(), c_int()
            if find(f"cu{name}".encode(), byref(address), version, c_uint64(0), byref(status)) or not address:
                raise CudaError(f"the CUDA driver has no cu{name} (it is older than CUDA 12.0)")
            self._functions[name] = ctypes.CFUNCTYPE(c_int, *signature)(address.value or 0)
        self.call("Init", 0)

    def call(self, name: str, *arguments: Any, what: str = "") -> None:
        """Calls a function of the driver.

        Raises:
            CudaError: it fails; with the driver's text.
        """
        result = self._functions[name](*arguments)
        if result:
            code, text = c_char_p(), c_char_p()
            self._functions["GetErrorName"](result, byref(code))
            self._functions["GetErrorString"](result, byref(text))
            why = (code.value or str(result).encode()).decode()
            why += f" ({text.value.decode()})" if text.value else ""
            raise CudaError(f"cu{name}{what} failed: {why}")

    def device(self, ordinal: int) -> int:
        """The driver's handle of a device."""
        device = c_int()
        self.call("DeviceGet", byref(device), ordinal)
        return device.value

    def architecture(self, device: int) -> int:
        """90 for sm_90."""
        major, minor = c_int(), c_int()
        for attribute, value in zip(_CAPABILITY, (major, minor), strict=True):
            self.call("DeviceGetAttribute", byref(value), attribute, device)
        return 10 * major.value + minor.value


@functools.cache
def driver() -> Driver:
    """The one driver of this process."""
    return Driver()
