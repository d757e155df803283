"""Eigenvalues of symmetric matrices of any size in kernels."""

import numpy as np

import jaxwarp as wp
import jaxwarp.fem as fem

mat55 = wp.types.matrix(shape=(5, 5), dtype=float)
vec5 = wp.types.vector(length=5, dtype=float)


@wp.kernel
def solve(a: wp.array[mat55], values: wp.array[vec5], vectors: wp.array[mat55]):
    i = wp.tid()
    d, p = fem.linalg.symmetric_eigenvalues_qr(a[i], 1e-6)
    values[i] = d
    vectors[i] = p


def test_eigenvectors_as_rows_make_the_matrix():
    a = np.random.default_rng(0).normal(size=(50, 5, 5))
    a = a + a.transpose(0, 2, 1)
    a[0], a[1], a[2], a[3] = 0.0, np.eye(5), a[2] * 1e-20, a[3] * 1e18
    values, vectors = wp.zeros(50, dtype=vec5), wp.zeros(50, dtype=mat55)
    wp.launch(solve, 50, [wp.array(a.astype(np.float32), dtype=mat55), values, vectors])
    d, p = values.numpy().astype(float), vectors.numpy().astype(float)
    scale = np.maximum(abs(a).max((1, 2), keepdims=True), 1e-30)
    np.testing.assert_allclose(np.einsum("nki,nk,nkj->nij", p, d, p) / scale, a / scale, atol=1e-5)
    np.testing.assert_allclose(p @ p.transpose(0, 2, 1), np.broadcast_to(np.eye(5), a.shape), atol=1e-5)
    np.testing.assert_allclose(np.sort(d) / scale[..., 0], np.linalg.eigvalsh(a) / scale[..., 0], atol=1e-5)
