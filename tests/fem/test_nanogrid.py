"""Sparse grids: against numbers of Warp 1.19 on its CPU, against grids that are full, and against NumPy."""

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp import fem


@fem.integrand
def diffusion(s: fem.Sample, u: fem.Field, v: fem.Field):
    return wp.dot(fem.grad(u, s), fem.grad(v, s))


@fem.integrand
def load(s: fem.Sample, domain: fem.Domain, v: fem.Field):
    x = domain(s)
    return v(s) * (x[0] + 2.0 * x[1] * x[2])


@fem.integrand
def flux(s: fem.Sample, domain: fem.Domain, v: fem.Field):
    return v(s) * wp.dot(fem.normal(domain, s), domain(s))


@fem.integrand
def both(s: fem.Sample, domain: fem.Domain, v: fem.Field):
    return fem.measure_ratio(domain, s) * (fem.inner(v, s) + fem.outer(v, s))


@fem.integrand
def one(s: fem.Sample):
    return 1.0


@fem.integrand
def wave(s: fem.Sample, domain: fem.Domain):
    x = domain(s)
    return wp.sin(3.0 * x[0]) * x[1] + x[2]


@fem.integrand
def find(s: fem.Sample, domain: fem.Domain, points: wp.array[wp.vec3], max_dist: float, cells: wp.array[int],
         found: wp.array[wp.vec3]):  # fmt: skip
    f = fem.lookup(domain, points[s.qp_index], max_dist)
    cells[s.qp_index] = f.element_index
    if f.element_index != fem.NULL_ELEMENT_INDEX:
        found[s.qp_index] = domain(f)


SHAPES = {
    "cubes": {"voxel_size": 0.25, "translation": (0.1, 0.2, -0.3)},
    "boxes": {"voxel_size": (0.25, 0.5, 0.125)},
}
# By shape and degree: cells, vertices, sides, those at the boundary, nodes; the sum and the sum of magnitudes of an
# interpolated field, its energy; the same sums of a linear form; the measures of cells and sides; `flux`, `both`.
OF_WARP = {
    ("cubes", 1): [145, 896, 836, 802, 896, -448.3632, 898.931, 10.39918, -0.9398437, 3.226445, 2.265625, 52.25,
                   -4.910257, -214.953],
    ("cubes", 2): [145, 896, 836, 802, 3424, -1746.213, 3382.399, 10.88109, -0.9398438, 3.256295, 2.265625, 52.25,
                   -4.917066, -215.1794],
    ("boxes", 1): [145, 896, 836, 802, 896, -111.2136, 1011.128, 27.58198, -0.78125, 3.067383, 2.265625, 60.4375,
                   -2.093588, -88.21199],
    ("boxes", 2): [145, 896, 836, 802, 3424, -427.6004, 3872.202, 29.31271, -0.7812499, 3.087502, 2.265625, 60.4375,
                   -2.102613, -88.81294],
}  # fmt: skip


def some_voxels():
    return np.random.default_rng(3).integers(-6, 6, size=(150, 3)).astype(np.int32)


def make(shape, voxels=None):
    voxels = some_voxels() if voxels is None else voxels
    return fem.Nanogrid(wp.Volume.allocate_by_voxels(wp.array(voxels, dtype=wp.vec3i), **SHAPES[shape]))


@pytest.mark.parametrize(("shape", "degree"), OF_WARP)
def test_forms_have_the_numbers_of_warp(shape, degree):
    grid = make(shape)
    space = fem.make_polynomial_space(grid, degree=degree)
    field = space.make_field()
    fem.interpolate(wave, dest=field)
    values = field.dof_values.numpy().astype(np.float64)
    v, u = fem.make_test(space), fem.make_trial(space)
    energy = values @ (fem.integrate(diffusion, fields={"u": u, "v": v}) @ field.dof_values).numpy()
    b = fem.integrate(load, fields={"v": v}).numpy().astype(np.float64)
    trace = {"v": field.trace()}
    found = [
        grid.cell_count(), grid.vertex_count(), grid.side_count(), grid.boundary_side_count(), space.node_count(),
        values.sum(), abs(values).sum(), energy, b.sum(), abs(b).sum(),
        fem.integrate(one, domain=fem.Cells(grid)), fem.integrate(one, domain=fem.Sides(grid)),
        fem.integrate(flux, domain=fem.BoundarySides(grid), fields=trace),
        fem.integrate(both, domain=fem.Sides(grid), fields=trace),
    ]  # fmt: skip
    np.testing.assert_allclose(np.array(found, float), OF_WARP[shape, degree], rtol=3e-5)


