"""Inverses of the error functions beside SciPy's, in all float types, with derivatives of two orders."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

import jaxwarp as wp


@wp.kernel
def inverses(x: wp.array[wp.Float], y: wp.array[wp.Float], z: wp.array[wp.Float], w: wp.array[wp.Float]):
    i = wp.tid()
    z[i] = wp.erfinv(x[i])
    w[i] = wp.erfcinv(y[i])


def ulps(got, expected):
    """The largest difference in units of the last place; ends and NaN must be the same."""
    eps = float(jnp.finfo(expected.dtype).eps)
    got, expected = np.asarray(got, np.float64), np.asarray(expected, np.float64)
    ends = ~np.isfinite(expected)
    np.testing.assert_array_equal(got[ends], expected[ends])
    got, expected = got[~ends], expected[~ends]
    unit = eps * 2.0 ** np.floor(np.log2(np.maximum(np.abs(expected), 1e-30)))
    return np.max(np.abs(got - expected) / unit)


@pytest.mark.parametrize(("dtype", "limit"), [(np.float16, 1), (jnp.bfloat16, 1), (np.float32, 2), (np.float64, 12)])
def test_accuracy(dtype, limit):
    ends = [-1.0, 1.0, -1.5, 1.5, np.nan, 0.0, 1e-7, -0.5, 0.5]
    x = np.concatenate([np.linspace(-1, 1, 2001), 1 - 2.0 ** -np.arange(1, 24), ends]).astype(dtype)
    y = np.concatenate([np.linspace(0, 2, 2001), 10.0 ** -np.arange(1, 24), 1 + np.array(ends)]).astype(dtype)
    with jax.enable_x64(True):
        z, w = wp.jax_kernel(inverses, num_outputs=2)(x, y)
    assert z.dtype == dtype
    assert ulps(z, special.erfinv(x.astype(np.float64)).astype(dtype)) <= limit
    assert ulps(w, special.erfcinv(y.astype(np.float64)).astype(dtype)) <= limit


def test_small_arguments_of_the_complement():
    y = 10.0 ** -np.arange(5, 300, 7.3)
    with jax.enable_x64(True):
        _, w = wp.jax_kernel(inverses, num_outputs=2)(y, y)
    np.testing.assert_allclose(w, special.erfcinv(y), rtol=1e-14)


def total_slope(function):
    return lambda x: jax.grad(function)(x).sum()


@pytest.mark.parametrize("order", [1, 2])
def test_derivatives(order):
    run = wp.jax_kernel(inverses, num_outputs=2)

    def direct(x):
        return run(x, 1.0 + x)[0].sum()

    def complement(x):
        return run(x, 1.0 + x)[1].sum()

    with jax.enable_x64(True):
        x = jnp.array([-0.95, -0.4, 0.0, 0.2, 0.5, 0.9])
        z = special.erfinv(np.asarray(x))
        first = np.sqrt(np.pi) / 2 * np.exp(z * z)
        expected = first if order == 1 else 2 * z * first**2
        for function, sign in ((direct, 1.0), (complement, -1.0)):
            value = function if order == 1 else total_slope(function)
            np.testing.assert_allclose(jax.grad(value)(x), sign * expected, rtol=1e-12, atol=1e-14)
            _, pushed = jax.jvp(value, (x,), (jnp.ones_like(x),))
            np.testing.assert_allclose(pushed, sign * expected.sum(), rtol=1e-12, atol=1e-14)


def test_of_a_literal():
    @wp.kernel
    def median(out: wp.array[float]):
        out[0] = wp.erfinv(0.5) + wp.erfcinv(0.5)

    np.testing.assert_allclose(
        wp.jax_kernel(median, output_dims=1)(launch_dims=1)[0], 2 * special.erfinv(0.5), rtol=1e-6
    )


@pytest.mark.parametrize("dtype", [wp.float16, wp.float32, wp.float64])
def test_there_is_none_beside_the_range(dtype):
    @wp.kernel
    def inverses(x: wp.array[dtype], a: wp.array[dtype], b: wp.array[dtype]):
        i = wp.tid()
        a[i] = wp.erfinv(x[i])
        b[i] = wp.erfcinv(x[i])

    info = np.finfo(dtype.numpy)
    tiny, two = info.tiny, np.nextafter(dtype.numpy.type(2), dtype.numpy.type(3))  # 1 + tiny is 1
    x = np.array([-tiny, -0.0, 0.0, 1.0, -1.0, 2.0, two, -two, np.inf, np.nan], dtype.numpy)
    a, b = np.zeros_like(x), np.zeros_like(x)
    wp.launch(inverses, len(x), [x, a, b])
    inf, nan = np.inf, np.nan
    np.testing.assert_array_equal(a[1:], [0.0, 0.0, inf, -inf, nan, nan, nan, nan, nan])
    np.testing.assert_array_equal(b, [nan, inf, inf, 0.0, nan, -inf, nan, nan, nan, nan])


def test_zeros_of_both_signs_outside_of_kernels():
    """They are equal, and what was compiled for one is not what the other one needs."""
    assert [str(float(wp.erfinv(zero))) for zero in (0.0, -0.0, 0.0)] == ["0.0", "-0.0", "0.0"]
