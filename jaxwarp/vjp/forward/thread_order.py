"""The check that derivatives do not depend on the order of threads.

A derivative runs the kernel again, and threads may then come in another order:

old = atomic_add counter[0], 1
store y[old], v                    the tangent of v would go to another element of y than v did
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from jaxwarp.errors import DifferentiationError
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Call, For, If, Load, Op, Param, Store, Value, While, walk
from jaxwarp.vjp.activity import Activity


def require_no_order(
    kernel: Kernel, activity: Activity, used: Iterable[Value], grid: Sequence[int | None] | None
) -> None:
    """Refuses what is active, or says where something active is kept, by a value that an atomic returned.

    Atomics on arrays that are active themselves are not looked at: they are refused for that. Nor are those by which
    adjoints take a cotangent that threads share.
    """
    if grid is not None and None not in grid and math.prod(n or 0 for n in grid) <= 1:
        return
    deciding = deciding_atomics(kernel, activity, used)
    if deciding:
        raise _refused(deciding[0])


def deciding_atomics(kernel: Kernel, activity: Activity, used: Iterable[Value]) -> list[Atomic]:
    """Return the atomics whose results decide what moves or where it goes, likewise."""
    read = set(used)
    sources = [
        op
        for op in walk(kernel.body)
        if isinstance(op, Atomic)
        and op.result in read
        and op.param not in activity.params
        and not op.takes
    ]
    return _Order(kernel, activity, sources).found() if sources else []


class _Order:
    """A least fixed point: what depends on the result of which atomic, through values, control flow and memory.

    Of several atomics that something depends on, one is followed: the others are looked at once that is left out.
    """

    def __init__(self, kernel: Kernel, activity: Activity, sources: Sequence[Atomic]):
        self.kernel = kernel
        self.activity = activity
        self.sources = list(sources)
        self.values: dict[Value, Atomic] = {}
        self.memory: dict[Param, Atomic] = {}
        self.deciding: dict[Atomic, None] = {}

    def found(self) -> list[Atomic]:
        left = self.sources
        while left:
            self.values, self.memory = {op.result: op for op in left}, {}
            size, before = -1, len(self.deciding)
            while size != len(self.values) + len(self.memory):
                size = len(self.values) + len(self.memory)
                self.block(self.kernel.body, None)
            if len(self.deciding) == before:
                break
            left = [op for op in left if op not in self.deciding]
        return list(self.deciding)

    def first(self, values: Iterable[Value]) -> Atomic | None:
        return next((self.values[v] for v in values if v in self.values), None)

    def mark(self, values: Iterable[Value], source: Atomic | None) -> None:
        if source is None:
            return
        for value in values:
            self.values.setdefault(value, source)
            if value in self.activity.values:
                self.deciding[source] = None

    def block(self, block: Block, outer: Atomic | None) -> None:
        """`outer` is what decides whether the block runs."""
        for op in block.ops:
            self.op(op, outer)

    def op(self, op: Op, outer: Atomic | None) -> None:
        source = self.first(op.operands) or outer
        match op:
            case Call():
                self.mark(op.defined, self.first(op.args))
            case Load():
                self.mark(op.defined, self.first(op.indices) or self.memory.get(op.param))
            case Store() | Atomic():
                if source is not None:
                    self.memory.setdefault(op.param, source)
                    if op.param in self.activity.params:
                        self.deciding[source] = None
                if isinstance(op, Atomic):
                    self.mark(op.defined, source or self.memory.get(op.param))
            case If():
                condition = self.first([op.condition])
                for block in op.blocks:
                    self.block(block, condition or outer)
                    self.join(op.results, block.results, condition)
            case For() | While():
                self.loop(op, outer)
            case _:
                pass

    def loop(self, op: For | While, outer: Atomic | None) -> None:
        if isinstance(op, For):
            decides, carried = self.first((op.start, op.stop, op.step)), op.body.params[1:]
            self.mark(op.body.params[:1], decides)
        else:
            decides, carried = self.first(op.condition.results), op.body.params
            self.join(op.condition.params, op.inits, None)
            self.join(op.condition.params, op.body.results, None)
        self.join(carried, op.inits, None)
        self.join(carried, op.body.results, None)
        for block in op.blocks:
            self.block(block, decides or outer)
        self.join(op.results, op.inits, decides)
        self.join(op.results, op.body.results, decides)

    def join(self, targets: Sequence[Value], sources: Sequence[Value], decides: Atomic | None) -> None:
        for target, value in zip(targets, sources, strict=True):
            self.mark([target], decides or self.values.get(value))


def _refused(atomic: Atomic) -> DifferentiationError:
    return DifferentiationError(
        f"what atomic_{atomic.kind} on {atomic.param.name} returns depends on the order of threads, and decides what "
        "moves or where it goes; a derivative, which runs the kernel again, would not find the same",
        atomic.loc,
        hint="put it in a function with a func_replay, or launch a kernel for the indices first",
    )
