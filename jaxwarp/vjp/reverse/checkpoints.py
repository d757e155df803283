"""The reverse of a loop whose reversed iterations need what it carried: states are kept, and made again.

    for q in segments:                      the first run: the loop itself, if what it computes is needed,
        keep the state before q             else it is run when the first segment is reversed
        for r in iterations of q:
            keep the state before r; run it
    for m in segments, the last first:
        the same, from the nearest state that is there, to m (of the last segment all states are there)
        for r in iterations of m, the last first:
            reverse it

`checkpoint_slots.py` says where states are kept. Of iterations that are known to be few, every state is.

Segments and iterations are counted down to a fixed end, so threads that begin at different ones are soon at the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jaxwarp.ir.nodes import Block, For, Param, Value, While
from jaxwarp.types import Scalar, int32, int64
from jaxwarp.vjp.reverse.checkpoint_slots import CheckpointSlots, SlotLayout
from jaxwarp.vjp.reverse.context import cotangent_type
from jaxwarp.vjp.reverse.loop_steps import LoopSteps, Reversed, named

# For loops that keep up to so many bytes a state, and for others. The fewer these are, the longer are the segments:
# what a vector of lanes keeps is in a processor's first cache.
LAYOUTS = {
    8: SlotLayout(7, 4, 3, 16),
    16: SlotLayout(6, 4, 3, 16),
    64: SlotLayout(5, 4, 3, 16),
    None: SlotLayout(4, 4, 0, 16),
}


def choose_layout(types: Iterable[Scalar]) -> SlotLayout:
    """Return the layout in which states of these types are kept."""
    size = sum(dtype.bytes for dtype in types)
    return next(layout for most, layout in LAYOUTS.items() if most is None or size <= most)


State = Sequence[Value]


class Checkpointed:
    """Emits the reverse of one loop, with states of what is `needed`.

    Args:
        loop: the loop.
        body: its reversed iteration.
        needed: the carried values it reads, and those that they depend on.
        known: how often the loop runs, if that is known here.
    """

    def __init__(self, loop: LoopSteps, body: Reversed, needed: list[Value], known: int | None):
        self.loop = loop
        self.o = loop.o
        self.builder = loop.builder
        self.body = body
        self.needed = needed
        self.layout = choose_layout(v.type for v in needed)
        self.slots = CheckpointSlots(self.o, self.layout)
        # All iterations are one segment, if they are few.
        self.known = known if known is not None and known <= 2 * self.layout.segment else None
        segment, local = self.layout.segment if self.known is None else self.known, loop.context.local
        self.fine: list[Param] = [local("state", v.type, segment + 1) for v in needed]
        self.coarse: list[Param] = []
        if self.known is None:
            self.coarse = [local("start", v.type, self.layout.slots) for v in needed]

    def keep(self, run: For | While) -> None:
        """The loop as it is run first, keeping states, in place of `run`: it defines the same values."""
        if isinstance(run, While):
            self.keep_while(run)
            return
        carried, inits = self.loop.carried, [self.loop.env[v] for v in self.loop.op.inits]
        if self.known is not None:
            ends = self.run_iterations(self.o.number(0, int64), self.o.number(self.known, int32), carried, inits)
        else:
            ends = self.run_first(carried, inits)
        for end, result in zip(ends, run.results, strict=True):
            self.builder.append(named(end, result))

    def run_first(self, carried: State, inits: State) -> State:
        """Runs all segments, while the stride grows."""
        o = self.o
        last, length = self.extent()

        def segment(number: Value, *state: Value) -> State:
            self.save_start(number, self.kept(carried, state))
            steps = o.select(o.eq(number, last), length, self.layout.segment)
            return self.run_iterations(self.first(number), steps, carried, state)

        one = o.number(1, int64)
        return self.builder.for_(o.number(0, int64), o.add(last, one), one, inits, segment)

    def save_start(self, number: Value, state: State) -> None:
        """Keeps the state before a segment when the loop gets there."""
        self.save(self.coarse, self.slots.slot(number, self.slots.stride(number)), state)

    def keep_while(self, run: While) -> None:
        """Its last carried value counts the iterations."""
        o, counted = self.o, run.body.params[-1]
        state = [run.body.params[self.loop.carried.index(v)] for v in self.needed]
        with self.builder.block() as ops:
            at = o.cast(o.bit_and(counted, self.layout.segment - 1), int32)

            def begin() -> State:
                self.save_start(o.shr(counted, self.layout.fine), state)
                return ()

            self.builder.if_(o.eq(at, 0), begin)
            self.save(self.fine, at, state)
        body = Block(run.body.params, (*ops, *run.body.ops), run.body.results)
        self.builder.append(While(run.results, run.inits, run.condition, body, loc=run.loc))

    def reverse(self, starts: list[Value], is_kept: bool) -> tuple[Value, ...]:
        """The reversed loop; `starts` are cotangents of its results and of what it captured.

        Returns those before the loop. `is_kept` says whether states have been kept by the first run.
        """
        o = self.o
        zero, inits = o.number(0, int64), [self.loop.env[self.loop.op.inits[i]] for i in self.positions]
        if self.known is not None:
            if not is_kept:
                self.run_iterations(zero, o.number(self.known - 1, int32), self.needed, inits)
            return self.reverse_segment(zero, o.number(self.known, int32), starts)
        last, length = self.extent()
        if not is_kept:
            self.save_start(zero, inits)

        def segment(number: Value, *moved: Value) -> State:
            is_last = o.eq(number, last)
            count = o.select(is_last, length, self.layout.segment)

            def again() -> State:
                # That of `last`, computed only here: LLVM would do it before the loop, also where it is for nothing.
                stride = self.slots.stride(o.max(last, number))
                begin = self.slots.nearest(number, stride)
                length = self.layout.segment
                if not is_kept:
                    begin, length = o.select(is_last, 0, begin), count
                self.run_again(begin, number, o.sub(o.const(length, count), 1), stride)
                return ()

            if is_kept:
                self.builder.if_(o.lt(number, last), again)
            else:
                again()
            return self.reverse_segment(self.first(number), count, moved)

        minus = o.number(-1, int64)
        return self.builder.for_(last, minus, minus, starts, segment)

    @property
    def positions(self) -> list[int]:
        return [self.loop.carried.index(v) for v in self.needed]

    def extent(self) -> tuple[Value, Value]:
        """The last segment (-1: there is none), int64, and how many iterations it has, int32."""
        o, trips = self.o, self.loop.trips()
        last = o.shr(o.sub(trips, 1), self.layout.fine)
        return last, o.cast(o.sub(trips, self.first(last)), int32)

    def first(self, segment: Value) -> Value:
        return self.o.shl(segment, self.layout.fine)

    def run_again(self, begin: Value, end: Value, length: Value, stride: Value) -> None:
        """Runs segments from `begin`, whose state is there, to `end`, the latter for `length` iterations."""
        o = self.o

        def segment(number: Value, *state: Value) -> State:
            slot, is_first = self.slots.slot(number, stride), o.eq(number, begin)
            there = zip(self.load(self.coarse, slot), state, strict=True)
            state = tuple(o.select(is_first, found, after) for found, after in there)
            self.save(self.coarse, slot, state)
            steps = o.select(o.eq(number, end), length, self.layout.segment)
            return self.run_iterations(self.first(number), steps, self.needed, state)

        nothing = [o.number(0, v.type) for v in self.needed]
        self.builder.for_(begin, o.add(end, 1), o.number(1, int64), nothing, segment)

    def run_iterations(self, begin: Value, steps: Value, carried: State, state: State) -> State:
        """Runs `steps` iterations from `begin` on, all states kept: those before, and that after."""
        o = self.o
        zero, one = o.number(0, int32), o.number(1, int32)
        self.save(self.fine, zero, self.kept(carried, state))

        def iteration(at: Value, *state: Value) -> State:
            number = o.add(begin, o.cast(at, int64))
            after = self.loop.step_forward(number, dict(zip(carried, state, strict=True)))
            results = [after[v] for v in carried]
            self.save(self.fine, o.add(at, 1), self.kept(carried, results))
            return results

        return self.builder.for_(zero, steps, one, state, iteration)

    def reverse_segment(self, begin: Value, length: Value, moved: Sequence[Value]) -> tuple[Value, ...]:
        """`length` iterations from `begin` on, whose states are all kept, the last first."""
        o, body = self.o, self.body
        index, minus = Value(int32), o.number(-1, int32)
        totals = tuple(Value(cotangent_type(v.type)) for v in body.outer)
        start = o.sub(length, 1)
        with self.builder.block() as ops:
            self.builder.append(named(o.add(begin, o.cast(index, int64)), body.number))
            for value, found in zip(self.needed, self.load(self.fine, index), strict=True):
                self.builder.append(named(found, body.state[value]))
            results = self.loop.emit_reversed(body, totals, self.needed)
        block = Block((index, *body.incoming.values(), *totals), tuple(ops), results)
        ends = tuple(Value(v.type) for v in moved)
        self.builder.append(For(ends, start, minus, minus, tuple(moved), block, loc=self.loop.op.loc))
        return ends

    def kept(self, carried: State, state: State) -> State:
        """Return the values of a state that are kept."""
        found = dict(zip(carried, state, strict=True))
        return [found[v] for v in self.needed]

    def save(self, arrays: Sequence[Param], slot: Value, state: State) -> None:
        for array, value in zip(arrays, state, strict=True):
            self.builder.store(array, [slot], value)

    def load(self, arrays: Sequence[Param], slot: Value) -> list[Value]:
        return [self.builder.load(array, [slot]) for array in arrays]
