"""`geometry.cast_rays`, `closest_points`, `signed_distance`: values, derivatives, transformations."""

# ruff: noqa: E741

from __future__ import annotations

import functools

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.errors import KernelError
from tests.geometry.brute import all_hits, rays, sphere, squared_distances

P, F = (jnp.asarray(x) for x in sphere(4))
O, D = (jnp.asarray(x) for x in rays(120))


def plain_hits(points, origins, directions, face, faces=F):
    """t, u, v, normals of rays and the faces that they hit, in plain JAX."""
    a, b, c = (points[faces[face, k]] for k in range(3))
    across = jnp.cross(b - a, c - a)
    area = (across**2).sum(-1)
    t = ((a - origins) * across).sum(-1) / (directions * across).sum(-1)
    q = origins + t[:, None] * directions
    u, v = (jnp.cross(c - b, q - b) * across).sum(-1) / area, (jnp.cross(a - c, q - c) * across).sum(-1) / area
    return t, u, v, across / jnp.sqrt(area)[:, None]


def sum_of(t, u, v, normal, hit):
    return jnp.where(hit, jnp.sin(t) + u * v + normal[:, 0] * normal[:, 1], 0.0).sum()


FIRST = all_hits(np.asarray(P), np.asarray(F), np.asarray(O), np.asarray(D))[0]
HIT = np.isfinite(FIRST.min(1))
FACE = FIRST.argmin(1)


def ours(points, origins, directions):
    hits = wp.geometry.cast_rays(wp.Mesh(points, F), origins, directions)
    return sum_of(hits.t, hits.u, hits.v, hits.normal, hits.face >= 0)


def plain(points, origins, directions):
    return sum_of(*plain_hits(points, origins, directions, FACE), HIT)


def directions_like(values, seed=0):
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape), jnp.float32), values)


def test_rays_and_what_they_hit():
    hits = wp.geometry.cast_rays(wp.Mesh(P, F), O, D)
    np.testing.assert_array_equal(hits.face, np.where(HIT, FACE, -1))
    for found, expected in zip((hits.t, hits.u, hits.v, hits.normal), plain_hits(P, O, D, FACE), strict=True):
        np.testing.assert_allclose(found[HIT], expected[HIT], atol=2e-5)
        assert (np.asarray(found)[~HIT] == (np.inf if found is hits.t else 0)).all()
    shaped = wp.geometry.cast_rays(wp.Mesh(P, F), O[0], D.reshape(4, 30, 3))
    assert shaped.t.shape == (4, 30)
    assert shaped.normal.shape == (4, 30, 3)
    assert wp.geometry.cast_rays(wp.Mesh(P, F), O[:0], D[:0]).t.shape == (0,)
    short = wp.geometry.cast_rays(wp.Mesh(P, F), O, D, max_t=0.5)
    np.testing.assert_array_equal(short.face >= 0, HIT & (FIRST.min(1) < 0.5))


def test_whether_rays_hit_anything():
    mesh = wp.Mesh(P, F)
    np.testing.assert_array_equal(wp.geometry.any_hit(mesh, O, D), HIT)
    for max_t in (0.0, 0.5, 1.0):
        found = jax.jit(wp.geometry.any_hit)(mesh, O, D, max_t)
        np.testing.assert_array_equal(found, HIT & (FIRST.min(1) < max_t))
    shaped = jax.vmap(wp.geometry.any_hit, (None, None, 0))(mesh, O[0], D.reshape(4, 30, 3))
    np.testing.assert_array_equal(shaped, wp.geometry.cast_rays(mesh, O[0], D.reshape(4, 30, 3)).face >= 0)
    assert wp.geometry.any_hit(mesh, O[:0], D[:0]).shape == (0,)
    one = jnp.eye(3)
    assert wp.geometry.any_hit(wp.Mesh(one, jnp.array([[0, 1, 2]], jnp.int32)), jnp.zeros(3), one.sum(0))
    jax.grad(lambda o: jnp.where(wp.geometry.any_hit(mesh, o, D), 1.0, 0.0).sum())(O)


# One in the other, so that rays go through up to eight faces.
NESTED = jnp.concatenate([P * r for r in (1.0, 0.8, 0.5, 0.3)])
SHELLS = jnp.concatenate([F + k * len(P) for k in range(4)])
EACH = all_hits(np.asarray(NESTED), np.asarray(SHELLS), np.asarray(O), np.asarray(D))[0]
IN_ORDER, ALL = EACH.argsort(axis=1), np.sort(EACH, axis=1)


