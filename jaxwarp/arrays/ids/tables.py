"""Ids of meshes, trees, grids and volumes: the objects that are alive, and the tables that a launch finds them in.

See docs/design/0054. A row of a table, int64: the id; for each leaf its start, count and stride, in scalars of memory;
the words of leaves that are values; and zeros, which arrays without elements begin at.
"""

from __future__ import annotations

import copy
import math
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import repeat
from operator import is_
from typing import Any

import jax
import numpy as np

from jaxwarp.arrays.held import keep, kept_of_fields
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.ids.living import REGISTRY, Living, is_outside
from jaxwarp.arrays.placed import placed_array
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.kernel import Kernel
from jaxwarp.launches.arguments.leaves import spread_struct
from jaxwarp.memory.gpu.scope import gpu_scope
from jaxwarp.memory.host_scope import HOST, Outside
from jaxwarp.memory.region import Region, Spans, array_region
from jaxwarp.memory.scope import Scope
from jaxwarp.structs.declare import struct
from jaxwarp.types import (
    CHANGES,
    ENDLESS,
    NAMED,
    Array,
    Id,
    Named,
    Scalar,
    Struct,
    bool_,
    element_scalar,
    element_shape,
    float16,
    float32,
    float64,
    handled,
    id_leaves,
    int32,
    int64,
    meant,
    struct_of,
    uint32,
    uint64,
)

_SCALARS: tuple[Scalar, ...] = (float16, float32, float64, int32, int64, uint32)
_ZEROS = 16  # words: as long as the longest element
_FIRST_ROWS = 8
_MIDDLE = 4096  # bytes on both sides of where memory begins, as an array


_CLASSES: list[type] = []
# Of these classes: the struct that tables are, and the tables in each memory.
_types: list[Struct] = []
_tables: dict[Outside, Tables] = {}


def give_ids(kind: type, named: Named) -> None:
    """Lets kernels find the objects of a class by their ids: modules are imported when a program first needs them."""
    setattr(kind, NAMED, named)
    _CLASSES.append(kind)
    _types.clear()
    _tables.clear()


