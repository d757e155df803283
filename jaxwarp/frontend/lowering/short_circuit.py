"""`and`, `or`: the right side is not evaluated where the left one decides, unless nobody could tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from jaxwarp.frontend.lowering.frame import Frame
from jaxwarp.ir import nodes as ir
from jaxwarp.types import bool_

# More operations than this are worth a branch.
_CHEAP = 16


def is_cheap(ops: Sequence[ir.Op]) -> bool:
    """Few operations, without loads, effects or control flow: computing them needlessly does no harm."""
    return len(ops) <= _CHEAP and all(isinstance(op, (ir.Const, ir.Call, ir.Tid, ir.Size)) for op in ops)


def joined_condition(
    frame: Frame, first: bool | ir.Value, second: Callable[[], bool | ir.Value], kind: Literal["and", "or"]
) -> bool | ir.Value:
    """`first and second()` or `first or second()`."""
    decided = kind == "or"
    if isinstance(first, bool):
        return first if first is decided else second()
    with frame.builder.block() as ops:
        value = second()
        right = frame.typed(value)
    if is_cheap(ops):
        if value is (not decided):
            return first
        for op in ops:
            frame.builder.append(op)
        return frame.ops.call(f"logical_{kind}", first, right)
    constant = frame.builder.const(decided, bool_)
    result = ir.Value(bool_)
    taken, other = ir.Block((), tuple(ops), (right,)), ir.Block((), (), (constant,))
    then, orelse = (other, taken) if decided else (taken, other)
    frame.builder.append(ir.If((result,), first, then, orelse, loc=frame.builder.loc))
    return result
