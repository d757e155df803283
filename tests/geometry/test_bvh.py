"""`Bvh` and its queries, beside all boxes one by one."""

# ruff: noqa: A001, A002, RUF046, UP018

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import jaxwarp as wp
from jaxwarp.errors import KernelError
from jaxwarp.geometry import mesh, tree
from jaxwarp.geometry.kernels.boxes import boxes_in_jax, faces_in_jax
from jaxwarp.native import trees


@wp.kernel
def in_boxes(bvh: wp.Bvh, low: wp.array[wp.vec3], high: wp.array[wp.vec3], count: wp.array[int], total: wp.array[int]):
    i = wp.tid()
    for k in wp.bvh_query_aabb(bvh, low[i], high[i]):
        count[i] += 1
        total[i] += k


@wp.kernel
def on_rays(
    bvh: wp.uint64, start: wp.array[wp.vec3], dir: wp.array[wp.vec3], most: float, count: wp.array[int],
    total: wp.array[int],
):  # fmt: skip
    i = wp.tid()
    query = wp.bvh_query_ray(bvh, start[i], dir[i])
    k = int(0)
    while wp.bvh_query_next(query, k, most):
        count[i] += 1
        total[i] += k


@wp.kernel
def in_spheres(bvh: wp.uint64, x: wp.array[wp.vec3], r: float, count: wp.array[int], total: wp.array[int]):
    i = wp.tid()
    for k in wp.bvh_query_sphere(bvh, x[i], r):
        count[i] += 1
        total[i] += k


@wp.kernel
def in_capsules(
    bvh: wp.uint64, start: wp.array[wp.vec3], dir: wp.array[wp.vec3], r: float, count: wp.array[int],
    total: wp.array[int],
):  # fmt: skip
    i = wp.tid()
    query = wp.bvh_query_capsule(bvh, start[i], dir[i], r)
    k = int(0)
    while wp.bvh_query_next(query, k, 1.0):
        count[i] += 1
        total[i] += k


def boxes(n, seed=0):
    rng = np.random.default_rng(seed)
    centre = rng.uniform(-1, 1, (n, 3)).astype(np.float32)
    half = rng.uniform(0, 0.15, (n, 3)).astype(np.float32)
    return centre - half, centre + half


def ask(kernel, bvh, *args):
    m = len(args[0])
    count, total = wp.jax_kernel(kernel, num_outputs=2, launch_dims=m, output_dims=m)(bvh, *args)
    return np.stack([count, total])


def expected(overlaps):
    return np.stack([overlaps.sum(1), (overlaps * np.arange(overlaps.shape[1])).sum(1)])


def rays_through(lower, upper, start, dir, most=np.inf):
    with np.errstate(all="ignore"):
        p, q = ((x - start[:, None].astype(np.float64)) / dir[:, None] for x in (lower, upper))
    beside = (dir[:, None] == 0) & ((start[:, None] < lower) | (start[:, None] > upper))
    enter = np.where(dir[:, None] == 0, -np.inf, np.minimum(p, q)).max(-1, initial=-np.inf)
    leave = np.where(dir[:, None] == 0, np.inf, np.maximum(p, q)).min(-1, initial=np.inf)
    return ~beside.any(-1) & (leave >= 0) & (leave >= enter) & (enter < most)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 64, 700])
def test_queries_find_what_overlaps(n):
    lower, upper = boxes(n)
    bvh = wp.Bvh(jnp.asarray(lower), jnp.asarray(upper))
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (40, 3)).astype(np.float32)
    d = rng.normal(size=(40, 3)).astype(np.float32)
    d[:9] *= np.array([[1, 0, 0], [0, 1, 0], [0, 1, 1]] * 3)
    low, high = x - np.float32(0.2), x + np.float32(0.1)
    overlaps = ((low[:, None] <= upper) & (high[:, None] >= lower)).all(-1)
    np.testing.assert_array_equal(ask(in_boxes, bvh, low, high), expected(overlaps))
    np.testing.assert_array_equal(ask(on_rays, bvh, x, d, np.inf), expected(rays_through(lower, upper, x, d)))
    np.testing.assert_array_equal(ask(on_rays, bvh, x, d, 0.25), expected(rays_through(lower, upper, x, d, 0.25)))
    gap = np.maximum(np.maximum(lower - x[:, None], x[:, None] - upper), 0)
    np.testing.assert_array_equal(ask(in_spheres, bvh, x, 0.3), expected((gap**2).sum(-1) <= 0.3**2))
    r = np.float32(0.1)
    through = rays_through(lower - r, upper + r, x, d, np.nextafter(1, 2))
    np.testing.assert_array_equal(ask(in_capsules, bvh, x, d, r), expected(through))