@pytest.mark.parametrize("hits", [1, 3, 9])
def test_all_hits_of_rays_in_their_order(hits):
    mesh = wp.Mesh(NESTED, SHELLS)
    found = wp.geometry.cast_rays(mesh, O, D, hits=hits)
    is_hit = np.isfinite(ALL[:, :hits])
    assert is_hit.sum(1).max() == min(hits, 8)
    np.testing.assert_array_equal(found.face, np.where(is_hit, IN_ORDER[:, :hits], -1))
    np.testing.assert_allclose(np.asarray(found.t)[is_hit], ALL[:, :hits][is_hit], rtol=1e-5, atol=1e-5)
    assert np.isinf(np.asarray(found.t)[~is_hit]).all()
    if hits == 1:
        for one, first in zip(found, wp.geometry.cast_rays(mesh, O, D), strict=True):
            np.testing.assert_array_equal(np.asarray(one)[:, 0], first)
    shaped = wp.geometry.cast_rays(mesh, O.reshape(4, 30, 3), D.reshape(4, 30, 3), max_t=0.5, hits=hits)
    assert shaped.normal.shape == (4, 30, hits, 3)
    np.testing.assert_array_equal(shaped.face.reshape(-1, hits) >= 0, ALL[:, :hits] < 0.5)


def test_hits_at_one_distance_are_all_found():
    p, f = (jnp.asarray(x) for x in sphere(2))
    tripled = wp.Mesh(jnp.concatenate([p, p, p]), jnp.concatenate([f, f + len(p), f + 2 * len(p)]))
    found = np.asarray(wp.geometry.cast_rays(tripled, O, D, hits=12).face)
    single = np.asarray(wp.geometry.cast_rays(wp.Mesh(p, f), O, D, hits=4).face)
    for many, few in zip(found, single, strict=True):
        faces = [face + k * len(f) for face in few if face >= 0 for k in range(3)]
        assert sorted(many[many >= 0]) == sorted(faces)


def test_derivatives_of_all_hits():
    def value(points, origins, directions):
        found = wp.geometry.cast_rays(wp.Mesh(points, SHELLS), origins, directions, hits=3)
        return jnp.where(found.face >= 0, jnp.sin(found.t) + found.u * found.v, 0.0).sum()

    def expected(points, origins, directions):
        total = 0.0
        for k in range(3):
            t, u, v, _ = plain_hits(points, origins, directions, IN_ORDER[:, k], SHELLS)
            total += jnp.where(np.isfinite(ALL[:, k]), jnp.sin(t) + u * v, 0.0).sum()
        return total

    values = (NESTED, O, D)
    slopes = (jax.jit(jax.grad(f, (0, 1, 2)))(*values) for f in (value, expected))
    for a, b in zip(*slopes, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4 * np.abs(b).max(), rtol=1e-3)


def all_crossed(mesh: wp.Mesh, o: wp.array[wp.vec3], d: wp.array[wp.vec3], total: wp.array[float]):
    i = wp.tid()
    s = 0.0
    for face in wp.mesh_query_ray_all(mesh, o[i], d[i], wp.inf):
        s += wp.sin(wp.mesh_eval_ray(mesh, face, o[i], d[i]).t)
    total[i] = s


def test_all_hits_in_a_kernel_and_its_derivatives():
    call = wp.jax_kernel(wp.kernel(all_crossed), launch_dims=len(O), output_dims=len(O))

    def value(points, origins):
        return call(wp.Mesh(points, SHELLS), origins, D)[0]

    def expected(points, origins):
        total = 0.0
        for k in range(8):
            t = plain_hits(points, origins, D, IN_ORDER[:, k], SHELLS)[0]
            total += jnp.where(np.isfinite(ALL[:, k]), jnp.sin(t), 0.0)
        return total

    values, tangents = (NESTED, O), directions_like((NESTED, O))

    def both_modes(f):
        by = jax.grad(lambda *v: f(*v).sum(), (0, 1))
        return jax.jit(lambda given, along: (*jax.jvp(f, given, along), *by(*given)))(values, tangents)

    for a, b in zip(both_modes(value), both_modes(expected), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4 * np.abs(b).max(), rtol=1e-3)


def test_a_number_of_hits_is_one():
    for hits in (0, -1, 2.0, True, "all"):
        with pytest.raises(KernelError, match="hits: expected an integer from 1"):
            wp.geometry.cast_rays(wp.Mesh(P, F), O, D, hits=hits)


