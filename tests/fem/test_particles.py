"""Particles as points of quadratures, and the nodes of parts of a geometry."""

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp import fem


@fem.integrand
def mass(s: fem.Sample, u: fem.Field, v: fem.Field):
    return u(s) * v(s)


@fem.integrand
def load(s: fem.Sample, v: fem.Field, speeds: wp.array[float]):
    return v(s) * speeds[s.qp_index]


@fem.integrand
def total(s: fem.Sample, domain: fem.Domain, speeds: wp.array[float]):
    return speeds[s.qp_index] * domain(s)[0]


@fem.integrand
def square(s: fem.Sample, domain: fem.Domain):
    x = domain(s)
    return x[0] * x[0] + x[1]


@fem.integrand
def write_value(s: fem.Sample, v: fem.Field, found: wp.array[float]):
    found[s.qp_index] = v(s)


@fem.integrand
def value(s: fem.Sample, v: fem.Field):
    return v(s)


CELL = np.array([0.5, 1.0 / 3.0])


class Particles:
    """Sixty of them, on a grid of twelve cells; the first numbers that were drawn are those that Warp was given."""

    def __init__(self):
        rng = np.random.default_rng(5)
        n = self.count = 60
        self.x = (rng.uniform(0.02, 0.98, (n, 2)) * [2.0, 1.0] * [1.0, 0.7]).astype(np.float32)
        self.speeds = rng.normal(size=n).astype(np.float32)
        self.measures = rng.uniform(0.01, 0.02, n).astype(np.float32)
        self.cells = rng.integers(0, 12, (n, 2)).astype(np.int32)
        coords = np.concatenate([rng.uniform(0, 1, (n, 2, 2)), np.zeros((n, 2, 1))], -1).astype(np.float32)
        fractions = rng.uniform(0, 0.5, (n, 2)).astype(np.float32)
        self.spread = (wp.array(self.cells, dtype=int), wp.array(coords, dtype=wp.vec3), wp.array(fractions))
        self.positions, self.weights = wp.array(self.x, dtype=wp.vec2), wp.array(self.measures)
        self.grid = fem.Grid2D(res=wp.vec2i(4, 3), bounds_hi=wp.vec2(2.0, 1.0))
        self.space = fem.make_polynomial_space(self.grid, degree=1)

    def part(self):
        mask = np.ones(12, np.int32)
        mask[[0, 5, 11]] = 0
        return fem.ExplicitGeometryPartition(self.grid, wp.array(mask, dtype=int))


# Sums of a linear form, sorted; of a functional; of a matrix times a vector, sorted; points: all, in cells, cells with
# some, most in one.
OF_WARP = {
    "measured": ([-0.0252643, -0.0232986, -0.0189675, -0.0157359, -0.0110269, -0.00402785, -0.000738867,
        -0.000500251, -0.000269695, -7.28159e-07, 0, 0, 0.00189659, 0.00296989, 0.00543082, 0.00928169,
        0.00935996, 0.0199531, 0.0269883, 0.0352227], 0.0693407, [-0.0349792, -0.0277004, -0.0126506,
        -0.00213842, -5.24196e-05, -2.5242e-05, -1.83958e-05, 0, 0, 0.00171747, 0.00208226, 0.00504874,
        0.00597198, 0.00736548, 0.00764402, 0.00955504, 0.0110172, 0.0213874, 0.0270045, 0.037028], [60, 60,
        10.0, 11]),
    "equal": ([-0.144326, -0.0527579, -0.0476664, -0.0394048, -0.0168817, -0.0133948, -0.00909111, -0.00728828,
        -0.00266171, -1.13891e-05, 0, 0, 0.00659313, 0.00666206, 0.0129836, 0.0209064, 0.0320717, 0.0340795,
        0.0424633, 0.0804278], 0.198063, [-0.0789685, -0.0417306, -0.030964, -0.00858228, -0.00482462,
        -0.000517074, -0.000287726, -0.000284376, 0, 0, 0.00208317, 0.00334255, 0.0111925, 0.0124909, 0.0152776,
        0.0161898, 0.0198393, 0.0331491, 0.0426176, 0.0590742], [60, 60, 10.0, 11]),
    "spread": ([-0.0186247, -0.0116516, -0.00851708, -0.00793179, -0.0078882, -0.00649266, 0.00116975,
        0.00129209, 0.00149924, 0.00174888, 0.00189307, 0.00217029, 0.00268287, 0.00315635, 0.00415009,
        0.00422292, 0.00549444, 0.00656934, 0.00738331, 0.00793196], 0.00406437, [-0.0115878, -0.00866826,
        -0.00269842, -0.00233943, -0.00225636, -0.00118721, -0.000966855, -0.000835756, 0.000784984, 0.00107422,
        0.00121994, 0.00137679, 0.00355532, 0.00392912, 0.00670419, 0.006964, 0.00722966, 0.0103325, 0.0131367,
        0.0137406], [60, 120, 12.0, 14]),
}  # fmt: skip


