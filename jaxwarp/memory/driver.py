"""The CUDA driver from Python, through cuda-python: what a function that runs on the memory of a GPU needs."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

from jaxwarp.errors import JaxwarpError

_NOT_READY = 600  # CUDA_ERROR_NOT_READY


class CudaError(JaxwarpError):
    """The driver refused something, or there is none."""


class Driver:
    """The driver, initialised.

    Attributes:
        types: the module `cuda.bindings.driver`, for its structures and enumerations.

    Raises:
        CudaError: there is none, or no cuda-python.
    """

    def __init__(self) -> None:
        try:
            self.types: Any = importlib.import_module("cuda.bindings.driver")
        except ImportError as error:
            raise CudaError(
                f"the CUDA driver is called through cuda-python, which is not there ({error}): install it with "
                "`pip install jaxwarp[cuda13]` or `pip install jaxwarp[cuda12]`"
            ) from None
        self._functions: dict[str, Callable[..., Any]] = {}
        self.call("Init", 0)

    def call(self, name: str, *arguments: Any, what: str = "") -> Any:
        """Calls a function of the driver and returns its result: None, or that of its first pointer.

        Args:
            name: of the function, less the prefix "cu".
            arguments: as `cuda.bindings.driver` takes them.
            what: said of the call in the error.

        Raises:
            CudaError: it fails, with the driver's text; or there is no driver, or one that has no such function.
        """
        answer = self._answer(name, arguments)
        if answer[0]:
            raise CudaError(f"cu{name}{what} failed: {self._reason(answer[0])}")
        return answer[1] if len(answer) > 1 else None

    def answer(self, name: str, *arguments: Any) -> Sequence[Any]:
        """Calls a function of the driver and returns all of its results. Errors are those of `call`."""
        status, *results = self._answer(name, arguments)
        if status:
            raise CudaError(f"cu{name} failed: {self._reason(status)}")
        return results

    def asks(self, name: str, *arguments: Any) -> bool:
        """Return whether a query function of the driver reports completion.

        Raises:
            CudaError: as `call`.
        """
        status = self._answer(name, arguments)[0]
        if int(status) not in (0, _NOT_READY):
            raise CudaError(f"cu{name} failed: {self._reason(status)}")
        return not int(status)

    def _answer(self, name: str, arguments: Sequence[Any]) -> Sequence[Any]:
        try:
            function = self._functions.get(name)
            if function is None:
                function = self._functions[name] = getattr(self.types, f"cu{name}")
            return function(*arguments)
        except RuntimeError as error:  # the library, or a function in it, was not found
            text = " ".join(str(error).split())
            if name == "Init":
                raise CudaError(f"there is no CUDA driver here ({text})") from None
            raise CudaError(f"the CUDA driver has no cu{name}; CUDA 12.0 or later is needed ({text})") from None

    def _reason(self, status: Any) -> str:
        (_, name), (_, text) = self.types.cuGetErrorName(status), self.types.cuGetErrorString(status)
        why = (name or str(int(status)).encode()).decode()
        return f"{why} ({text.decode()})" if text else why

    def name(self, device: Any) -> str:
        """Return the manufacturer's name for the model."""
        return bytes(self.call("DeviceGetName", 256, device)).split(b"\0", 1)[0].decode()

    def architecture(self, device: Any) -> int:
        """90 for sm_90."""
        attribute = self.types.CUdevice_attribute
        major, minor = (
            self.call("DeviceGetAttribute", a, device)
            for a in (
                attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            )
        )
        return 10 * major + minor


@functools.cache
def driver() -> Driver:
    """The one driver of this process."""
    return Driver()
