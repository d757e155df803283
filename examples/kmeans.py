"""The colours of a picture by k-means: each pixel gets the nearest of k colours, each colour the mean of its pixels.

    python examples/kmeans.py [--image FILE] [--colours 8]

One launch an iteration: a thread finds the nearest colour of its pixel, and adds the pixel to that colour's sum with an
atomic. Launches on the CPU that add into a few elements keep a copy for each core, and no core waits. Writes
`kmeans.png`: the picture, and the same in its colours.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import ray_marching
from matplotlib.image import imsave

import jaxwarp as wp


@wp.kernel
def assign(pixel: wp.array[wp.vec3], colour: wp.array[wp.vec3],
           nearest: wp.array[int], total: wp.array[wp.vec3], count: wp.array[float]):  # fmt: skip
    i = wp.tid()
    best, least = 0, float(wp.inf)
    for k in range(colour.shape[0]):
        d = wp.length_sq(pixel[i] - colour[k])
        if d < least:
            best, least = k, d
    nearest[i] = best
    wp.atomic_add(total, best, pixel[i])
    wp.atomic_add(count, best, 1.0)


@partial(jax.jit, static_argnames=("k", "iterations"))
def cluster(key: jax.Array, pixel: jax.Array, k: int, iterations: int) -> tuple[jax.Array, jax.Array]:
    """Colours `[k, 3]`, and of each of the pixels `[n, 3]` the number of its colour (S. Lloyd, 1982)."""
    sizes = {"nearest": pixel.shape[0], "total": k, "count": k}
    launch = wp.jax_kernel(assign, num_outputs=3, launch_dims=pixel.shape[0], output_dims=sizes)

    def iteration(colour: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        nearest, total, count = launch(pixel, colour)
        # A colour of no pixel stays where it is.
        return jnp.where(count[:, None] > 0, total / jnp.maximum(count, 1)[:, None], colour), nearest

    first = pixel[jax.random.choice(key, pixel.shape[0], (k,), replace=False)]
    colour, _ = jax.lax.scan(lambda c, _: (iteration(c, None)[0], None), first, None, iterations)
    return colour, iteration(colour, None)[1]


def main(arguments: list[str] | None = None) -> float:
    """Finds the colours, draws, and returns the mean distance of a pixel from its colour."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--image", type=Path, help="a picture; without it, that of ray_marching.py")
    parser.add_argument("--height", type=int, default=256, help="of that one, in pixels (default %(default)s)")
    parser.add_argument("--colours", type=int, default=8, help="how many (default %(default)s)")
    parser.add_argument("--iterations", type=int, default=30, help="at most enough (default %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture (default %(default)s)")
    options = parser.parse_args(arguments)
    picture = ray_marching.photograph(options.image, options.height, options.height * 3 // 2)
    pixel = jnp.asarray(picture.reshape(-1, 3), jnp.float32)
    colour, nearest = cluster(jax.random.key(0), pixel, options.colours, options.iterations)
    found = np.asarray(colour[nearest])
    distance = float(np.linalg.norm(found - np.asarray(pixel), axis=1).mean())
    print(f"{options.colours} colours, mean distance {distance:.4f}")
    options.out.mkdir(parents=True, exist_ok=True)
    both = np.concatenate([picture, found.reshape(picture.shape)], axis=1)
    imsave(options.out / "kmeans.png", both)
    print(f"wrote {options.out / 'kmeans.png'}")
    return distance


if __name__ == "__main__":
    main()
