"""Matrices from triplets, and their products with vectors: as dense ones are, on both faces."""

from __future__ import annotations

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from sparsekit import SHAPES, dense, numpy, random_triplets, triplets

import jaxwarp as wp
from jaxwarp import sparse

FACES = ["matrix", "value"]


def vector(t, count, seed=1):
    return np.random.default_rng(seed).integers(-3, 4, count).astype(t.values.dtype)


@hypothesis.given(triplets())
@hypothesis.settings(max_examples=30, deadline=None)
def test_from_triplets(t):
    for made in t.both:
        np.testing.assert_array_equal(dense(made), t.dense)
        inside = (t.rows >= 0) & (t.rows < t.nrow) & (t.columns >= 0) & (t.columns < t.ncol)
        kept = inside & np.array([v.any() for v in t.values], bool)
        assert made.nnz == len(t.rows)
        assert made.nnz_sync() == len(set(zip(t.rows[kept], t.columns[kept], strict=True)))


@pytest.mark.parametrize("face", FACES)
def test_zeros_are_kept_if_asked_for(face):
    t = random_triplets(block=(2, 3))
    given = t.outside() if face == "matrix" else (t.rows, t.columns, t.values)
    made = sparse.bsr_from_triplets(t.nrow, t.ncol, *given, prune_numerical_zeros=False)
    inside = (t.rows >= 0) & (t.rows < t.nrow) & (t.columns >= 0) & (t.columns < t.ncol)
    assert made.nnz_sync() == len(set(zip(t.rows[inside], t.columns[inside], strict=True)))
    np.testing.assert_array_equal(dense(made), t.dense)


@pytest.mark.parametrize("face", FACES)
def test_matrices_of_more_than_32_bits_of_places(face):
    t = random_triplets(nrow=7, ncol=5, count=50)
    wide = t._replace(nrow=100_000, ncol=90_000)
    small, large = (getattr(x, face) for x in (t._replace(nrow=9, ncol=7), wide))
    count = large.nnz_sync()
    assert count == small.nnz_sync()
    for name in ("columns", "values"):
        np.testing.assert_array_equal(numpy(getattr(large, name))[:count], numpy(getattr(small, name))[:count])
    np.testing.assert_array_equal(numpy(large.offsets)[:9], numpy(small.offsets)[:9])


@hypothesis.given(triplets())
@hypothesis.settings(max_examples=30, deadline=None)
def test_products(t):
    x, y = vector(t, t.dense.shape[1]), vector(t, t.dense.shape[0], seed=2)
    with jax.enable_x64(True):
        for a, right, left in ((t.matrix, wp.array(x), wp.array(y)), (t.value, jnp.asarray(x), jnp.asarray(y))):
            np.testing.assert_array_equal(numpy(a @ right).ravel(), t.dense @ x)
            np.testing.assert_array_equal(numpy(left @ a).ravel(), y @ t.dense)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize(("alpha", "beta"), [(2.0, 0.0), (-1.0, 1.0), (0.0, 3.0), (0.5, -2.0), (0.0, 0.0)])
def test_factors(shape, transpose, alpha, beta):
    t = random_triplets(block=shape)
    of = t.dense.T if transpose else t.dense
    x, y = vector(t, of.shape[1]), vector(t, of.shape[0], seed=2)
    out = wp.array(y)
    assert sparse.bsr_mv(t.matrix, wp.array(x), out, alpha, beta, transpose) is out
    np.testing.assert_array_equal(out.numpy(), alpha * of @ x + beta * y)
    found = sparse.bsr_mv(t.value, x, y, alpha, beta, transpose)
    np.testing.assert_array_equal(found, alpha * of @ x + beta * y)


def test_what_has_the_factor_zero_is_not_read():
    t = random_triplets()
    out = wp.full(t.nrow, np.nan, dtype=float)
    sparse.bsr_mv(t.matrix, wp.ones(t.ncol, dtype=float), out)
    np.testing.assert_array_equal(out.numpy(), t.dense.sum(1))
    sparse.bsr_mv(t.matrix, wp.full(t.ncol, np.nan, dtype=float), out, alpha=0.0, beta=2.0)
    np.testing.assert_array_equal(out.numpy(), 2 * t.dense.sum(1))
    x, y = np.full(t.ncol, np.nan, np.float32), np.ones(t.nrow, np.float32)
    np.testing.assert_array_equal(sparse.bsr_mv(t.value, x, y, 0.0, 2.0), 2 * y)
    for zero in (0, 0.0, np.float32(0)):
        out = sparse.bsr_mv(t.value, np.ones(t.ncol, np.float32), np.nan * y, beta=zero)
        np.testing.assert_array_equal(out, t.dense.sum(1))


