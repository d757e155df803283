"""Queries at what is NaN or infinite look at no node of a tree, find nothing, and have derivatives of 0."""

# ruff: noqa: B007, PT018
# pyright: reportUnusedVariable=false

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from tests.geometry.brute import sphere

POINTS, FACES = sphere(3)
HERE = [0.25, 0.5, 0.25]
NOWHERE = [[bad if k == axis else 0.25 for k in range(3)] for bad in (np.nan, np.inf, -np.inf) for axis in range(3)]


@wp.kernel
def ask(mesh: wp.Mesh, p: wp.array[wp.vec3], d: wp.array[wp.vec3], far: float, which: int, found: wp.array[int]):
    i = wp.tid()
    at = p[i]
    if which == 0:
        found[i] = int(wp.mesh_query_ray(mesh, at, d[i], far).result)
    elif which == 1:
        found[i] = int(wp.mesh_query_ray_anyhit(mesh, at, d[i], far))
    elif which == 2:
        found[i] = wp.mesh_query_ray_count_intersections(mesh, at, d[i])
    elif which == 3:
        for face in wp.mesh_query_ray_all(mesh, at, d[i], far):
            found[i] += 1
    elif which == 4:
        found[i] = int(wp.mesh_query_point_no_sign(mesh, at, far).result)
    elif which == 5:
        found[i] = int(wp.mesh_query_point(mesh, at, far).result)
    elif which == 6:
        found[i] = int(wp.mesh_query_point_sign_parity(mesh, at, far).result)
    elif which == 7:
        found[i] = int(wp.mesh_query_point_sign_normal(mesh, at, far).result)
    elif which == 8:
        found[i] = int(wp.mesh_query_point_sign_winding_number(mesh, at, far).result)
    elif which == 9:
        found[i] = int(wp.mesh_query_furthest_point_no_sign(mesh, at, 0.0).result)
    elif which == 10:
        for face in wp.mesh_query_sphere(mesh, at, far):
            found[i] += 1
    elif which == 11:
        for box in wp.bvh_query_sphere(mesh.bvh, at, far):
            found[i] += 1
    elif which == 12:
        for box in wp.bvh_query_capsule(mesh.bvh, at, d[i], 0.1):
            found[i] += 1
    elif which == 13:
        for box in wp.bvh_query_ray(mesh.bvh, at, d[i]):
            found[i] += 1
    elif which == 14:
        for face in wp.mesh_query_aabb(mesh, at, d[i]):
            found[i] += 1


NAMES = (
    *("first_hit", "any_hit", "count", "all_hits", "closest", "side", "parity", "normal", "winding", "furthest"),
    *("faces_in_sphere", "boxes_in_sphere", "boxes_in_capsule", "boxes_on_ray", "faces_in_box"),
)
RAYS = tuple(map(NAMES.index, ("first_hit", "any_hit", "count", "all_hits", "boxes_in_capsule", "boxes_on_ray")))
BOXES = NAMES.index("faces_in_box")
every_query = pytest.mark.parametrize("which", range(len(NAMES)), ids=NAMES)


def made() -> wp.Mesh:
    return wp.Mesh(POINTS, FACES, support_winding_number=True)


def trapped(mesh: wp.Mesh) -> wp.Mesh:
    """The mesh without its nodes: whoever looks at one leaves the array."""
    trap = mesh.replace()
    bvh = object.__new__(wp.Bvh)
    bvh.__dict__.update({**mesh.bvh.__dict__, "nodes": mesh.bvh.nodes[:0]})
    trap.__dict__.update(bvh=bvh, winding_balls=mesh.winding_balls[:0])
    return trap


@pytest.fixture
def _debug():
    before = wp.config.mode, wp.config.checks
    wp.config.mode, wp.config.checks = "debug", ("bounds",)
    yield
    wp.config.mode, wp.config.checks = before


def queries(which: int) -> list[tuple[list[float], list[float]]]:
    """Places and directions, or corners, of which one is nowhere."""
    some = [(p, [1.0, 1.0, 1.0]) for p in NOWHERE]
    if which in RAYS:
        some += [(HERE, d) for d in NOWHERE]
    if which == BOXES:  # corners may be infinite
        some = [(p, [1.0, 1.0, 1.0]) for p in NOWHERE[:3]] + [(HERE, d) for d in NOWHERE[:3]]
    return some


def run(mesh, which, places, directions, far=10.0):
    call = wp.jax_kernel(ask, launch_dims=len(places), output_dims=len(places))
    p, d = np.array(places, np.float32), np.array(directions, np.float32)
    return np.asarray(call(mesh, p, d, far, np.int32(which))[0])


