"""Winding numbers, beside the sum of all angles in double precision."""

# ruff: noqa: RUF046, UP018

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.errors import KernelError
from tests.geometry.brute import sphere

Q = np.random.default_rng(0).uniform(-1.4, 1.4, (400, 3)).astype(np.float32)
wind = wp.geometry.winding_number


def exact(p, f, q):
    """The angles of van Oosterom and Strackee."""
    a, b, c = (np.asarray(p, np.float64)[f[:, k]] - np.asarray(q, np.float64)[:, None] for k in range(3))
    la, lb, lc = (np.linalg.norm(x, axis=-1) for x in (a, b, c))
    along = la * lb * lc + (a * b).sum(-1) * lc + (b * c).sum(-1) * la + (c * a).sum(-1) * lb
    return np.arctan2((a * np.cross(b, c)).sum(-1), along).sum(1) / (2 * np.pi)


def made(p, f, **options):
    return wp.Mesh(p, f, support_winding_number=True, **options)


@pytest.mark.parametrize("kept", [1.0, 0.6])
@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (1e-12, 0.0), (1e12, 0.0), (1.0, 30.0)])
def test_numbers_are_within_a_thousandth(kept, scale, shift):
    p, f = sphere(5)
    f = f[: int(kept * len(f))]
    points, q = (np.float32(scale) * x + np.float32(shift) for x in (p, Q))
    expected = exact(points, f, q)
    mesh = made(points, f)
    assert np.abs(np.asarray(wind(mesh, q)) - expected).max() < 1e-3
    assert np.abs(np.asarray(wind(mesh, q, 4.0)) - expected).max() < 1e-4
    if kept == 1:
        np.testing.assert_allclose(expected, np.round(expected), atol=1e-6)


def test_meshes_of_few_faces_and_faces_that_are_none():
    p, f = sphere(2)
    bad = p.copy()
    bad[3] = np.nan
    for points, faces in ((p, f[:0]), (p, f[:1]), (p, f[:3]), (bad, f), (p, np.repeat(f[:, :1], 3, 1))):
        some = np.isfinite(points[faces]).all((1, 2))
        found = wind(made(points, faces), Q[:50], 3.0)
        np.testing.assert_allclose(found, exact(points, faces[some], Q[:50]), atol=1e-3)
    nowhere = np.array([[np.nan, 0, 0], [np.inf, 0, 0]], np.float32)
    assert np.isnan(wind(made(p, f), nowhere)).all()
    assert wind(made(p, f), Q[:0]).shape == (0,)
    assert wind(made(p, f), Q.reshape(20, 20, 3)).shape == (20, 20)


def test_derivatives_by_vertices_and_points():
    p, f = sphere(2)
    f, q = f[:20], Q[:30]
    weights, rng = np.arange(30.0), np.random.default_rng(1)
    dp, dq = rng.normal(size=p.shape).astype(np.float32), rng.normal(size=q.shape).astype(np.float32)

    def total(p, q):
        return (wind(made(p, f), q, 3.0) * jnp.asarray(weights, jnp.float32)).sum()

    p64, q64, e = np.asarray(p, np.float64), np.asarray(q, np.float64), 1e-5
    by_p = (exact(p64 + e * dp, f, q64) - exact(p64 - e * dp, f, q64)) @ weights / (2 * e)
    by_q = (exact(p64, f, q64 + e * dq) - exact(p64, f, q64 - e * dq)) @ weights / (2 * e)
    gp, gq = jax.grad(total, (0, 1))(jnp.asarray(p), jnp.asarray(q))
    np.testing.assert_allclose([(gp * dp).sum(), (gq * dq).sum()], [by_p, by_q], rtol=2e-3)
    _, forward = jax.jvp(total, (jnp.asarray(p), jnp.asarray(q)), (jnp.asarray(dp), jnp.asarray(dq)))
    np.testing.assert_allclose(forward, (gp * dp).sum() + (gq * dq).sum(), rtol=1e-4)


def test_second_derivatives_by_points_and_vertices():
    """Beside differences, in double precision, of the exact gradient."""
    p = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32)
    f = np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3]], np.int32)
    q = np.array([0.9, 0.8, 0.7], np.float32)
    rng = np.random.default_rng(2)
    (dp, eq), (ep, dq) = (
        (rng.normal(size=p.shape).astype(np.float32), rng.normal(size=3).astype(np.float32)) for _ in range(2)
    )

    def number(s, t):
        return wind(made(p + s * dp + t * ep, f), (q + s * dq + t * eq)[None], 8.0)[0]

    def known(s, t):
        return exact(p.astype(np.float64) + s * dp + t * ep, f, (q.astype(np.float64) + s * dq + t * eq)[None])[0]

    h = 1e-4
    mixed = (known(h, h) - known(h, -h) - known(-h, h) + known(-h, -h)) / (4 * h * h)
    zero = jnp.float32(0)
    found = jax.jvp(lambda t: jax.grad(number)(zero, t), (zero,), (jnp.float32(1),))[1]
    np.testing.assert_allclose(found, mixed, rtol=1e-3)
    again = jax.jacfwd(jax.jacfwd(number, 0), 1)(zero, zero)
    np.testing.assert_allclose(again, mixed, rtol=1e-3)


