"""Edges and triangles beside minimization, exact arithmetic, and Warp."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction
from itertools import combinations, product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp

V3, V3D = wp.array(dtype=wp.vec3), wp.array(dtype=wp.vec3d)


@wp.kernel
def edges(p1: V3, q1: V3, p2: V3, q2: V3, out: V3):
    i = wp.tid()
    out[i] = wp.closest_point_edge_edge(p1[i], q1[i], p2[i], q2[i], 1.0e-6)


@wp.kernel
def edges_d(p1: V3D, q1: V3D, p2: V3D, q2: V3D, out: V3D):
    i = wp.tid()
    out[i] = wp.closest_point_edge_edge(p1[i], q1[i], p2[i], q2[i], 1.0e-12)


@wp.kernel
def triangles(t: wp.array2d[wp.vec3], out: wp.array[int]):
    i = wp.tid()
    out[i] = wp.intersect_tri_tri(t[i, 0], t[i, 1], t[i, 2], t[i, 3], t[i, 4], t[i, 5])


@wp.kernel
def triangles_d(t: wp.array2d[wp.vec3d], out: wp.array[int]):
    i = wp.tid()
    out[i] = wp.intersect_tri_tri(t[i, 0], t[i, 1], t[i, 2], t[i, 3], t[i, 4], t[i, 5])


near, near_d = jax.jit(wp.jax_kernel(edges)), jax.jit(wp.jax_kernel(edges_d))


def meet(t):
    kernel = triangles if t.dtype == np.float32 else triangles_d
    return np.asarray(wp.jax_kernel(kernel, launch_dims=len(t), output_dims=len(t))(jnp.asarray(t))[0])


def ends(n=400, seed=0):
    """Pairs of edges: random ones, parallel, crossing, touching ones, and some that are points."""
    x = np.random.default_rng(seed).uniform(-1, 1, (4, n, 3))
    x[3, :40] = x[2, :40] + 0.7 * (x[1, :40] - x[0, :40])  # parallel
    x[2, 40:60] = 0.4 * x[0, 40:60] + 0.6 * x[1, 40:60]  # begins on the other one
    x[1, 60:70], x[3, 70:80] = x[0, 60:70], x[2, 70:80]
    x[1, 80:90], x[3, 80:90] = x[0, 80:90], x[2, 80:90]
    return x


def least_distance(p1, q1, p2, q2):
    """The least of the distances of ends to edges, and of the lines where they are closest within both."""

    def to_edge(x, p, q):
        d = q - p
        t = np.clip(((x - p) * d).sum(-1) / np.maximum((d * d).sum(-1), 1e-300), 0, 1)
        return np.linalg.norm(x - p - t[:, None] * d, axis=-1)

    best = np.min([to_edge(p1, p2, q2), to_edge(q1, p2, q2), to_edge(p2, p1, q1), to_edge(q2, p1, q1)], axis=0)
    for i in range(len(p1)):
        matrix = np.stack([q1[i] - p1[i], p2[i] - q2[i]], axis=1)
        (s, t), _, rank, _ = np.linalg.lstsq(matrix, p2[i] - p1[i], rcond=1e-9)
        if rank == 2 and 0 <= s <= 1 and 0 <= t <= 1:
            best[i] = min(best[i], np.linalg.norm(p1[i] - p2[i] + matrix @ [s, t]))
    return best


def test_closest_points_of_edges():
    with jax.enable_x64(True):
        x = ends()
        s, t, d = np.asarray(near_d(*x)[0]).T
        np.testing.assert_allclose(d, least_distance(*x), atol=1e-12)
        gap = x[0] + s[:, None] * (x[1] - x[0]) - x[2] - t[:, None] * (x[3] - x[2])
        np.testing.assert_allclose(np.linalg.norm(gap, axis=1), d, atol=1e-14)
        assert ((s >= 0) & (s <= 1) & (t >= 0) & (t <= 1)).all()
    x = ends().astype(np.float32)
    np.testing.assert_allclose(near(*x)[0][:, 2], least_distance(*x.astype(np.float64)), atol=3e-6)


def test_derivatives_of_closest_points_of_edges():
    """Both modes and second order, beside differences; of the distance beside its envelope."""
    weights = np.array([0.3, -0.7, 1.0])
    with jax.enable_x64(True):
        x, way = ends(300)[:, 90:], np.random.default_rng(1).normal(size=(4, 210, 3))

        def value(*x):
            return near_d(*x)[0] @ weights

        def gradient(*x):
            return jnp.stack(jax.grad(lambda *x: value(*x).sum(), (0, 1, 2, 3))(*x))

        run, slopes = jax.jit(value), jax.jit(gradient)
        h = 1e-6
        found = jax.jit(lambda *x: jax.jvp(value, x, tuple(way)))(*x)[1]
        difference = (run(*(x + h * way)) - run(*(x - h * way))) / (2 * h)
        np.testing.assert_allclose(found, difference, rtol=1e-5, atol=1e-6 * np.abs(found).max())
        np.testing.assert_allclose((slopes(*x) * way).sum((0, 2)), found, rtol=1e-9, atol=1e-10)
        second = jax.jit(lambda *x: jax.jvp(gradient, x, tuple(way)))(*x)[1]
        difference = (slopes(*(x + h * way)) - slopes(*(x - h * way))) / (2 * h)
        np.testing.assert_allclose(second, difference, rtol=1e-4, atol=1e-5 * np.abs(second).max())
        s, t, d = np.asarray(near_d(*x)[0]).T[..., None]
        n = ((1 - s) * x[0] + s * x[1] - (1 - t) * x[2] - t * x[3]) / d
        by_ends = jax.grad(lambda *x: near_d(*x)[0][:, 2].sum(), (0, 1, 2, 3))(*x)
        for slope, share in zip(by_ends, (1 - s, s, t - 1, -t), strict=True):
            np.testing.assert_allclose(slope, share * n, atol=1e-12)


def test_nearly_parallel_edges_have_bounded_slopes():
    rng = np.random.default_rng(7)
    x = rng.normal(size=(4, 400, 3)).astype(np.float32)
    x[3] = x[2] + (x[1] - x[0]) * rng.uniform(0.5, 2, (400, 1)) + 10.0 ** rng.uniform(-7, -2, (400, 1)) * x[3]
    for slope in jax.grad(lambda *x: near(*x)[0][:, 2].sum(), (0, 1, 2, 3))(*x):
        assert np.isfinite(slope).all()
        assert np.abs(slope).max() <= 1.001
    touching = jax.grad(lambda *x: near(*x)[0][:, 2].sum(), (0, 1, 2, 3))(x[0], x[1], x[0], x[3])
    assert not np.any(np.isnan(touching))


def exactly_meet(t):
    """Whether triangles with integer corners have a point in common, by exact linear programs in small: an edge of one
    and the other; and for triangles of one plane, edges and corners."""

    def dot(a, b):
        return sum(x * y for x, y in zip(a, b, strict=True))

    def cross(a, b):
        return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])

    def minus(a, b):
        return tuple(x - y for x, y in zip(a, b, strict=True))

    def inside(x, a, b, c):
        """Of a point in the plane of a triangle."""
        n = cross(minus(b, a), minus(c, a))
        return all(dot(n, cross(minus(q, p), minus(x, p))) >= 0 for p, q in ((a, b), (b, c), (c, a)))

    def edge_meets(p, q, a, b, c):
        n = cross(minus(b, a), minus(c, a))
        dp, dq = dot(n, minus(p, a)), dot(n, minus(q, a))
        if dp == dq == 0:
            return inside(p, a, b, c) or inside(q, a, b, c)
        if dp * dq > 0:
            return False
        share = Fraction(dp, dp - dq)
        return inside(tuple(x + share * (y - x) for x, y in zip(p, q, strict=True)), a, b, c)

    def edges_cross(p, q, a, b, n):
        s = [dot(n, cross(minus(q, p), minus(x, p))) for x in (a, b)]
        r = [dot(n, cross(minus(b, a), minus(x, a))) for x in (p, q)]
        return s[0] * s[1] < 0 and r[0] * r[1] < 0

    v, u = t[:3], t[3:]
    sides = lambda x: combinations(x, 2)  # noqa: E731
    if any(edge_meets(p, q, *u) for p, q in sides(v)) or any(edge_meets(p, q, *v) for p, q in sides(u)):
        return True
    n = cross(minus(v[1], v[0]), minus(v[2], v[0]))
    is_flat = all(dot(n, minus(x, v[0])) == 0 for x in u)
    return is_flat and any(edges_cross(*e, *f, n) for e, f in product(sides(v), sides(u)))


def has_area(t):
    return np.any(np.cross(t[1] - t[0], t[2] - t[0])) and np.any(np.cross(t[4] - t[3], t[5] - t[3]))


def test_triangles_against_exact_arithmetic():
    """Corners on a small lattice touch, share corners and edges, and are in one plane, often."""
    rng = np.random.default_rng(0)
    t = rng.integers(-2, 3, (1500, 6, 3))
    t[:500, :, 2] = 0
    t = np.array([x for x in t if has_area(x)])
    expected = np.array([exactly_meet([tuple(map(int, p)) for p in x]) for x in t])
    assert 0.2 < expected.mean() < 0.9
    found = meet(t.astype(np.float32))
    np.testing.assert_array_equal(found, expected)
    turned = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    with jax.enable_x64(True):
        np.testing.assert_array_equal(meet(t.astype(np.float64)), expected)
        # Turned round, coordinates are rounded: what only touched may do so no more.
        apart = ~expected
        again = meet(t @ turned)
        assert (again[apart] == 0).all()
        assert again[expected].mean() > 0.9


def test_triangles_without_an_area_are_edges():
    flat = np.array([[0, 0, 0], [2, 0, 0], [0, 2, 0], [0.5, 0.5, -1], [0.5, 0.5, 1], [0.5, 0.5, 0]], np.float32)
    beside = flat.copy()
    beside[3:, 0] += 3.0
    both = flat.copy()
    both[1:3] = both[0]
    found = meet(np.stack([flat, beside, both]))
    assert found.tolist() == [1, 0, 0]
    assert not meet(np.full((1, 6, 3), np.nan, np.float32))


WARP = """
import sys, numpy as np, warp as wp
wp.config.log_level = 30
@wp.kernel
def run(x: wp.array2d[wp.vec3], t: wp.array2d[wp.vec3d], out: wp.array[wp.vec3], meets: wp.array[int]):
    i = wp.tid()
    out[i] = wp.closest_point_edge_edge(x[0, i], x[1, i], x[2, i], x[3, i], 1.0e-6)
    meets[i] = wp.intersect_tri_tri(t[i, 0], t[i, 1], t[i, 2], t[i, 3], t[i, 4], t[i, 5])
