"""Loops over the elements of tiles, and what is made by them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.frontend.lowering.components import known_slice
from jaxwarp.frontend.lowering.frame import Frame
from jaxwarp.frontend.lowering.memory import store_element
from jaxwarp.frontend.lowering.merge import taken_apart
from jaxwarp.frontend.lowering.structs import store_struct, stored_value
from jaxwarp.frontend.lowering.tiles.elements import Indices, element, in_place, load, overlap, position, seen_as
from jaxwarp.frontend.lowering.tiles.own_arrays import own_array, own_name
from jaxwarp.frontend.lowering.values import ElementValue, Slice, StructValue, Tile, describe, is_literal, type_of
from jaxwarp.ir import nodes as ir
from jaxwarp.types import int32


def allocate(frame: Frame, dtype: Any, shape: Sequence[int]) -> Tile:
    """A tile whose elements have no value yet."""
    storage = own_array(frame, own_name(frame, "tile"), dtype, tuple(shape), cleared=False)
    return Tile(storage, tuple(shape), in_place)


def filled(frame: Frame, shape: Sequence[int], value_at: Callable[[Indices], Any], dtype: Any = None) -> Tile:
    """A tile of what `value_at` gives at each place; of its type where `dtype` is None."""
    made: list[Tile] = [] if dtype is None else [allocate(frame, dtype, shape)]

    def body(indices: Indices) -> None:
        value = value_at(indices)
        if not made:
            value = frame.typed(value) if is_literal(value) else value
            if type_of(value) is None:
                raise KernelTypeError(
                    f"a tile cannot hold {describe(value)}", hint="it holds numbers, vectors, matrices or structs"
                )
            made.append(allocate(frame, type_of(value), shape))
        store(frame, made[0], indices, value)

    each(frame, shape, body)
    return made[0]


def copied(frame: Frame, tile: Tile) -> Tile:
    return filled(frame, tile.shape, lambda indices: load(frame, tile, indices), tile.dtype)


def require_distinct_elements(tile: Tile) -> Tile:
    """Checks a tile that is changed as a whole.

    Raises:
        KernelTypeError: it is broadcast.
    """
    if tile.repeats:
        raise KernelTypeError(
            f"{tile.type!r} is broadcast: several of its elements are one, and cannot be changed as if they were not",
            hint="change the tile that was broadcast, or a copy: t * 1.0",
        )
    return tile


def is_shared(frame: Frame, name: str, tile: Tile) -> bool:
    """Return whether another variable, of this function or of its caller, may have elements of a tile."""
    others = (value for other, value in frame.variables.items() if other != name)
    return _is_in(tile, others) or is_given(frame, tile)


def is_given(frame: Frame, tile: Tile) -> bool:
    """Return whether the caller has elements of a tile."""
    return _is_in(tile, frame.given)


def _is_in(tile: Tile, values: Iterable[Any]) -> bool:
    return any(overlap(tile, v) if isinstance(v, Tile) else isinstance(v, tuple) and _is_in(tile, v) for v in values)


def assign_tile(frame: Frame, target: Tile, source: Tile) -> None:
    """Stores the elements of a tile in another one of its shape, which may lie in the same array."""
    if source is target:
        return
    require_distinct_elements(target)
    if overlap(target, source):
        source = copied(frame, source)
    each(frame, target.shape, lambda indices: store(frame, target, indices, load(frame, source, indices)))


def joined(frame: Frame, sides: Sequence[Any], blocks: Sequence[list[ir.Op]]) -> tuple[Any, Any]:
    """The values of both sides of a condition, in which each two tiles are one: each side copies its own into it.

    Args:
        blocks: what the sides do; the copies come last.
    """
    a, b = sides
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        parts = [joined(frame, pair, blocks) for pair in zip(a, b, strict=True)]
        return tuple(x for x, _ in parts), tuple(y for _, y in parts)
    if not (isinstance(a, Tile) and isinstance(b, Tile)) or a is b or a.type != b.type:
        return a, b
    result = allocate(frame, a.dtype, a.shape)
    for side, block in zip(sides, blocks, strict=True):
        with frame.builder.block() as ops:
            assign_tile(frame, result, side)
        block.extend(ops)
    return result, result


def store(frame: Frame, tile: Tile, indices: Indices, value: Any) -> None:
    store_at(frame, element(frame, tile, indices), value)


def store_at(frame: Frame, place: ElementValue | StructValue, value: Any) -> None:
    """Stores a value where a place is: of structs, in each field.

    Raises:
        KernelTypeError: it has another type.
    """
    if isinstance(place, StructValue):
        store_struct(frame, place, value)
    else:
        store_element(frame.builder, place, stored_value(frame, place, value))


# Loops


def each(frame: Frame, shape: Sequence[int], body: Callable[[Indices], None]) -> None:
    """Runs `body` for all indices, the last axis fastest."""

    def step(indices: Indices, so_far: Any) -> Any:
        body(indices)
        return so_far

    sweep(frame, [(0, n) for n in shape], (), step)


def sweep(
    frame: Frame, ranges: Sequence[tuple[int, int]], value: Any, step: Callable[[Indices, Any], Any], *outer: ir.Value
) -> Any:
    """Runs `value = step(indices, value)` over ranges of indices, the last axis fastest; the last value.

    Axes of one index make no loop.
    """
    if not ranges:
        return step(outer, value)
    (start, stop), *rest = ranges
    first = frame.constant(start, int32)
    if stop - start == 1:
        return sweep(frame, rest, value, step, *outer, first)
    leaves, rebuild = taken_apart(value)

    def body(index: ir.Value, *carried: ir.Value) -> tuple[ir.Value, ...]:
        return taken_apart(sweep(frame, rest, rebuild(carried), step, *outer, index))[0]

    bounds = first, frame.constant(stop, int32), frame.constant(1, int32)
    return rebuild(frame.builder.for_(*bounds, leaves, body, over_tile=True))


def after_first(frame: Frame, shape: Sequence[int], value: Any, step: Callable[[Indices, Any], Any]) -> Any:
    """Runs `value = step(indices, value)` for all indices of a shape but the first ones."""
    for axis in range(len(shape) - 1, -1, -1):
        # The first index of the axes before this one, the others of this one, and all of those after it.
        ranges = [(0, 1)] * axis + [(1, shape[axis])] + [(0, n) for n in shape[axis + 1 :]]
        if shape[axis] > 1:
            value = sweep(frame, ranges, value, step)
    return value


def folded(frame: Frame, tile: Tile, combine: Callable[[Any, Any], Any]) -> Any:
    """`combine(... combine(combine(t[0], t[1]), t[2]) ...)` over all elements."""
    first = load(frame, tile, tuple(frame.constant(0, int32) for _ in tile.shape))
    return after_first(frame, tile.shape, first, lambda at, so_far: combine(so_far, load(frame, tile, at)))


# What users write


def indexed(frame: Frame, tile: Tile, indices: Sequence[Any]) -> Tile | ElementValue | StructValue:
    """`t[i, j]`: an element; of fewer indices than axes, and of slices, the part of the tile that they leave; and
    `t[:, rows]`, of a tile of indices, a copy of what they name.
    """
    count = len(tile.shape)
    if len(indices) > count:
        raise KernelTypeError(
            f"{tile.type!r} has {count} ax{'is' if count == 1 else 'es'}, got {len(indices)} indices",
            hint="of a tile of vectors, t[i][k] is a component",
        )
    if any(isinstance(i, Tile) for i in indices):
        return _gathered(frame, tile, indices)
    given = [*indices, *[Slice(None, None)] * (count - len(indices))]
    found = [_along(frame, tile, axis, i) for axis, i in enumerate(given)]
    fixed = tuple(axis for axis in found if not isinstance(axis, range))
    if len(fixed) == count:
        return element(frame, tile, fixed)

    def place(f: Frame, at: Indices) -> Indices:
        left = iter(at)
        return tile.place(f, tuple(_numbered(f, a, next(left)) if isinstance(a, range) else a for a in found))

    return seen_as(tile, tuple(len(axis) for axis in found if isinstance(axis, range)), place)


def _along(frame: Frame, tile: Tile, number: int, index: Any) -> ir.Value | range:
    """Return what an index names along an axis: one position, or the range of a slice."""
    if not isinstance(index, Slice):
        return position(frame, tile, number, index)
    extent = tile.shape[number]
    chosen = range(extent)[known_slice(frame, index, "a tile", "the shape of a tile is part of its type")]
    if not chosen:
        raise KernelValueError(
            f"a slice of {tile.type!r} has no elements: its axis has the extent {extent}",
            hint="write other bounds: every axis of a tile has an element",
        )
    return chosen


def _numbered(frame: Frame, axis: range, index: ir.Value) -> ir.Value:
    """The element of a slice that has a number."""
    scaled = index if axis.step == 1 else frame.ops.call("mul", index, frame.constant(axis.step, int32))
    return frame.ops.call("add", scaled, frame.constant(axis.start, int32)) if axis.start else scaled


def _gathered(frame: Frame, tile: Tile, indices: Sequence[Any]) -> Tile:
    through = [(axis, i) for axis, i in enumerate(indices) if isinstance(i, Tile)]
    whole = all(isinstance(i, Tile) or (isinstance(i, Slice) and i.start is i.stop is i.step is None) for i in indices)
    if len(through) != 1 or not whole:
        raise KernelTypeError(
            "beside a tile of indices there is only : for other axes", hint="take the part first: t[0:2][:, rows]"
        )
    ((axis, numbers),) = through
    if numbers.ndim != 1 or not getattr(numbers.dtype, "is_int", False):
        raise KernelTypeError(
            f"the tile of indices must have one axis, and integers, got {numbers.type!r}", hint="use dtype=int"
        )

    def value_at(at: Indices) -> Any:
        number = position(frame, tile, axis, load(frame, numbers, (at[axis],)))
        return load(frame, tile, (*at[:axis], number, *at[axis + 1 :]))

    return filled(frame, (*tile.shape[:axis], numbers.shape[0], *tile.shape[axis + 1 :]), value_at, tile.dtype)


def assign_part(frame: Frame, target: Tile, value: Any) -> None:
    """`t[i] = row`."""
    if not isinstance(value, Tile) or value.type != target.type:
        raise KernelTypeError(
            f"a part of the tile is {target.type!r}, got {describe(value)}",
            hint="assign a tile of this type, or write elements: an index for each axis",
        )
    assign_tile(frame, target, value)
