"""Blocks and branches for all lanes at once.

What all active lanes decide alike stays a branch. Where lanes differ, a branch becomes two masked regions, each skipped
if no lane wants it, whose results are chosen by lane. Loops are in loops.py. Values of lanes that are off are
never chosen, so nothing else needs masking.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from jaxwarp.codegen.cpu.access.memory import emit_load, emit_store, emit_store_group, store_group
from jaxwarp.codegen.cpu.access.record_groups import store_records, stored_records
from jaxwarp.codegen.cpu.accumulate.accumulators import Accumulators
from jaxwarp.codegen.cpu.accumulate.atomics import AtomicEmitter
from jaxwarp.codegen.cpu.analysis.components import MAX_GROUP
from jaxwarp.codegen.cpu.analysis.families import families
from jaxwarp.codegen.cpu.analysis.speculation import is_cheap
from jaxwarp.codegen.cpu.control.loops import LoopEmitter
from jaxwarp.codegen.cpu.control.prints import emit_print
from jaxwarp.codegen.cpu.control.task_calls import TaskCode, emit_task_call
from jaxwarp.codegen.cpu.control.thread_parts import thread_part
from jaxwarp.codegen.cpu.llvm.formulas import emit_builtin
from jaxwarp.codegen.cpu.llvm.lanes import Lanes
from jaxwarp.codegen.cpu.llvm.vectors import scalar_constant
from jaxwarp.errors import InternalError
from jaxwarp.ir.nodes import (
    Atomic,
    Block,
    Call,
    Const,
    For,
    If,
    Load,
    Op,
    Size,
    Store,
    Tell,
    Tid,
    Value,
    While,
    walk,
)  # fmt: skip
from jaxwarp.types import int64

# As many results and values of both branches are chosen from without a jump.
_FEW_VALUES = 8

_PURE = (Const, Tid, Size, Call)


def _from(ops: Sequence[Op], at: int) -> Iterator[Op]:
    """The operations from one on, as they are asked for: a group ends soon, and a block may have thousands."""
    return (ops[i] for i in range(at, len(ops)))


class Emitter:
    """Writes one body.

    Args:
        lanes: where values are kept.
        tids: the thread index of lane 0 by grid axis, i64 operands.
        accumulators: where atomics may add, other than to memory.
        choices: bools known to be constant in the chunks this body runs on.
        done: operations whose results are bound already.
        tasks: loops that are functions.
    """

    def __init__(
        self,
        lanes: Lanes,
        tids: Sequence[str],
        accumulators: Accumulators,
        choices: Mapping[Value, bool] | None = None,
        done: Collection[Op] = (),
        tasks: Mapping[For, TaskCode] | None = None,
    ):
        self.lanes = lanes
        self.tasks = tasks or {}
        self.function = lanes.function
        self.strides = lanes.strides
        self.tids = tids
        self.accumulators = accumulators
        self.choices = choices or {}
        self.done = done
        self.atomics = AtomicEmitter(lanes, accumulators)
        self.loops = LoopEmitter(lanes, self.block, self.either, self.within, done)

    def block(self, block: Block) -> None:
        ops, at = block.ops, 0
        if self.lanes.width > 1:
            self.lanes.families.update(families(ops, self.strides))
        while at < len(ops):
            op = ops[at]
            if isinstance(op, Store):
                at += self.stores(ops, at)
            elif isinstance(op, Atomic) and len(group := self.atomics.lane_sum_group(_from(ops, at))) > 1:
                at = self.between(ops, at, group)
                self.atomics.emit_lane_sums(group)
            elif isinstance(op, Atomic) and (records := self.atomics.record_group(op, _from(ops, at))):
                at = self.between(ops, at, records.values())
                self.atomics.emit_records(records)
            else:
                self.op(op)
                at += 1
            if not isinstance(op, (Load, *_PURE)):
                self.lanes.loaded.clear()

    def between(self, ops: Sequence[Op], at: int, group: Collection[Op]) -> int:
        """Emits what lies between the operations of a group that starts at `at`. Returns where the group ends."""
        end = max(ops.index(op, at) for op in group) + 1
        for op in ops[at:end]:
            if op not in group:
                self.op(op)
        return end

    def stores(self, ops: Sequence[Op], at: int) -> int:
        """Emits the store at `at`, or the group of stores that starts there. Returns how many operations that was.

        Pure operations between the stores of a group (values and indices of components) are emitted before it.
        """
        first = ops[at]
        if isinstance(first, Store) and (first.param.rank < 2 or first.param.shape[-1] is None):
            return self.records(ops, at)
        end, stores = at, []
        while end < len(ops) and isinstance(ops[end], (Store, *_PURE)) and len(stores) < MAX_GROUP:
            stores += [end] if isinstance(ops[end], Store) else []
            end += 1
        every = [op for i in stores if isinstance(op := ops[i], Store)]
        for op in ops[at:end]:
            if isinstance(op, Const):
                self.op(op)
        group = store_group(self.lanes, every)
        if not group:
            return self.records(ops, at)
        last = stores[len(group) - 1]
        for op in ops[at:last]:
            if isinstance(op, _PURE):
                self.op(op)
        emit_store_group(self.lanes, group)
        return last + 1 - at

    def records(self, ops: Sequence[Op], at: int) -> int:
        """Emits the store at `at`, or all stores to the same records. Returns how many operations that was."""
        first = ops[at]
        group = stored_records(self.lanes, first, _from(ops, at)) if isinstance(first, Store) else {}
        if not group:
            self.op(first)
            return 1
        end = self.between(ops, at, group.values())
        store_records(self.lanes, group)
        return end - at

    def op(self, op: Op) -> None:
        if op in self.done:
            return
        match op:
            case Const():
                self.lanes.bind(op.result, scalar_constant(op.result.type, op.value))
            case Tid():
                wide = self.tids[op.axis]
                narrow = self.lanes.derive(
                    (wide, "i32"), lambda: self.function.inst(f"trunc nuw nsw i64 {wide} to i32")
                )
                self.lanes.widened[narrow] = wide
                self.lanes.bind(op.result, narrow)
            case Size():
                extent = self.lanes.frame.extent(op.param, op.axis)
                text = str(extent) if isinstance(extent, int) else self.function.inst(f"trunc i64 {extent} to i32")
                self.lanes.bind(op.result, text)
            case Call():
                self.call(op)
            case Load():
                emit_load(self.lanes, op)
            case Store():
                emit_store(self.lanes, op)
            case Atomic():
                self.atomics.emit(op)
            case Tell():
                emit_print(self.lanes, op)
            case If():
                self.if_(op)
            case For():
                self.for_(op)
            case While():
                self.loops.while_(op)
            case _:
                raise InternalError(f"the CPU code generator does not know {type(op).__name__}")

    def for_(self, op: For) -> None:
        code = self.tasks.get(op)
        if code is None:
            self.loops.for_(op)
            return
        for inner in code.task.before:
            self.op(inner)
        emit_task_call(self.lanes, code)

    def call(self, op: Call) -> None:
        lanes = self.lanes
        if lanes.strides.is_scalar(op.result):
            # Also of linear values: their base obeys the same arithmetic.
            if op.builtin.name == "select" and op.args[0] in self.choices:
                lanes.bind(op.result, lanes.scalar(op.args[1 if self.choices[op.args[0]] else 2]))
                return
            args = [lanes.scalar(a) for a in op.args]
            if op.builtin.name == "cast" and op.result.type is int64 and args[0] in lanes.widened:
                lanes.bind(op.result, lanes.widened[args[0]])
                return
            lanes.bind(op.result, emit_builtin(lanes.one, op, args))
        else:
            if op.builtin.name == "from_end" and self.strides.shifts.get(op.args[0], op.args)[0] in lanes.natural:
                lanes.bind_as(op.result, op.args[0])
                return
            if (part := thread_part(lanes, op)) is not None:
                lanes.bind(op.result, part)
                return
            args = [lanes.vector(a) for a in op.args]
            lanes.bind(op.result, emit_builtin(lanes.many, op, args))

    # Branches

    def if_(self, op: If) -> None:
        if op.condition in self.choices:
            block = op.then if self.choices[op.condition] else op.orelse
            self.block(block)
            for result, value in zip(op.results, block.results, strict=True):
                self.lanes.bind_as(result, value)
        elif self.strides.is_uniform(op.condition):
            if self.is_choice(op):
                self.choice(op)
            else:
                self.uniform_if(op)
        else:
            self.varying_if(op)

    def is_choice(self, op: If) -> bool:
        """Return whether both branches are a few scalar operations, cheaper to compute than to branch around."""
        values = [*op.results, *(result for block in op.blocks for inner in walk(block) for result in inner.defined)]
        return (
            self.lanes.width > 1
            and len(values) <= _FEW_VALUES
            and all(self.strides.is_scalar(v) for v in values)
            and all(is_cheap(block) for block in op.blocks)
        )

    def choice(self, op: If) -> None:
        """A branch that is none, so that what is the same in a row is computed once a row, see hoisting.py."""
        lanes = self.lanes
        for block in op.blocks:
            self.block(block)
        condition = lanes.scalar(op.condition)
        for result, yes, no in zip(op.results, *(block.results for block in op.blocks), strict=True):
            type_ = self.lanes.held_type(result)
            lanes.bind(result, lanes.one.select(condition, type_, lanes.scalar(yes), lanes.scalar(no)))

    def uniform_if(self, op: If) -> None:
        def branch(block: Block) -> Sequence[Value]:
            self.block(block)
            return block.results

        condition = self.lanes.scalar(op.condition)
        self.either(condition, op.results, lambda: branch(op.then), lambda: branch(op.orelse))

    def either(self, condition: str, results: Sequence[Value], *branches: Callable[[], Sequence[Value]]) -> None:
        """A jump to one of two branches, which write themselves and return what the results are there."""
        function = self.function
        labels = [function.new_label("then"), function.new_label("else")]
        join = function.new_label("join")
        function.line(f"br i1 {condition}, label %{labels[0]}, label %{labels[1]}")
        ends: list[tuple[list[str], str]] = []
        for label, branch in zip(labels, branches, strict=True):
            function.open(label)
            with self.lanes.region(self.lanes.mask):
                found = branch()
                values = [self.lanes.held(v, self.strides.of[r]) for r, v in zip(results, found, strict=True)]
            ends.append((values, function.label))
            function.line(f"br label %{join}")
        function.open(join)
        for i, result in enumerate(results):
            arms = ", ".join(f"[ {values[i]}, %{label} ]" for values, label in ends)
            self.lanes.bind(result, function.inst(f"phi {self.lanes.held_type(result)} {arms}"))

    def varying_if(self, op: If) -> None:
        lanes = self.lanes
        condition = lanes.vector(op.condition)
        chosen = [self.branch(block, condition, is_then) for block, is_then in ((op.then, True), (op.orelse, False))]
        for result, yes, no in zip(op.results, *chosen, strict=True):
            if lanes.strides.is_scalar(result):
                # Both branches yield one and the same value from outside.
                lanes.bind_as(result, op.then.results[op.results.index(result)])
            else:
                lanes.bind(result, lanes.many.select(condition, lanes.many.type(result.type), yes, no))

    def branch(self, block: Block, condition: str, is_then: bool) -> list[str]:
        """A branch of an `If` that lanes take differently; returns its results as vectors."""
        lanes, function = self.lanes, self.function
        if is_cheap(block):
            self.block(block)
            return [lanes.vector(v) for v in block.results]
        mask = lanes.seal(lanes.both(lanes.mask, condition if is_then else lanes.negate(condition)))
        inside, after = function.new_label("on"), function.new_label("off")
        function.line(f"br i1 {lanes.any(mask)}, label %{inside}, label %{after}")
        before = function.label
        function.open(inside)
        with lanes.region(mask):
            self.block(block)
            values = [lanes.vector(v) for v in block.results]
        end = function.label
        function.line(f"br label %{after}")
        function.open(after)
        return [
            function.inst(f"phi {lanes.many.type(v.type)} [ {x}, %{end} ], [ zeroinitializer, %{before} ]")
            for v, x in zip(block.results, values, strict=True)
        ]

    def within(self, lanes: Lanes) -> Callable[[Op], None]:
        """Writes operations for some of the lanes."""
        return Emitter(lanes, self.tids, self.accumulators, self.choices, self.done).op
