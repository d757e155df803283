"""`Mesh` and its queries in kernels, beside all faces one by one."""

# ruff: noqa: B007, PT018, RUF046, RUF059, UP018

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxwarp as wp
from jaxwarp.errors import KernelError
from tests.geometry.brute import all_hits, rays, sphere, squared_distances


@wp.kernel
def cast(
    mesh: wp.uint64, o: wp.array[wp.vec3], d: wp.array[wp.vec3], most: float, t: wp.array[float],
    face: wp.array[int], weights: wp.array[wp.vec2], normal: wp.array[wp.vec3], sign: wp.array[float],
    counts: wp.array[wp.vec2i],
):  # fmt: skip
    i = wp.tid()
    hit = wp.mesh_query_ray(mesh, o[i], d[i], most)
    t[i] = hit.t
    face[i] = hit.face if hit.result else -1
    weights[i] = wp.vec2(hit.u, hit.v)
    normal[i] = hit.normal
    sign[i] = hit.sign
    any_hit = int(wp.mesh_query_ray_anyhit(mesh, o[i], d[i], most))
    counts[i] = wp.vec2i(any_hit, wp.mesh_query_ray_count_intersections(mesh, o[i], d[i]))


@wp.kernel
def closest(
    mesh: wp.Mesh, p: wp.array[wp.vec3], most: float, distance: wp.array[float], face: wp.array[int],
    sign: wp.array[float],
):  # fmt: skip
    i = wp.tid()
    found = wp.mesh_query_point_no_sign(mesh, p[i], most)
    face[i] = found.face if found.result else -1
    distance[i] = -1.0
    if found.result:
        distance[i] = wp.length(wp.mesh_eval_position(mesh, found.face, found.u, found.v) - p[i])
    sided = wp.mesh_query_point(mesh, p[i], most)
    odd = wp.mesh_query_point_sign_parity(mesh, p[i], most, 3)
    sign[i] = sided.sign if sided.face == face[i] and odd.sign == sided.sign else 7.0


def shoot(mesh, o, d, most=np.inf):
    n = len(o)
    call = wp.jax_kernel(cast, num_outputs=6, launch_dims=n, output_dims=n)
    return [np.asarray(x) for x in call(mesh, np.asarray(o, np.float32), np.asarray(d, np.float32), most)]


def find(mesh, p, most=np.inf):
    call = wp.jax_kernel(closest, num_outputs=3, launch_dims=len(p), output_dims=len(p))
    return [np.asarray(x) for x in call(mesh, np.asarray(p, np.float32), most)]


@pytest.mark.quick
def test_rays_hit_the_first_face():
    p, f = sphere()
    o, d = rays(500)
    t, face, weights, normal, sign, counts = shoot(wp.Mesh(p, f), o, d)
    each, margin = all_hits(p, f, o, d)
    first = each.argmin(1)
    hits = np.isfinite(each.min(1))
    assert 100 < hits.sum() < 450
    np.testing.assert_array_equal(face, np.where(hits, first, -1))
    np.testing.assert_allclose(t, np.where(hits, each.min(1), 0), atol=2e-5)
    np.testing.assert_array_equal(counts[:, 0], hits)
    np.testing.assert_array_equal(counts[:, 1], np.isfinite(each).sum(1))
    u, v = weights[hits].astype(np.float64).T
    a, b, c = (p[f[face[hits]]][:, k] for k in range(3))
    at = u[:, None] * a + v[:, None] * b + (1 - u - v)[:, None] * c
    np.testing.assert_allclose(at, (o + t[:, None] * d)[hits], atol=2e-5)
    across = np.cross(b - a, c - a)
    np.testing.assert_allclose(normal[hits], across / np.linalg.norm(across, axis=1, keepdims=True), atol=1e-5)
    np.testing.assert_array_equal(sign[hits], -np.sign((across * d[hits]).sum(1)))
    assert not (t[~hits].any() or weights[~hits].any() or normal[~hits].any() or sign[~hits].any())


