"""`Volume` in kernels: values against a dense array, derivatives, transformations of JAX."""

# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import functools

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st
from jax import export
from jax.test_util import check_grads
from scipy.ndimage import map_coordinates

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError, KernelValueError


@wp.kernel
def lookup(v: wp.Volume, ijk: wp.array[wp.vec3i], out: wp.array[float], index: wp.array[int]):
    n = wp.tid()
    p = ijk[n]
    out[n] = wp.volume_lookup_f(v, p[0], p[1], p[2])
    index[n] = wp.volume_lookup_index(v, p[0], p[1], p[2])


@wp.kernel
def sample(v: wp.Volume, p: wp.array[wp.vec3], mode: int, out: wp.array[float]):
    n = wp.tid()
    out[n] = wp.volume_sample_f(v, p[n], mode)


@wp.kernel
def sample_grad(v: wp.Volume, p: wp.array[wp.vec3], out: wp.array[float], slope: wp.array[wp.vec3]):
    n = wp.tid()
    g = wp.vec3()
    out[n] = wp.volume_sample_grad_f(v, p[n], wp.Volume.LINEAR, g)
    slope[n] = g


@wp.kernel
def sample_vectors(v: wp.Volume, p: wp.array[wp.vec3], out: wp.array[wp.vec3], slope: wp.array[wp.mat33]):
    n = wp.tid()
    g = wp.mat33()
    out[n] = wp.volume_sample_grad(v, p[n], wp.Volume.LINEAR, g, dtype=wp.vec3)
    slope[n] = g
    out[n] += wp.volume_sample_v(v, p[n], wp.Volume.LINEAR)


@wp.kernel
def sample_numbered(v: wp.Volume, p: wp.array[wp.vec3], data: wp.array[float], other: float, out: wp.array[float]):
    n = wp.tid()
    out[n] = wp.volume_sample_index(v, p[n], wp.Volume.LINEAR, data, other)


@wp.kernel
def frames(v: wp.Volume, p: wp.array[wp.vec3], out: wp.array2d[wp.vec3]):
    n = wp.tid()
    out[n, 0] = wp.volume_index_to_world(v, p[n])
    out[n, 1] = wp.volume_world_to_index(v, out[n, 0])
    out[n, 2] = wp.volume_index_to_world_dir(v, p[n])
    out[n, 3] = wp.volume_world_to_index_dir(v, p[n])
    out[n, 4] = wp.vec3(wp.volume_index_to_world(v, wp.vec3d(p[n])))
    out[n, 5] = wp.vec3(wp.volume_world_to_index_dir(v, wp.vec3d(p[n])))


def at(volume, ijk):
    ijk = jnp.asarray(ijk, jnp.int32)
    value, index = wp.jax_kernel(lookup, num_outputs=2, launch_dims=len(ijk), output_dims=len(ijk))(volume, ijk)
    return np.asarray(value), np.asarray(index)


def sampled(volume, p, mode=1):
    return wp.jax_kernel(sample, launch_dims=len(p), output_dims=len(p))(volume, p, mode)[0]


FIELD = np.random.default_rng(0).normal(size=(11, 17, 9)).astype(np.float32)
POINTS = np.random.default_rng(1).uniform(-3, 20, (500, 3)).astype(np.float32)


def oracle(field, points, background):
    """Trilinear interpolation in double precision, of a field that goes on as the background."""
    wide = np.pad(field.astype(np.float64), 8, constant_values=background)
    return map_coordinates(wide, (points.astype(np.float64) + 8).T, order=1, mode="constant", cval=background)


@pytest.mark.parametrize("array", [np.asarray, jnp.asarray])
def test_dense_arrays_come_back_voxel_by_voxel(array):
    volume = wp.Volume.load_from_numpy(array(FIELD), bg_value=7.5)
    assert isinstance(volume.values, jax.Array) == (array is jnp.asarray)
    ijk = np.stack(np.meshgrid(*[np.arange(-9, 27)] * 3, indexing="ij"), -1).reshape(-1, 3)
    value, index = at(volume, ijk)
    expected = np.pad(FIELD, [(9, 27 - n) for n in FIELD.shape], constant_values=7.5)
    np.testing.assert_array_equal(value.reshape(36, 36, 36), expected)
    inside = ((ijk >= 0) & (ijk < np.array([16, 24, 16]))).all(1)
    assert sorted(index[inside]) == list(range(inside.sum()))
    assert (index[~inside] == -1).all()
    assert volume.get_voxel_count() == inside.sum()
    np.testing.assert_array_equal(np.asarray(volume.values)[index[inside]], value[inside])
    voxels = volume.get_voxels()
    np.testing.assert_array_equal(ijk[inside][np.argsort(index[inside])], np.asarray(voxels))