def closest(points, voxels, shape):
    """The distance to the closest of all cells."""
    size = np.broadcast_to(np.array(SHAPES[shape]["voxel_size"]), 3)
    low = (voxels - 0.5) * size + np.array(SHAPES[shape].get("translation", 0.0))
    beside = np.maximum(np.maximum(low - points[:, None], points[:, None] - low - size), 0.0)
    return np.linalg.norm(beside, axis=-1).min(1)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("max_dist", [0.0, 0.3, 1.1])
def test_lookup_finds_the_closest_cell_that_is_near(shape, max_dist):
    voxels = some_voxels()
    grid = make(shape, voxels)
    points = np.random.default_rng(4).uniform(-2.0, 2.0, (400, 3)).astype(np.float32)
    cells, found = wp.zeros(400, dtype=int), wp.zeros(400, dtype=wp.vec3)
    fem.interpolate(find, at=fem.Cells(grid), dim=400, values={
        "points": wp.array(points, dtype=wp.vec3), "max_dist": max_dist, "cells": cells, "found": found})  # fmt: skip
    distance = closest(points.astype(np.float64), voxels, shape)
    reach = max(max_dist, np.min(SHAPES[shape]["voxel_size"]) / 2)
    assert 0 < (distance <= reach).sum() < 400 or max_dist > 1.0
    np.testing.assert_array_equal(cells.numpy() >= 0, distance <= reach)
    is_found = cells.numpy() >= 0
    moved = np.linalg.norm(found.numpy() - points, axis=1)
    np.testing.assert_allclose(moved[is_found], distance[is_found], atol=2e-6)


@fem.integrand
def follow(s: fem.Sample, domain: fem.Domain, far: wp.vec3, cells: wp.array[int]):
    cells[s.qp_index] = fem.lookup(domain, far, fem.make_free_sample(0, wp.vec3(0.5, 0.5, 0.5))).element_index


def test_a_guess_says_how_far_lookup_searches():
    grid = make("cubes", np.array([[0, 0, 0], [9, 9, 9]], np.int32))
    cells = wp.full(1, -5, dtype=int)
    fem.interpolate(follow, at=fem.Cells(grid), dim=1, values={"far": wp.vec3(0.1, 0.2, 0.9), "cells": cells})
    assert cells.list() == [0]  # far beyond half a cell, and the guess's own cell is as near as it


@pytest.mark.parametrize("scalar", [wp.float32, wp.float64])
def test_a_full_sparse_grid_is_a_grid(scalar):
    places = np.stack(np.meshgrid(*map(np.arange, (3, 2, 4)), indexing="ij"), -1).reshape(-1, 3)
    volume = wp.Volume.allocate_by_voxels(wp.array(places, dtype=wp.vec3i), voxel_size=0.5, translation=(0.25,) * 3)
    vec = wp.types.vector(3, scalar)
    full = fem.Grid3D(res=wp.vec3i(3, 2, 4), bounds_hi=vec(1.5, 1.0, 2.0), scalar_type=scalar)
    found = []
    for grid in (fem.Nanogrid(volume, scalar_type=scalar), full):
        space = fem.make_polynomial_space(grid, degree=3)
        v, u = fem.make_test(space), fem.make_trial(space)
        A = fem.integrate(diffusion, fields={"u": u, "v": v})
        places = space.node_positions().numpy()
        order = np.lexsort(np.round(places, 4).T)
        x = wp.array(np.cos(places @ [1.0, 2.0, 3.0]), dtype=scalar)
        found.append((places[order], (A @ x).numpy()[order]))
    np.testing.assert_allclose(*(f[0] for f in found), atol=1e-6)
    np.testing.assert_allclose(*(f[1] for f in found), atol=2e-6 if scalar == wp.float32 else 1e-12)


def test_a_rebuilt_grid_has_the_cells_of_the_new_points():
    first, second = some_voxels()[:40], some_voxels()[40:100]
    volume = wp.Volume.allocate_by_voxels(
        wp.array(first, dtype=wp.vec3i), rebuildable=True, max_active_voxels=200, max_leaf_nodes=64, **SHAPES["cubes"]
    )
    grid = fem.Nanogrid(volume, rebuildable=True)
    space = fem.make_polynomial_space(grid, degree=2)
    before = space.node_count()
    grid.rebuild(wp.array(second, dtype=wp.vec3i))
    with pytest.raises(wp.KernelError, match="have changed since nodes"):
        space.node_count()
    space.topology.rebuild()
    new = fem.make_polynomial_space(make("cubes", second), degree=2)
    assert before != space.node_count() == new.node_count()
    assert grid.cell_count() == len(np.unique(second, axis=0))
    places = [np.sort(s.node_positions().numpy().view("f,f,f").reshape(-1)) for s in (space, new)]
    np.testing.assert_array_equal(*places)


