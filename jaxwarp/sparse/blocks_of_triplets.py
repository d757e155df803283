"""The blocks that a list of rows and columns makes: sorted by both, with equal ones in one place."""

# pyright: reportInvalidTypeForm=false

import functools
from typing import Any, NamedTuple

import jax
import numpy as np

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.geometry.sorting import sort_bits
from jaxwarp.memory.host_scope import HOST, recording
from jaxwarp.native.library import sort_order
from jaxwarp.sparse.faces import evaluated, scale_of
from jaxwarp.sparse.matrix import as_blocks, as_scalars, extents_of, is_large, transposed_type
from jaxwarp.sparse.rows import running_sums
from jaxwarp.types import element_scalar, element_shape


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
    is_narrow = nrow * ncol < 2**32
    given = [rows, columns, count, kept, nrow, ncol]
    if is_narrow:
        width, none, minor = ncol, np.uint32(nrow * ncol), None
        (keys,) = evaluated(_keys, n, [*given, width, none], [(n, wp.uint32)])
        keys, order = sorted_keys(keys)
    else:
        width, none = 1, np.uint32(nrow)
        (by_column,) = evaluated(_keys, n, [*given, 0, np.uint32(ncol)], [(n, wp.uint32)])
        _, order = sorted_keys(by_column)
        (keys,) = evaluated(_rows_in_order, n, [by_column, rows, ncol, none, order], [(n, wp.uint32)])
        keys, second = sorted_keys(keys)
        order, minor = evaluated(_composed, n, [order, second, columns], [(n, int), (n, int)])
    (first,) = evaluated(_first, n, [keys, minor, none], [(n, int)])
    numbers = running_sums(first)
    found, ends = evaluated(_places, n, [keys, minor, none, width, first, numbers], [(n, int), (n, int)])
    (offsets,) = evaluated(_offsets, nrow + 1, [keys, width, numbers], [(nrow + 1, int)])
    return Blocks(offsets, found, ends, order)


def sorted_keys(keys: Any) -> tuple[Any, Any]:
    """Keys, (n,) of uint32, in ascending order, and where each was."""
    if not isinstance(keys, HostArray):
        return tuple(sort_bits(keys))
    found: Any = wp.zeros(keys.shape, wp.uint32, device=keys.device)
    order: Any = wp.zeros(keys.shape, int, device=keys.device)
    if not keys.device.is_cpu:
        found.assign(keys)
        wp.launch(_count_up, keys.shape, [], [order], device=keys.device)
        wp.utils.radix_sort_pairs(found, order, keys.size)
        return found, order

    def sort() -> None:
        found.numpy()[:], order.numpy()[:] = sort_order(keys.numpy())

    HOST.change("sparse matrix", sort, [keys.region], [found.region, order.region])
    return found, order


@wp.func
def is_there(i: int, row: int, col: int, count: wp.array[int], kept: wp.array[int], nrow: int, ncol: int) -> bool:
    found = row >= 0 and row < nrow and col >= 0 and col < ncol
    if count:
        found = found and i < count[0]
    if kept:
        found = found and kept[i] != 0
    return found


@wp.kernel(enable_backward=False)
def _keys(  # noqa: PLR0913 - what a kernel reads
    rows: wp.array[int],
    columns: wp.array[int],
    count: wp.array[int],
    kept: wp.array[int],
    nrow: int,
    ncol: int,
    width: int,
    none: wp.uint32,
    keys: wp.array[wp.uint32],
):
    """Compute the key of each triplet: its column plus `width` times its row, or `none` if it is left out."""
    i = wp.tid()
    key = none
    if is_there(i, rows[i], columns[i], count, kept, nrow, ncol):
        key = wp.uint32(rows[i]) * wp.uint32(width) + wp.uint32(columns[i])
    keys[i] = key


@wp.kernel(enable_backward=False)
def _rows_in_order(
    by_column: wp.array[wp.uint32],
    rows: wp.array[int],
    ncol: int,
    none: wp.uint32,
    order: wp.array[int],
    keys: wp.array[wp.uint32],
):
    i = wp.tid()
    t = order[i]
    keys[i] = wp.uint32(rows[t]) if by_column[t] != wp.uint32(ncol) else none


@wp.kernel(enable_backward=False)
def _composed(
    first: wp.array[int], second: wp.array[int], columns: wp.array[int], order: wp.array[int], minor: wp.array[int]
):
    i = wp.tid()
    t = first[second[i]]
    order[i] = t
    minor[i] = columns[t]


@wp.func
def is_same(i: int, j: int, keys: wp.array[wp.uint32], minor: wp.array[int]) -> bool:
    found = keys[i] == keys[j]
    if minor:
        found = found and minor[i] == minor[j]
    return found