def test_rays_end_where_they_are_told_to():
    p, f = sphere()
    o, d = rays(200)
    each = all_hits(p, f, o, d)[0].min(1)
    most = float(np.median(each[np.isfinite(each)]))
    t, face, *_, counts = shoot(wp.Mesh(p, f), o, d, most)
    clear = np.abs(each - most) > 1e-4
    np.testing.assert_array_equal((face >= 0)[clear], (each < most)[clear])
    np.testing.assert_array_equal(counts[:, 0], face >= 0)
    assert (shoot(wp.Mesh(p, f), o, d, np.nan)[1] == -1).all()
    assert (shoot(wp.Mesh(p, f), o, d, 0.0)[1] == -1).all()


def test_points_find_the_closest_face_and_their_side():
    p, f = sphere()
    q = np.random.default_rng(0).uniform(-1.3, 1.3, (400, 3)).astype(np.float32)
    squares = squared_distances(p, f, q)
    distance, face, sign = find(wp.Mesh(p, f), q)
    np.testing.assert_allclose(distance, np.sqrt(squares.min(1)), atol=1e-6)
    np.testing.assert_allclose(squares[np.arange(400), face], squares.min(1), atol=1e-6)
    outward = np.array([[0.613, 0.379, 0.693]] * 400, np.float32)
    inside = np.isfinite(all_hits(p, f, q, outward)[0]).sum(1) % 2 == 1
    np.testing.assert_array_equal(sign, np.where(inside, -1, 1))
    near, far = find(wp.Mesh(p, f), q, 0.3)[1] >= 0, find(wp.Mesh(p, f), q, -1.0)[1]
    clear = np.abs(np.sqrt(squares.min(1)) - 0.3) > 1e-5
    np.testing.assert_array_equal(near[clear], (np.sqrt(squares.min(1)) < 0.3)[clear])
    assert (far == -1).all()


@wp.kernel
def sides(mesh: wp.Mesh, p: wp.array[wp.vec3], sign: wp.array[float]):
    i = wp.tid()
    sign[i] = wp.mesh_query_point_sign_normal(mesh, p[i], 100.0).sign


def test_sides_by_normals():
    """On spheres, and on tetrahedra, whose corners are closest to most points (NVIDIA/warp#1836)."""
    rng = np.random.default_rng(0)
    solids = [sphere()]
    for _ in range(5):
        p = rng.normal(size=(4, 3)).astype(np.float32)
        turned = np.linalg.det(p[1:].astype(np.float64) - p[0]) < 0
        f = np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]], np.int32)
        solids.append((p, f[:, ::-1].copy() if turned else f))
    for p, f in solids:
        q = rng.uniform(-1.5, 1.5, (300, 3)).astype(np.float32)
        (sign,) = wp.jax_kernel(sides, launch_dims=300, output_dims=300)(wp.Mesh(p, f), q)
        away = np.array([[0.613, 0.379, 0.693]] * 300, np.float32)
        inside = np.isfinite(all_hits(p, f, q, away)[0]).sum(1) % 2 == 1
        np.testing.assert_array_equal(sign, np.where(inside, -1, 1))


coordinates = st.one_of(st.integers(-2, 2).map(float), st.floats(-1, 1, width=32))


@st.composite
def soups(draw):
    """Any faces: degenerate ones, equal ones, some that lie in each other."""
    n = draw(st.integers(1, 12))
    points = np.zeros((12, 3), np.float32)
    points[:n] = draw(st.lists(st.tuples(*[coordinates] * 3), min_size=n, max_size=n))
    count = draw(st.sampled_from([0, 1, 5, 12, 40]))  # each is compiled
    seed = draw(st.integers(0, 1000))
    return points, np.random.default_rng(seed).integers(0, n, (count, 3)).astype(np.int32)


@settings(max_examples=25, deadline=None)
@given(soups(), st.integers(0, 1000))
def test_any_triangles(soup, seed):
    p, f = soup
    mesh = wp.Mesh(p, f)
    o, d = rays(64, seed)
    t, face, *_ = shoot(mesh, o, d)
    each, margin = all_hits(p, f, o, d) if len(f) else (np.full((64, 1), np.inf), np.zeros((64, 1)))
    best = each.min(1)
    # Where a ray comes close to a border, rounding decides.
    clear = ~(np.abs(margin) < 1e-4).any(1) & ~np.isnan(margin).any(1)
    np.testing.assert_array_equal((face >= 0)[clear], np.isfinite(best)[clear])
    hit = clear & np.isfinite(best)
    np.testing.assert_allclose(t[hit], best[hit], rtol=1e-3, atol=1e-4)
    distance, face, _ = find(mesh, o)
    if len(f):
        np.testing.assert_allclose(distance, np.sqrt(squared_distances(p, f, o).min(1)), atol=1e-5)
    else:
        assert (face == -1).all()


