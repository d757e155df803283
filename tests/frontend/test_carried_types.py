"""Gradients of loops that carry a number of one type and read numbers of others: each has its cotangent's own type."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp


@wp.kernel
def single_carried(v: wp.array[wp.float32], a: wp.array[wp.float64], h: wp.array[wp.float16], n: int,
                   out: wp.array[wp.float32]):  # fmt: skip
    i = wp.tid()
    u = v[i]
    factor = a[i]
    half = h[i]
    for _ in range(n):
        u = wp.float32(wp.sin(wp.float64(u) * factor)) + wp.float32(half) * u
    out[i] = u


@wp.kernel
def double_carried(v: wp.array[wp.float64], a: wp.array[wp.float32], h: wp.array[wp.float16], n: int,
                   out: wp.array[wp.float64]):  # fmt: skip
    i = wp.tid()
    u = v[i]
    factor = a[i]
    half = h[i]
    k = 0
    while u < 5.0 and k < n:
        w = wp.float32(u) * factor
        u = wp.float64(w) + wp.float64(wp.float32(half) * wp.float32(u)) if w > 0.3 else u * wp.float64(1.5)
        k += 1
    out[i] = u


def single_by_jax(v, a, h, n):
    for _ in range(n):
        v = jnp.sin(v * a) + h * v
    return v


def double_by_jax(v, a, h, n):
    for _ in range(n):
        v = jnp.where(v < 5, jnp.where(v * a > 0.3, v * a + h * v, v * 1.5), v)
    return v


CASES = [
    (single_carried, single_by_jax, (np.float32, np.float64, np.float16)),
    (double_carried, double_by_jax, (np.float64, np.float32, np.float16)),
]


@pytest.mark.parametrize(("kernel", "by_jax", "dtypes"), CASES, ids=["single", "double"])
@pytest.mark.parametrize("iterations", [0, 1, 7])
def test_gradients_have_the_types_of_what_they_belong_to(kernel, by_jax, dtypes, iterations):
    with jax.enable_x64(True):
        # Numbers that half precision has.
        numbers = np.array([[0.25, 0.5, 0.75], [0.5, 0.625, 0.875], [0.5, 0.25, 0.375]])
        given = tuple(jnp.asarray(x, d) for x, d in zip(numbers, dtypes, strict=True))
        call = wp.jax_kernel(kernel)
        found = jax.grad(lambda *x: call(*x, iterations)[0].sum(), (0, 1, 2))(*given)
        expected = jax.grad(lambda *x: by_jax(*x, iterations).sum(), (0, 1, 2))(*map(jnp.asarray, numbers))
        assert [g.dtype for g in found] == [np.dtype(d) for d in dtypes]
        for g, e, dtype in zip(found, expected, dtypes, strict=True):
            np.testing.assert_allclose(np.asarray(g, float), e, rtol=2e-3 if dtype is np.float16 else 1e-5)
