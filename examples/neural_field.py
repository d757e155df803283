"""A picture as a function of place: features on grids of several sizes, looked up by a kernel, and a small network.

    python examples/neural_field.py [--image FILE]

As T. Muller et al. do it ("Instant neural graphics primitives with a multiresolution hash encoding", ACM Trans. Graph.
41, 102, 2022): a kernel interpolates the features of each grid at each place, those of large grids in a table that many
corners share by a hash; a network of two layers makes a colour of them. Table and network are a module of equinox, and
optax has Adam. The kernel's derivative by the features adds into the table with atomics; nothing is written for it.
Writes `neural_field.png`: the picture, and what was learned.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import ray_marching
from matplotlib.image import imsave
from tqdm import tqdm

import jaxwarp as wp

LEVELS, TABLE, WIDTH = 8, 1 << 12, 32
COARSEST, GROWTH = 8.0, 1.6


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


class Field(eqx.Module):
    """Colours `[n, 3]` at places `[n, 2]` of the unit square."""

    features: jax.Array
    network: eqx.nn.MLP

    def __init__(self, key: jax.Array):
        of_features, of_network = jax.random.split(key)
        self.features = jax.random.uniform(of_features, (LEVELS * TABLE, 2), minval=-1e-2, maxval=1e-2)
        self.network = eqx.nn.MLP(2 * LEVELS, 3, WIDTH, 1, final_activation=jax.nn.sigmoid, key=of_network)

    def __call__(self, place: jax.Array) -> jax.Array:
        shape = place.shape[0], LEVELS
        (code,) = wp.jax_kernel(encode, launch_dims=shape, output_dims=shape)(place, self.features)
        return jax.vmap(self.network)(code.reshape(shape[0], -1))


def fit(key: jax.Array, picture: jax.Array, steps: int, batch: int) -> tuple[Field, list[float]]:
    """The field after so many steps, and the losses."""
    extents = jnp.asarray(picture.shape[:2])
    field, optimiser = Field(key), optax.adam(1e-2, b2=0.99, eps=1e-10)

    @eqx.filter_value_and_grad
    def loss(field: Field, pixel: jax.Array) -> jax.Array:
        return jnp.mean((field((pixel + 0.5) / extents) - picture[pixel[:, 0], pixel[:, 1]]) ** 2)

    @eqx.filter_jit(donate="all")
    def step(field: Field, state: optax.OptState, key: jax.Array) -> tuple[Field, optax.OptState, jax.Array]:
        value, slope = loss(field, jax.random.randint(key, (batch, 2), 0, extents))
        change, state = optimiser.update(slope, state)
        return eqx.apply_updates(field, change), state, value

    state, losses = optimiser.init(eqx.filter(field, eqx.is_array)), []
    for n in tqdm(range(steps), unit="step"):
        field, state, value = step(field, state, jax.random.fold_in(key, n))
        losses.append(float(value))
    return field, losses


def main(arguments: list[str] | None = None) -> float:
    """Learns, draws, and returns the peak signal-to-noise ratio of what was learned, in decibels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--image", type=Path, help="a picture; without it, that of ray_marching.py")
    parser.add_argument("--height", type=int, default=256, help="of that one, in pixels (default %(default)s)")
    parser.add_argument("--steps", type=int, default=1000, help="of Adam (default %(default)s)")
    parser.add_argument("--batch", type=int, default=1 << 13, help="pixels a step (default %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture (default %(default)s)")
    options = parser.parse_args(arguments)
    wanted = ray_marching.photograph(options.image, options.height, options.height * 3 // 2)
    field, losses = fit(jax.random.key(0), jnp.asarray(wanted), options.steps, options.batch)
    rows, columns = wanted.shape[:2]
    across, along = np.meshgrid((np.arange(columns) + 0.5) / columns, (np.arange(rows) + 0.5) / rows)
    place = jnp.asarray(np.stack([along, across], -1).reshape(-1, 2), jnp.float32)
    found = np.asarray(eqx.filter_jit(field)(place)).reshape(wanted.shape)
    quality = float(-10 * np.log10(np.mean((found - wanted) ** 2)))
    numbers = sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(field, eqx.is_array)))
    print(f"{wanted.size} numbers by {numbers}; loss {losses[0]:.3f} to {losses[-1]:.6f}; {quality:.1f} dB")
    options.out.mkdir(parents=True, exist_ok=True)
    both = np.concatenate([wanted, found], axis=1)
    imsave(options.out / "neural_field.png", both)
    print(f"wrote {options.out / 'neural_field.png'}")
    return quality


if __name__ == "__main__":
    main()
