"""Types of elements, made of what Python and NumPy call them."""

from __future__ import annotations

import builtins
import typing
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.types.aggregates import Aggregate, Element, Mat, Quat, Transform, Vec
from jaxwarp.types.ids import NAMED
from jaxwarp.types.scalars import PYTHON_TYPES, SCALAR_BY_DTYPE, Scalar, uint64
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
        raise KernelTypeError(f"{t!r} is not a type of the kernel language", hint=_hint(t)) from None


def as_element(t: Any) -> Any:
    """The type of an array's elements that an annotation means: of textures, meshes and the like, their ids.

    Raises:
        KernelTypeError: `t` is not a scalar, vector, matrix or struct type.
    """
    found = as_dtype(t)
    return uint64 if isinstance(found, Struct) and hasattr(found.kind, NAMED) else found


OPEN = "__jaxwarp_open__"
"""The attribute of a class that stands for many types, and is none before something is filled in: how to write that."""


def _hint(t: Any) -> str:
    if hasattr(t, OPEN):
        return getattr(t, OPEN)
    if getattr(t, "__name__", "").rpartition(".")[2] in ("Array", "ndarray", "Tensor"):
        return "write array[float], or array(dtype=float, ndim=2) for two axes"
    if any(t is maker for maker in (vector, matrix, quaternion, transformation)):
        extents = {vector: "length=3, ", matrix: "shape=(2, 3), "}.get(t, "")
        return f"it makes a type: {t.__name__}({extents}dtype=float)"
    if isinstance(t, type) and getattr(t, "__annotations__", None):
        return f"decorate the class with @jaxwarp.struct: {t.__name__}"
    return "write float, int, bool, vec3, float64 or another type of jaxwarp"


@boundary
def vector(length: int, dtype: Any) -> Vec:
    """The type of vectors of `length` components of scalar type `dtype`. Those of none can only be compared."""
    return Vec(_extent("length", length, 0), _component(dtype))


@boundary
def matrix(shape: tuple[int, int], dtype: Any) -> Mat:
    """The type of matrices of `shape` (rows, columns) of scalar type `dtype`."""
    if not isinstance(shape, (tuple, list)) or len(shape) != 2:
        count = len(shape) if isinstance(shape, (tuple, list)) else 1
        raise KernelValueError(
            f"Matrix shape must have exactly two dimensions, got {count} dimension{'' if count == 1 else 's'} in shape"
            f" {shape!r}",
            hint="write types.matrix(shape=(3, 3), dtype=float)",
        )
    rows, columns = shape
    return Mat(_extent("rows", rows, 0), _extent("columns", columns, 0), _component(dtype))


@boundary
def quaternion(dtype: Any) -> Quat:
    """The type of quaternions of float type `dtype`."""
    return Quat(_float_component("quaternion", dtype))


@boundary
def transformation(dtype: Any) -> Transform:
    """The type of transforms, a translation and a rotation, of float type `dtype`."""
    return Transform(_float_component("transformation", dtype))


class Subscripted:
    """`types.Vector[float, 3]`: types as annotations that type checkers take, with `Literal[3]` for 3."""

    def __init__(self, name: str, sizes: tuple[str, ...], make: Callable[..., Any]):
        self._name = name
        self._sizes = sizes
        self._make = make

    @boundary
    def __getitem__(self, parameters: Any) -> Any:
        given = parameters if isinstance(parameters, tuple) else (parameters,)
        expected = ("dtype", *self._sizes)
        if len(given) != len(expected):
            raise KernelTypeError(
                f"{self._name} requires {len(expected)} parameters ({', '.join(expected)}), got {len(given)}",
                hint=f"write {self._name}[{', '.join(['float', *('3' for _ in self._sizes)])}]",
            )
        sizes = [_extent(name, unwrapped(size)) for name, size in zip(self._sizes, given[1:], strict=True)]
        return self._make(given[0], *sizes)

    def __repr__(self) -> str:
        return self._name


def unwrapped(size: Any) -> Any:
    """Return the value in `Literal[3]`; anything else stays as it is."""
    if typing.get_origin(size) is not typing.Literal:
        return size
    values = typing.get_args(size)
    if len(values) != 1:
        raise KernelTypeError(f"Expected a single Literal value, got {size!r}", hint="write Literal[3]")
    return values[0]


Vector = Subscripted("Vector", ("length",), lambda dtype, length: Vec(length, _component(dtype)))
Matrix = Subscripted("Matrix", ("rows", "columns"), lambda dtype, rows, columns: Mat(rows, columns, _component(dtype)))
Quaternion = Subscripted("Quaternion", (), quaternion)
Transformation = Subscripted("Transformation", (), transformation)


def _float_component(name: str, dtype: object) -> Any:
    scalar = _component(dtype)
    if isinstance(scalar, Scalar) and not scalar.is_float:
        raise KernelTypeError(f"{name}: components must be floats, got {scalar}", hint="write float, or float64")
    return scalar


def _extent(name: str, value: Any, least: int = 1) -> Any:
    if value is Any:
        return value
    if not isinstance(value, (int, np.integer)) or isinstance(value, builtins.bool) or value < least:
        raise KernelTypeError(f"{name} must be a positive integer, got {value!r}", hint="write a number of 1 or more")
    return int(value)


def _component(dtype: object) -> Any:
    scalar = dtype if isinstance(dtype, typing.TypeVar) else as_dtype(dtype)
    if isinstance(scalar, (Aggregate, Struct)):
        raise KernelTypeError(
            f"components must be scalars, got {scalar}", hint="write float, int or another scalar type"
        )
    return scalar


def opened(t: object) -> Any:
    """An element type of an annotation, with `Any` for its type variable."""
    match t:
        case typing.TypeVar():
            return Any
        case Aggregate(dtype=typing.TypeVar()):
            return t.with_dtype(Any)
        case _:
            return t


def type_variable(t: object) -> typing.TypeVar | None:
    """Return the type variable of an element type: of `T`, and of a vector or matrix of `T`."""
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
    if isinstance(t, Scalar):
        return ()
    if isinstance(t, Struct):
        element_scalar(t)
    return t.shape
