"""Derivatives take the sides that the primal has taken, where the last bit decides: they round as it does.

Operands are such that a * b + c, rounded once or twice, is equal to d or next to it. Each kernel also leaves which
sides it took; a reference that takes the same gives the derivative. Where it has to be known which operand an atomic
has selected, the cotangent would be lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp

THREADS, TURNS = 1500, 70
Sides = np.ndarray  # by thread and iteration: 0 not there, 1, 2
Reference = Callable[[Any, Sides], Any]


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True):
        yield


def operands(dtype: Any, is_square: bool = False) -> list[np.ndarray]:
    """a, b, c, d with d = a * b + c, rounded once or twice, and x; or a, b and x alike."""
    rng = np.random.default_rng(5)
    kind = dtype.numpy
    a, b, c = (rng.uniform(-1.0, 1.0, THREADS).astype(kind) for _ in range(3))
    x = rng.uniform(0.5, 1.0, THREADS).astype(kind)
    if is_square:
        a = b = x
    once, twice = fused(dtype, a, b, c), a * b + c
    assert 0.02 < np.mean(once != twice) < 0.9
    d = np.where(rng.integers(0, 2, THREADS), once, twice)
    return [a, b, c, d, x]


def fused(dtype: Any, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    wide = np.float64 if dtype == wp.float32 else np.longdouble
    return (a.astype(wide) * b.astype(wide) + c.astype(wide)).astype(dtype.numpy)


def by_factor(x: Any, sides: Sides) -> Any:
    return jnp.where(sides[:, 0] == 1, 2.0, 3.0) * x


def plain(F: Any):
    @wp.kernel
    def kernel(
        a: wp.array[F], b: wp.array[F], c: wp.array[F], d: wp.array[F], x: wp.array[F],
        y: wp.array[F], sides: wp.array2d[int],
    ):  # fmt: skip
        i = wp.tid()
        if a[i] * b[i] + c[i] > d[i]:
            sides[i, 0] = 1
            y[i] = F(2.0) * x[i]
        else:
            y[i] = F(3.0) * x[i]

    return kernel, by_factor, {}


def also_stored(F: Any):
    """The product has another use, which no derivative has."""

    @wp.kernel
    def kernel(
        a: wp.array[F], b: wp.array[F], c: wp.array[F], d: wp.array[F], x: wp.array[F],
        y: wp.array[F], sides: wp.array2d[int], product: wp.array[F],
    ):  # fmt: skip
        i = wp.tid()
        p = a[i] * b[i]
        product[i] = p
        s = F(3.0)
        if p + c[i] > d[i]:
            sides[i, 0] = 1
            s = F(2.0)
        y[i] = s * x[i]

    return kernel, by_factor, {"product": THREADS}


def also_in_a_slope(F: Any):
    """The product has another use in derivatives only: that of the arc sine has the square of its argument."""

    @wp.kernel
    def kernel(
        a: wp.array[F], b: wp.array[F], c: wp.array[F], d: wp.array[F], x: wp.array[F],
        y: wp.array[F], sides: wp.array2d[int],
    ):  # fmt: skip
        i = wp.tid()
        s = F(3.0)
        if x[i] * x[i] - (-c[i]) > d[i]:
            sides[i, 0] = 1
            s = F(2.0)
        y[i] = s * wp.asin(x[i])

    return kernel, lambda x, sides: by_factor(jnp.arcsin(x), sides), {}


def recorded(F: Any):
    """Elements are read, needed and overwritten: one more launch records them."""

    @wp.kernel
    def kernel(
        a: wp.array[F], b: wp.array[F], c: wp.array[F], d: wp.array[F], x: wp.array[F],
        y: wp.array[F], sides: wp.array2d[int], w: wp.array2d[F],
    ):  # fmt: skip
        i = wp.tid()
        w[i, 0] = x[i]
        w[i, 1] = F(0.5)
        for k in range(wp.min(x.shape[0], 3)):
            at = k % 2
            if a[i] * b[i] + c[i] > d[i]:
                sides[i, k] = 1
                w[i, at] = F(2.0) * w[i, at] * w[i, 1 - at]
            else:
                sides[i, k] = 2
                w[i, at] = F(4.0) * w[i, at] * w[i, 1 - at]
        y[i] = w[i, 0] * w[i, 1]

    def reference(x: Any, sides: Sides) -> Any:
        w = [x, 0.5 + 0.0 * x]
        for k in range(3):
            w[k % 2] = jnp.where(sides[:, k] == 1, 2.0, 4.0) * w[0] * w[1]
        return w[0] * w[1]

    return kernel, reference, {"w": (THREADS, 2)}


def iterations(F: Any):
    """How often a loop iterations, and what it is kept of it."""

    @wp.kernel
    def kernel(
        a: wp.array[F], b: wp.array[F], c: wp.array[F], d: wp.array[F], x: wp.array[F],
        y: wp.array[F], sides: wp.array2d[int], product: wp.array[F],
    ):  # fmt: skip
        i = wp.tid()
        v = x[i]
        k = 0
        p = a[i] * b[i]
        product[i] = p
        while k < TURNS and not (k > 40 and p + c[i] > d[i]):
            sides[i, k] = 2
            if k % 3 == 1:
                sides[i, k] = 1
                v = F(1.25) * v
            v = v / (F(1.0) + F(0.1) * v * v)
            k += 1
        y[i] = v

    def reference(x: Any, sides: Sides) -> Any:
        for k in range(TURNS):
            v = jnp.where(sides[:, k] == 1, 1.25, 1.0) * x
            x = jnp.where(sides[:, k] == 0, x, v / (1.0 + 0.1 * v * v))
        return x

    return kernel, reference, {"product": THREADS}


def own_array(F: Any):
    """Arrays of a thread's own are values in the reverse sweep: what was loaded is a product."""

    @wp.kernel
    def kernel(
        a: wp.array[F], b: wp.array[F], c: wp.array[F], d: wp.array[F], x: wp.array[F],
        y: wp.array[F], sides: wp.array2d[int],
    ):  # fmt: skip
        i = wp.tid()
        t = wp.zeros(2, dtype=F)
        t[0] = a[i] * b[i]
        for k in range(2):
            t[1] = x[i] * F(k)
        s = F(3.0)
        if t[0] + c[i] > d[i]:
            sides[i, 0] = 1
            s = F(2.0)
        y[i] = s * t[1]

    return kernel, by_factor, {}


