"""A record of what atomics on integers return, made by the launch that is differentiated.

    old = atomic_add count[w], 1   ->   old = atomic_add count[w], 1       the recorder, which is launched once
    store y[old], v                     store count_seen0[t], old

                                   ->   old = load count_seen0[t]          the kernel that derivatives are made of
                                        store y[old], v

What such an atomic returns depends on the order of threads, and so does what a plain load of the same array sees. So
every access to the array belongs to the recorder, and the kernel has the values that these accesses found. A record has
an axis for each axis of the grid, and one for each loop around the access.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jaxwarp.analysis.integers.trips import Trips
from jaxwarp.deep import with_deep_stack
from jaxwarp.errors import DifferentiationError
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Const, For, Load, Op, Param, Store, Value, While
from jaxwarp.ir.rewrite import Rewriter
from jaxwarp.passes.launches.tells import silent
from jaxwarp.types import Scalar
from jaxwarp.vjp.activity import Activity, used_values
from jaxwarp.vjp.forward.thread_order import deciding_atomics
from jaxwarp.vjp.replay import has_replays
from jaxwarp.vjp.reverse.residuals import Iteration, iteration_of, number_iterations
from jaxwarp.vjp.unread import without_unread

# Bytes of all records of a launch.
LIMIT = 1 << 32


@dataclass(frozen=True, eq=False)
class Seen:
    """The record of what one access found.

    Attributes:
        access: a load, or an atomic whose result is used.
        iterations: of the loops around it, the outermost first.
        param: the record: the axes of the grid, then one for each of these loops.
    """

    access: Load | Atomic
    iterations: tuple[Iteration, ...]
    param: Param


@dataclass(frozen=True, eq=False)
class HandedOut:
    """A kernel split in two. The records are the last parameters of each of the three kernels.

    Attributes:
        source: the kernel.
        arrays: the parameters that atomics update whose results matter.
        recorder: does to these arrays what the source does, and writes the records.
        everything: does all that the source does, and writes the records. The other two say nothing.
        kernel: does all the rest, and reads the records.
        seen: the records.
    """

    source: Kernel
    arrays: frozenset[int]
    recorder: Kernel
    everything: Kernel
    kernel: Kernel
    seen: tuple[Seen, ...]

    def shapes(self, grid: Sequence[Any], given: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
        """Return the shapes of the records in a launch whose parameters have the shapes `given`."""
        trips = Trips(self.source, grid, dict(zip(self.source.params, given, strict=True)))
        found: list[tuple[Any, ...]] = []
        size = 0
        for seen in self.seen:
            counts = [iteration.most(trips) for iteration in seen.iterations]
            if None in counts:
                raise _uncounted(seen.access, seen.iterations[counts.index(None)].loop)
            shape: tuple[Any, ...] = (*grid, *counts)
            if all(isinstance(n, (int, np.integer)) for n in shape):
                size += math.prod(shape) * seen.param.dtype.numpy.itemsize
            if size > LIMIT:
                raise _too_large(seen.access, size)
            found.append(shape)
        return found


@with_deep_stack
def split_handed_out(kernel: Kernel, wanted: Collection[int]) -> HandedOut | None:
    """Split a kernel in which atomics on integers decide what moves, or where it goes.

    The result is None if there are none.

    Args:
        kernel: one whose rounding is fixed.
        wanted: positions of the parameters by which it is to be differentiated.

    Raises:
        DifferentiationError: such an access is in a loop whose iterations nothing counts, with its line.
    """
    activity = Activity(kernel, [kernel.params[i] for i in wanted])
    deciding = deciding_atomics(kernel, activity, used_values(kernel))
    arrays = {op.param for op in deciding if not op.param.dtype.is_float} - set(kernel.locals)
    if not arrays or has_replays(kernel):
        return None
    seen = _find(kernel, arrays)
    records = tuple(s.param for s in seen)
    noted = _Noting(seen).block(kernel.body)
    everything = replace(kernel, params=(*kernel.params, *records), body=noted)
    rest = replace(everything, name=f"{kernel.name}_replayed", body=_Reading(arrays, seen).block(kernel.body))
    return HandedOut(
        kernel,
        frozenset(kernel.params.index(p) for p in arrays),
        replace(without_unread(silent(everything), {*records, *arrays}), name=f"{kernel.name}_seen"),
        everything,
        silent(rest),
        tuple(seen),
    )


def _find(kernel: Kernel, arrays: Collection[Param]) -> list[Seen]:
    used, counters = used_values(kernel), Trips(kernel).counters
    found: list[Seen] = []

    def visit(block: Block, around: tuple[tuple[For | While, Block], ...]) -> None:
        for op in block.ops:
            if isinstance(op, (Load, Atomic)) and op.param in arrays and op.result in used:
                iterations = [iteration_of(loop, inner, counters) for loop, inner in around]
                if None in iterations:
                    raise _uncounted(op, around[iterations.index(None)][0])
                shape = (None,) * (kernel.grid_rank + len(iterations))
                record = Param(f"{op.param.name}_seen{len(found)}", op.param.dtype, shape)
                found.append(Seen(op, tuple(it for it in iterations if it is not None), record))
            for inner in op.blocks:
                visit(inner, (*around, (op, inner)) if isinstance(op, (For, While)) else around)

    visit(kernel.body, ())
    return found


class _Placing(Rewriter):
    def __init__(self, seen: Sequence[Seen]):
        super().__init__()
        self.seen: Mapping[Op, Seen] = {s.access: s for s in seen}

    def place(self, seen: Seen) -> tuple[Value, ...]:
        """Emit the indices of a thread's own place in a record."""
        builder = Builder(self.scopes)
        builder.loc = seen.access.loc
        rank = seen.param.rank - len(seen.iterations)
        threads = [builder.tid(axis) for axis in range(rank)]
        return (*threads, *number_iterations(self.call, self.const, seen.iterations, self.value))

    def const(self, value: int, dtype: Scalar) -> Value:
        result = Value(dtype)
        self.emit(Const(result, value))
        return result


