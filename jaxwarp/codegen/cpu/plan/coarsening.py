"""The choice of kernels that get a body for several rows of threads, and of its rows and lanes.

`passes/coarsen.py` makes the body. It is worth its code where a loop that all rows run alike loads or computes much
that is the same for them. An example is the naive product of matrices: each vector of `b` then serves as many products
as there are rows. The number of rows follows from the registers: a value that differs between rows takes one for each
row, a shared value takes one. The saving is an estimate, see body_cost.py.

Gradients of such kernels add where the kernels load. They add values that differ between lanes (to `b`) once for all
rows, and values that lanes share (to `a`) once for each row. Sums over the lanes of four rows are made at once, see
lane_sums.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxwarp.codegen.cpu.analysis.pressure import register_pressure
from jaxwarp.codegen.cpu.analysis.speculation import is_cheap
from jaxwarp.codegen.cpu.analysis.uniformity import Strides, find_strides
from jaxwarp.codegen.cpu.plan.body_cost import BodyCost, is_adjacent
from jaxwarp.codegen.cpu.plan.prices import HELD, WORTH
from jaxwarp.codegen.cpu.plan.target import Machine
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, For, If, Store, Tell, Value, While, walk
from jaxwarp.ir.rows import adds_once, find_differing
from jaxwarp.passes.pipeline import coarse
from jaxwarp.types import float32, float64

# More rows are more left over at the end, and gain little: each has loads of its own.
_MOST_ROWS = 8
# Two registers a value where that is as good, as in other bodies; one holds more rows.
_REGISTERS = (2, 1)
# Operations of a body: what LLVM takes grows with them.
_MOST_OPERATIONS = 300
# Where sums over lanes are made: as many rows as are summed at once; more registers a value, of which all but the first
# are added to that before.
_MOST_SUMMED_ROWS, _SUMMED_REGISTERS = 4, (4, 2, 1)


@dataclass(frozen=True)
class Coarse:
    """A body for several rows.

    Attributes:
        rows: how many.
        width: lanes.
        kernel: of which a thread does what those of `rows` rows do.
        strides: of its values.
    """

    rows: int
    width: int
    kernel: Kernel
    strides: Strides


def choose_coarse(
    kernel: Kernel, strides: Strides, width: int, machine: Machine, extent: int | None = None
) -> Coarse | None:
    """The body for several rows, if there is one that pays.

    Args:
        kernel: as it is emitted.
        strides: of its values.
        width: lanes of the body for one row; that for several has no more.
        machine: what the code is shaped for.
        extent: how many rows there are, if that is known: a multiple of those that a body does, if it can be.
    """
    if width == 1 or any(isinstance(op, Tell) for op in walk(kernel.body)):
        return None
    differing = find_differing(kernel)
    if not _is_plain(kernel, strides, differing):
        return None
    sums = any(isinstance(op, Atomic) and strides.is_uniform(*op.indices) for op in walk(kernel.body))
    if not all(any(i in differing for i in op.indices) for op in walk(kernel.body) if isinstance(op, Store)):
        return None  # rows that write to the same elements
    cost = BodyCost(kernel, strides, machine, differing)
    least, best = WORTH * cost.of(width / cost.lanes), None
    most = _MOST_SUMMED_ROWS if sums else _MOST_ROWS
    for registers in _SUMMED_REGISTERS if sums else _REGISTERS:
        if registers * cost.lanes > width or cost.of(registers, most) >= least:
            continue
        # A register is for what all lanes share.
        room = int((machine.vector_registers - 1) * (HELD if sums else 1) / registers)
        found = _fitting(kernel, differing, registers * cost.lanes, room, most, extent)
        if found is not None and cost.of(registers, found.rows) < least:
            least, best = cost.of(registers, found.rows), found
    return best


def _is_plain(kernel: Kernel, strides: Strides, differing: frozenset[Value]) -> bool:
    """Rows of threads that run loops together, and touch nothing but what they load and store."""
    ops = list(walk(kernel.body))
    if kernel.grid_rank < 2 or kernel.locals or not any(isinstance(op, (For, While)) for op in ops):
        return False
    if 2 * len(ops) > _MOST_OPERATIONS:
        return False
    for op in ops:
        match op:
            case Atomic() if not _is_sum(op, strides, differing):
                return False
            case For() | While() if not strides.has_uniform_trips(op):
                return False
            case If() if not strides.is_uniform(op.condition) and not all(is_cheap(b) for b in op.blocks):
                return False
            case _:
                pass
    return True


def _is_sum(op: Atomic, strides: Strides, differing: frozenset[Value]) -> bool:
    """Does a vector of lanes, or what they or rows make together, go to floats, in no order that is seen?"""
    is_unseen = op.kind == "add" and op.param.dtype in (float32, float64) and op.result not in strides.used
    is_vector = strides.is_uniform(*op.indices) or is_adjacent(op, strides)
    return is_unseen and (is_vector or adds_once(op, differing, strides.used))


def _fitting(
    kernel: Kernel, differing: frozenset[Value], lanes: int, room: int, most: int, extent: int | None
) -> Coarse | None:
    """The body for as many rows as hold no more than `room` vectors, `most` at most."""

    def of(rows: int) -> tuple[Coarse, int]:
        made = coarse(kernel, rows, differing)
        strides = find_strides(made, lanes)
        return Coarse(rows, lanes, made, strides), register_pressure(made, strides)

    least, held_by_two = of(2)
    # Each row holds one vector at least. Bodies of rows that do not fit take the longest to make.
    rows = min(most, _MOST_OPERATIONS // sum(1 for _ in walk(kernel.body)), 2 + room - held_by_two)
    while rows > 2:
        found, held = of(rows)
        if held <= room:
            even = max(n for n in range(1, rows + 1) if (extent or rows) % n == 0)
            return of(even)[0] if rows // 2 < even < rows else found
        own = max(1, (held - held_by_two) // (rows - 2))
        rows = min(rows - 1, 2 + (room - held_by_two) // own)
    return least if rows == 2 and held_by_two <= room else None
