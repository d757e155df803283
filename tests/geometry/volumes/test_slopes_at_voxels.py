"""Derivatives of samples of volumes on voxels, on the border of bricks and between them, by everything they depend on.

On a voxel a sample has a kink, where its slope is that of the cell after it.
"""

from __future__ import annotations

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np

import jaxwarp as wp
from tests.geometry.volumes.test_volume import sample, sample_grad, sample_numbered, sampled
from tests.slopekit import check_slopes

# The field ends in its second brick, and the background is beyond: voxels, halves, ends of bricks.
COUNTS = (9, 8, 4)
ALONG = (-1.0, -0.5, 0.0, 1.0, 3.5, 7.0, 7.5, 8.0), (-1.0, 0.0, 7.0, 7.5), (0.0, 2.0)
PLACES = np.array(list(product(*ALONG)), np.float32)
STEP = 2.0**-7
LINEAR, CLOSEST = wp.Volume.LINEAR, wp.Volume.CLOSEST
MODES = (CLOSEST, LINEAR)


def field(is_flat: bool) -> np.ndarray:
    values = np.random.default_rng(0).integers(-2, 3, COUNTS)
    return np.where(is_flat, 0, values).astype(np.float32)


def volume(is_flat: bool = False, **given) -> wp.Volume:
    return wp.Volume.load_from_numpy(jnp.asarray(field(is_flat)), bg_value=0.0 if is_flat else 1.0, **given)


def test_slopes_by_places():
    cases = {f"{kind} {mode}": (volume(kind == "flat"), mode) for kind in ("integers", "flat") for mode in MODES}

    def samples(p):
        return jnp.stack([sampled(held, p, mode) for held, mode in cases.values()], -1)

    check_slopes(samples, PLACES, np.eye(3), eps=STEP, accuracy=1e-4, names=list(cases))


def test_the_slope_on_a_voxel_is_that_of_the_cell_after_it():
    held = volume()
    on = PLACES[(PLACES % 1 == 0).all(1)]
    by_place = np.asarray(jax.jit(jax.grad(lambda p: sampled(held, p).sum()))(on))
    call = wp.jax_kernel(sample_grad, num_outputs=2, launch_dims=len(on), output_dims=len(on))
    _, slope = call(held, on)
    here = sampled(held, on)
    for axis in range(3):
        ahead = np.asarray(sampled(held, on + np.eye(3, dtype=np.float32)[axis]) - here)
        np.testing.assert_allclose(by_place[:, axis], ahead, atol=1e-5)
        np.testing.assert_allclose(slope[:, axis], ahead, atol=1e-5)


def test_slopes_by_values_also_of_weight_0():
    """Samples are linear in the values and the background: the derivative is what one more of each adds."""
    held = volume()
    near = [(0, 0, 0, 0), (0, 7, 7, 0), (0, 7, 7, 2), (0, 1, 0, 0), (1, 0, 0, 0), (1, 0, 7, 2), (0, 4, 0, 0)]
    given = np.array([*(held.bricks[k] for k in near), held.background], np.float32)

    @jax.jit
    def samples(values):
        bricks = held.bricks.at[tuple(np.array(near).T)].set(values[:-1])
        return jnp.stack([sampled(held.replace(bricks=bricks, background=values[-1]), PLACES, m) for m in MODES])

    base = np.asarray(samples(given))
    expected = np.stack([samples(given + one) for one in np.eye(len(given), dtype=np.float32)], -1) - base[..., None]
    assert (expected != 0).any(1).all()
    for jacobian in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(jax.jit(jacobian(samples))(given), expected, atol=1e-5)


def test_slopes_of_an_index_grid_by_data_and_background():
    tiles = jnp.asarray([[0, 0, 0], [8, 0, 0]], jnp.int32)
    grid = wp.Volume.allocate_by_tiles(tiles, 1.0, None)
    data = jnp.asarray(np.random.default_rng(1).integers(-2, 3, 1024), jnp.float32)
    call = wp.jax_kernel(sample_numbered, launch_dims=len(PLACES), output_dims=len(PLACES))
    check_slopes(
        lambda p: call(grid, p, data, 1.5)[0][:, None], PLACES, np.eye(3), eps=STEP, accuracy=1e-4, names=["sample"]
    )
    other = jnp.float32(0.0)
    at = jax.jit(lambda o: call(grid, PLACES, data, o)[0])
    added = at(jnp.float32(1.0)) - at(other)
    for jacobian in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(jax.jit(jacobian(at))(other), added, atol=1e-5)


@wp.kernel
def in_world(v: wp.Volume, p: wp.array[wp.vec3], out: wp.array[wp.vec3]):
    n = wp.tid()
    at = wp.volume_world_to_index(v, p[n])
    out[n] = wp.vec3(wp.volume_sample_f(v, at, wp.Volume.LINEAR), at[0], wp.volume_index_to_world(v, at)[1])


def test_slopes_in_world_space_at_the_origin():
    held = volume(voxel_size=0.5, min_world=(0.5, -1.0, 0.0))
    call = wp.jax_kernel(in_world, launch_dims=len(PLACES), output_dims=len(PLACES))
    names = ["sample", "index", "back"]
    check_slopes(lambda p: call(held, p)[0], PLACES * 0.5, np.eye(3), eps=STEP, accuracy=1e-4, names=names)


def test_kernels_of_tapes_have_the_same_slopes():
    held = wp.Volume.load_from_numpy(field(False), bg_value=1.0)
    where = wp.array(PLACES, dtype=wp.vec3, requires_grad=True)
    out = wp.zeros(len(PLACES), dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(sample, len(PLACES), [held, where, LINEAR], [out])
    tape.backward(grads={out: wp.ones(len(PLACES), dtype=float)})
    expected = jax.jit(jax.grad(lambda p: sampled(volume(), p).sum()))(PLACES)
    np.testing.assert_allclose(where.grad.numpy(), expected, atol=1e-5)
