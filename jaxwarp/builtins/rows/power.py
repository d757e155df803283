"""x to the power y for all lanes at once: 2**(y log2(x)), with the logarithm to more bits than the result has.

The logarithm and its product with y are pairs, high and low: to 2**-31 for float32, to 2**-66 for float64.
"""

from __future__ import annotations

import math

from jaxwarp.builtins.rows import coefficients as table
from jaxwarp.builtins.rows.expression import MANTISSA, Num, clamp, fma, nearest, polynomial, scale, seldom, where
from jaxwarp.builtins.rows.vector_math import INF, LEAST_NORMAL, split, split_normal


def power(x: Num, y: Num) -> Num:
    """As C's pow: also for zeros, infinities and negative x, of which whole powers are defined.

    What is neither asked of such x nor near overflow takes a short way, of which _any_power is the general one.
    """
    high, low = _log2_pair(*split_normal(x))
    exponent = y * high
    end = {"f32": 125.0, "f64": 1020.0}[x.kind]
    is_plain = (abs(exponent) <= end) & (x >= LEAST_NORMAL[x.kind]) & (x < INF)
    whole_n, n = nearest(exponent)
    r = (exponent - whole_n) + (fma(y, high, -exponent) + y * low)
    value = fma(r, polynomial(table.EXP2[x.kind], r), 1.0)
    value = (value.bits() + (n << MANTISSA[x.kind])).floats()
    return seldom(is_plain.equals(False), "power", _any_power, (x, y), value)


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
    high, low = _log2_pair(*split(a))
    high = _log_ends(a, high)
    exponent = y * high
    is_moderate = (abs(exponent) < end) & (abs(y) < INF)
    rest = where(is_moderate, fma(y, high, -exponent) + y * low, 0.0)
    exponent = clamp(exponent, -end, end)
    whole_n, n = nearest(exponent)
    r = (exponent - whole_n) + rest
    return scale(fma(r, polynomial(table.EXP2[a.kind], r), 1.0), n)


def _log2_pair(n: Num, f: Num) -> tuple[Num, Num]:
    """log2 of 2**n * (1 + f), high and low: each operation's error is carried along.

    log(1 + f) = 2 s + s z P(z) with s = f / (2 + f), z = s * s.
    """
    below = f + 2.0
    inverse = 1.0 / below
    s = f * inverse
    s_low = (fma(-s, below, f) - s * (f - (below - 2.0))) * inverse
    high, low = (_log2_32 if f.kind == "f32" else _log2_64)(s, s_low)
    total = n + high
    return total, ((n - total) + high) + low


def _log2_32(s: Num, s_low: Num) -> tuple[Num, Num]:
    """The second term is so much smaller than the first that its own error does not matter."""
    z = s * s
    e, e_low = table.TWO_LOG2_E["f32"]
    first = s * e
    first_low = fma(s, e, -first) + fma(s, e_low, s_low * e)
    second = s * z * polynomial(table.LOG2["f32"], z)
    high = first + second
    return high, ((first - high) + second) + first_low


def _log2_64(s: Num, s_low: Num) -> tuple[Num, Num]:
    """The first coefficient of P, 2 / 3, is a pair too."""
    z = s * s
    z_low = fma(s, s, -z) + (s + s) * s_low
    third, third_low = table.TWO_THIRDS["f64"]
    added = fma(z, polynomial(table.LOG_TAIL["f64"], z), third_low)
    w = third + added
    w_low = (third - w) + added
    cube = s * z
    cube_low = fma(s, z, -cube) + fma(s, z_low, s_low * z)
    tail = cube * w
    tail_low = fma(cube, w, -tail) + fma(cube, w_low, cube_low * w)
    double = s + s
    ln = double + tail
    ln_low = ((double - ln) + tail) + ((s_low + s_low) + tail_low)
    e, e_low = table.LOG2_E["f64"]
    product = ln * e
    return product, fma(ln, e, -product) + fma(ln, e_low, ln_low * e)
