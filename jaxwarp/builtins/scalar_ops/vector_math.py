"""Elementary functions for all lanes at once, without branches or tables.

Each function is written once for float32 and float64 and takes the whole range: infinities, NaN, subnormal numbers and
zeros of both signs. Coefficients are in coefficients.py. The schemes are those of fdlibm (log, expm1) and Cephes (tan,
atan); Muller, "Elementary Functions", explains them. Errors are in the rows; tests/codegen/test_cpu_math.py has them.
"""

from __future__ import annotations

import math

from jaxwarp.builtins.scalar_ops import coefficients as table
from jaxwarp.builtins.scalar_ops.expression import (
    BIAS,
    MANTISSA,
    Num,
    clamp,
    fma,
    nearest,
    nearest_power,
    polynomial,
    power_of_two,
    scale,
    where,
    whole,
)

INF = math.inf
LEAST_NORMAL = {"f32": 2.0**-126, "f64": 2.0**-1022}
# Beyond these log(2) times the largest, and the least, number lie.
_EXP_RANGE = {"f32": (-104.0, 89.0), "f64": (-746.0, 710.0)}
_EXP2_RANGE = {"f32": (-151.0, 129.0), "f64": (-1076.0, 1025.0)}
# A little above where sinh overflows.
_SINH_END = {"f32": 89.5, "f64": 710.6}
# Beyond these reduction by three parts of pi / 2 is not exact enough.
_TRIGONOMETRIC_LIMIT = {"f32": 131072.0, "f64": 1e9}


# Exponentials


def exp(x: Num) -> Num:
    r, tail, powers = _exp_parts(x)
    return scale(1.0 + fma(r * r, tail, r), powers)


def _exp_parts(x: Num) -> tuple[Num, Num, tuple[Num, Num]]:
    """r, p and powers of 2 with exp(x) = (1 + r + r^2 p) times both."""
    x = clamp(x, *_EXP_RANGE[x.kind])
    high, low = table.LN2[x.kind]
    whole_n, powers = nearest_power(x, table.LOG2_E[x.kind][0])
    r = fma(whole_n, -low, fma(whole_n, -high, x))
    return r, polynomial(table.EXP[x.kind], r, is_stored=True), powers


def _reduce_exp(x: Num) -> tuple[Num, Num, Num]:
    """n, r, rest with x = n * log(2) + r + rest and |r| <= log(2) / 2."""
    high, low = table.LN2[x.kind]
    whole_n, n = nearest(x, table.LOG2_E[x.kind][0])
    first = fma(whole_n, -high, x)
    r = fma(whole_n, -low, first)
    return n, r, fma(whole_n, -low, first - r)


def exp2(x: Num) -> Num:
    x = clamp(x, *_EXP2_RANGE[x.kind])
    whole_n, powers = nearest_power(x)
    r = x - whole_n
    return scale(fma(r, polynomial(table.EXP2[x.kind], r, is_stored=True), 1.0), powers)


def _quarter_expm1(x: Num) -> tuple[Num, Num, Num]:
    """(exp(x) - 1) / 4, and p, s with exp(x) / 4 = s (1 + p), s a power of two. A quarter never overflows early."""
    n, r, rest = _reduce_exp(x)
    p = r + fma(r * r, polynomial(table.EXPM1[x.kind], r), rest)
    s = power_of_two(n - 2, x.kind)
    return fma(s, p, s - 0.25), p, s


def expm1(x: Num) -> Num:
    low, high = {"f32": (-18.0, 89.0), "f64": (-38.0, 710.0)}[x.kind]
    quarter, _, _ = _quarter_expm1(clamp(x, low, high))
    return _unless_tiny(x, quarter * 4.0)


def _unless_tiny(x: Num, value: Num) -> Num:
    """x itself where it is NaN or so small that the function equals it; zeros keep their sign."""
    return where(abs(x) > {"f32": 2.0**-26, "f64": 2.0**-55}[x.kind], value, x)


def sinh(x: Num) -> Num:
    quarter, _, _ = _quarter_expm1(clamp(abs(x), 0.0, _SINH_END[x.kind]))
    half = quarter + quarter / (1.0 + quarter * 4.0)
    return _unless_tiny(x, (half + half).copysign(x))


def cosh(x: Num) -> Num:
    _, p, s = _quarter_expm1(clamp(abs(x), 0.0, _SINH_END[x.kind]))
    quarter = fma(s, p, s)
    return (quarter + quarter) + 0.125 / quarter


