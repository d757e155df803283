"""`HashGrid` against brute force and SciPy's trees: every neighbour once, wherever the points are."""

# ruff: noqa: RUF046, UP018
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import functools
import itertools

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st
from jax import export
from scipy.spatial import cKDTree

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.geometry import hash_grid, neighbors


@wp.kernel
def count_visits(grid: wp.HashGrid, places: wp.array[wp.vec3], r: float, visits: wp.array2d[int]):
    i = wp.tid()
    for j in wp.hash_grid_query(grid, places[i], r):
        visits[i, j] += 1


@wp.kernel
def count_visits_by_hand(grid: wp.HashGrid, places: wp.array[wp.vec3], r: float, visits: wp.array2d[int]):
    i = wp.tid()
    query = wp.hash_grid_query(grid, places[i], r)
    j = int(0)
    while wp.hash_grid_query_next(query, j):
        visits[i, j] += 1


def visits(grid, places, r, kernel=count_visits):
    """How often each query finds each point."""
    places = jnp.asarray(places, jnp.float32)
    shape = len(places), grid.ids.shape[0]
    call = wp.jax_kernel(kernel, in_out_argnames=["visits"], launch_dims=shape[0])
    return np.asarray(call(grid, places, r, jnp.zeros(shape, jnp.int32))[0])


def distances(places, points, period=None):
    """In double precision."""
    way = np.asarray(places, np.float64)[:, None] - np.asarray(points, np.float64)[None]
    if period is not None:
        period = np.broadcast_to(np.asarray(period, np.float64), 3)
        way = np.where(period > 0, way - period * np.round(way / np.where(period > 0, period, 1)), way)
    return np.linalg.norm(way, axis=-1)


build = jax.jit(wp.HashGrid.build, static_argnames="dims")


def check(points, places, r, dims, width=None, period=None):
    points = np.asarray(points, np.float32).reshape(-1, 3)
    grid = build(points, width or r, dims=dims, period=period)
    found = visits(grid, places, r)
    assert found.max(initial=0) <= 1
    assert found[distances(places, points, period) <= r].all()
    return found


COORDINATES = st.sampled_from([0.0, -1.0, 1.0, 0.5, -0.25, 100.0, -1e6, 3e9, -3e38]) | st.floats(-4, 4, width=32)
POINTS = st.lists(st.tuples(COORDINATES, COORDINATES, COORDINATES), max_size=12)


@hypothesis.given(
    POINTS,
    st.sampled_from([(1, 1, 1), (1, 6, 2), (2, 3, 1), (6, 4, 5)]),  # each is compiled
    st.sampled_from([0.0, 0.3, 1.0, 7.0, np.inf]),
    st.sampled_from([0.25, 1.0]),
)
def test_every_point_within_the_distance_is_found_once(points, dims, r, width):
    padded = np.asarray([*points, *itertools.repeat((np.nan, 0, 0), 12 - len(points))], np.float32)
    found = check(padded, padded, r, dims, width)
    assert not found[:, len(points) :].any(), "a point that is nowhere was found"
    assert not found[len(points) :].any(), "a query from nowhere found something"


def test_both_spellings_of_the_loop_are_one():
    points = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    grid = wp.HashGrid.build(points, 0.4, (5, 7, 3))
    found = visits(grid, points, 0.4)
    np.testing.assert_array_equal(visits(grid, points, 0.4, count_visits_by_hand), found)
    stepped = np.zeros((200, 200), np.int32)
    grid = jax.tree.map(np.asarray, grid)
    count_visits.interpret(grid, points, np.float32(0.4), stepped, dim=20)
    np.testing.assert_array_equal(stepped[:20], found[:20])


def test_few_candidates_are_looked_at_in_vain():
    points = np.random.default_rng(0).uniform(0, 1, (3000, 3)).astype(np.float32)
    found = check(points, points[:100], 0.1, 10)
    assert found.sum(axis=1).max() < 0.05 * len(points)  # 27 cells of 1000


@jax.jit
def in_box(points, r, box):
    return neighbors(wp.HashGrid.build(points, r, (8, 9, 5), period=box), r, 299)


