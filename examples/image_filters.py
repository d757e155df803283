"""Filters of pictures: noise is taken away, edges are kept, and found.

    python examples/image_filters.py [--image FILE]

The bilateral filter (C. Tomasi and R. Manduchi, ICCV 1998) is a mean of the pixels around, with weights that fall with
their distance and with the difference of their colours. Edges are the gradient by H. Scharr's stencil. How strongly to
filter is found by derivative: a few steps of Newton's method on the error against a clean picture, through the kernel.
Writes `image_filters.png`: with noise, filtered, edges.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import ray_marching
from matplotlib.figure import Figure

import jaxwarp as wp

RADIUS = 4
SIGMA = 2.0  # of the distance, in pixels


@wp.kernel(module_options={"max_unroll": 1})  # loops stay loops: less to compile, twice differentiated
def bilateral(u: wp.array2d[wp.vec3], sharpness: float, out: wp.array2d[wp.vec3]):
    """`sharpness`: what a squared difference of colours is multiplied with."""
    i, j = wp.tid()
    here, total, weights = u[i, j], wp.vec3(), 0.0
    for k in range(-RADIUS, RADIUS + 1):
        for m in range(-RADIUS, RADIUS + 1):
            there = u[wp.clamp(i + k, 0, u.shape[0] - 1), wp.clamp(j + m, 0, u.shape[1] - 1)]
            w = wp.exp(-float(k * k + m * m) / (2.0 * SIGMA * SIGMA) - sharpness * wp.length_sq(there - here))
            total += w * there
            weights += w
    out[i, j] = total / weights


@wp.func
def brightness(u: wp.array2d[wp.vec3], i: int, j: int) -> float:
    c = u[wp.clamp(i, 0, u.shape[0] - 1), wp.clamp(j, 0, u.shape[1] - 1)]
    return 0.299 * c[0] + 0.587 * c[1] + 0.114 * c[2]


@wp.kernel
def edges(u: wp.array2d[wp.vec3], out: wp.array2d[float]):
    i, j = wp.tid()
    slope = wp.vec2()
    for k in range(-1, 2):
        w = (10.0 if k == 0 else 3.0) / 32.0
        slope += w * wp.vec2(
            brightness(u, i + k, j + 1) - brightness(u, i + k, j - 1),
            brightness(u, i + 1, j + k) - brightness(u, i - 1, j + k),
        )
    out[i, j] = wp.length(slope)


smooth, outline = wp.jax_kernel(bilateral), wp.jax_kernel(edges)


def error(logarithm: jax.Array, noisy: jax.Array, clean: jax.Array) -> jax.Array:
    """Of the filtered picture, by the logarithm of the sharpness."""
    return jnp.mean((smooth(noisy, jnp.exp(logarithm))[0] - clean) ** 2)


@jax.jit
def tuned(noisy: jax.Array, clean: jax.Array) -> jax.Array:
    """The sharpness at which the error is least: Newton's method, by derivatives of the kernel of two orders."""

    def turn(_: int, at: jax.Array) -> jax.Array:
        slope, bend = jax.grad(error)(at, noisy, clean), jax.grad(jax.grad(error))(at, noisy, clean)
        return at - jnp.clip(slope / jnp.abs(bend), -0.7, 0.7)

    return jnp.exp(jax.lax.fori_loop(0, 8, turn, jnp.log(10.0)))


def decibels(picture: jax.Array, clean: jax.Array) -> float:
    return float(-10 * jnp.log10(jnp.mean((picture - clean) ** 2)))


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Filters, draws, and returns the quality before and after, in decibels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--image", type=Path, help="a picture; without it, that of ray_marching.py")
    parser.add_argument("--height", type=int, default=256, help="of that one, in pixels (default %(default)s)")
    parser.add_argument("--noise", type=float, default=0.08, help="its standard deviation (default %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture (default %(default)s)")
    options = parser.parse_args(arguments)
    clean = jnp.asarray(ray_marching.photograph(options.image, options.height, options.height), jnp.float32)
    noisy = clean + options.noise * jax.random.normal(jax.random.key(0), clean.shape)
    sharpness = tuned(noisy, clean)
    (filtered,) = smooth(noisy, sharpness)
    (found,) = outline(filtered)
    before, after = decibels(noisy, clean), decibels(filtered, clean)
    print(f"sharpness {sharpness:.2f}: {before:.1f} dB before, {after:.1f} dB after")
    figure = Figure((9, 3.3), layout="constrained")
    pictures = {f"{before:.1f} dB": noisy.clip(0, 1), f"{after:.1f} dB": filtered.clip(0, 1), "edges": found}
    for axes, (name, picture) in zip(figure.subplots(1, 3), pictures.items(), strict=True):
        axes.imshow(picture, cmap="Greys", vmax=0.25)
        axes.set_title(name)
        axes.axis("off")
    options.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.out / "image_filters.png")
    print(f"wrote {options.out / 'image_filters.png'}")
    return before, after


if __name__ == "__main__":
    main()
