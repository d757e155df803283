"""Mappings: which thread of a block has which elements of a shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

WARP = 32


@dataclass(frozen=True)
class Mapping:
    """The elements of a shape, divided among the threads of a block.

    Attributes:
        shape: extents.
        threads: of a block.
        patch: rows and columns of elements that a thread has, for products, which read a row and a column for many
            elements; empty: threads take turns.
    """

    shape: tuple[int, ...]
    threads: int
    patch: tuple[int, int] = ()  # type: ignore[assignment]

    @property
    def count(self) -> int:
        """Return the number of elements that a thread has, at most."""
        if self.patch:
            return math.prod(self.patch)
        return -(-math.prod(self.shape) // self.threads)

    @property
    def is_even(self) -> bool:
        """Return whether all threads have as many."""
        return self.count * self.threads == math.prod(self.shape)

    def _columns(self) -> tuple[int, int]:
        """Return how many threads share the columns, and how many columns of a thread follow each other."""
        _, wide = self.patch
        return _lanes(self.threads)[1], 4 if wide % 4 == 0 else wide

    def indices(self, lane: str, turn: str, flat: str) -> list[str]:
        """Return texts of the indices of an element; `flat`: the name of its place in row-major order, if asked for."""
        if not self.patch:
            return split(self.shape, flat)
        across, near = self._columns()
        wide = self.patch[1]
        row = f"{lane} / {across} + {turn} / {wide} * {self.threads // across}"
        column = f"{lane} % {across} * {near} + {turn} % {near}"
        if wide > near:
            column += f" + {turn} % {wide} / {near} * {across * near}"
        return [row, column]

    def owner(self, at: Sequence[int]) -> tuple[int, int]:
        """Return which thread has an element, and as which of its own."""
        if not self.patch:
            flat = 0
            for extent, index in zip(self.shape, at, strict=True):
                flat = flat * extent + index
            return flat % self.threads, flat // self.threads
        across, near = self._columns()
        down, wide = self.threads // across, self.patch[1]
        row, column = at
        lane = row % down * across + column // near % across
        return lane, row // down * wide + column // (near * across) * near + column % near


def split(shape: Sequence[int], flat: str) -> list[str]:
    """Return texts of the indices of the element with this place in row-major order."""
    found: list[str] = []
    inner = 1
    for axis in range(len(shape) - 1, -1, -1):
        text = flat if inner == 1 else f"{flat} / {inner}"
        found.append(f"{text} % {shape[axis]}" if axis else text)
        inner *= shape[axis]
    return found[::-1]


def patched(shape: tuple[int, ...], threads: int) -> Mapping:
    """Return the mapping of the result of a product: each thread has a patch."""
    down, across = _lanes(threads)
    rows, columns = -(-shape[0] // down), -(-shape[1] // across)
    columns = -(-columns // 4) * 4 if columns > 2 else columns
    return Mapping(shape, threads, (rows, columns))


def _lanes(threads: int) -> tuple[int, int]:
    """Return how many threads share the rows and the columns."""
    across = 1
    while across * across < threads:
        across *= 2
    return threads // across, across
