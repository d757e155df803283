"""Meshes, trees and grids on a GPU that is not there: what is made there is what is made on the CPU, and what of it
crosses to the host, is copied, or takes a launch."""

import copy

import numpy as np
import pytest
from geometry.brute import sphere

import jaxwarp as wp

DEVICE = "cuda:1"
POINTS, FACES = (np.array(a, t) for a, t in zip(sphere(7), (np.float32, np.int32), strict=True))
MOVED = np.where(np.arange(len(POINTS))[:, None] % 50 == 7, np.float32(np.nan), np.float32(0.3) - POINTS)
COPIES = ("HtoD", "DtoH", "DtoD", "alloc", "free")


@wp.kernel
def nearest_to(mesh: wp.Mesh, at: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    i = wp.tid()
    found = wp.mesh_query_point(mesh, at[i], 10.0)
    out[i] = wp.length(wp.mesh_eval_position(mesh, found.face, found.u, found.v) - at[i])


@wp.kernel
def count_boxes(bvh: wp.uint64, at: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    i = wp.tid()
    query = wp.bvh_query_sphere(bvh, at[i], 0.3)
    n = 0
    while wp.bvh_query_next(query, n):
        out[i] += 1.0 + float(n)


@wp.kernel
def count_near(grid: wp.HashGrid, at: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    i = wp.tid()
    for n in wp.hash_grid_query(grid, at[i], 0.4):
        if wp.length(at[n] - at[i]) < 0.4:
            out[i] += 1.0


def mesh_on(device, **options):
    points = wp.array(POINTS, dtype=wp.vec3, device=device)
    return wp.Mesh(points, wp.array(FACES.reshape(-1), dtype=int, device=device), **options)


def bvh_on(device):
    return wp.Bvh(*(wp.array(x, dtype=wp.vec3, device=device) for x in (POINTS, POINTS + np.float32(0.1))))


def contents(value):
    """The arrays of a tree, or of a mesh and of its tree, as arrays of numbers."""
    found = [copy.copy(vars(value)), vars(value.bvh) if isinstance(value, wp.Mesh) else {}]
    others = "bvh", "_levels", "_faces"
    arrays = {name: a for held in found for name, a in held.items() if a is not None and name not in others}
    return {name: np.array(a.numpy() if hasattr(a, "numpy") else a) for name, a in arrays.items()}


def assert_as_on_the_host(found, expected, loose=()):
    one, other = contents(found), contents(expected)
    assert one.keys() == other.keys()
    for name, values in one.items():
        rtol = 1e-4 if name in loose else 0.0
        np.testing.assert_allclose(values.reshape(-1), other[name].reshape(-1), rtol, rtol, err_msg=name)


def crossed(log):
    """The lines of a log that are no launches or fills."""
    return [line for line in log if line.startswith(COPIES)]


def launched(log):
    return [line for line in log if line.startswith("launch")]


def meshes_live_there(gpus):
    """A mesh on a GPU is that of the host to the bit. A launch with one copies nothing, nor does a refit, in five
    launches for 588 faces."""
    loose = "winding_balls", "winding_moments"
    points = wp.array(POINTS, dtype=wp.vec3, device=DEVICE)
    faces = wp.array(FACES.reshape(-1), dtype=int, device=DEVICE)
    wp.Mesh(points, faces)
    gpus.log()
    wp.Mesh(points, faces)
    log = gpus.log()
    # To the host comes only that all faces have vertices. 9 passes of a sort in four launches, and five for each level.
    assert [line for line in log if line.startswith("DtoH")] == ["DtoH 4 stream 5001"]
    assert not [line for line in log if line.startswith("HtoD")]
    assert len(launched(log)) == 36 + 5 * 7 + 14, len(launched(log))
    for options in ({}, {"support_winding_number": True}, {"groups": np.arange(len(FACES), dtype=np.int32) % 5 - 2}):
        mesh, other = mesh_on(DEVICE, **options), mesh_on("cpu", **options)
        assert_as_on_the_host(mesh, other, loose)
        near = wp.zeros(len(POINTS), dtype=float, device=DEVICE)
        at = wp.array(1.1 * POINTS, dtype=wp.vec3, device=DEVICE)
        for k in range(3):
            wp.launch(nearest_to, len(POINTS), [mesh, at], [near])
            log = gpus.log()
            assert k == 0 or not crossed(log)
        on_cpu = wp.zeros(len(POINTS), dtype=float, device="cpu")
        wp.launch(nearest_to, len(POINTS), [other, at.to("cpu")], [on_cpu])
        np.testing.assert_allclose(near.numpy(), on_cpu.numpy(), rtol=1e-5, atol=1e-6)
        for points in (MOVED, POINTS):
            mesh.points.assign(points)
            other.points.assign(points)
            other.refit()
            wp.synchronize()
            gpus.log()
            assert mesh.refit() is mesh
            log = gpus.log()
            assert not crossed(log)
            assert options or len(launched(log)) == 5
            assert_as_on_the_host(mesh, other, loose)


def trees_live_there(gpus):
    """The same of trees over boxes."""
    tree, other = bvh_on(DEVICE), bvh_on("cpu")
    at, found = wp.array(POINTS, dtype=wp.vec3, device=DEVICE), []
    for _ in range(3):
        assert_as_on_the_host(tree, other)
        out = wp.zeros(len(POINTS), dtype=float, device=DEVICE)
        wp.launch(count_boxes, len(POINTS), [tree.id, at], [out])  # finds where the tree is
        out.zero_()
        wp.synchronize()
        gpus.log()
        wp.launch(count_boxes, len(POINTS), [tree.id, at], [out])
        assert not crossed(gpus.log())
        found.append(out.numpy())
        for one in (tree, other):
            one.lowers.assign(np.float32(0.9) * POINTS)
            one.uppers.assign(np.float32(0.9) * POINTS + np.float32(0.1))
        gpus.log()
        tree.refit()
        log = gpus.log()
        assert not crossed(log)
        assert len(launched(log)) == 4
        other.refit()
        assert_as_on_the_host(tree, other)
        tree.rebuild(), other.rebuild()
    assert found[0].any()
    assert (found[0] != found[1]).any()
    np.testing.assert_array_equal(found[1], found[2])


def copies_stay_as_they_were(gpus):
    """What writes to a mesh in place writes to that one alone."""
    del gpus
    mesh = mesh_on(DEVICE)
    before = contents(mesh)
    others = [mesh.replace(velocities=wp.zeros_like(mesh.points)), mesh.refit(mesh.points), copy.copy(mesh)]
    others[2].points = wp.array(POINTS, dtype=wp.vec3, device=DEVICE)
    bvh = mesh.bvh.refit(mesh.bvh.lowers, mesh.bvh.uppers)
    mesh.points.assign(MOVED)
    mesh.refit()
    for other in others:
        for name in ("corners", "nodes", "grid", "lowers"):
            np.testing.assert_array_equal(contents(other)[name], before[name])
    np.testing.assert_array_equal(bvh.nodes.numpy(), before["nodes"])
    others[0].points = wp.array(MOVED, dtype=wp.vec3, device=DEVICE)
    for name in ("corners", "nodes"):
        np.testing.assert_array_equal(contents(others[0])[name], contents(mesh)[name])


def captures_refit_there(gpus):
    """A refit and a search of one GPU are one graph."""
    mesh, other = mesh_on(DEVICE, support_winding_number=True), mesh_on("cpu", support_winding_number=True)
    at, near = wp.array(1.1 * POINTS, dtype=wp.vec3, device=DEVICE), wp.zeros(len(POINTS), dtype=float, device=DEVICE)
    with wp.ScopedCapture(DEVICE) as capture:
        mesh.refit()
        wp.launch(nearest_to, len(POINTS), [mesh, at], [near])
    for k in range(4):
        points = np.float32(1.0 + k) * POINTS
        mesh.points.assign(points)
        other.points.assign(points)
        other.refit()
        wp.synchronize()
        gpus.log()
        wp.capture_launch(capture.graph)
        log = gpus.log()
        assert k < 2 or [line for line in log if line.startswith("graph")], log
        assert k < 2 or not launched(log) + crossed(log), log
        assert_as_on_the_host(mesh, other, ("winding_balls", "winding_moments"))
        assert abs(near.numpy() - contents(other)["points"].std()).max() > 0.0
    mesh.points = wp.array(np.float32(2.0) * POINTS, dtype=wp.vec3, device=DEVICE)  # other arrays than in the graph
    for k in range(3):
        points = np.float32(2.0 + k) * POINTS
        mesh.points.assign(points)
        other.points.assign(points)
        other.refit()
        wp.synchronize()
        gpus.log()
        wp.capture_launch(capture.graph)
        assert k < 2 or not launched(gpus.log())
        assert_as_on_the_host(mesh, other, ("winding_balls", "winding_moments"))
    with pytest.raises(wp.KernelError, match="contents cannot be read while a capture is made"), wp.ScopedCapture():
        wp.Mesh(mesh.points, mesh.indices)


def what_does_not_fit_is_refused(gpus):
    """Arrays of several devices, and faces of no vertex: the host reads four bytes of those that fit."""
    mesh, host = mesh_on(DEVICE), wp.array(POINTS, dtype=wp.vec3, device="cpu")
    with pytest.raises(wp.KernelError, match="Mesh: indices: expected an array on cuda:1, where the points are"):
        wp.Mesh(mesh.points, wp.array(FACES.reshape(-1), dtype=int, device="cpu"))
    with pytest.raises(wp.KernelError, match=r"Mesh\.refit: points: expected an array on cuda:1, where the mesh is"):
        mesh.refit(POINTS)
    with pytest.raises(wp.KernelError, match="Bvh: uppers: expected an array on cuda:1, where lowers are"):
        wp.Bvh(mesh.points, host)
    with pytest.raises(wp.KernelError, match=r"Bvh\.refit: lowers: expected an array in memory of the host"):
        bvh_on("cpu").refit(mesh.points, mesh.points)
    faces = FACES.copy()
    faces[[9, 4], 1] = len(POINTS), -1
    with pytest.raises(wp.KernelError, match=rf"face 4 has the vertices \[{faces[4, 0]}, -1, {faces[4, 2]}\]"):
        wp.Mesh(mesh.points, wp.array(faces, dtype=int, device=DEVICE))
    assert wp.Mesh(mesh.points, FACES).indices.device == DEVICE
    none = wp.Mesh(wp.zeros(0, dtype=wp.vec3, device=DEVICE), wp.zeros(0, dtype=int, device=DEVICE))
    out = wp.zeros(3, dtype=float, device=DEVICE)
    wp.launch(count_boxes, 3, [none.bvh.id, wp.zeros(3, dtype=wp.vec3, device=DEVICE)], [out])
    assert not out.numpy().any()
    none.refit()
    gpus.log()


def grids_live_there(gpus):
    """A hash grid on a GPU is that of the host, in a few launches for each four bits of a cell's number, and points
    that are nowhere are in no cell. Built in a capture with a search, all is one graph."""
    random, sizes = np.random.default_rng(4), (70, 70, 5000)
    near = wp.zeros(70, dtype=float, device=DEVICE)
    grids = [wp.HashGrid(4, 4, 4, device=device) for device in (DEVICE, "cpu")]
    for size in sizes:
        places = random.normal(size=(size, 3)).astype(np.float32)
        places[::9] = np.nan
        groups = random.integers(-2, 3, size).astype(np.int32)
        for of in (None, groups):
            for grid in grids:
                points = wp.array(places, dtype=wp.vec3, device=grid.device)
                grid.build(points, 0.5, groups=None if of is None else wp.array(of, dtype=int, device=grid.device))
            for name in ("start", "ids", "groups")[: 2 if of is None else 3]:
                np.testing.assert_array_equal(*(getattr(grid, name).numpy() for grid in grids))
    grid, points = grids[0], wp.array(places, dtype=wp.vec3, device=DEVICE)
    grid.build(points, 0.5)
    gpus.log()
    grid.build(points, 0.5)
    log = gpus.log()
    # Cells, numbers, two passes of four launches, starts.
    assert len(launched(log)) == 11
    assert {line.split()[0] for line in crossed(log)} == {"DtoD"}
    with wp.ScopedCapture(DEVICE) as capture:
        grid.build(points, 0.5)
        wp.launch(count_near, 70, [grid, points], [near])
    for k in range(3):
        places = random.normal(size=(5000, 3)).astype(np.float32)
        points.assign(places)
        near.zero_()
        wp.synchronize()
        gpus.log()
        wp.capture_launch(capture.graph)
        log = gpus.log()
        assert k < 2 or not launched(log) + crossed(log), log
        grids[1].build(wp.array(places, dtype=wp.vec3, device="cpu"), 0.5)
        np.testing.assert_array_equal(grid.ids.numpy(), grids[1].ids.numpy())
        distances = np.linalg.norm(places[:70, None] - places, axis=-1)
        assert abs(near.numpy() - (distances < 0.4).sum(1)).max() <= 1


SCENARIOS = [
    grids_live_there,
    meshes_live_there,
    trees_live_there,
    copies_stay_as_they_were,
    captures_refit_there,
    what_does_not_fit_is_refused,
]
