"""The number of lanes of a kernel's code."""

from __future__ import annotations

import os

from jaxwarp.analysis.own_bytes import own_bytes
from jaxwarp.codegen.cpu.analysis.uniformity import find_strides
from jaxwarp.codegen.cpu.plan.body_cost import BodyCost
from jaxwarp.codegen.cpu.plan.target import Machine, host
from jaxwarp.errors import InternalError, KernelValueError
from jaxwarp.ir.kernel import Kernel

WIDTH_VARIABLE = "JAXWARP_CPU_WIDTH"

# For the arrays of the threads' own, all lanes together. The largest are on the heap, see llvm/own_memory.py; no more
# than this stays in the caches of one core.
OWN_BYTES = 3 << 19

# More registers than one are not worth it where the arrays of all lanes take more: products and sums of tiles take 1.5
# to 3 times as long with four (128 KiB and more). The states of a reverse sweep (85 KiB) are worth four.
_NEAR_BYTES = 96 << 10

_REGISTERS = (0.5, 1, 2, 4)


def choose_width(kernel: Kernel, machine: Machine | None = None) -> int:
    """Lanes for a kernel: the registers of them that cost least; fewer where the threads' arrays are large.

    The environment variable JAXWARP_CPU_WIDTH overrides the choice.
    """
    given = os.environ.get(WIDTH_VARIABLE)
    if given:
        try:
            return require_width(int(given))
        except (ValueError, InternalError):
            raise KernelValueError(f"{WIDTH_VARIABLE} must be 1, 2, 4, 8, 16, 32 or 64, got {given!r}") from None
    return fitting_width(kernel, machine or host())


def fitting_width(kernel: Kernel, machine: Machine) -> int:
    """Return the lanes that cost least, whatever the environment says."""
    cost = BodyCost(kernel, find_strides(kernel, machine.vector_bits // 32), machine)
    chosen = int(cost.lanes * min(_REGISTERS, key=cost.of))
    own = own_bytes(kernel)
    while (chosen > cost.lanes and chosen * own > _NEAR_BYTES) or (chosen > 1 and chosen * own > OWN_BYTES):
        chosen //= 2
    return chosen


def register_lanes(kernel: Kernel, machine: Machine) -> int:
    """Return the number of elements in a vector register, for the widest type that the kernel reads or writes."""
    return machine.vector_bits // max((p.dtype.bits for p in kernel.params if p.dtype.bits > 32), default=32)


def require_width(width: int) -> int:
    """The width, if it is a power of two from 1 to 64."""
    if width not in (1, 2, 4, 8, 16, 32, 64):
        raise InternalError(f"vector width must be a power of two from 1 to 64, got {width}")
    return width