def accumulated(F: Any):
    """What is added to memory is rounded first, also where memory has become a value."""

    @wp.kernel
    def kernel(
        a: wp.array[F], b: wp.array[F], c: wp.array[F], d: wp.array[F], x: wp.array[F],
        y: wp.array[F], sides: wp.array2d[int], w: wp.array[F],
    ):  # fmt: skip
        i = wp.tid()
        w[i] = c[i]
        wp.atomic_add(w, i, a[i] * b[i])
        s = F(3.0)
        if w[i] > d[i]:
            sides[i, 0] = 1
            s = F(2.0)
        y[i] = s * x[i]

    return kernel, by_factor, {"w": THREADS}


def with_a_rule(F: Any):
    @wp.func
    def added(p: F, c: F):
        return p + c

    @wp.func_grad(added)
    def adj_added(p: F, c: F, adj_ret: F):
        wp.adjoint[p] += adj_ret * F(0.5)

    @wp.kernel
    def kernel(
        a: wp.array[F], b: wp.array[F], c: wp.array[F], d: wp.array[F], x: wp.array[F],
        y: wp.array[F], sides: wp.array2d[int],
    ):  # fmt: skip
        i = wp.tid()
        s = F(3.0)
        if added(a[i] * b[i], c[i]) > d[i]:
            sides[i, 0] = 1
            s = F(2.0)
        y[i] = s * x[i] + F(0.0) * added(x[i] * b[i], x[i])

    return kernel, by_factor, {}


def selected(F: Any):
    """An atomic's operand, computed again, is compared with what came out."""

    @wp.kernel
    def kernel(
        a: wp.array[F], b: wp.array[F], c: wp.array[F], d: wp.array[F], x: wp.array[F],
        y: wp.array[F], sides: wp.array2d[int], product: wp.array[F],
    ):  # fmt: skip
        i = wp.tid()
        p = a[i] * x[i]
        product[i] = p
        wp.atomic_max(y, i, p + b[i] * c[i] + F(8.0))
        wp.atomic_max(y, i, p + d[i])
        if p + b[i] * c[i] + F(8.0) < p + d[i]:
            sides[i, 0] = 1

    return kernel, None, {"product": THREADS}


