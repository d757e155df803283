"""`and`, `or`, `a if c else b`: a side is not evaluated where the condition decides, unless nobody could tell.

Tests of indices (`INSIDE`) do not count, since release mode has none: where both sides are computed they are under the
condition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from jaxwarp.frontend.lowering.frame import Frame
from jaxwarp.frontend.lowering.merge import Merged, unify
from jaxwarp.ir import nodes as ir
from jaxwarp.types import bool_

# More operations than this are worth a branch.
_CHEAP = 16


@dataclass(frozen=True, eq=False)
class Side:
    """One side of a condition: its value, the operations that evaluate it, and the variables that these advance."""

    value: Any
    ops: list[ir.Op]
    advanced: dict[str, Any]

    @property
    def is_cheap(self) -> bool:
        """Few operations, without loads, effects or control flow: computing them needlessly does no harm."""
        ops, _ = _apart(self.ops)
        pure = all(isinstance(op, (ir.Const, ir.Call, ir.Tid, ir.Size)) for op in ops)
        return len(ops) <= _CHEAP and pure and not self.advanced


def aside(frame: Frame, evaluate: Callable[[], Any]) -> Side:
    """Evaluates without appending; the variables stay as they are."""
    before = frame.variables
    frame.variables = dict(before)
    with frame.builder.block() as ops:
        value = evaluate()
    after, frame.variables = frame.variables, before
    return Side(value, ops, {n: v for n, v in after.items() if v is not before.get(n)})


def branch(frame: Frame, test: ir.Value, then: Side, orelse: Side, values: Merged) -> Any:
    """The value of the side that the condition chooses; variables are then as that side leaves them."""
    names = list(dict.fromkeys((*then.advanced, *orelse.advanced)))
    pairs = [(then.advanced.get(n, frame.variables[n]), orelse.advanced.get(n, frame.variables[n])) for n in names]
    merged = [values, *(unify(frame, a, b) for a, b in pairs)]
    results = tuple(ir.Value(v.type) for m in merged for v in m.left)
    blocks = (
        ir.Block((), tuple(then.ops), tuple(v for m in merged for v in m.left)),
        ir.Block((), tuple(orelse.ops), tuple(v for m in merged for v in m.right)),
    )
    frame.builder.append(ir.If(results, test, *blocks, loc=frame.builder.loc))
    remaining = iter(results)
    value, *variables = [m.rebuild([next(remaining) for _ in m.left]) for m in merged]
    frame.variables = frame.variables | dict(zip(names, variables, strict=True))
    return value


def joined_condition(
    frame: Frame, first: bool | ir.Value, second: Callable[[], bool | ir.Value], kind: Literal["and", "or"]
) -> bool | ir.Value:
    """`first and second()` or `first or second()`."""
    decided = kind == "or"
    if isinstance(first, bool):
        return first if first is decided else second()
    known: list[bool | ir.Value] = []

    def evaluate() -> ir.Value:
        known.append(second())
        return frame.typed(known[0])

    with frame.assuming(first, not decided):
        side = aside(frame, evaluate)
    none = Side(None, [], {})
    if side.is_cheap:
        if known[0] is (not decided):
            return first
        append_both(frame, first, *((none, side) if decided else (side, none)))
        return frame.ops.call(f"logical_{kind}", first, side.value)
    other = Side(frame.builder.const(decided, bool_), [], {})
    sides = (other, side) if decided else (side, other)
    return branch(frame, first, *sides, unify(frame, sides[0].value, sides[1].value))


def append_both(frame: Frame, test: ir.Value, then: Side, orelse: Side) -> None:
    """Appends the operations of two cheap sides, of which a condition chooses one."""
    (then_ops, then_tests), (else_ops, else_tests) = _apart(then.ops), _apart(orelse.ops)
    append(frame, (*then_ops, *else_ops))
    if then_tests or else_tests:
        blocks = ir.Block((), tuple(then_tests), ()), ir.Block((), tuple(else_tests), ())
        frame.builder.append(ir.If((), test, *blocks, loc=frame.builder.loc))


def _apart(ops: Sequence[ir.Op]) -> tuple[list[ir.Op], list[ir.Op]]:
    """Operations, and those that only test, or choose between tests, with the extents that only they have."""
    extents = {op.args[1] for op in ops if isinstance(op, ir.Tell) and op.kind == ir.INSIDE}
    kept: list[ir.Op] = []
    tests: list[ir.Op] = []
    for op in ops:
        is_extent = isinstance(op, ir.Const) and op.result in extents
        (tests if is_extent or _only_tests(op) else kept).append(op)
    return kept, tests


def _only_tests(op: ir.Op) -> bool:
    if isinstance(op, ir.If):
        inside = [inner for block in op.blocks for inner in block.ops]
        return not op.results and all(isinstance(inner, ir.Const) or _only_tests(inner) for inner in inside)
    return isinstance(op, ir.Tell) and op.kind == ir.INSIDE


def append(frame: Frame, ops: Sequence[ir.Op]) -> None:
    """Appends operations that were set aside."""
    for op in ops:
        frame.builder.append(op)
