"""The reverse of loops, exact for any trip count.

A loop is a step c -> body(k, c) done n times. Its reverse does, for k = n - 1, ..., 0: get c as it was before iteration
k, run the body once more, reverse it. What that needs of c decides how:

* Nothing (sums, products with constants: the carried values enter linearly): the reversed iterations simply run.
* Something: that part of c is kept at checkpoints, in arrays of the thread's own, and recomputed from the nearest one
  (`checkpoints.py`). Of few iterations every state is kept; there is no bound on n.

Loops that look for an extremum of a tile need neither (`extrema.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from jaxwarp.ir.nodes import Atomic, Block, For, Load, Op, Param, Store, Value, While, walk
from jaxwarp.types import int64
from jaxwarp.vjp.reverse.checkpoints import Checkpointed
from jaxwarp.vjp.reverse.context import Cotangents, Environment, Reversal, cotangent_type
from jaxwarp.vjp.reverse.extrema import reverse_extremum
from jaxwarp.vjp.reverse.loop_steps import LoopSteps, Reversed, named


def reverse_loop(context: Reversal, op: For | While, env: Environment, cotangents: Cotangents) -> None:
    """Emits the reverse of a loop; cotangents of its results go to its initial values and what it captured."""
    chain = context.extrema.get(op, ())
    ranges = [context.known_range(loop) for loop in chain]
    if chain and all(ranges):
        reverse_extremum(context, chain, [r[0] for r in ranges], env, cotangents)
    else:
        LoopReversal(context, op, env, cotangents).run()


class LoopReversal(LoopSteps):
    def run(self) -> None:
        before = {i: self.cotangents.pop(self.op.results[i], None) for i in self.active}
        body = self.reversed_body({i for i, c in before.items() if c is None or c in self.context.guarded})
        if not body.ops and not body.outgoing and not body.outer:
            return
        needed = self.needed(body)
        starts = [before[i] or self.zero(self.carried[i]) for i in self.active]
        starts += [self.zero(v) for v in body.outer]
        ends = self.checkpointed(body, needed, starts) if needed else self.plain(body, self.trips(), starts)
        # Zero where the loop made no iteration, or none in which the value mattered.
        self.context.guarded.update(ends)
        for i, end in zip(self.active, ends, strict=False):
            self.context.add(self.cotangents, self.op.inits[i], end)
        for value, end in zip(body.outer, ends[len(self.active) :], strict=True):
            self.context.add(self.cotangents, value, end)

    def checkpointed(self, body: Reversed, needed: list[Value], starts: list[Value]) -> tuple[Value, ...]:
        states, first = Checkpointed(self, body, needed, self.known_trips()), self.context.runs[self.op]
        # A `while` has to run first to be counted, and what fills an array runs first.
        is_read = self.context.primal_liveness.reaches(first)
        is_kept = is_read or isinstance(first, While) or any(isinstance(op, Store) for op in walk(first.body))
        if is_kept:
            with self.builder.block() as ops:
                states.keep(first)
            self.context.primal_liveness.replace(first, ops)
        with self.context.running(self.op.body):
            return states.reverse(starts, is_kept)

    def reversed_body(self, guarded: Collection[int]) -> Reversed:
        """Carried values whose cotangents may be zero for all iterations done so far are `guarded`."""
        with self.builder.block() as ops, self.context.running(self.op.body):
            number = Value(int64)
            state = {v: Value(v.type, v.name) for v in self.carried}
            child = self.env.new_child(dict(state))
            self.bind_index(number, child)
            saved, self.context.runs = self.context.runs, self.context.runs.new_child()
            self.context.forward(self.op.body, child)
            incoming: dict[Value, Value] = {}
            local: Cotangents = {}
            is_single = not guarded and self.is_single()
            for i in self.active:
                cotangent = incoming[self.carried[i]] = Value(cotangent_type(self.carried[i].type))
                if i in guarded:
                    self.context.guarded.add(cotangent)
                seed = self.o.number(1.0, cotangent.type) if is_single else cotangent
                self.context.add(local, self.op.body.results[i], seed)
            self.context.reverse(self.op.body, child, local)
            self.context.runs = saved
            if is_single:
                (cotangent,) = incoming.values()
                local = self.products(local, cotangent)
            outgoing = {}
            for i in self.active:
                found = local.pop(self.carried[i], None)
                outgoing[self.carried[i]] = found or self.zero(self.carried[i])
        return Reversed(ops, number, state, incoming, outgoing, local)

    def products(self, slopes: Cotangents, cotangent: Value) -> Cotangents:
        """Slopes times a cotangent, each in its own type; zero where a slope is that of a side that was not taken."""
        found: Cotangents = {}
        for value, slope in slopes.items():
            moved = self.o.cast(cotangent, slope.type)
            if slope in self.context.guarded:
                found[value] = self.o.guarded(slope, moved)
                self.context.guarded.add(found[value])
            elif (product := self.context.scaled(slope, moved)) is not None:
                found[value] = product
        return found

    def is_single(self) -> bool:
        """Return whether the reversed body multiplies the cotangent of one number by a factor independent of it.

        Then an iteration depends on the one before by one multiplication only, and can compute the factor while it
        waits. All values must have one type: in a narrower type, the factor may overflow where the product does not.
        """
        ops = list(walk(self.op.body))
        read = [v for op in ops for v in (*op.operands, *(v for block in op.blocks for v in block.results))]
        types = {v.type for v in (*read, *self.carried) if v in self.context.activity.values}
        if len(types) != 1:
            return False
        accesses = [op for op in ops if isinstance(op, Load | Store | Atomic)]
        is_memory_active = any(op.param in self.context.activity.params for op in accesses)
        return len(self.active) == 1 and not is_memory_active and not any(isinstance(op, For | While) for op in ops)

    def needed(self, body: Reversed) -> list[Value]:
        """The carried values whose former contents the reversed iterations read, and those that these depend on."""
        results = (*body.outgoing.values(), *body.outer.values())
        live = _live(body.ops, results, self.of_iterations)
        wanted = {v for v, placeholder in body.state.items() if placeholder in live}
        while True:
            more = wanted | self.feeding(wanted)
            if more == wanted:
                return [v for v in self.carried if v in wanted]
            wanted = more

    def feeding(self, wanted: set[Value]) -> set[Value]:
        """The carried values that one more iteration of those in `wanted` reads."""
        results = [r for c, r in zip(self.carried, self.op.body.results, strict=True) if c in wanted]
        live = _live(self.op.body.ops, results, self.of_iterations, pure=True)
        return {c for c in self.carried if c in live}

    @property
    def of_iterations(self) -> set[Param]:
        """Arrays that each iteration fills and reads for itself, and what is recorded of them."""
        filled = self.context.own.filled_by(self.op.body)
        return {*filled, *(r.param for r in self.context.own.records.values() if r.load.param in filled)}

    def plain(self, body: Reversed, trips: Value, starts: list[Value]) -> tuple[Value, ...]:
        """for j in range(n): reverse iteration n - 1 - j."""
        counter = Value(int64)
        totals = tuple(Value(cotangent_type(v.type)) for v in body.outer)
        with self.builder.block() as ops:
            last = self.o.sub(trips, 1)
            self.builder.append(named(self.o.sub(last, counter), body.number))
            results = self.emit_reversed(body, totals)
            block = Block((counter, *body.incoming.values(), *totals), tuple(ops), results)
        return self.append_for(trips, starts, block)

    def append_for(self, trips: Value, starts: list[Value], block: Block) -> tuple[Value, ...]:
        zero, one = self.o.number(0, int64), self.o.number(1, int64)
        ends = tuple(Value(v.type) for v in starts)
        is_shared = isinstance(self.op, For) and self.op.over_tile  # sums of cotangents may be in any order then
        self.builder.append(For(ends, zero, trips, one, tuple(starts), block, is_shared, loc=self.op.loc))
        return ends


def _live(ops: Sequence[Op], results: Iterable[Value], own: Collection[Param], pure: bool = False) -> set[Value]:
    """Every value read, directly or not, by the effects of `ops` (unless `pure`) and by `results`.

    Stores to arrays in `own` matter to loads that come after them; those to others are effects.
    """
    live, loaded = set(results), set[Param]()
    for op in reversed(ops):
        inside = [op, *(inner for block in op.blocks for inner in walk(block))]
        stored = {x.param for x in inside if isinstance(x, (Store, Atomic))}
        effect = not (pure or stored.issubset(own)) or not stored.isdisjoint(loaded)
        if effect or any(v in live for v in op.defined):
            # A live region counts as a whole: to look closer would save little.
            loaded.update(x.param for x in inside if isinstance(x, Load) and x.param in own)
            for inner in inside:
                live.update(inner.operands)
                for block in inner.blocks:
                    live.update(block.results)
    return live
