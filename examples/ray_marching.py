"""A picture of a distance field by sphere tracing, with soft shadows; normals come from the field's own derivative.

    python examples/ray_marching.py

One thread a pixel. It steps along its ray by the distance to the nearest surface, until that is close or the ray has
left. The normal is `wp.grad` of the field, exact and in the same launch. Writes `ray_marching.png`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.image import imread, imsave

import jaxwarp as wp

NEAR, FAR, STEPS = 1.0e-4, 20.0, 200


@wp.func
def smooth_min(a: float, b: float, width: float) -> float:
    h = wp.max(width - wp.abs(a - b), 0.0) / width
    return wp.min(a, b) - 0.25 * h * h * width


@wp.func
def distance(p: wp.vec3) -> float:
    """To a floor, a ball, and a ring that melts into it. Formulas: I. Quilez, "Distance functions"."""
    ball = wp.length(p - wp.vec3(0.0, 0.9, 0.0)) - 0.8
    q = p - wp.vec3(0.0, 0.9, 0.0)
    across = wp.length(wp.vec2(q[0], q[2])) - 1.5
    ring = wp.length(wp.vec2(across, q[1] + 0.3 * wp.sin(3.0 * wp.atan2(q[2], q[0])))) - 0.22
    return wp.min(smooth_min(ball, ring, 0.6), p[1])


@wp.func
def march(start: wp.vec3, way: wp.vec3) -> float:
    """How far the ray goes until it meets a surface; FAR: it meets none."""
    t = 0.02
    for _ in range(STEPS):
        d = distance(start + t * way)
        if d < NEAR or t > FAR:
            break
        t += 0.7 * d  # the field overstates distances where it bends
    return wp.min(t, FAR)


@wp.func
def shadow(start: wp.vec3, way: wp.vec3) -> float:
    """The share of the light that passes: of a small lamp, by how closely a ray passes what is in between."""
    seen, t = 1.0, 0.03
    while t < 8.0 and seen > 0.001:
        d = distance(start + t * way)
        seen = wp.min(seen, 10.0 * d / t)
        t += wp.clamp(0.7 * d, 0.02, 0.5)
    return wp.max(seen, 0.0)


@wp.kernel
def draw(eye: wp.vec3, light: wp.vec3, picture: wp.array2d[wp.vec3]):
    i, j = wp.tid()
    rows, columns = picture.shape[0], picture.shape[1]
    forward = wp.normalize(wp.vec3(0.0, 0.7, 0.0) - eye)
    right = wp.normalize(wp.cross(forward, wp.vec3(0.0, 1.0, 0.0)))
    up = wp.cross(right, forward)
    x = (float(j) + 0.5 - 0.5 * float(columns)) / float(rows)
    y = (0.5 * float(rows) - float(i) - 0.5) / float(rows)
    way = wp.normalize(1.4 * forward + x * right + y * up)
    colour = wp.lerp(wp.vec3(0.95, 0.93, 0.9), wp.vec3(0.55, 0.68, 0.85), wp.clamp(2.0 * way[1] + 0.3, 0.0, 1.0))
    t = march(eye, way)
    if t < FAR:
        p = eye + t * way
        normal = wp.normalize(wp.grad(distance)(p))
        lit = wp.max(wp.dot(normal, light), 0.0) * shadow(p + 0.01 * normal, light)
        own = wp.vec3(0.85, 0.5, 0.32)
        if p[1] < 0.001:
            chess = (int(wp.floor(p[0])) + int(wp.floor(p[2]))) % 2
            own = wp.vec3(0.6, 0.62, 0.65) if chess == 0 else wp.vec3(0.75, 0.76, 0.78)
        shaded = wp.cw_mul(own, wp.vec3(0.22, 0.26, 0.33) * (0.6 + 0.4 * normal[1]) + wp.vec3(0.95, 0.9, 0.8) * lit)
        colour = wp.lerp(colour, shaded, wp.exp(-0.002 * t * t * t))
    picture[i, j] = colour


def render(rows: int, columns: int, eye: tuple[float, float, float] = (3.2, 2.6, 3.6)) -> np.ndarray:
    """The picture `[rows, columns, 3]`, linear, from 0 to about 1."""
    light = jnp.asarray([0.5, 0.75, -0.2]) / np.linalg.norm([0.5, 0.75, -0.2])
    call = jax.jit(wp.jax_kernel(draw, launch_dims=(rows, columns)))
    return np.asarray(call(jnp.asarray(eye), light)[0])


def photograph(path: Path | None, rows: int, columns: int) -> np.ndarray:
    """A picture from a file, else this one, `[rows, columns, 3]`, from 0 to 1 as screens take it."""
    if path is None:
        return np.clip(render(rows, columns), 0, 1) ** (1 / 2.2)
    picture = np.atleast_3d(imread(path))
    scale = 255 if picture.dtype == np.uint8 else 1
    return np.broadcast_to(picture[..., :3], (*picture.shape[:2], 3)).astype(np.float32) / scale


def main(arguments: list[str] | None = None) -> np.ndarray:
    """Draws, and returns the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--height", type=int, default=480, help="in pixels (default %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture (default %(default)s)")
    options = parser.parse_args(arguments)
    smooth = 2  # of this many pixels along each axis one is made
    fine = render(smooth * options.height, smooth * options.height * 3 // 2)
    rows, columns = fine.shape[0] // smooth, fine.shape[1] // smooth
    picture = np.clip(fine, 0, 1).reshape(rows, smooth, columns, smooth, 3).mean(axis=(1, 3))
    options.out.mkdir(parents=True, exist_ok=True)
    imsave(options.out / "ray_marching.png", picture ** (1 / 2.2))
    print(f"wrote {options.out / 'ray_marching.png'}")
    return picture


if __name__ == "__main__":
    main()
