"""Tiles from arrays and back: `tile_load`, `tile_store`, their indexed forms, atomic sums.

What lies outside of the array is read as zero, and not written. That is asked once for the tile: only one that is not
wholly inside asks for each element.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.frontend.lowering.frame import Frame, Window
from jaxwarp.frontend.lowering.memory import loaded
from jaxwarp.frontend.lowering.structs import outline
from jaxwarp.frontend.lowering.targets import atomic, stored_value
from jaxwarp.frontend.lowering.tiles.arguments import (
    offsets,
    require_array,
    require_known,
    require_tile,
    shape_of_tile,
    tile_function,
)
from jaxwarp.frontend.lowering.tiles.elements import Indices, load
from jaxwarp.frontend.lowering.tiles.making import zero
from jaxwarp.frontend.lowering.tiles.storage import allocate, each, store, store_at
from jaxwarp.frontend.lowering.values import (
    ElementValue,
    NoArray,
    NoValue,
    StructValue,
    StructView,
    Tile,
    View,
    is_dynamic,
)
from jaxwarp.frontend.lowering.views import element_at, extent
from jaxwarp.ir import nodes as ir
from jaxwarp.types import int32


class _Window:
    """A part of an array that a tile covers.

    Args:
        through: with `axis`, a tile of indices along that axis, which are added to its offset.
    """

    def __init__(
        self,
        frame: Frame,
        name: str,
        array: Any,
        shape: tuple[int, ...],
        offset: Any,
        through: Tile | None = None,
        axis: int = 0,
    ):
        self.frame, self.shape, self.through, self.axis = frame, shape, through, axis
        self.array = require_array(f"{name}: a", array)
        if self.array.ndim != len(shape):
            raise KernelTypeError(
                f"{name}: the tile has {_axes(len(shape))}, the array {self.array.name} has {_axes(self.array.ndim)}",
                hint="index the array's first axes, a[i], or give the shape an extent of 1 for each other axis",
            )
        self.starts = offsets(frame, name, offset, len(shape))
        outer = outline(frame, self.array) if isinstance(self.array, StructView) else self.array
        self.extents = tuple(extent(frame, outer, axis) for axis in outer.free)

    def note(self, stores: bool) -> None:
        """Says which parameters have this part, if it has several elements."""
        context, builder = self.frame.context, self.frame.builder
        if math.prod(self.shape) > 1:
            for view in _views(self.array):
                slices = (view.axes[k].offset for k in view.free)
                starts = zip(self.starts, slices, strict=True)
                places = tuple(tuple(v for v in start if v is not None) for start in starts)
                context.windows.append(Window(view.param, places, self.shape, stores, builder.loc))

    def place(self, indices: Indices) -> ElementValue | StructValue:
        """The element of the array for one of the tile."""
        return _element_of(self.frame, self.array, self._positions(indices))

    def _positions(self, indices: Indices) -> tuple[ir.Value, ...]:
        parts = list(indices)
        if self.through is not None:
            parts[self.axis] = self.frame.index(
                load(self.frame, self.through, (indices[self.axis],)), "an index of the tile of indices"
            )
        return tuple(_sum(self.frame, start, i) for start, i in zip(self.starts, parts, strict=True))

    def for_each(
        self, body: Callable[[Indices], None], outside: Callable[[Indices], None] | None, checked: bool
    ) -> None:
        """Runs `body` where elements are in the array, `outside` where they are not."""
        if not checked:
            each(self.frame, self.shape, body)
            return
        builder = self.frame.builder

        def guarded(indices: Indices) -> None:
            inside = self._has(self._positions(indices))
            if inside is None:
                body(indices)
                return
            builder.if_(inside, _nothing(lambda: body(indices)), _nothing(lambda: outside and outside(indices)))

        whole = None if self.through is not None else self._has_all()
        if self.through is not None:
            each(self.frame, self.shape, guarded)
        elif whole is None:
            each(self.frame, self.shape, body)
        else:
            builder.if_(
                whole,
                _nothing(lambda: each(self.frame, self.shape, body)),
                _nothing(lambda: each(self.frame, self.shape, guarded)),
            )

    def _has(self, positions: Sequence[ir.Value]) -> ir.Value | None:
        """Return the condition that an element lies inside the array; None if it is known to."""
        tests: list[ir.Value] = []
        for start, at, size in zip(self.starts, positions, self.extents, strict=True):
            if not _is_small(self.frame, start) or self.through is not None:
                tests.append(self.frame.ops.call("ge", at, 0))
            tests.append(self.frame.ops.call("lt", at, _as(self.frame, at.type, size)))
        return reduce(lambda a, b: self.frame.ops.call("logical_and", a, b), tests) if tests else None

    def _has_all(self) -> ir.Value | None:
        """Return the condition that all elements lie inside the array; None if they are known to."""
        tests: list[ir.Value] = []
        for start, count, size in zip(self.starts, self.shape, self.extents, strict=True):
            if not _is_natural(self.frame, start):
                tests.append(self.frame.ops.call("ge", start, 0))
            last = self.frame.ops.call("sub", _as(self.frame, start.type, size), count)
            known = self.frame.known(start), self.frame.known(size)
            if known[0] is None or known[1] is None or known[0] + count > known[1]:
                tests.append(self.frame.ops.call("le", start, last))
        return reduce(lambda a, b: self.frame.ops.call("logical_and", a, b), tests) if tests else None


def _views(array: View | StructView | NoArray) -> Iterator[View]:
    """An array, or the arrays of the fields of its structs."""
    if isinstance(array, StructView):
        for view in array.views:
            yield from _views(view)
    elif isinstance(array, View):
        yield array


def _nothing(body: Callable[[], Any]) -> Callable[[], tuple[ir.Value, ...]]:
    """A branch that yields nothing."""

    def branch() -> tuple[ir.Value, ...]:
        body()
        return ()

    return branch


def _is_natural(frame: Frame, value: ir.Value) -> bool:
    known = frame.known(value)
    return isinstance(known, int) and known >= 0


def _is_small(frame: Frame, value: ir.Value) -> bool:
    """Known to stay positive when indices of a tile are added."""
    known = frame.known(value)
    return isinstance(known, int) and 0 <= known < 2**30


def _sum(frame: Frame, start: ir.Value, index: ir.Value) -> ir.Value:
    if frame.known(start) == 0:
        return index
    wide = start.type if start.type.bits >= index.type.bits else index.type
    return frame.ops.call("add", _as(frame, wide, start), _as(frame, wide, index))


def _as(frame: Frame, dtype: Any, value: ir.Value) -> ir.Value:
    return value if value.type == dtype else frame.ops.cast_scalar(dtype, value)


def _element_of(frame: Frame, view: View | StructView | NoArray, positions: Sequence[ir.Value]) -> Any:
    if isinstance(view, StructView):
        return StructValue(view.dtype, tuple(_element_of(frame, v, positions) for v in view.views))
    return view if isinstance(view, NoArray) else element_at(frame, view, positions)


def _axes(n: int) -> str:
    return f"{n} ax{'is' if n == 1 else 'es'}"


# Loads


@tile_function(
    "tile_load(a: Array, shape: int | tuple[int, ...], offset: int | tuple[int, ...] = None,"
    ' storage: str = "register", bounds_check: bool = True, aligned: bool = False) -> Tile',
    "A tile of the elements of an array from `offset` on. Elements outside the array are 0.",
)
def _load(frame: Frame, _node: ast.Call, a: Any, shape: Any, offset: Any, bounds_check: Any) -> Tile:
    require_array("tile_load: a", a)
    window = _Window(frame, "tile_load", a, shape_of_tile(frame, "tile_load", shape), offset)
    return _loaded(frame, window, require_known(frame, "tile_load: bounds_check", bounds_check, bool))


@tile_function(
    "tile_load_indexed(a: Array, indices: Tile, shape: int | tuple[int, ...] = None,"
    ' offset: int | tuple[int, ...] = None, axis: int = 0, storage: str = "register") -> Tile',
    "Like `tile_load`, but along `axis` read at `offset + indices[k]`, not at `offset + k`.",
)
def _load_indexed(frame: Frame, _node: ast.Call, a: Any, indices: Any, shape: Any, offset: Any, axis: Any) -> Tile:
    name = "tile_load_indexed"
    require_array(f"{name}: a", a)
    through = _require_indices(name, indices)
    is_given = not (shape is None or isinstance(shape, NoArray))
    extents = shape_of_tile(frame, name, shape) if is_given else through.shape
    return _loaded(frame, _indexed_window(frame, name, a, extents, offset, through, axis), True)


def _loaded(frame: Frame, window: _Window, checked: bool) -> Tile:
    window.note(stores=False)
    dtype = window.array.dtype
    tile = allocate(frame, dtype, window.shape)
    window.for_each(
        lambda at: store(frame, tile, at, loaded(frame.builder, window.place(at))),
        lambda at: store(frame, tile, at, zero(frame, dtype)),
        checked,
    )
    return tile


def _require_indices(name: str, indices: Any) -> Tile:
    tile = require_tile(f"{name}: indices", indices, 1)
    if tile.dtype not in (int32,) and not getattr(tile.dtype, "is_int", False):
        raise KernelTypeError(f"{name}: indices must be a tile of integers, got {tile.type!r}", hint="use dtype=int")
    return tile


def _indexed_window(
    frame: Frame, name: str, array: Any, shape: tuple[int, ...], offset: Any, through: Tile, axis: Any
) -> _Window:
    known = require_known(frame, f"{name}: axis", axis, int)
    if not -len(shape) <= known < len(shape):
        raise KernelValueError(
            f"{name}: axis {known} is out of range for {_axes(len(shape))}", hint=f"axes are 0 to {len(shape) - 1}"
        )
    known %= len(shape)
    if through.shape[0] != shape[known]:
        raise KernelValueError(
            f"{name}: {through.shape[0]} indices for an axis of extent {shape[known]}",
            hint="the tile of indices has an index for each place along the axis",
        )
    return _Window(frame, name, array, shape, offset, through, known)


# Stores


@tile_function(
    "tile_store(a: Array, t: Tile, offset: int | tuple[int, ...] = None, bounds_check: bool = True,"
    " aligned: bool = False)",
    "Store a tile in an array from `offset` on. Elements outside the array are dropped.",
)
def _store(frame: Frame, _node: ast.Call, a: Any, t: Any, offset: Any, bounds_check: Any) -> type[NoValue]:
    require_array("tile_store: a", a)
    tile = require_tile("tile_store: t", t)
    window = _Window(frame, "tile_store", a, tile.shape, offset)
    _stored(frame, "tile_store", window, tile, require_known(frame, "tile_store: bounds_check", bounds_check, bool))
    return NoValue


@tile_function(
    "tile_store_indexed(a: Array, indices: Tile, t: Tile, offset: int | tuple[int, ...] = None, axis: int = 0)",
    "Like `tile_store`, but along `axis` write at `offset + indices[k]`, not at `offset + k`.",
)
def _store_indexed(
    frame: Frame, _node: ast.Call, a: Any, indices: Any, t: Any, offset: Any, axis: Any
) -> type[NoValue]:
    name = "tile_store_indexed"
    require_array(f"{name}: a", a)
    tile = require_tile(f"{name}: t", t)
    window = _indexed_window(frame, name, a, tile.shape, offset, _require_indices(name, indices), axis)
    _stored(frame, name, window, tile, True)
    return NoValue


def _stored(frame: Frame, name: str, window: _Window, tile: Tile, checked: bool) -> None:
    _require_same(name, window, tile)
    window.note(stores=True)
    window.for_each(lambda at: store_at(frame, window.place(at), load(frame, tile, at)), None, checked)


def _require_same(name: str, window: _Window, tile: Tile) -> None:
    if window.array.dtype != tile.dtype:
        raise KernelTypeError(
            f"{name}: {window.array.name} holds {window.array.dtype!r}, the tile {tile.dtype!r}",
            hint="tile_astype(t, dtype) converts a tile",
        )


@tile_function(
    "tile_atomic_add(a: Array, t: Tile, offset: int | tuple[int, ...] = None, bounds_check: bool = True) -> Tile",
    "Add a tile to an array from `offset` on, atomically. Returns a tile of the old elements.",
)
def _atomic_add(frame: Frame, _node: ast.Call, a: Any, t: Any, offset: Any, bounds_check: Any) -> Tile:
    require_array("tile_atomic_add: a", a)
    tile = require_tile("tile_atomic_add: t", t)
    window = _Window(frame, "tile_atomic_add", a, tile.shape, offset)
    checked = require_known(frame, "tile_atomic_add: bounds_check", bounds_check, bool)
    return _added(frame, "tile_atomic_add", window, tile, checked)


@tile_function(
    "tile_atomic_add_indexed(a: Array, indices: Tile, t: Tile, offset: int | tuple[int, ...] = None,"
    " axis: int = 0) -> Tile",
    "Like `tile_atomic_add`, but along `axis` add at `offset + indices[k]`, not at `offset + k`.",
)
def _atomic_add_indexed(frame: Frame, _node: ast.Call, a: Any, indices: Any, t: Any, offset: Any, axis: Any) -> Tile:
    name = "tile_atomic_add_indexed"
    require_array(f"{name}: a", a)
    tile = require_tile(f"{name}: t", t)
    window = _indexed_window(frame, name, a, tile.shape, offset, _require_indices(name, indices), axis)
    return _added(frame, name, window, tile, True)


def _added(frame: Frame, name: str, window: _Window, tile: Tile, checked: bool) -> Tile:
    _require_same(name, window, tile)
    window.note(stores=True)
    before = allocate(frame, tile.dtype, tile.shape)

    def add(at: Indices) -> None:
        place, value = window.place(at), load(frame, tile, at)
        if not isinstance(place, ElementValue) or not is_dynamic(value):
            raise KernelTypeError(f"{name}: structs cannot be added", hint="add their fields, one by one")
        store(frame, before, at, atomic(frame, "add", place, stored_value(frame, place, value)))

    window.for_each(add, lambda at: store(frame, before, at, zero(frame, tile.dtype)), checked)
    return before
