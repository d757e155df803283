"""Functions of C's library that functions in C++ call, and the language does not have."""

# Overloads of one name.
# pyright: reportRedeclaration=false, reportInvalidTypeForm=false
# ruff: noqa: F811, ANN201

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


@wp.func
def fabs(x: wp.float32) -> wp.float32:
    return wp.abs(x)


@wp.func
def fabs(x: wp.float64) -> wp.float64:
    return wp.abs(x)


@wp.func
def complement(x: wp.int32) -> wp.int32:
    return ~x


@wp.func
def complement(x: wp.uint32) -> wp.uint32:
    return ~x


@wp.func
def complement(x: wp.int64) -> wp.int64:
    return ~x


@wp.func
def complement(x: wp.uint64) -> wp.uint64:
    return ~x


@wp.func
def require_alike(a: Any, b: Any):
    """Refuse two numbers that C compares in a type that lacks values of one, such as int32 and uint32."""
    _ = wp.where(True, a, b)


@wp.func
def require_alike(a: wp.float32, b: wp.float64):
    pass


@wp.func
def require_alike(a: wp.float64, b: wp.float32):
    pass


@wp.func
def require_alike(a: wp.int32, b: wp.int64):
    pass


@wp.func
def require_alike(a: wp.int64, b: wp.int32):
    pass


@wp.func
def require_alike(a: wp.uint32, b: wp.int64):
    pass


@wp.func
def require_alike(a: wp.int64, b: wp.uint32):
    pass


@wp.func
def require_alike(a: wp.uint32, b: wp.uint64):
    pass


@wp.func
def require_alike(a: wp.uint64, b: wp.uint32):
    pass


@wp.func
def equal(a: Any, b: Any) -> wp.bool:
    require_alike(a, b)
    return a == b


@wp.func
def unequal(a: Any, b: Any) -> wp.bool:
    require_alike(a, b)
    return a != b


@wp.func
def less(a: Any, b: Any) -> wp.bool:
    require_alike(a, b)
    return a < b


@wp.func
def greater(a: Any, b: Any) -> wp.bool:
    require_alike(a, b)
    return a > b


@wp.func
def up_to(a: Any, b: Any) -> wp.bool:
    require_alike(a, b)
    return a <= b


@wp.func
def at_least(a: Any, b: Any) -> wp.bool:
    require_alike(a, b)
    return a >= b
