"""A column of grains that collapses, its steps in `lax.scan`.

    python examples/avalanche.py

Grains are discs of several sizes. Where they overlap, a spring and a damper push them apart, and friction holds them
back, up to the coefficient times the force between them; they turn, too. A hash grid, built anew in each step, finds
who touches whom. How far the heap reaches, as a multiple of the column's width, depends on how slender the column was,
and hardly on its size: Lube, Huppert, Sparks and Hallworth 2004; Staron and Hinch 2005 for discs.

Forces: Cundall and Strack 1979. Units: the mean radius, gravity, and the density of grains are 1.

Writes `avalanche.png` into --out: the column, the flow, and the heap, coloured by where grains were.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.collections import EllipseCollection
from matplotlib.figure import Figure
from tqdm import tqdm

import jaxwarp as wp

STIFFNESS, DAMPING, FRICTION, GRIP = 4.0e4, 60.0, 0.5, 400.0
STEP, LARGEST = 0.002, 1.3
BOUNCE = np.exp(-np.pi * DAMPING / np.sqrt(4 * STIFFNESS * (np.pi / 2) - DAMPING**2))  # of two grains of radius 1


class Grains(NamedTuple):
    x: jax.Array  # [grains, 3], in the plane z = 0
    v: jax.Array
    spin: jax.Array
    radius: jax.Array


@wp.func
def contact(depth: float, normal: wp.vec3, speed: wp.vec3):
    """The force of something that a grain is pressed into, which pushes along `normal`; `speed` is the grain's."""
    along = wp.dot(speed, normal)
    push = wp.max(STIFFNESS * depth - DAMPING * along, 0.0)
    aside = speed - along * normal
    hold = wp.min(GRIP, FRICTION * push / wp.max(wp.length(aside), 1.0e-6))
    return push * normal - hold * aside


@wp.func
def turning(spin: float, arm: wp.vec3) -> wp.vec3:
    """The speed of a point of a grain that turns."""
    return wp.vec3(-spin * arm[1], spin * arm[0], 0.0)


@wp.kernel
def forces(
    grid: wp.HashGrid,
    x: wp.array[wp.vec3],
    v: wp.array[wp.vec3],
    spin: wp.array[float],
    radius: wp.array[float],
    wall: float,
    force: wp.array[wp.vec3],
    torque: wp.array[float],
):
    """Of other grains, of the floor y = 0, and of a wall on the left."""
    i = wp.tid()
    r = radius[i]
    total = wp.vec3(0.0, -wp.pi * r * r, 0.0)
    turn = 0.0
    for j in wp.hash_grid_query(grid, x[i], r + LARGEST):
        way = x[i] - x[j]
        far = wp.length(way)
        if far < r + radius[j] and far > 0.0:
            normal = way / far
            speed = v[i] - v[j] + turning(spin[i], -r * normal) - turning(spin[j], radius[j] * normal)
            found = contact(r + radius[j] - far, normal, speed)
            total += found
            turn += r * (normal[1] * found[0] - normal[0] * found[1])
    for k in range(2):
        normal = wp.vec3(0.0, 1.0, 0.0) if k == 0 else wp.vec3(1.0, 0.0, 0.0)
        depth = r - (x[i][1] if k == 0 else x[i][0] - wall)
        if depth > 0.0:
            found = contact(depth, normal, v[i] + turning(spin[i], -r * normal))
            total += found
            turn += r * (normal[1] * found[0] - normal[0] * found[1])
    force[i] = total
    torque[i] = turn


@partial(jax.jit, static_argnames=("steps",))
def run(grains: Grains, steps: int, wall: float = 0.0) -> Grains:
    """The grains after so many steps."""
    count, mass = len(grains.x), jnp.pi * grains.radius**2

    def step(grains: Grains, _: None) -> tuple[Grains, None]:
        grid = wp.HashGrid.build(grains.x, 2 * LARGEST, (256, 64, 1))
        call = wp.jax_kernel(forces, num_outputs=2, launch_dims=count, output_dims=count)
        force, torque = call(grid, *grains, wall)
        v = grains.v + STEP * force / mass[:, None]
        spin = grains.spin + STEP * torque / (0.5 * mass * grains.radius**2)
        return Grains(grains.x + STEP * v, v, spin, grains.radius), None

    return jax.lax.scan(step, grains, None, steps)[0]


def column(across: int, slender: float) -> tuple[Grains, float]:
    """A column so many grains wide, and so many times as high as wide; and its width."""
    high = round(across * slender)
    random = np.random.default_rng(0)
    n = np.stack(np.meshgrid(np.arange(across), np.arange(high), indexing="ij"), -1).reshape(-1, 2)
    x = np.zeros((len(n), 3))
    x[:, :2] = 1.05 + 2.1 * n + random.uniform(-0.05, 0.05, n.shape)
    radius = random.uniform(0.7, 1.0, len(n))
    grains = Grains(*(jnp.asarray(a, jnp.float32) for a in (x, 0 * x, 0 * radius, radius)))
    return grains, 2.1 * across


def draw(kept: list[Grains], width: float, path: Path) -> None:
    """One under the other; grains are coloured by where they were at first."""
    high = np.asarray(kept[0].x[:, 1])
    layer = (5 * high / high.max()).astype(int) % 2
    figure = Figure((9, 3 * len(kept)), layout="constrained")
    for axes, grains in zip(figure.subplots(len(kept), sharex=True), kept, strict=True):
        size = 2 * np.asarray(grains.radius)
        look = {"array": layer, "cmap": "copper", "clim": (-1, 1.3)}
        places = {"offsets": grains.x[:, :2], "offset_transform": axes.transData}
        axes.add_collection(EllipseCollection(size, size, 0 * size, units="xy", **places, **look))
        axes.axhline(0, color="black")
        axes.set(xlim=(0, 4.2 * width), ylim=(-1, 1.4 * width), aspect="equal")
        axes.axis("off")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def reach(grains: Grains, width: float) -> float:
    """How far the heap goes beyond the column, as a multiple of its width: but for the last hundredth of the grains."""
    return float(jnp.quantile(grains.x[:, 0] + grains.radius, 0.99)) / width - 1


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Lets the column collapse, draws, and returns how far it reaches, and how much it still moves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--across", type=int, default=24, help="grains (default %(default)s)")
    parser.add_argument("--slender", type=float, default=1.5, help="height by width (default %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture (default %(default)s)")
    options = parser.parse_args(arguments)
    start, width = column(options.across, options.slender)
    fall = np.sqrt(width * options.slender)
    kept = [start]
    for _ in tqdm(range(5), unit="part"):
        kept.append(jax.block_until_ready(run(kept[-1], round(7 * fall / STEP / 5))))
    end = kept[-1]
    moving = 0.5 * float(jnp.mean(jnp.sum(end.v**2, 1)))
    found = {"reach": reach(end, width), "height": float(jnp.max(end.x[:, 1])) / width, "moving": moving}
    print(f"{len(start.x)} grains, a column {options.slender} times as high as wide")
    print(f"the heap reaches {found['reach']:.2f} widths further, and is {found['height']:.2f} widths high")
    draw([start, kept[1], end], width, options.out / "avalanche.png")
    print(f"wrote {options.out / 'avalanche.png'}")
    return found


if __name__ == "__main__":
    main()
