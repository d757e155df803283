"""The references of rows against oracles that do not read the table: Python's integers, fractions, `math`, `struct`."""

from __future__ import annotations

import itertools
import math
import struct
from decimal import Decimal, localcontext
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from builtin_cases import distance, specials

from jaxwarp.builtins.language.ops import Ops
from jaxwarp.builtins.scalar_ops import ELEMENTARY, ROWS, NoGradient
from jaxwarp.errors import KernelTypeError
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.nodes import Param
from jaxwarp.types import (
    SCALAR_BY_DTYPE,
    bfloat16,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)  # fmt: skip
from jaxwarp.vjp.calculus import Calculus

INTEGERS = (int8, int16, int32, int64, uint8, uint16, uint32, uint64)


def wrap(value: int, dtype) -> int:
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.is_signed and value >> (dtype.bits - 1) else value


def toward_zero(a: int, b: int) -> int:
    return math.trunc(Fraction(a, b)) if b else 0


def shift_count(n: int, dtype) -> int:
    return n & ((1 << dtype.bits) - 1)


BINARY = {
    "add": lambda a, b, t: a + b,
    "sub": lambda a, b, t: a - b,
    "mul": lambda a, b, t: a * b,
    "div": lambda a, b, t: toward_zero(a, b),
    "floordiv": lambda a, b, t: a // b if b else 0,
    "mod": lambda a, b, t: a - b * toward_zero(a, b) if b else 0,
    "min": lambda a, b, t: min(a, b),
    "max": lambda a, b, t: max(a, b),
    "bit_and": lambda a, b, t: a & b,
    "bit_or": lambda a, b, t: a | b,
    "bit_xor": lambda a, b, t: a ^ b,
    "from_end": lambda i, n, t: min(i % (1 << t.bits), (i + n) % (1 << t.bits)),
    "within": lambda i, n, t: i if i % (1 << t.bits) < n % (1 << t.bits) else 0,
    "shl": lambda a, n, t: a << shift_count(n, t) if shift_count(n, t) < t.bits else 0,
    "shr": lambda a, n, t: a >> min(shift_count(n, t), t.bits),
    "lt": lambda a, b, t: a < b,
    "le": lambda a, b, t: a <= b,
    "gt": lambda a, b, t: a > b,
    "ge": lambda a, b, t: a >= b,
    "eq": lambda a, b, t: a == b,
    "ne": lambda a, b, t: a != b,
}
UNARY = {
    "neg": lambda a, t: -a,
    "abs": lambda a, t: abs(a),
    "sign": lambda a, t: -1 if a < 0 else 1,
    "bit_not": lambda a, t: ~a,
    "popcount": lambda a, t: (a & ((1 << t.bits) - 1)).bit_count(),
    "clz": lambda a, t: t.bits - (a & ((1 << t.bits) - 1)).bit_length(),
    "ctz": lambda a, t: ((a & -a).bit_length() - 1) if a else t.bits,
}


def integers(dtype) -> list[int]:
    """All of the 8-bit ones; of others the special ones and some at random."""
    if dtype.bits == 8:
        limits = np.iinfo(dtype.numpy)
        return list(range(limits.min, limits.max + 1))
    limits = np.iinfo(dtype.numpy)
    drawn = np.random.default_rng(dtype.bits).integers(limits.min, limits.max, 40, dtype.numpy, endpoint=True)
    return [*specials(dtype).tolist(), *drawn.tolist()]


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda t: t.short)
def test_integers_against_python(dtype):
    values = integers(dtype)
    a = np.array(values, dtype.numpy)
    for name, oracle in UNARY.items():
        expected = [wrap(oracle(x, dtype), dtype) for x in values]
        assert ROWS[name].ref(a).tolist() == expected, name
    pairs = list(itertools.product(values, values[:: 5 if dtype.bits == 8 else 1]))
    a, b = (np.array(column, dtype.numpy) for column in zip(*pairs, strict=True))
    for name, oracle in BINARY.items():
        got = ROWS[name].ref(a, b)
        expected = [oracle(x, y, dtype) for x, y in pairs]
        expected = expected if got.dtype == bool else [wrap(x, dtype) for x in expected]
        assert got.tolist() == expected, name