@pytest.mark.parametrize("far", [0, 1 << 20])
def test_samples_are_those_of_scipy(far):
    volume = wp.Volume.load_from_numpy(jnp.asarray(FIELD), bg_value=0.5)
    if far:  # bricks too far apart for a table over the box
        tiles = np.concatenate([np.asarray(volume.tiles), [[far, -far, far]]]).astype(np.int32)
        spread = wp.Volume.allocate_by_tiles(jnp.asarray(tiles), 1.0, 0.5)
        assert spread.entries is not None
        bricks = jnp.concatenate([volume.bricks, jnp.full((1, 8, 8, 8), 3.0)])
        places = {tuple(t): k for k, t in enumerate(tiles.tolist())}
        volume = spread.replace(bricks=bricks[np.array([places[tuple(t)] for t in np.asarray(spread.tiles).tolist()])])
        assert at(volume, [[far + 7, -far, far + 3], [far + 8, -far, far]])[0].tolist() == [3.0, 0.5]
    np.testing.assert_allclose(sampled(volume, POINTS), oracle(FIELD, POINTS, 0.5), atol=2e-6)
    wide = np.pad(FIELD, 8, constant_values=0.5)
    nearest = tuple(
        np.clip(np.floor(np.abs(POINTS) + 0.5) * np.sign(POINTS), -8, [n + 7 for n in FIELD.shape]).astype(int).T + 8
    )
    np.testing.assert_array_equal(sampled(volume, POINTS, 0), wide[nearest])


def test_the_slope_is_that_of_the_sample():
    volume = wp.Volume.load_from_numpy(jnp.asarray(FIELD), bg_value=0.5)
    call = wp.jax_kernel(sample_grad, num_outputs=2, launch_dims=len(POINTS), output_dims=len(POINTS))
    value, slope = call(volume, POINTS)
    np.testing.assert_array_equal(value, sampled(volume, POINTS))
    by_place = jax.grad(lambda p: sampled(volume, p).sum())(jnp.asarray(POINTS))
    np.testing.assert_allclose(slope, by_place, atol=1e-5)


def test_derivatives_by_values_places_and_background():
    rng = np.random.default_rng(2)
    volume = wp.Volume.load_from_numpy(jnp.asarray(FIELD[:5, :9, :6]), bg_value=0.5)
    points = jnp.asarray(np.floor(rng.uniform(-2, 12, (40, 3))) + rng.uniform(0.2, 0.8, (40, 3)), jnp.float32)

    @jax.jit
    def total(bricks, background, p):
        held = volume.replace(bricks=bricks, background=background)
        return (jnp.sin(sampled(held, p))).sum()

    check_grads(
        total, (volume.bricks, jnp.float32(0.5), points), order=2, modes=("fwd", "rev"), eps=1e-2, atol=2e-2, rtol=2e-2
    )
    by_bricks, by_background, _ = jax.jit(jax.grad(total, (0, 1, 2)))(volume.bricks, jnp.float32(0.5), points)
    assert by_bricks.shape == volume.bricks.shape
    assert abs(float(by_background)) > 1.0
    # Weights add up to one.
    weights = jax.jit(jax.grad(lambda b, g: sampled(volume.replace(b, g), points).sum(), argnums=(0, 1)))
    ones = weights(volume.bricks, jnp.float32(0))
    np.testing.assert_allclose(float(ones[0].sum() + ones[1]), len(points), rtol=1e-5)


def test_second_derivatives_of_slopes():
    volume = wp.Volume.load_from_numpy(jnp.asarray(FIELD))
    points = jnp.asarray(np.random.default_rng(3).integers(0, 8, (6, 3)) + 0.4, jnp.float32)
    call = wp.jax_kernel(sample_grad, num_outputs=2, launch_dims=6, output_dims=6)

    @jax.jit
    def total(bricks, p):
        value, slope = call(volume.replace(bricks), p)
        return (value * slope[:, 0] + slope[:, 1] * slope[:, 2]).sum()

    check_grads(total, (volume.bricks, points), order=2, modes=("fwd", "rev"), eps=1e-2, atol=3e-2, rtol=3e-2)


