"""How many lanes a kernel's code has."""

from __future__ import annotations

import itertools
import math
import os

from jaxwarp.analysis.own_bytes import own_bytes
from jaxwarp.codegen.cpu.analysis.latency import is_latency_bound
from jaxwarp.codegen.cpu.analysis.pressure import busy_blocks, loops_gather, register_pressure
from jaxwarp.codegen.cpu.analysis.uniformity import Strides, find_strides
from jaxwarp.codegen.cpu.plan.target import Machine, host
from jaxwarp.errors import InternalError, KernelValueError
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Call, For, Load, Param, While, walk

WIDTH_VARIABLE = "JAXWARP_CPU_WIDTH"

# For the arrays of the threads' own, all lanes together. Beside them a frame has some 100 KiB. Some threads of XLA have
# a stack of 2 MiB (measured), others what `ulimit -s` says: 8 MiB mostly, 2 MiB where that is unlimited.
STACK_BYTES = 3 << 19

# Operations beyond which a kernel is long.
_LONG = 200


def choose_width(kernel: Kernel, machine: Machine | None = None) -> int:
    """Lanes for a kernel: two registers a value, so that two operations are in flight.

    Four in loops and sums that hold next to nothing, which would wait for the latency of the few operations they have,
    and where all loops are register-blocked, see `register_blocked.py`, and latency-bound.
    One where two registers a value, or a component of vectors, which are shuffled apart, would not fit the machine's;
    and for long kernels: they have parallel work enough. Where loops sum over lanes, twice as much may be held: a sum
    takes as long for two registers as for one. Of kernels that keep states of loops in arrays of their own,
    the innermost loops count, and a few values may be in memory as well. The loops count, too, where they gather; that
    keeps a core busy, so four are not better than two.

    Fewer where the arrays of the threads' own would not fit the stack.

    The environment variable JAXWARP_CPU_WIDTH overrides the choice.
    """
    given = os.environ.get(WIDTH_VARIABLE)
    if given:
        try:
            return require_width(int(given))
        except (ValueError, InternalError):
            raise KernelValueError(f"{WIDTH_VARIABLE} must be 1, 2, 4, 8, 16, 32 or 64, got {given!r}") from None
    machine = machine or host()
    lanes = machine.vector_bits // 32
    strides = find_strides(kernel, lanes)
    busy = busy_blocks(kernel, strides)
    results = [op.result for block in busy for op in walk(block) if isinstance(op, (Call, Load))]
    # One scalar serves all lanes of a uniform value.
    results = [v.type for v in results if not strides.is_uniform(v)]
    is_wide = 2 * sum(t.bits == 64 for t in results) > len(results)
    held = max(register_pressure(kernel, strides), sum(c for p in kernel.params if (c := _components(p)) > 1))
    room = machine.vector_registers * (3 if kernel.locals else 2) // 2
    fits = len(results) <= _LONG and (1 if _sums_in_loops(kernel, strides) else 2) * held <= room
    has_chains = any(isinstance(op, (For, While, Atomic)) for op in walk(kernel.body))
    is_light = 8 * held <= room and has_chains
    if len(results) <= _LONG and 4 * held <= 3 * room and not machine.has_mask_registers:
        is_light |= is_latency_bound(kernel, strides, 64 if is_wide else 32)
    if loops_gather(kernel, strides):
        is_light = False
    chosen = lanes * (4 if is_light else 2 if fits else 1) // (2 if is_wide else 1)
    while chosen > 1 and chosen * own_bytes(kernel) > STACK_BYTES:
        chosen //= 2
    return chosen


def require_width(width: int) -> int:
    """The width, if it is a power of two from 1 to 64."""
    if width not in (1, 2, 4, 8, 16, 32, 64):
        raise InternalError(f"vector width must be a power of two from 1 to 64, got {width}")
    return width


def _sums_in_loops(kernel: Kernel, strides: Strides) -> bool:
    """Are there floats to which all lanes add, one after the other?"""
    loops = (op for op in walk(kernel.body) if isinstance(op, (For, While)))
    inner = (op for loop in loops for block in loop.blocks for op in walk(block))
    return any(
        isinstance(op, Atomic) and op.kind == "add" and op.param.dtype.is_float and strides.is_uniform(*op.indices)
        for op in inner
    )


def _components(param: Param) -> int:
    """Elements per entry of an array of vectors or matrices: the product of the static extents at the end."""
    static = itertools.takewhile(lambda n: n is not None, reversed(param.shape))
    return math.prod(n or 0 for n in static) if None in param.shape else 1