def test_what_a_sparse_grid_cannot_be_is_refused():
    volume = wp.Volume.allocate_by_voxels(wp.array(some_voxels(), dtype=wp.vec3i), voxel_size=1.0)
    with pytest.raises(wp.KernelError, match="rebuildable: the volume is not"):
        fem.Nanogrid(volume, rebuildable=True)
    with pytest.raises(wp.KernelError, match=r"Nanogrid\.rebuild: the grid is not rebuildable"):
        fem.Nanogrid(volume).rebuild(wp.array(some_voxels(), dtype=wp.vec3i))
    with pytest.raises(wp.KernelError, match="grid: expected a Volume, got int"):
        fem.Nanogrid(3)
    with pytest.raises(wp.KernelError, match="a geometry has one environment"):
        fem.Nanogrid(volume, cell_env=wp.zeros(3, dtype=int))


def test_places_of_cells_and_environments_under_names_of_warp():
    grid = make("cubes")
    assert np.array_equal(np.unique(grid._cell_ijk.numpy(), axis=0), np.unique(some_voxels(), axis=0))
    assert grid._cell_ijk.dtype == wp.vec3i
    assert grid.cell_env.list() == [0] * grid.cell_count()
    assert grid.env_offsets.list() == [[0, 0, 0]]


@pytest.mark.parametrize("reach", [0.0, 0.3])
def test_a_kernel_looks_up_cells_of_a_part(reach):
    """The closest of the part's cells, by brute force in NumPy, up to half of the smallest edge or `max_dist`."""
    rng = np.random.default_rng(5)
    grid, size = make("boxes"), np.array(SHAPES["boxes"]["voxel_size"])
    mask = rng.uniform(size=grid.cell_count()) < 0.4
    domain = fem.Cells(fem.ExplicitGeometryPartition(grid, wp.array(mask.astype(np.int32))))
    look_up, coordinates = domain.element_partition_lookup, domain.element_coordinates

    @wp.kernel
    def located(
        geometry: domain.ElementArg, index: domain.ElementIndexArg, points: wp.array[wp.vec3], reach: float,
        environment: int, cells: wp.array[int], inner: wp.array[wp.vec3], coords: wp.array[wp.vec3],
    ):  # fmt: skip
        i = wp.tid()
        s = look_up(domain.DomainArg(geometry, index), points[i], reach, environment)
        cells[i], inner[i] = s.element_index, s.element_coords
        if s.element_index != fem.NULL_ELEMENT_INDEX:
            coords[i] = coordinates(geometry, s.element_index, points[i])

    n = 300
    x = (rng.uniform(-7.0, 6.0, (n, 3)) * size).astype(np.float32)
    lows = (grid.arguments.places.numpy() - 0.5) * size
    beyond = x[:, None] - np.clip(x[:, None], lows, lows + size)
    distances = np.where(mask, np.linalg.norm(beyond, axis=-1), np.inf)
    is_near = distances.min(1) <= max(reach, size.min() / 2)
    assert 0 < is_near.sum() < n
    found = {}
    for environment in (0, 1):
        out = [wp.zeros(n, dtype=d) for d in (int, wp.vec3, wp.vec3)]
        wp.launch(located, n, [domain.element_arg_value(), domain.element_index_arg_value(), wp.array(x, dtype=wp.vec3),
                               reach, environment], out)  # fmt: skip
        found[environment] = [a.numpy() for a in out]
    cells, inner, coords = found[0]
    assert np.array_equal(cells >= 0, is_near)
    assert np.allclose(distances[is_near, cells[is_near]], distances.min(1)[is_near], atol=1e-6)
    assert np.allclose(coords[is_near] * size + lows[cells[is_near]], x[is_near], atol=1e-5)
    assert np.allclose(inner[is_near], np.clip(coords[is_near], 0.0, 1.0), atol=1e-5)
    assert (found[1][0] == fem.NULL_ELEMENT_INDEX).all()
