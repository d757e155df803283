"""Finite elements: integrals, spaces, operators and solutions against what is known of them."""

from typing import Any

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp import fem

QUICK = {"Grid2D", "Trimesh2D", "Tetmesh"}


def vertices(*counts):
    """Those of a grid of the unit square or cube, moved inside smoothly, so that cells differ."""
    axes = np.meshgrid(*(np.linspace(0.0, 1.0, n + 1) for n in counts), indexing="ij")
    points = np.stack(axes, -1).reshape(-1, len(counts))
    return points + 0.6 * np.prod(points * (1.0 - points), axis=-1, keepdims=True) * np.sin(7.0 * points[:, ::-1])


def make_geometry(name, scalar=wp.float64, count=2, **options):
    dimension = 2 if "2D" in name or name in ("Trimesh3D", "Quadmesh3D") else 3
    counts = (count, count + 1, count)[:dimension]
    if name.startswith("Grid"):
        vec = wp.types.vector(dimension, int)
        return getattr(fem, name)(res=vec(*counts), scalar_type=scalar)
    points = vertices(*counts)
    if name.endswith("3D"):  # a plane in space: of area 1, too
        points = points @ np.array([[0.6, 0.8, 0.0], [0.0, 0.0, 1.0]])
    kind = name.lower().removesuffix("2d").removesuffix("3d").removesuffix("mesh")
    cells = getattr(fem.utils, f"grid_to_{'hexes' if kind == 'hex' else f'{kind}s'}")(*counts)
    vec = wp.types.vector(points.shape[1], scalar)
    return getattr(fem, name)(wp.array(cells, dtype=int), wp.array(points, dtype=vec), **options)


FLAT = ("Grid2D", "Grid3D", "Trimesh2D", "Quadmesh2D", "Tetmesh", "Hexmesh")
GEOMETRIES = (*FLAT, "Trimesh3D", "Quadmesh3D")
FLUXES = fem.ElementBasis.RAVIART_THOMAS


@fem.integrand
def power(s: fem.Sample, domain: fem.Domain, k: int):
    x = domain(s)
    return x[0] ** wp.float64(k) + x[1] ** wp.float64(k)


@pytest.mark.parametrize("name", FLAT)
@pytest.mark.parametrize("k", [1, 3, 5])
def test_integrals_of_polynomials_are_exact(name, k):
    domain = fem.Cells(make_geometry(name))
    # Cells of squares are mapped by polynomials of higher degree.
    rule = fem.RegularQuadrature(domain, order=k if name in ("Grid2D", "Grid3D", "Trimesh2D", "Tetmesh") else k + 4)
    assert np.isclose(fem.integrate(power, quadrature=rule, values={"k": k}), 2.0 / (k + 1), rtol=1e-12)


@fem.integrand
def one(s: fem.Sample):
    return wp.float64(1.0)


@fem.integrand
def value(s: fem.Sample, v: fem.Field):
    return v(s)


@pytest.mark.parametrize("name", GEOMETRIES)
def test_measures_of_cells_and_boundaries(name):
    geometry = make_geometry(name)
    dimension = geometry.cell_dimension
    assert np.isclose(fem.integrate(one, domain=fem.Cells(geometry)), 1.0)
    assert np.isclose(fem.integrate(one, domain=fem.BoundarySides(geometry)), 2.0 * dimension)
    assert geometry.boundary_side_count() == fem.BoundarySides(geometry).element_count()


@pytest.mark.parametrize("family", list(fem.Polynomial))
@pytest.mark.parametrize("element", list(fem.Element)[1:])
def test_formulas_of_all_families_are_exact(element, family):
    from math import factorial

    from jaxwarp.fem.space.polynomial import element_quadrature

    for order in range(5):
        points, weights = element_quadrature(element, order, family)
        exact = 1.0 / (order + 1)
        if element.value.is_simplex:
            exact = factorial(order) * factorial(element.dimension) / factorial(order + element.dimension)
        assert np.isclose(weights @ points[:, 0] ** order, exact)
        assert np.isclose(weights.sum(), 1.0)


@fem.integrand
def polynomial(s: fem.Sample, domain: fem.Domain, degree: int):
    x = domain(s)
    one = wp.float64(1.0)
    return (one + x[0] - wp.float64(2.0) * x[1]) ** wp.float64(degree)


@fem.integrand
def polynomial_error(s: fem.Sample, domain: fem.Domain, u: fem.Field, degree: int):
    error = u(s) - polynomial(s, domain, degree)
    return error * error


@fem.integrand
def gradient_error(s: fem.Sample, domain: fem.Domain, u: fem.Field, degree: int):
    x = domain(s)
    one = wp.float64(1.0)
    base = one + x[0] - wp.float64(2.0) * x[1]
    slope = wp.float64(degree) * base ** wp.float64(degree - 1)
    g = fem.grad(u, s)
    a = g[0] - slope
    b = g[1] + wp.float64(2.0) * slope
    return a * a + b * b