@pytest.mark.parametrize("kind", OF_WARP)
def test_forms_have_the_numbers_of_warp(kind):
    p = Particles()
    pic = fem.PicQuadrature(fem.Cells(p.grid), p.spread if kind == "spread" else p.positions,
                            None if kind == "equal" else p.weights)  # fmt: skip
    v, u = fem.make_test(p.space), fem.make_trial(p.space)
    speeds = {"speeds": wp.array(p.speeds)}
    b = fem.integrate(load, quadrature=pic, fields={"v": v}, values=speeds)
    A = fem.integrate(mass, quadrature=pic, fields={"v": v, "u": u})
    y = A @ wp.array(np.cos(np.arange(20)), dtype=float)
    expected_b, expected_total, expected_y, counts = OF_WARP[kind]
    np.testing.assert_allclose(np.sort(b.numpy()), expected_b, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(np.sort(y.numpy()), expected_y, rtol=1e-4, atol=1e-7)
    assert float(fem.integrate(total, quadrature=pic, values=speeds)) == pytest.approx(expected_total, rel=1e-4)
    assert [pic.total_point_count(), pic.evaluation_point_count(), pic.active_cell_count(),
            pic.max_points_per_element()] == counts  # fmt: skip


def hat(nodes, x):
    """The values at x of the functions of nodes of the grid, bilinear in each cell."""
    return np.prod(np.maximum(0.0, 1.0 - abs((x[:, None] - nodes) / CELL)), axis=-1)


def cell_of(x):
    return np.floor(x / CELL).astype(int) @ [3, 1]


def test_a_part_of_a_geometry_has_its_own_particles_and_nodes():
    p = Particles()
    part = p.part()
    is_inside = np.isin(cell_of(p.x), part.cells)
    assert 0 < is_inside.sum() < p.count
    domain = fem.Cells(part)
    pic = fem.PicQuadrature(domain, p.positions, p.weights)
    assert pic.evaluation_point_count() == is_inside.sum()
    nodes = fem.make_space_partition(p.space.topology, geometry_partition=part, with_halo=False)
    chosen = nodes.space_node_indices().numpy()
    assert nodes.node_count() == len(chosen) == 18 == nodes.owned_node_count()
    v, u = (make(p.space, space_partition=nodes) for make in (fem.make_test, fem.make_trial))
    weights = np.where(is_inside, p.measures, 0.0)
    at = hat(p.space.node_positions().numpy()[chosen], p.x.astype(np.float64))
    b = fem.integrate(load, quadrature=pic, fields={"v": v}, values={"speeds": wp.array(p.speeds)})
    np.testing.assert_allclose(b.numpy(), at.T @ (weights * p.speeds), rtol=1e-4, atol=1e-7)
    A = fem.integrate(mass, quadrature=pic, fields={"v": v, "u": u})
    assert (A.nrow, A.ncol) == (18, 18)
    x = np.cos(np.arange(18))
    found = (A @ wp.array(x, dtype=float)).numpy()
    np.testing.assert_allclose(found, at.T @ (weights * (at @ x)), rtol=1e-3, atol=1e-6)


def test_fields_are_bound_to_another_grid():
    p, other = Particles(), Particles()
    other.grid = fem.Grid2D(res=wp.vec2i(6, 3), bounds_hi=wp.vec2(2.0, 1.0))
    other.space = fem.make_polynomial_space(other.grid, degree=1)
    mask = wp.array(np.arange(18) % 4 > 0).view(wp.uint8)
    part = fem.ExplicitGeometryPartition(other.grid, mask)
    nodes = fem.make_space_partition(other.space.topology, geometry_partition=part, with_halo=False)
    domain = fem.Cells(part)
    field, made = p.space.make_field(), other.space.make_field(nodes)
    v, u = fem.make_test(p.space), fem.make_trial(p.space)
    values = field.dof_values
    field.rebind(p.space, None)
    assert field.dof_values is values
    field.rebind(other.space, nodes)
    v.rebind(other.space, fem.make_space_restriction(space_partition=nodes, domain=domain))
    u.rebind(other.space, nodes, domain)
    fresh = fem.make_test(other.space, space_partition=nodes), fem.make_trial(other.space, space_partition=nodes)
    for f in (field, made):
        fem.interpolate(square, dest=f, at=domain)
    np.testing.assert_array_equal(field.dof_values.numpy(), made.dof_values.numpy())
    assert abs(made.dof_values.numpy()).max() > 1
    x = made.dof_values
    found, expected = (
        (fem.integrate(mass, fields={"u": b, "v": a}, domain=domain) @ x).numpy() for a, b in ((v, u), fresh)
    )
    np.testing.assert_array_equal(found, expected)
    uniform = fem.UniformField(fem.Cells(p.grid), 2.0)
    uniform.domain = domain
    assert float(fem.integrate(value, fields={"v": uniform}, domain=domain)) == pytest.approx(part.cell_count() * 2 / 9)
    double = fem.Grid2D(res=wp.vec2i(2, 2), scalar_type=wp.float64)
    with pytest.raises(wp.KernelError, match="domain: expected one of a geometry of float32, got float64"):
        uniform.domain = fem.Cells(double)
    with pytest.raises(wp.KernelError, match="rebind: space: expected one like"):
        field.rebind(fem.make_polynomial_space(other.grid, degree=2), None)


@pytest.mark.parametrize("reduction", ["first", "mean", "sum"])
def test_a_matrix_gives_the_values_of_a_function_at_other_nodes(reduction):
    """Its product with nodal values is what `interpolate` gives for the field of these values."""
    p = Particles()
    domain = fem.Cells(p.part())
    rng = np.random.default_rng(9)
    for dtype in (float, wp.vec2):
        coarse = fem.make_polynomial_space(p.grid, degree=1, dtype=dtype)
        fine = fem.make_polynomial_space(p.grid, degree=2, dtype=dtype)
        nodes = fem.make_space_partition(fine.topology, geometry_partition=domain.geometry_partition, with_halo=False)
        restriction = fem.make_space_restriction(space_partition=nodes, domain=domain)
        field, expected = coarse.make_field(), fine.make_field(nodes)
        field.dof_values.assign(rng.normal(size=field.dof_values.numpy().shape))
        fem.interpolate(value, dest=expected, at=domain, fields={"v": field}, reduction=reduction)
        size = coarse.VALUE_DOF_COUNT
        block = float if size == 1 else wp.types.matrix(shape=(size, size), dtype=float)
        A = wp.sparse.bsr_zeros(nodes.node_count(), coarse.node_count(), block)
        trial = fem.make_trial(coarse, domain=domain)
        fem.interpolate(value, dest=A, dest_space=fine, at=restriction, fields={"v": trial}, reduction=reduction)
        found = (A @ field.dof_values).numpy()
        assert abs(found).max() > 0.5
        np.testing.assert_allclose(found, expected.dof_values.numpy(), atol=1e-5)
        with pytest.raises(wp.KernelError, match="reduction: expected first, mean or sum, as dest is a matrix"):
            fem.interpolate(value, dest=A, dest_space=fine, at=restriction, fields={"v": trial})


def test_a_kernel_reads_the_numbers_of_a_part():
    p = Particles()
    part = p.part()
    nodes = fem.make_space_partition(p.space.topology, geometry_partition=part, with_halo=False)
    res = p.grid.res

    @wp.kernel
    def read(cells: part.CellArg, numbers: nodes.PartitionArg, found: wp.array2d[int], of_nodes: wp.array[int]):
        i = wp.tid()
        if i < found.shape[0]:
            found[i, 0] = part.cell_index(cells, i)
            at = fem.Grid2D.get_cell(res, found[i, 0])
            found[i, 1] = at[0] * 3 + at[1]
            found[i, 2] = part.partition_cell_index(cells, found[i, 0])
        of_nodes[i] = nodes.partition_node_index(numbers, i)

    found, of_nodes = wp.zeros((9, 3), dtype=int), wp.zeros(20, dtype=int)
    wp.launch(read, 20, [part.cell_arg_value("cpu"), nodes.partition_arg_value("cpu")], [found, of_nodes])
    kept = np.delete(np.arange(12), [0, 5, 11])
    np.testing.assert_array_equal(found.numpy(), np.stack([kept, kept, np.arange(9)], -1))
    expected = np.full(20, fem.NULL_NODE_INDEX)
    expected[nodes.space_node_indices().numpy()] = np.arange(18)
    np.testing.assert_array_equal(of_nodes.numpy(), expected)
    assert p.space.topology.MAX_NODES_PER_ELEMENT == 4
    corners = np.stack(np.meshgrid(np.linspace(0, 2, 5), np.linspace(0, 1, 4), indexing="ij"), -1).reshape(-1, 2)
    np.testing.assert_allclose(p.space.basis.node_positions().numpy(), corners, atol=1e-6)


@pytest.mark.parametrize(("with_halo", "count", "owned"), [(True, 16, 12), (False, 12, 12)])
def test_a_halo_has_the_nodes_of_cells_beyond(with_halo, count, owned):
    p = Particles()
    half = fem.LinearGeometryPartition(p.grid, 0, 2)
    nodes = fem.make_space_partition(p.space.topology, geometry_partition=half, with_halo=with_halo)
    assert (nodes.node_count(), nodes.owned_node_count()) == (count, owned)  # as in Warp
    assert nodes.space_node_indices().list() == list(range(count))


def test_cells_of_particles_may_have_the_numbers_of_the_part():
    p = Particles()
    part = p.part()
    _, coords, fractions = p.spread
    numbers = np.random.default_rng(3).integers(-1, 9, p.cells.shape).astype(np.int32)
    of_geometry = np.where(numbers < 0, -1, part.cells[numbers]).astype(np.int32)
    ours, theirs = (
        fem.PicQuadrature(fem.Cells(part), (wp.array(c, dtype=int), coords, fractions), p.weights,
                          use_domain_element_indices=is_of_part)
        for c, is_of_part in ((numbers, True), (of_geometry, False))
    )  # fmt: skip
    speeds = {"speeds": wp.array(p.speeds)}
    found, expected = (
        fem.integrate(load, quadrature=q, fields={"v": fem.make_test(p.space, domain=fem.Cells(part))}, values=speeds)
        for q in (ours, theirs)
    )
    assert abs(expected.numpy()).max() > 1e-3
    np.testing.assert_array_equal(found.numpy(), expected.numpy())
    counts = np.bincount(numbers[numbers >= 0], minlength=9)
    np.testing.assert_array_equal(np.diff(ours.cell_particle_offsets.numpy()), counts)  # of the part's cells only
    assert theirs.cell_particle_offsets.shape == (13,)
    beyond = wp.full(p.count, 11, dtype=int), wp.zeros(p.count, dtype=wp.vec3)
    with pytest.raises(wp.KernelError, match="cells from -1 to 8, got 11 to 11"):
        fem.PicQuadrature(fem.Cells(part), beyond, use_domain_element_indices=True)


def test_a_field_of_a_part_is_zero_at_other_nodes():
    p = Particles()
    part = p.part()
    nodes = fem.make_space_partition(p.space.topology, geometry_partition=part, with_halo=False)
    field = p.space.make_field(nodes)
    fem.interpolate(square, dest=field, at=fem.Cells(part))
    places = p.space.node_positions().numpy()
    chosen = nodes.space_node_indices().numpy()
    np.testing.assert_allclose(field.dof_values.numpy(), places[chosen, 0] ** 2 + places[chosen, 1], rtol=1e-6)
    whole = p.space.make_field()
    filled = np.zeros(20, np.float32)
    filled[chosen] = field.dof_values.numpy()
    whole.dof_values.assign(filled)
    found = [wp.zeros(p.grid.cell_count(), dtype=float) for _ in range(2)]
    for f, out in zip((field, whole), found, strict=True):
        fem.interpolate(f, dest=out, at=fem.Cells(p.grid))
    np.testing.assert_array_equal(found[0].numpy(), found[1].numpy())
    with pytest.raises(wp.KernelError, match="expected float32 of shape \\(18,\\)"):
        field.dof_values = wp.zeros(20, dtype=float)


def test_values_at_particles_have_the_numbers_of_the_particles():
    p = Particles()
    pic = fem.PicQuadrature(fem.Cells(p.grid), p.positions)
    field = p.space.make_field()
    values = np.cos(np.arange(20)).astype(np.float32)
    field.dof_values.assign(values)
    expected = hat(p.space.node_positions().numpy(), p.x) @ values
    found = wp.zeros(p.count, dtype=float)
    fem.interpolate(write_value, at=pic, fields={"v": field}, values={"found": found})
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)
    found.zero_()
    fem.interpolate(field, dest=found, at=pic)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("max_dist", [0.0, 0.2])
