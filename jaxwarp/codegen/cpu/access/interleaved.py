"""Arrays of vectors and matrices that lanes walk in order: the components of as many entries as there are lanes, moved
in vectors and transposed in registers.

Memory holds entry after entry, registers component after component. Between the two stand shuffles of two registers
each, made so that machines have one instruction for each: none crosses a quarter, a piece of 128 bits. The lanes of a
register are taken as quarters of `q` entries (4 of 32 bits, 2 of 64), and *rows* are loaded and stored quarter by
quarter: a row has of each quarter the 128 bits that begin at one place of its q entries. Component c of entry m is
element c + m * size of its quarter.

64 bits, q = 2. Row k is elements 2 k and 2 k + 1. Every component is a shuffle of the two rows that have c and
c + size, and every row to be stored one of two components.

32 bits, q = 4, in two steps, by *pairs* of components. To load: c and c + 1 of entries 0 and 1, the same of 2 and 3,
then c from both, and c + 1. If the size is even, row k is elements 4 k to 4 k + 3, in which pairs of all entries lie
whole. If it is odd, each entry has rows of its own, the last of which begins 4 before its end. Three components take
five shuffles instead, known from conversions of (x, y, z) triples. To store: elements e and e + 1 with e + 2 size and
e + 2 size + 1, which are the same components two entries on, then rows of two such. Two components take one shuffle
each.

Nothing is read or written but the entries of the lanes, all of which are on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jaxwarp.codegen.cpu.access.addressing import LaneAddress, element_pointer
from jaxwarp.codegen.cpu.llvm.lanes import Lanes
from jaxwarp.codegen.cpu.llvm.vectors import memory_type

QUARTER = 128  # bits
Pieces = list[tuple[str, str]]

# Components that are better loaded and stored as one wide vector by 64-bit Arm, which has instructions for that, and by
# machines with AVX-512, where one instruction takes any elements of two registers.
_WIDE_SIZES = (2, 3, 4)


def load_component(lanes: Lanes, place: LaneAddress, size: int, component: int) -> str:
    """Component `component` of the entries of all lanes, all of which are on; `place` is where that component is.

    What it shares with other components is loaded and shuffled once, until something is stored.
    """
    first = place.constant - component
    if not _is_transposed(lanes, place, size):
        return _from_wide(lanes, place, first, size, component)
    key = place.pointer, first, size
    if key not in lanes.loaded:
        lanes.loaded[key] = _Loader(lanes, place, first, size)
    return lanes.loaded[key].component(component)


def interleaved(lanes: Lanes, place: LaneAddress, components: Sequence[str]) -> tuple[str, int, Pieces]:
    """The entries that consist of these components, as memory has them from `place` on.

    Returns:
        LLVM's name of a type of vectors, their size in bytes, and vectors with pointers to where they go, one after the
        other in memory.
    """
    if not _is_transposed(lanes, place, len(components)):
        return _as_wide(lanes, place, components)
    layout = layout_of(lanes, place)
    size, q = len(components), layout.quarter
    builder = lanes.part(layout.lanes)
    pieces: Pieces = []
    for lane in range(0, lanes.width, layout.lanes):
        parts = [lanes.many.piece(layout.type_, c, lane, layout.lanes) for c in components]
        rows = rows_of(lanes, layout, parts)
        for start in range(0, layout.lanes, q):
            for k, row in enumerate(rows):
                at = element_pointer(lanes, place, place.constant + (lane + start) * size + k * q)
                pieces.append((builder.piece(layout.type_, row, start, q), at))
    return f"<{q} x {layout.type_}>", QUARTER // 8, pieces


def _is_transposed(lanes: Lanes, place: LaneAddress, size: int) -> bool:
    machine = lanes.frame.machine
    if size in _WIDE_SIZES and (machine.has_mask_registers or machine.triple.startswith("aarch64")):
        return False
    return place.dtype.bits in (32, 64) and lanes.width * place.dtype.bits >= QUARTER


@dataclass(frozen=True)
class RegisterLayout:
    """The layout of registers: `lanes` elements of an LLVM type, in quarters of `quarter` elements."""

    type_: str
    lanes: int
    quarter: int

    @property
    def vector(self) -> str:
        return f"<{self.lanes} x {self.type_}>"

    def shuffled(self, lanes: Lanes, a: str, b: str, order: Sequence[int]) -> str:
        """Select elements of two registers, in each quarter. Numbers from `quarter` on mean the second register."""
        q = self.quarter
        places = [x + h if x < q else x - q + self.lanes + h for h in range(0, self.lanes, q) for x in order]
        text = ", ".join(f"i32 {x}" for x in places)
        vector = self.vector
        return lanes.function.inst(f"shufflevector {vector} {a}, {vector} {b}, <{self.lanes} x i32> <{text}>")


def layout_of(lanes: Lanes, place: LaneAddress) -> RegisterLayout:
    bits = place.dtype.bits
    register = lanes.frame.machine.vector_bits // bits
    return RegisterLayout(memory_type(place.dtype), min(lanes.width, register), QUARTER // bits)


class _Loader:
    """The entries of all lanes from element `first` on; what has been loaded and shuffled of them."""

    def __init__(self, lanes: Lanes, place: LaneAddress, first: int, size: int):
        self.lanes = lanes
        self.place = place
        self.first = first
        self.size = size
        self.layout = layout_of(lanes, place)
        self.made: dict[tuple[int | str, ...], str] = {}

    def component(self, c: int) -> str:
        parts = range(0, self.lanes.width, self.layout.lanes)
        return self.lanes.many.joined(self.layout.type_, [self.part(lane, c) for lane in parts])

    def part(self, lane: int, c: int) -> str:
        """Component c of the entries of one register, from a lane on."""
        size = self.size
        if self.layout.quarter == 2:
            a, b = c, c + size
            return self.shuffled(self.row(lane, a // 2 * 2), self.row(lane, b // 2 * 2), (a % 2, 2 + b % 2))
        if size == 3:
            return self.of_three(lane, c)
        low, at = self.pairs(lane, c, 0)
        high, _ = self.pairs(lane, c, 2)
        return self.shuffled(low, high, (at, at + 2, at + 4, at + 6))

    def pairs(self, lane: int, c: int, m: int) -> tuple[str, int]:
        """Return a pair of components of entries m and m + 1 of each quarter, and the position of c in that pair."""
        (a, at), (b, bt) = self.row_of(lane, c, m), self.row_of(lane, c, m + 1)
        if a == b:
            return a, at % 2
        a_pair, b_pair = at // 2 * 2, bt // 2 * 2
        return self.shuffled(a, b, (a_pair, a_pair + 1, 4 + b_pair, 5 + b_pair)), at % 2

    def row_of(self, lane: int, c: int, m: int) -> tuple[str, int]:
        """The row that has component c of entry m, and where."""
        if self.size % 2 == 0:
            element = c + m * self.size
            return self.row(lane, element // 4 * 4), element % 4
        begin = min(c // 4 * 4, self.size - 4)
        return self.row(lane, begin + m * self.size), c - begin

    def of_three(self, lane: int, c: int) -> str:
        a, b, d = (self.row(lane, element) for element in (0, 4, 8))  # x y z x, y z x y, z x y z
        if c == 0:
            return self.shuffled(a, self.shuffled(b, d, (2, 3, 5, 6)), (0, 3, 4, 6))
        yz = self.shuffled(a, b, (1, 2, 4, 5))
        if c == 1:
            return self.shuffled(yz, self.shuffled(b, d, (2, 3, 5, 6)), (0, 2, 5, 7))
        return self.shuffled(yz, d, (1, 3, 4, 7))

    def row(self, lane: int, element: int) -> str:
        """128 bits of each quarter, from an element of it on."""
        key = ("row", lane, element)
        if key not in self.made:
            layout, inst = self.layout, self.lanes.function.inst
            quarter = f"<{layout.quarter} x {layout.type_}>"
            pieces: list[str] = []
            for start in range(lane, lane + layout.lanes, layout.quarter):
                pointer = element_pointer(self.lanes, self.place, self.first + start * self.size + element)
                pieces.append(inst(f"load {quarter}, ptr {pointer}, align {self.place.dtype.bytes}"))
            self.made[key] = self.lanes.part(layout.lanes).joined(layout.type_, pieces)
        return self.made[key]

    def shuffled(self, a: str, b: str, order: Sequence[int]) -> str:
        key = (a, b, *order)
        if key not in self.made:
            self.made[key] = self.layout.shuffled(self.lanes, a, b, order)
        return self.made[key]


def rows_of(lanes: Lanes, layout: RegisterLayout, parts: Sequence[str]) -> list[str]:
    """Rows of elements that follow one another, of as many registers of components."""
    size = len(parts)

    def shuffled(a: str, b: str, *order: int) -> str:
        return layout.shuffled(lanes, a, b, order)

    def entry(element: int) -> tuple[int, str]:
        return element // size, parts[element % size]

    if layout.quarter == 2:
        both = [(entry(e), entry(e + 1)) for e in range(0, 2 * size, 2)]
        return [shuffled(a, b, m, 2 + n) for (m, a), (n, b) in both]
    if size == 2:
        return [shuffled(parts[0], parts[1], *order) for order in ((0, 4, 1, 5), (2, 6, 3, 7))]
    pairs: list[str] = []
    for element in range(0, 2 * size, 2):
        (m, a), (n, b) = entry(element), entry(element + 1)
        pairs.append(shuffled(a, b, m, m + 2, 4 + n, 6 + n))
    rows: list[str] = []
    for element in range(0, 4 * size, 4):
        places = [divmod(e, 2 * size) for e in (element, element + 2)]  # entries 0 and 1 or 2 and 3; which pair
        (i, low), (j, high) = places
        rows.append(shuffled(pairs[low // 2], pairs[high // 2], i, i + 2, 4 + j, 6 + j))
    return rows


def _from_wide(lanes: Lanes, place: LaneAddress, first: int, size: int, component: int) -> str:
    """A component out of one vector of all entries."""
    type_, width = memory_type(place.dtype), lanes.width
    wide = f"<{size * width} x {type_}>"
    # The loads of the other components are the same instruction, which LLVM merges.
    at = element_pointer(lanes, place, first)
    entries = lanes.function.inst(f"load {wide}, ptr {at}, align {place.dtype.bytes}")
    order = ", ".join(f"i32 {size * lane + component}" for lane in range(width))
    return lanes.function.inst(f"shufflevector {wide} {entries}, {wide} poison, <{width} x i32> <{order}>")


def _as_wide(lanes: Lanes, place: LaneAddress, components: Sequence[str]) -> tuple[str, int, Pieces]:
    """`interleaved`, by shuffles of one vector of all components."""
    width, size, type_ = lanes.width, len(components), memory_type(place.dtype)
    parts, lanes_each = components, width
    while len(parts) > 1:
        pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
        parts = [_concatenate(lanes, type_, lanes_each, pair) for pair in pairs]
        lanes_each *= 2
    # A vector whose length is no power of two would pass from block to block element by element.
    each = size * width if size & (size - 1) == 0 else width
    order = [component * width + lane for lane in range(width) for component in range(size)]
    joined = f"<{lanes_each} x {type_}>"
    pieces: Pieces = []
    for start in range(0, size * width, each):
        mask = ", ".join(f"i32 {i}" for i in order[start : start + each])
        mixed = f"shufflevector {joined} {parts[0]}, {joined} poison, <{each} x i32> <{mask}>"
        pieces.append((lanes.function.inst(mixed), element_pointer(lanes, place, place.constant + start)))
    return f"<{each} x {type_}>", each * place.dtype.bytes, pieces


def _concatenate(lanes: Lanes, type_: str, length: int, pair: Sequence[str]) -> str:
    """Two vectors of `length` after one another; a missing second one is left undefined."""
    vector = f"<{length} x {type_}>"
    second = pair[1] if len(pair) == 2 else "poison"
    order = ", ".join(f"i32 {i}" for i in range(2 * length))
    return lanes.function.inst(f"shufflevector {vector} {pair[0]}, {vector} {second}, <{2 * length} x i32> <{order}>")
