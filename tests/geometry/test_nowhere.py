"""Queries at what is NaN or infinite look at no node of a tree, find nothing, and have derivatives of 0."""

# ruff: noqa: B007, PT018
# pyright: reportUnusedVariable=false

from __future__ import annotations

from functools import cache

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
def ask(
    mesh: wp.Mesh,
    p: wp.array[wp.vec3],
    d: wp.array[wp.vec3],
    distance: wp.array[float],
    query: wp.array[int],
    found: wp.array[int],
):
    i = wp.tid()
    at = p[i]
    far = distance[i]
    which = query[i]
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


@cache
def made() -> wp.Mesh:
    return wp.Mesh(POINTS, FACES, support_winding_number=True)


@cache
def trapped() -> wp.Mesh:
    """The mesh without its nodes: whoever looks at one leaves the array."""
    mesh = made()
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


AHEAD = [1.0, 1.0, 1.0]


def queries(which: int) -> list[tuple[list[float], list[float]]]:
    """Places and directions, or corners, of which one is nowhere."""
    some = [(p, AHEAD) for p in NOWHERE]
    if which in RAYS:
        some += [(HERE, d) for d in NOWHERE]
    if which == BOXES:  # corners may be infinite
        some = [(p, AHEAD) for p in NOWHERE[:3]] + [(HERE, d) for d in NOWHERE[:3]]
    return some


def rows(asked: list[tuple[int, list[float], list[float]]], far: float = 10.0) -> list[np.ndarray]:
    """Arguments of `ask`, for THREADS threads: the last query is asked by those that are left."""
    asked = [*asked, *[asked[-1]] * (THREADS - len(asked))]
    which, places, directions = zip(*asked, strict=True)
    floats = np.array(places, np.float32), np.array(directions, np.float32), np.full(THREADS, far, np.float32)
    return [*floats, np.array(which, np.int32)]


ALL = [(which, p, d) for which in range(len(NAMES)) for p, d in queries(which)]
THREADS = len(ALL)


def run(mesh, *args, **kwargs):
    """What each thread finds: one program for all queries."""
    call = wp.jax_kernel(ask, launch_dims=THREADS, output_dims=THREADS)
    return np.asarray(call(mesh, *rows(*args, **kwargs))[0])


def names(found: np.ndarray) -> set[str]:
    return {NAMES[which] for (which, _, _), one in zip(ALL, found, strict=True) if one}


@pytest.mark.usefixtures("_debug")
def test_no_node_is_looked_at():
    assert names(run(trapped(), ALL)) == set()
    for which in range(len(NAMES)):
        with pytest.raises(Exception, match="out of range; its extent is 0"):
            run(trapped(), [(which, HERE, AHEAD)])


def test_nothing_is_found():
    assert names(run(made(), ALL)) == set()
    found = run(made(), [(which, HERE, AHEAD) for which in range(len(NAMES))])
    assert found[: len(NAMES)].all()


def test_the_interpreter_finds_nothing():
    stepped = np.zeros(THREADS, np.int32)
    ask.interpret(jax.tree.map(np.asarray, trapped()), *rows(ALL), stepped, dim=THREADS)
    assert names(stepped) == set()


def test_boxes_may_be_infinite():
    low, high = [[-np.inf] * 3, [-np.inf, 0, 0], [np.inf] * 3], [[np.inf] * 3, [np.inf] * 3, [np.inf] * 3]
    found = run(made(), [(BOXES, *corners) for corners in zip(low, high, strict=True)])
    half = (POINTS[FACES].max(1)[:, 1:] >= 0).all(1).sum()
    assert found[:3].tolist() == [len(FACES), half, 0]


def test_distances_that_are_nan_find_nothing():
    """Nodes are looked at: those of the mesh, which the interpreter checks."""
    asked = [(which, HERE, AHEAD) for which in (0, 1, 3, 4, 10, 11)]
    assert not run(made(), asked, far=np.nan).any()
    stepped = np.zeros(THREADS, np.int32)
    args = rows(asked, far=np.nan)
    ask.interpret(jax.tree.map(np.asarray, made()), *args, stepped, dim=THREADS, threads=[*range(len(asked))])
    assert not stepped.any()


PLACES = np.array([*NOWHERE, *[HERE] * 9], np.float32)
DIRECTIONS = np.array([*[HERE] * 9, *NOWHERE], np.float32)


@pytest.mark.usefixtures("_debug")
def test_functions_of_jax_look_at_no_node():
    trap = jax.tree.map(jnp.asarray, trapped())
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
    count = 10

    def loss(points, places, directions, weights):
        mesh = wp.Mesh(points, FACES)
        hits = wp.geometry.cast_rays(mesh, places, directions)
        near = wp.geometry.closest_points(mesh, places)
        side = wp.geometry.signed_distance(mesh, places)
        call = wp.jax_kernel(values, launch_dims=count, output_dims=count)
        (y,) = call(mesh, places, directions)
        found = [jnp.where(hits.face >= 0, hits.t, 0), hits.u, hits.normal, near.u, side, y]
        return sum(jnp.sum(weights @ jnp.where(jnp.isfinite(x), x, 0).reshape(count, -1) ** 2) for x in found)

    gradients = jax.jit(jax.grad(loss, argnums=(0, 1, 2)))
    here, there = np.array([HERE] * count, np.float32), np.array([[1.0, 0.5, 0.2]] * count, np.float32)
    first, every = np.eye(1, count, dtype=np.float32)[0], np.ones(count, np.float32)
    one = gradients(points, here, there, first)
    # Points that are nowhere, and rays into nowhere, which start beside the mesh: `signed_distance` has a value there.
    places, directions = np.concatenate([here[:1], PLACES[:9]]), np.concatenate([there[:1], DIRECTIONS[:9]])
    all_ = gradients(points, places, directions, every)
    np.testing.assert_allclose(all_[0], one[0], rtol=1e-5, atol=1e-6)
    for with_nowhere, without in zip(all_[1:], one[1:], strict=True):
        np.testing.assert_allclose(with_nowhere[:1], without[:1], rtol=1e-5, atol=1e-6)
        assert not np.asarray(with_nowhere[1:]).any()
    ways = points, np.ones_like(places), np.ones_like(directions)
    value = jax.jit(lambda given, along: jax.jvp(lambda *x: loss(*x, every), given, along)[1])
    assert np.isfinite(value((points, places, directions), ways))
    assert np.abs(one[1]).max() > 0.1
