"""Inverse design: where to put a little metal so that a plate that is heated everywhere stays cool.

    python examples/heat_design.py

The plate loses its heat through a short piece of its left edge. Two fifths of it may be metal, which conducts a
thousand times as well as the rest. A kernel applies the operator of conduction, JAX's conjugate gradients solve with
it, and `jax.grad` of the mean temperature by the material of each cell goes through the solver: one more solve. The
design is improved by optimality criteria, with a penalty on mixtures (M. Bendsoe and O. Sigmund, "Topology
Optimization", 2003). Writes `heat_design.png`: the metal, and the temperature.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
from jax.scipy.sparse.linalg import cg
from matplotlib.figure import Figure
from tqdm import tqdm

import jaxwarp as wp

METAL, POOREST, PENALTY = 0.4, 1e-3, 3.0


@wp.func
def flow(t: wp.array2d[float], c: wp.array2d[float], i: int, j: int, k: int, m: int) -> float:
    """The heat from cell i, j to cell k, m; none leaves the plate but through the middle of its left edge."""
    n = t.shape[0]
    found = 0.0
    if m < 0:
        if wp.abs(2 * i + 1 - n) < n // 4:
            found = 2.0 * c[i, j] * t[i, j]
    elif k >= 0 and k < n and m < t.shape[1]:
        found = 2.0 * c[i, j] * c[k, m] / (c[i, j] + c[k, m]) * (t[i, j] - t[k, m])
    return found


@wp.kernel
def conduct(t: wp.array2d[float], c: wp.array2d[float], out: wp.array2d[float]):
    i, j = wp.tid()
    out[i, j] = flow(t, c, i, j, i - 1, j) + flow(t, c, i, j, i + 1, j)
    out[i, j] += flow(t, c, i, j, i, j - 1) + flow(t, c, i, j, i, j + 1)


@wp.kernel
def blur(d: wp.array2d[float], out: wp.array2d[float]):
    """A mean with the neighbours, so that the design has no finer detail than the grid."""
    i, j = wp.tid()
    total, weights = 0.0, 0.0
    for k in range(-1, 2):
        for m in range(-1, 2):
            if i + k >= 0 and i + k < d.shape[0] and j + m >= 0 and j + m < d.shape[1]:
                w = 2.5 - wp.sqrt(float(k * k + m * m))
                total += w * d[i + k, j + m]
                weights += w
    out[i, j] = total / weights


def conductivity(design: jax.Array) -> jax.Array:
    return POOREST + (1.0 - POOREST) * wp.jax_kernel(blur)(design)[0] ** PENALTY


def temperature(c: jax.Array) -> jax.Array:
    """Of a plate that is heated by 1 in all."""
    heat = jnp.full(c.shape, 1.0 / c.size)
    # Scaled by what a cell conducts: fewer steps.
    scale = 1.0 / jnp.sqrt(c)
    scaled = cg(lambda t: scale * wp.jax_kernel(conduct)(scale * t, c)[0], scale * heat, tol=1e-5, maxiter=2000)[0]
    return scale * scaled


def mean_temperature(design: jax.Array) -> jax.Array:
    return temperature(conductivity(design)).mean()


@jax.jit
def improved(design: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A better design with as much metal, and the mean temperature of this one."""
    value, slope = jax.value_and_grad(mean_temperature)(design)
    gain = jnp.sqrt(jnp.maximum(-slope, 0.0))

    def changed(price: jax.Array) -> jax.Array:
        step = jnp.clip(design * gain * price, design - 0.1, design + 0.1)
        return jnp.clip(step, 0.0, 1.0)

    def halve(_: int, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        middle = jnp.sqrt(ends[0] * ends[1])
        enough = changed(middle).mean() > METAL
        return jnp.where(enough, ends[0], middle), jnp.where(enough, middle, ends[1])

    low, high = jax.lax.fori_loop(0, 40, halve, (jnp.float32(1e-6), jnp.float32(1e9)))
    return changed(jnp.sqrt(low * high)), value


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Designs, draws, and returns the mean temperature of evenly spread metal, and that of the design."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=96, help="cells along an edge (default %(default)s)")
    parser.add_argument("--steps", type=int, default=60, help="of the design (default %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture (default %(default)s)")
    options = parser.parse_args(arguments)
    design, values = jnp.full((options.size, options.size), METAL), []
    for _ in tqdm(range(options.steps), unit="step"):
        design, value = improved(design)
        values.append(float(value))
    print(f"mean temperature {values[0]:.2f} of even metal, {values[-1]:.3f} of the design")
    metal = conductivity(design)
    figure = Figure((9, 4.4), layout="constrained")
    for axes, shown, name, colours in zip(
        figure.subplots(1, 2), (metal, temperature(metal)), ("metal", "temperature"), ("Greys", "Oranges"), strict=True
    ):
        figure.colorbar(axes.imshow(shown, cmap=colours), ax=axes, shrink=0.8)
        axes.set_title(name)
        axes.axis("off")
    options.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.out / "heat_design.png")
    print(f"wrote {options.out / 'heat_design.png'}")
    return values[0], values[-1]


if __name__ == "__main__":
    main()
