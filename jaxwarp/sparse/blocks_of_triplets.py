"""Which blocks a list of rows and columns makes: sorted by both, those that are the same in one place."""

# pyright: reportInvalidTypeForm=false

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.geometry.sorting import sort_bits
from jaxwarp.memory.host_scope import HOST
from jaxwarp.native.library import sort_order
from jaxwarp.sparse.faces import evaluated
from jaxwarp.sparse.matrix import as_scalars, extents_of
from jaxwarp.types import element_scalar

_NONE = 2**32 - 1  # the key of what is left out, which sorts last


class Blocks(NamedTuple):
    """The blocks that n triplets make: at most n.

    Attributes:
        offsets: (rows + 1,), where the blocks of each row start.
        columns: (n,) of each block; 0 behind the last.
        ends: (n,), where in `order` the triplets of each block end.
        order: (n,), the triplets by row and column, those that are left out last.
    """

    offsets: Any
    columns: Any
    ends: Any
    order: Any


def blocks_of(nrow: int, ncol: int, rows: Any, columns: Any, count: Any = None, kept: Any = None) -> Blocks:
    """The blocks of a matrix at rows and columns, (n,) each; what lies outside of it is left out.

    Args:
        count: (1,), how many of them there are, or None: all.
        kept: (n,), 0 where one is left out, or None.
    """
    n = rows.shape[0]
    wide = nrow * ncol >= _NONE
    given = [rows, columns, count, kept, nrow, ncol]
    if wide:
        (minor,) = evaluated(_keys, n, [*given, 2], [(n, wp.uint32)])
        _, by_column = sorted_keys(minor)
        (major,) = evaluated(_keys_in_order, n, [*given, by_column], [(n, wp.uint32)])
        major, by_row = sorted_keys(major)
        order, minor = evaluated(_composed, n, [by_column, by_row, columns], [(n, int), (n, wp.uint32)])
    else:
        (keys,) = evaluated(_keys, n, [*given, 1], [(n, wp.uint32)])
        keys, order = sorted_keys(keys)
        major, minor = evaluated(_split, n, [keys, ncol], [(n, wp.uint32), (n, wp.uint32)])
    (first,) = evaluated(_first, n, [major, minor], [(n, int)])
    numbers = running_sums(first)
    offsets, found, ends = evaluated(
        _places, n, [major, minor, numbers, nrow], [(nrow + 1, int), (n, int), (n, int)]
    )
    return Blocks(offsets, found, ends, order)


def sorted_keys(keys: Any) -> tuple[Any, Any]:
    """Keys, (n,) of uint32, in ascending order, and where each was."""
    if not isinstance(keys, HostArray):
        return tuple(sort_bits(keys))
    found = wp.zeros(keys.shape, wp.uint32, device=keys.device)
    order = wp.zeros(keys.shape, int, device=keys.device)
    if not keys.device.is_cpu:
        found.assign(keys)
        wp.launch(_count_up, keys.shape, [], [order], device=keys.device)
        wp.utils.radix_sort_pairs(found, order, keys.size)
        return found, order

    def sort() -> None:
        found.numpy()[:], order.numpy()[:] = sort_order(keys.numpy())

    HOST.change("sparse matrix", sort, [keys.region], [found.region, order.region])
    return found, order


def running_sums(numbers: Any) -> Any:
    """The sum of integers, (n,), up to each."""
    if not isinstance(numbers, HostArray):
        return jnp.cumsum(numbers, dtype=np.int32)
    sums = wp.zeros(numbers.shape, int, device=numbers.device)
    wp.utils.array_scan(numbers, sums)
    return sums


@wp.func
def is_there(i: int, row: int, col: int, count: wp.array[int], kept: wp.array[int], nrow: int, ncol: int) -> bool:
    found = row >= 0 and row < nrow and col >= 0 and col < ncol
    if count:
        found = found and i < count[0]
    if kept:
        found = found and kept[i] != 0
    return found


@wp.kernel(enable_backward=False)
def _keys(
    rows: wp.array[int],
    columns: wp.array[int],
    count: wp.array[int],
    kept: wp.array[int],
    nrow: int,
    ncol: int,
    kind: int,
    keys: wp.array[wp.uint32],
):
    """Of row and column (1), or of the column (2)."""
    i = wp.tid()
    key = wp.uint32(4294967295)
    if is_there(i, rows[i], columns[i], count, kept, nrow, ncol):
        key = wp.uint32(columns[i])
        if kind == 1:
            key += wp.uint32(rows[i]) * wp.uint32(ncol)
    keys[i] = key