@pytest.mark.parametrize("where", ["edges", "vertices"])
def test_closed_meshes_do_not_leak(where):
    p, f = sphere(5)
    rng = np.random.default_rng(0)
    corners = p[f[rng.integers(0, len(f), 20_000)]]
    s = rng.uniform(0, 1, (20_000, 1)).astype(np.float32)
    aim = corners[:, 0] * s + corners[:, 1] * (1 - s) if where == "edges" else corners[:, 2]
    inner = rng.uniform(-0.3, 0.3, (20_000, 3)).astype(np.float32)
    mesh = wp.Mesh(p, f)
    for start, way in ((inner, aim - inner), (3 * aim, inner - 3 * aim)):
        _, face, *_, counts = shoot(mesh, start, way)
        assert (face >= 0).all()
        np.testing.assert_array_equal(counts[:, 1] % 2, 1 if start is inner else 0)


def test_rays_along_axes_and_on_borders_of_boxes():
    """Directions with components of 0, from the planes of the faces themselves."""
    p = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], np.float32)
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    f = np.array([t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))], np.int32)
    mesh = wp.Mesh(p, f)
    for axis in range(3):
        for corner in ((0.0, 0.0), (1.0, 0.0), (0.25, 0.0), (0.25, 0.5), (1.0, 1.0)):
            o, d = np.full((1, 3), -1.0), np.zeros((1, 3))
            o[0, (axis + 1) % 3], o[0, (axis + 2) % 3] = corner
            d[0, axis] = 1.0
            t, face, *_ = shoot(mesh, o, d)
            assert t == 1.0, (axis, corner)
            assert shoot(mesh, o, -d)[1] == -1
    assert (shoot(mesh, np.full((1, 3), 0.5), np.zeros((1, 3)))[1] == -1).all()


def test_faces_that_are_none_are_hit_by_nothing():
    p, f = sphere()
    o, d = rays(300)
    bad = p.copy()
    bad[5], bad[11, 1] = np.nan, np.inf
    kept = ~np.isin(f, (5, 11)).any(1)
    each, _ = all_hits(p, f[kept], o, d)
    first = np.flatnonzero(kept)[each.argmin(1)]
    _, face, *_ = shoot(wp.Mesh(bad, f), o, d)
    np.testing.assert_array_equal(face, np.where(np.isfinite(each.min(1)), first, -1))
    distance, *_ = find(wp.Mesh(bad, f), o)
    np.testing.assert_allclose(distance, np.sqrt(squared_distances(p, f[kept], o).min(1)), atol=1e-6)
    # A traced index of no vertex is such a face, too.
    outside = jnp.asarray(f).at[3, 1].set(len(p)).at[4, 0].set(-1)
    kept = np.ones(len(f), bool)
    kept[[3, 4]] = False
    found = jax.jit(lambda f: wp.jax_kernel(closest, num_outputs=3)(wp.Mesh(p, f), o, np.inf, launch_dims=300,
                                                                     output_dims=300))(outside)  # fmt: skip
    np.testing.assert_allclose(found[0], np.sqrt(squared_distances(p, f[kept], o).min(1)), atol=1e-6)


@pytest.mark.parametrize("far", [1e20, 1e30, 3e38])
def test_faces_that_are_far_away_hide_no_others(far):
    p, f = sphere()
    o, d = rays(300)
    d[:100, 0], d[100:200, 1] = 0.0, 0.0
    more = np.concatenate([p, far * np.array([[1, 0.9, 1], [0.9, 1, 1], [1, 1, 0.9]])]).astype(np.float32)
    mesh = wp.Mesh(more, np.concatenate([f, [[len(p), len(p) + 1, len(p) + 2]]]).astype(np.int32))
    expected = shoot(wp.Mesh(p, f), o, d)
    assert (expected[1] >= 0).sum() > 100
    np.testing.assert_array_equal(shoot(mesh, o, d)[1], expected[1])
    np.testing.assert_allclose(find(mesh, o)[0], find(wp.Mesh(p, f), o)[0], rtol=1e-6)


