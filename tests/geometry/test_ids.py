"""Meshes, trees and grids that a kernel chooses while it runs, by their ids; 0 is none. See docs/design/0054."""

from __future__ import annotations

import gc
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.arrays.held import Held
from jaxwarp.arrays.ids import tables
from jaxwarp.arrays.ids.tables import REGISTRY, tables_at, tables_type
from jaxwarp.codegen.abi import NO_CUDA_OPTIONS, index_bits_of
from jaxwarp.codegen.cuda import code_for
from jaxwarp.errors import DifferentiationError, KernelError
from jaxwarp.frontend.ids import TABLES
from jaxwarp.ir.interpret import interpret
from jaxwarp.launches.arguments.leaves import spread
from jaxwarp.memory.host_scope import HOST
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import ENDLESS, id_leaves, struct_of
from tests.geometry.brute import sphere
from tests.hostcuda import launch_at

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
def of_array(ids: wp.array[wp.uint64], o: wp.array[float]):
    o[wp.tid()] = down(ids[wp.tid()])


@wp.kernel
def or_none(mesh: wp.uint64, o: wp.array[float]):
    o[0] = -1.0
    if mesh != wp.uint64(0):
        o[0] = down(mesh)


@wp.kernel
def one_of_two(a: wp.uint64, b: wp.uint64, o: wp.array[float]):
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
    assert launched(or_none, [meshes[1].id], 1) == [9]
    assert launched(or_none, [0], 1) == [-1]
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
def number(mesh: wp.uint64, o: wp.array[wp.uint64]):
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
    o[i, 1] = float(wp.mesh_query_point_no_sign(m, p, 100.0).face)
    o[i, 2] = wp.mesh_query_point_sign_normal(m, p, 100.0).sign
    o[i, 3] = wp.mesh_query_point_sign_parity(m, p, 100.0, 3, 0.1).sign
    o[i, 4] = float(wp.mesh_query_furthest_point_no_sign(m, p, 0.0).face)
    for face in wp.mesh_query_aabb(m, p - wp.vec3(0.3, 0.3, 0.3), p + wp.vec3(0.3, 0.3, 0.3)):
        o[i, 5] += float(face + 1)
    for face in wp.mesh_query_sphere(m, p, 0.4):
        o[i, 6] += float(face + 1)
    for box in wp.bvh_query_sphere(wp.mesh_get_bvh(m), p, 0.4):
        o[i, 7] += float(box + 1)


@wp.kernel
def parts(ids: wp.array[wp.uint64], x: wp.array[wp.vec3], o: wp.array2d[float]):
    i = wp.tid()
    m = ids[i % ids.shape[0]]
    q = wp.mesh_query_point_no_sign(m, x[i], 100.0)
    o[i, 0] = float(q.face)
    if q.result:
        o[i, 1] = wp.dot(wp.mesh_eval_position(m, q.face, q.u, q.v), wp.vec3(1.0, 2.0, 3.0))
        o[i, 2] = wp.dot(wp.mesh_eval_velocity(m, q.face, q.u, q.v), wp.vec3(1.0, 2.0, 3.0))
        o[i, 3] = wp.dot(wp.mesh_eval_face_normal(m, q.face), wp.vec3(1.0, 2.0, 3.0))
        o[i, 4] = wp.dot(wp.mesh_get_point(m, i) + wp.mesh_get_velocity(m, i), wp.vec3(1.0, 2.0, 3.0))
        o[i, 5] = float(wp.mesh_get_index(m, i) + wp.mesh_get_group_root(m, 1))
        o[i, 6] = wp.mesh_get(m).points[i % 9][1] + wp.mesh_get(m).points[i % 9].z


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
    o[i, 1] = float(wp.mesh_query_point_no_sign(m, p, 100.0).face)
    o[i, 2] = wp.mesh_query_point_sign_normal(m, p, 100.0).sign
    o[i, 3] = wp.mesh_query_point_sign_parity(m, p, 100.0, 3, 0.1).sign
    o[i, 4] = float(wp.mesh_query_furthest_point_no_sign(m, p, 0.0).face)
    for face in wp.mesh_query_aabb(m, p - wp.vec3(0.3, 0.3, 0.3), p + wp.vec3(0.3, 0.3, 0.3)):
        o[i, 5] += float(face + 1)
    for face in wp.mesh_query_sphere(m, p, 0.4):
        o[i, 6] += float(face + 1)
    for box in wp.bvh_query_sphere(wp.mesh_get_bvh(m), p, 0.4):
        o[i, 7] += float(box + 1)


