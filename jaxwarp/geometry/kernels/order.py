"""The order of the leaves of a tree, by kernels."""

# pyright: reportInvalidTypeForm=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.launching import launch_unrecorded
from jaxwarp.geometry.kernels.arrays import new


@wp.kernel
def find_first(size: int, depth: int, first: wp.array[int]) -> None:
    """Write where the items of a leaf start; see `tree.first_of`."""
    leaf = wp.tid()
    start = 0
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


@wp.kernel
def number_items(numbers: wp.array[int]) -> None:
    """Write the number of each item."""
    i = wp.tid()
    numbers[i] = i


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
