"""The Ising model on a square lattice: magnetisation against Onsager's and Yang's exact one.

    python examples/ising.py

A sweep is two launches, one for the black and one for the white fields of the chessboard: spins of one colour have no
neighbours of it, so they may turn at once. Each thread draws its random number from JAX's key, by its place and the
sweep. All temperatures are a batch: one `vmap` over a program of `lax.scan`. Writes `ising.png`: a lattice below the
critical temperature 2 / log(1 + sqrt(2)) = 2.269, one at it, and one above.
"""

from __future__ import annotations

import argparse
import math
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import jaxwarp as wp

CRITICAL = 2.0 / math.log(1.0 + math.sqrt(2.0))


@wp.kernel
def half_sweep(key: wp.PRNGKey, number: int, beta: float, spins: wp.array2d[int]):
    """Metropolis: a spin turns with the probability exp(-beta dE), at most 1."""
    i, half = wp.tid()
    rows, columns = spins.shape[0], spins.shape[1]
    j = 2 * half + (i + number) % 2
    around = spins[(i + 1) % rows, j] + spins[(i + rows - 1) % rows, j]
    around += spins[i, (j + 1) % columns] + spins[i, (j + columns - 1) % columns]
    state = wp.rand_init(key, (number * rows + i) * columns + j)
    if wp.randf(state) < wp.exp(-2.0 * beta * float(spins[i, j] * around)):
        spins[i, j] = -spins[i, j]


@partial(jax.jit, static_argnames=("size", "sweeps"))
def simulate(key: jax.Array, temperature: jax.Array, size: int, sweeps: int) -> tuple[jax.Array, jax.Array]:
    """The last lattice, and the magnetisation after each sweep, from all spins up."""
    turn = wp.jax_kernel(half_sweep, in_out_argnames=["spins"], launch_dims=(size, size // 2))

    def sweep(spins: jax.Array, number: jax.Array) -> tuple[jax.Array, jax.Array]:
        for colour in range(2):
            (spins,) = turn(key, 2 * number + colour, 1.0 / temperature, spins)
        return spins, jnp.abs(spins.mean(dtype=jnp.float32))

    return jax.lax.scan(sweep, jnp.ones((size, size), jnp.int32), jnp.arange(sweeps))


def exact(temperature: float) -> float:
    """The magnetisation of an endless lattice (C. N. Yang, Phys. Rev. 85, 808, 1952)."""
    return 0.0 if temperature >= CRITICAL else (1.0 - math.sinh(2.0 / temperature) ** -4) ** 0.125


def main(arguments: list[str] | None = None) -> dict[float, tuple[float, float]]:
    """Simulates, draws, and returns for each temperature the magnetisation and the exact one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=256, help="spins along an edge, even (default %(default)s)")
    parser.add_argument("--sweeps", type=int, default=2000, help="of the lattice (default %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture (default %(default)s)")
    options = parser.parse_args(arguments)
    temperatures = (1.8, 2.1, CRITICAL, 3.0)
    keys = jax.random.split(jax.random.key(0), len(temperatures))
    run = jax.vmap(partial(simulate, size=options.size, sweeps=options.sweeps))
    spins, magnetisation = run(keys, jnp.asarray(temperatures, jnp.float32))
    settled = np.asarray(magnetisation)[:, options.sweeps // 2 :].mean(axis=1)
    found = {t: (float(m), exact(t)) for t, m in zip(temperatures, settled, strict=True)}
    for temperature, (ours, theirs) in found.items():
        print(f"temperature {temperature:.3f}: magnetisation {ours:.3f}, exact {theirs:.3f}")
    figure = Figure((9, 3.3), layout="constrained")
    for axes, lattice, temperature in zip(figure.subplots(1, 3), spins[1:], temperatures[1:], strict=True):
        axes.imshow(lattice, cmap="YlGnBu_r", interpolation="nearest")
        axes.set_title(f"temperature {temperature:.2f}")
        axes.axis("off")
    options.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.out / "ising.png")
    print(f"wrote {options.out / 'ising.png'}")
    return found


if __name__ == "__main__":
    main()
