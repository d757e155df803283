"""Spaces whose nodes are the points of a quadrature, beside Warp's numbers and closed forms."""

# pyright: reportInvalidTypeForm=false

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp import fem
from jaxwarp.sparse import bsr_mv, bsr_zeros


@fem.integrand
def scaled(s: fem.Sample, v: fem.Field, speeds: wp.array[float]):
    return v(s) * speeds[s.qp_index]


@fem.integrand
def product(s: fem.Sample, u: fem.Field, v: fem.Field):
    return u(s) * v(s)


@fem.integrand
def value_at(s: fem.Sample, u: fem.Field):
    return u(s)


@fem.integrand
def slopes_single(s: fem.Sample, u: fem.Field):
    g = fem.grad(u, s)
    return g[0] + 2.0 * g[1] + u(s)


@fem.integrand
def slopes_double(s: fem.Sample, u: fem.Field):
    g = fem.grad(u, s)
    return g[0] + wp.float64(2.0) * g[1] + u(s)


@fem.integrand
def place(s: fem.Sample, domain: fem.Domain):
    x = domain(s)
    return x[0] * x[0] + x[1]


@fem.integrand
def numbers(s: fem.Sample, u: fem.Field):
    found = 0.0
    for k in range(fem.node_count(u, s)):
        found += fem.node_inner_weight(u, s, k) * float(fem.node_index(u, s, k) + 1)
    return found


@wp.func
def bell(distance: Any, point: int, width: Any, sizes: wp.array[Any]):
    return sizes[point] * wp.exp(-distance / width)


@wp.func
def bell_slope(distance: Any, point: int, width: Any, sizes: wp.array[Any]):
    return -sizes[point] * wp.exp(-distance / width) / width


class Case:
    """Sixty particles on twelve cells: the numbers that Warp was given."""

    def __init__(self):
        rng = np.random.default_rng(5)
        n = 60
        self.x = (rng.uniform(0.02, 0.98, (n, 2)) * [2.0, 1.0] * [1.0, 0.7]).astype(np.float32)
        self.speeds = rng.normal(size=n).astype(np.float32)
        self.measures = rng.uniform(0.01, 0.02, n).astype(np.float32)
        cells = rng.integers(0, 12, (n, 2)).astype(np.int32)
        coords = np.concatenate([rng.uniform(0, 1, (n, 2, 2)), np.zeros((n, 2, 1))], -1).astype(np.float32)
        fractions = rng.uniform(0, 0.5, (n, 2)).astype(np.float32)
        self.spread = (wp.array(cells, dtype=int), wp.array(coords, dtype=wp.vec3), wp.array(fractions))
        self.sizes = (1.0 + abs(self.speeds)).astype(np.float32)
        self.grid = fem.Grid2D(res=wp.vec2i(4, 3), bounds_hi=wp.vec2(2.0, 1.0))
        self.cells = fem.Cells(self.grid)

    def pic(self, is_spread=False):
        at = self.spread if is_spread else wp.array(self.x, dtype=wp.vec2)
        return fem.PicQuadrature(self.cells, at, wp.array(self.measures))

    def bells(self, width, repeat=1):
        return {"kernel_func": bell, "kernel_grad_func": bell_slope,
                "kernel_values": {"width": width, "sizes": wp.array(np.tile(self.sizes, repeat))}}  # fmt: skip


# Nodes; most of a cell; sums of a linear form, of a matrix times a vector, of a functional with a gradient, of
# interpolated values, of a nodal matrix times a vector; a sum of node numbers.
OF_WARP = {
    "dirac": [60, 11, -0.00241326, 0, 0, 3.87819, 0.425663, 26.1399],
    "dirac_points": [60, 11, -0.0645678, 0, 0, -2.07278, 0.419104, 26.2173],
    "capped": [60, 3, -0.0692618, 0, 0, -3.60281, 0.186586, 9.82069],
    "bells": [60, 11, -0.0900289, 13.3241, 10.7013, 0.907616, 1.59248, 209.662],
    "world": [60, 11, -0.146324, 12.8469, 9.00789, 0.907616, 1.59248, 209.086],
    "spread": [60, 14, -0.0237215, 8.42665, 4.31484, -1.47889, 0.702916, 120.641],
    "spread_evaluation": [120, 14, -0.0280783, 3.99145, -0.443153, 2.08734, 0.607176, 230.457],
}


