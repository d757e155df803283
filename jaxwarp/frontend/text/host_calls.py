"""The choice of an overload for a call from Python: the one whose annotations are nearest to the values."""

from __future__ import annotations

import collections.abc
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from jaxwarp.errors import KernelTypeError
from jaxwarp.frontend.text.annotations import elements_of, matches
from jaxwarp.types import Array, Scalar, bool_, float32, int32, is_array, type_repr
from jaxwarp.types.queries import value_type


def chosen(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The overload of a `Func` for host values; of several that fit alike, the last one that was defined.

    Raises:
        KernelTypeError: none fits.
    """
    fitting: list[tuple[int, int, Any]] = []
    for number, overload in enumerate(func.overloads):
        distance = _distance(overload, args, kwargs)
        if distance is not None:
            fitting.append((distance, -number, overload))
    if not fitting:
        given = ", ".join(_text(v) for v in (*args, *kwargs.values()))
        raise KernelTypeError(
            f"no overload of {func.name} takes ({given})", hint="; ".join(o.signature() for o in func.overloads)
        )
    return min(fitting, key=lambda found: found[:2])[2]


def _text(value: Any) -> str:
    found = value_type(value)
    return type(value).__name__ if found is None else type_repr(found)


def _distance(overload: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> int | None:
    try:
        bound = inspect.signature(overload.source.function).bind(*args, **kwargs).arguments
    except TypeError:
        return None
    variables: dict[Any, Any] = {}
    patterns = {p.name: p.pattern for p in overload.parameters}
    distances = [_cost(patterns[name], value, variables) for name, value in bound.items()]
    return None if None in distances else sum(d for d in distances if d is not None)


def _cost(pattern: Any, value: Any, bound: dict[Any, Any]) -> int | None:
    """Return how far a host value is from an annotation: 0 fits exactly, None does not fit."""
    if pattern is Any:
        return 4
    if pattern is collections.abc.Callable:
        return 0 if callable(value) else None
    if isinstance(pattern, tuple):
        patterns = elements_of(pattern, len(value)) if isinstance(value, tuple) else None
        costs = None if patterns is None else [_cost(p, v, bound) for p, v in zip(patterns, value, strict=True)]
        return None if costs is None or None in costs else sum(c for c in costs if c is not None)
    if isinstance(pattern, Scalar) and isinstance(value, (bool, int, float)) and not isinstance(value, np.generic):
        return _number_cost(pattern, value)
    found = value_type(value)
    if found is None and is_array(value):
        found = Array(value.dtype, value.ndim)
    if found is None:
        return 2 if isinstance(pattern, Array) and (value is None or hasattr(value, "shape")) else None
    if not matches(pattern, found, bound):
        return None
    return 3 if isinstance(pattern, TypeVar) else 0 if pattern == found else 2


def _number_cost(pattern: Scalar, value: float) -> int | None:
    """Return how far a Python number is from a type; it fits the types that can hold its kind."""
    if isinstance(value, bool) or pattern is bool_:
        return 0 if isinstance(value, bool) and pattern is bool_ else None
    if isinstance(value, int):
        return 0 if pattern is int32 else 1 if pattern.is_int else 2
    return None if not pattern.is_float else 0 if pattern is float32 else 1
