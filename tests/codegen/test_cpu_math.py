"""Elementary functions on the CPU: stated accuracy over the whole range, the same bits at every width, no calls."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
import pytest
from builtin_cases import distance, specials
from cpukit import Make

from jaxwarp.builtins.scalar_ops import ROWS, ulp
from jaxwarp.builtins.scalar_ops.elementary import ELEMENTARY
from jaxwarp.codegen.cpu import compile_cpu, run_cpu
from jaxwarp.ir.kernel import Kernel
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import Scalar, float32, float64

INSTRUCTIONS = ("sqrt", "rsqrt")  # of the machine, or made of one
FORMULAS = [*(row.name for row in ELEMENTARY if row.name not in INSTRUCTIONS), "pow"]
COUNT = 3000
TYPES = pytest.mark.parametrize("dtype", [float32, float64], ids=lambda t: t.short)


def any_bits(rng: np.random.Generator, dtype: Scalar) -> np.ndarray:
    bits = np.uint32 if dtype is float32 else np.uint64
    return rng.integers(0, np.iinfo(bits).max, COUNT, bits, endpoint=True).view(dtype.numpy)


def arguments(rng: np.random.Generator, dtype: Scalar) -> np.ndarray:
    """Floats of all sizes, of usual sizes, at the edges; and those next to multiples of a right angle."""
    sizes = [rng.uniform(-s, s, COUNT) for s in (1e-3, 1.0, 10.0, 90.0, 750.0, 1e5)]
    angles = np.round(rng.uniform(-80_000, 80_000, COUNT)) * (np.pi / 2)
    near_one = 1 + rng.uniform(-1e-3, 1e-3, COUNT)
    values = np.concatenate([*sizes, angles, near_one, np.exp2(rng.uniform(-1070, 1020, COUNT))])
    with np.errstate(all="ignore"):
        return np.concatenate([values.astype(dtype.numpy), any_bits(rng, dtype), specials(dtype)])


def function(name: str, dtype: Scalar, count: int) -> Kernel:
    m = Make()
    sources, target, i = [m.array(None, dtype=dtype) for _ in range(count)], m.array(None, dtype=dtype), m.tid(0)
    m.store(target, (i,), m.op(name, *[m.load(p, (i,)) for p in sources]))
    return prepare(m.kernel())


def operands(name: str, dtype: Scalar) -> list[np.ndarray]:
    rng = np.random.default_rng(len(name))
    first = arguments(rng, dtype)
    if len(ROWS[name].domain) == 1:
        return [first]
    second = rng.permutation(first)
    if name == "hypot":
        # One of which the other is no more than rounding is most of the time what comes of any two.
        with np.errstate(all="ignore"):
            second = np.where(rng.random(len(first)) < 0.7, first * rng.uniform(-2, 2, len(first)), second)
        second = second.astype(dtype.numpy)
    if name == "pow":
        # Exponents whose power is neither 0 nor infinite.
        with np.errstate(all="ignore"):
            size = np.log2(np.abs(first.astype(np.longdouble)))
            reachable = rng.uniform(-1, 1, len(first)) * (np.finfo(dtype.numpy).maxexp / size)
            second = np.where(rng.random(len(first)) < 0.7, reachable, second).astype(dtype.numpy)
    return [first, second]


@TYPES
@pytest.mark.parametrize("name", FORMULAS)
def test_accuracy_over_the_whole_range(name, dtype):
    inputs = operands(name, dtype)
    kernel = function(name, dtype, len(inputs))
    results = []
    for width in (1, 16):
        results.append(np.zeros_like(inputs[0]))
        run_cpu(kernel, (len(inputs[0]),), [*inputs, results[-1]], width)
    one, many = results
    np.testing.assert_array_equal(one, many)
    np.testing.assert_array_equal(np.signbit(one[~np.isnan(one)]), np.signbit(many[~np.isnan(one)]))
    expected = ROWS[name].ref(*inputs)
    with np.errstate(all="ignore"):
        wrong = distance(one, expected)
    worst = int(np.argmax(wrong))
    where = ", ".join(repr(x[worst].item()) for x in inputs)
    assert wrong[worst] <= ulp(ROWS[name], dtype), f"{name}({where}) = {one[worst]!r}, expected {expected[worst]!r}"
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(one[zero]), np.signbit(expected[zero]))


def test_erfc_of_a_dense_range():
    """Every 97th float32 up to where it is the least number, below 4 units in the last place; few of them reach 3."""
    bits = np.arange(np.float32(0.1).view(np.int32), np.float32(10.06).view(np.int32), 97, dtype=np.int32)
    x = bits.view(np.float32)
    exact = np.array([math.erfc(v) for v in x.tolist()])
    unit = np.spacing(exact.astype(np.float32)).astype(np.float64)
    wrong = np.abs(run("erfc", float32, x) - exact) / unit
    assert wrong.max() < 4 == ulp(ROWS["erfc"], float32), x[wrong.argmax()]
    assert (wrong > 3).mean() < 1e-4


@TYPES
def test_powers_whose_logarithm_counts_most(dtype):
    """Results near overflow and underflow, of bases next to where the logarithm's series is longest and around 1: there
    an error of the logarithm is multiplied by the largest numbers."""
    rng, kind = np.random.default_rng(5), dtype.numpy
    ends = np.exp2(rng.choice([-0.5, 0.5], 20 * COUNT)) * (1 + rng.uniform(-1e-3, 1e-3, 20 * COUNT))
    x = np.concatenate([ends, np.exp2(rng.uniform(-1.5, 1.5, 20 * COUNT))]).astype(kind)
    limit = (np.finfo(kind).maxexp - 3) * rng.uniform(0.9, 1.0, len(x)) * rng.choice([-1, 1], len(x))
    y = (limit / np.log2(x.astype(np.float64))).astype(kind)
    got = np.zeros_like(x)
    run_cpu(function("pow", dtype, 2), (len(x),), [x, y, got])
    wrong = distance(got, ROWS["pow"].ref(x, y))
    assert wrong.max() <= {float32: 3, float64: 3}[dtype]


def around(values: list[float], dtype: Scalar, steps: int = 60) -> np.ndarray:
    """Numbers of each sign and the floats next to them."""
    kind = dtype.numpy
    bits = np.array([*values], kind).view(np.int32 if dtype is float32 else np.int64)
    near = (bits[:, None] + np.arange(-steps, steps + 1, dtype=bits.dtype)).ravel().view(kind)
    return np.concatenate([near, -near])


def run(name: str, dtype: Scalar, *inputs: np.ndarray, width: int | None = None) -> np.ndarray:
    got = np.full_like(inputs[0], 7.0)
    run_cpu(function(name, dtype, len(inputs)), (len(got),), [*inputs, got], width)
    return got


@TYPES
def test_powers_of_all_special_numbers(dtype):
    """Every such base to every such exponent: zeros, ones, infinities, NaN, subnormal numbers and their border, the
    borders of whole and of odd numbers, and what is next to them."""
    info = np.finfo(dtype.numpy)
    digits = 2.0 ** (info.nmant + 1)
    ends = [float(info.smallest_subnormal), float(info.tiny), float(info.max), math.inf]
    near = [1.0, 2.0, 0.5, math.sqrt(0.5), math.sqrt(2.0), 3.0]
    bases = np.concatenate([around([*near, *ends[1:3]], dtype, 2), signed([0.0, *ends, 1e-3, 10.0, math.nan], dtype)])
    whole = [
        *range(8),
        10,
        63,
        info.maxexp - 1,
        info.maxexp,
        info.maxexp + info.nmant,
        digits - 1,
        digits,
        digits / 2 - 1,
    ]
    exponents = np.concatenate(
        [around([1.0], dtype, 1), signed([*whole, 0.5, 1.5, 1e-3, 1e30, *ends, math.nan], dtype)]
    )
    x, y = (a.ravel() for a in np.meshgrid(bases, exponents))
    expected = ROWS["pow"].ref(x, y)
    for width in (1, 8):
        got = run("pow", dtype, x, y, width=width)
        with np.errstate(all="ignore"):
            wrong = distance(got, expected)
        worst = int(np.argmax(wrong))
        assert wrong[worst] <= 3, f"pow({x[worst]!r}, {y[worst]!r}) = {got[worst]!r}, expected {expected[worst]!r}"
        is_exact = (y == 0) | (x == 1) | (x == 0) | np.isinf(x) | np.isinf(y)
        is_exact |= (np.abs(x) == 2) & (y == np.trunc(y)) & (np.abs(y) < info.maxexp)
        np.testing.assert_array_equal(got[is_exact], expected[is_exact])
        signs = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(got[signs]), np.signbit(expected[signs]))


def signed(values: Sequence[float], dtype: Scalar) -> np.ndarray:
    both = np.array(values, dtype.numpy)
    return np.concatenate([both, -both])


@TYPES
@pytest.mark.parametrize("name", ["exp", "exp2"])
def test_exponentials_at_the_borders(name, dtype):
    """Where results overflow, become subnormal and vanish; where the whole exponent changes; next to 0."""
    info = np.finfo(dtype.numpy)
    unit = 1.0 if name == "exp2" else math.log(2.0)
    exponents = [info.maxexp, info.minexp, info.minexp - info.nmant, info.minexp - info.nmant - 1, info.minexp - 10]
    halves = np.arange(0.5, info.maxexp, 7.0)
    x = around(
        [unit * e for e in (*map(abs, exponents), *halves, 1e-20, 1e-3)] + [float(info.tiny), float(info.max)], dtype
    )
    x = np.concatenate([x, signed([0.0, math.inf, math.nan, float(info.smallest_subnormal)], dtype)])
    got, expected = run(name, dtype, x), ROWS[name].ref(x)
    wrong = distance(got, expected)
    worst = int(np.argmax(wrong))
    assert wrong[worst] <= ulp(ROWS[name], dtype), (
        f"{name}({x[worst]!r}) = {got[worst]!r}, expected {expected[worst]!r}"
    )
    np.testing.assert_array_equal(np.isinf(got), np.isinf(expected))
    assert set(got[np.abs(x) <= info.tiny]) == {1.0}


@pytest.mark.parametrize("name", ["exp", "exp2"])
def test_all_floats_of_32_bits(name):
    """One in 1999 of them, by their bits."""
    x = np.arange(0, 1 << 32, 1999).astype(np.uint32).view(np.float32)
    got, expected = run(name, float32, x), ROWS[name].ref(x)
    wrong = distance(got, expected)
    worst = int(np.argmax(wrong))
    assert wrong[worst] <= 2, f"{name}({x[worst]!r}) = {got[worst]!r}, expected {expected[worst]!r}"


@TYPES
@pytest.mark.parametrize("name", FORMULAS)
def test_no_library_call_but_for_huge_angles(name, dtype):
    text = compile_cpu(function(name, dtype, len(ROWS[name].domain)), 16).text
    called = set(re.findall(r"call \S+ @(?!llvm)(\w+)", text))
    suffix = "f" if dtype is float32 else ""
    assert called == ({name + suffix} if name in ("sin", "cos", "tan") else set())


def test_huge_angles_between_others():
    x = np.array([1.0, 1e30, -2.0, -3e38, np.inf, 5e5, np.nan, 0.5] * 5, np.float32)
    for name in ("sin", "cos", "tan"):
        for width in (1, 8, 16):
            got = np.zeros_like(x)
            run_cpu(function(name, float32, 1), (len(x),), [x, got], width)
            assert np.all(distance(got, ROWS[name].ref(x)) <= ulp(ROWS[name], float32))
