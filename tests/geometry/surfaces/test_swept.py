"""What meshes that move pass through: against distances that are known."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError, KernelValueError

geo = wp.geometry
Mode = geo.SweptVolumeSignMode
CUBE = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)], np.float32)
SIDES = np.array(
    [[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1], [2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4],
     [1, 5, 7], [1, 7, 3]], np.int32,
)  # fmt: skip


def slide(places: Any, quaternion: Any = (0, 0, 0, 1)) -> np.ndarray:
    places = np.atleast_2d(places)
    return np.concatenate([places, np.tile(quaternion, (len(places), 1))], 1)[None].astype(np.float32)


def to_box(p: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """The signed distance to a box."""
    low, high = np.asarray(low), np.asarray(high)
    off = np.abs(p - (low + high) / 2) - (high - low) / 2
    return np.linalg.norm(np.maximum(off, 0), axis=-1) + np.minimum(off.max(-1), 0)


def nodes(dims: Any, lower: Any, upper: Any) -> np.ndarray:
    axes = (np.linspace(float(a), float(b), n) for a, b, n in zip(lower, upper, dims, strict=True))
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1)


@pytest.mark.parametrize("mode", [Mode.NORMAL, Mode.WINDING_NUMBER, Mode.PARITY, Mode.NO_SIGN])
def test_the_field_is_the_least_distance_of_all_poses(mode):
    mesh = wp.Mesh(CUBE, SIDES, support_winding_number=True)
    places = np.array([[0, 0, 0], [1.5, 0.2, 0], [0, -2, 0.1]])
    field, lower, upper = geo.swept_volume_field([mesh], slide(places), resolution=(9, 11, 7), sign_mode=mode)
    p = nodes(field.shape, lower, upper)
    each = [to_box(p, c - 0.5, c + 0.5) for c in places]
    expected = np.min(np.abs(each) if mode == Mode.NO_SIGN else each, axis=0)
    np.testing.assert_allclose(field.numpy(), expected, atol=2e-5)


def test_several_meshes_turn():
    small = wp.Mesh(0.5 * CUBE, SIDES)
    poses = np.concatenate([slide([0, 0, 0], (0, 0, np.sqrt(0.5), np.sqrt(0.5))), slide([2, 0, 0])])
    flat = wp.Mesh(CUBE * np.array([4, 1, 1], np.float32), SIDES)
    field, lower, upper = geo.swept_volume_field([flat, small], poses, voxel_size=0.25, sign_mode=Mode.NORMAL)
    p = nodes(field.shape, lower, upper)
    np.testing.assert_allclose((np.array([*upper]) - np.array([*lower])) / (np.array(field.shape) - 1), 0.25, rtol=1e-5)
    expected = np.minimum(
        to_box(p, [-0.5, -2, -0.5], [0.5, 2, 0.5]), to_box(p, [1.75, -0.25, -0.25], [2.25, 0.25, 0.25])
    )
    np.testing.assert_allclose(field.numpy(), expected, atol=2e-5)
    low, high = geo.swept_volume_bounds([flat, small], poses, padding=0.5)
    np.testing.assert_allclose([*low], [-1, -2.5, -1], atol=1e-5)
    np.testing.assert_allclose([*high], [2.75, 2.5, 1], atol=1e-5)


def test_the_surface_has_all_poses_inside():
    mesh = wp.Mesh(CUBE, SIDES, support_winding_number=True)
    poses = slide(np.linspace([0, 0, 0], [2, 0, 0], 5))
    points, _ = geo.swept_volume_mesh([mesh], poses, voxel_size=0.1, threshold=0.2)
    p = points.numpy()
    np.testing.assert_allclose(to_box(p, [-0.5] * 3, [2.5, 0.5, 0.5]), 0.2, atol=0.02)
    np.testing.assert_allclose([p.min(0), p.max(0)], [[-0.7] * 3, [2.7, 0.7, 0.7]], atol=0.01)


def test_in_jax_it_has_derivatives():
    """The field at a node above the cube goes up where the cube goes down, and by half the scale of its size."""
    lower, upper = jnp.full(3, -1.0), jnp.full(3, 1.0)

    @jax.jit
    def above(place: Any, scale: Any) -> Any:
        mesh = wp.Mesh(scale * CUBE, SIDES)
        pose = jnp.concatenate([place, jnp.array([0.0, 0.0, 0.0, 1.0])])[None, None]
        box = {"resolution": (3, 3, 3), "lower": lower, "upper": upper}
        return geo.swept_volume_field([mesh], pose, sign_mode=Mode.NORMAL, **box)[0][1, 1, 2]

    place = jnp.array([0.05, 0.02, 0.1])
    assert abs(float(above(place, 1.0)) - 0.4) < 1e-6
    by_place, by_scale = jax.grad(above, (0, 1))(place, 1.0)
    np.testing.assert_allclose(by_place, [0, 0, -1], atol=1e-5)
    np.testing.assert_allclose(by_scale, -0.5, atol=1e-5)


def test_in_jax_the_surface_has_room():
    mesh = wp.Mesh(jnp.asarray(CUBE), jnp.asarray(SIDES))

    @jax.jit
    def swept(poses: Any) -> Any:
        box = {"lower": [-1.0] * 3, "upper": [2.0, 1.0, 1.0]}
        return geo.swept_volume_mesh([mesh], poses, resolution=(16, 11, 11), sign_mode=Mode.NORMAL, size=2000, **box)

    surface = swept(jnp.asarray(slide([[0, 0, 0], [1, 0, 0]])))
    assert not surface.overflow
    assert int(surface.vertex_count) - int(surface.face_count) // 2 == 2


@wp.kernel
def ask(mesh: wp.Mesh, poses: wp.array[wp.transform], mode: int, out: wp.array[float]):
    out[0] = geo.swept_volume_sdf(wp.vec3(0.0, 0.0, 0.0), mesh, poses, 10.0, mode)


def test_kernels_get_no_sign_that_is_not_known():
    poses = jnp.asarray(slide([0, 0, 0.1])[0])
    call = wp.jax_kernel(ask)
    mesh = wp.Mesh(CUBE, SIDES)
    assert np.isnan(call(mesh, poses, int(Mode.WINDING_NUMBER), launch_dims=1)[0][0])
    np.testing.assert_allclose(call(mesh, poses, int(Mode.NORMAL), launch_dims=1)[0][0], -0.4, atol=1e-6)


MESH = wp.Mesh(CUBE, SIDES)
BAD = {
    "meshes: expected a list": lambda: geo.swept_volume_field([], slide([0, 0, 0]), 0.1),
    "mesh: expected a Mesh": lambda: geo.swept_volume_bounds([3], slide([0, 0, 0])),
    r"transforms: expected \(1, poses, 7\)": lambda: geo.swept_volume_bounds([MESH], np.zeros((2, 1, 7))),
    "at least one pose": lambda: geo.swept_volume_bounds([MESH], np.zeros((1, 0, 7))),
    "expected voxel_size or resolution": lambda: geo.swept_volume_field([MESH], slide([0, 0, 0])),
    "voxel_size: expected a positive": lambda: geo.swept_volume_field([MESH], slide([0, 0, 0]), 0.0),
    "resolution: expected 2 to 1073741824, got 1": lambda: geo.swept_volume_field(
        [MESH], slide([0, 0, 0]), resolution=(3, 1, 3)
    ),
    "no sums for winding": lambda: geo.swept_volume_field([MESH], slide([0, 0, 0]), 0.1),
    "threshold: expected a positive": lambda: geo.swept_volume_mesh(
        [MESH], slide([0, 0, 0]), 0.1, sign_mode=Mode.NO_SIGN
    ),
    "cannot depend on values": lambda: jax.jit(lambda t: geo.swept_volume_field([MESH], t, 0.1))(
        jnp.asarray(slide([0, 0, 0]))
    ),
    "sign_mode: expected 0 to 3, got 7": lambda: geo.swept_volume_field([MESH], slide([0, 0, 0]), 0.1, sign_mode=7),
    "resolution: expected 2 to 1073741824, got 2[.]5": lambda: geo.swept_volume_field(
        [MESH], slide([0, 0, 0]), resolution=(2.5, 3, 3)
    ),
    "resolution: expected three numbers": lambda: geo.swept_volume_field([MESH], slide([0, 0, 0]), resolution=8),
    "quaternions of length 1": lambda: geo.swept_volume_bounds([MESH], 2 * slide([0, 0, 0])),
    "expected finite places": lambda: geo.swept_volume_bounds([MESH], slide([np.nan, 0, 0])),
    "padding: expected a finite number": lambda: geo.swept_volume_bounds([MESH], slide([0, 0, 0]), float("nan")),
    "makes .* nodes": lambda: geo.swept_volume_field([MESH], slide([0, 0, 0]), 1e-5, sign_mode=Mode.NORMAL),
    "lower: expected three": lambda: geo.swept_volume_field(
        [MESH], slide([0, 0, 0]), resolution=(3, 3, 3), lower=[0] * 2, upper=[1] * 2, sign_mode=Mode.NORMAL
    ),
    "upper: expected more": lambda: geo.swept_volume_field(
        [MESH], slide([0, 0, 0]), resolution=(3, 3, 3), lower=[0] * 3, upper=[0] * 3, sign_mode=Mode.NORMAL
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input(message):
    with pytest.raises((KernelTypeError, KernelValueError), match=message):
        BAD[message]()
