"""A Lennard-Jones fluid by jax-md's energies and integrators, as they are, on neighbour lists of a hash grid.

    python examples/jax_md_neighbors.py

A fluid of Lennard-Jones particles is held at a temperature by `jax_md.simulate.nvt_nose_hoover`; then `nve` keeps
its energy. Its mean potential energy, with what is beyond the cutoff, is that of NIST's tables. Energies and steps are
those of jax-md; lists of neighbours are made in `lax.scan` by `jax_md_lists.neighbor_list`, of a `wp.HashGrid`.

Writes `jax_md_neighbors.png` into --out: the energies of a particle.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax_md import energy, partition, quantity, simulate, space
from jax_md_lists import neighbor_list
from matplotlib.figure import Figure

CUTOFF, ONSET = 3.0, 2.9


def fluid(side: int, density: float, temperature: float, steps: int, lists: Any = neighbor_list) -> dict[str, Any]:
    """Steps at a temperature, and as many of constant energy: energies of a particle, and whether lists overflowed."""
    count = 4 * side**3
    box = float((count / density) ** (1 / 3))
    cells = np.stack(np.meshgrid(*[np.arange(side)] * 3), -1).reshape(-1, 1, 3)
    corners = np.array([[0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]])
    x = jnp.asarray((cells + corners).reshape(-1, 3) * box / side, jnp.float32)
    displacement, shift = space.periodic(box)
    neighbor_fn, energy_fn = energy.lennard_jones_neighbor_list(
        displacement, box, r_onset=ONSET, r_cutoff=CUTOFF, dr_threshold=0.4, format=partition.Dense,
        neighbor_list_fn=lists, capacity_multiplier=1.4,
    )  # fmt: skip
    near = neighbor_fn.allocate(x, extra_capacity=16)

    def run(apply: Callable[..., Any], state: Any, near: Any) -> Any:
        def step(carry: Any, _: None) -> Any:
            state, near = carry
            near = near.update(state.position)
            state = apply(state, neighbor=near)
            kinetic = quantity.kinetic_energy(momentum=state.momentum, mass=state.mass)
            return (state, near), jnp.stack([energy_fn(state.position, neighbor=near), kinetic]) / count

        return jax.jit(lambda *carry: jax.lax.scan(step, carry, None, steps))(state, near)

    init, apply = simulate.nvt_nose_hoover(energy_fn, shift, 0.004, temperature)
    (held, near), warm = run(apply, init(jax.random.key(0), x, kT=2 * temperature, neighbor=near), near)
    init, apply = simulate.nve(energy_fn, shift, 0.004)
    free = init(jax.random.key(0), held.position, kT=temperature, neighbor=near).set(momentum=held.momentum)
    (_, near), cold = run(apply, free, near)
    return {"energies": np.concatenate([warm, cold]), "overflow": bool(near.did_buffer_overflow)}


def beyond(density: float) -> float:
    """Energy of a particle with those that the cutoff leaves out, all around alike."""
    r = jnp.linspace(ONSET, 40.0, 100_001)
    whole, cut = energy.lennard_jones, energy.multiplicative_isotropic_cutoff(energy.lennard_jones, ONSET, CUTOFF)
    return float(2 * jnp.pi * density * jnp.trapezoid((whole(r) - cut(r)) * r**2, r))


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Simulates, draws, and returns the potential energy, the temperature, and how much the total energy changed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=5, help="cells of four particles (default %(default)s)")
    parser.add_argument("--density", type=float, default=0.82, help="(default %(default)s)")
    parser.add_argument("--temperature", type=float, default=0.85, help="(default %(default)s)")
    parser.add_argument("--steps", type=int, default=1500, help="of each half (default %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture (default %(default)s)")
    options = parser.parse_args(arguments)
    told = fluid(options.side, options.density, options.temperature, options.steps)
    if told["overflow"]:
        raise SystemExit("a list of neighbours was too short: raise extra_capacity")
    potential, kinetic = told["energies"].T
    potential, total = potential + beyond(options.density), potential + kinetic
    count, half = 4 * options.side**3, options.steps
    found = {
        "energy": float(potential[half:].mean()),
        "temperature": float(kinetic[half:].mean() * count / (1.5 * (count - 1))),
        "drift": float(np.ptp(total[half:])),
    }
    print(f"{count} particles, energy {found['energy']:.3f} at the temperature {found['temperature']:.3f}")
    print(f"the total energy of a particle changed by {found['drift']:.5f}")
    axes = (figure := Figure((7, 3), layout="constrained")).subplots()
    axes.plot(0.004 * np.arange(2 * half), potential, label="potential")
    axes.plot(0.004 * np.arange(2 * half), total + beyond(options.density), label="total")
    axes.axhline(-5.795, color="grey", linestyle="--", label="NIST, potential")
    axes.set(xlabel="time", ylabel="energy of a particle", ylim=(-6.2, -4))
    axes.legend(loc="upper right", ncols=3)
    options.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.out / "jax_md_neighbors.png")
    print(f"wrote {options.out / 'jax_md_neighbors.png'}")
    return found


if __name__ == "__main__":
    main()
