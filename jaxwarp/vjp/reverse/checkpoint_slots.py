"""The slots for the states of a loop. The contents of a slot follow from iteration numbers alone.

The iterations are cut into segments of 2^fine. While a loop runs, it keeps the states of the current segment, and the
state before each segment q, in a slot that the binary digits of q name:

    coarse     q = i 2^stride, for i < 2^coarse: the slot is i, its digits rotated by `stride`. When i gets too large,
               the stride is doubled; every other state is dropped, and none moves: the slot of i at stride + 1 is that
               of 2 i at `stride`, or, of the new i >= 2^coarse / 2, that of a dropped one.
    between    multiples of 2^level for level < stride: a slot for each level, and for each digit of the lowest `group`
               levels together. It keeps the last one that was passed.

When the loop is over, segments are reversed from the last one down. The slots then hold the state before segment m,
unless its last digits are ones (those up to a zero; of the group, all digits count or none). In that case the loop runs
again from the segment in which these digits are zero, which refills the slots between.

    layout 5, 4, 3:  n <=   32 iterations run once,    2048: 2.75 times
                     n <=  512 twice,                  4096: 2.9 times
                     n <= 1024 2.5 times,              and half a time more for each doubling

Only the stride depends on the trip count. So threads whose loops end at different iterations agree on every place up to
512 iterations, and on every segment at any number. Positions take shifts and masks, no division and no stack.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxwarp.ir.nodes import Value
from jaxwarp.vjp.calculus import Calculus


@dataclass(frozen=True)
class SlotLayout:
    """The numbers of states that are kept, as powers of two.

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
        """The number of slots for states before segments. The last slot is for states that are not kept."""
        return self.unkept + 1

    @property
    def unkept(self) -> int:
        return (1 << self.coarse) + (1 << self.group) - 1 + self.levels


class CheckpointSlots:
    """Emits the arithmetic; all values are int64."""

    def __init__(self, o: Calculus, layout: SlotLayout):
        self.o = o
        self.layout = layout

    def stride(self, last: Value) -> Value:
        """Return how often the stride has been doubled when the loop is at segment `last`."""
        return self.o.max(self.o.sub(64 - self.layout.coarse, self.o.clz(last)), 0)

    def slot(self, number: Value, stride: Value) -> Value:
        """Return the slot of the state before segment `number`."""
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
