"""Decides whether a block of threads works for each thread of a launch, and of how many: by the kernel's tiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jaxwarp.analysis.loops.nests import MANY_TRIPS, Nest, Nests
from jaxwarp.codegen.cuda.blocks.barriers import barriers
from jaxwarp.codegen.cuda.blocks.forwards import forwards
from jaxwarp.codegen.cuda.blocks.matrices import matrix_product
from jaxwarp.codegen.cuda.blocks.parted import parted
from jaxwarp.codegen.cuda.blocks.pipelines import MOST_STAGES, Pipeline, pipelines_in
from jaxwarp.codegen.cuda.blocks.places import Places, place_arrays
from jaxwarp.codegen.cuda.blocks.products import product_in
from jaxwarp.codegen.cuda.blocks.spread import WARP, Fragments
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import PRINT, Block, For, If, Op, Tell, While, walk

# A tile of fewer elements is no work for a warp: one thread a block does 16,384 Cholesky factors of 16 x 16 in 122 us.
LEAST_ELEMENTS = 64
SHARED_BYTES = 48 * 1024  # that every block may have without asking for more
_SCRATCH_BYTES = 1024
# What all threads do alike takes a warp as long as the work on as many elements.
WORTH = 4
# Operations that take a warp as long as a barrier, or as what it exchanges for a sum; not measured on a device.
_WAIT = 8
# Of a loop whose bounds move, like that over the rest of a column: a warp has too little to do. Not measured, either.
LEAST_OF_REST = 24
EACH = 32  # elements of a thread, at most where that can be
MOST_THREADS = 256
EACH_OF_PRODUCT = 64
EACH_OF_FRAGMENTS = 32  # of a product that tensor cores have
# Patches of sums take 128 registers of the 65,536 that a multiprocessor has.
_THREADS_OF_PATCHES = 512
# Blocks of a warp that take more shared memory leave a multiprocessor idle.
_SMALL_BYTES = 4 * 1024


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
    def bounds(self) -> tuple[int, ...]:
        """Return the threads of a block, and how many blocks a multiprocessor should have room for, if that is said."""
        in_patches = [n for n in self.places.matrices if not isinstance(self.places.mapping(n), Fragments)]
        return (self.threads, _THREADS_OF_PATCHES // self.threads) if in_patches else (self.threads,)


def plan_block(kernel: Kernel) -> BlockPlan | None:
    """Return the plan of a kernel whose tiles are worth a block of threads; None: one thread does it all."""
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
        places = place_arrays(kernel, nests, more) if places.threads < more else places
    if places is None or places.shared_bytes > SHARED_BYTES - _SCRATCH_BYTES:
        return None
    pipelines = _pipelines(kernel, nests, places)
    waits = barriers(kernel, nests, places, pipelines)
    if sum(work.of.values()) < WORTH * work.alone(waits):
        return None
    return BlockPlan(kernel, nests, places, waits, pipelines)


def _pipelines(kernel: Kernel, nests: Nests, places: Places) -> dict[For, Pipeline]:
    """Give the tiles of loops that run ahead as many stages as there is room for; fewer than two: none runs ahead."""
    found = pipelines_in(kernel, nests, places)
    tiles = [places.layouts[p] for pipeline in found.values() for p in pipeline.tiles]
    for stages in range(MOST_STAGES, 1, -1):
        for layout in tiles:
            layout.stages = stages
        if places.shared_bytes <= SHARED_BYTES - _SCRATCH_BYTES:
            return found
    for layout in tiles:
        layout.stages = 1
    return {}


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
    while threads < MOST_THREADS and threads * each < most:
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