@pytest.mark.parametrize("transpose", [False, True])
def test_a_vector_that_is_its_own_product(transpose):
    t = random_triplets(nrow=6, ncol=6, block=(2, 2))
    x = vector(t, 12)
    y = wp.array(x)
    sparse.bsr_mv(t.matrix, y, y, alpha=2.0, beta=-1.0, transpose=transpose)
    of = t.dense.T if transpose else t.dense
    np.testing.assert_array_equal(y.numpy(), 2 * of @ x - x)


def test_shapes_of_vectors():
    t = random_triplets(block=(2, 3))
    a, x = t.matrix, vector(t, 15)
    for given in (wp.array(x), wp.array(x.reshape(5, 3)), wp.array(x.reshape(5, 3), dtype=wp.vec3)):
        y = a @ given
        assert (y.shape, y.dtype) == ((7,), wp.vec2)
        np.testing.assert_array_equal(y.numpy().ravel(), t.dense @ x)
    assert (t.value @ x).shape == (14,)
    assert (t.value @ x.reshape(5, 3)).shape == (7, 2)


# Transformations of JAX


@pytest.mark.parametrize("shape", [None, (2, 3), (9, 8)])
@pytest.mark.parametrize("transpose", [False, True])
def test_transformations(shape, transpose):
    t = random_triplets(block=shape)
    a, of = t.value, t.dense.T if transpose else t.dense
    x = np.stack([vector(t, of.shape[1], seed=i) for i in range(3)])
    product = jax.jit(lambda a, x: sparse.bsr_mv(a, x, transpose=transpose))
    np.testing.assert_array_equal(product(a, x[0]), of @ x[0])
    np.testing.assert_array_equal(jax.vmap(product, in_axes=(None, 0))(a, x), x @ of.T)
    _, found = jax.lax.scan(lambda c, x: (c, product(a, x)), None, x)
    np.testing.assert_array_equal(found, x @ of.T)
    many = jax.vmap(lambda s: jax.tree.map(lambda leaf: leaf * s if leaf.dtype == np.float32 else leaf, a))(x[:, 0])
    np.testing.assert_array_equal(jax.vmap(product)(many, x), (x @ of.T) * x[:, :1])


@pytest.mark.parametrize("shape", [None, (2, 3)])
@pytest.mark.parametrize("transpose", [False, True])
def test_derivatives(shape, transpose):
    t = random_triplets(block=shape, dtype=np.float64)
    width = t.dense.shape[0 if transpose else 1]

    @jax.jit
    def product(values, x):
        a = sparse.bsr_from_triplets(t.nrow, t.ncol, t.rows, t.columns, values, prune_numerical_zeros=False)
        return sparse.bsr_mv(a, x, transpose=transpose)

    with jax.enable_x64(True):
        check_grads(product, (t.values, vector(t, width)), order=2)


def test_gradients_of_a_tape():
    t = random_triplets(block=(2, 3))
    rows, columns, values = t.outside(requires_grad=True)
    x = wp.array(vector(t, 15), requires_grad=True)
    with wp.Tape() as tape:
        y = sparse.bsr_from_triplets(t.nrow, t.ncol, rows, columns, values) @ x
    g = np.arange(14, dtype=np.float32)
    tape.backward(grads={y: wp.array(g.reshape(7, 2), dtype=wp.vec2)})

    def loss(values, x):
        return (sparse.bsr_from_triplets(t.nrow, t.ncol, t.rows, t.columns, values) @ x) @ g

    by_values, by_x = jax.grad(loss, argnums=(0, 1))(t.values, vector(t, 15))
    np.testing.assert_array_equal(values.grad.numpy(), by_values)
    np.testing.assert_array_equal(x.grad.numpy(), by_x)
    np.testing.assert_array_equal(x.grad.numpy(), t.dense.T @ g)


# What does not fit


@pytest.mark.parametrize(
    ("what", "call"),
    {
        "Incompatible 'x' vector: expected 15 numbers, got an array of shape (14,)": lambda a, v: a @ v(14),
        "Incompatible 'y' vector: expected 14 numbers, got an array of shape (3,)": lambda a, v: sparse.bsr_mv(
            a, v(15), v(3)
        ),
        "Incompatible 'x' vector: expected numbers of float32, got float64": lambda a, v: a @ v(15, np.float64),
        "x: expected an array, got float": lambda a, _: sparse.bsr_mv(a, 1.0),
        "A: expected a BsrMatrix, got int": lambda _, v: sparse.bsr_mv(3, v(15)),
    }.items(),
)
def test_errors_of_products(what, call):
    t = random_triplets(block=(2, 3))
    with pytest.raises(wp.KernelError) as caught:
        call(t.matrix, lambda n, dtype=np.float32: wp.zeros(n, dtype=dtype))
    assert what in caught.value.message
