"""Derivatives by factors of sums and products of matrices, where these are 0 and terms could be left out."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sparsekit import dense, random_triplets

from jaxwarp import sparse


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def made(seed: int, block=None):
    t = random_triplets(seed, nrow=6, ncol=6, block=block, dtype=np.float64)
    return sparse.bsr_from_triplets(t.nrow, t.ncol, t.rows, t.columns, t.values)


def close(ours, theirs, *args):
    every = tuple(range(len(args)))
    along = jax.tree.map(jnp.ones_like, args)
    losses = [lambda *x, f=f: jnp.sum(jnp.sin(f(*x))) for f in (ours, theirs)]
    found, expected = (jax.jvp(jax.grad(f, every), args, along) for f in losses)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11), found, expected)


ZEROS = [(0.0, 0.0), (0.7, 0.0), (0.0, 0.5)]


@pytest.mark.parametrize("block", [None, (2, 2)])
@pytest.mark.parametrize("transpose", [False, True])
def test_products_with_vectors(block, transpose):
    A = made(0, block)
    full = dense(A).T if transpose else dense(A)
    rng = np.random.default_rng(0)
    shape = (6,) if block is None else (6, 2)
    x, y = jnp.asarray(rng.standard_normal(shape)), jnp.asarray(rng.standard_normal(shape))

    def ours(alpha, beta, x, y):
        return sparse.bsr_mv(A, x, y, alpha, beta, transpose)

    def theirs(alpha, beta, x, y):
        return alpha * (full @ x.ravel()).reshape(shape) + beta * y

    for alpha, beta in ZEROS:
        close(ours, theirs, jnp.array(alpha), jnp.array(beta), x, y)


def test_sums_and_products_of_matrices():
    A, B, C = made(0), made(1), made(2)
    a, b, c, x = *map(dense, (A, B, C)), np.random.default_rng(0).standard_normal(6)
    for factors in ZEROS:
        given = tuple(map(jnp.array, factors))
        sums = lambda s, t: sparse.bsr_mv(sparse.bsr_axpy(A, B, s, t), x)  # noqa: E731
        close(sums, lambda s, t: s * (a @ x) + t * (b @ x), *given)
        products = lambda s, t: sparse.bsr_mv(sparse.bsr_mm(A, B, C, s, t), x)  # noqa: E731
        close(products, lambda s, t: s * (a @ b @ x) + t * (c @ x), *given)
    close(lambda s: sparse.bsr_mv(sparse.bsr_scale(A, s), x), lambda s: s * (a @ x), jnp.array(0.0))
