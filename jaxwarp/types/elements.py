"""Types of elements, made of what Python and NumPy call them."""

from __future__ import annotations

import builtins
import typing
from typing import Any

import numpy as np

from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelTypeError
from jaxwarp.types.aggregates import Aggregate, Element, Mat, Quat, Transform, Vec
from jaxwarp.types.scalars import PYTHON_TYPES, SCALAR_BY_DTYPE, Scalar
from jaxwarp.types.structs import Struct, struct_of


def as_dtype(t: Any) -> Any:
    """The element type that an annotation means: `float` is float32, `int` int32, a class its struct; `Any` stays.

    Raises:
        KernelTypeError: `t` is not a scalar, vector, matrix or struct type.
    """
    if t is Any or isinstance(t, (Scalar, Aggregate, Struct)):
        return t
    found = struct_of(t)
    if found is not None:
        return found
    if isinstance(t, type) and t in PYTHON_TYPES:
        return PYTHON_TYPES[t]
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


@boundary
def quaternion(dtype: Any) -> Quat:
    """The type of quaternions of float type `dtype`."""
    return Quat(_float_component("quaternion", dtype))


@boundary
def transformation(dtype: Any) -> Transform:
    """The type of transforms, a translation and a rotation, of float type `dtype`."""
    return Transform(_float_component("transformation", dtype))


def _float_component(name: str, dtype: Any) -> Any:
    scalar = _component(dtype)
    if isinstance(scalar, Scalar) and not scalar.is_float:
        raise KernelTypeError(f"{name}: components must be floats, got {scalar}", hint="write float, or float64")
    return scalar


def _extent(name: str, value: Any) -> Any:
    if value is Any:
        return value
    if not isinstance(value, (int, np.integer)) or isinstance(value, builtins.bool) or value < 1:
        raise KernelTypeError(f"{name} must be a positive integer, got {value!r}", hint="write a number of 1 or more")
    return int(value)


def _component(dtype: Any) -> Any:
    scalar = dtype if isinstance(dtype, typing.TypeVar) else as_dtype(dtype)
    if isinstance(scalar, (Aggregate, Struct)):
        raise KernelTypeError(
            f"components must be scalars, got {scalar}", hint="write float, int or another scalar type"
        )
    return scalar


def opened(t: Any) -> Any:
    """An element type of an annotation, with `Any` for its type variable."""
    match t:
        case typing.TypeVar():
            return Any
        case Aggregate(dtype=typing.TypeVar()):
            return t.with_dtype(Any)
        case _:
            return t


def type_variable(t: Any) -> typing.TypeVar | None:
    """That of an element type: of `T`, and of a vector or matrix of `T`."""
    inner = t.dtype if isinstance(t, Aggregate) else t
    return inner if isinstance(inner, typing.TypeVar) else None


def element_scalar(t: Element | Struct) -> Scalar:
    """The type of an element's components.

    Raises:
        KernelTypeError: it is a struct, whose fields have a type each.
    """
    if isinstance(t, Struct):
        arrays = ", ".join(f"{f.name}=..." for f in t.fields)
        raise KernelTypeError(
            f"struct {t!r} is no type of numbers, and an array of it no array of them",
            hint=f"make a struct of arrays, {t!r}({arrays}): calls take it for an array[{t!r}]",
        )
    return t if isinstance(t, Scalar) else t.dtype


def element_shape(t: Element) -> tuple[int, ...]:
    """Component axes of an element type: () for scalars, (n,) for vectors, (r, c) for matrices."""
    if isinstance(t, Struct):
        element_scalar(t)
    return () if isinstance(t, Scalar) else t.shape
