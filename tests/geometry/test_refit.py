"""A mesh that is refitted outside of JAX: in the memory that it has, unless somebody else has that, too."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.arrays import held
from tests.geometry.brute import rays, sphere

ROOT = Path(__file__).resolve().parents[2]
POINTS, FACES = sphere(5)
MOVED = np.float32(1.5) * POINTS + np.float32(0.25)
NAMES = ("lowers", "uppers", "nodes", "grid")


@wp.kernel
def cast(mesh: wp.uint64, o: wp.array[wp.vec3], d: wp.array[wp.vec3], t: wp.array[float]):
    i = wp.tid()
    hit = wp.mesh_query_ray(mesh, o[i], d[i], 100.0)
    t[i] = hit.t


STARTS, WAYS = rays(64)


def hits(mesh):
    t = wp.zeros(len(STARTS))
    wp.launch(cast, len(STARTS), [mesh.id, wp.array(STARTS, dtype=wp.vec3), wp.array(WAYS, dtype=wp.vec3), t])
    return t.numpy().copy()


def made(points=POINTS):
    return wp.Mesh(wp.array(points, dtype=wp.vec3), wp.array(FACES.reshape(-1), dtype=int))


def own(mesh):
    return [mesh.corners, *(vars(mesh.bvh)[name] for name in NAMES)]


def addresses(mesh):
    return [array.ctypes.data for array in own(mesh)]


def copies(mesh):
    return [np.array(array) for array in own(mesh)]


def move(mesh, points=MOVED):
    mesh.points.assign(points)
    assert mesh.refit() is mesh


@pytest.mark.parametrize("points", [MOVED, np.where(np.arange(len(POINTS))[:, None] % 9 == 0, np.nan, MOVED)])
def test_the_tree_is_that_of_the_functions_of_jax(points):
    mesh = made()
    move(mesh, points)
    expected = wp.Mesh(jnp.asarray(POINTS), jnp.asarray(FACES))
    expected = jax.jit(lambda mesh, points: mesh.refit(points))(expected, jnp.asarray(points, jnp.float32))
    for one, other in zip(own(mesh), own(expected), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_memory_stays_where_it_is():
    """In a process of its own: in one where another test has kept frames of launches, these have the memory, too."""
    code = "from tests.geometry.test_refit import move_in_place; move_in_place()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def move_in_place():
    mesh = made()
    before, bvh = addresses(mesh), id(mesh.bvh)
    for factor in (2.0, 3.0, 0.5):
        hits(mesh)
        hits(mesh)
        move(mesh, np.float32(factor) * POINTS)
        assert addresses(mesh) == before
        assert id(mesh.bvh) == bvh
        np.testing.assert_array_equal(hits(mesh), hits(made(np.float32(factor) * POINTS)))


HOLDERS = {
    "another mesh": lambda mesh: mesh.replace(velocities=np.zeros_like(POINTS)),
    "a copy": copy.copy,
    "its tree": lambda mesh: mesh.bvh,
    "a copy of its tree": lambda mesh: copy.copy(mesh.bvh),
    "its leaves": jax.tree.leaves,
    "an array": lambda mesh: mesh.bvh.nodes,
    "a part of one": lambda mesh: mesh.bvh.grid[1:],
    "a view": lambda mesh: mesh.corners.view(np.int32),
    "a buffer": lambda mesh: memoryview(mesh.bvh.lowers),
    "an array of JAX": lambda mesh: jnp.asarray(mesh.bvh.uppers),
    "arrays of JAX": jax.device_put,
    "a result of JAX": jax.jit(lambda mesh: mesh),
    "another launch": lambda mesh: held._found[id(mesh)],
}


def seen(holder):
    """What a holder of something sees of the mesh's arrays."""
    if isinstance(holder, held.Held):
        return [np.array(leaf) for leaf in holder.leaves if type(leaf) is np.ndarray]
    if isinstance(holder, memoryview):
        return [np.array(holder)]
    return copies(holder) if isinstance(holder, wp.Mesh) else [np.array(leaf) for leaf in jax.tree.leaves(holder)]


