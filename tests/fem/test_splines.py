"""Finite elements: B-splines on grids."""

from math import comb, factorial
from typing import Any

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp import fem
from jaxwarp.errors import KernelValueError


@fem.integrand
def value(s: fem.Sample, u: fem.Field, domain: fem.Domain, points: wp.array[Any], slopes: wp.array[Any]):
    at = fem.lookup(domain, points[s.qp_index])
    slopes[s.qp_index] = fem.grad(u, at)
    return u(at)


@fem.integrand
def position(s: fem.Sample, domain: fem.Domain, slope: Any):
    return wp.dot(domain(s), slope)


@fem.integrand
def load(s: fem.Sample, v: fem.Field):
    return v(s)


@fem.integrand
def flux(s: fem.Sample, u: fem.Field):
    return u(s)


@fem.integrand
def uneven_load(s: fem.Sample, domain: fem.Domain, v: fem.Field):
    return v(s) * (1.0 + domain(s)[0])


SLOPE = (2.0, -1.0, 0.5)
# Warp 1.19: `uneven_load` over the grid of `Splines(2, degree)` in float32, order 3, at nodes 5 to 9.
WARP = {
    2: [0.006247499957680702, 0.14994099736213684, 0.28738701343536377, 0.14994099736213684, 0.006247499957680702],
    3: [0.012827900238335133, 0.15393519401550293, 0.282214492559433, 0.15393519401550293, 0.012827900238335133],
}


def basis(x: np.ndarray, degree: int) -> np.ndarray:
    """The B-spline about 0, by its truncated powers."""
    half = (degree + 1) / 2
    terms = [(-1) ** k * comb(degree + 1, k) * np.maximum(x + half - k, 0.0) ** degree for k in range(degree + 2)]
    return np.sum(terms, 0) / factorial(degree)


class Splines:
    """A field of random values at nodes, at points where it is known."""

    def __init__(self, dimension: int, degree: int, scalar: Any = wp.float64):
        one = wp.types.vector(dimension, scalar)
        res = (3, 2, 2)[:dimension]
        hi = (1.5, 2.0, 1.0)[:dimension]
        make = fem.Grid2D if dimension == 2 else fem.Grid3D
        integers = wp.vec2i if dimension == 2 else wp.vec3i
        self.grid = make(res=integers(*res), bounds_hi=one(*hi), scalar_type=scalar)
        self.space = fem.make_polynomial_space(self.grid, dtype=scalar, degree=degree,
                                               element_basis=fem.ElementBasis.BSPLINE)  # fmt: skip
        self.size = np.array(hi) / res
        self.degree, self.dimension, self.scalar, self.res = degree, dimension, scalar, res
        self.points = np.random.default_rng(1).uniform(0.01, 0.99, (12, dimension)) * hi
        self.vector = one

    def of_values(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        field = self.space.make_field()
        field.dof_values = wp.array(values, dtype=self.scalar)
        n = len(self.points)
        slopes, out = wp.zeros(n, dtype=self.vector), wp.zeros(n, dtype=self.scalar)
        given = {"points": wp.array(self.points, dtype=self.vector), "slopes": slopes}
        fem.interpolate(value, dim=n, at=fem.Cells(self.grid), dest=out, fields={"u": field}, values=given)
        return out.numpy(), slopes.numpy()

    def expected(self, values: np.ndarray) -> np.ndarray:
        pad = self.degree // 2
        extents = [n + 1 + 2 * pad for n in self.res]
        table = values.reshape(extents)
        for d in range(self.dimension):
            weights = basis(self.points[:, d, None] / self.size[d] - (np.arange(extents[d]) - pad), self.degree)
            table = np.einsum("pi,i...->p..." if d == 0 else "pi,pi...->p...", weights, table)
        return table


CASES = [(2, 1), (2, 2), (2, 3), (3, 2), (3, 3)]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0]}d-degree{case[1]}")
def splines(request: Any) -> Splines:
    return Splines(*request.param)


def test_values_are_those_of_the_splines(splines: Splines):
    values = np.random.default_rng(2).normal(size=splines.space.node_count())
    found, slopes = splines.of_values(values)
    np.testing.assert_allclose(found, splines.expected(values), atol=1e-12)
    points, step = splines.points, 1e-5
    for d in range(splines.dimension):
        ends = []
        for sign in (1.0, -1.0):
            splines.points = points + sign * step * np.eye(splines.dimension)[d]
            ends.append(splines.expected(values))
        splines.points = points
        np.testing.assert_allclose(slopes[:, d], (ends[0] - ends[1]) / (2 * step), atol=1e-6)


