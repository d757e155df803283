"""`array(data)`: arrays outside of JAX from lists, from NumPy arrays, from arrays that libraries share."""

from __future__ import annotations

import math
import sys
from typing import Any

import jax
import jax.core
import numpy as np

from jaxwarp.arrays.element_types import scalar_of_numpy
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.interop import named_gpu, wrapped
from jaxwarp.arrays.placed import placed_array
from jaxwarp.arrays.struct_array import array_of_structs, new_array
from jaxwarp.boundary import located, located_call
from jaxwarp.conversions import require_unmasked
from jaxwarp.errors import KernelError, KernelTypeError, KernelValueError, type_text
from jaxwarp.ffi.programs.traced_array import Address, ArrayHandle
from jaxwarp.frontend.text.annotations import ArrayAnnotation
from jaxwarp.launches.arguments.dims import normalize_dims
from jaxwarp.memory.convert import cast_values, taken_apart
from jaxwarp.memory.current import require_outside
from jaxwarp.memory.dlpack import import_tensor, is_on_gpu
from jaxwarp.memory.gpu.pinned import host_memory
from jaxwarp.memory.gpu.scope import gpu_of, place_of_device
from jaxwarp.memory.host_scope import HOST, Outside, capturing, recording, untraced
from jaxwarp.memory.region import Region, array_region, dense_strides
from jaxwarp.memory.scope import view_of
from jaxwarp.memory.tensor_owner import fresh
from jaxwarp.types import (
    Array,
    Element,
    Id,
    Scalar,
    Struct,
    as_dtype,
    as_element,
    element_scalar,
    element_shape,
    float32,
    matrix,
    struct_of,
    uint64,
    vector,
)

_OPTIONS = (
    *("device", "copy", "requires_grad", "grad", "pinned", "retain_grad"),
    *("ptr", "strides", "capacity", "deleter"),
)


def _make(name: str, ndim: int | None, data: Any, dtype: Any, shape: Any, options: dict[str, Any]) -> Any:
    """`array(data, dtype, shape, ...)`: see `ArrayAnnotation`."""
    try:
        return _make_array(name, ndim, data, dtype, shape, **_known(name, options))
    except KernelError as error:
        raise located(error, sys._getframe(1)) from None


def array_of(data: Any, element: Any) -> HostArray:
    """A new array of data, of an element type."""
    return _make_array("array", None, data, element, None)


ArrayAnnotation.make = staticmethod(_make)


ArrayAnnotation.kind = HostArray


def _known(name: str, options: dict[str, Any]) -> dict[str, Any]:
    for option in options:
        if option not in _OPTIONS:
            raise KernelTypeError(
                f"{name}(...) has no option {option!r}; it has data, dtype, shape, ndim, {', '.join(_OPTIONS)}"
            )
    return options


def _make_array(  # noqa: PLR0913 - the signature users know from Warp
    name: str,
    ndim: int | None,
    data: Any,
    dtype: Any,
    shape: Any,
    device: Any = None,
    copy: bool = True,
    requires_grad: bool = False,
    grad: Any = None,
    pinned: Any = False,
    retain_grad: Any = False,
    ptr: int | Address | None = None,
    strides: Any = None,
    capacity: int | None = None,
    deleter: Any = None,
) -> Any:
    if isinstance(ptr, Address):
        if data is not None or shape is None:
            raise KernelTypeError(f"{name}(...): an array at an address has a shape and no data", hint="pass shape=")
        return _of_program(name, ptr, dtype, shape, strides)
    require_outside(f"{name}(...) of data")
    objects, data, dtype = _by_ids(name, data, dtype)
    place = data.scope if device is None and isinstance(data, HostArray) else place_of_device(device, name)
    extents = None if shape is None else _extents(name, shape, data is not None)
    if data is None:
        if extents is None:
            raise KernelTypeError(
                f"{name}(...): expected data or shape=", hint=f"write {name}([1.0, 2.0], dtype=float), or zeros(shape)"
            )
        element = as_dtype(float32 if dtype is Any else dtype)
        if all(option is None for option in (ptr, strides, capacity, deleter)):
            made = new_array(name, element, extents, host_memory(pinned) if place is HOST else place)
        else:
            made = placed_array(place, name, element, extents, ptr, strides, capacity, deleter)
    elif not all(option is None for option in (ptr, strides, capacity, deleter)):
        raise KernelTypeError(
            f"{name}(...): ptr, strides, capacity and deleter are for arrays without data",
            hint="for a part of data take slices of it: array(data)[::2]",
        )
    elif isinstance(data, jax.core.Tracer):
        raise untraced(data, f"{name}(...): data")
    else:
        made = _placed(place, name, data, dtype, extents, copy, device)
    if pinned and place is HOST and copy and host_memory(pinned) is not HOST and not made.pinned:
        made = made.new_like(host_memory(pinned)).assign(made)
    if ndim is not None and made.ndim < ndim and made.size == 0 and extents is None:
        made = made.reshape((*made.shape, *[0] * (ndim - made.ndim)))
    if ndim is not None and made.ndim != ndim:
        raise KernelValueError(
            f"{name}(...): expected data with {ndim} axes, got shape {made.shape}",
            hint=f"write array(data, dtype=...) for any number of axes, or reshape the data to {ndim}",
        )
    made.begin(bool(requires_grad))
    if objects:
        made.__dict__["objects"] = objects  # they live as long as the array
    if grad is not None:
        made.grad = grad
    if retain_grad:
        made.retain_grad = True
    return made


