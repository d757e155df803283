"""`FSAI` against a search and solutions of local systems in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.optim.linear import FSAI, cg, cr, preconditioner

TOLERANCE = {wp.float16: 1e-2, wp.float32: 3e-5, wp.float64: 1e-10}
# Kernels are made for a width, a step and a type: tests that do not need others share these.
USUAL = {"max_row_size": 8, "max_step_size": 3}
# Single and half precision run the same functions.
STEPS = {wp.float16: (3,), wp.float32: (1, 3), wp.float64: (1, 3, 64)}


def sparse_of(dense, dtype=wp.float64, size=1):
    n = len(dense) // size
    parts = np.asarray(dense, float).reshape(n, size, n, size).swapaxes(1, 2)
    rows, columns = np.nonzero(np.abs(np.nan_to_num(parts, nan=1.0)).max((2, 3)))
    block = dtype if size == 1 else wp.types.matrix((size, size), dtype)
    values = parts[rows, columns] if size > 1 else parts[rows, columns][:, 0, 0]
    held = (wp.array(v.astype(np.int32)) for v in (rows, columns))
    return wp.sparse.bsr_from_triplets(n, n, *held, wp.array(values, dtype=block), prune_numerical_zeros=False)


def dense_of(matrix):
    offsets, columns, values = (a.numpy() for a in (matrix.offsets, matrix.columns, matrix.values))
    found = np.zeros(matrix.shape)
    for row in range(matrix.nrow):
        here = slice(offsets[row], offsets[row + 1])
        assert (np.diff(columns[here]) > 0).all()
        found[row, columns[here]] = values[here]
    return found


def scattered(n=18, seed=3):
    """Diagonally dominant, of a pattern without order, its numbers of very different size."""
    rng = np.random.default_rng(seed)
    found = np.where(rng.random((n, n)) < 0.3, rng.standard_normal((n, n)), 0.0)
    found = found + found.T
    np.fill_diagonal(found, np.abs(found).sum(1) + 2.0)
    scale = np.geomspace(0.02, 50.0, n)
    return found * scale[:, None] * scale


def searched(a, width, step, tolerance):
    """The factor by a search with dense matrices."""
    scale = 1 / np.sqrt(np.diag(a))
    unit, factor = a * scale[:, None] * scale, np.zeros_like(a)
    for i in range(len(a)):
        support, z = [i], np.ones(1)
        while len(support) < width:
            near = [c for c in range(i) if c not in support and (a[support, c] != 0).any()]
            scores = {c: abs(unit[c, support] @ z) for c in near}
            best = sorted((c for c in near if scores[c] > 0), key=lambda c: (-scores[c], c))
            if not best:
                break
            support += best[: min(step, width - len(support))]
            before, z = z[0], np.linalg.solve(unit[np.ix_(support, support)], np.eye(len(support))[0])
            if tolerance and 1 - before / z[0] <= tolerance:
                break
        factor[i, support] = z / np.sqrt(z[0]) * scale[support]
    return factor


def require_local_solutions(pre, a, tolerance):
    """Each row on its support, whatever chose that."""
    factor = dense_of(pre.G)
    np.testing.assert_array_equal(dense_of(pre.GT), factor.T)
    for i, row in enumerate(factor):
        support = np.flatnonzero(row)
        z = np.linalg.solve(a[np.ix_(support, support)], np.eye(len(support))[-1])
        assert support[-1] == i
        np.testing.assert_allclose(row[support], z / np.sqrt(z[-1]), rtol=tolerance, atol=tolerance * abs(row).max())
    return factor


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("dtype", [wp.float32, wp.float64], ids=str)
def test_supports(dtype, size):
    a = scattered()
    matrix = sparse_of(a, dtype, size)
    for step in (1, 3):
        for tolerance in (0.0, 0.003, 0.1):
            pre = FSAI(matrix, max_row_size=8, kap_tolerance=tolerance, max_step_size=step)
            expected = searched(a, 8, step, tolerance)
            np.testing.assert_allclose(dense_of(pre.G), expected, rtol=TOLERANCE[dtype], atol=1e-6)
            assert pre.truncated_rows == 0


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_all_columns_are_the_inverse(dtype):
    rng = np.random.default_rng(7)
    r = rng.standard_normal((8, 8))
    a = (r @ r.T + 4 * np.eye(8)).astype(np.float16).astype(float)
    for step in STEPS[dtype]:
        pre = FSAI(sparse_of(a, dtype), max_row_size=8, kap_tolerance=0, max_step_size=step)
        assert pre.G.scalar_type == dtype
        factor = require_local_solutions(pre, a, TOLERANCE[dtype])
        np.testing.assert_allclose(factor.T @ factor, np.linalg.inv(a), atol=TOLERANCE[dtype])


def test_pivots():
    """A row ends before what depends on the others, and is counted."""
    nearly = np.array([[1.0, 1 - 1e-14, 0], [1 - 1e-14, 1.0, 0], [0, 0, 2.0]])
    assert FSAI(sparse_of(nearly), max_row_size=1).truncated_rows == 0
    pre = FSAI(sparse_of(nearly), **USUAL)
    assert pre.truncated_rows == 1
    np.testing.assert_allclose(dense_of(pre.G), np.diag(1 / np.sqrt(np.diag(nearly))))
    half = FSAI(sparse_of(np.array([[9.0, 21.0], [21.0, 49.0]]), wp.float16), **USUAL)
    assert half.truncated_rows == 1


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_application(dtype):
    a, rng = 3 * np.eye(35) - np.eye(35, k=1) - np.eye(35, k=-1), np.random.default_rng(1)
    for stored in {dtype, wp.float32} if dtype == wp.float64 else {dtype}:
        pre = FSAI(sparse_of(a, dtype), factor_dtype=stored, **USUAL)
        factor = dense_of(pre.G)
        for shared in ("none", "xz", "yz", "xy", "xyz"):
            x, y = (wp.array(rng.standard_normal(35), dtype=dtype) for _ in range(2))
            y = x if shared in ("xy", "xyz") else y
            z = {"xz": x, "xyz": x, "yz": y}.get(shared, wp.zeros_like(x))
            expected = 0.7 * factor.T @ factor @ x.numpy().astype(float) - 1.2 * y.numpy().astype(float)
            pre.matvec(x, y, z, 0.7, -1.2)
            np.testing.assert_allclose(z.numpy(), expected, atol=TOLERANCE[dtype], err_msg=shared)
        nan, z = wp.full(35, np.nan, dtype=dtype), wp.ones(35, dtype=dtype)
        pre.matvec(nan, z, z, 0.0, 0.5)
        np.testing.assert_array_equal(z.numpy(), 0.5)


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("solve", [cg, cr])
def test_solvers(solve, size):
    """Fewer iterations than with the diagonal."""
    n = 60
    a = 2.02 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    matrix, b = sparse_of(a, wp.float64, size), wp.ones(n, dtype=wp.float64)
    counts = {}
    for kind in ("diag", "fsai"):
        x = wp.zeros_like(b)
        counts[kind], *_ = solve(matrix, b, x, M=preconditioner(matrix, kind), tol=1e-11, check_every=1)
        np.testing.assert_allclose(a @ x.numpy(), 1.0, atol=1e-9)
    assert counts["fsai"] < 0.6 * counts["diag"]


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_updates(dtype, size):
    """Of numbers, in the same arrays; what is refused leaves the factor as it was."""
    rng = np.random.default_rng(48)
    r = rng.standard_normal((12, 12))
    a = r @ r.T + 6 * np.eye(12)
    other = a + np.diag(np.arange(12.0))
    first, second = sparse_of(a, dtype, size), sparse_of(other, dtype, size)
    pre = FSAI(first, reuse_pattern=True, **USUAL)
    before, places = dense_of(pre.G), (pre.G.values.ptr, pre.GT.values.ptr)
    pre.update()
    np.testing.assert_array_equal(dense_of(pre.G), before)  # the same operations in the same order
    assert pre.update(second) is pre
    assert (pre.G.values.ptr, pre.GT.values.ptr) == places
    factor = require_local_solutions(pre, other, TOLERANCE[dtype])
    np.testing.assert_array_equal(factor != 0, before != 0)
    indefinite = np.full((12, 12), 10.0) - 9.0 * np.eye(12)
    zeros = sparse_of(other, dtype, size)
    zeros.values.zero_()
    moved = sparse_of(other, dtype, size)
    moved.columns.assign(np.concatenate([[1], moved.columns.numpy()[1:]]))
    for wrong, message in (
        (zeros, "finite positive diagonals and SPD local supports, got 12 diagonals"),
        (sparse_of(indefinite, dtype, size), "finite positive diagonals and SPD local supports, got 0 diagonals"),
        (moved, "expected identical sparsity"),
    ):
        with pytest.raises(KernelValueError, match=message):
            pre.update(wrong)
        assert pre.source is second
        np.testing.assert_array_equal(dense_of(pre.G), factor)
        np.testing.assert_array_equal(dense_of(pre.GT), factor.T)


def pairs(first, second):
    return np.kron(np.diag([1.0, 0.0]), first) + np.kron(np.diag([0.0, 1.0]), second)


GOOD, CHANGED, SINGULAR = (np.array([[d, o], [o, 1.0]]) for d, o in ((1.0, 0.5), (2.0, 0.5), (1.0, 1.0)))


def test_regularized_updates():
    """Rows that have no factor get one, and the others theirs."""
    pre = FSAI(sparse_of(pairs(GOOD, GOOD)), reuse_pattern=True, regularize_refit=True, **USUAL)
    expected = dense_of(FSAI(sparse_of(pairs(GOOD, CHANGED)), **USUAL).G)[2:]
    pre.update(sparse_of(pairs(SINGULAR, CHANGED)))
    assert pre.update_status.list() == [0, 0, 0, 1]
    np.testing.assert_allclose(dense_of(pre.G)[2:], expected)
    assert np.isfinite(dense_of(pre.G)).all()
    pre.update(sparse_of(pairs(np.array([[-1.0, 0.5], [0.5, 1.0]]), CHANGED)))
    assert pre.update_status.list()[1] == 1
    np.testing.assert_array_equal(dense_of(pre.G)[0], [1, 0, 0, 0])
    np.testing.assert_allclose(dense_of(pre.G)[2:], expected)
    np.testing.assert_array_equal(dense_of(pre.GT), dense_of(pre.G).T)


@pytest.mark.parametrize("captured", [False, True])
def test_deferred_supports(captured):
    """The identity until there are numbers; then what would have been made of them, and kept."""
    a = 3 * np.eye(12) - np.eye(12, k=1) - np.eye(12, k=-1)
    raw, full = sparse_of(a), sparse_of(a)
    raw.values.zero_()
    pre = FSAI(raw, reuse_pattern=True, defer_pattern=True, **USUAL)
    np.testing.assert_array_equal(dense_of(pre.G), np.eye(12))
    with pytest.raises(KernelValueError, match="finite positive diagonals"):
        pre.update()
    assert pre.pattern_ready.list() == [0]
    np.testing.assert_array_equal(dense_of(pre.G), np.eye(12))
    run = pre.update
    if captured:
        with wp.ScopedCapture() as capture:
            pre.update()

        def run():
            wp.capture_launch(capture.graph)

    for factor in (1.0, 0.5):
        raw.values.assign(factor * full.values.numpy())
        run()
        assert pre.pattern_ready.list() == [1]
        expected = FSAI(sparse_of(factor * a), **USUAL)
        np.testing.assert_array_equal(dense_of(pre.G), dense_of(expected.G))
        np.testing.assert_array_equal(dense_of(pre.GT), dense_of(expected.GT))
    with pytest.raises(KernelValueError, match="identical sparsity"):
        pre.update(sparse_of(a + 1e-3))


def test_captured_updates():
    """Nothing is read: the status tells, and a matrix that is refused changes nothing."""
    a = 3 * np.eye(12) - np.eye(12, k=1) - np.eye(12, k=-1)
    matrix = sparse_of(a)
    values, pre = matrix.values.numpy().copy(), FSAI(matrix, reuse_pattern=True, **USUAL)
    with wp.ScopedCapture() as capture:
        pre.update()
    matrix.values.assign(2 * values)
    wp.capture_launch(capture.graph)
    factor = require_local_solutions(pre, 2 * a, 1e-10)
    matrix.values.zero_()
    wp.capture_launch(capture.graph)
    assert pre.update_status.list()[1] == 12
    np.testing.assert_array_equal(dense_of(pre.G), factor)


def test_storage():
    """Room behind the blocks is not read; rows with gaps are, but not kept for updates; nothing has a factor."""
    a = scattered(6)
    matrix = sparse_of(a, size=3)
    count = matrix.nnz_sync()
    columns, values = matrix.columns, matrix.values
    matrix.columns, matrix.values = wp.full(9, -5, dtype=int), wp.full(9, wp.mat33d(np.nan), dtype=wp.mat33d)
    wp.copy(matrix.columns, columns, count=count)
    wp.copy(matrix.values, values, count=count)
    matrix.notify_nnz_changed(nnz=9)
    pre = FSAI(matrix, kap_tolerance=0, reuse_pattern=True, **USUAL)
    require_local_solutions(pre.update(sparse_of(a, size=3)), a, 1e-10)
    for dtype in TOLERANCE:
        none = FSAI(wp.sparse.bsr_zeros(0, 0, dtype), reuse_pattern=True)
        nothing = wp.zeros(0, dtype=dtype)
        none.update().matvec(nothing, nothing, nothing, 1.0, 0.0)
        assert none.G.nnz == 0


def test_refused():
    raw = sparse_of(np.eye(3))
    for options, message in (
        ({"max_row_size": 0}, "max_row_size: expected an integer from 1 to 64, got 0"),
        ({"max_step_size": 65}, "max_step_size: expected an integer from 1 to 64, got 65"),
        ({"kap_tolerance": 1}, "kap_tolerance: expected a number from 0 to below 1, got 1"),
        ({"pivot_floor": np.nan}, "pivot_floor: expected a number between 0 and 1, got nan"),
        ({"factor_dtype": wp.float16}, "factor_dtype: expected float64, or float32 for float64, got float16"),
        ({"defer_pattern": True}, "defer_pattern: expected reuse_pattern=True"),
    ):
        with pytest.raises(KernelValueError, match=message):
            FSAI(raw, **options)
    oblong = wp.types.matrix((3, 2), float)
    for wrong in (None, wp.sparse.bsr_zeros(2, 3, wp.float64), wp.sparse.bsr_zeros(2, 3, oblong)):
        with pytest.raises(KernelValueError, match="A: expected a square BsrMatrix outside of JAX with square blocks"):
            FSAI(wrong)
    with pytest.raises(KernelTypeError, match="expected numbers of float16, float32 or float64, got bfloat16"):
        FSAI(wp.sparse.bsr_zeros(3, 3, wp.bfloat16))
    for number in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(KernelValueError, match="expected finite positive diagonals, got 1 rows"):
            FSAI(sparse_of(np.diag([1.0, number])))
    for number in (1e-100, 1e100):
        with pytest.raises(KernelValueError, match="no finite numbers with a positive diagonal in float32"):
            FSAI(sparse_of(np.eye(3) * number), factor_dtype=wp.float32)
    with pytest.raises(KernelValueError, match="reuse_pattern=True"):
        FSAI(raw).update()
    pre = FSAI(raw, reuse_pattern=True)
    with pytest.raises(KernelValueError, match="A: expected a BSR matrix, got ndarray"):
        pre.update(np.eye(3))
    with pytest.raises(KernelValueError, match="A: expected the shape, dtype, device and storage"):
        pre.update(sparse_of(np.eye(3), wp.float32))
    padded = wp.sparse.bsr_zeros(3, 3, wp.float64, row_capacity=2)
    with pytest.raises(KernelValueError, match="reuse_pattern: expected a matrix in compact storage"):
        FSAI(padded, reuse_pattern=True)
    with wp.Tape(), pytest.raises(KernelTypeError, match="a tape is recording"):
        FSAI(raw)
