"""Decides whether a block of threads works for each thread of a launch, and of how many: by the kernel's tiles."""

from __future__ import annotations

from dataclasses import dataclass

from jaxwarp.analysis.nests import Nests
from jaxwarp.codegen.cuda.blocks.barriers import barriers
from jaxwarp.codegen.cuda.blocks.places import Places, place_arrays
from jaxwarp.codegen.cuda.blocks.products import product_in
from jaxwarp.codegen.cuda.blocks.spread import WARP
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import PRINT, Atomic, Block, For, If, Load, Op, Store, Tell, While, walk
from jaxwarp.ir.rows import count_uses

# A tile of fewer elements is no work for a warp: one thread a block does 16,384 Cholesky factors of 16 x 16 in 122 us.
LEAST_ELEMENTS = 64
SHARED_BYTES = 48 * 1024  # that every block may have without asking for more
_SCRATCH_BYTES = 1024
# What all threads do alike takes a warp as long as the work on as many elements.
WORTH = 4
_MANY_TRIPS = 8  # of loops whose trips are not known
EACH = 32  # elements of a thread, at most where that can be
MOST_THREADS = 256
EACH_OF_PRODUCT = 64
# Blocks of a warp that take more shared memory leave a multiprocessor idle.
_SMALL_BYTES = 4 * 1024


@dataclass(frozen=True, eq=False)
class BlockPlan:
    """The way in which a block of threads does the work of one.

    Attributes:
        nests: the loops that threads share.
        places: where arrays lie.
        barriers: the operations before which threads wait for each other.
    """

    nests: Nests
    places: Places
    barriers: frozenset[Op]

    @property
    def threads(self) -> int:
        return self.places.threads


def plan_block(kernel: Kernel) -> BlockPlan | None:
    """Return the plan of a kernel whose tiles are worth a block of threads; None: one thread does it all."""
    ops = list(walk(kernel.body))
    if not has_tiles(kernel) or not _is_uniform(kernel, ops):
        return None
    nests = Nests(kernel)
    stored = {op.param for op in ops if isinstance(op, (Store, Atomic)) and op.param in kernel.params}
    # Threads that load what other blocks change may see different values, and part ways.
    if any(isinstance(op, Load) and op.param in stored and op not in nests.of for op in ops):
        return None
    largest = max((nest.count for nest in nests.found.values()), default=0)
    if largest < LEAST_ELEMENTS or not _is_worth_it(kernel, nests):
        return None
    places = place_arrays(kernel, nests, _threads(nests, largest))
    if places is not None and places.threads < 4 * WARP and places.shared_bytes > _SMALL_BYTES and not _products(nests):
        places = place_arrays(kernel, nests, 4 * WARP)
    if places is None or places.shared_bytes > SHARED_BYTES - _SCRATCH_BYTES:
        return None
    return BlockPlan(nests, places, barriers(kernel, nests, places))


def has_tiles(kernel: Kernel) -> bool:
    """Return whether a kernel goes over tiles."""
    return any(isinstance(op, For) and op.over_tile for op in walk(kernel.body))


def _is_uniform(kernel: Kernel, ops: list[Op]) -> bool:
    """Return whether all threads of a block would take the same way: nothing that one of them has done tells."""
    used = count_uses(kernel)
    for op in ops:
        if isinstance(op, Tell) and op.kind != PRINT:
            return False
        if isinstance(op, Atomic) and op.param in kernel.params and used[op.result]:
            return False
    return True


def _products(nests: Nests) -> list[int]:
    return [nest.count for nest in nests.found.values() if product_in(nest, nests) is not None]


def _threads(nests: Nests, largest: int) -> int:
    """Return the threads of a block. Only shapes decide: sums in an adjoint are to be those of the kernel."""
    products = _products(nests)
    each, most = (EACH_OF_PRODUCT, max(products)) if products else (EACH, largest)
    threads = WARP if most < 1024 or not products else 2 * WARP
    while threads < MOST_THREADS and threads * each < most:
        threads *= 2
    return threads


def _is_worth_it(kernel: Kernel, nests: Nests) -> bool:
    alone, shared = _work(kernel.body, nests)
    return shared >= WORTH * alone


def _work(block: Block, nests: Nests) -> tuple[int, int]:
    """Return how many operations all threads do alike, and how many they share."""
    alone = shared = 0
    for op in block.ops:
        if op in nests.found:
            assert isinstance(op, For)
            shared += _all_work(op, nests)
            continue
        alone += 1
        inner = [_work(b, nests) for b in op.blocks]
        if isinstance(op, If):
            alone, shared = alone + max(a for a, _ in inner), shared + max(s for _, s in inner)
        elif isinstance(op, (For, While)):
            trips = _trips(op, nests)
            alone, shared = alone + trips * sum(a for a, _ in inner), shared + trips * sum(s for _, s in inner)
    return alone, shared


def _all_work(op: Op, nests: Nests) -> int:
    inside = sum(_all_work(inner, nests) for block in op.blocks for inner in block.ops)
    return 1 + inside * (_trips(op, nests) if isinstance(op, (For, While)) else 1)


def _trips(op: For | While, nests: Nests) -> int:
    if isinstance(op, While):
        return _MANY_TRIPS
    start, stop, step = (nests.number(v) for v in (op.start, op.stop, op.step))
    return _MANY_TRIPS if start is None or stop is None or not step else len(range(start, stop, step))