@pytest.mark.parametrize("r", [0.05, 0.3, 0.5, 0.9, 3.0])
def test_periodic_boxes_against_scipy(r):
    rng = np.random.default_rng(1)
    box = np.array([1.0, 1.5, 0.75])
    points = (rng.uniform(0, 1, (300, 3)) * box).astype(np.float32)
    tree = cKDTree(np.mod(points.astype(np.float64), box), boxsize=box)
    found = jax.tree.map(np.asarray, in_box(points, r, box.astype(np.float32)))
    expected = tree.query_ball_point(np.mod(points.astype(np.float64), box), r)
    gap = np.abs(distances(points, points, box) - r).min()
    assert gap > 1e-7, "choose other points: rounding decides"
    for i, ours in enumerate(found.indices):
        assert sorted(set(expected[i]) - {i}) == sorted(ours[: found.counts[i]].tolist())
    assert not found.overflow


def test_images_of_points_outside_of_the_box_are_found():
    rng = np.random.default_rng(2)
    points = rng.uniform(-3, 5, (200, 3)).astype(np.float32)
    for period in (1.0, (1.0, 0.0, 2.0)):
        check(points, points, 0.2, 6, period=jnp.asarray(period))
    near = np.array([[0.0, 0, 0], [1.0, 0, 0], [-1.0, 0, 0], [7.0, 0, 0]], np.float32)
    assert check(near, near, 0.01, 16, period=1.0).all()


@functools.partial(jax.jit, static_argnames="dim")
def listed(points, r, period, dim):
    return neighbors(wp.HashGrid.build(points, r, (dim, 3, 4), period=period), r, 60)


@hypothesis.given(
    st.integers(0, 2**31),
    st.integers(0, 60),
    st.floats(1 / 64, 2, width=32),
    st.booleans(),
    st.sampled_from([1, 2, 9]),  # each is compiled
)
def test_neighbors_as_brute_force_finds_them(seed, n, r, is_periodic, dim):
    rng = np.random.default_rng(seed)
    points = np.full((60, 3), np.nan, np.float32)
    points[:n] = rng.normal(size=(n, 3))
    period = 2.5 if is_periodic else 0.0
    found = jax.tree.map(np.asarray, listed(points, r, period, dim))
    apart = distances(points, points, period)
    np.fill_diagonal(apart, np.inf)
    for i in range(60):
        ours = found.indices[i, : found.counts[i]]
        assert len(set(ours.tolist())) == len(ours)
        near = np.zeros(60, bool)
        near[ours] = True
        clear = ~(np.abs(apart[i] - r) < 1e-5)  # rounding decides about the others
        np.testing.assert_array_equal(near[clear], (apart[i] <= r)[clear])
        assert (found.indices[i, found.counts[i] :] == 60).all()


def test_lists_that_are_too_short_say_so():
    points = jnp.zeros((5, 3))
    for capacity, overflow in ((0, True), (3, True), (4, False), (9, False)):
        found = neighbors(wp.HashGrid.build(points, 1.0, 4), 1.0, capacity)
        assert found.indices.shape == (5, capacity)
        assert bool(found.overflow) == overflow
        assert found.counts.tolist() == [4] * 5
        for i, row in enumerate(found.indices):
            assert len(set(row.tolist()) - {i, 5}) == min(capacity, 4)


@pytest.mark.parametrize("r", [0.5, 1.0])
def test_no_points_at_all(r):
    grid = wp.HashGrid.build(jnp.zeros((0, 3)), 1.0, (2, 3, 4))
    found = neighbors(grid, r, 7)
    assert found.indices.shape == (0, 7)
    assert not found.overflow
    assert visits(grid, [[0.0, 0, 0]], r).shape == (1, 0)


@wp.kernel
def count_of_group(
    grid: wp.HashGrid, places: wp.array[wp.vec3], r: float, groups: wp.array[int], visits: wp.array2d[int]
):
    i = wp.tid()
    for j in wp.hash_grid_query(grid, places[i], r, groups[i]):
        visits[i, j] += 1