@pytest.mark.parametrize("has_moved", [False, True])
@pytest.mark.parametrize("name", HOLDERS)
def test_who_else_has_the_tree_keeps_it_as_it_was(name, has_moved):
    for _ in range(8):  # at addresses that JAX takes as they are, too
        mesh = made()
        if has_moved:
            move(mesh, np.float32(0.5) * POINTS)
        hits(mesh)
        holder = HOLDERS[name](mesh)
        before, tree = seen(holder), copies(mesh)
        move(mesh)
        for one, other in zip(seen(holder), before, strict=True):
            np.testing.assert_array_equal(one, other)
        assert all(np.any(one != other) for one, other in zip(own(mesh), tree, strict=True))
        np.testing.assert_array_equal(hits(mesh), hits(made(MOVED)))


@pytest.mark.parametrize("kind", ["array", "strided", "numpy", "other faces"])
def test_a_second_refit_reads_what_is_there_then(kind):
    points = np.ascontiguousarray(POINTS)
    places = {"strided": wp.array(np.repeat(POINTS, 2, 0), dtype=wp.vec3)[::2], "numpy": points}.get(kind)
    places = wp.array(POINTS, dtype=wp.vec3) if places is None else places
    faces = wp.array(FACES.reshape(-1), dtype=int)
    mesh = wp.Mesh(places, faces)
    for factor in (2.0, 3.0, 0.5):
        now = np.float32(factor) * POINTS
        if kind == "numpy":
            points[:] = now
        else:
            places.assign(now)
        if kind == "other faces":
            faces.assign(np.roll(FACES, int(4 * factor), 0).reshape(-1))
        for _ in range(2):
            mesh.refit()
            assert_refitted(mesh, now, faces.numpy())


def assert_refitted(mesh, points, faces):
    """A mesh has the tree that JAX finds for its order."""
    expected = wp.Mesh(jnp.asarray(POINTS), jnp.asarray(FACES))
    expected.__dict__["indices"] = jnp.asarray(faces)
    expected = expected.refit(jnp.asarray(points))
    for one, other in zip(own(mesh), own(expected), strict=True):
        np.testing.assert_array_equal(one, other)


def test_programs_that_run_meanwhile_have_the_tree_they_were_given():
    mesh = made()
    o, d = jnp.asarray(STARTS), jnp.asarray(WAYS)

    @jax.jit
    def often(mesh, o, d):
        def step(_, total):
            return total + jnp.sum(jnp.where(jnp.isinf(t := wp.geometry.cast_rays(mesh, o, d).t), 0.0, t))

        return jax.lax.fori_loop(0, 200, step, 0.0)

    expected = {factor: float(often(wp.Mesh(jnp.float32(factor) * POINTS, FACES), o, d)) for factor in (1.0, 2.0)}
    for _ in range(10):
        running = []
        for factor in (1.0, 2.0):
            move(mesh, np.float32(factor) * POINTS)
            running.append((factor, often(mesh, o, d)))
        for factor, total in running:
            assert float(total) == expected[factor]


def test_a_tape_has_the_tree_of_its_launch():
    mesh = made()
    before, tree = addresses(mesh), copies(mesh)
    o, d = wp.array(STARTS, dtype=wp.vec3, requires_grad=True), wp.array(WAYS, dtype=wp.vec3)
    t = wp.zeros(len(STARTS), requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(cast, len(STARTS), [mesh.id, o, d, t])
    move(mesh)
    assert addresses(mesh) != before
    (launch,) = tape.launches
    kept = [np.array(value) for value in launch.given if type(value) is np.ndarray]
    for one in tree:
        assert any(one.shape == other.shape and (one == other).all() for other in kept)