@pytest.mark.parametrize("name", OF_WARP)
def test_numbers_are_those_of_warp(name):
    case = Case()
    given = {
        "dirac": {"use_evaluation_point_index": True},
        "capped": {"use_evaluation_point_index": True, "max_nodes_per_element": 3},
        "bells": case.bells(0.3),
        "world": {**case.bells(0.05), "distance_space": "world"},
        "spread": case.bells(0.3),
        "spread_evaluation": {**case.bells(0.3, 2), "kernel_grad_func": None, "use_evaluation_point_index": True},
    }.get(name, {})
    pic = case.pic("spread" in name)
    space = fem.make_collocated_function_space(fem.PointBasisSpace(pic, **given))
    v, u, count = fem.make_test(space), fem.make_trial(space), space.node_count()
    waves = np.cos(np.arange(count)).astype(np.float32)
    rule = fem.RegularQuadrature(case.cells, 3)
    linear = fem.integrate(scaled, quadrature=pic, fields={"v": v}, values={"speeds": wp.array(case.speeds)})
    field, at_nodes = space.make_field(), space.make_field()
    field.dof_values = wp.array(waves)
    fem.interpolate(place, dest=at_nodes)
    sums = []
    hows: list[Any] = [{"quadrature": rule}, {"assembly": "nodal"}]
    for how in hows:
        made = wp.zeros(count, dtype=float)
        bsr_mv(fem.integrate(product, fields={"u": u, "v": v}, **how), wp.array(waves), made)
        sums.append(made.numpy() @ waves)
    found = [count, space.topology.MAX_NODES_PER_ELEMENT, linear.numpy() @ waves, sums[0],
             float(fem.integrate(slopes_single, quadrature=rule, fields={"u": field})),
             at_nodes.dof_values.numpy() @ waves, sums[1],
             float(fem.integrate(numbers, quadrature=pic, fields={"u": field}))]  # fmt: skip
    np.testing.assert_allclose(found, OF_WARP[name], rtol=3e-5, atol=1e-6)


@pytest.mark.parametrize("reduction", ["first", "mean"])
def test_interpolation_into_a_matrix_is_that_of_fields(reduction):
    """The functions of nodes are neither one nor equal at their points, and most points are in two cells."""
    case = Case()
    space = fem.make_collocated_function_space(fem.PointBasisSpace(case.pic(True), **case.bells(0.3)))
    coarse = fem.make_polynomial_space(case.grid)
    made = bsr_zeros(space.node_count(), coarse.node_count(), float)
    fields = {"u": fem.make_trial(coarse)}
    fem.interpolate(value_at, dest=made, dest_space=space, fields=fields, reduction=reduction)
    given, expected, found = coarse.make_field(), space.make_field(), wp.zeros(space.node_count(), dtype=float)
    given.dof_values = wp.array(np.cos(np.arange(coarse.node_count())), dtype=float)
    fem.interpolate(given, dest=expected, reduction=reduction)
    bsr_mv(made, given.dof_values, found)
    assert abs(found.numpy()).max() > 0.1
    np.testing.assert_allclose(found.numpy(), expected.dof_values.numpy(), rtol=1e-4, atol=1e-5)


