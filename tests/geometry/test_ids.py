"""Meshes, trees and grids that a kernel chooses while it runs, by their ids; 0 is none. See docs/design/0054."""

# ruff: noqa: UP018, RUF046

from __future__ import annotations

import gc
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.errors import DifferentiationError, KernelError
from tests.geometry.brute import sphere

P, F = sphere(2, 0.0)
DOWN = wp.vec3(0.0, 0.0, -1.0)


def plane(z):
    points = wp.array([[-9, -9, z], [9, -9, z], [0, 9, z]], dtype=wp.vec3)
    return wp.Mesh(points=points, indices=wp.array([0, 1, 2], dtype=int))


def ball(scale=1.0, **options):
    points = wp.array(np.float32(scale) * P, dtype=wp.vec3)
    return wp.Mesh(points=points, indices=wp.array(F.ravel(), dtype=int), **options)


def ids_of(*objects):
    return wp.array([0 if x is None else x.id for x in objects], dtype=wp.uint64)


@wp.func
def down(mesh: wp.uint64):
    return wp.mesh_query_ray(mesh, wp.vec3(0.0, 0.0, 10.0), wp.vec3(0.0, 0.0, -1.0), 100.0).t


@wp.kernel
def of_array(ids: wp.array(dtype=wp.uint64), o: wp.array(dtype=float)):
    o[wp.tid()] = down(ids[wp.tid()])


@wp.kernel
def or_none(mesh: wp.uint64, o: wp.array(dtype=float)):
    o[0] = -1.0
    if mesh != wp.uint64(0):
        o[0] = down(mesh)


@wp.kernel
def one_of_two(a: wp.uint64, b: wp.uint64, o: wp.array(dtype=float)):
    i = wp.tid()
    m = a
    if i % 2 == 1:
        m = b
    o[i] = down(m)


def launched(kernel, inputs, count=3):
    o = wp.zeros(count, dtype=float)
    wp.launch(kernel, count, inputs, [o])
    return o.numpy().tolist()


def test_ids_in_arrays_and_variables():
    """The five programs of fault 05."""
    meshes = [plane(z) for z in (0.0, 1.0, 2.0)]
    assert launched(of_array, [wp.array([m.id for m in meshes], dtype=wp.uint64)]) == [10, 9, 8]
    assert launched(of_array, [np.array([m.id for m in meshes], dtype=np.uint64)]) == [10, 9, 8]
    assert launched(or_none, [meshes[1].id])[:1] == [9]
    assert launched(or_none, [0])[:1] == [-1]
    assert launched(one_of_two, [meshes[0].id, meshes[2].id]) == [10, 8, 10]
    assert {m.id: z for z, m in enumerate(meshes)}[meshes[2].id] == 2


def test_an_id_is_a_number():
    one, two = plane(0.0), plane(0.0)
    assert isinstance(one.id, int)
    assert one.id == one.id == int(one.id) > 0
    assert one.id != two.id != 0
    assert np.array([one.id, two.id]).tolist() == [one.id, two.id]
    assert wp.array([one.id], dtype=wp.uint64).numpy().tolist() == [one.id]
    assert isinstance(pickle.loads(pickle.dumps(one.id)), int)


@wp.kernel
def number(mesh: wp.uint64, o: wp.array(dtype=wp.uint64)):
    o[0] = mesh
    o[1] = mesh * wp.uint64(2)


def test_kernels_compute_with_the_number_itself():
    mesh, o = plane(0.0), wp.zeros(2, dtype=wp.uint64)
    wp.launch(number, 1, [mesh.id], [o])
    assert o.numpy().tolist() == [mesh.id, 2 * mesh.id]