def test_meshes_that_move_and_rows_of_them():
    p, f = sphere(3)
    moved = p * np.float32(0.7) + np.float32(0.1)
    expected = exact(moved, f, Q)
    mesh = made(jnp.asarray(p), jnp.asarray(f))
    refitted = jax.jit(lambda m, p, q: wind(m.refit(p), q))(mesh, moved, Q)
    np.testing.assert_allclose(refitted, expected, atol=1e-3)
    scales = jnp.array([1.0, 0.7], jnp.float32)
    rows = jax.jit(jax.vmap(lambda s: wind(made(s * p, f), Q)))(scales)
    for row, s in zip(rows, scales, strict=True):
        np.testing.assert_allclose(row, exact(p * np.float32(s), f, Q), atol=1e-3)
    constant = jax.jit(lambda q: wind(made(moved, f), q))(Q)
    np.testing.assert_allclose(constant, expected, atol=1e-3)
    groups = (np.arange(len(f)) % 3).astype(np.int32)
    np.testing.assert_allclose(wind(made(moved, f, groups=groups), Q), expected, atol=1e-3)


@wp.kernel
def sides(mesh: wp.uint64, q: wp.array[wp.vec3], sign: wp.array[float], other: wp.array[float]):
    i = wp.tid()
    sign[i] = wp.mesh_query_point_sign_winding_number(mesh, q[i], 10.0).sign
    face = int(0)
    u = float(0.0)
    v = float(0.0)
    inside = float(0.0)
    if wp.mesh_query_point_sign_winding_number(mesh, q[i], 10.0, inside, face, u, v, 3.0, 0.25):
        other[i] = inside


def test_sides_by_winding_numbers():
    p, f = sphere(4)
    f = f[20:]  # with a hole
    number = exact(p, f, Q)
    points = wp.array(p, dtype=wp.vec3)
    mesh = wp.Mesh(points, wp.array(f.reshape(-1), dtype=int), support_winding_number=True)
    for factor in (1.0, 0.8):
        sign, other = wp.zeros(400, dtype=float), wp.zeros(400, dtype=float)
        wp.launch(sides, 400, [mesh.id, wp.array(Q, dtype=wp.vec3)], [sign, other])
        number = exact(p * np.float32(factor), f, Q)
        for found, threshold in ((sign, 0.5), (other, 0.25)):
            clear = np.abs(number - threshold) > 2e-3
            np.testing.assert_array_equal(found.numpy()[clear], np.where(number > threshold, -1, 1)[clear])
        points.assign(p * np.float32(0.8))
        mesh.refit()


def test_meshes_without_sums_are_refused():
    p, f = sphere(2)
    with pytest.raises(KernelError, match="winding_number: mesh: it has no sums for winding numbers"):
        wind(wp.Mesh(p, f), Q)
    with pytest.raises(KernelError, match=r"(?s)winding_balls is None.*hint: .*support_winding_number=True"):
        wp.jax_kernel(sides, num_outputs=2, launch_dims=4, output_dims=4)(wp.Mesh(p, f), Q[:4])
    with pytest.raises(KernelError, match="winding_number: points: expected float32, got float64"):
        wind(made(p, f), Q.astype(np.float64))


@wp.kernel
def chosen_sides(mesh: wp.uint64, points: wp.array[wp.vec3], winds: bool, sign: wp.array[float]):
    i = wp.tid()
    if winds:
        sign[i] = wp.mesh_query_point_sign_winding_number(mesh, points[i], 10.0).sign
    else:
        sign[i] = wp.mesh_query_point_sign_normal(mesh, points[i], 10.0).sign


def test_a_thread_fails_that_needs_sums_that_are_not_there():
    p, f = sphere(2)
    points = wp.array(np.array([[0.1, 0.2, 0.3], [3.0, 0.0, 0.0]]), dtype=wp.vec3)
    mesh = wp.Mesh(wp.array(p, dtype=wp.vec3), wp.array(f.reshape(-1), dtype=int))
    sign = wp.zeros(2, dtype=float)
    wp.launch(chosen_sides, 2, [mesh.id, points, False], [sign])
    assert sign.numpy().tolist() == [-1.0, 1.0]
    with pytest.raises(KernelError, match=r"winding_balls is None.*this thread uses one: .*support_winding"):
        wp.launch(chosen_sides, 2, [mesh.id, points, True], [sign])
