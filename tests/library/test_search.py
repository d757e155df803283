"""Searches beside NumPy's, and counts of bits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp


@wp.kernel
def places(a: wp.array[wp.Scalar], values: wp.array[wp.Scalar], first: wp.array[int], part: wp.array[int]):
    i = wp.tid()
    first[i] = wp.lower_bound(a, values[i])
    part[i] = wp.lower_bound(a, 1, 4, values[i])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.uint8])
def test_lower_bound(dtype):
    a = np.array([0, 2, 2, 3, 7, 7, 9], dtype)
    values = np.array([0, 1, 2, 3, 4, 7, 8, 9, 10], dtype)
    run = wp.jax_kernel(places, num_outputs=2, launch_dims=len(values), output_dims=len(values))
    first, part = run(a, values)
    np.testing.assert_array_equal(first, np.searchsorted(a, values))
    np.testing.assert_array_equal(part, 1 + np.searchsorted(a[1:4], values))
    many = jax.vmap(run, in_axes=(None, 0))(a, jnp.stack([values, values[::-1]]))[0]
    np.testing.assert_array_equal(many, [np.searchsorted(a, values), np.searchsorted(a, values[::-1])])


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_lower_bound_of_special_numbers(dtype):
    """The first element that is not below the value: nothing is below NaN, and NaN is below nothing."""
    nan, inf = np.nan, np.inf
    a = np.array([-inf, -0.0, 0.0, 1.0, inf, nan, nan], dtype)
    values = np.array([-inf, -1.0, 0.0, -0.0, 1.0, 2.0, inf, nan], dtype)
    expected = [next(i for i, x in enumerate(a) if not x < v) for v in values]
    first, _ = wp.jax_kernel(places, num_outputs=2, launch_dims=len(values), output_dims=len(values))(a, values)
    np.testing.assert_array_equal(first, expected)


def test_lower_bound_in_an_array_without_elements():
    @wp.kernel
    def place(a: wp.array[float], out: wp.array[int]):
        out[0] = wp.lower_bound(a, 1.0)

    (found,) = wp.jax_kernel(place, launch_dims=1, output_dims=1)(np.zeros(0, np.float32))
    assert found == 0


@wp.kernel
def taken(a: wp.array[float], x: wp.array[float], y: wp.array[float]):
    """A piecewise linear function, by a search for the piece."""
    i = wp.tid()
    k = wp.min(wp.max(wp.lower_bound(a, x[i]), 1), a.shape[0] - 1)
    t = (x[i] - a[k - 1]) / (a[k] - a[k - 1])
    y[i] = wp.lerp(float(k - 1), float(k), t)


def test_derivatives_go_around_a_search():
    a, x = jnp.array([0.0, 1.0, 3.0, 7.0]), jnp.array([0.5, 2.0, 4.0])
    run = wp.jax_kernel(taken, launch_dims=3, output_dims=3)
    slopes = jax.grad(lambda x: run(a, x)[0].sum())(x)
    np.testing.assert_allclose(slopes, [1.0, 0.5, 0.25], rtol=1e-6)
    value, tangent = jax.jvp(lambda x: run(a, x)[0], (x,), (jnp.ones(3),))
    np.testing.assert_allclose(value, jnp.interp(x, a, jnp.arange(4.0)), rtol=1e-6)
    np.testing.assert_allclose(tangent, slopes, rtol=1e-6)


@wp.kernel
def counts(x: wp.array[wp.Int], n: wp.array[int]):
    i = wp.tid()
    n[i] = wp.bit_count(x[i])


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.uint32])
def test_bit_count(dtype):
    x = np.array([0, 1, 3, 127, -1 if np.issubdtype(dtype, np.signedinteger) else 255], dtype)
    np.testing.assert_array_equal(wp.jax_kernel(counts)(x)[0], np.bitwise_count(x.view(f"u{x.itemsize}")))