@wp.kernel
def parts_of(mesh: wp.Mesh, x: wp.array[wp.vec3], o: wp.array2d[float]):
    i = wp.tid()
    m = mesh
    q = wp.mesh_query_point_no_sign(m, x[i], 100.0)
    o[i, 0] = float(q.face)
    if q.result:
        o[i, 1] = wp.dot(wp.mesh_eval_position(m, q.face, q.u, q.v), wp.vec3(1.0, 2.0, 3.0))
        o[i, 2] = wp.dot(wp.mesh_eval_velocity(m, q.face, q.u, q.v), wp.vec3(1.0, 2.0, 3.0))
        o[i, 3] = wp.dot(wp.mesh_eval_face_normal(m, q.face), wp.vec3(1.0, 2.0, 3.0))
        o[i, 4] = wp.dot(wp.mesh_get_point(m, i) + wp.mesh_get_velocity(m, i), wp.vec3(1.0, 2.0, 3.0))
        o[i, 5] = float(wp.mesh_get_index(m, i) + wp.mesh_get_group_root(m, 1))
        o[i, 6] = wp.mesh_get(m).points[i % 9][1] + wp.mesh_get(m).points[i % 9].z


@wp.kernel
def winding_of(mesh: wp.Mesh, x: wp.array[wp.vec3], o: wp.array2d[float]):
    i = wp.tid()
    q = wp.mesh_query_point_sign_winding_number(mesh, x[i], 100.0)
    o[i, 0] = q.sign
    o[i, 1] = float(q.face)


OF_ONE = {"rays": rays_of, "closest": closest_of, "parts": parts_of, "winding": winding_of}
X = np.random.default_rng(5).normal(size=(64, 3)).astype(np.float32)


def some_meshes(more):
    """Meshes of several sizes and sources; `more`: one has velocities and groups, and so another type."""
    groups = wp.array(np.arange(len(F), dtype=np.int32) % 2, dtype=int)
    velocities = wp.array(P[::-1].copy(), dtype=wp.vec3)
    parts = {"velocities": velocities, "groups": groups} if more else {}
    return [
        ball(0.5, support_winding_number=True),
        ball(1.0, **parts, support_winding_number=True),
        wp.Mesh(points=np.float32(1.5) * P, indices=F.ravel(), support_winding_number=True),
        wp.Mesh(points=jnp.asarray(2.0 * P, jnp.float32), indices=jnp.asarray(F), support_winding_number=True),
    ]


@pytest.mark.parametrize(("kernel", "width"), [(rays, 8), (closest, 8), (parts, 7), (winding, 2)])
def test_queries_by_ids_are_those_of_the_meshes(kernel, width):
    meshes, x = some_meshes(kernel is parts), wp.array(X, dtype=wp.vec3)
    mixed = wp.zeros((len(X), width), dtype=float)
    wp.launch(kernel, len(X), [ids_of(*meshes), x], [mixed])
    source = OF_ONE[kernel.name]
    for k, mesh in enumerate(meshes):
        alone = wp.zeros((len(X), width), dtype=float)
        wp.launch(source, len(X), [mesh, x], [alone])
        rows = np.arange(len(X)) % len(meshes) == k
        np.testing.assert_array_equal(mixed.numpy()[rows], alone.numpy()[rows])
        assert alone.numpy()[rows].any(0).sum() > width // 2


@wp.kernel
def boxes(ids: wp.array[wp.uint64], x: wp.array[wp.vec3], o: wp.array[float]):
    i = wp.tid()
    bvh = ids[i % ids.shape[0]]
    for box in wp.bvh_query_aabb(bvh, x[i], x[i] + wp.vec3(0.2, 0.2, 0.2), wp.bvh_get_group_root(bvh, 1)):
        o[i] += float(box + 1)
    for box in wp.bvh_query_ray(bvh, x[i], wp.vec3(0.0, 0.0, 1.0)):
        o[i] += 100.0 * float(box + 1)


