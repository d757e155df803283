"""Solvers of systems of values of JAX, and their derivatives, against `jnp.linalg.solve`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.optim.linear import LinearOperator, bicgstab, cg, cr, gmres, preconditioner

SOLVERS = {"cg": cg, "cr": cr, "bicgstab": bicgstab, "gmres": gmres}
FORMS = ("array", "sparse", "operator", "function")


@pytest.fixture(autouse=True)
def _wide():
    with jax.enable_x64(True):
        yield


def system(name, n=8, seed=0):
    rng = np.random.default_rng(seed)
    c = rng.standard_normal((n, n))
    matrix = c @ c.T + n * np.eye(n)
    if name in ("bicgstab", "gmres"):
        matrix = matrix @ np.diag(rng.uniform(0.5, 2.0, n))
    return jnp.asarray(matrix), jnp.asarray(rng.standard_normal(n))


def formed(form, matrix):
    """The matrix in one of the ways that solvers take."""
    n = len(matrix)
    if form == "sparse":
        rows, columns = (jnp.asarray(i.ravel(), jnp.int32) for i in np.indices((n, n)))
        return wp.sparse.bsr_from_triplets(n, n, rows, columns, matrix.reshape(-1))
    if form == "operator":
        return LinearOperator((n, n), wp.float64, None, lambda x: matrix @ x)
    return (lambda x: matrix @ x) if form == "function" else matrix


# Solvers see a function that multiplies by the matrix, whatever its form: one has them all.
@pytest.mark.parametrize(
    ("name", "form"), [*((name, "array") for name in SOLVERS), *(("cg", form) for form in FORMS[1:])]
)
def test_solutions(name, form):
    matrix, b = system(name)

    @jax.jit
    def solved(matrix, b):
        A = formed(form, matrix)
        return SOLVERS[name](A, b, M=preconditioner(matrix), tol=1e-11), SOLVERS[name](A, b, b, tol=1e-11)

    for found in solved(matrix, b):
        np.testing.assert_allclose(found.x, jnp.linalg.solve(matrix, b), rtol=1e-9)
        assert found.residual <= found.tolerance
        assert found.tolerance == pytest.approx(1e-11 * max(1.0, np.linalg.norm(b)))
        assert found.residual == pytest.approx(np.linalg.norm(matrix @ found.x - b), abs=1e-13)


@pytest.mark.parametrize(("name", "form"), [*((name, "array") for name in SOLVERS), ("bicgstab", "sparse")])
def test_derivatives(name, form):
    """In both modes, of `bicgstab` also of second order; of numbers far below every absolute tolerance."""
    matrix, b = system(name, 4)

    def energy(solve, matrix, b):
        # What is symmetric stays so.
        matrix = (matrix + matrix.T) / 2 if name in ("cg", "cr") else matrix
        return 1e-9 * (solve(matrix, b) ** 3).sum()

    def ours(matrix, b):
        return SOLVERS[name](formed(form, matrix), b, M=preconditioner(matrix), tol=1e-12).x

    def second(f, arguments):
        return jax.jacfwd(jax.grad(f, 1), arguments)

    modes = (jax.grad, jax.jacfwd, *([second] if (name, form) == ("bicgstab", "array") else []))

    def derivatives(solve, modes):
        every = [mode(lambda m, b: energy(solve, m, b), (0, 1)) for mode in modes]
        return jax.jit(lambda m, b: [one(m, b) for one in every])(matrix, b)

    expected = derivatives(jnp.linalg.solve, modes[1:])
    for found, exact in zip(derivatives(ours, modes), [expected[0], *expected], strict=True):
        for got, want in zip(found, exact, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-18)


@pytest.mark.parametrize("name", SOLVERS)
def test_batches(name):
    systems = [system(name, 6, seed) for seed in range(3)]
    matrices, rights = (jnp.stack(parts) for parts in zip(*systems, strict=True))
    rights = rights.at[1].set(0.0)

    def total(b, matrix):
        found = SOLVERS[name](matrix, b, tol=1e-11).x
        return found.sum(), found

    slopes, found = jax.jit(jax.vmap(jax.grad(total, has_aux=True)))(rights, matrices)
    expected = jnp.linalg.solve(matrices, rights[..., None])[..., 0]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    ones = jnp.ones_like(rights)[..., None]
    np.testing.assert_allclose(slopes, jnp.linalg.solve(matrices.swapaxes(1, 2), ones)[..., 0], rtol=1e-8)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.float32])
@pytest.mark.parametrize("name", SOLVERS)
def test_other_floats(name, dtype):
    matrix, b = (value.astype(dtype) for value in system(name))
    tolerance = 2e-2 if dtype == jnp.float16 else 1e-5
    found = jax.jit(lambda matrix, b: SOLVERS[name](matrix, b, tol=tolerance))(matrix, b)
    assert found.x.dtype == dtype
    assert found.residual <= found.tolerance
    exact = np.linalg.solve(np.asarray(matrix, float), np.asarray(b, float))
    np.testing.assert_allclose(np.asarray(found.x, float), exact, atol=tolerance)


@pytest.mark.parametrize("name", SOLVERS)
def test_numbers_far_from_one(name):
    """Whose squares overflow or vanish: solutions and derivatives as of others; an infinite norm is none to be near."""
    matrix, b = (value.astype(np.float32) for value in system(name))

    @jax.jit
    def both(b, cotangent):
        def solved(b):
            found = SOLVERS[name](matrix, b, maxiter=50)
            return found.x, found

        _, back, found = jax.vjp(solved, b, has_aux=True)
        return found, back(cotangent)[0]

    found, _ = both(b * jnp.float32(np.inf), b)
    assert not found.residual <= found.tolerance
    for large, small in ((1e25, 1e-30), (1e-30, 1e25)):
        found, slope = both(b * np.float32(large), b * np.float32(small))
        assert found.residual <= found.tolerance
        np.testing.assert_allclose(slope / np.float32(small), jnp.linalg.solve(matrix.T, b), rtol=1e-4)
        if large > 1:
            np.testing.assert_allclose(found.x / np.float32(large), jnp.linalg.solve(matrix, b), rtol=1e-4)


@pytest.mark.parametrize("name", SOLVERS)
def test_tolerances_of_derivatives(name):
    """An absolute tolerance is none of theirs, and what is not found is NaN."""
    matrix, b = system(name)
    ways = ({"atol": 10.0}, {"tol": 0.0, "atol": 1e-3}, {"tol": 2.0, "atol": 0.0}, {"maxiter": None})

    @jax.jit
    def slopes(matrix, b):
        each = [{"maxiter": 30, **how} for how in ways]
        return [jax.grad(lambda b, how=how: SOLVERS[name](matrix, b, **how).x.sum())(b) for how in each]

    exact = jnp.linalg.solve(matrix.T, jnp.ones(8))
    for how, slope in zip(ways, slopes(matrix, b), strict=True):
        np.testing.assert_allclose(slope, exact, atol=1e-2 if how.get("tol") else 1e-9)
    for wrong in (jnp.zeros_like(matrix), matrix.at[0, 0].set(jnp.nan)):
        for slope in slopes(wrong, b):
            assert jnp.isnan(slope).all()


@pytest.mark.parametrize("name", ["cg", "bicgstab"])
def test_vectors(name):
    """Of shape (n, 3): with a sparse matrix of 3 by 3 blocks, a diagonal of vectors, and a function of them."""
    matrix, b = system(name, 9)
    parts = matrix.reshape(3, 3, 3, 3).swapaxes(1, 2).reshape(9, 3, 3)
    rows, columns = (jnp.asarray(i.ravel(), jnp.int32) for i in np.indices((3, 3)))
    sparse, vectors = wp.sparse.bsr_from_triplets(3, 3, rows, columns, parts), b.reshape(3, 3)
    expected = jnp.linalg.solve(matrix, b).reshape(3, 3)
    wide = jnp.arange(1.0, 13.0).reshape(4, 3)

    @jax.jit
    def solved(sparse, matrix):
        forms = (sparse, matrix, lambda x: (matrix @ x.reshape(-1)).reshape(3, 3))
        found = [SOLVERS[name](A, vectors, M=preconditioner(sparse), tol=1e-11).x for A in forms]
        return found, SOLVERS[name](wide, wide**2, tol=1e-12).x

    found, root = solved(sparse, matrix)
    for one in found:
        np.testing.assert_allclose(one, expected, rtol=1e-9)
    np.testing.assert_allclose(root, wide, rtol=1e-9)


@pytest.mark.parametrize("name", SOLVERS)
def test_nothing_and_breakdown(name):
    matrix, b = system(name)

    @jax.jit
    def nothing(b):
        return jax.value_and_grad(lambda b: SOLVERS[name](matrix, b, tol=1e-11).x.sum())(b)

    value, slope = nothing(jnp.zeros_like(b))
    assert value == 0
    np.testing.assert_allclose(slope, jnp.linalg.solve(matrix.T, jnp.ones_like(b)), rtol=1e-8)
    singular = jax.jit(SOLVERS[name])(jnp.zeros((4, 4)), jnp.ones(4))
    assert not singular.residual <= singular.tolerance
    if name == "gmres":
        return
    assert not singular.x.any()
    few = jax.jit(lambda matrix, b: SOLVERS[name](matrix, b, maxiter=2))(matrix, b)
    assert few.residual > few.tolerance
    assert few.residual == pytest.approx(np.linalg.norm(matrix @ few.x - b))


REFUSED = {
    "callback": ({"callback": print}, KernelTypeError, "cg: callback is for arrays outside of JAX"),
    "run": ({"run": False}, KernelTypeError, "cg: run is for arrays outside of JAX"),
    "restart": ({"restart": 3}, KernelTypeError, "cg: restart is for arrays outside of JAX"),
    "shape": ({"A": np.eye(4)}, KernelValueError, r"cg: A: expected the shape \(3, 3\), or that of b .* got \(4, 4\)"),
    "type": ({"A": np.eye(3, dtype=np.float32)}, KernelTypeError, "cg: A: expected float64, as b is, got float32"),
    "list": ({"A": [[1.0]]}, KernelTypeError, "cg: A: expected an array of JAX, .* got list"),
    "start": ({"x": np.zeros(2)}, KernelValueError, r"cg: x: expected float64 of shape \(3,\), as b, got .* \(2,\)"),
    "integers": ({"b": np.ones(3, int)}, KernelTypeError, r"cg: b: expected floats .* got int64 of shape \(3,\)"),
    "outside": ({"A": wp.array(np.eye(3))}, KernelTypeError, "cg: A: expected an array of JAX, .* an array outside"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    changes, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        cg(**{"A": jnp.eye(3), "b": jnp.ones(3), **changes})


def test_systems_of_symbolic_size():
    (n,) = export.symbolic_shape("n")
    given = jax.ShapeDtypeStruct((n,), np.float32)

    def exported(solver, **options):
        f = jax.jit(lambda d, b: solver(d, b, **options).x)
        return export.export(f, disabled_checks=wp.export_checks())(given, given)

    diagonal, b = np.float32([2.0, 4.0, 5.0]), np.float32([2.0, 2.0, 1.0])
    np.testing.assert_allclose(exported(cg, maxiter=10).call(diagonal, b), b / diagonal, rtol=1e-5)
    with pytest.raises(KernelValueError, match=r"cg: b, without maxiter: expected extents that are numbers, got"):
        exported(cg)
    with pytest.raises(KernelValueError, match=r"gmres: b: expected extents that are numbers, got the shape \(n,\)"):
        exported(gmres, maxiter=10)


@pytest.mark.parametrize("name", SOLVERS)
def test_derivatives_where_nothing_is_to_be_solved(name):
    """The solver makes no step: the derivative is that of the solution."""
    matrix, along = system(name)
    zero = jnp.zeros_like(along)
    solve = lambda b: SOLVERS[name](matrix, b, zero, tol=1e-12).x  # noqa: E731

    @jax.jit
    def both(zero, along):
        return jax.jvp(solve, (zero,), (along,))[1], jax.grad(lambda b: solve(b) @ along)(zero)

    tangent, gradient = both(zero, along)
    np.testing.assert_allclose(tangent, jnp.linalg.solve(matrix, along), rtol=1e-8)
    np.testing.assert_allclose(gradient, jnp.linalg.solve(matrix.T, along), rtol=1e-8)


@pytest.mark.parametrize("kind", ["block_jacobi_direct", "block_jacobi_sequential", "block_jacobi_tile", "fsai"])
def test_preconditioners_that_are_not_for_values_of_jax(kind):
    places = jnp.arange(2, dtype=jnp.int32)
    blocks = wp.sparse.bsr_from_triplets(2, 2, places, places, jnp.ones((2, 2, 2), jnp.float32))
    for A in (jnp.eye(4), blocks):
        with pytest.raises(KernelValueError, match=f"preconditioner: {kind} is for matrices outside of JAX") as caught:
            preconditioner(A, kind)
        assert "pass as M a function of a vector" in str(caught.value)
        with pytest.raises(KernelValueError, match="got a value of JAX"):
            jax.jit(lambda A: preconditioner(A, kind).matvec(jnp.ones(4)))(A)
