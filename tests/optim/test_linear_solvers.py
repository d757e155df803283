"""Solvers of linear systems outside of JAX, against NumPy's and SciPy's."""

from __future__ import annotations

from itertools import pairwise

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import jaxwarp as wp
from jaxwarp.errors import DifferentiationError, KernelTypeError, KernelValueError
from jaxwarp.optim.linear import (
    CG,
    CR,
    GMRES,
    BiCGSTAB,
    LinearOperator,
    aslinearoperator,
    bicgstab,
    cg,
    cr,
    gmres,
    preconditioner,
)

SOLVERS = {"cg": cg, "cr": cr, "bicgstab": bicgstab, "gmres": gmres}
SYMMETRIC = ("cg", "cr")
SIDES = ("none", "diag", "left")  # of the preconditioner; conjugate methods know no sides
CASES = [(name, side) for name in SOLVERS for side in SIDES if side != "left" or name not in SYMMETRIC]
RELATIVE = {wp.float16: 1e-2, wp.float32: 1e-5, wp.float64: 1e-11}


def options(name, side, matrix):
    found = {"maxiter": 300}
    if side != "none":
        found["M"] = preconditioner(matrix, "diag")
    if side == "left":
        found["is_left_preconditioner"] = True
    return found


def system(name, n, seed=0):
    """A matrix that the solver is for, and a right-hand side."""
    rng = np.random.default_rng(seed)
    c = rng.standard_normal((n, n))
    matrix = c @ c.T + n * np.eye(n)
    return matrix if name in SYMMETRIC else matrix @ np.diag(rng.uniform(0.5, 2.0, n)), rng.standard_normal(n)


def poisson(n):
    """-u'' on a square of n by n points, 0 around it."""
    line = scipy.sparse.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(n, n))
    return scipy.sparse.csr_matrix(scipy.sparse.kronsum(line, line))


def operator(matrix, dtype=wp.float64):
    """Of a user: by NumPy."""

    def matvec(x, y, z, alpha, beta):
        found = alpha * (matrix @ x.numpy().ravel())
        if beta:
            found += beta * y.numpy().ravel()
        z.assign(found.reshape(z.numpy().shape))

    return LinearOperator(matrix.shape, dtype, "cpu", matvec)


@pytest.mark.parametrize("dtype", RELATIVE, ids=str)
@pytest.mark.parametrize(("name", "side"), CASES)
def test_dense(name, side, dtype):
    matrix, right = system(name, 24)
    a, b = wp.array(matrix, dtype=dtype), wp.array(right, dtype=dtype)
    x = wp.zeros_like(b)
    count, error, limit = SOLVERS[name](a, b, x, tol=RELATIVE[dtype], atol=0.0, **options(name, side, a))
    assert 0 < count < 300
    assert error <= limit
    assert limit == pytest.approx(RELATIVE[dtype] * np.linalg.norm(b.numpy().astype(float)), rel=1e-5)
    expected = np.linalg.solve(a.numpy().astype(float), b.numpy().astype(float))
    difference = np.linalg.norm(x.numpy() - expected) / np.linalg.norm(expected)
    assert difference < 10 * RELATIVE[dtype]


@pytest.mark.parametrize(("name", "side"), CASES)
def test_vectors(name, side):
    matrix, right = system(name, 24)
    a, b = wp.array(matrix, dtype=wp.float64), wp.array(right.reshape(8, 3), dtype=wp.vec3d)
    x = wp.zeros_like(b)
    SOLVERS[name](operator(matrix), b, x, **options(name, side, a))
    np.testing.assert_allclose(x.numpy().ravel(), np.linalg.solve(matrix, right), rtol=1e-8)


@pytest.mark.parametrize("dtype", [wp.float64, wp.vec2d])
@pytest.mark.parametrize("name", SOLVERS)
def test_diagonals(name, dtype):
    values = np.arange(1.0, 9.0)
    shape = (-1,) if dtype == wp.float64 else (-1, 2)
    a, b = (wp.array(v.reshape(shape), dtype=dtype) for v in (values, values**2))
    x = wp.zeros_like(b)
    _, error, limit = SOLVERS[name](a, b, x, maxiter=100)
    assert error <= limit
    np.testing.assert_allclose(x.numpy().ravel(), values, rtol=1e-10)


