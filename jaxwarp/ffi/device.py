"""A call of a Python function on the memory of a GPU."""

from __future__ import annotations

from typing import Any, NoReturn

from jaxwarp.errors import KernelTypeError
from jaxwarp.ffi.scope import Scope


class CudaScope(Scope):
    """A call that is running, in the memory of a GPU."""

    platform = "cuda"

    def __init__(self, what: str, device_ordinal: int, stream: int):
        super().__init__(what, device_ordinal)
        self.stream = stream

    def numpy(self, name: str, *_: Any) -> NoReturn:
        raise KernelTypeError(
            f"{name} is in the memory of a GPU, which NumPy cannot read",
            hint="use an array library for CUDA, through __cuda_array_interface__",
        )

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise KernelTypeError(
            "launches and copies on the memory of a GPU are not available yet",
            hint="call the kernel with jax_kernel, or in a function under jax_callable with GraphMode.JAX",
        )

    read = make = fill = copy = write = launch = hand_over = _refuse

    def find(self, *_: Any) -> None:
        return None
