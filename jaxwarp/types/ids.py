"""Ids: numbers that name live objects outside of JAX; see docs/design/0054."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jaxwarp.boundary import guarded

ENDLESS = 1 << 46
"""The extent of memory: an array that goes on in both directions. No index is checked against it."""

NAMED = "__jaxwarp_named__"
"""Of a class whose objects have ids, the `Named` that says how kernels find them."""


@guarded
@dataclass(frozen=True)
class Named:
    """The way in which kernels find the objects of a class by their ids.

    Attributes:
        optional: the leaves that may be None.
        nothing: of the object that 0 names, elements of arrays, which read as zeros, and numbers that are not 0.
        types: leaves that kernels find as another type than the class has, which `stored` makes of them.
        stored: makes of an array, a leaf that `types` has, what kernels find.
    """

    optional: frozenset[str] = frozenset()
    nothing: Mapping[str, int] = field(default_factory=dict)
    types: Mapping[str, Any] = field(default_factory=dict)
    stored: Callable[[Any], Any] | None = None


class Changes:
    """The changes of objects that may have ids, and of which objects there are.

    Attributes:
        token: another object after each change.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.token = object()

    def now(self) -> object:
        """Return the token, while no object changes."""
        with self._lock:
            return self.token

    def happened(self) -> None:
        """Note that something has changed."""
        self.token = object()

    def set_fields(self, value: Any, fields: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """Give an object other fields."""
        with self._lock:
            value.__dict__.update(fields or {}, **more)
            self.happened()


CHANGES = Changes()
set_fields = CHANGES.set_fields


@guarded
class Id(int):
    """The number of a live object, which keeps it alive, and stands for it as an argument and as a value of JAX.

    Attributes:
        value: the object.
    """

    value: Any

    def __new__(cls, number: int, value: Any) -> Id:
        made = super().__new__(cls, number)
        made.value = value
        return made

    def __reduce__(self) -> Any:
        """The object: its number means nothing in another process."""
        return _id_of, (self.value,)

    def __deepcopy__(self, memo: Any) -> Id:
        return self


def _id_of(value: Any) -> Any:
    return value.id
