"""DLPack capsules, made and taken. Layouts: dlpack.h, versions 0.8 and 1.0.

NumPy's own capsules will not do: they know no bfloat16 and no GPU.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from ctypes import POINTER, Structure, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxwarp import compat
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.memory.region import Region, array_region, dense_region
from jaxwarp.native.library import load_library
from jaxwarp.types import SCALARS

CPU, CUDA = 1, 2
_READ_ONLY, _COPIED = 1, 2
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_CODES_BY_NAME = {
    "bfloat16": 4, "float8_e3m4": 7, "float8_e4m3": 8, "float8_e4m3b11fnuz": 9, "float8_e4m3fn": 10,
    "float8_e4m3fnuz": 11, "float8_e5m2": 12, "float8_e5m2fnuz": 13, "float8_e8m0fnu": 14,
}  # fmt: skip


class Tensor(Structure):
    """DLTensor."""

    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class Managed(Structure):
    """DLManagedTensor: what readers from before version 1 take."""

    _fields_ = [("tensor", Tensor), ("context", c_void_p), ("deleter", c_void_p)]


class Versioned(Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", Tensor),
    ]


class _Description(Structure):
    """`Description` in native/tensors.cc."""

    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_int32),
        ("bits", c_int32),
        ("is_versioned", c_int32),
        ("flags", c_uint64),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("object", c_void_p),
    ]


_new: Any = ctypes.PYFUNCTYPE(ctypes.py_object, c_void_p, c_void_p, c_void_p)(("PyCapsule_New", ctypes.pythonapi))
_KINDS = (Managed, Versioned)
_FRESH, _USED, _TAKEN = range(3)  # of capsules: with a tensor, after somebody took that, and of ours with what we took


@functools.cache
def _name(kind: type, state: int) -> int:
    """The address of the name of such capsules. They outlive strings of Python's."""
    name = load_library().jaxwarp_capsule_name
    name.restype = c_void_p
    return name(kind is Versioned, state)


class _Native(NamedTuple):
    """Tensors belong to native code, also their deleters: libraries call them when they like, some when Python is gone.

    Attributes:
        make: makes one of a description. Holds the interpreter lock.
        end_capsule: address of the destructor of its capsule.
        give_back: address of the destructor of a capsule with a tensor of another library.
    """

    make: Any
    end_capsule: int | None
    give_back: int | None


@functools.cache
def _native() -> _Native:
    library = load_library()
    make = ctypes.PYFUNCTYPE(c_void_p, POINTER(_Description))(("jaxwarp_tensor_make", library))
    ends = (library.jaxwarp_tensor_end_capsule, library.jaxwarp_tensor_give_back)
    return _Native(make, *(ctypes.cast(end, c_void_p).value for end in ends))


def make_capsule(
    array: Any,
    stream: Any,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
    never_writes: bool = False,
) -> Any:
    """Return the capsule for `__dlpack__` of an array. The arguments are those of the protocol.

    `never_writes`: the consumer never writes to read-only memory, although its DLPack version cannot mark it so.

    Raises:
        BufferError: what is asked for cannot be had.
    """
    device, region, scope = array.__dlpack_device__(), array.region, array.scope
    if dl_device is not None and tuple(dl_device) != device:
        raise BufferError(f"{array.label}: is on DLPack device {device}, not {tuple(dl_device)}")
    is_on_cpu = device[0] == CPU
    if copy:
        if not is_on_cpu and not scope.is_outside:
            raise BufferError(f"{array.label}: a copy of memory of a GPU is for the library that reads it to make")
        region = array_region(scope.read(region)) if is_on_cpu else scope.duplicated(region)
    if is_on_cpu and copy:
        pass
    elif is_on_cpu and stream is not None:
        raise BufferError(f"{array.label}: is in memory of the host, which knows no stream {stream!r}")
    if not is_on_cpu:
        scope.hand_over(stream, region)
    kind: Any = Versioned if max_version is not None and max_version[0] >= 1 else Managed
    is_writable = array.is_writable or bool(copy)
    if not is_writable and kind is Managed and not never_writes:
        raise BufferError(f"{array.label}: is read-only, which this version of DLPack cannot say; copy it")
    if not is_writable and _writes_anyway(sys._getframe(2).f_globals.get("__name__", "")):
        raise BufferError(
            f"{array.label}: is read-only, which tensors of the library that asks cannot be; pass it a copy, of"
            " jaxwarp.clone(array) or array.numpy()"
        )
    given = _describe(array.label, region, device)
    given.flags = (0 if is_writable else _READ_ONLY) | (_COPIED if copy else 0)
    return _capsule(kind, given, scope.lease(array.label, region))


def _writes_anyway(module: str) -> bool:
    """Return whether a library accepts read-only memory and then lets users write to it."""
    return module.split(".", maxsplit=1)[0] in ("torch", "paddle")


def _describe(label: str, region: Region, device: tuple[int, int]) -> _Description:
    dtype, ndim = region.dtype, len(region.shape)
    # `dtype.name` imports a module each time: see `jaxwarp.unlocked`.
    code = _CODES_BY_NAME.get(dtype.type.__name__, _CODES.get(dtype.kind))
    if code is None:
        raise BufferError(f"{label}: DLPack has no name for {dtype}")
    strides = [s // dtype.itemsize for s in region.strides]
    made = _Description(region.address, *device, ndim, code, 8 * dtype.itemsize)
    made.shape, made.strides = (c_int64 * ndim)(*region.shape), (c_int64 * ndim)(*strides)
    return made


def _capsule(kind: type[Structure], given: _Description, memory: Any) -> Any:
    native = _native()
    given.is_versioned, given.object = kind is Versioned, id(memory)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))  # the tensor's own reference
    return _new(native.make(given), _name(kind, _FRESH), native.end_capsule)