@pytest.mark.parametrize("name", SOLVERS)
def test_parts_of_arrays(name):
    """With gaps between the elements, and the right-hand side's own memory for the solution."""
    matrix, right = system(name, 10)
    wide = wp.array(np.kron(matrix, np.ones((2, 2))), dtype=wp.float64)
    long, x = wp.array(np.repeat(right, 2), dtype=wp.float64), wp.zeros(20, dtype=wp.float64)
    SOLVERS[name](wide[::2, ::2], long[::2], x[::2], maxiter=100)
    expected = np.linalg.solve(matrix, right)
    np.testing.assert_allclose(x.numpy()[::2], expected, rtol=1e-8)
    assert not x.numpy()[1::2].any()
    whole = wp.array(right, dtype=wp.float64)
    SOLVERS[name](wide[::2, ::2], whole, whole, maxiter=100)
    np.testing.assert_allclose(whole.numpy(), expected, rtol=1e-8)


@pytest.mark.parametrize("name", SOLVERS)
def test_counts_of_poisson(name):
    """As many iterations as SciPy makes, which looks at the residual after each, too."""
    matrix = poisson(30)
    right = np.random.default_rng(3).standard_normal(900)
    x = wp.zeros(900, dtype=wp.float64)
    restart = {"restart": 20} if name == "gmres" else {}
    count, error, limit = SOLVERS[name](
        operator(matrix), wp.array(right), x, tol=1e-6, atol=0.0, maxiter=5000, check_every=1, **restart
    )
    assert error <= limit
    seen = []
    # Conjugate residuals have the least residual there is, as GMRES that never starts again.
    how = {"gmres": {"callback_type": "x", **restart}, "cr": {"callback_type": "pr_norm", "restart": 900}}.get(name, {})
    peer = getattr(scipy.sparse.linalg, "gmres" if name == "cr" else name)
    peer(matrix, right, rtol=1e-6, atol=0.0, maxiter=5000, callback=seen.append, **how)
    steps = 20 * len(seen) if name == "gmres" else len(seen)
    assert abs(count - steps) <= {"gmres": 20, "bicgstab": 0.15 * steps}.get(name, 1)
    np.testing.assert_allclose(matrix @ x.numpy(), right, atol=2 * limit)


@pytest.mark.parametrize(("name", "side"), CASES)
def test_nothing_to_do(name, side):
    """A right-hand side of zeros, a solution to start from, no unknowns."""
    matrix, right = system(name, 6)
    a, x = wp.array(matrix), wp.zeros(6, dtype=wp.float64)
    solve, how = SOLVERS[name], options(name, side, a)
    assert solve(a, wp.zeros_like(x), x, **how)[:2] == (0, 0.0)
    assert not x.numpy().any()
    x.assign(np.linalg.solve(matrix, right))
    assert solve(a, wp.array(right), x, **how)[0] == 0
    x.assign(right)
    _, error, limit = solve(a, wp.zeros_like(x), x, **how)
    assert error <= limit
    assert np.abs(x.numpy()).max() < 1e-10
    none = wp.zeros(0, dtype=wp.float64)
    assert solve(wp.zeros((0, 0), dtype=wp.float64), none, wp.zeros_like(none))[:2] == (0, 0.0)