class _Noting(_Placing):
    """Adds stores to the records."""

    def op(self, op: Op) -> None:
        self.copy(op)
        seen = self.seen.get(op)
        if seen is not None:
            found = self.value(seen.access.result)
            self.emit(Store(seen.param, self.place(seen), found, loc=op.loc))


class _Reading(_Placing):
    """Replaces all accesses to the arrays by loads of the records."""

    def __init__(self, arrays: Collection[Param], seen: Sequence[Seen]):
        super().__init__(seen)
        self.arrays = arrays

    def op(self, op: Op) -> None:
        seen = self.seen.get(op)
        if seen is not None:
            self.emit(Load(seen.access.result, seen.param, self.place(seen), loc=op.loc))
        elif not isinstance(op, (Load, Store, Atomic)) or op.param not in self.arrays:
            self.copy(op)


def _too_large(access: Load | Atomic, size: int) -> DifferentiationError:
    return DifferentiationError(
        f"what is read of {access.param.name} depends on the order of threads, and decides what moves or where it "
        f"goes; its record would have {size / 2**30:.1f} GiB or more: an element for each thread and each iteration of "
        "the loops around",
        access.loc,
        hint="let the loops have fewer iterations at most, or launch a kernel for the indices first",
    )


def _uncounted(access: Load | Atomic, loop: Op) -> DifferentiationError:
    where = f" in line {loop.loc.line}" if loop.loc is not None else ""
    what = f"atomic_{access.kind} on {access.param.name} returns" if isinstance(access, Atomic) else "this load finds"
    return DifferentiationError(
        f"what {what} depends on the order of threads, and decides what moves or where it goes; it cannot be recorded, "
        f"since it is not known how many iterations the loop{where} makes at most",
        access.loc,
        hint="let the loop end at a constant, an extent of an array or min(n, constant)",
    )
