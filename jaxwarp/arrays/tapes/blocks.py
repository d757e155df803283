"""The memory that a tape is about, in blocks, and private memory for these: views have a place there, too."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import numpy as np

from jaxwarp.arrays.tapes.memory import Memory
from jaxwarp.errors import KernelTypeError
from jaxwarp.memory.region import Region, dense_region
from jaxwarp.memory.tensor_owner import place_of
from jaxwarp.types import bfloat16

_ALIGNMENT = 64
_BYTE = np.dtype(np.uint8)


def is_float(dtype: np.dtype) -> bool:
    """Return whether numbers of a type have derivatives."""
    return dtype.kind == "f" or dtype == bfloat16.numpy


class PlacedRegion:
    """A region among others.

    Attributes:
        block: the number of the block that it is in; -1 where it has no elements.
        fills: whether it is all of that.
    """

    __slots__ = ("block", "fills", "is_float", "is_plain", "region")

    def __init__(self, region: Region, block: int, fills: bool):
        self.region, self.block, self.fills = region, block, fills
        self.is_float, self.is_plain = is_float(region.dtype), region.is_plain


class MemoryBlocks:
    """The memory of some regions, in blocks that are apart: regions that overlap are in one.

    Attributes:
        lows: where each block begins.
        highs: where it ends.
        places: of the regions.
        owners: who keeps each.
        gpus: of blocks in memory of GPUs, the scopes.
    """

    def __init__(self, regions: Iterable[Region]):
        found = {id(region): region for region in regions}  # most are there many times
        spans = {key: region.span for key, region in found.items() if region.size}
        self.lows: list[int] = []
        self.highs: list[int] = []
        numbers: dict[tuple[int, int], int] = {}
        for span in sorted(set(spans.values())):
            if self.highs and span[0] < self.highs[-1]:
                self.highs[-1] = max(self.highs[-1], span[1])
            else:
                self.lows.append(span[0])
                self.highs.append(span[1])
            numbers[span] = len(self.lows) - 1
        self._places: dict[int, PlacedRegion] = {}
        for key, region in found.items():
            block = numbers[spans[key]] if key in spans else -1
            fills = block >= 0 and region.is_dense and spans[key] == (self.lows[block], self.highs[block])
            self._places[key] = PlacedRegion(region, block, fills)
        self.places = self._places.values()
        self.owners = {place.block: place.region.owner for place in self.places}
        scopes = ((block, getattr(owner, "scope", None)) for block, owner in self.owners.items())
        self.gpus = {block: scope for block, scope in scopes if scope is not None and block >= 0}

    def place(self, region: Region) -> PlacedRegion:
        """The place of one of the regions."""
        return self._places[id(region)]

    def meet(self, low: int, high: int) -> bool:
        """Return whether a block has one of the bytes from an address to before another."""
        before = bisect.bisect_left(self.lows, high)
        return before > 0 and low < self.highs[before - 1]

    def require_one_type(self) -> None:
        """Memory that is seen as numbers of two types has no derivative.

        Raises:
            KernelTypeError: there is some.
        """
        types: dict[int, np.dtype] = {}
        mixed = {p.block for p in self.places if types.setdefault(p.block, p.region.dtype) != p.region.dtype} - {-1}
        for block in mixed:
            regions = {place_of(p.region): p.region for p in self.places if p.block == block}
            for one, other in itertools.combinations(regions.values(), 2):
                has_floats = is_float(one.dtype) or is_float(other.dtype)
                if one.dtype != other.dtype and has_floats and one.overlaps(other):
                    raise KernelTypeError(
                        f"Tape.backward: the same memory is used as {one.dtype} and as {other.dtype}, which has no"
                        " derivative",
                        hint="use an array of its own for each type",
                    )


class Private:
    """Private memory for some blocks; the others are the memory itself.

    Args:
        memory: where it is.
        blocks: where regions are.
        chosen: the numbers of the blocks that it is for.
        mapped: for other blocks, memory that is used as theirs, which has their size.
    """

    def __init__(
        self,
        memory: Memory,
        blocks: MemoryBlocks,
        chosen: Iterable[int],
        mapped: Mapping[int, Region] = MappingProxyType({}),
    ):
        self._memory, self._blocks = memory, blocks
        self.chosen = sorted({*chosen} - {-1} - mapped.keys())
        lows, highs = blocks.lows, blocks.highs
        self._mapped = mapped
        self._shifts = {block: region.address - lows[block] for block, region in mapped.items()}
        self._owners = {block: region.owner for block, region in mapped.items()}
        self._regions: dict[PlacedRegion, Region] = {}
        places, end = [], 0
        for block in self.chosen:  # each as far from a multiple of the alignment as there: what is aligned stays so
            end += (lows[block] - end) % _ALIGNMENT
            places.append(end)
            end += highs[block] - lows[block]
        if not places:
            return
        self._made = memory.new(_BYTE, (end + _ALIGNMENT,))
        start = self._made.address + -self._made.address % _ALIGNMENT
        for block, place in zip(self.chosen, places, strict=True):
            self._shifts[block] = start + place - lows[block]
            self._owners[block] = self._made.owner

    def clear(self) -> None:
        """Set all that is private to zero."""
        if self.chosen:
            self._memory.clear(self._made)

    def load(self, blocks: Iterable[int]) -> None:
        """Give blocks what they hold in the memory itself."""
        for block in blocks:
            low, size = self._blocks.lows[block], self._blocks.highs[block] - self._blocks.lows[block]
            here = dense_region(low + self._shifts[block], _BYTE, (size,), self._owners[block])
            self._memory.bring(here, dense_region(low, _BYTE, (size,), self._blocks.owners[block]))

    def at(self, place: PlacedRegion) -> Region:
        """The region here."""
        found = self._regions.get(place)
        if found is None:
            region, shift = place.region, self._shifts.get(place.block)
            mapped = self._mapped.get(place.block)
            if shift is None:
                found = region
            elif mapped is not None and mapped.shape == region.shape and mapped.strides == region.strides:
                found = mapped
            else:
                found = region.moved(region.address + shift, self._owners[place.block])
                vars(found)["is_plain"] = place.is_plain  # the shift is a multiple of the alignment
            self._regions[place] = found
        return found