def test_nodes_are_at_the_points_and_parts_have_some():
    """Positions are the particles' own, and a part's nodes are the particles in its cells."""
    case = Case()
    space = fem.make_collocated_function_space(fem.PointBasisSpace(case.pic()))
    np.testing.assert_allclose(space.node_positions().numpy(), case.x, atol=1e-6)
    mask = np.arange(12) % 2
    part = fem.ExplicitGeometryPartition(case.grid, wp.array(mask.astype(np.int32)))
    cell = (case.x // np.array([0.5, 1.0 / 3.0], np.float32)).astype(int) @ np.array([3, 1])
    partition = fem.make_space_partition(space.topology, geometry_partition=part, with_halo=False)
    np.testing.assert_array_equal(partition.space_node_indices().numpy(), np.flatnonzero(mask[cell]))
    field = space.make_field(partition)
    field.dof_values = wp.ones(partition.node_count(), dtype=float)
    found = float(fem.integrate(scaled, quadrature=case.pic(), fields={"v": field},
                                values={"speeds": wp.array(case.speeds)}))  # fmt: skip
    assert found == pytest.approx((case.speeds * case.measures)[mask[cell] == 1].sum(), rel=1e-4)


def _total(given, space_of, needs=False):
    """The functional of a field of bells in double precision, and arrays with gradients."""
    grid = fem.Grid2D(res=wp.vec2i(2, 2), scalar_type=wp.float64)
    arrays = [wp.array(a, dtype=t, requires_grad=needs) for a, t in
              zip(given, (wp.float64, wp.vec2d, wp.float64), strict=True)]  # fmt: skip
    total = wp.zeros(1, dtype=wp.float64, requires_grad=needs)
    with wp.Tape() as tape:
        pic = fem.PicQuadrature(fem.Cells(grid), arrays[1])
        basis = fem.PointBasisSpace(pic, bell, bell_slope, {"width": wp.float64(0.2), "sizes": arrays[2]}, space_of)
        field = fem.make_collocated_function_space(basis).make_field()
        field.dof_values = arrays[0]
        rule = fem.RegularQuadrature(fem.Cells(grid), 3)
        fem.integrate(slopes_double, quadrature=rule, fields={"u": field}, output=total)
    return total, tape, arrays


@pytest.mark.parametrize("space_of", ["reference", "world"])
def test_gradients_agree_with_differences(space_of):
    """By values at nodes, by the points' positions, and by the functions' values."""
    rng = np.random.default_rng(3)
    at: list[np.ndarray] = [
        rng.normal(size=5),
        rng.uniform(0.05, 0.45, (5, 2)) + rng.integers(0, 2, (5, 2)) / 2,
        rng.uniform(1, 2, 5),
    ]
    total, tape, arrays = _total(at, space_of, True)
    tape.backward(total)
    for k in range(3):
        along, step = rng.normal(size=at[k].shape), 1e-6
        ends = []
        for sign in (1.0, -1.0):
            moved = list(at)
            moved[k] = at[k] + sign * step * along
            ends.append(_total(moved, space_of)[0].numpy()[0])
        found = (arrays[k].grad.numpy() * along).sum()
        assert abs(found) > 1e-3
        assert found == pytest.approx((ends[0] - ends[1]) / (2.0 * step), rel=1e-6)


def test_values_of_jax():
    """The functional is linear in values at nodes: its derivative times the values is the functional."""
    case = Case()
    space = fem.make_collocated_function_space(fem.PointBasisSpace(case.pic(), **case.bells(0.3)))
    rule = fem.RegularQuadrature(case.cells, 3)

    @jax.jit
    def functional(values):
        field = space.make_field()
        field.dof_values = values
        return fem.integrate(slopes_single, quadrature=rule, fields={"u": field})

    values = jnp.cos(jnp.arange(60.0))
    found, slope = jax.value_and_grad(functional)(values)
    assert float(found) == pytest.approx(10.7013, rel=1e-5)
    assert float(slope @ values) == pytest.approx(10.7013, rel=1e-5)


def _stale():
    case = Case()
    pic = case.pic()
    space = fem.make_collocated_function_space(fem.PointBasisSpace(pic))
    pic.domain = fem.Cells(case.grid)
    return space.make_field()


def _on_sides():
    case = Case()
    space = fem.make_collocated_function_space(fem.PointBasisSpace(case.pic()))
    return fem.interpolate(place, dest=space.make_field(), at=fem.Sides(case.grid))


@wp.func
def of_one(distance: float):
    return distance


def _any(value: Any) -> Any:
    return value


REFUSED = {
    "quadrature: expected a quadrature, got Grid2D": lambda: fem.PointBasisSpace(_any(Case().grid)),
    "quadrature: expected points in all cells": lambda: fem.PointBasisSpace(
        fem.RegularQuadrature(fem.Sides(Case().grid), 2)
    ),
    "distance_space: expected 'reference' or 'world', got 'local'": lambda: fem.PointBasisSpace(
        Case().pic(), distance_space="local"
    ),
    "kernel_func: expected a @wp.func, got int": lambda: fem.PointBasisSpace(Case().pic(), 3),
    "kernel_func: expected a function of the squared distance": lambda: fem.PointBasisSpace(Case().pic(), of_one),
    "kernel_func: expected a function, as its gradient": lambda: fem.PointBasisSpace(
        Case().pic(), kernel_grad_func=bell_slope
    ),
    "the domain of a quadrature has changed": _stale,
    "discontinuous space has nodes for each|not on sides": _on_sides,
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_does_not_fit_is_refused_for_points(text):
    with pytest.raises(wp.KernelError, match=text):
        REFUSED[text]()
