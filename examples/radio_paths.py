"""Radio paths in a street, of a transmitter to a map of receivers, and the power that they receive.

    python examples/radio_paths.py

Paths are the line of sight, and reflections off one and two walls by the method of images. Whether something is in
the way, DiffeRT's functions say, on a `wp.Mesh` (`differt_queries.py`). Ground, walls and roofs are of concrete (ITU-R
P.2040, at 3 GHz) and reflect a vertical antenna's waves as Fresnel says. The map of powers is differentiated by the
place of the transmitter; that a path appears or ends is no part of a derivative.

Writes `radio_paths.png` into --out: the map, and by how much each receiver gains as the transmitter moves.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from differt_queries import mesh_of, ray_intersect_any_triangle, triangles_visible_from_vertex
from matplotlib.figure import Figure

import jaxwarp as wp

WAVE = 0.1  # m
CONCRETE = 5.24 - 0.65j  # relative permittivity


class Walls(NamedTuple):
    """Rectangles [n, 3]: a corner and two edges."""

    corner: jax.Array
    along: jax.Array
    up: jax.Array

    def triangles(self) -> jax.Array:
        a, b, c = self.corner, self.corner + self.along, self.corner + self.up
        return jnp.stack([jnp.stack([a, b, c], 1), jnp.stack([b, b + self.up, c], 1)], 1).reshape(-1, 3, 3)


def street(houses: np.ndarray) -> Walls:
    """The ground, and walls and roofs of houses [n, 5]: where along the street and across it, and how high."""
    walls = [(-400, -400, 0, 800, 0, 0, 0, 800, 0)]
    for x0, x1, y0, y1, z in houses.tolist():
        dx, dy = x1 - x0, y1 - y0
        walls += [(x0, y0, 0, dx, 0, 0, 0, 0, z), (x0, y1, 0, dx, 0, 0, 0, 0, z), (x0, y0, 0, 0, dy, 0, 0, 0, z),
                  (x1, y0, 0, 0, dy, 0, 0, 0, z), (x0, y0, z, dx, 0, 0, 0, dy, 0)]  # fmt: skip
    return Walls(*jnp.split(jnp.asarray(walls, jnp.float32), 3, 1))


def path_gains(tx: jax.Array, rx: jax.Array, off: list[Walls], mesh: wp.Mesh) -> jax.Array:
    """Amplitudes at receivers [n, 3] of the paths that are reflected off some walls in turn; 0 where there is none."""
    images, points, exists, gain = [tx], [rx], jnp.ones(len(rx), bool), 1.0
    normals = [jnp.cross(wall.along, wall.up) for wall in off]
    normals = [n / jnp.linalg.norm(n) for n in normals]
    for wall, n in zip(off, normals, strict=True):
        images.append(images[-1] - 2 * ((images[-1] - wall.corner) @ n) * n)
    for wall, n, image in zip(off[::-1], normals[::-1], images[:0:-1], strict=True):
        way = image - points[0]
        slope = way @ n
        t = ((wall.corner - points[0]) @ n) / jnp.where(slope == 0, jnp.inf, slope)
        point = points[0] + t[:, None] * way
        a, b = ((point - wall.corner) @ e / (e @ e) for e in (wall.along, wall.up))
        exists &= (t > 0) & (t < 1) & (a >= 0) & (a <= 1) & (b >= 0) & (b <= 1)
        points.insert(0, point)
        cosine = jnp.abs(slope) / jnp.linalg.norm(way, axis=1)
        root = jnp.sqrt(CONCRETE - (1 - cosine**2))
        is_level = jnp.abs(n[2]) > 0.5  # then the field is in the plane of incidence
        ahead = jnp.where(is_level, CONCRETE * cosine, cosine)
        gain *= (ahead - root) / (ahead + root)
    legs = jnp.stack([jnp.broadcast_to(tx, rx.shape), *points], 1)
    ways = jnp.where(exists[:, None, None], jnp.diff(legs, axis=1), 0.0)
    seen = exists & ~ray_intersect_any_triangle(legs[:, :-1], ways, mesh, hit_tol=1e-4, epsilon=1e-4).any(1)
    length = jnp.linalg.norm(images[-1] - rx, axis=1)
    return jnp.where(seen, gain * WAVE / (4 * jnp.pi * length) * jnp.exp(-2j * jnp.pi / WAVE * length), 0.0)


@jax.jit
def power(tx: jax.Array, rx: jax.Array, walls: Walls, candidates: list[jax.Array]) -> tuple[jax.Array, jax.Array]:
    """What receivers get of 1 W between antennas of no direction: with interference, and its mean over near places."""
    mesh = mesh_of(walls.triangles())

    def add(total, numbers):
        gains = path_gains(tx, rx, [jax.tree.map(lambda a: a[k], walls) for k in numbers], mesh)  # noqa: B023
        return (total[0] + gains, total[1] + jnp.abs(gains) ** 2), None

    total = jnp.zeros(len(rx), complex), jnp.zeros(len(rx))
    for numbers in candidates:
        total, _ = jax.lax.scan(add, total, numbers)
    return jnp.abs(total[0]) ** 2, total[1]


def candidates_of(tx: jax.Array, walls: Walls, bounces: int = 2) -> list[jax.Array]:
    """Numbers of the walls that paths may be reflected off in turn, the first of which the transmitter sees."""
    sees = triangles_visible_from_vertex(tx, walls.triangles(), num_rays=200_000)
    first = np.flatnonzero(sees.reshape(-1, 2).any(1))
    pairs = [(a, b) for a in first for b in range(len(walls.corner)) if a != b]
    found = np.zeros((1, 0)), first[:, None], np.reshape(pairs, (-1, 2))
    return [jnp.asarray(numbers, jnp.int32) for numbers in found[: bounces + 1]]


def draw(levels: np.ndarray, slopes: np.ndarray, houses: np.ndarray, tx: jax.Array, extent: list, path: Path) -> None:
    figure = Figure((8, 6.6), layout="constrained")
    shown = (levels, "viridis", -110, -60, "received, in dB of what is sent"), (
        slopes, "RdBu", -0.6, 0.6, "gained as the transmitter moves along the street, in dB a metre")  # fmt: skip
    for axes, (values, colours, low, high, title) in zip(figure.subplots(2, 1), shown, strict=True):
        image = axes.imshow(values, colours, origin="lower", extent=extent, vmin=low, vmax=high)
        figure.colorbar(image)
        for x0, x1, y0, y1, _ in houses:
            axes.fill([x0, x1, x1, x0], [y0, y0, y1, y1], color="grey")
        axes.plot(*tx[:2], "r^")
        axes.set(title=title, xlim=extent[:2], ylim=extent[2:])
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Finds the powers, draws, and returns the part of the receivers that have one, and its mean in dB."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spacing", type=float, default=0.5, help="of receivers, in m (default %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture (default %(default)s)")
    options = parser.parse_args(arguments)
    houses = np.array([(31 * k - 60, 31 * k - 35, y, y + 12, 15 + 5 * ((k + 2 * (y < 0)) % 4))
                       for k in range(4) for y in (8, -20)], float)  # fmt: skip
    walls, tx = street(houses), jnp.array([-42.0, 3.0, 6.0])
    x, y = np.arange(-64, 64, options.spacing), np.arange(-28, 28, options.spacing)
    rx = jnp.asarray(np.stack([*np.meshgrid(x, y), np.full((len(y), len(x)), 1.5)], -1).reshape(-1, 3), jnp.float32)
    candidates = candidates_of(tx, walls)
    of_tx = lambda tx: 10 * jnp.log10(jnp.maximum(power(tx, rx, walls, candidates)[1], 1e-15))  # noqa: E731
    levels, slopes = jax.jvp(of_tx, (tx,), (jnp.array([1.0, 0.0, 0.0]),))
    is_reached = levels > -140
    found = {"reached": float(is_reached.mean()), "level": float(levels[is_reached].mean())}
    print(f"{2 * len(walls.corner)} triangles, {len(rx)} receivers, {sum(map(len, candidates))} ways to be reflected")
    print(f"{found['reached']:.0%} of the places are reached, in the mean with {found['level']:.1f} dB")
    shown = (np.where(is_reached, a, np.nan).reshape(len(y), len(x)) for a in (levels, slopes))
    draw(*shown, houses, tx, [x[0], x[-1], y[0], y[-1]], options.out / "radio_paths.png")
    print(f"wrote {options.out / 'radio_paths.png'}")
    return found


if __name__ == "__main__":
    main()
