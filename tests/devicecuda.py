"""Launches the CUDA code of kernels on a real device through the driver, without JAX: for tests marked `gpu`."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Sequence

import numpy as np

from jaxwarp.codegen.abi import CudaOptions
from jaxwarp.codegen.cuda import CudaCode, compile_cuda, print_cuda
from jaxwarp.ir.kernel import Kernel

_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
_SHARED_BYTES = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_BLOCK = 128


def run_device(kernel: Kernel, grid: Sequence[int], buffers: Sequence[np.ndarray], index_bits: int = 32) -> None:
    """Launches a prepared kernel on host arrays, in place: copies them there and back."""
    code = print_cuda(kernel, index_bits, CudaOptions(_BLOCK))
    (entry,) = compile_cuda(code, (_driver().architecture,))
    _driver().launch(entry.code, code, grid, buffers)


@functools.cache
def _driver() -> _Driver:
    return _Driver()


class _Driver:
    """Device 0 and its primary context, which JAX uses too."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.context = context
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(major), _MAJOR, device)
        self.call("cuDeviceGetAttribute", ctypes.byref(minor), _MINOR, device)
        self.architecture = major.value * 10 + minor.value

    def call(self, function: str, *args: object) -> None:
        status = getattr(self.cuda, function)(*args)
        assert status == 0, f"{function} failed with CUDA error {status}"

    def launch(self, cubin: bytes, code: CudaCode, grid: Sequence[int], buffers: Sequence[np.ndarray]) -> None:
        total, block, shared = math.prod(grid) * code.threads, code.options.block, code.shared_bytes
        self.call("cuCtxSetCurrent", self.context)
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), cubin)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, code.symbol.encode())
        if shared:
            self.call("cuFuncSetAttribute", function, _SHARED_BYTES, shared)
        pointers = [self.upload(b) for b in buffers]
        width = ctypes.c_int32 if code.index_bits == 32 else ctypes.c_int64
        extents = [grid[axis] if number < 0 else buffers[number].shape[axis] for number, axis in code.geometry]
        numbers = [width(n) for n in (*extents, total)]
        values = [*pointers, *numbers]
        arguments = (ctypes.c_void_p * len(values))(*(ctypes.cast(ctypes.byref(v), ctypes.c_void_p) for v in values))
        blocks = max(1, -(-total // block))
        self.call("cuLaunchKernel", function, blocks, 1, 1, block, 1, 1, shared, None, arguments, None)
        self.call("cuCtxSynchronize")
        for pointer, buffer in zip(pointers, buffers, strict=True):
            if buffer.size:
                self.call(
                    "cuMemcpyDtoH_v2", ctypes.c_void_p(buffer.ctypes.data), pointer, ctypes.c_size_t(buffer.nbytes)
                )
            self.call("cuMemFree_v2", pointer)
        self.call("cuModuleUnload", module)

    def upload(self, buffer: np.ndarray) -> ctypes.c_uint64:
        pointer = ctypes.c_uint64()
        # Atomics on bytes work on the word around them, so allocations are whole words (XLA's are larger).
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(buffer.nbytes, 1) + 3 & ~3))
        if buffer.size:
            self.call("cuMemcpyHtoD_v2", pointer, ctypes.c_void_p(buffer.ctypes.data), ctypes.c_size_t(buffer.nbytes))
        return pointer
