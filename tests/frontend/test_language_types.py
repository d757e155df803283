"""Types as values, tuples of any length, enumerations, `math`, and options of `@func`."""

from __future__ import annotations

import enum
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from language import define, outputs

import jaxwarp as wp
from jaxwarp.errors import KernelError, KernelTypeError
from jaxwarp.ir.nodes import If, walk


class Mode(enum.IntEnum):
    FAST = 1
    EXACT = 2


class Flag(enum.IntFlag):
    A = 1
    B = 2
    C = 4


@wp.func
def kind(x: Any):
    if type(x) == wp.float32:  # noqa: E721
        return 1
    if type(x) is wp.int32:
        return 2
    if type(x) is not wp.vec3 and x.dtype != float:
        return 3
    return 4


@wp.kernel
def kinds(x: wp.array[float], n: int, out: wp.array[int]):
    out[0] = kind(x[0])
    out[1] = kind(n)
    out[2] = kind(wp.vec2i(1))
    out[3] = kind(wp.vec3(1.0))
    out[4] = 1 if x.dtype == wp.float32 else 2


def test_types_are_compared_when_the_kernel_is_lowered():
    assert outputs(kinds, 1, [0.0], 0, [0] * 5).tolist() == [1, 2, 3, 4, 1]
    assert not any(isinstance(op, If) for op in walk(kinds.specialize().body))


@pytest.mark.parametrize("test", ["type(n) < float", "type(n) == 1", "n is float"])
def test_types_have_no_order_and_are_no_numbers(test):
    with pytest.raises(KernelError):
        define(f"@wp.kernel\ndef k(n: int):\n    if {test}:\n        n = 2\n")["k"].specialize()


