"""Particles in a grid: two beams of electrons that pass through each other, and what becomes of them.

    python examples/plasma.py

A step of a particle-in-cell code (C. Birdsall and A. Langdon, "Plasma Physics via Computer Simulation", 1985): a kernel
adds the charge of each particle to the two cells around it, by atomics; JAX solves Poisson's equation by a Fourier
transform; a second kernel interpolates the field and moves the particle. A small ripple grows. With times in units of
the plasma's frequency, its rate is a root of the cold beams' dispersion relation, 1 = (1/2) [1 / (w - k v)^2 +
1 / (w + k v)^2], for imaginary w. Writes `plasma.png`: place and velocity of the particles at four times.
"""

from __future__ import annotations

import argparse
import math
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from tqdm import tqdm

import jaxwarp as wp

LENGTH, STEP = 2.0 * math.pi, 0.1
BEAM = math.sqrt(3.0 / 8.0)  # the velocity for which the longest wave grows fastest

State = tuple[jax.Array, jax.Array]


@wp.kernel
def deposit(x: wp.array[float], scale: float, charge: wp.array[float]):
    n = charge.shape[0]
    at = x[wp.tid()] * float(n) / LENGTH
    i = int(wp.floor(at))
    part = at - float(i)
    wp.atomic_add(charge, i % n, scale * (1.0 - part))
    wp.atomic_add(charge, (i + 1) % n, scale * part)


@wp.kernel
def push(field: wp.array[float], x: wp.array[float], v: wp.array[float]):
    p = wp.tid()
    n = field.shape[0]
    at = x[p] * float(n) / LENGTH
    i = int(wp.floor(at))
    part = at - float(i)
    faster = v[p] - STEP * ((1.0 - part) * field[i % n] + part * field[(i + 1) % n])
    ahead = x[p] + STEP * faster
    v[p] = faster
    x[p] = ahead - LENGTH * wp.floor(ahead / LENGTH)


def field_of(charge: jax.Array) -> jax.Array:
    """The electric field of electrons of this density on ions of density 1."""
    waves = 2.0 * math.pi / LENGTH * jnp.arange(1, charge.size // 2 + 1)
    rho = jnp.fft.rfft(1.0 - charge)
    return jnp.fft.irfft(rho.at[0].set(0.0).at[1:].divide(1j * waves), charge.size)


@partial(jax.jit, static_argnames=("steps", "cells"))
def simulate(state: State, steps: int, cells: int) -> tuple[State, jax.Array]:
    """The particles after so many steps, and the longest wave of the field after each."""
    add = wp.jax_kernel(deposit, output_dims=cells)
    move = wp.jax_kernel(push, launch_dims=state[0].size, num_outputs=2, in_out_argnames=["x", "v"])

    def step(state: State, _: None) -> tuple[State, jax.Array]:
        field = field_of(add(state[0], cells / state[0].size)[0])
        x, v = move(field, *state)
        return (x, v), jnp.abs(jnp.fft.rfft(field)[1]) / cells

    return jax.lax.scan(step, state, None, length=steps)


def beams(particles: int, ripple: float = 1e-4) -> State:
    """Two beams, evenly spread but for a ripple."""
    at = (jnp.arange(particles // 2) + 0.5) * (LENGTH / (particles // 2))
    x = jnp.concatenate([at, at]) + ripple * jnp.cos(jnp.concatenate([at, at]))
    return x % LENGTH, jnp.repeat(jnp.asarray([BEAM, -BEAM], jnp.float32), particles // 2)


def rate() -> float:
    """By the roots of (w^2 - k^2 v^2)^2 = w^2 + k^2 v^2, which are those of the relation above, for k = 1."""
    flow = BEAM**2
    squares = np.roots([1.0, -2.0 * flow - 1.0, flow**2 - flow])
    return math.sqrt(-min(squares))


def draw(frames: list[State], path: Path) -> None:
    """How many particles there are, by place and velocity."""
    figure = Figure((9, 5), layout="constrained")
    for n, (axes, (x, v)) in enumerate(zip(figure.subplots(2, 2, sharex=True, sharey=True).flat, frames, strict=True)):
        axes.hist2d(x, v, (320, 160), range=((0.0, LENGTH), (-1.4, 1.4)), norm="log", cmap="magma")
        axes.set(title=f"time {120 * (n + 1) * STEP:.0f}", facecolor="black")
    figure.supxlabel("place")
    figure.supylabel("velocity")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Simulates, draws, and returns the rate at which the wave grew, and that of theory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--particles", type=int, default=200_000, help="of both beams (default %(default)s)")
    parser.add_argument("--cells", type=int, default=128, help="of the grid (default %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture (default %(default)s)")
    options = parser.parse_args(arguments)
    state, frames, waves = beams(options.particles), [], []
    for _ in tqdm(range(4), unit="frame", desc="120 steps each"):
        state, wave = jax.block_until_ready(simulate(state, 120, options.cells))
        frames.append(state)
        waves.append(np.asarray(wave))
    wave = np.log(np.concatenate(waves))
    grown = (wave[160] - wave[80]) / (80 * STEP)  # when what decays is gone, and before the beams are bent
    print(f"the wave grows at the rate {grown:.4f}, by theory {rate():.4f}")
    draw(frames, options.out / "plasma.png")
    print(f"wrote {options.out / 'plasma.png'}")
    return float(grown), rate()


if __name__ == "__main__":
    main()
