"""Derivatives of geometry where a value is 0 or two are equal: in planes, on faces, edges and vertices, at nodes.

Beside differences, in float64, of the same values in plain NumPy; both modes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from tests.geometry.test_winding import exact

TRIANGLE = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], np.float32)
ONE_FACE = np.array([[0, 1, 2]], np.int32)
CUBE = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], np.float32)
_QUADS = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
SIDES = np.array([t for a, b, c, d in _QUADS for t in ((a, b, c), (a, c, d))], np.int32)


def slope(f: Callable[..., np.ndarray], values: tuple[np.ndarray, ...], step: float = 1e-6) -> list[np.ndarray]:
    """Derivatives of a number by differences, in float64."""
    wide = [np.array(v, np.float64) for v in values]
    found = []
    for k, value in enumerate(wide):
        by = np.zeros_like(value)
        for place in np.ndindex(*value.shape):
            ends = []
            for way in (step, -step):
                moved = [v.copy() for v in wide]
                moved[k][place] += way
                ends.append(f(*moved))
            by[place] = (ends[0] - ends[1]) / (2 * step)
        found.append(by)
    return found


@cache
def slopes_of(f: Callable[..., jax.Array], count: int) -> Callable[..., tuple[Any, Any, Any]]:
    """The number that a function gives and its derivatives in both modes, as one program for all places."""

    @jax.jit
    def found(*given: jax.Array) -> tuple[Any, Any, Any]:
        by = tuple(range(count))
        return f(*given), jax.jacrev(f, by)(*given), jax.jacfwd(f, by)(*given)

    return found


def check(
    f: Callable[..., jax.Array], values: tuple[np.ndarray, ...], expected: list[np.ndarray], atol: float
) -> jax.Array:
    """Compare the derivatives by the first values in both modes, and return the number."""
    number, *modes = slopes_of(f, len(expected))(*(jnp.asarray(v, jnp.float32) for v in values))
    for mode in modes:
        for found, by in zip(mode, expected, strict=True):
            np.testing.assert_allclose(found, by, atol=atol)
    return number


def winding(points: jax.Array, q: jax.Array, faces: np.ndarray = ONE_FACE) -> jax.Array:
    return wp.geometry.winding_number(wp.Mesh(points, faces, support_winding_number=True), q[None], 3.0)[0]


@pytest.mark.parametrize("q", [(1.0, 1.0, 0.0), (2.0, 0.0, 0.0), (-1.0, -0.5, 0.0), (0.5, 0.75, 0.0), (-0.5, 0.0, 0.0)])
def test_winding_numbers_in_the_plane_of_a_face(q):
    place = np.array(q)
    expected = slope(lambda p, q: exact(p, ONE_FACE, q[None])[0], (TRIANGLE, place))
    assert np.abs(expected[1][2]) > 0.005
    check(winding, (TRIANGLE, place), expected, 2e-4)


def test_winding_numbers_on_a_face_have_the_slope_of_both_sides():
    place = np.array([0.25, 0.25, 0.0])
    sides = []
    for height in (1e-4, -1e-4):
        above = place + np.array([0, 0, height])
        sides.append(slope(lambda p, q: exact(p, ONE_FACE, q[None])[0], (TRIANGLE, above)))
    np.testing.assert_allclose(sides[0][1], sides[1][1], atol=1e-3)
    assert check(winding, (TRIANGLE, place), sides[0], 2e-3) == 0.0


@pytest.mark.parametrize("q", [(0.5, 0.0, 0.0), (0.5, 0.5, 0.0), (0.0, 0.0, 0.0), (0.0, 1.0, 0.0)])
def test_winding_numbers_on_edges_and_vertices_are_finite(q):
    check(winding, (TRIANGLE, np.array(q)), [np.zeros((3, 3)), np.zeros(3)], 1.5)


@cache
def winding_of(count: int) -> Callable[..., jax.Array]:
    faces = np.arange(3 * count, dtype=np.int32).reshape(-1, 3)
    return lambda points, q: winding(points, q, faces)


@pytest.mark.parametrize("q", [(0.5, 0.25, 0.5), (0.5, 5.0, 5.0), (3.0, 0.0, 1.0)])
@pytest.mark.parametrize("count", [1, 9])
def test_winding_numbers_by_vertices_of_faces_without_an_area(q, count):
    """Nothing winds around a point until a vertex leaves the line: alone, and in a tree."""
    flat = np.array([[[x, 0, 0], [x + 1, 0, 0], [x + 2, 0, 0]] for x in range(count)], np.float32).reshape(-1, 3)
    faces = np.arange(3 * count, dtype=np.int32).reshape(-1, 3)
    place = np.array(q)
    expected = slope(lambda p: exact(p, faces, place[None])[0], (flat,))
    assert np.abs(expected[0]).max() > 1e-4
    assert abs(check(winding_of(count), (flat, place), expected, 5e-3 * np.abs(expected).max())) < 1e-8


@jax.jit
def around_cube(q: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jax.value_and_grad(winding, 1)(jnp.asarray(CUBE), q, SIDES)


@pytest.mark.parametrize("q", [(1.5, 0.4, 0.3), (1.5, 0.4, 1.0), (1.5, 1.0, 1.0), (2.0, 0.0, -1.0), (0.5, 0.5, 0.5)])
def test_winding_numbers_of_a_closed_mesh_do_not_change(q):
    number, by = around_cube(jnp.array(q))
    assert np.isclose(number, 1.0 if q[0] < 1 else 0.0, atol=1e-3)
    np.testing.assert_allclose(by, 0.0, atol=5e-3)


def signed(q: jax.Array, shift: jax.Array) -> jax.Array:
    """The signed distance of a point to a cube that is moved."""
    return wp.geometry.signed_distance(wp.Mesh(jnp.asarray(CUBE) + shift, SIDES), q[None])[0]


def box_distance(q: np.ndarray) -> float:
    away = np.abs(q - 0.5) - 0.5
    return np.linalg.norm(np.maximum(away, 0)) + min(away.max(), 0)


@pytest.mark.parametrize(
    "q",
    [
        *[(0.3, 0.6, 1.0), (0.0, 0.3, 0.7), (1.0, 0.125, 0.25), (0.5, 0.5, 1.0)],  # on faces, and on a diagonal
        *[(0.5, 1.0, 1.5), (0.0, 0.5, 1.25), (1.0, 1.0, 2.0), (0.5, 0.5, 2.0)],  # over edges, vertices, a diagonal
        *[(0.5, 0.5, 0.75), (2.0, 2.0, 0.5), (2.0, 2.0, 2.0)],
    ],
)
def test_signed_distances_on_a_surface_and_where_closest_places_change(q):
    """Smooth there, but that differences across an edge's plane are those of a curve."""
    place = np.array(q)
    (expected,) = slope(box_distance, (place,), 1e-5)
    check(signed, (place, np.zeros(3)), [expected, -expected], 2e-4)


