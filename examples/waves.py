"""Waves through a lens: the wave equation on a grid, absorbed at the borders, and the lens found from a record.

    python examples/waves.py

Leapfrog steps of second order in time and space. A kernel takes the last two fields and gives the next; where waves are
slow, they bend. The speed in the lens is then found from what receivers behind it recorded: `jax.jvp` goes through all
steps. Writes `waves.png`: the field at four times.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
from matplotlib.figure import Figure
from tqdm import tqdm

import jaxwarp as wp


@wp.kernel
def step(now: wp.array2d[float], before: wp.array2d[float], speed: wp.array2d[float], damping: wp.array2d[float],
         after: wp.array2d[float]):  # fmt: skip
    """The next field; zero outside of the grid. Speeds are in cells a step, and at most 1 / sqrt(2)."""
    i, j = wp.tid()
    around = -4.0 * now[i, j]
    if i > 0:
        around += now[i - 1, j]
    if i < now.shape[0] - 1:
        around += now[i + 1, j]
    if j > 0:
        around += now[i, j - 1]
    if j < now.shape[1] - 1:
        around += now[i, j + 1]
    c, d = speed[i, j], damping[i, j]
    after[i, j] = (2.0 * now[i, j] - (1.0 - d) * before[i, j] + c * c * around) / (1.0 + d)


def lens(rows: int, columns: int, slow: jax.Array | float) -> jax.Array:
    """Speeds: 0.5, and in a disc `slow`, with a soft border."""
    i, j = jnp.meshgrid(jnp.arange(rows), jnp.arange(columns), indexing="ij")
    away = jnp.hypot(i - rows / 2, j - 0.45 * columns)
    return slow + (0.5 - slow) * jax.nn.sigmoid(away - 0.25 * rows)


def borders(rows: int, columns: int, width: int = 20) -> jax.Array:
    """Damping that grows towards the borders."""
    i, j = jnp.meshgrid(jnp.arange(rows), jnp.arange(columns), indexing="ij")
    inside = jnp.minimum(jnp.minimum(i, rows - 1 - i), jnp.minimum(j, columns - 1 - j))
    return 0.1 * jnp.clip(1 - inside / width, 0, 1) ** 2


@partial(jax.jit, static_argnames=("steps", "every"))
def propagate(speed: jax.Array, damping: jax.Array, steps: int, every: int = 0) -> tuple[jax.Array, jax.Array]:
    """What receivers behind the lens record, `[steps, rows]`, and the field each `every` steps."""
    launch = wp.jax_kernel(step)
    columns = speed.shape[1]
    ramp = jnp.arange(steps)
    source = jnp.sin(0.2 * ramp) * jnp.clip(ramp / 30, 0, 1)

    def turn(fields: tuple[jax.Array, jax.Array], strength: jax.Array) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        now, before = fields
        (after,) = launch(now.at[:, 24].add(0.05 * strength), before, speed, damping)
        return (after, now), after[:, int(0.85 * columns)]

    fields, records, shown = (jnp.zeros_like(speed),) * 2, [], []
    for start in range(0, steps, every or steps):
        fields, record = jax.lax.scan(turn, fields, source[start : start + (every or steps)])
        records.append(record)
        shown.append(fields[0])
    return jnp.concatenate(records), jnp.stack(shown)


def find(record: jax.Array, shape: tuple[int, int], guess: float, iterations: int) -> float:
    """The speed inside of the lens, by Gauss and Newton from what was recorded."""
    damping, steps = borders(*shape), record.shape[0]

    @jax.jit
    def improve(slow: jax.Array) -> jax.Array:
        recorded = lambda s: propagate(lens(*shape, s), damping, steps)[0]  # noqa: E731
        found, slope = jax.jvp(recorded, (slow,), (jnp.ones_like(slow),))
        return slow - jnp.clip(jnp.vdot(slope, found - record) / jnp.vdot(slope, slope), -0.02, 0.02)

    slow = jnp.asarray(guess, jnp.float32)
    for _ in tqdm(range(iterations), unit="step"):
        slow = improve(slow)
    return float(slow)


def main(arguments: list[str] | None = None) -> float:
    """Propagates, draws, finds the lens, and returns its speed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=240, help="of the grid (default %(default)s)")
    parser.add_argument("--slow", type=float, default=0.33, help="speed in the lens (default %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture (default %(default)s)")
    options = parser.parse_args(arguments)
    shape = options.rows, 2 * options.rows
    steps = 4 * (shape[1] // 2)
    record, fields = propagate(lens(*shape, options.slow), borders(*shape), steps, steps // 4)
    slow = find(record, shape, 0.34, 8)
    print(f"the lens has the speed {slow:.5f} (it was made with {options.slow})")
    figure, highest = Figure((9, 4.7), layout="constrained"), float(abs(fields).max())
    for n, (axes, field) in enumerate(zip(figure.subplots(2, 2).flat, fields, strict=True)):
        axes.imshow(field, cmap="RdBu_r", vmin=-0.6 * highest, vmax=0.6 * highest)
        axes.contour(lens(*shape, 0.0), [0.25], colors="grey")
        axes.set_title(f"after {(n + 1) * steps // 4} steps")
        axes.axis("off")
    options.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.out / "waves.png")
    print(f"wrote {options.out / 'waves.png'}")
    return slow


if __name__ == "__main__":
    main()