def test_groups():
    rng = np.random.default_rng(3)
    points = rng.uniform(0, 1, (400, 3)).astype(np.float32)
    groups = rng.choice(np.array([-(2**31), -1, 0, 7, 2**31 - 1], np.int32), 400)
    asked = rng.choice(np.array([-(2**31), -1, 0, 7, 2**31 - 1, 5], np.int32), 400)
    near = distances(points, points) <= 0.2
    for given in (groups, None):
        grid = wp.HashGrid.build(points, 0.2, (5, 3, 4), groups=given)
        call = wp.jax_kernel(count_of_group, in_out_argnames=["visits"], launch_dims=400)
        found = np.asarray(call(grid, points, 0.2, asked, jnp.zeros((400, 400), jnp.int32))[0])
        is_asked = asked[:, None] == groups if given is not None else np.ones((400, 400), bool)
        assert found.max() == 1
        assert found[near & is_asked].all()
        assert not found[~is_asked].any()
        assert visits(grid, points, 0.2)[near].all()


def energy_of_pair(d2):
    inverse = 1 / d2**3
    return 4 * (inverse * inverse - inverse)


@wp.kernel
def lennard_jones(grid: wp.HashGrid, x: wp.array[wp.vec3], r: float, energy: wp.array[float]):
    i = wp.tid()
    for j in wp.hash_grid_query(grid, x[i], r):
        way = wp.hash_grid_offset(grid, x[i], x[j])
        d2 = wp.dot(way, way)
        if j != i and d2 <= r * r:
            inverse = 1.0 / (d2 * d2 * d2)
            energy[i] += 2.0 * (inverse * inverse - inverse)


def test_gradients_of_a_lennard_jones_energy_against_brute_force_in_double_precision():
    side = np.stack(np.meshgrid(*[np.arange(5) * 1.2] * 3, indexing="ij"), -1).reshape(-1, 3)
    points = (side + np.random.default_rng(4).uniform(-0.15, 0.15, side.shape)).astype(np.float32)
    n, r, box = len(points), 2.5, 6.0
    call = wp.jax_kernel(lennard_jones, in_out_argnames=["energy"], launch_dims=n)

    @jax.jit
    def in_kernel(x):
        return call(wp.HashGrid.build(x, r, 3, period=box), x, r, jnp.zeros(n))[0].sum()

    @jax.jit
    def of_lists(x):
        found = neighbors(wp.HashGrid.build(x, r, 3, period=box), r, 80)
        way = x.at[found.indices].get(mode="fill", fill_value=jnp.inf) - x[:, None]
        is_there = found.indices < n
        way = jnp.where(is_there[..., None], way - box * jnp.round(way / box), 1.0)
        return (0.5 * jnp.where(is_there, energy_of_pair((way**2).sum(-1)), 0)).sum()

    def plain(x):
        way = x[:, None] - x
        way = way - box * jnp.round(way / box)
        d2 = (way**2).sum(-1) + 100.0 * jnp.eye(n)
        return 0.5 * jnp.where(d2 <= r * r, energy_of_pair(d2), 0).sum()

    with jax.enable_x64(True):
        exact = points.astype(np.float64)
        value, gradient = jax.value_and_grad(plain)(exact)
        direction = np.random.default_rng(5).normal(size=points.shape)
        second = np.asarray(jax.jvp(jax.grad(plain), (exact,), (direction,))[1])
        value, gradient = np.asarray(value), np.asarray(gradient)
    scale, size = np.abs(gradient).max(), np.abs(second).max()
    for ours in (in_kernel, of_lists):
        found, slope = jax.value_and_grad(ours)(points)
        np.testing.assert_allclose(found, value, rtol=1e-5)
        np.testing.assert_allclose(slope, gradient, atol=2e-5 * scale)
        _, pushed = jax.jvp(ours, (points,), (direction.astype(np.float32),))
        np.testing.assert_allclose(pushed, (gradient * direction).sum(), rtol=1e-3)
        turned = jax.jvp(jax.grad(ours), (points,), (direction.astype(np.float32),))[1]
        np.testing.assert_allclose(turned, second, atol=5e-5 * size)


