"""Grids with several environments: each of them is as a grid by itself, at the same positions."""

from typing import Any

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp import fem, sparse
from jaxwarp.errors import KernelTypeError, KernelValueError

COUNT = 3
RES = (2, 3)
CELLS, NODES = 6, 12


@fem.integrand
def load(s: fem.Sample, v: fem.Field, speeds: wp.array[float]):
    return v(s) * speeds[s.qp_index]


@fem.integrand
def stiffness(s: fem.Sample, u: fem.Field, v: fem.Field):
    return wp.dot(fem.grad(u, s), fem.grad(v, s))


@fem.integrand
def jumps(s: fem.Sample, u: fem.Field, domain: fem.Domain):
    return fem.jump(u, s) * fem.jump(u, s) * (1.0 + float(fem.environment_index(domain, s)))


@fem.integrand
def environment(s: fem.Sample, domain: fem.Domain):
    return float(fem.environment_index(domain, s)) + domain(s)[0]


@fem.integrand
def value(s: fem.Sample, u: fem.Field):
    return u(s)


@fem.integrand
def find(s: fem.Sample, domain: fem.Domain, points: wp.array[wp.vec2], where: wp.array[int], cells: wp.array2d[int],
         coords: wp.array[wp.vec3]):  # fmt: skip
    i = s.qp_index
    found = fem.lookup(domain, points[i], where[i])
    cells[i, 0] = found.element_index
    coords[i] = found.element_coords
    cells[i, 1] = fem.partition_lookup(domain, points[i], where[i]).element_index
    cells[i, 2] = fem.lookup(domain, points[i], 0.05, where[i]).element_index
    if found.element_index >= 0:
        cells[i, 3] = fem.lookup(domain, wp.vec2(0.1, 0.1), found).element_index


@fem.integrand
def find_anywhere(s: fem.Sample, domain: fem.Domain, points: wp.array[wp.vec2]):
    return fem.lookup(domain, points[s.qp_index]).element_coords[0]


class Scene:
    def __init__(self):
        self.grid = fem.Grid2D(res=wp.vec2i(*RES), bounds_hi=wp.vec2(1.0, 2.0), env_count=COUNT)
        self.one = fem.Grid2D(res=wp.vec2i(*RES), bounds_hi=wp.vec2(1.0, 2.0))
        rng = np.random.default_rng(3)
        self.x = rng.uniform([0.02, 0.02], [0.98, 1.98], (40, 2)).astype(np.float32)
        self.where = rng.integers(0, COUNT, 40).astype(np.int32)
        self.speeds = rng.normal(size=40).astype(np.float32)

    def particles(self, grid: Any, chosen: Any, env_indices: Any = None) -> Any:
        return fem.PicQuadrature(fem.Cells(grid), wp.array(self.x[chosen], dtype=wp.vec2), env_indices=env_indices)


@pytest.fixture(scope="module")
def scene() -> Scene:
    return Scene()


def test_counts_and_places(scene: Scene):
    grid, one = scene.grid, scene.one
    assert (grid.environment_count(), one.environment_count()) == (COUNT, 1)
    for count in ("cell_count", "vertex_count", "side_count", "boundary_side_count"):
        assert getattr(grid, count)() == COUNT * getattr(one, count)()
    space, alone = (fem.make_polynomial_space(g, degree=2) for g in (grid, one))
    assert space.node_count() == COUNT * alone.node_count()
    np.testing.assert_array_equal(space.node_positions().numpy(), np.tile(alone.node_positions().numpy(), (COUNT, 1)))
    n = alone.node_count()
    for k in range(COUNT):
        rows = space.topology.table[k * CELLS : (k + 1) * CELLS]
        np.testing.assert_array_equal(rows, alone.topology.table + k * n)


def test_forms_are_those_of_each_environment(scene: Scene):
    space, alone = (fem.make_polynomial_space(g) for g in (scene.grid, scene.one))
    matrices = [
        fem.integrate(stiffness, fields={"u": fem.make_trial(s), "v": fem.make_test(s)}) for s in (space, alone)
    ]
    dense = [np.zeros(m.shape) for m in matrices]
    for m, d in zip(matrices, dense, strict=True):
        n = m.nnz_sync()
        d[m.uncompress_rows().numpy()[:n], m.columns.numpy()[:n]] = m.values.numpy()[:n]
    np.testing.assert_allclose(dense[0], np.kron(np.eye(COUNT), dense[1]), atol=1e-6)
    # No side is between environments: what is constant in each has no jump.
    field = fem.make_polynomial_space(scene.grid, degree=1, discontinuous=True).make_field()
    field.dof_values = wp.array(np.repeat(np.arange(COUNT), CELLS * 4).astype(np.float32))
    assert fem.integrate(jumps, domain=fem.Sides(scene.grid), fields={"u": field.trace()}) == 0.0


