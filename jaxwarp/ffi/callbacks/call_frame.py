"""XLA's FFI call frame, read from Python: what a callback is called with. Layouts: XLA's `c_api.h`, API 0.2 to 0.5."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxwarp.errors import KernelTypeError

EXECUTE = 3
INVALID_ARGUMENT, INTERNAL = 3, 13
COMMAND_BUFFER_COMPATIBLE = 1
_METADATA = 1

# Types of less than a byte are missing: a buffer of them may be packed.
_DTYPES: dict[int, Any] = {
    1: np.bool_, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 6: np.uint8, 7: np.uint16, 8: np.uint32,
    9: np.uint64, 10: np.float16, 11: np.float32, 12: np.float64, 15: np.complex64, 16: jnp.bfloat16,
    18: np.complex128, 19: jnp.float8_e5m2, 20: jnp.float8_e4m3fn, 23: jnp.float8_e4m3b11fnuz,
    24: jnp.float8_e5m2fnuz, 25: jnp.float8_e4m3fnuz, 28: jnp.float8_e4m3, 29: jnp.float8_e3m4,
    33: jnp.float8_e8m0fnu,
}  # fmt: skip

_BASE: list[Any] = [("struct_size", c_size_t), ("extension", c_void_p)]


class _Span(Structure):
    _fields_ = [("pointer", c_void_p), ("length", c_size_t)]


class _Scalar(Structure):
    _fields_ = [("dtype", c_int), ("value", c_void_p)]


class _Array(Structure):
    _fields_ = [("dtype", c_int), ("size", c_size_t), ("data", c_void_p)]


class BufferStruct(Structure):
    """A buffer: element type, address, extents."""

    _fields_ = [*_BASE, ("dtype", c_int), ("data", c_void_p), ("rank", c_int64), ("dims", POINTER(c_int64))]


class _Buffers(Structure):
    _fields_ = [*_BASE, ("size", c_int64), ("types", POINTER(c_int)), ("items", POINTER(POINTER(BufferStruct)))]


class _Attributes(Structure):
    _fields_ = [
        *_BASE,
        ("size", c_int64),
        ("types", POINTER(c_int)),
        ("names", POINTER(POINTER(_Span))),
        ("items", POINTER(c_void_p)),
    ]


class _Version(Structure):
    _fields_ = [*_BASE, ("major", c_int), ("minor", c_int)]


class _Metadata(Structure):
    _fields_ = [("struct_size", c_size_t), ("version", _Version), ("traits", c_uint32), ("state_type", c_int64)]


class _Extension(Structure):
    _fields_ = [("struct_size", c_size_t), ("type", c_int), ("next", c_void_p), ("metadata", POINTER(_Metadata))]


class _ErrorCreate(Structure):
    _fields_ = [*_BASE, ("message", c_char_p), ("code", c_int)]


class _ErrorDestroy(Structure):
    _fields_ = [*_BASE, ("error", c_void_p)]


class _StreamGet(Structure):
    _fields_ = [*_BASE, ("context", c_void_p), ("stream", c_void_p)]


class _DeviceGet(Structure):
    _fields_ = [*_BASE, ("context", c_void_p), ("ordinal", c_int32)]


class _Api(Structure):
    _fields_ = [
        *_BASE,
        ("version", _Version),
        ("internal", c_void_p),
        ("error_create", ctypes.CFUNCTYPE(c_void_p, POINTER(_ErrorCreate))),
        ("_unused0", c_void_p),
        ("error_destroy", ctypes.CFUNCTYPE(None, POINTER(_ErrorDestroy))),
        ("_unused1", c_void_p),
        ("stream_get", ctypes.CFUNCTYPE(c_void_p, POINTER(_StreamGet))),
        ("_unused2", c_void_p * 12),
        ("device_get", ctypes.CFUNCTYPE(c_void_p, POINTER(_DeviceGet))),
    ]


class CallFrame(Structure):
    """The data that XLA hands to a handler."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("extension", POINTER(_Extension)),
        ("api", POINTER(_Api)),
        ("context", c_void_p),
        ("stage", c_int),
        ("args", _Buffers),
        ("rets", _Buffers),
        ("attrs", _Attributes),
    ]


