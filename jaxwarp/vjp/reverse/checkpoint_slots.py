"""Where the states of a loop are kept, so that what is there follows from iteration numbers alone.

The iterations are cut into segments of 2^fine. While a loop runs, the states of the current segment are kept, and the
state before each segment q, in a slot that the binary digits of q name:

    coarse     q = i 2^stride, for i < 2^coarse: the slot is i, its digits rotated by `stride`. When i gets too large,
               the stride is doubled; every other state is dropped, and none moves: the slot of i at stride + 1 is that
               of 2 i at `stride`, or, of the new i >= 2^coarse / 2, that of a dropped one.
    between    multiples of 2^level for level < stride: a slot for each level, and for each digit of the lowest `group`
               levels together. It keeps the last one that was passed.

With the loop over, segments are reversed from the last one down. The slots hold the state before segment m then, unless
its last digits are ones (those up to a zero; of the group all of them, or none count): then the loop is run again from
where these digits are zero, which fills the slots between once more.

    layout 5, 4, 3:  n <=   32 iterations run once,    2048: 2.75 times
                     n <=  512 twice,                  4096: 2.9 times
                     n <= 1024 2.5 times,              and half a time more for each doubling

Nothing depends on the trip count but the stride, so threads whose loops end apart agree on every place up to 512
iterations, and on every segment at any number. Positions take shifts and masks, no division and no stack.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxwarp.ir.nodes import Value
from jaxwarp.vjp.calculus import Calculus


@dataclass(frozen=True)
class Layout:
    """How many states are kept, by powers of two.

    Attributes:
        fine: iterations in a segment.
        coarse: states that are spread over all segments; 1, 2 or 4.
        group: the lowest levels between, whose digits have a slot each.
        levels: further levels, of one slot. Beyond, 2^(fine + coarse + group + levels) iterations, states are further
            apart, and what lies between is run anew for each segment.
    """

    fine: int
    coarse: int
    group: int
    levels: int

    @property
    def segment(self) -> int:
        return 1 << self.fine

    @property
    def slots(self) -> int:
        """Of states before segments; the last one is for those that are not kept."""
        return self.unkept + 1

    @property
    def unkept(self) -> int:
        return (1 << self.coarse) + (1 << self.group) - 1 + self.levels


class CheckpointSlots:
    """Emits the arithmetic; all values are int64."""

    def __init__(self, o: Calculus, layout: Layout):
        self.o = o
        self.layout = layout

    def stride(self, last: Value) -> Value:
        """How often the stride was doubled when the loop is at segment `last`."""
        return self.o.max(self.o.sub(64 - self.layout.coarse, self.o.clz(last)), 0)

    def slot(self, number: Value, stride: Value) -> Value:
        """Of the state before segment `number`."""
        o, layout = self.o, self.layout
        states, digits = 1 << layout.coarse, 1 << layout.group
        skipped = self._skipped(stride)
        twice = o.mul(o.shr(number, stride), states + 1)  # its digits, and again: to be rotated by a shift
        turned = o.bit_and(o.shr(twice, o.bit_and(o.neg(stride), layout.coarse - 1)), states - 1)
        level = o.ctz(number)
        kept_level = o.sub(level, skipped)
        in_group = o.add(o.bit_and(o.shr(number, skipped), digits - 1), states - 1)
        above = o.add(kept_level, states + digits - 1 - layout.group)
        between = o.select(o.lt(kept_level, layout.group), in_group, above)
        between = o.select(o.lt(kept_level, 0), layout.unkept, between)
        return o.select(o.lt(level, stride), between, turned)

    def nearest(self, number: Value, stride: Value) -> Value:
        """The segment, `number` or one before it, whose state is there when segments from `number` on are reversed."""
        o = self.o
        skipped = self._skipped(stride)
        ones = o.ctz(o.bit_not(number))
        is_last = o.ge(ones, o.min(stride, o.add(skipped, self.layout.group)))
        cleared = o.select(is_last, o.min(ones, stride), skipped)
        return o.shl(o.shr(number, cleared), cleared)

    def _skipped(self, stride: Value) -> Value:
        """The levels that are not kept."""
        return self.o.max(self.o.sub(stride, self.layout.group + self.layout.levels), 0)
