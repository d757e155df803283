"""Annotations of the library jaxtyping, `Float32[Array, "n 3"]`: arrays of a rank and of one or several types.

Nothing is imported for them: where there is one, the library is there. What they say of extents is kept in the type,
and looked at when a launch is bound.
"""

from __future__ import annotations

import ast
import operator
import typing
from collections.abc import Mapping
from typing import Any

from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.types import CLASSES, SCALARS, Array

_groups: dict[tuple[Any, ...], Any] = {tuple(c.__constraints__): c for c in CLASSES}
_AXES = {"_FixedDim": "size", "_NamedDim": "name", "_SymbolicDim": "elem"}  # what else there is, "_", is of any extent
_ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv}


def is_of_jaxtyping(annotation: object) -> bool:
    """Return whether an annotation is one of jaxtyping's."""
    return type(annotation).__module__.partition(".")[0] == "jaxtyping" and hasattr(annotation, "dtypes")


def is_group(variable: Any) -> bool:
    """Return whether a type variable stands for one of several types each time that it is written."""
    return variable in _groups.values()


def pattern_of(annotation: Any) -> Any:
    """The pattern of an annotation of jaxtyping.

    Raises:
        KernelTypeError: it has any number of axes, or types that the language has not.
    """
    if not hasattr(annotation, "dims"):
        raise KernelTypeError(
            f"{annotation.__name__} needs an array and its axes", hint=f'write {annotation.__name__}[Array, "n m"]'
        )
    if annotation.index_variadic is not None:
        raise KernelTypeError(
            f'"{annotation.dim_str}" is any number of axes; an array in a kernel has as many as its annotation says',
            hint='name each axis: "n m"',
        )
    dtype = _dtype(annotation)
    return Array(dtype, len(annotation.dims), tuple(map(_axis, annotation.dims))) if annotation.dims else dtype


def _dtype(annotation: Any) -> Any:
    names = annotation.dtypes
    if not isinstance(names, (tuple, list)):  # Shaped: of any type
        return Any
    found = tuple(s for s in SCALARS if s.name in names)
    if not found:
        hint = "write PRNGKey" if "prng_key" in names else "the types are float32, int32, bool and the like"
        raise KernelTypeError(f"the kernel language has no type of {annotation.__name__}", hint=hint)
    if len(found) == 1:
        return found[0]
    name = annotation.__name__.partition("[")[0]
    return _groups.setdefault(found, typing.TypeVar(name, *found))  # pyright: ignore


def extent_of(text: str, known: Mapping[str, Any]) -> Any:
    """The extent that "n + 1" or the like is, where names have these extents; None: a name has none.

    Raises:
        KernelTypeError: it is more than a sum, difference, product or whole quotient of names and integers.
        KernelValueError: it divides by 0.
    """

    def value(node: ast.expr) -> Any:
        match node:
            case ast.Name(id=name):
                return known.get(name)
            case ast.Constant(value=int() as number) if number is not True and number is not False:
                return number
            case ast.BinOp(left, op, right) if type(op) in _ARITHMETIC:
                sides = value(left), value(right)
                return None if None in sides else _ARITHMETIC[type(op)](*sides)
            case _:
                raise SyntaxError

    try:
        return value(ast.parse(text, mode="eval").body)
    except ZeroDivisionError:
        raise KernelValueError(
            f'the extent "{text}" is a quotient by 0', hint="give arrays to the kernel that are not empty"
        ) from None
    except (SyntaxError, RecursionError):
        raise KernelTypeError(
            f'the extent "{text}" is no sum, difference, product or whole quotient of names and integers',
            hint='write "n+1", or "_" for an extent that is not checked',
        ) from None


def _axis(dim: Any) -> int | str | None:
    """The extent of an axis, its name, or what it is made of, "n+1"; None: it is not checked."""
    attribute = _AXES.get(type(dim).__name__)
    if attribute is None or dim.broadcastable or getattr(dim, "treepath", False):
        return None
    found = getattr(dim, attribute)
    if attribute == "elem":
        extent_of(found, {})
    return found
