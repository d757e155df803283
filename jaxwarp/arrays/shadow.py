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
        self._memory: dict[int, np.ndarray] = {}
        self._shifts: dict[int, int] = {}  # from an address there to one here
        # Memory of GPUs is never that of the host.
        gpus = {self.block(r): r for r in regions if r.size and scope_of(r) is not HOST}
        for block in {self.block(r) for r in written if r.size} | set(gpus):
            self._memory[block] = self._copy(block, is_zero, gpus.get(block))

    def _copy(self, block: int, is_zero: bool, region: Region | None) -> np.ndarray:
        low, high = self._lows[block], self._highs[block]
        # As far from a multiple of the alignment as there: what is aligned stays so.
        memory = np.zeros(high - low + _ALIGNMENT, np.uint8)
        start = (low - address_of(memory)) % _ALIGNMENT
        part = memory[start : start + high - low]
        address = address_of(part)
        self._shifts[block] = address - low
        if region is not None and not is_zero:
            bare = dense_region(low, np.dtype(np.uint8), (high - low,), region.owner)
            part[...] = contents_of(bare)
        elif not is_zero:
            ctypes.memmove(address, low, high - low)
        return part

    def block(self, region: Region) -> int:
        """The number of the block that a region is in."""
        return bisect.bisect_right(self._lows, region.span[0]) - 1

    def address(self, region: Region) -> int:
        """Where the region begins here."""
        return region.address + (self._shifts.get(self.block(region), 0) if region.size else 0)

    def at(self, region: Region) -> Region:
        """The region's place here."""
        block = self.block(region) if region.size else -1
        memory = self._memory.get(block)
        if memory is None:
            return region
        return Region(region.address + self._shifts[block], region.dtype, region.shape, region.strides, memory)

    def view(self, region: Region) -> np.ndarray:
        """The region's place here, as a NumPy array."""
        block = self.block(region) if region.size else -1
        memory = self._memory.get(block)
        if memory is None:
            return region.view(bytes_of(region))
        offset = region.address - self._lows[block]
        return np.ndarray(region.shape, region.dtype, memory, offset, region.strides)

    def clear(self, region: Region, filled: set[int]) -> None:
        """Sets a region to zero; its block is `filled` no more if that is all of it."""
        self.view(region)[...] = 0
        block = self.block(region)
        if region.size and region.is_dense and region.span == (self._lows[block], self._highs[block]):
            filled.discard(block)

    def snapshot(self, region: Region) -> np.ndarray:
        """What a region holds now: a copy, where it may change."""
        found = self.view(region)
        is_fixed = region.size and self.block(region) not in self._memory and region.is_dense
        return found if is_fixed else np.ascontiguousarray(found).reshape(region.shape).copy()

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