def test_trees_by_ids():
    low = np.random.default_rng(1).uniform(-1, 1, (40, 3)).astype(np.float32)
    groups = np.arange(40, dtype=np.int32) % 3
    trees = [wp.Bvh(low, low + np.float32(0.3)), wp.Bvh(low[::2], low[::2] + np.float32(0.4), groups=groups[::2])]
    x, o, alone = wp.array(0.5 * X, dtype=wp.vec3), wp.zeros(64, dtype=float), wp.zeros(64, dtype=float)
    wp.launch(boxes, 64, [ids_of(*trees), x], [o])
    for k, tree in enumerate(trees):
        wp.launch(boxes, 64, [ids_of(tree), x], [alone.zero_()])
        np.testing.assert_array_equal(o.numpy()[k::2], alone.numpy()[k::2])
        wp.launch(boxes_of, 64, [tree, x], [alone.zero_()])
        np.testing.assert_array_equal(o.numpy()[k::2], alone.numpy()[k::2])
        assert alone.numpy()[k::2].any()


@wp.kernel
def boxes_of(bvh: wp.Bvh, x: wp.array[wp.vec3], o: wp.array[float]):
    i = wp.tid()
    for box in wp.bvh_query_aabb(bvh, x[i], x[i] + wp.vec3(0.2, 0.2, 0.2), wp.bvh_get_group_root(bvh, 1)):
        o[i] += float(box + 1)
    for box in wp.bvh_query_ray(bvh, x[i], wp.vec3(0.0, 0.0, 1.0)):
        o[i] += 100.0 * float(box + 1)


@wp.kernel
def neighbours(ids: wp.array[wp.uint64], x: wp.array[wp.vec3], o: wp.array[float]):
    i = wp.tid()
    grid = ids[i % ids.shape[0]]
    for j in wp.hash_grid_query(grid, x[i], 0.5):
        if wp.length(x[i] - x[j]) < 0.5:
            o[i] += float(j + 1)
    o[i] += 1000.0 * float(wp.hash_grid_point_id(grid, 0))


@pytest.mark.release_mode("debug mode reports ids of nothing")
def test_grids_by_ids():
    x, o = wp.array(X, dtype=wp.vec3), wp.zeros(64, dtype=float)
    grids = [wp.HashGrid(8, 8, 8), wp.HashGrid(16, 4, 8), wp.HashGrid(4, 4, 4)]
    for grid in grids[:2]:
        grid.build(x, 0.5)
    wp.launch(neighbours, 64, [ids_of(grids[0], grids[1]), x], [o])
    near = np.linalg.norm(X[:, None] - X[None], axis=-1) < 0.5
    found = o.numpy() - 1000.0 * np.where(np.arange(64) % 2, *(g.ids.numpy()[0] for g in grids[1::-1]))
    np.testing.assert_array_equal(found, near @ np.arange(1, 65))
    wp.launch(neighbours, 64, [ids_of(None, grids[2]), x], [o.zero_()])
    np.testing.assert_array_equal(o.numpy(), np.full(64, -1000.0))
    grids[2].build(x, 0.5)
    wp.launch(neighbours, 64, [ids_of(grids[2]), x], [o.zero_()])
    found = o.numpy() - 1000.0 * grids[2].ids.numpy()[0]
    np.testing.assert_array_equal(found, near @ np.arange(1, 65))


@wp.kernel
def every_third(mesh: wp.uint64, other: wp.uint64, o: wp.array[float]):
    i = wp.tid()
    if i % 3 == 0:
        m = mesh
        if i % 2 == 1:
            m = other
        o[i] = down(m)


@pytest.mark.parametrize("count", [8, 13, 1000])
def test_lanes_that_are_off_read_memory_that_is_there(count):
    """One id for all threads: code loads elements at places that do not depend on the lane."""
    first, second = plane(1.0), plane(4.0)
    index = np.arange(count)
    want = np.where(index % 3, 0.0, np.where(index % 2, 6.0, 9.0))
    np.testing.assert_array_equal(launched(every_third, [first.id, second.id], count), want)


@pytest.mark.release_mode("debug mode reports ids of nothing")
def test_no_object_and_an_empty_one_are_hit_by_nothing():
    empty = wp.Mesh(points=wp.zeros(0, dtype=wp.vec3), indices=wp.zeros(0, dtype=int))
    for ids in (ids_of(empty), np.array([0, 5, 2**63 + 7, 2**64 - 1, 3 << 32], np.uint64)):
        o = wp.full((8, 8), -5.0)
        wp.launch(rays, 8, [ids, wp.array(X[:8], dtype=wp.vec3)], [o])
        np.testing.assert_array_equal(o.numpy(), [[0, 0, 0, -1, 0, 0, -5, -5]] * 8)
    mesh = plane(1.0)
    assert launched(of_array, [ids_of(None, mesh, None)]) == [0, 9, 0]
    for number in (0, 5, mesh.id + 1):
        with pytest.raises(KernelError, match=rf"in down: thread \(1,\): id {number} names no Mesh that is alive"):
            in_debug_mode(of_array, [np.array([mesh.id, number, mesh.id], np.uint64)])
    assert in_debug_mode(or_none, [0], 1) == [-1]


