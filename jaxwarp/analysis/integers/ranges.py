"""Arithmetic on ranges of whole numbers: least <= v <= most. A range is empty where its end is before its begin.

What an operation makes of ranges is the range of its exact result, of whole numbers without limits. Integers wrap: a
result is in that range if the range lies within the numbers of its type, and else may be any of these.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxwarp.types import Scalar

Range = tuple[int, int]
LARGEST_EXTENT = 2**31 - 1
_NO_NUMBER = (1, 0)


@functools.cache
def all_of(dtype: Scalar) -> Range:
    """Return the numbers of a type of integers."""
    limits = np.iinfo(dtype.numpy)
    return int(limits.min), int(limits.max)


def is_inside(inner: Range, outer: Range) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def both(a: Range, b: Range) -> Range:
    return max(a[0], b[0]), min(a[1], b[1])


def either(a: Range, b: Range) -> Range:
    if a[0] > a[1] or b[0] > b[1]:
        return b if a[0] > a[1] else a
    return min(a[0], b[0]), max(a[1], b[1])


def extent_of(extent: Any) -> Range:
    """Return the range of an extent, which is no integer where it is not known."""
    return (int(extent), int(extent)) if isinstance(extent, (int, np.integer)) else (0, LARGEST_EXTENT)


def indices_of(start: Range, stop: Range, step: Range) -> Range:
    """Return the range of the indices of a loop; it is empty if the loop makes no iteration."""
    up, down = (start[0], stop[1] - 1), (stop[0] + 1, start[1])
    return up if step[0] >= 0 else down if step[1] <= 0 else either(up, down)


def range_of(name: str, operands: Sequence[Range]) -> Range | None:
    """Return the range of the exact result of an operation on integers; None of those that are not known here.

    Of "select" the operands are those that it chooses from.
    """
    if any(least > most for least, most in operands):
        return _NO_NUMBER
    a, b = (*operands, (0, 0))[:2]
    match name:
        case "add":
            return a[0] + b[0], a[1] + b[1]
        case "sub":
            return a[0] - b[1], a[1] - b[0]
        case "neg":
            return -a[1], -a[0]
        case "mul":
            return _corners(int.__mul__, a, b)
        case "min":
            return min(a[0], b[0]), min(a[1], b[1])
        case "max":
            return max(a[0], b[0]), max(a[1], b[1])
        case "select":
            return either(a, b)
        case "cast":
            return a
        case "abs":
            return max(a[0], -a[1], 0), max(-a[0], a[1])
        case "from_end":
            return a[0], a[1] if a[0] >= 0 else max(a[1], b[1] - 1)
        case _:
            return _quotient(name, a, b) or _bits(name, a, b)


def _quotient(name: str, a: Range, b: Range) -> Range | None:
    toward_zero = min(a[0], 0), max(a[1], 0)
    match name:
        case "floordiv" if b[0] > 0:
            return _corners(int.__floordiv__, a, b)
        case "div" if b[0] > 0:
            return _corners(lambda x, y: x // y if x >= 0 else -(-x // y), a, b)
        case "mod":
            # The sign is that of the dividend; of a divisor that is 0 it is 0.
            return both(toward_zero, (1 - b[1], b[1] - 1)) if b[0] > 0 else toward_zero
        case "shr":
            # Of unsigned counts: negative ones are large.
            return _corners(int.__rshift__, a, (b[0], min(b[1], 64))) if 0 <= b[0] <= 64 else toward_zero
        case _:
            return None


def _bits(name: str, a: Range, b: Range) -> Range | None:
    match name:
        case "bit_and" if max(a[0], b[0]) >= 0:
            return 0, min(most for least, most in (a, b) if least >= 0)
        case "bit_or" | "bit_xor" if min(a[0], b[0]) >= 0:
            return 0, (1 << max(a[1].bit_length(), b[1].bit_length())) - 1
        case "popcount" | "clz" | "ctz":
            return 0, 64
        case _:
            return None


def _corners(operation: Callable[[int, int], int], a: Range, b: Range) -> Range:
    """Return the range of an operation that grows or falls all along each operand."""
    found = [operation(x, y) for x, y in itertools.product(a, b)]
    return min(found), max(found)