@functools.cache
def derivatives(f):
    """The gradient, the derivative along directions, and that of the gradient."""
    values, gradient = (P, O, D), jax.grad(f, (0, 1, 2))
    many = jax.jit(lambda x, t: (gradient(*x), jax.jvp(f, x, t)[1], jax.jvp(gradient, x, t)[1]))
    return many(values, directions_like(values))


def test_derivatives_by_vertices_and_rays():
    (slopes, along, _), (plain_slopes, plain_along, _) = derivatives(ours), derivatives(plain)
    for found, expected in zip(slopes, plain_slopes, strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-4, rtol=2e-4)
        assert np.isfinite(found).all()
    np.testing.assert_allclose(along, plain_along, rtol=2e-4, atol=2e-3)
    not_hit = lambda o: jnp.where(HIT, 0.0, wp.geometry.cast_rays(wp.Mesh(P, F), o, D).u).sum()  # noqa: E731
    assert not jax.jit(jax.grad(not_hit))(O).any()


def test_second_derivatives():
    for a, b in zip(derivatives(ours)[2], derivatives(plain)[2], strict=True):
        np.testing.assert_allclose(a, b, atol=2e-3 * np.abs(b).max(), rtol=5e-3)


Q = jnp.asarray(np.random.default_rng(4).uniform(-1.3, 1.3, (150, 3)), jnp.float32)


def test_points_and_what_is_closest():
    found = wp.geometry.closest_points(wp.Mesh(P, F), Q)
    squares = squared_distances(np.asarray(P), np.asarray(F), np.asarray(Q))
    np.testing.assert_allclose(found.distance, np.sqrt(squares.min(1)), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found.point - Q, axis=1), found.distance, atol=1e-6)
    a, b, c = (P[F[found.face, k]] for k in range(3))
    at = found.u[:, None] * a + found.v[:, None] * b + (1 - found.u - found.v)[:, None] * c
    np.testing.assert_allclose(found.point, at, atol=1e-6)
    near = wp.geometry.closest_points(wp.Mesh(P, F), Q, max_dist=0.2)
    missed = np.asarray(near.face < 0)
    assert 0 < missed.sum() < 150
    assert np.isinf(near.distance[missed]).all()
    np.testing.assert_array_equal(near.point[missed], Q[missed])


def test_derivatives_of_closest_points():
    # That of the squared distance, whatever the face: the closest point moves along the surface.
    gradient = jax.grad(lambda q: (wp.geometry.closest_points(wp.Mesh(P, F), q).distance ** 2).sum())(Q)
    np.testing.assert_allclose(gradient, 2 * (Q - wp.geometry.closest_points(wp.Mesh(P, F), Q).point), atol=1e-5)

    def value(points, q):
        found = wp.geometry.closest_points(wp.Mesh(points, F), q)
        return found.point[:, 0] * found.point[:, 1] + found.distance

    values, tangents = (P, Q), directions_like((P, Q))
    forward = jax.jit(lambda x, t: jax.jvp(value, x, t)[1])(values, tangents)
    backward = jax.jit(jax.grad(lambda *v: value(*v).sum(), (0, 1)))(*values)
    total = sum((g * t).sum() for g, t in zip(backward, tangents, strict=True))
    np.testing.assert_allclose(total, forward.sum(), rtol=1e-4)
    e = 1e-3
    moved = [value(*(x + s * e * t for x, t in zip(values, tangents, strict=True))) for s in (1, -1)]
    off = np.abs((moved[0] - moved[1]) / (2 * e) - forward) / (1 + np.abs(forward))
    assert np.median(off) < 1e-3
    assert (off > 0.03).mean() < 0.15  # where another face becomes the closest one
    on_it = P[F[:5]].mean(1)
    touching = jax.grad(lambda q: wp.geometry.closest_points(wp.Mesh(P, F), q).distance.sum())(P[:5])
    assert not touching.any()
    assert np.isfinite(jax.grad(lambda q: wp.geometry.closest_points(wp.Mesh(P, F), q).distance.sum())(on_it)).all()


def test_signed_distances():
    mesh = wp.Mesh(P, F)
    signed = wp.geometry.signed_distance(mesh, Q)
    np.testing.assert_allclose(abs(signed), wp.geometry.closest_points(mesh, Q).distance, atol=1e-6)
    outward = np.full((150, 3), [0.61, 0.37, 0.7], np.float32)
    crossed = all_hits(np.asarray(P), np.asarray(F), np.asarray(Q), outward)[0]
    inside = np.isfinite(crossed).sum(1) % 2
    np.testing.assert_array_equal(signed < 0, inside == 1)
    slope = jax.grad(lambda q: wp.geometry.signed_distance(mesh, q).sum())(Q)
    np.testing.assert_allclose(np.linalg.norm(slope, axis=1), 1.0, atol=1e-4)
    assert np.isinf(wp.geometry.signed_distance(mesh, Q, max_dist=1e-6)).all()