@pytest.mark.parametrize("dtype", RELATIVE, ids=str)
@pytest.mark.parametrize("name", SOLVERS)
def test_singular(name, dtype):
    """A row of springs without ends: solvable for forces whose sum is 0; else the residual tells."""
    n = 12
    matrix = 2 * np.eye(n) - np.roll(np.eye(n), 1, 0) - np.roll(np.eye(n), -1, 0)
    right = np.random.default_rng(4).integers(-3, 3, n).astype(float)
    right[0] -= right.sum()
    a, b = wp.array(matrix, dtype=dtype), wp.array(right, dtype=dtype)
    x = wp.zeros_like(b)
    _, error, limit = SOLVERS[name](a, b, x, tol=RELATIVE[dtype], maxiter=60)
    assert error <= limit
    assert np.linalg.norm(matrix @ x.numpy().astype(float) - right) <= 3 * RELATIVE[dtype] * np.linalg.norm(right)
    b.fill_(1.0)
    x.zero_()
    count, error, limit = SOLVERS[name](a, b, x, maxiter=60)
    assert count >= 60
    assert not error <= limit
    assert np.isfinite(error)
    assert np.isfinite(x.numpy()).all()


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("kind", ["zeros", "alternating", "swap", "rotation", "defective"])
def test_breakdown(name, kind):
    """Where a method's divisor vanishes it ends, with a residual that is that of the solution, and no NaN."""
    matrix = {
        "zeros": np.zeros((4, 4)),
        "alternating": np.diag([1.0, -1.0, 1.0, -1.0]),
        "swap": np.fliplr(np.eye(4)),
        "rotation": np.kron(np.eye(2), [[0.0, 1.0], [-1.0, 0.0]]),
        "defective": np.diag(np.ones(3), 1),
    }[kind]
    right = np.array([1.0, 1.0, 0.0, 0.0])
    x = wp.zeros(4, dtype=wp.float64)
    count, error, limit = SOLVERS[name](wp.array(matrix), wp.array(right), x, maxiter=30, check_every=1)
    assert np.isfinite(x.numpy()).all()
    assert count <= 30 + 3
    assert np.linalg.norm(matrix @ x.numpy() - right) == pytest.approx(error, abs=1e-9)
    if name == "gmres" and kind in ("alternating", "swap", "rotation"):
        assert error <= limit  # they are regular


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e12, 1e18])
def test_scales(name, scale):
    """Numbers that are very small or large: tolerances and breakdowns are relative."""
    matrix, right = system(name, 8)
    x = wp.zeros(8, dtype=wp.float64)
    SOLVERS[name](wp.array(matrix * scale), wp.array(right), x, tol=1e-10, maxiter=100)
    np.testing.assert_allclose(x.numpy() * scale, np.linalg.solve(matrix, right), rtol=1e-7)


@pytest.mark.parametrize("name", SOLVERS)
def test_nan_is_told(name):
    matrix, right = system(name, 5)
    right[2] = np.nan
    x = wp.zeros(5, dtype=wp.float64)
    count, error, _ = SOLVERS[name](wp.array(matrix), wp.array(right), x, maxiter=7)
    assert np.isnan(error)
    assert count >= 7


@pytest.mark.parametrize("name", SOLVERS)
def test_tolerances(name):
    matrix, right = system(name, 12)
    a, b, norm = wp.array(matrix), wp.array(right), np.linalg.norm(right)

    def limit(**tolerances):
        _, error, found = SOLVERS[name](a, b, wp.zeros_like(b), maxiter=100, **tolerances)
        assert error <= found
        return found

    assert limit(tol=1e-3, atol=1e-9) == pytest.approx(1e-3 * norm)
    assert limit(tol=1e-9, atol=1e-3) == pytest.approx(1e-3)
    assert limit(tol=1e-3) == pytest.approx(max(1e-3, 1e-3 * norm))  # the one that is missing is the other
    assert limit(atol=1e-3) == pytest.approx(max(1e-3, 1e-3 * norm))
    assert limit() == pytest.approx(max(1e-12, 1e-12 * norm))


@pytest.mark.parametrize("name", SOLVERS)
def test_callbacks(name):
    matrix, right = system(name, 40)
    seen = []
    restart = {"restart": 4} if name == "gmres" else {}
    count, error, limit = SOLVERS[name](
        wp.array(matrix),
        wp.array(right),
        wp.zeros(40, dtype=wp.float64),
        callback=lambda *told: seen.append(told),
        check_every=8,
        maxiter=200,
        **restart,
    )
    counts = [told[0] for told in seen]
    assert counts == list(range(0, count + 1, 8))
    assert len(counts) > 2
    assert seen[0][1] == pytest.approx(np.linalg.norm(right))
    assert seen[-1] == (count, error, limit)
    assert all(type(told[0]) is int and type(told[1]) is float and told[2] == limit for told in seen)


@pytest.mark.parametrize("name", SOLVERS)
def test_most_iterations(name):
    matrix, right = poisson(8).toarray(), np.ones(64)
    x = wp.zeros(64, dtype=wp.float64)
    restart = {"restart": 5} if name == "gmres" else {}
    count, error, limit = SOLVERS[name](wp.array(matrix), wp.array(right), x, maxiter=5, **restart)
    assert count == 5
    assert error > limit
    assert error == pytest.approx(np.linalg.norm(matrix @ x.numpy() - right))


