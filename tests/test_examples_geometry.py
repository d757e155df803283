"""The examples with meshes, rays and surfaces: against what is known, and the pictures that they write."""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import depth_camera
import distance_field

import jaxwarp as wp


def picture(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        shown = np.asarray(image)
    assert shown.std() > 20
    return shown


@pytest.fixture
def plain_promotion():
    """Examples are written as users write them."""
    with jax.numpy_dtype_promotion("standard"):
        yield


pytestmark = pytest.mark.usefixtures("plain_promotion")


def test_a_camera_finds_where_it_stands(tmp_path):
    assert depth_camera.main(["--iterations", "8", "--out", str(tmp_path)]) < 1e-3
    assert picture(tmp_path / "depth_camera.png").shape == (240, 960)


def test_depths_are_those_of_a_plane():
    """Of z = 0, seen from above: its derivatives are known; a mesh that moves is a camera that moves back."""
    points = jnp.array([[-50.0, -50.0, 0.0], [50.0, -50.0, 0.0], [50.0, 50.0, 0.0], [-50.0, 50.0, 0.0]])
    faces = jnp.array([[0, 1, 2], [0, 2, 3]], jnp.int32)
    pose = jnp.array([0.1, 0.2, 3.0, 0.1, -0.2, 0.3])

    def plane(pose):
        return -pose[2] / depth_camera.turned(pose[3:], depth_camera.rays())[..., 2]

    def found(points, pose):
        return depth_camera.depth(wp.Mesh(points, faces), pose)

    np.testing.assert_allclose(found(points, pose), plane(pose), rtol=1e-5)
    by_points, by_pose = jax.jit(jax.jacfwd(found, (0, 1)))(points, pose)
    np.testing.assert_allclose(by_pose, jax.jacfwd(plane)(pose), atol=2e-3, rtol=1e-3)
    np.testing.assert_allclose(by_points.sum(2), -by_pose[..., :3], atol=1e-3)


def test_a_field_is_fitted_to_points(tmp_path):
    found = distance_field.main(["--points", "2000", "--nodes", "24", "--iterations", "50", "--out", str(tmp_path)])
    assert found["euler"] == 0
    assert abs(found["area"]) < 0.03
    assert abs(found["volume"]) < 0.03
    assert picture(tmp_path / "distance_field.png").shape == (360, 720)
