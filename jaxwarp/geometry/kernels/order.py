"""The order of the leaves of a tree, by kernels: items are sorted along each axis once, and not for each level.

A part is the same places of all three lists. So its median along an axis is the middle place of that list, and the ends
of a list say how far its centres spread. To halve all parts of a level, each item is marked by its side in the list of
its part's axis, and the lists are parted in order: an item goes behind those of its side that are before it, which
threads count for 64 places each.
"""

# ruff: noqa: RUF046, UP018
# pyright: reportInvalidTypeForm=false, reportArgumentType=false, reportOperatorIssue=false

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.launching import launch_unrecorded
from jaxwarp.geometry.kernels.arrays import new
from jaxwarp.geometry.sorting import sort_bits

_PIECE = 64  # places that a thread looks at
_WORD, _WIDE = np.dtype(np.uint32), np.dtype(np.uint64)


@wp.func
def is_usable(low: wp.vec3, high: wp.vec3) -> bool:
    """Return whether a box is valid; see `tree.usable`."""
    is_ordered = low[0] <= high[0] and low[1] <= high[1] and low[2] <= high[2]
    return wp.isfinite(low) and wp.isfinite(high) and is_ordered


@wp.kernel
def find_centres(
    lowers: wp.array[wp.vec3], uppers: wp.array[wp.vec3], centres: wp.array[wp.vec3], keys: wp.array2d[wp.uint32]
) -> None:
    """Write the centre of a box, infinite if it is not valid, and numbers in the order of its coordinates."""
    i = wp.tid()
    centre = wp.vec3(wp.inf, wp.inf, wp.inf)
    if is_usable(lowers[i], uppers[i]):
        for k in range(3):
            centre[k] = (lowers[i][k] * 0.5 + uppers[i][k] * 0.5) + 0.0  # there is one zero
    centres[i] = centre
    for k in range(3):
        bits = wp.cast(centre[k], wp.uint32)
        sign = wp.uint32(0x80000000)
        keys[k, i] = ~bits if (bits & sign) != wp.uint32(0) else bits | sign