# Cells that are no parallelograms have only polynomials of degree 1 in the position.
@pytest.mark.parametrize(
    ("name", "degree"),
    [("Quadmesh2D", 1), ("Hexmesh", 1), ("Grid3D", 2), *((n, d) for n in sorted(QUICK) for d in (1, 2, 3))],
)
@pytest.mark.parametrize("discontinuous", [False, True])
def test_spaces_have_the_polynomials_of_their_degree(name, degree, discontinuous):
    geometry = make_geometry(name)
    space = fem.make_polynomial_space(geometry, degree=degree, discontinuous=discontinuous)
    field = space.make_field()
    fem.interpolate(polynomial, dest=field, values={"degree": degree})
    given = {"fields": {"u": field}, "values": {"degree": degree}}
    rule = fem.RegularQuadrature(fem.Cells(geometry), order=2 * degree)
    assert fem.integrate(polynomial_error, quadrature=rule, **given) < 1e-20
    assert fem.integrate(gradient_error, quadrature=rule, **given) < 1e-18


@pytest.mark.parametrize(
    ("name", "basis", "degree"),
    [("Grid2D", "SERENDIPITY", 2), ("Grid2D", "SERENDIPITY", 3), ("Grid3D", "SERENDIPITY", 2),
     ("Grid3D", "SERENDIPITY", 3), ("Grid2D", "NONCONFORMING_POLYNOMIAL", 2), ("Tetmesh", "SERENDIPITY", 2)],
)  # fmt: skip
def test_other_bases_have_the_polynomials_of_their_degree(name, basis, degree):
    geometry = make_geometry(name)
    space = fem.make_polynomial_space(geometry, degree=degree, element_basis=fem.ElementBasis[basis])
    field = space.make_field()
    fem.interpolate(polynomial, dest=field, values={"degree": degree})
    given = {"fields": {"u": field}, "values": {"degree": degree}}
    assert fem.integrate(polynomial_error, domain=fem.Cells(geometry), **given) < 1e-20


def test_nodes_that_cells_share_are_counted_once():
    grid = make_geometry("Grid2D", count=3)  # 3 by 4
    assert [fem.make_polynomial_space(grid, degree=d).node_count() for d in range(4)] == [12, 20, 63, 130]
    assert fem.make_polynomial_space(grid, degree=2, discontinuous=True).node_count() == 12 * 9
    serendipity = fem.make_polynomial_space(grid, degree=2, element_basis=fem.ElementBasis.SERENDIPITY)
    assert serendipity.node_count() == 63 - 12
    tets = make_geometry("Tetmesh")
    edges = {tuple(sorted(e)) for c in tets.cells for e in ((c[i], c[j]) for i in range(4) for j in range(i))}
    assert fem.make_polynomial_space(tets, degree=2).node_count() == tets.vertex_count() + len(edges)
    positions = fem.make_polynomial_space(grid, degree=2).node_positions().numpy()
    assert len(np.unique(positions, axis=0)) == 63
    assert (np.lexsort(positions.T[::-1]) == np.arange(63)).all()


@fem.integrand
def stiffness(s: fem.Sample, u: fem.Field, v: fem.Field):
    return wp.dot(fem.grad(u, s), fem.grad(v, s))


@fem.integrand
def mass(s: fem.Sample, u: fem.Field, v: fem.Field):
    return u(s) * v(s)


def dense(matrix):
    made = np.zeros(matrix.shape)
    rows, columns = matrix.block_shape
    offsets, at, values = (a.numpy() for a in (matrix.offsets, matrix.columns, matrix.values))
    values = values.reshape(-1, rows, columns)
    for i in range(matrix.nrow):
        for b in range(offsets[i], offsets[i + 1]):
            made[rows * i : rows * (i + 1), columns * at[b] : columns * (at[b] + 1)] = values[b]
    return made


@pytest.mark.parametrize("name", GEOMETRIES)
@pytest.mark.parametrize("degree", [1, 2])
def test_stiffness_is_symmetric_and_only_constants_have_none(name, degree):
    geometry = make_geometry(name)
    space = fem.make_polynomial_space(geometry, degree=degree)
    fields = {"u": fem.make_trial(space), "v": fem.make_test(space)}
    a = dense(fem.integrate(stiffness, fields=fields))
    np.testing.assert_allclose(a, a.T, atol=1e-12)
    found = np.linalg.eigvalsh(a)
    assert abs(found[0]) < 1e-12
    assert found[1] > 1e-3
    np.testing.assert_allclose(a @ np.ones(len(a)), 0.0, atol=1e-12)
    m = dense(fem.integrate(mass, fields=fields))
    assert np.isclose(m.sum(), 1.0)
    assert np.linalg.eigvalsh(m)[0] > 0.0


@fem.integrand
def load(s: fem.Sample, domain: fem.Domain, v: fem.Field):
    x = domain(s)
    pi = wp.float64(wp.pi)
    return wp.float64(2.0) * pi * pi * wp.sin(pi * x[0]) * wp.sin(pi * x[1]) * v(s)


@fem.integrand
def solution_error(s: fem.Sample, domain: fem.Domain, u: fem.Field):
    x = domain(s)
    pi = wp.float64(wp.pi)
    error = u(s) - wp.sin(pi * x[0]) * wp.sin(pi * x[1])
    return error * error


