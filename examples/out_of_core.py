"""A wind tunnel larger than the device's memory: its rows stream through the device, slab by slab.

    python examples/out_of_core.py --budget-mib 4

The populations stay in the host's memory. A pass takes each slab of rows to the device, lets --steps-per-pass steps go
by, and brings it back. To do so many steps without the neighbours, a slab brings as many rows of each of them along:
what is wrong at its cut edges comes one row nearer with each step and is left behind. While a slab is computed, the
next one is on its way to the device and the one before on its way back. The result is that of wind_tunnel.py to the
last bit. Writes `out_of_core.png`: the eddies, and where slabs meet.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm
from windtunnel import TunnelError, lattice, render
from windtunnel.flow import Tunnel, step

BYTES_PER_POPULATION = 4
# On the device at once: a slab, the same a step later, the next slab on its way in, the last one on its way out.
SLABS_ON_DEVICE = 4


@dataclass(frozen=True)
class Slab:
    """Rows `begin` to `end` are the slab's own; `low` to `high` go to the device."""

    begin: int
    end: int
    low: int
    high: int


@partial(jax.jit, donate_argnums=0, static_argnames="steps")
def advance_slab(f: jax.Array, cells: jax.Array, inflow: jax.Array, omega: jax.Array, *, steps: int) -> jax.Array:
    """The slab so many steps later; its cut edges are wrong by then."""

    def one(f: jax.Array) -> jax.Array:
        return step(f, cells, inflow, omega, launch_dims=cells.shape, output_dims=f.shape)[0]

    # Two in one turn of the loop, so that the populations go there and back between two buffers.
    f = jax.lax.fori_loop(0, steps // 2, lambda _, f: one(one(f)), f)
    return one(f) if steps % 2 else f


class OutOfCore:
    """A tunnel whose populations are on the host.

    Args:
        tunnel: the tunnel.
        budget: bytes of device memory to use.
        steps_per_pass: steps for each time that the populations go through the device.

    Raises:
        TunnelError: the budget has no room for a slab.
    """

    def __init__(self, tunnel: Tunnel, budget: int, steps_per_pass: int):
        self.tunnel, self.steps_per_pass = tunnel, steps_per_pass
        self.ny, self.nx = tunnel.solid.shape
        self.kinds = lattice.classify(tunnel.solid)
        self.omega = np.asarray(tunnel.omega)
        self.inflow = np.asarray(tunnel.inflow, np.float32)
        # For a row: populations, kinds of cells (two slabs have them at a time), the inflow.
        per_row = SLABS_ON_DEVICE * lattice.Q * BYTES_PER_POPULATION * self.nx + 2 * self.nx + 8
        rows = (budget - self.omega.nbytes) // per_row
        self.rows = min(self.ny, rows - 2 * steps_per_pass)
        if self.rows < 1:
            least = (2 * steps_per_pass + 1) * per_row + self.omega.nbytes
            raise TunnelError(
                f"a slab of {steps_per_pass} steps needs {least} bytes on the device, and the budget is {budget};"
                " lower --steps-per-pass or --width"
            )

    def slabs(self) -> Iterator[Slab]:
        """All rows, from the first to the last. Slabs are equal on the device, so that one program serves them all."""
        size = min(self.ny, self.rows + 2 * self.steps_per_pass)
        for begin in range(0, self.ny, self.rows):
            low = min(max(0, begin - self.steps_per_pass), self.ny - size)
            yield Slab(begin, min(begin + self.rows, self.ny), low, low + size)

    def _load(self, f: np.ndarray, slab: Slab) -> tuple[jax.Array, ...]:
        """Starts the transfers to the device."""
        rows = slice(slab.low, slab.high)
        kinds = self.kinds[rows].copy()
        for edge, is_cut in ((0, slab.low > 0), (-1, slab.high < self.ny)):
            # Threads of open cells do not look where they read; at a cut they would read beyond the slab.
            if is_cut:
                kinds[edge][kinds[edge] == lattice.OPEN] = lattice.BORDER
        # Not the host's memory itself, where the device is the host: the copy is what this is about.
        return tuple(jax.device_put(x, may_alias=False) for x in (f[:, rows], kinds, self.inflow[rows]))

    def advance(self, f: np.ndarray, steps: int) -> np.ndarray:
        """The populations `[9, ny, nx]` after so many steps. `f` is left as it is."""
        f, g = f.copy(), np.empty_like(f)
        omega = jax.device_put(self.omega)
        for done in tqdm(range(0, steps, self.steps_per_pass), unit="pass"):
            self._pass(f, g, omega, min(steps - done, self.steps_per_pass))
            f, g = g, f
        return f

    def _pass(self, f: np.ndarray, g: np.ndarray, omega: jax.Array, steps: int) -> None:
        """Every slab of f through the device into g. At most one is on its way in, one computed, one on its way out."""
        slabs = list(self.slabs())
        leaving: tuple[Slab, jax.Array] | None = None
        loaded = self._load(f, slabs[0])
        for number, slab in enumerate(slabs):
            populations, kinds, inflow = loaded
            loaded = ()  # the populations are used up, the rest is let go
            result = advance_slab(populations, kinds, inflow, omega, steps=steps)
            del populations, kinds, inflow
            if number + 1 < len(slabs):
                loaded = self._load(f, slabs[number + 1])
            self.observe()
            result.copy_to_host_async()
            if leaving is not None:
                self._store(g, *leaving)
            leaving = slab, result
            # The next slab may be computed only when this one is done, or three were on the device.
            jax.block_until_ready(result)
        assert leaving is not None
        self._store(g, *leaving)

    def observe(self) -> None:
        """Called when the device holds most; for tests."""

    def _store(self, g: np.ndarray, slab: Slab, result: jax.Array) -> None:
        g[:, slab.begin : slab.end] = np.asarray(result)[:, slab.begin - slab.low : slab.end - slab.low]
        result.delete()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--width", type=int, default=640, help="cells along the wind (default %(default)s)")
    add("--height", type=int, default=256, help="cells across the wind (default %(default)s)")
    add("--steps", type=int, default=8000, help="time steps (default %(default)s)")
    add("--steps-per-pass", type=int, default=8, help="steps for each trip through the device (default %(default)s)")
    add("--budget-mib", type=float, default=4.0, help="device memory to use (default %(default)s)")
    add("--out", type=Path, default=Path("out"), help="folder for the picture (default %(default)s)")
    options = parser.parse_args(arguments)
    try:
        y, x = np.mgrid[: options.height, : options.width]
        disc = (x - options.width / 4) ** 2 + (y - 0.48 * options.height) ** 2 < (options.width / 32) ** 2
        tunnel = Tunnel(disc, disc, np.full(options.height, 0.1), viscosity=0.01, sponge=0.08)
        program = OutOfCore(tunnel, int(options.budget_mib * 2**20), options.steps_per_pass)
        f = np.asarray(tunnel.start())
        count = len(list(program.slabs()))
        print(f"{f.nbytes / 2**20:.1f} MiB of populations in {count} slabs, {options.budget_mib:g} MiB on the device")
        began = time.perf_counter()
        f = program.advance(f, options.steps)
        seconds = time.perf_counter() - began
        done = options.steps * disc.size
        print(f"{done / seconds / 1e6:.0f} million lattice updates a second")
        vorticity, _, _ = tunnel.observe(jnp.asarray(f))
        cuts = [slab.begin for slab in program.slabs()][1:]
        render.cut(vorticity, tunnel.body, cuts, options.out / "out_of_core.png")
        print(f"wrote {options.out / 'out_of_core.png'}")
    except TunnelError as error:
        print(f"out_of_core: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