def test_under_vmap_jit_and_scan():
    rng = np.random.default_rng(6)
    points = rng.uniform(0, 1, (3, 50, 3)).astype(np.float32)

    def counts(p):
        return neighbors(wp.HashGrid.build(p, 0.3, 4, period=1.0), 0.3, 50).counts

    expected = np.stack([(distances(p, p, 1.0) <= 0.3).sum(1) - 1 for p in points])
    np.testing.assert_array_equal(jax.jit(jax.vmap(counts))(points), expected)
    grids = jax.vmap(lambda p: wp.HashGrid.build(p, 0.3, 4, period=1.0))(points)
    shared = jax.vmap(lambda grid, r: neighbors(grid, r, 50).counts, (0, None))(grids, 0.3)
    np.testing.assert_array_equal(shared, expected)
    _, in_scan = jax.lax.scan(lambda carry, p: (carry, counts(p)), None, points)
    np.testing.assert_array_equal(in_scan, expected)

    def step(grid, p):
        return wp.HashGrid.build(p, 0.3, 4, period=1.0), neighbors(grid, 0.3, 50).counts

    last, late = jax.jit(lambda g, p: jax.lax.scan(step, g, p))(jax.tree.map(lambda a: a[2], grids), points)
    np.testing.assert_array_equal(late, expected[[2, 0, 1]])
    assert (last.dim_x, last.start.shape) == (4, (65,))


def test_export():
    def counts(p):
        return neighbors(wp.HashGrid.build(p, 0.3, 4), 0.3, 9).counts

    points = np.random.default_rng(7).uniform(0, 1, (40, 3)).astype(np.float32)
    program = export.export(jax.jit(counts), disabled_checks=wp.export_checks())(points)
    np.testing.assert_array_equal(export.deserialize(program.serialize()).call(points), counts(points))


@wp.kernel
def count_doubles(grid: wp.HashGrid, x: wp.array[wp.vec3d], r: wp.float64, counts: wp.array[int]):
    i = wp.tid()
    for j in wp.hash_grid_query(grid, x[i], r):
        if wp.length(x[j] - x[i]) <= r:
            counts[i] += 1


def test_double_precision():
    points = np.random.default_rng(8).uniform(-1, 1, (300, 3)) + 1e6
    with jax.enable_x64(True):
        grid = wp.HashGrid.build(points, 0.25, 8)
        call = wp.jax_kernel(count_doubles, in_out_argnames=["counts"])
        found = call(grid, points, 0.25, jnp.zeros(300, jnp.int32), launch_dims=300)[0]
        with pytest.raises(KernelTypeError, match="points of float32"):
            neighbors(grid, 0.25, 10)
    np.testing.assert_array_equal(found, (distances(points, points) <= 0.25).sum(1))


# Outside of JAX


@wp.kernel
def count_within(grid: wp.HashGrid, x: wp.array[wp.vec3], r: float, counts: wp.array[int]):
    i = wp.hash_grid_point_id(grid, wp.tid())
    count = int(0)
    for j in wp.hash_grid_query(grid, x[i], r):
        if wp.length(x[j] - x[i]) <= r:
            count += 1
    counts[i] = count


def test_programs_of_warp_build_it_again_and_again():
    grid, rng = wp.HashGrid(8, 16, 4), np.random.default_rng(9)
    for n in (300, 300, 200, 0):
        points = rng.normal(size=(n, 3)).astype(np.float32)
        x, counts = wp.array(points, dtype=wp.vec3), wp.zeros(n, dtype=int)
        assert grid.build(x, 0.3) is None
        wp.launch(count_within, n, [grid.id, x, 0.3], [counts])
        np.testing.assert_array_equal(counts.numpy(), (distances(points, points) <= 0.3).sum(1))


@wp.kernel
def count_by_number(grid: wp.uint64, x: wp.array[wp.vec3], r: float, counts: wp.array[int]):
    i = wp.tid()
    for j in wp.hash_grid_query(grid, x[i], r):
        if wp.length(x[j] - x[i]) <= r:
            counts[i] += 1


def test_kernels_of_warp_take_its_number():
    points = np.random.default_rng(12).normal(size=(50, 3)).astype(np.float32)
    x, grid = wp.array(points, dtype=wp.vec3), wp.HashGrid(4, 4, 4)
    grid.build(x, 0.5)
    for number in (grid.id, wp.uint64(grid.id)):
        counts = wp.zeros(50, dtype=int)
        wp.launch(count_by_number, 50, [number, x, 0.5], [counts])
        np.testing.assert_array_equal(counts.numpy(), (distances(points, points) <= 0.5).sum(1))


def test_a_capture_builds_what_is_there_then():
    grid, x, counts = wp.HashGrid(8, 8, 8), wp.zeros(100, dtype=wp.vec3), wp.zeros(100, dtype=int)
    with wp.ScopedCapture() as capture:
        grid.build(x, 0.5)
        wp.launch(count_within, 100, [grid.id, x, 0.5], [counts])
    for seed in (1, 2):
        points = np.random.default_rng(seed).normal(size=(100, 3)).astype(np.float32)
        x.assign(points)
        wp.capture_launch(capture.graph)
        np.testing.assert_array_equal(counts.numpy(), (distances(points, points) <= 0.5).sum(1))


