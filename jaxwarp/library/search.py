"""Searches, and what is counted in integers."""

# ruff: noqa: F811
# pyright: reportRedeclaration=false

from __future__ import annotations

from typing import Any

import jaxwarp as wp


@wp.func
def lower_bound(arr: wp.array[wp.Scalar], arr_begin: int, arr_end: int, value: wp.Scalar) -> int:
    """The first index from `arr_begin` on, before `arr_end`, of an element that is not below `value`; else `arr_end`.

    The elements between are in ascending order: the search halves the interval.
    """
    first = arr_begin
    count = arr_end - arr_begin
    while count > 0:
        half = count // 2
        if arr[first + half] < value:
            first += half + 1
            count -= half + 1
        else:
            count = half
    return first


@wp.func
def lower_bound(arr: wp.array[wp.Scalar], value: wp.Scalar) -> int:
    """The first index of an element of an ascending array that is not below `value`; else how many elements it has."""
    return lower_bound(arr, 0, arr.shape[0], value)


@wp.func
def bit_count(x: Any) -> int:
    """The number of bits of an integer that are 1: `popcount`, which gives it in the integer's own type."""
    return int(wp.popcount(x))
