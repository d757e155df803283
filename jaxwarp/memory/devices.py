"""Devices by their names in Warp: "cpu", "cuda:0". Arrays outside of JAX are on the CPU if none is named."""

from __future__ import annotations

import contextvars
import functools
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jaxwarp.boundary import boundaries, boundary, guarded
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.memory.device_facts import DeviceFacts
from jaxwarp.memory.driver import CudaError, driver


@guarded
@dataclass(frozen=True, eq=False)
class Device(DeviceFacts):
    """A device: "cpu", or "cuda:0" and so on. Equal to its alias."""

    alias: str

    def __eq__(self, other: object) -> bool:
        name = other.alias if isinstance(other, Device) else other
        return name == self.alias if isinstance(name, str) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.alias)

    def can_access(self, other: DeviceLike) -> bool:
        """Return whether kernels on this device can use arrays on another one: they can only use arrays on their own
        device.

        Raises:
            KernelTypeError, KernelValueError: there is no such device.
        """
        return require_device(other, "can_access") == self

    def __str__(self) -> str:
        return self.alias

    def __getattr__(self, name: str) -> Any:
        if name in REFUSED:
            raise AttributeError(f"{name} of devices is not there; {REFUSED[name]}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


DeviceLike = Device | str | None
"""What names a device, for annotations; None: the one of this thread."""


_MEMORY = "memory is NumPy's on the CPU, and of the CUDA driver's own pool on GPUs"

REFUSED = {
    "make_current": "write ScopedDevice(device), or set_device(device)",
    "null_stream": "streams wait for the default stream, and that for them",
    **dict.fromkeys(("context", "context_guard", "has_context", "is_primary"), "it is the device's primary context"),
    **dict.fromkeys(("default_allocator", "get_allocator", "pinned_allocator", "memset", "memtile"), _MEMORY),
    "captures": "capture_end(device) gives a capture",
}

CPU = Device("cpu")


@functools.cache
def _gpus() -> tuple[int, str]:
    """Return the number of GPUs that the driver has, and the reason if there are none."""
    try:
        count = int(driver().call("DeviceGetCount"))
    except CudaError as error:
        return 0, str(error)
    return count, "the CUDA driver has no device here"


class _Chosen:
    """The device of the process; in a `with` of `ScopedDevice` another one is."""

    device = CPU


_chosen = _Chosen()
_within: contextvars.ContextVar[Device | None] = contextvars.ContextVar("jaxwarp_device", default=None)


def _named(device: object, where: str) -> Device:
    """The device of a name.

    Raises:
        KernelTypeError, KernelValueError: it is no name of one.
    """
    if device is None:
        return _within.get() or _chosen.device
    if not isinstance(device, (str, Device)):
        named = f'write "{device_from_jax(device)}"' if isinstance(device, jax.Device) else _hint()
        raise KernelTypeError(f'{where}: expected a device, such as "cpu", got {device!r}', hint=named)
    if device == "cpu":
        return CPU
    kind, _, number = str(device).partition(":")
    if kind == "cuda" and (not number or number.isdigit()):
        return Device(f"cuda:{int(number or 0)}")
    raise KernelValueError(
        f'{where}: expected the device "cpu", or "cuda:0" and so on, got {str(device)!r}', hint=_hint()
    )


def _hint() -> str:
    here = [f'"{device}"' for device in get_devices()]
    return f"write {' or '.join(here)}, or leave the device out" + ("; CUDA has no device here" * (len(here) == 1))


def require_device(device: object, where: str) -> Device:
    """The device of a name; None: the one that is chosen.

    Raises:
        KernelTypeError, KernelValueError: there is no such device, or no such GPU here.
    """
    found = _named(device, where)
    if found.is_cuda and found.ordinal >= _gpus()[0]:
        count, why = _gpus()
        raise KernelValueError(
            f"{where}: {found} cannot be used: " + (f"there are {count} CUDA devices" if count else why),
            hint='write "cpu", or leave the device out',
        )
    return found


def require_cpu(device: Any, where: str) -> Device:
    """The CPU, for what works on memory of the host alone.

    Raises:
        KernelTypeError, KernelValueError: another device, or no device.
    """
    if device is None:
        return CPU
    found = _named(device, where)
    if found.is_cuda:
        raise KernelValueError(
            f"{where} works on memory of the host; {found} cannot be used yet", hint='write "cpu", or leave it out'
        )
    return found


@boundary
def get_device(ident: Any = None) -> Device:
    """The device of a name; None: the one on which arrays outside of JAX are made, the CPU unless another is chosen.

    Raises:
        KernelTypeError, KernelValueError: there is no such device.
    """
    return require_device(ident, "get_device")


def get_preferred_device() -> Device:
    """The first CUDA device, or the CPU where there is none."""
    return Device("cuda:0") if is_cuda_available() else CPU


def get_devices() -> list[Device]:
    """The devices that arrays outside of JAX can be on."""
    return [CPU, *get_cuda_devices()]


def get_cuda_devices() -> list[Device]:
    """The CUDA devices that arrays outside of JAX can be on: those of the driver. JAX's are `jax.devices("cuda")`."""
    return [Device(f"cuda:{i}") for i in range(_gpus()[0])]


def get_cuda_device_count() -> int:
    """Return the number of CUDA devices that arrays outside of JAX can be on."""
    return _gpus()[0]


@boundary
def get_cuda_device(ordinal: int | None = None) -> Device:
    """Return a CUDA device. None: the first one.

    Raises:
        KernelValueError: there is none of that number.
    """
    if not isinstance(ordinal, (int, np.integer, type(None))):
        raise KernelTypeError(f"get_cuda_device: ordinal: expected an integer, got {ordinal!r}", hint="write 0")
    return require_device(f"cuda:{ordinal or 0}", "get_cuda_device")


def is_cpu_available() -> bool:
    """Return whether arrays outside of JAX can be on the CPU."""
    return True


def is_cuda_available() -> bool:
    """Return whether arrays outside of JAX can be on a GPU. They can if cuda-python is installed and the CUDA driver
    has a device."""
    return _gpus()[0] > 0


def is_device_available(device: Any) -> bool:
    """Return whether arrays outside of JAX can be on a device."""
    return str(device) in {str(found) for found in get_devices()} or (str(device) == "cuda" and is_cuda_available())


@boundary
def set_device(ident: Any) -> None:
    """The device on which arrays are made when none is named.

    Raises:
        KernelTypeError, KernelValueError: there is no such device.
    """
    _chosen.device = require_device(ident, "set_device")


@boundaries
class ScopedDevice:
    """Make a device the current one: in `with ScopedDevice("cuda:0"):`, new arrays are on that device.

    Raises:
        KernelTypeError, KernelValueError: there is no such device.
    """

    def __init__(self, device: Any):
        self.device = require_device(device, "ScopedDevice")
        self._tokens: list[contextvars.Token[Device | None]] = []

    def __enter__(self) -> Device:
        self._tokens.append(_within.set(self.device))
        return self.device

    def __exit__(self, *_: Any) -> None:
        _within.reset(self._tokens.pop())


@boundary
def device_from_jax(jax_device: Any) -> Device:
    """The device that a device of JAX's is.

    Raises:
        KernelTypeError: it is neither a CPU nor a CUDA device.
    """
    platform = getattr(jax_device, "platform", None)
    if platform == "cpu":
        return CPU
    if platform in ("gpu", "cuda"):
        return Device(f"cuda:{jax_device.local_hardware_id}")
    raise KernelTypeError(
        f"device_from_jax: expected a CPU or CUDA device of JAX, got {jax_device!r}", hint="pass one of jax.devices()"
    )


@boundary
def device_to_jax(warp_device: Any = None) -> Any:
    """The device of JAX's, of this process, that a device is.

    Raises:
        KernelTypeError, KernelValueError: JAX has no such device here.
    """
    if warp_device is not None and not isinstance(warp_device, (str, Device)):
        raise KernelTypeError(
            f'device_to_jax: expected a device, such as "cpu", got {warp_device!r}', hint='write "cpu", or "cuda:0"'
        )
    name = "cpu" if warp_device is None else "cuda:0" if str(warp_device) == "cuda" else str(warp_device)
    try:
        found = jax.local_devices(backend=name.split(":")[0])
    except RuntimeError:
        found = []
    for candidate in found:
        if name == "cpu" or f"cuda:{candidate.local_hardware_id}" == name:
            return candidate
    raise KernelValueError(
        f"device_to_jax: JAX has no device {name!r} in this process", hint="jax.devices() lists those that there are"
    )
