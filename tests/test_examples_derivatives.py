"""The example that aims at a cup: its gradient against finite differences, its result, its picture."""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import trajectory

CUP = 2.2


@pytest.mark.parametrize("bounces", [0, 2])
def test_gradient_is_that_of_finite_differences(bounces):
    throw = trajectory.guesses(5)
    gradient = jax.grad(lambda t: trajectory.miss(t, CUP, bounces))(throw)
    eps = 5e-3

    def misses(offset):
        return 0.5 * (np.asarray(trajectory.land(throw + offset, bounces), np.float64) - CUP) ** 2

    for axis in range(2):
        offset = jnp.zeros(2).at[axis].set(eps)
        expected = (misses(offset) - misses(-offset)) / (2 * eps)
        np.testing.assert_allclose(gradient[:, axis], expected, rtol=0.01, atol=4e-3)


def test_forward_mode_agrees():
    throw = trajectory.guesses(3)
    land = lambda t: trajectory.land(t, 1)  # noqa: E731
    np.testing.assert_allclose(jax.jacfwd(land)(throw), jax.jacrev(land)(throw), rtol=1e-4, atol=1e-5)


def test_ballistics_without_bounces():
    """Drag is small: nearly the parabola of the schoolbook, and a little short of it."""
    throw = np.asarray(trajectory.guesses(3))
    vx, vy = throw[:, 0], throw[:, 1]
    g, height = trajectory.GRAVITY, trajectory.START[1]
    parabola = vx * (vy + np.sqrt(vy**2 + 2 * g * height)) / g
    landing = np.asarray(trajectory.land(jnp.asarray(throw), 0))
    assert (landing < parabola).all()
    np.testing.assert_allclose(landing, parabola, rtol=0.15)


def test_throws_end_in_the_cup_and_in_a_picture(tmp_path, capsys):
    worst = trajectory.main(["--throws", "3", "--iterations", "15", "--bounces", "1", "--out", str(tmp_path)])
    assert worst < 1e-3
    assert "misses by 0.000" in capsys.readouterr().out
    picture = np.asarray(Image.open(tmp_path / "trajectory.png"))
    assert picture.shape == (440, 900, 4)
    # The throws are in colour, from violet to green; the first guesses grey.
    red, green, blue = (picture[..., k].astype(int) for k in range(3))
    assert ((blue - green) > 40).any()
    assert ((green - blue) > 40).any()
    assert ((red == green) & (green == blue) & (abs(green - 211) < 5)).any()