@pytest.mark.parametrize(("name", "kind"), [("cg", CG), ("cr", CR)])
def test_restart(name, kind):
    matrix, right = system(name, 30)
    a, b, x = wp.array(matrix), wp.array(right), wp.zeros(30, dtype=wp.float64)
    seen = []
    count, error, limit = SOLVERS[name](
        a, b, x, restart=4, check_every=1, maxiter=400, callback=lambda i, *_: seen.append(i)
    )
    assert error <= limit
    assert count % 4 == 0
    assert seen == list(range(0, count + 1, 4))
    # The residual is the solution's own, not that of a recurrence.
    assert error == pytest.approx(np.linalg.norm(matrix @ x.numpy() - right), rel=1e-3)
    assert isinstance(SOLVERS[name](a, b, x, run=False, restart=np.int64(3)), kind)
    for wrong in (True, 1.5):
        with pytest.raises(KernelTypeError, match="restart must be an integer or None"):
            SOLVERS[name](a, b, x, restart=wrong)
    with pytest.raises(KernelValueError, match="restart must be positive, got 0"):
        SOLVERS[name](a, b, x, restart=0)


@pytest.mark.parametrize("sizes", [[5, 5, 5], [3, 0, 7, 1], [9]])
@pytest.mark.parametrize(("name", "side"), CASES)
def test_batches(name, sizes, side):
    """Each system as if it were alone; what belongs to none stays as it is."""
    tail, total = 2, sum(sizes)
    matrix, right = np.eye(total + tail), np.full(total + tail, 50.0)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    for i, (start, end) in enumerate(pairwise(offsets)):
        matrix[start:end, start:end], right[start:end] = system(name, end - start, i)
        right[start:end] *= 10.0**-i  # to its own tolerance
    a, b = wp.array(matrix), wp.array(right)
    x = wp.full(total + tail, 7.0, dtype=wp.float64)
    whole = aslinearoperator(a, batch_offsets=wp.array(offsets, dtype=int), max_batch_length=max(sizes))
    assert whole.batch_count == len(sizes)
    _, error, limit = SOLVERS[name](whole, b, x, tol=1e-9, atol=0.0, **options(name, side, a))
    assert error <= limit
    for start, end in pairwise(offsets):
        rest = matrix[start:end, start:end] @ x.numpy()[start:end] - right[start:end]
        assert np.linalg.norm(rest) <= 2e-9 * np.linalg.norm(right[start:end])
    assert (x.numpy()[total:] == 7.0).all()


@pytest.mark.parametrize("name", SOLVERS)
def test_unread(name):
    """`check_every=0`: arrays, and a kernel for a callback; a capture keeps it."""
    matrix, right = system(name, 12)
    a, b, x = wp.array(matrix), wp.array(right), wp.zeros(12, dtype=wp.float64)

    @wp.kernel
    def content(count: wp.array[int], square: wp.array[wp.float64], limit: wp.array[wp.float64]):
        limit[0] = square[0] * 1e6 + wp.float64(count[0])

    restart = {"restart": 12} if name == "gmres" else {}
    count, *_ = SOLVERS[name](a, b, x, check_every=0, callback=content, maxiter=100, **restart)
    assert count.numpy()[0] == (12 if name == "gmres" else 1)
    solver = SOLVERS[name](a, b, x, check_every=0, maxiter=100, run=False, **restart)
    x.zero_()
    count, square, limit = solver()
    assert 0 < count.numpy()[0] < 100
    assert square.numpy()[0] <= limit.numpy()[0]
    np.testing.assert_allclose(x.numpy(), np.linalg.solve(matrix, right), rtol=1e-8)
    with wp.ScopedCapture() as capture:
        solver()
    for factor in (2.0, 3.0):
        b.assign(factor * right)
        x.zero_()
        wp.capture_launch(capture.graph)
        np.testing.assert_allclose(x.numpy(), factor * np.linalg.solve(matrix, right), rtol=1e-8)
    with pytest.raises(KernelValueError, match="contents cannot be read"), wp.ScopedCapture():
        SOLVERS[name](a, b, x)


@pytest.mark.parametrize("every", [0, 10])
@pytest.mark.parametrize("name", SOLVERS)
def test_residuals_are_true(name, every):
    """From so far away that rounding parts the residual of the iteration from that of its solution."""
    matrix, right = (v.astype(np.float32) for v in system(name, 6))
    a, b, x = wp.array(matrix), wp.array(right), wp.full(6, 1e8)
    _, error, limit = SOLVERS[name](a, b, x, maxiter=100, check_every=every)
    if every == 0:
        error, limit = (np.sqrt(v.numpy()[0]) for v in (error, limit))
    true = np.linalg.norm(right - matrix.astype(float) @ x.numpy().astype(float))
    assert error == pytest.approx(true, rel=1e-3, abs=3e-6)
    if every:
        assert error <= limit


