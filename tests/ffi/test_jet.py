"""`jax.experimental.jet` of launches, beside that of the same function in jax.numpy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.jet import jet

import jaxwarp as wp


@wp.kernel
def bend(x: wp.array[float], n: wp.array[int], c: float, y: wp.array[float], m: wp.array[int]):
    i = wp.tid()
    y[i] = c * wp.sin(x[i]) * x[i] + float(n[i]) * x[i] * x[i]
    m[i] = n[i] + 1


@wp.kernel
def accumulate(x: wp.array[float], total: wp.array[float]):
    wp.atomic_add(total, 0, wp.exp(x[wp.tid()]))


def bend_in_jax(x, n, c):
    return c * jnp.sin(x) * x + n.astype(x.dtype) * x * x, n + 1


X = jnp.asarray([0.3, -0.7, 1.1], jnp.float32)
N = jnp.asarray([2, 0, -1], jnp.int32)
SERIES = [jnp.asarray(s, jnp.float32) for s in ([1.0, 0.5, -1.0], [0.0, 2.0, 1.0], [0.3, 0.0, 0.0], [1.0, 1.0, 1.0])]
TERMS_OF_C = [jnp.float32(0.5), jnp.float32(-1.0), jnp.float32(0.0), jnp.float32(2.0)]


@pytest.mark.parametrize("order", [1, 2, 4])
def test_derivatives_along_a_path(order):
    launched = wp.jax_kernel(bend, num_outputs=2)
    primals, series = (X, jnp.float32(0.7)), (SERIES[:order], TERMS_OF_C[:order])
    # The integers of jax.numpy have no series: JAX cannot add 1 to them here.
    found, expected = (
        jax.jit(lambda *given, f=f: jet(lambda x, c: f(x, N, c)[0], *given))(primals, series)
        for f in (launched, bend_in_jax)
    )
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-5)


def test_of_what_is_updated_under_vmap():
    launched = wp.jax_kernel(accumulate, in_out_argnames=["total"], launch_dims=3)

    def along(x):
        return jet(lambda x: launched(x, jnp.ones(1))[0][0], (x,), (SERIES[:3],))

    many = jnp.stack([X, 2 * X])
    for k, x in enumerate(many):
        value, terms = jet(lambda x: 1 + jnp.exp(x).sum(), (x,), (SERIES[:3],))
        ours, our_terms = jax.vmap(along)(many)
        np.testing.assert_allclose(ours[k], value, rtol=1e-5)
        np.testing.assert_allclose([t[k] for t in our_terms], terms, rtol=1e-5)
