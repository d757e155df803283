"""Between which numbers the integers of a kernel are, on one launch: least <= v <= most.

Arithmetic wraps: what may leave its type may be anything of its type, as may what nothing is known of. So a range holds
for every value that the kernel can compute, and a loop makes at most as many iterations as `trips` says.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Block, Call, Const, For, If, Op, Param, Size, Tid, Value, While, walk
from jaxwarp.types import Scalar

Range = tuple[int, int]
LARGEST_EXTENT = 2**31 - 1


class Ranges:
    """The ranges of a kernel's integers.

    Args:
        kernel: the kernel.
        grid: launch extents; an entry that is no integer is an unknown extent.
        shapes: extents of parameters, likewise, where known; the static ones are known anyway.
    """

    def __init__(self, kernel: Kernel, grid: Sequence[Any], shapes: Mapping[Param, Sequence[Any]] | None = None):
        self.grid = grid
        self.shapes = shapes or {}
        self._ranges: dict[Value, Range] = {}
        self.trips: dict[For | While, int] = {}
        # Those that the condition bounds come first, then the widest.
        self.counters: dict[While, list[Counter]] = {}
        self._bounded: set[tuple[While, Counter]] = set()
        self._constants = {op.result: op.value for op in walk(kernel.body) if isinstance(op, Const)}
        self._block(kernel.body)

    def __getitem__(self, value: Value) -> Range:
        return self._ranges.get(value) or all_of(value.type)

    def _block(self, block: Block) -> None:
        for op in block.ops:
            found = self._op(op)
            if found is not None:
                least, most = all_of(op.defined[0].type)
                if least <= found[0] and found[1] <= most:
                    self._ranges[op.defined[0]] = found
            if isinstance(op, For):
                self._for(op)
            elif isinstance(op, While):
                self._while(op)
            for inner in op.blocks:
                self._block(inner)

    def _op(self, op: Op) -> Range | None:
        match op:
            case Const() if op.result.type.is_int:
                return int(op.value), int(op.value)
            case Tid():
                return 0, max(_known(self.grid[op.axis], LARGEST_EXTENT), 1) - 1
            case Size():
                extent = self.shapes.get(op.param, op.param.shape)[op.axis]
                return _known(extent, 0), _known(extent, LARGEST_EXTENT)
            case Call() if op.result.type.is_int:
                return self._call(op)
            case _:
                return None

    def _call(self, op: Call) -> Range | None:
        name, args = op.builtin.name, op.args[1:] if op.builtin.name == "select" else op.args
        return range_of(name, [self[v] for v in args]) if all(a.type.is_int for a in args) else None

    def _for(self, op: For) -> None:
        start, stop, (stride, same) = self[op.start], self[op.stop], self[op.step]
        if stride != same or not stride:
            return
        span, inside = (
            (stop[1] - start[0], (start[0], stop[1] - 1))
            if stride > 0
            else (start[1] - stop[0], (stop[0] + 1, start[1]))
        )
        self.trips[op] = max(-(-span // abs(stride)), 0)
        if inside[0] <= inside[1]:
            self._ranges[op.body.params[0]] = inside

    def _while(self, op: While) -> None:
        """Of a loop with counters that its condition bounds: `k < n and ...` where the body ends with k + 1."""
        self._block(op.condition)
        tests = list(self._conjuncts(op.condition))
        counters = self.counters.setdefault(op, list(self._counters(op)))
        tested_first = [c for c in counters if any(self._is_tested(c, op, test) for test in tests)]
        counters.sort(key=lambda c: (c not in tested_first, -op.inits[c.position].type.bits))
        for counter in counters:
            start, step = self[op.inits[counter.position]], counter.step
            tested, inside = op.condition.params[counter.position], op.body.params[counter.position]
            for test in tests:
                bound = self._bound(test, tested, step)
                if bound is None:
                    continue
                # The last iteration leaves it beyond the bound, by less than a step.
                if step > 0:
                    ends = start[0], max(start[1], bound + step - 1)
                else:
                    ends = min(start[0], bound + step + 1), start[1]
                least, most = all_of(inside.type)
                if least <= ends[0] and ends[1] <= most:
                    span = bound - start[0] if step > 0 else start[1] - bound
                    count = max(-(-span // abs(step)), 0)
                    self.trips[op] = min(count, self.trips.get(op, count))
                    self._ranges[tested] = self._ranges[inside] = ends
                    self._bounded.add((op, counter))

    def _is_tested(self, counter: Counter, op: While, test: Call) -> bool:
        return self._bound(test, op.condition.params[counter.position], counter.step) is not None

    def may_wrap(self, loop: While, counter: Counter) -> bool:
        """Might a counter leave its type in as many iterations as the loop makes? Then it does not tell them apart."""
        trips = self.trips.get(loop)
        if trips is None or (loop, counter) in self._bounded:
            return trips is None
        start = self[loop.inits[counter.position]]
        least, most = all_of(loop.inits[counter.position].type)
        return start[0] + min(counter.step, 0) * trips < least or start[1] + max(counter.step, 0) * trips > most

    def _conjuncts(self, condition: Block) -> Iterator[Call]:
        """The comparisons that all hold where the condition does: of `a and b`, computed at once or b after a."""
        made = {value: inner for inner in walk(condition) for value in inner.defined}
        pending = list(condition.results)
        while pending:
            value = pending.pop()
            match made.get(value):
                case Call(builtin=row, args=args) if row.name == "logical_and":
                    pending += args
                case Call(builtin=row, args=args) as test if row.name in SWAPPED and args[0].type.is_int:
                    yield test
                case If() as choice:
                    place = choice.results.index(value)
                    if self._constants.get(choice.orelse.results[place]) is False:
                        pending += (choice.condition, choice.then.results[place])
                case _:
                    pass

    def _counters(self, op: While) -> Iterator[Counter]:
        made = {value: inner for inner in op.body.ops for value in inner.defined}
        for position, (carried, result) in enumerate(zip(op.body.params, op.body.results, strict=True)):
            match made.get(result):
                case Call(builtin=row, args=(a, b)) if row.name in ("add", "sub") and carried.type.is_int:
                    if b is carried and row.name == "add":
                        a, b = b, a
                    step = int(self._constants.get(b, 0))
                    if a is carried and step:
                        yield Counter(position, step if row.name == "add" else -step)
                case _:
                    pass

    def _bound(self, test: Call, counter: Value, step: int) -> int | None:
        """What the counter does not reach while the test holds, if it grows (or falls) towards it."""
        name, (a, b) = test.builtin.name, test.args
        if b is counter:
            name, a, b = SWAPPED[name], b, a
        if a is not counter or b is counter or (name in ("lt", "le")) != (step > 0):
            return None
        if step > 0:
            return self[b][1] + (name == "le")
        return self[b][0] - (name == "ge")


@dataclass(frozen=True)
class Counter:
    """A carried integer of a `while` that grows by a constant in each iteration."""

    position: int
    step: int


SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
"""Comparisons, with their operands the other way round."""


def _known(extent: Any, otherwise: int) -> int:
    return int(extent) if isinstance(extent, (int, np.integer)) else otherwise


def range_of(name: str, operands: Sequence[Range]) -> Range | None:
    """Between which whole numbers the result of an operation on integers is; None of those that are not known here.

    Of "select" the operands are those that it chooses from.
    """
    a, b = (*operands, (0, 0))[:2]
    match name:
        case "add":
            return a[0] + b[0], a[1] + b[1]
        case "sub":
            return a[0] - b[1], a[1] - b[0]
        case "neg":
            return -a[1], -a[0]
        case "mul":
            products = [x * y for x, y in itertools.product(a, b)]
            return min(products), max(products)
        case "min":
            return min(a[0], b[0]), min(a[1], b[1])
        case "max":
            return max(a[0], b[0]), max(a[1], b[1])
        case "select":
            return either(a, b)
        case "cast":
            return a
        case "from_end":
            return a[0], max(a[1], b[1] - 1)
        case _:
            return _range_of_bits(name, a, b)


def _range_of_bits(name: str, a: Range, b: Range) -> Range | None:
    """Of quotients, and of operations on bits."""
    toward_zero = min(a[0], 0), max(a[1], 0)
    match name:
        case "mod" | "shr":
            return toward_zero
        case "div" | "floordiv" if b[0] > 0:
            return toward_zero
        case "abs":
            return 0, max(abs(a[0]), abs(a[1]))
        case "bit_and" if max(a[0], b[0]) >= 0:
            return 0, min(most for least, most in (a, b) if least >= 0)
        case "bit_or" | "bit_xor" if min(a[0], b[0]) >= 0:
            return 0, (1 << max(a[1].bit_length(), b[1].bit_length())) - 1
        case "popcount" | "clz" | "ctz":
            return 0, 64
        case _:
            return None


def either(a: Range, b: Range) -> Range:
    return min(a[0], b[0]), max(a[1], b[1])


def all_of(dtype: Scalar) -> Range:
    """The numbers of a type of integers."""
    limits = np.iinfo(dtype.numpy)
    return int(limits.min), int(limits.max)
