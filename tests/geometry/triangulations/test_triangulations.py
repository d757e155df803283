"""Triangles beside each other, and flips of edges: against brute force and SciPy's Delaunay triangulation."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial import Delaunay

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError, KernelValueError

geo = wp.geometry


def fan(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A convex polygon, cut from its first corner, and points of its inside none: far from Delaunay's."""
    turn = np.sort(np.random.default_rng(seed).uniform(0, 2 * np.pi, count))
    points = np.stack([2 * np.cos(turn), np.sin(turn)], -1).astype(np.float32)
    return points, np.array([[0, k, k + 1] for k in range(1, count - 1)], np.int32)


def jittered(side: int) -> tuple[np.ndarray, np.ndarray]:
    """A grid of points that are a little off, and all its squares cut the same way."""
    random = np.random.default_rng(1)
    x, y = np.meshgrid(np.arange(side + 1.0), np.arange(side + 1.0), indexing="ij")
    points = np.stack([x, y], -1) + 0.0
    points[1:-1, 1:-1] += random.uniform(-0.3, 0.3, (side - 1, side - 1, 2))
    n = np.arange((side + 1) ** 2).reshape(side + 1, side + 1)
    a, b, c, d = n[:-1, :-1], n[1:, :-1], n[1:, 1:], n[:-1, 1:]
    faces = np.concatenate([np.stack([a, b, c], -1).reshape(-1, 3), np.stack([a, c, d], -1).reshape(-1, 3)])
    return points.reshape(-1, 2).astype(np.float32), faces.astype(np.int32)


def as_set(faces: Any) -> set[frozenset[int]]:
    return {frozenset(map(int, face)) for face in np.asarray(faces)}


def areas(points: np.ndarray, faces: Any) -> np.ndarray:
    a, b, c = (points[np.asarray(faces)[:, k]].astype(np.float64) for k in range(3))
    one, two = b - a, c - a
    return (one[:, 0] * two[:, 1] - one[:, 1] * two[:, 0]) / 2


@pytest.mark.parametrize("seed", range(3))
def test_the_triangles_are_those_of_qhull(seed):
    points, faces = fan(40, seed)
    found, flips = geo.delaunay_edge_flip(points, faces)
    assert int(flips) > 20
    assert as_set(found) == as_set(Delaunay(points.astype(np.float64)).simplices)
    assert (areas(points, found) > 0).all()


def test_a_grid_comes_to_rest_and_keeps_its_area():
    points, faces = jittered(30)
    found, flips = jax.jit(geo.delaunay_edge_flip)(points, faces)
    assert int(flips) > 100
    assert (areas(points, found) > 0).all()
    np.testing.assert_allclose(areas(points, found).sum(), 900.0, rtol=1e-6)
    # Where the border is not convex, Qhull has triangles there that a grid has not.
    assert as_set(found) <= as_set(Delaunay(points.astype(np.float64)).simplices)
    again, flips = geo.delaunay_edge_flip(jnp.asarray(points), found)
    assert int(flips) == 0
    np.testing.assert_array_equal(again, found)


def test_batches_are_flipped_as_one_by_one():
    points, faces = zip(*(fan(12, seed) for seed in range(3)), strict=True)
    found, flips = jax.vmap(geo.delaunay_edge_flip)(jnp.stack(points), jnp.stack(faces))
    for k in range(3):
        one, count = geo.delaunay_edge_flip(points[k], faces[k])
        np.testing.assert_array_equal(found[k], one)
        assert int(flips[k]) == int(count)


QUAD = np.array([[-3, 0], [3, 0], [0, 1], [0, -1]], np.float32)
PAIR = np.array([[0, 1, 2], [1, 0, 3]], np.int32)


def test_arrays_outside_of_jax_are_written():
    indices = wp.array(PAIR, dtype=int)
    flips = geo.delaunay_edge_flip(wp.array(QUAD, dtype=wp.vec2), indices)
    assert flips.numpy().tolist() == [1]
    assert as_set(indices.numpy()) == {frozenset((0, 2, 3)), frozenset((1, 2, 3))}