def test_vectors():
    field = np.random.default_rng(4).normal(size=(9, 8, 7, 3)).astype(np.float32)
    volume = wp.Volume.load_from_numpy(jnp.asarray(field), bg_value=(1.0, 2.0, 3.0))
    assert volume.dtype == wp.vec3
    call = wp.jax_kernel(sample_vectors, num_outputs=2, launch_dims=len(POINTS), output_dims=len(POINTS))
    value, slope = call(volume, POINTS)
    for k in range(3):
        one = wp.Volume.load_from_numpy(jnp.asarray(field[..., k]), bg_value=float(k + 1))
        np.testing.assert_allclose(value[:, k], 2 * sampled(one, POINTS), atol=1e-5)
        by_place = jax.grad(lambda p, one=one: sampled(one, p).sum())(jnp.asarray(POINTS))
        np.testing.assert_allclose(slope[:, k], by_place, atol=1e-5)


def test_values_in_an_array_by_numbers_of_voxels():
    tiles = np.array([[0, 0, 0], [8, 0, 0], [0, 0, 8], [0, 0, 8]], np.int32)
    volume = wp.Volume.allocate_by_tiles(jnp.asarray(tiles), 1.0, None)
    assert volume.is_index
    assert volume.get_voxel_count() == 3 * 512
    data = jnp.asarray(np.random.default_rng(5).normal(size=3 * 512), jnp.float32)
    same = wp.Volume.allocate_by_tiles(jnp.asarray(tiles), 1.0, 0.25).replace(bricks=data.reshape(3, 8, 8, 8))
    call = wp.jax_kernel(sample_numbered, launch_dims=len(POINTS), output_dims=len(POINTS))
    np.testing.assert_array_equal(call(volume, POINTS, data, 0.25)[0], sampled(same, POINTS))
    by_data, by_other = jax.grad(lambda d, o: call(volume, POINTS, d, o)[0].sum(), argnums=(0, 1))(data, 0.25)
    by_bricks = jax.grad(lambda b: sampled(same.replace(b), POINTS).sum())(same.bricks)
    np.testing.assert_allclose(by_data, by_bricks.reshape(-1), atol=1e-5)
    np.testing.assert_allclose(float(by_data.sum() + by_other), len(POINTS), rtol=1e-5)


def test_grids_of_voxels_number_those_only():
    voxels = np.array([[0, 0, 0], [1, 2, 3], [1, 2, 3], [-4, 5, 60], [7, 8, 9]], np.int32)
    volume = wp.Volume.allocate_by_voxels(voxels, 0.5)
    assert volume.get_voxel_count() == 4
    index = lookup_index(volume, [*voxels, [0, 0, 1]])
    assert sorted(set(index[:-1].tolist())) == [0, 1, 2, 3]
    assert index[1] == index[2]
    assert index[-1] == -1
    np.testing.assert_array_equal(volume.get_voxels().numpy()[index[:-1]], voxels)
    masked = wp.Volume.allocate_by_voxels(voxels, 0.5, point_mask=np.array([1, 0, 0, 1, 0]))
    assert masked.get_voxel_count() == 2


@wp.kernel
def find_index(v: wp.uint64, ijk: wp.array[wp.vec3i], out: wp.array[int], count: wp.array[int]):
    n = wp.tid()
    out[n] = wp.volume_lookup_index(v, ijk[n][0], ijk[n][1], ijk[n][2])
    count[n] = wp.volume_voxel_count(v)


def lookup_index(volume, ijk):
    n = len(ijk)
    call = wp.jax_kernel(find_index, num_outputs=2, launch_dims=n, output_dims=n)
    index, count = call(volume.id, np.asarray(ijk, np.int32))
    assert (np.asarray(count) == volume.voxel_count).all()
    return np.asarray(index)


COORDINATES = st.sampled_from([0, 7, 8, -1, -8, -9, 2**31 - 1, -(2**31), 4096, -4097]) | st.integers(-40, 40)


@jax.jit
def of_tiles(points, mask):
    return wp.Volume.allocate_by_tiles(points, 1.0, None, point_mask=mask)


