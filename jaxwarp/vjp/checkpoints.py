"""The reverse of a loop whose reversed iterations need what it carried.

A segment of iterations is reversed at a time: from the state before it, which is kept, the states before each of its
iterations are made and kept too, if there are free slots for them; then its iterations are reversed, last first, with
nothing to decide on the way. A longer segment is divided, and its second part reversed first, with one slot less:

    reverse(begin, end, slot):                       slot `slot` holds the state before iteration `begin`
        if end - begin <= SLOTS - slot: as above
        middle = ...; keep the state before `middle` in slot + 1
        reverse(middle, end, slot + 1); reverse(begin, middle, slot)

With f free slots, up to C(f + r, r) iterations need at most r runs of each. For r <= 3 `middle` is chosen so that it
stays at that, which no schedule betters (Griewank and Walther, Algorithm 799: revolve, ACM TOMS 26, 2000); beyond, it
is half way, and each doubling costs half a run more. With 32 slots: one run up to 32 iterations, two up to 528, three
up to 5984, at most about 3 + log2(n / 5984) / 2 in all.

There is no stack of positions. Where the part that is not reversed yet ends tells the way down to its last segment, so
for each segment the divisions are done again from the top: a few integer operations each. Positions and slots follow
from the trip count by arithmetic alone, so threads that run a loop equally often keep in step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jaxwarp.builtins.rows import ROWS
from jaxwarp.ir.nodes import Block, Call, Param, Value
from jaxwarp.types import bool_, int64
from jaxwarp.vjp.adjoint import cotangent_type

if TYPE_CHECKING:
    from jaxwarp.vjp.loops import LoopReversal, Reversed


class _Segment(NamedTuple):
    """Iterations begin ... end - 1; `slot` holds the state before the first."""

    begin: Value
    end: Value
    slot: Value


class Checkpointed:
    """Emits the reverse of one loop, with `slots` states of what is `needed`."""

    def __init__(self, loop: LoopReversal, body: Reversed, needed: list[Value], trips: Value, slots: int):
        self.loop = loop
        self.o = loop.o
        self.builder = loop.builder
        self.body = body
        self.needed = needed
        self.trips = trips
        self.slots = slots
        self.arrays: list[Param] = [loop.adjoint.local("state", v.type, slots) for v in needed]

    def emit(self, starts: list[Value]) -> tuple[Value, ...]:
        """The loop; `starts` are cotangents of its results and of what it captured, the results those before it."""
        loop, o = self.loop, self.o
        inits = [loop.op.inits[loop.carried.index(v)] for v in self.needed]
        self.save(o.number(0, int64), [loop.env[v] for v in inits])

        def is_left(end: Value, *_: Value) -> Value:
            return o.gt(end, 0)

        def reverse_last(end: Value, top: Value, *moved: Value) -> list[Value]:
            segment = self.find(end, top)
            moved = self.reverse(segment, moved)
            return [segment.begin, o.sub(segment.slot, 1), *moved]

        return self.builder.while_([self.trips, o.number(0, int64), *starts], is_left, reverse_last)[2:]

    def save(self, slot: Value, state: list[Value]) -> None:
        for array, value in zip(self.arrays, state, strict=True):
            self.builder.store(array, [slot], value)

    def load(self, slot: Value) -> list[Value]:
        return [self.builder.load(array, [slot]) for array in self.arrays]

    def find(self, limit: Value, top: Value) -> _Segment:
        """The last segment before iteration `limit`, its states kept; on entry slots up to `top` are filled."""
        o, zero = self.o, self.o.number(0, int64)

        def goes_on(*state: Value) -> Value:
            return o.logical_not(state[-1])

        def divide(begin: Value, end: Value, slot: Value, top: Value, _: Value) -> list[Value]:
            free, distance = o.sub(self.slots - 1, slot), o.sub(end, begin)
            fits = o.le(distance, o.add(free, 1))
            middle = o.add(begin, self.first_part(distance, free))
            second = o.logical_and(o.logical_not(fits), o.lt(middle, limit))
            next_slot = o.add(slot, 1)
            makes = o.logical_or(fits, o.logical_and(second, o.gt(next_slot, top)))
            length = o.select(makes, o.sub(o.select(fits, end, o.add(middle, 1)), o.add(begin, 1)), 0)
            self.run(begin, length, slot, o.cast(fits, int64))
            return [
                o.select(second, middle, begin),
                o.select(o.logical_or(fits, second), end, middle),
                o.select(second, next_slot, slot),
                o.max(top, o.select(second, next_slot, slot)),
                fits,
            ]

        inits = [zero, self.trips, zero, top, o.number(False, bool_)]
        begin, end, slot, _, _ = self.builder.while_(inits, goes_on, divide)
        return _Segment(begin, end, slot)

    def first_part(self, distance: Value, free: Value) -> Value:
        """How many of `distance` iterations come before the next state that is kept."""
        o = self.o
        more = o.add(free, 1)
        two = o.div(o.mul(more, o.add(free, 2)), 2)  # as many as two runs of each can do
        three = o.div(o.mul(two, o.add(free, 3)), 3)
        less = o.div(o.mul(free, more), 2)  # two runs, with a slot less
        half = o.div(o.add(distance, 1), 2)
        by_three = o.select(o.le(distance, three), o.min(two, o.sub(distance, less)), half)
        part = o.select(o.le(distance, two), o.min(more, o.sub(distance, free)), by_three)
        # The last slot is for one iteration at a time.
        return o.select(o.gt(free, 1), part, o.sub(distance, 1))

    def run(self, number: Value, length: Value, slot: Value, stride: Value) -> None:
        """`length` iterations from the state in `slot`, each result kept in a slot `stride` further, at least + 1."""
        o, first = self.o, self.o.add(slot, 1)

        def one(index: Value, *state: Value) -> list[Value]:
            after = self.loop.step_forward(o.add(number, index), dict(zip(self.needed, state, strict=True)))
            results = [after[v] for v in self.needed]
            self.save(o.add(first, o.mul(index, stride)), results)
            return results

        zero, step = o.number(0, int64), o.number(1, int64)
        self.builder.for_(zero, length, step, self.load(slot), one)

    def reverse(self, segment: _Segment, moved: tuple[Value, ...]) -> tuple[Value, ...]:
        """The iterations of a segment whose states are all kept, last first."""
        o, body = self.o, self.body
        counter = Value(int64)
        totals = tuple(Value(cotangent_type(v.type)) for v in body.outer)
        last = o.sub(o.sub(segment.end, segment.begin), 1)
        with self.builder.block() as ops:
            at = o.sub(last, counter)
            self.builder.append(named(o.add(segment.begin, at), body.number))
            for value, found in zip(self.needed, self.load(o.add(segment.slot, at)), strict=True):
                self.builder.append(named(found, body.state[value]))
            results = self.loop.emit_reversed(body, totals, self.needed)
            block = Block((counter, *body.incoming.values(), *totals), tuple(ops), results)
        return self.loop.append_for(o.add(last, 1), list(moved), block)


def named(value: Value, placeholder: Value) -> Call:
    """Defines a placeholder as a value: the code with holes was made before the value was known."""
    return Call(placeholder, ROWS["cast"], (value,))
