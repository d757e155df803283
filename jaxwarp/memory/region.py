"""A piece of memory with a shape: what an array stands for while a Python function runs on XLA's buffers."""

from __future__ import annotations

import bisect
import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxwarp.conversions import require_unmasked
from jaxwarp.errors import KernelTypeError
from jaxwarp.unlocked import address_of, cached_property


@dataclass(frozen=True, init=False)
class Region:
    """Elements at `address`, those of an axis `strides` bytes apart. Component axes are axes like others.

    Attributes:
        owner: keeps memory of Python's alive; None where the memory is somebody else's.
    """

    address: int
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    owner: Any = None

    def __init__(
        self, address: int, dtype: np.dtype, shape: tuple[int, ...], strides: tuple[int, ...], owner: Any = None
    ):
        # In one step: a frozen class sets each attribute by a call.
        self.__dict__.update(address=address, dtype=dtype, shape=shape, strides=strides, owner=owner)

    @cached_property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @cached_property
    def is_dense(self) -> bool:
        """True if the region is row-major without gaps, or has no elements."""
        if self.size == 0:
            return True
        dense = dense_strides(self.shape, self.dtype.itemsize)
        return all(n == 1 or s == d for n, s, d in zip(self.shape, self.strides, dense, strict=True))

    @cached_property
    def is_plain(self) -> bool:
        """True if native code can use the region as it is: it is dense and aligned."""
        return self.is_dense and not self.address % self.dtype.alignment

    @cached_property
    def span(self) -> tuple[int, int]:
        """The addresses of its first byte and of the one after its last."""
        if self.is_dense:
            return self.address, self.address + self.nbytes
        reach = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        low, high = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
        return self.address + low, self.address + high + self.dtype.itemsize

    @cached_property
    def repeats(self) -> bool:
        """True if two elements may share a byte, as in a result of `broadcast_to`. Interleaved rows count as sharing
        bytes."""
        if self.is_dense:
            return False
        reach = self.dtype.itemsize
        for stride, extent in sorted((abs(s), n) for n, s in zip(self.shape, self.strides, strict=True) if n > 1):
            if stride < reach:
                return True
            reach += stride * (extent - 1)
        return False

    def overlaps(self, other: Region) -> bool:
        """Return whether the two regions share a byte. Return True also for regions that interleave in so many axes
        that an exact check would take too long."""
        (low, high), (other_low, other_high) = self.span, other.span
        if not (low < other_high and other_low < high and self.size and other.size):
            return False
        if self.is_dense and other.is_dense:
            return True
        try:
            places = np.asarray(_Places(self)), np.asarray(_Places(other))
            return np.shares_memory(*places, max_work=_MOST_WORK)  # pyright: ignore[reportArgumentType]
        except np.exceptions.TooHardError:
            return True

    def part(self, index: Sequence[Any]) -> Region:
        """The elements at integers and slices of the leading axes; they are in range."""
        address, shape, strides = self.address, [], []
        for place, extent, stride in zip(index, self.shape, self.strides, strict=False):
            if isinstance(place, slice):
                start, stop, step = place.indices(extent)
                count = len(range(start, stop, step))
                address += start * stride if count else 0
                shape.append(count)
                strides.append(step * stride)
            else:
                address += (place.__index__() % extent) * stride
        rest = slice(len(index), None)
        return Region(address, self.dtype, (*shape, *self.shape[rest]), (*strides, *self.strides[rest]), self.owner)

    def moved(self, address: int, owner: Any) -> Region:
        """Return the region of the same layout at another address."""
        made = object.__new__(Region)  # in half the time; and what is the same is not found again
        vars(made).update(
            address=address,
            dtype=self.dtype,
            shape=self.shape,
            strides=self.strides,
            owner=owner,
            size=self.size,
            is_dense=self.is_dense,
        )
        return made

    @cached_property
    def leaves(self) -> tuple[Region, ...]:
        """The arrays of numbers that make up an array of records; the region itself if it holds no records."""
        names = self.dtype.names
        return (self,) if names is None else tuple(leaf for name in names for leaf in self.field(name).leaves)

    def field(self, name: str) -> Region:
        """Return the array of one field of an array of records."""
        fields: Any = self.dtype.fields
        found, offset = fields[name][:2]
        dtype, inner = found.subdtype or (found, ())
        strides = (*self.strides, *dense_strides(inner, dtype.itemsize))
        return Region(self.address + offset, dtype, (*self.shape, *inner), strides, self.owner)

    @cached_property
    def here(self) -> np.ndarray:
        """The memory of the host itself, as an array that users never see."""
        return self.view(bytes_of(self))

    def view(self, memory: Any) -> np.ndarray:
        """A NumPy array of it; `memory` is a buffer of the bytes of `span`."""
        if self.size == 0:
            return np.empty(self.shape, self.dtype)
        offset = self.address - self.span[0]
        return np.ndarray(self.shape, self.dtype, buffer=memory, offset=offset, strides=self.strides)