@hypothesis.given(
    st.lists(st.tuples(*[COORDINATES] * 3), max_size=12), st.lists(st.booleans(), min_size=12, max_size=12)
)
def test_tiles_that_are_known_when_the_program_runs(points, mask):
    padded = np.zeros((12, 3), np.int32)
    padded[: len(points)] = np.asarray(points, np.int32).reshape(-1, 3)
    mask = np.array(mask) & (np.arange(12) < len(points))
    known = wp.Volume.allocate_by_tiles(padded, 1.0, None, point_mask=mask)
    traced = of_tiles(padded, mask)
    assert traced.entries is not None
    assert not traced.overflow
    assert int(traced.tile_count) == known.get_tile_count()
    np.testing.assert_array_equal(traced.get_tiles(), known.get_tiles().numpy())
    near = np.concatenate([padded, padded ^ 7, padded ^ 8])
    expected = lookup_index(known, near)
    np.testing.assert_array_equal(lookup_index(traced, near), expected)
    wanted = {tuple(t) for t in (padded[mask] >> 3).tolist()}
    assert [e >= 0 for e in expected.tolist()] == [tuple(t) in wanted for t in (near >> 3).tolist()]


@functools.partial(jax.jit, static_argnums=1)
def of_voxels(points, room):
    return wp.Volume.allocate_by_voxels(points, 1.0, max_leaf_nodes=room)


# Each room is compiled.
@hypothesis.given(st.lists(st.tuples(*[COORDINATES] * 3), max_size=12), st.sampled_from([1, 3, 12]))
def test_voxels_that_are_known_when_the_program_runs(points, room):
    padded = np.zeros((12, 3), np.int32)
    padded[: len(points)] = np.asarray(points, np.int32).reshape(-1, 3)
    known = wp.Volume.allocate_by_voxels(padded, 1.0)
    traced = of_voxels(padded, room)
    assert bool(traced.overflow) == (known.get_tile_count() > room)
    if not traced.overflow:
        assert int(traced.voxel_count) == known.get_voxel_count()
        np.testing.assert_array_equal(traced.get_voxels(), known.get_voxels().numpy())
        near = np.concatenate([padded, padded ^ 1, padded ^ 8])
        np.testing.assert_array_equal(lookup_index(traced, near), lookup_index(known, near))


def test_values_follow_what_a_program_makes():
    @jax.jit
    def total(field, scale):
        volume = wp.Volume.load_from_numpy(field * scale, voxel_size=0.5 * scale, bg_value=0.0)
        (seen,) = wp.jax_kernel(in_world, launch_dims=3, output_dims=3)(
            volume, jnp.array([[1.15, 1.25, 1.35], [2.3, 1, 1.3], [0.3, 0.2, 0.4]])
        )
        return seen.sum()

    check_grads(
        total, (jnp.asarray(FIELD), jnp.float32(1.1)), order=1, modes=("fwd", "rev"), eps=1e-3, atol=2e-2, rtol=2e-2
    )


@wp.kernel
def in_world(v: wp.Volume, p: wp.array[wp.vec3], out: wp.array[float]):
    n = wp.tid()
    out[n] = wp.volume_sample_f(v, wp.volume_world_to_index(v, p[n]), wp.Volume.LINEAR)


def test_batches_of_values_share_the_table():
    volume = wp.Volume.load_from_numpy(jnp.asarray(FIELD), bg_value=0.5)
    many = volume.bricks * jnp.arange(1.0, 4.0)[:, None, None, None, None]
    found = jax.vmap(lambda b: sampled(volume.replace(b), jnp.asarray(POINTS)))(many)
    for k in range(3):
        np.testing.assert_array_equal(found[k], sampled(volume.replace(many[k]), POINTS))
    tiles = jnp.array([[[0, 0, 0], [8, 0, 0]], [[0, 0, 0], [0, 0, 64]]], jnp.int32)
    counted = jax.vmap(lambda t: wp.Volume.allocate_by_tiles(t, 1.0, 2.0).tile_count)(tiles)
    assert counted.tolist() == [2, 2]