def tanh(x: Num) -> Num:
    a = abs(x)
    quarter, _, _ = _quarter_expm1(clamp(a + a, 0.0, {"f32": 20.0, "f64": 42.0}[x.kind]))
    return _unless_tiny(x, (quarter / (quarter + 0.5)).copysign(x))


# Logarithms


def split(x: Num) -> tuple[Num, Num]:
    """n, f with x = 2**n * (1 + f) and 1 + f between sqrt(1/2) and sqrt(2), for finite x > 0."""
    shift = MANTISSA[x.kind] + 2
    is_tiny = x < LEAST_NORMAL[x.kind]
    n, m = split_normal(where(is_tiny, x * 2.0**shift, x))
    return where(is_tiny, n - float(shift), n), m - 1.0


def split_normal(x: Num) -> tuple[Num, Num]:
    """n, m with x = 2**n * m and m between sqrt(1/2) and sqrt(2), for x > 0 that is not subnormal.

    For all others, n is at most the least exponent of normal numbers, or above the largest.
    The exponent is taken out with its bias, so that no sign is shifted: AVX2 has no instruction for that in 64 bits.
    """
    mantissa, bias, least = MANTISSA[x.kind], BIAS[x.kind], x.like(math.sqrt(0.5)).bits()
    above = x.bits() + (bias << mantissa) - least
    m = ((above & ((1 << mantissa) - 1)) + least).floats()
    return whole(above.op("lshr", mantissa), x.type, bias), m


def _log1p_tail(f: Num) -> Num:
    """log(1 + f) - f."""
    half_square = f * f * 0.5
    s = f / (f + 2.0)
    z = s * s
    return fma(s, fma(z, polynomial(table.LOG[f.kind], z), half_square), -half_square)


def _log_of(x: Num, value: Num) -> Num:
    """`value`, but right where x is not a positive number."""
    value = where(x < INF, value, x)
    return where(x.equals(0.0), -INF, where(x < 0.0, math.nan, value))


def log(x: Num) -> Num:
    n, f = split(x)
    high, low = table.LN2_SHORT[x.kind]
    return _log_of(x, n * high + (f + fma(n, low, _log1p_tail(f))))


def log1p(x: Num) -> Num:
    total = 1.0 + x
    part = total - x
    lost = (x - (total - part)) + (1.0 - part)
    n, f = split(total)
    high, low = table.LN2_SHORT[x.kind]
    value = n * high + (f + (fma(n, low, _log1p_tail(f)) + lost / total))
    return _unless_tiny(x, _log_of(total, value))


def log2(x: Num) -> Num:
    n, f = split(x)
    product, rest = _times(f, _log1p_tail(f), table.LOG2_E[x.kind])
    return _log_of(x, n + (product + rest))


def log10(x: Num) -> Num:
    n, f = split(x)
    high, low = table.LOG10_2_SHORT[x.kind]
    product, rest = _times(f, _log1p_tail(f), table.LOG10_E[x.kind])
    return _log_of(x, n * high + (product + fma(n, low, rest)))


def _times(high: Num, low: Num, factor: tuple[float, ...]) -> tuple[Num, Num]:
    """(high + low) * factor, as a float and a smaller rest."""
    product = high * factor[0]
    return product, fma(high, factor[0], -product) + fma(high, factor[1], low * factor[0])


# Inverse hyperbolic functions

# Below its square root the square does not overflow; above, what is added to the square does not matter.
_LARGE = {"f32": 2.0**60, "f64": 2.0**500}


def asinh(x: Num) -> Num:
    a = abs(x)
    square = a * a
    return _log_or_twice(a, a + square / (1.0 + (square + 1.0).sqrt())).copysign(x)


def acosh(x: Num) -> Num:
    above = x - 1.0
    value = _log_or_twice(x, above + (above * (above + 2.0)).sqrt())
    return where(x < 1.0, math.nan, value)


def _log_or_twice(a: Num, less_one: Num) -> Num:
    """log(1 + less_one), or log(2 a) where a is large."""
    is_large = a > _LARGE[a.kind]
    value = log1p(where(is_large, a, less_one))
    return where(is_large, value + math.log(2.0), value)


def atanh(x: Num) -> Num:
    a = abs(x)
    return (log1p((a + a) / (1.0 - a)) * 0.5).copysign(x)


# Roots


