"""Launch and output dimensions as users give them, made uniform and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.core
import numpy as np
from jax.export import is_symbolic_dim

from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.launches.spec import Dim, is_static
from jaxwarp.types import ENDLESS, Element, element_shape

# Thread indices and extents are int32 in a kernel.
_MAX_EXTENT = 2**31 - 1


@dataclass(frozen=True)
class ByName:
    """Dimensions per output."""

    items: tuple[tuple[str, Any], ...]

    def __repr__(self) -> str:
        return repr(dict(self.items))


def freeze_dims(dims: object, where: str) -> Any:
    """The same dimensions as a hashable value: lists become tuples, dictionaries `ByName`, and extents int.

    Raises:
        KernelTypeError, KernelValueError: they are none; what compares equal to an extent (True, 1.0) is none either.
    """
    if isinstance(dims, Mapping):
        return ByName(tuple((name, freeze_dims(value, where)) for name, value in dims.items()))
    if dims is None:
        return None
    extents = normalize_dims(dims, where)
    return extents if _is_sequence(dims) else extents[0]


def is_static_dims(dims: object) -> bool:
    """Return whether frozen dimensions are free of symbolic extents."""
    match dims:
        case ByName():
            return all(is_static_dims(value) for _, value in dims.items)
        case tuple():
            return all(map(is_static, dims))
        case _:
            return dims is None or is_static(dims)


def require_known(shape: Sequence[Dim], where: str) -> None:
    """
    Raises:
        KernelValueError: an extent is symbolic, and what is made of the array depends on its size.
    """
    if not all(map(is_static, shape)):
        raise KernelValueError(
            f"{where}: expected extents that are numbers, got the shape {format_shape(shape)}",
            hint="export the program for one size of it, or one program for each",
        )


def normalize_dims(dims: Any, where: str) -> tuple[Dim, ...]:
    """A tuple of extents, from an integer, a tuple, a list or an array of NumPy.

    Raises:
        KernelTypeError, KernelValueError: naming `where` the dimensions were given.
    """
    if type(dims) is int and 0 <= dims <= _MAX_EXTENT:
        return (dims,)
    extents: tuple[Any, ...] = (dims,) if not _is_sequence(dims) else tuple(dims)  # pyright: ignore[reportArgumentType]
    return tuple(_require_extent(extent, dims, where) for extent in extents)


def _is_sequence(dims: object) -> bool:
    return isinstance(dims, (tuple, list)) or (isinstance(dims, np.ndarray) and dims.ndim == 1)


def _require_extent(extent: object, dims: object, where: str) -> Dim:
    if isinstance(extent, (int, np.integer)) and not isinstance(extent, (bool, np.bool_)):
        is_shape = where.endswith(": shape")
        what = "Array shapes" if is_shape else "Extents"
        if extent < 0:
            raise KernelValueError(
                f"{where}: {what} must be non-negative, got {dims!r}", hint="write numbers from 0 on"
            )
        if extent > _MAX_EXTENT:
            raise KernelValueError(
                f"{where}: {what} must not exceed the maximum representable value of a signed 32-bit integer, got"
                f" {dims!r}",
                hint="cut the array into parts" if is_shape else "for more threads take several axes: (n, m)",
            )
        return int(extent)
    if _is_symbolic(extent):
        return extent
    hint = "write a number, (n, m) or [n, m]; int(...) makes one of a float"
    if _is_traced(extent):
        hint = "dimensions are part of the program: make them static_argnames of jax.jit"
    raise KernelTypeError(f"{where}: expected an integer, or a tuple or list of integers, got {dims!r}", hint=hint)


def _is_symbolic(extent: Any) -> bool:
    return is_symbolic_dim(extent)


def _is_traced(extent: Any) -> bool:
    return isinstance(extent, jax.core.Tracer)


def require_int32_extents(shape: Sequence[Dim], where: str) -> None:
    """Extents beyond the range of a kernel's indices are refused, but for that of memory, which no kernel asks for."""
    if any(is_static(n) and n > _MAX_EXTENT and n != ENDLESS for n in shape):
        raise KernelValueError(
            f"{where}: expected extents from 0 to {_MAX_EXTENT}, got {tuple(shape)}",
            hint="cut the array into parts: indices in kernels have 32 bits",
        )


def output_shape(ndim: int, element: Element, dims: Any, where: str) -> tuple[Dim, ...]:
    """The JAX shape of an output from its dimensions, with or without the component axes of vectors and matrices."""
    given = normalize_dims(dims, where)
    components = element_shape(element)
    if len(given) == ndim:
        return (*given, *components)
    if components and len(given) == ndim + len(components) and given[ndim:] == components:
        return given
    either = f", or {shape_text(ndim, components)}" if components else ""
    raise KernelValueError(
        f"{where}: expected dimensions {shape_text(ndim, ())}{either}, got {dims!r}",
        hint=f"write {ndim} extent{'' if ndim == 1 else 's'}; the annotation of the output says how many axes it has",
    )


def shape_text(ndim: int, components: Sequence[int]) -> str:
    """An expected shape: "(?, ?, 3)"."""
    return format_shape(["?"] * ndim + [str(n) for n in components])


def format_shape(shape: Sequence[Any]) -> str:
    """A shape as Python writes it, symbolic extents by name."""
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