MADE = [plain, also_stored, also_in_a_slope, recorded, iterations, own_array, accumulated, with_a_rule, selected]


def launched(make: Any, F: Any) -> tuple[Any, Any]:
    kernel, reference, others = make(F)
    dims = {"y": THREADS, "sides": (THREADS, TURNS), **others}
    return wp.jax_kernel(kernel, num_outputs=len(dims), output_dims=dims, launch_dims=THREADS), reference


@pytest.mark.parametrize("F", [wp.float32, wp.float64])
@pytest.mark.parametrize("make", MADE)
def test_derivatives_take_the_sides_of_the_primal(make, F):
    call, reference = launched(make, F)
    *given, x = operands(F, make is also_in_a_slope)
    y, sides = map(np.asarray, call(*given, x)[:2])

    def f(x: Any) -> Any:
        y = call(*given, x)[0]
        return jnp.sum(y), y

    (_, value), gradient = jax.value_and_grad(f, has_aux=True)(x)
    moved_value, moved = jax.jvp(lambda x: call(*given, x)[0], (x,), (np.ones_like(x),))
    values, slopes = [value, moved_value], [gradient, moved]
    if wp.float32 == F:
        (_, batch), rows = jax.vmap(jax.value_and_grad(f, has_aux=True))(np.stack([x, x]))
        values, slopes = [*values, *batch], [*slopes, *rows]
    if reference is None:
        expected = given[0]
    else:
        assert 0.02 < np.mean(sides[:, :2] == 1) < 0.98
        _, pull = jax.vjp(lambda x: reference(x, sides), x.astype(np.float64))
        (expected,) = pull(np.ones(THREADS))
    for found in values:
        np.testing.assert_array_equal(np.asarray(found), y)
    for found in slopes:
        np.testing.assert_allclose(found, expected, rtol=2e-4 if wp.float32 == F else 1e-9)


@pytest.mark.parametrize("make", [recorded, iterations, also_in_a_slope])
def test_second_derivatives_take_them_too(make):
    call, reference = launched(make, wp.float32)
    *given, x = operands(wp.float32, make is also_in_a_slope)
    _, sides = map(np.asarray, call(*given, x)[:2])
    _, found = jax.jvp(jax.grad(lambda x: jnp.sum(call(*given, x)[0] ** 2)), (x,), (x,))
    wide = x.astype(np.float64)
    _, expected = jax.jvp(jax.grad(lambda x: jnp.sum(reference(x, sides) ** 2)), (wide,), (wide,))
    np.testing.assert_allclose(found, expected, rtol=1e-3)


@wp.kernel
def sine(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = wp.sin(x[i])


def test_constants_that_only_a_derivative_knows_are_not_folded():
    """Machine code approximates a sine within its stated accuracy; NumPy, which folds, does so in another way."""
    numbers = np.random.default_rng(1).uniform(0.1, 1.5, 4000).astype(np.float32)
    (ours,) = wp.jax_kernel(sine)(numbers)
    folded = np.sin(numbers)
    c = [float(v) for v in numbers[np.asarray(ours) > folded][:16]]
    assert len(c) == 16

    @wp.kernel
    def kernel(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        t = wp.zeros(2, dtype=float)
        for k in range(16):
            t[0] = wp.static(c[k])
            for n in range(2 + i):
                t[1] = float(n)
            if wp.sin(t[0]) > wp.static(float(np.sin(np.float32(c[k])))):
                y[i] += t[1] * x[i]

    call = wp.jax_kernel(kernel, output_dims=3, launch_dims=3)
    x = np.array([0.5, 1.0, 2.0], np.float32)
    (y,) = call(x)
    np.testing.assert_array_equal(y, 16.0 * np.arange(1.0, 4.0, dtype=np.float32) * x)
    gradient = jax.grad(lambda x: call(x)[0].sum())(x)
    np.testing.assert_array_equal(gradient, 16.0 * np.arange(1.0, 4.0))