@wp.kernel
def sum_of_squares(grid: wp.HashGrid, x: wp.array[wp.vec3], r: float, out: wp.array[float]):
    i = wp.tid()
    for j in wp.hash_grid_query(grid, x[i], r):
        d2 = wp.length_sq(x[j] - x[i])
        if d2 <= r * r:
            wp.atomic_add(out, 0, d2)


def test_under_a_tape():
    points = np.random.default_rng(10).normal(size=(60, 3)).astype(np.float32)
    x, out = wp.array(points, dtype=wp.vec3, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)
    grid = wp.HashGrid(4, 4, 4)
    with wp.Tape() as tape:
        grid.build(x, 0.7)
        wp.launch(sum_of_squares, 60, [grid.id, x, 0.7], [out])
    tape.backward(out)
    way = points[:, None] - points
    near = (way**2).sum(-1) <= 0.49
    np.testing.assert_allclose(x.grad.numpy(), 4 * (way * near[..., None]).sum(1), rtol=1e-4, atol=1e-4)


def test_groups_and_strided_and_folded_points_outside_of_jax():
    rng = np.random.default_rng(11)
    points, groups = rng.normal(size=(200, 3)).astype(np.float32), rng.integers(-2, 3, 200).astype(np.int32)
    x = wp.array(points, dtype=wp.vec3)
    spread = wp.zeros(600, dtype=wp.vec3)
    wp.copy(spread[::3], x)
    in_jax = wp.HashGrid.build(points, 0.5, 6, groups=groups)
    for given in (x, spread[::3], x.reshape((10, 20))):
        grid = wp.HashGrid(6, 6, 6)
        grid.build(given, 0.5, wp.array(groups, dtype=int))
        for name in ("start", "ids", "groups", "per_length"):
            np.testing.assert_array_equal(np.asarray(getattr(grid, name)), np.asarray(getattr(in_jax, name)))


TWO = np.zeros((2, 3), np.float32)
REFUSED = [
    (lambda: wp.HashGrid.build(TWO[0], 1.0, 4), KernelValueError, r"points: expected the shape \(n, 3\), got \(3,\)"),
    (lambda: wp.HashGrid.build(np.zeros((2, 3), int), 1.0, 4), KernelTypeError, "points: expected floats"),
    (lambda: wp.HashGrid.build(TWO, 0.0, 4), KernelValueError, "radius: expected a positive number"),
    (lambda: wp.HashGrid.build(TWO, np.nan, 4), KernelValueError, "radius: expected a positive number"),
    (lambda: wp.HashGrid.build(TWO, 1.0, 4, period=-1.0), KernelValueError, "period: expected lengths"),
    (lambda: wp.HashGrid.build(TWO, 1.0, (4, 4)), KernelValueError, "expected 3 numbers of cells, got 2"),
    (lambda: wp.HashGrid.build(TWO, 1.0, (4, 0, 4)), KernelValueError, "build: dims: expected at least 1, got 0"),
    (lambda: wp.HashGrid.build(TWO, 1.0, 2.5), KernelTypeError, "build: dims: expected a number known before"),
    (lambda: wp.HashGrid.build(TWO, 1.0, 2048), KernelValueError, r"at most 2\^30 cells"),
    (lambda: wp.HashGrid.build(TWO, 1.0, 4, groups=np.zeros(3, int)), KernelValueError, "groups: expected 2 integers"),
    (lambda: wp.HashGrid(4, 4, 4).build(TWO, 1.0), KernelTypeError, "points: expected an array of vec3"),
    (lambda: wp.HashGrid(4, 4, 4).build(jnp.asarray(TWO), 1.0), KernelTypeError, "a grid does not change in JAX"),
    (lambda: wp.HashGrid(4, 4, 4).build(wp.zeros(2, dtype=wp.vec3d), 1.0), KernelTypeError, "an array of vec3"),
    (
        lambda: wp.HashGrid(4, 4, 4).build(wp.zeros(2, dtype=wp.vec3), 0.0),
        KernelValueError,
        "radius: expected a positive",
    ),
    (lambda: wp.HashGrid(4, 4, 4, dtype=wp.int32), KernelTypeError, "dtype: expected float16, float32 or float64"),
    (lambda: wp.HashGrid(4, 4, 0), KernelValueError, "dim_z: expected at least 1"),
    (lambda: neighbors(wp.HashGrid(4, 4, 4), 1.0, 4), KernelTypeError, r"expected HashGrid.build\(...\) of points"),
    (lambda: neighbors(wp.HashGrid.build(TWO, 1.0, 4), 1.0, -1), KernelValueError, "capacity: expected"),
    (lambda: neighbors(wp.HashGrid.build(TWO, 1.0, 4), TWO, 1), KernelValueError, "neighbors: r: expected one number"),
    (
        lambda: neighbors(jax.vmap(lambda x: wp.HashGrid.build(x, 1.0, 4))(TWO[None]), 1.0, 1),
        KernelValueError,
        "expected one HashGrid, got a batch",
    ),
    (lambda: wp.HashGrid.build("x", 1.0, 4), KernelTypeError, "points: expected an array, got 'x'"),
    (lambda: wp.HashGrid.build(TWO, None, 4), KernelTypeError, "radius: expected a number, got None"),
    (lambda: wp.HashGrid.build(TWO, 1.0, 4, period=np.inf), KernelValueError, "period: expected lengths"),
    (
        lambda: wp.HashGrid(4, 4, 4).build(wp.zeros(2, dtype=wp.vec3), None),
        KernelValueError,
        "radius: expected a positive number, got None",
    ),
]


