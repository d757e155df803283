"""Solvers of systems with sparse matrices, and the preconditioners made of their blocks."""

from __future__ import annotations

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.optim.linear import aslinearoperator, bicgstab, cg, cr, gmres, preconditioner

SOLVERS = {"cg": cg, "cr": cr, "bicgstab": bicgstab, "gmres": gmres}
BLOCKS = ("block_jacobi_direct", "block_jacobi_sequential", "block_jacobi_tile")
TOLERANCE = {wp.float16: 2e-2, wp.float32: 1e-5, wp.float64: 1e-11}


def blocks_of(dense, size, dtype):
    """A dense matrix as a sparse one, of its blocks that are not zero."""
    n = len(dense) // size
    parts = dense.reshape(n, size, n, size).swapaxes(1, 2)
    rows, columns = np.nonzero(np.abs(parts).max((2, 3)))
    block = dtype if size == 1 else wp.types.matrix((size, size), dtype)
    values = parts[rows, columns] if size > 1 else parts[rows, columns][:, 0, 0]
    held = (wp.array(v.astype(np.int32)) for v in (rows, columns))
    return wp.sparse.bsr_from_triplets(n, n, *held, wp.array(values, dtype=block))


def chain(count, size, seed=0, coupling=0.2):
    """Definite blocks on the diagonal, and small ones beside it."""
    rng = np.random.default_rng(seed)
    dense = np.zeros((count * size, count * size))
    for i in range(count):
        here = slice(i * size, (i + 1) * size)
        c = rng.uniform(-1, 1, (size, size))
        dense[here, here] = c @ c.T + size * np.eye(size)
        if i:
            before, off = slice((i - 1) * size, i * size), coupling * rng.uniform(-1, 1, (size, size))
            dense[here, before], dense[before, here] = off, off.T
    return dense, rng.uniform(-1, 1, count * size)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("name", SOLVERS)
def test_sparse(name, size, dtype):
    dense, right = chain(7, size)
    a = blocks_of(dense, size, dtype)
    vector = dtype if size == 1 else wp.types.vector(size, dtype)
    b = wp.array(right if size == 1 else right.reshape(-1, size), dtype=vector)
    x = wp.zeros_like(b)
    for kind in ("id", "diag", *(k for k in BLOCKS if dtype != wp.float16 or k != "block_jacobi_tile")):
        x.zero_()
        _, error, limit = SOLVERS[name](a, b, x, M=preconditioner(a, kind), tol=TOLERANCE[dtype], maxiter=100)
        assert error <= limit
        difference = x.numpy().ravel().astype(float) - np.linalg.solve(dense, right)
        assert np.linalg.norm(difference) < 5 * TOLERANCE[dtype] * np.linalg.norm(right), kind
    if size > 1:  # numbers for vectors
        y = wp.zeros(len(right), dtype=dtype)
        SOLVERS[name](a, wp.array(right, dtype=dtype), y, M=preconditioner(a), tol=TOLERANCE[dtype], maxiter=100)
        np.testing.assert_allclose(y.numpy(), x.numpy().ravel(), atol=10 * TOLERANCE[dtype])


def test_products():
    dense, given = chain(5, 2)
    product = aslinearoperator(blocks_of(dense, 2, wp.float64)).matvec
    for shared in ("none", "xz", "yz", "xyz"):
        x, y = wp.array(given), wp.array(given[::-1].copy())
        y = x if shared == "xyz" else y
        z = {"none": wp.zeros_like(x), "xz": x, "yz": y, "xyz": x}[shared]
        expected = 0.5 * dense @ x.numpy() - 2.0 * y.numpy()
        product(x, y, z, alpha=0.5, beta=-2.0)
        np.testing.assert_allclose(z.numpy(), expected, rtol=1e-12, atol=1e-12, err_msg=shared)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("size", [2, 7, 16])
