"""The types of the kernel language: scalars, vectors, matrices, arrays. Compared by structure, immutable."""

from __future__ import annotations

import builtins
import typing
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelTypeError


@dataclass(frozen=True)
class Scalar:
    """A scalar type. Calling it makes a NumPy scalar on the host; inside a kernel it is a cast."""

    name: str
    kind: str  # "bool", "int", "uint", "float"
    bits: int
    short: str
    numpy: np.dtype = field(compare=False)

    @boundary
    def __call__(self, value: Any = 0) -> Any:
        return self.numpy.type(value)

    def __repr__(self) -> str:
        return self.name

    @property
    def __name__(self) -> str:
        """As types of Python have one."""
        return self.name

    @property
    def is_float(self) -> builtins.bool:
        return self.kind == "float"

    @property
    def is_int(self) -> builtins.bool:
        return self.kind in ("int", "uint")

    @property
    def is_signed(self) -> builtins.bool:
        return self.kind in ("int", "float")

    @property
    def is_half(self) -> builtins.bool:
        """float16 and bfloat16: stored in 16 bits, computed in float32 and rounded after each operation."""
        return self.is_float and self.bits == 16

    @property
    def bytes(self) -> builtins.int:
        return self.numpy.itemsize


def _scalar(name: str, kind: str, bits: int, short: str, numpy: Any = None) -> Scalar:
    return Scalar(name, kind, bits, short, np.dtype(numpy or name))


bool_ = _scalar("bool", "bool", 1, "bool")
int8, int16, int32, int64 = (_scalar(f"int{b}", "int", b, f"i{b}") for b in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (_scalar(f"uint{b}", "uint", b, f"u{b}") for b in (8, 16, 32, 64))
float16 = _scalar("float16", "float", 16, "f16")
bfloat16 = _scalar("bfloat16", "float", 16, "bf16", ml_dtypes.bfloat16)
float32 = _scalar("float32", "float", 32, "f32")
float64 = _scalar("float64", "float", 64, "f64")

SCALARS = (bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64)
SCALAR_BY_DTYPE = {s.numpy: s for s in SCALARS}
# Warp's classes of types, for annotations. Unlike other type variables, one may mean several types in a signature.
Int: Any = typing.TypeVar("Int", *(s for s in SCALARS if s.is_int))  # type: ignore[misc]
Float: Any = typing.TypeVar("Float", *(s for s in SCALARS if s.is_float))  # type: ignore[misc]
Number: Any = typing.TypeVar("Scalar", *(s for s in SCALARS if s is not bool_))  # type: ignore[misc]
CLASSES = (Int, Float, Number)
_PYTHON_TYPES = {builtins.bool: bool_, builtins.int: int32, builtins.float: float32}


@dataclass(frozen=True)
class Vec:
    """A vector of `length` components. Calling it makes a NumPy array on the host."""

    length: int
    dtype: Any  # Scalar, or typing.Any in a generic signature

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.length,)

    @property
    def size(self) -> int:
        return self.length

    @boundary
    def __call__(self, *values: Any) -> np.ndarray:
        return _host_value(self, values)

    def __repr__(self) -> str:
        return f"vec{_name(self.length)}[{_name(self.dtype)}]"


@dataclass(frozen=True)
class Mat:
    """A row-major matrix. Calling it makes a NumPy array on the host."""

    rows: int
    columns: int
    dtype: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.rows, self.columns)

    @property
    def size(self) -> int:
        return self.rows * self.columns

    @boundary
    def __call__(self, *values: Any) -> np.ndarray:
        return _host_value(self, values)

    def __repr__(self) -> str:
        return f"mat{_name(self.rows)}x{_name(self.columns)}[{_name(self.dtype)}]"


Element = Scalar | Vec | Mat


@dataclass(frozen=True)
class Array:
    """The annotation of an array parameter: element type and rank. `dtype` may be `typing.Any`."""

    dtype: Any
    ndim: int = 1

    def __repr__(self) -> str:
        return f"array[{_name(self.dtype)}, {self.ndim}]"