def test_what_is_far_away_from_a_query_is_found():
    """Boxes a millionth as large as the way to them; and a scene far from the origin."""
    lower, upper = boxes(50)
    for shift, way in ((0.0, 1e4), (1e4, 10.0)):
        low, high = (lower + np.float32(shift)), (upper + np.float32(shift))
        centre = (low + high) / 2
        rng = np.random.default_rng(0)
        dir = rng.normal(size=(50, 3))
        dir = (dir / np.linalg.norm(dir, axis=1, keepdims=True)).astype(np.float32)
        start = (centre - np.float32(way) * dir).astype(np.float32)
        found = ask(on_rays, wp.Bvh(low, high), start, dir, np.inf)[0]
        # Beside boxes that are touched only, rounding decides.
        inner, outer = (rays_through(low + e, high - e, start, dir).sum(1) for e in (5e-3, -5e-3))
        assert (found >= inner).all()
        assert (found <= outer).all()


def test_boxes_may_be_as_large_as_floats_are():
    lower, upper = boxes(100)
    most = np.finfo(np.float32).max
    lower[7], upper[7] = -most, most
    lower[8, 0], upper[9, 1], upper[10, 2] = -most, most, 1e30
    bvh, (x, _) = wp.Bvh(lower, upper), boxes(40, seed=1)
    d = np.random.default_rng(2).normal(size=(40, 3)).astype(np.float32)
    d[:10, 0] = 0.0
    beside = (x[:, None] - 0.1 > upper).any(-1) | (x[:, None] + 0.1 < lower).any(-1)
    np.testing.assert_array_equal(ask(in_boxes, bvh, x - 0.1, x + 0.1), expected(~beside))
    gap = np.maximum(np.maximum(lower - x[:, None], x[:, None] - upper), 0).astype(np.float64)
    np.testing.assert_array_equal(ask(in_spheres, bvh, x, 0.3), expected((gap**2).sum(-1) <= 0.3**2))
    np.testing.assert_array_equal(ask(on_rays, bvh, x, d, np.inf), expected(rays_through(lower, upper, x, d)))


