"""Examples of a page each: at a small size, against published or analytic values."""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import cloth
import figure_eight
import ising
import kmeans
import neural_field
import ray_marching
import waves

import jaxwarp as wp


@pytest.fixture(autouse=True)
def standard_promotion():
    """As users have it."""
    with jax.numpy_dtype_promotion("standard"):
        yield


def test_magnetisation_is_yangs(tmp_path):
    found = ising.main(["--size", "64", "--sweeps", "400", "--out", str(tmp_path)])
    for temperature in (1.8, 2.1):
        assert abs(found[temperature][0] - found[temperature][1]) < 0.03
    assert found[3.0][0] < 0.15
    with Image.open(tmp_path / "ising.png") as picture:
        assert picture.size == (192, 64)


def test_corners_bear_the_cloth(tmp_path):
    assert abs(cloth.main(["--particles", "12", "--steps", "20000", "--out", str(tmp_path)]) - 1) < 2e-3
    assert (tmp_path / "cloth.png").is_file()


def test_three_bodies_come_back(tmp_path):
    assert figure_eight.main(["--steps", "500", "--out", str(tmp_path)]) < 1e-6
    with jax.enable_x64(True):
        slope = figure_eight.monodromy(300)
    assert abs(np.linalg.det(slope) - 1) < 1e-9  # symplectic
    forms = np.block([[np.zeros((6, 6)), np.eye(6)], [-np.eye(6), np.zeros((6, 6))]])
    np.testing.assert_allclose(slope.T @ forms @ slope, forms, atol=1e-8)


def test_rays_meet_the_ball_where_geometry_says():
    """From above, the middle of the picture is the top of the ball: its colour is lit, and sides are alike."""
    picture = ray_marching.render(32, 48)
    assert picture.shape == (32, 48, 3)
    assert np.isfinite(picture).all()
    starts = jnp.asarray([[0.0, 3.0, 0.0], [0.3, 3.0, 0.0], [3.0, 1.0, 3.0]], jnp.float32)
    t = np.asarray(march_down(starts))
    np.testing.assert_allclose(t[:2], [1.3, 3.0 - 0.9 - np.sqrt(0.64 - 0.09)], atol=2e-3)
    np.testing.assert_allclose(t[2], 1.0, atol=2e-3)  # the floor


def march_down(starts):
    (t,) = wp.jax_kernel(down)(starts)
    return t


@wp.kernel
def down(start: wp.array[wp.vec3], t: wp.array[float]):
    i = wp.tid()
    t[i] = ray_marching.march(start[i], wp.vec3(0.0, -1.0, 0.0))


def test_clusters_are_lloyds(tmp_path):
    rng = np.random.default_rng(0)
    pixel = rng.uniform(size=(500, 3)).astype(np.float32)
    colour, nearest = kmeans.cluster(jax.random.key(1), jnp.asarray(pixel), 5, 100)
    distances = np.linalg.norm(pixel[:, None].astype(np.float64) - np.asarray(colour, np.float64), axis=-1)
    np.testing.assert_array_equal(nearest, distances.argmin(axis=1))
    for k in range(5):  # it has settled: each colour is the mean of its pixels
        np.testing.assert_allclose(colour[k], pixel[np.asarray(nearest) == k].mean(axis=0), atol=1e-4)
    assert kmeans.main(["--height", "32", "--colours", "4", "--out", str(tmp_path)]) < 0.1


def test_encoding_is_bilinear_and_learns(tmp_path):
    rng = np.random.default_rng(2)
    place = rng.uniform(size=(40, 2)).astype(np.float32)
    features = rng.normal(size=(neural_field.LEVELS * neural_field.TABLE, 2)).astype(np.float32)
    shape = 40, neural_field.LEVELS
    call = wp.jax_kernel(neural_field.encode, launch_dims=shape, output_dims=shape)
    (code,) = call(place, features)
    size = int(neural_field.COARSEST)  # of the coarsest level, which fits into the table
    grid = features[: (size + 1) ** 2].reshape(size + 1, size + 1, 2)
    for n, at in enumerate(place):
        i, j = (at * size).astype(int)
        s, t = at * size - [i, j]
        expected = (1 - s) * ((1 - t) * grid[i, j] + t * grid[i, j + 1])
        expected += s * ((1 - t) * grid[i + 1, j] + t * grid[i + 1, j + 1])
        np.testing.assert_allclose(code[n, 0], expected, rtol=1e-3, atol=1e-4)
    options = ["--height", "32", "--steps", "150", "--batch", "512", "--out", str(tmp_path)]
    assert neural_field.main(options) > 25


def test_a_mode_swings_as_the_discrete_dispersion_says():
    rows, columns, c, steps = 20, 31, 0.6, 150
    kx, ky = 2 * np.pi / (rows + 1), 3 * np.pi / (columns + 1)
    mode = np.sin(kx * (1 + np.arange(rows)))[:, None] * np.sin(ky * (1 + np.arange(columns)))
    omega = 2 * np.arcsin(c * np.sqrt(np.sin(kx / 2) ** 2 + np.sin(ky / 2) ** 2))
    launch = wp.jax_kernel(waves.step)
    speed = jnp.full((rows, columns), c)
    before, now = jnp.asarray(mode, jnp.float32), jnp.asarray(np.cos(omega) * mode, jnp.float32)
    for _ in range(steps):
        before, now = now, launch(now, before, speed, jnp.zeros_like(speed))[0]
    np.testing.assert_allclose(now, np.cos((steps + 1) * omega) * mode, atol=2e-4)


def test_the_lens_is_found(tmp_path):
    assert abs(waves.main(["--rows", "48", "--out", str(tmp_path)]) - 0.33) < 1e-3
