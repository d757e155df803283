"""Finite elements: what does not fit is refused, what is written may be read, and nothing is out of date."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp import fem, sparse
from jaxwarp.errors import KernelTypeError, KernelValueError


@fem.integrand
def value(s: fem.Sample, u: fem.Field):
    return u(s)


@fem.integrand
def product(s: fem.Sample, u: fem.Field, v: fem.Field):
    return u(s) * u(s) * v(s)


@fem.integrand
def one(s: fem.Sample):
    return 1.0


@fem.integrand
def first(s: fem.Sample, domain: fem.Domain):
    return domain(s)[0]


@fem.integrand
def turned(s: fem.Sample, u: fem.Field):
    return u(fem.Sample(8 - s.element_index, s.element_coords))


@fem.integrand
def mixed(s: fem.Sample, u: fem.Field, v: fem.Field):
    return u(s) * v(s)


@fem.integrand
def divergence(s: fem.Sample, u: fem.Field, k: int):
    return fem.div(u, s)[k]


@fem.integrand
def matrices(s: fem.Sample, domain: fem.Domain):
    x = domain(s)
    return wp.mat22(x[0], x[1], x[0] * x[1], 1.0 + x[0])


@fem.integrand
def of_matrices(s: fem.Sample, v: fem.Field, w: fem.Field):
    return wp.dot(fem.div(v, s), w(s))


@fem.integrand
def found(s: fem.Sample, domain: fem.Domain, x: wp.array[wp.vec2d]):
    return domain(fem.lookup(domain, x[s.qp_index]))


@wp.func
def abscissa(x: wp.vec2):
    return x[0]


GRID, OTHER = fem.Grid2D(res=wp.vec2i(3, 3)), fem.Grid2D(res=wp.vec2i(3, 3), bounds_hi=wp.vec2(2.0, 2.0))
SPACE = fem.make_polynomial_space(GRID)
CELLS, SIDES = fem.Cells(GRID), fem.BoundarySides(GRID)


def implicit(domain):
    return fem.ImplicitField(domain, abscissa)


def elsewhere(domain, **keywords):
    return fem.NonconformingField(domain, fem.make_polynomial_space(OTHER).make_field(), **keywords)


@pytest.mark.parametrize("make", [implicit, elsewhere])
def test_fields_of_positions_are_of_their_domain(make):
    with pytest.raises(KernelValueError, match="fields: u: expected a field on sides"):
        fem.integrate(value, domain=SIDES, fields={"u": make(CELLS)})
    with pytest.raises(KernelValueError, match="fields: u: expected a field on cells"):
        fem.integrate(value, domain=CELLS, fields={"u": make(SIDES)})
    with pytest.raises(KernelValueError, match="expected a field of the geometry"):
        fem.integrate(value, domain=fem.Cells(OTHER), fields={"u": make(CELLS)})
    assert abs(float(fem.integrate(value, domain=SIDES, fields={"u": implicit(SIDES)})) - 2.0) < 1e-5
    with pytest.raises(KernelValueError, match="background: expected a field on sides"):
        elsewhere(SIDES, background=SPACE.make_field())


def test_what_is_written_may_be_read():
    def field():
        made = SPACE.make_field()
        made.dof_values = wp.array(np.arange(16.0) / 16, dtype=float, requires_grad=True)
        return made

    test, u = fem.make_test(SPACE), field()
    expected = fem.integrate(product, fields={"u": u, "v": test}).numpy()
    for add in (False, True):
        u = field()
        old = u.dof_values.numpy().copy()
        fem.integrate(product, fields={"u": u, "v": test}, output=u.dof_values, add=add)
        np.testing.assert_allclose(u.dof_values.numpy(), expected + add * old, rtol=1e-6)
    constants = fem.make_polynomial_space(GRID, degree=0).make_field()
    constants.dof_values.assign(np.arange(9.0))
    points = fem.RegularQuadrature(CELLS, 0)
    fem.interpolate(turned, dest=constants.dof_values, at=points, fields={"u": constants})
    assert constants.dof_values.numpy().tolist() == list(range(8, -1, -1))


@pytest.mark.parametrize("is_of_jax", [False, True])
def test_nodes_outside_of_a_domain_keep_their_values(is_of_jax):
    u, old = SPACE.make_field(), np.arange(16, dtype=np.float32) + 7
    u.dof_values = jnp.asarray(old) if is_of_jax else wp.array(old)
    fem.interpolate(one, dest=u, at=SIDES)
    is_inside = np.zeros((4, 4), bool)
    is_inside[1:3, 1:3] = True
    np.testing.assert_array_equal(np.asarray(u.dof_values), np.where(is_inside.reshape(-1), old, 1.0))
    if is_of_jax:

        def of_old(values):
            field = SPACE.make_field()
            field.dof_values = values
            fem.interpolate(one, dest=field, at=SIDES)
            return field.dof_values

        np.testing.assert_array_equal(jax.jacobian(of_old)(jnp.asarray(old)), np.diag(is_inside.reshape(-1) * 1.0))


def test_what_is_not_finite_is_told_in_values_at_nodes():
    positions = np.array([[0, 0], [1, 0], [np.nan, 1]])
    mesh = fem.Trimesh2D(wp.array([[0, 1, 2]], dtype=int), wp.array(positions, dtype=wp.vec2))
    field = fem.make_polynomial_space(mesh).make_field()
    fem.interpolate(one, dest=field)
    assert np.isnan(field.dof_values.numpy()).all()


def test_values_at_nodes_without_a_destination():
    made = fem.interpolate(first, dest_space=SPACE)
    np.testing.assert_allclose(made.numpy(), np.repeat(np.arange(4) / 3, 4), rtol=1e-6)


def triangles(indices, count=9):
    positions = np.random.default_rng(0).random((count, 2))
    given = wp.array(np.array(indices), dtype=int)
    return given, fem.Trimesh2D(given, wp.array(positions, dtype=wp.vec2))


def test_sides_are_those_of_the_indices_now():
    indices, mesh = triangles([[0, 1, 2], [3, 4, 5], [6, 7, 8]])
    domains = [fem.BoundarySides(mesh), fem.Sides(mesh)]
    part = fem.Subdomain(domains[1], element_mask=wp.array(np.ones(9), dtype=int))
    points = fem.ExplicitQuadrature(
        domains[1], wp.full((9, 1), wp.vec3(0.5), dtype=wp.vec3), wp.ones((9, 1), dtype=float)
    )
    nodal = fem.NodalQuadrature(domains[0], fem.make_polynomial_space(mesh, discontinuous=True))
    for domain in (*domains, part):
        fem.integrate(one, domain=domain)
    indices.assign(np.array([[0, 1, 2], [1, 2, 5], [6, 7, 8]]))
    for domain, new, count in zip(domains, (fem.BoundarySides(mesh), fem.Sides(mesh)), (7, 8), strict=True):
        assert domain.element_count() == new.element_count() == count
        assert fem.integrate(one, domain=domain) == fem.integrate(one, domain=new)
    np.testing.assert_allclose(
        fem.integrate(one, quadrature=nodal), fem.integrate(one, domain=fem.BoundarySides(mesh)), rtol=1e-5
    )
    with pytest.raises(KernelValueError, match="Subdomain: the indices of the mesh have changed"):
        fem.integrate(one, domain=part)
    with pytest.raises(KernelValueError, match="ExplicitQuadrature: the indices of the mesh have changed"):
        fem.integrate(one, quadrature=points)


def test_a_mesh_without_cells():
    positions = wp.array(np.eye(2), dtype=wp.vec2)
    mesh = fem.Trimesh2D(wp.zeros((0, 3), dtype=int), positions, build_bvh=True)
    space = fem.make_polynomial_space(mesh, degree=2)
    assert fem.integrate(one, domain=fem.Cells(mesh)) == fem.integrate(one, domain=fem.BoundarySides(mesh)) == 0.0
    matrix = fem.integrate(mixed, fields={"u": fem.make_trial(space), "v": fem.make_test(space)})
    assert (matrix.shape, matrix.nnz) == ((2, 2), 0)


def test_lookups_far_from_the_origin():
    positions = np.array([[0, 0], [1, 0], [0, 1], [1, 1]]) + 1e9
    cells = wp.array([[0, 1, 3], [0, 3, 2]], dtype=int)
    mesh = fem.Trimesh2D(cells, wp.array(positions, dtype=wp.vec2d), build_bvh=True)
    points = np.array([[0.75, 0.25], [0.25, 0.75], [1.5, 0.5]]) + 1e9
    out = wp.zeros(3, dtype=wp.vec2d)
    fem.interpolate(found, dest=out, at=fem.Cells(mesh), dim=3, values={"x": wp.array(points, dtype=wp.vec2d)})
    np.testing.assert_allclose(out.numpy() - 1e9, [[0.75, 0.25], [0.25, 0.75], [1.0, 0.5]], atol=1e-6)


def test_the_divergence_of_matrices_is_that_of_their_columns():
    field = fem.make_polynomial_space(GRID, dtype=wp.mat22, degree=2).make_field()
    fem.interpolate(matrices, dest=field)
    expected = [1.5, 0.0]  # of 1 + x, and 0
    for k in range(2):
        made = fem.integrate(divergence, domain=CELLS, fields={"u": field}, values={"k": k})
        assert abs(float(made) - expected[k]) < 1e-5
    space = fem.make_polynomial_space(GRID, dtype=wp.vec2)
    trial = fem.make_trial(space)
    form = fem.integrate(of_matrices, fields={"v": fem.make_test(field.space), "w": trial})
    constant = wp.array(np.tile([1.0, 2.0], (16, 1)), dtype=wp.vec2)
    total = (form @ constant).numpy().reshape(-1) @ field.dof_values.numpy().reshape(-1)
    assert abs(total - 1.5) < 1e-4


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("grid", [GRID, fem.Grid3D(res=wp.vec3i(1, 1, 1))], ids=["squares", "cubes"])
def test_nodes_of_nonconforming_polynomials_are_about_the_center(grid, degree):
    space = fem.make_polynomial_space(grid, degree=degree, element_basis=fem.ElementBasis.NONCONFORMING_POLYNOMIAL)
    found = fem.integrate(first, quadrature=fem.NodalQuadrature(fem.Cells(grid), space))
    assert abs(float(found) - 0.5) < (1e-5 if degree < 3 else 0.05)
    nodes = space.shape.nodes
    np.testing.assert_allclose(nodes.mean(0), 0.5)
    lengths = np.linalg.norm(nodes[:, None] - nodes, axis=-1)
    corners = lengths.max()
    assert np.isclose(lengths, corners).sum() == (6 if grid is GRID else 12)  # all edges are as long


def test_projectors_in_rows_with_a_capacity():
    values = wp.array([2.0, 4.0, 5.0], dtype=float)
    projector = sparse.bsr_zeros(2, 2, float, row_capacity=2)
    for columns in ([0, 0, 1], [0, 0, 0]):  # then the second row has no block on the diagonal, and one behind its end
        rows, places = wp.array([0, 1, 1], dtype=int), wp.array(columns, dtype=int)
        sparse.bsr_set_from_triplets(projector, rows, places, values, topology="padded")
    fixed = wp.array([6.0, 7.0], dtype=float)
    fem.normalize_dirichlet_projector(projector, fixed)
    assert fixed.numpy().tolist() == [3.0, 7.0]
    assert (projector @ wp.array([1.0, 0.0], dtype=float)).numpy().tolist() == [1.0, 9.0]


HALF: Any = 1.5
GOOD = {"u": fem.make_trial(SPACE), "v": fem.make_test(SPACE)}
REFUSED = {
    "a domain of another geometry": (
        lambda: fem.interpolate(first, dest=SPACE.make_field(), at=fem.Cells(OTHER)),
        "at: expected a domain of the geometry"),
    "room for too few nodes": (
        lambda: fem.interpolate(first, dest=wp.zeros(3), dest_space=SPACE), "dest: expected 16 values of float32"),
    "nodes of integers": (
        lambda: fem.interpolate(first, dest=wp.zeros(16, dtype=int), dest_space=SPACE),
        "dest: expected 16 values of float32"),
    "a number for a place": (lambda: fem.interpolate(first, dest=SPACE.make_field(), at=3), "at: expected a domain"),
    "points for nodes": (
        lambda: fem.interpolate(first, dest=SPACE.make_field(), at=fem.RegularQuadrature(CELLS, 1)),
        "at: values at nodes"),
    "nodes of no space": (
        lambda: fem.interpolate(first, dest=wp.zeros(16), at=fem.make_space_restriction(space_topology=SPACE.topology)),
        "at: a restriction has nodes"),
    "a restriction elsewhere": (
        lambda: fem.interpolate(first, dest=fem.make_restriction(SPACE.make_field(), domain=SIDES), at=CELLS),
        "at: expected the domain of the restriction"),
    "an integral of integers": (
        lambda: fem.integrate(value, fields={"u": GOOD["v"]}, output=wp.zeros(16, dtype=int)),
        "output: expected floats"),
    "integers asked for": (lambda: fem.integrate(one, domain=CELLS, output_dtype=int), "output_dtype: expected floats"),
    "an array for a matrix": (
        lambda: fem.integrate(mixed, fields=GOOD, output=wp.zeros(16)), "output: expected a BsrMatrix"),
    "a matrix of integers": (
        lambda: fem.integrate(mixed, fields=GOOD, output=sparse.bsr_zeros(16, 16, wp.int32)), "expected floats"),
    "a number from behind": (
        lambda: fem.Subdomain(CELLS, element_indices=wp.array([-1], dtype=int)),
        "element_indices: expected numbers from 0 to 8"),
    "a number too large": (
        lambda: fem.Subdomain(CELLS, element_indices=wp.array([9], dtype=int)),
        "element_indices: expected numbers from 0 to 8"),
    "a list of numbers": (lambda: fem.Subdomain(CELLS, element_indices=[1]), "element_indices: expected an array"),
    "a mask of floats is one": (lambda: fem.Subdomain(CELLS, element_mask=[1.0]), "element_mask: expected an array"),
    "indices across": (
        lambda: fem.Trimesh2D(wp.zeros((3, 2), dtype=int), wp.zeros(3, dtype=wp.vec2)),
        r"indices: expected integers of shape \(cells, 3\)"),
    "indices of floats": (
        lambda: fem.Trimesh2D(wp.zeros((2, 3), dtype=float), wp.zeros(3, dtype=wp.vec2)), "indices: expected integers"),
    "half a cell": (lambda: fem.Grid2D(res=(2.5, 1)), "res: expected an integer"),
    "half a degree": (lambda: fem.make_polynomial_space(GRID, degree=HALF), "degree: expected an integer"),
    "half an order": (lambda: fem.RegularQuadrature(CELLS, HALF), "order: expected an integer"),
    "an order below zero": (lambda: fem.RegularQuadrature(CELLS, -1), "order: expected a degree"),
    "points in a list": (lambda: fem.ExplicitQuadrature(CELLS, [1.0], [1.0]), "points: expected an array"),
    "values of NumPy": (lambda: setattr(SPACE.make_field(),
        "dof_values", np.zeros(16, np.float32)), "dof_values: expected"),
    "an array for a projector": (
        lambda: fem.normalize_dirichlet_projector(wp.zeros((2, 2))), "projector_matrix: expected a BsrMatrix"),
    "an array for a system": (
        lambda: fem.project_linear_system(wp.zeros((2, 2)), wp.zeros(2), sparse.bsr_identity(2, float)),
        "project_linear_system: system_matrix: expected a BsrMatrix"),
    "a part of none": (lambda: fem.LinearGeometryPartition(GRID, 3, 3), "partition_rank: expected one of 3"),
}  # fmt: skip


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises((KernelTypeError, KernelValueError), match=message) as raised:
        call()
    assert not [e.path for e in raised.traceback if "jaxwarp/fem" in str(e.path)]


@fem.integrand
def without_annotation(s: fem.Sample, v):
    return v(s)


@fem.integrand
def of_a_vector(s: fem.Sample, v: fem.Field):
    return fem.grad(v, s)


@pytest.mark.parametrize(
    ("integrand", "fields", "message"),
    [
        (mixed, [1], "integrate: fields: expected a dictionary, got list"),
        (without_annotation, {}, "argument v of without_annotation is not annotated as a field"),
        (of_a_vector, {}, "expected of_a_vector to return a number, got vec2"),
    ],
)
def test_integrands_that_do_not_fit_are_named(integrand, fields, message):
    with pytest.raises((KernelTypeError, KernelValueError), match=message):
        fem.integrate(integrand, fields=fields or {"v": fem.make_test(SPACE)})