@wp.kernel
def corner(ids: wp.array[wp.uint64], k: int, o: wp.array[float]):
    o[0] = wp.mesh_get_point(ids[0], k)[2]


@pytest.mark.release_mode("debug mode reports it")
@pytest.mark.parametrize("k", [3, -1, 10**9, 2**31 - 1, -(2**31)])
def test_an_index_that_an_object_does_not_have_reads_nothing_else(k):
    mesh = plane(1.0)
    assert launched(corner, [ids_of(mesh), 2], 1) == [1]
    assert launched(corner, [ids_of(mesh), k], 1) == [1]
    assert launched(corner, [ids_of(None), k], 1) == [0]
    with pytest.raises(KernelError, match=rf"index {k} is out of range; the extent of the array .* is 3"):
        in_debug_mode(corner, [ids_of(mesh), k], 1)
    with pytest.raises(KernelError, match="id 0 names no Mesh that is alive"):
        in_debug_mode(corner, [ids_of(None), k], 1)


@pytest.mark.release_mode("debug mode reports ids of nothing")
def test_what_is_freed_is_nothing():
    mesh, other = plane(1.0), plane(2.0)
    ids = ids_of(mesh, other, mesh)
    assert launched(of_array, [ids]) == [9, 8, 9]
    before = int(mesh.id)
    del mesh
    gc.collect()
    assert launched(of_array, [ids]) == [0, 8, 0]
    new = plane(3.0)  # in its row
    assert new.id != before
    assert launched(of_array, [ids_of(new, other, None)]) == [7, 8, 0]
    assert launched(of_array, [ids]) == [0, 8, 0]
    with pytest.raises(KernelError, match=f"id {before} names no Mesh that is alive"):
        in_debug_mode(of_array, [ids])


def in_debug_mode(kernel, inputs, count=3):
    before, wp.config.mode = wp.config.mode, "debug"
    try:
        return launched(kernel, inputs, count)
    finally:
        wp.config.mode = before


def test_an_id_keeps_its_object_alive():
    ids = {plane(float(z)).id: z for z in range(3)}
    gc.collect()
    assert launched(of_array, [wp.array(list(ids), dtype=wp.uint64)]) == [10, 9, 8]


def test_refits_are_seen():
    mesh = plane(0.0)
    ids = ids_of(mesh, mesh, mesh)
    assert launched(of_array, [ids]) == [10, 10, 10]
    mesh.points.fill_(wp.vec3(0.0, 0.0, 0.0))
    wp.copy(mesh.points, plane(4.0).points)
    mesh.refit()
    assert launched(of_array, [ids]) == [6, 6, 6]
    mesh.points = wp.array(plane(7.0).points.numpy(), dtype=wp.vec3)
    assert launched(of_array, [ids]) == [3, 3, 3]
    again = mesh.refit(wp.array(plane(5.0).points.numpy(), dtype=wp.vec3))
    assert again.id != mesh.id
    assert launched(of_array, [ids_of(again, mesh, again)]) == [5, 3, 5]


def test_rows_are_used_again():
    first = [plane(0.0).id & 0xFFFFFFFF for _ in range(50)]
    gc.collect()
    assert len(set(first)) < 25
    ids = {plane(0.0).id for _ in range(50)}
    assert len(ids) == 50
    del ids
    gc.collect()
    assert len(REGISTRY._of) < 50


def test_more_objects_than_rows():
    meshes = [plane(z / 8) for z in range(40)]
    found = launched(of_array, [ids_of(*meshes)], 40)
    np.testing.assert_allclose(found, 10 - np.arange(40) / 8)


@wp.kernel
def moved(ids: wp.array[wp.uint64], points: wp.array[wp.vec3], o: wp.array[float]):
    points[0] = wp.vec3(0.0, 0.0, 0.0)
    o[0] = down(ids[0])


