"""Devices by their names in Warp: "cpu", "cuda:0". Arrays outside of JAX are on the CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax

from jaxwarp.boundary import boundaries, boundary
from jaxwarp.errors import KernelTypeError, KernelValueError


@dataclass(frozen=True, eq=False)
class Device:
    """A device: "cpu", or "cuda:0" and so on. Equal to its name."""

    alias: str

    def __eq__(self, other: object) -> bool:
        name = other.alias if isinstance(other, Device) else other
        return name == self.alias if isinstance(name, str) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.alias)

    @property
    def is_cuda(self) -> bool:
        return self.alias != "cpu"

    @property
    def is_cpu(self) -> bool:
        return self.alias == "cpu"

    @property
    def name(self) -> str:
        return self.alias

    @property
    def ordinal(self) -> int:
        """The number of a CUDA device in this process; -1 for the CPU."""
        return int(self.alias.removeprefix("cuda:")) if self.is_cuda else -1

    def __str__(self) -> str:
        return self.alias


CPU = Device("cpu")


def require_cpu(device: Any, where: str) -> Device:
    """The CPU, which is where arrays outside of JAX are.

    Raises:
        KernelTypeError, KernelValueError: another device, or no device.
    """
    if device is None:
        return CPU
    if not isinstance(device, (str, Device)):
        raise KernelTypeError(
            f'{where}: expected a device, such as "cpu", got {device!r}', hint='write "cpu", or leave the device out'
        )
    if str(device) == "cpu":
        return CPU
    if str(device).split(":")[0] == "cuda":
        raise KernelValueError(
            f"{where}: arrays outside of JAX are in the memory of the host; {device} cannot be used yet",
            hint="use jax_kernel or jax_callable on a GPU: JAX places their arrays",
        )
    raise KernelValueError(
        f'{where}: expected the device "cpu", got {str(device)!r}', hint='write "cpu", or leave the device out'
    )


@boundary
def get_device(ident: Any = None) -> Device:
    """The device of a name; None: the one on which arrays outside of JAX are made, which is the CPU.

    Raises:
        KernelTypeError, KernelValueError: there is no such device for arrays outside of JAX.
    """
    return require_cpu(ident, "get_device")


get_preferred_device = get_device


def get_devices() -> list[Device]:
    """The devices that arrays outside of JAX can be on."""
    return [CPU]


def get_cuda_devices() -> list[Device]:
    """The CUDA devices that arrays outside of JAX can be on: none yet. JAX's are `jax.devices("cuda")`."""
    return []


def get_cuda_device_count() -> int:
    """How many CUDA devices arrays outside of JAX can be on."""
    return len(get_cuda_devices())


@boundary
def get_cuda_device(ordinal: int | None = None) -> Device:
    """A CUDA device.

    Raises:
        KernelValueError: arrays outside of JAX cannot be there.
    """
    return require_cpu(f"cuda:{ordinal or 0}", "get_cuda_device")


def is_cpu_available() -> bool:
    """Whether arrays outside of JAX can be on the CPU."""
    return True


def is_cuda_available() -> bool:
    """Whether arrays outside of JAX can be on a GPU: not yet. JAX's devices are `jax.devices()`."""
    return bool(get_cuda_devices())


def is_device_available(device: Any) -> bool:
    """Whether arrays outside of JAX can be on a device."""
    return str(device) == "cpu"


@boundary
def set_device(ident: Any) -> None:
    """The device on which arrays are made when none is named: only the CPU can be.

    Raises:
        KernelTypeError, KernelValueError: another device.
    """
    require_cpu(ident, "set_device")


@boundaries
class ScopedDevice:
    """`with ScopedDevice("cpu"):` makes a device the one on which arrays are made in the `with`.

    Raises:
        KernelTypeError, KernelValueError: another device than the CPU.
    """

    def __init__(self, device: Any):
        self.device = require_cpu(device, "ScopedDevice")

    def __enter__(self) -> Device:
        return self.device

    def __exit__(self, *_: Any) -> None:
        pass


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
def device_to_jax(device: Any = None) -> Any:
    """The device of JAX's, of this process, that a device is.

    Raises:
        KernelTypeError, KernelValueError: JAX has no such device here.
    """
    if device is not None and not isinstance(device, (str, Device)):
        raise KernelTypeError(
            f'device_to_jax: expected a device, such as "cpu", got {device!r}', hint='write "cpu", or "cuda:0"'
        )
    name = "cpu" if device is None else "cuda:0" if str(device) == "cuda" else str(device)
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


@boundary
def synchronize(device: Any = None) -> None:
    """Waits until work on arrays outside of JAX is done: on the CPU it is, when a launch or copy returns."""
    del device


synchronize_device = synchronize_stream = synchronize
