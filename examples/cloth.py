"""A cloth that falls, hangs by its upper corners and comes to rest: what the corners bear is its weight.

    python examples/cloth.py

Particles on a grid, springs to the eight neighbours, damping, and semi-implicit Euler steps in `lax.fori_loop`: one
launch a step. The particles are a struct of two arrays; the kernel takes one and returns the next. It also returns what
the springs pull each particle with. Writes `cloth.png`: the cloth at several times of its fall, and at rest. With
`--film` it also writes `cloth.webp`: the fall as a film.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import _film
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

import jaxwarp as wp

GRAVITY, MASS, STIFFNESS, DAMPING, STEP = 9.81, 0.01, 600.0, 0.02, 5e-4


@wp.struct
class Cloth:
    x: wp.array2d[wp.vec3]
    v: wp.array2d[wp.vec3]


@wp.func
def pull(cloth: Cloth, i: int, j: int, rest: float):
    """The force of the springs on a particle."""
    force = wp.vec3(0.0, 0.0, 0.0)
    for di in range(-1, 2):
        for dj in range(-1, 2):
            k, m = i + di, j + dj
            inside = k >= 0 and m >= 0 and k < cloth.x.shape[0] and m < cloth.x.shape[1]
            if inside and (di != 0 or dj != 0):
                way = cloth.x[k, m] - cloth.x[i, j]
                length = wp.length(way)
                stretch = length - rest * wp.sqrt(float(di * di + dj * dj))
                force += (STIFFNESS * stretch / length) * way
    return force


@wp.kernel
def step(cloth: Cloth, rest: float, new: Cloth, force: wp.array2d[wp.vec3]):
    """Semi-implicit Euler; the two upper corners stay."""
    i, j = wp.tid()
    f = pull(cloth, i, j, rest)
    force[i, j] = f
    v = cloth.v[i, j]
    v += STEP * (f / MASS - wp.vec3(0.0, GRAVITY, 0.0) - (DAMPING / MASS) * v)
    if i == 0 and (j == 0 or j == cloth.x.shape[1] - 1):
        v = wp.vec3(0.0, 0.0, 0.0)
    new.v[i, j] = v
    new.x[i, j] = cloth.x[i, j] + STEP * v


@partial(jax.jit, static_argnames=("steps", "shown"))
def fall(cloth: Cloth, rest: float, steps: int, shown: int) -> tuple[Cloth, jax.Array, jax.Array]:
    """The cloth after the steps, the forces on it, and where it was at `shown` times."""
    size = cloth.x.shape[:2]
    launch = wp.jax_kernel(step, num_outputs=2, launch_dims=size, output_dims=size)

    def moment(carry: tuple[Cloth, jax.Array], _: None) -> tuple[tuple[Cloth, jax.Array], jax.Array]:
        carry = jax.lax.fori_loop(0, steps // shown, lambda _, c: tuple(launch(c[0], rest)), carry)
        return carry, carry[0].x

    (cloth, force), path = jax.lax.scan(moment, (cloth, jnp.zeros_like(cloth.x)), None, shown)
    return cloth, force, path


def level(n: int) -> Cloth:
    """A level cloth at rest."""
    across, along = np.meshgrid(np.linspace(0, 1, n), np.linspace(0, 1, n))
    x = np.stack([across, np.zeros_like(across), along], axis=-1).astype(np.float32)
    return Cloth(x=jnp.asarray(x), v=jnp.zeros_like(x))


def hang(n: int, steps: int, shown: int = 6) -> tuple[np.ndarray, float]:
    """The cloth at times of its fall and at rest `[shown + 1, n, n, 3]`, and what the corners bear over its weight."""
    rest = 1.0 / (n - 1)
    falling, _, path = fall(level(n), rest, steps // 20, shown)
    _, force, at_rest = fall(falling, rest, steps, 1)
    corners = np.asarray(force)[0, [0, -1], 1].sum()
    return np.concatenate([path, at_rest]), float(-corners / (GRAVITY * MASS * (n * n - 2)))


def moment(x: np.ndarray) -> Figure:
    """The cloth at one time."""
    figure = Figure((3.4, 3.4))
    figure.subplots_adjust(0, 0, 1, 1)
    axes = figure.add_subplot(projection="3d", elev=12, azim=-60)
    axes.set(xlim=(0, 1), ylim=(-0.9, 1), zlim=(-1.2, 0))
    axes.plot_wireframe(x[..., 0], x[..., 2], x[..., 1], color="#2a6f97", linewidth=0.6, rstride=1, cstride=1)
    axes.set_box_aspect((1, 1.9, 1.2), zoom=1.5)
    axes.axis("off")
    return figure


def draw(path: np.ndarray, file: Path) -> None:
    figure = Figure((9, 6.2), layout="constrained")
    axes = figure.add_subplot(projection="3d", elev=12, azim=-60)
    for number, x in enumerate(path):
        colour = colormaps["YlGnBu"](0.3 + 0.6 * number / max(len(path) - 1, 1))
        axes.plot_wireframe(x[..., 0], x[..., 2], x[..., 1], color=colour, linewidth=0.6, rstride=1, cstride=1)
    axes.set_box_aspect(np.ptp([axes.get_xlim(), axes.get_ylim(), axes.get_zlim()], axis=1), zoom=1.5)
    axes.axis("off")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file)


def main(arguments: list[str] | None = None) -> float:
    """Simulates, draws, and returns what the corners bear over the weight."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--particles", type=int, default=32, help="along an edge (default %(default)s)")
    parser.add_argument("--steps", type=int, default=30000, help="of half a millisecond (default %(default)s)")
    parser.add_argument("--film", action="store_true", help="write cloth.webp, too")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture (default %(default)s)")
    options = parser.parse_args(arguments)
    path, share = hang(options.particles, options.steps)
    print(f"the corners bear {share:.4f} of the weight of what hangs")
    draw(path, options.out / "cloth.png")
    print(f"wrote {options.out / 'cloth.png'}")
    if options.film:
        _, _, path = fall(level(options.particles), 1.0 / (options.particles - 1), options.steps // 10, _film.FRAMES)
        _film.save_figures(map(moment, np.asarray(path)), options.out / "cloth.webp")
        print(f"wrote {options.out / 'cloth.webp'}")
    return share


if __name__ == "__main__":
    main()