@wp.kernel
def made_types(x: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    zeros = wp.types.vector(length=3, dtype=float)
    zeros[0] = x[i]
    maker = wp.types.vector(length=2, dtype=float)
    pair = maker(1.0, x[i])
    sums = wp.types.vector(x[i], 2.0) + wp.types.vector(1.0, length=2)
    wide = wp.types.vector(sums, dtype=wp.float64)
    square = wp.types.matrix(shape=(2, 2), dtype=float)
    square[1, 1] = 4.0
    halves = wp.types.matrix(0.5, shape=(2, 3))
    own = wp.zeros(2, dtype=wp.types.vector(length=2, dtype=float))
    own[1] = pair
    out[i] = zeros[0] + pair[1] + sums[1] + float(wide[0]) + square[1, 1] + halves[1, 2] + own[1][1]


def test_a_type_that_is_made_is_its_zeros_and_can_be_called():
    expected = [x + x + 3.0 + (x + 1.0) + 4.0 + 0.5 + x for x in (1.0, 2.0)]
    assert outputs(made_types, 2, [1.0, 2.0], [0.0, 0.0]).tolist() == expected
    assert jax.grad(lambda x: wp.jax_kernel(made_types)(x)[0].sum())(jnp.ones(2)).tolist() == [4.0, 4.0]


@wp.func
def total(values: tuple[float, ...]):
    result = float(0.0)  # noqa: UP018
    for v in values:
        result += v
    return result


@wp.func
def first_and_count(values: Any) -> tuple[float, int]:
    return values[0], wp.static(len(values))


@wp.kernel
def of_tuples(x: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    pair = (x[i], 2.0)
    a, b = pair
    b, a = a, b
    (c, d), e = (a, (b, a)), pair
    first, count = first_and_count((b, 1, pair))
    out[i] = total((x[i], 2.0, 3.0)) + total((x[i],)) + 10.0 * a + 100.0 * b + c + d[0] + e[1] + first + float(count)


def test_tuples_of_any_length_swaps_and_nesting():
    expected = [x + 5 + x + 20 + 100 * x + 2 + x + 2 + x + 3 for x in (1.0, 3.0)]
    assert outputs(of_tuples, 2, [1.0, 3.0], [0.0, 0.0]).tolist() == expected
    assert jax.grad(lambda x: wp.jax_kernel(of_tuples)(x)[0].sum())(jnp.ones(1)).tolist() == [104.0]


def test_a_tuple_of_other_elements_is_refused():
    with pytest.raises(KernelTypeError, match=r"argument values is a tuple of 2, expected tuple\[float32, ...\]"):
        define(
            "@wp.func\ndef f(values: tuple[float, ...]):\n    return values[0]\n"
            "@wp.kernel\ndef k(n: int):\n    x = f((1.0, n))\n"
        )["k"].specialize()


def test_a_static_expression_has_no_elements_of_a_tuple_that_is_known_later():
    source = "@wp.kernel\ndef k(n: int, out: wp.array[int]):\n    t = (n, 2)\n    out[0] = wp.static({})\n"
    assert outputs(define(source.format("len(t) + t[1]"))["k"], 1, 7, [0]).tolist() == [4]
    with pytest.raises(KernelError, match="static: the expression"):
        define(source.format("t[0]"))["k"].specialize()


@wp.kernel
def enumerations(flags: wp.array[int], out: wp.array[int]):
    i = wp.tid()
    mode = Mode.EXACT
    out[i] = 100 * Mode.FAST + Mode.EXACT.value + wp.static(Flag.B.value) + int(Flag.A)
    if flags[i] & Flag.C:
        out[i] += 1000
    if mode == Mode.EXACT:
        out[i] += 10000


def test_enumerations_are_their_values():
    assert outputs(enumerations, 2, [4, 3], [0, 0]).tolist() == [11105, 10105]


@wp.kernel
def of_math(x: wp.array[wp.float64], out: wp.array[wp.float64]):
    i = wp.tid()
    y = math.sin(x[i]) * math.exp(-x[i]) + math.sqrt(x[i]) + math.atan2(x[i], math.pi)
    if math.isfinite(y) and not math.isnan(y):
        y += math.floor(x[i]) + math.log(x[i]) * math.tau
    out[i] = y


def test_functions_and_constants_of_math():
    x = np.array([0.5, 2.25])
    got = outputs(of_math, 2, x, np.zeros(2))
    for value, found in zip(x, got, strict=True):
        y = math.sin(value) * math.exp(-value) + math.sqrt(value) + math.atan2(value, math.pi)
        assert math.isclose(found, y + math.floor(value) + math.log(value) * math.tau, rel_tol=1e-12)
    with pytest.raises(KernelTypeError, match=r"math\.gcd is a Python function"):
        define("import math\n@wp.kernel\ndef k(n: int):\n    n = math.gcd(n, 2)\n")["k"].specialize()


@wp.func
def applied(f: wp.Function, x: float):
    return f(x) * x


@wp.kernel
def gradients(x: wp.array[float], out: wp.array2d[float]):
    i = wp.tid()
    out[i, 0] = wp.grad(applied)(wp.sin, x[i])
    out[i, 1] = wp.grad(applied)(f=wp.exp, x=x[i])


def test_a_gradient_of_a_function_of_functions():
    x = jnp.array([0.5, 1.5])
    (got,) = wp.jax_kernel(gradients, output_dims=(2, 2))(x)
    expected = [jax.vmap(jax.grad(lambda x, f=f: f(x) * x))(x) for f in (jnp.sin, jnp.exp)]
    np.testing.assert_allclose(got.T, expected, rtol=2e-6)


def test_bools_have_an_order():
    @wp.kernel
    def k(x: wp.array[int], out: wp.array[int]):
        i = wp.tid()
        a, b = x[i] > 1, x[i] % 2 == 1
        out[i] = int(a < b) + 2 * int(a <= b) + 4 * int(a > b) + 8 * int(a >= b) + 16 * int((1 < 2) < a)

    order = lambda a, b: (a < b) + 2 * (a <= b) + 4 * (a > b) + 8 * (a >= b)  # noqa: E731
    expected = [order(x > 1, x % 2 == 1) for x in range(4)]
    assert outputs(k, 4, [0, 1, 2, 3], [0] * 4).tolist() == expected


def test_a_long_loop_whose_index_is_in_a_static_expression_is_unrolled():
    @wp.kernel
    def k(x: wp.array[float], out: wp.array[float]):
        i = wp.tid()
        for j in range(30):
            if wp.static(j % 3 != 0):
                continue
            out[i] += float(j) * x[i]

    assert outputs(k, 1, [2.0], [0.0]).tolist() == [2.0 * sum(range(0, 30, 3))]


def test_inline():
    @wp.func(inline=False)
    def twice(x: float):
        return 2.0 * x

    @wp.kernel(module="unique", enable_backward=False)
    def k(x: wp.array[float]):
        x[0] = twice(x[0])

    assert outputs(k, 1, [3.0]).tolist() == [6.0]
    with pytest.raises(TypeError, match="inline must be a bool, got 1"):
        wp.func(inline=1)


def test_modules_are_names_of_options():
    mine = wp.Module("mine_of_this_test")

    @wp.kernel(module=mine)
    def k(x: wp.array[float]):
        for j in range(4):
            x[j] = 1.0

    assert k.module == mine == wp.get_module("mine_of_this_test")
    assert mine.options["enable_backward"] is True
    mine.options["max_unroll"] = 0
    mine.load()
    assert "for " in k.source("ir")
    assert mine.options["max_unroll"] == 0
    assert wp.get_module_options(mine)["max_unroll"] == 0


def test_sizes_of_types():
    types = [float, bool, wp.float16, wp.vec3, wp.vec3h, wp.mat22d, wp.quat, wp.transform]
    assert [wp.types.type_size(t) for t in types] == [1, 1, 1, 3, 3, 4, 4, 7]
    assert [wp.types.type_size_in_bytes(t) for t in types] == [4, 1, 2, 12, 6, 32, 16, 28]
    for wrong in (str, Any, wp.types.vector(Any, float)):
        with pytest.raises(KernelTypeError):
            wp.types.type_size(wrong)
    with pytest.raises(KernelTypeError, match=r"^type_size_in_bytes: expected a type that is not generic"):
        wp.types.type_size_in_bytes(wp.types.vector(3, Any))
