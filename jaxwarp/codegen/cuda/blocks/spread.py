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
        in_rows: without patches, whether a thread has elements that follow each other.
        near: how many columns of a patch follow each other; 0: as many as one access of memory takes.
    """

    shape: tuple[int, ...]
    threads: int
    patch: tuple[int, int] = ()  # pyright: ignore
    near: int = 0
    in_rows: bool = False

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

    @property
    def covered(self) -> tuple[int, int]:
        """Return the rows and columns that all patches have together, of which some may be outside of the shape."""
        down, across = lanes(self.threads)
        return self.patch[0] * down, self.patch[1] * across

    def _columns(self) -> tuple[int, int]:
        """Return how many threads share the columns, and how many columns of a thread follow each other."""
        return lanes(self.threads)[1], self.columns_together

    @property
    def columns_together(self) -> int:
        return self.near or (4 if self.patch[1] % 4 == 0 else self.patch[1])

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
            count = self.count
            return (flat // count, flat % count) if self.in_rows else (flat % self.threads, flat // self.threads)
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


def patched(shape: tuple[int, ...], threads: int, near: int = 0) -> Mapping:
    """Return the mapping of the result of a product: each thread has a patch."""
    down, across = lanes(threads)
    rows, columns = -(-shape[0] // down), -(-shape[1] // across)
    columns = -(-columns // 4) * 4 if columns > 2 else columns
    return Mapping(shape, threads, (rows, columns), near)


def lanes(threads: int) -> tuple[int, int]:
    """Return how many threads share the rows and the columns."""
    across = 1
    while across * across < threads:
        across *= 2
    return threads // across, across


@dataclass(frozen=True)
class Fragments(Mapping):
    """The results of tensor cores: fragments of `tall` rows and 8 columns, each one spread over the lanes of a warp.

    Attributes:
        warps: how many of them share the rows, and the columns. Each has fragments next to each other.
        tall: 16, or 8 for float64. A lane has two elements side by side, and with 16 rows two more, 8 rows below.
    """

    warps: tuple[int, int] = (1, 1)
    tall: int = 16

    @property
    def grid(self) -> tuple[int, int]:
        """Return the rows and columns of fragments that a warp has."""
        return self.patch[0] * 8 // self.tall, self.patch[1] // 2

    @property
    def covered(self) -> tuple[int, int]:
        down, across = self.grid
        return self.warps[0] * down * self.tall, self.warps[1] * across * 8

    @property
    def each(self) -> int:
        """Return the elements that a lane has of a fragment."""
        return self.tall // 4

    def corner(self, lane: str) -> tuple[str, str]:
        """Return texts of the first row and column that a warp has."""
        down, across = self.grid
        row = f"{lane} / {WARP * self.warps[1]} * {down * self.tall}" if self.warps[0] > 1 else "0"
        column = f"{lane} / {WARP} % {self.warps[1]} * {across * 8}" if self.warps[1] > 1 else "0"
        return row, column

    def indices(self, lane: str, turn: str, flat: str) -> list[str]:  # noqa: ARG002
        across, each = self.grid[1], self.each
        row, column = self.corner(lane)
        row += f" + {turn} / {each * across} * {self.tall} + {lane} % {WARP} / 4"
        column += f" + {turn} / {each} % {across} * 8 + {lane} % 4 * 2 + {turn} % 2"
        return [row + (f" + {turn} % 4 / 2 * 8" if each == 4 else ""), column]

    def owner(self, at: Sequence[int]) -> tuple[int, int]:
        (row, column), (down, across) = at, self.grid
        warp = row // (down * self.tall) * self.warps[1] + column // (across * 8)
        row, column = row % (down * self.tall), column % (across * 8)
        fragment = row // self.tall * across + column // 8
        lane = warp * WARP + row % 8 * 4 + column % 8 // 2
        return lane, fragment * self.each + row % self.tall // 8 * 2 + column % 2


def in_fragments(shape: tuple[int, ...], threads: int, tall: int) -> Fragments:
    """Return the mapping of a result of tensor cores with the fewest fragments for a warp, and those nearly square."""
    warps = threads // WARP
    choices: list[tuple[int, int, int, int, int]] = []
    for down in (n for n in range(1, warps + 1) if warps % n == 0):
        rows = -(-shape[0] // (tall * down))
        columns = -(-shape[1] // (8 * (warps // down)))
        choices.append((rows * columns, rows * tall + columns * 8, down, rows, columns))
    _, _, down, rows, columns = min(choices)
    patch = (rows * tall // 8, columns * 2)
    return Fragments(shape, threads, patch, warps=(down, warps // down), tall=tall)