def test_transformations():
    traces = []

    def cast(points, o, d):
        traces.append(1)
        return wp.geometry.cast_rays(wp.Mesh(points, F), o, d).t

    fast = jax.jit(cast)
    one = fast(P, O, D)
    other = fast(0.5 * P, O, D)
    assert len(traces) == 1
    np.testing.assert_array_equal(fast(P, O, D), one)
    scales = jnp.array([1.0, 0.5])
    np.testing.assert_allclose(jax.vmap(lambda s: cast(s * P, O, D))(scales), [one, other], rtol=1e-6)
    np.testing.assert_array_equal(jax.lax.map(lambda s: cast(s * P, O, D), scales), [one, other])
    mesh = wp.Mesh(P, F)
    halves = jax.vmap(wp.geometry.cast_rays, (None, 0, 0))(mesh, O.reshape(2, 60, 3), D.reshape(2, 60, 3))
    np.testing.assert_array_equal(halves.t.reshape(-1), one)
    chosen = jax.jit(lambda m, c: jax.lax.cond(c, lambda m: m, lambda m: m.refit(0.5 * m.points), m))(mesh, False)
    np.testing.assert_array_equal(wp.geometry.cast_rays(chosen, O, D).t, other)


def test_a_mesh_that_worlds_share_is_not_copied():
    p, f = sphere(24)
    mesh = wp.Mesh(jnp.asarray(p), jnp.asarray(f))
    size = sum(x.nbytes for x in jax.tree.leaves(mesh))
    o, d = (jnp.broadcast_to(x[:10], (16, 10, 3)) for x in (O, D))
    call = jax.jit(jax.vmap(lambda m, o, d: wp.geometry.cast_rays(m, o, d).t, (None, 0, 0)))
    assert call.lower(mesh, o, d).compile().memory_analysis().temp_size_in_bytes < size / 4


def test_a_program_with_a_mesh_is_exported():
    def cast(points, o, d):
        return wp.geometry.cast_rays(wp.Mesh(points, F), o, d).t

    exported = jax.export.export(jax.jit(cast), platforms=("cpu", "cuda"), disabled_checks=wp.export_checks())(P, O, D)
    loaded = jax.export.deserialize(exported.serialize())
    np.testing.assert_array_equal(loaded.call(P, O, D), cast(P, O, D))


def test_wrong_arguments_are_refused():
    mesh, summed = wp.Mesh(P, F), wp.Mesh(P, F, support_winding_number=True)
    meshes = jax.vmap(lambda s: wp.Mesh(s * P, F))(jnp.ones(2))
    cases = [
        (lambda: wp.geometry.cast_rays(P, O, D), "cast_rays: mesh: expected a Mesh, got a JAX array"),
        (lambda: wp.geometry.cast_rays(mesh, O[:, :2], D), "cast_rays: origins: expected the shape"),
        (lambda: wp.geometry.cast_rays(mesh, O, np.float64(D)), "directions: expected float32, got float64"),
        (lambda: wp.geometry.any_hit(mesh, [0.0, 0.0, 0.0], D), "any_hit: origins: expected an array, got list"),
        (lambda: wp.geometry.closest_points(mesh, [0.0, 0.0, 0.0]), "points: expected an array, got list"),
        (lambda: wp.geometry.signed_distance(mesh, jnp.float32(0)), "points: expected the shape"),
        (lambda: wp.geometry.cast_rays(mesh, O[:3], D[:4]), r"axes can be broadcast, got \(3, 3\) and \(4, 3\)"),
        (lambda: wp.geometry.cast_rays(mesh, O, D, "1"), "cast_rays: max_t: expected a number, got '1'"),
        (lambda: wp.geometry.cast_rays(mesh, O, D, jnp.ones(120)), "cast_rays: max_t: expected one number"),
        (lambda: wp.geometry.closest_points(mesh, O, None), "closest_points: max_dist: expected a number, got None"),
        (lambda: wp.geometry.winding_number(summed, O, O), "winding_number: accuracy: expected one number"),
        (lambda: wp.geometry.cast_rays(meshes, O, D), r"cast_rays: mesh: expected one Mesh, got a batch.* \(2,\)"),
        (lambda: wp.geometry.sample_points(meshes, jax.random.key(0), 1), "sample_points: mesh: expected one Mesh"),
    ]
    for call, message in cases:
        with pytest.raises(KernelError, match=message):
            call()
