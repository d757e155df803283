"""Searches, and what is counted in integers."""

# ruff: noqa: F811
# pyright: reportRedeclaration=false

from __future__ import annotations

from typing import Any

import jaxwarp as wp


@wp.func
def lower_bound(arr: wp.array[wp.Scalar], arr_begin: int, arr_end: int, value: wp.Scalar) -> int:
    """The first index from `arr_begin` on whose element is not below `value`; `arr_end` if all before it are below.

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
    """The first index of an ascending array whose element is not below `value`.

    If all are below it, the number of elements. `arr_begin` and `arr_end` limit the search.
    """
    return lower_bound(arr, 0, arr.shape[0], value)


@wp.func
def bit_count(x: Any) -> int:
    """The number of bits of an integer that are 1, as an int. `popcount` gives it in the integer's own type."""
    return int(wp.popcount(x))