@pytest.mark.parametrize("target", INTEGERS, ids=lambda t: t.short)
@pytest.mark.parametrize("source", [float32, float64], ids=lambda t: t.short)
def test_float_to_int_saturates(source, target):
    limits = np.iinfo(target.numpy)
    edges = np.array([limits.min, limits.max, limits.max // 2], np.float64).astype(source.numpy)
    values = [np.nextafter(edges, s) for s in (source.numpy.type(-np.inf), source.numpy.type(np.inf))]
    values = np.concatenate([specials(source), edges, *values, [-0.99, 0.99]]).astype(source.numpy)
    got = ROWS["cast"].ref(values, dtype=target.numpy)
    for x, y in zip(values.tolist(), got.tolist(), strict=True):
        whole = 0 if math.isnan(x) else math.copysign(2**70, x) if math.isinf(x) else math.trunc(x)
        assert y == min(max(int(whole), limits.min), limits.max), x


def test_float16_against_struct():
    rng = np.random.default_rng(1)
    values = np.concatenate([specials(float64), rng.normal(size=500) * 2.0 ** rng.integers(-30, 20, 500)])
    # Ties, and values that lie just beyond one: float32 in between would round them twice.
    ties = 1.0 + 2.0**-11 + np.array([0.0, 2.0**-40, -(2.0**-40)])
    values = np.concatenate([values, ties, -ties, ties * 2.0**-20])
    got = ROWS["cast"].ref(values, dtype=float16.numpy)
    for x, y in zip(values.tolist(), got, strict=True):
        try:
            expected = struct.unpack("e", struct.pack("e", x))[0]
        except OverflowError:
            expected = math.copysign(math.inf, x)
        assert (math.isnan(x) and math.isnan(y)) or float(y) == expected, x


def nearest_bfloat16(x: float) -> float:
    """By looking at the two neighbours, exactly."""
    candidates = sorted({float(b) for b in _bfloat16_around(x)}, key=lambda c: abs(Fraction(c) - Fraction(x)))
    best = abs(Fraction(candidates[0]) - Fraction(x))
    tied = [c for c in candidates if abs(Fraction(c) - Fraction(x)) == best]
    return next(c for c in tied if len(tied) == 1 or not _bits(c) & 1)


def _bits(c: float) -> int:
    return int(np.array(c, ml_dtypes.bfloat16).view(np.uint16))


def _bfloat16_around(x: float) -> np.ndarray:
    top = struct.unpack("I", struct.pack("f", x))[0] >> 16
    return np.array([top - 1, top, top + 1], np.uint16).view(ml_dtypes.bfloat16)


def test_bfloat16_against_fractions():
    rng = np.random.default_rng(2)
    tie = 1.0 + 2.0**-8
    values = [*rng.normal(size=300).tolist(), tie, tie + 2.0**-40, tie - 2.0**-40, 1.0 + 3 * 2.0**-8, 3e38, 1e-40]
    got = ROWS["cast"].ref(np.array(values), dtype=bfloat16.numpy)
    assert [float(y) for y in got] == [nearest_bfloat16(x) for x in values]


def test_casts_between_integers_and_to_bool():
    for source, target in itertools.product(INTEGERS, INTEGERS):
        values = integers(source)
        got = ROWS["cast"].ref(np.array(values, source.numpy), dtype=target.numpy)
        assert got.tolist() == [wrap(x, target) for x in values]
    floats = np.array([0.0, -0.0, 0.5, np.nan, -np.inf])
    assert ROWS["cast"].ref(floats, dtype=np.dtype(bool)).tolist() == [False, False, True, True, True]
    assert ROWS["cast"].ref(np.array([True, False]), dtype=float16.numpy).tolist() == [1.0, 0.0]


def exactly_fma(a: float, b: float, c: float, dtype) -> float:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if dtype is float64:
        return float(exact)
    # Rounded to 24 bits by hand, in the range of normal numbers.
    if exact == 0:
        return 0.0
    exponent = math.floor(math.log2(abs(exact))) - 23
    scaled = exact / Fraction(2) ** exponent
    if abs(scaled) >= 2**24:
        exponent, scaled = exponent + 1, scaled / 2
    return float(round(scaled) * Fraction(2) ** exponent)


@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda t: t.short)
def test_fma_is_rounded_once(dtype):
    rng = np.random.default_rng(3)
    a, b, c = (rng.normal(size=400).astype(dtype.numpy) for _ in range(3))
    c[:100] = -(a * b)[:100]
    # The product is a tie of the sum's precision, and c decides from far below.
    small = np.float64(2.0**-60)
    one = 1 + 2.0**-12
    a, b, c = (np.append(x, [y, y]) for x, y in ((a, one), (b, one), (c, small)))
    a, b, c = (x.astype(dtype.numpy) for x in (a, b, c))
    c[-1] = -c[-1]
    got = ROWS["fma"].ref(a, b, c)
    expected = [exactly_fma(*map(float, abc), dtype) for abc in zip(a, b, c, strict=True)]
    assert got.tolist() == expected
    infinite, zero, one = (np.array([v], dtype.numpy) for v in (np.inf, 0.0, 1.0))
    assert np.isnan(ROWS["fma"].ref(infinite, zero, one)[0])
    assert ROWS["fma"].ref(infinite, -one, one)[0] == -np.inf
    large = np.full(1, np.finfo(dtype.numpy).max)
    assert ROWS["fma"].ref(large, large, -infinite)[0] == -np.inf
    assert ROWS["fma"].ref(large, large, one)[0] == np.inf


def test_rounding_against_decimal():
    values = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999999999999994, 4503599627370495.5, 1e300, -0.2, 7.0]
    x = np.array(values)
    half_away = [float(Decimal(v).quantize(Decimal(1), "ROUND_HALF_UP")) for v in values if abs(v) < 1e20]
    assert ROWS["round"].ref(x).tolist()[:8] == half_away[:8]
    assert ROWS["round"].ref(x).tolist()[8:] == [1e300, -0.0, 7.0]
    assert ROWS["rint"].ref(x).tolist() == [float(round(v)) for v in values]
    assert ROWS["floor"].ref(x).tolist() == [float(math.floor(v)) for v in values]
    assert ROWS["ceil"].ref(x).tolist() == [float(math.ceil(v)) for v in values]
    assert ROWS["trunc"].ref(x).tolist() == [float(math.trunc(v)) for v in values]
    for name in ("round", "rint", "ceil", "trunc"):
        assert np.signbit(ROWS[name].ref(np.array([-0.2]))[0]), name