class Spans:
    """The memory that some regions span: intervals of addresses that are apart, in order."""

    def __init__(self) -> None:
        self._lows: list[int] = []
        self._highs: list[int] = []

    def add(self, region: Region) -> None:
        """Add the span of `region`."""
        low, high = region.span
        first, last = bisect.bisect_left(self._highs, low), bisect.bisect_right(self._lows, high)
        if first < last:  # it joins these
            low, high = min(low, self._lows[first]), max(high, self._highs[last - 1])
        if low < high:
            self._lows[first:last], self._highs[first:last] = [low], [high]

    def overlap(self, region: Region) -> bool:
        """Return whether `region` may share a byte with one of the spans; see `Region.overlaps`."""
        return self.meets(*region.span)

    def meets(self, low: int, high: int) -> bool:
        """Tell whether one of the bytes from an address to before another may be one of them."""
        before = bisect.bisect_left(self._lows, high)
        return before > 0 and low < self._highs[before - 1]


# Solving for a common byte takes time that grows with the number of axes; two parts of a matrix take some ten steps.
_MOST_WORK = 10_000


class _Places:
    """A region as NumPy sees it, for questions about addresses: the memory is not touched, and may be a GPU's."""

    def __init__(self, region: Region):
        self.__array_interface__ = {
            "data": (region.address, False),
            "shape": region.shape,
            "strides": region.strides,
            "typestr": f"|V{region.dtype.itemsize}",
            "version": 3,
        }


def dense_strides(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Strides of a row-major array."""
    strides: list[int] = []
    for extent in reversed(shape):
        strides.append(itemsize)
        itemsize *= extent
    return tuple(reversed(strides))


def dense_region(address: int, dtype: np.dtype, shape: Sequence[int], owner: Any = None) -> Region:
    """A row-major array at `address`."""
    made = Region(address, dtype, tuple(shape), dense_strides(shape, dtype.itemsize), owner)
    size = math.prod(shape)
    made.__dict__.update(is_dense=True, size=size, span=(address, address + size * dtype.itemsize))  # found once
    return made


def array_region(array: np.ndarray) -> Region:
    """Return the region of a NumPy array."""
    require_unmasked(array)
    return Region(address_of(array), array.dtype, array.shape, array.strides, array)


def leaves_of(values: np.ndarray) -> list[np.ndarray]:
    """Return the arrays of numbers that make up an array of records, as views. Return the array itself if it holds no
    records."""
    if values.dtype.names is None:
        return [values]
    return [leaf for name in values.dtype.names for leaf in leaves_of(values[name])]


def bytes_of(region: Region) -> Any:
    """The bytes of a region's span, which keep its owner.

    Raises:
        KernelTypeError: they are in the memory of a GPU.
    """
    scope = getattr(region.owner, "scope", None)
    if scope is not None:
        raise KernelTypeError(
            f"an array of {region.dtype} of shape {region.shape} is in the memory of cuda:{scope.device_ordinal}, and"
            " is used here by the host",
            hint='pass a copy of it: array.to("cpu")',
        )
    low, high = region.span
    memory: Any = (ctypes.c_char * (high - low)).from_address(low)
    memory.owner = region.owner
    return memory
