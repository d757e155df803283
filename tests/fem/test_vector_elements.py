"""Raviart-Thomas and Nedelec elements: against what they are defined by, differences, and numbers of Warp 1.19."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp import fem
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.fem.geometry.reference import vertex_weights

RT, N1 = fem.ElementBasis.RAVIART_THOMAS, fem.ElementBasis.NEDELEC_FIRST_KIND
BASES = pytest.mark.parametrize("basis", [RT, N1])


@fem.integrand
def side_values(
    s: fem.Sample, domain: fem.Domain, u: fem.Field, flux: wp.array[wp.float64], outer: wp.array[wp.float64],
    jump: wp.array[wp.float64], slip: wp.array[wp.float64],
):  # fmt: skip
    n = fem.normal(domain, s)
    area = fem.measure(domain, s) * s.qp_weight
    difference = fem.jump(u, s)
    across = wp.dot(difference, n)
    wp.atomic_add(flux, s.element_index, wp.dot(u(s), n) * area)
    wp.atomic_add(outer, s.element_index, wp.dot(fem.outer(u, s), n) * area)
    wp.atomic_max(jump, s.element_index, wp.abs(across))
    wp.atomic_max(slip, s.element_index, wp.length(difference - n * across))


@fem.integrand
def value_at(
    s: fem.Sample, domain: fem.Domain, u: fem.Field, cells: wp.array[int], coords: wp.array[wp.vec3d],
    values: wp.array2d[wp.float64], places: wp.array2d[wp.float64],
):  # fmt: skip
    i = s.qp_index
    at = fem.make_free_sample(cells[i], coords[i])
    value = u(at)
    place = domain(at)
    for d in range(values.shape[1]):
        values[i, d] = value[d]
        places[i, d] = place[d]


@fem.integrand
def derivatives(s: fem.Sample, u: fem.Field, cells: wp.array[int], coords: wp.array[wp.vec3d],
                found: wp.array[wp.float64]):  # fmt: skip
    found[s.qp_index] = fem.div(u, fem.make_free_sample(cells[s.qp_index], coords[s.qp_index]))


@fem.integrand
def curls(s: fem.Sample, u: fem.Field, cells: wp.array[int], coords: wp.array[wp.vec3d], found: wp.array[wp.vec3d]):
    found[s.qp_index] = fem.curl(u, fem.make_free_sample(cells[s.qp_index], coords[s.qp_index]))


@fem.integrand
def gradients(
    s: fem.Sample, u: fem.Field, cells: wp.array[int], coords: wp.array[wp.vec3d], found: wp.array[wp.mat33d]
):
    found[s.qp_index] = fem.grad(u, fem.make_free_sample(cells[s.qp_index], coords[s.qp_index]))


@fem.integrand
def divergence(s: fem.Sample, u: fem.Field):
    return fem.div(u, s)


@fem.integrand
def outward(s: fem.Sample, domain: fem.Domain, u: fem.Field):
    return wp.dot(u(s), fem.normal(domain, s))


@fem.integrand
def mass(s: fem.Sample, u: fem.Field, v: fem.Field):
    return wp.dot(u(s), v(s))


@fem.integrand
def divergences(s: fem.Sample, u: fem.Field, v: fem.Field):
    return fem.div(u, s) * fem.div(v, s)


@fem.integrand
def curl_products(s: fem.Sample, u: fem.Field, v: fem.Field):
    return wp.dot(fem.curl(u, s), fem.curl(v, s))


@fem.integrand
def tangents(s: fem.Sample, domain: fem.Domain, u: fem.Field, v: fem.Field):
    n = fem.normal(domain, s)
    return wp.dot(u(s), v(s)) - wp.dot(u(s), n) * wp.dot(v(s), n)


@fem.integrand
def energy(s: fem.Sample, u: fem.Field):
    return wp.dot(u(s), u(s))


@fem.integrand
def constant(s: fem.Sample, domain: fem.Domain, value: wp.vec3d):
    found = domain(s)
    for d in range(len(found)):
        found[d] = value[d]
    return found


def moved(points, amount=0.08):
    return points + np.random.default_rng(3).uniform(-amount, amount, points.shape)


CUBE_TETS = np.array([[0, 1, 3, 7], [0, 3, 2, 7], [0, 2, 6, 7], [0, 6, 4, 7], [0, 4, 5, 7], [0, 5, 1, 7]])
# Two squares, and two cubes, of a grid of corners with the last axis fastest.
SQUARES = np.array([[0, 1, 3, 2], [2, 3, 5, 4]])
CUBES = np.array([[0, 4, 6, 2, 1, 5, 7, 3], [4, 8, 10, 6, 5, 9, 11, 7]])
PLANE = np.stack(np.indices((3, 2)), -1).reshape(-1, 2) * 1.0
SPACE = np.stack(np.indices((3, 2, 2)), -1).reshape(-1, 3) * 1.0


@functools.cache
def geometry(name):
    match name:
        case "triangles":  # the second one is turned over
            cells, at, kind, dtype = (
                np.array([[0, 1, 3], [0, 2, 3], [3, 2, 5], [2, 5, 4]]),
                PLANE,
                "Trimesh2D",
                wp.vec2d,
            )
        case "squares":
            cells, at, kind, dtype = SQUARES, PLANE, "Quadmesh2D", wp.vec2d
        case "surface":
            cells, at, kind, dtype = (
                np.array([[0, 1, 3], [3, 2, 0], [3, 2, 5], [2, 4, 5]]),
                SPACE[::2],
                "Trimesh3D",
                wp.vec3d,
            )
        case "tetrahedra":
            cells, at, kind, dtype = np.concatenate([CUBE_TETS, CUBE_TETS[:, ::-1] + 4]), SPACE, "Tetmesh", wp.vec3d
        case "cubes":
            cells, at, kind, dtype = CUBES, SPACE, "Hexmesh", wp.vec3d
        case "grid":
            return fem.Grid3D(res=wp.vec3i(2, 2, 1), bounds_hi=wp.vec3(1.0, 2.0, 0.5), scalar_type=wp.float64)
        case "sparse":
            points = wp.array([[0, 0, 0], [1, 0, 0], [1, 1, 0]], dtype=wp.vec3i)
            return fem.Nanogrid(wp.Volume.allocate_by_voxels(points, voxel_size=0.5), scalar_type=wp.float64)
        case "deformed":
            base = geometry("grid")
            field = fem.make_polynomial_space(base, dtype=wp.vec3d).make_field()
            field.dof_values = wp.array(moved(np.zeros((field.space.node_count(), 3))), dtype=wp.vec3d)
            return field.make_deformed_geometry()
    return getattr(fem, kind)(wp.array(cells, dtype=int), wp.array(moved(at), dtype=dtype))


FLAT = ["triangles", "squares", "tetrahedra", "cubes", "grid", "sparse", "deformed"]
AFFINE = ["tetrahedra", "grid", "sparse"]


@functools.cache
def field_of(name, basis):
    field = fem.make_polynomial_space(geometry(name), element_basis=basis).make_field()
    count = field.space.node_count()
    field.dof_values = wp.array(np.random.default_rng(1).normal(size=count), dtype=wp.float64)
    return field


def samples(field, points):
    """Each cell at points along its axes: the numbers of cells, and coordinates."""
    element = field.geometry.element
    count = field.geometry.cell_count()
    x = np.tile(points, (count, 1))
    if element is fem.Element.TRIANGLE:
        x = np.concatenate([1.0 - x.sum(1, keepdims=True), x], 1)
    x = np.concatenate([x, np.zeros((len(x), 3 - x.shape[1]))], 1)
    cells = np.repeat(np.arange(count), len(points))
    return {"cells": wp.array(cells, dtype=int), "coords": wp.array(x, dtype=wp.vec3d)}


def evaluated(field, points):
    """The field and the position at points of each cell, of shape (cells, points, axes)."""
    given, count = samples(field, points), field.geometry.cell_count()
    made = {
        n: wp.zeros((count * len(points), field.geometry.dimension), dtype=wp.float64) for n in ("values", "places")
    }
    fem.interpolate(value_at, at=fem.Cells(field.geometry), dim=count * len(points), fields={"u": field},
                    values=given | made)  # fmt: skip
    return [made[n].numpy().reshape(count, len(points), -1) for n in ("values", "places")]


def at_points(integrand, field, points, dtype):
    given, count = samples(field, points), field.geometry.cell_count() * len(points)
    found = wp.zeros(count, dtype=dtype)
    fem.interpolate(integrand, at=fem.Cells(field.geometry), dim=count, fields={"u": field},
                    values=given | {"found": found})  # fmt: skip
    return found.numpy()


INNER = np.array([[0.3, 0.2, 0.25]])
STEP = 1e-5


def differences(field):
    """The gradient by position at a point of each cell."""
    dimension = field.geometry.element.dimension
    x = INNER[:, :dimension]
    steps = np.concatenate([np.eye(dimension), -np.eye(dimension)]) * STEP
    by_coordinate = [(v[:, :dimension] - v[:, dimension:]) / (2 * STEP) for v in evaluated(field, x + steps)]
    slope, jacobian = (np.swapaxes(v, 1, 2) for v in by_coordinate)
    return slope @ np.linalg.inv(jacobian)


def on_sides(field):
    sides = fem.Sides(field.geometry)
    names = ("flux", "outer", "jump", "slip")
    made = {n: wp.zeros(sides.element_count(), dtype=wp.float64) for n in names}
    fem.interpolate(side_values, at=fem.RegularQuadrature(sides, order=3), fields={"u": field.trace()}, values=made)
    return [made[n].numpy() for n in names]


@pytest.mark.parametrize("name", [*FLAT, "surface"])
def test_degrees_of_freedom_are_fluxes_along_the_normals_of_sides(name):
    field = field_of(name, RT)
    flux, outer, jump, _ = on_sides(field)
    sides, table = field.geometry.sides, field.space.topology.table
    if name == "sparse":  # whose sides are in another order in its cells
        dofs = np.sort(np.abs(field.dof_values.numpy()))
        np.testing.assert_allclose(np.sort(np.abs(flux)), dofs, rtol=1e-12)
    else:
        dofs = field.dof_values.numpy()[table[sides.cells[:, 0], sides.local]]
        np.testing.assert_allclose(flux, dofs, rtol=1e-11)
    if name != "surface":  # whose cells have normals of their own at a side
        np.testing.assert_allclose(outer, flux, rtol=1e-11)
        np.testing.assert_allclose(jump, 0.0, atol=1e-11)


@pytest.mark.parametrize("name", FLAT)
def test_degrees_of_freedom_are_circulations_along_edges(name):
    field = field_of(name, N1)
    element = field.geometry.element
    corners = np.array(element.value.vertices, float)
    edges = field.space.shape.nodes
    vertices = np.array([np.flatnonzero(w > 0.0) for w in vertex_weights(element, edges)])
    values, _ = evaluated(field, edges)
    _, places = evaluated(field, corners)
    cells = np.asarray(field.geometry.cells)
    first = cells[:, vertices[:, 0]] < cells[:, vertices[:, 1]]
    along = places[:, vertices[:, 1]] - places[:, vertices[:, 0]]
    found = np.einsum("ekd,ekd->ek", values, along) * np.where(first, 1.0, -1.0)
    if name != "deformed":  # whose edges are straight, too
        np.testing.assert_allclose(found, field.dof_values.numpy()[field.space.topology.table], rtol=1e-9, atol=1e-9)
    *_, jump, slip = on_sides(field)
    np.testing.assert_allclose(slip, 0.0, atol=1e-11)
    assert jump.max() > 0.1


@BASES
@pytest.mark.parametrize("name", FLAT)
def test_constants_are_reproduced(name, basis):
    if basis is RT and name in ("cubes", "deformed"):
        pytest.skip("constants are no Raviart-Thomas functions in curved cells of space")
    field = fem.make_polynomial_space(geometry(name), element_basis=basis).make_field()
    fem.interpolate(constant, dest=field, values={"value": wp.vec3d(1.0, -2.0, 3.0)})
    values, _ = evaluated(field, INNER[:, : field.geometry.element.dimension])
    expected = np.broadcast_to([1.0, -2.0, 3.0][: field.geometry.dimension], values.shape)
    np.testing.assert_allclose(values, expected, rtol=1e-11)


@BASES
@pytest.mark.parametrize("name", AFFINE)
def test_gradients_are_differences_of_values(name, basis):
    field = field_of(name, basis)
    found = at_points(gradients, field, INNER, wp.mat33d)
    np.testing.assert_allclose(found, differences(field), rtol=1e-6, atol=1e-6)
    assert abs(found).max() > 0.1


@pytest.mark.parametrize("name", ["squares", "cubes", "deformed", "tetrahedra"])
def test_divergences_and_curls_are_differences_of_values(name):
    flux, circulation = field_of(name, RT), field_of(name, N1)
    x = INNER[:, : flux.geometry.dimension]
    expected = np.trace(differences(flux), axis1=1, axis2=2)
    np.testing.assert_allclose(at_points(derivatives, flux, x, wp.float64), expected, rtol=1e-6, atol=1e-6)
    if name != "squares":
        g = differences(circulation)
        twist = np.stack([g[:, 2, 1] - g[:, 1, 2], g[:, 0, 2] - g[:, 2, 0], g[:, 1, 0] - g[:, 0, 1]], -1) / 2
        np.testing.assert_allclose(at_points(curls, circulation, x, wp.vec3d), twist, rtol=1e-6, atol=1e-6)
        assert abs(twist).max() > 0.1


@pytest.mark.parametrize("name", ["triangles", "cubes"])
def test_the_divergence_theorem_holds(name):
    field = field_of(name, RT)
    inside = fem.integrate(divergence, domain=fem.Cells(field.geometry), fields={"u": field})
    sides = fem.BoundarySides(field.geometry)
    through = fem.integrate(outward, quadrature=fem.RegularQuadrature(sides, order=3), fields={"u": field.trace()})
    assert abs(through) > 0.1
    assert np.isclose(inside, through, rtol=1e-9)


def matrix_of(form, space, domain=None, **options):
    u, v = fem.make_trial(space, domain=domain), fem.make_test(space, domain=domain)
    return fem.integrate(form, fields={"u": u, "v": v}, output_dtype=wp.float64, **options)


def dense(matrix):
    found = np.zeros(matrix.shape)
    offsets, columns, values = (a.numpy() for a in (matrix.offsets, matrix.columns, matrix.values))
    for row in range(matrix.nrow):
        for k in range(offsets[row], offsets[row + 1]):
            found[row, columns[k]] += values[k]
    return found


@fem.integrand
def load(s: fem.Sample, domain: fem.Domain, v: fem.Field):
    x = domain(s)
    return v(s)[0] * x[1] + v(s)[1] * x[0] * x[0]


# Of Warp 1.19: the least and the greatest eigenvalue of the mass matrix M, the trace of M^-1 S and its greatest
# eigenvalue, r (M + S)^-1 r, and r r, which no order or sign of degrees of freedom changes. S is of divergences or
# curls, r the load.
OF_WARP = {
    ("tetrahedra", RT): (0.2890761, 1.171107, 321.3386, 70.63493, 0.462116, 0.3403016),
    ("tetrahedra", N1): (0.03804522, 0.3165948, 124.1983, 21.68459, 0.4580194, 0.06493394),
    ("cubes", RT): (0.1412447, 0.8571564, 60.71119, 34.35177, 7.094509, 3.420366),
    ("cubes", N1): (0.02612151, 0.4511183, 55.18747, 8.729772, 7.92659, 2.281402),
}


@pytest.mark.parametrize(("name", "basis"), OF_WARP)
def test_matrices_and_solutions_are_those_of_warp(name, basis):
    at = wp.array(SPACE + 0.1 * np.sin(5 * SPACE[:, ::-1] + SPACE), dtype=wp.vec3d)
    cells, kind = (CUBE_TETS, fem.Tetmesh) if name == "tetrahedra" else (CUBES, fem.Hexmesh)
    space = fem.make_polynomial_space(kind(wp.array(cells, dtype=int), at), element_basis=basis, dtype=wp.vec3d)
    points = fem.RegularQuadrature(fem.Cells(space.geometry), order=4)
    m = dense(matrix_of(mass, space, quadrature=points))
    s = dense(matrix_of(divergences if basis is RT else curl_products, space, quadrature=points))
    r = fem.integrate(load, quadrature=points, fields={"v": fem.make_test(space)}).numpy()
    of_mass, solved = np.linalg.eigvalsh(m), np.linalg.solve(m, s)
    found = [of_mass[0], of_mass[-1], np.trace(solved), np.linalg.eigvals(solved).real.max(),
             r @ np.linalg.solve(m + s, r), r @ r]  # fmt: skip
    np.testing.assert_allclose(found, OF_WARP[name, basis], rtol=1e-6)


@BASES
def test_projectors_fix_what_is_at_the_boundary(basis):
    space = fem.make_polynomial_space(geometry("grid"), element_basis=basis)
    form = mass if basis is RT else tangents
    projector = matrix_of(form, space, fem.BoundarySides(space.geometry), assembly="nodal")
    system = matrix_of(mass, space)
    load_vector = wp.array(np.ones(space.node_count()), dtype=wp.float64)
    fem.project_linear_system(system, load_vector, projector)
    diagonal = np.diag(dense(projector))
    sides, table = space.geometry.sides, space.topology.table
    points = space.shape.nodes[None] + np.stack(np.unravel_index(np.arange(4), (2, 2, 1)), -1)[:, None]
    at_boundary = np.zeros(space.node_count(), bool)
    at_boundary[table] = ((points <= 0.0) | (points >= [2, 2, 1])).any(-1)
    assert len(sides.boundary)
    np.testing.assert_allclose(diagonal, at_boundary, atol=1e-12)
    np.testing.assert_allclose(load_vector.numpy()[at_boundary], 0.0, atol=1e-12)
    assert np.allclose(dense(system)[at_boundary][:, at_boundary], np.eye(at_boundary.sum()))


# Sides of the grid: how many cells they have, and their area.
SIDES = [(1, 0.5), (2, 0.5), (1, 0.25), (2, 0.25)]


def test_nodal_matrices_have_one_block_a_node():
    space = fem.make_polynomial_space(geometry("grid"), element_basis=RT)
    found = matrix_of(mass, space, assembly="nodal")
    assert found.values.shape == (space.node_count(),)
    # Cells measure 1/4, with sides of 1/2 and 1/4. A side gets a sixth of each cell, by its area squared.
    np.testing.assert_allclose(np.unique(found.values.numpy().round(9)), np.round([c / 24 / a**2 for c, a in SIDES], 9))


@BASES
def test_values_of_jax_have_derivatives(basis):
    with jax.enable_x64(True):
        space = field_of("squares", basis).space
        matrix = dense(matrix_of(mass, space))
        points = fem.RegularQuadrature(fem.Cells(space.geometry), order=2)

        @jax.jit
        def energy_of(values):
            field = space.make_field()
            field.dof_values = values
            return fem.integrate(energy, quadrature=points, fields={"u": field})

        values = jnp.asarray(np.random.default_rng(4).normal(size=space.node_count()))
        np.testing.assert_allclose(jax.grad(energy_of)(values), 2 * matrix @ values, rtol=1e-9)


@BASES
def test_fields_in_jax_get_degrees_of_freedom(basis):
    with jax.enable_x64(True):
        space = field_of("squares", basis).space
        outside = space.make_field()
        fem.interpolate(constant, dest=outside, values={"value": wp.vec3d(1.0, -2.0, 3.0)})

        @jax.jit
        def interpolated(value):
            field = space.make_field()
            fem.interpolate(constant, dest=field, values={"value": value})
            return field.dof_values

        found = interpolated(jnp.array([1.0, -2.0, 3.0]))
        np.testing.assert_allclose(found, outside.dof_values.numpy(), rtol=1e-12)


def test_single_precision_is_that_of_the_geometry():
    grid = fem.Grid2D(res=wp.vec2i(2, 2))
    space = fem.make_polynomial_space(grid, degree=1, element_basis=RT, dtype=wp.vec2)
    assert (space.dtype, space.dof_dtype, space.VALUE_DOF_COUNT) == (wp.vec2, wp.float32, 1)
    assert space.node_count() == 12
    total = fem.integrate(energy, domain=fem.Cells(grid), fields={"u": space.make_field()})
    assert total == 0.0


SKEW = fem.SkewSymmetricTensorMapper(wp.mat33d)


def make(name="cubes", **options):
    return fem.make_polynomial_space(geometry(name), **options)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: make(element_basis=RT, degree=2), KernelValueError, "degree: expected 1"),
        (lambda: make(element_basis=N1, dtype=wp.float64), KernelTypeError, "dtype: expected vec3"),
        (lambda: make(element_basis=N1, dof_mapper=SKEW), KernelTypeError, "no dof_mapper"),
        (lambda: fem.make_collocated_function_space(make(element_basis=RT).basis), KernelValueError, "contravariant"),
        (lambda: fem.make_covariant_function_space(make(element_basis=RT).basis), KernelTypeError, "NEDELEC"),
        (lambda: field_of("cubes", RT).make_deformed_geometry(), KernelValueError, "continuous"),
        (lambda: at_points(gradients, field_of("cubes", RT), INNER, wp.mat33d), KernelTypeError, "fem.grad"),
        (lambda: at_points(curls, field_of("cubes", RT), INNER, wp.vec3d), KernelTypeError, "fem.curl"),
        (lambda: at_points(derivatives, field_of("cubes", N1), INNER, wp.float64), KernelTypeError, "fem.div"),
    ],
)  # fmt: skip
def test_what_is_not_exact_or_does_not_fit_is_refused(call, error, match):
    with pytest.raises(error, match=match):
        call()
