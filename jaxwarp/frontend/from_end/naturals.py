"""Which indices are never below 0, as far as the kernel shows: from types, the conditions around, and loops.

Arithmetic is taken as that of whole numbers: an index whose computation leaves its type is outside of its array anyway.
So are all indices of an array without elements; the extents of the array in question are 1 at least. Not so of what is
made smaller, or compared: `h % n` is inside where the product `h`, a hash say, has wrapped. Only sums and differences
of indices and extents are taken not to wrap there.

    Tid, Size, a % b, a // b, a & b          of operands that are not negative (a % b takes the sign of a)
    i - 1    where i > 0 or i != 0           i - k    where i >= k
    max(i - 1, 0)    min(i + 1, n - 1)       the indices of loops that start and stop at such numbers
    carried values that start at, and in each iteration stay at, what they start at or above
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxwarp.analysis.indirect_indices import flow
from jaxwarp.analysis.ranges import LARGEST_EXTENT, SWAPPED, Range, all_of, either, range_of
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Block, Call, Const, For, If, Op, Param, Size, Store, Tell, Tid, Value, While, walk

# What is looked at for one index: so deep, and so many values.
_DEEPEST = 24
_MOST = 2000
# What makes numbers smaller, and of numbers that have wrapped ones that are no more than they seem.
_REDUCING = ("mod", "div", "floordiv", "shr")
_NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}


@dataclass(frozen=True, eq=False)
class Facts:
    """A comparison of integers that holds, and those around it."""

    name: str
    left: Value
    right: Value
    around: Facts | None


class Naturals:
    """The indices of a kernel.

    Attributes:
        facts: what holds where an operation is.
    """

    def __init__(self, kernel: Kernel):
        self.facts: dict[Op, Facts | None] = {}
        self._made: dict[Value, Op] = {}
        self._carried: dict[Value, tuple[For | While, int]] = {}  # and results of loops
        self._indices: dict[Value, For] = {}
        self._inside: dict[Op, Facts | None] = {}  # where the body of a loop begins
        self._known: dict[tuple[Value, Facts | None], Range] = {}
        self._assumed: dict[Value, Range] = {}  # of carried values, while their loop is looked at
        self._own: Param | None = None
        self._left = 0
        self._block(kernel.body, None)
        self._wrapping = _may_wrap(kernel)

    def is_natural(self, index: Value, at: Op, param: Param | None) -> bool:
        """Is an index, of an array if it is one of an array, never below 0, where `at` is?"""
        if self._own is not param:
            self._own, self._known = param, {}
        self._left = _MOST
        return self._range(index, self.facts[at], _DEEPEST)[0] >= 0

    def _block(self, block: Block, around: Facts | None) -> None:
        for op in block.ops:
            self.facts[op] = around
            match op:
                case If():
                    self._made.update(dict.fromkeys(op.results, op))
                    self._block(op.then, self._with(op.condition, True, around))
                    self._block(op.orelse, self._with(op.condition, False, around))
                case For():
                    self._indices[op.body.params[0]] = op
                    for position, values in enumerate(zip(op.results, op.body.params[1:], strict=True)):
                        self._carried.update(dict.fromkeys(values, (op, position)))
                    self._inside[op] = around
                    self._block(op.body, around)
                case While():
                    columns = zip(op.results, op.condition.params, op.body.params, strict=True)
                    for position, values in enumerate(columns):
                        self._carried.update(dict.fromkeys(values, (op, position)))
                    self._block(op.condition, around)
                    self._inside[op] = self._with(op.condition.results[0], True, around)
                    self._block(op.body, self._inside[op])
                case Store() | Tell():
                    pass
                case _:
                    self._made.update(dict.fromkeys(op.defined, op))

    def _with(self, condition: Value, truth: bool, around: Facts | None) -> Facts | None:
        """What holds where a condition has been decided."""
        match self._made.get(condition):
            case Call(builtin=row, args=(a,)) if row.name == "logical_not":
                return self._with(a, not truth, around)
            case Call(builtin=row, args=(a, b)) if row.name == ("logical_and" if truth else "logical_or"):
                return self._with(b, truth, self._with(a, truth, around))
            case Call(builtin=row, args=(a, b)) if row.name in SWAPPED and a.type.is_int:
                return Facts(row.name if truth else _NEGATED[row.name], a, b, around)
            case If() as choice:
                # `a and b` is b where a, else False; `a or b` is True where a, else b.
                place = choice.results.index(condition)
                decided, other = (choice.orelse, choice.then) if truth else (choice.then, choice.orelse)
                end = self._made.get(decided.results[place])
                if isinstance(end, Const) and bool(end.value) is not truth:
                    return self._with(other.results[place], truth, self._with(choice.condition, truth, around))
                return around
            case _:
                return around

    def _range(self, value: Value, facts: Facts | None, depth: int) -> Range:
        limits = all_of(value.type)
        if depth == 0 or self._left == 0:
            return limits
        self._left -= 1
        key = value, facts
        if key not in self._known:
            self._known[key] = limits  # meanwhile, should it depend on itself
            least, most = self._made_of(value, facts, depth - 1) or limits
            found = max(least, limits[0]), min(most, limits[1])
            self._known[key] = self._narrowed(value, found, facts, depth - 1)
        return self._known[key]

    def _exact(self, value: Value, facts: Facts | None, depth: int) -> Range:
        """The range of a value that counts if it has wrapped, too."""
        if value not in self._wrapping:
            return self._range(value, facts, depth)
        return self._narrowed(value, all_of(value.type), facts, depth) if depth else all_of(value.type)

    def _narrowed(self, value: Value, found: Range, facts: Facts | None, depth: int) -> Range:
        """By the comparisons with the value itself."""
        least, most = found
        name = self._name(value)
        while facts is not None:
            for left, right, relation in (
                (facts.left, facts.right, facts.name),
                (facts.right, facts.left, SWAPPED[facts.name]),
            ):
                if self._name(left) != name:
                    continue
                low, high = self._exact(right, None, min(depth, 4))
                if relation in ("gt", "ge", "eq"):
                    least = max(least, low + (relation == "gt"))
                if relation in ("lt", "le", "eq"):
                    most = min(most, high - (relation == "lt"))
                if relation == "ne" and low == high == least:
                    least += 1
            facts = facts.around
        return least, most

    def _name(self, value: Value) -> Any:
        """Equal for values that are equal: the extents and constants of a kernel are made where they are needed."""
        match self._made.get(value):
            case Const(value=number):
                return "const", number
            case Size(param=param, axis=axis):
                return "size", param, axis
            case Tid(axis=axis):
                return "tid", axis
            case _:
                place = self._carried.get(value)
                # Those of the condition are those of the body.
                is_inside = place is not None and value not in place[0].results
                return ("carried", *place) if is_inside and place is not None else value

    def _made_of(self, value: Value, facts: Facts | None, depth: int) -> Range | None:
        if value in self._assumed:
            return self._assumed[value]
        if value in self._carried:
            return self._loop(*self._carried[value], depth)
        if value in self._indices:
            return self._index(self._indices[value], facts, depth)
        match self._made.get(value):
            case Const(value=number):
                return int(number), int(number)
            case Tid():
                return 0, LARGEST_EXTENT - 1
            case Size(param=param):
                return int(param is self._own), LARGEST_EXTENT
            case If() as op:
                place = op.results.index(value)
                then, orelse = (self._with(op.condition, truth, facts) for truth in (True, False))
                yes, no = op.then.results[place], op.orelse.results[place]
                return either(self._range(yes, then, depth), self._range(no, orelse, depth))
            case Call(builtin=row, args=(condition, a, b)) if row.name == "select":
                then, orelse = (self._with(condition, truth, facts) for truth in (True, False))
                return either(self._range(a, then, depth), self._range(b, orelse, depth))
            case Call(builtin=row, args=args) if all(a.type.is_int for a in args):
                operand = self._exact if row.name in _REDUCING else self._range
                found = range_of(row.name, [operand(a, facts, depth) for a in args])
                if found is not None and row.name == "sub":
                    return max(found[0], self._difference(args[0], args[1], facts)), found[1]
                return found
            case _:
                return None

    def _difference(self, a: Value, b: Value, facts: Facts | None) -> int:
        """The least a - b, by what is known of the two together."""
        least, names = all_of(a.type)[0], (self._name(a), self._name(b))
        while facts is not None:
            given = self._name(facts.left), self._name(facts.right)
            relation = facts.name if given == names else SWAPPED[facts.name] if given == names[::-1] else ""
            least = max(least, {"gt": 1, "ge": 0, "eq": 0}.get(relation, least))
            facts = facts.around
        return least

    def _index(self, loop: For, facts: Facts | None, depth: int) -> Range | None:
        start, stop, step = (self._range(v, facts, depth) for v in (loop.start, loop.stop, loop.step))
        if step[0] > 0:
            return start[0], max(stop[1] - 1, start[0])
        if step[1] < 0:
            return min(stop[0] + 1, start[1]), start[1]
        return either(start, stop)

    def _loop(self, loop: For | While, position: int, depth: int) -> Range | None:
        """What a carried value starts at, if no iteration makes it less."""
        params = [block.params[position + isinstance(loop, For)] for block in loop.blocks]
        if params[0] in self._assumed:
            return self._assumed[params[0]]
        least = self._range(loop.inits[position], self.facts[loop], depth)[0]
        most = all_of(loop.inits[position].type)[1]
        known, self._known = self._known, {}
        self._assumed.update(dict.fromkeys(params, (least, most)))
        after = self._range(loop.body.results[position], self._inside[loop], depth)[0]
        for param in params:
            del self._assumed[param]
        self._known = known
        return (least, most) if after >= least else None


def _may_wrap(kernel: Kernel) -> set[Value]:
    """Products, what was made narrower, and all that is made of those."""
    ops = [op for op in walk(kernel.body) if not op.defined or op.defined[0].type.is_int or op.blocks]
    found = {op.result for op in ops if isinstance(op, Call) and _is_product(op)}
    size = -1
    while found and size != len(found):
        size = len(found)
        for op in ops:
            if not isinstance(op, Call) or op.builtin.name not in _REDUCING:
                found.update(target for target, sources in flow(op) if not found.isdisjoint(sources))
    return found


def _is_product(op: Call) -> bool:
    if op.builtin.name == "cast":
        if not op.args[0].type.is_int:
            return False
        least, most = all_of(op.result.type)
        low, high = all_of(op.args[0].type)
        return not least <= low <= high <= most
    return op.builtin.name in ("mul", "shl")