def test_a_particle_outside_counts_if_it_is_near(max_dist):
    grid = fem.Grid2D(res=wp.vec2i(2, 2))
    x = np.array([[0.25, 0.25], [1.0, 1.0], [1.15, 0.5], [1.5, 0.5], [np.nan, 0.5]], np.float32)
    pic = fem.PicQuadrature(fem.Cells(grid), wp.array(x, dtype=wp.vec2), wp.ones(5, dtype=float), max_dist=max_dist)
    assert sorted(pic.cell_particle_indices.list()) == ([0, 1] if max_dist == 0.0 else [0, 1, 2])
    mask = wp.full(6, 7, dtype=int)
    pic.fill_element_mask(mask)
    assert mask.numpy()[4:].tolist() == [7, 7]
    assert mask.numpy()[:4].sum() == pic.active_cell_count()


def test_particles_have_gradients_by_their_places_and_measures():
    p = Particles()
    field = p.space.make_field()
    field.dof_values.assign(np.cos(np.arange(20)).astype(np.float32))

    def energy(x, measures, out=None, tape=None):
        x, measures = wp.array(x, dtype=wp.vec2, requires_grad=True), wp.array(measures, requires_grad=True)
        out = wp.zeros(1, dtype=float, requires_grad=True)
        with tape or wp.Tape() as tape:
            pic = fem.PicQuadrature(fem.Cells(p.grid), x, measures)
            fem.integrate(value, quadrature=pic, fields={"v": field}, output=out)
        tape.backward(out)
        return float(out.numpy()[0]), x.grad.numpy(), measures.grad.numpy()

    found, by_x, by_measure = energy(p.x, p.measures)
    at = hat(p.space.node_positions().numpy(), p.x.astype(np.float64)) @ np.cos(np.arange(20))
    assert found == pytest.approx(at @ p.measures, rel=1e-4)
    np.testing.assert_allclose(by_measure, at, rtol=1e-4, atol=1e-5)
    step = np.array([1e-5, 0.0])
    nodes = p.space.node_positions().numpy()
    slope = (hat(nodes, p.x + step) - hat(nodes, p.x - step)) @ np.cos(np.arange(20)) / 2e-5
    np.testing.assert_allclose(by_x[:, 0], slope * p.measures, rtol=1e-3, atol=1e-6)


