"""The buffers that a callback works on: XLA's memory, for as long as the call lasts."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from jaxwarp.errors import KernelTypeError, KernelValueError


class Buffer:
    """An input or output of a callback: memory of XLA's, valid during the call only.

    On the CPU `np.asarray(buffer)` is a view of it; of an input, a read-only one. On CUDA it has
    `__cuda_array_interface__`.
    """

    def __init__(self, name: str, dtype: np.dtype, shape: tuple[int, ...], address: int, platform: str, is_input: bool):
        self.name, self.platform, self.is_input = name, platform, is_input
        self._dtype, self._shape, self._address = dtype, shape, address
        self._is_valid = True

    def __repr__(self) -> str:
        return f"<{self.name}: {self._dtype} of shape {self._shape} on {self.platform}>"

    def _require_valid(self) -> None:
        if not self._is_valid:
            raise KernelValueError(
                f"{self.name} is used after its callback has returned",
                hint="XLA's buffers live as long as the call; keep np.array(buffer), which is a copy",
            )

    def invalidate(self) -> None:
        """The call is over."""
        self._is_valid = False

    @property
    def dtype(self) -> np.dtype:
        self._require_valid()
        return self._dtype

    @property
    def shape(self) -> tuple[int, ...]:
        self._require_valid()
        return self._shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """In bytes; buffers are dense and row-major."""
        extents = self.shape[1:]
        return tuple(self._dtype.itemsize * math.prod(extents[axis:]) for axis in range(self.ndim))

    @property
    def ptr(self) -> int:
        """The address."""
        self._require_valid()
        return self._address

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError(f"len() of {self.name}, which has no axes")
        return self.shape[0]

    def numpy(self) -> np.ndarray:
        """A view as a NumPy array, on the CPU."""
        self._require_valid()
        if self.platform != "cpu":
            raise KernelTypeError(
                f"{self.name} is in the memory of a GPU, which NumPy cannot read",
                hint="use an array library for CUDA, through __cuda_array_interface__",
            )
        size = self.size * self._dtype.itemsize
        if size == 0:
            array = np.empty(self._shape, self._dtype)
        else:
            memory = memoryview((ctypes.c_char * size).from_address(self._address))
            array = np.frombuffer(memory, self._dtype).reshape(self._shape)
        array.flags.writeable = not self.is_input
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.numpy(), dtype, copy=copy)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        self._require_valid()
        if self.platform != "cpu" or self._dtype.kind == "V" or not self._dtype.isbuiltin == 1:
            # NumPy then asks __array__: the interface has no name for bfloat16 and its like.
            raise AttributeError("__array_interface__")
        return self.numpy().__array_interface__

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        self._require_valid()
        if self.platform == "cpu" or self._dtype.isbuiltin != 1:
            raise AttributeError("__cuda_array_interface__")
        return {
            "shape": self._shape,
            "typestr": self._dtype.str,
            "data": (self._address, self.is_input),
            "strides": None,
            "version": 3,
        }

    def __dlpack__(self, **options: Any) -> Any:
        if self.platform != "cpu":
            raise BufferError(f"{self.name}: DLPack of a buffer on a GPU is not available yet")
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        if self.platform != "cpu":
            raise BufferError(f"{self.name}: DLPack of a buffer on a GPU is not available yet")
        return (1, 0)