def test_points_that_are_nan_find_nothing():
    p, f = sphere(2)
    nowhere = np.full((2, 3), np.nan, np.float32)
    assert (find(wp.Mesh(p, f), nowhere)[1] == -1).all()
    assert (shoot(wp.Mesh(p, f), nowhere, nowhere)[1] == -1).all()


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_meshes_of_few_faces(count):
    p = np.array(
        [[0, 0, k] for k in range(3)] + [[1, 0, k] for k in range(3)] + [[0, 1, k] for k in range(3)], np.float32
    )
    f = np.array([[k, 3 + k, 6 + k] for k in range(3)], np.int32)[:count]
    o = np.array([[0.25, 0.25, 5.0], [0.25, 0.25, -5.0], [2, 2, 5]], np.float32)
    d = np.array([[0, 0, -1], [0, 0, 1], [0, 0, -1]], np.float32)
    t, face, *_ = shoot(wp.Mesh(p, f), o, d)
    assert face.tolist() == ([count - 1, 0, -1] if count else [-1, -1, -1])
    assert t.tolist() == ([6.0 - count, 5.0, 0.0] if count else [0.0, 0.0, 0.0])
    assert find(wp.Mesh(p[:0], f[:0]), o)[1].tolist() == [-1, -1, -1]


@wp.kernel
def neighbours(mesh: wp.uint64, p: wp.array[wp.vec3], r: float, count: wp.array[wp.vec3i]):
    i = wp.tid()
    half = wp.vec3(r, r, r)
    face = int(0)
    query = wp.mesh_query_aabb(mesh, p[i] - half, p[i] + half)
    while wp.mesh_query_aabb_next(query, face):
        count[i][0] += 1
    for found in wp.mesh_query_sphere(mesh, p[i], r):
        count[i][1] += 1
    for found in wp.bvh_query_sphere(wp.mesh_get_bvh(mesh), p[i], r):
        count[i][2] += 1


def test_faces_around_a_point():
    p, f = sphere()
    q = np.random.default_rng(0).uniform(-1.1, 1.1, (100, 3)).astype(np.float32)
    (count,) = wp.jax_kernel(neighbours, launch_dims=100, output_dims=100)(wp.Mesh(p, f), q, 0.3)
    r = np.float32(0.3)
    low, high = p[f].min(1), p[f].max(1)
    boxes = ((low <= (q + r)[:, None]) & (high >= (q - r)[:, None])).all(-1)
    spheres = squared_distances(p, f, q) <= 0.3**2
    gap = np.maximum(np.maximum(low - q[:, None], q[:, None] - high), 0)
    np.testing.assert_array_equal(count, np.stack([boxes.sum(1), spheres.sum(1), ((gap**2).sum(-1) <= 0.09).sum(1)], 1))


@wp.kernel
def furthest(mesh: wp.Mesh, p: wp.array[wp.vec3], least: float, distance: wp.array[float]):
    i = wp.tid()
    found = wp.mesh_query_furthest_point_no_sign(mesh, p[i], least)
    distance[i] = -1.0
    if found.result:
        distance[i] = wp.length(wp.mesh_eval_position(mesh, found.face, found.u, found.v) - p[i])


def test_the_furthest_point_is_a_vertex():
    p, f = sphere()
    q = np.random.default_rng(0).uniform(-2, 2, (50, 3)).astype(np.float32)
    call = wp.jax_kernel(furthest, launch_dims=50, output_dims=50)
    expected = np.linalg.norm(p[f].reshape(-1, 3) - q[:, None], axis=-1).max(1)
    np.testing.assert_allclose(call(wp.Mesh(p, f), q, 0.0)[0], expected, rtol=1e-6)
    np.testing.assert_allclose(call(wp.Mesh(p, f), q, 2.5)[0], np.where(expected > 2.5, expected, -1), rtol=1e-6)


