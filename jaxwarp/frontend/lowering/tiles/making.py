"""Tiles of constants, of ranges, of random numbers, and of the values of a thread."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxwarp.builtins.language.shown import OfInstances
from jaxwarp.builtins.language.values import Bundle
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.frontend.lowering.calls import construct
from jaxwarp.frontend.lowering.frame import Frame
from jaxwarp.frontend.lowering.intrinsics import INTRINSICS, provide
from jaxwarp.frontend.lowering.tiles.arguments import (
    in_library,
    require_known,
    require_tile,
    require_type,
    shape_of_tile,
    text_or,
    tile_function,
)
from jaxwarp.frontend.lowering.tiles.elements import load, reshaped
from jaxwarp.frontend.lowering.tiles.storage import allocate, filled, store
from jaxwarp.frontend.lowering.values import (
    BARE_NAMES,
    Intrinsic,
    NoArray,
    StructValue,
    Tile,
    describe,
    is_dynamic,
    is_literal,
    type_of,
)
from jaxwarp.frontend.text.annotations import tile_type
from jaxwarp.ir import nodes as ir
from jaxwarp.ir.kernel import LaneUse
from jaxwarp.types import Array, Mat, Scalar, Struct, TileType, Vec, float32, int32


def zero(frame: Frame, dtype: Any) -> Any:
    """The zero of a type; fields of structs that are arrays are not there."""
    if isinstance(dtype, Struct):
        fields = (NoArray(f.type, f.name) if isinstance(f.type, Array) else zero(frame, f.type) for f in dtype.fields)
        return StructValue(dtype, tuple(fields))
    return frame.constant(0, dtype) if isinstance(dtype, Scalar) else frame.ops.construct(dtype, ())


@tile_function(
    'tile_zeros(shape: int | tuple[int, ...], dtype: type = float, storage: str = "register") -> Tile',
    "A tile of zeros.",
)
def _zeros(frame: Frame, _node: ast.Call, shape: Any, dtype: Any, name: str = "tile_zeros") -> Tile:
    element = _type(name, dtype)
    return filled(frame, shape_of_tile(frame, name, shape), lambda _: zero(frame, element), element)


@tile_function(
    'tile_empty(shape: int | tuple[int, ...], dtype: type = float, storage: str = "register") -> Tile',
    "A tile that you will fill. It is zero until then.",
)
def _empty(frame: Frame, node: ast.Call, shape: Any, dtype: Any) -> Tile:
    return _zeros(frame, node, shape, dtype, "tile_empty")


@tile_function(
    'tile_ones(shape: int | tuple[int, ...], dtype: type = float, storage: str = "register") -> Tile',
    "A tile of ones.",
)
def _ones(frame: Frame, _node: ast.Call, shape: Any, dtype: Any) -> Tile:
    element = _type("tile_ones", dtype)
    one = _converted(frame, "tile_ones", element, 1)
    return filled(frame, shape_of_tile(frame, "tile_ones", shape), lambda _: one, element)


@tile_function(
    'tile_full(shape: int | tuple[int, ...], value: Any, dtype: type = None, storage: str = "register") -> Tile',
    "A tile in which every element is `value`.",
)
def _full(frame: Frame, _node: ast.Call, shape: Any, value: Any, dtype: Any) -> Tile:
    held = _value(frame, "tile_full", value)
    if not (dtype is None or isinstance(dtype, NoArray)):
        element = require_type("tile_full", dtype)
        held = held if type_of(held) == element else _converted(frame, "tile_full", element, value)
    return filled(frame, shape_of_tile(frame, "tile_full", shape), lambda _: held)


@tile_function(
    'tile_from_thread(shape: int | tuple[int, ...], value: Any, thread_idx: int, storage: str = "register") -> Tile',
    "A tile in which every element is this thread's `value`. A block is one thread, so `thread_idx` must be 0.",
)
def _from_thread(frame: Frame, _node: ast.Call, shape: Any, value: Any, thread_idx: Any) -> Tile:
    if require_known(frame, "tile_from_thread: thread_idx", thread_idx, int) != 0:
        raise KernelValueError(
            f"tile_from_thread: there is no thread {frame.known(thread_idx)}: a block is one thread",
            hint="write thread_idx=block_dim() - 1, say",
        )
    held = _value(frame, "tile_from_thread", value)
    return filled(frame, shape_of_tile(frame, "tile_from_thread", shape), lambda _: held)


def _type(name: str, dtype: Any) -> Any:
    return float32 if isinstance(dtype, str) else require_type(name, dtype)


def _value(frame: Frame, name: str, value: Any) -> Any:
    if not (is_dynamic(value) or isinstance(value, StructValue)):
        raise KernelTypeError(
            f"{name}: value is {text_or(value)}", hint="a tile holds numbers, vectors, matrices or structs"
        )
    return frame.typed(value) if is_literal(value) else value


def _converted(frame: Frame, name: str, dtype: Any, value: Any) -> Any:
    if isinstance(dtype, Struct):
        if isinstance(value, StructValue) and value.type == dtype:
            return value
        raise KernelTypeError(f"{name}: {dtype!r} cannot be made of {describe(value)}", hint="use tile_full(value=...)")
    return construct(frame, dtype, [value], {})


# Ranges


@tile_function(
    'tile_arange(*args: Int, dtype: type = None, storage: str = "register") -> Tile',
    "A tile of `start, start + step, ...`, ending before `stop`. Pass `(stop)`, `(start, stop)` or `(start, stop, "
    "step)`, as constants of the kernel.",
)
def _arange(frame: Frame, _node: ast.Call, args: tuple[Any, ...], dtype: Any) -> Tile:
    if not 1 <= len(args) <= 3:
        raise KernelTypeError(
            f"tile_arange: expected 1 to 3 numbers, got {len(args)}", hint="write tile_arange(start, stop, step)"
        )
    known = [frame.known(v) if isinstance(v, ir.Value) or is_literal(v) else None for v in args]
    for value, number in zip(args, known, strict=True):
        if number is None or isinstance(number, bool):
            raise KernelTypeError(
                f"tile_arange: bounds must be numbers that are known before the kernel runs, got {text_or(value)}",
                hint="write constants, or static(...)",
            )
    given = [n for n in known if n is not None]
    start, stop, step = (0, given[0], 1) if len(given) == 1 else (*given, 1)[:3]
    is_given = not (dtype is None or isinstance(dtype, NoArray))
    element = require_type("tile_arange", dtype) if is_given else _arange_type(args, given)
    if not isinstance(element, Scalar) or not (element.is_int or element.is_float):
        raise KernelTypeError(f"tile_arange: dtype must be a type of numbers, got {element!r}", hint="write dtype=int")
    start, step, count = _progression(element, start, stop, step)
    first, by = frame.constant(start, element), frame.constant(step, element)

    def number_at(at: tuple[ir.Value, ...]) -> Any:
        index = frame.ops.cast_scalar(element, at[0])
        return frame.ops.binary("add", first, frame.ops.binary("mul", index, by))

    return filled(frame, (count,), number_at, element)


def _arange_type(args: Sequence[Any], given: Sequence[float]) -> Scalar:
    typed = [v.type for v in args if isinstance(v, ir.Value)]
    if typed:
        return typed[0]
    return int32 if all(isinstance(n, int) for n in given) else float32


def _progression(dtype: Scalar, start: Any, stop: Any, step: Any) -> tuple[Any, Any, int]:
    """The first number, the step, and how many numbers there are, of the bounds as the type holds them."""
    held = []
    for name, value in (("start", start), ("stop", stop), ("step", step)):
        if dtype.is_int and value != int(value):
            raise KernelValueError(
                f"tile_arange: {name}={value} is no integer, and {dtype!r} holds integers", hint="write dtype=float"
            )
        held.append(int(value) if dtype.is_int else _rounded(dtype, name, value))
    start, stop, step = held
    if step == 0:
        raise KernelValueError("tile_arange: step cannot be zero", hint="leave it out: it is 1")
    # The quotient is rounded as the type rounds: (0.3 - 0) / 0.1 is 3 in each.
    count: float = -((start - stop) // step) if dtype.is_int else _ceiling(dtype, (stop - start) / step)
    if count <= 0:
        raise KernelValueError(
            f"tile_arange: expected a non-empty range, got {start} to {stop} by {step}", hint="a tile has elements"
        )
    low, high = dtype_limits(dtype)
    for name, value in (("start", start), ("stop", start + (count - 1) * step)):
        if dtype.is_int and not low <= value <= high:
            raise KernelValueError(
                f"tile_arange: {name}={held[0] if name == 'start' else stop} is out of range of {dtype!r}",
                hint="write dtype=wp.int64",
            )
    if count >= 2**31:
        raise KernelValueError(
            f"tile_arange: {start} to {stop} by {step} spans more elements than can be counted", hint="a larger step"
        )
    return start, step, int(count)


def _rounded(dtype: Scalar, name: str, value: float) -> float:
    """A bound as a float type holds it."""
    is_wide = isinstance(value, int) and -(2**63) <= value < 2**63
    with np.errstate(over="ignore"):
        result = float(dtype.numpy.type(np.int64(value) if is_wide else float(value)))
    if not math.isfinite(result):
        raise KernelValueError(f"tile_arange: {name}={value} is infinite as {dtype!r}", hint="write smaller bounds")
    return result


def _ceiling(dtype: Scalar, quotient: float) -> float:
    with np.errstate(over="ignore"):
        rounded = float(dtype.numpy.type(quotient))
    # What is too small for the type is not nothing.
    return math.inf if rounded == math.inf else max(math.ceil(rounded), int(quotient > 0))


def dtype_limits(dtype: Scalar) -> tuple[int, int]:
    """The smallest and largest integer of a type."""
    if dtype.is_signed:
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    return 0, (1 << dtype.bits) - 1


# Values of the thread


@provide("block_dim", "block_dim() -> int", "The number of threads that share a tile. It is always 1.")
def _block_dim(frame: Frame, node: ast.Call) -> ir.Value:
    if node.args or node.keywords:
        raise KernelTypeError("block_dim: expected no arguments", hint="write block_dim()")
    _name_lanes(frame, node, "block_dim()")
    return frame.constant(1, int32)


def _name_lanes(frame: Frame, node: ast.Call, what: str) -> None:
    frame.context.lanes.append(LaneUse(what, frame.loc(node)))


@tile_function(
    "tile(x: Any, preserve_type: bool = False) -> Tile",
    "A tile of this thread's value, because a block is one thread. A number gives shape (1,), a vector of n components "
    "(n, 1), an m x n matrix (m, n, 1). With `preserve_type` the shape is always (1,).",
)
def _tile(frame: Frame, node: ast.Call, x: Any, preserve_type: Any) -> Tile:
    _name_lanes(frame, node, "tile(x)")
    value = _value(frame, "tile", x)
    if require_known(frame, "tile: preserve_type", preserve_type, bool) or not isinstance(value, Bundle):
        return filled(frame, (1,), lambda _: value)
    result = allocate(frame, value.type.dtype, (*value.type.shape, 1))
    constants = [frame.constant(n, int32) for n in range(max(value.type.shape))]
    columns = value.type.shape[1] if len(value.type.shape) == 2 else 0
    for k, component in enumerate(value.values):
        at = (constants[k // columns], constants[k % columns]) if columns else (constants[k],)
        store(frame, result, (*at, constants[0]), component)
    return result


@tile_function(
    "untile(a: Tile) -> Any",
    "The value of which `tile` made the tile.",
)
def _untile(frame: Frame, node: ast.Call, a: Any) -> Any:
    _name_lanes(frame, node, "untile(a)")
    tile = require_tile("untile: a", a)
    if tile.shape[-1] != 1 or tile.ndim > 3:
        raise KernelValueError(
            f"untile: {tile.type!r} is no tile of one value for each thread of a block, which is one thread",
            hint="the last axis is that of threads: its extent is 1",
        )
    constants = [frame.constant(n, int32) for n in range(max(tile.shape))]
    if tile.ndim == 1:
        return load(frame, tile, (constants[0],))
    if not isinstance(tile.dtype, Scalar):
        raise KernelTypeError(f"untile: expected a tile of numbers, got {tile.type!r}", hint="write t[i]")
    if tile.ndim == 2:
        values = [load(frame, tile, (c, constants[0])) for c in constants[: tile.shape[0]]]
        return Bundle(Vec(tile.shape[0], tile.dtype), tuple(values))
    rows, columns = tile.shape[:2]
    values = [load(frame, tile, (r, c, constants[0])) for r in constants[:rows] for c in constants[:columns]]
    return Bundle(Mat(rows, columns, tile.dtype), tuple(values))


class TileFunction(Intrinsic):
    """`tile`: in kernels a function; outside of them `tile[float, 16, 16]`, `tile(dtype=float, shape=(16, 16))` and,
    of any shape, `tile[float]` annotate arguments of a `@func`."""

    __doc__ = OfInstances(lambda self: f"{self.signature}\n\n{self.doc}", __doc__)  # pyright: ignore

    def __getitem__(self, parameters: Any) -> TileType:
        dtype, *extents = parameters if isinstance(parameters, tuple) and parameters else (parameters,)
        if dtype == ():
            raise KernelTypeError("tile[...]: expected a type and extents, got none", hint="write tile[float, 16, 16]")
        if len(extents) == 1 and isinstance(extents[0], (tuple, list)):
            extents = list(extents[0])
        return tile_type(dtype, extents or Any)


made = INTRINSICS["tile"]
INTRINSICS["tile"] = BARE_NAMES["tile"] = TileFunction(made.name, made.doc, made.signature, tile_type)


# Random numbers


def _random(name: str, function: str, element: Scalar, what: str) -> None:
    @tile_function(
        f"{name}(shape: int | tuple[int, ...], rng: uint32, min: Any = None, max: Any = None,"
        ' storage: str = "register") -> Tile',
        f"A tile of {what}. They are drawn in order from the state `rng`, which does not advance.",
    )
    def _lower(frame: Frame, node: ast.Call, shape: Any, rng: Any, min: Any, max: Any) -> Tile:  # noqa: A002
        extents = shape_of_tile(frame, name, shape)
        bounds = [v for v in (min, max) if not (v is None or isinstance(v, NoArray))]
        if len(bounds) == 1:
            raise KernelTypeError(f"{name}: expected min and max, or none of them", hint="write min=0, max=10")
        numbers = allocate(frame, element, (math.prod(extents),))
        in_library(frame, node, f"{function}_bounded" if bounds else function, numbers, rng, *bounds)
        return reshaped(numbers, extents)


_random("tile_randi", "drawn_randi", int32, "random integers, from `min` to `max - 1` if you pass these")
_random("tile_randf", "drawn_randf", float32, "random numbers from 0 to 1, or from `min` to `max`")
