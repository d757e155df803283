"""Fits a signed distance field to points with normals, and extracts its surface.

    python examples/distance_field.py

A scanner gives points on a shape, and which way the surface faces there. The field is values at the nodes of a grid,
trilinear between them. It should be 0 at the points, rise by the normals, and be smooth elsewhere: a quadratic
function of the values, so that its minimum is a linear system, solved by conjugate gradients. JAX makes the system's
product with a vector as the gradient of the function (Calakli and Taubin, SSD: smooth signed distance surface
reconstruction, 2011). `marching_cubes` extracts the surface; for a torus its area and volume are known.

Writes `distance_field.png` into --out: the points, and the surface.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from tqdm import tqdm

import jaxwarp as wp

LOWER, UPPER = jnp.full(3, -1.2), jnp.full(3, 1.2)
RING, TUBE = 0.7, 0.3
NORMALS, SMOOTHNESS = 0.3, 0.1  # weights of the parts of the function


def scan(key: jax.Array, count: int, noise: float) -> tuple[jax.Array, jax.Array]:
    """Points on a torus, off by some noise, and normals; uniform by its area, by rejection."""
    ways = jax.random.split(key, 4)
    around, across = (2 * jnp.pi * jax.random.uniform(k, (3 * count,)) for k in ways[:2])
    keeps = jax.random.uniform(ways[2], (3 * count,)) < (RING + TUBE * jnp.cos(across)) / (RING + TUBE)
    chosen = jnp.nonzero(keeps, size=count)[0]
    around, across = around[chosen], across[chosen]
    normal = jnp.stack([jnp.cos(across) * jnp.cos(around), jnp.cos(across) * jnp.sin(around), jnp.sin(across)], -1)
    middle = RING * jnp.stack([jnp.cos(around), jnp.sin(around), jnp.zeros(count)], -1)
    return middle + (TUBE + noise * jax.random.normal(ways[3], (count, 1))) * normal, normal


@wp.kernel
def sample(field: wp.array3d[float], place: wp.array[wp.vec3], value: wp.array[float], slope: wp.array[wp.vec3]):
    """The trilinear field and its gradient by the place, in steps of the grid."""
    i = wp.tid()
    x = place[i]
    low = wp.vec3(wp.floor(x[0]), wp.floor(x[1]), wp.floor(x[2]))
    t = x - low
    total = 0.0
    rise = wp.vec3()
    for a in range(2):
        for b in range(2):
            for c in range(2):
                f = field[int(low[0]) + a, int(low[1]) + b, int(low[2]) + c]
                u = t[0] if a == 1 else 1.0 - t[0]
                v = t[1] if b == 1 else 1.0 - t[1]
                w = t[2] if c == 1 else 1.0 - t[2]
                total += f * u * v * w
                sign = wp.vec3(2.0 * float(a) - 1.0, 2.0 * float(b) - 1.0, 2.0 * float(c) - 1.0)
                rise += f * wp.cw_mul(sign, wp.vec3(v * w, u * w, u * v))
    value[i] = total
    slope[i] = rise


def fit(points: jax.Array, normals: jax.Array, nodes: int, iterations: int) -> jax.Array:
    """The field, [nodes, nodes, nodes]: on coarser grids first, which have it from far away."""
    start = jnp.zeros((2, 2, 2))
    for n in tqdm((nodes // 4, nodes // 2, nodes), unit="grid"):
        start = solved(jax.image.resize(start, (n, n, n), "linear"), points, normals, iterations)
    return start


def solved(start: jax.Array, points: jax.Array, normals: jax.Array, iterations: int) -> jax.Array:
    """The field on one grid, from a first guess."""
    nodes = len(start)
    step = (UPPER - LOWER)[0] / (nodes - 1)
    look = wp.jax_kernel(sample, num_outputs=2, launch_dims=len(points), output_dims=len(points))

    def roughness(f: jax.Array) -> jax.Array:
        second = [jnp.diff(f, 2, axis) for axis in range(3)]
        mixed = [jnp.diff(jnp.diff(f, axis=a), axis=b) for a, b in ((0, 1), (0, 2), (1, 2))]
        return (sum(jnp.sum(d**2) for d in second) + 2 * sum(jnp.sum(d**2) for d in mixed)) / step**2

    def energy(f: jax.Array) -> jax.Array:
        value, slope = look(f, (points - LOWER) / step)
        misses = jnp.mean(value**2) / step**2 + NORMALS * jnp.mean(jnp.sum((slope / step - normals) ** 2, -1))
        return misses + SMOOTHNESS * roughness(f) / nodes**3

    @jax.jit
    def solve(start: jax.Array) -> jax.Array:
        constant = jax.grad(energy)(jnp.zeros_like(start))
        product = lambda f: jax.grad(energy)(f) - constant  # noqa: E731
        return jax.scipy.sparse.linalg.cg(product, -constant, x0=start, maxiter=iterations)[0]

    return solve(start)


def measures(points: jax.Array, faces: jax.Array) -> tuple[float, float]:
    """Area and volume."""
    a, b, c = (points[faces[:, k]] for k in range(3))
    area = jnp.sum(jnp.linalg.norm(jnp.cross(b - a, c - a), axis=1)) / 2
    return float(area), float(jnp.sum(a * jnp.cross(b, c)) / 6)


def draw(points: jax.Array, mesh: wp.Mesh, path: Path, size: int = 360) -> None:
    """The points from the front, and the mesh, lit from the upper left."""
    turn = jnp.array([[1.0, 0.0, 0.0], [0.0, 0.6, 0.8], [0.0, -0.8, 0.6]])  # to the camera, rows are its axes
    figure = Figure((9, 4.5), layout="constrained")
    scan, surface = figure.subplots(1, 2)
    seen = np.asarray(points @ turn.T)
    scan.scatter(seen[:, 0], seen[:, 1], s=1, c=seen[:, 2], cmap="viridis")
    x = (jnp.arange(size) + 0.5) / size * 2.4 - 1.2
    origins = jnp.stack([*jnp.meshgrid(x, -x), jnp.full((size, size), 3.0)], -1) @ turn
    hits = wp.geometry.cast_rays(mesh, origins, -turn[2])
    light = jnp.clip(hits.normal @ turn.T @ jnp.array([-0.4, 0.6, 0.7]), 0.0, 1.0)
    shaded = np.where(np.asarray(hits.face) >= 0, 0.1 + 0.9 * np.asarray(light), np.nan)
    surface.imshow(shaded, cmap="bone", vmin=0, vmax=1, extent=(-1.2, 1.2, -1.2, 1.2))
    for axes in (scan, surface):
        axes.set(xlim=(-1.2, 1.2), ylim=(-1.2, 1.2), aspect="equal")
        axes.axis("off")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Fits, draws, and returns by how much area and volume are off, and the Euler number."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=4000, help="of the scan (default %(default)s)")
    parser.add_argument("--noise", type=float, default=0.01, help="of the scan (default %(default)s)")
    parser.add_argument("--nodes", type=int, default=40, help="of the grid, along an axis (default %(default)s)")
    parser.add_argument("--iterations", type=int, default=200, help="of the solver (default %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture (default %(default)s)")
    options = parser.parse_args(arguments)
    points, normals = scan(jax.random.key(0), options.points, options.noise)
    field = fit(points, normals, options.nodes, options.iterations)
    vertices, faces = wp.geometry.marching_cubes(field, lower=LOWER, upper=UPPER).trimmed()
    area, volume = measures(vertices, faces)
    found = {
        "area": area / (4 * np.pi**2 * RING * TUBE) - 1,
        "volume": volume / (2 * np.pi**2 * RING * TUBE**2) - 1,
        "euler": len(vertices) - len(faces) // 2,
    }
    print(f"{len(faces)} triangles, Euler number {found['euler']}: a torus has 0")
    print(f"area off by {found['area']:.2%}, volume by {found['volume']:.2%}")
    draw(points, wp.Mesh(vertices, faces), options.out / "distance_field.png")
    print(f"wrote {options.out / 'distance_field.png'}")
    return found


if __name__ == "__main__":
    main()
