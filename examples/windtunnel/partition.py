"""The wind tunnel cut into horizontal strips, one per device.

A step of a strip is two launches. `stream_inside` does the rows that need nothing of the neighbours. Meanwhile the rows
that the neighbours need travel: of each only the three populations that cross the cut (`UP`, `DOWN`), which is all that
the lattice's links carry. `stream_edges` then does the first and the last row.

    edges ──> ppermute ──┐
                         ├─> stream_edges ─> next populations
    f ──> stream_inside ─┘

Both launches write into the array of the step before last, so nothing is copied. A thread does exactly what that of
`lattice.collide_and_stream` does, so the result is the same to the last bit.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxwarp as wp
from windtunnel import TunnelError, lattice
from windtunnel.flow import Tunnel
from windtunnel.lattice import BORDER, CX, CY, MIRRORED, OPEN, OPPOSITE, SOLID, WEIGHT, Q, vec9

OUTSIDE = 3  # a kind of cell: beyond the tunnel's walls
UP = tuple(q for q in range(Q) if CY[q] == 1)  # populations that go to higher rows
DOWN = tuple(q for q in range(Q) if CY[q] == -1)
SLOT = tuple(UP.index(q) if q in UP else DOWN.index(q) if q in DOWN else 0 for q in range(Q))


@wp.func
def arriving(f: wp.array3d[float], low: wp.array3d[float], high: wp.array3d[float], q: int, slot: int, y: int, x: int):
    """Population q of a cell that may belong to a neighbour."""
    value = 0.0
    if y < 0:
        value = low[slot, 0, x]
    elif y >= f.shape[1]:
        value = high[slot, 0, x]
    else:
        value = f[q, y, x]
    return value


@wp.func
def stream_at_border(
    f: wp.array3d[float],
    low: wp.array3d[float],
    high: wp.array3d[float],
    cells: wp.array2d[wp.uint8],
    inflow: wp.array[float],
    y: int,
    x: int,
):
    """As in lattice.py, with the neighbours' rows."""
    v = vec9()
    v[0] = f[0, y, x]
    u = lattice.velocity_at(f, y, x)
    for q in range(1, wp.static(Q)):
        cx = float(wp.static(CX[q]))
        cu = wp.dot(wp.vec2(cx, float(wp.static(CY[q]))), u)
        back = f[wp.static(OPPOSITE[q]), y, x]
        source_x = x - wp.static(CX[q])
        source_y = y - wp.static(CY[q])
        if source_x < 0:
            v[q] = back + wp.static(6.0 * WEIGHT[q]) * cx * inflow[y]
        elif source_x >= f.shape[2]:
            v[q] = wp.static(2.0 * WEIGHT[q]) * (1.0 + 4.5 * cu * cu - 1.5 * wp.dot(u, u)) - back
        elif cells[source_y + 1, source_x] == wp.static(OUTSIDE):
            if cells[y + 1, source_x] == wp.static(SOLID):
                v[q] = back
            else:
                v[q] = f[wp.static(MIRRORED[q]), y, source_x]
        elif cells[source_y + 1, source_x] == wp.static(SOLID):
            v[q] = back
        else:
            v[q] = arriving(f, low, high, q, wp.static(SLOT[q]), source_y, source_x)
    return v


@wp.func
def next_populations(
    f: wp.array3d[float],
    low: wp.array3d[float],
    high: wp.array3d[float],
    cells: wp.array2d[wp.uint8],
    inflow: wp.array[float],
    omega: wp.array[float],
    y: int,
    x: int,
):
    """What one cell holds a step later."""
    kind = cells[y + 1, x]
    v = vec9()
    if kind == wp.static(OPEN):
        for q in range(wp.static(Q)):
            v[q] = arriving(f, low, high, q, wp.static(SLOT[q]), y - wp.static(CY[q]), x - wp.static(CX[q]))
        v = lattice.collide(v, omega[x])
    elif kind == wp.static(BORDER):
        v = lattice.collide(stream_at_border(f, low, high, cells, inflow, y, x), omega[x])
    else:
        for q in range(wp.static(Q)):
            v[q] = wp.static(WEIGHT[q])
    return v


@wp.kernel
def stream_inside(
    f: wp.array3d[float],  # populations of a strip [9, rows, nx]
    cells: wp.array2d[wp.uint8],  # kinds, with the row below and the row above [rows + 2, nx]
    inflow: wp.array[float],  # [rows]
    omega: wp.array[float],  # [nx]
    g: wp.array3d[float],  # populations one step later
):
    row, x = wp.tid()
    y = row + 1
    # No row here has a neighbour in another strip, so f stands in for what arrives from them.
    v = next_populations(f, f, f, cells, inflow, omega, y, x)
    for q in range(wp.static(Q)):
        g[q, y, x] = v[q]