HANDLER = ctypes.CFUNCTYPE(c_void_p, POINTER(CallFrame))


def answer_metadata(frame: CallFrame, traits: int) -> bool:
    """Answers XLA's question, at registration, what the handler is; False: the frame does not ask it."""
    if not frame.extension or frame.extension.contents.type != _METADATA:
        return False
    metadata = frame.extension.contents.metadata.contents
    version = frame.api.contents.version
    metadata.version = _Version(ctypes.sizeof(_Version), None, version.major, version.minor)
    metadata.traits = traits
    metadata.state_type = 0
    return True


def make_error(frame: CallFrame, message: str, code: int = INTERNAL) -> int | None:
    """An error of XLA's, which XLA frees."""
    text = message.replace("\0", "?").encode(errors="replace")
    return frame.api.contents.error_create(_ErrorCreate(ctypes.sizeof(_ErrorCreate), None, text, code))


def stream(frame: CallFrame) -> int:
    """The CUDA stream of the call; 0 is the default stream."""
    query = _StreamGet(ctypes.sizeof(_StreamGet), None, frame.context, None)
    _require(frame, frame.api.contents.stream_get(query), "a stream")
    return query.stream or 0


def device_ordinal(frame: CallFrame) -> int:
    """Return the number, within this process, of the device that runs the call."""
    query = _DeviceGet(ctypes.sizeof(_DeviceGet), None, frame.context, 0)
    _require(frame, frame.api.contents.device_get(query), "a device ordinal")
    return query.ordinal


def _require(frame: CallFrame, error: int | None, what: str) -> None:
    if error:
        frame.api.contents.error_destroy(_ErrorDestroy(ctypes.sizeof(_ErrorDestroy), None, error))
        raise RuntimeError(f"XLA did not provide {what}")


def buffers(items: _Buffers, kind: str) -> Iterator[tuple[np.dtype, tuple[int, ...], int]]:
    """Type, shape and address of each operand (`frame.args`) or result (`frame.rets`).

    Raises:
        KernelTypeError: a buffer has a type that a callback cannot have.
    """
    for i in range(items.size):
        buffer = items.items[i].contents
        shape = tuple(buffer.dims[axis] for axis in range(buffer.rank))
        yield _dtype(buffer.dtype, f"{kind} {i}"), shape, buffer.data or 0


def addresses(items: _Buffers) -> list[int]:
    """The address of each operand or result."""
    return [items.items[i].contents.data or 0 for i in range(items.size)]


def attributes(attrs: _Attributes) -> dict[str, Any]:
    """The attributes as Python values; dictionaries are nested."""
    values = {}
    for i in range(attrs.size):
        span = attrs.names[i].contents
        name = ctypes.string_at(span.pointer, span.length).decode()
        values[name] = _attribute(attrs.types[i], attrs.items[i] or 0, name)
    return values


def _attribute(kind: int, address: int, name: str) -> Any:
    match kind:
        case 1:
            array = _Array.from_address(address)
            dtype = _dtype(array.dtype, f"attribute '{name}'")
            return np.frombuffer(ctypes.string_at(array.data or 0, array.size * dtype.itemsize), dtype).copy()
        case 2:
            return attributes(_Attributes.from_address(address))
        case 3:
            scalar = _Scalar.from_address(address)
            dtype = _dtype(scalar.dtype, f"attribute '{name}'")
            return np.frombuffer(ctypes.string_at(scalar.value or 0, dtype.itemsize), dtype)[0].item()
        case 4:
            span = _Span.from_address(address)
            data = ctypes.string_at(span.pointer, span.length) if span.length else b""
            try:
                return data.decode()
            except UnicodeDecodeError:  # XLA does not tell text from bytes
                return data
        case _:
            raise KernelTypeError(f"attribute '{name}': XLA's attributes of kind {kind} cannot be read")


def _dtype(code: int, where: str) -> np.dtype:
    if code not in _DTYPES:
        raise KernelTypeError(f"{where}: a callback cannot have XLA's element type number {code}")
    return np.dtype(_DTYPES[code])