@wp.kernel
def rays(ids: wp.array[wp.uint64], x: wp.array[wp.vec3], o: wp.array2d[float]):
    i = wp.tid()
    m, p = ids[i % ids.shape[0]], x[i]
    d = wp.normalize(wp.vec3(-p[0], 0.1 - p[1], -p[2]))
    hit = wp.mesh_query_ray(m, p, d, 100.0)
    o[i, 0] = hit.t
    o[i, 1] = hit.u + 2.0 * hit.v
    o[i, 2] = hit.sign
    o[i, 3] = float(hit.face)
    o[i, 4] = wp.dot(hit.normal, wp.vec3(1.0, 2.0, 3.0))
    o[i, 5] = float(wp.mesh_query_ray_count_intersections(m, p, d))
    if wp.mesh_query_ray_anyhit(m, p, d, 100.0):
        o[i, 6] = 1.0
    for face in wp.mesh_query_ray_all(m, p, d, 100.0):
        o[i, 7] += float(face + 1)


@wp.kernel
def closest(ids: wp.array[wp.uint64], x: wp.array[wp.vec3], o: wp.array2d[float]):
    i = wp.tid()
    m, p = ids[i % ids.shape[0]], x[i]
    q = wp.mesh_query_point(m, p, 100.0)
    o[i, 0] = q.sign
    if q.result:
        o[i, 1] = wp.dot(wp.mesh_eval_position(m, q.face, q.u, q.v), wp.vec3(1.0, 2.0, 3.0))
        o[i, 2] = wp.dot(wp.mesh_eval_velocity(m, q.face, q.u, q.v), wp.vec3(1.0, 2.0, 3.0))
        o[i, 3] = wp.dot(wp.mesh_eval_face_normal(m, q.face), wp.vec3(1.0, 2.0, 3.0))
        o[i, 4] = wp.dot(wp.mesh_get_point(m, i) + wp.mesh_get_velocity(m, i), wp.vec3(1.0, 2.0, 3.0))
        o[i, 5] = float(wp.mesh_get_index(m, i) + wp.mesh_get_group_root(m, 1))
        o[i, 6] = wp.mesh_get(m).points[i % 9][1] + wp.mesh_get(m).points[i % 9].z
    o[i, 7] = float(wp.mesh_query_point_no_sign(m, p, 100.0).face)
    o[i, 8] = wp.mesh_query_point_sign_normal(m, p, 100.0).sign
    o[i, 9] = wp.mesh_query_point_sign_parity(m, p, 100.0, 3, 0.1).sign
    o[i, 10] = float(wp.mesh_query_furthest_point_no_sign(m, p, 0.0).face)
    for face in wp.mesh_query_aabb(m, p - wp.vec3(0.3, 0.3, 0.3), p + wp.vec3(0.3, 0.3, 0.3)):
        o[i, 11] += float(face + 1)
    for face in wp.mesh_query_sphere(m, p, 0.4):
        o[i, 12] += float(face + 1)
    for box in wp.bvh_query_sphere(wp.mesh_get_bvh(m), p, 0.4):
        o[i, 13] += float(box + 1)


@wp.kernel
def winding(ids: wp.array[wp.uint64], x: wp.array[wp.vec3], o: wp.array2d[float]):
    i = wp.tid()
    q = wp.mesh_query_point_sign_winding_number(ids[i % ids.shape[0]], x[i], 100.0)
    o[i, 0] = q.sign
    o[i, 1] = float(q.face)


@wp.kernel
def rays_of(mesh: wp.Mesh, x: wp.array[wp.vec3], o: wp.array2d[float]):
    i = wp.tid()
    m, p = mesh, x[i]
    d = wp.normalize(wp.vec3(-p[0], 0.1 - p[1], -p[2]))
    hit = wp.mesh_query_ray(m, p, d, 100.0)
    o[i, 0] = hit.t
    o[i, 1] = hit.u + 2.0 * hit.v
    o[i, 2] = hit.sign
    o[i, 3] = float(hit.face)
    o[i, 4] = wp.dot(hit.normal, wp.vec3(1.0, 2.0, 3.0))
    o[i, 5] = float(wp.mesh_query_ray_count_intersections(m, p, d))
    if wp.mesh_query_ray_anyhit(m, p, d, 100.0):
        o[i, 6] = 1.0
    for face in wp.mesh_query_ray_all(m, p, d, 100.0):
        o[i, 7] += float(face + 1)


