"""Functions in C++ that compute with numbers: beside the same functions in Python."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError


@wp.func_native("""
#if defined(__CUDA_ARCH__)
return __frsqrt_rn(x);
#else
return 1.0f / sqrtf(x);
#endif
""")
def inverse_root(x: float) -> float: ...


@wp.func_native("""
if (bits == 0) return -1;  // none
int place = 0;
while ((bits & 1LL) == 0LL) { bits >>= 1; place++; }
return place;
""")
def lowest_bit(bits: wp.int64) -> wp.int32: ...


@wp.func_native("""
const float half = x * .5f;
float sum = 0.0f;
for (int k = 0; k < n; ++k) {
    if (k % 3 == 2 && !(x > 2.f)) sum += half; else sum = fmaxf_free(sum);
}
return sum;
""")
def unknown_call(x: float, n: int) -> float: ...


@wp.func_native("""
const float half = x * .5f; /* a part */
float sum = 0.0f;
for (int k = 0; k < n; ++k) {
    if (k % 3 == 2 && !(x > 2.f)) sum += half;
    else sum = sum < 1e1f ? sum - -x : sum;
}
return (float)(unsigned int)sum;
""")
def summed(x: float, n: int) -> float: ...


@wp.func_native("""
uint32_t i = reinterpret_cast<uint32_t&>(f);
uint32_t mask = (uint32_t)(-(int)(i >> 31)) | 0x80000000;
return i ^ mask;
""")
def flipped(f: float) -> wp.uint32: ...


@wp.func_native("return static_cast<int32_t>(packed & 0xFFFFFFFFull);")
def low_word(packed: wp.uint64) -> int: ...


@wp.func_native("return up ? nextafterf(x, INFINITY) : __builtin_nextafterf(x, -INFINITY);")
def neighbour(x: float, up: bool) -> float: ...


@wp.func_native("""
#if defined(__CUDA_ARCH__)
return __popcll(x) + 100 * __ffsll((long long)x) + 10000 * __clzll(x) + 1000000 * __ffs(low);
#else
int32_t most = __builtin_popcountll(x) + 100 * __builtin_ffsll((long long)x);
return most + 10000 * __builtin_clzll(x) + 1000000 * (low == 0 ? 0 : __builtin_ctz(low) + 1);
#endif
""")
def counted(x: wp.uint64, low: wp.uint32) -> int: ...


@wp.func_native("return *reinterpret_cast<const float4*>(x);")
def of_pointer(x: wp.uint64) -> float: ...


@wp.func_native("return __shfl_sync(0xffffffffu, x, 0, 32);")
def of_first_lane(x: float) -> float: ...


@wp.func_native("""
#ifdef __CUDA_ARCH__
return __shfl_sync(0xffffffffu, x, 0, 32);
#else
return x;
#endif
""")
def of_first_lane_on_gpus(x: float) -> float: ...


@wp.func_native("x += 1.0; return x;")
def mixed(x: float) -> float: ...


@wp.func_native(
    "return x * y;",
    adj_snippet="""