def test_errors_of_a_grid_end_at_the_users_line():
    with pytest.raises(KernelTypeError) as raised:
        wp.HashGrid(4, 4, 4).build(TWO, 1.0)
    assert raised.traceback[-1].path.name == "test_hash_grid.py"


@pytest.mark.parametrize(("radius", "period"), [(-0.3, None), (0.0, None), (np.nan, None), (0.3, -1.0), (0.3, np.inf)])
def test_what_is_no_radius_and_no_period_is_found_by_others_when_the_program_runs(radius, period):
    """Cells of any width find the same points, and a box without an end is none."""
    x = np.random.default_rng(0).uniform(-1, 1, (200, 3)).astype(np.float32)

    @jax.jit
    def counts(radius, period):
        return neighbors(wp.HashGrid.build(x, radius, 4, period=period), 0.3, 200).counts

    found = counts(np.float32(radius), None if period is None else np.float32(period))
    np.testing.assert_array_equal(found, (distances(x, x) <= 0.3).sum(1) - 1)


@pytest.mark.parametrize(("call", "error", "text"), REFUSED)
def test_what_cannot_be_a_grid_is_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_a_captured_launch_has_the_grid_as_it_is_then():
    grid, counts = wp.HashGrid(8, 8, 8), wp.zeros(100, dtype=int)
    x = wp.zeros(100, dtype=wp.vec3)
    with wp.ScopedCapture() as capture:
        wp.launch(count_within, 100, [grid.id, x, 0.5], [counts])
    for seed in (1, 2):
        points = np.random.default_rng(seed).normal(size=(100, 3)).astype(np.float32)
        x.assign(points)
        grid.build(x, 0.5)
        wp.capture_launch(capture.graph)
        np.testing.assert_array_equal(counts.numpy(), (distances(points, points) <= 0.5).sum(1))


@pytest.mark.parametrize("cells", [1, 40, 3000])
def test_cells_start_at_one_place_with_and_without_native_code(cells):
    items = np.sort(np.random.default_rng(cells).integers(0, cells + 1, (3, 200)), axis=1).astype(np.uint32)
    expected = np.array([np.searchsorted(row, np.arange(cells + 1)) for row in items], np.int32)
    for count in (200, 0):
        found = hash_grid._starts(items[0, :count], size=cells + 1)[0]
        np.testing.assert_array_equal(found, expected[0] if count else np.zeros(cells + 1, np.int32))
    np.testing.assert_array_equal(jax.vmap(lambda row: hash_grid._starts(row, size=cells + 1)[0])(items), expected)
    np.testing.assert_array_equal(hash_grid._starts_by_jax(jnp.asarray(items), cells + 1)[0], expected)