# What Python's `math` has by the same name; a row that it has not needs a line here.
MATH = {
    **{row.name: getattr(math, row.name) for row in ELEMENTARY if hasattr(math, row.name)},
    "rsqrt": lambda x: x**-0.5, "pow": math.pow, "mod": math.fmod, "copysign": math.copysign,
}


def test_every_elementary_function_has_an_oracle():
    assert [row.name for row in ELEMENTARY if row.name not in MATH] == []


@pytest.mark.parametrize("name", MATH)
def test_elementary_functions_against_math(name):
    rng = np.random.default_rng(4)
    domain = ROWS[name].domain or ((-50.0, 50.0),) * 2
    args = [rng.uniform(low, high, 300) for low, high in domain]
    expected = np.array([MATH[name](*map(float, xs)) for xs in zip(*args, strict=True)])
    exact = name in ("sqrt", "mod", "copysign")
    assert distance(ROWS[name].ref(*args), expected).max() <= (0 if exact else 4)
    single = [a.astype(np.float32) for a in args]
    expected = np.array([MATH[name](*map(float, xs)) for xs in zip(*single, strict=True)]).astype(np.float32)
    assert distance(ROWS[name].ref(*single), expected).max() <= (0 if exact else 1)


@pytest.mark.parametrize("name", ["asin", "acos"])
@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda t: t.short)
def test_arc_functions_are_clamped_with_their_derivatives(name, dtype):
    """Beyond the ends: the value there, and a derivative of 0, from the ends on. NaN stays NaN in both."""
    ends = np.array([1.0, -1.0], dtype.numpy)
    x = np.concatenate([ends, np.nextafter(ends, 2 * ends), 1.5 * ends, np.inf * ends])
    np.testing.assert_array_equal(ROWS[name].ref(x), np.tile([MATH[name](1.0), MATH[name](-1.0)], 4).astype(x.dtype))
    nan = np.array([np.nan], dtype.numpy)
    assert np.isnan(ROWS[name].ref(nan)[0])
    if dtype is float32:
        return
    np.testing.assert_array_equal(derivatives(name, [x])[0], 0)
    inside = np.array([0.0, 0.5, -0.75, 0.9], dtype.numpy)
    step = 1e-6
    slopes = [(MATH[name](v + step) - MATH[name](v - step)) / (2 * step) for v in inside.tolist()]
    np.testing.assert_allclose(derivatives(name, [inside])[0], slopes, rtol=1e-6)
    assert np.isnan(derivatives(name, [nan])[0][0])


