"""Cotangents that are zero: a side that was not taken spoils nothing, and zeros move like other numbers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.types import float64 as F

SECOND = {
    "forward over reverse": lambda f: jax.jit(jax.jacfwd(jax.grad(f))),
    "reverse over reverse": lambda f: jax.jit(jax.jacrev(jax.grad(f))),
    "reverse over forward": lambda f: jax.jit(jax.jacrev(jax.jacfwd(f))),
    "forward over forward": lambda f: jax.jit(jax.jacfwd(jax.jacfwd(f))),
}


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@wp.kernel
def chooses(x: wp.array[F], y: wp.array[F], out: wp.array[F]):
    i = wp.tid()
    u = wp.sin(x[i]) * y[i]
    v = wp.where(x[i] > 0.5, u * u, x[i] * y[i])
    if y[i] > 0.5:
        v = wp.max(v, wp.min(u, F(0.3))) * v
    out[i] = v


@pytest.mark.parametrize("modes", SECOND)
def test_the_hessian_of_least_squares_where_nothing_is_left(modes):
    """At residuals of zero it is 2 J^T J: the cotangents are zero there, and move."""
    call = wp.jax_kernel(chooses)
    z = jnp.array([0.3, 0.8, 1.2, 0.6, 0.4, 0.7, 1.3, 0.45])
    found = call(z[:4], z[4:])[0]
    jacobian = jax.jacfwd(lambda z: call(z[:4], z[4:])[0])(z)
    hessian = SECOND[modes](lambda z: jnp.sum((call(z[:4], z[4:])[0] - found) ** 2))(z)
    np.testing.assert_allclose(hessian, 2 * jacobian.T @ jacobian, rtol=1e-10, atol=1e-12)


@wp.kernel
def raised(x: wp.array[F], y: wp.array[F], out: wp.array[F]):
    i = wp.tid()
    out[i] = wp.pow(x[i], y[i])


@pytest.mark.parametrize("modes", SECOND)
def test_powers_at_exponents_of_zero(modes):
    """d/dx x^y = y x^(y-1) is zero at y = 0, and moves with y."""
    z = jnp.array([0.3, 0.8, 1.2, 0.0, 0.0, 1.0])
    hessian = SECOND[modes](lambda z: jnp.sum(wp.jax_kernel(raised)(z[:3], z[3:])[0]))(z)
    expected = jax.jit(jax.hessian(lambda z: jnp.sum(z[:3] ** z[3:])))(z)
    np.testing.assert_allclose(hessian, expected, rtol=1e-10, atol=1e-12)


def test_powers_of_numbers_that_are_not_positive_move_as_in_jax():
    """Below zero a power is defined for whole exponents only: it has no derivative by them."""
    x = np.array([-2.0, -2.0, -1.0, 0.0, 0.0, -0.0, 0.0, 2.0, np.inf])
    y = np.array([3.0, 0.5, -2.0, 2.0, 0.0, 3.0, -1.0, 3.0, 2.0])
    for mode in (jax.jacfwd, jax.jacrev):
        found = mode(lambda y: wp.jax_kernel(raised)(x, y)[0])(y)
        np.testing.assert_allclose(np.diag(found), np.diag(jax.jit(mode(lambda y: x**y))(y)), rtol=1e-12)
    assert np.isnan(np.diag(found)).tolist() == [True, True, True, False, False, False, True, False, False]


@wp.kernel
def remainder_of(x: wp.array[F], y: wp.array[F], out: wp.array[F]):
    i = wp.tid()
    out[i] = x[i] % y[i]


def test_remainders_move_by_the_quotient_that_they_took():
    """1.0 % 0.1 took 9 whole times, though 1.0 / 0.1 is rounded to 10."""
    x, y = np.array([1.0, -1.0, 0.6, 0.5]), np.array([0.1, 0.1, 0.2, 0.2])
    for mode in (jax.jacfwd, jax.jacrev):
        found = mode(lambda y: wp.jax_kernel(remainder_of)(x, y)[0])(y)
        np.testing.assert_array_equal(np.diag(found), [-9.0, 9.0, -2.0, -2.0])


@wp.kernel
def angles(x: wp.array[F], y: wp.array[F], out: wp.array[F]):
    i = wp.tid()
    out[i] = wp.acos(x[i]) * wp.asin(y[i])


@pytest.mark.parametrize("modes", SECOND)
def test_arc_functions_at_and_beyond_their_ends(modes):
    """They are constant from there on, in every order; JAX's of a clamped argument say the same inside."""
    z = jnp.array([1.0, 1.5, -1.0, -2.0, 0.3, 0.5, 1.0, -1.25, 0.5, -0.7])
    edge = jnp.abs(z) >= 1

    @jax.jit
    def by_jax(z):
        x, y = jnp.split(jnp.where(edge, jax.lax.stop_gradient(jnp.clip(z, -1, 1)), z), 2)
        ends = jnp.where(jnp.abs(x) == 1, jnp.where(x > 0, 0.0, jnp.pi), jnp.arccos(jnp.where(jnp.abs(x) == 1, 0.0, x)))
        others = jnp.where(jnp.abs(y) == 1, y * jnp.pi / 2, jnp.arcsin(jnp.where(jnp.abs(y) == 1, 0.0, y)))
        return jnp.sum(ends * others)

    def ours(z):
        return jnp.sum(wp.jax_kernel(angles)(z[:5], z[5:])[0])

    np.testing.assert_allclose(jax.grad(ours)(z), jax.grad(by_jax)(z), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(SECOND[modes](ours)(z), SECOND[modes](by_jax)(z), rtol=1e-12, atol=1e-14)


@wp.kernel
def made_before_an_if(x: wp.array[F], y: wp.array[F], iterations: wp.array[int], out: wp.array[F]):
    i = wp.tid()
    u = wp.log(x[i]) * y[i]
    if x[i] > 0.0:
        out[i] = u * y[i]
    else:
        out[i] = y[i]


@wp.kernel
def made_before_a_loop(x: wp.array[F], y: wp.array[F], iterations: wp.array[int], out: wp.array[F]):
    i = wp.tid()
    u = wp.log(x[i]) * wp.sqrt(x[i])
    s = y[i]
    for _ in range(iterations[i]):
        s = s * F(0.9) + F(0.01) * u * s
    out[i] = s * y[i]


@wp.kernel
def made_by_a_loop(x: wp.array[F], y: wp.array[F], iterations: wp.array[int], out: wp.array[F]):
    i = wp.tid()
    s = x[i]
    for _ in range(20):
        s = wp.sqrt(s) + F(0.1)
    out[i] = y[i]
    if iterations[i] > 0:
        out[i] = wp.log(s) * y[i]


@wp.kernel
def chosen_in_a_loop(x: wp.array[F], y: wp.array[F], iterations: wp.array[int], out: wp.array[F]):
    i = wp.tid()
    s = y[i]
    for _ in range(35):
        t = wp.log(x[i]) * s
        if x[i] > 0.0:
            s = s + F(0.01) * t
            s += wp.sqrt(x[i]) * F(0.1)
        else:
            s = s * (F(1.0) - F(0.01) * s)
    out[i] = s


@pytest.mark.parametrize("kernel", [made_before_an_if, made_before_a_loop, made_by_a_loop, chosen_in_a_loop])
def test_what_is_not_used_does_not_make_gradients_nan(kernel):
    """Half of x is negative, where nothing that is used depends on it; forward mode says what is right."""
    iterations = jnp.array([0, 0, 3, 40], jnp.int32)
    z = jnp.array([-0.5, -1.0, 0.5, 1.5, 0.7, 0.6, 0.5, 0.4])

    def f(z):
        return jnp.sum(jnp.sin(wp.jax_kernel(kernel)(z[:4], z[4:], iterations)[0]))

    forward = jax.jacfwd(f)(z)
    assert np.isfinite(forward).all()
    np.testing.assert_allclose(jax.grad(f)(z), forward, rtol=1e-10)
    second, expected = (SECOND[modes](f)(z) for modes in ("reverse over reverse", "forward over forward"))
    np.testing.assert_allclose(second, expected, rtol=1e-9, atol=1e-12)
