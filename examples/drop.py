"""A drop that is stretched, by smoothed particles in one `lax.scan`, beside the ellipse that it must be.

    python examples/drop.py

A round drop has the velocity (x, -y). Inside, pressure follows from density; outside there is nothing. Each particle
goes over the neighbours that a hash grid finds, which is built anew in each step. A drop that cannot be compressed
stays an ellipse, whose axes follow from an ordinary differential equation: Monaghan, Simulating free surface flows with
SPH, 1994, has it as a test.

Equations: Monaghan 1992, with the kernel of Wendland 1995 and an artificial viscosity.

Writes `drop.png` into --out: the drop at four times, coloured by pressure, and the ellipse. With `--film` it also
writes `drop.webp`: the same as a film.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import NamedTuple

import _film
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

import jaxwarp as wp

SOUND, VISCOSITY, END = 15.0, 0.03, 0.8
CELLS = 48


class Drop(NamedTuple):
    x: jax.Array  # [particles, 3], in the plane z = 0
    v: jax.Array
    density: jax.Array


@wp.func
def gradient(way: wp.vec3, h: float) -> wp.vec3:
    """Of the kernel, by the first of two places."""
    rest = wp.max(1.0 - 0.5 * wp.length(way) / h, 0.0)
    return -35.0 / (4.0 * wp.pi * h * h * h * h) * rest * rest * rest * way


@wp.kernel
def flow(grid: wp.HashGrid, x: wp.array[wp.vec3], v: wp.array[wp.vec3], h: float, mass: float, growth: wp.array[float]):
    """By how much density grows."""
    i = wp.tid()
    total = 0.0
    for j in wp.hash_grid_query(grid, x[i], 2.0 * h):
        total += mass * wp.dot(v[i] - v[j], gradient(x[i] - x[j], h))
    growth[i] = total


@wp.kernel
def forces(
    grid: wp.HashGrid,
    x: wp.array[wp.vec3],
    v: wp.array[wp.vec3],
    density: wp.array[float],
    pressure: wp.array[float],
    h: float,
    mass: float,
    pull: wp.array[wp.vec3],
):
    """Acceleration, by pressure and viscosity."""
    i = wp.tid()
    near = pressure[i] / (density[i] * density[i])
    total = wp.vec3()
    for j in wp.hash_grid_query(grid, x[i], 2.0 * h):
        way = x[i] - x[j]
        speed = wp.min(wp.dot(v[i] - v[j], way), 0.0)
        drag = -VISCOSITY * SOUND * h * speed / (wp.dot(way, way) + 0.01 * h * h)
        push = near + pressure[j] / (density[j] * density[j]) + drag / (0.5 * (density[i] + density[j]))
        total -= mass * push * gradient(way, h)
    pull[i] = total


def pressure_of(density: jax.Array) -> jax.Array:
    return SOUND**2 / 7 * (density**7 - 1)


@partial(jax.jit, static_argnames=("steps", "kept"))
def run(drop: Drop, spacing: jax.Array, steps: int, kept: int) -> tuple[Drop, Drop]:
    """The drop at the end, and at `kept` times up to there."""
    h, dt = 1.5 * spacing, END / steps

    def step(drop: Drop, _: None) -> tuple[Drop, None]:
        grid = wp.HashGrid.build(drop.x, 2 * h, (CELLS, CELLS, 1))
        count = len(drop.x)
        (growth,) = wp.jax_kernel(flow, launch_dims=count, output_dims=count)(grid, drop.x, drop.v, h, spacing**2)
        density = drop.density + dt * growth
        call = wp.jax_kernel(forces, launch_dims=count, output_dims=count)
        (pull,) = call(grid, drop.x, drop.v, density, pressure_of(density), h, spacing**2)
        v = drop.v + dt * pull
        return Drop(drop.x + dt * v, v, density), None

    def part(drop: Drop, _: None) -> tuple[Drop, Drop]:
        after, _ = jax.lax.scan(step, drop, None, steps // kept)
        return after, after

    return jax.lax.scan(part, drop, None, kept)


def ellipse(steps: int = 4000) -> np.ndarray:
    """The half axes at all times: a' = s a, b' = -s b, s' = s^2 (b^2 - a^2) / (a^2 + b^2), as Euler's equation says."""

    def slope(y: np.ndarray) -> np.ndarray:
        a, b, s = y
        return np.array([s * a, -s * b, s * s * (b * b - a * a) / (a * a + b * b)])

    found, dt = [np.array([1.0, 1.0, 1.0])], END / steps
    for _ in range(steps):
        middle = found[-1] + 0.5 * dt * slope(found[-1])
        found.append(found[-1] + dt * slope(middle))
    return np.array(found)[:, :2]


def round_drop(spacing: float) -> Drop:
    side = np.arange(-1 + spacing / 2, 1, spacing)
    x = np.stack(np.meshgrid(side, side, [0.0], indexing="ij"), -1).reshape(-1, 3)
    x = jnp.asarray(x[np.hypot(x[:, 0], x[:, 1]) < 1], jnp.float32)
    return Drop(x, x * jnp.array([1.0, -1.0, 0.0]), jnp.ones(len(x)))


def draw(kept: list[Drop], half: list[np.ndarray], size: tuple[float, float] = (9.0, 4.5)) -> Figure:
    """Stretched upwards, one beside the other."""
    figure = Figure(size, layout="constrained")
    for axes, drop, (a, b) in zip(figure.subplots(1, len(kept), squeeze=False)[0], kept, half, strict=True):
        axes.scatter(drop.x[:, 1], drop.x[:, 0], s=2, c=pressure_of(drop.density), cmap="coolwarm", vmin=-0.4, vmax=0.6)
        axes.add_patch(Ellipse((0, 0), 2 * b, 2 * a, fill=False))
        axes.set(xlim=(-1.1, 1.1), ylim=(-2.1, 2.1), aspect="equal")
        axes.axis("off")
    return figure


def drops(kept: Drop) -> list[Drop]:
    """Those of several times."""
    return [jax.tree.map(lambda leaf, k=k: leaf[k], kept) for k in range(len(kept.x))]


def ellipses(every: np.ndarray, count: int) -> list[np.ndarray]:
    """The half axes after each of `count` equal times."""
    return [every[min(len(every) // count * (k + 1), len(every) - 1)] for k in range(count)]


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Stretches the drop, draws it, and returns its half axes, those of the ellipse, and the change of momentum."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spacing", type=float, default=0.04, help="of the particles (default %(default)s)")
    parser.add_argument("--film", action="store_true", help="write drop.webp, too")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture (default %(default)s)")
    options = parser.parse_args(arguments)
    start = round_drop(options.spacing)
    steps = 3 * round(END * SOUND / (0.2 * 1.5 * options.spacing) / 3)
    end, kept = run(start, jnp.float32(options.spacing), steps, 3)
    # Of an ellipse the mean of x^2 is a quarter of the square of its half axis.
    a, b = (2 * float(jnp.sqrt(jnp.mean(end.x[:, k] ** 2))) for k in range(2))
    every = ellipse()
    pushed = float(jnp.abs(end.v.sum(0)).max()) / len(end.x)
    found = {"a": a, "b": b, "a_ellipse": every[-1, 0], "b_ellipse": every[-1, 1], "momentum": pushed}
    print(f"{len(start.x)} particles, {steps} steps")
    print(f"half axes {a:.3f} and {b:.3f}; of the ellipse {every[-1, 0]:.3f} and {every[-1, 1]:.3f}")
    options.out.mkdir(parents=True, exist_ok=True)
    draw([start, *drops(kept)], [every[0], *ellipses(every, 3)]).savefig(options.out / "drop.png")
    print(f"wrote {options.out / 'drop.png'}")
    if options.film:
        _, kept = run(start, jnp.float32(options.spacing), -(-steps // _film.FRAMES) * _film.FRAMES, _film.FRAMES)
        moments = zip(drops(kept), ellipses(every, _film.FRAMES), strict=True)
        _film.save_figures((draw([one], [half], (2.0, 3.75)) for one, half in moments), options.out / "drop.webp")
        print(f"wrote {options.out / 'drop.webp'}")
    return found


if __name__ == "__main__":
    main()