def _name(t: Any) -> str:
    return "Any" if t is Any else t.__name__ if isinstance(t, typing.TypeVar) else repr(t)


def _host_value(t: Vec | Mat, values: tuple[Any, ...]) -> np.ndarray:
    if not isinstance(t.dtype, Scalar):
        raise KernelTypeError(
            f"{t} is generic and has no values; use a type with a dtype, like vec3 or mat33",
            hint="write vec3(...), or types.vector(length=3, dtype=float)(...)",
        )
    if len(values) == 0:
        return np.zeros(t.shape, t.dtype.numpy)
    if len(values) == 1:
        flat = np.asarray(values[0], t.dtype.numpy)
        return np.full(t.shape, flat) if flat.ndim == 0 else flat.reshape(t.shape).copy()
    flat = np.asarray(values, t.dtype.numpy)
    if flat.size != t.size:
        raise KernelTypeError(
            f"{t}: expected 0, 1 or {t.size} components, got {flat.size}",
            hint=f"pass one value for all components, or {t.size} values",
        )
    return flat.reshape(t.shape)


def as_dtype(t: Any) -> Any:
    """The element type that an annotation means: `float` is float32, `int` int32; `Any` stays.

    Raises:
        KernelTypeError: `t` is not a scalar, vector or matrix type.
    """
    if t is Any or isinstance(t, (Scalar, Vec, Mat)):
        return t
    if isinstance(t, type) and t in _PYTHON_TYPES:
        return _PYTHON_TYPES[t]
    if isinstance(t, typing.TypeVar):
        return Any
    try:
        return SCALAR_BY_DTYPE[np.dtype(t)]
    except (TypeError, ValueError, KeyError):
        raise KernelTypeError(
            f"{t!r} is not a type of the kernel language",
            hint="write float, int, bool, vec3, float64 or another type of jaxwarp",
        ) from None


@boundary
def vector(length: int, dtype: Any) -> Vec:
    """The type of vectors of `length` components of scalar type `dtype`."""
    return Vec(_extent("length", length), _component(dtype))


@boundary
def matrix(shape: tuple[int, int], dtype: Any) -> Mat:
    """The type of matrices of `shape` (rows, columns) of scalar type `dtype`."""
    if not isinstance(shape, (tuple, list)) or len(shape) != 2:
        raise KernelTypeError(
            f"shape must be (rows, columns), got {shape!r}", hint="write types.matrix(shape=(3, 3), dtype=float)"
        )
    rows, columns = shape
    return Mat(_extent("rows", rows), _extent("columns", columns), _component(dtype))


def _extent(name: str, value: Any) -> Any:
    if value is Any:
        return value
    if not isinstance(value, (int, np.integer)) or isinstance(value, builtins.bool) or value < 1:
        raise KernelTypeError(f"{name} must be a positive integer, got {value!r}", hint="write a number of 1 or more")
    return int(value)


def _component(dtype: Any) -> Any:
    scalar = dtype if isinstance(dtype, typing.TypeVar) else as_dtype(dtype)
    if isinstance(scalar, (Vec, Mat)):
        raise KernelTypeError(
            f"components must be scalars, got {scalar}", hint="write float, int or another scalar type"
        )
    return scalar


def opened(t: Any) -> Any:
    """An element type of an annotation, with `Any` for its type variable."""
    match t:
        case typing.TypeVar():
            return Any
        case Vec(dtype=typing.TypeVar()):
            return Vec(t.length, Any)
        case Mat(dtype=typing.TypeVar()):
            return Mat(t.rows, t.columns, Any)
        case _:
            return t


def type_variable(t: Any) -> typing.TypeVar | None:
    """That of an element type: of `T`, and of a vector or matrix of `T`."""
    inner = t.dtype if isinstance(t, (Vec, Mat)) else t
    return inner if isinstance(inner, typing.TypeVar) else None


def element_scalar(t: Element) -> Scalar:
    return t if isinstance(t, Scalar) else t.dtype


def element_shape(t: Element) -> tuple[int, ...]:
    """Component axes of an element type: () for scalars, (n,) for vectors, (r, c) for matrices."""
    return () if isinstance(t, Scalar) else t.shape