def test_the_environment_of_a_sample(scene: Scene):
    for domain, size in ((fem.Cells(scene.grid), 2.0), (fem.BoundarySides(scene.grid), 6.0)):
        found = fem.integrate(environment, domain=domain)
        # The mean of the position is 1/2, of the environments 0 to 2 it is 1.
        np.testing.assert_allclose(found, COUNT * size * 1.5, rtol=1e-6)
    displacement = fem.make_polynomial_space(scene.grid, dtype=wp.vec2).make_field()
    curved = displacement.make_deformed_geometry()
    assert curved.environment_count() == COUNT
    np.testing.assert_allclose(fem.integrate(environment, domain=fem.Cells(curved)), COUNT * 3.0, rtol=1e-6)


def test_particles_are_found_in_their_environment(scene: Scene):
    everywhere = scene.particles(scene.grid, slice(None), wp.array(scene.where))
    test = fem.make_test(fem.make_polynomial_space(scene.grid))
    loads = fem.integrate(load, quadrature=everywhere, fields={"v": test}, values={"speeds": wp.array(scene.speeds)})
    for k in range(COUNT):
        chosen = scene.where == k
        alone = fem.make_test(fem.make_polynomial_space(scene.one))
        expected = fem.integrate(load, quadrature=scene.particles(scene.one, chosen), fields={"v": alone},
                                 values={"speeds": wp.array(scene.speeds[chosen])})  # fmt: skip
        np.testing.assert_allclose(loads.numpy()[k * NODES : (k + 1) * NODES], expected.numpy(), atol=1e-6)
    nowhere = scene.particles(scene.grid, slice(0, 3), wp.array(np.array([-1, COUNT, 1], np.int32)))
    assert nowhere.evaluation_point_count() == 1
    assert list(nowhere.cell_particle_indices.numpy()) == [2]


