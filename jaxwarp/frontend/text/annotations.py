"""Annotations of kernels and functions: `float`, `vec3`, `array[float]`, `array(dtype=vec3, ndim=2)`, `Any`.

A resolved annotation, a *pattern*, is a Scalar, Aggregate, Struct or Array (whose parts may be `Any` or a TypeVar),
`Any`, a TypeVar, `Callable`, or a tuple of patterns. A concrete type matches a pattern if they agree where the
pattern is not `Any`; a TypeVar means the same type everywhere in a signature.
"""

from __future__ import annotations

import collections.abc
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from jaxwarp.boundary import boundaries, boundary
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.frontend.text.host_values import Missing
from jaxwarp.frontend.text.jaxtyping import is_group, is_of_jaxtyping, pattern_of
from jaxwarp.types import Aggregate, Array, Indexed, Scalar, Struct, TileType, as_dtype, as_element, unwrapped


@boundaries
class ArrayAnnotation:
    """`array`, `array1d` to `array4d`: annotations of array arguments, and outside of kernels arrays of data.

    `array[float]`, `array[float, 2]`, `array2d[vec3]`, `array(dtype=float, ndim=3)`, `array(dtype=Any)` are
    annotations; `array([1.0, 2.0], dtype=float)` and `array(shape=3, dtype=float)` are arrays.
    """

    make: ClassVar[Callable[..., Any]]
    """Makes an array of data: `(name, ndim, data, dtype, shape, options)`. The launches' side sets it."""
    kind: ClassVar[type]
    """What it makes."""
    is_type_of_arrays: ClassVar[bool] = True
    """For `types.type_is_array`."""

    def __init__(self, name: str, ndim: int | None):
        self._name = name
        self._ndim = ndim

    def __getitem__(self, dtype: Any) -> Array:
        if not isinstance(dtype, tuple):
            return Array(_dtype(dtype), self._ndim or 1)
        if len(dtype) != 2 or self._ndim is not None:
            raise KernelTypeError(
                f"{self._name} takes {2 if self._ndim is None else 1} parameters at most, got {len(dtype)}",
                hint="write array[float, 2]: the type of elements, and how many axes there are",
            )
        return self(dtype=dtype[0], ndim=unwrapped(dtype[1]))

    def __call__(
        self, data: Any = None, dtype: Any = Missing, shape: Any = None, *, ndim: Any = None, **options: Any
    ) -> Any:
        if data is not None or shape is not None or options:
            element = Any if dtype is Missing else dtype
            return ArrayAnnotation.make(self._name, self._ndim if ndim is None else ndim, data, element, shape, options)
        if dtype is Missing:
            raise KernelTypeError(f"{self._name}(...): expected data, or dtype=", hint=f"{self._name}(dtype=float)")
        rank = ndim if ndim is not None else (self._ndim or 1)
        if not isinstance(rank, int) or isinstance(rank, bool) or rank < 1:
            raise KernelValueError(
                f"{self._name}(...): ndim must be a positive integer, got {ndim!r}",
                hint=f"write {self._name}(dtype=float, ndim=2)" if ndim is not Any else "write Any for the argument",
            )
        if self._ndim is not None and rank != self._ndim:
            raise KernelValueError(
                f"{self._name}(...): ndim is {self._ndim}, got {ndim!r}",
                hint=f"leave ndim out, or write array(dtype=..., ndim={ndim!r})",
            )
        return Array(_dtype(dtype), rank)

    def __instancecheck__(self, instance: Any) -> bool:
        """Accept arrays and, as in Warp, annotations of arrays, if the number of axes fits."""
        return isinstance(instance, (ArrayAnnotation.kind, Array)) and self._ndim in (None, instance.ndim)

    def __or__(self, other: Any) -> Any:
        """`array | None`, in functions of Python."""
        return typing.Union[Any, other]  # noqa: UP007 - it is made here

    __ror__ = __or__

    def __repr__(self) -> str:
        return self._name


@boundaries
class FabricAnnotation(ArrayAnnotation):
    """`fabricarray`, `indexedfabricarray`: annotations of arrays that are in Omniverse's Fabric.

    A kernel that is annotated with them takes other arrays: copies of the data. Arrays of Fabric are never made.
    """

    def __call__(
        self, data: Any = None, dtype: Any = Missing, shape: Any = None, *, ndim: Any = None, **options: Any
    ) -> Any:
        if data is not None or shape is not None or options:
            raise KernelTypeError(
                f"{self._name}: arrays of Fabric cannot be made here",
                hint="copy Fabric's data to an array, array(data, dtype=...): the kernel takes it",
            )
        return super().__call__(dtype=dtype, ndim=ndim)

    def __instancecheck__(self, instance: Any) -> bool:
        """Accept nothing: there are no arrays of Fabric."""
        return False


array = ArrayAnnotation("array", None)
fabricarray, indexedfabricarray = FabricAnnotation("fabricarray", None), FabricAnnotation("indexedfabricarray", None)
array1d, array2d, array3d, array4d = (ArrayAnnotation(f"array{n}d", n) for n in (1, 2, 3, 4))


@boundary
def fixedarray(dtype: Any = Any, shape: Any = None) -> Array:
    """The annotation of an array that a thread makes for itself, `zeros(shape=(2, 3), dtype=int)`: that of any array of
    as many axes, since functions are compiled for the array that they are given.

    Args:
        dtype: the element type.
        shape: an integer, or one for each axis.
    """
    return Array(_dtype(dtype), len(shape) if isinstance(shape, (tuple, list)) else 1)


