"""Elements of tiles.

A `Tile` is a shape, an array of the thread's own, and how indices of the one become indices of the other. So a
transposed tile, a part of one or one that is broadcast is another `Tile` over the same array, as in Warp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from jaxwarp.errors import KernelValueError
from jaxwarp.frontend.lowering.components import test_inside
from jaxwarp.frontend.lowering.frame import Frame
from jaxwarp.frontend.lowering.memory import loaded
from jaxwarp.frontend.lowering.values import Axis, ElementValue, NoArray, StructValue, StructView, Tile, View
from jaxwarp.ir import nodes as ir
from jaxwarp.types import int32

Indices = tuple[ir.Value, ...]


def element(frame: Frame, tile: Tile, indices: Indices) -> ElementValue | StructValue:
    """The place of an element, by indices that are not negative."""
    return _element_of(tile.storage, tile.place(frame, indices))


def _element_of(view: View | StructView, positions: Sequence[ir.Value]) -> Any:
    if isinstance(view, StructView):
        parts = (v if isinstance(v, NoArray) else _element_of(v, positions) for v in view.views)
        return StructValue(view.dtype, tuple(parts))
    return ElementValue(replace(view, axes=tuple(Axis(index=p) for p in positions)))


def load(frame: Frame, tile: Tile, indices: Indices) -> Any:
    return loaded(frame.builder, element(frame, tile, indices))


def arrays_of(view: View | StructView | NoArray) -> frozenset[ir.Param]:
    """The arrays that a tile lies in: of structs one for each field."""
    if isinstance(view, StructView):
        return frozenset().union(*(arrays_of(v) for v in view.views))
    return frozenset([view.param]) if isinstance(view, View) else frozenset()


def overlap(a: Tile, b: Tile) -> bool:
    """Return whether two tiles lie in one array."""
    return not arrays_of(a.storage).isdisjoint(arrays_of(b.storage))


def seen_as(tile: Tile, shape: tuple[int, ...], place: Callable[[Frame, Indices], Indices]) -> Tile:
    """The elements of a tile in other places; `place` gives those in its array."""
    return Tile(tile.storage, shape, place, tile.repeats)


def reshaped(tile: Tile, shape: tuple[int, ...]) -> Tile:
    """The same elements in row-major order, in another shape."""

    def place(frame: Frame, indices: Indices) -> Indices:
        flat = flat_index(frame, shape, indices)
        return tile.place(frame, split_index(frame, tile.shape, flat))

    return seen_as(tile, shape, place)


def flat_index(frame: Frame, shape: Sequence[int], indices: Indices) -> ir.Value:
    """Return the place of an element in row-major order."""
    result = indices[0]
    for extent, index in zip(shape[1:], indices[1:], strict=True):
        result = frame.ops.call("add", frame.ops.call("mul", result, extent), index)
    return result


def split_index(frame: Frame, shape: Sequence[int], flat: ir.Value) -> Indices:
    """The indices of the element that comes there in row-major order."""
    found: list[ir.Value] = []
    for extent in reversed(shape[1:]):
        found.append(frame.ops.call("mod", flat, extent) if extent > 1 else frame.constant(0, int32))
        flat = frame.ops.call("floordiv", flat, extent) if extent > 1 else flat
    return (flat, *reversed(found))


def in_place(_frame: Frame, indices: Indices) -> Indices:
    """The place of the elements of a tile that is its whole array."""
    return indices


def position(frame: Frame, tile: Tile, axis: int, index: Any) -> ir.Value:
    """An index along an axis of a tile; it counts from the end if it is negative."""
    known, extent = frame.known(index), tile.shape[axis]
    if isinstance(known, int) and not isinstance(known, bool):
        if not -extent <= known < extent:
            raise KernelValueError(
                f"index {known} is out of range: this axis of the tile has the extent {extent}",
                hint=f"indices go from 0 to {extent - 1}, or from -{extent} to -1",
            )
        return frame.constant(known % extent, int32)
    found = frame.index(index, "an index of a tile")
    found = frame.from_end(index, found, lambda: frame.constant(extent, int32))
    if tile.place is not in_place:  # what leaves a part may stay in the array
        size = frame.constant(extent, found.type)
        test_inside(frame, found, size, f"axis {axis} of a part or view of tile {tile.name}")
    return found