def test_lookups(scene: Scene):
    where = np.append(scene.where, [-1, COUNT, 1]).astype(np.int32)
    points = np.concatenate([scene.x, [[0.4, 0.4], [0.4, 0.4], [1.2, 2.2]]]).astype(np.float32)
    cells, coords = wp.full((43, 4), -7, dtype=int), wp.zeros(43, dtype=wp.vec3)
    is_even = np.tile(np.arange(CELLS) % 2 == 0, COUNT)
    part = fem.ExplicitGeometryPartition(scene.grid, is_even.astype(np.int32))
    values = {"points": wp.array(points, dtype=wp.vec2), "where": wp.array(where), "cells": cells, "coords": coords}
    fem.interpolate(find, dim=43, at=fem.Cells(part), values=values)
    found = cells.numpy()
    place = np.minimum((points / [0.5, 2.0 / 3.0]).astype(int), np.array(RES) - 1)
    expected = np.where((where >= 0) & (where < COUNT), where * CELLS + place @ [RES[1], 1], -1)
    np.testing.assert_array_equal(found[:, 0], expected)
    np.testing.assert_array_equal(found[:42, 2], expected[:42])
    assert found[42, 2] == -1  # farther away than 0.05
    inside = expected >= 0
    np.testing.assert_array_equal(found[inside, 3], (expected[inside] // CELLS) * CELLS)  # the environment of the guess
    in_part = found[:, 1]
    assert (in_part[~inside] == -1).all()
    np.testing.assert_array_equal(in_part[inside][in_part[inside] >= 0] // CELLS, where[inside][in_part[inside] >= 0])
    is_own = inside & (expected % 2 == 0)
    np.testing.assert_array_equal(in_part[is_own], expected[is_own])
    assert (in_part[in_part >= 0] % 2 == 0).all()
    np.testing.assert_allclose(coords.numpy()[:40, :2], scene.x / [0.5, 2.0 / 3.0] - place[:40], atol=1e-5)


def test_nodes_in_the_order_of_environments(scene: Scene):
    chosen = np.zeros(COUNT * CELLS, np.int32)
    chosen[[1, 2, CELLS + 4, 2 * CELLS]] = 1
    part = fem.ExplicitGeometryPartition(scene.grid, chosen)
    # The points are numbered as particles are, whose environments have no order.
    points = fem.PointBasisSpace(scene.particles(scene.grid, slice(None), wp.array(scene.where)))
    for topology in (fem.make_polynomial_space(scene.grid).topology, points.topology):
        for where in (None, part):
            partition = fem.make_space_partition(topology, where, with_halo=False, environment_first=True)
            nodes, offsets = partition.space_node_indices().numpy(), partition.env_offsets.numpy()
            cells = np.arange(COUNT * CELLS) if where is None else np.flatnonzero(chosen)
            assert offsets.shape == (COUNT + 1,)
            assert partition.node_count() == len(nodes) == offsets[-1]
            for k in range(COUNT):
                own = topology.table[cells[cells // CELLS == k]]
                np.testing.assert_array_equal(nodes[offsets[k] : offsets[k + 1]], np.unique(own[own >= 0]))
    assert fem.make_space_partition(topology).env_offsets is None


def test_values_on_nodes_in_that_order(scene: Scene):
    space = fem.make_polynomial_space(scene.grid, degree=1, discontinuous=True)
    partition = fem.make_space_partition(space.topology, environment_first=True)
    field = space.make_field(space_partition=partition)
    fem.interpolate(environment, dest=field)
    expected = space.node_positions().numpy()[:, 0] + np.repeat(np.arange(COUNT), CELLS * 4)
    np.testing.assert_allclose(field.dof_values.numpy(), expected, rtol=1e-6)
    matrix = sparse.bsr_zeros(space.node_count(), partition.node_count(), float)
    trial = fem.make_trial(space, space_partition=partition)
    fem.interpolate(value, dest=matrix, dest_space=space, at=fem.Cells(scene.grid), fields={"u": trial},
                    reduction="mean")  # fmt: skip
    assert matrix.nnz_sync() == space.node_count()
    np.testing.assert_array_equal(matrix.columns.numpy()[: space.node_count()], np.arange(space.node_count()))


def test_a_field_of_another_geometry(scene: Scene):
    finer = fem.Grid2D(res=wp.vec2i(3, 2), bounds_hi=wp.vec2(1.0, 2.0), env_count=COUNT)
    field = fem.make_polynomial_space(scene.grid).make_field()
    fem.interpolate(environment, dest=field)
    seen = fem.NonconformingField(fem.Cells(finer), field)
    found = fem.make_polynomial_space(finer).make_field()
    fem.interpolate(value, dest=found, fields={"u": seen})
    positions = found.space.node_positions().numpy()[:, 0]
    np.testing.assert_allclose(found.dof_values.numpy(), positions + np.repeat(np.arange(COUNT), NODES), atol=1e-5)
    with pytest.raises(KernelValueError, match="expected as many environments as the domain has, 2, got 3"):
        fem.NonconformingField(fem.Cells(fem.Grid2D(res=wp.vec2i(1, 1), env_count=2)), field)


def test_what_is_refused(scene: Scene):
    with pytest.raises(KernelValueError, match="env_count: expected at least 1, got 0"):
        fem.Grid3D(res=wp.vec3i(1, 1, 1), env_count=0)
    with pytest.raises(KernelValueError, match="expected the environment of each particle, from 0 to 2, got None"):
        scene.particles(scene.grid, slice(None))
    with pytest.raises(KernelTypeError, match="expected an array of 40 integers outside of JAX, got float32"):
        scene.particles(scene.grid, slice(None), wp.zeros(40))
    with pytest.raises(KernelTypeError, match=r"expected an array of 40 integers .* of shape \(39,\)"):
        scene.particles(scene.grid, slice(None), wp.zeros(39, dtype=int))
    with pytest.raises(KernelValueError, match="env_indices: expected None, as the cells of particles are given"):
        fem.PicQuadrature(fem.Cells(scene.grid), (wp.zeros(1, dtype=int), wp.zeros(1, dtype=wp.vec3)),
                          env_indices=wp.zeros(1, dtype=int))  # fmt: skip
    space = fem.make_polynomial_space(scene.grid)
    part = fem.LinearGeometryPartition(scene.grid, 0, 2)
    with pytest.raises(KernelValueError, match="with_halo: expected False with environment_first=True"):
        fem.make_space_partition(space.topology, part, environment_first=True)
    with pytest.raises(KernelTypeError, match="lookup"):  # in which environment?
        fem.interpolate(find_anywhere, dim=1, at=fem.Cells(scene.grid), dest=wp.zeros(1),
                        values={"points": wp.zeros(1, dtype=wp.vec2)})  # fmt: skip
