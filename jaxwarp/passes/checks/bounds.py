"""Indices: what is out of range is not done, a load gives 0, and the thread says so.

    inside %i, %n       ->     %ok = lt u32(%i), u32(%n)
                               if not %ok { report (%i, %n) }
    %v = load x[%i]     ->     %v = select %ok, load x[select %ok, %i, 0], 0
    store x[%i], %v     ->     if %ok { store x[%i], %v }

    %r = live_row %p, %f, %id     ->    if not eq %f, %id { report (%id) }, and the same operation
    %k = within %i, %n            ->    if not lt u64(%i), u64(%n) { report (%i, %n) }, and the same operation

Who says so are the tests (`Tell` of the kind INSIDE), which written.py puts before each access, also before those that
are gone by now. Indices that are in range for every thread of the launch are not tested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jaxwarp.analysis.integers.facts import Facts
from jaxwarp.analysis.thread_values import Shapes
from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.interpret import counted_from_end
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import INSIDE, Atomic, Block, Call, Const, If, Load, Op, Param, Size, Store, Tell, Tid, Value
from jaxwarp.ir.rewrite import Rewriter, rebuild
from jaxwarp.passes.checks.reports import Report, Reports
from jaxwarp.types import ENDLESS, int32, int64, uint32, uint64

_Access = Load | Store | Atomic


def check_bounds(
    kernel: Kernel, reports: Reports, grid: Sequence[Any], shapes: Shapes, reads: Mapping[Param, Param] | None = None
) -> Kernel:
    """The kernel with tests of indices.

    Args:
        kernel: the kernel, in which tests say what is out of range.
        reports: where failures are put down.
        grid, shapes: what is known of the extents.
        reads: for arrays, what notes of their loads are stored to: where a load is not done, there is none.
    """
    return _CheckBounds(kernel, reports, grid, shapes, reads or {}).kernel(kernel)


class _CheckBounds(Rewriter):
    def __init__(
        self, kernel: Kernel, reports: Reports, grid: Sequence[Any], shapes: Shapes, reads: Mapping[Param, Param]
    ):
        super().__init__()
        self.facts = Facts(kernel, grid, shapes)
        self.b = Builder(self.scopes)
        self.reports, self.shapes = reports, shapes
        # Not what checks put into it.
        self.arrays = {p: p for p in (*kernel.params, *kernel.locals)} | {note: p for p, note in reads.items()}
        # The indices of batches are no indices of the user's.
        batched = reports.batched
        self.from_end = counted_from_end(kernel)
        self.rows = {op.result: op.param for op in kernel.body.all_ops if isinstance(op, Load)}
        self.sizes = {op.result: (op.param, op.axis) for op in kernel.body.all_ops if isinstance(op, Size)}
        self.batches = {op.result for op in kernel.body.all_ops if isinstance(op, Tid) and op.axis < batched}
        self.tested: list[set[tuple[Any, ...]]] = []  # in the blocks that are open

    def block(self, block: Block) -> Block:
        self.tested.append(set())
        made = super().block(block)
        self.tested.pop()
        return made

    def op(self, op: Op) -> None:
        if isinstance(op, Load | Store | Atomic) and op.param in self.arrays:
            self.access(op)
        elif isinstance(op, Call) and op.builtin.name in ("within", "live_row"):
            self.looked_up(op)
        elif isinstance(op, Tell) and op.kind == INSIDE:
            self.inside(op)
        else:
            super().op(op)

    def inside(self, op: Tell) -> None:
        """A report where an index is out of range, unless one before it has said so."""
        key = (*op.texts, *op.args)
        if any(key in tested for tested in self.tested):
            return
        self.tested[-1].add(key)
        index, extent = op.args
        param, axis = self.sizes.get(extent, (None, 0))
        if param is not None and self.shapes.get(param, param.shape)[axis] == ENDLESS:
            return  # where ids are looked up, which has tests of its own
        if self.facts.is_within(index, 0, self.facts.at(extent, op)[0] - 1, op):
            return
        self.b.loc = op.loc
        text = f"{op.texts[0]}{{0}}{op.texts[1]}{{1}}{op.texts[2]}"

        def failed() -> Sequence[Value]:
            self.reports.put(self.b, Report(text, op.loc, 2), self.words(index, extent))
            return ()

        self.b.if_(self.b.call(ROWS["logical_not"], self.test(index, extent)), failed)

    def words(self, index: Value, extent: Value) -> list[Value]:
        """An index as it is written, and the extent."""
        words = [index, extent]
        if any(w.type is int64 for w in words):
            words = [w if w.type is int64 else self.b.call(ROWS["cast"], w, dtype=int64) for w in words]
        if index in self.from_end:
            words[0] = self.b.call(ROWS["sub"], *words)
        return words

    def access(self, op: _Access) -> None:
        open_axes = [axis for axis in range(op.param.rank) if not self.is_inside(op, axis)]
        if not open_axes:
            self.emit(op)
            return
        self.b.loc = op.loc
        tests = [self.test(op.indices[axis], self.extent(op, axis)) for axis in open_axes]
        condition = tests[0]
        for test in tests[1:]:
            condition = self.b.call(ROWS["logical_and"], condition, test)
        if isinstance(op, Load) and all(isinstance(n, int) and n > 0 for n in self.extents(op)):
            self.clamped(op, condition, open_axes, tests)
        else:
            self.guarded(op, condition)

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
            return self.facts.is_within(index, 0, extent - 1, op)
        return index in self.batches  # a batch has as many items as threads

    def extents(self, op: _Access) -> Sequence[int | None]:
        param = self.arrays[op.param]
        return self.shapes.get(param, param.shape)

    def extent(self, op: _Access, axis: int) -> Value:
        known = self.extents(op)[axis]
        return self.b.const(known, int32) if isinstance(known, int) else self.b.size(self.arrays[op.param], axis)

    def test(self, index: Value, extent: Value) -> Value:
        unsigned = uint32 if index.type is int32 else uint64
        return self.b.call(ROWS["lt"], *(self.b.call(ROWS["cast"], v, dtype=unsigned) for v in (index, extent)))

    def clamped(self, op: Load, condition: Value, axes: Sequence[int], tests: Sequence[Value]) -> None:
        """A load of an array that has elements: of the first one, where the index is out of range. Without a branch
        around it lanes load together."""
        b = self.b
        indices = list(op.indices)
        for axis, test in zip(axes, tests, strict=True):
            indices[axis] = b.call(ROWS["select"], test, indices[axis], b.const(0, indices[axis].type))
        loaded = b.load(op.param, indices)
        self.emit(Call(op.result, ROWS["select"], (condition, loaded, self.zero(op.result)), loc=op.loc))

    def guarded(self, op: _Access, condition: Value) -> None:
        """The access under its condition."""
        fresh = tuple(Value(v.type) for v in op.defined)
        with self.b.block() as done:
            self.emit(rebuild(op, fresh, op.operands))
        with self.b.block() as failed:
            zeros = tuple(self.zero(v) for v in op.defined)
        self.emit(If(op.defined, condition, Block((), tuple(done), fresh), Block((), tuple(failed), zeros), loc=op.loc))

    def zero(self, value: Value) -> Value:
        zero = Value(value.type)
        dtype = value.type
        self.emit(Const(zero, 0.0 if dtype.is_float else 0 if dtype.is_int else False))
        return zero
