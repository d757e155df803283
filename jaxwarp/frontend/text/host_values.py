"""Values of Python that a kernel's text names: where they are found, and how they are kept from changing."""

from __future__ import annotations

import builtins
import collections
import copy
import types
from typing import Any

import numpy as np

from jaxwarp.types import struct_of


class Missing:
    """Marks a name that has no value (yet): `None` is a value a user may capture."""


_CONTAINERS = (list, dict, set, bytearray, collections.deque, collections.OrderedDict, collections.defaultdict)


def frozen(value: Any, seen: dict[int, Any] | None = None) -> Any:
    """A value that does not change: a copy of arrays, structs and Python's containers, and of what is in them.

    Objects of other classes are not copied.
    """
    if isinstance(value, np.ndarray):
        return value.copy()
    seen = {} if seen is None else seen
    if id(value) in seen:
        return seen[id(value)]
    if type(value) in _CONTAINERS:
        made = seen[id(value)] = copy.copy(value)
        items = value.items() if isinstance(value, dict) else enumerate(value) if hasattr(value, "index") else ()
        for place, item in items:
            made[place] = frozen(item, seen)
        return made
    if struct_of(type(value)) is not None:
        made = seen[id(value)] = copy.copy(value)
        made.__dict__.update((name, frozen(field, seen)) for name, field in vars(value).items())
        return made
    if isinstance(value, tuple):
        parts = [frozen(v, seen) for v in value]
        if any(a is not b for a, b in zip(parts, value, strict=True)):
            return getattr(type(value), "_make", tuple)(parts)  # of a named one
    return value


def find(function: types.FunctionType, name: str) -> Any:
    """The value of a free name now: closure, then globals, then Python's own; `Missing` if there is none."""
    code = function.__code__
    if name in code.co_freevars and function.__closure__ is not None:
        try:
            return function.__closure__[code.co_freevars.index(name)].cell_contents
        except ValueError:  # an empty cell: the name is bound later
            return Missing
    if name in function.__globals__:
        return function.__globals__[name]
    return getattr(builtins, name, Missing)