def sets_of_boxes():
    """Some are none; in half of the sets many centres are equal."""
    for n, scale in ((1, None), (3, 2), (17, None), (301, 2)):
        lower, upper = boxes(n, seed=n)
        if scale:
            lower, upper = np.round(lower * scale), np.round(lower * scale) + 1
        if n > 3:
            lower[n // 2], upper[0], upper[1] = np.nan, np.inf, 3e38
        yield lower, upper


def same(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def test_trees_are_the_same_by_native_code_and_by_jax():
    for lower, upper in list(sets_of_boxes())[1::2]:
        n = len(lower)
        groups = np.random.default_rng(n).integers(-2, 3, n).astype(np.int32)
        for args, by_jax, operation in (
            ((lower, upper), lambda lo, hi: [jax.jit(tree.ordered_by_jax)(lo, hi)], tree._order),
            ((lower, upper, groups), jax.jit(tree.grouped_by_jax), tree._grouped),
        ):
            on_host = tree.order_of(*args)
            assert sorted(on_host.order) == list(range(n))
            found = operation(*args)
            same(found, by_jax(*args))
            same(found, on_host if len(args) == 3 else on_host[:1])
            boxed = tree.boxes_of(lower, upper, on_host.order, on_host.first)
            same(boxed, jax.jit(boxes_in_jax)(lower, upper, on_host.order, on_host.first))
            same(boxed, tree._boxed(lower, upper, on_host.order, on_host.first))


def test_orders_of_equal_centres_and_of_what_is_nowhere_are_the_same():
    lower = np.round(np.random.default_rng(0).normal(size=(900, 3)), 1).astype(np.float32)
    lower[::7] = np.nan
    lower[1::9, 1] = np.float32(-0.0)
    for low, high in ((lower, lower), (np.full_like(lower, np.nan), lower), (0 * lower, 0 * lower)):
        found = jax.jit(tree.ordered_by_jax)(low, high)
        np.testing.assert_array_equal(found, tree.order_of(low, high).order)


def test_faces_are_the_same_by_native_code_and_by_kernels():
    random = np.random.default_rng(3)
    points = random.normal(size=(40, 3)).astype(np.float32)
    points[5], points[17] = np.nan, np.inf
    faces = random.integers(0, 40, (60, 3)).astype(np.int32)
    faces[[7, 8], 1] = 40, -1
    order = random.permutation(60).astype(np.int32)
    same(trees.place_faces(points, faces, order), jax.jit(faces_in_jax)(points, faces, order))
    batch = jax.vmap(mesh._place, in_axes=(0, None, 0))(points[None], faces, order[None])
    same([x[0] for x in batch], trees.place_faces(points, faces, order))


def test_rows_of_trees_and_devices_without_native_code():
    sets = [boxes(50, seed) for seed in range(5)]
    lower, upper = (jnp.stack(x) for x in zip(*sets, strict=True))
    groups = jnp.arange(50, dtype=jnp.int32) % 3
    bvh = jax.jit(jax.vmap(lambda lo, hi: wp.Bvh(lo, hi, groups=groups)))(lower, upper)
    for k, (lo, hi) in enumerate(sets):
        one = wp.Bvh(lo, hi, groups=np.asarray(groups))
        same(jax.tree.leaves(jax.tree.map(lambda x: x[k], bvh)), jax.tree.leaves(one))  # noqa: B023
    make = jax.jit(lambda lo, hi: jax.tree.leaves(wp.Bvh(lo, hi, groups=groups)))
    whole = export.export(make, platforms=("cpu", "cuda"), disabled_checks=wp.export_checks())(lower[0], upper[0])
    assert whole.mlir_module().count("custom_call @jaxwarp_tree_grouped") == 1
    assert "stablehlo.sort" in whole.mlir_module()
    same(export.deserialize(whole.serialize()).call(lower[0], upper[0]), make(lower[0], upper[0]))


def test_a_tree_on_a_gpu_takes_three_sorts_and_a_refit_a_launch_for_six_levels():
    boxes = jax.ShapeDtypeStruct((1000, 3), jnp.float32)
    tree_of = jax.eval_shape(wp.Bvh, boxes, boxes)
    programs = {
        (27, 3): (lambda low, high: jax.tree.leaves(wp.Bvh(low, high)), (boxes, boxes)),
        (4, 0): (lambda bvh, low, high: jax.tree.leaves(bvh.refit(low, high)), (tree_of, boxes, boxes)),
    }
    for (launches, sorts), (program, given) in programs.items():
        checks = wp.export_checks()
        text = export.export(jax.jit(program), platforms=("cuda",), disabled_checks=checks)(*given).mlir_module()
        assert text.count("custom_call @jaxwarp_launch") == launches
        assert text.count("stablehlo.sort") == sorts


def test_groups_are_below_their_roots():
    for lower, upper in sets_of_boxes():
        groups = np.random.default_rng(0).choice([-7, 0, 3, 2**31 - 1], len(lower)).astype(np.int32)
        found = tree.order_of(lower, upper, groups)
        names = np.unique(groups)
        np.testing.assert_array_equal(found.groups[: len(names)], names)
        leaves = len(found.first) - 1
        for name, root in zip(names, found.roots, strict=False):
            node, last = root, root
            while node < leaves:
                node, last = 2 * node, 2 * last + 1
            items = found.order[found.first[node - leaves] : found.first[last + 1 - leaves]]
            np.testing.assert_array_equal(np.sort(items), np.flatnonzero(groups == name))
        assert np.diff(found.first).max() <= 5  # the most that medians leave


@wp.kernel
def in_group(bvh: wp.uint64, x: wp.array[wp.vec3], group: wp.array[int], counts: wp.array[wp.vec4i]):
    i = wp.tid()
    root = wp.bvh_get_group_root(bvh, group[i])
    half = wp.vec3(0.4)
    for _a in wp.bvh_query_aabb(bvh, x[i] - half, x[i] + half, root):
        counts[i][0] += 1
    for _b in wp.bvh_query_sphere(bvh, x[i], 0.4, root):
        counts[i][1] += 1
    ray = wp.bvh_query_ray(bvh, x[i], wp.vec3(1.0, 0.5, 0.2), root)
    k = int(0)
    while wp.bvh_query_next(ray, k):
        counts[i][2] += 1
    capsule = wp.bvh_query_capsule(bvh, x[i], wp.vec3(1.0, 0.5, 0.2), 0.1, root=root)
    while wp.bvh_query_next(capsule, k):
        counts[i][3] += 1


def test_queries_of_a_group_find_what_a_tree_of_it_does():
    lower, upper = boxes(300)
    groups = np.random.default_rng(3).choice([-5, 1, 2, 9], 300, p=[0.7, 0.2, 0.09, 0.01]).astype(np.int32)
    x = np.random.default_rng(1).uniform(-1, 1, (20, 3)).astype(np.float32)
    call = wp.jax_kernel(in_group, launch_dims=20, output_dims=20)
    bvh = wp.Bvh(lower, upper, groups=groups)
    for name in (-5, 1, 2, 9):
        (found,) = call(bvh, x, np.full(20, name, np.int32))
        (alone,) = call(wp.Bvh(lower[groups == name], upper[groups == name]), x, np.zeros(20, np.int32))
        np.testing.assert_array_equal(found, alone)
    # A group that is none has the root of all, as in Warp.
    of_all = call(wp.Bvh(lower, upper), x, groups[:20])[0]
    np.testing.assert_array_equal(call(bvh, x, np.full(20, 4, np.int32))[0], of_all)
    moved = bvh.refit(lower + np.float32(0.3), upper + np.float32(0.3))
    np.testing.assert_array_equal(moved.roots, bvh.roots)
    again = moved.rebuild(lower, upper)
    same(jax.tree.leaves(again), jax.tree.leaves(bvh))


def test_nodes_contain_their_items():
    lower, upper = boxes(123)
    upper[7] = np.nan
    order, first, *_ = tree.order_of(lower, upper)
    nodes, (origin, step) = tree.boxes_of(lower, upper, order, first)
    leaves = len(first) - 1
    for leaf in range(leaves):
        items = [i for i in order[first[leaf] : first[leaf + 1]] if i != 7]
        node = leaf + leaves
        while node > 1:
            words = nodes[node // 2][3 * (node % 2) : 3 * (node % 2) + 3].astype(np.int64)
            for i in items:
                assert (origin + (words & 65535) * step.astype(np.float64) < lower[i]).all()
                assert (origin + (words >> 16) * step.astype(np.float64) > upper[i]).all()
            node //= 2


def test_boxes_that_are_none_are_never_found():
    lower, upper = boxes(30)
    lower[3], upper[4], lower[5] = np.nan, np.inf, upper[5] + 1
    everything = np.full((1, 3), 10.0, np.float32)
    count, total = ask(in_boxes, wp.Bvh(lower, upper), -everything, everything)
    assert count == 27
    assert total == sum(range(30)) - 12
    nowhere = np.full((2, 3), np.nan, np.float32)
    assert ask(on_rays, wp.Bvh(lower, upper), nowhere, nowhere, np.inf).sum() == 0


def test_a_tree_is_made_and_asked_in_programs():
    lower, upper = boxes(40)
    x = np.random.default_rng(2).uniform(-1, 1, (10, 3)).astype(np.float32)
    traces = []

    @jax.jit
    def ask_of(lower, upper, x):
        traces.append(1)
        return wp.jax_kernel(in_spheres, num_outputs=2, launch_dims=10, output_dims=10)(wp.Bvh(lower, upper), x, 0.3)

    for scale in (1.0, 0.5):
        low, high = np.float32(scale) * lower, np.float32(scale) * upper
        np.testing.assert_array_equal(ask_of(low, high, x), ask(in_spheres, wp.Bvh(low, high), x, 0.3))
    assert len(traces) == 1

    scales = jnp.array([1.0, 0.5, 2.0])
    trees = jax.jit(jax.vmap(lambda s: wp.Bvh(s * lower, s * upper)))(scales)
    call = lambda b: wp.jax_kernel(in_spheres, num_outputs=2, launch_dims=10, output_dims=10)(b, x, 0.3)  # noqa: E731
    each = jax.vmap(call)(trees)
    in_turn = jax.lax.scan(lambda _, s: (None, call(wp.Bvh(s * lower, s * upper))), None, scales)[1]
    for k, s in enumerate(scales):
        one = ask(in_spheres, wp.Bvh(s * lower, s * upper), x, 0.3)
        np.testing.assert_array_equal([e[k] for e in each], one)
        np.testing.assert_array_equal([e[k] for e in in_turn], one)


def test_outside_of_jax_a_tree_reads_its_arrays_again():
    lower, upper = boxes(60)
    low, high = wp.array(lower, dtype=wp.vec3), wp.array(upper, dtype=wp.vec3)
    bvh = wp.Bvh(low, high)
    x = np.random.default_rng(2).uniform(-1, 1, (10, 3)).astype(np.float32)

    def found():
        count, total = wp.zeros(10, dtype=int), wp.zeros(10, dtype=int)
        wp.launch(in_spheres, dim=10, inputs=[bvh.id, wp.array(x, dtype=wp.vec3), 0.3, count, total])
        return np.stack([count.numpy(), total.numpy()])

    np.testing.assert_array_equal(found(), ask(in_spheres, wp.Bvh(lower, upper), x, 0.3))
    for remake in (bvh.refit, bvh.rebuild):
        low.assign(low.numpy() * np.float32(0.5) + np.float32(0.2))
        high.assign(high.numpy() * np.float32(0.5) + np.float32(0.2))
        remake()
        np.testing.assert_array_equal(found(), ask(in_spheres, wp.Bvh(low.numpy(), high.numpy()), x, 0.3))


def test_a_captured_refit_is_one_when_it_is_played():
    lower, upper = boxes(60)
    low, high = wp.array(lower, dtype=wp.vec3), wp.array(upper, dtype=wp.vec3)
    bvh = wp.Bvh(low, high)
    with wp.ScopedCapture() as capture:
        assert bvh.refit() is bvh
    low.assign(lower + np.float32(1.0))
    high.assign(upper + np.float32(1.0))
    before = bvh.grid[0].copy()
    wp.capture_launch(capture.graph)
    np.testing.assert_allclose(bvh.grid[0], before + 1.0, rtol=1e-5)


def test_refit_and_rebuild_give_other_trees():
    lower, upper = (jnp.asarray(x) for x in boxes(60))
    bvh = wp.Bvh(lower, upper)
    x = np.random.default_rng(2).uniform(-1, 1, (10, 3)).astype(np.float32)
    one = ask(in_spheres, wp.Bvh(-upper, -lower), x, 0.3)
    for other in (bvh.refit(-upper, -lower), bvh.rebuild(-upper, -lower), jax.jit(wp.Bvh.refit)(bvh, -upper, -lower)):
        np.testing.assert_array_equal(ask(in_spheres, other, x, 0.3), one)
    np.testing.assert_array_equal(bvh.lowers, lower)


@wp.kernel
def overlapping_pairs(bvh: wp.Bvh, count: wp.array[int]):
    for a in wp.bvh_query_aabb(bvh, wp.vec3(-9.0), wp.vec3(9.0)):
        for b in wp.bvh_query_aabb(bvh, bvh.lowers[a], bvh.uppers[a]):
            if a < b:
                count[0] += 1


def test_queries_inside_each_other_are_independent():
    lower, upper = boxes(80)
    (count,) = wp.jax_kernel(overlapping_pairs, launch_dims=1, output_dims=1)(wp.Bvh(lower, upper))
    overlaps = ((lower[:, None] <= upper) & (upper[:, None] >= lower)).all(-1)
    assert count[0] == np.triu(overlaps, 1).sum()


@wp.func
def count_of(query: wp.BvhQuery, most: float) -> int:
    n = int(0)
    k = int(0)
    while wp.bvh_query_next(query, k, most):
        n += 1
    return n


@wp.kernel
def of_one_kind_or_another(bvh: wp.uint64, x: wp.array[wp.vec3], dir: wp.array[wp.vec3], count: wp.array[int]):
    i = wp.tid()
    query = wp.bvh_query_sphere(bvh, x[i], 0.3)
    if i % 2 == 0:
        query = wp.bvh_query_ray(bvh, x[i], dir[i])
    count[i] = count_of(query, 0.5)


def test_the_kind_of_a_query_may_depend_on_data():
    lower, upper = boxes(60)
    bvh = wp.Bvh(lower, upper)
    rng = np.random.default_rng(1)
    x, d = (rng.normal(size=(12, 3)).astype(np.float32) for _ in range(2))
    (count,) = wp.jax_kernel(of_one_kind_or_another, launch_dims=12, output_dims=12)(bvh, x, d)
    np.testing.assert_array_equal(count[1::2], ask(in_spheres, bvh, x, 0.3)[0][1::2])
    np.testing.assert_array_equal(count[::2], ask(on_rays, bvh, x, d, 0.5)[0][::2])


@wp.kernel
def nearest_centre(bvh: wp.Bvh, x: wp.array[wp.vec3], nearest: wp.array[int]):
    """A search of the user's own, by steps: the box whose centre is closest."""
    i = wp.tid()
    leaves = len(bvh.first) - 1
    node = int(1)
    trail = int(0)
    best = float(wp.inf)
    while node != 0:
        if node < leaves:
            node, trail = wp.bvh_descend(node, trail, 0.0, 0.0, wp.inf)
        else:
            for k in range(bvh.first[node - leaves], bvh.first[node - leaves + 1]):
                item = bvh.order[k]
                away = wp.length(0.5 * (bvh.lowers[item] + bvh.uppers[item]) - x[i])
                if away < best:
                    best = away
                    nearest[i] = item
            node, trail = wp.bvh_ascend(node, trail)


def test_users_walk_trees_themselves():
    lower, upper = boxes(77)
    x = np.random.default_rng(3).uniform(-1, 1, (9, 3)).astype(np.float32)
    (nearest,) = wp.jax_kernel(nearest_centre, launch_dims=9, output_dims=9)(wp.Bvh(lower, upper), x)
    centres = (lower + upper) / 2
    np.testing.assert_array_equal(nearest, ((centres - x[:, None]) ** 2).sum(-1).argmin(1))


def test_wrong_arguments_are_refused():
    lower, upper = boxes(4)
    cases = [
        (lambda: wp.Bvh(lower.astype(np.float64), upper), "Bvh: lowers: expected float32, got float64"),
        (lambda: wp.Bvh(lower[:, :2], upper[:, :2]), "Bvh: lowers: expected the shape"),
        (lambda: wp.Bvh(lower, upper[:2]), "expected as many uppers as lowers, 4, got 2"),
        (lambda: wp.Bvh([[0.0, 0.0, 0.0]], upper), "expected an array of points, got list"),
        (lambda: wp.Bvh(lower, upper, constructor="best"), "expected a constructor of"),
        (lambda: wp.Bvh(lower, upper, groups=np.zeros(4, np.int64)), "groups: expected an array of int32, got int64"),
        (lambda: wp.Bvh(lower, upper, groups=np.zeros(3, np.int32)), "groups: expected 4, one for each box"),
        (lambda: wp.Bvh(lower, upper).refit(lower[:3], upper[:3]), "Bvh.refit: expected 4 boxes"),
        (lambda: wp.Bvh(lower, upper).refit(lower), "expected lowers and uppers, got one of them"),
        (lambda: wp.Bvh(jnp.asarray(lower), jnp.asarray(upper)).refit(), "arrays of JAX, which never change"),
    ]
    for call, message in cases:
        with pytest.raises(KernelError, match=message):
            call()