@pytest.mark.parametrize("name", SOLVERS)
def test_overflow_is_told(name):
    """No residual is near a tolerance that is infinite because squares are."""
    for right in (np.full(3, 1e25), np.array([1.0, np.inf, 0.0])):
        x = wp.zeros(3)
        _, error, limit = SOLVERS[name](wp.array(2 * np.eye(3), dtype=float), wp.array(right, dtype=float), x)
        assert not error <= limit


@pytest.mark.parametrize("name", SOLVERS)
def test_shared_memory(name):
    """The solution is in a part of the right-hand side's memory, or of the matrix's."""
    matrix, right = system(name, 40)
    long, a, restart = wp.zeros(43, dtype=wp.float64), wp.array(matrix), {"restart": 5} if name == "gmres" else {}
    long[:40].assign(right)
    for b, x in ((long[:40], long[3:]), (wp.array(right), a[7])):
        expected = np.linalg.solve(matrix, right)
        _, error, limit = SOLVERS[name](a, b, x, maxiter=400, **restart)
        assert error <= limit
        np.testing.assert_allclose(x.numpy(), expected, rtol=1e-8)


@pytest.mark.parametrize(("name", "kind"), [("cg", CG), ("cr", CR), ("bicgstab", BiCGSTAB), ("gmres", GMRES)])
def test_solvers_again(name, kind):
    """A solver that is kept: with its arguments, with others, with a preconditioner or without."""
    one, two = system(name, 16, 1), system(name, 16, 2)
    a, b, x = wp.array(one[0]), wp.array(one[1]), wp.zeros(16, dtype=wp.float64)
    first = preconditioner(a)
    solver = SOLVERS[name](a, b, x, maxiter=100, run=False, M=first)
    assert isinstance(solver, kind)
    solver()
    np.testing.assert_allclose(x.numpy(), np.linalg.solve(*one), rtol=1e-8)
    other, y = wp.array(two[0]), wp.zeros(16, dtype=wp.float64)
    solver(A=other, b=wp.array(two[1]), x=y, M=preconditioner(other))
    np.testing.assert_allclose(y.numpy(), np.linalg.solve(*two), rtol=1e-8)
    if name == "bicgstab":
        with pytest.raises(KernelValueError, match="M: expected None, as the solver was made with, got a matrix"):
            BiCGSTAB(a, b, x)(M=first)


def test_what_fits_a_solver():
    a, b = wp.array(np.eye(4)), wp.ones(4, dtype=wp.float64)
    solver = cg(a, b, wp.zeros_like(b), run=False)
    for wrong, message in (
        ({"b": wp.ones(5, dtype=wp.float64)}, r"cg: b: expected float64 of shape \(4,\) on cpu, got .* \(5,\)"),
        ({"x": wp.ones(4, dtype=wp.float32)}, "cg: x: expected numbers of float64, as A has, got float32"),
        ({"A": wp.array(np.eye(4), dtype=float)}, "cg: A: expected dtype float64, got float32"),
        ({"A": wp.array(np.eye(5))}, r"cg: A: expected shape \(4, 4\), got \(5, 5\)"),
        ({"A": aslinearoperator(a, wp.array([0, 4], dtype=int))}, "cg: A: expected the batch_offsets"),
    ):
        with pytest.raises(KernelValueError, match=message):
            solver(**wrong)


def test_preconditioners():
    matrix = np.array([[-2.0, 1.0, 0.0], [1.0, 0.0, 3.0], [0.0, 1.0, 4.0]])
    a, x = wp.array(matrix), wp.array([1.0, 1.0, 1.0], dtype=wp.float64)
    for kind, expected in (("diag", [-0.5, 1.0, 0.25]), ("diag_abs", [0.5, 1.0, 0.25])):
        z = wp.full(3, np.nan, dtype=wp.float64)
        inverse = preconditioner(a, kind)
        assert inverse is not None
        inverse.matvec(x, z, z, alpha=2.0, beta=0.0)
        np.testing.assert_array_equal(z.numpy(), 2 * np.array(expected))
    assert preconditioner(a, "id") is None


