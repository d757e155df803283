"""A picture as a function of place: features on grids of several sizes, looked up by a kernel, and a small network.

    python examples/neural_field.py [--image FILE]

As T. Muller et al. do it ("Instant neural graphics primitives with a multiresolution hash encoding", ACM Trans. Graph.
41, 102, 2022): a kernel interpolates the features of each grid at each place, those of large grids in a table that many
corners share by a hash; a network of two layers, in jax.numpy, makes a colour of them. The kernel's derivative by the
features adds into the table with atomics; nothing is written for it. Adam, in ten lines. Writes `neural_field.png`: the
picture, and what was learned.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import ray_marching
from PIL import Image

import jaxwarp as wp

LEVELS, TABLE, WIDTH = 8, 1 << 12, 32
COARSEST, GROWTH = 8.0, 1.6

Weights = dict[str, jax.Array]
State = tuple[Weights, Weights, Weights]
"""Weights, and the running means of their derivatives and of the squares of these."""


@wp.func
def corner(level: int, i: int, j: int, size: int) -> int:
    """The row of the table for a corner of a grid: its own where the grid fits in, else one found by a hash."""
    row = i * (size + 1) + j
    if (size + 1) * (size + 1) > TABLE:
        row = int((wp.uint32(i) ^ (wp.uint32(j) * wp.uint32(2654435761))) % wp.uint32(TABLE))
    return level * TABLE + row


@wp.kernel
def encode(place: wp.array[wp.vec2], features: wp.array[wp.vec2], code: wp.array2d[wp.vec2]):
    """Bilinear interpolation on each level."""
    n, level = wp.tid()
    size = int(COARSEST * wp.pow(GROWTH, float(level)))
    x, y = place[n][0] * float(size), place[n][1] * float(size)
    i, j = wp.min(int(x), size - 1), wp.min(int(y), size - 1)
    s, t = x - float(i), y - float(j)
    code[n, level] = (
        (1.0 - s) * (1.0 - t) * features[corner(level, i, j, size)]
        + (1.0 - s) * t * features[corner(level, i, j + 1, size)]
        + s * (1.0 - t) * features[corner(level, i + 1, j, size)]
        + s * t * features[corner(level, i + 1, j + 1, size)]
    )


def colour(weights: Weights, place: jax.Array) -> jax.Array:
    """The colours `[n, 3]` at places `[n, 2]` of the unit square."""
    shape = place.shape[0], LEVELS
    (code,) = wp.jax_kernel(encode, launch_dims=shape, output_dims=shape)(place, weights["features"])
    hidden = jax.nn.relu(code.reshape(shape[0], -1) @ weights["in"] + weights["bias"])
    return jax.nn.sigmoid(hidden @ weights["out"])


def first_weights(key: jax.Array) -> Weights:
    keys = jax.random.split(key, 3)
    return {
        "features": jax.random.uniform(keys[0], (LEVELS * TABLE, 2), minval=-1e-2, maxval=1e-2),
        "in": jax.random.normal(keys[1], (2 * LEVELS, WIDTH)) * (2 / (2 * LEVELS)) ** 0.5,
        "bias": jnp.zeros(WIDTH),
        "out": jax.random.normal(keys[2], (WIDTH, 3)) * (1 / WIDTH) ** 0.5,
    }


@partial(jax.jit, static_argnames=("steps", "batch"))
def fit(key: jax.Array, picture: jax.Array, steps: int, batch: int) -> tuple[Weights, jax.Array]:
    """The weights after so many steps of Adam (D. Kingma and J. Ba, 2015), and the losses."""
    extents = jnp.asarray(picture.shape[:2])
    weights = first_weights(key)
    zeros = jax.tree.map(jnp.zeros_like, weights)

    def loss(weights: Weights, pixel: jax.Array) -> jax.Array:
        place = (pixel + 0.5) / extents
        return jnp.mean((colour(weights, place) - picture[pixel[:, 0], pixel[:, 1]]) ** 2)

    def step(state: State, n: jax.Array) -> tuple[State, jax.Array]:
        weights, mean, square = state
        pixel = jax.random.randint(jax.random.fold_in(key, n), (batch, 2), 0, extents)
        value, slope = jax.value_and_grad(loss)(weights, pixel)
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, slope)
        square = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, square, slope)
        rate = 1e-2 * jnp.sqrt(1 - 0.99 ** (n + 1.0)) / (1 - 0.9 ** (n + 1.0))
        weights = jax.tree.map(lambda w, m, s: w - rate * m / (jnp.sqrt(s) + 1e-10), weights, mean, square)
        return (weights, mean, square), value

    (weights, _, _), losses = jax.lax.scan(step, (weights, zeros, zeros), jnp.arange(steps))
    return weights, losses


def main(arguments: list[str] | None = None) -> float:
    """Learns, draws, and returns the peak signal-to-noise ratio of what was learned, in decibels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--image", type=Path, help="a picture; without it, that of ray_marching.py")
    parser.add_argument("--height", type=int, default=256, help="of that one, in pixels (default %(default)s)")
    parser.add_argument("--steps", type=int, default=1000, help="of Adam (default %(default)s)")
    parser.add_argument("--batch", type=int, default=1 << 13, help="pixels a step (default %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture (default %(default)s)")
    options = parser.parse_args(arguments)
    if options.image is None:
        wanted = np.clip(ray_marching.render(options.height, options.height * 3 // 2), 0, 1) ** (1 / 2.2)
    else:
        wanted = np.asarray(Image.open(options.image).convert("RGB"), np.float32) / 255
    weights, losses = fit(jax.random.key(0), jnp.asarray(wanted, jnp.float32), options.steps, options.batch)
    rows, columns = wanted.shape[:2]
    across, along = np.meshgrid((np.arange(columns) + 0.5) / columns, (np.arange(rows) + 0.5) / rows)
    found = np.asarray(jax.jit(colour)(weights, jnp.asarray(np.stack([along, across], -1).reshape(-1, 2), jnp.float32)))
    found = found.reshape(wanted.shape)
    quality = float(-10 * np.log10(np.mean((found - wanted) ** 2)))
    numbers = sum(w.size for w in weights.values())
    print(f"{wanted.size} numbers by {numbers}; loss {losses[0]:.3f} to {losses[-1]:.6f}; {quality:.1f} dB")
    options.out.mkdir(parents=True, exist_ok=True)
    both = np.concatenate([wanted, found], axis=1)
    Image.fromarray((255 * both).astype(np.uint8)).save(options.out / "neural_field.png")
    print(f"wrote {options.out / 'neural_field.png'}")
    return quality


if __name__ == "__main__":
    main()
