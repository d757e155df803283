"""Crossings of rays with surfaces: one for each surface, also through edges and vertices, beside exact integers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from tests.geometry.brute import rays, sphere

QUADS = np.array([(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)])
CORNERS = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)])
OCTAHEDRON = np.array([[0, 2, 4], [2, 1, 4], [1, 3, 4], [3, 0, 4], [2, 0, 5], [1, 2, 5], [3, 1, 5], [0, 3, 5]])


def voxels(rng: np.random.Generator, size: int) -> np.ndarray:
    """The surface of some unit cubes of a grid, which may touch in edges and vertices: (faces, 3, 3) of integers."""
    solid = np.pad(rng.random((size,) * 3) < 0.6, 1)
    solid[1, 1, 1] = True
    triangles = []
    for cell in np.argwhere(solid):
        for quad, (axis, way) in zip(QUADS, [(0, -1), (0, 1), (1, -1), (1, 1), (2, -1), (2, 1)], strict=True):
            other = cell.copy()
            other[axis] += way
            if not solid[tuple(other)]:
                corners = np.roll(CORNERS[quad] + cell - 1, rng.integers(4), axis=0)  # either diagonal
                triangles += [corners[[0, 1, 2]], corners[[0, 2, 3]]]
    return np.array(triangles)


def solids(rng: np.random.Generator, _size: int) -> np.ndarray:
    """Octahedra and tetrahedra with vertices on a grid, through each other."""
    axes = np.concatenate([np.eye(3, dtype=int), -np.eye(3, dtype=int)])[[0, 3, 1, 4, 2, 5]]
    parts = [axes[OCTAHEDRON] * rng.integers(1, 4) + rng.integers(0, 3, 3) for _ in range(2)]
    for _ in range(3):
        corners = rng.integers(0, 5, (4, 3))
        parts.append(corners[[[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]]])
    return np.concatenate(parts)


def plane(rng: np.random.Generator, size: int) -> np.ndarray:
    """Squares of a grid at z = 1, an open surface."""
    low = np.stack(np.meshgrid(range(size), range(size), [1], indexing="ij"), -1).reshape(-1, 3)
    quads = low[:, None] + np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
    quads = np.stack([np.roll(q, rng.integers(4), axis=0) for q in quads])
    return np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])


def grid_rays(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Through grid points, halves among them, along axes and diagonals; what is divided by is a power of two."""
    ways = np.stack(np.meshgrid(*[range(-2, 3)] * 3), -1).reshape(-1, 3)
    ways = np.concatenate([ways[ways.any(1)], np.repeat([*np.eye(3, dtype=int), *-np.eye(3, dtype=int)], 20, 0)])
    d = ways[rng.integers(0, len(ways), count)]
    return rng.integers(0, 7, (count, 3)) / 2 - d * rng.integers(1, 4, (count, 1)), d


ONE = 1 << 60