@pytest.mark.parametrize("kind", ["dense", "diagonal"])
def test_products(kind):
    """`z = alpha A x + beta y`, whatever of these are one array; nothing is read that is multiplied by 0."""
    rng = np.random.default_rng(5)
    matrix = rng.standard_normal((6, 6)) if kind == "dense" else np.diag(rng.standard_normal(6))
    product = aslinearoperator(wp.array(matrix if kind == "dense" else np.diag(matrix).copy())).matvec
    for shared in ("none", "xz", "yz", "xyz"):
        x, y = (wp.array(rng.standard_normal(6)) for _ in range(2))
        y = x if shared == "xyz" else y
        z = {"none": wp.zeros_like(x), "xz": x, "yz": y, "xyz": x}[shared]
        expected = 0.5 * matrix @ x.numpy() - 2.0 * y.numpy()
        product(x, y, z, alpha=0.5, beta=-2.0)
        np.testing.assert_allclose(z.numpy(), expected, rtol=1e-12, atol=1e-12)
    nan, x = wp.full(6, np.nan, dtype=wp.float64), wp.ones(6, dtype=wp.float64)
    product(x, nan, nan, alpha=1.0, beta=0.0)
    np.testing.assert_allclose(nan.numpy(), matrix @ np.ones(6), rtol=1e-12)
    nan.fill_(np.nan)
    product(nan, x, x, alpha=0.0, beta=3.0)
    np.testing.assert_array_equal(x.numpy(), 3.0)


@wp.kernel
def double(p: wp.array[wp.float64], b: wp.array[wp.float64]):
    i = wp.tid()
    b[i] = 2.0 * p[i]


@wp.kernel
def cubes(x: wp.array[wp.float64], total: wp.array[wp.float64]):
    i = wp.tid()
    wp.atomic_add(total, 0, x[i] * x[i] * x[i] * wp.float64(1e-9))


@pytest.mark.parametrize("form", ["dense", "diagonal", "sparse"])
@pytest.mark.parametrize("name", SOLVERS)
def test_tape(name, form):
    """Between launches: derivatives by the matrix and by what the right-hand side is made of, however small."""
    matrix, p = system(name, 8)
    matrix = np.diag(np.diag(matrix)) if form == "diagonal" else matrix
    parts = matrix.reshape(4, 2, 4, 2).swapaxes(1, 2).reshape(16, 2, 2)
    if form == "sparse":
        places = (wp.array(i.ravel().astype(np.int32)) for i in np.indices((4, 4)))
        A = wp.sparse.bsr_from_triplets(4, 4, *places, wp.array(parts, dtype=wp.mat22d, requires_grad=True))
        values = A.values
    else:
        A = values = wp.array(np.diag(matrix).copy() if form == "diagonal" else matrix, requires_grad=True)
    given, right, x = (wp.array(v, requires_grad=True) for v in (p, np.zeros(8), np.ones(8)))
    total = wp.zeros(1, dtype=wp.float64, requires_grad=True)
    M = preconditioner(wp.array(matrix))
    with wp.Tape() as tape:
        wp.launch(double, 8, [given], [right])
        SOLVERS[name](A, right, x, tol=1e-13, maxiter=200, M=M)
        wp.launch(cubes, 8, [x], [total])
    tape.backward(total)
    found = np.linalg.solve(matrix, 2.0 * p)
    u = np.linalg.solve(matrix.T, 3e-9 * found**2)
    np.testing.assert_allclose(given.grad.numpy(), 2.0 * u, rtol=1e-7)
    expected = -np.outer(u, found)
    if form == "sparse":
        expected = expected.reshape(4, 2, 4, 2).swapaxes(1, 2).reshape(16, 2, 2)
    expected = np.diag(expected) if form == "diagonal" else expected
    np.testing.assert_allclose(values.grad.numpy(), expected, rtol=1e-7, atol=1e-18)


@pytest.mark.parametrize("name", SOLVERS)
def test_cotangents_of_any_size(name):
    """Whose squares overflow or vanish; an absolute tolerance is not that of derivatives."""
    matrix, right = (v.astype(np.float32) for v in system(name, 6))
    for size in (1e25, 1e-25):
        b, x = (wp.array(v, dtype=float, requires_grad=True) for v in (right, 0 * right))
        with wp.Tape() as tape:
            SOLVERS[name](wp.array(matrix), b, x, atol=10.0, maxiter=100)
        tape.backward(grads={x: wp.array(right * np.float32(size))})
        np.testing.assert_allclose(b.grad.numpy() / size, np.linalg.solve(matrix.T, right), rtol=1e-4)


