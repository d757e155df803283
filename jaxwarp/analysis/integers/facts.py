"""Between which numbers the integers of a kernel are: everywhere, and at one operation by the conditions around it.

    if 0 < i and i < n - 1:        i in [1, n - 2], so i - 1 and i + 1 are indices of an array of n
        y[i] = x[i - 1] + x[i + 1]

Arithmetic wraps: what may leave its type may be anything of its type, as may what nothing is known of. A value that a
loop carries is at least (at most) what it starts at if no iteration makes it less (more).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxwarp.analysis.affine import Forms, forms_of
from jaxwarp.analysis.integers.conditions import SWAPPED, Comparison, comparison, conjuncts
from jaxwarp.analysis.integers.ranges import Range, all_of, both, either, extent_of, indices_of, is_inside, range_of
from jaxwarp.analysis.thread_values import Shapes, ThreadValues
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Block, Call, Const, For, If, Op, Param, Size, Tid, Value, While
from jaxwarp.unlocked import cached_property

# For one question: how long chains of operations are looked through, and how many values are looked at.
_DEEPEST = 24
_MOST_WORK = 300
# Conditions are not looked at for more threads, one by one.
_MOST_THREADS = 1 << 20
# Beyond all numbers of all types.
_FAR = 1 << 80


@dataclass(frozen=True, eq=False)
class Known:
    """A condition that holds (or, not `truth`, does not), and those around it."""

    condition: Value
    truth: bool
    test: Comparison | None
    around: Known | None


@dataclass(frozen=True, eq=False)
class _Limits:
    """The limits that a condition sets to values, by their names: their ranges, and numbers that they are not."""

    ranges: dict[Any, Range]
    others: dict[Any, int]


class Facts:
    """The ranges of a kernel's integers.

    Args:
        kernel: the kernel.
        grid: launch extents; an entry that is no integer is an unknown extent.
        shapes: extents of parameters, likewise, where known; the static ones are known anyway.
        exact: None where arithmetic wraps. Else it is taken as that of whole numbers, which are then cut off at the
            limits of their types, but for these values, which may be anything of their types.
    """

    def __init__(
        self,
        kernel: Kernel,
        grid: Sequence[Any] | None = None,
        shapes: Shapes | None = None,
        exact: Collection[Value] | None = None,
    ):
        self.kernel, self.exact = kernel, exact
        self.grid = [None] * kernel.grid_rank if grid is None else grid
        self.shapes: Shapes = shapes or {}
        self.around: dict[Op, Known | None] = {}
        self.inside: dict[Op, Known | None] = {}  # where the body of a loop begins
        self.made: dict[Value, Op] = {}
        self._places: dict[Value, int] = {}  # among the results of the branch that makes it
        self._names: dict[Value, Any] = {}
        self._conjuncts: dict[tuple[Value, bool], list[tuple[Value, bool]]] = {}
        self._mentions: dict[tuple[Known, Any], tuple[Known, ...]] = {}
        self._carried: dict[Value, tuple[For | While, int]] = {}  # and results of loops
        self._indices: dict[Value, For] = {}
        self._branches: dict[tuple[Value, bool, Known | None], Known | None] = {}
        self._ranges: dict[tuple[Value, Known | None], Range] = {}
        self._limits: dict[Known, _Limits] = {}
        self._named_in: dict[Known, frozenset[Any]] = {}
        self._assumed: dict[Value, Range] = {}  # of carried values, while their loop is looked at
        self._nonempty: Param | None = None
        self._work = 0
        self._settled: dict[Value, Range] = {}  # whatever is assumed
        self._needed: set[Value] = set()  # that have been asked for, and those that they are made of
        self._looked_at: set[Known] = set()
        self._place(kernel.body, None)

    def __getitem__(self, value: Value) -> Range:
        """Return the range of a value, whatever conditions hold."""
        return self.under(value, None)

    def at(self, value: Value, op: Op, nonempty: Param | None = None) -> Range:
        """Return the range of a value where `op` is; it is empty if no thread comes there.

        Args:
            value: an integer.
            op: an operation of the kernel.
            nonempty: an array that has elements.
        """
        if nonempty is not self._nonempty:
            self._nonempty = nonempty
            self._ranges.clear()
            self._limits.clear()
        return self.under(value, self.around[op])

    def under(self, value: Value, known: Known | None) -> Range:
        """Return the range of a value where conditions hold."""
        return self._range(value, known, self._begin([value], known))

    def result(self, op: Call, known: Known | None = None) -> Range | None:
        """Return the range of the exact result of an operation on integers, which may be beyond its type."""
        return self._result(op, known, self._begin(op.args, known)) if all(a.type.is_int for a in op.args) else None

    def _begin(self, values: Sequence[Value], known: Known | None) -> int:
        """Begin with a question: return how deep to look for an answer."""
        if self.exact is None:
            self._fill(values, known)
        self._work = _MOST_WORK
        return _DEEPEST

    def is_within(self, value: Value, least: int, most: int, op: Op) -> bool:
        """Return whether a value is between two numbers at `op`, for every thread that gets there."""
        low, high = self.at(value, op)
        if (low >= least and high <= most) or low > high:
            return True
        found = self._values.of(value)
        if found is None:
            return False
        outside = (found < least) | (found > most)
        for known in _chain(self.around[op]):
            if not outside.any():
                break
            held = self._values.of(known.condition)
            if held is not None and math.prod(np.broadcast_shapes(held.shape, outside.shape)) <= _MOST_THREADS:
                outside = outside & (held == known.truth)
        return not outside.any()

    def name(self, value: Value) -> Any:
        """Return what is equal for values that are equal: extents and constants are made where they are needed."""
        if value not in self._names:
            self._names[value] = self._named(value)
        return self._names[value]

    def _named(self, value: Value) -> Any:
        match self.made.get(value):
            case Const(value=number):
                return "const", number
            case Size(param=param, axis=axis):
                return "size", param, axis
            case Tid(axis=axis):
                return "tid", axis
            case _:
                loop, position = self._carried.get(value, (None, 0))
                # Those of the condition are those of the body.
                return value if loop is None or value in loop.results else (loop, position)

    @cached_property
    def _forms(self) -> Forms:
        return forms_of(self.kernel, self.grid, self.shapes)

    @cached_property
    def _values(self) -> ThreadValues:
        return ThreadValues(self.kernel, self.grid, self.shapes)

    def _fill(self, values: Sequence[Value], known: Known | None) -> None:
        """Look at what values are made of, in program order, so that it is known when they are asked for."""
        left = [*values, *self._tested(known)]
        added = list[Value]()
        while left:
            value = left.pop()
            if value not in self._needed:
                self._needed.add(value)
                added.append(value)
                left += self._sources(value)
        order = self._order if added else {}
        for value in sorted(added, key=lambda v: order[v]):
            if value.type.is_int:
                self._work = _MOST_WORK
                self._settled[value] = self._range(value, None, _DEEPEST)

    @cached_property
    def _order(self) -> dict[Value, int]:
        return {value: number for number, value in enumerate(_values(self.kernel.body))}

    def _sources(self, value: Value) -> Iterator[Value]:
        """Yield what the range of a value may be made of."""
        if value in self._carried:
            loop, position = self._carried[value]
            yield from (loop.inits[position], loop.body.results[position])
            yield from (*self._tested(self.around[loop]), *self._tested(self.inside[loop]))
        elif value in self._indices:
            yield from (self._indices[value].start, self._indices[value].stop, self._indices[value].step)
        match self.made.get(value):
            case If() as op:
                place = self._places[value]
                yield from (op.condition, op.then.results[place], op.orelse.results[place])
            case Call(args=args):
                yield from args
            case _:
                pass

    def _tested(self, known: Known | None) -> Iterator[Value]:
        """Yield what is compared by the conditions that hold, of each condition once."""
        for each in _chain(known):
            if each in self._looked_at:
                return
            self._looked_at.add(each)
            yield from (each.test or ("",))[1:]

    # Where conditions hold

    def _place(self, block: Block, around: Known | None) -> None:
        for op in block.ops:
            self.around[op] = around
            match op:
                case If():
                    self.made.update(dict.fromkeys(op.results, op))
                    self._places.update((result, place) for place, result in enumerate(op.results))
                    self._place(op.then, self._with(op.condition, True, around))
                    self._place(op.orelse, self._with(op.condition, False, around))
                case For():
                    self._indices[op.body.params[0]] = op
                    self._carry(op, op.results, op.body.params[1:])
                    self.inside[op] = around
                    self._place(op.body, around)
                case While():
                    self._carry(op, op.results, op.condition.params, op.body.params)
                    self._place(op.condition, around)
                    self.inside[op] = self._with(op.condition.results[0], True, around)
                    self._place(op.body, self.inside[op])
                case _:
                    self.made.update(dict.fromkeys(op.defined, op))

    def _carry(self, op: For | While, *columns: Sequence[Value]) -> None:
        for values in columns:
            self._carried.update((value, (op, position)) for position, value in enumerate(values))

    def _with(self, condition: Value, truth: bool, around: Known | None) -> Known | None:
        key = condition, truth, around
        if key not in self._branches:
            known = around
            for value, holds in self._conjuncts_of(condition, truth):
                known = Known(value, holds, comparison(value, holds, self.made), known)
            self._branches[key] = known
        return self._branches[key]

    def _conjuncts_of(self, condition: Value, truth: bool) -> list[tuple[Value, bool]]:
        key = condition, truth
        if key not in self._conjuncts:
            self._conjuncts[key] = list(conjuncts(condition, truth, self.made))
        return self._conjuncts[key]

    # Ranges

    def _range(self, value: Value, known: Known | None, depth: int) -> Range:
        key = value, known
        found, settled = self._ranges.get(key), self._settled.get(value)
        if found is not None:
            return found
        if settled is not None and (known is None or settled[0] == settled[1]):
            return settled
        limits = all_of(value.type)
        found = settled or limits
        if depth <= 0 or self._work <= 0:
            return found
        self._work -= 1
        self._ranges[key] = found  # meanwhile, should it depend on itself
        made = self._made_of(value, known, depth - 1)
        if self.exact is None:
            made = self._fitting(value, made, limits)
        found = both(found, limits if made is None else made)
        self._ranges[key] = found = self._narrowed(value, found, known, depth - 1)
        return found

    def _fitting(self, value: Value, made: Range | None, limits: Range) -> Range | None:
        """The range that a value is made of, if it does not wrap, and that of its affine form."""
        made = made if made is None or is_inside(made, limits) else None
        form = self._forms[value]
        return made if form is None else form.range() if made is None else both(made, form.range())

    def _of_operand(self, name: str, value: Value, known: Known | None, depth: int) -> Range:
        """Return the range of an operand. If the operation makes it smaller or compares it, it may have wrapped."""
        if not self.exact or name not in REDUCING or value not in self.exact:
            return self._range(value, known, depth)
        return self._narrowed(value, all_of(value.type), known, depth) if depth else all_of(value.type)

    def _made_of(self, value: Value, known: Known | None, depth: int) -> Range | None:
        if value in self._assumed:
            return self._assumed[value]
        if value in self._settled and value in self._carried:
            return self._settled[value]
        if value in self._carried:
            return self._loop(*self._carried[value], depth)
        if value in self._indices:
            loop = self._indices[value]
            return indices_of(*(self._range(v, known, depth) for v in (loop.start, loop.stop, loop.step)))
        match self.made.get(value):
            case Const(value=number):
                return int(number), int(number)
            case Tid(axis=axis):
                return 0, max(extent_of(self.grid[axis])[1], 1) - 1
            case Size(param=param, axis=axis):
                least, most = extent_of(self.shapes.get(param, param.shape)[axis])
                return max(least, int(param is self._nonempty)), most
            case If() as op:
                place = self._places[value]
                return self._chosen(op.condition, op.then.results[place], op.orelse.results[place], known, depth)
            case Call(builtin=row, args=(condition, a, b)) if row.name == "select":
                return self._chosen(condition, a, b, known, depth)
            case Call(args=args) as op if all(a.type.is_int for a in args):
                return self._result(op, known, depth)
            case _:
                return None

    def _result(self, op: Call, known: Known | None, depth: int) -> Range | None:
        """Return the range of the exact result of an operation on integers, which may be beyond its type."""
        name = op.builtin.name
        found = range_of(name, [self._of_operand(name, a, known, depth) for a in op.args])
        if found is not None and name == "sub":
            a, b = op.args
            return max(found[0], self._difference(a, b, known)), found[1]
        return found

    def _chosen(self, condition: Value, a: Value, b: Value, known: Known | None, depth: int) -> Range:
        then, orelse = (self._with(condition, truth, known) for truth in (True, False))
        return either(self._range(a, then, depth), self._range(b, orelse, depth))

    def _difference(self, a: Value, b: Value, known: Known | None) -> int:
        """The least a - b, by comparisons of the two."""
        least, names = -_FAR, (self.name(a), self.name(b))
        for each in _chain(known):
            name, *given = each.test or ("",)
            given = tuple(map(self.name, given))
            relation = name if given == names else SWAPPED[name] if given == names[::-1] else ""
            least = max(least, {"gt": 1, "ge": 0, "eq": 0}.get(relation, least))
        return least

    def _loop(self, loop: For | While, position: int, depth: int) -> Range | None:
        """Return the range of a carried value, at the start and later, if it only grows or only falls; else None."""
        params = [block.params[position + isinstance(loop, For)] for block in loop.blocks]
        if params[0] in self._assumed:
            return self._assumed[params[0]]
        start = self._range(loop.inits[position], self.around[loop], depth)
        least, most = all_of(params[0].type)
        for assumed in ((start[0], most), (least, start[1])):
            with self._assuming(params, assumed):
                after = self._range(loop.body.results[position], self.inside[loop], depth)
            if is_inside(after, assumed):
                return either(start, after)
        return None

    @contextmanager
    def _assuming(self, values: Sequence[Value], assumed: Range) -> Iterator[None]:
        ranges, limits = self._ranges, self._limits
        self._ranges, self._limits = {}, {}
        self._assumed.update(dict.fromkeys(values, assumed))
        yield
        for value in values:
            del self._assumed[value]
        self._ranges, self._limits = ranges, limits

    # What conditions say

    def _narrowed(self, value: Value, found: Range, known: Known | None, depth: int) -> Range:
        if known is None or found[0] == found[1]:
            return found
        name, others = self.name(value), set[int | None]()
        # What the outermost says first: those further in are compared with values that it limits.
        for each in self._mentioning(known, name):
            limits = self._said(each, depth)
            found = both(found, limits.ranges.get(name, found))
            others.add(limits.others.get(name))
        least, most = found
        while least in others:
            least += 1
        while most in others:
            most -= 1
        return least, most

    def _mentioning(self, known: Known, name: Any) -> tuple[Known, ...]:
        """Return those of the conditions that hold that may limit what has a name, the outermost first."""
        missing, at = list[Known](), known
        while at is not None and (at, name) not in self._mentions:
            missing.append(at)
            at = at.around
        found = () if at is None else self._mentions[at, name]
        for each in reversed(missing):
            if each.test is not None and name in self._named_by(each):
                found = (*found, each)
            self._mentions[each, name] = found
        return found

    def _named_by(self, known: Known) -> frozenset[Any]:
        """Return the names of what a comparison may limit: of its operands, and of what these are made of."""
        if known not in self._named_in:
            assert known.test is not None
            names, left = set[Any](), list(known.test[1:])
            for value in left:  # which grows
                name = self.name(value)
                op = self.made.get(value)
                if name not in names and isinstance(op, Call) and op.builtin.name in _ADDING:
                    left += op.args
                names.add(name)
            self._named_in[known] = frozenset(names)
        return self._named_in[known]

    def _said(self, known: Known, depth: int) -> _Limits:
        """The limits of values by a comparison, and those of what these are made of by adding constants."""
        if known not in self._limits:
            self._limits[known] = found = _Limits({}, {})
            if known.test is None:
                return found
            name, a, b = known.test
            for relation, left, right in ((name, a, b), (SWAPPED[name], b, a)):
                low, high = self._of_operand(relation, right, known.around, min(depth, 4))
                if relation == "ne" and low == high:
                    found.others[self.name(left)] = low
                least = low + (relation == "gt") if relation in ("gt", "ge", "eq") else -_FAR
                most = high - (relation == "lt") if relation in ("lt", "le", "eq") else _FAR
                self._limit(left, (least, most), known, found, depth)
        return self._limits[known]

    def _limit(self, value: Value, limits: Range, known: Known, found: _Limits, depth: int) -> None:
        name = self.name(value)
        found.ranges[name] = low, high = both(found.ranges.get(name, limits), limits)
        op = self.made.get(value)
        if depth <= 0 or self.exact is not None or not isinstance(op, Call) or not all(a.type.is_int for a in op.args):
            return
        exact = self._result(op, known.around, depth - 1)
        if exact is None or not is_inside(exact, all_of(value.type)):
            return  # it may have wrapped
        args = [self._range(a, known.around, depth - 1) for a in op.args]
        match op.builtin.name, args:
            case "add", ((c, d), (e, f)):
                self._limit(op.args[0], (low - f, high - e), known, found, depth - 1)
                self._limit(op.args[1], (low - d, high - c), known, found, depth - 1)
            case "sub", ((c, d), (e, f)):
                self._limit(op.args[0], (low + e, high + f), known, found, depth - 1)
                self._limit(op.args[1], (c - high, d - low), known, found, depth - 1)
            case "cast", _:
                self._limit(op.args[0], (low, high), known, found, depth - 1)
            case _:
                pass


# What a limit of the result says something of the operands: the cases of `_limit`.
_ADDING = frozenset(("add", "sub", "cast"))

REDUCING = frozenset(("mod", "div", "floordiv", "shr", *SWAPPED))
"""What makes numbers smaller, and of numbers that have wrapped ones that are no more than they seem; and compares."""


def _chain(known: Known | None) -> Iterator[Known]:
    while known is not None:
        yield known
        known = known.around


def _values(block: Block) -> Iterator[Value]:
    """Yield the values of a block, after those that they are made of, but for what loops carry."""
    yield from block.params
    for op in block.ops:
        for inner in op.blocks:
            yield from _values(inner)
        yield from op.defined