@wp.kernel
def closest_of(mesh: wp.Mesh, x: wp.array[wp.vec3], o: wp.array2d[float]):
    i = wp.tid()
    m, p = mesh, x[i]
    q = wp.mesh_query_point(m, p, 100.0)
    o[i, 0] = q.sign
    if q.result:
        o[i, 1] = wp.dot(wp.mesh_eval_position(m, q.face, q.u, q.v), wp.vec3(1.0, 2.0, 3.0))
        o[i, 2] = wp.dot(wp.mesh_eval_velocity(m, q.face, q.u, q.v), wp.vec3(1.0, 2.0, 3.0))
        o[i, 3] = wp.dot(wp.mesh_eval_face_normal(m, q.face), wp.vec3(1.0, 2.0, 3.0))
        o[i, 4] = wp.dot(wp.mesh_get_point(m, i) + wp.mesh_get_velocity(m, i), wp.vec3(1.0, 2.0, 3.0))
        o[i, 5] = float(wp.mesh_get_index(m, i) + wp.mesh_get_group_root(m, 1))
        o[i, 6] = wp.mesh_get(m).points[i % 9][1] + wp.mesh_get(m).points[i % 9].z
    o[i, 7] = float(wp.mesh_query_point_no_sign(m, p, 100.0).face)
    o[i, 8] = wp.mesh_query_point_sign_normal(m, p, 100.0).sign
    o[i, 9] = wp.mesh_query_point_sign_parity(m, p, 100.0, 3, 0.1).sign
    o[i, 10] = float(wp.mesh_query_furthest_point_no_sign(m, p, 0.0).face)
    for face in wp.mesh_query_aabb(m, p - wp.vec3(0.3, 0.3, 0.3), p + wp.vec3(0.3, 0.3, 0.3)):
        o[i, 11] += float(face + 1)
    for face in wp.mesh_query_sphere(m, p, 0.4):
        o[i, 12] += float(face + 1)
    for box in wp.bvh_query_sphere(wp.mesh_get_bvh(m), p, 0.4):
        o[i, 13] += float(box + 1)


@wp.kernel
def winding_of(mesh: wp.Mesh, x: wp.array[wp.vec3], o: wp.array2d[float]):
    i = wp.tid()
    q = wp.mesh_query_point_sign_winding_number(mesh, x[i], 100.0)
    o[i, 0] = q.sign
    o[i, 1] = float(q.face)


OF_ONE = {"rays": rays_of, "closest": closest_of, "winding": winding_of}
X = np.random.default_rng(5).normal(size=(64, 3)).astype(np.float32)


def some_meshes():
    groups = wp.array(np.arange(len(F), dtype=np.int32) % 2, dtype=int)
    velocities = wp.array(P[::-1].copy(), dtype=wp.vec3)
    return [
        ball(0.5, support_winding_number=True),
        ball(1.0, velocities=velocities, groups=groups, support_winding_number=True),
        wp.Mesh(points=np.float32(1.5) * P, indices=F.ravel(), support_winding_number=True),
        wp.Mesh(points=jnp.asarray(2.0 * P, jnp.float32), indices=jnp.asarray(F), support_winding_number=True),
    ]


@pytest.mark.parametrize(("kernel", "width"), [(rays, 8), (closest, 14), (winding, 2)])
def test_queries_by_ids_are_those_of_the_meshes(kernel, width):
    meshes, x = some_meshes(), wp.array(X, dtype=wp.vec3)
    mixed = wp.zeros((len(X), width), dtype=float)
    wp.launch(kernel, len(X), [ids_of(*meshes), x], [mixed])
    source = OF_ONE[kernel.name]
    for k, mesh in enumerate(meshes):
        alone = wp.zeros((len(X), width), dtype=float)
        wp.launch(source, len(X), [mesh, x], [alone])
        rows = np.arange(len(X)) % len(meshes) == k
        np.testing.assert_array_equal(mixed.numpy()[rows], alone.numpy()[rows])
        assert alone.numpy()[rows].any(0).sum() > width // 2