class Tables:
    """The tables in which launches in one memory find objects.

    Attributes:
        value: the argument of kernels: a struct of arrays.
        regions: where the objects are.
    """

    def __init__(self, place: Outside):
        self._place, self._lock = place, threading.Lock()
        # CPU code reads the first elements of an array for lanes that are off: they have to be there.
        self._middle = place.make(np.dtype(np.int64), (2 * _MIDDLE // 8,))
        # Not all in one place: they would be one array that is given several times.
        origins = {s: self._middle.address + _MIDDLE + 64 * k for k, s in enumerate(_SCALARS)}
        self._of = {kind: _Table(place, kind, origins) for kind in _CLASSES}
        self._memory = {
            s.name: placed_array(place, s.name, s, (ENDLESS,), at, None, None, None) for s, at in origins.items()
        }
        self._kind: Any = tables_type().kind
        self._launches = 0  # under way
        self.value: Any = None
        self.regions: list[Region] = []
        # What there was when the tables were last made, and its objects; None: somebody may change them unseen.
        self._token: object = None
        self._refs: list[weakref.ref[Any]] = []

    @contextmanager
    def used(self, in_call: bool = False) -> Iterator[Any]:
        """Yield the argument for a launch; until the end of the `with`, what it may find stays where it is.

        Args:
            in_call: the launch is in a program of JAX that runs while Python does other things.

        Raises:
            KernelValueError: in a call, an object has an array that JAX has not computed yet: it may never be.
        """
        value, alive = self.now(in_call, 1)
        try:
            yield value
        finally:
            with self._lock:
                self._launches -= 1
            del alive

    def now(self, in_call: bool = False, launches: int = 0) -> tuple[Any, list[Any]]:
        """Return the argument for a launch, and what has to live until it has run."""
        while True:
            try:
                with self._lock:
                    token = CHANGES.now()
                    value, alive = self._now(token)
                    # Python may give the objects other arrays before the call ends.
                    arrays = [spread_struct(_struct(v), v) for v in alive] if in_call else []
                    if in_call and CHANGES.now() is not token:
                        continue  # these may be others than in the rows
                    self._launches += launches
                    return value, [alive, arrays]
            except _UnfinishedError as error:
                # Nobody waits with the lock: what is computed may have launches that need it.
                if in_call:
                    raise _unfinished(error.what) from None
                jax.block_until_ready(error.array)

    def _now(self, token: object) -> tuple[Any, list[Any]]:
        if token is self._token:  # nothing has changed
            alive = [ref() for ref in self._refs]
            if not any(map(is_, alive, repeat(None))):
                return self.value, alive
        # On a GPU new rows are queued behind the launches that read the old ones.
        is_read = self._launches > 0 and self._place is HOST
        found = [table.update(is_read) for table in self._of.values()]
        if self.value is None or any(is_new for is_new, _ in found):
            rows = {kind.__name__: table.array for kind, table in self._of.items()}
            self.value = object.__new__(self._kind)
            self.value.__dict__.update({**rows, **self._memory})
        alive = [value for _, values in found for value in values]
        self._token = None if any(table.is_open for table in self._of.values()) else token
        self._refs = [weakref.ref(value) for value in alive]
        self.regions = [region for table in self._of.values() for region in table.regions]
        return self.value, alive

    def meets(self, low: int, high: int) -> bool:
        """Tell whether an object may have a byte between two addresses, the second excluded."""
        return any(table.spans.meets(low, high) for table in self._of.values())


class _Table:
    """The rows of one class."""

    def __init__(self, place: Outside, kind: type, origins: dict[Scalar, int]):
        found = struct_of(kind)
        assert found is not None
        self._place, self._struct, self._named, self._origins = place, found, getattr(kind, NAMED), origins
        self._types = id_leaves(found)
        self._leaves = [leaf for types in self._types for leaf in types]
        self._values = 1 + 3 * len(self._leaves)
        words = sum(_words(type_) for _, type_ in self._leaves if not isinstance(type_, Array))
        self._zeros = self._values + words
        # By row: where the arrays of the object are, and those that are copies of its own.
        self._seen: dict[int, tuple[list[Region], list[Any]]] = {}
        self._open: set[int] = set()  # rows of objects with numbers that may change in place
        self._resize(_FIRST_ROWS)
        self.spans = Spans()

    def _resize(self, count: int) -> None:
        self._seen.clear()
        self._open.clear()
        self._rows = np.zeros((count, self._zeros + _ZEROS), np.int64)
        self._rows[:, 0] = -1
        self.array = placed_rows(self._place, self._rows)
        # Of what may have several types, nothing reads as zeros of each.
        is_open = {types[0][0] for types in self._types if len(types) > 1}
        no = self._named.optional - is_open
        self._set(0, -1, [None if name in no else 0 for name, _ in self._leaves])

    def update(self, is_read: bool) -> tuple[bool, list[Any]]:
        """Make the rows those of the objects that are alive.

        Args:
            is_read: launches read the rows just now, and keep them as they are.

        Returns:
            whether the array is another one, and the objects.
        """
        living, before = REGISTRY.living(self._struct.kind), self.array
        if len(living) != len(self._seen) or not all(self._is_current(one, value) for one, value in living):
            if is_read:
                self._resize(len(self._rows))
            self._update(living)
        return self.array is not before, [value for _, value in living]

    def _is_current(self, one: Living, value: Any) -> bool:
        return one.row in self._seen and kept_of_fields(value, self) == one.number

    def _update(self, living: Sequence[tuple[Living, Any]]) -> None:
        for one, value in living:
            if not self._is_current(one, value):
                _require_computed(self._struct, value)
        most = max((one.row for one, _ in living), default=0)
        if most >= len(self._rows):
            self._resize(2 * most)
        for row in self._seen.keys() - {one.row for one, _ in living}:
            del self._seen[row]
            self._open.discard(row)
            self._rows[row, 0] = -1
        for one, value in living:
            if not self._is_current(one, value):
                self._look(one, value)
        self.spans = Spans()
        for regions, _ in self._seen.values():
            for region in regions:
                self.spans.add(region)
        uploaded(self._place, self.array, self._rows)

    @property
    def is_open(self) -> bool:
        """Tell whether an object may change without anybody telling."""
        return bool(self._open)

    @property
    def regions(self) -> list[Region]:
        return [region for regions, _ in self._seen.values() for region in regions]

    def _look(self, one: Living, value: Any) -> None:
        """Sets the row of an object; of one that is elsewhere there is none."""
        row = one.row
        self._open.discard(row)
        if not _is_at(self._place, value):
            self._rows[one.row, 0], self._seen[one.row] = -1, ([], [])
            keep(value, self, one.number)
            return
        found: list[Any] = []
        regions, copies = [], []
        pairs = zip(self._types, spread_struct(self._struct, value), strict=True)
        for (name, type_), leaf in [(one, leaf) for types, leaf in pairs for one in types]:
            if not isinstance(type_, Array):
                found.append(leaf)
                if isinstance(leaf, np.ndarray) and leaf.flags.writeable:
                    self._open.add(row)
                continue
            stored = self._stored(name, leaf)
            if leaf is None or not _is_of(stored, element_scalar(type_.dtype)):
                found.append(None)
                continue
            region, copied = _region(self._place, stored, f"{self._struct!r}: {name}")
            copied = copied if stored is leaf else [copied, stored]
            found.append(region)
            # On the host without an owner: what nobody else has is changed in place, see `held.are_held_alone`.
            regions.append(replace(region, owner=None) if self._place is HOST else region)
            copies.append(copied)
        self._set(one.row, one.number, found)
        self._seen[one.row] = regions, copies
        keep(value, self, one.number)

    def _stored(self, name: str, leaf: Any) -> Any:
        """Return what kernels find of an array, which is not changed in place if that is a copy."""
        if leaf is None or name not in self._named.types or self._named.stored is None:
            return leaf
        stored = self._named.stored(leaf)
        if stored is not leaf:
            if isinstance(leaf, np.ndarray):
                leaf.flags.writeable = False
            elif isinstance(leaf, HostArray):
                leaf.is_writable = False
        return stored

    def _set(self, row: int, number: int, leaves: Sequence[Any]) -> None:
        """A row: of arrays, regions, or None; of values, these. 0 in place of a leaf: there is nothing."""
        entries, column = self._rows[row], self._values
        for k, ((name, type_), leaf) in enumerate(zip(self._leaves, leaves, strict=True)):
            scalar = _scalar_of(type_)
            size, zeros = scalar.numpy.itemsize, self._place_of(row, self._zeros)
            origin = self._origins[scalar]
            start, count, stride = (zeros - origin) // size, -1 if leaf is None else 0, 0
            if not isinstance(type_, Array):
                value = self._named.nothing.get(name, 0) if row == 0 else leaf
                words = _words(type_)
                entries[column : column + words] = _as_words(type_, value, words)
                start, column = (self._place_of(row, column) - origin) // size, column + words
            elif isinstance(leaf, Region) and leaf.shape[0]:
                start, count, stride = (leaf.address - origin) // size, leaf.shape[0], leaf.strides[0] // size
            elif row == 0:
                count = self._named.nothing.get(name, count)
            entries[1 + 3 * k : 4 + 3 * k] = start, count, stride
        entries[0] = number

    def _place_of(self, row: int, column: int) -> int:
        return self.array._region.address + (row * self._rows.shape[1] + column) * 8


class _UnfinishedError(Exception):
    """An object has an array that JAX has not computed yet."""

    def __init__(self, what: str, array: jax.Array):
        self.what, self.array = what, array


def _require_computed(kind: Struct, value: Any) -> None:
    for leaf in spread_struct(kind, value):
        # Of JAX's arrays, those that are traced have no such method.
        if isinstance(leaf, jax.Array) and not getattr(leaf, "is_ready", lambda: True)():
            raise _UnfinishedError(kind.name, leaf)


def _unfinished(what: str) -> KernelValueError:
    return KernelValueError(
        f"a {what} that has an id has an array that JAX has not computed yet, and a launch in a program of JAX cannot"
        " wait for it",
        hint="wait before you call the program: jax.block_until_ready(array)",
    )


def _struct(value: Any) -> Struct:
    found = struct_of(type(value))
    assert found is not None
    return found


def placed_rows(place: Outside, rows: np.ndarray) -> HostArray:
    """An array for rows in the memory of a launch: on the host, they themselves."""
    if place is HOST:
        return HostArray("ids", Array(int64, 2), array_region(rows), is_writable=False)
    return HostArray("ids", Array(int64, 2), place.make(rows.dtype, rows.shape), is_writable=False)


def uploaded(place: Outside, array: HostArray, rows: np.ndarray) -> None:
    """Brings rows to where launches read them."""
    if place is not HOST:
        place.put(array._region, rows)


def _scalar_of(type_: Any) -> Scalar:
    """Return the type of the numbers in memory that a leaf consists of: a bool is an int32."""
    scalar = element_scalar(type_.dtype if isinstance(type_, Array) else type_)
    return int32 if scalar is bool_ and not isinstance(type_, Array) else scalar


def _words(type_: Any) -> int:
    """Return how many 8-byte words a value takes."""
    return -(-math.prod(element_shape(type_)) * _scalar_of(type_).numpy.itemsize // 8)


def _as_words(type_: Any, value: Any, words: int) -> np.ndarray:
    scalar = _scalar_of(type_).numpy
    filled = np.zeros(words * 8 // scalar.itemsize, scalar)
    flat = np.asarray(value).reshape(-1)
    filled[: math.prod(element_shape(type_))] = flat
    return filled.view(np.int64)


def _region(place: Outside, leaf: Any, what: str) -> tuple[Region, Any]:
    """Return where an array of an object is, and what keeps it there."""
    if isinstance(leaf, HostArray):
        region, owner = leaf._region, None
    else:
        values = np.asarray(leaf)
        if place is HOST:
            region, owner = array_region(values), values if isinstance(leaf, jax.Array) else None
        else:
            region = place.make(values.dtype, values.shape)
            place.put(region, np.ascontiguousarray(values))
            owner = region
    size = region.dtype.itemsize
    inner = region.shape[1:]
    dense = all(s == size * math.prod(inner[k + 1 :]) for k, s in enumerate(region.strides[1:]))
    if region.size and not (dense and region.address % size == 0 and region.strides[0] % size == 0):
        raise KernelTypeError(
            f"{what}: its memory has gaps between components, where no id finds them", hint="pass a contiguous array"
        )
    return region, owner


def _is_of(leaf: Any, scalar: Scalar) -> bool:
    """Tell whether an array consists of scalars of a type."""
    return (leaf._region if isinstance(leaf, HostArray) else leaf).dtype == scalar.numpy


def _is_at(place: Outside, value: Any) -> bool:
    if not is_outside(value):  # JAX traces what sets its arrays
        return False
    return value.device.is_cpu if place is HOST else getattr(value.device, "ordinal", None) == place.device_ordinal


def tables_type() -> Struct:
    """The struct that tables are."""
    if not _types:
        fields = {k.__name__: Array(int64, 2) for k in _CLASSES} | {s.name: Array(s, 1) for s in _SCALARS}
        kind = struct(type("Tables", (), {"__annotations__": fields, "__module__": __name__}))
        found = struct_of(kind)
        assert found is not None
        _types.append(found)
    return _types[0]


def place_of(scope: Scope) -> Outside:
    """Return the memory that objects are in for launches in a call."""
    if isinstance(scope, Outside):
        return scope
    return HOST if scope.platform == "cpu" else gpu_scope(scope.device_ordinal)


def tables_at(place: Outside) -> Tables:
    """Return the tables of launches in a memory."""
    if place not in _tables:
        _tables[place] = Tables(place)
    return _tables[place]


def objects_in(kernel: Kernel, values: Sequence[Any]) -> list[Any]:
    """Return the objects that are given, by themselves or by their ids, where numbers are annotated."""
    return [x for a, v in zip(kernel.arguments, values, strict=True) for x in _objects_in(a.annotation, v)]


def have_numbers(kernel: Kernel, values: Sequence[Any]) -> bool:
    """Tell whether all objects that are given where numbers are annotated have ids: in JAX they have none."""
    return all(isinstance(getattr(x, "id", None), Id) for x in objects_in(kernel, values))


def _objects_in(annotation: Any, value: Any) -> list[Any]:
    if annotation == uint64:
        return [] if handled(value) is None else [meant(value)]
    fields = annotation.fields if isinstance(annotation, Struct) and struct_of(type(value)) == annotation else ()
    return [x for f in fields for x in _objects_in(f.type, vars(value)[f.name])]


def as_numbers(kernel: Kernel, values: Sequence[Any]) -> list[Any]:
    """The arguments of a launch, with ids in place of objects where numbers are annotated."""
    return [_as_number(a.annotation, v) for a, v in zip(kernel.arguments, values, strict=True)]


def _as_number(annotation: Any, value: Any) -> Any:
    if annotation == uint64 and hasattr(type(meant(value)), NAMED):
        return int(meant(value).id)
    if not _objects_in(annotation, value):
        return value
    made = copy.copy(value)
    made.__dict__.update((f.name, _as_number(f.type, vars(value)[f.name])) for f in annotation.fields)
    return made
