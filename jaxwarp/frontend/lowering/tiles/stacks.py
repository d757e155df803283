"""Stacks of the threads of a block, which is one thread."""

from __future__ import annotations

import ast
from typing import Any

from jaxwarp.errors import KernelTypeError
from jaxwarp.frontend.lowering.frame import Frame
from jaxwarp.frontend.lowering.merge import taken_apart
from jaxwarp.frontend.lowering.tiles.arguments import require_known, require_type, shape_of_tile, text_or, tile_function
from jaxwarp.frontend.lowering.tiles.elements import load
from jaxwarp.frontend.lowering.tiles.making import zero
from jaxwarp.frontend.lowering.tiles.storage import allocate, filled, store
from jaxwarp.frontend.lowering.values import NoValue, TileStack
from jaxwarp.ir import nodes as ir
from jaxwarp.types import int32


@tile_function("tile_stack(capacity: int, dtype: type) -> TileStack", "An empty stack for up to `capacity` values.")
def _stack(frame: Frame, _node: ast.Call, capacity: Any, dtype: Any) -> TileStack:
    size = require_known(frame, "tile_stack: capacity", capacity, int)
    shape = shape_of_tile(frame, "tile_stack", size)
    values = allocate(frame, require_type("tile_stack", dtype), shape)
    return TileStack(values, filled(frame, (1,), lambda _: frame.constant(0, int32)))


def _require_stack(name: str, value: Any) -> TileStack:
    if not isinstance(value, TileStack):
        raise KernelTypeError(f"{name}: s must be a stack, got {text_or(value)}", hint="tile_stack(capacity, dtype)")
    return value


def _count(frame: Frame, stack: TileStack) -> ir.Value:
    return load(frame, stack.count, (frame.constant(0, int32),))


def _set_count(frame: Frame, stack: TileStack, count: ir.Value) -> None:
    store(frame, stack.count, (frame.constant(0, int32),), count)


@tile_function(
    "tile_stack_push(s: TileStack, value: Any, has_value: bool) -> int",
    "Push a value if `has_value` is true and the stack is not full. Returns its index, or -1.",
)
def _push(frame: Frame, _node: ast.Call, s: Any, value: Any, has_value: Any) -> ir.Value:
    stack = _require_stack("tile_stack_push", s)
    count, capacity = _count(frame, stack), stack.values.shape[0]
    test = frame.condition(has_value)
    fits = frame.ops.call("logical_and", frame.typed(test), frame.ops.call("lt", count, capacity))

    def push() -> tuple[ir.Value, ...]:
        store(frame, stack.values, (count,), value)
        _set_count(frame, stack, frame.ops.call("add", count, 1))
        return ()

    frame.builder.if_(fits, push)
    return frame.ops.call("select", fits, count, -1)


@tile_function(
    "tile_stack_pop(s: TileStack) -> tuple[Any, int]",
    "Pop the last value. Returns it and its index, or zero and -1 if the stack is empty.",
)
def _pop(frame: Frame, _node: ast.Call, s: Any) -> tuple[Any, ir.Value]:
    stack = _require_stack("tile_stack_pop", s)
    where = frame.ops.call("sub", _count(frame, stack), 1)
    empty = zero(frame, stack.values.dtype)
    leaves, rebuild = taken_apart(empty)

    def pop() -> tuple[ir.Value, ...]:
        _set_count(frame, stack, where)
        return taken_apart(load(frame, stack.values, (where,)))[0]

    return rebuild(frame.builder.if_(frame.ops.call("ge", where, 0), pop, lambda: leaves)), where


@tile_function("tile_stack_clear(s: TileStack)", "Removes all values from a stack.")
def _clear(frame: Frame, _node: ast.Call, s: Any) -> type[NoValue]:
    _set_count(frame, _require_stack("tile_stack_clear", s), frame.constant(0, int32))
    return NoValue


@tile_function("tile_stack_count(s: TileStack) -> int", "The number of values on a stack.")
def _stack_count(frame: Frame, _node: ast.Call, s: Any) -> ir.Value:
    return _count(frame, _require_stack("tile_stack_count", s))
