"""The meaning of annotations that leave a type open, for given structs, arrays, and indexed arrays."""

from __future__ import annotations

import builtins
import typing
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from jaxwarp.errors import KernelTypeError
from jaxwarp.types.arrays import Array
from jaxwarp.types.scalars import uint64
from jaxwarp.types.structs import Indexed, Struct, StructField, handled, struct_in, struct_of


def takes_structs(annotation: object) -> builtins.bool:
    """Return whether the meaning of an annotation depends on the struct that is given."""
    return annotation == uint64 or _open(annotation) is not None or _has_numbers(annotation)


def given_types(places: Sequence[int], annotations: Sequence[Any], values: Sequence[Any]) -> tuple[Any, ...]:
    """Return what annotations at `places`, which take structs, mean for these values.

    The values of outputs may be missing. None: the annotation means what it says.
    """
    return tuple(
        _given(annotations[k], values[k]) if k < len(values) else _like(annotations[k], annotations, values)
        for k in places
    )


def is_open(annotation: object) -> builtins.bool:
    """Return whether an annotation leaves open if the argument is an array, a vector or a number."""
    return annotation is Any or isinstance(annotation, typing.TypeVar)


def _open(annotation: object) -> Any:
    """Return what an annotation leaves open: `Any` or a type variable; None: nothing."""
    inner = annotation.array if isinstance(annotation, Indexed) else annotation
    element = inner.dtype if isinstance(inner, Array) else inner
    is_open = element is Any or (isinstance(element, typing.TypeVar) and not element.__constraints__)
    return element if is_open else None


def _has_numbers(annotation: object) -> builtins.bool:
    """Return whether a struct has a field that may be an object that Warp names by a number."""
    fields = annotation.fields if isinstance(annotation, Struct) and not isinstance(annotation, Indexed) else ()
    return any(f.type == uint64 or _has_numbers(f.type) for f in fields)


def _given(annotation: object, value: object) -> Any:
    if annotation == uint64:
        return handled(value)
    if isinstance(annotation, Struct) and not isinstance(annotation, Indexed):
        return _with_handles(annotation, value)
    struct = struct_of(type(value))
    array = annotation.array if isinstance(annotation, Indexed) else annotation
    if not isinstance(array, Array):
        return struct or _type_of_array(value)
    if isinstance(struct, Indexed):
        return struct if struct.array.ndim == array.ndim else None
    element = struct if struct is not None else getattr(value, "dtype", None)
    is_records = isinstance(element, Struct) and not isinstance(annotation, Indexed)
    return Array(element, array.ndim) if is_records else None


def _type_of_array(value: object) -> Array | None:
    """Return the type of an array of jaxwarp; None: of other values, which are taken for numbers and vectors.

    The kernel would write to a vector of its own, and an array stay as it is.
    """
    found = getattr(value, "type", None)
    return found if isinstance(found, Array) and found.ndim else None


def _with_handles(struct: Struct, value: Any) -> Struct | None:
    """The struct with meshes and the like in place of the numbers that it declares; None: there are none in it."""
    names = [f.name for f in struct.fields if f.type == uint64 or _has_numbers(f.type)]
    values = value if isinstance(value, dict) else {name: getattr(value, name, None) for name in names}
    types = {f.name: _given(f.type, values.get(f.name)) for f in struct.fields if f.name in names}
    found = tuple(replace(f, type=types[f.name]) if types.get(f.name) is not None else f for f in struct.fields)
    return _variant(struct, found) if found != struct.fields else None


@cache
def _variant(struct: Struct, fields: tuple[StructField, ...]) -> Struct:
    return Struct(struct.kind, fields)


def _like(annotation: Any, annotations: Sequence[Any], values: Sequence[Any]) -> Any:
    """Return the type of an output with an open type: an array of the elements of the first argument with one."""
    if not isinstance(annotation, Array):
        return None
    for value, written in zip(values, annotations, strict=False):
        if _open(written) in (Any, annotation.dtype):
            found = struct_in(_given(written, value))
            element = found.array.dtype if isinstance(found, Indexed) else found
            return None if element is None else Array(element, annotation.ndim)
    return None


def require_one_meaning(kernel: str, found: Sequence[tuple[str, Any, Any]]) -> None:
    """Raises if a type variable means two types.

    Args:
        found: the names of arguments, how they are annotated, and what that means.
    """
    meant: dict[Any, tuple[str, Any]] = {}
    for name, written, meaning in found:
        variable, own = _open(written), struct_in(meaning) or meaning
        first, other = meant.setdefault(variable, (name, own))
        if isinstance(variable, typing.TypeVar) and own != other:
            raise KernelTypeError(
                f"kernel {kernel}: argument '{name}': {variable.__name__} is {other!r} for '{first}', got {own!r}",
                hint="pass one type for both, or annotate with two type variables",
            )
