"""Indices: what is out of range is not done, a load gives 0, and the thread says so.

    %v = load x[%i]     ->     %ok = lt u32(%i), u32(size x 0)
                               if not %ok { report (0, %i, size x 0) }
                               %v = select %ok, load x[select %ok, %i, 0], 0
    store x[%i], %v     ->     if %ok { store x[%i], %v } else { report (0, %i, size x 0) }

    %r = live_row %p, %f, %id     ->    if not eq %f, %id { report (%id) }, and the same operation
    %k = within %i, %n            ->    if not lt u64(%i), u64(%n) { report (%i, %n) }, and the same operation

Indices that are in range for every thread of the launch are not tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxwarp.analysis.intervals import Placed, Shapes
from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.interpret import counted_from_end
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Call, Const, If, Load, Op, Store, Tid, Value
from jaxwarp.ir.rewrite import rebuild
from jaxwarp.passes.checks.reports import Reports
from jaxwarp.types import ENDLESS, int32, int64, uint32, uint64

_Access = Load | Store | Atomic


def check_bounds(kernel: Kernel, reports: Reports, grid: Sequence[Any], shapes: Shapes) -> Kernel:
    """The kernel with tests of indices.

    Args:
        kernel: the kernel.
        reports: where failures are put down.
        grid, shapes: what is known of the extents.
    """
    return _CheckBounds(kernel, reports, grid, shapes).kernel(kernel)


class _CheckBounds(Placed):
    def __init__(self, kernel: Kernel, reports: Reports, grid: Sequence[Any], shapes: Shapes):
        super().__init__(kernel, grid, shapes)
        self.b = Builder(self.scopes)
        self.reports, self.shapes = reports, shapes
        self.arrays = {*kernel.params, *kernel.locals}  # not what checks put into it
        # The indices of batches are no indices of the user's.
        batched = reports.batched
        self.from_end = counted_from_end(kernel)
        self.rows = {op.result: op.param for op in kernel.body.all_ops if isinstance(op, Load)}
        self.batches = {op.result for op in kernel.body.all_ops if isinstance(op, Tid) and op.axis < batched}

    def op(self, op: Op) -> None:
        if isinstance(op, Load | Store | Atomic) and op.param in self.arrays:
            self.access(op)
        elif isinstance(op, Call) and op.builtin.name in ("within", "live_row"):
            self.looked_up(op)
        else:
            super().op(op)

    def access(self, op: _Access) -> None:
        open_axes = [axis for axis in range(op.param.rank) if not self.is_inside(op, axis)]
        if not open_axes:
            self.emit(op)
            return
        self.b.loc = op.loc
        tests = [self.test(op, axis) for axis in open_axes]
        condition = tests[0]
        for test in tests[1:]:
            condition = self.b.call(ROWS["logical_and"], condition, test)
        if isinstance(op, Load) and all(isinstance(n, int) and n > 0 for n in self.extents(op)):
            self.clamped(op, condition, open_axes, tests)
        else:
            self.guarded(op, condition, open_axes, tests)

    def looked_up(self, op: Call) -> None:
        """An id, or an index into what it names: what is wrong reads as nothing, or as the first element."""
        b, args = self.b, op.args
        b.loc = op.loc
        if op.builtin.name == "live_row":
            kind = self.rows[args[1]].name.rpartition(".")[2]
            is_right, text, words = b.call(ROWS["eq"], *args[1:]), f"id {{0}} names no {kind} that is alive", args[2:]
        else:
            unsigned = [b.call(ROWS["cast"], v, dtype=uint64) for v in args]
            is_right, words = b.call(ROWS["lt"], *unsigned), args
            text = "index {0} is out of range; the extent of the array that was found by an id is {1}"

        def failed() -> Sequence[Value]:
            self.reports.emit(b, text, words, op.loc)
            return ()

        b.if_(b.call(ROWS["logical_not"], is_right), failed)
        self.emit(op)

    def is_inside(self, op: _Access, axis: int) -> bool:
        extent, index = self.extents(op)[axis], op.indices[axis]
        if isinstance(extent, int):
            if extent == ENDLESS:
                return True
            return self.known.is_within(index, 0, extent - 1)
        return index in self.batches  # a batch has as many items as threads

    def extents(self, op: _Access) -> Sequence[int | None]:
        return self.shapes.get(op.param, op.param.shape)

    def extent(self, op: _Access, axis: int) -> Value:
        known = self.extents(op)[axis]
        return self.b.const(known, int32) if isinstance(known, int) else self.b.size(op.param, axis)

    def test(self, op: _Access, axis: int) -> Value:
        index = op.indices[axis]
        unsigned = uint32 if index.type is int32 else uint64
        both = [self.b.call(ROWS["cast"], v, dtype=unsigned) for v in (index, self.extent(op, axis))]
        return self.b.call(ROWS["lt"], *both)

    def clamped(self, op: Load, condition: Value, axes: Sequence[int], tests: Sequence[Value]) -> None:
        """A load of an array that has elements: of the first one, where the index is out of range. Without a branch
        around it lanes load together."""
        b = self.b

        def failed() -> Sequence[Value]:
            self.report(op, axes, tests)
            return ()

        b.if_(b.call(ROWS["logical_not"], condition), failed)
        indices = list(op.indices)
        for axis, test in zip(axes, tests, strict=True):
            indices[axis] = b.call(ROWS["select"], test, indices[axis], b.const(0, indices[axis].type))
        loaded = b.load(op.param, indices)
        self.emit(Call(op.result, ROWS["select"], (condition, loaded, self.zero(op.result)), loc=op.loc))

    def guarded(self, op: _Access, condition: Value, axes: Sequence[int], tests: Sequence[Value]) -> None:
        """The access under its condition, and else a report."""
        fresh = tuple(Value(v.type) for v in op.defined)
        with self.b.block() as done:
            self.emit(rebuild(op, fresh, op.operands))
        with self.b.block() as failed:
            self.report(op, axes, tests)
            zeros = tuple(self.zero(v) for v in op.defined)
        self.emit(If(op.defined, condition, Block((), tuple(done), fresh), Block((), tuple(failed), zeros), loc=op.loc))

    def zero(self, value: Value) -> Value:
        zero = Value(value.type)
        dtype = value.type
        self.emit(Const(zero, 0.0 if dtype.is_float else 0 if dtype.is_int else False))
        return zero

    def report(self, op: _Access, axes: Sequence[int], tests: Sequence[Value]) -> None:
        """Of the first axis that fails: its number, the index, the extent."""
        words = self.place(op, axes[-1])
        for axis, test in reversed([*zip(axes[:-1], tests[:-1], strict=True)]):
            words = [self.b.call(ROWS["select"], test, a, b) for a, b in zip(words, self.place(op, axis), strict=True)]
        text = f"index {{1}} of axis {{0}} of {self.reports.array(op.param)} is out of range; its extent is {{2}}"
        self.reports.emit(self.b, text, words, op.loc)

    def place(self, op: _Access, axis: int) -> list[Value]:
        before = sum(index in self.batches for index in op.indices[:axis])
        words = [op.indices[axis], self.extent(op, axis)]
        if any(index.type is int64 for index in op.indices):  # one of several axes may be it
            words = [w if w.type is int64 else self.b.call(ROWS["cast"], w, dtype=int64) for w in words]
        if op.indices[axis] in self.from_end:
            words[0] = self.b.call(ROWS["sub"], *words)
        return [self.b.const(axis - before, int32), *words]
