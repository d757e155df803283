"""Finds where a depth camera stands, from the picture that it takes, by the derivatives of rays.

    python examples/depth_camera.py

The scene is a mesh: the surface of a field, by marching cubes. A camera casts a ray for each pixel; how far each goes
is differentiated by the camera's pose, and by the vertices. Damped Gauss-Newton (Levenberg, 1944; Marquardt, 1963)
turns and moves a camera from a first guess until it sees what was seen. Pixels whose depths are far apart have a
contour between them, and count only when the guess is good enough that they no longer are.

Writes `depth_camera.png` into --out: what was seen, the first guess, what was found.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import jaxwarp as wp

WIDTH, HEIGHT, FOCUS = 64, 48, 1.2  # pixels; how far the picture is away, in half widths
TRUTH = np.array([0.3, -0.2, 3.0, 0.05, 0.12, -0.1], np.float32)  # place, then a vector to turn about
GUESS = TRUTH + np.array([0.15, -0.1, 0.25, -0.06, 0.05, 0.1], np.float32)
CONTOUR = 0.3


def scene(nodes: int = 40) -> wp.Mesh:
    """Four balls that melt into each other, on a floor."""
    axis = jnp.linspace(-1.5, 1.5, nodes)
    x = jnp.stack(jnp.meshgrid(axis, axis, axis, indexing="ij"), -1)
    balls = jnp.array([[-0.6, 0.1, 0.2], [0.5, 0.5, -0.1], [0.2, -0.6, 0.4], [0.7, -0.3, -0.5]])
    ball = sum(jnp.exp(-4.0 * jnp.sum((x - c) ** 2, -1)) for c in balls)
    floor = jnp.exp(-3.0 * (x[..., 2] + 1.2))
    surface = wp.geometry.marching_cubes(-(ball + floor), -0.35, lower=jnp.full(3, -1.5), upper=jnp.full(3, 1.5))
    return wp.Mesh(*surface.trimmed())


def turned(turn: jax.Array, v: jax.Array) -> jax.Array:
    """Vectors, turned by the quaternion (1, turn / 2) made of length 1."""
    half = turn / 2
    across = 2 * jnp.cross(half, v)
    return v + (across + jnp.cross(half, across)) / (1 + half @ half)


def rays() -> jax.Array:
    """The directions of the pixels, as seen by the camera: it looks down, and its picture is level."""
    x = (jnp.arange(WIDTH) + 0.5) / WIDTH * 2 - 1
    y = (1 - (jnp.arange(HEIGHT) + 0.5) / HEIGHT * 2) * HEIGHT / WIDTH
    way = jnp.stack([*jnp.meshgrid(x, y), jnp.full((HEIGHT, WIDTH), -FOCUS)], -1)
    return way / jnp.linalg.norm(way, axis=-1, keepdims=True)


def depth(mesh: wp.Mesh, pose: jax.Array) -> jax.Array:
    """How far the ray of each pixel goes, [height, width]; infinite where it hits nothing."""
    return wp.geometry.cast_rays(mesh, pose[:3], turned(pose[3:], rays())).t


@jax.jit
def improve(mesh: wp.Mesh, pose: jax.Array, seen: jax.Array, damping: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A step towards the pose that has seen this, and how far depths are off."""
    found, columns = depth(mesh, pose), jax.jacfwd(lambda p: depth(mesh, p))(pose)
    counts = jnp.isfinite(found) & jnp.isfinite(seen) & (abs(found - seen) < CONTOUR)
    off = jnp.where(counts, found - seen, 0.0).reshape(-1)
    matrix = jnp.where(counts[..., None], columns, 0.0).reshape(-1, 6)
    square = matrix.T @ matrix
    step = jnp.linalg.solve(square + damping * jnp.diag(jnp.diag(square)), matrix.T @ off)
    return pose - step, jnp.sqrt(jnp.sum(off**2) / jnp.maximum(counts.sum(), 1))


def find(mesh: wp.Mesh, seen: jax.Array, guess: jax.Array, iterations: int) -> jax.Array:
    """The pose, from a first guess."""
    for k in range(iterations):
        guess, off = improve(mesh, guess, seen, jnp.float32(0.1 if k < 3 else 1e-3))
        print(f"step {k + 1}: depths are off by {float(off):.5f}")
    return guess


def shaded(depths: jax.Array) -> np.ndarray:
    near = np.nan_to_num(np.asarray(depths), posinf=6.0)
    slope = np.hypot(*np.gradient(near))
    return np.clip((5.5 - near) / 4.0, 0, 1) / (1 + 4 * np.clip(slope, 0, 1))


def main(arguments: list[str] | None = None) -> float:
    """Finds the pose, draws, and returns how far it is from the true one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=12, help="steps (default %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture (default %(default)s)")
    options = parser.parse_args(arguments)
    mesh, look = scene(), jax.jit(depth)
    seen = look(mesh, jnp.asarray(TRUTH))
    found = find(mesh, seen, jnp.asarray(GUESS), options.iterations)
    off = float(jnp.abs(found - TRUTH).max())
    print(f"{len(mesh.indices) // 3} triangles; the pose is off by {off:.5f}, the first guess was by 0.25")
    figure = Figure((9, 2.6), layout="constrained")
    poses = {"what was seen": TRUTH, "first guess": GUESS, "found": found}
    for axes, (name, pose) in zip(figure.subplots(1, 3), poses.items(), strict=True):
        axes.imshow(shaded(look(mesh, jnp.asarray(pose))), cmap="gray", vmin=0, vmax=1)
        axes.set_title(name)
        axes.axis("off")
    options.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.out / "depth_camera.png")
    print(f"wrote {options.out / 'depth_camera.png'}")
    return off


if __name__ == "__main__":
    main()
