"""x to the power y for all lanes at once: 2**(y log2(x)), with the logarithm to more bits than the result has.

The logarithm and its product with y are pairs, high and low: to about 2**-30 for float32, to 2**-63 for float64.
"""

from __future__ import annotations

import math

from jaxwarp.builtins.scalar_ops import coefficients as table
from jaxwarp.builtins.scalar_ops.expression import (
    MANTISSA,
    Num,
    clamp,
    cold,
    fma,
    nearest,
    nearest_power,
    polynomial,
    scale,
    where,
)
from jaxwarp.builtins.scalar_ops.vector_math import INF, split, split_normal


def power(x: Num, y: Num) -> Num:
    """Return x to the power y as C's pow does, including zeros, infinities, and whole powers of negative x.

    Operands that need none of these, and are not near overflow, take a short path. _any_power is the general path.
    """
    n, m = split_normal(x)
    high, low, about = _log2_pair(n, m)
    whole_n, shift = nearest(y, about)
    # One test of both: n is out of these bounds for all x that are not positive normal numbers, as `split_normal` says,
    # and the larger is NaN where the exponent is.
    size, of_base = abs(whole_n), abs(n)
    is_plain = where(of_base > size, of_base, size) <= {"f32": 125.0, "f64": 1020.0}[x.kind]
    r = fma(y, low, fma(y, high, -whole_n))
    value = fma(r, polynomial(table.EXP2[x.kind], r, is_stored=True), 1.0)
    value = (value.bits() + (shift << MANTISSA[x.kind])).floats()
    return cold(is_plain.equals(False), "power", _any_power, (x, y), value)


def _any_power(x: Num, y: Num) -> Num:
    return _signed(x, y, _power(abs(x), y))


def _signed(x: Num, y: Num, size: Num) -> Num:
    """The power of a base of either sign, from that of its absolute value."""
    is_whole, half = y.intrinsic("trunc").equals(y), y * 0.5
    is_odd = is_whole & half.intrinsic("trunc").differs(half)
    size = where(abs(x).equals(1.0) & y.equals(y), 1.0, size)  # also to an infinite power
    value = where(is_odd, size.copysign(x), size)
    value = where((x < 0.0) & (x > -INF) & is_whole.equals(False), math.nan, value)
    return where(x.equals(1.0) | y.equals(0.0), 1.0, value)


def _log_ends(a: Num, value: Num) -> Num:
    """log2 of 0, infinity and NaN."""
    return where(a.equals(0.0), -INF, where(a < INF, value, a))


def _power(a: Num, y: Num) -> Num:
    """a ** y for a that is not negative."""
    end = {"f32": 200.0, "f64": 1100.0}[a.kind]
    n, f = split(a)
    first, rest, _ = _log2_pair(n, f + 1.0)
    high = first + rest
    low = (first - high) + rest
    high = _log_ends(a, high)
    exponent = y * high
    is_moderate = (abs(exponent) < end) & (abs(y) < INF)
    rest = where(is_moderate, fma(y, high, -exponent) + y * low, 0.0)
    exponent = clamp(exponent, -end, end)
    whole_n, powers = nearest_power(exponent)
    r = (exponent - whole_n) + rest
    return scale(fma(r, polynomial(table.EXP2[a.kind], r), 1.0), powers)


def _log2_pair(n: Num, m: Num) -> tuple[Num, Num, Num]:
    """log2 of 2**n * m, high and low: each operation's error is carried along. `low` may be 2**-12 of `high`.

    The third is about their sum, known before them.
    log(m) = 2 s + s z P(z) with s = (m - 1) / (m + 1), z = s * s.
    """
    high, low, about = (_log2_32 if m.kind == "f32" else _log2_64)(n, m)
    total = n + high
    return total, ((n - total) + high) + low, about


def _log2_32(n: Num, m: Num) -> tuple[Num, Num, Num]:
    """The second term is so much smaller than the first that its own error does not matter. What s lost counts by the
    slope of both, since the second is of the third degree."""
    below, f = m + 1.0, m - 1.0
    inverse = 1.0 / below
    s = f * inverse
    s_low = fma(-s, m - (below - 1.0), fma(-s, below, f)) * inverse
    z = s * s
    e, e_low = table.TWO_LOG2_E["f32"]
    first = s * e
    first_low = fma(s, e, -first) + fma(s, e_low, s_low * fma(z, e, s.like(e)))
    second = s * z * polynomial(table.LOG2["f32"], z)
    high = first + second
    return high, ((first - high) + second) + first_low, n + high


def _log2_64(n: Num, m: Num) -> tuple[Num, Num, Num]:
    """s times the sum of two terms, which is a pair, as is the product. What follows is 2**-12 of the whole at most."""
    e, third = table.TWO_LOG2_E["f64"][0], table.TWO_THIRDS_LOG2_E["f64"][0]
    sum_low, *tail = table.LOG2_TAIL["f64"]
    f = m - 1.0
    # Without the last bit of s the difference f - s is exact, and what s leaves of f is rounded once.
    s = ((f / (m + 1.0)).bits() & -2).floats()
    rest = fma(-s, m, f - s)
    z = s * s
    # The quotient is s + rest (1 - s) / 2, the slope of log2(m) in it e / (1 - z), here to 2**-12.
    slope = fma(z, s.stored(0.515 * e), s.stored(0.5 * e))
    slope = fma(-s, slope, slope)
    terms = fma(z, s.stored(third), s.stored(e))
    low = fma(fma(s, s, -z), third, fma(z, third, e - terms))
    low = low + fma(z * z, polynomial(tail, z, is_stored=True), s.stored(sum_low))
    high = s * terms
    about = fma(s, fma(z * z, tail[0], terms), n)
    return high, fma(s, low, fma(rest, slope, fma(s, terms, -high))), about
