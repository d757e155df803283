"""Functions of C's library that functions in C++ call, and the language does not have."""

from __future__ import annotations

from typing import Any

import jaxwarp as wp


@wp.func
def nextafterf(x: wp.float32, to: wp.float32) -> wp.float32:
    """Return the float next to x on the way to another one."""
    bits = wp.cast(x, wp.int32)
    smallest = wp.where(to < wp.float32(0.0), wp.int32(-2147483647), wp.int32(1))  # with the sign of `to`
    is_away = (x < to) == (x > wp.float32(0.0))
    moved = wp.where(x == wp.float32(0.0), smallest, wp.where(is_away, bits + wp.int32(1), bits - wp.int32(1)))
    found = wp.where(x == to, to, wp.cast(moved, wp.float32))
    return wp.where(wp.isnan(x) or wp.isnan(to), x + to, found)


@wp.func
def find_first_set(x: Any) -> wp.int32:
    """Return the place of the lowest bit that is set, from 1; 0 if there is none."""
    return wp.where(x == type(x)(0), wp.int32(0), wp.int32(wp.ctz(x)) + wp.int32(1))
