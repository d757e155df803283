"""Decompositions and dense solutions in kernels: what they satisfy; derivatives beside differences and jax.numpy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp

M3, V3 = wp.array(dtype=wp.mat33d), wp.array(dtype=wp.vec3d)
M2, V2 = wp.array(dtype=wp.mat22d), wp.array(dtype=wp.vec2d)
D = wp.array(dtype=wp.float64)


@wp.kernel
def by_svd3(A: M3, U: M3, s: V3, V: M3):
    i = wp.tid()
    u, d, v = wp.svd3(A[i])
    U[i] = u
    s[i] = d
    V[i] = v


@wp.kernel
def by_svd2(A: M2, U: M2, s: V2, V: M2):
    i = wp.tid()
    u, d, v = wp.mat22d(), wp.vec2d(), wp.mat22d()
    wp.svd2(A[i], u, d, v)
    U[i] = u
    s[i] = d
    V[i] = v


@wp.kernel
def by_eig3(A: M3, Q: M3, d: V3):
    i = wp.tid()
    q, values = wp.eig3(A[i])
    Q[i] = q
    d[i] = values


@wp.kernel
def by_qr3(A: M3, Q: M3, R: M3):
    i = wp.tid()
    q, r = wp.mat33d(), wp.mat33d()
    wp.qr3(A[i], q, r)
    Q[i] = q
    R[i] = r


def transposed(m):
    return np.swapaxes(m, -1, -2)


CASES = {
    "svd3": (by_svd3, 3, 3, lambda u, s, v: u @ (s[..., None] * transposed(v))),
    "svd2": (by_svd2, 3, 2, lambda u, s, v: u @ (s[..., None] * transposed(v))),
    "eig3": (by_eig3, 2, 3, lambda q, d: q @ (d[..., None] * transposed(q))),
    "qr3": (by_qr3, 2, 3, lambda q, r: q @ r),
}


def matrices(name, size):
    """A random one; then equal values, none, one direction, a reflection, far apart ones."""
    special = [np.eye(size), np.zeros((size, size)), np.outer(np.arange(1.0, 1 + size), np.arange(3.0, 3 + size)),
               np.diag([1.0, -3.0, 2.0][:size]), np.diag([1e8, 1.0, 1e-8][:size])]  # fmt: skip
    found = np.stack([np.random.default_rng(0).normal(size=(size, size)), *special])
    return found + transposed(found) if name == "eig3" else found


@pytest.mark.parametrize("name", CASES)
def test_decompositions(name):
    kernel, results, size, product = CASES[name]
    with jax.enable_x64(True):
        A = matrices(name, size)
        found = [np.asarray(r) for r in jax.jit(wp.jax_kernel(kernel, num_outputs=results))(jnp.asarray(A))]
    scale = np.abs(A).max((1, 2), keepdims=True)
    assert (np.abs(product(*found) - A) <= 1e-14 * scale).all()
    for rotation in [m for m in found if m.ndim == 3 and name != "qr3"] + found[:1]:
        np.testing.assert_allclose(transposed(rotation) @ rotation, np.broadcast_to(np.eye(size), A.shape), atol=1e-14)
        np.testing.assert_allclose(np.linalg.det(rotation), 1.0)
    if name == "qr3":
        assert not np.tril(found[1], -1).any()
    elif name == "eig3":
        np.testing.assert_allclose(found[1], np.linalg.eigvalsh(A)[:, ::-1], atol=1e-14 * scale.max())
    else:
        np.testing.assert_allclose(np.abs(found[1]), np.linalg.svd(A)[1], atol=1e-13 * scale.max())


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e-80, 1e80, 1e150, 1e300])
def test_singular_values_of_small_and_large_matrices(size, scale):
    A = scale * np.random.default_rng(1).normal(size=(20, size, size))
    with jax.enable_x64(True):
        found = wp.jax_kernel(CASES[f"svd{size}"][0], num_outputs=3)(jnp.asarray(A))
        u, s, v = (np.asarray(r) for r in found)
    np.testing.assert_allclose(np.abs(s), np.linalg.svd(A)[1], rtol=0, atol=1e-14 * scale)
    np.testing.assert_allclose(u @ (s[..., None] * transposed(v)), A, rtol=0, atol=2e-14 * scale)


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e300])
def test_eigenvalues_of_small_and_large_matrices(scale):
    """Squares of entries that vanish or overflow once gave vectors of another matrix."""
    A = scale * np.random.default_rng(1).normal(size=(20, 3, 3))
    A = A + transposed(A)
    with jax.enable_x64(True):
        q, d = (np.asarray(r) for r in wp.jax_kernel(by_eig3, num_outputs=2)(jnp.asarray(A)))
    np.testing.assert_allclose(d, np.linalg.eigvalsh(A)[:, ::-1], rtol=0, atol=2e-14 * scale)
    np.testing.assert_allclose(q @ (d[..., None] * transposed(q)), A, rtol=0, atol=2e-14 * scale)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_rotations_of_small_and_large_matrices_by_qr3(scale):
    A = scale * np.random.default_rng(1).normal(size=(20, 3, 3))
    with jax.enable_x64(True):
        q, r = (np.asarray(x) for x in wp.jax_kernel(by_qr3, num_outputs=2)(jnp.asarray(A)))
    np.testing.assert_allclose(transposed(q) @ q, np.broadcast_to(np.eye(3), A.shape), atol=1e-14)
    np.testing.assert_allclose(q @ r, A, rtol=0, atol=2e-14 * scale)


@pytest.mark.parametrize("name", CASES)
def test_no_factor_of_a_matrix_with_nan_is_a_number(name):
    """U and V were finite beside values that were NaN, so U * transpose(V) was a rotation."""
    kernel, results, size, _ = CASES[name]
    A = np.stack([np.random.default_rng(2).normal(size=(size, size))] * size * size)
    A.reshape(size**2, -1)[np.diag_indices(size**2)] = np.nan
    A = A[np.isnan(A[..., 0]).any(-1)] if name == "qr3" else A  # Q does not depend on the last column
    with jax.enable_x64(True):
        found = wp.jax_kernel(kernel, num_outputs=results)(jnp.asarray(A))
    assert all(np.isnan(r).all() for r in (found[:1] if name == "qr3" else found))


@wp.kernel
def by_svd3_in_half(A: wp.array[wp.mat33h], U: wp.array[wp.mat33h], s: wp.array[wp.vec3h], V: wp.array[wp.mat33h]):
    i = wp.tid()
    u, sigma, v = wp.svd3(A[i])
    U[i] = u
    s[i] = sigma
    V[i] = v


def test_vectors_of_halves_are_orthogonal():
    """Rows of different size: squares that are no halves once gave a V that was no rotation."""
    rows = np.random.default_rng(0).normal(size=(200, 3, 3)) * np.array([1e-3, 1e-1, 1.0])[:, None]
    A = rows.astype(np.float16)
    found = wp.jax_kernel(by_svd3_in_half, num_outputs=3)(jnp.asarray(A))
    u, s, v = (np.asarray(r, np.float64) for r in found)
    for rotation in (u, v):
        np.testing.assert_allclose(transposed(rotation) @ rotation, np.broadcast_to(np.eye(3), A.shape), atol=2e-3)
    np.testing.assert_allclose(u @ (s[..., None] * transposed(v)), A, atol=4e-3)


@pytest.mark.parametrize("name", ["svd3", "svd2", "eig3"])
def test_diagonal_matrices_are_exact(name):
    kernel, results, size, _ = CASES[name]
    diagonal = np.array([49.0, 41.0, 7.0][:size])
    with jax.enable_x64(True):
        found = wp.jax_kernel(kernel, num_outputs=results)(jnp.asarray(np.diag(diagonal)[None]))
    for r in found:
        np.testing.assert_array_equal(r[0], np.eye(size) if np.ndim(r) == 3 else diagonal)


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name):
    kernel, results, size, _ = CASES[name]
    call, rng = wp.jax_kernel(kernel, num_outputs=results), np.random.default_rng(1)
    with jax.enable_x64(True):
        A = matrices(name, size)[:5]
        weights = [rng.normal(size=r.shape) for r in jax.eval_shape(call, jnp.asarray(A))]

        def loss(A):
            return sum(jnp.sum(r * w) for r, w in zip(call(A), weights, strict=True))

        primal, gradient = jax.jit(loss), jax.jit(jax.grad(loss))
        direction = np.zeros_like(A)
        direction[0] = rng.normal(size=(size, size))
        found, step = np.asarray(gradient(jnp.asarray(A))), 1e-5 * direction
        assert np.isfinite(found).all()
        difference = (primal(A + step) - primal(A - step)) / 2e-5
        np.testing.assert_allclose(np.sum(found * direction), difference, rtol=1e-6)
        tangent = jax.jit(lambda A: jax.jvp(loss, (A,), (jnp.asarray(direction),))[1])(jnp.asarray(A))
        np.testing.assert_allclose(tangent, difference, rtol=1e-6)
        second = jax.jit(lambda A: jax.jvp(jax.grad(loss), (A,), (jnp.asarray(direction),))[1])(jnp.asarray(A))
        differences = (np.asarray(gradient(A + step)) - np.asarray(gradient(A - step))) / 2e-5
        np.testing.assert_allclose(second[0], differences[0], rtol=1e-5, atol=1e-6)


def test_what_is_smooth_at_equal_values_keeps_its_derivative():
    """The nearest rotation U V^T has one where singular values are equal; so has the sum of the values."""
    call = wp.jax_kernel(by_svd3, num_outputs=3)
    weights = np.random.default_rng(2).normal(size=(3, 3))
    with jax.enable_x64(True):
        A = np.diag([2.0, 2.0, 2.0])[None]

        def polar(A):
            u, _, v = call(A)
            return jnp.sum((u @ jnp.swapaxes(v, -1, -2))[0] * weights)

        found = jax.grad(polar)(jnp.asarray(A))[0]
        np.testing.assert_allclose(found, (weights - weights.T) / 4.0, atol=1e-12)
        total = jax.grad(lambda A: jnp.sum(call(A)[1]))(jnp.asarray(A))[0]
        np.testing.assert_allclose(total, np.eye(3), atol=1e-12)


@wp.kernel
def solved(A: D, b: D, B: D, L: D, x: D, C: D):
    wp.dense_chol(4, A, wp.float64(0.25), L)
    wp.dense_solve(4, A, L, b, x)
    wp.dense_gemm(4, 2, 4, 1, 0, A, B, C)


def test_dense_matrices():
    n, rng = 4, np.random.default_rng(3)
    call = wp.jax_kernel(solved, num_outputs=3, launch_dims=1, output_dims={"L": n * n, "x": n, "C": 2 * n})
    with jax.enable_x64(True):
        root = rng.normal(size=(n, n))
        A, b, B = jnp.asarray(root @ root.T + np.eye(n)), jnp.asarray(rng.normal(size=n)), rng.normal(size=(n, 2))
        weights = jnp.asarray(rng.normal(size=n))

        def ours(A, b):
            return call(A.ravel(), b, B.ravel())

        L, x, C = ours(A, b)
        shifted = A + 0.25 * jnp.eye(n)
        np.testing.assert_allclose(L.reshape(n, n), jnp.linalg.cholesky(shifted), atol=1e-13)
        np.testing.assert_allclose(x, jnp.linalg.solve(shifted, b), atol=1e-12)
        np.testing.assert_allclose(C.reshape(n, 2), A.T @ B, atol=1e-12)
        found = jax.grad(lambda A, b: ours(A, b)[1] @ weights, (0, 1))(A, b)
        of_b = jnp.linalg.solve(shifted, weights)
        np.testing.assert_allclose(found[1], of_b, rtol=1e-9)
        whole = -jnp.outer(of_b, x)  # below the diagonal is all that is read
        np.testing.assert_allclose(found[0], jnp.tril(whole + whole.T) - jnp.diag(jnp.diag(whole)), atol=1e-9)


def test_rules_are_evaluated_once_for_all_results():
    """21 numbers with a rule, applied twice, in the operations of two evaluations and their transposed."""
    assert len(str(by_svd3.specialize()).splitlines()) < 2500