@wp.kernel
def stream_edges(
    f: wp.array3d[float],
    low: wp.array3d[float],  # what comes up from the row below [3, 1, nx]
    high: wp.array3d[float],  # what comes down from the row above
    cells: wp.array2d[wp.uint8],
    inflow: wp.array[float],
    omega: wp.array[float],
    g: wp.array3d[float],
):
    edge, x = wp.tid()
    y = edge * (f.shape[1] - 1)
    v = next_populations(f, low, high, cells, inflow, omega, y, x)
    for q in range(wp.static(Q)):
        g[q, y, x] = v[q]


inside = wp.jax_kernel(stream_inside, in_out_argnames=["g"])
edges = wp.jax_kernel(stream_edges, in_out_argnames=["g"])


def _step(size: int, f: jax.Array, g: jax.Array, fixed: tuple[jax.Array, ...]) -> jax.Array:
    """One strip's part of a step; g is overwritten."""
    rows, nx = f.shape[1:]
    upwards, downwards = [(n, n + 1) for n in range(size - 1)], [(n + 1, n) for n in range(size - 1)]
    low = jax.lax.ppermute(f[jnp.array(UP), -1:], "d", upwards)
    high = jax.lax.ppermute(f[jnp.array(DOWN), :1], "d", downwards)
    (g,) = inside(f, *fixed, g, launch_dims=(rows - 2, nx))
    (g,) = edges(f, low, high, *fixed, g, launch_dims=(2, nx))
    return g


@partial(jax.jit, static_argnums=0, donate_argnums=1)
def _advance(mesh: Mesh, f: jax.Array, pairs: jax.Array, *fixed: jax.Array) -> jax.Array:
    def strip(f: jax.Array, pairs: jax.Array, *fixed: jax.Array) -> jax.Array:
        def there_and_back(_: jax.Array, both: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            f, g = both
            g = _step(mesh.size, f, g, fixed)
            return _step(mesh.size, g, f, fixed), g

        return jax.lax.fori_loop(0, pairs, there_and_back, (f, jnp.zeros_like(f)))[0]

    specs = (P(None, "d", None), P(), P("d", None), P("d"), P())
    return jax.shard_map(strip, mesh=mesh, in_specs=specs, out_specs=specs[0])(f, pairs, *fixed)


class Strips:
    """A tunnel on the devices of a mesh with one axis, "d".

    Raises:
        TunnelError: the rows do not divide evenly, or a strip has fewer than two.
    """

    def __init__(self, tunnel: Tunnel, mesh: Mesh):
        ny, nx = tunnel.solid.shape
        if ny % mesh.size or ny // mesh.size < 2:
            raise TunnelError(f"{ny} rows cannot be cut into {mesh.size} equal strips of two or more")
        self.tunnel, self.mesh, self.shape = tunnel, mesh, (ny, nx)
        kinds = np.pad(lattice.classify(tunnel.solid), ((1, 1), (0, 0)), constant_values=OUTSIDE)
        rows = ny // mesh.size
        # Strips overlap in their kinds by the rows of the neighbours, which never change.
        strips = np.concatenate([kinds[n * rows : (n + 1) * rows + 2] for n in range(mesh.size)])
        self.sharding = self._sharding(None, "d", None)
        self.fixed = (
            self._distribute(strips, "d", None),
            self._distribute(np.asarray(tunnel.inflow, np.float32), "d"),
            self._distribute(np.asarray(tunnel.omega)),
        )

    def _sharding(self, *spec: Any) -> NamedSharding:
        return NamedSharding(self.mesh, P(*spec))

    def _distribute(self, array: np.ndarray, *spec: Any) -> jax.Array:
        return jax.make_array_from_callback(array.shape, self._sharding(*spec), lambda index: array[index])

    def start(self) -> jax.Array:
        """Populations `[9, ny, nx]`, each device its rows."""
        return self.distribute(np.asarray(self.tunnel.start()))

    def distribute(self, f: np.ndarray) -> jax.Array:
        return self._distribute(f, None, "d", None)

    def advance(self, f: jax.Array, pairs: int) -> jax.Array:
        """The populations 2 * pairs steps later. `f` is used up."""
        return _advance(self.mesh, f, np.int32(pairs), *self.fixed)

    def program(self) -> str:
        """What XLA makes of `advance`."""
        like = jax.ShapeDtypeStruct((Q, *self.shape), np.float32, sharding=self.sharding)
        return _advance.lower(self.mesh, like, np.int32(1), *self.fixed).compile().as_text()

    def least_bytes(self) -> int:
        """What must cross the cuts in a step: a float for each link of the lattice that does."""
        return (self.mesh.size - 1) * (len(UP) + len(DOWN)) * self.shape[1] * 4
