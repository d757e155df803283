"""`range(...)`: its bounds, and how many iterations it makes."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from jaxwarp import types
from jaxwarp.errors import KernelSyntaxError, KernelTypeError, KernelValueError
from jaxwarp.frontend.lowering.frame import Frame
from jaxwarp.frontend.lowering.values import Host, describe
from jaxwarp.ir import nodes as ir
from jaxwarp.types import Scalar, int32


def range_bounds(frame: Frame, node: ast.For) -> tuple[Any, Any, Any]:
    call = node.iter
    callee = frame.evaluate(call.func) if isinstance(call, ast.Call) else None
    if not isinstance(call, ast.Call) or not (isinstance(callee, Host) and callee.value is range):
        with frame.at(call):
            raise KernelSyntaxError("a for loop goes over range(...)", hint=_range_hint(node, callee))
    with frame.at(call):
        if call.keywords or not 1 <= len(call.args) <= 3 or any(isinstance(a, ast.Starred) for a in call.args):
            raise KernelTypeError(
                f"range: expected 1 to 3 arguments, got {len(call.args) + len(call.keywords)}",
                hint="write range(stop), range(start, stop) or range(start, stop, step)",
            )
    values = [frame.value(a, "range") for a in call.args]
    for value, argument in zip(values, call.args, strict=True):
        with frame.at(argument):
            integer = isinstance(value, int) or (isinstance(value, ir.Value) and value.type.is_int)
            if not integer or isinstance(value, bool):
                raise KernelTypeError(f"range: expected integers, got {describe(value)}", hint="convert with int(...)")
    if len(values) == 3 and frame.known(values[2]) == 0:
        with frame.at(call.args[2]):
            raise KernelValueError(
                "range: the step must not be zero", hint="write a step of 1 or more, or of -1 or less to count down"
            )
    match values:
        case [stop]:
            return 0, stop, 1
        case [start, stop]:
            return start, stop, 1
        case _:
            return values[0], values[1], values[2]


def _range_hint(node: ast.For, callee: Any) -> str:
    """What to write instead of a loop over something else."""
    match callee:
        case Host(value=value) if value is reversed:
            return "count down: for i in range(n - 1, -1, -1):"
        case Host(value=value) if value is enumerate or value is zip:
            return "count: for i in range(n):, and read a[i] and b[i] in the loop"
        case _ if not isinstance(node.iter, ast.Call):
            text = ast.unparse(node.iter)
            return f"for i in range(len({text})):, and read {text}[i] in the loop"
        case _:
            return "for i in range(n):"


def index_type(bounds: Sequence[Any]) -> Scalar:
    types = list(dict.fromkeys(b.type for b in bounds if isinstance(b, ir.Value)))
    if len(types) > 1:
        raise KernelTypeError(
            f"range: the arguments have types {' and '.join(map(repr, types))}", hint="convert them to one type"
        )
    return types[0] if types else int32


def trip_count(frame: Frame, start: ir.Value, stop: ir.Value, step: ir.Value) -> ir.Value:
    """The number of iterations, in an unsigned type, where the differences of the bounds cannot overflow."""
    call = frame.ops.call
    dtype = start.type
    unsigned: Scalar = getattr(types, f"uint{dtype.bits}")
    low, high, width = (frame.ops.cast_scalar(unsigned, v) for v in (start, stop, step))

    def iterations(a: ir.Value, b: ir.Value, by: ir.Value) -> ir.Value:
        return call("add", call("div", call("sub", call("sub", b, a), 1), by), 1)

    upward = call("select", call("lt", start, stop), iterations(low, high, width), 0)
    if not dtype.is_signed:
        return call("select", call("gt", step, 0), upward, 0)
    downward = call("select", call("gt", start, stop), iterations(high, low, call("neg", width)), 0)
    downward = call("select", call("lt", step, 0), downward, 0)
    return call("select", call("gt", step, 0), upward, downward)