@wp.kernel(enable_backward=False)
def _keys_in_order(
    rows: wp.array[int],
    columns: wp.array[int],
    count: wp.array[int],
    kept: wp.array[int],
    nrow: int,
    ncol: int,
    order: wp.array[int],
    keys: wp.array[wp.uint32],
):
    """Of the row, of triplets in an order."""
    i = wp.tid()
    t = order[i]
    key = wp.uint32(4294967295)
    if is_there(t, rows[t], columns[t], count, kept, nrow, ncol):
        key = wp.uint32(rows[t])
    keys[i] = key


@wp.kernel(enable_backward=False)
def _composed(
    first: wp.array[int],
    second: wp.array[int],
    columns: wp.array[int],
    order: wp.array[int],
    minor: wp.array[wp.uint32],
):
    i = wp.tid()
    t = first[second[i]]
    order[i] = t
    minor[i] = wp.uint32(columns[t])


@wp.kernel(enable_backward=False)
def _split(keys: wp.array[wp.uint32], ncol: int, major: wp.array[wp.uint32], minor: wp.array[wp.uint32]):
    i = wp.tid()
    key = keys[i]
    row = key
    if key != wp.uint32(4294967295):
        row = key // wp.uint32(ncol)
    major[i] = row
    minor[i] = key - row * wp.uint32(ncol)


@wp.kernel(enable_backward=False)
def _first(major: wp.array[wp.uint32], minor: wp.array[wp.uint32], first: wp.array[int]):
    """1 at the first triplet of each block."""
    i = wp.tid()
    found = 0
    if major[i] != wp.uint32(4294967295):
        found = 1
        if i > 0 and major[i - 1] == major[i] and minor[i - 1] == minor[i]:
            found = 0
    first[i] = found


@wp.kernel(enable_backward=False)
def _places(
    major: wp.array[wp.uint32],
    minor: wp.array[wp.uint32],
    numbers: wp.array[int],
    nrow: int,
    offsets: wp.array[int],
    columns: wp.array[int],
    ends: wp.array[int],
):
    i = wp.tid()
    if major[i] == wp.uint32(4294967295):
        return
    row = int(major[i])
    block = numbers[i] - 1
    before = -1
    is_first = True
    if i > 0:
        before = int(major[i - 1])
        is_first = numbers[i - 1] != numbers[i]
    if is_first:
        columns[block] = int(minor[i])
        for r in range(before + 1, row + 1):
            offsets[r] = block
    is_last = True
    is_end = True
    if i + 1 < numbers.shape[0]:
        is_end = major[i + 1] == wp.uint32(4294967295)
        is_last = is_end or numbers[i + 1] != numbers[i]
    if is_last:
        ends[block] = i + 1
    if is_end:
        for r in range(row + 1, nrow + 1):
            offsets[r] = block + 1


@wp.kernel(enable_backward=False)
def _count_up(order: wp.array[int]):
    i = wp.tid()
    order[i] = i


# Values


@functools.cache
def _nonzero(scalar: Any) -> Any:
    @wp.kernel(enable_backward=False)
    def bsr_nonzero(values: wp.array3d[scalar], kept: wp.array[int]):
        block = wp.tid()
        found = 0
        for i in range(values.shape[1]):
            for j in range(values.shape[2]):
                if values[block, i, j] != scalar(0):
                    found = 1
        kept[block] = found

    return bsr_nonzero


def nonzero(values: Any, block: Any) -> Any:
    """(n,), 1 where a block has a number that is not zero."""
    blocks = as_scalars(values, extents_of(block))
    n = blocks.shape[0]
    return evaluated(_nonzero(element_scalar(block)), n, [_detached(blocks)], [(n, int)])[0]


def _detached(values: Any) -> Any:
    return values if isinstance(values, HostArray) else jax.lax.stop_gradient(values)


@functools.cache
def sums_kernel(scalar: Any) -> Any:
    """Sums of the values of triplets, a thread for each number of a block. There may be fewer blocks than threads."""

    @wp.kernel
    def bsr_sums(
        nrow: int,
        offsets: wp.array[int],
        ends: wp.array[int],
        order: wp.array[int],
        values: wp.array3d[scalar],
        sums: wp.array3d[scalar],
    ):
        block, i, j = wp.tid()
        if block >= offsets[nrow]:
            return
        begin = 0
        if block > 0:
            begin = ends[block - 1]
        total = scalar(0)
        for t in range(begin, ends[block]):
            total += values[order[t], i, j]
        sums[block, i, j] = total

    return bsr_sums
