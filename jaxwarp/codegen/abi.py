"""A launch as a handler gets it: code, buffers, geometry, and how it may be cut. The one declaration on this side.

`LaunchAttributes` become those of the custom call; a handler decodes them to the `Plan` of native/launch.h. The
contract is docs/design/0002-launch-abi.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

# In an entry of the geometry, in place of a parameter: an extent of the grid; whether a call has the arrays that its
# launch may have copies of to itself (1 or 0, axis 0). `kGrid` and `kOwnCopies` of launch.h.
GRID, OWN_COPIES = -1, -2

# An axis of a parameter plus n times this is the product of its extent and those of the n axes behind it: `kMerged`.
MERGED = 1 << 16

# A CUDA thread steps past the end of the grid before it stops: that index must not wrap either.
_INDEX32_LIMIT = 2**30

Geometry = tuple[tuple[int, int], ...]
"""(parameter, axis or axis + n * MERGED), (GRID, grid axis) or (OWN_COPIES, 0) of each run-time integer of code."""

PACK_BYTES = 16
"""Of the widest access of CUDA code. Arrays of XLA begin at multiples of it."""

DEFAULT_BLOCK = 256
"""Threads of a CUDA block, where a launch does not say."""

SHARED_BYTES = 99 * 1024
"""Shared memory that a block may have on every GPU of compute capability 8.0 and later."""

STATIC_SHARED_BYTES = 48 * 1024
"""Shared memory that a block may have without asking the driver for more."""


@dataclass(frozen=True)
class CudaOptions:
    """The options that, besides the kernel, determine the CUDA code.

    Attributes:
        block: threads per block of launches.
        bounds: of `__launch_bounds__`: most threads of a block, least blocks of a multiprocessor; empty: `block`.
        max_registers: of a thread; None: as ptxas finds best.
        fast_math: NVRTC's `--use_fast_math`, but for contraction, which is the IR's.
        optimization_level: of ptxas, 0 to 3; None: its own.
        line_info: whether machine code says which of the user's lines it is of.
        grid_stride: whether there is a loop over threads, so that fewer blocks than it takes will do.
        is_tuned: `block` is for launches that were not measured (codegen/tuned.py).
        is_free: nobody said `block`; the registers of the code may tell a better one (codegen/cuda/occupancy.py).
        shared_bytes: the most shared memory that a block may have on the GPUs that the code is for.
    """

    block: int = DEFAULT_BLOCK
    bounds: tuple[int, ...] = ()
    max_registers: int | None = None
    fast_math: bool = False
    optimization_level: int | None = None
    line_info: bool = False
    grid_stride: bool = True
    is_tuned: bool = False
    is_free: bool = False
    shared_bytes: int = SHARED_BYTES

    @property
    def is_asked(self) -> bool:
        """Return whether somebody asks for blocks of so many threads."""
        return not (self.is_free or self.is_tuned or self.bounds) and self is not NO_CUDA_OPTIONS


NO_CUDA_OPTIONS = CudaOptions()


@dataclass(frozen=True)
class Cut:
    """The ways in which a CPU launch may be cut into pieces that run at the same time.

    Attributes:
        max_unsplit_threads: the most threads of a pool by which it is not cut.
        max_pieces_per_thread: for each thread of the pool.
        rows_per_piece: rows are cut at multiples of this: so many the code does at once where it can.
        copied: the numbers of the arrays that have atomics which only a call does without that runs the whole launch,
            if copies of the arrays would do.
    """

    max_unsplit_threads: int = 1
    max_pieces_per_thread: int = 16
    rows_per_piece: int = 1
    copied: tuple[int, ...] = ()


CUBIN, PTX = 1, 2


class Entry(NamedTuple):
    """One form of a CUDA kernel: `kind` is CUBIN or PTX, `arch` is 90 for sm_90."""

    kind: int
    arch: int
    code: bytes


class ArrayUse(NamedTuple):
    """The use of a parameter by code: the bytes of an element, whether it writes to it, and whether by atomics."""

    bytes: int
    is_written: bool
    is_updated: bool


@dataclass(frozen=True, eq=False)
class LaunchCode:
    """The code of a launch for one target, and how to launch it: numbers and bytes, which processes can share.

    Attributes:
        symbol: the function.
        geometry: the run-time integers that it gets, by the arrays of the launch.
        arrays: how it uses each parameter.
        grid, shapes: over which extents its threads run, and of which extents it takes its parameters.
        cleared: the outputs that have to hold zeros on entry.
        bitcode: on the CPU, the code for LLVM.
        entries: on GPUs, the code in its forms.
        cut: on the CPU, how launches may be cut.
        prices: on the CPU, the cost of a thread with the atomics that copies would spare it, and without; None if there
            are none.
        grain: on the CPU, half of the threads that are worth another core.
        block: on GPUs, threads per block.
        max_blocks: on GPUs, how many blocks a launch has at most.
        index_bits: the width of its run-time integers on GPUs.
        shared_bytes: on GPUs, the dynamic shared memory of a block.
    """

    symbol: str
    geometry: Geometry
    arrays: tuple[ArrayUse, ...]
    grid: tuple[Any, ...]
    shapes: tuple[tuple[Any, ...], ...]
    cleared: tuple[int, ...]
    bitcode: bytes = b""
    entries: tuple[Entry, ...] = ()
    cut: Cut = Cut()
    prices: tuple[float, float] | None = None
    grain: int = 1
    block: int = DEFAULT_BLOCK
    max_blocks: int = 1
    index_bits: int = 64
    shared_bytes: int = 0

    def integers(self, shapes: Sequence[Sequence[int]]) -> list[int]:
        """Return the run-time integers for arrays of these shapes, of which nobody has copies."""
        known = {GRID: self.grid, OWN_COPIES: (0,)}
        places = ((known[source] if source < 0 else shapes[source], axis) for source, axis in self.geometry)
        return [math.prod(extents[axis % MERGED :][: 1 + axis // MERGED]) for extents, axis in places]


def index_bits_of(grid: Sequence[Any], shapes: Sequence[Sequence[Any]]) -> int:
    """Return 32 if 32 bits are enough for every index of a launch, else 64.

    An extent that is not an integer is unknown; the result is then 64.
    """
    extents = (grid, *shapes)
    if not are_integers(*extents):
        return 64
    return 32 if max(math.prod(map(int, s)) for s in extents) < _INDEX32_LIMIT else 64


def are_integers(*extents: Iterable[Any]) -> bool:
    """Return whether extents are numbers, and not symbolic or unknown; each kind of them is asked once."""
    return all(issubclass(kind, (int, np.integer)) for kind in set(map(type, chain(*extents))))


# Fields whose attribute has another name: what exported programs have does not change.
_NAMES = {
    "max_unsplit_threads": "alone",
    "max_pieces_per_thread": "pieces",
    "rows_per_piece": "together",
    "max_blocks": "blocks",
}


@dataclass(frozen=True)
class LaunchAttributes:
    """The attributes that every launch has."""

    name: str
    symbol: str
    image: bytes
    buffers: Sequence[int]
    ranks: Sequence[int]
    grid: Sequence[int]
    grid_from: Sequence[int]
    geometry: Sequence[int]
    zero: Sequence[int]
    grain: int
    max_unsplit_threads: int
    max_pieces_per_thread: int
    rows_per_piece: int
    block: int
    max_blocks: int
    index_bits: int
    shared_bytes: int


@dataclass(frozen=True)
class CopiesAttributes:
    """The attributes of a launch that has memory for copies of arrays. `costs`: see `Plan::Copies` in launch.h."""

    copies: int
    scratch: int
    copied: Sequence[int]
    costs: tuple[int, int, int]


def attributes_of(declared: LaunchAttributes | CopiesAttributes) -> dict[str, Any]:
    """Return the attributes of the custom call, one for each field."""
    return {_NAMES.get(f.name, f.name): _encoded(getattr(declared, f.name)) for f in fields(declared)}


def _encoded(value: str | bytes | int | Sequence[int]) -> Any:
    """Convert a value to the form that JAX accepts for an attribute."""
    if isinstance(value, (str, bytes)):
        return value
    return np.int64(value) if isinstance(value, int) else np.array(value, np.int64)
