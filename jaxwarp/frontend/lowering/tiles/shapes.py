"""Other views of a tile: transposed, broadcast, reshaped, parts of it; and single elements.

All of them are the tile itself seen in another way: what is stored through one shows in the other, as in Warp.
"""

from __future__ import annotations

import ast
import math
from typing import Any

from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.frontend.lowering.calls import construct
from jaxwarp.frontend.lowering.components import extract
from jaxwarp.frontend.lowering.expressions import shape_tuple
from jaxwarp.frontend.lowering.frame import Frame
from jaxwarp.frontend.lowering.memory import loaded
from jaxwarp.frontend.lowering.tiles.arguments import (
    offsets,
    require_known,
    require_tile,
    require_type,
    shape_of_tile,
    tile_function,
)
from jaxwarp.frontend.lowering.tiles.elements import Indices, element, load, position, reshaped, seen_as
from jaxwarp.frontend.lowering.tiles.storage import assign_tile, filled, indexed, store_at
from jaxwarp.frontend.lowering.values import NoArray, NoValue, Tile, is_dynamic
from jaxwarp.frontend.lowering.views import known_extents
from jaxwarp.ir import nodes as ir
from jaxwarp.types import Struct, int32


@tile_function("tile_transpose(a: Tile) -> Tile", "A tile of two axes with the axes exchanged.")
def _transpose(_frame: Frame, _node: ast.Call, a: Any) -> Tile:
    return transposed(require_tile("tile_transpose: a", a, 2))


def transposed(tile: Tile) -> Tile:
    return seen_as(tile, tile.shape[::-1], lambda frame, at: tile.place(frame, at[::-1]))


@tile_function(
    "tile_broadcast(a: Tile, shape: tuple[int, ...]) -> Tile",
    "Repeat a tile along axes where its extent is 1, and along new leading axes, by NumPy's rules.",
)
def _broadcast(frame: Frame, _node: ast.Call, a: Any, shape: Any) -> Tile:
    tile, extents = require_tile("tile_broadcast: a", a), shape_of_tile(frame, "tile_broadcast", shape)
    new = len(extents) - tile.ndim
    if new < 0 or any(n not in (1, m) for n, m in zip(tile.shape, extents[new:], strict=True)):
        raise KernelValueError(
            f"tile_broadcast: {tile.type!r} cannot be broadcast to {extents}",
            hint="extents must be equal, from the last axis on, or 1 in the tile",
        )

    def place(frame: Frame, at: Indices) -> Indices:
        kept = zip(at[new:], tile.shape, strict=True)
        return tile.place(frame, tuple(i if n > 1 else frame.constant(0, int32) for i, n in kept))

    return Tile(tile.storage, extents, place, tile.repeats or math.prod(extents) > math.prod(tile.shape))


@tile_function(
    "tile_squeeze(t: Tile, axis: int | tuple[int, ...] = None) -> Tile",
    "Drop axes of extent 1: those in `axis`, or all of them.",
)
def _squeeze(frame: Frame, _node: ast.Call, t: Any, axis: Any) -> Tile:
    tile = require_tile("tile_squeeze: t", t)
    if axis is None or isinstance(axis, NoArray):
        dropped = {k for k, n in enumerate(tile.shape) if n == 1}
    else:
        given = axis if isinstance(axis, tuple) else (axis,)
        dropped = {_axis(frame, tile, value) for value in given}
    kept = [k for k in range(tile.ndim) if k not in dropped]
    if not kept:
        kept = [tile.ndim - 1]

    def place(frame: Frame, at: Indices) -> Indices:
        whole = [frame.constant(0, int32)] * tile.ndim
        for k, index in zip(kept, at, strict=True):
            whole[k] = index
        return tile.place(frame, tuple(whole))

    return seen_as(tile, tuple(tile.shape[k] for k in kept), place)


def _axis(frame: Frame, tile: Tile, value: Any) -> int:
    known = require_known(frame, "tile_squeeze: axis", value, int)
    if not -tile.ndim <= known < tile.ndim:
        raise KernelValueError(
            f"tile_squeeze: axis {known} is out of range for {tile.type!r}", hint=f"axes are 0 to {tile.ndim - 1}"
        )
    if tile.shape[known] != 1:
        raise KernelValueError(
            f"tile_squeeze: axis {known} of {tile.type!r} has the extent {tile.shape[known]}",
            hint="only axes of extent 1 can be left out",
        )
    return known % tile.ndim