def poisson_error(name, degree, count):
    """Of the equation whose solution is a product of sines."""
    geometry = make_geometry(name, count=count)
    space = fem.make_polynomial_space(geometry, degree=degree)
    trial, test = fem.make_trial(space), fem.make_test(space)
    rule = fem.RegularQuadrature(fem.Cells(geometry), order=2 * degree + 2)
    a = fem.integrate(stiffness, fields={"u": trial, "v": test})
    b = fem.integrate(load, fields={"v": test}, quadrature=rule)
    sides = fem.BoundarySides(geometry)
    edge = {"u": fem.make_trial(space, domain=sides), "v": fem.make_test(space, domain=sides)}
    projector = fem.integrate(mass, fields=edge, assembly="nodal")
    fem.project_linear_system(a, b, projector)
    field = space.make_field()
    field.dof_values = wp.array(np.linalg.solve(dense(a), b.numpy()), dtype=wp.float64)
    return np.sqrt(fem.integrate(solution_error, fields={"u": field}, quadrature=rule))


@pytest.mark.parametrize("name", ["Grid2D", "Trimesh2D", "Quadmesh2D"])
@pytest.mark.parametrize("degree", [1, 2, 3])
def test_errors_of_solutions_fall_with_the_order_of_the_degree(name, degree):
    coarse, fine = (poisson_error(name, degree, n) for n in (4, 8))
    assert np.log2(coarse / fine) > 0.85 * (degree + 1)  # along the second axis, cells become 5 / 9 as long


@fem.integrand
def flow(s: fem.Sample, domain: fem.Domain):
    x = domain(s)
    return x * wp.dot(x, x)


@fem.integrand
def divergence(s: fem.Sample, u: fem.Field):
    return fem.div(u, s)


@fem.integrand
def flux(s: fem.Sample, domain: fem.Domain, u: fem.Field):
    return wp.dot(u(s), fem.normal(domain, s))


@fem.integrand
def jump_squared(s: fem.Sample, u: fem.Field):
    return wp.dot(fem.jump(u, s), fem.jump(u, s)) + wp.length_sq(fem.average(u, s) - fem.inner(u, s))


@pytest.mark.parametrize("name", FLAT)
def test_what_flows_out_is_the_integral_of_the_divergence(name):
    geometry = make_geometry(name)
    vec = wp.types.vector(geometry.dimension, wp.float64)
    space = fem.make_polynomial_space(geometry, degree=2, dtype=vec)
    field = space.make_field()
    fem.interpolate(flow, dest=field)
    inside = fem.integrate(divergence, domain=fem.Cells(geometry), fields={"u": field})
    out = fem.integrate(flux, domain=fem.BoundarySides(geometry), fields={"u": field.trace()})
    assert inside > 1.0
    assert np.isclose(inside, out, rtol=1e-10)
    # Continuous where cells meet, also if sides are parametrised the other way round.
    assert fem.integrate(jump_squared, domain=fem.Sides(geometry), fields={"u": field.trace()}) < 1e-20


@fem.integrand
def average_flux(s: fem.Sample, domain: fem.Domain, w: fem.Field, v: fem.Field):
    return wp.dot(fem.average(w, s), fem.normal(domain, s)) * fem.jump(v, s)


@fem.integrand
def weak_divergence(s: fem.Sample, w: fem.Field, v: fem.Field):
    return v(s) * fem.div(w, s)


@fem.integrand
def weak_gradient(s: fem.Sample, w: fem.Field, v: fem.Field):
    return wp.dot(w(s), fem.grad(v, s))


@fem.integrand
def weak_flux(s: fem.Sample, domain: fem.Domain, w: fem.Field, v: fem.Field):
    return wp.dot(w(s), fem.normal(domain, s)) * v(s)


@pytest.mark.parametrize("name", sorted(QUICK))
def test_parts_of_discontinuous_functions_are_integrated_on_sides(name):
    """For a continuous w and each discontinuous v: div w v + w . grad v is what flows out of the cells with v."""
    geometry = make_geometry(name)
    vec = wp.types.vector(geometry.dimension, wp.float64)
    w = fem.make_polynomial_space(geometry, degree=2, dtype=vec).make_field()
    fem.interpolate(flow, dest=w)
    space = fem.make_polynomial_space(geometry, degree=1, discontinuous=True)
    test = fem.make_test(space)
    rule = fem.RegularQuadrature(test.domain, order=4)
    forms = (weak_divergence, weak_gradient)
    cells = [fem.integrate(f, fields={"w": w, "v": test}, quadrature=rule).numpy() for f in forms]
    sides = fem.make_test(space, domain=fem.Sides(geometry))
    edge = fem.make_test(space, domain=fem.BoundarySides(geometry))
    between = fem.integrate(average_flux, fields={"w": w.trace(), "v": sides}).numpy()
    out = fem.integrate(weak_flux, fields={"w": w.trace(), "v": edge}).numpy()
    np.testing.assert_allclose(sum(cells), between + out, atol=1e-12)