def cbrt(x: Num) -> Num:
    """A polynomial's guess and Halley's iteration, each step of which triples the digits."""
    a = abs(x)
    n, f = split(a)
    third, k = nearest(n, 1.0 / 3.0)
    rest = fma(third, -3.0, n)
    m = f + 1.0
    is_up, is_down = rest > 0.5, rest < -0.5
    m = where(is_up, m * 2.0, where(is_down, m * 0.5, m))
    factor = where(is_up, 2.0 ** (1 / 3), where(is_down, x.like(2.0 ** (-1 / 3)), 1.0))
    root = polynomial(table.CBRT[x.kind], f) * factor
    for _ in range({"f32": 1, "f64": 2}[x.kind]):
        cube = root * root * root
        root = root + root * ((m - cube) / (cube + cube + m))
    value = (root * power_of_two(k, x.kind)).copysign(x)
    return where((a > 0.0) & (a < INF), value, x)


# Up to the first of these, squares lose what counts; beyond the second, their sum may overflow.
_SQUARED_RANGE = {"f32": (2.0**-50, 2.0**62), "f64": (2.0**-450, 2.0**510)}
_SQUARED_SCALE = {"f32": 2.0**90, "f64": 2.0**600}


def hypot(x: Num, y: Num) -> Num:
    """The root of the sum of squares of numbers that a power of two makes neither tiny nor large."""
    a, b = abs(x), abs(y)
    high, low = where(a > b, a, b), where(a > b, b, a)
    (least, most), power = _SQUARED_RANGE[x.kind], _SQUARED_SCALE[x.kind]
    is_tiny, is_large = high < least, high > most
    scale_in = where(is_tiny, power, where(is_large, x.like(1.0 / power), 1.0))
    scale_out = where(is_tiny, 1.0 / power, where(is_large, x.like(power), 1.0))
    high, low = high * scale_in, low * scale_in
    value = fma(high, high, low * low).sqrt() * scale_out
    return where(a.equals(INF) | b.equals(INF), INF, value)


# The error function


def erf(x: Num) -> Num:
    a = abs(x)
    near = fma(a, polynomial(table.ERF[x.kind], a * a), a)
    return where(a > 1.0, 1.0 - _erfc(a), near).copysign(x)


def erfc(x: Num) -> Num:
    value = _erfc(abs(x))
    near = 1.0 - fma(x, polynomial(table.ERF[x.kind], x * x), x)
    # Up to 0.8 no digit of erf is lost that erfc has.
    return where(abs(x) < 0.8, near, where(x < 0.0, 2.0 - value, value))


def _erfc(a: Num) -> Num:
    """erfc of a >= 0, by the function of Shepherd and Laframboise, Mathematics of Computation 36 (1981).

    It is exp(-a^2) P(q) / (1 + 2 a). What rounding takes from a^2, from 1 + 2 a and from the quotient is put back: the
    relative slope of erfc is large, and digits would be lost there.
    """
    a = clamp(a, 0.0, 28.0)
    inverse = 1.0 / (a + 4.0)
    q = (a - 4.0) * inverse
    # What rounding took from the quotient.
    q = q + fma(-q, a + 4.0, a - 4.0) * inverse
    square = a * a
    r, tail, powers = _exp_parts(-square)
    r = r - fma(a, a, -square)
    rest = fma(r * r, tail, r)
    # The first two terms make up most of it, and are added last: no more than one rounding of each is left.
    first, second, *others = table.ERFC[a.kind]
    p, divisor = fma(q, fma(q, polynomial(others, q), second), first), 1.0 + a * 2.0
    inverse = 1.0 / divisor
    ratio = p * inverse
    missing = fma(-ratio, divisor, p) - ratio * (a * 2.0 - (divisor - 1.0))
    return scale(ratio + fma(ratio, rest, missing * inverse), powers)


# Trigonometry


def sin(x: Num) -> Num:
    quadrant, sine, cosine = _sine_and_cosine(x)
    return _far(x, where(x.equals(0.0), x, _turned(quadrant, sine, cosine)), "sin")


def cos(x: Num) -> Num:
    quadrant, sine, cosine = _sine_and_cosine(x)
    return _far(x, _turned(quadrant + 1, sine, cosine), "cos")


def tan(x: Num) -> Num:
    quadrant, sine, cosine = _sine_and_cosine(x)
    is_odd = (quadrant & 1).differs(0)
    value = where(is_odd, -cosine, sine) / where(is_odd, sine, cosine)
    return _far(x, where(x.equals(0.0), x, value), "tan")