@pytest.mark.parametrize("kind", BLOCKS)
def test_inverses_of_blocks(kind, size, dtype):
    dense, given = chain(4, size)
    a = blocks_of(dense, size, dtype)
    if kind == "block_jacobi_tile" and dtype == wp.float16:
        with pytest.raises(KernelValueError, match="expects numbers of float32 or float64, got float16"):
            preconditioner(a, kind)
        return
    x, y = wp.array(given, dtype=dtype), wp.ones(len(given), dtype=dtype)
    inverse = preconditioner(a, kind)
    assert inverse is not None
    expected = np.concatenate([
        np.linalg.solve(dense[i : i + size, i : i + size], given[i : i + size]) for i in range(0, len(given), size)
    ])  # fmt: skip
    inverse.matvec(x, y, x, alpha=2.0, beta=-0.5)
    np.testing.assert_allclose(x.numpy(), 2 * expected - 0.5, atol=5 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("kind", BLOCKS)
def test_blocks_without_inverse(kind, dtype):
    """The identity in their place, and theirs beside it."""
    if kind == "block_jacobi_tile" and dtype == wp.float16:
        pytest.skip("refused")
    scale = 1e-2 if dtype == wp.float16 else 1e-4
    singular = [np.zeros((2, 2)), np.array([[1.0, 2.0], [2.0, 4.0]]), np.array([[9.0, 21.0], [21.0, 49.0]])]
    others = [-np.eye(2), np.array([[4.0, 1.0], [0.1, 3.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])]
    good = [np.diag([1.0, scale]), np.array([[2.0, 1.0], [1.0, 3.0]])]
    blocks = [*singular, *others, *good]
    a = wp.sparse.bsr_diag(wp.array(np.stack(blocks), dtype=wp.types.matrix((2, 2), dtype)))
    x = wp.ones(2 * len(blocks), dtype=dtype)
    inverse = preconditioner(a, kind)
    assert inverse is not None
    inverse.matvec(x, x, x, alpha=1.0, beta=0.0)
    found = x.numpy().reshape(-1, 2).astype(float)
    np.testing.assert_array_equal(found[:3], 1.0)
    regular = blocks[3:] if kind == "block_jacobi_direct" else good
    np.testing.assert_array_equal(found[3 : -len(regular)], 1.0)
    for block, got in zip(regular, found[-len(regular) :], strict=True):
        np.testing.assert_allclose(got, np.linalg.solve(block, [1.0, 1.0]), rtol=2 * TOLERANCE[dtype])


def test_blocks_need_fewer_iterations():
    dense, right = chain(12, 6)
    a, b = blocks_of(dense, 6, wp.float64), wp.array(right)
    counts = {}
    for kind in ("diag", *BLOCKS):
        x = wp.zeros_like(b)
        counts[kind] = cg(a, b, x, M=preconditioner(a, kind), check_every=1, tol=1e-10)[0]
    assert max(counts[kind] for kind in BLOCKS) < counts["diag"]


def test_blocks_of_one_number():
    dense, right = chain(6, 1)
    a = blocks_of(dense, 1, wp.float64)
    for kind in ("diag", *BLOCKS):
        inverse, z = preconditioner(a, kind), wp.zeros(6, dtype=wp.float64)
        assert inverse is not None
        inverse.matvec(wp.array(right), z, z, alpha=1.0, beta=0.0)
        np.testing.assert_allclose(z.numpy(), right / np.diag(dense), rtol=1e-14)


def test_refused():
    wide = wp.sparse.bsr_zeros(3, 5, wp.mat33d)
    oblong = wp.sparse.bsr_zeros(2, 3, wp.types.matrix((3, 2), wp.float64))
    for kind in BLOCKS:
        with pytest.raises(KernelValueError, match="expects as many rows as columns, got 3 and 5 of blocks"):
            preconditioner(wide, kind)
        with pytest.raises(KernelValueError, match=r"expects square matrix blocks, got \(3, 2\)"):
            preconditioner(oblong, kind)
        with pytest.raises(KernelValueError, match=r"expects a BsrMatrix .* got an array of shape"):
            preconditioner(wp.zeros((3, 3)), kind)
    with pytest.raises(KernelValueError, match="expected a square matrix"):
        preconditioner(wide)
    with pytest.raises(KernelTypeError, match="expected a matrix of floats, got one of int32"):
        aslinearoperator(wp.sparse.bsr_zeros(3, 3, wp.int32))
