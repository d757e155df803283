"""The objects of the process that have ids. See docs/design/0054."""

from __future__ import annotations

import itertools
import threading
import weakref
from typing import Any

import jax
import jax.core
import numpy as np

from jaxwarp.arrays.host_array import HostArray
from jaxwarp.launches.arguments.leaves import spread_struct
from jaxwarp.types import CHANGES, Id, struct_of


class Living:
    """An object that has an id, and the row that it has in each table of its class."""

    def __init__(self, ref: weakref.ref[Any], number: int, row: int):
        self.ref, self.number, self.row = ref, number, row


class Registry:
    """The objects of the process that have ids, by class."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._generations = itertools.count(1)
        self._of: dict[int, Living] = {}
        # By class: what is in each row, and the rows that were left.
        self._rows: dict[type, tuple[list[Living | None], list[int]]] = {}

    def id_of(self, value: Any) -> Any:
        """The id of an object; in JAX, where it is a value, itself."""
        living = self._of.get(id(value))
        if living is not None and living.ref() is value:
            return Id(living.number, value)
        return Id(self._number(value), value) if is_outside(value) else value

    def _number(self, value: Any) -> int:
        with self._lock:
            living = self._of.get(id(value))
            if living is None or living.ref() is not value:
                living = self._of[id(value)] = self._added(value)
            return living.number

    def _added(self, value: Any) -> Living:
        rows, free = self._rows.setdefault(type(value), ([None], []))
        row, key = free.pop() if free else len(rows), id(value)

        def forget(_: Any) -> None:
            if self._of.get(key) is living:
                del self._of[key]
            rows[row] = None
            free.append(row)
            CHANGES.happened()

        rows.extend([None] * (row + 1 - len(rows)))
        living = rows[row] = Living(weakref.ref(value, forget), next(self._generations) << 32 | row, row)
        CHANGES.happened()
        return living

    def living(self, kind: type) -> list[tuple[Living, Any]]:
        """Return the living objects of a class, each with its entry."""
        with self._lock:
            rows, _ = self._rows.get(kind, ((), None))
            found = [(living, living.ref()) for living in rows if living is not None]
        return [(living, value) for living, value in found if value is not None]


def is_outside(value: Any) -> bool:
    """Tell whether all that an object has is known, and none of it traced by JAX."""
    struct = struct_of(type(value))
    return struct is not None and all(map(_is_known, spread_struct(struct, value)))


def _is_known(leaf: Any) -> bool:
    """Tell whether a leaf is an array that is in memory, or a number."""
    is_known = leaf is None or isinstance(leaf, (HostArray, np.ndarray, np.generic, int, float))
    return is_known or (isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer))


# What JAX is given for an id is the object, a value there.
jax.tree_util.register_pytree_node(Id, lambda given: ((given.value,), None), lambda _, parts: parts[0])
REGISTRY = Registry()
id_of = REGISTRY.id_of
