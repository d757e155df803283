"""Loops for all lanes at once: a loop runs while any lane wants another iteration, and keeps the results of lanes that
have left."""

from __future__ import annotations

from collections.abc import Callable, Collection

from jaxwarp.codegen.cpu.control.divergent import (
    LongCounts,
    RunningLanes,
    bind_results,
    conjuncts,
    constant_step,
    kept_values,
    leave,
)
from jaxwarp.codegen.cpu.control.register_blocked import RegisterBlockedLoop, blocked_width
from jaxwarp.codegen.cpu.llvm.lanes import Lanes
from jaxwarp.codegen.cpu.llvm.loops import LoopHeader, range_distance, trip_count
from jaxwarp.codegen.cpu.llvm.vectors import scalar_type
from jaxwarp.ir.nodes import Block, For, Op, Value, While, walk


class LoopEmitter:
    """Writes the loops of one body.

    Args:
        lanes: where values are kept.
        block: writes a block.
        either: writes a jump.
        within: makes what writes operations for some of the lanes.
        done: operations whose results are bound already.
    """

    def __init__(
        self,
        lanes: Lanes,
        block: Callable[[Block], None],
        either: Callable[..., None],
        within: Callable[[Lanes], Callable[[Op], None]],
        done: Collection[Op],
    ):
        self.lanes = lanes
        self.function = lanes.function
        self.strides = lanes.strides
        self.block = block
        self.either = either
        self.within = within
        self.done = done

    def for_(self, op: For) -> None:
        if self.strides.has_uniform_trips(op):
            self.uniform_for(op)
        elif op in self.strides.aligned:
            self.aligned_for(op)
        else:
            below = self.starts_below(op)
            if below is None:
                self.varying_for(op)
            else:
                read = [result for result in op.results if result in self.strides.used]

                def version(write: Callable[[For], None]) -> list[Value]:
                    write(op)
                    return read

                self.either(below, read, lambda: version(self.varying_for), lambda: version(self.natural_for))

    def starts_below(self, op: For) -> str | None:
        """Return an i1: whether an index that counts from the end is negative in a lane that is on.

        The result is None if one version of the loop is enough. With two, rows of a sparse matrix take 0.8 of the time
        (AVX2).
        """
        lanes, function = self.lanes, self.function
        least = self.strides.least_counted.get(op.body.params[0])
        is_upwards = int(self.strides.constants.get(op.step, 0)) > 0
        if least is None or not is_upwards or lanes.is_rest or any(inner.blocks for inner in walk(op.body)):
            return None
        type_, start = lanes.many.type(op.start.type), lanes.vector(op.start)
        if least:
            start = function.inst(f"add {type_} {start}, {lanes.splat(scalar_type(op.start.type), str(least))}")
        is_negative = function.inst(f"icmp slt {type_} {start}, zeroinitializer")
        return lanes.any(lanes.both(lanes.mask, is_negative))

    def natural_for(self, op: For) -> None:
        """A loop of whose index no lane makes a negative one."""
        self.lanes.natural.add(op.body.params[0])
        self.varying_for(op)
        self.lanes.natural.remove(op.body.params[0])

    def uniform_for(self, op: For) -> None:
        lanes, function = self.lanes, self.function
        index, *params = op.body.params
        type_ = scalar_type(index.type)
        bounds = [lanes.scalar(v) for v in (op.start, op.stop, op.step)]
        trips = trip_count(lanes.one, index.type, bounds)
        inits = self.lanes.held_as(op.inits, params)
        header, body, after = function.loop_labels("for")
        loop = LoopHeader(function, header)
        count = loop.phi(type_, "0")
        position = loop.phi(type_, bounds[0])
        carried = [loop.phi(self.lanes.held_type(p), i) for p, i in zip(params, inits, strict=True)]
        is_more = function.inst(f"icmp ne {type_} {count}, {trips}")
        function.line(f"br i1 {is_more}, label %{body}, label %{after}")
        function.open(body)
        with lanes.region(lanes.mask):
            lanes.bind(index, position)
            self.lanes.bind_all(params, carried)
            self.block(op.body)
            nexts = self.lanes.held_as(op.body.results, params)
        next_count = function.inst(f"add {type_} {count}, 1")
        # An index that all lanes share is only used if it is in the range, so it has not overflowed.
        exact = "nsw " if index.type.is_signed and self.strides.is_uniform(index) else ""
        next_position = function.inst(f"add {exact}{type_} {position}, {bounds[2]}")
        loop.close([next_count, next_position, *nexts], ", !llvm.loop !5")
        function.open(after)
        self.lanes.bind_all(op.results, carried)

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
        inits = self.lanes.held_as(op.inits, params)
        keeps = kept_values(self.lanes, op.results, params, op.inits)
        header, body, after = function.loop_labels("for")
        loop = LoopHeader(function, header)
        left = loop.phi(vector, distance)
        position = loop.phi(self.lanes.held_type(index), start)
        carried = [loop.phi(self.lanes.held_type(p), i) for p, i in zip(params, inits, strict=True)]
        kept = {i: loop.phi(many.type(params[i].type), init) for i, init in keeps.items()}
        live = function.inst(f"icmp ne {vector} {left}, zeroinitializer")
        function.line(f"br i1 {lanes.any(live)}, label %{body}, label %{after}")
        function.open(body)
        if not lanes.frame.machine.has_mask_registers:
            # Compared again, since LLVM would pack the mask to carry it here, see RunningLanes.
            hidden = lanes.opaque(left, vector, lanes.width * index.type.bytes)
            live = function.inst(f"icmp ne {vector} {hidden}, zeroinitializer")
        with lanes.region(live):
            lanes.bind(index, position)
            self.lanes.bind_all(params, carried)
            self.block(op.body)
            nexts, next_kept = leave(self.lanes, op, params, carried, kept, live)
        rest = many.intrinsic("usub.sat", index.type, [(index.type, left), (index.type, pace)])
        next_position = function.inst(f"add {self.lanes.held_type(index)} {position}, {step}")
        loop.close([rest, next_position, *nexts, *next_kept])
        function.open(after)
        bind_results(self.lanes, op.results, carried, kept)

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
        inits = self.lanes.held_as(op.inits, params)
        header, body, after = function.loop_labels("for")
        loop = LoopHeader(function, header)
        position = loop.phi(type_, first)
        carried = [loop.phi(self.lanes.held_type(p), i) for p, i in zip(params, inits, strict=True)]
        is_more = function.inst(f"icmp {before} {type_} {position}, {stop}")
        function.line(f"br i1 {is_more}, label %{body}, label %{after}")
        function.open(body)
        live = function.inst(f"icmp {reached} {vector} {starts}, {lanes.splat(type_, position)}")
        with lanes.region(live):
            lanes.bind(index, position)
            self.lanes.bind_all(params, carried)
            self.block(op.body)
            nexts = [
                many.select(live, many.type(p.type), new, old)
                for p, new, old in zip(params, self.lanes.held_as(op.body.results, params), carried, strict=True)
            ]
        loop.close([function.inst(f"add nsw {type_} {position}, {step}"), *nexts])
        function.open(after)
        self.lanes.bind_all(op.results, carried)

    def while_(self, op: While) -> None:
        if self.strides.has_uniform_trips(op):
            self.uniform_while(op)
        elif width := blocked_width(op, self.lanes):
            RegisterBlockedLoop(self.lanes, op, width, self.within, self.done).emit()
        else:
            self.varying_while(op)

    def uniform_while(self, op: While) -> None:
        lanes, function = self.lanes, self.function
        params = op.condition.params
        inits = self.lanes.held_as(op.inits, params)
        header, body, after = function.loop_labels("while")
        loop = LoopHeader(function, header)
        carried = [loop.phi(self.lanes.held_type(p), i) for p, i in zip(params, inits, strict=True)]
        with lanes.region(lanes.mask):
            self.lanes.bind_all(params, carried)
            self.block(op.condition)
            function.line(f"br i1 {lanes.scalar(op.condition.results[0])}, label %{body}, label %{after}")
            function.open(body)
            with lanes.region(lanes.mask):
                self.lanes.bind_alike(op.body.params, params)
                self.block(op.body)
                nexts = self.lanes.held_as(op.body.results, params)
        loop.close(nexts)
        function.open(after)
        bind_results(self.lanes, op.results, carried, {})

    def varying_while(self, op: While) -> None:
        """The lanes that are on are those that were, and whose condition holds.

        What all running lanes test alike stays a scalar: where it fails, all of them leave. What a lane left with of
        a value that changes by the same step in every iteration follows from the number of its iterations.
        """
        lanes, function, many = self.lanes, self.function, self.lanes.many
        params = op.condition.params
        inits = self.lanes.held_as(op.inits, params)
        keeps = kept_values(self.lanes, op.results, params, op.inits)
        running = RunningLanes(lanes, self.strides.mask_bits(params))
        steps = {i: step for i in keeps if running.can_count(params[i].type) and (step := constant_step(op, i))}
        starts = {i: keeps.pop(i) for i in steps}
        long = LongCounts([running]) if any(params[i].type.bits > running.bits for i in steps) else None
        header, body, after = function.loop_labels("while")
        loop = LoopHeader(function, header)
        running.enter(loop)
        carried = [loop.phi(self.lanes.held_type(p), i) for p, i in zip(params, inits, strict=True)]
        kept = {i: loop.phi(many.type(params[i].type), init) for i, init in keeps.items()}
        iterations = loop.phi(running.type, "zeroinitializer") if steps else ""
        if long:
            long.enter(loop)
        with lanes.region(running.on()):
            self.lanes.bind_all(params, carried)
            self.block(op.condition)
            alike, varying = conjuncts(op.condition, self.strides)
            goes_on = running.test([lanes.vector(v) for v in varying])
            for value in alike:
                goes_on = function.inst(f"and i1 {goes_on}, {lanes.scalar(value)}")
            function.line(f"br i1 {goes_on}, label %{body}, label %{after}")
            function.open(body)
            live = running.live()
            with lanes.region(live):
                self.lanes.bind_alike(op.body.params, params)
                self.block(op.body)
                nexts, next_kept = leave(self.lanes, op, params, carried, kept, live)
                counts = [running.count(iterations)] if steps else []
        if long:
            begun, counts = long.iteration(counts)
            counts.append(begun)
        loop.close([running.next, *nexts, *next_kept, *counts])
        function.open(after)
        counted = (long.totals([iterations])[0], 64) if long else (iterations, running.bits)
        for i, (step, is_down) in steps.items():
            dtype = params[i].type
            kept[i] = running.after(counted, dtype, starts[i], lanes.spread(dtype, lanes.scalar(step)), is_down)
        bind_results(self.lanes, op.results, carried, kept)
