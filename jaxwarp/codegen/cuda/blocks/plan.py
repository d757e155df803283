"""Decides whether a block of threads works for each thread of a launch, and of how many: by the kernel's tiles."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jaxwarp.analysis.loops.nests import MANY_TRIPS, Nest, Nests
from jaxwarp.codegen.abi import SHARED_BYTES, STATIC_SHARED_BYTES
from jaxwarp.codegen.cuda.blocks.barriers import barriers
from jaxwarp.codegen.cuda.blocks.forwards import forwards
from jaxwarp.codegen.cuda.blocks.matrices import matrix_product
from jaxwarp.codegen.cuda.blocks.parted import parted
from jaxwarp.codegen.cuda.blocks.pipelines import MOST_STAGES, Pipeline, pipelines_in
from jaxwarp.codegen.cuda.blocks.places import Places, place_arrays
from jaxwarp.codegen.cuda.blocks.products import product_in
from jaxwarp.codegen.cuda.blocks.spread import WARP, Fragments
from jaxwarp.errors import Loc, PerformanceWarning
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import PRINT, Block, For, If, Op, Param, Store, Tell, While, walk

# A tile of fewer elements is no work for a warp: one thread a block does 16,384 Cholesky factors of 16 x 16 in 122 us.
LEAST_ELEMENTS = 64
_SCRATCH_BYTES = 1024  # of shared memory, for what warps exchange
_STATIC_BYTES = STATIC_SHARED_BYTES - _SCRATCH_BYTES
# What all threads do alike takes a warp as long as the work on as many elements.
WORTH = 4
# Operations that take a warp as long as a barrier, or as what it exchanges for a sum; not measured on a device.
_WAIT = 8
# Of a loop whose bounds move, like that over the rest of a column: a warp has too little to do. Not measured, either.
LEAST_OF_REST = 24
EACH = 32  # elements of a thread, at most where that can be
_USUAL_THREADS = 256
MOST_THREADS = 512  # of blocks with so much shared memory that a multiprocessor has few of them
EACH_OF_PRODUCT = 64
EACH_OF_FRAGMENTS = 32  # of a product that tensor cores have
# Patches of sums take 128 registers of the 65,536 that a multiprocessor has.
_THREADS_OF_PATCHES = 512
# Blocks of a warp that take more shared memory leave a multiprocessor idle.
_SMALL_BYTES = 4 * 1024
_NAMED = 8  # tiles, in a warning
_warned: dict[Any, Any] = {}  # as Python has in every module: what was said of which line


@dataclass(frozen=True, eq=False)
class BlockPlan:
    """The way in which a block of threads does the work of one.

    Attributes:
        kernel: what it is a plan of: the kernel, with nests that count up.
        nests: the loops that threads share.
        places: where arrays lie.
        barriers: the operations before which threads wait for each other.
        pipelines: the loops of which a part runs ahead.
    """

    kernel: Kernel
    nests: Nests
    places: Places
    barriers: frozenset[Op]
    pipelines: Mapping[For, Pipeline]

    @property
    def threads(self) -> int:
        return self.places.threads

    @property
    def dynamic_bytes(self) -> int:
        """Return the shared memory that the launch gives; 0: the code has all that it needs."""
        needed = self.places.shared_bytes
        return needed if needed > _STATIC_BYTES else 0

    @property
    def bounds(self) -> tuple[int, ...]:
        """Return the threads of a block, and how many blocks a multiprocessor should have room for, if that is said."""
        in_patches = [n for n in self.places.matrices if not isinstance(self.places.mapping(n), Fragments)]
        return (self.threads, _THREADS_OF_PATCHES // self.threads) if in_patches else (self.threads,)


def plan_block(kernel: Kernel, shared_bytes: int = SHARED_BYTES) -> BlockPlan | None:
    """Return the plan of a kernel whose tiles are worth a block of threads; None: one thread does it all.

    Args:
        kernel: what the blocks do.
        shared_bytes: the most shared memory that a block may have. If the tiles take more, there is a warning.
    """
    if not has_tiles(kernel):
        return None
    kernel = parted(kernel, Nests(kernel))
    kernel = forwards(kernel, Nests(kernel))
    if any(isinstance(op, Tell) and op.kind != PRINT for op in walk(kernel.body)):
        return None  # threads that fail would leave the others at a barrier
    nests = Nests(kernel)
    largest = max((nest.most for nest in nests.found.values()), default=0)
    if largest < LEAST_ELEMENTS:
        return None
    work = _Work(kernel, nests)
    busiest = max(work.of, key=lambda nest: work.of[nest])
    if busiest.is_open and busiest.most < LEAST_OF_REST:
        return None
    places = place_arrays(kernel, nests, _threads(nests, largest, busiest))
    if places is not None and places.shared_bytes > _SMALL_BYTES and not _products(nests):
        more = _at_most(4 * WARP, busiest)
        if places.shared_bytes > _STATIC_BYTES and largest > _USUAL_THREADS * EACH:
            more = MOST_THREADS
        places = place_arrays(kernel, nests, more) if places.threads < more else places
    if places is None:
        return None
    pipelines = _pipelines(kernel, nests, places)
    waits = barriers(kernel, nests, places, pipelines)
    if sum(work.of.values()) < WORTH * work.alone(waits):
        return None
    if places.shared_bytes > shared_bytes - _SCRATCH_BYTES:
        _warn(kernel, places, shared_bytes - _SCRATCH_BYTES)
        return None
    return BlockPlan(kernel, nests, places, waits, pipelines)


def _pipelines(kernel: Kernel, nests: Nests, places: Places) -> dict[For, Pipeline]:
    """Give the tiles of loops that run ahead as many stages as there is room for; fewer than two: none runs ahead."""
    found = pipelines_in(kernel, nests, places)
    tiles = [places.layouts[p] for pipeline in found.values() for p in pipeline.tiles]
    for stages in range(MOST_STAGES, 1, -1):
        for layout in tiles:
            layout.stages = stages
        if places.shared_bytes <= _STATIC_BYTES:  # more of it for fewer blocks at a time: not measured
            return found
    for layout in tiles:
        layout.stages = 1
    return {}


def _warn(kernel: Kernel, places: Places, room: int) -> None:
    """Warn that one thread works on tiles that shared memory has no room for, once for each line."""
    lines: dict[Param, Loc | None] = {}
    for op in walk(kernel.body):
        if isinstance(op, Store) and op.loc is not None:
            lines.setdefault(op.param, op.loc)
    largest = sorted(places.shared, key=places.bytes_of, reverse=True)
    named = [f"{places.bytes_of(p)} bytes of {p.name}{_at_line(lines.get(p))}" for p in largest[:_NAMED]]
    more = f", and {len(largest) - _NAMED} smaller ones" if len(largest) > _NAMED else ""
    loc = next((lines[p] for p in largest if p in lines), None)
    warnings.warn_explicit(
        f"kernel {kernel.name}: one CUDA thread does the work of a block, which is slow: its tiles need"
        f" {places.shared_bytes} bytes of shared memory, and there is room for {room} on the GPUs that this code is"
        f" for: {', '.join(named)}{more}. Smaller tiles, or fewer of them, let a block of threads share the work",
        PerformanceWarning,
        loc.file if loc else kernel.name,
        loc.line if loc else 1,
        registry=_warned,
    )


def _at_line(loc: Loc | None) -> str:
    return f" (line {loc.line})" if loc else ""


def has_tiles(kernel: Kernel) -> bool:
    """Return whether a kernel goes over tiles."""
    return any(isinstance(op, For) and op.over_tile for op in walk(kernel.body))


def _products(nests: Nests) -> list[int]:
    return [nest.most for nest in nests.found.values() if product_in(nest, nests) is not None]


def _threads(nests: Nests, largest: int, busiest: Nest) -> int:
    """Return the threads of a block. Only shapes decide: sums in an adjoint are to be those of the kernel."""
    products = _products(nests)
    each, most = (EACH_OF_PRODUCT, max(products)) if products else (EACH, largest)
    matrices = [matrix_product(nest, nests) for nest in nests.found.values()]
    if any(found is not None and found.tall for found in matrices):
        each = EACH_OF_FRAGMENTS
    threads = WARP if most < 1024 or not products else 2 * WARP
    while threads < _USUAL_THREADS and threads * each < most:
        threads *= 2
    return _at_most(threads, busiest)


def _at_most(threads: int, busiest: Nest) -> int:
    """Return how many of these threads have something to do where the most is done."""
    while threads > WARP and threads // 2 >= busiest.most:
        threads //= 2
    return threads


class _Work:
    """Counts operations: those that all threads do alike, and those that they share.

    Attributes:
        of: what is shared, by nests.
    """

    def __init__(self, kernel: Kernel, nests: Nests):
        self._nests = nests
        self.of: dict[Nest, int] = {}
        self._body = kernel.body
        self._shared(kernel.body, 1)

    def _shared(self, block: Block, times: int) -> None:
        for op in block.ops:
            if op in self._nests.found:
                assert isinstance(op, For)
                nest = self._nests.found[op]
                self.of[nest] = self.of.get(nest, 0) + times * self._all(op)
                continue
            for inner in op.blocks:
                self._shared(inner, times * self._trips(op))

    def alone(self, waits: frozenset[Op]) -> int:
        """Return what all threads do alike, with what they wait for."""
        return self._alone(self._body, waits)

    def _alone(self, block: Block, waits: frozenset[Op]) -> int:
        count = 0
        for op in block.ops:
            count += _WAIT * (op in waits)
            if isinstance(op, For) and op in self._nests.found:
                count += _WAIT * (self._nests.found[op].fold is not None)
                continue
            inner = [self._alone(b, waits) for b in op.blocks]
            count += 1 + (max(inner) if isinstance(op, If) else self._trips(op) * sum(inner))
        return count

    def _all(self, op: Op) -> int:
        return 1 + sum(self._all(inner) for block in op.blocks for inner in block.ops) * self._trips(op)

    def _trips(self, op: Op) -> int:
        return self._nests.trips(op) if isinstance(op, For) else MANY_TRIPS if isinstance(op, While) else 1