// other than the derivative: the rule is what counts
float share = 0.5f * adj_ret;
if (x > 2.0f) { adj_x += share * y; adj_x += share; } else { adj_x -= adj_ret; }
adj_y += x * adj_ret;
""",
)
def with_rule(x: float, y: float) -> float: ...


@wp.func_native("return x * x;", adj_snippet="adj_x = 2.0f * x * adj_ret;")
def with_rule_that_sets(x: float) -> float: ...


@wp.func_native("return x * x;", adj_snippet="adj_x += adj_x + adj_ret;")
def with_rule_that_reads(x: float) -> float: ...


@wp.func_native("return x * x;", adj_snippet="adj_x += adj_ret;")
def with_rule_of_unknown(x: float): ...


@wp.func_native("return x * x;", replay_snippet="return x;")
def with_replay(x: float) -> float: ...


def summed_in_python(x, n):
    total = np.float32(0)
    for k in range(n):
        total = np.float32(
            total + np.float32(x * 0.5) if k % 3 == 2 and not x > 2 else total + x if total < 10 else total
        )
    return float(int(total))


def test_values():
    @wp.kernel
    def all_of(x: wp.array[float], bits: wp.array[wp.int64], a: wp.array[float], b: wp.array[int], c: wp.array[float]):
        i = wp.tid()
        a[i] = inverse_root(x[i])
        b[i] = lowest_bit(bits[i])
        c[i] = summed(x[i], i * 5)

    x, bits = np.array([1.0, 2.0, 3.0, 9.0], np.float32), np.array([0, 8, 1, 3 << 40])
    a, b, c = wp.zeros(4), wp.zeros(4, dtype=int), wp.zeros(4)
    wp.launch(all_of, 4, [x, bits, a, b, c])
    np.testing.assert_allclose(a.numpy(), 1 / np.sqrt(x), rtol=2e-7)
    assert b.list() == [-1, 3, 0, 40]
    assert c.list() == [summed_in_python(v, 5 * i) for i, v in enumerate(x)]


def test_bits():
    @wp.kernel
    def all_of(
        x: wp.array[float], words: wp.array[wp.uint64], a: wp.array[wp.uint32], b: wp.array[int], c: wp.array[float]
    ):
        i = wp.tid()
        a[i] = flipped(x[i])
        b[i] = low_word(words[i])
        c[2 * i] = neighbour(x[i], True)
        c[2 * i + 1] = neighbour(x[i], False)

    x = np.array([-2.5, -0.0, 0.0, 1e-45, -1e-45, 1.0, np.inf, -np.inf, np.nan, 3.4e38], np.float32)
    words = np.array([7, 1 << 63, 0xFFFFFFFF, 0x180000000, 5 << 32, 1, 2, 3, 4, 5], np.uint64)
    a, b, c = wp.zeros(10, dtype=wp.uint32), wp.zeros(10, dtype=int), wp.zeros(20)
    wp.launch(all_of, 10, [x, words, a, b, c])
    bits = x.view(np.uint32)
    np.testing.assert_array_equal(a.numpy(), np.where(bits >> 31, ~bits, bits | 0x80000000))
    np.testing.assert_array_equal(b.numpy(), words.astype(np.uint32).view(np.int32))
    infinity = np.float32(np.inf)
    expected = np.stack([np.nextafter(x, infinity), np.nextafter(x, -infinity)], 1).ravel()
    np.testing.assert_array_equal(c.numpy(), expected)
    assert np.array_equal(np.signbit(c.numpy()[:16]), np.signbit(expected[:16]))


def test_counts_of_bits():
    @wp.kernel
    def all_of(words: wp.array[wp.uint64], a: wp.array[int]):
        i = wp.tid()
        a[i] = counted(words[i], wp.uint32(words[i]))

    words = [0, 1, 1 << 63, (1 << 64) - 1, 5 << 40, 6]
    a = wp.zeros(6, dtype=int)
    wp.launch(all_of, 6, [wp.array(words, dtype=wp.uint64), a])
    first = [(w & -w).bit_length() for w in words]
    low = [f if f <= 32 else 0 for f in first]
    assert a.list() == [
        w.bit_count() + 100 * f + 10000 * (64 - w.bit_length()) + 1000000 * g
        for w, f, g in zip(words, first, low, strict=True)
    ]


def test_derivative():
    @wp.kernel
    def rooted(x: wp.array[float], y: wp.array[float]):
        y[wp.tid()] = inverse_root(x[wp.tid()])

    x, y = wp.array([4.0], dtype=float, requires_grad=True), wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(rooted, 1, [x, y])
    tape.backward(grads={y: wp.ones(1)})
    assert math.isclose(x.grad.list()[0], -0.5 * 4.0**-1.5, rel_tol=1e-6)


@wp.func_native("""
for (int k = 0; k < n; k++) {
    if (x[k] > 0.0f) { out[i] += x[k] * x[i]; }
}
seen[i] = n;
seen[0]++;
""")
def gathered(x: wp.array[float], out: wp.array[float], seen: wp.array[int], i: int, n: int): ...


@wp.func_native("return x[0];")
def of_rows(x: wp.array2d[float]) -> float: ...


@wp.func_native("return x[0] / x[1];")
def of_small_integers(x: wp.array[wp.int8]) -> wp.int8: ...


@wp.func_native("return x == nullptr;")
def of_an_address(x: wp.array[float]) -> bool: ...


def test_elements_of_arrays():
    @wp.kernel
    def all_of(x: wp.array[float], out: wp.array[float], seen: wp.array[int]):
        gathered(x, out, seen, wp.tid(), 3)

    x = wp.array([2.0, -1.0, 3.0], dtype=float, requires_grad=True)
    out, seen = wp.zeros(3, requires_grad=True), wp.zeros(3, dtype=int)
    with wp.Tape() as tape:
        wp.launch(all_of, 3, [x, out, seen])
    assert out.list() == [10.0, -5.0, 15.0]
    assert seen.list()[1:] == [3, 3]
    tape.backward(grads={out: wp.ones(3)})  # of (2 + 3) * (2 - 1 + 3) by each
    assert x.grad.list() == [9.0, 5.0, 9.0]


@pytest.mark.parametrize(
    ("function", "reason"),
    [(of_rows, r"array\[float32, 2\]"), (of_small_integers, r"array\[int8, 1\]"), (of_an_address, "==")],
)
def test_other_arrays_are_refused(function, reason):
    @wp.kernel
    def called(a: wp.array[float], b: wp.array2d[float], c: wp.array[wp.int8], y: wp.array[float]):
        y[0] = float(function(b if wp.static(function is of_rows) else a))

    with pytest.raises(KernelTypeError, match=rf"is C\+\+ \(func_native\).*: {reason}"):
        wp.launch(called, 1, [wp.zeros(2), wp.zeros((1, 1)), wp.zeros(2, dtype=wp.int8), wp.zeros(1)])


def test_rule():
    @wp.kernel
    def product(x: wp.array[float], y: wp.array[float], z: wp.array[float]):
        i = wp.tid()
        z[i] = with_rule(x[i], y[i])

    x, y = (wp.array(v, dtype=float, requires_grad=True) for v in ([1.0, 3.0], [5.0, 7.0]))
    z = wp.zeros(2, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(product, 2, [x, y, z])
    assert z.list() == [5.0, 21.0]
    tape.backward(grads={z: wp.array([1.0, 2.0], dtype=float)})
    assert (x.grad.list(), y.grad.list()) == ([-1.0, 8.0], [1.0, 6.0])
    call = wp.jax_kernel(product)
    points = jnp.array([1.0, 3.0]), jnp.array([5.0, 7.0])
    _, (moved,) = jax.jvp(call, points, (jnp.array([1.0, 2.0]), jnp.array([0.0, 1.0])))
    assert moved.tolist() == [-1.0, 11.0]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (unknown_call, "fmaxf_free"),
        (of_first_lane, "__shfl_sync"),
        (of_pointer, r"\*"),
        (of_first_lane_on_gpus, "__shfl_sync"),
        (with_rule_that_sets, "adj_x"),
        (with_rule_that_reads, "adj_x"),
        (with_rule_of_unknown, "a rule for its derivative, but no annotation of what it returns"),
        (with_replay, "a text that stands for it"),
    ],
)
def test_other_text_is_refused_where_it_is_called(function, reason):
    @wp.kernel
    def called(y: wp.array[float]):
        y[0] = function(1.0, 2) if wp.static(function is unknown_call) else function(1.0)

    with pytest.raises(KernelTypeError, match=rf"is C\+\+ \(func_native\).*: {reason}"):
        wp.launch(called, 1, [wp.zeros(1)])


def test_conversions_that_c_makes_are_refused():
    """`x + 1.0` is a double in C."""

    @wp.kernel
    def called(y: wp.array[float]):
        y[0] = mixed(y[0])

    with pytest.raises(KernelTypeError, match=r"float32.*float64"):
        wp.launch(called, 1, [wp.zeros(1)])


@wp.func_native("int i = 0; i = x; return i;")
def assigned(x: float) -> int: ...


@wp.func_native("int i = 1 << 31 >> 31; return i * x;")
def shifted_literal(x: int) -> int: ...


@wp.func_native("return (double)-(1 << (x & 7));")
def shifted_one(x: wp.uint32) -> wp.float64: ...


@wp.func_native("return sqrtf(x);")
def root_in_single(x: wp.float64) -> float: ...


def test_numbers_have_the_types_of_c():
    """An assignment once gave its type to the variable, and a literal was shifted in Python's integers."""

    @wp.kernel
    def all_of(y: wp.array[wp.float64]):
        y[0] = wp.float64(assigned(-2.5))
        y[1] = wp.float64(shifted_literal(3))
        y[2] = shifted_one(wp.uint32(2))
        y[3] = wp.float64(root_in_single(wp.float64(2.0)))

    y = np.zeros(4)
    all_of.interpret(y, dim=1)
    assert y.tolist() == [-2.0, -3.0, -4.0, float(np.sqrt(np.float32(2.0)))]


@wp.func_native("return x < y;")
def less_of_signs(x: int, y: wp.uint32) -> bool: ...


@wp.func_native("return x > 1u;")
def more_than_unsigned(x: int, y: wp.uint32) -> bool: ...


@wp.func_native("return fabs(x) < 2.5f;")
def size_of_integer(x: int, y: wp.uint32) -> bool: ...


@wp.func_native("return ~(x < 3);")
def complement_of_bool(x: int, y: wp.uint32) -> bool: ...


@wp.func_native("return y + 3000000000 > 0;")
def wide_literal(x: int, y: wp.uint32) -> bool: ...


@pytest.mark.parametrize(
    "function", [less_of_signs, more_than_unsigned, size_of_integer, complement_of_bool, wide_literal]
)
def test_numbers_that_c_converts_first_are_refused(function):
    """C computes these in another type, with another result."""

    @wp.kernel
    def called(y: wp.array[wp.uint32]):
        y[0] = wp.uint32(function(int(y[0]), y[0]))

    with pytest.raises(KernelTypeError):
        called.interpret(np.zeros(1, np.uint32), dim=1)
