"""Two clusters of stars that fall into each other, each star pulled by all others.

    python examples/n_body.py

A thread sums the pulls on a star. Steps are those of Stormer and Verlet; the initial state is that of H. Plummer (MNRAS
71, 460, 1911), drawn as S. Aarseth, M. Henon and R. Wielen do (Astronomy and Astrophysics 37, 183, 1974). In these
units the energy of one cluster is -3 pi / 64, and it does not change. Writes `n_body.png`: the clusters at six times.
"""

from __future__ import annotations

import argparse
import math
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.image import imsave
from tqdm import tqdm

import jaxwarp as wp

SOFTENING = 0.02

State = tuple[jax.Array, jax.Array]


@wp.kernel
def pull(x: wp.array[wp.vec3], mass: float, a: wp.array[wp.vec3], potential: wp.array[float]):
    """Accelerations, and the potential at each star."""
    i = wp.tid()
    here, sum_a, sum_p = x[i], wp.vec3(), 0.0
    for j in range(x.shape[0]):
        away = x[j] - here
        near = 1.0 / wp.sqrt(wp.dot(away, away) + SOFTENING * SOFTENING)
        sum_a += away * (near * near * near)
        sum_p -= near
    a[i] = mass * sum_a
    potential[i] = mass * (sum_p + 1.0 / SOFTENING)  # without itself


def plummer(key: jax.Array, stars: int) -> State:
    """Places and velocities of a cluster of mass 1 at rest; the scale length is 1."""
    keys = jax.random.split(key, 4)
    within = jax.random.uniform(keys[0], (stars,), minval=1e-3, maxval=0.99)
    r = (within ** (-2.0 / 3.0) - 1.0) ** -0.5
    # The part q of the speed of escape has the density q^2 (1 - q^2)^(7/2): its sums, turned around.
    parts = jnp.linspace(0.0, 1.0, 1001)
    sums = jnp.cumsum(parts**2 * (1.0 - parts**2) ** 3.5)
    q = jnp.interp(jax.random.uniform(keys[1], (stars,)), sums / sums[-1], parts)
    speed = q * math.sqrt(2.0) * (1.0 + r * r) ** -0.25
    directions = [jax.random.normal(k, (stars, 3)) for k in keys[2:]]
    unit = [d / jnp.linalg.norm(d, axis=1, keepdims=True) for d in directions]
    x, v = r[:, None] * unit[0], speed[:, None] * unit[1]
    return x - x.mean(0), v - v.mean(0)


@partial(jax.jit, static_argnames=("steps",))
def advance(state: State, mass: float, dt: float, steps: int) -> State:
    accelerations = wp.jax_kernel(pull, num_outputs=2)

    def step(_: int, state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        x, v, a = state
        x = x + dt * v + 0.5 * dt**2 * a
        new = accelerations(x, mass)[0]
        return x, v + 0.5 * dt * (a + new), new

    start = (*state, accelerations(state[0], mass)[0])
    return jax.lax.fori_loop(0, steps, step, start)[:2]


def energy(state: State, mass: float) -> tuple[float, float]:
    """Of motion, and of place."""
    _, potential = wp.jax_kernel(pull, num_outputs=2)(state[0], mass)
    return float(0.5 * mass * (state[1] ** 2).sum()), float(0.5 * mass * potential.sum())


def picture(frames: list[State], size: int = 256, half: float = 5.0) -> np.ndarray:
    """Six views from above, brighter where more stars are; the two clusters in two colours."""
    shown = []
    for x, _ in frames:
        both = []
        for part in np.split(np.asarray(x), 2):
            spots, _, _ = np.histogram2d(part[:, 1], part[:, 0], size, ((-half, half), (-half, half)))
            both.append(np.clip(np.log1p(spots) / 1.8, 0, 1)[..., None])
        shown.append(np.clip(both[0] * [1.0, 0.75, 0.43] + both[1] * [0.43, 0.67, 1.0], 0, 1))
    return np.vstack([np.hstack(shown[:3]), np.hstack(shown[3:])])


def main(arguments: list[str] | None = None) -> float:
    """Simulates, draws, and returns by which part of itself the energy has changed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stars", type=int, default=4096, help="of a cluster (default %(default)s)")
    parser.add_argument("--steps", type=int, default=150, help="between two views (default %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture (default %(default)s)")
    options = parser.parse_args(arguments)
    left, right = (plummer(key, options.stars) for key in jax.random.split(jax.random.key(0)))
    apart, towards = jnp.asarray([2.5, 0.6, 0.0]), jnp.asarray([0.35, 0.0, 0.0])
    x = jnp.concatenate([left[0] - apart, right[0] + apart])
    state = x, jnp.concatenate([left[1] + towards, right[1] - towards])
    mass = 1.0 / options.stars
    before, frames = sum(energy(state, mass)), [state]
    for _ in tqdm(range(5), unit="view"):
        state = jax.block_until_ready(advance(state, mass, 0.02, options.steps))
        frames.append(state)
    change = abs(sum(energy(state, mass)) / before - 1.0)
    print(f"energy {before:.4f}; it has changed by {100 * change:.3f} %")
    options.out.mkdir(parents=True, exist_ok=True)
    imsave(options.out / "n_body.png", picture(frames))
    print(f"wrote {options.out / 'n_body.png'}")
    return change


if __name__ == "__main__":
    main()