def _by_ids(name: str, data: Any, dtype: Any) -> tuple[list[Any], Any, Any]:
    """Return the objects in data of a class whose objects have ids, their ids in the places of them, and uint64.

    Other data and types are returned as they are.
    """
    kind = None if dtype is Any else struct_of(as_dtype(dtype)) or as_dtype(dtype)
    if not isinstance(kind, Struct) or as_element(kind) is kind:
        return [], data, dtype
    objects: list[Any] = []

    def number(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [number(v) for v in value]
        if isinstance(value, Id):
            value = value.value
        if value is None or isinstance(value, (int, np.integer)):
            return 0 if value is None else value
        if struct_of(type(value)) != kind:
            raise KernelTypeError(
                f"{name}(...): data: expected objects {kind!r}, got {type_text(value)}",
                hint=f"pass a list of {kind!r}(...), or of their ids",
            )
        objects.append(value)
        return int(value.id)

    return objects, number(data) if isinstance(data, (list, tuple)) else data, uint64


def _of_program(name: str, ptr: Address, dtype: Any, shape: Any, strides: Any) -> ArrayHandle:
    """Return an array of a traced function that has the memory of another one of it."""
    element = as_dtype(float32 if dtype is Any else dtype)
    full = (*normalize_dims(shape, f"{name}: shape"), *element_shape(element))
    scalar = element_scalar(element)
    if strides is not None and tuple(strides) != dense_strides(full, scalar.bytes)[: len(full)]:
        raise KernelTypeError(
            f"{name}(...): strides: an array at the address of a traced array has its elements side by side",
            hint="leave strides out, and take slices: array[::2]",
        )
    return ptr.array.placed(Array(element, len(full) - len(element_shape(element))), full)


def _of_data(
    name: str, data: Any, dtype: Any, shape: tuple[Any, ...] | None, copy: bool, is_moved: bool = False
) -> HostArray:
    if isinstance(data, (str, bytes)) or not (hasattr(data, "__len__") or hasattr(data, "__array__")):
        raise KernelTypeError(
            f"{name}(...): data: expected a sequence or an array, got {type_text(data)}",
            hint="write array([1.0, 2.0]), or zeros(shape) for a new array",
        )
    if isinstance(data, HostArray) and dtype is Any:
        dtype = data.dtype
    struct = _struct_of(data) if dtype is Any else as_dtype(dtype)
    if isinstance(struct, Struct):
        return array_of_structs(name, data, struct, shape, copy)
    found = None if isinstance(data, (list, tuple)) else HOST.find(data)
    if isinstance(data, HostArray):
        if copy:
            HOST.require_settled(f"{name}(...): data")
        found = data.region, data.is_writable
    if found is None:
        values, is_writable = _as_numpy(name, data), True
    else:
        values, is_writable = found[0].view(HOST.lease(name, found[0])), found[1]
    element = scalar_of_numpy(name, values.dtype) if dtype is Any else as_dtype(dtype)
    if not isinstance(element_scalar(element), Scalar):
        raise KernelTypeError(
            f"{name}(...): dtype: expected a type with a dtype, got {element!r}",
            hint="write dtype=float, or dtype=vec3",
        )
    scalar = element_scalar(element).numpy
    values = _without_rounding(data, values, scalar)
    is_shared = not copy and found is not None
    if is_shared and values.dtype != scalar:
        raise KernelTypeError(
            f"{name}(...): copy=False: expected data of {scalar}, got {values.dtype}",
            hint="leave copy=False out, or convert the data first",
        )
    if isinstance(data, np.ndarray) and values.dtype.kind in "iu" and scalar.kind in "iu":
        values = values.astype(scalar)  # as NumPy converts them: they wrap
    values = cast_values(values, scalar, f"{name}(...): data")
    shaped = _shaped(name, values, element, shape)
    if is_shared and shaped.size and not np.may_share_memory(shaped, values):
        raise KernelValueError(
            f"{name}(...): copy=False: data of shape {values.shape} cannot be shared in this shape",
            hint="leave copy=False out, or reshape the data first",
        )
    if not is_shared:
        if isinstance(data, HostArray) and recording.get() is not None:
            return _recorded_copy(name, data, element, shaped.shape)
        shaped, is_writable = np.array(shaped, order="C"), True
    kept = data if isinstance(data, jax.Array) and is_shared else None
    type_ = Array(element, shaped.ndim - len(element_shape(element)))
    region = array_region(shaped) if is_shared else fresh(array_region(shaped))
    made = HostArray(name, type_, region, is_writable, kept)
    if not (is_shared or is_moved) and capturing.get() is not None:  # launches of the capture begin with the data
        HOST.write(made.region, shaped)
    return made


def _foreign(name: str, data: Any) -> Any:
    """An array of another library on a GPU as one of ours, memory of the host as one of NumPy; other data as it is."""
    if isinstance(data, (HostArray, np.ndarray, list, tuple)):
        require_unmasked(data)
        return data
    if is_on_gpu(data):
        region, is_writable = import_tensor(data, named_gpu)
    elif isinstance(data, jax.Array):
        return data
    elif getattr(data, "__array_interface__", None) is not None:  # perhaps that of CUDA, too: it is in both memories
        return np.asarray(data)
    elif getattr(data, "__cuda_array_interface__", None) is not None:
        found = gpu_of(data).find(data)
        assert found is not None
        region, is_writable = found
    else:
        return data
    kept = data if isinstance(data, jax.Array) else None
    return wrapped(name, region, None, is_writable and kept is None, kept)


def _placed(
    place: Outside, name: str, data: Any, dtype: Any, shape: tuple[Any, ...] | None, copy: bool, device: Any
) -> HostArray:
    """An array of data, on a device."""
    data = _foreign(name, data)
    where = data.scope if isinstance(data, HostArray) else HOST
    if where is not HOST and device is None:
        place = where
    if where is HOST and place is HOST:
        return _of_data(name, data, dtype, shape, copy)
    if not copy and (where is not place if device is not None else where is HOST):
        raise KernelTypeError(
            f"{name}(...): copy=False: the data is on another device than the array", hint="leave copy=False out"
        )
    if where is not HOST and not copy:
        shared = data if dtype is Any or as_dtype(dtype) == data.dtype else data.view(dtype)
        return shared if shape is None else shared.reshape(shape)
    if where is not HOST and shape is None and (dtype is Any or as_dtype(dtype) == data.dtype):
        return data.new_like(place).assign(data)
    is_moved = place is not HOST
    made = _of_data(name, data.to("cpu") if where is not HOST else data, dtype, shape, copy=True, is_moved=is_moved)
    if not is_moved:
        return made
    moved = made.new_like(place)
    if capturing.get() is None or made.region.dtype.names:
        return moved.assign(made)
    place.write(moved.region, view_of(made.region))
    return moved


def _extents(name: str, shape: Any, has_data: bool) -> tuple[Any, ...]:
    """Return the extents of a shape. One of an array of data may be -1: as many as there are elements for."""
    given = tuple(shape) if isinstance(shape, (tuple, list, np.ndarray)) else (shape,)
    unknown = [axis for axis, extent in enumerate(given) if isinstance(extent, (int, np.integer)) and extent == -1]
    if not has_data or len(unknown) != 1:
        return normalize_dims(shape, f"{name}: shape")
    known = normalize_dims([0 if axis in unknown else n for axis, n in enumerate(given)], f"{name}: shape")
    return tuple(-1 if axis in unknown else n for axis, n in enumerate(known))


def _struct_of(data: Any) -> Struct | None:
    """Return the struct of the instances in a (nested) list."""
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return struct_of(type(data))


def _recorded_copy(name: str, data: HostArray, element: Element, shape: tuple[int, ...]) -> HostArray:
    """A copy that a tape sees."""
    if element_scalar(element).numpy != data.region.dtype:
        raise KernelTypeError(
            f"{name}(...): data: a tape is recording, and does not record conversions from {data.dtype} to {element}",
            hint="convert in a kernel",
        )
    made = new_array(name, element, shape[: len(shape) - len(element_shape(element))])
    source = data.contiguous()
    tape = recording.get()
    assert tape is not None
    tape.see(made, source)
    given, wanted = source.region, made.region
    as_made = Region(given.address, wanted.dtype, wanted.shape, wanted.strides, given.owner)
    HOST.copy(made.region, as_made)
    return made


def _as_numpy(name: str, data: Any) -> np.ndarray:
    try:
        return np.asarray(data)
    except (TypeError, ValueError) as error:
        raise KernelTypeError(
            f"{name}(...): data: expected numbers in equal rows: {error}",
            hint="make all rows of one length, and all items numbers",
        ) from None


def _without_rounding(data: Any, values: np.ndarray, scalar: np.dtype) -> np.ndarray:
    """Return a list of integers as they are: NumPy makes floats of integers of which some only fit into uint64."""
    if not (scalar == np.uint64 and values.dtype == np.float64 and isinstance(data, (list, tuple))):
        return values
    numbers = np.asarray(data, object)
    if all(isinstance(n, (int, np.integer)) and 0 <= n < 1 << 64 for n in numbers.flat):
        return numbers.astype(np.uint64)
    return values


def _shaped(name: str, values: np.ndarray, element: Element, shape: tuple[Any, ...] | None) -> np.ndarray:
    """The data with the component axes of the element type; a last axis of whole elements is taken apart."""
    components = element_shape(element)
    count, rank = math.prod(components), len(components)
    wanted = None
    if shape is not None:
        others = -math.prod(shape) * count
        left = values.size // others if others else 0
        wanted = (*(left if n == -1 else n for n in shape), *components)
    elif components and values.shape[-rank:] != components:
        wanted = taken_apart(values, components).shape
        if wanted == values.shape:
            expected = f"a last axis of {count} components" if rank == 1 else f"last axes {components}"
            raise KernelValueError(
                f"{name}(...): data: expected {expected} for {element}, got shape {values.shape}",
                hint="put the components in the last axes",
            )
    elif values.ndim == rank:
        wanted = (1, *components)
    if wanted is None:
        return values
    if len(wanted) == rank:
        wanted = (1, *wanted)
    if math.prod(wanted) != values.size:
        raise KernelValueError(
            f"{name}(...): data: expected {math.prod(wanted)} numbers, got shape {values.shape}",
            hint="leave shape out, or write one of as many elements",
        )
    return values.reshape(wanted)


@located_call
def from_numpy(
    arr: Any,
    dtype: Any = None,
    shape: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    retain_grad: bool = False,
) -> HostArray:
    """A new array with the contents of a NumPy array.

    Without `dtype`, an array with two axes becomes one of vectors, with three axes of matrices, as in Warp.

    Raises:
        KernelTypeError, KernelValueError: the type or the shape do not fit.
    """
    if not isinstance(arr, np.ndarray):
        raise KernelTypeError(
            f"from_numpy: expected a NumPy array, got {type_text(arr)}",
            hint="write array(data) for lists and other arrays",
        )
    element = dtype
    if element is None:
        scalar = scalar_of_numpy("from_numpy", arr.dtype)
        if arr.ndim in (2, 3) and 0 in arr.shape[1:]:
            raise KernelValueError(f"from_numpy: expected components, got shape {arr.shape}", hint="give dtype=")
        element = scalar
        if arr.ndim == 2:
            element = vector(arr.shape[1], scalar)
        elif arr.ndim == 3:
            element = matrix((arr.shape[1], arr.shape[2]), scalar)
    options = {"requires_grad": requires_grad, "retain_grad": retain_grad}
    return _make_array("from_numpy", None, arr, element, shape, device, **options)
