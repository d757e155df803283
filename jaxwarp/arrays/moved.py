"""Structs whose arrays are on a device: `struct.to(device)`, and what volumes and textures are made of."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jaxwarp import compat
from jaxwarp.arrays.from_data import from_numpy
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.indexed import IndexedArray
from jaxwarp.errors import KernelTypeError
from jaxwarp.memory.devices import CPU, Device, device_to_jax, require_device
from jaxwarp.quaternions import HostValue
from jaxwarp.structs.instances import copied
from jaxwarp.types import HANDLE, SCALAR_BY_DTYPE, Array, struct_of


def struct_to(self: Any, device: Any) -> Any:
    """A copy of the struct whose arrays are on a device, those of structs in it too. Arrays that are there stay the
    same; so do meshes, trees, grids, volumes and textures, wherever they are.

    Raises:
        KernelTypeError, KernelValueError: there is no such device; an array of NumPy is to be on a GPU.
    """
    where = f"struct {type(self).__name__}: to"
    if hasattr(type(self), HANDLE):
        raise KernelTypeError(f"{where}: it stays where it was made", hint="make another one, of arrays on the device")
    return _moved(where, self, require_device(device, where))


def device_for(device: Any, where: str, data: Any = None) -> Device:
    """Return the device on which a volume or a texture is made. This is the named device, or else that of its data if
    the data is a jaxwarp array, or else the current device. While JAX traces it is the CPU: a JAX program places its
    own arrays.

    Raises:
        KernelTypeError, KernelValueError: there is no such device.
    """
    is_there = device is None and isinstance(data, HostArray)
    found = data.device if is_there else require_device(device, where)
    return CPU if compat.is_tracing() else found


def fields_on(kind: type, held: dict[str, Any], device: Device) -> dict[str, Any]:
    """Return the fields of a struct. If the device is a GPU, replace NumPy arrays with copies on it. JAX arrays stay
    where they are."""
    struct = struct_of(kind)
    if device.is_cpu or struct is None:
        return held
    axes = {field.name: field.type.ndim for field in struct.fields if isinstance(field.type, Array)}
    moved = {name: held[name] for name in axes if isinstance(held.get(name), np.ndarray)}
    return held | {name: _uploaded(value, axes[name], device) for name, value in moved.items()}


def _uploaded(values: np.ndarray, ndim: int, device: Device) -> Any:
    """An array of so many axes, and one more for the components of vectors."""
    # Without a type, rows are vectors.
    return from_numpy(values, dtype=SCALAR_BY_DTYPE[values.dtype] if values.ndim == ndim else None, device=device)


def _moved(where: str, value: Any, device: Device) -> Any:
    if isinstance(value, (HostArray, IndexedArray)):
        return value.to(device)
    if isinstance(value, jax.Array):
        return jax.device_put(value, device_to_jax(device))
    if isinstance(value, np.ndarray) and not isinstance(value, HostValue) and device.is_cuda:
        raise KernelTypeError(
            f"{where}: an array of NumPy is in the memory of the host", hint="write array(values, dtype=...)"
        )
    if struct_of(type(value)) is None or hasattr(type(value), HANDLE):
        return value
    made = copied(value)
    vars(made).update({name: _moved(f"{where}: field {name}", part, device) for name, part in vars(made).items()})
    return made
