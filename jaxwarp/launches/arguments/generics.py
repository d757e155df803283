"""Element types that annotations leave open, taken from what is given."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxwarp.errors import KernelTypeError
from jaxwarp.launches.arguments.argument import CallParameter, Given
from jaxwarp.launches.arguments.converters import other_kind
from jaxwarp.types import (
    SCALAR_BY_DTYPE,
    Aggregate,
    Element,
    Mat,
    Scalar,
    Vec,
    bool_,
    element_scalar,
    element_shape,
    float32,
    int32,
)


def resolve_element(argument: CallParameter, given: Given) -> Element:
    """The element type of an argument: what the annotation says, generic parts taken from what is given."""
    element, ndim = argument.element, argument.ndim
    if isinstance(element, Scalar):
        return element
    components: tuple[Any, ...] = () if given.shape is None else given.shape[ndim:]
    match element:
        case Vec(length=length, dtype=dtype):
            fits = len(components) == 1 and (length is Any or length == components[0])
            return Vec(components[0] if fits else length, _resolve_scalar(argument, dtype, given))
        case Mat(rows=rows, columns=columns, dtype=dtype):
            fits = len(components) == 2
            rows = components[0] if rows is Any and fits else rows
            columns = components[1] if columns is Any and fits else columns
            return Mat(rows, columns, _resolve_scalar(argument, dtype, given))
        case Aggregate(dtype=dtype):
            return element.with_dtype(_resolve_scalar(argument, dtype, given))
        case _:
            scalar = _resolve_scalar(argument, element, given)
            if given.element is not None and element_shape(given.element) == components:
                return given.element
            if argument.is_array or not components:
                return scalar
            return Vec(components[0], scalar) if len(components) == 1 else Mat(components[0], components[1], scalar)


def _resolve_scalar(argument: CallParameter, dtype: Any, given: Given) -> Scalar:
    if isinstance(dtype, Scalar):
        return dtype
    if given.is_host and given.kind in ("bool", "int", "float", "list", "tuple") and given.dtype is not None:
        return {"b": bool_, "i": int32}.get(given.dtype.kind, float32)
    scalar = SCALAR_BY_DTYPE.get(given.dtype) if isinstance(given.dtype, np.dtype) else None
    if scalar is None:
        raise KernelTypeError(
            f"{argument.where}: expected an array or a scalar of a type of the kernel language, got {given}",
            hint=other_kind(argument, float32, given),
        )
    return scalar


def is_generic(element: object) -> bool:
    """Return whether an annotated element type leaves something open."""
    match element:
        case Scalar():
            return False
        case Aggregate():
            return Any in element.parameters
        case _:
            return True


def fill_generic(element: Any, like: Element) -> Element:
    """A generic element type with what is open taken from `like`."""
    scalar = element_scalar(like)
    match element:
        case Vec(length=length, dtype=dtype):
            length = like.length if length is Any and isinstance(like, Vec) else length
            return Vec(length, scalar if dtype is Any else dtype)
        case Mat(rows=rows, columns=columns, dtype=dtype):
            rows = like.rows if rows is Any and isinstance(like, Mat) else rows
            columns = like.columns if columns is Any and isinstance(like, Mat) else columns
            return Mat(rows, columns, scalar if dtype is Any else dtype)
        case Aggregate(dtype=dtype):
            return element.with_dtype(scalar if dtype is Any else dtype)
        case _:
            return like
