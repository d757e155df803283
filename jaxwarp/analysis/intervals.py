"""Between which numbers integers are at one place of a kernel, given the conditions that hold there.

    if 0 < i and i < n - 1:        i in [1, n - 2], so i - 1 and i + 1 are indices of an array of n
        y[i] = x[i - 1] + x[i + 1]

`ranges.py` knows what values are everywhere; this adds what the branches around a place say. It errs on the safe side.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from jaxwarp.analysis.affine import Forms
from jaxwarp.analysis.ranges import Range, Ranges
from jaxwarp.analysis.thread_values import ThreadValues
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Call, Const, For, If, Op, Param, Value, While, walk
from jaxwarp.ir.rewrite import Rewriter, rebuild
from jaxwarp.types import Scalar

# Longer chains of operations are not looked through.
_MOST_STEPS = 24
# Nor are more values at one place: a value made by branches inside each other is looked at anew on each side.
_MOST_WORK = 300
# Conditions are not looked at for more threads, one by one.
_MOST_THREADS = 1 << 20

# Comparisons that say the same: of the operands swapped, and where it does not hold.
_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}
_OPPOSITE = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "eq": "ne", "ne": "eq"}

Shapes = Mapping[Param, Sequence[Any]]


class Intervals:
    """What is known at the place that a walk over the kernel has come to.

    Args:
        kernel: the kernel.
        grid: launch extents; an entry that is no integer is an unknown extent.
        shapes: extents of parameters, likewise.
    """

    def __init__(self, kernel: Kernel, grid: Sequence[Any], shapes: Shapes):
        self._ranges = Ranges(kernel, grid, shapes)
        self._forms = Forms(kernel, grid, shapes)
        self._values = ThreadValues(kernel, grid, shapes)
        self._made: dict[Value, Op] = {v: op for op in walk(kernel.body) for v in op.defined}
        self._indices = {op.body.params[0]: op for op in walk(kernel.body) if isinstance(op, For)}
        self._facts: list[dict[Value, Range]] = [{}]
        self._known: list[dict[Value, Range]] = [{}]
        self._conditions: list[tuple[Value, bool]] = []
        self._work = _MOST_WORK

    def is_within(self, value: Value, least: int, most: int) -> bool:
        """Is a value that is computed here between two numbers, for every thread that comes here?"""
        low, high = self[value]
        if (low >= least and high <= most) or low > high:
            return True
        found = self._values.of(value)
        if found is None:
            return False
        outside = (found < least) | (found > most)
        for condition, truth in self._conditions:
            if not outside.any():
                break
            held = self._values.of(condition)
            if held is not None and math.prod(np.broadcast_shapes(held.shape, outside.shape)) <= _MOST_THREADS:
                outside = outside & (held == truth)
        return not outside.any()

    def __getitem__(self, value: Value) -> Range:
        """Between which numbers a value is, at least."""
        self._work = _MOST_WORK
        return self._range(value, _MOST_STEPS)

    @contextmanager
    def when(self, condition: Value, truth: bool) -> Iterator[None]:
        """In the `with`, a condition is true, or false."""
        self._enter()
        self._work = _MOST_WORK
        self._conditions.append((condition, truth))
        self._assume(condition, truth)
        yield
        self._conditions.pop()
        self._leave()

    @contextmanager
    def inside(self, loop: While) -> Iterator[None]:
        """In the `with`, the walk is in the body of a loop, whose condition held before it."""
        self._enter()
        self._work = _MOST_WORK
        self._assume(loop.condition.results[0], True)
        found = [self[p] if p.type.is_int else None for p in loop.condition.params]
        self._leave()
        self._enter()
        for param, limits in zip(loop.body.params, found, strict=True):
            if limits is not None:
                self._narrow(param, limits, _MOST_STEPS)
        yield
        self._leave()

    def _enter(self) -> None:
        self._facts.append({})
        self._known.append({})

    def _leave(self) -> None:
        self._facts.pop()
        self._known.pop()

    # What is computed

    def _range(self, value: Value, steps: int) -> Range:
        found = self._known[-1].get(value)
        if found is None:
            found = self._ranges[value] if value.type.is_int else (0, 1)
            self._work -= 1
            if steps and self._work > 0 and value.type.is_int:
                found = _both(found, self._computed(value, steps - 1))
            for facts in self._facts:
                found = _both(found, facts.get(value, found))
            self._known[-1][value] = found
        return found

    def _computed(self, value: Value, steps: int) -> Range:
        every = _all(value.type)
        form = self._forms[value]
        found = None if form is None else form.range()
        if found is None and value in self._indices:
            found = self._index(self._indices[value], steps)
        op = self._made.get(value)
        if isinstance(op, Call):
            # What is made of values that a condition bounds may be bounded further.
            computed = self._call(op, steps)
            found = computed if found is None or computed is None else _both(found, computed)
        elif isinstance(op, If):
            found = self._either(op, op.results.index(value), steps)
        return found if found is not None and every[0] <= found[0] and found[1] <= every[1] else every

    def _index(self, loop: For, steps: int) -> Range | None:
        start, stop, step = (self._range(v, steps) for v in (loop.start, loop.stop, loop.step))
        if step[0] > 0:
            return start[0], stop[1] - 1
        return (stop[0] + 1, start[1]) if step[1] < 0 else None

    def _either(self, op: If, place: int, steps: int) -> Range:
        sides: list[Range] = []
        for block, truth in ((op.then, True), (op.orelse, False)):
            self._enter()
            self._assume(op.condition, truth)
            sides.append(self._range(block.results[place], steps))
            self._leave()
        return _hull(*sides)

    def _call(self, op: Call, steps: int) -> Range | None:
        name, args = op.builtin.name, op.args
        if name == "select":
            sides: list[Range] = []
            for value, truth in ((args[1], True), (args[2], False)):
                self._enter()
                self._assume(args[0], truth)
                sides.append(self._range(value, steps))
                self._leave()
            return _hull(*sides)
        if not all(a.type.is_int for a in args):
            return None
        return _arithmetic(name, [self._range(a, steps) for a in args])

    # What conditions say

    def _assume(self, condition: Value, truth: bool) -> None:
        match self._made.get(condition):
            case Call(builtin=row, args=(a,)) if row.name == "logical_not":
                self._assume(a, not truth)
            case Call(builtin=row, args=(a, b)) if row.name == ("logical_and" if truth else "logical_or"):
                self._assume(a, truth)
                self._assume(b, truth)
            case Call(builtin=row, args=(a, b)) if row.name in _SWAPPED and a.type.is_int:
                name = row.name if truth else _OPPOSITE[row.name]
                self._compare(name, a, b)
                self._compare(_SWAPPED[name], b, a)
            case If() as op:
                # `a and b`: if a { b } else { false };  `a or b`: if a { true } else { b }
                place = op.results.index(condition)
                other = self._made.get((op.orelse if truth else op.then).results[place])
                if isinstance(other, Const) and other.value == (not truth):
                    self._assume(op.condition, truth)
                    self._assume((op.then if truth else op.orelse).results[place], truth)
            case _:
                pass

    def _compare(self, name: str, a: Value, b: Value) -> None:
        """`a` is less than `b`, and so on: what that says of `a`."""
        (low, high), (least, most) = self._range(b, _MOST_STEPS), _all(a.type)
        match name:
            case "lt" | "le":
                self._narrow(a, (least, high - (name == "lt")), _MOST_STEPS)
            case "gt" | "ge":
                self._narrow(a, (low + (name == "gt"), most), _MOST_STEPS)
            case "eq":
                self._narrow(a, (low, high), _MOST_STEPS)
            case _:
                pass

    def _narrow(self, value: Value, limits: Range, steps: int) -> None:
        """A value is within limits: so are those that it is made of by adding constants."""
        before = self._range(value, _MOST_STEPS)
        self._facts[-1][value] = found = _both(before, limits)
        if found == before:
            return
        self._known[-1].clear()  # what is made of it may be narrower, too
        op = self._made.get(value)
        if not steps or not isinstance(op, Call) or not all(a.type.is_int for a in op.args):
            return
        args = [self._range(a, _MOST_STEPS) for a in op.args]
        exact = _arithmetic(op.builtin.name, args)
        least, most = _all(value.type)
        if exact is None or exact[0] < least or exact[1] > most:
            return  # it may have wrapped
        (low, high) = found
        match op.builtin.name, args:
            case "add", ((c, d), (e, f)):
                self._narrow(op.args[0], (low - f, high - e), steps - 1)
                self._narrow(op.args[1], (low - d, high - c), steps - 1)
            case "sub", ((c, d), (e, f)):
                self._narrow(op.args[0], (low + e, high + f), steps - 1)
                self._narrow(op.args[1], (c - high, d - low), steps - 1)
            case "cast", _:
                self._narrow(op.args[0], found, steps - 1)
            case _:
                pass


class Placed(Rewriter):
    """A rewriter that knows, at each operation, what the conditions around it say: `known`."""

    def __init__(self, kernel: Kernel, grid: Sequence[Any], shapes: Shapes):
        super().__init__()
        self.known = Intervals(kernel, grid, shapes)

    def op(self, op: Op) -> None:
        match op:
            case If():
                with self.known.when(op.condition, True):
                    then = self.block(op.then)
                with self.known.when(op.condition, False):
                    orelse = self.block(op.orelse)
                self.emit(rebuild(op, op.results, op.operands, (then, orelse)))
            case While():
                condition = self.block(op.condition)
                with self.known.inside(op):
                    body = self.block(op.body)
                self.emit(rebuild(op, op.results, op.operands, (condition, body)))
            case _:
                self.copy(op)


def _arithmetic(name: str, args: Sequence[Range]) -> Range | None:
    """An operation on whole numbers; None if nothing is known of it."""
    match name, args:
        case "add", (a, b):
            return a[0] + b[0], a[1] + b[1]
        case "sub", (a, b):
            return a[0] - b[1], a[1] - b[0]
        case "neg", (a,):
            return -a[1], -a[0]
        case "cast", (a,):
            return a
        case "mul", (a, b):
            products = [x * y for x, y in itertools.product(a, b)]
            return min(products), max(products)
        case "min", (a, b):
            return min(a[0], b[0]), min(a[1], b[1])
        case "max", (a, b):
            return max(a[0], b[0]), max(a[1], b[1])
        case "abs", (a,):
            return max(a[0], -a[1], 0), max(-a[0], a[1])
        # Of a side that cannot be reached the range is empty: its end is before its begin.
        case (("div" | "floordiv"), (a, b)) if a[0] >= 0 and 0 < b[0] <= b[1]:
            return a[0] // b[1], a[1] // b[0]
        case "mod", (a, b) if a[0] >= 0 and b[0] > 0:
            return 0, min(a[1], b[1] - 1)
        case "bit_and", (a, b) if a[0] >= 0 or b[0] >= 0:
            return 0, min(x[1] for x in (a, b) if x[0] >= 0)
        case "shr", (a, b) if a[0] >= 0 and 0 <= b[0] <= b[1]:
            return a[0] >> min(b[1], 63), a[1] >> min(b[0], 63)
        case _:
            return None


def _both(a: Range, b: Range) -> Range:
    return max(a[0], b[0]), min(a[1], b[1])


def _hull(a: Range, b: Range) -> Range:
    # A side that cannot be reached has no values.
    if a[0] > a[1] or b[0] > b[1]:
        return b if a[0] > a[1] else a
    return min(a[0], b[0]), max(a[1], b[1])


def _all(dtype: Scalar) -> Range:
    limits = np.iinfo(dtype.numpy)
    return int(limits.min), int(limits.max)
