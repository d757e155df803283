"""Blocks, branches and loops for all lanes at once.

What all active lanes decide alike stays a branch. Where lanes differ, a branch becomes two masked regions, each skipped
if no lane wants it, whose results are chosen by lane; a loop runs while any lane wants another iteration, and keeps the
results of lanes that have left. Values of lanes that are off are never chosen, so nothing else needs masking.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from jaxwarp.codegen.cpu.atomics import emit_atomic, emit_lane_sums, lane_sum_group
from jaxwarp.codegen.cpu.builder import scalar_constant, scalar_type
from jaxwarp.codegen.cpu.lanes import Lanes
from jaxwarp.codegen.cpu.loops import (
    LongCounts,
    Loop,
    RunningLanes,
    conjuncts,
    constant_step,
    range_distance,
    trip_count,
)
from jaxwarp.codegen.cpu.memory import MAX_GROUP, emit_load, emit_store, emit_store_group, store_group
from jaxwarp.codegen.cpu.parts import PartedLoop, part_width
from jaxwarp.codegen.cpu.straight import is_cheap
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
    Tid,
    Value,
    While,
    walk,
)  # fmt: skip
from jaxwarp.types import int64

# As many results and values of both branches are chosen from without a jump.
_FEW_VALUES = 8

_PURE = (Const, Tid, Size, Call)


class Emitter:
    """Writes one body.

    Args:
        lanes: where values are kept.
        tids: the thread index of lane 0 by grid axis, i64 operands.
        choices: bools known to be constant in the chunks this body runs on.
        done: operations whose results are bound already.
    """

    def __init__(
        self,
        lanes: Lanes,
        tids: Sequence[str],
        choices: Mapping[Value, bool] | None = None,
        done: Collection[Op] = (),
    ):
        self.lanes = lanes
        self.function = lanes.function
        self.strides = lanes.strides
        self.tids = tids
        self.choices = choices or {}
        self.done = done

    def block(self, block: Block) -> None:
        ops, at = block.ops, 0
        while at < len(ops):
            op = ops[at]
            if isinstance(op, Store):
                at += self.stores(ops, at)
            elif isinstance(op, Atomic) and len(group := lane_sum_group(self.lanes, ops[at:])) > 1:
                end = ops.index(group[-1]) + 1
                for inner in ops[at:end]:
                    if inner not in group:
                        self.op(inner)
                emit_lane_sums(self.lanes, group)
                at = end
            else:
                self.op(op)
                at += 1
            if not isinstance(op, (Load, *_PURE)):
                self.lanes.loaded.clear()

    def stores(self, ops: Sequence[Op], at: int) -> int:
        """Emits the store at `at`, or the group of stores that starts there. Returns how many operations that was.

        Pure operations between the stores of a group (values and indices of components) are emitted before it.
        """
        first = ops[at]
        if isinstance(first, Store) and (first.param.rank < 2 or first.param.shape[-1] is None):
            emit_store(self.lanes, first)
            return 1
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
            emit_store(self.lanes, every[0])
            return 1
        last = stores[len(group) - 1]
        for op in ops[at:last]:
            if isinstance(op, _PURE):
                self.op(op)
        emit_store_group(self.lanes, group)
        return last + 1 - at

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
                emit_atomic(self.lanes, op)
            case If():
                self.if_(op)
            case For():
                self.for_(op)
            case While():
                self.while_(op)
            case _:
                raise InternalError(f"the CPU code generator does not know {type(op).__name__}")

    def call(self, op: Call) -> None:
        lanes, types = self.lanes, [a.type for a in op.args]
        if lanes.strides.is_scalar(op.result):
            # Also of linear values: their base obeys the same arithmetic.
            if op.builtin.name == "select" and op.args[0] in self.choices:
                lanes.bind(op.result, lanes.scalar(op.args[1 if self.choices[op.args[0]] else 2]))
                return
            args = [lanes.scalar(a) for a in op.args]
            if op.builtin.name == "cast" and op.result.type is int64 and args[0] in lanes.widened:
                lanes.bind(op.result, lanes.widened[args[0]])
                return
            lanes.bind(op.result, op.builtin.llvm(lanes.one, op.result.type, types, args))
        else:
            args = [lanes.vector(a) for a in op.args]
            lanes.bind(op.result, op.builtin.llvm(lanes.many, op.result.type, types, args))

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
        """Are both branches a few scalar operations, cheaper computed than branched around?"""
        values = [*op.results, *(result for block in op.blocks for inner in walk(block) for result in inner.defined)]
        return (
            self.lanes.width > 1
            and len(values) <= _FEW_VALUES
            and all(self.strides.is_scalar(v) for v in values)
            and all(is_cheap(block) for block in op.blocks)
        )

    def choice(self, op: If) -> None:
        """A branch that is none, so that what is the same in a row is computed once a row, see invariants.py."""
        lanes = self.lanes
        for block in op.blocks:
            self.block(block)
        condition = lanes.scalar(op.condition)
        for result, yes, no in zip(op.results, *(block.results for block in op.blocks), strict=True):
            type_ = self.held_type(result)
            lanes.bind(result, lanes.one.select(condition, type_, lanes.scalar(yes), lanes.scalar(no)))

    def uniform_if(self, op: If) -> None:
        function = self.function
        labels = [function.new_label("then"), function.new_label("else")]
        join = function.new_label("join")
        function.line(f"br i1 {self.lanes.scalar(op.condition)}, label %{labels[0]}, label %{labels[1]}")
        ends: list[tuple[list[str], str]] = []
        for label, block in zip(labels, op.blocks, strict=True):
            function.open(label)
            with self.lanes.region(self.lanes.mask):
                self.block(block)
                values = [
                    self.lanes.held(v, self.strides.of[r]) for r, v in zip(op.results, block.results, strict=True)
                ]
            ends.append((values, function.label))
            function.line(f"br label %{join}")
        function.open(join)
        for i, result in enumerate(op.results):
            arms = ", ".join(f"[ {values[i]}, %{label} ]" for values, label in ends)
            self.lanes.bind(result, function.inst(f"phi {self.held_type(result)} {arms}"))

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

    # Loops

    def for_(self, op: For) -> None:
        if self.strides.has_uniform_trips(op):
            self.uniform_for(op)
        elif op in self.strides.aligned:
            self.aligned_for(op)
        else:
            self.varying_for(op)

    def uniform_for(self, op: For) -> None:
        lanes, function = self.lanes, self.function
        index, *params = op.body.params
        type_ = scalar_type(index.type)
        bounds = [lanes.scalar(v) for v in (op.start, op.stop, op.step)]
        trips = trip_count(lanes.one, index.type, bounds)
        inits = self.held_as(op.inits, params)
        header, body, after = function.loop_labels("for")
        loop = Loop(function, header)
        count = loop.phi(type_, "0")
        position = loop.phi(type_, bounds[0])
        carried = [loop.phi(self.held_type(p), i) for p, i in zip(params, inits, strict=True)]
        is_more = function.inst(f"icmp ne {type_} {count}, {trips}")
        function.line(f"br i1 {is_more}, label %{body}, label %{after}")
        function.open(body)
        with lanes.region(lanes.mask):
            lanes.bind(index, position)
            self.bind_all(params, carried)
            self.block(op.body)
            nexts = self.held_as(op.body.results, params)
        next_count = function.inst(f"add {type_} {count}, 1")
        # An index that all lanes share is only used if it is in the range, so it has not overflowed.
        exact = "nsw " if index.type.is_signed and self.strides.is_uniform(index) else ""
        next_position = function.inst(f"add {exact}{type_} {position}, {bounds[2]}")
        loop.close([next_count, next_position, *nexts], ", !llvm.loop !5")
        function.open(after)
        self.bind_all(op.results, carried)

    def varying_for(self, op: For) -> None:
        """Each lane counts down how far it still has to go; it is on while that is not zero."""
        lanes, function, many = self.lanes, self.function, self.lanes.many
        index, *params = op.body.params
        vector = many.type(index.type)
        bounds = [lanes.vector(v) for v in (op.start, op.stop, op.step)]
        literal = lanes.scalar(op.step) if self.strides.is_uniform(op.step) else "%"
        distance, pace = range_distance(many, index.type, bounds, literal)
        if lanes.mask is not None:
            distance = many.select(lanes.mask, vector, distance, "zeroinitializer")
        step, start = (lanes.held(v, self.strides.of[index]) for v in (op.step, op.start))
        inits = self.held_as(op.inits, params)
        keeps = self.kept(op.results, params, op.inits)
        header, body, after = function.loop_labels("for")
        loop = Loop(function, header)
        left = loop.phi(vector, distance)
        position = loop.phi(self.held_type(index), start)
        carried = [loop.phi(self.held_type(p), i) for p, i in zip(params, inits, strict=True)]
        kept = {i: loop.phi(many.type(params[i].type), init) for i, init in keeps.items()}
        live = function.inst(f"icmp ne {vector} {left}, zeroinitializer")
        function.line(f"br i1 {lanes.any(live)}, label %{body}, label %{after}")
        function.open(body)
        with lanes.region(live):
            lanes.bind(index, position)
            self.bind_all(params, carried)
            self.block(op.body)
            nexts, next_kept = self.leave(op, params, carried, kept, live)
        rest = many.intrinsic("usub.sat", index.type, [(index.type, left), (index.type, pace)])
        next_position = function.inst(f"add {self.held_type(index)} {position}, {step}")
        loop.close([rest, next_position, *nexts, *next_kept])
        function.open(after)
        self.bind_results(op.results, carried, kept)

    def aligned_for(self, op: For) -> None:
        """The index runs from the first start of any lane to the stop; a lane is on from its own start on."""
        lanes, function, many = self.lanes, self.function, self.lanes.many
        index, *params = op.body.params
        type_, vector = scalar_type(index.type), many.type(index.type)
        stop, step = lanes.scalar(op.stop), lanes.scalar(op.step)
        least, reached, before = ("smin", "sle", "slt") if step == "1" else ("smax", "sge", "sgt")
        starts = lanes.vector(op.start)
        if lanes.mask is not None:
            starts = many.select(lanes.mask, vector, starts, lanes.splat(type_, stop))
        name = f"{type_} @llvm.vector.reduce.{least}.v{lanes.width}{type_}"
        function.declare(f"declare {name}({vector})")
        first = function.inst(f"call {name}({vector} {starts})")
        inits = self.held_as(op.inits, params)
        header, body, after = function.loop_labels("for")
        loop = Loop(function, header)
        position = loop.phi(type_, first)
        carried = [loop.phi(self.held_type(p), i) for p, i in zip(params, inits, strict=True)]
        is_more = function.inst(f"icmp {before} {type_} {position}, {stop}")
        function.line(f"br i1 {is_more}, label %{body}, label %{after}")
        function.open(body)
        live = function.inst(f"icmp {reached} {vector} {starts}, {lanes.splat(type_, position)}")
        with lanes.region(live):
            lanes.bind(index, position)
            self.bind_all(params, carried)
            self.block(op.body)
            nexts = [
                many.select(live, many.type(p.type), new, old)
                for p, new, old in zip(params, self.held_as(op.body.results, params), carried, strict=True)
            ]
        loop.close([function.inst(f"add nsw {type_} {position}, {step}"), *nexts])
        function.open(after)
        self.bind_all(op.results, carried)

    def while_(self, op: While) -> None:
        if self.strides.has_uniform_trips(op):
            self.uniform_while(op)
        elif width := part_width(op, self.lanes):
            PartedLoop(self, op, width).emit()
        else:
            self.varying_while(op)

    def uniform_while(self, op: While) -> None:
        lanes, function = self.lanes, self.function
        params = op.condition.params
        inits = self.held_as(op.inits, params)
        header, body, after = function.loop_labels("while")
        loop = Loop(function, header)
        carried = [loop.phi(self.held_type(p), i) for p, i in zip(params, inits, strict=True)]
        with lanes.region(lanes.mask):
            self.bind_all(params, carried)
            self.block(op.condition)
            function.line(f"br i1 {lanes.scalar(op.condition.results[0])}, label %{body}, label %{after}")
            function.open(body)
            with lanes.region(lanes.mask):
                self.bind_alike(op.body.params, params)
                self.block(op.body)
                nexts = self.held_as(op.body.results, params)
        loop.close(nexts)
        function.open(after)
        self.bind_results(op.results, carried, {})

    def varying_while(self, op: While) -> None:
        """The lanes that are on are those that were, and whose condition holds.

        What all running lanes test alike stays a scalar: where it fails, all of them leave. What a lane left with of
        a value that changes by the same step in every turn follows from the number of its turns.
        """
        lanes, function, many = self.lanes, self.function, self.lanes.many
        params = op.condition.params
        inits = self.held_as(op.inits, params)
        keeps = self.kept(op.results, params, op.inits)
        running = RunningLanes(lanes, self.strides.mask_bits(params))
        steps = {i: step for i in keeps if running.can_count(params[i].type) and (step := constant_step(op, i))}
        starts = {i: keeps.pop(i) for i in steps}
        long = LongCounts([running]) if any(params[i].type.bits > running.bits for i in steps) else None
        header, body, after = function.loop_labels("while")
        loop = Loop(function, header)
        running.enter(loop)
        carried = [loop.phi(self.held_type(p), i) for p, i in zip(params, inits, strict=True)]
        kept = {i: loop.phi(many.type(params[i].type), init) for i, init in keeps.items()}
        turns = loop.phi(running.type, "zeroinitializer") if steps else ""
        if long:
            long.enter(loop)
        with lanes.region(running.on()):
            self.bind_all(params, carried)
            self.block(op.condition)
            alike, varying = conjuncts(op.condition, self.strides)
            goes_on = running.test([lanes.vector(v) for v in varying])
            for value in alike:
                goes_on = function.inst(f"and i1 {goes_on}, {lanes.scalar(value)}")
            function.line(f"br i1 {goes_on}, label %{body}, label %{after}")
            function.open(body)
            live = running.live()
            with lanes.region(live):
                self.bind_alike(op.body.params, params)
                self.block(op.body)
                nexts, next_kept = self.leave(op, params, carried, kept, live)
                counts = [running.count(turns)] if steps else []
        if long:
            begun, counts = long.turn(counts)
            counts.append(begun)
        loop.close([running.next, *nexts, *next_kept, *counts])
        function.open(after)
        counted = (long.totals([turns])[0], 64) if long else (turns, running.bits)
        for i, (step, is_down) in steps.items():
            dtype = params[i].type
            kept[i] = running.after(counted, dtype, starts[i], lanes.spread(dtype, lanes.scalar(step)), is_down)
        self.bind_results(op.results, carried, kept)

    def kept(self, results: Sequence[Value], params: Sequence[Value], inits: Sequence[Value]) -> dict[int, str]:
        """Which carried values are scalars in a loop that lanes leave one by one, but have a result that is read.

        Active lanes agree on them, those that left do not: vectors beside the scalars keep what each lane left with.
        Returns their initial vectors by position.
        """
        lanes = self.lanes
        return {
            i: lanes.vector(init)
            for i, (result, param, init) in enumerate(zip(results, params, inits, strict=True))
            if result in self.strides.used and self.strides.is_scalar(param)
        }

    def leave(
        self, op: For | While, params: Sequence[Value], carried: Sequence[str], kept: Mapping[int, str], live: str
    ) -> tuple[list[str], list[str]]:
        """The next carried values of a loop that lanes leave one by one, and the next kept ones."""
        many, lanes = self.lanes.many, self.lanes
        nexts = self.held_as(op.body.results, params)
        for i, (param, result) in enumerate(zip(params, op.results, strict=True)):
            if not self.strides.is_scalar(param) and result in self.strides.used:
                nexts[i] = many.select(live, many.type(param.type), nexts[i], carried[i])
        next_kept = [
            many.select(live, many.type(params[i].type), lanes.vector(op.body.results[i]), old)
            for i, old in kept.items()
        ]
        return nexts, next_kept

    def bind_results(self, results: Sequence[Value], carried: Sequence[str], kept: Mapping[int, str]) -> None:
        for i, result in enumerate(results):
            if result in self.strides.used:
                self.lanes.bind(result, kept.get(i, carried[i]))

    # Helpers

    def within(self, lanes: Lanes) -> Emitter:
        """Writes for some of the lanes."""
        return Emitter(lanes, self.tids, self.choices, self.done)

    def held_type(self, value: Value) -> str:
        ops = self.lanes.one if self.strides.is_scalar(value) else self.lanes.many
        return ops.type(value.type)

    def held_as(self, values: Sequence[Value], targets: Sequence[Value]) -> list[str]:
        """`values` in the form in which `targets` are held."""
        return [self.lanes.held(v, self.strides.of[t]) for v, t in zip(values, targets, strict=True)]

    def bind_alike(self, values: Sequence[Value], others: Sequence[Value]) -> None:
        for value, other in zip(values, others, strict=True):
            self.lanes.bind_as(value, other)

    def bind_all(self, values: Sequence[Value], operands: Sequence[str]) -> None:
        for value, operand in zip(values, operands, strict=True):
            self.lanes.bind(value, operand)
