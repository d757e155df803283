"""A private copy of pieces of memory: what has an address there has a place here, views of it included."""

from __future__ import annotations

import ctypes
import itertools
from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Sequence
from typing import Any

import numpy as np

from jaxwarp.errors import KernelTypeError
from jaxwarp.memory.host_scope import HOST, contents_of, scope_of, set_contents
from jaxwarp.memory.region import Region, bytes_of, dense_region
from jaxwarp.memory.tensor_owner import place_of
from jaxwarp.types import bfloat16
from jaxwarp.unlocked import address_of

_ALIGNMENT = 64


def is_float(dtype: np.dtype) -> bool:
    """Return whether numbers of a type have derivatives."""
    return dtype.kind == "f" or dtype == bfloat16.numpy


def is_zero(region: Region) -> bool:
    """Return whether all numbers of a region in host memory are zero. Comparing bits takes a quarter of the time."""
    numbers = region.here
    bits = numbers.reshape(-1).view(f"u{numbers.itemsize}") if numbers.size and region.is_dense else None
    return (bits is not None and not bits.max()) or not numbers.any()


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
        gpus: of blocks in memory of GPUs, by their numbers, a region in it.
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
        self.gpus = {p.block: p.region for p in self.places if p.block >= 0 and scope_of(p.region) is not HOST}

    def place(self, region: Region) -> PlacedRegion:
        """The place of one of the regions."""
        return self._places[id(region)]

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


class Private(ABC):
    """Private memory for some blocks; the others are the memory itself.

    Args:
        blocks: where regions are.
        chosen: the numbers of the blocks that it is for.
    """

    def __init__(self, blocks: MemoryBlocks, chosen: Sequence[int]):
        self._blocks = blocks
        # From an address there to one here; the last one is that of regions without elements.
        self._shifts = [0] * (len(blocks.lows) + 1)
        places, end, lows, highs = [], 0, blocks.lows, blocks.highs
        for block in chosen:  # each as far from a multiple of the alignment as there: what is aligned stays so
            end += (lows[block] - end) % _ALIGNMENT
            places.append(end)
            end += highs[block] - lows[block]
        self._owner, start = self._allocated(end + _ALIGNMENT)
        start += -start % _ALIGNMENT
        for block, place in zip(chosen, places, strict=True):
            self._shifts[block] = start + place - lows[block]

    @abstractmethod
    def _allocated(self, size: int) -> tuple[Any, int]:
        """New memory: who keeps it, and where it is."""

    def address(self, place: PlacedRegion) -> int:
        """Return the address of the region in this private memory."""
        return place.region.address + self._shifts[place.block]

    def at(self, place: PlacedRegion) -> Region:
        """The region here."""
        region = place.region
        if not self._shifts[place.block]:
            return region
        return Region(self.address(place), region.dtype, region.shape, region.strides, self._owner)

    @abstractmethod
    def kept(self, place: PlacedRegion) -> Any:
        """A copy of what the region holds, dense."""

    @abstractmethod
    def values(self, place: PlacedRegion) -> Any:
        """Return the contents of the region: a copy or a view."""

    @abstractmethod
    def numpy(self, place: PlacedRegion) -> np.ndarray:
        """Return the contents of the region as a NumPy array: a copy or a view."""

    @abstractmethod
    def nonzero(self, places: Sequence[PlacedRegion]) -> list[bool]:
        """Return, for each region, whether it has a number that is not zero."""

    @abstractmethod
    def set(self, place: PlacedRegion, values: Any) -> None:
        """Gives the region numbers: of the host, which fit its last axes, or those that another one had."""

    @abstractmethod
    def add(self, place: PlacedRegion, values: Any) -> None:
        """Adds numbers, of the host or here."""

    @abstractmethod
    def load(self, place: PlacedRegion, source: Region) -> None:
        """Gives the region here what another one holds, wherever that is."""

    @abstractmethod
    def store(self, place: PlacedRegion, target: Region) -> None:
        """Gives another region what the one here holds; no tape is told."""

    @abstractmethod
    def clear(self, place: PlacedRegion, filled: set[int]) -> None:
        """Sets a region to zero; its block is `filled` no more if that is all of it."""


class Shadow(Private):
    """Memory of the host for some blocks.

    Args:
        blocks: where regions are.
        chosen: the numbers of the blocks. Those of a GPU are among them in any case.
        zero: those that start as zeros; the others start as what is there.
    """

    def __init__(self, blocks: MemoryBlocks, chosen: Iterable[int], zero: Container[int]):
        chosen = sorted({*chosen, *blocks.gpus} - {-1})
        super().__init__(blocks, chosen)
        self._start = address_of(self._memory)
        self._views: dict[PlacedRegion, np.ndarray] = {}
        for block in chosen:
            if block not in zero:
                self._copy(block, blocks.gpus.get(block))

    def _allocated(self, size: int) -> tuple[Any, int]:
        self._memory = np.zeros(size, np.uint8)
        return self._memory, address_of(self._memory)

    def _copy(self, block: int, region: Region | None) -> None:
        """Copy the contents of a block. For a block in the memory of a GPU, `region` is one of its regions."""
        low = self._blocks.lows[block]
        place, size = low + self._shifts[block], self._blocks.highs[block] - low
        if region is None:
            ctypes.memmove(place, low, size)
        else:
            there = dense_region(low, np.dtype(np.uint8), (size,), region.owner)
            self._memory[place - self._start : place - self._start + size] = contents_of(there)

    def view(self, place: PlacedRegion) -> np.ndarray:
        """The region here, as a NumPy array."""
        found = self._views.get(place)
        if found is None:
            found = self._views[place] = self._view(place)
        return found

    def _view(self, place: PlacedRegion) -> np.ndarray:
        region = place.region
        if not region.size:
            return np.empty(region.shape, region.dtype)
        if not self._shifts[place.block]:
            return region.view(bytes_of(region))
        return np.ndarray(region.shape, region.dtype, self._memory, self.address(place) - self._start, region.strides)

    values = numpy = view

    def kept(self, place: PlacedRegion) -> np.ndarray:
        return self.view(place).copy()

    def nonzero(self, places: Sequence[PlacedRegion]) -> list[bool]:
        return [bool(self.view(place).any()) for place in places]

    def set(self, place: PlacedRegion, values: np.ndarray) -> None:
        self.view(place)[...] = values

    def add(self, place: PlacedRegion, values: np.ndarray) -> None:
        view = self.view(place)
        np.add(view, values, out=view)

    def load(self, place: PlacedRegion, source: Region) -> None:
        if place.is_plain and source.is_plain and scope_of(source) is HOST:
            ctypes.memmove(self.address(place), source.address, source.nbytes)
        else:
            self.view(place)[...] = contents_of(source)

    def store(self, place: PlacedRegion, target: Region) -> None:
        if place.is_plain and target.is_plain and scope_of(target) is HOST:
            ctypes.memmove(target.address, self.address(place), target.nbytes)
        else:
            set_contents(target, self.view(place))

    def clear(self, place: PlacedRegion, filled: set[int]) -> None:
        if place.is_plain:
            ctypes.memset(self.address(place), 0, place.region.nbytes)
        else:
            self.view(place).fill(0)
        if place.fills:
            filled.discard(place.block)