def test_derivatives_of_batches_are_those_of_each():
    """By values, places and a frame, in both modes, and of the second order; of the nearest voxel none by places."""
    volume = wp.Volume.load_from_numpy(jnp.asarray(FIELD), voxel_size=0.5, bg_value=0.5)
    rng = np.random.default_rng(5)
    places = jnp.asarray(0.5 * (rng.integers(0, 8, (3, 4, 3)) + rng.uniform(0.1, 0.4, (3, 4, 3))), jnp.float32)
    given = jnp.array([[1.0, 1.0, 1.0], [1.01, 0.99, 1.02], [0.99, 1.01, 0.98]])

    def total(x, p, mode):
        by_value, by_place, by_frame = x
        held = volume.replace(volume.bricks * by_value)
        return jnp.sin(sampled(held, ((p + by_place - 1) * by_frame) / 0.5, mode)).sum()

    def known(x, p, mode):
        """In double precision, where `sampled` has all it needs in a cell."""
        by_value, by_place, by_frame = x
        p = ((p + by_place - 1) * by_frame) / 0.5
        return np.sin(oracle(FIELD, np.round(p) if mode == 0 else p, 0.5) * by_value).sum()

    def derivatives(x, p, mode):
        first, second = jax.grad(total), jax.jacfwd(jax.grad(total))
        return [f(x, p, mode) for f in (first, jax.jacfwd(total), second, jax.jacfwd(jax.jacfwd(total)))]

    each, batches = jax.jit(derivatives), jax.jit(jax.vmap(derivatives, (0, 0, None)))
    h, ways = 1e-4, 1e-4 * np.eye(3)
    for mode in (0, 1):
        rows = batches(given, places, mode)
        for k in range(3):
            alone = each(given[k], places[k], mode)
            for row, one in zip(rows, alone, strict=True):
                np.testing.assert_allclose(row[k], one, rtol=1e-5, atol=1e-5)
            x, p = np.asarray(given[k], np.float64), np.asarray(places[k], np.float64)
            slope = [(known(x + d, p, mode) - known(x - d, p, mode)) / (2 * h) for d in ways]
            corners = [[[known(x + d + s * e, p, mode) - known(x - d + s * e, p, mode) for s in (1, -1)]
                        for d in ways] for e in ways]  # fmt: skip
            bend = -np.diff(corners)[..., 0] / (4 * h**2)
            for found in alone[:2]:
                np.testing.assert_allclose(found, slope, rtol=2e-3, atol=2e-3 * np.abs(slope).max())
            for found in alone[2:]:
                np.testing.assert_allclose(found, bend, rtol=2e-2, atol=2e-2 * np.abs(bend).max())


def test_scan_and_export():
    volume = wp.Volume.load_from_numpy(jnp.asarray(FIELD))

    def step(held, p):
        return held.replace(held.bricks * 2.0), sampled(held, p)

    points = jnp.asarray(POINTS[:20].reshape(4, 5, 3))
    _, found = jax.lax.scan(step, volume, points)
    np.testing.assert_allclose(found[3], 8.0 * sampled(volume, points[3]), rtol=1e-6)
    leaves, tree = jax.tree.flatten(volume)
    call = jax.jit(lambda *a: sampled(jax.tree.unflatten(tree, a[:-1]), a[-1]))
    exported = export.export(call, disabled_checks=wp.export_checks())(*leaves, points[0])
    again = export.deserialize(exported.serialize()).call(*leaves, points[0])
    np.testing.assert_array_equal(again, sampled(volume, points[0]))