@fem.integrand
def looked_up(s: fem.Sample, domain: fem.Domain, offset: wp.float64):
    x = domain(s)
    for d in range(len(x)):
        x[d] = x[d] + offset
    found = fem.lookup(domain, x)
    return wp.length(domain(found) - x)


@pytest.mark.parametrize("name", FLAT)
def test_lookups_find_positions_and_the_closest_points(name):
    geometry = make_geometry(name) if name.startswith("Grid") else make_geometry(name, build_bvh=True)
    domain = fem.Cells(geometry)
    rule = fem.RegularQuadrature(domain, order=3)
    distances = wp.zeros(rule.total_point_count(), dtype=wp.float64)
    fem.interpolate(looked_up, dest=distances, at=rule, values={"offset": wp.float64(0.0)})
    assert distances.numpy().max() < 1e-6
    fem.interpolate(looked_up, dest=distances, at=rule, values={"offset": wp.float64(1.5)})
    points = wp.zeros(rule.total_point_count(), dtype=wp.types.vector(geometry.dimension, wp.float64))
    fem.interpolate(place, dest=points, at=rule)
    expected = np.linalg.norm(np.maximum(points.numpy() + 0.5, 0.0), axis=1)
    np.testing.assert_allclose(distances.numpy(), expected, rtol=1e-4)


@fem.integrand
def place(s: fem.Sample, domain: fem.Domain):
    return domain(s)


@fem.integrand
def bent(s: fem.Sample, domain: fem.Domain):
    x = domain(s)
    return (x[1] + wp.float64(1.0)) * wp.vec2d(wp.cos(x[0]), wp.sin(x[0]))


def test_deformed_geometries_are_where_their_field_says():
    space = fem.make_polynomial_space(make_geometry("Grid2D", count=8), degree=3, dtype=wp.vec2d)
    field = space.make_field()
    fem.interpolate(bent, dest=field)
    sector = field.make_deformed_geometry(relative=False)
    rule = fem.RegularQuadrature(fem.Cells(sector), order=6)
    assert np.isclose(fem.integrate(one, quadrature=rule), 1.5, rtol=1e-6)  # (4 - 1) / 2 times an angle of 1
    assert np.isclose(fem.integrate(one, domain=fem.BoundarySides(sector)), 2.0 + 3.0, rtol=1e-5)
    displaced = fem.Cells(field.make_deformed_geometry(relative=True))
    for geometry_cells, factor in ((displaced, 1.0), (fem.Cells(space.geometry), 0.0)):
        total = wp.zeros(1, dtype=wp.vec2d)
        fem.interpolate(place, dest=total, at=fem.Subdomain(geometry_cells, element_indices=wp.array([0], dtype=int)))
        middle = np.array([1 / 16, 1 / 18])
        expected = (middle[1] + 1.0) * np.array([np.cos(middle[0]), np.sin(middle[0])])
        np.testing.assert_allclose(total.numpy()[0], middle + factor * expected, rtol=1e-6)


@fem.integrand
def energy(s: fem.Sample, u: fem.Field, weight: wp.array[wp.float64]):
    g = fem.grad(u, s)
    return weight[0] * u(s) * u(s) * wp.dot(g, g)