def test_positions_are_reproduced(splines: Splines):
    slope = splines.vector(*SLOPE[: splines.dimension])
    field = splines.space.make_field()
    fem.interpolate(position, dest=field, values={"slope": slope})
    found, slopes = splines.of_values(field.dof_values.numpy())
    np.testing.assert_allclose(found, splines.points @ SLOPE[: splines.dimension], atol=1e-12)
    np.testing.assert_allclose(slopes, np.broadcast_to(SLOPE[: splines.dimension], slopes.shape), atol=1e-12)


def test_integrals_have_the_sum_of_the_area(splines: Splines):
    loads = fem.integrate(load, fields={"v": fem.make_test(splines.space)}).numpy()
    np.testing.assert_allclose(loads.sum(), splines.size.prod() * np.prod(splines.res), rtol=1e-12)
    trace = splines.space.make_field()
    trace.dof_values = wp.ones(splines.space.node_count(), dtype=splines.scalar)
    around = fem.integrate(flux, domain=fem.BoundarySides(splines.grid), fields={"u": trace.trace()})
    extents = splines.size * splines.res
    np.testing.assert_allclose(around, 2 * (extents.prod() / extents).sum(), rtol=1e-12)


@pytest.mark.parametrize("degree", [2, 3])
def test_loads_are_those_of_warp(degree: int):
    made = Splines(2, degree, wp.float32)
    rule = fem.RegularQuadrature(fem.Cells(made.grid), 3)
    loads = fem.integrate(uneven_load, quadrature=rule, fields={"v": fem.make_test(made.space)})
    np.testing.assert_allclose(loads.numpy()[5:10], WARP[degree], rtol=1e-6, atol=1e-7)


def test_a_sparse_grid_has_the_same_splines():
    dense = Splines(3, 2, wp.float32)
    places = np.stack(np.meshgrid(*map(np.arange, dense.res), indexing="ij"), -1).reshape(-1, 3)
    volume = wp.Volume.allocate_by_voxels(wp.array(places.astype(np.int32), dtype=wp.vec3i), voxel_size=dense.size,
                                          translation=dense.size / 2)  # fmt: skip
    sparse = fem.make_polynomial_space(fem.Nanogrid(volume), degree=2, element_basis=fem.ElementBasis.BSPLINE)
    assert sparse.node_count() == dense.space.node_count()
    np.testing.assert_allclose(sparse.node_positions().numpy(), dense.space.node_positions().numpy(), atol=1e-6)


def test_each_environment_has_its_own():
    grid = fem.Grid2D(res=wp.vec2i(2, 1), env_count=2)
    space = fem.make_polynomial_space(grid, degree=3, element_basis=fem.ElementBasis.BSPLINE)
    assert space.node_count() == 2 * 5 * 4
    np.testing.assert_array_equal(space.topology.table[2:], space.topology.table[:2] + 20)


def test_what_is_refused():
    grid, spline = fem.Grid2D(res=wp.vec2i(2, 2)), fem.ElementBasis.BSPLINE
    with pytest.raises(KernelValueError, match="BSPLINE has degrees 1 to 3 on grids, got 0 on squares"):
        fem.make_polynomial_space(grid, degree=0, element_basis=spline)
    with pytest.raises(KernelValueError, match="discontinuous: expected False"):
        fem.make_polynomial_space(grid, degree=2, element_basis=spline, discontinuous=True)
    corners = wp.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], dtype=wp.vec2)
    quads = fem.Quadmesh2D(wp.array([[0, 1, 3, 2]], dtype=int), corners)
    with pytest.raises(KernelValueError, match="BSPLINE needs a grid, got Quadmesh2D"):
        _ = fem.make_polynomial_space(quads, degree=2, element_basis=spline).node_count()
    space = fem.make_polynomial_space(grid, degree=2, element_basis=spline)
    test = fem.make_test(space, domain=fem.BoundarySides(grid))
    with pytest.raises(KernelValueError, match="the nodes of B-splines are not those of sides"):
        fem.integrate(load, fields={"v": test}, assembly="nodal")