def erf_series(x: float) -> Decimal:
    """2 / sqrt(pi) times the sum of (-1)^n x^(2n+1) / (n! (2n+1)), in 60 digits."""
    z, term, total, n = Decimal(x), Decimal(x), Decimal(x), 0
    while abs(term) > Decimal(10) ** -55:
        n += 1
        term *= -z * z / n
        total += term / (2 * n + 1)
    pi = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")
    return total * 2 / pi.sqrt()


def test_error_function_against_its_series():
    x = np.array([-3.0, -1.25, -0.1, 1e-5, 0.5, 1.0, 2.5, 4.0])
    with localcontext() as context:
        context.prec = 80
        exact = [erf_series(v) for v in x.tolist()]
        erf, erfc = (np.array([float(f(e)) for e in exact]) for f in (lambda e: e, lambda e: 1 - e))
    assert distance(ROWS["erf"].ref(x), erf).max() <= 2
    assert distance(ROWS["erfc"].ref(x), erfc).max() <= 6


def test_comparisons_of_nan_and_zeros():
    nan, zero = np.array([np.nan]), np.array([0.0])
    for name in ("lt", "le", "gt", "ge", "eq"):
        assert not ROWS[name].ref(nan, nan)[0], name
    assert ROWS["ne"].ref(nan, nan)[0]
    assert ROWS["eq"].ref(zero, -zero)[0]
    # a if a < b else b: a NaN in a yields b, one in b is returned.
    assert ROWS["min"].ref(nan, zero)[0] == 0
    assert np.isnan(ROWS["min"].ref(zero, nan)[0])
    assert ROWS["max"].ref(nan, zero)[0] == 0
    assert ROWS["sign"].ref(np.array([-0.0, 0.0, np.nan, -1e-300])).tolist() == [1, 1, 1, -1]


DIFFERENTIABLE = sorted(n for n, r in ROWS.items() if not r.typed and not isinstance(r.partials, NoGradient))


def derivatives(name: str, args: list[np.ndarray]) -> list[np.ndarray | None]:
    """A row's partials, computed by the interpreter."""
    row, builder = ROWS[name], Builder()
    ops = Ops(builder)
    params = [Param(f"x{i}", SCALAR_BY_DTYPE[a.dtype], (None,)) for i, a in enumerate(args)]
    i = builder.tid(0)
    values = [builder.load(p, (i,)) for p in params]
    partials = row.partials(Calculus(builder), builder.call(row, *values), *values)
    assert len(partials) == len(args)
    results = [None if p is None else Param(f"d{k}", float64, (None,)) for k, p in enumerate(partials)]
    for result, partial in zip(results, partials, strict=True):
        if result is not None:
            builder.store(result, (i,), ops.scalar(partial, float64))
    kept = [r for r in results if r is not None]
    buffers = [*args, *(np.zeros(args[0].size) for _ in kept)]
    interpret(builder.finish("partials", 1, [*params, *kept]), (args[0].size,), buffers)
    found = iter(buffers[len(args) :])
    return [None if r is None else next(found) for r in results]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_partials_against_finite_differences(name):
    row, rng = ROWS[name], np.random.default_rng(5)
    count = next(n for n in (1, 2, 3) if _takes(row, n))
    intervals = row.domain or ((-3.3, 3.3),) * count
    args = [rng.uniform(low + (high - low) * 0.02, high - (high - low) * 0.02, 60) for low, high in intervals]
    if name == "select":
        args[0] = rng.integers(0, 2, 60).astype(bool)
    for k, partial in enumerate(derivatives(name, args)):
        if partial is None:
            assert args[k].dtype == bool
            continue
        step = 1e-6 * np.maximum(1e-3, np.abs(args[k]))
        lower, upper = ([*args[:k], args[k] + s * step, *args[k + 1 :]] for s in (-1, 1))
        slope = (row.ref(*upper) - row.ref(*lower)) / (upper[k] - lower[k])
        np.testing.assert_allclose(partial, slope, rtol=2e-6, atol=2e-6 * max(1.0, np.abs(slope).max() * 1e-3))