@wp.kernel
def for_variables(mesh: wp.uint64, o: wp.vec3, d: wp.vec3, out: wp.array[float], normal: wp.array[wp.vec3]):
    t = float(0.0)
    u = float(0.0)
    v = float(0.0)
    sign = float(0.0)
    n = wp.vec3()
    face = int(0)
    if wp.mesh_query_ray(mesh, o, d, 100.0, t, u, v, sign, n, face):
        out[0] = t
        out[1] = u + v
        out[2] = sign
        out[3] = float(face)
        normal[0] = n
    inside = float(0.0)
    if wp.mesh_query_point(mesh, o, 100.0, inside, face, u, v):
        out[4] = inside
    out[5] = wp.mesh_get_point(mesh, 3 * face)[0] + float(wp.mesh_get_index(mesh, 3 * face))
    out[6] = wp.mesh_eval_velocity(mesh, face, u, v)[1]
    out[7] = wp.mesh_eval_face_normal(mesh, face)[2]
    out[8] = float(wp.mesh_get(mesh).points.shape[0])


def test_queries_that_set_variables_and_what_a_mesh_has():
    p = np.array([[0, 0, 0], [2, 0, 0], [0, 2, 0]], np.float32)
    f = np.array([[1, 2, 0]], np.int32)
    velocities = np.array([[0, 1, 0], [0, 3, 0], [0, 5, 0]], np.float32)
    call = wp.jax_kernel(for_variables, num_outputs=2, output_dims={"out": 9, "normal": 1}, launch_dims=1)
    o, d = np.array([1, 0, 3], np.float32), np.array([0, 0, -1], np.float32)
    out, normal = call(wp.Mesh(p, f, velocities), o, d)
    assert out.tolist() == [3, 0.5, 1, 0, 1, 3, 2, 1, 3]
    assert normal.tolist() == [[0, 0, 1]]
    assert call(wp.Mesh(p, f), o, d)[0][6] == 0


def test_outside_of_jax_a_mesh_reads_its_points_again():
    p, f = sphere()
    o, d = rays(100)
    points = wp.array(p, dtype=wp.vec3)
    mesh = wp.Mesh(points=points, indices=wp.array(f.reshape(-1), dtype=int), velocities=None)
    o_, d_ = wp.array(o, dtype=wp.vec3), wp.array(d, dtype=wp.vec3)

    def hits():
        outputs = [wp.zeros(100, dtype=t) for t in (float, int, wp.vec2, wp.vec3, float, wp.vec2i)]
        wp.launch(cast, dim=100, inputs=[mesh.id, o_, d_, 1e6], outputs=outputs)
        return outputs[1].numpy(), outputs[0].numpy()

    for k in range(3):
        face, t = hits()
        expected = shoot(wp.Mesh(points.numpy(), f), o, d)
        np.testing.assert_array_equal(face, expected[1])
        np.testing.assert_allclose(t, expected[0], rtol=1e-5)
        moved = points.numpy() * np.float32(0.8) + np.float32(0.1)
        if k == 0:
            points.assign(moved)
            mesh.refit()
        else:
            points = mesh.points = wp.array(moved, dtype=wp.vec3)
    assert mesh.points is points


def test_indices_outside_of_jax_may_have_a_row_for_each_face():
    p, f = sphere(2)
    mesh = wp.Mesh(points=wp.array(p, dtype=wp.vec3), indices=wp.array(f, dtype=int))
    np.testing.assert_array_equal(mesh.indices.numpy(), f.reshape(-1))
    t = wp.zeros(1, dtype=float)
    wp.launch(first_hit, 1, [mesh.id, t])
    assert 0.5 < t.numpy()[0] < 1.5


@wp.kernel
def first_hit(mesh: wp.uint64, t: wp.array[float]):
    t[0] = wp.mesh_query_ray(mesh, wp.vec3(), wp.vec3(0.3, 0.4, 0.5), wp.inf).t


