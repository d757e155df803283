"""A kernel of the IR: what passes and derivatives map to another one."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from jaxwarp.errors import Loc
from jaxwarp.ir.nodes import Block, Param, walk
from jaxwarp.ir.printer import printed
from jaxwarp.unlocked import cached_property

# Part of every digest: raise it when the meaning of a printed kernel changes.
IR_VERSION = 1


@dataclass(frozen=True, eq=False)
class SizeUse:
    """A place where a kernel multiplies extents of a parameter to get its size."""

    param: Param
    axes: tuple[int, ...]
    loc: Loc | None


@dataclass(frozen=True, eq=False)
class TileUse:
    """The place where a kernel loads or stores a tile of several elements of a parameter.

    Attributes:
        moves: a thread has another part of the array than its neighbour along an axis on which the tile has several
            elements, so that threads are blocks of elements.
    """

    param: Param
    shape: tuple[int, ...]
    stores: bool
    moves: bool
    loc: Loc | None


@dataclass(frozen=True, eq=False)
class LaneUse:
    """The place where a kernel names the threads of a block that work on a tile.

    Attributes:
        what: the call, or the index of `tid()`.
        axis: of an index, which one it is: a lane only if the launch adds this axis to its blocks.
    """

    what: str
    loc: Loc | None
    axis: int | None = None


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel: a value. Its identity in caches is `digest`."""

    name: str
    grid_rank: int
    params: tuple[Param, ...]
    body: Block
    # Arrays that every thread has for itself. What they hold before the first store is not defined.
    locals: tuple[Param, ...] = ()
    # What is to be checked before a launch, in the kernel that the frontend makes; no part of what it computes.
    sizes: tuple[SizeUse, ...] = ()
    # What decides about launches whose dimensions nobody gives, likewise.
    tiles: tuple[TileUse, ...] = ()
    # What another number of threads of a block would change, likewise.
    lanes: tuple[LaneUse, ...] = ()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the text with values numbered in order of definition: equal for kernels that print equally."""
        text = f"ir {IR_VERSION}\n{self._text(named=False)}"
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def digest_of_places(self) -> str:
        """SHA-256 of the lines of all operations: of each place, and each call on the way to it, once."""
        seen: dict[int, int] = {}
        numbers: dict[tuple[Any, ...], int] = {}  # by content, since equal places may be several objects

        def number(loc: Loc | None) -> int:
            if loc is None:
                return -1
            if id(loc) not in seen:
                caller = number(loc.inlined_at)
                key = loc.file, loc.line, loc.column, loc.end_line, loc.end_column, loc.function, caller
                seen[id(loc)] = numbers.setdefault(key, len(numbers))
            return seen[id(loc)]

        places = [number(op.loc) for op in walk(self.body)]
        return hashlib.sha256(repr((places, list(numbers))).encode()).hexdigest()

    def __str__(self) -> str:
        return self._text(named=True)

    def _text(self, named: bool) -> str:
        return printed(self.name, self.grid_rank, self.params, self.locals, self.body, named=named)
