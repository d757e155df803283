"""A private copy of pieces of memory: what has an address there has a place here, views of it included."""

from __future__ import annotations

import bisect
import ctypes
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxwarp.errors import KernelTypeError
from jaxwarp.memory.host_scope import HOST, contents_of, scope_of
from jaxwarp.memory.region import Region, bytes_of, dense_region
from jaxwarp.types import bfloat16
from jaxwarp.unlocked import address_of

_ALIGNMENT = 64


def is_float(dtype: np.dtype) -> bool:
    """Whether numbers of a type have derivatives."""
    return dtype.kind == "f" or dtype == bfloat16.numpy


class Shadow:
    """Memory of the host for `regions`. Those that overlap share a block.

    Blocks without a region of `written` are the memory itself, not copies, unless it is a GPU's: they are only read.

    Args:
        is_zero: the copy starts as zeros.
    """

    def __init__(self, regions: Sequence[Region], written: Sequence[Region], is_zero: bool = False):
        self._regions = regions
        spans = sorted({r.span for r in regions if r.size})
        self._lows: list[int] = []
        self._highs: list[int] = []
        for low, high in spans:
            if self._highs and low < self._highs[-1]:
                self._highs[-1] = max(self._highs[-1], high)
            else:
                self._lows.append(low)
                self._highs.append(high)
        # By the identity of regions, which are kept: most are asked for many times.
        self._blocks: dict[int, tuple[Region, int]] = {}
        self._views: dict[int, tuple[Region, np.ndarray]] = {}
        self._shifts: dict[int, int] = {}  # from an address there to one here, of the blocks that are copied
        # Memory of GPUs is never that of the host.
        gpus = {self.block(r): r for r in regions if r.size and scope_of(r) is not HOST}
        self._memory = self._make(sorted({self.block(r) for r in written if r.size} | set(gpus)))
        self._start = address_of(self._memory)
        for block in self._shifts if not is_zero else ():
            self._copy(block, gpus.get(block))

    def _make(self, blocks: Sequence[int]) -> np.ndarray:
        """Zeros for some blocks, each as far from a multiple of the alignment as there: what is aligned stays so."""
        places, end = [], 0
        for block in blocks:
            end += (self._lows[block] - end) % _ALIGNMENT
            places.append(end)
            end += self._highs[block] - self._lows[block]
        memory = np.zeros(end + _ALIGNMENT, np.uint8)
        start = address_of(memory) + -address_of(memory) % _ALIGNMENT
        self._shifts = {b: start + place - self._lows[b] for b, place in zip(blocks, places, strict=True)}
        return memory

    def _copy(self, block: int, region: Region | None) -> None:
        """What a block holds; `region` is one in it, if it is memory of a GPU."""
        low, size = self._lows[block], self._highs[block] - self._lows[block]
        if region is None:
            ctypes.memmove(low + self._shifts[block], low, size)
        else:
            there = dense_region(low, np.dtype(np.uint8), (size,), region.owner)
            place = low + self._shifts[block] - self._start
            self._memory[place : place + size] = contents_of(there)

    def block(self, region: Region) -> int:
        """The number of the block that a region is in."""
        found = self._blocks.get(id(region))
        if found is None:
            found = self._blocks[id(region)] = region, bisect.bisect_right(self._lows, region.span[0]) - 1
        return found[1]

    def address(self, region: Region) -> int:
        """Where the region begins here."""
        return region.address + (self._shifts.get(self.block(region), 0) if region.size else 0)

    def at(self, region: Region) -> Region:
        """The region's place here."""
        address = self.address(region)
        if address == region.address:
            return region
        return Region(address, region.dtype, region.shape, region.strides, self._memory)

    def view(self, region: Region) -> np.ndarray:
        """The region's place here, as a NumPy array."""
        found = self._views.get(id(region))
        if found is None:
            found = self._views[id(region)] = region, self._view(region)
        return found[1]

    def _view(self, region: Region) -> np.ndarray:
        address = self.address(region)
        if address == region.address:
            return region.view(bytes_of(region))
        return np.ndarray(region.shape, region.dtype, self._memory, address - self._start, region.strides)

    def clear(self, region: Region, filled: set[int]) -> None:
        """Sets a region to zero; its block is `filled` no more if that is all of it."""
        self.view(region)[...] = 0
        block = self.block(region)
        if region.size and region.is_dense and region.span == (self._lows[block], self._highs[block]):
            filled.discard(block)

    def snapshot(self, region: Region, may_change: bool) -> np.ndarray:
        """What a region holds now, dense: a copy, where it may change."""
        found = self.view(region)
        return found.copy() if may_change or not region.is_dense else found

    def require_one_type(self) -> None:
        """Memory that is seen as numbers of two types has no derivative.

        Raises:
            KernelTypeError: there is some.
        """
        blocks: dict[int, dict[Any, Region]] = {}
        for region in self._regions:
            place = region.dtype, region.address, region.shape, region.strides
            blocks.setdefault(self.block(region) if region.size else -1, {})[place] = region
        for regions in blocks.values():
            for one, other in itertools.combinations(regions.values(), 2) if len({p[0] for p in regions}) > 1 else ():
                is_moving = is_float(one.dtype) or is_float(other.dtype)
                if one.dtype != other.dtype and is_moving and one.overlaps(other):
                    raise KernelTypeError(
                        f"Tape.backward: the same memory is used as {one.dtype} and as {other.dtype}, which has no"
                        " derivative",
                        hint="use an array of its own for each type",
                    )