def test_what_is_not_flipped():
    flat = np.where([[True, False]], QUAD, 0).astype(np.float32)
    assert int(geo.delaunay_edge_flip(QUAD, PAIR, ref_positions=flat)[1]) == 0
    assert int(geo.delaunay_edge_flip(QUAD, PAIR, area_epsilon=3.1)[1]) == 0
    assert int(geo.delaunay_edge_flip(QUAD, PAIR, area_epsilon=2.9)[1]) == 1
    # Four points on a circle: either way is as good, and none is made of the other for ever.
    turn = np.array([0.1, 1.3, 2.9, 4.4])
    circle = np.stack([np.cos(turn), np.sin(turn)], -1).astype(np.float32)
    for faces in ([[0, 1, 2], [0, 2, 3]], [[0, 1, 3], [1, 2, 3]]):
        assert int(geo.delaunay_edge_flip(circle, np.array(faces, np.int32))[1]) == 0
    assert int(geo.delaunay_edge_flip(QUAD, PAIR[:0])[1]) == 0


@pytest.mark.parametrize("scale", [1e-15, 1e-11, 1e11, 1e15])
def test_units_do_not_matter(scale):
    points, faces = fan(12)
    expected, flips = geo.delaunay_edge_flip(points, faces)
    found, others = geo.delaunay_edge_flip(points * np.float32(scale), faces)
    assert as_set(found) == as_set(expected)
    assert int(others) == int(flips) > 0


def test_no_triangle_is_beside_itself():
    found = geo.tri_tri_adjacency(np.array([[0, 0, 1], [2, 3, 4]], np.int32))
    assert all((np.asarray(x) == -1).all() for x in found)


def test_neighbours_are_those_that_share_an_edge():
    _, faces = jittered(7)
    random = np.random.default_rng(2)
    faces = random.permutation(faces)
    faces[::2] = faces[::2, ::-1]  # the way round does not matter
    neighbors, edges = geo.tri_tri_adjacency(jnp.asarray(faces))
    ends = [[frozenset((f[(k + 1) % 3], f[(k + 2) % 3])) for k in range(3)] for f in faces.tolist()]
    for t, row in enumerate(ends):
        for j, edge in enumerate(row):
            others = [(u, k) for u, r in enumerate(ends) for k, e in enumerate(r) if e == edge and u != t]
            assert [(int(neighbors[t, j]), int(edges[t, j]))] == (others or [(-1, -1)])


def test_an_edge_of_three_is_a_border():
    faces = np.array([[0, 1, 2], [1, 0, 3], [0, 1, 4]], np.int32)
    assert (np.asarray(geo.tri_tri_adjacency(faces, return_neighbor_edge_indices=False)) == -1).all()
    neighbors, edges = geo.tri_tri_adjacency(wp.array(PAIR, dtype=int))
    assert neighbors.numpy().tolist() == [[-1, -1, 1], [-1, -1, 0]]
    assert edges.numpy().tolist() == [[-1, -1, 2], [-1, -1, 2]]


@wp.kernel
def find(neighbors: wp.array2d[int], out: wp.array[int]):
    i = wp.tid()
    out[i] = geo.find_triangle_neighbor_edge_index(neighbors, 0, i)


def test_the_shared_edge_is_found_in_kernels():
    neighbors = geo.tri_tri_adjacency(PAIR, return_neighbor_edge_indices=False)
    assert wp.jax_kernel(find, launch_dims=3, output_dims=3)(neighbors)[0].tolist() == [-1, 2, -1]


BAD = {
    "max_passes: expected 1": lambda: geo.delaunay_edge_flip(QUAD, PAIR, max_passes=0),
    "max_passes: expected 1 to .* got 1099511627776": lambda: geo.delaunay_edge_flip(QUAD, PAIR, max_passes=2**40),
    "ref_positions: expected the shape of positions": lambda: geo.delaunay_edge_flip(
        QUAD, PAIR, ref_positions=QUAD[:2]
    ),
    "cannot be written by delaunay_edge_flip": lambda: geo.delaunay_edge_flip(
        wp.array(QUAD, dtype=wp.vec2), wp.from_jax(jnp.asarray(PAIR))
    ),
    "area_epsilon: expected a finite": lambda: geo.delaunay_edge_flip(QUAD, PAIR, area_epsilon=float("nan")),
    r"expected the shape \(m, 3\)": lambda: geo.tri_tri_adjacency(np.zeros(6, np.int32)),
    "expected an array of int32, got int64": lambda: geo.tri_tri_adjacency(np.zeros((1, 3), np.int64)),
    r"positions: expected \(n, 2\)": lambda: geo.delaunay_edge_flip(np.zeros((4, 3), np.float32), PAIR),
    "positions: expected an array of vec2": lambda: geo.delaunay_edge_flip(QUAD, wp.array(PAIR, dtype=int)),
    "indices: expected points 0 to 2, got 0 to 3": lambda: geo.delaunay_edge_flip(QUAD[:3], PAIR),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input(message):
    with pytest.raises((KernelTypeError, KernelValueError), match=message):
        BAD[message]()
