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
import lennard_jones

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


def test_a_fluid_is_that_of_the_handbook(tmp_path):
    """NIST, Monte Carlo at the temperature 0.85 and density 0.82: energy -5.795, pressure 0.554."""
    found = lennard_jones.main(["--side", "4", "--lists", "80", "--out", str(tmp_path)])
    # Of a short run: what it is off by in temperature, and fluctuations of 256 particles.
    assert abs(found["energy"] - (-5.795 + 1.2 * (found["temperature"] - 0.85))) < 0.05
    assert abs(found["pressure"] - 0.554) < 0.35
    assert abs(found["temperature"] - 0.85) < 0.06
    assert found["drift"] < 5e-3
    assert picture(tmp_path / "lennard_jones.png").shape == (300, 600, 3)


def test_energies_of_lists_are_those_of_all_pairs():
    fluid, box = lennard_jones.crystal(4, 0.82, 1.0)
    x = fluid.x + 0.1 * fluid.v
    near = lennard_jones.neighbors(x, box)
    assert not near.overflow
    way = np.asarray(x, np.float64)[:, None] - np.asarray(x, np.float64)
    way -= box * np.round(way / box)
    square = (way**2).sum(-1)
    np.fill_diagonal(square, np.inf)
    pairs = np.where(square < 9, 4 * (square**-6 - square**-3), 0.0).sum() / 2
    found, push = jax.value_and_grad(lennard_jones.potential)(x, near.indices, box)
    np.testing.assert_allclose(found, pairs, rtol=1e-5)
    slope = np.where(square < 9, -48 * square**-7 + 24 * square**-4, 0.0)
    np.testing.assert_allclose(push, (slope[..., None] * way).sum(1), atol=1e-4 * np.abs(push).max())
