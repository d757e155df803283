"""Run-time tests for atomics on elements that no other thread of execution touches, which need not be atomic.

A launch is cut into rectangles, which run at the same time. The threads of one rectangle run one after the other. So an
element that only one rectangle updates can be loaded, changed and stored, by all lanes at once where they are adjacent.
The code finds such elements at run time:

* A rectangle that is the whole launch owns all elements, whatever the indices.
* All updates of an array may have an index that follows a thread index within bounds that never fall
  (index_bounds.py). Then the threads before the rectangle reach up to one element, and those after it reach down to
  another. The rectangle owns what lies between these two, except (where indices wrap) the elements that threads may
  wrap to and what lies beyond them.

Two pairs of limits, for the rows and for the columns, are computed once a rectangle; each update compares its index
with them. Some leading axes (those of a batch) have a thread index that distinguishes all updates. They divide the rows
into independent parts. Loads are allowed: beside an atomic, they also see either the old or the new value.

Contended atomics are those that a rectangle has to do as atomics, mostly because their index comes from data. Where
their arrays are only added to, a launch may give each rectangle its own copies (copies.py), and passes that to the
function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jaxwarp.codegen.cpu.analysis.index_bounds import LIMIT, PartOf, Rotation, Term, Terms
from jaxwarp.codegen.cpu.llvm.lanes import Lanes
from jaxwarp.codegen.cpu.plan.exclusive import Exclusive, Key
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Value

# Beyond any index.
_FAR = 1 << 40


@dataclass(frozen=True)
class Limits:
    """Two i64 operands. No other rectangle touches the elements strictly between them."""

    low: str
    high: str


class Rectangle:
    """Code that finds out what the rectangle that a call of the launch function runs has for itself.

    Args:
        lanes: values of the function's start.
        kernel: the kernel.
        exclusive: what is known of its arrays.
    """

    def __init__(self, lanes: Lanes, kernel: Kernel, exclusive: Exclusive):
        self.lanes = lanes
        self.constants = exclusive.bounds.constants
        self.inst = lanes.function.inst
        self.lane_axis = kernel.grid_rank - 1
        self.keys = exclusive.keys
        self.copied = exclusive.copied
        self.limits: dict[Key, Limits] = {}
        # Limits that hold in one part of the rows each: the parts of the rows before and after the rectangle.
        self.in_parts: dict[Key, tuple[Limits, str, str]] = {}
        # Where threads of the same part may wrap to.
        self.wrapped: dict[Key, Limits] = {}
        self.parts_of_rotations: dict[PartOf, str] = {}
        self.whole_rows = self.whole_columns = ""

    def begin(self, emit: Callable[[Block], None]) -> None:
        """At the start of the function. `emit` emits operations that are the same for the whole launch."""
        rows, columns = self.product(0, self.lane_axis), self.product(self.lane_axis, self.lane_axis + 1)
        self.whole_rows = self.is_whole("row", rows)
        self.whole_columns = self.is_whole("col", columns)
        keys = [key for t in self.keys.values() for key in (t.rows, t.columns) if key is not None]
        values = {v for key in keys for v in key.values}
        emit(Block((), tuple(self.constants.needed(values)), ()))
        for key in keys:
            if key.axis == self.lane_axis:
                before = self.inst("sub i64 %col_begin, 1")
                self.limits[key] = self.between(key, before, "%col_end", "col", columns)
            else:
                self.row_limits(key, rows)

    def is_whole(self, which: str, extent: str) -> str:
        starts = self.inst(f"icmp eq i64 %{which}_begin, 0")
        return self.both(starts, self.inst(f"icmp eq i64 %{which}_end, {extent}"))

    def both(self, a: str, b: str) -> str:
        return self.inst(f"and i1 {a}, {b}")

    def select(self, condition: str, yes: str | int, no: str | int) -> str:
        return self.inst(f"select i1 {condition}, i64 {yes}, i64 {no}")

    def extreme(self, name: str, x: str, y: str) -> str:
        self.lanes.function.declare(f"declare i64 @llvm.{name}.i64(i64, i64)")
        return self.inst(f"call i64 @llvm.{name}.i64(i64 {x}, i64 {y})")

    def product(self, first: int, last: int) -> str:
        """Return the product of the extents of the grid's axes from `first` up to, but not including, `last`."""
        total = "1"
        for axis in range(first, last):
            extent = self.lanes.frame.grid_extent(axis)
            total = extent if total == "1" else self.inst(f"mul i64 {total}, {extent}")
        return total

    def divided(self, what: str, number: str, first: int, last: int) -> str:
        """The quotient or rest by the extents of axes; there may be an empty one."""
        return self.inst(f"{what} i64 {number}, {self.extreme('umax', self.product(first, last), '1')}")

    def row_limits(self, key: Key, rows: str) -> None:
        """Compute the limits by rows, which are meaningless and unused if no row is before or after the rectangle."""
        before, after = (
            self.divided("udiv", x, key.axis + 1, self.lane_axis)
            for x in (self.inst("sub i64 %row_begin, 1"), "%row_end")
        )
        if key.axis == 0:
            self.limits[key] = self.between(key, before, after, "row", rows)
            return

        def of_axis(what: str, thread: str) -> str:
            return self.divided(what, thread, key.axis, key.axis + 1)

        limits = self.between(key, of_axis("urem", before), of_axis("urem", after), "row", rows)
        self.in_parts[key] = limits, of_axis("udiv", before), of_axis("udiv", after)

    def between(self, key: Key, before: str, after: str, which: str, extent: str) -> Limits:
        """The limits, by the last thread index before the rectangle and the first one after it."""
        holds = self.nothing_wraps(key)
        low = self.select(holds, self.bound(key.upper, before, "smax"), _FAR)
        high = self.select(holds, self.bound(key.lower, after, "smin"), -_FAR)
        is_first = self.inst(f"icmp eq i64 %{which}_begin, 0")
        is_last = self.inst(f"icmp eq i64 %{which}_end, {extent}")
        limits = Limits(self.select(is_first, -_FAR, low), self.select(is_last, _FAR, high))
        if key.wrapped:
            wrapped = self.beyond_wrapped(key, self.select(is_first, 0, before), after)
            if key.axis in (0, self.lane_axis):
                return self.within(limits, wrapped, self.negate(self.both(is_first, is_last)))
            self.wrapped[key] = wrapped
        return limits

    def beyond_wrapped(self, key: Key, begin: str, end: str) -> Limits:
        """Any thread may wrap to there. What is left is on one side: that with the middle of what the threads go to."""
        if key.axis not in (0, self.lane_axis):
            begin, end = "0", self.product(key.axis, key.axis + 1)
        ends = self.bound(key.lower, begin, "smin"), self.bound(key.upper, end, "smax")
        middle = self.inst(f"ashr i64 {self.inst('add i64 {}, {}'.format(*ends))}, 1")
        low, high = str(-_FAR), str(_FAR)
        for first, last in key.wrapped:
            least, most = self.bound((first,), "0", "smin"), self.bound((last,), "0", "smax")
            is_below = self.inst(f"icmp slt i64 {most}, {middle}")
            low = self.extreme("smax", low, self.select(is_below, most, -_FAR))
            high = self.extreme("smin", high, self.select(is_below, _FAR, least))
        return Limits(low, high)

    def within(self, limits: Limits, others: Limits, condition: str) -> Limits:
        """Both limits where the condition holds, else the first ones."""
        low = self.extreme("smax", limits.low, self.select(condition, others.low, -_FAR))
        return Limits(low, self.extreme("smin", limits.high, self.select(condition, others.high, _FAR)))

    def negate(self, condition: str) -> str:
        return self.inst(f"xor i1 {condition}, true")

    def bound(self, terms: Terms, thread: str, which: str) -> str:
        """The least or the greatest term at a thread index."""
        result = ""
        for scale, value, constant in terms:
            term = self.inst(f"mul i64 {thread}, {scale}")
            if value is not None:
                term = self.inst(f"add i64 {term}, {self.wide(value)}")
            term = self.inst(f"add i64 {term}, {constant}")
            result = self.extreme(which, result, term) if result else term
        return result

    def wide(self, value: Value | PartOf) -> str:
        if isinstance(value, PartOf):
            return self.part_of(value)
        return self.inst(f"sext i32 {self.lanes.scalar(value)} to i64")

    def part_of(self, wanted: PartOf) -> str:
        if wanted not in self.parts_of_rotations:
            shift, modulus = self.ends_of(wanted.rotation)
            positive = self.extreme("smax", modulus, "1")
            rest = self.inst(f"srem i64 {shift}, {positive}")
            is_up = self.inst(f"icmp sle i64 {self.inst(f'shl i64 {rest}, 1')}, {positive}")
            down = self.inst(f"sub i64 {rest}, {positive}")
            ends = {
                "by": self.select(is_up, rest, down),
                "first": self.select(is_up, 0, rest),
                "last": self.inst(f"sub i64 {self.select(is_up, rest, positive)}, 1"),
            }
            self.parts_of_rotations.update((PartOf(wanted.rotation, name), number) for name, number in ends.items())
        return self.parts_of_rotations[wanted]

    def ends_of(self, rotation: Rotation) -> tuple[str, str]:
        """Return the distance by which a rotation shifts, and its modulus."""
        shift = self.bound((Term(0, rotation.shift, rotation.shift_constant),), "0", "smax")
        return shift, self.bound((Term(0, rotation.modulus, rotation.modulus_constant),), "0", "smax")

    def nothing_wraps(self, key: Key) -> str:
        extent = self.product(key.axis, key.axis + 1)
        holds = self.inst(f"icmp sle i64 {extent}, {LIMIT // max(key.scale, 1)}")
        for value in sorted(key.values, key=self.constants.number):
            distance = self.inst(f"add i64 {self.wide(value)}, {LIMIT}")
            holds = self.both(holds, self.inst(f"icmp ule i64 {distance}, {2 * LIMIT}"))
        for rotation in sorted(key.rotations, key=repr):
            # Each thread goes around once at most, from where it is or further up.
            shift, modulus = self.ends_of(rotation)
            holds = self.both(holds, self.inst(f"icmp sge i64 {shift}, 0"))
            holds = self.both(holds, self.inst(f"icmp sle i64 {extent}, {modulus}"))
        return holds

    def row(self, row: str) -> None:
        """At the start of a row: rows in other parts than its own are nothing to it."""
        for key, (limits, *parts) in self.in_parts.items():
            part = self.divided("udiv", row, key.axis, self.lane_axis)
            is_before, is_after = (self.inst(f"icmp eq i64 {part}, {x}") for x in parts)
            low, high = self.select(is_before, limits.low, -_FAR), self.select(is_after, limits.high, _FAR)
            self.limits[key] = Limits(low, high)
            if key in self.wrapped:
                shared = self.inst(f"or i1 {is_before}, {is_after}")
                self.limits[key] = self.within(self.limits[key], self.wrapped[key], shared)

    def owns(self, lanes: Lanes, op: Atomic) -> str:
        """Return an i1: whether no other rectangle touches any element of the lanes that are on."""
        keys = self.keys[op.param]
        conditions = []
        for key, whole in ((keys.rows, self.whole_rows), (keys.columns, self.whole_columns)):
            inside = whole if key is None else self.inside(lanes, op.indices[key.position], self.limits[key])
            conditions.append(inside)
        is_own = self.both(*conditions)
        return self.inst(f"or i1 {self.lanes.frame.has_own_copies}, {is_own}") if op.param in self.copied else is_own

    def inside(self, lanes: Lanes, index: Value, limits: Limits) -> str:
        stride = lanes.strides.of[index]
        if stride is None:
            return self.all_inside(lanes, lanes.vector(index), limits)
        scalar = lanes.scalar(index)
        first = lanes.widened.get(scalar) or self.inst(f"sext i32 {scalar} to i64")
        # In order: for a stride below 0 lane 0 has the greatest index.
        last = self.inst(f"add i64 {first}, {stride * (lanes.width - 1)}") if stride else first
        least, greatest = (first, last) if stride >= 0 else (last, first)
        above = self.inst(f"icmp sgt i64 {least}, {limits.low}")
        return self.both(above, self.inst(f"icmp slt i64 {greatest}, {limits.high}"))

    def all_inside(self, lanes: Lanes, vector: str, limits: Limits) -> str:
        """The same for an index that varies; lanes that are off may have any."""
        wide = lanes.many.wide("i32")
        compared = []
        for order, limit in (("sgt", limits.low), ("slt", limits.high)):
            narrow = self.extreme("smin", self.extreme("smax", limit, str(-(1 << 31))), str((1 << 31) - 1))
            narrow = self.inst(f"trunc i64 {narrow} to i32")
            compared.append(self.inst(f"icmp {order} {wide} {vector}, {lanes.splat('i32', narrow)}"))
        outside = lanes.negate(self.inst(f"and {lanes.many.mask_type} {compared[0]}, {compared[1]}"))
        return self.inst(f"xor i1 {lanes.any(lanes.both(lanes.mask, outside))}, true")
