"""A thread's number divided by a small constant: row and column of threads in short rows, see passes/flatten.py.

With lane 0's number n, lane l has (n + l) % c = (n % c + l) % c, and (n + l) / c = n / c + (n % c + l) / c. The last
terms are W neighbours of a table of c + W - 1 numbers.
"""

from __future__ import annotations

from jaxwarp.codegen.cpu.llvm.lanes import Lanes
from jaxwarp.ir.nodes import Call
from jaxwarp.types import int32

_MOST = 64  # a table is of a few lines


def thread_part(lanes: Lanes, op: Call) -> str | None:
    """The vector of a quotient or remainder of the index along the axis of lanes; None of anything else."""
    name = op.builtin.name
    if name not in ("div", "floordiv", "mod") or op.result.type is not int32 or lanes.width == 1:
        return None
    thread, divisor = op.args
    # An operand that has a wider one is a thread index: not negative, and no lane wraps.
    if lanes.strides.of[thread] != 1 or lanes.scalar(thread) not in lanes.widened or lanes.strides.of[divisor] != 0:
        return None
    constant = lanes.constant(divisor)
    if constant is None or not 1 < constant <= _MOST:
        return None
    inst, number, vector = lanes.function.inst, lanes.scalar(thread), lanes.many.type(int32)
    length = constant + lanes.width - 1
    entries = [k % constant if name == "mod" else k // constant for k in range(length)]
    table = f"@thread_{'column' if name == 'mod' else 'row'}.{constant}.{lanes.width}"
    text = ", ".join(f"i32 {entry}" for entry in entries)
    lanes.function.declare(f"{table} = private constant [{length} x i32] [{text}], align 64")
    first = inst(f"urem i32 {number}, {constant}")
    place = inst(f"getelementptr i32, ptr {table}, i64 {inst(f'zext i32 {first} to i64')}")
    part = inst(f"load {vector}, ptr {place}, align 4")
    if name == "mod":
        return part
    row = lanes.splat("i32", inst(f"udiv i32 {number}, {constant}"))
    return inst(f"add {vector} {row}, {part}")
