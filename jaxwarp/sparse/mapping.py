"""`BsrTripletMap`: which block each triplet went to, to fill a matrix again with other values."""

# pyright: reportInvalidTypeForm=false

import functools
from typing import Any

import jaxwarp as wp
from jaxwarp.boundary import boundaries, boundary
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.sparse.blocks_of_triplets import Blocks, summed
from jaxwarp.sparse.faces import require_extent
from jaxwarp.sparse.matrix import (
    apart,
    as_blocks,
    as_scalars,
    places_of,
    require_matrix,
    require_outside,
    require_same_device,
)


@boundaries
class BsrTripletMap:
    """A map from the triplets of a matrix to its blocks: `bsr_set_from_triplets(..., build_mapping=True)` makes one.

    Attributes:
        triplet_count: how many triplets it was built for.
    """

    def __init__(self, capacity: int = 0, device: Any = None):
        """A map that is still to be built.

        Args:
            capacity: for how many triplets there is room; there is more when it is needed.
            device: where it is.
        """
        self.triplet_count = 0
        self._topology: tuple[Any, ...] | None = None
        self._reserve(require_extent("BsrTripletMap", "capacity", capacity), device)

    def _reserve(self, capacity: int, device: Any) -> None:
        self._storage = [wp.zeros(capacity, dtype=int, device=device) for _ in range(3)]

    @property
    def device(self) -> Any:
        """The device that the map is on."""
        return self._storage[0].device

    @property
    def capacity(self) -> int:
        """The number of triplets that there is room for."""
        return self._storage[0].shape[0]

    @property
    def _block_ends(self) -> Any:
        return self._storage[0][: self.triplet_count]

    @property
    def _triplet_indices(self) -> Any:
        return self._storage[1][: self.triplet_count]

    @property
    def _triplet_blocks(self) -> Any:
        return self._storage[2][: self.triplet_count]

    def bound(self, dest: Any, blocks: Blocks | None) -> Any:
        """The map itself, built for a matrix and what its triplets have become; None: there are none."""
        self.triplet_count = 0 if blocks is None else blocks.order.size
        if self.triplet_count > self.capacity:
            self._reserve(self.triplet_count, self.device)
        if blocks is not None:
            wp.copy(self._block_ends, blocks.ends)
            wp.copy(self._triplet_indices, blocks.order)
            self._triplet_blocks.fill_(-1)
            given = [dest.nrow, dest.offsets, blocks.ends, blocks.order]
            wp.launch(_find_blocks, self.triplet_count, given, [self._triplet_blocks], device=self.device)
        self._topology = _topology(dest)
        return self

    def validate(self, dest: Any) -> None:
        """Checks that a matrix is the one it was built for: no operation has given it other places of blocks since.

        Raises:
            KernelValueError: it is another, or the map is not built.
        """
        if self._topology is None:
            raise KernelValueError(
                "BsrTripletMap: it has not been built", hint="pass it to bsr_set_from_triplets as build_mapping"
            )
        if self._topology != _topology(dest):
            raise KernelValueError(
                "BsrTripletMap: expected the matrix that it was built for, with its blocks where they were",
                hint="build it again: bsr_set_from_triplets(..., build_mapping=mapping)",
            )


def _topology(matrix: Any) -> tuple[Any, ...]:
    """Return what must not change about a matrix while its map is valid."""
    counts = None if matrix.row_counts is None else matrix.row_counts.ptr
    return places_of(matrix), matrix.nrow, matrix.ncol, matrix.offsets.ptr, matrix.columns.ptr, counts


@wp.kernel(enable_backward=False)
def _find_blocks(
    nrow: int, offsets: wp.array[int], ends: wp.array[int], order: wp.array[int], blocks: wp.array[int]
):
    block = wp.tid()
    if block >= offsets[nrow]:
        return
    begin = 0
    if block > 0:
        begin = ends[block - 1]
    for t in range(begin, ends[block]):
        blocks[order[t]] = block


@functools.cache
def _adding(scalar: Any) -> Any:
    @wp.kernel
    def bsr_add_mapped(blocks: wp.array[int], values: wp.array3d[scalar], sums: wp.array3d[scalar]):
        t, i, j = wp.tid()
        if blocks[t] >= 0:
            wp.atomic_add(sums, blocks[t], i, j, values[t, i, j])

    return bsr_add_mapped


@boundary
def bsr_set_from_mapped_values(dest: Any, mapping: Any, values: Any, reduction: str = "gather") -> None:
    """Fills a matrix again, with other values of the triplets that it was made of.

    Args:
        dest: the matrix that the map was built for.
        mapping: the map.
        values: (n,) blocks, or (n, r, c) numbers, one for each triplet.
        reduction: "gather": a thread sums for each number of the matrix; "atomic": each value adds itself, in no
            certain order outside of one thread.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit each other.

    Differentiability:
        By `values`.
    """
    what = "bsr_set_from_mapped_values"
    if not isinstance(mapping, BsrTripletMap):
        raise KernelTypeError(f"{what}: mapping: expected a BsrTripletMap, got {type_text(mapping)}")
    require_outside(what, require_matrix(what, "dest", dest))
    mapping.validate(dest)
    require_same_device(what, dest=dest, values=values)
    if reduction not in ("gather", "atomic"):
        raise KernelValueError(f"{what}: reduction: expected 'gather' or 'atomic', got {reduction!r}")
    n, scalar = mapping.triplet_count, dest.scalar_type
    given = as_blocks(what, dest.block_type, values, n)
    if reduction == "gather":
        blocks = Blocks(dest.offsets, dest.columns, mapping._block_ends, mapping._triplet_indices)
        found = summed(dest.nrow, dest.block_type, blocks, given)
        if n and dest.nnz:
            wp.copy(dest.values, found, count=min(dest.nnz, n))
        return
    given = apart(given, dest.values)
    dest.values[: dest.nnz].zero_()
    inputs = [mapping._triplet_blocks, as_scalars(given, dest.block_shape)]
    wp.launch(_adding(scalar), (n, *dest.block_shape), inputs, [dest.scalar_values], device=dest.device)