def test_frames():
    matrix = np.array([[0.1, 0.02, 0.0], [0.0, 0.0, 0.3], [0.0, 0.2, 0.01]], np.float32)
    moved = np.array([1.0, -2.0, 3.0], np.float32)
    volume = wp.Volume.allocate_by_tiles(np.zeros((1, 3), np.int32), transform=matrix, translation=moved)
    out = np.asarray(wp.jax_kernel(frames, launch_dims=len(POINTS), output_dims=(len(POINTS), 6))(volume, POINTS)[0])
    np.testing.assert_allclose(out[:, 0], POINTS @ matrix.T + moved, atol=1e-5)
    np.testing.assert_allclose(out[:, 1], POINTS, atol=1e-4)
    np.testing.assert_allclose(out[:, 2], POINTS @ matrix.T, atol=1e-5)
    np.testing.assert_allclose(out[:, 3], POINTS @ np.linalg.inv(matrix).T, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(out[:, 4], out[:, 0], atol=1e-5)
    np.testing.assert_allclose(out[:, 5], out[:, 3], rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(volume.get_voxel_size(), matrix.sum(1), rtol=1e-6)


@wp.kernel
def store(v: wp.uint64, ijk: wp.array[wp.vec3i], read: wp.array[float]):
    n = wp.tid()
    p = ijk[n]
    wp.volume_store(v, p[0], p[1], p[2], float(n))
    read[n] = wp.volume_lookup_f(v, p[0], p[1], p[2])


@wp.kernel
def store_f(volume: wp.Volume, ijk: wp.array[wp.vec3i], values: wp.array[float]):
    n = wp.tid()
    wp.volume_store_f(volume, ijk[n][0], ijk[n][1], ijk[n][2], values[n])


def test_stores_outside_of_jax_change_the_volume():
    volume = wp.Volume.allocate([-3, 0, 0], [12, 4, 4], 1.0, bg_value=-1.0)
    ijk = np.array([[-8, 0, 0], [0, 1, 2], [12, 4, 4], [100, 0, 0]], np.int32)
    read = wp.zeros(4, dtype=float)
    wp.launch(store, 4, inputs=[volume.id, wp.array(ijk, dtype=wp.vec3i), read])
    assert read.numpy().tolist() == [0.0, 1.0, 2.0, -1.0]
    assert at(volume, ijk)[0].tolist() == [0.0, 1.0, 2.0, -1.0]
    assert volume.background == -1.0


def test_stores_in_jax_make_another_volume():
    volume = wp.Volume.allocate_by_tiles(jnp.zeros((1, 3), jnp.int32), 1.0, 0.0)
    call = wp.jax_kernel(store_f, in_out_argnames=["volume"], num_outputs=1, launch_dims=3)
    ijk = jnp.array([[0, 0, 0], [1, 2, 3], [9, 0, 0]], jnp.int32)
    (after,) = jax.jit(call)(volume, ijk, jnp.array([1.0, 2.0, 3.0]))
    assert after.entries is None
    assert jax.tree.structure(after) == jax.tree.structure(volume)
    assert at(after, ijk)[0].tolist() == [1.0, 2.0, 0.0]
    assert at(volume, ijk)[0].tolist() == [0.0, 0.0, 0.0]

    def total(values):
        (after,) = call(volume, ijk, values)
        return sampled(after, jnp.array([[0.5, 0.0, 0.0], [1.0, 2.0, 3.0]])).sum()

    np.testing.assert_allclose(jax.grad(total)(jnp.array([1.0, 2.0, 3.0])), [0.5, 1.0, 0.0])


def test_steps_of_the_interpreter_agree():
    volume = wp.Volume.load_from_numpy(FIELD, bg_value=0.5)
    stepped = np.zeros(20, np.float32)
    sample.interpret(volume, POINTS[:20], 1, stepped, dim=20)
    np.testing.assert_allclose(stepped, sampled(volume, POINTS[:20]), atol=1e-6)


def test_a_tape_has_derivatives_by_places():
    volume = wp.Volume.load_from_numpy(FIELD, bg_value=0.5)
    points = wp.array(POINTS, dtype=wp.vec3, requires_grad=True)
    out = wp.zeros(len(POINTS), dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(sample, len(POINTS), inputs=[volume, points, 1], outputs=[out])
    out.grad.fill_(1.0)
    tape.backward()
    expected = jax.grad(lambda p: sampled(volume, p).sum())(jnp.asarray(POINTS))
    np.testing.assert_allclose(points.grad.numpy(), expected, atol=1e-5)


def test_places_that_are_nan_are_outside():
    volume = wp.Volume.load_from_numpy(FIELD, bg_value=7.0)
    places = np.full((3, 3), 1.0, np.float32)
    places[[0, 1, 2], [0, 1, 2]] = np.nan, np.inf, -np.inf
    assert (sampled(volume, places, 0) == 7.0).all()
    assert np.isnan(sampled(volume, places)[0])


BAD = {
    "voxel_size: expected positive": lambda: wp.Volume.load_from_numpy(FIELD, voxel_size=0.0),
    "voxel_size: expected a number": lambda: wp.Volume.load_from_numpy(FIELD, voxel_size="1"),
    "ndarray: expected the shape": lambda: wp.Volume.load_from_numpy(FIELD, bg_value=(0.0, 0.0, 0.0)),
    "bg_value: expected a value of float32": lambda: wp.Volume.allocate([0] * 3, [1] * 3, 1.0, bg_value="0"),
    "neither": lambda: wp.Volume.allocate_by_tiles(np.zeros((1, 3), np.int32)),
    "both": lambda: wp.Volume.allocate_by_tiles(np.zeros((1, 3), np.int32), 1.0, transform=np.eye(3)),
    "an inverse": lambda: wp.Volume.allocate_by_tiles(np.zeros((1, 3), np.int32), transform=np.zeros((3, 3))),
    "expected an array of int32": lambda: wp.Volume.allocate_by_voxels(np.zeros((1, 3), np.int64), 1.0),
    r"expected the shape \(n, 3\)": lambda: wp.Volume.allocate_by_voxels(np.zeros((1, 2), np.int32), 1.0),
    "finite places": lambda: wp.Volume.allocate_by_voxels(np.full((1, 3), np.nan, np.float32), 1.0),
    "point_mask": lambda: wp.Volume.allocate_by_voxels(np.zeros((2, 3), np.int32), 1.0, point_mask=np.ones(3)),
    "max_tiles": lambda: wp.Volume.allocate_by_tiles(np.zeros((2, 3), np.int32), 1.0, max_tiles=0),
    "min: expected three numbers": lambda: wp.Volume.allocate([0, 0], [1] * 3, 1.0),
    "fewer than 2": lambda: wp.Volume.allocate([0] * 3, [1 << 20] * 3, 1.0),
    "not rebuildable": lambda: wp.Volume.load_from_numpy(FIELD).rebuild(np.zeros((1, 3), np.int32)),
    "bricks: expected the shape": lambda: wp.Volume.load_from_numpy(FIELD).replace(bricks=FIELD),
    "ndarray: expected real numbers, got complex": lambda: wp.Volume.load_from_numpy(FIELD.astype(complex)),
    "ndarray: expected real numbers, got <U": lambda: wp.Volume.load_from_numpy(FIELD.astype(str)),
    "translation: expected finite": lambda: wp.Volume.load_from_numpy(FIELD, min_world=(0.0, 0.0, np.nan)),
    "the volume is traced": lambda: jax.jit(lambda v: v.save_to_nvdb("v.nvdb"))(wp.Volume.load_from_numpy(FIELD)),
    "cannot be set": lambda: setattr(wp.Volume.load_from_numpy(FIELD), "scalars", FIELD),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input(message):
    with pytest.raises((KernelTypeError, KernelValueError, wp.errors.ArrayError), match=message):
        BAD[message]()


def test_volumes_outside_of_jax_are_on_the_cpu():
    """Where there is no GPU, there is no such device."""
    expected = "are on the CPU" if wp.is_cuda_available() else "cuda:0"
    with pytest.raises(Exception, match=expected):
        wp.Volume.load_from_numpy(FIELD, device="cuda:0")
    assert len(wp.Volume.load_from_numpy(FIELD, device="cpu").tiles) == len(wp.Volume.load_from_numpy(FIELD).tiles)


@wp.kernel
def sample_ints(v: wp.Volume, out: wp.array[int]):
    out[0] = wp.volume_sample(v, wp.vec3(1.0, 1.0, 1.0), wp.Volume.LINEAR, dtype=int)


@wp.kernel
def sample_doubles(v: wp.Volume, out: wp.array[wp.float64]):
    out[0] = wp.volume_sample(v, wp.vec3(1.0, 1.0, 1.0), wp.Volume.LINEAR, dtype=wp.float64)


def test_what_kernels_may_not_ask():
    whole = wp.Volume.load_from_numpy(np.arange(8).reshape(2, 2, 2), bg_value=0)
    with pytest.raises(KernelTypeError, match="interpolate"):
        wp.launch(sample_ints, 1, inputs=[whole], outputs=[wp.zeros(1, dtype=int)])
    with pytest.raises(KernelTypeError, match="of_type: argument value"):
        wp.launch(sample_doubles, 1, inputs=[wp.Volume.load_from_numpy(FIELD)], outputs=[wp.zeros(1, dtype=wp.float64)])
    numbers = wp.Volume.allocate([0] * 3, [1] * 3, 1.0, bg_value=None)
    with pytest.raises(KernelValueError, match=r"(?s)scalars is None.*hint: the volume has .* indices only"):
        sampled(numbers, POINTS)
    with pytest.raises(KernelTypeError, match="no values"):
        numbers.bricks  # noqa: B018