def test_what_an_object_reads_is_not_written_beside():
    mesh, o = plane(0.0), wp.zeros(1, dtype=float)
    apart = wp.zeros(3, dtype=wp.vec3)
    for _ in range(2):
        wp.launch(moved, 1, [ids_of(mesh), apart], [o])
        with pytest.raises(KernelError, match="shares memory with an object that the kernel may find by its id"):
            wp.launch(moved, 1, [ids_of(mesh), mesh.points], [o])
    other = wp.Mesh(points=apart, indices=wp.array([0, 1, 2], dtype=int))
    assert other.id
    with pytest.raises(KernelError, match="shares memory"):
        wp.launch(moved, 1, [ids_of(mesh), apart], [o])


@wp.kernel
def push(ids: wp.array[wp.uint64], o: wp.array[float]):
    mesh = wp.mesh_get(ids[0])
    mesh.points[0] = wp.vec3(0.0, 0.0, 0.0)


@wp.kernel
def count_up(ids: wp.array[wp.uint64], o: wp.array[float]):
    mesh = wp.mesh_get(ids[0])
    wp.atomic_add(mesh.indices, 0, 1)


@pytest.mark.parametrize("kernel", [push, count_up])
def test_nothing_is_written_through_an_id(kernel):
    with pytest.raises(KernelError, match="is read through an id, and cannot be written that way"):
        launched(kernel, [ids_of(plane(0.0))], 1)


@wp.struct
class Shape:
    mesh: wp.uint64
    scale: float


@wp.struct
class Scene:
    shape: Shape
    ids: wp.array[wp.uint64]


@wp.kernel
def of_struct(scene: Scene, o: wp.array[float]):
    i = wp.tid()
    m = scene.shape.mesh if i == 0 else scene.ids[i - 1]
    o[i] = scene.shape.scale * down(m)


@wp.kernel
def of_structs(shapes: wp.array[Shape], o: wp.array[float]):
    i = wp.tid()
    o[i] = shapes[i].scale * down(shapes[i].mesh)


@pytest.mark.release_mode("debug mode reports ids of nothing")
def test_ids_in_structs_and_arrays_of_them():
    meshes = [plane(float(z)) for z in range(3)]
    scene = Scene(Shape(meshes[2].id, 2.0), ids_of(*meshes[:2]))
    for _ in range(2):
        assert launched(of_struct, [scene]) == [16, 20, 18]
    scene.shape.mesh = int(meshes[1].id)
    assert launched(of_struct, [scene]) == [18, 20, 18]
    scene.shape = Shape(0, 1.0)
    assert launched(of_struct, [scene]) == [0, 10, 9]
    shapes = wp.array([Shape(m.id, float(k)) for k, m in enumerate(meshes)], dtype=Shape)
    assert launched(of_structs, [shapes]) == [0, 9, 16]


def test_launches_that_are_kept_and_captured():
    meshes = [plane(float(z)) for z in range(3)]
    o, ids = wp.zeros(3, dtype=float), ids_of(*meshes)
    command = wp.launch(of_array, 3, [ids], [o], record_cmd=True)
    command.launch()
    assert o.numpy().tolist() == [10, 9, 8]
    pair = wp.launch(one_of_two, 3, [meshes[0].id, meshes[1].id], [o], record_cmd=True)
    pair.launch()
    assert o.numpy().tolist() == [10, 9, 10]
    pair.set_param_at_index(1, meshes[2].id)
    pair.launch()
    assert o.numpy().tolist() == [10, 8, 10]
    with wp.ScopedCapture(device="cpu") as capture:
        wp.launch(of_array, 3, [ids], [o])
    more = [plane(1.0) for _ in range(40)]  # the tables of then are too small
    meshes[0].points = wp.array(plane(5.0).points.numpy(), dtype=wp.vec3)
    wp.capture_launch(capture.graph)
    assert o.numpy().tolist() == [5, 9, 8]
    assert len({m.id for m in more}) == 40


def test_tapes_refuse_what_they_cannot_differentiate():
    mesh, o = plane(0.0), wp.zeros(3, dtype=float, requires_grad=True)
    tape = wp.Tape()
    for _ in range(2):  # the first launch finds out what the kernel does
        with tape, pytest.raises(DifferentiationError, match="finds meshes, trees or grids by numbers") as caught:
            wp.launch(of_array, 3, [ids_of(mesh, mesh, mesh)], [o])
        assert "return wp.mesh_query_ray(mesh, " in str(caught.value)
        wp.launch(of_array, 3, [ids_of(mesh, mesh, mesh)], [o])
    with tape:
        wp.launch(of_array, 3, [ids_of(mesh, mesh, mesh)], [o], record_tape=False)
    assert o.numpy().tolist() == [10, 10, 10]


