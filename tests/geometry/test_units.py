"""Units of length, and directions of any length: by a power of two, what a query finds is the same to the bit."""

# ruff: noqa: E741

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from tests.geometry.brute import sphere, squared_distances

P, F = sphere(5)
RNG = np.random.default_rng(0)
O = RNG.normal(size=(100, 3)).astype(np.float32) * 2
D = (RNG.normal(size=(100, 3)) - O).astype(np.float32)
geometry = wp.geometry


def some(values: Any) -> Any:
    return jnp.where(jnp.isfinite(values), values, 0.0).sum()


@functools.cache
def found_in(exponent: int) -> tuple[Any, Any]:
    """What is found of a mesh in other units, and derivatives; all without a unit."""
    scale = np.float32(2.0**exponent)
    p, o = jnp.asarray(P) * scale, jnp.asarray(O) * scale
    mesh = wp.Mesh(p, F, support_winding_number=True)
    hits, near = geometry.cast_rays(mesh, o, D), geometry.closest_points(mesh, o)
    samples = geometry.sample_points(mesh, jax.random.key(0), 50)
    slopes = {
        "t": lambda p, o: some(geometry.cast_rays(mesh.refit(p), o, D).t) / scale,
        "u": lambda p, o: some(geometry.cast_rays(mesh.refit(p), o, D).u),
        "normal": lambda p, o: some(geometry.cast_rays(mesh.refit(p), o, D).normal[:, 0]),
        "distance": lambda p, o: some(geometry.closest_points(mesh.refit(p), o).distance) / scale,
        "winding": lambda p, o: some(geometry.winding_number(wp.Mesh(p, F, support_winding_number=True), o)),
    }
    winding = geometry.winding_number(mesh, o)
    values = [hits.t / scale, *hits[1:], near.distance / scale, near.face, near.u, near.v, winding, *samples[1:]]
    return values, {name: [g * scale for g in jax.grad(f, (0, 1))(p, o)] for name, f in slopes.items()}


@pytest.mark.parametrize("exponent", [-45, -20, 45])
def test_no_unit_is_too_small_or_too_large(exponent):
    expected, slopes = found_in(0)
    assert (np.asarray(expected[1]) >= 0).sum() > 30
    found, found_slopes = found_in(exponent)
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    for name, slope in slopes.items():  # sums, of threads in any order
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4), found_slopes[name], slope)


@wp.kernel
def look(
    mesh: wp.Mesh, o: wp.array[wp.vec3], d: wp.array[wp.vec3], max_t: float, t: wp.array[float],
    sign: wp.array[float], count: wp.array[int], is_any: wp.array[int], last: wp.array[int],
) -> None:  # fmt: skip
    i = wp.tid()
    hit = wp.mesh_query_ray(mesh, o[i], d[i], max_t)
    t[i] = hit.t
    sign[i] = hit.sign
    count[i] = wp.mesh_query_ray_count_intersections(mesh, o[i], d[i])
    is_any[i] = 1 if wp.mesh_query_ray_anyhit(mesh, o[i], d[i], max_t) else 0
    for face in wp.mesh_query_ray_all(mesh, o[i], d[i], max_t):
        last[i] = face


@pytest.mark.parametrize("exponent", [-120, -67, 67, 90])
def test_directions_may_be_of_any_length(exponent):
    scale, mesh = np.float32(2.0**exponent), wp.Mesh(jnp.asarray(P), jnp.asarray(F))
    max_t = np.float32(2.0)
    call = wp.jax_kernel(look, num_outputs=5, launch_dims=100)
    expected = call(mesh, O, D, max_t)
    assert 20 < np.count_nonzero(expected[0]) < 80
    t, *others = call(mesh, O, D * scale, max_t / scale)
    np.testing.assert_array_equal(t * scale, expected[0])
    jax.tree.map(np.testing.assert_array_equal, others, expected[1:])
    slope = jax.grad(lambda d: some(geometry.cast_rays(mesh, O, d).u))
    np.testing.assert_array_equal(slope(jnp.asarray(D) * scale) * scale, slope(jnp.asarray(D)))


def test_closest_points_of_slivers():
    """Of triangles of which the height is a hundredth of the edges, in float64 beside."""
    ab = RNG.normal(size=(2000, 3))
    ac = ab * RNG.uniform(0, 1, (2000, 1)) + 0.01 * RNG.normal(size=(2000, 3))
    points = np.stack([0 * ab, ab, ac], 1).astype(np.float32)
    places = (ab * RNG.uniform(0, 1, (2000, 1)) + 0.003 * RNG.normal(size=(2000, 3))).astype(np.float32)

    def near(corners: Any, place: Any) -> Any:
        mesh = wp.Mesh(corners, jnp.arange(3, dtype=jnp.int32))
        return geometry.closest_points(mesh, place).distance

    found = jax.jit(jax.vmap(near))(jnp.asarray(points), jnp.asarray(places))
    faces = np.arange(3)[None]
    expected = np.sqrt([squared_distances(c, faces, p[None])[0, 0] for c, p in zip(points, places, strict=True)])
    assert np.quantile(np.abs(found - expected), 0.99) < 2e-6
