"""The example that looks for a cylinder in its wake: its gradient against NumPy in float64, its descent, its errors."""

from __future__ import annotations

import sys
from pathlib import Path

import flow_reference
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import wind_tunnel_inverse as inverse

SMALL = inverse.Experiment(ny=24, nx=48, wind=0.1, viscosity=0.03, moments=3, stretch=8)
TRUE, GUESS = np.array([12.0, 11.5, 3.0]), np.array([10.8, 12.6, 2.4])


def blow(experiment: inverse.Experiment, cylinder: np.ndarray) -> np.ndarray:
    """The velocities of `Experiment.blow` again: NumPy, float64, direction by direction."""
    y, x = np.mgrid[: experiment.ny, : experiment.nx]
    distance = np.hypot(x - cylinder[0], y - cylinder[1])
    solid = 1.0 / (1.0 + np.exp(-(cylinder[2] - distance) / inverse.EDGE))
    omega = np.full(experiment.nx, 1.0 / (3.0 * experiment.viscosity + 0.5))
    cu = 3.0 * flow_reference.C[:, 0] * experiment.wind
    still = flow_reference.W * (1.0 + cu + 0.5 * cu**2 - 1.5 * experiment.wind**2)
    f = np.broadcast_to(still[:, None, None], (9, *solid.shape)).copy()
    seen = []
    for _ in range(experiment.moments):
        for _ in range(experiment.stretch):
            arrived = np.empty_like(f)
            for q, (cx, cy) in enumerate(flow_reference.C):
                padded = np.pad(np.roll(f[q], cy, axis=0), ((0, 0), (1, 1)), mode="edge")
                padded[:, 0] = still[q]
                arrived[q] = padded[:, 1 - cx : 1 - cx + experiment.nx]
            back = arrived[[flow_reference.direction(-c) for c in flow_reference.C]]
            f = (1.0 - solid) * flow_reference.collide(arrived, omega) + solid * back
        seen.append(np.moveaxis(flow_reference.macroscopic(f)[1], 0, -1))
    return np.array(seen)


def error(experiment: inverse.Experiment, cylinder: np.ndarray, known: np.ndarray) -> float:
    wake = blow(experiment, cylinder)[:, :, experiment.window]
    return float(np.mean(np.sum((wake - known) ** 2, axis=-1)) / experiment.wind**2)


def test_flow_is_that_of_numpy():
    _, velocities = jax.jit(SMALL.blow)(jnp.asarray(TRUE, jnp.float32))
    np.testing.assert_allclose(velocities, blow(SMALL, TRUE), atol=2e-6)
    assert np.ptp(blow(SMALL, TRUE)[-1]) > SMALL.wind  # the cylinder is in the way


def test_gradient_is_that_of_finite_differences():
    known = blow(SMALL, TRUE)[:, :, SMALL.window]
    gradient = jax.jit(jax.grad(SMALL.error))(jnp.asarray(GUESS, jnp.float32), jnp.asarray(known, jnp.float32))
    eps = 1e-5
    expected = [
        (error(SMALL, GUESS + eps * unit, known) - error(SMALL, GUESS - eps * unit, known)) / (2 * eps)
        for unit in np.eye(3)
    ]
    np.testing.assert_allclose(gradient, expected, rtol=2e-3)
    assert np.abs(expected).min() > 1e-6


def test_descent_finds_the_cylinder(tmp_path, capsys):
    options = inverse.parse([
        *("--width", "64", "--height", "32", "--true", "15", "15", "4", "--guess", "12.5", "17", "3"),
        *("--moments", "8", "--stretch", "25", "--iterations", "16", "--reynolds", "40", "--out", str(tmp_path)),
    ])  # fmt: skip
    tried, errors = inverse.run(options)
    assert errors[-1] < errors[0] / 20
    assert np.linalg.norm(tried[-1] - options.true) < 0.4 * np.linalg.norm(tried[0] - options.true)
    assert "truth: ( 15.00,  15.00), radius  4.00" in capsys.readouterr().out
    sheet = np.asarray(Image.open(tmp_path / "wind_tunnel_inverse.png"))
    assert sheet.shape == (900, 500, 4)
    assert np.ptp(sheet[..., :3].astype(int)) > 150
    with Image.open(tmp_path / "wind_tunnel_inverse.gif") as moving:
        assert moving.n_frames > 10


@pytest.mark.parametrize(("arguments", "complaint"), [
    (["--width", "10"], "--width must be at least 48, got 10"),
    (["--velocity", "0.5"], "--velocity must be above 0 and at most 0.2, got 0.5"),
    (["--reynolds", "1e6"], "--reynolds 1e+06 makes a viscosity of 0.0000; 0.005 is the least"),
    (["--true", "90", "20", "4"], "--true: the cylinder at (90, 20) of radius 4 is not inside the tunnel, before the"
     " window that begins at 96, or its radius not from 1 to 18"),
    (["--guess", "a", "b", "c"], "argument --guess: invalid float value: 'a'"),
])  # fmt: skip
def test_refused(arguments, complaint, capsys):
    assert inverse.main(arguments) == 2
    assert capsys.readouterr().err == f"wind_tunnel_inverse: {complaint}\n"
