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

import avalanche
import depth_camera
import distance_field
import drop
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
    assert picture(tmp_path / "depth_camera.png").shape == (260, 900, 4)


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
    assert picture(tmp_path / "distance_field.png").shape == (450, 900, 4)


def test_a_fluid_is_that_of_the_handbook(tmp_path):
    """NIST, Monte Carlo at the temperature 0.85 and density 0.82: energy -5.795, pressure 0.554."""
    found = lennard_jones.main(["--side", "4", "--lists", "80", "--out", str(tmp_path)])
    # Of a short run: what it is off by in temperature, and fluctuations of 256 particles.
    assert abs(found["energy"] - (-5.795 + 1.2 * (found["temperature"] - 0.85))) < 0.05
    assert abs(found["pressure"] - 0.554) < 0.35
    assert abs(found["temperature"] - 0.85) < 0.06
    assert found["drift"] < 5e-3
    assert picture(tmp_path / "lennard_jones.png").shape == (300, 600, 4)


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


def all_pairs(x: np.ndarray, box: float) -> tuple[np.ndarray, float, float]:
    """Forces, energy and virial of the fluid in double precision, without lists."""
    way = x[:, None] - x
    way -= box * np.round(way / box)
    square = (way**2).sum(-1)
    np.fill_diagonal(square, np.inf)
    sixth = np.where(square < lennard_jones.CUTOFF**2, square**-3, 0.0)
    pull = (48 * sixth**2 - 24 * sixth) / square
    return (pull[..., None] * way).sum(1), 2 * (sixth**2 - sixth).sum(), 0.5 * (pull * np.where(sixth, square, 0)).sum()


def test_a_fluid_without_lists_has_the_same_energy_and_pressure():
    """From one state on, this code in NumPy beside the example: the steps are the same, rounding is not."""
    fluid, box = lennard_jones.crystal(3, 0.82, 1.7)
    fluid, _ = lennard_jones.run(fluid, box, 40, temperature=0.85)
    _, told = lennard_jones.run(fluid, box, 40)
    x, v = (np.asarray(a, np.float64) for a in fluid)
    force = all_pairs(x, box)[0]
    energies, virials, dt = [], [], lennard_jones.STEP
    energy = virial = 0.0
    for _ in range(40):
        for _ in range(lennard_jones.STEPS):
            v += 0.5 * dt * force
            x = x + dt * v
            force, energy, virial = all_pairs(x, box)
            v += 0.5 * dt * force
        energies.append(energy)
        virials.append(virial)
    count = len(x)
    np.testing.assert_allclose(told["potential"][:5] / count, np.array(energies[:5]) / count, atol=2e-4)
    assert abs(float(told["potential"].mean()) - np.mean(energies)) / count < 0.02
    assert abs(float(told["virial"].mean()) - np.mean(virials)) / (3 * box**3) < 0.15


def test_a_drop_is_stretched_to_an_ellipse(tmp_path, monkeypatch):
    monkeypatch.setattr(drop._film, "FRAMES", 5)
    found = drop.main(["--spacing", "0.1", "--film", "--out", str(tmp_path)])
    assert abs(found["a"] - found["a_ellipse"]) < 0.04
    assert abs(found["b"] - found["b_ellipse"]) < 0.06
    assert found["momentum"] < 1e-4
    assert picture(tmp_path / "drop.png").shape == (450, 900, 4)
    with Image.open(tmp_path / "drop.webp") as film:
        assert (film.size, film.n_frames) == ((200, 375), 5)


def test_the_ellipse_keeps_its_area_and_its_energy():
    """Of an ellipse with the velocity (s x, -s y), energy is s^2 (a^2 + b^2) times a constant."""
    a, b = drop.ellipse().T
    np.testing.assert_allclose(a * b, 1, rtol=1e-6)
    s = np.gradient(np.log(a), drop.END / (len(a) - 1))
    np.testing.assert_allclose((s**2 * (a**2 + b**2))[2:-2], 2.0, rtol=1e-4)


def grains(x, v, radius):
    zeros = np.zeros(len(x))
    places = (np.c_[x, zeros], np.c_[v, zeros], zeros, np.asarray(radius))
    return avalanche.Grains(*(jnp.asarray(a, jnp.float32) for a in places))


def test_two_grains_bounce_as_a_damped_spring_does():
    made = grains([[10, 50], [12.2, 50]], [[2.0, 0], [-2.0, 0]], [1.0, 1.0])
    end = avalanche.run(made, 200)
    assert abs(float(end.v[1, 0] - end.v[0, 0]) / 4.0 - avalanche.BOUNCE) < 0.05
    np.testing.assert_allclose(end.v[:, 1], -200 * avalanche.STEP, rtol=1e-4)


def test_a_disc_that_slides_comes_to_roll():
    """Friction turns it until it rolls: with two thirds of its speed, whatever the friction."""
    sunk = np.pi / avalanche.STIFFNESS
    made = grains([[50.0, 1 - sunk]], [[5.0, 0.0]], [1.0])
    rolling = avalanche.run(made, 4000)
    np.testing.assert_allclose(rolling.v[0, 0], 10 / 3, rtol=1e-2)
    np.testing.assert_allclose(rolling.spin[0], -10 / 3, rtol=1e-2)
    sliding = avalanche.run(made, 500)
    np.testing.assert_allclose(sliding.v[0, 0], 5 - avalanche.FRICTION * 500 * avalanche.STEP, rtol=1e-2)


def test_how_far_grains_flow_hardly_depends_on_how_many_they_are(tmp_path):
    found = [avalanche.main(["--across", str(n), "--slender", "1", "--out", str(tmp_path)]) for n in (8, 14)]
    assert found[0]["moving"] < 0.5
    assert 1 < found[0]["reach"] < 5
    assert abs(found[0]["reach"] / found[1]["reach"] - 1) < 0.25
    assert picture(tmp_path / "avalanche.png").shape == (900, 900, 4)


def test_a_mirror_becomes_a_paraboloid(tmp_path):
    pytest.importorskip("optax")
    import mirror

    found = mirror.main(["--side", "13", "--steps", "400", "--out", str(tmp_path)])
    assert found["off"] < 0.005
    assert found["missed"] < 0.5 * found["face"] < 0.2 * found["missed_before"]
    assert picture(tmp_path / "mirror.png").shape == (320, 900, 4)