@pytest.mark.parametrize("name", SOLVERS)
def test_solutions_in_the_place_of_what_is_given(name):
    """The solution overwrites the right-hand side, which depends on another solution."""
    matrix, right = system(name, 6)
    a, b, x = (wp.array(v, requires_grad=True) for v in (matrix, right, 0 * right))
    with wp.Tape() as tape:
        SOLVERS[name](a, b, x, tol=1e-13, maxiter=100)
        SOLVERS[name](a, x, x, tol=1e-13, maxiter=100)
    tape.backward(grads={x: wp.array(right)})
    first, u = (np.linalg.solve(m, right) for m in (matrix, matrix.T))
    second, v = np.linalg.solve(matrix, first), np.linalg.solve(matrix.T, u)
    np.testing.assert_allclose(x.numpy(), second, rtol=1e-9)
    np.testing.assert_allclose(b.grad.numpy(), v, rtol=1e-9)
    np.testing.assert_allclose(a.grad.numpy(), -np.outer(u, second) - np.outer(v, first), rtol=1e-9)


def test_what_a_tape_refuses():
    """What it would leave out."""
    a, b = wp.array(np.diag([1.0, 2.0, 3.0])), wp.ones(3, dtype=wp.float64, requires_grad=True)
    x = wp.zeros_like(b)
    for name, solve in SOLVERS.items():
        for A in (operator(a.numpy()), aslinearoperator(a, wp.array([0, 3], dtype=int))):
            with wp.Tape(), pytest.raises(KernelTypeError, match=f"{name}: a tape is recording, and A is a function"):
                solve(A, b, x)
        with wp.Tape(), pytest.raises(KernelValueError, match=f"{name}: x: expected an array with a gradient"):
            solve(a, b, wp.zeros(3, dtype=wp.float64))
    with wp.Tape(), pytest.raises(KernelValueError, match="cg: x has gaps between its elements, and a tape"):
        cg(a, b, wp.zeros(6, dtype=wp.float64, requires_grad=True)[::2])
    with wp.Tape() as tape:
        cg(a, b, x, maxiter=1)
    x.grad.fill_(1.0)
    with pytest.raises(DifferentiationError, match="cg: the system of its derivative was not solved: its residual is"):
        tape.backward()


@wp.kernel
def triple(a: wp.array2d[wp.float64]):
    i, j = wp.tid()
    a[i, j] = wp.float64(3.0) * a[i, j]


def test_a_tape_needs_the_matrix_that_was_solved_with():
    matrix, right = system("cg", 5)
    for is_recorded in (True, False):
        A, b, x = (wp.array(v, requires_grad=True) for v in (matrix, right, np.zeros(5)))
        with wp.Tape() as tape:
            cg(A, b, x, tol=1e-13)
            if is_recorded:
                wp.launch(triple, (5, 5), [A])
        if not is_recorded:
            wp.launch(triple, (5, 5), [A])
        with pytest.raises(KernelValueError, match="cg: A has changed since it was solved with"):
            tape.backward(grads={x: wp.ones(5, dtype=wp.float64)})


@pytest.mark.parametrize(("of_b", "of_x"), [(False, False), (False, True), (True, True)])
def test_a_tape_loses_no_derivative_between(of_b, of_x):
    """What depends on an array with a gradient has one, or is refused; what does not needs none."""
    matrix, right = system("cg", 5)
    p, A = wp.array(right, requires_grad=True), wp.array(matrix)
    b, x = (wp.zeros(5, dtype=wp.float64, requires_grad=has) for has in (of_b, of_x))
    y, given = wp.zeros(5, dtype=wp.float64, requires_grad=True), np.arange(1.0, 6.0)
    with wp.Tape() as tape:
        wp.launch(double, 5, [p, b])
        cg(A, b, x, tol=1e-13)
        wp.launch(double, 5, [x, y])
    if of_b and of_x:
        tape.backward(grads={y: wp.array(given)})
        np.testing.assert_allclose(p.grad.numpy(), 4 * np.linalg.solve(matrix.T, given), rtol=1e-8)
    else:
        with pytest.raises(KernelValueError, match="cg: b depends on an array with a gradient, and has none"):
            tape.backward(grads={y: wp.array(given)})
    with wp.Tape() as other:
        cg(A, wp.array(right), wp.zeros(5, dtype=wp.float64), tol=1e-13)
        wp.launch(double, 5, [p, y])
    p.grad.zero_()
    other.backward(grads={y: wp.array(given)})
    np.testing.assert_array_equal(p.grad.numpy(), 2 * given)


