"""Kernels that do little but move data: where their arrays are larger than the caches, chunks of them are whole lines.

The width of a body is chosen by registers, see `choose_width`. A kernel that reads and writes many arrays holds many
values, gets one register for each, and a chunk of it is half a line of each array (AVX2: 32 of 64 bytes). What it
stores can then not be streamed (streaming.py); and where many arrays begin at one offset in a page, which is so for
arrays that a system call has mapped each, their lines share a set of the first cache, and half a line is gone when the
other half is asked for. So at two registers a value it takes half to three quarters of the time, though half of them
spill; but only where memory is what it waits for: out of the second cache it takes a tenth to a fifth longer.
"""

from __future__ import annotations

from jaxwarp.codegen.cpu.analysis.streamed import streamed
from jaxwarp.codegen.cpu.analysis.uniformity import find_strides
from jaxwarp.codegen.cpu.plan.cost import price_of
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Call, Const, Load, Size, Store, Tid

# Operations for each array element loaded or stored. Measured up to 4: two registers take 0.8 of the time.
_MOST_OPERATIONS = 4


def moves_data(kernel: Kernel) -> bool:
    """Whether the threads of a kernel move adjacent elements, in a straight line, compute little, and may stream."""
    strides, moved, work = find_strides(kernel, 2), 0, 0.0
    for op in kernel.body.ops:
        match op:
            case Load() | Store():
                steps = [strides.of[i] for i in op.indices]
                if any(step != 0 for step in steps):
                    if steps != [0] * (len(steps) - 1) + [1]:
                        return False
                    moved += 1
            case Call():
                work += price_of(op)
            case Atomic():
                if any(strides.of[i] != 0 for i in op.indices):
                    return False
            case Const() | Tid() | Size():
                pass
            case _:
                return False
    return bool(streamed(kernel)) and work <= _MOST_OPERATIONS * moved
