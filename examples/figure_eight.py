"""Three bodies on one eight: the orbit of Chenciner and Montgomery, and how sensitive it is to its start.

    python examples/figure_eight.py

Bodies of equal mass follow each other on one curve; after a period of 6.3259 each is where it began (A. Chenciner and
R. Montgomery, Annals of Mathematics 152, 881, 2000; start by C. Simo). A step is H. Yoshida's of fourth order, a launch
for each of its parts, in 64 bits, in `lax.scan`. `jax.jacfwd` through all steps gives the derivative of the end by the
start; its trace and determinant are checked: a symplectic map keeps volumes. Writes `figure_eight.png`.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import jaxwarp as wp

PERIOD = 6.32591398
X = np.array([[0.97000436, -0.24308753], [-0.97000436, 0.24308753], [0.0, 0.0]])
V = np.array([[0.466203685, 0.43236573], [0.466203685, 0.43236573], [-0.93240737, -0.86473146]])
CUBE_ROOT = 2.0 ** (1.0 / 3.0)
DRIFT_OF_ONE = 1.0 / (2.0 - CUBE_ROOT)
KICKS = (DRIFT_OF_ONE, -CUBE_ROOT * DRIFT_OF_ONE, DRIFT_OF_ONE, 0.0)
DRIFTS = tuple(0.5 * (a + b) for a, b in zip((0.0, *KICKS[:3]), KICKS, strict=True))


@wp.kernel
def part(x: wp.array[wp.vec2d], v: wp.array[wp.vec2d], drift: wp.float64, kick: wp.float64,
         new_x: wp.array[wp.vec2d], new_v: wp.array[wp.vec2d]):  # fmt: skip
    """All bodies drift; then each is pulled by all others."""
    i = wp.tid()
    here = x[i] + drift * v[i]
    pull = wp.vec2d()
    for j in range(x.shape[0]):
        if j != i:
            way = x[j] + drift * v[j] - here
            distance = wp.length(way)
            pull += way / (distance * distance * distance)
    new_x[i] = here
    new_v[i] = v[i] + kick * pull


@partial(jax.jit, static_argnames=("steps",))
def orbit(x: jax.Array, v: jax.Array, time: float, steps: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Places and velocities at the end, and the places on the way."""
    launch, h = wp.jax_kernel(part, num_outputs=2), time / steps

    def step(state: tuple[jax.Array, jax.Array], _: None) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        for drift, kick in zip(DRIFTS, KICKS, strict=True):
            state = tuple(launch(*state, drift * h, kick * h))
        return state, state[0]

    (x, v), path = jax.lax.scan(step, (x, v), None, steps)
    return x, v, path


def energy(x: np.ndarray, v: np.ndarray) -> float:
    pairs = np.linalg.norm(x[[0, 1, 2]] - x[[1, 2, 0]], axis=1)
    return float(0.5 * (v * v).sum() - (1 / pairs).sum())


def monodromy(steps: int) -> np.ndarray:
    """The derivative of the bodies after a period by their start, (12, 12)."""

    def around(start: jax.Array) -> jax.Array:
        x, v, _ = orbit(start[:6].reshape(3, 2), start[6:].reshape(3, 2), PERIOD, steps)
        return jnp.concatenate([x.ravel(), v.ravel()])

    return np.asarray(jax.jacfwd(around)(jnp.asarray(np.concatenate([X.ravel(), V.ravel()]))))


def draw(path: np.ndarray, file: Path) -> None:
    """The way of all three, and each body with where it was before."""
    figure = Figure((9, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(*path[:, 0].T, color="lightgrey")
    trail = path[np.linspace(len(path) // 20, len(path) // 7, 61).astype(int)]
    for k, colour in enumerate(("tab:orange", "tab:blue", "tab:pink")):
        axes.scatter(*trail[:, k].T, s=np.linspace(2, 300, 61), color=colour, alpha=np.linspace(0, 1, 61), linewidth=0)
    axes.set_aspect("equal")
    axes.axis("off")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file)


def main(arguments: list[str] | None = None) -> float:
    """Runs one period, draws, and returns how far from their start the bodies are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000, help="of a period (default %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture (default %(default)s)")
    options = parser.parse_args(arguments)
    with jax.enable_x64(True):
        x, v, path = (np.asarray(a) for a in orbit(X, V, PERIOD, options.steps))
        slope = monodromy(options.steps)
    away = float(np.abs(x - X).max())
    print(f"after a period: {away:.1e} away from the start; energy off by {abs(energy(x, v) - energy(X, V)):.1e}")
    print(f"its derivative by the start: determinant {np.linalg.det(slope):.9f}, trace {np.trace(slope):.4f}")
    draw(path, options.out / "figure_eight.png")
    print(f"wrote {options.out / 'figure_eight.png'}")
    return away


if __name__ == "__main__":
    main()