def exact_crossings(triangles: np.ndarray, origin: np.ndarray, way: np.ndarray) -> list[float]:
    """Where a line that is moved by 2**-30 and 2**-60 along two axes goes through triangles, in exact integers."""
    size = np.abs(way)
    longest = 0 if size[0] > max(size[1], size[2]) else (1 if size[1] > size[2] else 2)
    start = np.array([int(2 * x) * ONE // 2 for x in origin], dtype=object)
    start[(longest + 1) % 3] += 1 << 30
    start[(longest + 2) % 3] += 1
    d = np.array([int(x) for x in way], dtype=object)
    a, b, c = (np.array(triangles[:, k], dtype=object) * ONE - start for k in range(3))
    sides = [(d * np.cross(x, y)).sum(-1) for x, y in ((b, c), (c, a), (a, b))]
    is_through = [all(s > 0 for s in each) or all(s < 0 for s in each) for each in zip(*sides, strict=True)]
    normal = np.cross(b - a, c - a)
    high, slope = (a * normal).sum(-1), (d * normal).sum(-1)
    found = [h / (s * ONE) for h, s, hit in zip(high, slope, is_through, strict=True) if hit]
    return sorted(found)


def as_mesh(triangles: np.ndarray, unit: float) -> wp.Mesh:
    points, indices = np.unique(triangles.reshape(-1, 3), axis=0, return_inverse=True)
    return wp.Mesh(jnp.asarray(points * unit, jnp.float32), jnp.asarray(indices.reshape(-1, 3), jnp.int32))


@wp.kernel
def counted(mesh: wp.Mesh, o: wp.array[wp.vec3], d: wp.array[wp.vec3], counts: wp.array[wp.vec2i]):
    i = wp.tid()
    each = 0
    for _face in wp.mesh_query_ray_all(mesh, o[i], d[i], wp.inf):
        each += 1
    counts[i] = wp.vec2i(wp.mesh_query_ray_count_intersections(mesh, o[i], d[i]), each)


@pytest.mark.parametrize("make", [voxels, solids, plane])
def test_crossings_of_rays_on_a_grid(make):
    rng = np.random.default_rng(0)
    triangles = make(rng, 3)
    o, d = grid_rays(rng, 400)
    checked = through_edges = 0
    for unit in (1.0, 2.0**-40, 2.0**40):
        mesh = as_mesh(triangles, unit)
        # Directions are not scaled: t is in units of length.
        start, way = jnp.asarray(o * unit, jnp.float32), jnp.asarray(d, jnp.float32)
        found = [np.asarray(x) for x in wp.geometry.cast_rays(mesh, start, way, hits=16)]
        counts = np.asarray(wp.jax_kernel(counted, launch_dims=len(o), output_dims=len(o))(mesh, start, way)[0])
        touched = np.asarray(wp.geometry.any_hit(mesh, start, way))
        for i, (t, u, v) in enumerate(zip(found[0] / unit, found[2], found[3], strict=True)):
            line = exact_crossings(triangles, o[i], d[i])
            exact = [x for x in line if x > 0]
            if any(abs(x) < 1e-6 for x in line):
                continue  # it starts on the surface
            n = len(exact)
            assert counts[i].tolist() == [n, n], (o[i], d[i])
            np.testing.assert_allclose(t[:n], exact, rtol=1e-5)
            assert np.isinf(t[n:]).all()
            assert (np.diff(t[:n]) >= 0).all()
            assert touched[i] or not n
            checked += 1
            through_edges += (np.abs(np.stack([u, v, 1 - u - v])[:, :n]) < 1e-6).any()
    assert checked > 600
    assert through_edges > (300 if make is not plane else 60)


@pytest.mark.parametrize("way", [1.0, -1.0])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_volumes_by_rays_on_the_vertices(axis, way):
    """Borders are those of [low, high), so that thickness on a grid sums up to the volume."""
    triangles = voxels(np.random.default_rng(1), 3)
    a, b, c = (triangles[:, k] for k in range(3))
    volume = (a * np.cross(b, c)).sum() / 6
    x, y = (g.ravel() for g in np.meshgrid(range(-1, 5), range(-1, 5)))
    o = np.zeros((36, 3), np.float32)
    o[:, axis], o[:, (axis + 1) % 3], o[:, (axis + 2) % 3] = -5.0 * way, x, y
    ways = np.eye(3, dtype=np.float32)[axis] * np.float32(way)
    mesh = as_mesh(triangles, 1.0)
    t = np.asarray(wp.geometry.cast_rays(mesh, o, ways, hits=8).t)
    assert (np.isfinite(t).sum(1) % 2 == 0).all()
    depth = np.where(np.isfinite(t), t, 0.0)
    assert (depth[:, 1::2] - depth[:, ::2]).sum() == volume
    # In a batch, too.
    many = jax.vmap(lambda s: wp.geometry.cast_rays(mesh, o + s, ways, hits=8).t)(jnp.zeros(2))
    np.testing.assert_array_equal(many, np.stack([t, t]))


@pytest.mark.parametrize("where", ["edges", "vertices"])
def test_crossings_of_rays_anywhere_are_entries_and_exits(where):
    """Through edges and vertices of a closed mesh to within rounding, from inside and outside, in both directions."""
    p, f = sphere(5)
    mesh = wp.Mesh(p, f)
    rng = np.random.default_rng(0)
    corners = p[f[rng.integers(0, len(f), 5000)]]
    s = rng.uniform(0, 1, (5000, 1)).astype(np.float32)
    aim = corners[:, 0] * s + corners[:, 1] * (1 - s) if where == "edges" else corners[:, 2]
    inner = rng.uniform(-0.3, 0.3, (5000, 3)).astype(np.float32)
    for start, way in ((inner, aim - inner), (3 * aim, inner - 3 * aim), (aim - 4 * (inner - aim), inner - aim)):
        hits = wp.geometry.cast_rays(mesh, start, way, hits=6)
        face, sign = np.asarray(hits.face), np.sign((np.asarray(hits.normal) * way[:, None]).sum(-1))
        count = (face >= 0).sum(1)
        assert count.max() < 6
        np.testing.assert_array_equal(count % 2, 1 if start is inner else 0)
        # Fronts and backs alternate, the last one is an exit.
        for k in range(6):
            is_exit = (count - k) % 2 == 1
            assert (sign[:, k] == np.where(is_exit, 1, -1))[k < count].all()


def test_sides_of_points_in_a_lattice_of_octahedra():
    """Rays along axes that touch edges and vertices do not decide: outside is outside."""
    rng = np.random.default_rng(3)
    axes = np.concatenate([np.eye(3, dtype=int), -np.eye(3, dtype=int)])[[0, 3, 1, 4, 2, 5]]
    centers = 3 * np.stack(np.meshgrid(range(3), range(3), range(3)), -1).reshape(-1, 3)
    mesh = as_mesh(rng.permutation((axes[OCTAHEDRON] + centers[:, None, None]).reshape(-1, 3, 3)), 1.0)
    p = rng.integers(-2, 15, (3000, 3)) / 2
    distance = np.asarray(wp.geometry.signed_distance(mesh, jnp.asarray(p, jnp.float32)))
    outside = np.abs(p[:, None] - centers).sum(-1).min(1) - 1
    np.testing.assert_array_equal(np.sign(distance)[outside != 0], np.sign(outside)[outside != 0])


def test_one_crossing_has_the_gradient_of_its_face():
    """Two planes seen through a vertex: t is the depth, whichever face is named."""
    low, high = plane(np.random.default_rng(0), 2), plane(np.random.default_rng(0), 2) + np.array([0, 0, 2])
    mesh = as_mesh(np.concatenate([low, high]), 1.0)
    o, d = jnp.array([[1.0, 1.0, 6.0], [0.5, 0.25, 6.0]]), jnp.array([0.0, 0.0, -1.0])

    def depth(o, d):
        t = wp.geometry.cast_rays(mesh, o, d, hits=3).t
        return jnp.where(jnp.isfinite(t), t, 0.0)

    np.testing.assert_array_equal(depth(o, d), [[3, 5, 0], [3, 5, 0]])
    for jacobian in (jax.jacfwd, jax.jacrev):
        by_o, by_d = jacobian(depth, (0, 1))(o, d)
        np.testing.assert_allclose(by_o[0, :, 0], [[0, 0, 1], [0, 0, 1], [0, 0, 0]], atol=1e-6)
        np.testing.assert_allclose(by_d[0], [[0, 0, 3], [0, 0, 5], [0, 0, 0]], atol=1e-5)


def test_rays_that_are_none_cross_nothing():
    mesh = as_mesh(voxels(np.random.default_rng(1), 2), 1.0)
    o, d = (jnp.asarray(x) for x in rays(6))
    for bad in (jnp.nan, jnp.inf, -jnp.inf):
        assert (wp.geometry.cast_rays(mesh, o.at[:, 1].set(bad), d, hits=3).face == -1).all()
        assert (wp.geometry.cast_rays(mesh, o, d.at[:, 2].set(bad), hits=3).face == -1).all()
    assert (wp.geometry.cast_rays(mesh, o, 0.0 * d, hits=3).face == -1).all()