def tile_type(dtype: Any, shape: Any) -> TileType:
    """The annotation of a tile argument of a `@func`.

    Raises:
        KernelTypeError: an extent is no positive integer.
    """
    if shape is Any:
        return TileType(_dtype(dtype), Any)
    extents = tuple(unwrapped(n) for n in (shape if isinstance(shape, (tuple, list)) else (shape,)))
    for n in extents:
        if n is not Any and (not isinstance(n, int) or isinstance(n, bool) or n < 1):
            raise KernelTypeError(
                f"tile: an extent must be a positive integer, got {n!r}", hint="write tile[float, 16, 16]"
            )
    return TileType(_dtype(dtype), extents)


@dataclass(frozen=True)
class Reference:
    """`ref[float]`: an argument of a `@func` that is a variable of its caller's. `type` is an annotation."""

    type: Any


@boundaries
class ReferenceAnnotation:
    """`ref`: what a `@func` assigns to an argument annotated `ref[float]` is what the variable passed to it then holds.

    Variables, their components, and elements of arrays can be passed.
    """

    def __getitem__(self, dtype: Any) -> Reference:
        return Reference(dtype)

    def __repr__(self) -> str:
        return "ref"


ref = ReferenceAnnotation()


def _dtype(annotation: object) -> Any:
    """An element type; unlike `as_dtype` it keeps a TypeVar, whose name matters to a signature."""
    return annotation if isinstance(annotation, TypeVar) else as_element(annotation)


def resolve(annotation: object) -> Any:
    """The pattern of an annotation's value.

    Raises:
        KernelTypeError: it is no type of the language.
    """
    if isinstance(annotation, ArrayAnnotation):
        raise KernelTypeError(f"{annotation!r} needs an element type", hint=f"{annotation!r}[float]")
    if isinstance(annotation, (Array, TileType, TypeVar)):
        return annotation
    if is_of_jaxtyping(annotation):
        return pattern_of(annotation)
    if isinstance(annotation, Reference | ReferenceAnnotation):
        raise KernelTypeError("ref[...] is for arguments of a @func", hint="name the type itself")
    if annotation is typing.Callable or typing.get_origin(annotation) is collections.abc.Callable:
        return collections.abc.Callable
    if annotation is collections.abc.Callable:
        return annotation
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        parts = [a for a in typing.get_args(annotation) if a is not type(None)]
        if len(parts) == 1:
            return resolve(parts[0])
        listed = " or ".join(pattern_text(resolve(p)) for p in parts)
        raise KernelTypeError(
            f"Union type annotations are only supported at Python scope, got {listed}",
            hint="write Any, or an overload for each: functions of one name are chosen by the types of arguments",
        )
    if getattr(annotation, "pattern", None) is collections.abc.Callable:  # `Function`
        return collections.abc.Callable
    if typing.get_origin(annotation) is tuple:
        return tuple(a if a is Ellipsis else resolve(a) for a in typing.get_args(annotation))
    if isinstance(annotation, tuple):
        return tuple(resolve(a) for a in annotation)
    return as_dtype(annotation)


def elements_of(pattern: tuple[Any, ...], count: int) -> tuple[Any, ...] | None:
    """The patterns of a tuple's elements, where it has so many; `tuple[int, ...]` is one for all. None: it does not."""
    if pattern[1:] == (Ellipsis,):
        return pattern[:1] * count
    return pattern if len(pattern) == count else None


def is_generic(pattern: object) -> bool:
    match pattern:
        case Scalar() | Struct():
            return False
        case Aggregate():
            return any(not isinstance(p, int) and is_generic(p) for p in pattern.parameters)
        case Array():
            return is_generic(pattern.dtype)
        case TileType():
            return is_generic(pattern.dtype) or pattern.shape is Any or Any in pattern.shape
        case tuple():
            return any(is_generic(p) for p in pattern)
        case _:
            return True


def matches(pattern: Any, concrete: Any, bound: dict[Any, Any]) -> bool:
    """Return whether a concrete type fits; `bound` collects what TypeVars stand for."""
    if pattern is Any or pattern is concrete:
        return True
    match pattern:
        case TypeVar():
            if pattern in bound:
                return bound[pattern] == concrete
            if pattern.__constraints__ and concrete not in [resolve(c) for c in pattern.__constraints__]:
                return False
            if not is_group(pattern):
                bound[pattern] = concrete
            return True
        case Aggregate():
            return type(concrete) is type(pattern) and all(
                matches(p, c, bound) for p, c in zip(pattern.parameters, concrete.parameters, strict=True)
            )
        case Indexed():
            return matches(pattern.array, concrete, bound)
        case Array():
            same_rank = isinstance(concrete, Array) and pattern.ndim == concrete.ndim
            return same_rank and matches(pattern.dtype, concrete.dtype, bound)
        case TileType():
            if not isinstance(concrete, TileType) or not matches(pattern.dtype, concrete.dtype, bound):
                return False
            if pattern.shape is Any:
                return True
            pairs = zip(pattern.shape, concrete.shape, strict=False)
            return len(pattern.shape) == len(concrete.shape) and all(n is Any or n == m for n, m in pairs)
        case Struct():
            # With meshes in place of its numbers it is the same struct.
            return isinstance(concrete, Struct) and pattern.kind is concrete.kind
        case _:
            return pattern == concrete


def pattern_text(pattern: object) -> str:
    """A pattern in a message."""
    if pattern is Any:
        return "Any"
    if pattern is collections.abc.Callable:
        return "Callable"
    if isinstance(pattern, TypeVar):
        return pattern.__name__
    if pattern is Ellipsis:
        return "..."
    if isinstance(pattern, tuple):
        return f"tuple[{', '.join(pattern_text(p) for p in pattern)}]"
    if isinstance(pattern, Array):
        return f"array[{pattern_text(pattern.dtype)}, {pattern.ndim}]"
    return repr(pattern)