@wp.kernel
def guarded(mesh: wp.uint64, x: wp.array[wp.vec3], o: wp.array[float]):
    i = wp.tid()
    if mesh and mesh != wp.uint64(0):
        o[i] = wp.mesh_query_ray(mesh, x[i], wp.vec3(0.0, 0.0, -1.0), 100.0).t


def test_a_guarded_id_is_still_a_value_of_jax():
    call = wp.jax_kernel(guarded, launch_dims=2, output_dims=2)
    x = jnp.array([[0.0, 0.0, 5.0], [0.1, 0.0, 4.0]])
    mesh = wp.Mesh(jnp.asarray(P), jnp.asarray(F))
    for given in (mesh, mesh.id):
        for f in (call, jax.jit(call)):
            np.testing.assert_allclose(f(given, x)[0], [4.0, 3.0414214], rtol=1e-6)
    slope = jax.grad(lambda p: call(wp.Mesh(p, jnp.asarray(F)).id, x)[0].sum())(jnp.asarray(P))
    assert float(slope[:, 2].sum()) == pytest.approx(-2.0)


def test_numbers_are_refused_in_jax_with_the_line():
    call = wp.jax_kernel(of_array, launch_dims=3, output_dims=3)
    match = "a Mesh is chosen by a number here, which jax_kernel and derivatives do not look up"
    with jax.enable_x64(True), pytest.raises(KernelError, match=match) as error:
        call(np.zeros(3, np.uint64))
    assert "return wp.mesh_query_ray(mesh, " in str(error.value)


def test_numbers_are_refused_where_nothing_looks_them_up():
    mesh, o = plane(0.0), wp.zeros(1, dtype=float)
    with pytest.raises(KernelError, match="jax_kernel and derivatives do not look up") as error:
        wp.launch(of_array, 1, [ids_of(mesh)], [o], adjoint=True, adj_outputs=[wp.ones(1, dtype=float)])
    assert error.value.hint.startswith("pass the Mesh itself")
    with pytest.raises(KernelError, match="jax_kernel and derivatives do not look up"):
        of_array.interpret(np.array([mesh.id], np.uint64), np.zeros(1, np.float32), dim=1)


def test_programs_that_call_python_take_ids():
    meshes = [plane(float(z)) for z in range(3)]

    def program(ids: wp.array[wp.uint64], o: wp.array[float]):
        wp.launch(of_array, 3, [ids], [o])

    call = wp.jax_callable(program, graph_mode=wp.GraphMode.NONE, output_dims=3)
    with jax.enable_x64(True):
        for f in (call, jax.jit(call)):
            np.testing.assert_array_equal(f(np.array([m.id for m in meshes], np.uint64))[0], [10, 9, 8])


@wp.kernel
def sampled(ids: wp.array[wp.uint64], x: wp.array[wp.vec3], o: wp.array2d[float]):
    i = wp.tid()
    volume = ids[i % ids.shape[0]]
    p = wp.volume_world_to_index(volume, x[i])
    o[i, 0] = wp.volume_sample_f(volume, p, wp.Volume.LINEAR)
    o[i, 1] = wp.volume_sample_f(volume, p, wp.Volume.CLOSEST)
    o[i, 2] = wp.volume_lookup_f(volume, int(p[0]), int(p[1]), int(p[2]))
    o[i, 3] = float(wp.volume_lookup_index(volume, int(p[0]), int(p[1]), int(p[2])))


@wp.kernel
def sampled_of(volume: wp.Volume, x: wp.array[wp.vec3], o: wp.array2d[float]):
    i = wp.tid()
    p = wp.volume_world_to_index(volume, x[i])
    o[i, 0] = wp.volume_sample_f(volume, p, wp.Volume.LINEAR)
    o[i, 1] = wp.volume_sample_f(volume, p, wp.Volume.CLOSEST)
    o[i, 2] = wp.volume_lookup_f(volume, int(p[0]), int(p[1]), int(p[2]))
    o[i, 3] = float(wp.volume_lookup_index(volume, int(p[0]), int(p[1]), int(p[2])))


@wp.kernel
def vectors(ids: wp.array[wp.uint64], o: wp.array[float]):
    i = wp.tid()
    o[i] = wp.dot(wp.volume_lookup_v(ids[i], 1, 2, 3), wp.vec3(1.0, 10.0, 100.0))