@pytest.mark.usefixtures("_debug")
@every_query
def test_no_node_is_looked_at(which):
    trap = trapped(made())
    places, directions = zip(*queries(which), strict=True)
    assert not run(trap, which, places, directions).any()
    with pytest.raises(Exception, match="out of range; its extent is 0"):
        run(trap, which, [HERE], [[1.0, 1.0, 1.0]])


@every_query
def test_nothing_is_found(which):
    mesh = made()
    places, directions = zip(*queries(which), strict=True)
    assert not run(mesh, which, places, directions).any()
    stepped = np.zeros(len(places), np.int32)
    p, d = np.array(places, np.float32), np.array(directions, np.float32)
    trap = jax.tree.map(np.asarray, trapped(mesh))
    ask.interpret(trap, p, d, np.float32(10.0), np.int32(which), stepped, dim=len(places))
    assert not stepped.any()
    assert run(mesh, which, [HERE], [[1.0, 1.0, 1.0]]).all()


def test_boxes_may_be_infinite():
    low, high = [[-np.inf] * 3, [-np.inf, 0, 0], [np.inf] * 3], [[np.inf] * 3, [np.inf] * 3, [np.inf] * 3]
    found = run(made(), BOXES, low, high)
    half = (POINTS[FACES].max(1)[:, 1:] >= 0).all(1).sum()
    assert found.tolist() == [len(FACES), half, 0]


@pytest.mark.usefixtures("_debug")
@pytest.mark.parametrize("which", [0, 1, 3, 4, 10, 11])
def test_distances_that_are_nan_find_nothing(which):
    assert not run(made(), which, [HERE], [[1.0, 1.0, 1.0]], np.nan).any()


PLACES = np.array([*NOWHERE, *[HERE] * 9], np.float32)
DIRECTIONS = np.array([*[HERE] * 9, *NOWHERE], np.float32)


@pytest.mark.usefixtures("_debug")
def test_functions_of_jax_look_at_no_node():
    trap = jax.tree.map(jnp.asarray, trapped(made()))
    hits = wp.geometry.cast_rays(trap, PLACES, DIRECTIONS)
    many = wp.geometry.cast_rays(trap, PLACES, DIRECTIONS, hits=2)
    assert (hits.face == -1).all() and (many.face == -1).all() and jnp.isinf(hits.t).all()
    near = wp.geometry.closest_points(trap, PLACES[:9])
    assert (near.face == -1).all() and jnp.isinf(near.distance).all()
    assert (wp.geometry.signed_distance(trap, PLACES[:9]) == jnp.inf).all()
    assert jnp.isnan(wp.geometry.winding_number(trap, PLACES[:9])).all()


@wp.kernel
def values(mesh: wp.Mesh, p: wp.array[wp.vec3], d: wp.array[wp.vec3], y: wp.array[wp.vec3]):
    i = wp.tid()
    hit = wp.mesh_query_ray(mesh, p[i], d[i], 10.0)
    near = wp.mesh_query_point(mesh, p[i], 10.0)
    y[i] = wp.vec3(hit.t, near.u, near.v) + hit.normal


def test_derivatives_are_zero_where_nothing_is_found():
    """Beside a place where something is found: its derivatives are as if the others were not there."""
    points = jnp.asarray(POINTS)

    def loss(points, places, directions):
        mesh = wp.Mesh(points, FACES)
        hits = wp.geometry.cast_rays(mesh, places, directions)
        near = wp.geometry.closest_points(mesh, places)
        side = wp.geometry.signed_distance(mesh, places)
        call = wp.jax_kernel(values, launch_dims=len(places), output_dims=len(places))
        (y,) = call(mesh, places, directions)
        found = [jnp.where(hits.face >= 0, hits.t, 0), hits.u, hits.normal, near.u, side, y]
        return sum(jnp.sum(jnp.where(jnp.isfinite(x), x, 0) ** 2) for x in found)

    alone = jnp.array([HERE], jnp.float32), jnp.array([[1.0, 0.5, 0.2]], jnp.float32)
    # Points that are nowhere, and rays into nowhere, which start beside the mesh: `signed_distance` has a value there.
    places, directions = jnp.concatenate([alone[0], PLACES[:9]]), jnp.concatenate([alone[1], DIRECTIONS[:9]])
    one = jax.grad(loss, argnums=(0, 1, 2))(points, *alone)
    all_ = jax.grad(loss, argnums=(0, 1, 2))(points, places, directions)
    np.testing.assert_allclose(all_[0], one[0], rtol=1e-5, atol=1e-6)
    for with_nowhere, without in zip(all_[1:], one[1:], strict=True):
        np.testing.assert_allclose(with_nowhere[:1], without, rtol=1e-5, atol=1e-6)
        assert not np.asarray(with_nowhere[1:]).any()
    tangents = jax.jvp(loss, (points, places, directions), (points, *(jnp.ones_like(x) for x in (places, directions))))
    assert np.isfinite(tangents[1])
    assert np.abs(one[1]).max() > 0.1
