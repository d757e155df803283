"""Copies of arrays that a launch adds to at places that no piece of it has for itself, and when they are worth it.

A gather's gradient is a scatter: an atomic for every thread, 5 ns, unless who runs is alone: 1.7 ns. A piece that has a
copy of the array is alone with it. One piece adds to the array itself; every other one fills its copy with what changes
nothing, adds to that, and at the end the copies are added to the array, in order. So sums of floats depend on how many
pieces there are, but not on which one comes first; all else is exact.

Copies take memory: no more than a quarter of what the launch has anyway, or 64 KiB each. They take time, too: each is
filled, read and added. That is weighed here, in the units of prices.py, and again where the number of threads is known
(Plan::Copies in native/launch.h): many threads with atomics may be faster than few pieces without.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jaxwarp.analysis.effects import analyze
from jaxwarp.codegen.cpu.plan.cost import price_of_thread, without_few
from jaxwarp.codegen.cpu.plan.prices import COPIED_BYTE
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Param, Value

# Copies are at most this part of the bytes of all other buffers of the launch, or take so many bytes each: what a piece
# adds to then stays in the second cache.
_MEMORY, _SMALL = 4, 1 << 16
# Each begins on a line of its own.
_LINE = 64
_MOST_COPIES = 63
_MOST = 1 << 62  # of any number here


def arrays_to_copy(kernel: Kernel, contended: Collection[Atomic], used: Collection[Value]) -> frozenset[Param]:
    """The arrays of `contended`, if all of them are only added to; else none. `used`: values that are read."""
    effects, params = analyze(kernel), frozenset(op.param for op in contended)
    for param in params:
        access = effects[param]
        if access.loads or access.stores or any(op.kind != "add" or op.result in used for op in access.atomics):
            return frozenset()
    return params


@dataclass(frozen=True)
class Copies:
    """Copies that a launch gets.

    Attributes:
        count: how many.
        size: bytes of one, of all arrays together.
        alone: what the launch takes by itself, without atomics.
        atomic: what it takes with them.
        copy: what a copy adds to that.
    """

    count: int
    size: int
    alone: int
    atomic: int
    copy: int

    def pays(self, threads: int) -> bool:
        """Return whether so many threads are faster with copies, as Plan::Copies::Pieces of the native library does."""
        time = self.alone // min(threads, self.count + 1) + self.copy
        return threads > 1 and time < self.alone and time < self.atomic // threads


def prices_without_copies(
    kernel: Kernel,
    contended: Collection[Atomic],
    summed: Collection[Atomic],
    extents: Mapping[Param, Sequence[Any]],
) -> tuple[float, float] | None:
    """Return what a thread costs with atomics that copies would spare it, and without; None: there are no such atomics.

    Args:
        kernel: the kernel.
        contended: its atomics that need copies.
        summed: those of them that do not where their arrays are of few elements.
        extents: of its arrays.
    """
    contended = without_few(contended, summed, extents)
    return price_of_thread(kernel, contended, summed, extents) if contended else None


def choose_copies(
    prices: tuple[float, float],
    sizes: Sequence[int],
    memory: int,
    launched: int,
    pool: int,
) -> Copies | None:
    """Copies for a launch; None where they do not pay, or would take too much memory.

    Args:
        prices: what a thread costs with atomics, and without (`prices_without_copies`).
        sizes: bytes of each array that is copied.
        memory: bytes of all buffers of the launch.
        launched: how many threads the launch has.
        pool: by how many threads of execution it may be run here.
    """
    size = sum(-(-n // _LINE) * _LINE for n in sizes)
    fitting = pool - 1 if size <= _SMALL else memory // _MEMORY // size
    count = min(pool - 1, fitting, _MOST_COPIES)
    if size == 0 or count < 1:
        return None
    atomic, alone = (min(int(launched * price), _MOST) for price in prices)
    found = Copies(count, size, alone, atomic, size * COPIED_BYTE)
    return found if any(map(found.pays, range(2, pool + 1))) else None