def _sine_and_cosine(x: Num) -> tuple[Num, Num, Num]:
    """n, sin(r), cos(r) with x = n * pi / 2 + r and |r| <= pi / 4."""
    high, middle, low = table.HALF_PI[x.kind]
    whole_n, n = nearest(x, 2.0 / math.pi)
    # The first step is exact: the difference has no more bits than x.
    r = fma(whole_n, -low, fma(whole_n, -middle, fma(whole_n, -high, x)))
    z = r * r
    sine = fma(r * z, polynomial(table.SIN[x.kind], z), r)
    cosine = fma(z * z, polynomial(table.COS[x.kind], z), fma(z, -0.5, 1.0))
    return n, sine, cosine


def _turned(quadrant: Num, sine: Num, cosine: Num) -> Num:
    """The sine of r and so many right angles."""
    value = where((quadrant & 1).differs(0), cosine, sine)
    sign = (quadrant & 2) << (MANTISSA[sine.kind] + (7 if sine.kind == "f32" else 10))
    return (value.bits() ^ sign).floats()


def _far(x: Num, value: Num, name: str) -> Num:
    """`value`, but the C library's where x is too large for the reduction above."""
    is_far = abs(x) > _TRIGONOMETRIC_LIMIT[x.kind]
    name += "f" if x.kind == "f32" else ""
    return Num(x.ops, x.type, x.ops.libm_where(is_far.text, name, x.type, [x.text], value.text))


def atan(x: Num) -> Num:
    a = abs(x)
    return _arc(a, a.like(1.0)).copysign(x)


def atan2(y: Num, x: Num) -> Num:
    a, b = abs(y), abs(x)
    both_zero = (a + b).equals(0.0)
    both_infinite = a.equals(INF) & b.equals(INF)
    a, b = where(both_infinite, 1.0, a), where(both_zero | both_infinite, 1.0, b)
    # The sum of the two must not overflow. What a small one loses below is far below what counts.
    is_large = (a > 2.0**100) | (b > 2.0**100)
    angle = _arc(where(is_large, a * 0.25, a), where(is_large, b * 0.25, b))
    high, low = table.HALF_PI[x.kind][:2]
    is_left = x.bits() < 0
    angle = where(is_left, 2 * high - (angle - 2 * low), angle)
    return angle.copysign(y)


def _arc(y: Num, x: Num) -> Num:
    """The angle of (x, y), neither negative nor both zero: reduced to |t| <= tan(pi / 8) by one division."""
    is_steep, is_middle = y > x * (1.0 + math.sqrt(2.0)), y > x * (math.sqrt(2.0) - 1.0)
    t = where(is_steep, -x, where(is_middle, y - x, y)) / where(is_steep, y, where(is_middle, y + x, x))
    z = t * t
    tail = t * z * polynomial(table.ATAN[x.kind], z)
    half, quarter = table.HALF_PI[x.kind], table.QUARTER_PI[x.kind]
    base = where(is_steep, half[0], where(is_middle, x.like(quarter[0]), 0.0))
    rest = where(is_steep, half[1], where(is_middle, x.like(quarter[1]), 0.0))
    return base + (t + (rest + tail))


def asin(x: Num) -> Num:
    is_large, t, tail = _arc_sine(abs(x))
    high, low = table.HALF_PI[x.kind][:2]
    value = t + tail
    return where(is_large, high - (2.0 * value - low), value).copysign(x)


def acos(x: Num) -> Num:
    is_large, t, tail = _arc_sine(abs(x))
    high, low = table.HALF_PI[x.kind][:2]
    twice = 2.0 * (t + tail)
    outer = where(x < 0.0, 2 * high - (twice - 2 * low), twice)
    return where(is_large, outer, high - (x - (low - tail.copysign(x))))


def _arc_sine(a: Num) -> tuple[Num, Num, Num]:
    """a > 1/2, t, rest: t + rest is the arc sine of min(a, 1), or of sqrt((1 - a) / 2) where a is larger than 1/2."""
    a = where(a > 1.0, 1.0, a)
    is_large = a > 0.5
    z = where(is_large, (1.0 - a) * 0.5, a * a)
    t = where(is_large, z.sqrt(), a)
    return is_large, t, t * z * polynomial(table.ASIN[a.kind], z)
