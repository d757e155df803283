"""A private copy of pieces of a GPU's memory, in that memory: see `arrays/tapes/shadow.py`."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

import numpy as np

from jaxwarp.arrays.tapes.gpu import arithmetic
from jaxwarp.arrays.tapes.shadow import MemoryBlocks, PlacedRegion, Private
from jaxwarp.memory.gpu.scope import GpuScope
from jaxwarp.memory.region import Region, dense_region

_BYTE = np.dtype(np.uint8)


class GpuShadow(Private):
    """Memory of a GPU for some blocks, all of which are there; the others are the memory itself.

    Args:
        scope: the GPU.
        blocks: where regions are.
        chosen: the numbers of the blocks.
        zero: those that start as zeros; the others start as what is there.
    """

    def __init__(self, scope: GpuScope, blocks: MemoryBlocks, chosen: Iterable[int], zero: Container[int]):
        self._scope = scope
        chosen = sorted({*chosen} - {-1})
        copied = [block for block in chosen if block not in zero]
        super().__init__(blocks, chosen)
        if len(copied) < len(chosen):
            scope.set(self._memory, np.zeros((), _BYTE))
        for block in copied:
            low, size = blocks.lows[block], blocks.highs[block] - blocks.lows[block]
            owner = next(p.region.owner for p in blocks.places if p.block == block)
            here = dense_region(low + self._shifts[block], _BYTE, (size,), self._memory.owner)
            scope.duplicate(here, dense_region(low, _BYTE, (size,), owner))

    def _allocated(self, size: int) -> tuple[Any, int]:
        self._memory = self._scope.new(_BYTE, (size,))
        return self._memory.owner, self._memory.address

    def kept(self, place: PlacedRegion) -> Region:
        return self._scope.duplicated(self.at(place))

    def values(self, place: PlacedRegion) -> Region:
        return arithmetic.plain(self._scope, self.at(place))

    def numpy(self, place: PlacedRegion) -> np.ndarray:
        return self._scope.read(self.at(place))

    def nonzero(self, places: Sequence[PlacedRegion]) -> list[bool]:
        return arithmetic.nonzero(self._scope, [self.values(place) for place in places]).tolist()

    def set(self, place: PlacedRegion, values: np.ndarray | Region) -> None:
        target = self.at(place)
        if isinstance(values, Region):
            self._scope.duplicate(target, values)
        elif values.shape == target.shape:
            self._scope.put(target, values)
        else:  # for all elements
            self._scope.set(target, values)

    def add(self, place: PlacedRegion, values: np.ndarray | Region) -> None:
        source = values if isinstance(values, Region) else self._scope.uploaded(values)
        arithmetic.add(self._scope, self.at(place), source)

    def load(self, place: PlacedRegion, source: Region) -> None:
        self._scope.bring(self.at(place), source)

    def store(self, place: PlacedRegion, target: Region) -> None:
        self._scope.duplicate(target, self.at(place))

    def clear(self, place: PlacedRegion, filled: set[int]) -> None:
        target = self.at(place)
        self._scope.set(target, np.zeros((), target.dtype))
        if place.fills:
            filled.discard(place.block)
