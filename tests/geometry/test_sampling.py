"""`geometry.sample_points`: shares of faces, derivatives, meshes of no area."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.errors import KernelError

RNG = np.random.default_rng(0)
POINTS = jnp.asarray(RNG.normal(size=(20, 3)), jnp.float32)
FACES = jnp.asarray(RNG.integers(0, 20, (30, 3)), jnp.int32)  # some without an area
COUNT = 200_000


def areas(points, faces):
    a, b, c = (np.asarray(points, np.float64)[np.asarray(faces)[:, k]] for k in range(3))
    return np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2


def test_points_are_uniform_by_area():
    found = wp.geometry.sample_points(wp.Mesh(POINTS, FACES), jax.random.key(0), COUNT)
    share = areas(POINTS, FACES) / areas(POINTS, FACES).sum()
    counts = np.bincount(found.face, minlength=30)
    assert (share == 0).any()
    assert not counts[share == 0].any()
    used = share > 0
    chi = ((counts - COUNT * share)[used] ** 2 / (COUNT * share[used])).sum()
    assert chi < used.sum() + 5 * np.sqrt(2 * used.sum())
    corners = POINTS[FACES[found.face]]
    weights = jnp.stack([found.u, found.v, 1 - found.u - found.v], 1)
    assert (weights >= -1e-6).all()
    np.testing.assert_allclose(found.point, (weights[..., None] * corners).sum(1), atol=1e-5)
    # Of a uniform point: mean and covariance of the weights.
    np.testing.assert_allclose(weights.mean(0), 1 / 3, atol=3e-3)
    np.testing.assert_allclose(np.cov(np.asarray(weights).T), np.full((3, 3), -1 / 36) + np.eye(3) / 12, atol=1e-3)
    normal = jnp.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    np.testing.assert_allclose(found.normal, normal / jnp.linalg.norm(normal, axis=1, keepdims=True), atol=1e-4)


def test_many_small_faces_keep_their_share():
    """Of a hundred thousand, half of the area is in every other one."""
    faces = jnp.arange(100_000, dtype=jnp.int32)[:, None] * jnp.array([[0, 0, 0]], jnp.int32) + jnp.array([[0, 1, 2]])
    points = jnp.eye(3)
    found = wp.geometry.sample_points(wp.Mesh(points, faces), jax.random.key(1), COUNT)
    parts = np.bincount(np.asarray(found.face) // 5_000, minlength=20)
    assert ((parts - COUNT / 20) ** 2 / (COUNT / 20)).sum() < 20 + 5 * np.sqrt(40)
    assert abs((np.asarray(found.face) % 2).mean() - 0.5) < 5e-3


def test_points_move_with_the_mesh():
    keys = jax.random.split(jax.random.key(2), 3)

    @jax.jit
    def sampled(points, key):
        return wp.geometry.sample_points(wp.Mesh(points, FACES), key, 50)

    many = jax.vmap(sampled, (None, 0))(POINTS, keys)
    for k in range(3):
        np.testing.assert_array_equal(many.face[k], sampled(POINTS, keys[k]).face)
    assert (many.face[0] != many.face[1]).any()
    found = sampled(POINTS, keys[0])
    weights = jnp.stack([found.u, found.v, 1 - found.u - found.v], 1)

    def plain(points):
        return ((weights[..., None] * points[FACES[found.face]]).sum(1) ** 2).sum()

    slope = jax.grad(lambda p: (sampled(p, keys[0]).point ** 2).sum())(POINTS)
    np.testing.assert_allclose(slope, jax.grad(plain)(POINTS), rtol=1e-4, atol=1e-4)


def test_what_has_no_area_has_no_points():
    gone = jnp.array([[0, 1, 2], [3, 4, 25], [5, 6, 7], [-1, 8, 9]], jnp.int32)
    points = POINTS.at[5].set(jnp.nan)
    mesh = jax.jit(wp.Mesh)(points, gone)
    assert (wp.geometry.sample_points(mesh, jax.random.key(0), 100).face == 0).all()
    empty = jax.jit(wp.Mesh)(points, gone[2:])
    assert (wp.geometry.sample_points(empty, jax.random.key(0), 10).face == -1).all()
    none = wp.geometry.sample_points(wp.Mesh(points, gone[:0]), jax.random.key(0), 10)
    assert (none.face == -1).all()
    for call, message in [
        (lambda: wp.geometry.sample_points(points, jax.random.key(0), 9), "mesh: expected a Mesh, got a JAX array"),
        (lambda: wp.geometry.sample_points(mesh, jax.random.key(0), 2.5), "count: expected a number of points"),
    ]:
        with pytest.raises(KernelError, match=message):
            call()
