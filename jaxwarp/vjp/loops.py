"""The reverse of loops, exact for any trip count.

A loop is a step c -> body(k, c) done n times. Its reverse does, for k = n - 1, ..., 0: get c as it was before iteration
k, run the body once more, reverse it. What that needs of c decides how:

* Nothing (sums, products with constants: the carried values enter linearly): the reversed iterations simply run.
* Something: that part of c is kept at checkpoints, in an array of the thread's own of SLOTS elements, and recomputed
  from the nearest one. While fewer iterations than free slots are ahead each gets a checkpoint; else one is put half
  way. So up to about SLOTS iterations every state is kept and nothing is recomputed (beyond the body itself); past
  that each halving costs one more pass: at most about n log2(n / SLOTS) steps in all, with no bound given by anyone.
  (Griewank and Walther, Algorithm 799: revolve, ACM TOMS 26, 2000, is the optimal schedule for a known n; halving
  needs no table and is within a factor of two of it.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jaxwarp.builtins.rows import ROWS
from jaxwarp.ir.nodes import Atomic, Block, Call, For, If, Op, Param, Store, Value, While, walk
from jaxwarp.types import int32, int64
from jaxwarp.vjp.adjoint import Adjoint, Cotangents, Environment, cotangent_type

# 32 states cover 2^27 iterations by halving alone, and loops of 30 iterations without recomputation.
SLOTS = 32


@dataclass
class _Reversed:
    """One reversed iteration, as code with holes: `state` and `number` stand for what the driver will supply."""

    ops: list[Op]
    number: Value  # k, int64
    state: dict[Value, Value]  # carried value of the loop -> placeholder
    incoming: dict[Value, Value]  # carried value -> placeholder of its cotangent after the iteration
    outgoing: dict[Value, Value]  # carried value -> its cotangent before the iteration
    outer: dict[Value, Value]  # value from outside the loop -> what this iteration adds to its cotangent


def reverse_loop(adjoint: Adjoint, op: For | While, env: Environment, cotangents: Cotangents) -> None:
    """Emits the reverse of a loop; cotangents of its results go to its initial values and what it captured."""
    _LoopReversal(adjoint, op, env, cotangents).run()


class _LoopReversal:
    def __init__(self, adjoint: Adjoint, op: For | While, env: Environment, cotangents: Cotangents):
        self.adjoint = adjoint
        self.builder = adjoint.builder
        self.o = adjoint.o
        self.op = op
        self.env = env
        self.cotangents = cotangents
        self.carried = op.body.params[1:] if isinstance(op, For) else op.body.params
        self.active = [i for i, v in enumerate(self.carried) if v in adjoint.activity.values]

    def run(self) -> None:
        before = {i: self.cotangents.pop(self.op.results[i], None) for i in self.active}
        body = self.reversed_body()
        if not body.ops and not body.outgoing:
            return
        trips = self.trips()
        needed = self.needed(body)
        starts = [before[i] or self.zero(self.carried[i]) for i in self.active]
        starts += [self.zero(v) for v in body.outer]
        ends = _Checkpointed(self, body, needed, trips).emit(starts) if needed else self.plain(body, trips, starts)
        for i, end in zip(self.active, ends, strict=False):
            self.adjoint.add(self.cotangents, self.op.inits[i], end)
        for value, end in zip(body.outer, ends[len(self.active) :], strict=True):
            self.adjoint.add(self.cotangents, value, end)

    def zero(self, value: Value) -> Value:
        return self.o.number(0.0, cotangent_type(value.type))

    def trips(self) -> Value:
        """How often the loop ran, int64."""
        if isinstance(self.op, While):
            return self.adjoint.trips[self.op]
        o = self.o
        bounds = [self.env[v] for v in (self.op.start, self.op.stop, self.op.step)]
        up = o.gt(bounds[2], 0)
        # Compared as they are: a large uint64 is negative as int64 (differences are right nevertheless).
        runs = o.select(up, o.lt(bounds[0], bounds[1]), o.gt(bounds[0], bounds[1]))
        start, stop, step = (o.cast(v, int64) for v in bounds)
        span = o.select(up, o.sub(stop, start), o.sub(start, stop))
        stride = o.abs(step)
        # Rounded up; a zero step divides by zero, which gives 0 as it should.
        count = o.div(o.add(span, o.sub(stride, 1)), stride)
        return o.select(runs, count, 0)

    def bind_index(self, number: Value, child: Environment) -> None:
        """The loop variable of iteration `number`."""
        if isinstance(self.op, For):
            index = self.op.body.params[0]
            start, step = self.env[self.op.start], self.env[self.op.step]
            child[index] = self.o.add(start, self.o.mul(self.o.cast(number, index.type), step))

    def step_forward(self, number: Value, state: dict[Value, Value]) -> dict[Value, Value]:
        """The carried values after iteration `number`, of those whose values before it are in `state`."""
        child = self.env.new_child(dict(state))
        for value in self.carried:
            # A value that is not kept is not read by any that is; simplification removes what it feeds.
            child.setdefault(value, self.o.number(0, value.type))
        self.bind_index(number, child)
        saved, self.adjoint.trips = self.adjoint.trips, self.adjoint.trips.new_child()
        self.adjoint.forward(self.op.body, child)
        self.adjoint.trips = saved
        return {c: child[r] for c, r in zip(self.carried, self.op.body.results, strict=True) if c in state}

    def reversed_body(self) -> _Reversed:
        with self.builder.block() as ops:
            number = Value(int64)
            state = {v: Value(v.type, v.name) for v in self.carried}
            child = self.env.new_child(dict(state))
            self.bind_index(number, child)
            saved, self.adjoint.trips = self.adjoint.trips, self.adjoint.trips.new_child()
            self.adjoint.forward(self.op.body, child)
            incoming: dict[Value, Value] = {}
            local: Cotangents = {}
            for i in self.active:
                incoming[self.carried[i]] = Value(cotangent_type(self.carried[i].type))
                self.adjoint.add(local, self.op.body.results[i], incoming[self.carried[i]])
            self.adjoint.reverse(self.op.body, child, local)
            self.adjoint.trips = saved
            outgoing = {}
            for i in self.active:
                found = local.pop(self.carried[i], None)
                outgoing[self.carried[i]] = found or self.zero(self.carried[i])
        return _Reversed(ops, number, state, incoming, outgoing, local)

    def needed(self, body: _Reversed) -> list[Value]:
        """The carried values whose former contents the reversed iterations read, and those that these depend on."""
        results = (*body.outgoing.values(), *body.outer.values())
        live = _live(body.ops, results)
        wanted = {v for v, placeholder in body.state.items() if placeholder in live}
        while True:
            more = wanted | self.feeding(wanted)
            if more == wanted:
                return [v for v in self.carried if v in wanted]
            wanted = more

    def feeding(self, wanted: set[Value]) -> set[Value]:
        """The carried values that one more iteration of those in `wanted` reads."""
        results = [r for c, r in zip(self.carried, self.op.body.results, strict=True) if c in wanted]
        live = _live(self.op.body.ops, results, pure=True)
        return {c for c in self.carried if c in live}

    def emit_reversed(
        self, body: _Reversed, outer: tuple[Value, ...], supplied: Sequence[Value] = ()
    ) -> tuple[Value, ...]:
        """Places the reversed iteration in the open block; returns the cotangents to carry on.

        Carried values that are not `supplied` feed only code that will turn out to be unused.
        """
        for value, placeholder in body.state.items():
            if value not in supplied:
                self.builder.append(_named(self.o.number(0, value.type), placeholder))
        for op in body.ops:
            self.builder.append(op)
        sums = [self.o.add(total, more) for total, more in zip(outer, body.outer.values(), strict=True)]
        return (*body.outgoing.values(), *sums)

    def plain(self, body: _Reversed, trips: Value, starts: list[Value]) -> tuple[Value, ...]:
        """for j in range(n): reverse iteration n - 1 - j."""
        counter = Value(int64)
        totals = tuple(Value(cotangent_type(v.type)) for v in body.outer)
        with self.builder.block() as ops:
            last = self.o.sub(trips, 1)
            self.builder.append(_named(self.o.sub(last, counter), body.number))
            results = self.emit_reversed(body, totals)
            block = Block((counter, *body.incoming.values(), *totals), tuple(ops), results)
        return self.append_for(trips, starts, block)

    def append_for(self, trips: Value, starts: list[Value], block: Block) -> tuple[Value, ...]:
        zero, one = self.o.number(0, int64), self.o.number(1, int64)
        ends = tuple(Value(v.type) for v in starts)
        self.builder.append(For(ends, zero, trips, one, tuple(starts), block, loc=self.op.loc))
        return ends


class _Checkpointed:
    """The driver for loops whose former states are needed.

    Slot s holds the state before iteration position[s]; `top` is the last slot in use. Slot 0 holds the start.
    """

    def __init__(self, loop: _LoopReversal, body: _Reversed, needed: list[Value], trips: Value):
        self.loop = loop
        self.o = loop.o
        self.builder = loop.builder
        self.body = body
        self.needed = needed
        self.trips = trips
        adjoint = loop.adjoint
        self.position = adjoint.local("position", int64, SLOTS)
        self.slots: list[Param] = [adjoint.local("state", v.type, SLOTS) for v in needed]

    def save(self, slot: Value, number: Value, state: tuple[Value, ...]) -> None:
        self.builder.store(self.position, [slot], number)
        for array, value in zip(self.slots, state, strict=True):
            self.builder.store(array, [slot], value)

    def emit(self, starts: list[Value]) -> tuple[Value, ...]:
        loop, o, body = self.loop, self.o, self.body
        first = o.number(0, int32)
        self.save(first, o.number(0, int64), tuple(loop.env[self.initial(v)] for v in self.needed))
        counter, top = Value(int64), Value(int32, "top")
        totals = tuple(Value(cotangent_type(v.type)) for v in body.outer)
        with self.builder.block() as ops:
            target = o.sub(o.sub(self.trips, 1), counter)
            reached, state, filled = self.advance(target, top)
            self.builder.append(_named(reached, body.number))
            for value, found in zip(self.needed, state, strict=True):
                self.builder.append(_named(found, body.state[value]))
            results = loop.emit_reversed(body, totals, self.needed)
            # The slot of this very iteration is not needed again (slot 0 may be overwritten by nothing else).
            spent = o.eq(self.builder.load(self.position, [filled]), target)
            left = o.select(spent, o.max(o.sub(filled, 1), 0), filled)
            block = Block((counter, *body.incoming.values(), *totals, top), tuple(ops), (*results, left))
        return loop.append_for(self.trips, [*starts, first], block)[:-1]

    def initial(self, carried: Value) -> Value:
        return self.loop.op.inits[self.loop.carried.index(carried)]

    def advance(self, target: Value, top: Value) -> tuple[Value, list[Value], Value]:
        """From the last checkpoint to iteration `target`, leaving checkpoints on the way."""
        o, types = self.o, [v.type for v in self.needed]
        begin = self.builder.load(self.position, [top])
        state = [self.builder.load(array, [top]) for array in self.slots]

        def short_of_target(number: Value, _filled: Value, *_state: Value) -> Value:
            return o.lt(number, target)

        def leap(number: Value, filled: Value, *state: Value) -> list[Value]:
            distance = o.sub(target, number)
            free = o.sub(SLOTS - 1, filled)
            fits = o.le(distance, o.cast(free, int64))
            half = o.div(o.add(distance, 1), 2)
            length = o.select(o.gt(free, 0), o.select(fits, 1, half), distance)
            after = self.run(number, length, list(state))
            there = o.add(number, length)
            keeps = o.logical_and(o.gt(free, 0), o.lt(there, target))
            slot = o.add(filled, 1)
            with self.builder.block() as ops:
                self.save(slot, there, tuple(after))
                then = Block((), tuple(ops), ())
            self.builder.append(If((), keeps, then, Block((), (), ()), loc=self.loop.op.loc))
            return [there, o.select(keeps, slot, filled), *after]

        inits = [begin, top, *state]
        assert len(inits) == 2 + len(types)
        reached, filled, *found = self.builder.while_(inits, short_of_target, leap)
        return reached, found, filled

    def run(self, number: Value, length: Value, state: list[Value]) -> list[Value]:
        """`length` iterations from `number` on, without reversing anything."""

        def one(index: Value, *state: Value) -> list[Value]:
            after = self.loop.step_forward(self.o.add(number, index), dict(zip(self.needed, state, strict=True)))
            return [after[v] for v in self.needed]

        zero, step = self.o.number(0, int64), self.o.number(1, int64)
        return list(self.builder.for_(zero, length, step, state, one))


def _named(value: Value, placeholder: Value) -> Op:
    """Defines a placeholder as a value: the code with holes was made before the value was known."""
    return Call(placeholder, ROWS["cast"], (value,))


def _live(ops: Sequence[Op], results: Iterable[Value], pure: bool = False) -> set[Value]:
    """Every value read, directly or not, by the effects of `ops` (unless `pure`) and by `results`."""
    live = set(results)
    for op in reversed(ops):
        inside = [inner for block in op.blocks for inner in walk(block)]
        effect = not pure and any(isinstance(x, (Store, Atomic)) for x in (op, *inside))
        if effect or any(v in live for v in op.defined):
            # A live region counts as a whole: to look closer would save little.
            for inner in (op, *inside):
                live.update(inner.operands)
                for block in inner.blocks:
                    live.update(block.results)
    return live
