"""A tunnel: what stands in it, what blows through it, and the loop that lets time pass."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxwarp import jax_kernel
from windtunnel import lattice

step = jax_kernel(lattice.collide_and_stream)
look = jax_kernel(lattice.look)
curl = jax_kernel(lattice.curl)
exchange_momentum = jax_kernel(lattice.exchange_momentum)


@partial(jax.jit, donate_argnums=0)
def advance(f: jax.Array, cells: jax.Array, inflow: jax.Array, omega: jax.Array, pairs: jax.Array) -> jax.Array:
    """2 * pairs steps. Two in one turn of the loop, so that the populations go there and back between two buffers."""

    def there_and_back(_: jax.Array, f: jax.Array) -> jax.Array:
        for _ in range(2):
            (f,) = step(f, cells, inflow, omega, launch_dims=cells.shape, output_dims=f.shape)
        return f

    return jax.lax.fori_loop(0, pairs, there_and_back, f)


@jax.jit
def observe(f: jax.Array, cells: jax.Array, body: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Vorticity, the force on the body, and the highest speed (NaN if there is a NaN anywhere)."""
    (velocity,) = look(f, launch_dims=cells.shape)
    (vorticity,) = curl(velocity, cells, launch_dims=cells.shape)
    # Nothing but atomic_add writes the output, so it starts at zero.
    (force,) = exchange_momentum(f, cells, body, launch_dims=cells.shape, output_dims=1)
    speed = jnp.linalg.norm(velocity, axis=-1)
    # A maximum alone may pass over NaN: XLA on the CPU is free to.
    return vorticity, force[0], jnp.where(jnp.isfinite(speed).all(), speed.max(), jnp.nan)


@dataclass(frozen=True)
class Tunnel:
    """What does not change while the wind blows.

    Attributes:
        solid: `[ny, nx]`, true where there is no air.
        body: `[ny, nx]`, true in the solid cells on which the force is wanted.
        inflow: `[ny]`, speed of the wind at the left.
        viscosity: kinematic, in lattice units.
        sponge: part of the length, at either end, in which viscosity grows outwards: it swallows sound, and eddies
            leave without an echo.
    """

    solid: np.ndarray
    body: np.ndarray
    inflow: np.ndarray
    viscosity: float
    sponge: float = 0.0

    @cached_property
    def cells(self) -> jax.Array:
        return jnp.asarray(lattice.classify(self.solid))

    @cached_property
    def _inflow(self) -> jax.Array:
        return jnp.asarray(self.inflow, jnp.float32)

    @cached_property
    def _body(self) -> jax.Array:
        return jnp.asarray(self.body)

    @cached_property
    def omega(self) -> jax.Array:
        """Relaxation rate of each column: 1 / (3 viscosity + 1/2)."""
        nx = self.solid.shape[1]
        to_end = np.minimum(np.arange(nx), nx - 1 - np.arange(nx)) / nx
        depth = np.clip(1.0 - to_end / self.sponge, 0.0, 1.0) if self.sponge > 0 else np.zeros(nx)
        return jnp.asarray(1.0 / (3.0 * self.viscosity + 0.5 + depth**2), jnp.float32)

    def start(self) -> jax.Array:
        """Populations of wind that has just been switched on. `[9, ny, nx]`."""
        return jnp.asarray(lattice.at_rest_or_moving(self.solid, self.inflow))

    def advance(self, f: jax.Array, steps: int) -> jax.Array:
        """The populations an even number of steps later. `f` is used up."""
        if steps % 2:
            raise ValueError(f"steps must be even, got {steps}")
        return advance(f, self.cells, self._inflow, self.omega, jnp.int32(steps // 2))

    def observe(self, f: jax.Array) -> tuple[np.ndarray, np.ndarray, float]:
        """Vorticity `[ny, nx]` (counter-clockwise positive), force (along, up), highest speed."""
        vorticity, force, fastest = observe(f, self.cells, self._body)
        return np.asarray(vorticity), np.asarray(force) * (1.0, -1.0), float(fastest)