@wp.kernel(enable_backward=False)
def _first(keys: wp.array[wp.uint32], minor: wp.array[int], none: wp.uint32, first: wp.array[int]):
    """1 at the first triplet of each block."""
    i = wp.tid()
    is_first = i == 0 or not is_same(wp.max(i - 1, 0), i, keys, minor)
    first[i] = 1 if is_first and keys[i] != none else 0


@wp.kernel(enable_backward=False)
def _places(
    keys: wp.array[wp.uint32],
    minor: wp.array[int],
    none: wp.uint32,
    width: int,
    first: wp.array[int],
    numbers: wp.array[int],
    columns: wp.array[int],
    ends: wp.array[int],
):
    i = wp.tid()
    block = numbers[i] - 1
    if first[i] != 0:
        column = int(keys[i] % wp.uint32(width))
        if minor:
            column = minor[i]
        columns[block] = columns[block] + column
    last = keys.shape[0] - 1
    if keys[i] != none and (i == last or not is_same(i, wp.min(i + 1, last), keys, minor)):
        ends[block] = ends[block] + i + 1


@wp.kernel(enable_backward=False)
def _offsets(keys: wp.array[wp.uint32], width: int, numbers: wp.array[int], offsets: wp.array[int]):
    row = wp.tid()
    at = wp.lower_bound(keys, wp.uint32(row) * wp.uint32(width))
    offsets[row] = 0 if at == 0 else numbers[wp.max(at - 1, 0)]


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


def nonzero(values: Any, block: Any, wanted: bool | None) -> Any:
    """(n,), 1 where a block has a number that is not zero; or None: blocks of zeros are kept.

    What is left out has no derivative, and one at zero is like any other. So nothing is where one may be asked for.
    """
    if wanted is None:
        wanted = isinstance(values, HostArray) and not values.requires_grad and recording.get() is None
    if not wanted:
        return None
    blocks = as_scalars(values, extents_of(block))
    n = blocks.shape[0]
    return evaluated(_nonzero(element_scalar(block)), n, [_detached(blocks)], [(n, int)])[0]


def _detached(values: Any) -> Any:
    return values if isinstance(values, HostArray) else jax.lax.stop_gradient(values)


@functools.cache
def sums_kernel(block: Any, is_transposed: bool = False) -> Any:
    """Sums of the values of triplets, a thread for each block. There may be fewer blocks than threads."""
    scalar, found = element_scalar(block), transposed_type(block) if is_transposed else block
    turned = wp.transpose if is_transposed and element_shape(block) else itself

    @wp.kernel
    def bsr_sums(
        nrow: int,
        scale: scalar,
        offsets: wp.array[int],
        ends: wp.array[int],
        order: wp.array[int],
        values: wp.array[block],
        sums: wp.array[found],
    ):
        b = wp.tid()
        if b >= offsets[nrow]:
            return
        begin = 0
        if b > 0:
            begin = ends[b - 1]
        total = values[order[begin]]  # not 0 + that: which is not -0 where that is
        for t in range(begin + 1, ends[b]):
            total += values[order[t]]
        sums[b] = scale * turned(total)

    return bsr_sums


@functools.cache
def _sums_of_large(scalar: Any) -> Any:
    """The same of large blocks, a thread for each number."""

    @wp.kernel
    def bsr_sums_large(
        nrow: int,
        scale: scalar,
        is_transposed: bool,
        offsets: wp.array[int],
        ends: wp.array[int],
        order: wp.array[int],
        values: wp.array3d[scalar],
        sums: wp.array3d[scalar],
    ):
        b, i, j = wp.tid()
        if b >= offsets[nrow]:
            return
        p = j if is_transposed else i
        q = i if is_transposed else j
        begin = 0
        if b > 0:
            begin = ends[b - 1]
        total = values[order[begin], p, q]
        for t in range(begin + 1, ends[b]):
            total += values[order[t], p, q]
        sums[b, i, j] = scale * total

    return bsr_sums_large


@wp.func
def itself(block: Any) -> Any:
    return block


def summed(nrow: int, block: Any, blocks: Blocks, values: Any, scale: Any = 1, is_transposed: bool = False) -> Any:
    """The blocks that values, (n,) blocks, make, each times a factor and transposed if that is wanted; (n,)."""
    n, scalar, found = values.shape[0], element_scalar(block), transposed_type(block) if is_transposed else block
    held = [blocks.offsets, blocks.ends, blocks.order]
    if not is_large(block):
        given = [nrow, scale_of(scalar, scale), *held, values]
        return evaluated(sums_kernel(block, is_transposed), n, given, [(n, found)])[0]
    shape = (n, *extents_of(found))
    given = [nrow, scale_of(scalar, scale), is_transposed, *held, as_scalars(values, extents_of(block))]
    (sums,) = evaluated(_sums_of_large(scalar), shape, given, [(shape, scalar)])
    return as_blocks("summed", found, sums, n)
