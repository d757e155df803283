"""The arithmetic and memory traffic of a launch, counted from the IR, and what they say of its time.

Counts are between a least and a most. Branches are counted by the cheaper and the dearer arm, loops by the ranges of
their bounds. A loop whose iterations only data decides has no most, unless the caller says how many to assume. The
model is the roofline of Williams, Waterman and Patterson (Communications of the ACM 52(4), 2009).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxwarp.analysis.integers.trips import Trips
from jaxwarp.deep import with_deep_stack
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Call, For, If, Load, Op, Param, Store, Value, While

Bounds = tuple[float, float]
_NONE: Bounds = (0, 0)
_UNBOUNDED = 2**31 - 1  # iterations that a bound of which nothing is known gives
_ONE_OPERATION = (
    "add", "sub", "mul", "div", "floordiv", "mod", "min", "max", "min_number", "max_number", "sqrt", "rsqrt",
)  # fmt: skip
_NO_OPERATION = (
    "neg", "abs", "sign", "copysign", "select", "cast", "bitcast", "floor", "ceil", "trunc", "round", "rint",
)  # fmt: skip


@dataclass(frozen=True)
class Roofline:
    """The work of a launch, and the least time that it can take.

    Attributes:
        flops: floating-point operations, at least and at most: sums, products, quotients, roots, minima; an fma is two.
        functions: calls of elementary functions (`exp`, `pow`), at least and at most, which are not in `flops`.
        requested: bytes of loads, stores and atomics, at least and at most.
        bytes_read: what comes from memory where caches keep what is used again: of each array what is asked for, but no
            more than the array.
        bytes_written: likewise. Outputs that are cleared first are not counted twice.
        data_loops: lines of loops whose iterations data decides.
        assumed_trips: iterations that were counted for them; None: none were said, and the most is infinite.
        bandwidth: bytes a second, as given.
        peak_flops: operations a second, as given.
    """

    flops: Bounds
    functions: Bounds
    requested: Bounds
    bytes_read: float
    bytes_written: float
    data_loops: tuple[int, ...]
    assumed_trips: int | None
    bandwidth: float | None
    peak_flops: float | None

    @property
    def bytes(self) -> float:
        """The bytes read from memory and written to it."""
        return self.bytes_read + self.bytes_written

    @property
    def is_exact(self) -> bool:
        """True if the operations are counted, not bounded or assumed."""
        return self.flops[0] == self.flops[1] and self.functions[0] == self.functions[1] and not self.data_loops

    @property
    def intensity(self) -> float:
        """Operations for each byte, by the most."""
        return self.flops[1] / self.bytes if self.bytes else math.inf

    @property
    def seconds(self) -> float | None:
        """The least time that memory or arithmetic alone takes, by the most operations. None: no peak was given."""
        times = [t for t in (self._memory_seconds, self._flop_seconds) if t is not None]
        return max(times) if times else None

    @property
    def bound(self) -> str | None:
        """ "memory" or "arithmetic": which takes longer. None where one of the peaks was not given."""
        if self._memory_seconds is None or self._flop_seconds is None:
            return None
        return "memory" if self._memory_seconds >= self._flop_seconds else "arithmetic"

    @property
    def _memory_seconds(self) -> float | None:
        return None if self.bandwidth is None else self.bytes / self.bandwidth

    @property
    def _flop_seconds(self) -> float | None:
        return None if self.peak_flops is None else self.flops[1] / self.peak_flops

    def __str__(self) -> str:
        lines = [
            f"floating-point operations  {_between(self.flops)}",
            f"elementary functions       {_between(self.functions)}",
            f"bytes that threads ask for {_between(self.requested)}",
            f"bytes from memory          {_number(self.bytes_read)}",
            f"bytes to memory            {_number(self.bytes_written)}",
            f"operations a byte          {self.intensity:.3g}",
        ]
        if self.data_loops:
            counted = "not known" if self.assumed_trips is None else f"{self.assumed_trips} by assumption"
            at = ", ".join(map(str, self.data_loops))
            lines.append(f"data decides the iterations of the loop at line {at}: {counted}")
        if self.seconds is not None:
            why = f", bound by {self.bound}" if self.bound else ""
            lines.append(f"takes at least             {self.seconds:.3g} s{why}")
        return "\n".join(lines)


@with_deep_stack
def roofline(
    kernel: Kernel,
    grid: Sequence[int],
    extents: Mapping[Param, Sequence[Any]],
    trips: int | None = None,
    bandwidth: float | None = None,
    peak_flops: float | None = None,
) -> Roofline:
    """Count what a launch of a prepared kernel does.

    Args:
        kernel: the kernel.
        grid: extents of the launch.
        extents: of its arrays.
        trips: how often to count loops whose iterations data decides.
        bandwidth: of memory, bytes a second.
        peak_flops: operations a second.
    """
    counting = _Counting(Trips(kernel, grid, extents), trips)
    thread = counting.block(kernel.body)
    threads = math.prod(grid)
    arrays = [p for p in kernel.params if None in p.shape]
    sizes = {p: math.prod(extents[p]) * p.dtype.bytes for p in arrays}

    def asked(counts: Mapping[Param, Bounds], p: Param) -> Bounds:
        return _times((threads * p.dtype.bytes, threads * p.dtype.bytes), counts.get(p, _NONE))

    def moved(counts: Mapping[Param, Bounds]) -> float:
        return sum(min(asked(counts, p)[1], sizes[p]) for p in arrays)

    requested = [asked(counts, p) for counts in (thread.read, thread.written) for p in arrays]
    return Roofline(
        flops=_times((threads, threads), thread.flops),
        functions=_times((threads, threads), thread.functions),
        requested=(sum(r[0] for r in requested), sum(r[1] for r in requested)),
        bytes_read=moved(thread.read),
        bytes_written=moved(thread.written),
        data_loops=tuple(sorted(counting.data_loops)),
        assumed_trips=trips if counting.data_loops else None,
        bandwidth=bandwidth,
        peak_flops=peak_flops,
    )


@dataclass
class _Counts:
    """The counts of a block, at least and at most, and those of the array elements that it reads and writes."""

    flops: Bounds = _NONE
    functions: Bounds = _NONE
    read: dict[Param, Bounds] = field(default_factory=dict)
    written: dict[Param, Bounds] = field(default_factory=dict)

    def add(self, other: _Counts, iterations: Bounds = (1, 1)) -> None:
        self.flops = _plus(self.flops, _times(iterations, other.flops))
        self.functions = _plus(self.functions, _times(iterations, other.functions))
        for mine, theirs in ((self.read, other.read), (self.written, other.written)):
            for param, count in theirs.items():
                mine[param] = _plus(mine.get(param, _NONE), _times(iterations, count))

    @staticmethod
    def either(a: _Counts, b: _Counts) -> _Counts:
        def hull(a: Mapping[Param, Bounds], b: Mapping[Param, Bounds]) -> dict[Param, Bounds]:
            return {p: _hull(a.get(p, _NONE), b.get(p, _NONE)) for p in {*a, *b}}

        return _Counts(_hull(a.flops, b.flops), _hull(a.functions, b.functions), hull(a.read, b.read),
                       hull(a.written, b.written))  # fmt: skip


class _Counting:
    def __init__(self, loops: Trips, trips: int | None):
        self.loops, self.facts = loops, loops.facts
        self.trips = trips
        self.data_loops: set[int] = set()
        self._made: dict[Value, Op] = {}

    def block(self, block: Block) -> _Counts:
        counts = _Counts()
        for op in block.ops:
            self._made.update(dict.fromkeys(op.defined, op))
            match op:
                case Call() if any(v.type.is_float for v in (op.result, *op.args)):
                    counts.add(_of_call(op))
                case Load():
                    counts.add(_Counts(read={op.param: (1, 1)}))
                case Store():
                    counts.add(_Counts(written={op.param: (1, 1)}))
                case Atomic():
                    adds = 1 if op.kind in ("add", "min", "max") and op.param.dtype.is_float else 0
                    counts.add(_Counts((adds, adds), read={op.param: (1, 1)}, written={op.param: (1, 1)}))
                case If():
                    counts.add(self._branch(op))
                case For():
                    counts.add(self.block(op.body), self._iterations(op))
                case While():
                    iterations = self._iterations(op)
                    counts.add(self.block(op.condition), _plus(iterations, (1, 1)))
                    counts.add(self.block(op.body), iterations)
                case _:
                    pass
        return counts

    def _branch(self, op: If) -> _Counts:
        then, orelse = self.block(op.then), self.block(op.orelse)
        truth = self._truth(op.condition)
        return _Counts.either(then, orelse) if truth is None else then if truth else orelse

    def _truth(self, condition: Value) -> bool | None:
        """Return True if a comparison holds for every thread, False if it holds for none, else None."""
        made = self._made.get(condition)
        if not isinstance(made, Call) or not all(a.type.is_int for a in made.args):
            return None
        match made.builtin.name, made.args:
            case ("lt" | "ge") as name, (a, b):
                less = _is_less(self.facts[a], self.facts[b])
                return less if less is None or name == "lt" else not less
            case ("gt" | "le") as name, (a, b):
                less = _is_less(self.facts[b], self.facts[a])
                return less if less is None or name == "gt" else not less
            case _:
                return None

    def _iterations(self, op: For | While) -> Bounds:
        most = self.loops.most.get(op, math.inf)
        if most < _UNBOUNDED:
            return (self._least(op) if isinstance(op, For) else 0), most
        self.data_loops.add(op.loc.line if op.loc else 0)
        return (0, math.inf) if self.trips is None else (self.trips, self.trips)

    def _least(self, op: For) -> float:
        start, stop, step = self.facts[op.start], self.facts[op.stop], self.facts[op.step][0]
        span = stop[0] - start[1] if step > 0 else start[0] - stop[1]
        return max(-(-span // abs(step)), 0)


def _of_call(op: Call) -> _Counts:
    name = op.builtin.name
    if not op.result.type.is_float or name in _NO_OPERATION:
        return _Counts()
    if name == "fma":
        return _Counts(flops=(2, 2))
    return _Counts(flops=(1, 1)) if name in _ONE_OPERATION else _Counts(functions=(1, 1))


def _is_less(a: tuple[int, int], b: tuple[int, int]) -> bool | None:
    return True if a[1] < b[0] else False if a[0] >= b[1] else None


def _plus(a: Bounds, b: Bounds) -> Bounds:
    return a[0] + b[0], a[1] + b[1]


def _times(a: Bounds, b: Bounds) -> Bounds:
    """Multiply counts, which are not negative; 0 times infinity is 0."""
    return a[0] * b[0], a[1] * b[1] if a[1] and b[1] else 0


def _hull(a: Bounds, b: Bounds) -> Bounds:
    return min(a[0], b[0]), max(a[1], b[1])


def _number(n: float) -> str:
    return f"{n:,.0f}" if math.isfinite(n) else "not bounded"


def _between(bounds: Bounds) -> str:
    return _number(bounds[0]) if bounds[0] == bounds[1] else f"{_number(bounds[0])} to {_number(bounds[1])}"