def _takes(row, count: int) -> bool:
    try:
        row.infer((float64,) * count)
    except KernelTypeError:
        return row.name == "select" and count == 3
    return True


def test_the_derivative_of_a_remainder_takes_the_quotient_that_the_value_took():
    """Against exact fractions: 1.0 % 0.1 took 9 whole times, and 1.0 / 0.1 is rounded to 10."""
    rng = np.random.default_rng(0)
    b = np.array([0.1, 0.1, 0.2, -0.3, 0.7, *rng.uniform(0.01, 1.0, 200)])
    a = np.array([1.0, -1.0, 0.6, 0.9, -2.1, *(b[5:] * rng.integers(-1000, 1000, 200))])
    whole = [math.trunc(Fraction(x) / Fraction(y)) for x, y in zip(a, b, strict=True)]
    assert sum(n != math.trunc(x / y) for n, x, y in zip(whole, a, b, strict=True)) > 10
    by_a, by_b = derivatives("mod", [a, b])
    np.testing.assert_array_equal(by_a, 1.0)
    np.testing.assert_array_equal(by_b, np.negative(whole))


def test_conventions_of_partials():
    zero, one = np.zeros(1), np.ones(1)
    assert derivatives("abs", [zero])[0] == 1
    # Ties of min and max: the operand that the row returns is b.
    assert [float(d[0]) for d in derivatives("min", [one, one])] == [0.0, 1.0]
    assert [float(d[0]) for d in derivatives("max", [one, one])] == [0.0, 1.0]
    by_base, by_exponent = derivatives("pow", [zero, zero])
    assert (by_base[0], by_exponent[0]) == (0.0, 0.0)
    assert derivatives("pow", [np.array([-2.0]), np.array([3.0])])[0] == pytest.approx(12.0)


def test_rows_without_a_derivative_say_why():
    for name in ("lt", "isnan", "bit_and", "popcount", "bitcast"):
        assert isinstance(ROWS[name].partials, NoGradient), name
        assert ROWS[name].partials.reason


@pytest.mark.parametrize("dtype", [t for t in INTEGERS if t.is_signed], ids=lambda t: t.short)
def test_indices_that_count_from_the_end(dtype):
    for n in (0, 1, 2, 7, 100, np.iinfo(dtype.numpy).max):
        near = {i for end in (-n, 0, n) for i in range(end - 3, end + 4)}
        indices = sorted(i for i in near if np.iinfo(dtype.numpy).min <= i <= np.iinfo(dtype.numpy).max)
        found = ROWS["from_end"].ref(np.array(indices, dtype.numpy), np.full(len(indices), n, dtype.numpy))
        assert found.tolist() == [i + n if -n <= i < 0 else i for i in indices]


def test_rows_of_what_is_alive():
    row, found, number = np.array([[1, 2, 3, 4], [7, 0, -1, 9], [7, 1, -1, 1 << 40]])
    assert ROWS["live_row"].ref(row, found, number).tolist() == [1, 0, 3, 0]
    for name, count in (("live_row", 3), ("within", 2)):
        assert ROWS[name].infer((int64,) * count) is int64
        for wrong in ((int32,) * count, (int64,) * (count - 1), (float64,) * count):
            with pytest.raises(KernelTypeError):
                ROWS[name].infer(wrong)
