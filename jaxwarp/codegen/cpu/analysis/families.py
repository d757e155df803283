"""Loads that read around one element of each lane.

`a[i + 1, j, 0]` and `a[i, j - 2, 3]` have the same *roots*, i and j, and *shifts* from them: (1, 0, 0), (0, -2, 3). A
family is the loads of an array by the same roots between which nothing is stored or skipped: a lane that is on for one
of them is on for all. Two things follow, where a lane is on:

* The words between two that the family reads are in the array. They may be read with them, see access/records.py.
* With `least` and `most` the shifts of an axis, root + least is not negative and root + most is less than the extent.
  So all of the family is in the array if the root is -least. That is what lanes that are off are given, see
  access/addressing.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from jaxwarp.codegen.cpu.analysis.uniformity import Strides
from jaxwarp.ir.nodes import Atomic, Call, Const, Load, Op, Param, Size, Store, Tid, Value
from jaxwarp.unlocked import cached_property

Shifts = tuple[int, ...]
Roots = tuple[Value | None, ...]
Piece = tuple[int, int]  # of words side by side: the first one, and how many

_BETWEEN = (Call, Const, Load, Size, Tid)


@dataclass(eq=False)
class Family:
    """The shifts of its loads, by axis; a constant index is a shift alone."""

    of: dict[Load, Shifts] = field(default_factory=dict)

    @cached_property
    def least(self) -> Shifts:
        """The least shift, for each axis."""
        return tuple(map(min, zip(*self.of.values(), strict=True)))


def families(ops: Sequence[Op], strides: Strides) -> dict[Load, Family]:
    """The family of each load of a block that does not load one scalar for all lanes."""
    found: dict[Load, Family] = {}
    open_: dict[tuple[Param, Roots], Family] = {}
    for op in ops:
        if not isinstance(op, _BETWEEN):
            open_.clear()
        elif isinstance(op, Load) and not strides.is_scalar(op.result):
            roots, shifts = parts(op, strides)
            family = open_.setdefault((op.param, roots), Family())
            family.of[op] = shifts
            found[op] = family
    return found


def parts(op: Load | Store | Atomic, strides: Strides) -> tuple[Roots, Shifts]:
    roots: list[Value | None] = []
    shifts: list[int] = []
    for index in op.indices:
        constant = strides.constants.get(index)
        root, shift = strides.shifts.get(index, (index, 0)) if constant is None else (None, int(constant))
        roots.append(root)
        shifts.append(shift)
    return tuple(roots), tuple(shifts)


def pieces(wanted: Sequence[int], most: int) -> dict[int, Piece]:
    """Return the piece of `most` words, or of two, in which each word is read. Words that are read alone are left out.

    Args:
        wanted: words, ascending. No piece begins before the first or ends behind the last.
        most: 4 or 2.
    """
    found: dict[int, Piece] = {}
    first, last = wanted[0], wanted[-1]
    for word in wanted:
        if word in found:
            continue
        for length in (most, 2):
            begin = min(word, last - length + 1)
            inside = [w for w in wanted if begin <= w < begin + length and w not in found]
            if begin >= first and len(inside) > 1 and (length == 2 or inside[-1] - inside[0] > 1):
                found |= dict.fromkeys(inside, (begin, length))
                break
    return found