def some_volumes():
    values = np.random.default_rng(2).normal(size=(9, 10, 11)).astype(np.float32)
    far = np.array([[0, 0, 0], [9000, 1, 2], [-40, 800, 3]], np.int32)  # by a hashed table
    hashed = wp.Volume.allocate_by_tiles(far, voxel_size=0.2, bg_value=4.0)
    return [
        wp.Volume.load_from_numpy(values, (-1.0, -1.0, -1.0), 0.2, -7.0),
        hashed,
        wp.Volume.load_from_numpy(2 * values[:5], (-0.5, 0.0, 0.0), 0.3, 3.0),
    ]


def test_volumes_by_ids():
    volumes, x, o = some_volumes(), wp.array(X, dtype=wp.vec3), wp.zeros((64, 4), dtype=float)
    wp.launch(sampled, 64, [ids_of(*volumes), x], [o])
    for k, volume in enumerate(volumes):
        alone = wp.zeros((64, 4), dtype=float)
        wp.launch(sampled_of, 64, [volume, x], [alone])
        np.testing.assert_array_equal(o.numpy()[k::3], alone.numpy()[k::3])
        assert alone.numpy()[k::3].any()


@pytest.mark.release_mode("debug mode reports ids of nothing")
def test_volumes_have_the_type_that_is_asked_for():
    dense = np.arange(3 * 64, dtype=np.float32).reshape(4, 4, 4, 3)
    volume = wp.Volume.load_from_numpy(dense, bg_value=(0.0, 0.0, 0.0))
    expected = float(dense[1, 2, 3] @ np.array([1, 10, 100], np.float32))
    assert launched(vectors, [ids_of(volume, None, volume)]) == [expected, 0, expected]
    with pytest.raises(KernelError, match="the array is None here: it has no elements"):
        wp.launch(sampled, 1, [ids_of(volume), wp.array(X, dtype=wp.vec3)], [wp.zeros((1, 4), dtype=float)])


class AllMemory:
    """Memory from an address on, as an array of NumPy, where it has no elements before the first one."""

    AT = 64

    def __init__(self, dtype, count):
        self.__array_interface__ = {"data": (self.AT, False), "shape": (count,), "typestr": dtype.str, "version": 3}


