"""Words that lie side by side, of each lane its own: written together, after a transposition in registers.

The components of a vector at a node that each lane chooses, or of a field of a record, are stored or added one after
the other. Lane by lane, and word by word, each is an instruction of its own, and lanes that have one node wait for each
other at each word. A *group* is such operations between which nothing but computation lies. Each of its lanes writes
its words in pieces of 128 bits, or less at the end.

records.py is the same for loads, which may read what lies between two words; what is written is these words only.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from jaxwarp.codegen.cpu.access.addressing import LaneAddress, lane_pointers, locate
from jaxwarp.codegen.cpu.access.interleaved import RegisterLayout, layout_of, rows_of
from jaxwarp.codegen.cpu.access.memory import to_memory
from jaxwarp.codegen.cpu.analysis.components import MAX_GROUP
from jaxwarp.codegen.cpu.analysis.families import parts
from jaxwarp.codegen.cpu.llvm.lanes import Lanes
from jaxwarp.codegen.cpu.llvm.vectors import memory_type
from jaxwarp.ir.nodes import Atomic, Call, Const, Op, Size, Store, Tid

_PURE = (Const, Tid, Size, Call)
Row = tuple[int, int, list[str]]
"""Which word of the group is first, how many there are, and the vector (or the scalar) of these words of each lane."""


def record_group(lanes: Lanes, first: Store | Atomic, ops: Iterable[Op]) -> dict[int, Store | Atomic]:
    """Return the first operations that write words side by side, by word; empty if they are fewer than two.

    The least word is 0. All are of one array and one kind.
    """
    if lanes.width == 1 or first.param.dtype.bits not in (32, 64) or lanes.frame.is_local(first.param):
        return {}
    roots, origin = parts(first, lanes.strides)
    if all(root is None or lanes.strides.of[root] == 0 for root in roots):
        return {}
    found: dict[int, Store | Atomic] = {}
    for op in ops:
        if isinstance(op, _PURE):
            continue
        if type(op) is not type(first) or len(found) == MAX_GROUP:
            break
        assert isinstance(op, Store | Atomic)
        kinds = [one.kind for one in (first, op) if isinstance(one, Atomic)]
        if op.param is not first.param or len(set(kinds)) > 1:
            break
        others, shifts = parts(op, lanes.strides)
        word = _distance(lanes, op, origin, shifts)
        if others != roots or word is None or word in found:
            break
        found[word] = op
    words = _side_by_side(found)
    return {word - words[0]: found[word] for word in words} if len(words) > 1 else {}


def _distance(lanes: Lanes, op: Store | Atomic, origin: Sequence[int], shifts: Sequence[int]) -> int | None:
    """Return the number of words between two places, or None if that is not known."""
    total = 0
    for axis, (a, b) in enumerate(zip(origin, shifts, strict=True)):
        unit = lanes.frame.stride(op.param, axis)
        if a != b and not isinstance(unit, int):
            return None
        total += (b - a) * unit if isinstance(unit, int) else 0
    return total


def _side_by_side(found: Sequence[int] | dict[int, Store | Atomic]) -> list[int]:
    """The words of the longest beginning of the group that has no gap."""
    for count in range(len(found), 1, -1):
        words = sorted(itertools.islice(found, count))
        if words[-1] - words[0] == count - 1:
            return words
    return []


def rows_of_lanes(lanes: Lanes, group: Mapping[int, Store | Atomic], operands: Sequence[str]) -> Iterator[Row]:
    """The words of each lane, in pieces. `operands`: what the operations of a group write, as vectors, in order."""
    place = locate(lanes, group[0].param, group[0].indices)
    layout = layout_of(lanes, place)
    q = layout.quarter
    width = max(lanes.width, q)
    layout = replace(layout, lanes=max(layout.lanes, q))
    for first in range(0, len(operands), q):
        piece = operands[first : first + q]
        if len(piece) == 1:
            type_ = lanes.many.wide(layout.type_)
            taken = [lanes.function.inst(f"extractelement {type_} {piece[0]}, i32 {i}") for i in range(lanes.width)]
            yield first, 1, taken
            continue
        padded = [_padded(lanes, layout, operand, width) for operand in piece]
        padded += ["poison"] * (q - len(piece))
        yield first, len(piece), _transposed(lanes, layout, padded, len(piece), width)[: lanes.width]


def _padded(lanes: Lanes, layout: RegisterLayout, operand: str, width: int) -> str:
    """A vector with as many lanes as a quarter has, at least."""
    if width == lanes.width:
        return operand
    wide = lanes.many.wide(layout.type_)
    order = ", ".join(f"i32 {min(i, lanes.width)}" for i in range(width))
    return lanes.function.inst(f"shufflevector {wide} {operand}, {wide} poison, <{width} x i32> <{order}>")


def _transposed(lanes: Lanes, layout: RegisterLayout, operands: Sequence[str], length: int, width: int) -> list[str]:
    """The words of each lane: vectors of `length`."""
    many, register, q = lanes.part(width), lanes.part(layout.lanes), layout.quarter
    found: list[str] = []
    for begin in range(0, width, layout.lanes):
        vectors = [o if o == "poison" else many.piece(layout.type_, o, begin, layout.lanes) for o in operands]
        rows = rows_of(lanes, layout, vectors)
        found += [
            register.piece(layout.type_, row, start, length) for start in range(0, layout.lanes, q) for row in rows
        ]
    return found


def stored_records(lanes: Lanes, first: Store, ops: Iterable[Op]) -> dict[int, Store]:
    """Return the `record_group` of the stores that the operations begin with; empty where they are written one by one.

    Under a mask they are: a lane that is off may be in none of the records.
    """
    if lanes.mask is not None:
        return {}
    group = record_group(lanes, first, ops)
    if not group or not is_scattered(locate(lanes, first.param, first.indices)):
        return {}
    return {word: op for word, op in group.items() if isinstance(op, Store)}


def store_records(lanes: Lanes, group: dict[int, Store]) -> None:
    """Stores a group. All lanes are on."""
    place = locate(lanes, group[0].param, group[0].indices)
    operands = [to_memory(lanes, group[word].value) for word in range(len(group))]
    type_, align = memory_type(place.dtype), place.dtype.bytes
    for first, length, values in list(rows_of_lanes(lanes, group, operands)):
        wide = type_ if length == 1 else f"<{length} x {type_}>"
        for pointer, value in zip(pointers_at(lanes, place, first), values, strict=True):
            lanes.function.line(f"store {wide} {value}, ptr {pointer}, align {align}")


def pointers_at(lanes: Lanes, place: LaneAddress, word: int) -> list[str]:
    """The pointer of each lane to a word of a group whose first word is at `place`."""
    return lane_pointers(lanes, replace(place, constant=place.constant + word))


def is_scattered(place: LaneAddress) -> bool:
    """Return whether the elements of the lanes lie neither side by side nor at one place."""
    return not (place.is_uniform or place.is_strided(1) or place.is_strided(-1))
