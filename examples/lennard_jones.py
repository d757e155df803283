"""A fluid of Lennard-Jones particles with neighbour lists, in one `lax.scan`, beside published values.

    python examples/lennard_jones.py

Forces are the gradient of the energy, which a kernel sums over lists of neighbours. A list has those within the cutoff
and some more, so that it is good for several steps; in a `scan` lists are made anew, of a hash grid of the periodic
box. A first run holds the temperature by scaling velocities, a second one keeps the total energy, but for the pairs
that pass the cutoff. Its mean potential energy and pressure, with the usual corrections for what is beyond the cutoff,
are those of the fluid. Units are reduced.

Published, of Monte Carlo with a cutoff of 3: NIST Standard Reference Simulation Website, Lennard-Jones fluid.

Writes `lennard_jones.png` into --out: the radial distribution of the particles.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import jaxwarp as wp

CUTOFF, SKIN, STEP, STEPS = 3.0, 0.4, 0.004, 8  # STEPS of a list
ROOM = 176  # neighbours of a particle


class Fluid(NamedTuple):
    x: jax.Array
    v: jax.Array


@wp.kernel
def energies(x: wp.array[wp.vec3], near: wp.array2d[int], box: float, scale: float, energy: wp.array[float]):
    """Half of each pair's energy, at distances times `scale`."""
    i = wp.tid()
    total = 0.0
    for k in range(near.shape[1]):
        j = near[i, k]
        if j < x.shape[0]:
            way = x[j] - x[i]
            way = way - box * wp.vec3(wp.round(way[0] / box), wp.round(way[1] / box), wp.round(way[2] / box))
            square = scale * scale * wp.dot(way, way)
            if square < scale * scale * CUTOFF * CUTOFF:
                sixth = 1.0 / (square * square * square)
                total += 2.0 * (sixth * sixth - sixth)
    energy[i] = total


def potential(x: jax.Array, near: jax.Array, box: float, scale: jax.Array | float = 1.0) -> jax.Array:
    (found,) = wp.jax_kernel(energies, launch_dims=len(x), output_dims=len(x))(x, near, box, scale)
    return found.sum()


def neighbors(x: jax.Array, box: float) -> wp.geometry.Neighbors:
    reach = CUTOFF + SKIN
    grid = wp.HashGrid.build(x, reach / 2, int(2 * box / reach), period=box)
    return wp.geometry.neighbors(grid, reach, ROOM)


@partial(jax.jit, static_argnames=("box", "lists", "temperature"))
def run(fluid: Fluid, box: float, lists: int, temperature: float | None = None) -> tuple[Fluid, dict[str, jax.Array]]:
    """The fluid after some lists of steps, and what was measured with each; held at a temperature if one is given."""

    def of_one_list(fluid: Fluid, _: None) -> tuple[Fluid, dict[str, jax.Array]]:
        near = neighbors(fluid.x, box)
        force = lambda x: -jax.grad(potential)(x, near.indices, box)  # noqa: E731

        def step(carry: tuple[Fluid, jax.Array], _: None) -> tuple[tuple[Fluid, jax.Array], None]:
            fluid, pull = carry
            half = fluid.v + 0.5 * STEP * pull
            x = fluid.x + STEP * half
            pull = force(x)
            return (Fluid(x, half + 0.5 * STEP * pull), pull), None

        (after, _), _ = jax.lax.scan(step, (fluid, force(fluid.x)), None, STEPS)
        moved = jnp.max(jnp.linalg.norm(after.x - fluid.x, axis=1))
        kinetic = 0.5 * jnp.sum(after.v**2)
        found, virial = jax.value_and_grad(potential, 3)(after.x, near.indices, box, 1.0)
        warmth = kinetic / (1.5 * (len(after.x) - 1))
        told = {
            "potential": found, "total": found + kinetic, "temperature": warmth, "virial": -virial,
            "is_short": near.overflow | (moved > SKIN / 2),
        }  # fmt: skip
        if temperature is not None:
            after = after._replace(v=after.v * jnp.sqrt(temperature / warmth))
        return after._replace(x=after.x % box), told

    return jax.lax.scan(of_one_list, fluid, None, lists)


def crystal(side: int, density: float, temperature: float) -> tuple[Fluid, float]:
    """Four particles in each of side^3 cells, with velocities of no sum; and the length of the box."""
    box = float((4 * side**3 / density) ** (1 / 3))
    cells = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), -1).reshape(-1, 1, 3)
    places = (cells + np.array([[0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]])).reshape(-1, 3) * box / side
    v = np.random.default_rng(0).normal(size=places.shape) * np.sqrt(temperature)
    return Fluid(jnp.asarray(places, jnp.float32), jnp.asarray(v - v.mean(0), jnp.float32)), box


def draw(x: jax.Array, box: float, path: Path) -> np.ndarray:
    """The radial distribution, up to 3."""
    way = np.asarray(x)[:, None] - np.asarray(x)
    way -= box * np.round(way / box)
    far = np.linalg.norm(way, axis=-1)[np.triu_indices(len(x), 1)]
    counts, ends = np.histogram(far, 90, (0.0, 3.0))
    shell = 4 / 3 * np.pi * np.diff(ends**3) * len(x) * (len(x) - 1) / 2 / box**3
    found = counts / shell
    figure = Figure((6, 3), layout="constrained")
    axes = figure.subplots()
    axes.axhline(1, color="lightgrey")
    axes.plot((ends[1:] + ends[:-1]) / 2, found)
    axes.set(xlabel="distance", ylabel="particles, over those of a gas")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return found


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Simulates, draws, and returns energy and pressure, how much the total energy changed, and the temperature."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=5, help="cells of four particles (default %(default)s)")
    parser.add_argument("--density", type=float, default=0.82, help="(default %(default)s)")
    parser.add_argument("--temperature", type=float, default=0.85, help="(default %(default)s)")
    parser.add_argument("--lists", type=int, default=200, help="of the second run (default %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture (default %(default)s)")
    options = parser.parse_args(arguments)
    fluid, box = crystal(options.side, options.density, 2 * options.temperature)
    fluid, melted = run(fluid, box, options.lists // 2, temperature=options.temperature)
    fluid, told = run(fluid, box, options.lists)
    if bool(melted["is_short"].any() | told["is_short"].any()):
        raise SystemExit("a list of neighbours was too short: raise ROOM or SKIN")
    count, density = len(fluid.x), options.density
    warmth = float(told["temperature"].mean())
    tail = np.pi * density * (8 / 9 / CUTOFF**9 - 8 / 3 / CUTOFF**3)
    push = np.pi * density**2 * (32 / 9 / CUTOFF**9 - 16 / 3 / CUTOFF**3)
    found = {
        "energy": float(told["potential"].mean()) / count + tail,
        "pressure": density * warmth + float(told["virial"].mean()) / (3 * box**3) + push,
        "temperature": warmth,
        "drift": float(abs(told["total"][-1] - told["total"][0])) / count,
    }
    print(f"{count} particles, {options.lists * STEPS} steps at the temperature {warmth:.3f}")
    print(f"energy of a particle {found['energy']:.3f}, pressure {found['pressure']:.3f}")
    print(f"the total energy of a particle changed by {found['drift']:.5f}")
    draw(fluid.x, box, options.out / "lennard_jones.png")
    print(f"wrote {options.out / 'lennard_jones.png'}")
    return found


if __name__ == "__main__":
    main()
