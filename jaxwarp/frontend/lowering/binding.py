"""Values against annotations: what a parameter, a return value, an annotated variable accepts."""

from __future__ import annotations

import collections.abc
from typing import Any, TypeVar

from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.frontend.ids import object_named
from jaxwarp.frontend.lowering.frame import Frame
from jaxwarp.frontend.lowering.values import Host, NoArray, StructValue, describe, is_literal, type_of
from jaxwarp.frontend.text.annotations import elements_of, matches, pattern_text
from jaxwarp.ir import nodes as ir
from jaxwarp.types import HANDLE, Array, Scalar, Struct, bool_, float32, int32, uint64


def cost(pattern: Any, value: Any, bound: dict[Any, Any]) -> int | None:
    """Return how far a value is from an annotation: 0 fits exactly, None does not fit.

    A literal fits the types that can hold its kind, and its own type best. Annotations without a type come after those
    with one.
    """
    if pattern is Any:
        return 4
    if pattern is collections.abc.Callable:
        return 0 if callable(value.value if isinstance(value, Host) else value) else None
    if isinstance(pattern, tuple):
        patterns = elements_of(pattern, len(value)) if isinstance(value, tuple) else None
        if patterns is None:
            return None
        costs = [cost(p, v, bound) for p, v in zip(patterns, value, strict=True)]
        return None if None in costs else sum(c for c in costs if c is not None)
    if isinstance(value, NoArray):
        return 0 if isinstance(pattern, Array) and (value.type is None or matches(pattern, value.type, bound)) else None
    dtype = type_of(value)
    if dtype is None:
        return None
    if is_literal(value) and isinstance(pattern, Scalar):
        return _literal_cost(pattern, value)
    if pattern is uint64 and isinstance(value, StructValue) and getattr(value.type.kind, HANDLE, False):
        return 1
    if is_id(pattern, value):
        return 1
    if not matches(pattern, dtype, bound):
        return None
    return 3 if isinstance(pattern, TypeVar) else 0 if pattern == dtype else 2


def is_id(pattern: Any, value: Any) -> bool:
    """Tell whether a value may be the id of what the annotation asks for."""
    is_handle = isinstance(pattern, Struct) and getattr(pattern.kind, HANDLE, False)
    return bool(is_handle) and isinstance(value, ir.Value) and value.type is uint64


def _literal_cost(pattern: Scalar, value: bool | int | float) -> int | None:
    if isinstance(value, bool) or pattern is bool_:
        return 0 if isinstance(value, bool) and pattern is bool_ else None
    if isinstance(value, int):
        return 0 if pattern is int32 else 1 if pattern.is_int else 2
    return None if not pattern.is_float else 0 if pattern is float32 else 1


def converted(frame: Frame, value: Any, pattern: Any, what: str) -> Any:
    """The value as the annotation has it: literals get its type.

    Raises:
        KernelTypeError: the value does not fit; the message starts with `what`.
    """
    if cost(pattern, value, {}) is None:
        dtype = repr(pattern) if isinstance(pattern, Scalar) else None
        hint = f"convert with {dtype}(...)" if dtype and isinstance(type_of(value), Scalar) else None
        raise KernelTypeError(f"{what} {pattern_text(pattern)}, got {describe(value)}", hint=hint)
    return typed_as(frame, value, pattern)


def typed_as(frame: Frame, value: Any, pattern: Any) -> Any:
    """A value that fits, with literals in the annotated type."""
    if isinstance(pattern, tuple):
        patterns = elements_of(pattern, len(value)) or ()
        return tuple(typed_as(frame, v, p) for v, p in zip(value, patterns, strict=True))
    if is_id(pattern, value):
        return object_named(frame, pattern, value)
    if not (is_literal(value) and isinstance(pattern, Scalar)):
        return value
    try:
        return frame.typed(value, pattern)
    except (KernelTypeError, KernelValueError) as error:
        raise type(error)(error.message, hint=error.hint) from None
