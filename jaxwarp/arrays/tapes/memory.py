"""Memory as the way back of a tape uses it: that of the host here, that of a GPU in `gpu/memory.py`."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from jaxwarp.launches.code import CodeKey
from jaxwarp.launches.on_memory import loaded_on
from jaxwarp.memory.host_scope import HOST, contents_of, scope_of, set_contents
from jaxwarp.memory.region import Region, array_region
from jaxwarp.memory.scope import Scope, view_of

_FEW_BYTES = 1024


class Memory(ABC):
    """One kind of memory, in which launches are reversed. All regions are of it, unless a method says otherwise.

    Attributes:
        scope: whose memory it is.
    """

    scope: Any

    @abstractmethod
    def new(self, dtype: np.dtype, shape: Sequence[int]) -> Region:
        """Return new memory, which may hold anything."""

    @abstractmethod
    def plain(self, region: Region) -> Region:
        """Return a region, which may be of other memory, as code takes it: itself, or else a dense copy."""

    @abstractmethod
    def operand(self, value: np.ndarray, is_array: bool) -> Region:
        """Return memory that holds a value of the host, for launches that only read it."""

    @abstractmethod
    def copy(self, target: Region, source: Region) -> None:
        """Copy between regions of one shape and type, which may overlap."""

    @abstractmethod
    def set(self, target: Region, values: np.ndarray) -> None:
        """Give a region numbers of the host, which fit its last axes."""

    @abstractmethod
    def clear(self, target: Region) -> None:
        """Set a region to zero."""

    @abstractmethod
    def add(self, target: Region, source: Region, flag: Region | None = None) -> None:
        """Add a dense region to another one, which may have gaps and, on the host, be of other memory. A `flag` that is
        zero prevents it."""

    @abstractmethod
    def convert(self, target: Region, source: Region) -> None:
        """Convert the numbers of a dense region to the type of another one."""

    @abstractmethod
    def nonzero(self, regions: Sequence[Region]) -> list[bool]:
        """Return, for each region, whether it holds a number other than zero."""

    @abstractmethod
    def launcher(self, key: CodeKey) -> Callable[[Sequence[Region]], None]:
        """Return the function that runs a launch on plain regions."""

    def has(self, region: Region) -> bool:
        """Return whether a region is of this memory."""
        return scope_of(region) is self.scope

    def entered(self) -> AbstractContextManager[Any]:
        """Return a context for many operations, in which each takes less."""
        return nullcontext()

    def copied(self, region: Region) -> Region:
        """Return a dense copy."""
        made = self.new(region.dtype, region.shape)
        self.copy(made, region)
        return made

    def bring(self, target: Region, source: Region) -> None:
        """Copy between regions of one shape and type, of whatever memory; no tape is told."""
        if self.has(target) and self.has(source):
            self.copy(target, source)
        else:
            scope_of(target).bring(target, source)


class HostMemory(Memory):
    """The memory of the host. What is elsewhere is copied for each use."""

    scope = HOST

    def has(self, region: Region) -> bool:
        return getattr(region.owner, "scope", None) is None

    def new(self, dtype: np.dtype, shape: Sequence[int]) -> Region:
        return array_region(np.empty(tuple(shape), dtype))

    def plain(self, region: Region) -> Region:
        return region if region.is_plain and self.has(region) else array_region(contents_of(region))

    def operand(self, value: np.ndarray, is_array: bool) -> Region:
        del is_array
        return array_region(value)

    def copy(self, target: Region, source: Region) -> None:
        if target.is_plain and source.is_plain:
            ctypes.memmove(target.address, source.address, target.nbytes)
        else:
            Scope.copy(HOST, target, source)

    def set(self, target: Region, values: np.ndarray) -> None:
        view_of(target)[...] = values

    def clear(self, target: Region) -> None:
        if not self.has(target):
            set_contents(target, np.zeros(target.shape, target.dtype))
        elif target.is_dense:
            ctypes.memset(target.address, 0, target.nbytes)
        else:
            view_of(target).fill(0)

    def add(self, target: Region, source: Region, flag: Region | None = None) -> None:
        assert flag is None, "the host asks itself"
        numbers = view_of(source)
        with np.errstate(all="ignore"):  # as in programs of XLA's
            if self.has(target):
                view = view_of(target)
                np.add(view, numbers, view)
            else:
                set_contents(target, contents_of(target) + numbers)

    def convert(self, target: Region, source: Region) -> None:
        with np.errstate(all="ignore"):
            np.copyto(view_of(target), view_of(source), casting="unsafe")

    def nonzero(self, regions: Sequence[Region]) -> list[bool]:
        return [bool(contents_of(r).any()) if not self.has(r) else not _is_zero(r) for r in regions]

    def launcher(self, key: CodeKey) -> Callable[[Sequence[Region]], None]:
        code = loaded_on(HOST, key)

        def launch(regions: Sequence[Region]) -> None:
            for k in code.cleared:
                self.clear(regions[k])
            code.run([region.address for region in regions])

        return launch


def _is_zero(region: Region) -> bool:
    """Return whether all numbers of a region are zero. Comparing bits takes a quarter of the time, and of few numbers
    bytes a fifth."""
    size = region.nbytes
    kind: Any = region.dtype.char
    if size <= _FEW_BYTES and region.is_dense and kind in "fd":
        found = ctypes.string_at(region.address, size)
        return found == bytes(size) or not any(memoryview(found).cast(kind))
    numbers = region.here
    bits = numbers.reshape(-1).view(f"u{numbers.itemsize}") if numbers.size and region.is_dense else None
    return (bits is not None and not bits.max()) or not numbers.any()


HOST_MEMORY = HostMemory()
