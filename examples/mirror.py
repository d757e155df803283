"""A mirror that finds its shape by the rays that it reflects, with optax.

    python examples/mirror.py

Rays come straight down on a flat mesh, are reflected, and are to meet in one point. How far each one misses it is
differentiated by the heights of all vertices, through `cast_rays`: by where a ray hits, and by the way the face looks.
Adam does the rest. A mirror that does this is a paraboloid: z = r^2 / 4 f.

Writes `mirror.png` into --out: where the rays pass the focus before and after, and a cut through the mirror.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from matplotlib.figure import Figure

import jaxwarp as wp

FOCUS = 1.5  # above the middle of the mirror, whose sides are 2


def grid(side: int) -> tuple[jax.Array, jax.Array]:
    """Places of side^2 vertices, without their heights, and triangles, front up."""
    x = jnp.linspace(-1, 1, side)
    places = jnp.stack(jnp.meshgrid(x, x, indexing="ij"), -1).reshape(-1, 2)
    n = np.arange(side * side, dtype=np.int32).reshape(side, side)
    a, b, c, d = n[:-1, :-1].ravel(), n[1:, :-1].ravel(), n[1:, 1:].ravel(), n[:-1, 1:].ravel()
    return places, jnp.asarray(np.concatenate([np.stack([a, b, c], -1), np.stack([a, c, d], -1)]))


def light(places: jax.Array, faces: jax.Array) -> jax.Array:
    """Where rays start: above three places of each face."""
    weights = jnp.array([[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]])
    spots = jnp.einsum("kc,fcd->fkd", weights, places[faces]).reshape(-1, 2)
    return jnp.concatenate([spots, jnp.full((len(spots), 1), 3.0)], 1)


def spots(heights: jax.Array, places: jax.Array, faces: jax.Array, starts: jax.Array) -> jax.Array:
    """Where reflected rays pass the plane of the focus, [rays, 2]; the mirror's middle is at the height 0."""
    heights = heights - heights[len(heights) // 2]
    mesh = wp.Mesh(jnp.concatenate([places, heights[:, None]], 1), faces)
    down = jnp.array([0.0, 0.0, -1.0])
    hits = wp.geometry.cast_rays(mesh, starts, down)
    way = down - 2 * (hits.normal @ down)[:, None] * hits.normal
    hit = starts + jnp.where(jnp.isfinite(hits.t), hits.t, 0.0)[:, None] * down
    return hit[:, :2] + ((FOCUS - hit[:, 2]) / way[:, 2])[:, None] * way[:, :2]


def shape(side: int, steps: int) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """The heights that were found, the losses, and where rays pass the focus before and after."""
    places, faces = grid(side)
    starts = light(places, faces)
    optimiser = optax.adam(optax.cosine_decay_schedule(0.01, steps))

    def loss(heights: jax.Array) -> jax.Array:
        return jnp.mean(jnp.sum(spots(heights, places, faces, starts) ** 2, -1))

    @jax.jit
    def run(heights: jax.Array) -> tuple[jax.Array, jax.Array]:
        def step(carry: Any, _: None) -> tuple[Any, jax.Array]:
            heights, state = carry
            value, slope = jax.value_and_grad(loss)(heights)
            change, state = optimiser.update(slope, state)
            return (optax.apply_updates(heights, change), state), value

        (heights, _), losses = jax.lax.scan(step, (heights, optimiser.init(heights)), None, steps)
        return heights - heights[len(heights) // 2], losses

    flat = jnp.zeros(side * side)
    heights, losses = run(flat)
    return heights, losses, spots(flat, places, faces, starts), spots(heights, places, faces, starts)


def draw(heights: np.ndarray, before: np.ndarray, after: np.ndarray, path: Path) -> None:
    figure = Figure((9, 3.2), layout="constrained")
    *around, across = figure.subplots(1, 3)
    for axes, spots, name in zip(around, (before, after), ("flat", "found"), strict=True):
        axes.scatter(*spots.T, s=2)
        axes.set(xlim=(-1.2, 1.2), ylim=(-1.2, 1.2), title=f"{name}: at the focus")
    x, z = np.linspace(-1, 1, len(heights)), heights[:, len(heights) // 2]
    for k in range(0, len(x), max(1, len(x) // 8)):
        across.plot([x[k], x[k], 0], [2 * FOCUS, z[k], FOCUS], color="orange", linewidth=0.7)
    across.plot(x, z, color="black")
    across.set(ylim=(-0.2, 2.2), title="a cut through the mirror")
    for axes in (*around, across):
        axes.set_aspect("equal")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Shapes the mirror, draws, and returns how far rays miss, and by how much the mirror is no paraboloid."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=25, help="vertices along a side, odd (default %(default)s)")
    parser.add_argument("--steps", type=int, default=1500, help="of Adam (default %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture (default %(default)s)")
    options = parser.parse_args(arguments)
    heights, losses, before, after = shape(options.side, options.steps)
    places, faces = grid(options.side)
    off = jnp.abs(heights - jnp.sum(places**2, -1) / (4 * FOCUS))
    found = {
        "missed_before": float(jnp.sqrt(losses[0])),
        "missed": float(jnp.sqrt(losses[-1])),
        "off": float(off.max()),
        "face": 2.0 / (options.side - 1),
    }
    print(f"{len(faces)} triangles, {3 * len(faces)} rays: they miss the focus by {found['missed']:.4f},"
          f" at first by {found['missed_before']:.2f}")  # fmt: skip
    print(f"the mirror is a paraboloid to {found['off']:.5f}; its rim is {2 / (4 * FOCUS):.2f} high")
    square = np.asarray(heights).reshape(options.side, options.side)
    draw(square, np.asarray(before), np.asarray(after), options.out / "mirror.png")
    print(f"wrote {options.out / 'mirror.png'}")
    return found


if __name__ == "__main__":
    main()
