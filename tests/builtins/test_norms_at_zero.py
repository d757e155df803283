"""Lengths and directions of the zero vector and quaternion: derivatives are finite, in both modes and second order."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.ir.nodes import Call, walk
from jaxwarp.passes.pipeline import prepare


@wp.kernel
def norms(v: wp.array[wp.vec3d], length: wp.array[wp.float64], l2: wp.array[wp.float64], huber: wp.array[wp.float64]):
    i = wp.tid()
    length[i] = wp.length(v[i])
    l2[i] = wp.norm_l2(v[i])
    huber[i] = wp.norm_huber(v[i], wp.float64(0.25))


@wp.kernel
def directions(v: wp.array[wp.vec3d], q: wp.array[wp.quatd], n: wp.array[wp.vec3d], r: wp.array[wp.quatd]):
    i = wp.tid()
    n[i] = wp.normalize(v[i])
    r[i] = wp.length(q[i]) * wp.normalize(q[i])


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def safe_norm(v):
    """As JAX users write it."""
    square = jnp.sum(v * v, -1)
    return jnp.where(square == 0, 0.0, jnp.sqrt(jnp.where(square == 0, 1.0, square)))


V = np.array([[0.0, 0.0, 0.0], [0.3, -0.2, 0.1], [1.0, 2.0, -3.0]])


def test_lengths():
    run = wp.jax_kernel(norms, num_outputs=3)

    def ours(v):
        return sum((k + 1) * jnp.sum(x * jnp.arange(1.0, 4.0)) for k, x in enumerate(run(v)))

    @jax.jit
    def theirs(v):
        n, w = safe_norm(v), jnp.arange(1.0, 4.0)
        huber = jnp.where(n <= 0.25, 0.5 * n * n, 0.25 * (n - 0.125))
        return jnp.sum(w * (3 * n + 3 * huber))

    t = np.ones_like(V)
    np.testing.assert_allclose(jax.grad(ours)(V), jax.grad(theirs)(V), rtol=1e-13)
    np.testing.assert_allclose(jax.jvp(ours, (V,), (t,))[1], jax.jvp(theirs, (V,), (t,))[1], rtol=1e-13)
    ours2, theirs2 = (jax.jvp(jax.grad(f), (V,), (t,))[1] for f in (ours, theirs))
    # Half the square of the length has the second derivative 1 at 0, which the composition in JAX loses.
    np.testing.assert_allclose(ours2[1:], theirs2[1:], rtol=1e-12, atol=1e-14)
    assert np.isfinite(ours2).all()


def test_directions():
    run = wp.jax_kernel(directions, num_outputs=2)
    q = np.concatenate([V, [[0.0], [0.5], [1.0]]], 1)

    def ours(v, q):
        n, r = run(v, q)
        return jnp.sum(n * jnp.arange(1.0, 4.0)) + jnp.sum(r * jnp.arange(1.0, 5.0))

    found = jax.jit(lambda v, q: [f(ours, (0, 1))(v, q) for f in (jax.grad, jax.jacfwd, jax.hessian)])(V, q)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found))
    (slope, _), (forward, _), _ = found
    assert slope[0].tolist() == [0.0, 0.0, 0.0]
    np.testing.assert_allclose(slope[1:], forward[1:], rtol=1e-13)


def test_machine_code_is_that_of_a_root():
    ops = [op.builtin.name for op in walk(prepare(norms.specialize()).body) if isinstance(op, Call)]
    assert ops.count("sqrt") == 1
    assert "attach" not in ops
    assert ops.count("select") == 1


def test_not_a_number_stays():
    run = wp.jax_kernel(norms, num_outputs=3)
    assert np.isnan(run(np.full((1, 3), np.nan))).all()


@wp.kernel
def hypotenuses(x: wp.array[wp.float64], y: wp.array[wp.float64], out: wp.array[wp.float64]):
    i = wp.tid()
    out[i] = wp.hypot(x[i], y[i])


def test_hypot_in_jax():
    """Where the squares overflow or underflow too; at the origin all derivatives are finite, the first ones 0."""
    run = wp.jax_kernel(hypotenuses)
    x = np.array([3.0, -0.3, 1e300, 3e-300, 0.0, 0.0, np.inf, -np.inf])
    y = np.array([-4.0, 0.2, 1e300, 4e-300, -2.0, 0.0, np.nan, 1.0])
    np.testing.assert_allclose(run(x, y)[0], np.hypot(x, y), rtol=4e-16)
    x, y = x[:6], y[:6]
    length = np.where(np.hypot(x, y) == 0, 1.0, np.hypot(x, y))
    by = jax.grad(lambda x, y: run(x, y)[0].sum(), (0, 1))(x, y)
    np.testing.assert_allclose(by, [x / length, y / length], rtol=1e-15)
    tangent = jax.jvp(lambda x, y: run(x, y)[0], (x, y), (np.ones(6), 2 * np.ones(6)))[1]
    np.testing.assert_allclose(tangent, by[0] + 2 * by[1], rtol=1e-15)
    second = np.array(jax.jvp(jax.grad(lambda x: run(x, y)[0].sum()), (x,), (np.ones(6),))[1])
    assert np.isfinite(second).all()
    near = np.array([0, 1, 4])
    np.testing.assert_allclose(second[near], y[near] ** 2 / length[near] ** 3, rtol=1e-14)


@wp.kernel
def clamped(x: wp.array[float], low: wp.array[float], high: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = wp.clamp(x[i], low[i], high[i])


@pytest.mark.parametrize("mode", [jax.jacfwd, jax.jacrev])
def test_the_ends_of_clamp_move_with_the_last_of_equal_operands(mode):
    """At the lower end x, at the upper end the bound: as min and max choose, and as Warp 1.19 does."""
    x, zero, one = np.array([-1.0, 0.0, 0.5, 1.0, 2.0], np.float32), np.zeros(5, np.float32), np.ones(5, np.float32)
    by = mode(lambda *given: wp.jax_kernel(clamped)(*given)[0], (0, 1, 2))(x, zero, one)
    expected = [[0, 1, 1, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0, 1, 1]]
    np.testing.assert_array_equal([np.diag(b) for b in by], expected)


def test_a_vector_without_a_length_has_no_direction_in_python_either():
    v = np.array([[np.nan, 1, 2], [0, np.nan, -0.0], [0, 0, 0], [0, 3, -4]], np.float64)
    q = np.column_stack((v, v[:, :1]))
    n, r = np.zeros_like(v), np.zeros_like(q)
    directions.interpret(v, q, n, r, dim=len(v))
    np.testing.assert_array_equal([wp.normalize(wp.vec3d(row)) for row in v], n)
    np.testing.assert_array_equal([wp.length(wp.quatd(row)) * wp.normalize(wp.quatd(row)) for row in q], r)
    np.testing.assert_array_equal(n, [[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0.6, -0.8]])