REFUSED = {
    "A is nothing": ({"A": None}, KernelTypeError, "cg: A: expected a matrix or a LinearOperator, got None"),
    "A is a list": ({"A": [[1.0]]}, KernelValueError, "cg: A: expected an array outside of JAX .* got list"),
    "integers": (
        {"A": wp.zeros((3, 3), dtype=int)}, KernelTypeError,
        "cg: A: expected an array of floats, got one of int32",
    ),
    "matrices": (
        {"A": wp.zeros((3, 3), dtype=wp.vec2)}, KernelTypeError, "cg: A: expected an array of floats, got one of",
    ),
    "types": (
        {"b": wp.ones(3, dtype=float)}, KernelValueError, "cg: b: expected numbers of float64, as A has, got float32",
    ),
    "axes": (
        {"b": wp.ones((3, 1), dtype=wp.float64)}, KernelTypeError, "cg: b: expected a row of floats or of vectors",
    ),
    "no array": ({"b": 3.0}, KernelTypeError, "cg: b: expected an array outside of JAX, got float"),
    "another size": (
        {"x": wp.ones(4, dtype=wp.float64)}, KernelValueError,
        r"cg: x: expected float64 of shape \(3,\) on cpu, got float64 of shape \(4,\) on cpu",
    ),
    "size of the matrix": (
        {"A": wp.array(np.eye(4))}, KernelValueError, "LinearOperator.matvec: x: expected 4 numbers, got 3",
    ),
    "tolerance": ({"tol": -1.0}, KernelValueError, "cg: tol: expected a number that is not negative, got -1.0"),
    "absolute": ({"atol": "x"}, KernelValueError, "cg: atol: expected a number that is not negative, got 'x'"),
    "iterations": ({"maxiter": -2}, KernelValueError, "cg: maxiter: expected a number that is not negative, got -2"),
    "how often": ({"check_every": -1}, KernelValueError, "cg: check_every must be non-negative, got -1"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    changes, kind, message = REFUSED[case]
    given = {"A": wp.array(np.eye(3)), "b": wp.ones(3, dtype=wp.float64), "x": wp.zeros(3, dtype=wp.float64)}
    with pytest.raises(kind, match=message) as error:
        cg(**{**given, **changes})
    assert __file__ in str(error.value)


def test_refused_operators():
    a = wp.array(np.eye(3))
    with pytest.raises(KernelValueError, match="max_batch_length requires batch_offsets"):
        aslinearoperator(a, max_batch_length=3)
    with pytest.raises(KernelTypeError, match="batch_offsets: expected a row of int32, got float64"):
        aslinearoperator(a, batch_offsets=wp.zeros(3, dtype=wp.float64))
    with pytest.raises(KernelValueError, match="there is no ptype 'ilu'"):
        preconditioner(a, "ilu")
    with pytest.raises(KernelValueError, match="A: expected a square matrix"):
        preconditioner(wp.ones((2, 3), dtype=wp.float64))
    b = wp.ones(3, dtype=wp.float64)
    for wrong in ([0, 4], [-1, 3], [0, 2, 1]):
        with pytest.raises(KernelValueError, match="batch_offsets: expected numbers from 0 to 3 in order"):
            cg(aslinearoperator(a, wp.array(wrong, dtype=int)), b, wp.zeros_like(b))
    with pytest.raises(KernelValueError, match="restart must be positive, got 0"):
        gmres(a, b, wp.zeros_like(b), restart=0)


def test_an_unknown_argument_names_a_public_class():
    with pytest.raises(TypeError, match=r"^LinearSolverState\(\) got an unexpected keyword argument 'nonsense'"):
        CG(wp.array(np.eye(2, dtype=np.float32)), wp.ones(2), wp.zeros(2), nonsense=1)  # pyright: ignore


def test_a_matrix_of_jax_with_an_array_outside_is_refused():
    with pytest.raises(wp.KernelError, match=r"got BsrMatrix.* of JAX arrays") as caught:
        cg(wp.sparse.bsr_diag(jnp.ones(2)), wp.ones(2), wp.zeros(2))
    assert caught.value.hint.startswith("the right side b is an array outside of JAX")
