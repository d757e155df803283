"""The number of threads that are worth another core, estimated from a thread's operations and the known extents.

Costs are in the units of prices.py. An operation costs at least one, which includes its share of the code around it.
Loops count as often as they run where that follows from constants and extents. Memory beyond the nearer caches is not
counted: bodies that do nothing but load and store gain little from a second core.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from jaxwarp.codegen.cpu.plan import prices
from jaxwarp.codegen.cpu.plan.privatization import MOST_ELEMENTS
from jaxwarp.deep import with_deep_stack
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Call, Const, For, Op, Param, Size, Tid, Value, While, walk

_MIN_GRAIN, _MAX_GRAIN = 16, 65_536
_MOST = 1 << 62  # of any number here
# For each thread of the pool. More than one, so that who is late leaves some of the work to others.
_PIECES, _FEW_PIECES = 16, 2
_SUMS = {"add": int.__add__, "sub": int.__sub__, "mul": int.__mul__, "min": min, "max": max}


@with_deep_stack
def choose_grain(kernel: Kernel, extents: Mapping[Param, Sequence[Any]] | None = None) -> int:
    """Threads of a prepared kernel that are half of what is worth another core.

    Args:
        kernel: the kernel.
        extents: of its arrays; an entry that is no integer is unknown.
    """
    given = extents or {}
    return _grain(kernel, tuple((p, axis, given.get(p, p.shape)[axis]) for p, axis in _looped(kernel)))


@functools.lru_cache(maxsize=512)
def _grain(kernel: Kernel, sizes: tuple[tuple[Param, int, Any], ...]) -> int:
    """Return the grain of launches that agree in the extents that steer loops."""
    known = {(p, axis): n for p, axis, n in sizes}
    work = WorkSum({p: [known.get((p, axis)) for axis in range(p.rank)] for p in kernel.params}).block(kernel.body)
    return max(_MIN_GRAIN, min(_MAX_GRAIN, int(prices.GRAIN / (1 + work))))


@functools.lru_cache(maxsize=512)
def _looped(kernel: Kernel) -> tuple[tuple[Param, int], ...]:
    """Return the extents on which it may depend how often a loop runs."""
    ops = list(walk(kernel.body))
    made = {value: op for op in ops if isinstance(op, Size | Call) for value in op.defined}
    pending = [v for op in ops if isinstance(op, For) for v in (op.start, op.stop, op.step)]
    found, seen = dict[tuple[Param, int], None](), set[Value]()
    while pending:
        value = pending.pop()
        op = made.get(value)
        if op is None or value in seen:
            continue
        seen.add(value)
        if isinstance(op, Size):
            found[op.param, op.axis] = None
        pending += op.operands
    return tuple(found)


def choose_cut(
    kernel: Kernel,
    contended: Collection[Atomic],
    summed: Collection[Atomic],
    is_divided: bool,
    extents: Mapping[Param, Sequence[Any]] | None = None,
) -> tuple[int, int]:
    """Return the most threads by which a launch is not cut, and the most pieces per thread into which it is cut.

    A thread that runs a launch alone needs no atomics, and may take less time than two that need them. Where pieces
    need atomics at their borders only, they are few and large.

    Args:
        kernel: the kernel.
        contended: atomics that only who is alone can do without.
        summed: those of them that do without where their arrays are of few elements. Arrays of unknown extents may be.
        is_divided: whether there are some that a piece can do without but for its borders.
    """
    atomic, plain = price_of_thread(kernel, without_few(contended, summed, extents or {}), summed, extents)
    return max(1, int(atomic / plain)), _FEW_PIECES if is_divided else _PIECES


@with_deep_stack
def price_of_thread(
    kernel: Kernel,
    contended: Collection[Atomic],
    summed: Collection[Atomic],
    extents: Mapping[Param, Sequence[Any]] | None = None,
) -> tuple[float, float]:
    """Return the cost of a thread if the contended atomics are atomic, and if they are loads and stores.

    `summed`: those to which all lanes add one number.
    """

    def count(op: Op) -> float:
        return (prices.SUMMED_PART if op in summed else 1) if op in contended else 0

    atomics = WorkSum(extents or {}, count).block(kernel.body)
    work = WorkSum(extents or {}).block(kernel.body)
    return atomics * prices.ATOMIC_ALONE + work, max(atomics * prices.PLAIN_ALONE + work, 1)


def without_few(
    contended: Collection[Atomic], summed: Collection[Atomic], extents: Mapping[Param, Sequence[Any]]
) -> frozenset[Atomic]:
    """The contended atomics that are not of element_sums.py, where extents are as known."""

    def is_few(op: Atomic) -> bool:
        shape = extents.get(op.param, op.param.shape)
        return not all(isinstance(n, int) for n in shape) or math.prod(shape) <= MOST_ELEMENTS

    return frozenset(op for op in contended if op not in summed or not is_few(op))


class WorkSum:
    """Sums what the operations of blocks cost, by `price` or as above, as often as they run."""

    def __init__(self, extents: Mapping[Param, Sequence[Any]], price: Callable[[Op], float] | None = None):
        self.extents = extents
        self.price = price or price_of
        self.known: dict[Value, int] = {}

    def block(self, block: Block) -> float:
        total = 0.0
        for op in block.ops:
            self.note(op)
            total += self.price(op) + self.trips(op) * sum(self.block(inner) for inner in op.blocks)
        return min(total, _MOST)

    def note(self, op: Op) -> None:
        """Whole numbers that follow from constants and extents."""
        if isinstance(op, Const) and isinstance(op.value, int):
            self.known[op.result] = int(op.value)
        elif isinstance(op, Size):
            shape = self.extents.get(op.param, op.param.shape)
            if isinstance(shape[op.axis], int):
                self.known[op.result] = shape[op.axis]
        elif isinstance(op, Call) and op.result.type.is_int and all(a in self.known for a in op.args):
            args = [self.known[a] for a in op.args]
            if op.builtin.name in _SUMS:
                value = _SUMS[op.builtin.name](*args)
                if abs(value) < _MOST:
                    self.known[op.result] = value
            elif op.builtin.name == "cast":
                self.known[op.result] = args[0]

    def trips(self, op: Op) -> float:
        """Return the number of times that the blocks of an operation run, estimated if it is not known."""
        if isinstance(op, For):
            start, stop, step = (self.known.get(v) for v in (op.start, op.stop, op.step))
            if start is None or stop is None or not step:
                return prices.TRIPS
            return max(0, math.ceil((stop - start) / step))
        return prices.TRIPS if isinstance(op, While) else 1


def price_of(op: Op) -> float:
    """Return the cost of an operation, without its blocks."""
    if isinstance(op, (Const, Tid, Size)):
        return 0
    price = prices.ATOMIC if isinstance(op, Atomic) else 1
    if isinstance(op, Call):
        price = prices.CYCLES.get(op.builtin.name, 1)
    return 2 * price if any(v.type.bits == 64 for v in (*op.defined, *op.operands)) else price
