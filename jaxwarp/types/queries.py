"""Queries that programs for Warp make about types: `types.type_size(vec3)`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelTypeError
from jaxwarp.quaternions import HostValue
from jaxwarp.types.aggregates import Aggregate, Mat, Quat, Transform, Vec
from jaxwarp.types.arrays import Array
from jaxwarp.types.elements import as_dtype, element_scalar
from jaxwarp.types.scalars import PYTHON_TYPES, SCALAR_BY_DTYPE, Scalar, bool_
from jaxwarp.types.structs import Struct, struct_of
from jaxwarp.types.tiles import TileType


@boundary
def type_size(t: Any) -> int:
    """Return how many components a value of an element type has: 1 for scalars.

    Raises:
        KernelTypeError: `t` is no element type, or a generic one.
    """
    shape = () if isinstance(found := as_dtype(t), Scalar) else getattr(found, "shape", None)
    if shape is None or not all(isinstance(n, int) for n in shape):
        raise KernelTypeError(f"type_size: expected a type of known components, got {t!r}", hint="write vec3 or float")
    return math.prod(shape)


@boundary
def type_size_in_bytes(t: Any) -> int:
    """Return how many bytes an element of a type takes in an array.

    Raises:
        KernelTypeError: `t` is no element type, or a generic one.
    """
    size, scalar = type_size(t), element_scalar(as_dtype(t))
    if not isinstance(scalar, Scalar):
        raise KernelTypeError(f"type_size_in_bytes: expected a type that is not generic, got {t!r}", hint="write vec3h")
    return size * scalar.bytes


def _scalar(t: Any) -> Scalar | None:
    """The scalar type that a type is; `float` and `int` are ones."""
    found = PYTHON_TYPES.get(t) if isinstance(t, type) else t
    return found if isinstance(found, Scalar) else None


def type_is_int(t: Any) -> bool:
    """Return whether a type is an integer type."""
    scalar = _scalar(t)
    return scalar is not None and scalar.is_int


def type_is_float(t: Any) -> bool:
    """Return whether a type is a float type."""
    scalar = _scalar(t)
    return scalar is not None and scalar.is_float


def type_is_scalar(t: Any) -> bool:
    """Return whether a type is a number type. Bool is not."""
    return type_is_int(t) or type_is_float(t)


def type_is_vector(t: Any) -> bool:
    """Return whether a type is a vector type."""
    return isinstance(t, Vec)


def type_is_matrix(t: Any) -> bool:
    """Return whether a type is a matrix type."""
    return isinstance(t, Mat)


def type_is_quaternion(t: Any) -> bool:
    """Return whether a type is a quaternion type."""
    return isinstance(t, Quat)


def type_is_transformation(t: Any) -> bool:
    """Return whether a type is a transform type."""
    return isinstance(t, Transform)


def type_is_composite(t: Any) -> bool:
    """Return whether a type is a vector, matrix, quaternion or transform type."""
    return isinstance(t, Aggregate)


def type_is_value(t: Any) -> bool:
    """Return whether a type is a scalar or a composite type."""
    return _scalar(t) is not None or type_is_composite(t)


def type_is_struct(t: Any) -> bool:
    """Return whether a type is a struct."""
    return isinstance(t, Struct) or struct_of(t) is not None


def type_is_array(t: Any) -> bool:
    """Return whether a type is an array annotation, or makes ones: `array`, `array2d`, `indexedarray`."""
    return isinstance(t, Array) or getattr(type(t), "is_type_of_arrays", False)


def type_is_tile(t: Any) -> bool:
    """Return whether a type is a tile annotation."""
    return isinstance(t, TileType)


def value_type(x: Any) -> Any:
    """The type of a value outside of kernels; None if it has none."""
    if isinstance(x, HostValue):
        return x.type
    if isinstance(x, np.generic):
        return SCALAR_BY_DTYPE.get(x.dtype)
    return PYTHON_TYPES.get(type(x)) or struct_of(type(x))


def is_int(x: Any) -> bool:
    """Return whether a value is an integer of Python or NumPy."""
    return type_is_int(value_type(x))


def is_float(x: Any) -> bool:
    """Return whether a value is a float of Python or NumPy."""
    return type_is_float(value_type(x))


def is_scalar(x: Any) -> bool:
    """Return whether a value is a number. A bool is not."""
    return type_is_scalar(value_type(x))


def is_vector(x: Any) -> bool:
    """Return whether a value is a vector, as `vec3(...)` makes it."""
    return type_is_vector(value_type(x))


def is_matrix(x: Any) -> bool:
    """Return whether a value is a matrix, as `mat33(...)` makes it."""
    return type_is_matrix(value_type(x))


def is_quaternion(x: Any) -> bool:
    """Return whether a value is a quaternion."""
    return type_is_quaternion(value_type(x))


def is_transformation(x: Any) -> bool:
    """Return whether a value is a transform."""
    return type_is_transformation(value_type(x))


def is_composite(x: Any) -> bool:
    """Return whether a value is a vector, matrix, quaternion or transform."""
    return type_is_composite(value_type(x))


def is_value(x: Any) -> bool:
    """Return whether a value is a number, a bool or a composite value."""
    return type_is_value(value_type(x))


def is_struct(x: Any) -> bool:
    """Return whether a value is an instance of a struct."""
    return isinstance(value_type(x), Struct)


def is_array(x: Any) -> bool:
    """Return whether a value is an array whose elements have a type of the language, or an array annotation."""
    is_annotation = isinstance(x, Array)
    return is_annotation or (hasattr(x, "ndim") and isinstance(getattr(x, "dtype", None), Scalar | Aggregate | Struct))


def is_tile(x: Any) -> bool:
    """Return whether a value is a tile annotation. Outside of kernels there are no other tiles."""
    return isinstance(x, TileType)


def types_equal(a: Any, b: Any) -> bool:
    """Return whether two annotations mean the same type: `float` is float32."""
    return _meant(a) == _meant(b)


def _meant(t: Any) -> Any:
    return as_dtype(t) if isinstance(t, type) and (t in PYTHON_TYPES or struct_of(t) is not None) else t


def type_repr(t: Any) -> str:
    """A type as Warp writes it: `vec3f`, `matrix(shape=(3, 2), dtype=float32)`, `array(ndim=2, dtype=float32)`."""
    if t is Any:
        return "Any"
    if isinstance(t, Aggregate):
        return t.short_name
    if is_array(t):
        size = f"ndim={t.ndim}" if isinstance(t, Array) else f"shape={t.shape}"
        return f"array({size}, dtype={type_repr(t.dtype)})"
    if isinstance(t, Scalar):
        return "bool" if t is bool_ else t.name
    found = t.kind if isinstance(t, Struct) else t
    if isinstance(found, type):
        return found.__name__ if found.__module__ == "builtins" else f"{found.__module__}.{found.__qualname__}"
    return repr(found)
