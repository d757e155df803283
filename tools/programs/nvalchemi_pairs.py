"""nvalchemi-toolkit-ops: the neighbours of atoms in a periodic box, by its functions for JAX."""

import jax.numpy as jnp
import numpy as np
from measure import Model
from nvalchemiops.jax import neighbors

ATOMS, EDGE, CUTOFF = 256, 8.0, 2.0


def build() -> Model:
    places = jnp.asarray(np.random.default_rng(0).uniform(0.0, EDGE, (ATOMS, 3)), jnp.float32)
    cell, periodic = EDGE * jnp.eye(3, dtype=jnp.float32)[None], jnp.ones((1, 3), bool)
    found = []

    def step() -> None:
        made = neighbors.neighbor_list(places, CUTOFF, cell=cell, pbc=periodic, method="cell_list", max_neighbors=80)
        found[:] = [np.asarray(made[0]), np.asarray(made[1])]

    # The order of neighbours is that of threads.
    return step, lambda: np.concatenate([np.sort(found[0], axis=-1), found[1][:, None]], axis=1)