@pytest.mark.parametrize("q", [(1.0, 1.0, 0.5), (0.0, 0.3, 0.0), (1.0, 1.0, 1.0)])
def test_signed_distances_on_edges_and_vertices_have_a_normal_of_theirs(q):
    _, (by, _), _ = slopes_of(signed, 2)(jnp.array(q), jnp.zeros(3))
    found = np.asarray(by)
    assert sorted(np.abs(found).round(5)) == [0, 0, 1]
    axis = np.abs(found).argmax()
    assert found[axis] == (1.0 if q[axis] == 1.0 else -1.0)


def test_distances_that_are_0_have_a_derivative_of_0():
    def distance(q):
        return wp.geometry.closest_points(wp.Mesh(CUBE, SIDES), q[None]).distance[0]

    for q in ((0.25, 0.5, 1.0), (0.0, 0.0, 0.0), (0.5, 0.0, 1.0)):
        check(distance, (np.array(q),), [np.zeros(3)], 0.0)


def test_swept_distances_on_a_surface():
    poses = np.array([[0, 0, 0, 0, 0, 0, 1]], np.float32)

    def field(points, pose):
        mesh = wp.Mesh(points, SIDES)
        ends = {"lower": (-0.5, -0.5, 0.0), "upper": (1.5, 1.5, 1.0)}
        return wp.geometry.swept_volume_field([mesh], pose[None], resolution=(5, 5, 3), sign_mode=0, **ends)[0]

    by_pose = jax.jit(jax.jacrev(field, 1))(jnp.asarray(CUBE), jnp.asarray(poses))
    np.testing.assert_allclose(by_pose[2, 2, 2, 0, :3], [0, 0, -1], atol=1e-6)  # at (0.5, 0.5, 1)
    np.testing.assert_allclose(by_pose[1, 2, 1, 0, :3], [1, 0, 0], atol=1e-6)  # at (0, 0.5, 0.5)


def test_rays_through_edges_and_vertices_have_the_derivatives_of_a_face():
    def t(o, d):
        return wp.geometry.cast_rays(wp.Mesh(CUBE, SIDES), o, d).t

    def plane(o, d):
        return (1.0 - o[2]) / d[2]

    for x, y in ((0.5, 0.5), (0.25, 0.25), (0.25, 0.5)):
        o, d = np.array([x, y, 3.0]), np.array([0.0, 0.0, -2.0])
        check(t, (o, d), slope(plane, (o, d)), 1e-5)
    o, d = np.array([0.25, 0.5, 1.0]), np.array([0.5, 0.25, -2.0])  # it starts on the face
    check(t, (o, d), slope(plane, (o, d)), 1e-5)


def test_surfaces_through_nodes_move_with_them():
    """A vertex where a node has the value itself: as for one that is a little more."""

    def height(field):
        points = wp.geometry.marching_cubes(field, 0.0, size=(16, 32)).vertices
        return jnp.where(jnp.isfinite(points[:, 2]), points[:, 2], 0.0).sum()

    by_field = jax.jit(jax.grad(height))
    for along in ([1.0, 0.0, -2.0], [-2.0, 0.0, 1.0]):
        x = np.broadcast_to(np.array(along, np.float32), (3, 3, 3))
        found, near = by_field(x), by_field(x + np.float32(1e-4))
        assert np.abs(near).max() > 0.1
        np.testing.assert_allclose(found, near, atol=1e-3)
