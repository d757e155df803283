"""Queries by the threads of a block together, against the loops over the same queries."""

from __future__ import annotations

import numpy as np

import jaxwarp as wp

RNG = np.random.default_rng(5)
COUNT = 200
LOWERS = RNG.uniform(-1, 1, (COUNT, 3)).astype(np.float32)
UPPERS = LOWERS + RNG.uniform(0.05, 0.4, (COUNT, 3)).astype(np.float32)


@wp.kernel
def by_blocks(
    bvh: wp.uint64, mesh: wp.uint64, places: wp.array[wp.vec3], boxes: wp.array2d[int], rays: wp.array2d[int],
    faces: wp.array2d[int],
):  # fmt: skip
    i = wp.tid()
    low, high = places[i] - wp.vec3(0.2), places[i] + wp.vec3(0.2)
    query = wp.tile_bvh_query_aabb(bvh, low, high)
    while wp.tile_query_valid(query):
        found = wp.untile(wp.tile_bvh_query_next(query))
        if found >= 0:
            boxes[i, found] += 1
    ray = wp.bvh_query_ray_tiled(bvh, places[i], wp.vec3(0.3, -0.2, 1.0))
    while wp.tile_query_valid(ray):
        hit = wp.bvh_query_next_tiled(ray)
        if hit[0] >= 0:
            rays[i, hit[0]] += 1
    of_mesh = wp.tile_mesh_query_aabb(mesh, low, high)
    while wp.tile_query_valid(of_mesh):
        face = wp.untile(wp.tile_mesh_query_aabb_next(of_mesh))
        if face >= 0:
            faces[i, face] += 1


@wp.kernel
def by_threads(
    bvh: wp.Bvh, mesh: wp.Mesh, places: wp.array[wp.vec3], boxes: wp.array2d[int], rays: wp.array2d[int],
    faces: wp.array2d[int],
):  # fmt: skip
    i = wp.tid()
    low, high = places[i] - wp.vec3(0.2), places[i] + wp.vec3(0.2)
    for found in wp.bvh_query_aabb(bvh, low, high):
        boxes[i, found] += 1
    for hit in wp.bvh_query_ray(bvh, places[i], wp.vec3(0.3, -0.2, 1.0)):
        rays[i, hit] += 1
    for face in wp.mesh_query_aabb(mesh, low, high):
        faces[i, face] += 1


def test_blocks_find_what_threads_find_once():
    bvh = wp.Bvh(wp.array(LOWERS, dtype=wp.vec3), wp.array(UPPERS, dtype=wp.vec3))
    corners = RNG.uniform(-1, 1, (300, 3)).astype(np.float32)
    mesh = wp.Mesh(points=wp.array(corners, dtype=wp.vec3), indices=wp.array(np.arange(300), dtype=int))
    places = wp.array(RNG.uniform(-1, 1, (30, 3)).astype(np.float32), dtype=wp.vec3)
    results = []
    for kernel, given in ((by_blocks, (bvh.id, mesh.id)), (by_threads, (bvh, mesh))):
        found = [wp.zeros((30, n), dtype=int) for n in (COUNT, COUNT, 100)]
        wp.launch_tiled(kernel, dim=30, inputs=[*given, places], outputs=found)
        results.append([a.numpy() for a in found])
    for ours, expected in zip(*results, strict=True):
        np.testing.assert_array_equal(ours, expected)
        assert expected.sum() > 20
        assert expected.max() == 1