def from_low_addresses(operands):
    """Operands of NumPy, where memory begins at a low address: rows have other starts."""
    origins = {r.dtype: r.address for r in operands if r.shape == (ENDLESS,)}
    kinds, found = iter(tables_at(HOST)._of), []
    for region in operands:
        if region.shape == (ENDLESS,):
            found.append(np.asarray(AllMemory(region.dtype, ENDLESS)))
        elif region.dtype == np.int64 and len(region.shape) == 2:
            rows = region.here.copy()
            types = [type_ for leaf in id_leaves(struct_of(next(kinds))) for _, type_ in leaf]
            scalars = [tables._scalar_of(t).numpy for t in types]
            rows[:, 1 : 1 + 3 * len(types) : 3] += [(origins[t] - AllMemory.AT) // t.itemsize for t in scalars]
            found.append(rows)
        else:
            found.append(region.here)
    return found


def operands_of(kernel, values):
    """The kernel that launches by number run, and its operands, which live as long as the last item."""
    tables, alive = tables_at(HOST).now()
    numbered = kernel.with_argument(TABLES, tables_type())
    arrays = [leaf._region for leaf in spread(numbered, [*values, tables])]
    return prepare(numbered.specialize()), arrays, alive


@pytest.mark.parametrize("target", ["interpreter", "cuda"])
@pytest.mark.parametrize(("kernel", "make"), [(of_array, lambda: [plane(0.5), plane(1.5)]), (vectors, list)])
def test_every_target_finds_the_same(target, kernel, make):
    dense = np.arange(192, dtype=np.float32).reshape(4, 4, 4, 3)
    objects = make() or [wp.Volume.load_from_numpy(dense, bg_value=wp.vec3())]
    ids = wp.array([*(x.id for x in objects), 0, 7, 1 << 32, objects[0].id], dtype=wp.uint64)
    o, expected = wp.zeros(ids.size, dtype=float), wp.zeros(ids.size, dtype=float)
    made, operands, alive = operands_of(kernel, [ids, o])
    if target == "cuda":
        shapes = [r.shape for r in operands]
        code = code_for(made, (ids.size,), shapes, index_bits_of((ids.size,), shapes), NO_CUDA_OPTIONS)
        numbers = [ids.size if source < 0 else shapes[source][axis] for source, axis in code.geometry]
        launch_at(made, code, [r.address for r in operands], [*numbers, ids.size], 2, 4)
    else:
        interpret(made, (ids.size,), from_low_addresses(operands))
    before, wp.config.mode = wp.config.mode, "release"
    wp.launch(kernel, ids.size, [ids], [expected])
    wp.config.mode = before
    np.testing.assert_array_equal(o.numpy(), expected.numpy())
    assert o.numpy()[0] == o.numpy()[-1] != 0
    assert not o.numpy()[-4:-1].any()
    del alive


def test_a_launch_looks_at_objects_after_changes_only(monkeypatch):
    """What a launch costs does not grow with the objects that are alive."""
    gc.collect()  # one that dies meanwhile is a change
    many = [plane(float(z)) for z in range(40)]
    grids = [wp.HashGrid(2, 2, 2) for _ in range(5)]
    for grid in grids:
        grid.build(wp.array(X, dtype=wp.vec3), 0.5)
    looked, has_fields = [], Held.has_fields
    monkeypatch.setattr(Held, "has_fields", lambda held, value: looked.append(value) or has_fields(held, value))
    ids = ids_of(*many[:3])
    assert {g.id for g in grids}
    assert launched(of_array, [ids]) == [10, 9, 8]
    looked.clear()
    gc.disable()
    try:
        for _ in range(3):
            assert launched(of_array, [ids]) == [10, 9, 8]
    finally:
        gc.enable()
    assert not [value for value in looked if any(value is one for one in (*many, *grids))]  # but those of other tests
    many[0].points = wp.array(plane(5.0).points.numpy(), dtype=wp.vec3)
    assert launched(of_array, [ids]) == [5, 9, 8]
    assert looked


def rows_of(tables):
    """What rows say: the id, and where each array is."""
    tables_of = tables._of.items()
    return {kind.__name__: t._rows[: 1 + max(t._seen, default=0), : t._values] for kind, t in tables_of}


GROUPS = np.arange(len(F), dtype=np.int32) % 2
CHANGES_OF_OBJECTS = {
    "points": lambda o: setattr(o["mesh"], "points", wp.array(2.0 * P, dtype=wp.vec3)),
    "velocities": lambda o: setattr(o["mesh"], "velocities", wp.array(P, dtype=wp.vec3)),
    "no velocities": lambda o: setattr(o["mesh"], "velocities", None),
    "refit": lambda o: (o["mesh"].points.assign(P[::-1].copy()), o["mesh"].refit()),
    "init": lambda o: o["mesh"].__init__(wp.array(P, dtype=wp.vec3), wp.array(F[:3].ravel(), dtype=int)),
    "bvh rebuild": lambda o: o["bvh"].rebuild(),
    "bvh refit": lambda o: o["bvh"].refit(),
    "tree of a mesh": lambda o: o["mesh"].bvh.rebuild(),
    "build": lambda o: o["grid"].build(wp.array(X[:7], dtype=wp.vec3), 0.3),
    "build with groups": lambda o: o["grid"].build(
        wp.array(X, dtype=wp.vec3), 0.3, groups=wp.array(np.zeros(len(X), np.int32), dtype=int)
    ),
    "another": lambda o: o.update(other=plane(1.0)) or o["other"].id,
    "first id": lambda o: o["none yet"].id,
    "freed": lambda o: o.pop("bvh") and gc.collect(),
}


@pytest.mark.parametrize("change", CHANGES_OF_OBJECTS)
def test_every_change_of_an_object_is_seen(change):
    low = np.zeros((3, 3), np.float32)
    mesh, grid = ball(groups=wp.array(GROUPS, dtype=int)), wp.HashGrid(2, 2, 2)
    objects = {"mesh": mesh, "grid": grid, "bvh": wp.Bvh(low, low + 1)}
    del mesh, grid
    assert all(x.id for x in objects.values())
    objects["none yet"] = plane(7.0)
    tables = tables_at(HOST)
    tables.now()
    CHANGES_OF_OBJECTS[change](objects)
    tables.now()
    found = {k: rows.copy() for k, rows in rows_of(tables).items()}
    for table in tables._of.values():
        table._seen.clear()
    tables._token = None
    tables.now()
    for name, rows in rows_of(tables).items():
        np.testing.assert_array_equal(found[name], rows)