# Taking what others have made.

_holds: Any = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, c_void_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_open: Any = ctypes.PYFUNCTYPE(c_void_p, ctypes.py_object, c_void_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
_rename: Any = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, c_void_p)(("PyCapsule_SetName", ctypes.pythonapi))
_DTYPES_BY_CODE = {0: "int", 1: "uint", 2: "float", 6: "bool"}


Places = Callable[[int], Any]
"""The scope, outside of all calls, of the memory of a GPU with a number."""


def is_on_gpu(value: object) -> bool:
    """Return whether an array with DLPack's interface is in the memory of a CUDA GPU."""
    device = getattr(value, "__dlpack_device__", None)
    try:
        return device is not None and int(device()[0]) == CUDA
    except (BufferError, RuntimeError, TypeError, ValueError):  # it is nowhere
        return False


def import_tensor(source: Any, places: Places | None = None) -> tuple[Region, bool]:
    """The memory of an array with `__dlpack__`, or of a capsule, and whether it may be written.

    Args:
        places: takes memory of GPUs; None: only that of the host is taken.

    Raises:
        KernelTypeError, KernelValueError: it is no such memory, or of a type that kernels do not have.
        BufferError: the array does not give it.
    """
    capsule = source
    if hasattr(source, "__dlpack__"):
        kind, ordinal = source.__dlpack_device__()
        options: dict[str, Any] = {}
        if int(kind) == CUDA and places is not None:  # what is queued there comes before what is queued on this stream
            options["stream"] = places(int(ordinal)).stream
        else:
            _require_host(int(kind), int(ordinal))
        try:
            capsule = source.__dlpack__(max_version=(1, 0), **options)
        except TypeError:  # from before version 1 of the protocol
            capsule = source.__dlpack__(**options)
    if type(capsule).__name__ != "PyCapsule":
        raise KernelTypeError(
            f"from_dlpack: Expected a valid DLPack capsule, got {type_text(capsule)}",
            hint="for NumPy arrays and lists use array(data)",
        )
    for kind in _KINDS:
        if _holds(capsule, _name(kind, _FRESH)):
            return _take(capsule, kind, places)
    if any(_holds(capsule, _name(kind, _USED)) for kind in _KINDS):
        raise KernelValueError("from_dlpack: the capsule has been used already", hint="ask for a new one")
    raise KernelTypeError("from_dlpack: expected a capsule of DLPack", hint="pass the array itself")


def _take(capsule: Any, kind: Any, places: Places | None) -> tuple[Region, bool]:
    address = _open(capsule, _name(kind, _FRESH))
    managed = kind.from_address(address)
    tensor = managed.tensor
    if kind is Versioned and managed.major > 1:
        raise KernelValueError(f"from_dlpack: version {managed.major} of DLPack is not known")
    place = None
    if tensor.device_type == CUDA and places is not None:
        place = places(tensor.device_id)
    else:
        _require_host(tensor.device_type, tensor.device_id)
    dtype = _dtype_of(tensor)
    is_from_jax = compat.has_started() and managed.deleter == _deleter_of_jax()
    if _rename(capsule, _name(kind, _USED)):
        raise KernelValueError("from_dlpack: the capsule cannot be taken")
    owner = _new(address, _name(kind, _TAKEN), _native().give_back)  # when nobody uses the memory any more
    owner = owner if place is None else place.taken(owner)
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    start = (tensor.data or 0) + tensor.byte_offset
    region = dense_region(start, dtype, shape, owner)
    if tensor.strides:
        strides = tuple(tensor.strides[axis] * dtype.itemsize for axis in range(tensor.ndim))
        region = Region(start, dtype, shape, strides, owner)
    is_read_only = is_from_jax or (kind is Versioned and bool(managed.flags & _READ_ONLY))
    return region, not is_read_only


def _require_host(device_type: int, device_id: int) -> None:
    if device_type != CPU:
        raise KernelTypeError(
            f"from_dlpack: Unsupported source device for DLPack: device_type={device_type}, device_id={device_id}",
            hint="copy the array to the host first",
        )


def _dtype_of(tensor: Tensor) -> np.dtype:
    name = f"{_DTYPES_BY_CODE.get(tensor.code, '')}{tensor.bits}"
    name = {"bool8": "bool"}.get(name, "bfloat16" if tensor.code == _CODES_BY_NAME["bfloat16"] else name)
    found = next((s.numpy for s in SCALARS if s.name == name and s.numpy.itemsize * 8 == tensor.bits), None)
    if found is None or tensor.lanes != 1:
        raise KernelTypeError(
            f"from_dlpack: expected elements of a type of the kernel language, got type code {tensor.code} of"
            f" {tensor.bits} bits, {tensor.lanes} lanes",
            hint="convert the array where it comes from",
        )
    return found


@functools.cache
def _deleter_of_jax() -> int | None:
    """Return the deleter of the capsules that JAX makes. It identifies them: before version 1, a capsule cannot say
    that it is read-only."""
    capsule = jnp.zeros(1, jnp.float32).__dlpack__()
    kind = next(kind for kind in _KINDS if _holds(capsule, _name(kind, _FRESH)))
    return kind.from_address(_open(capsule, _name(kind, _FRESH))).deleter