def test_another_domain_of_the_geometry_may_be_set():
    p = Particles()
    pic = fem.PicQuadrature(fem.Cells(p.grid), p.positions, p.weights)
    part = p.part()
    pic.domain = fem.Cells(part)
    speeds = {"speeds": wp.ones(p.count)}
    is_inside = np.isin(cell_of(p.x), part.cells)
    expected = (p.x[:, 0] * p.measures)[is_inside].sum()
    assert float(fem.integrate(total, quadrature=pic, values=speeds)) == pytest.approx(expected, rel=1e-4)


REFUSED = {
    "domain: expected cells, got sides": lambda p: fem.PicQuadrature(fem.Sides(p.grid), p.positions),
    "positions: expected vec2": lambda p: fem.PicQuadrature(fem.Cells(p.grid), wp.zeros(3, dtype=wp.vec3)),
    "positions: expected an array outside of JAX": lambda p: fem.PicQuadrature(fem.Cells(p.grid), p.x),
    "measures: expected float32 of shape \\(60,\\)": lambda p: fem.PicQuadrature(
        fem.Cells(p.grid), p.positions, wp.zeros(3)
    ),
    "cells from -1 to 11, got 12 to 12": lambda p: fem.PicQuadrature(
        fem.Cells(p.grid), (wp.full(1, 12, dtype=int), wp.zeros(1, dtype=wp.vec3))
    ),
    "env_indices: expected an array of 60 integers": lambda p: fem.PicQuadrature(
        fem.Cells(p.grid), p.positions, env_indices=p.positions
    ),
    "max_dist: expected 0 on a part": lambda p: fem.PicQuadrature(fem.Cells(p.part()), p.positions, max_dist=0.1),
    "positions cannot be looked up": lambda p: fem.PicQuadrature(
        fem.Cells(fem.Trimesh2D(wp.array([[0, 1, 2]], dtype=int), wp.zeros(3, dtype=wp.vec2))), p.positions
    ),
    "use_domain_element_indices=True keeps": lambda p: setattr(
        fem.PicQuadrature(fem.Cells(p.grid), p.positions, use_domain_element_indices=True), "domain", fem.Cells(p.grid)
    ),
    "points that are in several elements": lambda p: fem.interpolate(
        p.space.make_field(), dest=wp.zeros(p.count), at=fem.PicQuadrature(fem.Cells(p.grid), p.spread)
    ),
    "space_partition: expected one of the space's nodes": lambda p: p.space.make_field(
        fem.make_space_partition(fem.make_polynomial_space(p.grid, degree=2).topology)
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_does_not_fit_is_refused(text):
    with pytest.raises(wp.KernelError, match=text):
        REFUSED[text](Particles())


@pytest.mark.parametrize("dimension", [2, 3])
def test_a_kernel_looks_up_cells_of_a_part(dimension):
    """The closest of the part's cells, by brute force in NumPy, up to a distance of half an edge or `max_dist`."""
    rng = np.random.default_rng(11)
    res, size = np.array([4, 3, 5])[:dimension], np.array([0.5, 1.0, 0.25])[:dimension]
    vector = wp.types.vector(length=dimension, dtype=wp.float32)
    grid_of = fem.Grid2D if dimension == 2 else fem.Grid3D
    grid = grid_of(res, bounds_lo=vector(*(-size)), bounds_hi=vector(*(size * (res - 1))))
    mask = rng.uniform(size=res.prod()) < 0.15
    domain = fem.Cells(fem.ExplicitGeometryPartition(grid, wp.array(mask.astype(np.int32))))
    find, coordinates = domain.element_partition_lookup, domain.element_coordinates
    place = domain.element_partition_index

    @wp.kernel
    def look_up(
        geometry: domain.ElementArg, index: domain.ElementIndexArg, positions: wp.array[vector], reach: float,
        cells: wp.array[int], places: wp.array[int], coords: wp.array[wp.vec3], inner: wp.array[wp.vec3],
    ):  # fmt: skip
        i = wp.tid()
        s = find(domain.DomainArg(geometry, index), positions[i], reach)
        cells[i] = s.element_index
        places[i] = place(index, s.element_index)
        inner[i] = s.element_coords
        if s.element_index != fem.NULL_ELEMENT_INDEX:
            coords[i] = coordinates(geometry, s.element_index, positions[i])

    n = 200
    x = (rng.uniform(-1.0, res - 1.0, (n, dimension)) * size).astype(np.float32)
    lows = np.stack(np.unravel_index(np.arange(res.prod()), res), -1) * size - size
    beyond = x[:, None] - np.clip(x[:, None], lows, lows + size)
    distances = np.where(mask, np.linalg.norm(beyond, axis=-1), np.inf)
    chosen = np.flatnonzero(mask)
    for reach in (0.0, 0.3):
        out = [wp.zeros(n, dtype=d) for d in (int, int, wp.vec3, wp.vec3)]
        wp.launch(look_up, n, [domain.element_arg_value("cpu"), domain.element_index_arg_value("cpu"),
                               wp.array(x, dtype=vector), reach], out)  # fmt: skip
        cells, places, coords, inner = (a.numpy() for a in out)
        is_near = distances.min(1) <= max(reach, size.min() / 2)
        assert 20 < is_near.sum() < n
        np.testing.assert_array_equal(cells >= 0, is_near)
        np.testing.assert_array_equal(places[~is_near], -1)
        np.testing.assert_array_equal(chosen[places[is_near]], cells[is_near])
        np.testing.assert_allclose(distances[is_near, cells[is_near]], distances[is_near].min(1), atol=1e-6)
        of_cell = ((x - lows[cells]) / size)[is_near]
        np.testing.assert_allclose(coords[is_near, :dimension], of_cell, atol=2e-6)
        np.testing.assert_allclose(inner[is_near, :dimension], np.clip(of_cell, 0, 1), atol=2e-6)