def test_tapes_give_the_gradients_of_differences():
    geometry = make_geometry("Trimesh2D")
    geometry.positions.requires_grad = True
    space = fem.make_polynomial_space(geometry, degree=2)
    field = space.make_field()
    generator = np.random.default_rng(3)
    field.dof_values = wp.array(generator.random(space.node_count()), dtype=wp.float64, requires_grad=True)
    weight = wp.array([1.5], dtype=wp.float64, requires_grad=True)

    def run(result):
        fem.integrate(energy, domain=fem.Cells(geometry), fields={"u": field}, values={"weight": weight}, output=result)

    loss = wp.zeros(1, dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        run(loss)
    tape.backward(loss)
    for array in (field.dof_values, geometry.positions, weight):
        way = generator.normal(size=array.numpy().shape)
        before, step = array.numpy().copy(), 1e-6
        ends = []
        for sign in (1.0, -1.0):
            array.assign(before + sign * step * way)
            result = wp.zeros(1, dtype=wp.float64)
            run(result)
            ends.append(result.numpy()[0])
        array.assign(before)
        difference = (ends[0] - ends[1]) / (2 * step)
        assert abs(difference) > 1e-3
        assert np.isclose((array.grad.numpy() * way).sum(), difference, rtol=1e-5)


@fem.integrand
def weighted_mass(s: fem.Sample, k: fem.Field, u: fem.Field, v: fem.Field):
    return k(s) * u(s) * v(s)


def test_matrices_have_gradients_by_coefficients():
    geometry = make_geometry("Grid2D")
    space = fem.make_polynomial_space(geometry, degree=1)
    k = space.make_field()
    k.dof_values = wp.array(1.0 + np.arange(space.node_count()), dtype=wp.float64, requires_grad=True)
    fields = {"k": k, "u": fem.make_trial(space), "v": fem.make_test(space)}
    x = np.random.default_rng(1).random(space.node_count())
    loss = wp.zeros(1, dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        y = fem.integrate(weighted_mass, fields=fields) @ wp.array(x, dtype=wp.float64)
        wp.launch(sum_of_squares, y.shape, [y], [loss])
    tape.backward(loss)
    # The matrix is linear in k: M(k) x = sum of k_i M_i x.
    rows = []
    for i in range(space.node_count()):
        k_i = space.make_field()
        k_i.dof_values = wp.array(np.eye(space.node_count())[i], dtype=wp.float64)
        rows.append(dense(fem.integrate(weighted_mass, fields={**fields, "k": k_i})) @ x)
    expected = 2.0 * np.array(rows) @ (np.array(rows).T @ k.dof_values.numpy())
    np.testing.assert_allclose(k.dof_values.grad.numpy(), expected, rtol=1e-9)


@wp.kernel
def sum_of_squares(y: wp.array[wp.float64], out: wp.array[wp.float64]):
    i = wp.tid()
    wp.atomic_add(out, 0, y[i] * y[i])


@fem.integrand
def double_product(s: fem.Sample, u: fem.Field, v: fem.Field):
    return wp.ddot(u(s), v(s))


@pytest.mark.parametrize("is_voigt", [True, False])
@pytest.mark.parametrize("scalar", [wp.float32, wp.float64])
def test_the_numbers_of_a_symmetric_matrix_have_an_order(is_voigt, scalar):
    """The diagonal first; or the trace, the difference of the first two, what the third has more than the mean."""
    kinds = fem.SymmetricTensorMapper.Mapping
    a, b, c, d, e, f = 1.0, 2.5, -3.0, 0.5, 4.0, -1.5
    given = np.array([[a, f, e], [f, b, d], [e, d, c]])
    mean = (a + b + c) / 3
    start = np.array([a, b, c]) / 2**0.5 if is_voigt else [mean * 1.5**0.5, (a - b) / 2, (c - mean) / 2 * 3**0.5]
    expected = [*start, d, e, f]
    names = ("value_to_dof_3d_voigt", "dof_to_value_3d_voigt") if is_voigt else ("value_to_dof_3d", "dof_to_value_3d")
    to_dof, to_value = (getattr(fem.SymmetricTensorMapper, n) for n in names)
    value_type = wp.types.matrix(shape=(3, 3), dtype=scalar)
    mapper = fem.SymmetricTensorMapper(value_type, kinds.VOIGT if is_voigt else kinds.DB16)
    if is_voigt:
        assert mapper == fem.SymmetricTensorMapper(value_type)

    @wp.kernel
    def convert(x: wp.array[value_type], dofs: wp.array[mapper.dof_dtype], back: wp.array[value_type]):
        dofs[0] = to_dof(x[0])
        dofs[1] = mapper.inverse(x[0])
        back[0] = to_value(dofs[0])

    out = wp.zeros(2, dtype=mapper.dof_dtype), wp.zeros(1, dtype=value_type)
    wp.launch(convert, 1, [wp.array([given], dtype=value_type)], out)
    np.testing.assert_allclose(out[0].numpy(), [expected, expected], rtol=1e-6)
    np.testing.assert_allclose(out[1].numpy()[0], given, rtol=1e-6)
    with pytest.raises(wp.KernelError, match=r"mapping: expected .*VOIGT or DB16, got 1"):
        fem.SymmetricTensorMapper(value_type, 1)


@pytest.mark.parametrize("mapper", [fem.SymmetricTensorMapper, fem.SkewSymmetricTensorMapper])
@pytest.mark.parametrize("n", [2, 3])
def test_symmetric_and_skew_matrices_are_stored_as_vectors(mapper, n):
    kind = wp.types.matrix(shape=(n, n), dtype=wp.float64)
    space = fem.make_polynomial_space(make_geometry("Grid2D"), degree=1, dof_mapper=mapper(kind))
    field = space.make_field()
    value = np.arange(n * n, dtype=float).reshape(n, n)
    value = (value + value.T if mapper is fem.SymmetricTensorMapper else value - value.T) / 2
    uniform = fem.UniformField(fem.Cells(space.geometry), kind(*value.reshape(-1)))
    fem.interpolate(uniform, dest=field)
    matrix = fem.integrate(double_product, fields={"u": fem.make_trial(space), "v": fem.make_test(space)})
    x = field.dof_values.numpy().reshape(-1)
    assert np.isclose(x @ dense(matrix) @ x, (value**2).sum())


def test_blocks_of_vectors_and_numbers():
    geometry = make_geometry("Trimesh2D")
    u = fem.make_polynomial_space(geometry, degree=2, dtype=wp.vec2d)
    p = fem.make_polynomial_space(geometry, degree=1)
    matrix = fem.integrate(weak_divergence, fields={"w": fem.make_trial(u), "v": fem.make_test(p)})
    assert matrix.block_shape == (1, 2)
    field, test = u.make_field(), fem.make_test(p)
    field.dof_values = wp.array(np.random.default_rng(0).random((u.node_count(), 2)), dtype=wp.vec2d)
    array = fem.integrate(weak_divergence, fields={"w": field, "v": test})
    np.testing.assert_allclose((matrix @ field.dof_values).numpy().reshape(-1), array.numpy(), atol=1e-12)
    twice = fem.integrate(weak_divergence, fields={"w": field, "v": test}, output=array, add=True)
    np.testing.assert_allclose((matrix @ field.dof_values).numpy().reshape(-1) * 2, twice.numpy(), atol=1e-12)
    again = fem.integrate(weak_divergence, fields={"w": fem.make_trial(u), "v": test}, output=matrix, add=True)
    np.testing.assert_allclose((again @ field.dof_values).numpy().reshape(-1), twice.numpy(), atol=1e-12)


def test_nodal_integrals_are_diagonal_and_have_the_measure():
    for name in sorted(QUICK):
        for degree in (1, 2, 3):
            space = fem.make_polynomial_space(make_geometry(name), degree=degree)
            fields = {"u": fem.make_trial(space), "v": fem.make_test(space)}
            lumped = dense(fem.integrate(mass, fields=fields, assembly="nodal"))
            assert np.isclose(np.trace(lumped), 1.0)
            assert (np.diag(lumped) > 0.0).all()
            assert np.count_nonzero(lumped) == len(lumped)


@fem.integrand
def side_position(s: fem.Sample, domain: fem.Domain):
    return domain(s)[0] + wp.float64(3.0)


def test_restrictions_and_reductions():
    geometry = make_geometry("Grid2D")
    field = fem.make_polynomial_space(geometry, degree=1).make_field()
    fem.interpolate(side_position, dest=fem.make_restriction(field, domain=fem.BoundarySides(geometry)))
    x = field.space.node_positions().numpy()
    on_edge = ((x == 0.0) | (x == 1.0)).any(1)
    np.testing.assert_allclose(field.dof_values.numpy(), np.where(on_edge, x[:, 0] + 3.0, 0.0))
    for reduction, factor in (("first", 1), ("mean", 1), ("sum", 4)):
        fem.interpolate(side_position, dest=field, reduction=reduction)
        middle = np.flatnonzero(~on_edge)[0]
        assert np.isclose(field.dof_values.numpy()[middle], factor * (x[middle, 0] + 3.0))


def test_parts_of_domains():
    geometry = make_geometry("Grid2D")  # 2 by 3
    half = fem.ExplicitGeometryPartition(geometry, wp.array([1, 1, 1, 0, 0, 0], dtype=int))
    assert np.isclose(fem.integrate(one, domain=fem.Cells(half)), 0.5)
    assert np.isclose(fem.integrate(one, domain=fem.FrontierSides(half)), 1.0)
    left = fem.Subdomain(fem.Cells(geometry), element_indices=wp.array([0, 1], dtype=int))
    assert np.isclose(fem.integrate(one, domain=left), 1.0 / 3.0)


@wp.func
def bump(x: wp.vec2d, height: wp.float64):
    return height * x[0]


def test_implicit_fields_take_their_values():
    domain = fem.Cells(make_geometry("Grid2D"))
    field = fem.ImplicitField(domain, bump, values={"height": 4.0}, degree=1)
    assert np.isclose(fem.integrate(value, domain=domain, fields={"v": field}), 2.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g, u: fem.integrate(value, fields={}), "takes v, got none"),
        (lambda g, u: fem.integrate(value, fields={"w": u}), "takes v, got w"),
        (lambda g, u: fem.integrate(value, fields={"v": u}), "domain: expected a domain"),
        (lambda g, u: fem.integrate(value, domain=fem.Sides(g), fields={"v": u}), "expected a field on sides"),
        (lambda g, u: fem.integrate(value, domain=fem.Cells(g), fields={"v": u.trace()}), "expected a field on cells"),
        (lambda g, u: fem.integrate(mass, fields={"u": fem.make_trial(u.space), "v": u}), "needs a test function"),
        (lambda g, u: fem.integrate(value, fields={"v": fem.make_test(u.space)}, assembly="x"), "assembly: expected"),
        (lambda g, u: fem.integrate(value, fields={"v": fem.make_test(u.space)}, add=True), "no output to add to"),
        (lambda g, u: fem.make_polynomial_space(g, degree=4), "expected 0 to 3, got 4"),
        (lambda g, u: fem.make_polynomial_space(g, degree=0, element_basis=FLUXES), "expected 1 for RAVIART"),
        (lambda g, u: fem.make_polynomial_space(g, dtype=wp.vec2), "expected values of float64"),
        (lambda g, u: fem.integrate(divergence, domain=fem.Cells(g), fields={"u": u}), "fem.div is not available"),
        (lambda g, u: fem.integrate(looked_up, domain=fem.Sides(g), values={"offset": 0.0}), "lookup is not available"),
        (lambda g, u: fem.interpolate(value, dest=u, fields={"v": fem.make_test(u.space)}), "have no values"),
        (lambda g, u: setattr(u, "dof_values", wp.zeros(3)), "dof_values: expected float64"),
        (lambda g, u: fem.Grid2D(res=wp.vec2i(0, 3)), "numbers of cells above 0"),
        (lambda g, u: fem.Trimesh2D(wp.array([0, 1, 7], dtype=int), wp.zeros(3, dtype=wp.vec2)), "from 0 to 2, got 0"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(call, message):
    geometry = make_geometry("Grid2D")
    field = fem.make_polynomial_space(geometry, degree=1).make_field()
    with pytest.raises(wp.KernelError, match=message):
        call(geometry, field)


@fem.integrand
def normal_is_exact(s: fem.Sample, domain: fem.Domain, out: wp.array[wp.float64]):
    n = fem.normal(domain, s)
    for d in range(len(n)):
        if wp.abs(n[d]) < wp.float64(0.5) and n[d] != wp.float64(0.0):
            wp.atomic_add(out, 0, wp.float64(1.0))
        if wp.abs(n[d]) > wp.float64(0.5):
            wp.atomic_add(out, 1, n[d])
            wp.atomic_add(out, 2, wp.float64(1.0))


@pytest.mark.parametrize("name", FLAT)
def test_normals_along_the_axes_have_exact_zeros(name):
    geometry = make_geometry(name, count=3)
    found = wp.zeros(3, dtype=wp.float64)
    fem.interpolate(normal_is_exact, at=fem.BoundarySides(geometry), values={"out": found})
    inexact, total, count = found.numpy()
    assert inexact == 0
    assert abs(total) < 1e-12
    assert count == geometry.boundary_side_count()


@wp.struct
class Line:
    slope: float
    start: float

    @wp.func
    def __call__(line: Any, x: float):
        return line.slope * x + line.start


@wp.kernel
def evaluate(line: Line, out: wp.array[float]):
    i = wp.tid()
    out[i] = line(float(i))


def test_structs_can_be_called_in_kernels():
    out = wp.zeros(3)
    wp.launch(evaluate, 3, [Line(2.0, 1.0)], [out])
    assert out.numpy().tolist() == [1.0, 3.0, 5.0]


def test_edges_can_be_flipped_in_the_indices():
    indices = wp.array([0, 1, 2, 0, 2, 3], dtype=int)
    corners = wp.array([(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)], dtype=wp.vec2d)
    geometry = fem.Trimesh2D(indices, corners)
    sides = fem.BoundarySides(geometry).elements
    middles = [wp.zeros(4, dtype=wp.vec2d) for _ in range(2)]
    fem.interpolate(place, dest=middles[0], at=fem.BoundarySides(geometry))
    indices.assign([0, 1, 3, 1, 2, 3])
    fem.interpolate(place, dest=middles[1], at=fem.BoundarySides(geometry))
    assert (fem.BoundarySides(geometry).elements == sides).all()
    np.testing.assert_allclose(middles[0].numpy(), middles[1].numpy())
    field = fem.make_polynomial_space(geometry, degree=2).make_field()
    fem.interpolate(polynomial, dest=field, values={"degree": 2})
    given = {"fields": {"u": field}, "values": {"degree": 2}}
    assert fem.integrate(polynomial_error, domain=fem.Cells(geometry), **given) < 1e-20
    indices.assign([0, 1, 2, 0, 2, 3])
    with pytest.raises(wp.KernelError, match="have changed since nodes of a space were numbered"):
        fem.integrate(polynomial_error, domain=fem.Cells(geometry), **given)


def test_fields_are_of_the_geometry_that_is_integrated():
    """The gradient of a field of the undeformed geometry would be one by its positions."""
    grid = make_geometry("Grid2D")
    deformed = fem.make_polynomial_space(grid, dtype=wp.vec2d).make_field().make_deformed_geometry()
    space = fem.make_polynomial_space(grid)
    with pytest.raises(wp.KernelError, match="v: expected a field of the geometry that the domain is of"):
        fem.integrate(value, domain=fem.Cells(deformed), fields={"v": space.make_field()})
    with pytest.raises(wp.KernelError, match="expected one of the space's geometry"):
        fem.make_test(space, domain=fem.Cells(deformed))


def test_nodes_of_both_cells_at_a_side_get_no_values_by_half():
    grid = make_geometry("Grid2D")
    field = fem.make_polynomial_space(grid, discontinuous=True).make_field()
    fem.interpolate(polynomial, dest=fem.make_restriction(field, domain=fem.BoundarySides(grid)), values={"degree": 1})
    with pytest.raises(wp.KernelError, match="nodes for each of the cells at a side"):
        fem.interpolate(polynomial, dest=fem.make_restriction(field, domain=fem.Sides(grid)), values={"degree": 1})


def test_positions_can_be_given_anew():
    mesh = make_geometry("Trimesh2D")
    area = float(fem.integrate(tiny, domain=fem.Cells(mesh)))
    mesh.positions = wp.array(2.0 * mesh.positions.numpy(), dtype=mesh.positions.dtype)
    assert np.isclose(fem.integrate(tiny, domain=fem.Cells(mesh)), 4.0 * area)
    with pytest.raises(wp.KernelError, match="positions: expected an array outside of JAX of"):
        mesh.positions = mesh.positions.numpy()


def test_fields_of_other_geometries():
    inner = fem.Grid2D(res=wp.vec2i(2, 2), bounds_hi=wp.vec2(0.5, 1.0), scalar_type=wp.float64)
    field = fem.make_polynomial_space(inner, degree=2).make_field()
    fem.interpolate(polynomial, dest=field, values={"degree": 2})
    outside = fem.Cells(make_geometry("Grid2D", count=4))
    elsewhere = fem.NonconformingField(outside, field, background=3.0)
    given = {"fields": {"u": elsewhere}, "values": {"degree": 2}}
    at = fem.RegularQuadrature(fem.Subdomain(outside, element_indices=wp.array(np.arange(10), dtype=int)), order=4)
    assert fem.integrate(polynomial_error, quadrature=at, **given) < 1e-20  # the left half
    at = fem.RegularQuadrature(fem.Subdomain(outside, element_indices=wp.array(np.arange(10, 20), dtype=int)), order=4)
    assert np.isclose(fem.integrate(value, quadrature=at, fields={"v": elsewhere}), 1.5)
    with pytest.raises(wp.KernelError, match="cannot be looked up"):
        fem.NonconformingField(outside, fem.make_polynomial_space(make_geometry("Trimesh2D")).make_field())


@fem.integrand
def distance_of(s: fem.Sample, domain: fem.Domain, points: wp.array[wp.vec2d]):
    x = points[s.qp_index]
    return wp.length(domain(fem.lookup(domain, x)) - x)


@pytest.mark.parametrize(
    ("name", "cells"), [("Trimesh2D", fem.utils.grid_to_tris), ("Quadmesh2D", fem.utils.grid_to_quads)]
)
def test_closest_points_of_long_cells_that_are_turned(name, cells):
    length, turn = 20.0, np.array([[np.cos(0.5), -np.sin(0.5)], [np.sin(0.5), np.cos(0.5)]])
    corners = np.stack(np.indices((4, 4)), -1).reshape(-1, 2) / 3.0 * [length, 1.0]
    vertices = wp.array(corners @ turn.T, dtype=wp.vec2d)
    geometry = getattr(fem, name)(wp.array(cells(3, 3), dtype=int), vertices, build_bvh=True)
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (200, 2)) * [length * 1.5, 1.5] + [length / 2, 0.5]
    found = wp.zeros(200, dtype=wp.float64)
    at = {"at": fem.Cells(geometry), "dim": 200, "values": {"points": wp.array(points @ turn.T, dtype=wp.vec2d)}}
    fem.interpolate(distance_of, dest=found, **at)
    expected = np.linalg.norm(np.maximum(0.0, np.maximum(-points, points - [length, 1.0])), axis=1)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-10)


@fem.integrand
def is_near(s: fem.Sample, domain: fem.Domain, max_dist: wp.float64):
    found = fem.lookup(domain, domain(s) + wp.vec2d(wp.float64(0.25), wp.float64(0.0)), max_dist)
    return float(found.element_index != fem.NULL_ELEMENT_INDEX)


def test_lookups_end_at_a_distance():
    domain = fem.Cells(make_geometry("Grid2D", count=4))
    found = wp.zeros(20, dtype=float)
    fem.interpolate(is_near, dest=found, at=domain, values={"max_dist": 0.1})
    np.testing.assert_array_equal(found.numpy().reshape(4, 5), np.repeat([[1.0], [1.0], [1.0], [0.0]], 5, axis=1))


@fem.integrand
def cell_at(s: fem.Sample, domain: fem.Domain, x: wp.float64):
    return float(fem.lookup(domain, wp.vec2d(wp.float64(0.5), x)).element_index)


@pytest.mark.parametrize("name", ["Grid2D", "Trimesh2D"])
def test_what_is_no_position_is_in_no_cell(name):
    domain = fem.Cells(make_geometry(name) if name == "Grid2D" else make_geometry(name, build_bvh=True))
    found = wp.zeros(domain.element_count(), dtype=float)
    for x, is_somewhere in ((float("nan"), False), (0.3, True)):
        fem.interpolate(cell_at, dest=found, at=domain, values={"x": wp.float64(x)})
        assert np.all((found.numpy() >= 0) == is_somewhere), x


@fem.integrand
def tiny(s: fem.Sample):
    return 1.0


def test_sums_of_floats_are_of_doubles():
    domain = fem.Cells(fem.Grid2D(res=wp.vec2i(700, 700)))
    assert abs(float(fem.integrate(tiny, domain=domain)) - 1.0) < 2e-7
    out = wp.array([1.0], dtype=float)
    fem.integrate(tiny, domain=domain, output=out, add=True)
    assert abs(out.numpy()[0] - 2.0) < 4e-7


@pytest.mark.parametrize("name", ["AdaptiveNanogrid", "node_partition_index", "ShapeBasisSpace"])
def test_names_that_are_missing_say_what_to_do(name):
    with pytest.raises(AttributeError, match=rf"fem.{name} is not there yet; \w"):
        getattr(fem, name)
    with pytest.raises(AttributeError, match=r"fem.linalg.solve_triangular is not there yet; \w"):
        fem.linalg.solve_triangular  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'Grid4D'"):
        fem.Grid4D  # noqa: B018
