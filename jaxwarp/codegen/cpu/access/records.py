"""Words that lie near each other, of each lane its own: read together, and transposed in registers.

A lane's words are counted from where its offset points. Which of them are read is known; what lies between two that
are read is in the array. So a *piece* of 128 or 64 bits between the first and the last may be read with one load.

As in interleaved.py, a register has quarters of `q` lanes. Shuffles take the pieces of two lanes of each quarter, then
two such pairs. Pieces of two words of 32 bits are put in pairs as they are loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from jaxwarp.codegen.cpu.access.addressing import LaneAddress, lane_pointers
from jaxwarp.codegen.cpu.access.interleaved import QUARTER, layout_of
from jaxwarp.codegen.cpu.analysis.families import Piece, pieces
from jaxwarp.codegen.cpu.llvm.lanes import Lanes


class Records:
    """The words `wanted` of all lanes; what has been loaded and shuffled of them.

    Args:
        lanes: all of which may load.
        place: of one of the words.
        wanted: all of them, of which the first and the last are in the array in each lane.
    """

    def __init__(self, lanes: Lanes, place: LaneAddress, wanted: Sequence[int]):
        self.lanes = lanes
        self.place = replace(place, constant=0)
        bits = place.dtype.bits
        can = bits in (32, 64) and lanes.width * bits >= QUARTER and len(wanted) > 1
        self.pieces = pieces(wanted, QUARTER // bits) if can else {}
        self.made: dict[tuple[int | str, ...], str] = {}

    def word(self, word: int) -> str | None:
        """A word of all lanes; None if it is better loaded alone."""
        if word not in self.pieces:
            return None
        layout = self.layout = layout_of(self.lanes, self.place)
        return self.lanes.many.joined(
            layout.type_, [self.part(lane, word) for lane in range(0, self.lanes.width, layout.lanes)]
        )

    def part(self, lane: int, word: int) -> str:
        """A word of the lanes of one register, from a lane on."""
        first, length = piece = self.pieces[word]
        at = word - first
        if self.layout.quarter == 2:
            return self.shuffled(self.rows(lane, piece, 0), self.rows(lane, piece, 1), (at, 2 + at))
        if length == 2:
            low, high = (self.pairs(lane, piece, m) for m in (0, 2))
        else:
            low, high = (self.halves(lane, piece, at // 2 * 2, m) for m in (0, 2))
        return self.shuffled(low, high, (at % 2, 2 + at % 2, 4 + at % 2, 6 + at % 2))

    def halves(self, lane: int, piece: Piece, at: int, m: int) -> str:
        """Return the words `at` and `at` + 1 of a piece, for lanes m and m + 1 of each quarter."""
        return self.shuffled(self.rows(lane, piece, m), self.rows(lane, piece, m + 1), (at, at + 1, 4 + at, 5 + at))

    def rows(self, lane: int, piece: Piece, m: int) -> str:
        """A piece of lane m of each quarter."""
        q = self.layout.quarter
        return self.remembered(("row", lane, *piece, m), lambda h: self.load(lane + h + m, piece), q)

    def pairs(self, lane: int, piece: Piece, m: int) -> str:
        """A piece of two words of lanes m and m + 1 of each quarter."""

        def both(h: int) -> str:
            return self.lanes.part(4).joined(self.layout.type_, [self.load(lane + h + m + i, piece) for i in (0, 1)])

        return self.remembered(("pair", lane, *piece, m), both, self.layout.quarter)

    def remembered(self, key: tuple[int | str, ...], quarter: Callable[[int], str], q: int) -> str:
        """A register of quarters."""
        if key not in self.made:
            parts = [quarter(h) for h in range(0, self.layout.lanes, q)]
            self.made[key] = self.lanes.part(self.layout.lanes).joined(self.layout.type_, parts)
        return self.made[key]

    def load(self, lane: int, piece: Piece) -> str:
        first, length = piece
        inst, type_ = self.lanes.function.inst, self.layout.type_
        pointer = lane_pointers(self.lanes, self.place)[lane]
        at = inst(f"getelementptr {type_}, ptr {pointer}, i64 {first}") if first else pointer
        return inst(f"load <{length} x {type_}>, ptr {at}, align {self.place.dtype.bytes}")

    def shuffled(self, a: str, b: str, order: Sequence[int]) -> str:
        key = (a, b, *order)
        if key not in self.made:
            self.made[key] = self.layout.shuffled(self.lanes, a, b, order)
        return self.made[key]
