"""Loops: one of too many iterations is given up, so that every launch ends, and the thread says so.

    while c { ... }     ->     while carry(%n = 0) {
                                   %more = c
                                   if %more and %n >= limit { report; record[GAVE_UP] = 1 }
                                   %more and %n < limit, and now and then: record[GAVE_UP] == 0
                               } { ...; %n + 1 }

A `for` that would have too many iterations is not run. Loops that are known to be short have no test. When one thread
has given up a loop the others need not run on either: they would each take as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxwarp.analysis.integers.trips import Trips
from jaxwarp.analysis.thread_values import Shapes
from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Block, For, Op, Param, Value, While
from jaxwarp.ir.rewrite import Rewriter, rebuild
from jaxwarp.passes.checks.reports import GAVE_UP, Reports
from jaxwarp.types import float64, int32, int64

# Iterations between two looks at whether some thread has given up.
_PERIOD = 1024


def check_steps(
    kernel: Kernel, reports: Reports, grid: Sequence[Any], shapes: Shapes, record: Param, own: int, limit: int
) -> Kernel:
    """The kernel with loops of at most `limit` iterations. `record` has `own` leading axes of the launch."""
    return _CheckSteps(reports, Trips(kernel, grid, shapes), record, own, limit).kernel(kernel)


class _CheckSteps(Rewriter):
    def __init__(self, reports: Reports, trips: Trips, record: Param, own: int, limit: int):
        super().__init__()
        self.b = Builder(self.scopes)
        self.reports, self.trips, self.record, self.own, self.limit = reports, trips, record, own, limit

    def op(self, op: Op) -> None:
        if not isinstance(op, For | While) or self.trips.most.get(op, self.limit + 1) <= self.limit:
            self.copy(op)
        elif isinstance(op, For):
            self.for_(op)
        else:
            self.while_(op)

    def report(self) -> Sequence[Value]:
        self.reports.emit(self.b, f"a loop of more than {self.limit} iterations", (), self.b.loc)
        return ()

    def for_(self, op: For) -> None:
        b = self.b
        b.loc = op.loc
        start, stop, step = (b.call(ROWS["cast"], v, dtype=float64) for v in (op.start, op.stop, op.step))
        zero = b.const(0, op.step.type)
        iterations = b.call(ROWS["div"], b.call(ROWS["sub"], stop, start), step)
        is_long = b.call(ROWS["gt"], iterations, b.const(float(self.limit), float64))
        is_long = b.call(ROWS["logical_and"], is_long, b.call(ROWS["ne"], op.step, zero))
        b.if_(is_long, self.report)
        step = b.call(ROWS["select"], is_long, zero, op.step)
        body = self.block(op.body)
        self.emit(rebuild(op, op.results, (op.start, op.stop, step, *op.inits), (body,)))

    def while_(self, op: While) -> None:
        b = self.b
        b.loc = op.loc
        zero, one, limit = (b.const(n, int64) for n in (0, 1, self.limit))
        tested, done = Value(int64), Value(int64)
        self.scopes.append([])
        for inner in op.condition.ops:
            self.op(inner)
        b.loc = op.loc
        (more,) = self.all(op.condition.results)
        is_short = b.call(ROWS["lt"], tested, limit)
        is_long = b.call(ROWS["logical_and"], more, b.call(ROWS["logical_not"], is_short))
        b.if_(is_long, self.give_up)
        more = b.call(ROWS["logical_and"], more, b.call(ROWS["logical_and"], is_short, self.goes_on(tested)))
        condition = Block((*op.condition.params, tested), tuple(self.scopes.pop()), (more,))
        self.scopes.append([])
        for inner in op.body.ops:
            self.op(inner)
        b.loc = op.loc
        after = b.call(ROWS["add"], done, one)
        results = (*self.all(op.body.results), after)
        body = Block((*op.body.params, done), tuple(self.scopes.pop()), results)
        self.emit(While((*op.results, Value(int64)), (*op.inits, zero), condition, body, loc=op.loc))

    def at(self) -> tuple[Value, ...]:
        return (*(self.b.tid(axis) for axis in range(self.own)), self.b.const(GAVE_UP, int32))

    def give_up(self) -> Sequence[Value]:
        self.report()
        self.b.atomic("exch", self.record, self.at(), self.b.const(1, int64))
        return ()

    def goes_on(self, iterations: Value) -> Value:
        """Return whether no thread is known to have given up; the record is read only now and then."""
        b = self.b
        passed = b.call(ROWS["bit_and"], iterations, b.const(_PERIOD - 1, int64))
        is_time = b.call(ROWS["eq"], passed, b.const(_PERIOD - 1, int64))

        def look() -> Sequence[Value]:
            # An atomic, so that it is read anew each time.
            given_up = b.atomic("or", self.record, self.at(), b.const(0, int64))
            return (b.call(ROWS["eq"], given_up, b.const(0, int64)),)

        return b.if_(is_time, look, lambda: (b.const(True, is_time.type),))[0]
