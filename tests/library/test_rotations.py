"""Rotations between directions: what they do, by how much, near half a turn, and how they move."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import jaxwarp as wp


@wp.kernel
def between(a: wp.array[wp.vec3], b: wp.array[wp.vec3], q: wp.array[wp.quat]):
    i = wp.tid()
    q[i] = wp.quat_between_vectors(a[i], b[i])


@wp.kernel
def between_d(a: wp.array[wp.vec3d], b: wp.array[wp.vec3d], q: wp.array[wp.quatd]):
    i = wp.tid()
    q[i] = wp.quat_between_vectors(a[i], b[i])


def units(x):
    x = np.asarray(x, np.float64)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def turned(q, x):
    """Quaternions, x y z w, on vectors."""
    q = np.asarray(q, np.float64)
    v, w = q[:, :3], q[:, 3:]
    return x + 2 * np.cross(v, np.cross(v, x) + w * x)


def pairs(gap: float, n: int = 2000):
    """Directions that are nearly opposite, but for about `gap`; and any ones where it is 1."""
    rng = np.random.default_rng(3)
    a = rng.normal(size=(n, 3))
    b = rng.normal(size=(n, 3)) if gap == 1 else -a * rng.uniform(0.2, 5, (n, 1)) + gap * rng.normal(size=(n, 3))
    return a, b


@pytest.mark.parametrize("gap", [1, 0.3, 1e-2, 1e-4, 1e-6, 3e-7, 1e-7, 1e-8, 0])
@pytest.mark.parametrize(("kernel", "dtype"), [(between, np.float32), (between_d, np.float64)])
def test_one_direction_is_turned_into_the_other_by_the_smallest_angle(kernel, dtype, gap):
    a, b = (x.astype(dtype) for x in pairs(gap))
    with jax.enable_x64(True):
        (q,) = wp.jax_kernel(kernel)(a, b)
    assert q.dtype == dtype
    few = 16 * np.finfo(dtype).eps
    np.testing.assert_allclose(np.linalg.norm(q, axis=1), 1, atol=few)
    np.testing.assert_allclose(turned(q, units(a)), units(b), atol=few)
    u, v = units(a), units(b)
    angle = 2 * np.arctan2(np.linalg.norm(u - v, axis=1), np.linalg.norm(u + v, axis=1))
    found = 2 * np.arctan2(np.linalg.norm(q[:, :3], axis=1), np.asarray(q[:, 3]))
    np.testing.assert_allclose(found, angle, atol=few)


def test_directions_that_are_equal_opposite_or_none():
    a = np.array([[1, 0, 0], [1, 0, 0], [0, 2, 0], [0, 0, -3], [1, 1, 1], [0, 0, 0], [1, 2, 3]], np.float32)
    b = np.array([[2, 0, 0], [-1, 0, 0], [0, -5, 0], [0, 0, 1], [-1, -1, -1], [1, 0, 0], [0, 0, 0]], np.float32)
    (q,) = wp.jax_kernel(between)(a, b)
    same = [0, 5, 6]
    np.testing.assert_array_equal(q[np.array(same)], [[0, 0, 0, 1]] * 3)
    np.testing.assert_allclose(turned(q[1:5], units(a[1:5])), units(b[1:5]), atol=3e-7)


@jax.jit
def turning(a, b):
    return wp.jax_kernel(between_d)(a, b)[0]


@jax.jit
def turning_each(a, several):
    return jax.vmap(lambda b: turning(a, b))(several)


@pytest.mark.parametrize("angle", [0.3, 1.5, 2.0, 2.2, 3.0, 3.12])
def test_derivatives(angle):
    rng = np.random.default_rng(5)
    a = rng.normal(size=(1, 3))
    axis = units(np.cross(a, rng.normal(size=(1, 3))))
    b = 1.7 * (np.cos(angle) * units(a) + np.sin(angle) * np.cross(axis, units(a)))
    with jax.enable_x64(True):
        check_grads(turning, (jnp.asarray(a), jnp.asarray(b)), order=2, modes=["fwd", "rev"], rtol=1e-4)
        several = turning_each(a, jnp.stack([b, -b]))
        np.testing.assert_array_equal(several, [turning(a, b), turning(a, -b)])


def test_outside_of_kernels():
    q = wp.quat_between_vectors(wp.vec3(1.0, 0.0, 0.0), wp.vec3(0.0, 3.0, 0.0))
    np.testing.assert_allclose(q, [0, 0, 0.5**0.5, 0.5**0.5], rtol=1e-6)
    np.testing.assert_allclose(wp.quat_rotate(q, wp.vec3(2.0, 0.0, 0.0)), [0, 2, 0], atol=1e-6)
