"""The count of numbers in a range or a slice whose bounds and step are computed at run time."""

from __future__ import annotations

from jaxwarp import types
from jaxwarp.frontend.lowering.frame import Frame
from jaxwarp.ir import nodes as ir
from jaxwarp.types import Scalar


def trip_count(frame: Frame, start: ir.Value, stop: ir.Value, step: ir.Value) -> ir.Value:
    """Return how many numbers there are: none for a step of 0.

    The count is computed in an unsigned type, where the differences of the bounds cannot overflow.
    """
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
