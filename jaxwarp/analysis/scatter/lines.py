"""The integers of a kernel along an axis of the grid, as pieces of straight lines.

    (i + 1) % n            i + 1 of the threads 0 ... n - 2, 0 of thread n - 1
    i > 0 and i < n - 1    false, true of the threads 1 ... n - 2, false

The pieces are few, however many threads there are. A value is not known if it depends on two axes, on loops or on data,
if it may wrap, or if it has many pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from jaxwarp.deep import with_deep_stack
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Block, Call, Const, If, Op, Tid, Value
from jaxwarp.types import Scalar, bool_

MOST_PIECES = 16


class Piece(NamedTuple):
    """slope * t + offset for the threads t from `first` to `last`. Of bools: 0 or 1."""

    first: int
    last: int
    slope: int
    offset: int

    def at(self, thread: int) -> int:
        return self.slope * thread + self.offset


class Line(NamedTuple):
    """Pieces in order, without gaps; `axis` is None for what is the same in all threads, which is one piece."""

    axis: int | None
    pieces: tuple[Piece, ...]


class ThreadLines:
    """The integers and bools of a kernel whose extents are constants, as far as they are such lines."""

    def __init__(self, kernel: Kernel, grid: Sequence[int]):
        self.grid = tuple(grid)
        self._lines: dict[Value, Line] = {}
        self._visit(kernel.body)

    def of(self, value: Value) -> Line | None:
        """None: not known."""
        return self._lines.get(value)

    @with_deep_stack
    def _visit(self, block: Block) -> None:
        for op in block.ops:
            for inner in op.blocks:
                self._visit(inner)
            for value in op.defined:
                line = None if value.type.is_float else self._line(op, value)
                if line is not None and len(line.pieces) <= MOST_PIECES and _fits(line, value.type):
                    self._lines[value] = line

    def _line(self, op: Op, value: Value) -> Line | None:
        match op:
            case Const():
                return _constant(int(op.value))
            case Tid():
                return Line(op.axis, (Piece(0, self.grid[op.axis] - 1, 1, 0),)) if self.grid[op.axis] else None
            case Call() if value.type is not bool_ or op.builtin.name != "cast":
                known = [line for a in op.args if (line := self.of(a)) is not None]
                rule = _RULES.get(op.builtin.name)
                return rule(*known) if rule is not None and len(known) == len(op.args) else None
            case If():
                at = op.results.index(value)
                sides = [self.of(v) for v in (op.condition, op.then.results[at], op.orelse.results[at])]
                return None if None in sides else _chosen(*(side for side in sides if side is not None))
            case _:
                return None


def _constant(number: int) -> Line:
    return Line(None, (Piece(0, 0, 0, number),))


def _fits(line: Line, dtype: Scalar) -> bool:
    if dtype is bool_:
        return True
    limits = np.iinfo(dtype.numpy)
    ends = [p.at(t) for p in line.pieces for t in (p.first, p.last)]
    return limits.min <= min(ends) and max(ends) <= limits.max


def _together(*lines: Line) -> Iterator[tuple[int, int, list[Piece]]]:
    """The stretches of threads in which each line has one piece. All depend on one axis, if on any."""
    along = [line for line in lines if line.axis is not None]
    if not along:
        yield 0, 0, [line.pieces[0] for line in lines]
        return
    for first, last in _stretches(along):
        yield (
            first,
            last,
            [next(p for p in line.pieces if line.axis is None or p.first <= first <= p.last) for line in lines],
        )


def _stretches(lines: Sequence[Line]) -> list[tuple[int, int]]:
    starts = sorted({p.first for line in lines for p in line.pieces})
    return list(zip(starts, [*(s - 1 for s in starts[1:]), lines[0].pieces[-1].last], strict=True))


def _made(lines: Sequence[Line], piece: Callable[..., list[Piece] | None]) -> Line | None:
    """Apply a rule to each stretch, as `piece(first, last, *pieces)`, and join the pieces that it returns."""
    axes = {line.axis for line in lines} - {None}
    if len(axes) > 1:
        return None
    found: list[Piece] = []
    for first, last, pieces in _together(*lines):
        made = piece(first, last, *pieces)
        if made is None or len(found) + len(made) > 2 * MOST_PIECES:
            return None
        for each in made:
            if found and found[-1][2:] == each[2:]:
                found[-1] = found[-1]._replace(last=each.last)
            else:
                found.append(each)
    return Line(axes.pop() if axes else None, tuple(found))


def _sum(factor: int) -> Callable[..., Line | None]:
    """a + factor * b"""

    def piece(first: int, last: int, a: Piece, b: Piece) -> list[Piece]:
        return [Piece(first, last, a.slope + factor * b.slope, a.offset + factor * b.offset)]

    return lambda a, b: _made((a, b), piece)


def _product(a: Line, b: Line) -> Line | None:
    def piece(first: int, last: int, p: Piece, q: Piece) -> list[Piece] | None:
        if p.slope and q.slope:
            return None
        p, q = (q, p) if p.slope else (p, q)
        return [Piece(first, last, p.offset * q.slope, p.offset * q.offset)]

    return _made((a, b), piece)


def _is_negative(first: int, last: int, slope: int, offset: int) -> list[Piece]:
    """Return the pieces of the condition slope * t + offset < 0."""
    if slope == 0:
        return [Piece(first, last, 0, int(offset < 0))]
    cut = (-offset - 1) // slope if slope > 0 else offset // -slope  # the last thread before it changes
    cut = max(first - 1, min(last, cut))
    sides = [Piece(first, cut, 0, int(slope > 0)), Piece(cut + 1, last, 0, int(slope < 0))]
    return [p for p in sides if p.first <= p.last]


def _is_zero(first: int, last: int, slope: int, offset: int) -> list[Piece]:
    if slope == 0:
        return [Piece(first, last, 0, int(offset == 0))]
    at = -offset // slope
    if offset % slope or not first <= at <= last:
        return [Piece(first, last, 0, 0)]
    sides = [Piece(first, at - 1, 0, 0), Piece(at, at, 0, 1), Piece(at + 1, last, 0, 0)]
    return [p for p in sides if p.first <= p.last]


def _compared(
    test: Callable[[int, int, int, int], list[Piece]], less: int = 0, is_swapped: bool = False
) -> Callable[..., Line | None]:
    """`test` of a - b - less, or of b - a - less."""

    def piece(first: int, last: int, a: Piece, b: Piece) -> list[Piece]:
        a, b = (b, a) if is_swapped else (a, b)
        return test(first, last, a.slope - b.slope, a.offset - b.offset - less)

    return lambda a, b: _made((a, b), piece)


def _not(a: Line | None) -> Line | None:
    return None if a is None else _made((a,), lambda first, last, p: [Piece(first, last, 0, 1 - p.offset)])


def _chosen(condition: Line, a: Line, b: Line) -> Line | None:
    def piece(first: int, last: int, c: Piece, p: Piece, q: Piece) -> list[Piece]:
        return [(p if c.offset else q)._replace(first=first, last=last)]

    return _made((condition, a, b), piece)


def _extreme(compare: Callable[..., Line | None]) -> Callable[..., Line | None]:
    def rule(a: Line, b: Line) -> Line | None:
        condition = compare(a, b)
        return None if condition is None else _chosen(condition, a, b)

    return rule


def _divided(result: Callable[[Piece, int, int], tuple[int, int]], is_floor: bool) -> Callable[..., Line | None]:
    """A rule for what is made of a quotient, in pieces of threads that have the same one.

    Args:
        result: slope and offset of a piece, by the dividend, the divisor and the quotient.
        is_floor: whether the quotient is rounded down; else to zero, as in C++.
    """

    def piece(first: int, last: int, p: Piece, q: Piece) -> list[Piece] | None:
        divisor = q.offset
        if q.slope or divisor <= 0:
            return None
        found: list[Piece] = []
        while first <= last:
            value = p.at(first)
            times = value // divisor if is_floor or value >= 0 else -(-value // divisor)
            end = min(last, _last_of(p, times, divisor, is_floor)) if p.slope else last
            found.append(Piece(first, end, *result(p, divisor, times)))
            first = end + 1
            if len(found) > MOST_PIECES:
                return None
        return found

    return lambda a, b: _made((a, b), piece)


def _last_of(p: Piece, times: int, divisor: int, is_floor: bool) -> int:
    """The last thread whose quotient is `times`."""
    if p.slope > 0:
        most = (times + 1) * divisor - 1 if is_floor or times >= 0 else times * divisor
        return (most - p.offset) // p.slope
    least = times * divisor if is_floor or times > 0 else (times - 1) * divisor + 1
    return (p.offset - least) // -p.slope


def _rest(p: Piece, divisor: int, times: int) -> tuple[int, int]:
    return p.slope, p.offset - times * divisor


def _times(_: Piece, _divisor: int, times: int) -> tuple[int, int]:
    return 0, times


def _masked(a: Line, b: Line) -> Line | None:
    """`a & mask` is a remainder, rounded down, if the mask is the lowest bits."""
    for number, mask in ((a, b), (b, a)):
        ones = mask.pieces[0].offset
        if mask.axis is None and ones >= 0 and ones & (ones + 1) == 0:
            return _divided(_rest, True)(number, _constant(ones + 1))
    return None


def _shifted(rule: Callable[..., Line | None]) -> Callable[..., Line | None]:
    def shifted(a: Line, b: Line) -> Line | None:
        places = b.pieces[0].offset
        return rule(a, _constant(1 << places)) if b.axis is None and 0 <= places < 32 else None

    return shifted


def _magnitude(a: Line) -> Line | None:
    is_below, opposite = _less(a, _constant(0)), _product(_constant(-1), a)
    return None if is_below is None or opposite is None else _chosen(is_below, opposite, a)


def _from_end(a: Line, n: Line) -> Line | None:
    """a + n where that is an element and a is not, else a."""
    moved, is_below = _sum(1)(a, n), _less(a, _constant(0))
    is_element = None if moved is None else _not(_less(moved, _constant(0)))
    if moved is None or is_below is None or is_element is None:
        return None
    counts = _product(is_below, is_element)
    return None if counts is None else _chosen(counts, moved, a)


_less, _equal = _compared(_is_negative), _compared(_is_zero)
_RULES: dict[str, Callable[..., Line | None]] = {
    "add": _sum(1),
    "sub": _sum(-1),
    "mul": _product,
    "neg": lambda a: _product(_constant(-1), a),
    "mod": _divided(_rest, False),
    "div": _divided(_times, False),
    "floordiv": _divided(_times, True),
    "bit_and": _masked,
    "shl": _shifted(_product),
    "shr": _shifted(_divided(_times, True)),
    "abs": _magnitude,
    "from_end": _from_end,
    "cast": lambda a: a,
    "lt": _less,
    "le": _compared(_is_negative, 1),
    "gt": _compared(_is_negative, 0, True),
    "ge": _compared(_is_negative, 1, True),
    "eq": _equal,
    "ne": lambda a, b: _not(_equal(a, b)),
    "logical_not": _not,
    "logical_and": _product,
    "logical_or": lambda a, b: _chosen(a, _constant(1), b),
    "select": _chosen,
    "min": _extreme(_less),
    "max": _extreme(_compared(_is_negative, 0, True)),
}