@tile_function(
    "tile_reshape(t: Tile, shape: tuple[int, ...]) -> Tile",
    "The same elements in row-major order, in another shape. One extent may be -1.",
)
def _reshape(frame: Frame, _node: ast.Call, t: Any, shape: Any) -> Tile:
    tile = require_tile("tile_reshape: t", t)
    given = known_extents(
        frame, shape_tuple(frame, shape), "tile_reshape", "shape=(16, 16)", lambda n: n > 0 or n == -1
    )
    size, others = math.prod(tile.shape), math.prod(n for n in given if n > 0)
    filled_in = tuple(size // others if n == -1 else n for n in given)
    if given.count(-1) > 1 or math.prod(filled_in) != size:
        raise KernelValueError(
            f"tile_reshape: {tile.type!r} has {size} elements, {given} cannot hold them",
            hint="the product of the extents is the number of elements; one may be -1",
        )
    return reshaped(tile, shape_of_tile(frame, "tile_reshape", filled_in))


@tile_function(
    "tile_view(t: Tile, offset: int | tuple[int, ...], shape: int | tuple[int, ...] = None) -> Tile",
    "The part of a tile that begins at `offset` and has the shape `shape`. Without `shape`, `offset` has an index for "
    "each of the first axes, and the part has the remaining axes.",
)
def _view(frame: Frame, _node: ast.Call, t: Any, offset: Any, shape: Any) -> Tile:
    tile = require_tile("tile_view: t", t)
    given = shape_tuple(frame, offset)
    given = given if isinstance(given, tuple) else (given,)
    if shape is None or isinstance(shape, NoArray):
        if len(given) >= tile.ndim:
            raise KernelValueError(
                f"tile_view: {len(given)} offsets leave no axis of {tile.type!r}", hint="give a shape, or write t[i, j]"
            )
        found = indexed(frame, tile, given)
        assert isinstance(found, Tile)
        return found
    return part(frame, tile, given, shape_of_tile(frame, "tile_view", shape), "tile_view")


def part(frame: Frame, tile: Tile, offset: Any, shape: tuple[int, ...], name: str) -> Tile:
    """A part of a tile; where it begins may be known only when the kernel runs."""
    if len(shape) != tile.ndim:
        raise KernelTypeError(
            f"{name}: {tile.type!r} has {tile.ndim} axes, the part has {len(shape)}",
            hint="give an extent for each axis; tile_squeeze drops axes of extent 1",
        )
    starts = offsets(frame, name, offset, tile.ndim)
    for start, count, extent in zip(starts, shape, tile.shape, strict=True):
        known = frame.known(start)
        if (known is not None and not 0 <= known <= extent - count) or count > extent:
            raise KernelValueError(
                f"{name}: {count} elements from {known} on are not in an axis of extent {extent} of {tile.type!r}",
                hint="a part lies in the tile",
            )

    def place(frame: Frame, at: Indices) -> Indices:
        add = lambda start, i: i if frame.known(start) == 0 else frame.ops.call("add", start, i)  # noqa: E731
        return tile.place(frame, tuple(add(start, i) for start, i in zip(starts, at, strict=True)))

    return seen_as(tile, shape, place)


@tile_function(
    "tile_slice_indexed(t: Tile, indices: tuple[Any, ...]) -> Tile",
    "A copy of the elements `t[indices]`, where one of the indices is a tile of integers.",
)
def _slice_indexed(frame: Frame, _node: ast.Call, t: Any, indices: Any) -> Tile:
    tile = require_tile("tile_slice_indexed: t", t)
    found = indexed(frame, tile, indices if isinstance(indices, tuple) else (indices,))
    return require_tile("tile_slice_indexed: the result", found)


@tile_function(
    "tile_assign(dst: Tile, src: Tile, offset: int | tuple[int, ...] = None)",
    "Store `src` in `dst`, from `offset` on; without `offset`, from the first element on.",
)
def _assign(frame: Frame, _node: ast.Call, dst: Any, src: Any, offset: Any) -> type[NoValue]:
    target, source = require_tile("tile_assign: dst", dst), require_tile("tile_assign: src", src)
    if target.dtype != source.dtype:
        raise KernelTypeError(
            f"tile_assign: dst holds {target.dtype!r}, src {source.dtype!r}", hint="tile_astype(t, dtype) converts"
        )
    is_whole = offset is None or isinstance(offset, NoArray)
    assign_tile(frame, part(frame, target, None if is_whole else offset, source.shape, "tile_assign"), source)
    return NoValue


@tile_function("tile_astype(t: Tile, dtype: type) -> Tile", "Convert each element to another type.")
def _astype(frame: Frame, _node: ast.Call, t: Any, dtype: Any) -> Tile:
    tile, element_type = require_tile("tile_astype: t", t), require_type("tile_astype", dtype)
    if isinstance(element_type, Struct) or isinstance(tile.dtype, Struct):
        raise KernelTypeError(
            f"tile_astype: {tile.type!r} cannot be converted to {element_type!r}", hint="tile_map(f, t) makes structs"
        )
    return filled(
        frame, tile.shape, lambda at: construct(frame, element_type, [load(frame, tile, at)], {}), element_type
    )


# Elements


@tile_function(
    "tile_extract(a: Tile, *indices: int) -> Any",
    "The element `a[i, j]`. In a tile of vectors, one more index selects a component.",
)
def _extract(frame: Frame, _node: ast.Call, a: Any, indices: tuple[Any, ...]) -> Any:
    tile = require_tile("tile_extract: a", a)
    found = loaded(frame.builder, _element(frame, "tile_extract", tile, indices[: tile.ndim]))
    from_components = indices[tile.ndim :]
    if not from_components:
        return found
    return extract(frame, found, from_components)


def _element(frame: Frame, name: str, tile: Tile, indices: Any) -> Any:
    if len(indices) != tile.ndim:
        raise KernelTypeError(
            f"{name}: expected {tile.ndim} indices for {tile.type!r}, got {len(indices)}", hint="write t[i, j]"
        )
    return element(frame, tile, tuple(position(frame, tile, axis, i) for axis, i in enumerate(indices)))


@tile_function(
    "tile_scatter_add(a: Tile, *indices_value_has_value: Any, atomic: bool = True)",
    "Do `a[i, j] += value` if `has_value` is true. The arguments are `(a, i, j, value, has_value)`.",
)
def _scatter_add(
    frame: Frame, _node: ast.Call, a: Any, indices_value_has_value: tuple[Any, ...], atomic: Any
) -> type[NoValue]:
    require_known(frame, "tile_scatter_add: atomic", atomic, bool)
    _scattered(frame, "tile_scatter_add", a, indices_value_has_value, adds=True)
    return NoValue


@tile_function(
    "tile_scatter_masked(a: Tile, *indices_value_has_value: Any)",
    "Do `a[i, j] = value` if `has_value` is true. The arguments are `(a, i, j, value, has_value)`.",
)
def _scatter_masked(frame: Frame, _node: ast.Call, a: Any, indices_value_has_value: tuple[Any, ...]) -> type[NoValue]:
    _scattered(frame, "tile_scatter_masked", a, indices_value_has_value, adds=False)
    return NoValue


def _scattered(frame: Frame, name: str, a: Any, given: tuple[Any, ...], adds: bool) -> None:
    tile = require_tile(f"{name}: a", a)
    if len(given) != tile.ndim + 2:
        raise KernelTypeError(
            f"{name}: expected {tile.ndim} indices, a value and whether there is one, got {len(given)} arguments",
            hint=f"write {name}(t, i, value, True)",
        )
    *indices, value, has_value = given
    place = _element(frame, name, tile, indices)

    def scatter() -> tuple[ir.Value, ...]:
        new = frame.ops.binary("add", loaded(frame.builder, place), value) if adds and is_dynamic(value) else value
        store_at(frame, place, new)
        return ()

    test = frame.condition(has_value)
    if test is True:
        scatter()
    elif test is not False:
        frame.builder.if_(test, scatter)