@wp.func
def part_at(place: int, count: int, level: int) -> Any:
    """The part of a level that a place is in: `start, size, lefts`, with as many left items in parts before."""
    start = int(0)
    size = count
    lefts = int(0)
    for k in range(level):
        half = (size + 1) // 2
        if place - start < half:
            size = half
        else:
            # Half has 2**below parts of this level, of two sizes.
            below = level - 1 - k
            least = half >> below
            larger = half - (least << below)
            lefts += ((1 << below) - larger) * ((least + 1) // 2) + larger * ((least + 2) // 2)
            start += half
            size -= half
    return start, size, lefts


@wp.func
def axis_of(centres: wp.array[wp.vec3], lists: wp.array2d[int], start: int, size: int) -> int:
    """The axis in which the centres of a part spread most, of those that are finite, which come first."""
    low = int(0)
    high = size
    if size > 0 and wp.isfinite(centres[lists[0, start + size - 1]]):
        low = size
    while low < high:
        middle = (low + high) // 2
        if wp.isfinite(centres[lists[0, start + middle]]):
            low = middle + 1
        else:
            high = middle
    axis = int(0)
    if low > 0:
        most = float(-1.0)
        for k in range(3):
            spread = centres[lists[k, start + low - 1]][k] - centres[lists[k, start]][k]
            if spread > most:
                most = spread
                axis = k
    return axis


@wp.kernel
def mark_sides(centres: wp.array[wp.vec3], lists: wp.array2d[int], level: int, sides: wp.array[int]) -> None:
    """Write for the item at a place of its part's list whether it goes left: 1, or 0."""
    place = wp.tid()
    start, size, _lefts = part_at(place, len(sides), level)
    item = lists[axis_of(centres, lists, start, size), place]
    sides[item] = 1 if place - start < (size + 1) // 2 else 0


@wp.kernel
def count_lefts(lists: wp.array2d[int], sides: wp.array[int], counts: wp.array2d[int]) -> None:
    """Write how many items of a piece of a list go left."""
    axis, piece = wp.tid()
    count = int(0)
    for place in range(piece * _PIECE, wp.min(piece * _PIECE + _PIECE, len(sides))):
        count += sides[lists[axis, place]]
    counts[axis, piece] = count


@wp.kernel
def part_lists(
    lists: wp.array2d[int], sides: wp.array[int], before: wp.array2d[int], level: int, parted: wp.array2d[int]
) -> None:
    """Write the items of a piece of a list where they are in the next level; `before` pieces are so many that go left.

    What is before the first piece of the list is to be taken off.
    """
    axis, piece = wp.tid()
    found = before[axis, piece] - before[axis, 0]
    start, size, lefts = part_at(piece * _PIECE, len(sides), level)
    for place in range(piece * _PIECE, wp.min(piece * _PIECE + _PIECE, len(sides))):
        if place >= start + size:
            start, size, lefts = part_at(place, len(sides), level)
        item = lists[axis, place]
        at = found - lefts
        if sides[item] != 0:
            parted[axis, start + at] = item
            found += 1
        else:
            parted[axis, start + (size + 1) // 2 + (place - start - at)] = item


@wp.kernel
def order_leaves(centres: wp.array[wp.vec3], lists: wp.array2d[int], level: int, order: wp.array[int]) -> None:
    """Write the order of items, of the parts whose halves are leaves: that along the axis of each."""
    place = wp.tid()
    start, size, _lefts = part_at(place, len(order), level)
    order[place] = lists[axis_of(centres, lists, start, size), place]


@wp.kernel
def widen_keys(keys: wp.array2d[wp.uint32], wide: wp.array2d[wp.uint64]) -> None:
    """Write the keys of all axes as those of one sort."""
    axis, i = wp.tid()
    wide[axis, i] = wp.uint64(axis) << wp.uint64(32) | wp.uint64(keys[axis, i])


@wp.kernel
def take_items(found: wp.array2d[int], lists: wp.array2d[int]) -> None:
    """Write the items that numbers of keys stand for."""
    axis, i = wp.tid()
    lists[axis, i] = found[axis, i] - axis * found.shape[1]


@wp.kernel
def number_items(numbers: wp.array[int]) -> None:
    """Write the number of each item."""
    i = wp.tid()
    numbers[i] = i


@wp.kernel
def find_first(size: int, depth: int, first: wp.array[int]) -> None:
    """Write where the items of a leaf start; see `tree.first_of`."""
    leaf = wp.tid()
    start = int(0)
    count = size
    if leaf >> depth != 0:
        start = size
    else:
        for level in range(depth):
            left = (count + 1) // 2
            if (leaf >> (depth - 1 - level)) & 1 != 0:
                start += left
                count -= left
            else:
                count = left
    first[leaf] = start


# In programs of JAX

_centres = wp.jax_kernel(find_centres, num_outputs=2)
_sides = wp.jax_kernel(mark_sides)
_counts = wp.jax_kernel(count_lefts)
_parted = wp.jax_kernel(part_lists)
_ordered = wp.jax_kernel(order_leaves)


def order_in_jax(lowers: Any, uppers: Any, depth: int) -> Any:
    """The items in the order of the leaves: (n,) of int32, for boxes (n, 3) of float32."""
    count = len(lowers)
    if depth == 0:
        return jnp.arange(count, dtype=jnp.int32)
    pieces = -(-count // _PIECE)
    dims = {"centres": count, "keys": (3, count)}
    centres, keys = _centres(lowers, uppers, launch_dims=count, output_dims=dims)
    lists = jnp.stack([sort_bits(keys[axis])[1] for axis in range(3)])
    for level in range(depth - 1):
        (sides,) = _sides(centres, lists, level, launch_dims=count, output_dims=count)
        (counts,) = _counts(lists, sides, launch_dims=(3, pieces), output_dims=(3, pieces))
        before = jnp.cumsum(counts, 1, dtype=jnp.int32) - counts
        (lists,) = _parted(lists, sides, before, level, launch_dims=(3, pieces), output_dims=(3, count))
    return _ordered(centres, lists, depth - 1, launch_dims=count, output_dims=count)[0]


# Of arrays on a GPU, outside of JAX


def order_on_gpu(lowers: HostArray, uppers: HostArray, depth: int) -> HostArray:
    """Return what `order_in_jax` does."""
    from jaxwarp.host.gpu_sorting import Work  # its kernels are made when they are first used

    place, count = lowers.scope, len(lowers)
    if depth == 0:
        return numbers_on(place, count)
    work, pieces = Work(place), -(-count // _PIECE)
    centres = new(place, wp.vec3, count)
    keys, wide = work.room("keys", 3 * count, _WORD), work.room("wide keys", 3 * count, _WIDE)
    lists = work.room("lists 0", 3 * count)
    work.run(find_centres, count, lowers, uppers, centres, keys.reshape(3, count))
    work.run(widen_keys, (3, count), keys.reshape(3, count), wide.reshape(3, count))
    _, found = work.sorted(wide, work.numbered(3 * count), 0, 34)
    work.run(take_items, (3, count), found.reshape(3, count), lists.reshape(3, count))
    sides, counts, before = work.room("sides", count), work.room("counts", 3 * pieces), work.room("before", 3 * pieces)
    by_piece, before_piece = counts.reshape(3, pieces), before.reshape(3, pieces)
    here, there = lists.reshape(3, count), work.room("lists 1", 3 * count).reshape(3, count)
    for level in range(depth - 1):
        work.run(mark_sides, count, centres, here, level, sides)
        work.run(count_lefts, (3, pieces), here, sides, by_piece)
        work.sums_along(counts, 1, False, before, "lefts")
        work.run(part_lists, (3, pieces), here, sides, before_piece, level, there)
        here, there = there, here
    order = new(place, wp.int32, count)
    work.run(order_leaves, count, centres, here, depth - 1, order)
    return order


def numbers_on(place: Any, count: int) -> HostArray:
    """Return numbers from 0 on, on a GPU."""
    made = new(place, wp.int32, count)
    launch_unrecorded(place, number_items, count, made)
    return made


def first_on(place: Any, size: int, depth: int) -> HostArray:
    """Return where the items of each leaf start, on a GPU."""
    made = new(place, wp.int32, (1 << depth) + 1)
    launch_unrecorded(place, find_first, len(made), size, depth, made)
    return made