def test_meshes_that_move_in_programs():
    p, f = sphere()
    o, d = rays(100)
    scales = jnp.array([1.0, 0.9, 0.7])
    each = [shoot(wp.Mesh(p * np.float32(s), f), o, d)[1] for s in scales]
    call = lambda m: wp.jax_kernel(cast, num_outputs=6, launch_dims=100, output_dims=100)(m, o, d, np.inf)[1]  # noqa: E731

    def move(mesh, s):
        mesh = mesh.refit(s * p)
        return mesh, call(mesh)

    start = wp.Mesh(jnp.asarray(p), jnp.asarray(f))
    end, in_turn = jax.jit(lambda m: jax.lax.scan(move, m, scales))(start)
    at_once = jax.jit(jax.vmap(lambda s: call(wp.Mesh(s * p, f))))(scales)
    over_rays = jax.vmap(call, in_axes=(None,), axis_size=2)(start)
    for found in (in_turn, at_once):
        for k in range(3):
            assert (found[k] == each[k]).mean() > 0.99  # rounding of s * p
    np.testing.assert_array_equal(over_rays[1], each[0])
    np.testing.assert_array_equal(end.points, scales[-1] * p)
    other = start.replace(points=scales[1] * p, velocities=p)
    np.testing.assert_array_equal(call(other), call(start.refit(scales[1] * p)))
    assert start.velocities is None


@wp.kernel
def in_group(
    mesh: wp.uint64, o: wp.array[wp.vec3], d: wp.array[wp.vec3], group: int, face: wp.array[int],
    counts: wp.array[wp.vec2i],
):  # fmt: skip
    i = wp.tid()
    root = wp.mesh_get_group_root(mesh, group)
    face[i] = wp.mesh_query_ray(mesh, o[i], d[i], 100.0, root).face
    if wp.mesh_query_ray_anyhit(mesh, o[i], d[i], 100.0, root):
        counts[i][0] = 1
    counts[i][1] = wp.mesh_query_ray_count_intersections(mesh, o[i], d[i], root)


def test_rays_of_a_group_hit_its_faces():
    p, f = sphere()
    o, d = rays(200)
    groups = (np.arange(len(f)) % 3).astype(np.int32)
    call = wp.jax_kernel(in_group, num_outputs=2, launch_dims=200, output_dims=200)
    mesh = wp.Mesh(p, f, groups=groups)
    for group in range(3):
        kept = np.flatnonzero(groups == group)
        face, counts = call(mesh, o, d, group)
        alone, same_counts = call(wp.Mesh(p, f[kept]), o, d, 0)
        np.testing.assert_array_equal(face, np.where(alone >= 0, kept[alone], -1))
        np.testing.assert_array_equal(counts, same_counts)
    np.testing.assert_array_equal(call(mesh, o, d, 5)[0], shoot(wp.Mesh(p, f), o, d)[1])


def test_wrong_arguments_are_refused():
    p, f = sphere(2)
    mesh = wp.Mesh(jnp.asarray(p), jnp.asarray(f))
    outside = f.copy()
    outside[7, 1] = 99
    cases = [
        (lambda: wp.Mesh(p.astype(np.float64), f), "Mesh: points: expected float32, got float64"),
        (lambda: wp.Mesh(p.reshape(-1), f), "Mesh: points: expected the shape"),
        (lambda: wp.Mesh(p, f.astype(np.int64)), "Mesh: indices: expected an array of int32, got int64"),
        (lambda: wp.Mesh(p, f.reshape(-1)[:4]), "Mesh: indices: expected the shape"),
        (lambda: wp.Mesh(p, [0, 1, 2]), "Mesh: indices: expected an array of int32, got list"),
        (lambda: wp.Mesh(p, outside), r"Mesh: indices: face 7 has the vertices \[.*99.*\], but there are 26 points"),
        (lambda: jax.jit(lambda f: wp.Mesh(p, f[:, :2]))(f), "Mesh: indices: expected the shape"),
        (lambda: wp.Mesh(p, f, p[1:]), "Mesh: velocities: expected 26, one for each point, got 25"),
        (lambda: wp.Mesh(p, f, groups=np.zeros(3, np.int32)), f"groups: expected {len(f)}, one for each face"),
        (lambda: mesh.refit(p[1:]), "Mesh.refit: points: expected 26 points, as the mesh has, got 25"),
        (mesh.refit, "array of JAX, which never changes"),
        (lambda: mesh.replace(bvh=None), "bvh cannot be set"),
    ]
    for call, message in cases:
        with pytest.raises(KernelError, match=message):
            call()
