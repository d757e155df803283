"""x to the power y for all lanes at once: 2**(y log2(x)), with the logarithm to more bits than the result has.

Of float32 the product and what surrounds it are computed in float64, to 2**-35; of float64 in pairs of float64, high
and low, to 2**-66.
"""

from __future__ import annotations

import math

from jaxwarp.builtins.rows import coefficients as table
from jaxwarp.builtins.rows.expression import Num, clamp, fma, nearest, polynomial, power_of_two, scale, where
from jaxwarp.builtins.rows.vector_math import INF, split
from jaxwarp.types import float32, float64


def power(x: Num, y: Num) -> Num:
    """As C's pow: also for zeros, infinities and negative x, of which whole powers are defined."""
    return _signed(x, y, (_power32 if x.type is float32 else _power64)(abs(x), y))


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


def _power32(a: Num, y: Num) -> Num:
    n, f = split(a)
    n = _log_ends(a, n)
    # A quotient of float32 and a step of Newton's are cheaper than one of float64, and good for 46 bits.
    guess = (1.0 / (f + 2.0)).convert("fpext", float64)
    wide = f.convert("fpext", float64)
    s = wide * fma(guess, fma(-(wide + 2.0), guess, 1.0), guess)
    z = s * s
    slope = fma(z, polynomial(table.LOG2["mid"], z), 2.0 / math.log(2.0))
    logarithm = fma(s, slope, n.convert("fpext", float64))
    exponent = clamp(y.convert("fpext", float64) * logarithm, -200.0, 200.0)
    whole_n, n = nearest(exponent)
    r = exponent - whole_n
    return (fma(r, polynomial(table.EXP2["mid"], r), 1.0) * power_of_two(n, "f64")).convert("fptrunc", float32)


def _power64(a: Num, y: Num) -> Num:
    high, low = _log2_pair(a)
    high = _log_ends(a, high)
    exponent = y * high
    is_moderate = (abs(exponent) < 1100.0) & (abs(y) < INF)
    rest = where(is_moderate, fma(y, high, -exponent) + y * low, 0.0)
    exponent = clamp(exponent, -1100.0, 1100.0)
    whole_n, n = nearest(exponent)
    r = (exponent - whole_n) + rest
    return scale(fma(r, polynomial(table.EXP2["f64"], r), 1.0), n)


def _log2_pair(a: Num) -> tuple[Num, Num]:
    """log2 of a finite positive number, high and low: each operation's error is carried along.

    log(1 + f) = 2 s + s z (2 / 3 + z T(z)) with s = f / (2 + f), z = s * s.
    """
    n, f = split(a)
    below = f + 2.0
    inverse = 1.0 / below
    s = f * inverse
    s_low = (fma(-s, below, f) - s * (f - (below - 2.0))) * inverse
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
    product_low = fma(ln, e, -product) + fma(ln, e_low, ln_low * e)
    total = n + product
    return total, ((n - total) + product) + product_low
