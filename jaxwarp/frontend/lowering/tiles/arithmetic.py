"""Operators on tiles, `tile_map`, and what makes one value of a tile: sums, extrema, reductions, scans."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from jaxwarp.builtins.language.functions import FUNCTIONS
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.frontend.lowering.calls import call
from jaxwarp.frontend.lowering.frame import Frame
from jaxwarp.frontend.lowering.tiles.arguments import require_known, require_tile, text_or, tile_function
from jaxwarp.frontend.lowering.tiles.elements import Indices, flat_index, load, overlap
from jaxwarp.frontend.lowering.tiles.storage import (
    after_first,
    allocate,
    copied,
    each,
    filled,
    folded,
    require_distinct_elements,
    store,
    sweep,
)
from jaxwarp.frontend.lowering.values import (
    NoValue,
    StructValue,
    StructView,
    Tile,
    TileStack,
    View,
    describe,
    is_dynamic,
)
from jaxwarp.ir import nodes as ir
from jaxwarp.types import Aggregate, Struct, int32

# Operators


def tile_operator(frame: Frame, name: str, operands: Sequence[Any]) -> Tile:
    """An operator of tiles, element by element; numbers, vectors and matrices meet each element."""
    shape = _common_shape(name, operands)
    if name == "matmul" and all(isinstance(v, Tile) for v in operands):
        raise KernelTypeError(
            "@ of two tiles: its meaning is not clear", hint="write tile_matmul(a, b), or a * b, which Warp means"
        )
    apply = frame.ops.unary if len(operands) == 1 else frame.ops.binary
    return filled(frame, shape, lambda at: apply(name, *(_at(frame, v, at) for v in operands)))


def update_tile(frame: Frame, tile: Tile, name: str, value: Any) -> None:
    """`t += x`: in place, so that all who have the tile see it, as in Warp."""
    _common_shape(name, [tile, value])
    require_distinct_elements(tile)
    if isinstance(value, Tile) and value is not tile and overlap(tile, value):
        value = copied(frame, value)

    def step(at: Indices) -> None:
        store(frame, tile, at, frame.ops.binary(name, load(frame, tile, at), _at(frame, value, at)))

    each(frame, tile.shape, step)


def _at(frame: Frame, value: Any, indices: Indices) -> Any:
    return load(frame, value, indices) if isinstance(value, Tile) else value


def _common_shape(name: str, operands: Sequence[Any]) -> tuple[int, ...]:
    tiles = [v for v in operands if isinstance(v, Tile)]
    for tile in tiles[1:]:
        if tile.shape != tiles[0].shape:
            raise KernelTypeError(
                f"{name}: tiles of different shapes: {tiles[0].type!r} and {tile.type!r}",
                hint="tile_broadcast(t, shape) repeats one along axes",
            )
    for value in operands:
        if not (isinstance(value, Tile | StructValue) or is_dynamic(value)):
            raise KernelTypeError(
                f"{name}: expected a tile or a value, got {text_or(value)}", hint="an operand is a tile or a number"
            )
    return tiles[0].shape


# Maps


@tile_function(
    "tile_map(op: Callable, a: Tile, *args: Any) -> Tile",
    "Apply `op` to each element: `op(a[i], b[i], ...)`. An argument that is not a tile is the same in every call.",
)
def _map(frame: Frame, node: ast.Call, op: Any, a: Any, args: tuple[Any, ...]) -> Tile:
    _require_function("tile_map", op)
    require_tile("tile_map: a", a)
    shape = _common_shape("tile_map", [a, *args])
    return filled(
        frame, shape, lambda at: _applied(frame, node, "tile_map", op, [_at(frame, v, at) for v in (a, *args)])
    )


def _require_function(name: str, op: Any) -> None:
    if is_dynamic(op) or isinstance(op, Tile | TileStack | View | StructView | StructValue | tuple):
        raise KernelTypeError(
            f"{name}: op must be a function of the kernel language, got {text_or(op)}", hint="write a @func"
        )


def _applied(frame: Frame, node: ast.Call, name: str, op: Any, args: list[Any]) -> Any:
    result = call(frame, node, op, args, {})
    if isinstance(result, type) and issubclass(result, NoValue):
        raise KernelTypeError(f"{name}: {describe(op)} returns nothing", hint="end the function with return")
    return result


# One value of many


def _one(frame: Frame, value: Any) -> Tile:
    """A tile of one element."""
    return filled(frame, (1,), lambda _: value)


def _along(frame: Frame, name: str, tile: Tile, axis: Any, combine: Callable[[Any, Any], Any]) -> Tile:
    """Combines what differs only in its index along an axis."""
    known = require_known(frame, f"{name}: axis", axis, int)
    if not -tile.ndim <= known < tile.ndim:
        raise KernelValueError(
            f"{name}: axis {known} is out of range for {tile.type!r}", hint=f"axes are 0 to {tile.ndim - 1}"
        )
    k = known % tile.ndim
    shape = (*tile.shape[:k], *tile.shape[k + 1 :]) or (1,)

    def combined(at: Indices) -> Any:
        at = at if tile.ndim > 1 else ()
        first = load(frame, tile, (*at[:k], frame.constant(0, int32), *at[k:]))
        step = lambda inner, so_far: combine(so_far, load(frame, tile, (*at[:k], *inner, *at[k:])))  # noqa: E731
        return after_first(frame, (tile.shape[k],), first, step)

    return filled(frame, shape, combined, tile.dtype)


def _reduced(frame: Frame, name: str, a: Any, axis: Any, combine: Callable[[Any, Any], Any]) -> Tile:
    tile = require_tile(f"{name}: a", a)
    return _one(frame, folded(frame, tile, combine)) if axis is None else _along(frame, name, tile, axis, combine)


@tile_function(
    "tile_reduce(op: Callable, a: Tile, axis: int = None) -> Tile",
    "Combine all elements into a tile of one element: `op(op(a[0], a[1]), a[2])` and so on. With `axis`, combine along "
    "that axis only.",
)
def _reduce(frame: Frame, node: ast.Call, op: Any, a: Any, axis: Any) -> Tile:
    _require_function("tile_reduce", op)
    return _reduced(frame, "tile_reduce", a, axis, lambda x, y: _applied(frame, node, "tile_reduce", op, [x, y]))


@tile_function(
    "tile_sum(a: Tile, axis: int = None) -> Tile",
    "The sum of all elements, as a tile of one element. With `axis`, sums along that axis.",
)
def _sum(frame: Frame, _node: ast.Call, a: Any, axis: Any) -> Tile:
    return _reduced(frame, "tile_sum", a, axis, lambda x, y: frame.ops.binary("add", x, y))


@tile_function("tile_min(a: Tile) -> Tile", "The smallest element, as a tile of one element.")
def _min(frame: Frame, _node: ast.Call, a: Any) -> Tile:
    return _extremum(frame, "tile_min", "lt", a)


@tile_function("tile_max(a: Tile) -> Tile", "The largest element, as a tile of one element.")
def _max(frame: Frame, _node: ast.Call, a: Any) -> Tile:
    return _extremum(frame, "tile_max", "gt", a)


def _extremum(frame: Frame, name: str, better: str, a: Any) -> Tile:
    _require_numbers(name, require_tile(f"{name}: a", a))
    return _one(frame, _best(frame, a, better)[0])


@tile_function(
    "tile_argmin(a: Tile) -> Tile", "The index of the first smallest element in row-major order, as a tile of one int."
)
def _argmin(frame: Frame, _node: ast.Call, a: Any) -> Tile:
    return _arg(frame, "tile_argmin", "lt", a)


@tile_function(
    "tile_argmax(a: Tile) -> Tile", "The index of the first largest element in row-major order, as a tile of one int."
)
def _argmax(frame: Frame, _node: ast.Call, a: Any) -> Tile:
    return _arg(frame, "tile_argmax", "gt", a)


def _arg(frame: Frame, name: str, better: str, a: Any) -> Tile:
    tile = require_tile(f"{name}: a", a)
    _require_numbers(name, tile)
    return _one(frame, _best(frame, tile, better)[1])


def _best(frame: Frame, tile: Tile, better: str) -> tuple[ir.Value, ir.Value]:
    """The smallest or largest element, and where the first such one is. NaNs count where all are NaN."""
    zero = frame.constant(0, int32)

    def step(at: Indices, so_far: Any) -> Any:
        (value, where), new = so_far, load(frame, tile, at)
        test = _is_better(frame, better, new, value)
        return frame.ops.select(test, new, value), frame.ops.select(test, flat_index(frame, tile.shape, at), where)

    return after_first(frame, tile.shape, (load(frame, tile, (zero,) * tile.ndim), zero), step)


def _is_better(frame: Frame, better: str, new: ir.Value, old: ir.Value) -> ir.Value:
    """Return whether a number replaces the best one so far. A NaN replaces nothing, and every number replaces a NaN."""
    test = frame.typed(frame.ops.compare(better, new, old))
    if not new.type.is_float:
        return test
    was_nan, is_number = frame.ops.compare("ne", old, old), frame.ops.compare("eq", new, new)
    return frame.ops.call("logical_or", test, frame.ops.call("logical_and", was_nan, is_number))


def _require_numbers(name: str, tile: Tile) -> None:
    if isinstance(tile.dtype, Aggregate | Struct):
        raise KernelTypeError(
            f"{name}: expected a tile of numbers, got {tile.type!r}", hint="tile_map(f, t) makes one of components"
        )


@tile_function(
    "tile_dot(a: Tile, b: Tile) -> Tile",
    "The sum of the products of corresponding elements, as a tile of one element. Vectors are multiplied by `dot`, "
    "matrices by `ddot`.",
)
def _dot(frame: Frame, _node: ast.Call, a: Any, b: Any) -> Tile:
    first, second = require_tile("tile_dot: a", a), require_tile("tile_dot: b", b)
    _common_shape("tile_dot", [first, second])
    inner = "dot" if isinstance(first.dtype, Aggregate) and len(first.dtype.shape) == 1 else None
    inner = "ddot" if isinstance(first.dtype, Aggregate) and inner is None else inner

    def product(at: Indices) -> Any:
        x, y = load(frame, first, at), load(frame, second, at)
        return FUNCTIONS[inner].expand(frame.ops, x, y) if inner else frame.ops.binary("mul", x, y)

    start = product((frame.constant(0, int32),) * first.ndim)
    return _one(
        frame, after_first(frame, first.shape, start, lambda at, so_far: frame.ops.binary("add", so_far, product(at)))
    )


@tile_function("tile_axpy(alpha: Any, src: Tile, dest: Tile)", "Add `alpha * src` to `dest`, in place.")
def _axpy(frame: Frame, _node: ast.Call, alpha: Any, src: Any, dest: Any) -> type[NoValue]:
    source, target = require_tile("tile_axpy: src", src), require_tile("tile_axpy: dest", dest)
    if not is_dynamic(alpha):
        raise KernelTypeError(f"tile_axpy: alpha must be a number, got {text_or(alpha)}", hint="dest += alpha * src")
    update_tile(frame, target, "add", tile_operator(frame, "mul", [alpha, source]))
    return NoValue


# Scans


def _scan(name: str, doc: str, combine: Callable[[Frame, Any, Any], Any], exclusive: bool = False) -> None:
    @tile_function(f"{name}(a: Tile) -> Tile", doc)
    def _lower(frame: Frame, _node: ast.Call, a: Any) -> Tile:
        tile = require_tile(f"{name}: a", a)
        _require_numbers(name, tile)
        result = allocate(frame, tile.dtype, tile.shape)
        first = (frame.constant(0, int32),) * tile.ndim
        start = frame.constant(0, tile.dtype) if exclusive else load(frame, tile, first)
        if not exclusive:
            store(frame, result, first, start)

        def step(at: Indices, so_far: Any) -> Any:
            after = combine(frame, so_far, load(frame, tile, at))
            store(frame, result, at, so_far if exclusive else after)
            return after

        if exclusive:
            sweep(frame, [(0, n) for n in tile.shape], start, step)
        else:
            after_first(frame, tile.shape, start, step)
        return result


def _added(frame: Frame, x: Any, y: Any) -> Any:
    return frame.ops.binary("add", x, y)


def _smaller(frame: Frame, x: Any, y: Any) -> Any:
    return frame.ops.select(_is_better(frame, "lt", y, x), y, x)


def _larger(frame: Frame, x: Any, y: Any) -> Any:
    return frame.ops.select(_is_better(frame, "gt", y, x), y, x)


_scan("tile_scan_inclusive", "Running sums in row-major order: element k is the sum up to and including k.", _added)
_scan("tile_scan_exclusive", "Running sums in row-major order: element k is the sum before k.", _added, exclusive=True)
_scan("tile_scan_min_inclusive", "Running minima in row-major order, each including its element.", _smaller)
_scan("tile_scan_max_inclusive", "Running maxima in row-major order, each including its element.", _larger)