given = np.load(sys.argv[1])
n = given["x"].shape[1]
out, meets = wp.zeros(n, dtype=wp.vec3, device="cpu"), wp.zeros(n, dtype=int, device="cpu")
x = wp.array(given["x"], dtype=wp.vec3, device="cpu")
wp.launch(run, n, [x, wp.array(given["t"], dtype=wp.vec3d, device="cpu")], [out, meets], device="cpu")
np.savez(sys.argv[2], out=out.numpy(), meets=meets.numpy())
"""


def test_beside_warp(tmp_path):
    pytest.importorskip("warp")
    x = ends().astype(np.float32)
    x[:, :60] = np.random.default_rng(3).uniform(-1, 1, (4, 60, 3))  # Warp chooses other points of parallel edges
    t = np.random.default_rng(2).uniform(-1, 1, (400, 6, 3))
    np.savez(tmp_path / "in.npz", x=x, t=t)
    (tmp_path / "run.py").write_text(WARP)
    command = [sys.executable, tmp_path / "run.py", tmp_path / "in.npz", tmp_path / "out.npz"]
    subprocess.run(command, check=True, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, capture_output=True)
    theirs = np.load(tmp_path / "out.npz")
    np.testing.assert_allclose(near(*x)[0], theirs["out"], atol=2e-4)
    with jax.enable_x64(True):
        np.testing.assert_array_equal(meet(t), theirs["meets"])
