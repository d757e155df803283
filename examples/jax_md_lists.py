"""jax-md's neighbour lists by a hash grid: a module for `jax_md_neighbors.py`, and for programs of jax-md.

`neighbor_list` takes the place of `jax_md.partition.neighbor_list`: it has the same arguments, and gives the same
`NeighborListFns` and `NeighborList`, in the formats Dense, Sparse and OrderedSparse. So functions of `jax_md.energy`
take it as their `neighbor_list_fn`, and `update` goes into `jit` and `scan`. What differs: points are sorted by cells,
which need no room for as many as the fullest one has; boxes may be smaller than three cutoffs, and may change in
`update(..., box=...)`. Which axes are periodic, the displacement says. Boxes that are matrices are refused: one with
right angles is given by its sides. Distances are those of float32.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax_md import partition

import jaxwarp as wp

PEC = partition.PartitionErrorCode


def axes_of(displacement: Callable[..., Any], side: np.ndarray, unit: bool) -> np.ndarray:
    """Which axes are periodic: along those, 3/4 of the box is less than half of it away."""
    with jax.ensure_compile_time_eval():
        place = jnp.diag(jnp.full(len(side), 0.75) if unit else 0.75 * side)
        options = {"box": jnp.asarray(side)} if unit else {}
        away = [np.linalg.norm(displacement(p, jnp.zeros_like(p), **options)) for p in place]
    return np.array(away) < 0.5 * side


def is_pair(idx: jax.Array, format: Any) -> jax.Array:  # noqa: A002
    """Which places of lists (n, m) have a neighbour; of OrderedSparse, one of two."""
    return idx < (jnp.arange(len(idx))[:, None] if format is partition.OrderedSparse else len(idx))


def as_pairs(idx: jax.Array, is_one: jax.Array, room: int) -> jax.Array:
    """Lists (n, m) as pairs (2, room), filled up with n."""
    row = jnp.broadcast_to(jnp.arange(len(idx), dtype=jnp.int32)[:, None], idx.shape)
    place = jnp.where(is_one, jnp.cumsum(is_one).reshape(idx.shape) - 1, room)
    pairs = jnp.full((2, room), len(idx), jnp.int32)
    return pairs.at[:, place].set(jnp.stack([idx, row]), mode="drop")


def neighbor_list(  # noqa: PLR0913
    displacement_or_metric: Callable[..., Any],
    box: Any,
    r_cutoff: float,
    dr_threshold: float = 0.0,
    capacity_multiplier: float = 1.25,
    disable_cell_list: bool = False,  # noqa: ARG001
    mask_self: bool = True,
    custom_mask_function: Callable[[jax.Array], jax.Array] | None = None,
    fractional_coordinates: bool = False,
    format: Any = partition.Dense,  # noqa: A002
    **_: Any,
) -> partition.NeighborListFns:
    """As `jax_md.partition.neighbor_list`, for two and three dimensions."""
    skin, reach, is_sparse = float(dr_threshold), float(r_cutoff + dr_threshold), partition.is_sparse(format)

    def search(x: jax.Array, room: int, side: Any = box) -> wp.geometry.Neighbors:
        """The grid's cells are half as wide as the search, of the box that was given first."""
        if np.ndim(box) > 1 or np.ndim(side) > 1:
            raise ValueError(f"expected the sides of a box, got {box}")
        dim = x.shape[1]
        first = np.broadcast_to(np.asarray(box, np.float32), (dim,))
        is_periodic = axes_of(displacement_or_metric, first, fractional_coordinates)
        x = x * side if fractional_coordinates else x
        flat = ((0, 0), (0, 3 - dim))
        period = jnp.pad(jnp.where(is_periodic, side, 0.0), flat[1])
        cells = np.pad(np.maximum(2 * first / reach, 1).astype(int), flat[1], constant_values=1)
        grid = wp.HashGrid.build(jnp.pad(x, flat).astype(jnp.float32), reach / 2, cells, period=period)
        return wp.geometry.neighbors(grid, reach, room)

    def found(x: jax.Array, near: Any, room: int | None, error: Any, old: Any = None) -> partition.NeighborList:
        """The list in its format, with `room`, or with as much as is needed now and some more."""
        n, idx = len(x), near.indices
        error = error.update(PEC.CELL_LIST_OVERFLOW if is_sparse else PEC.NEIGHBOR_LIST_OVERFLOW, near.overflow)
        if not mask_self:
            idx = jnp.concatenate([idx, jnp.arange(n, dtype=jnp.int32)[:, None]], 1)
        if custom_mask_function is not None:
            idx = custom_mask_function(idx)
        if is_sparse:
            is_one = is_pair(idx, format)
            room = room or int(capacity_multiplier * is_one.sum()) + 1
            idx = as_pairs(idx, is_one, room)
            error = error.update(PEC.NEIGHBOR_LIST_OVERFLOW, is_one.sum() > room)
        wide = near.indices.shape[1]
        return partition.NeighborList(
            idx, x, error, wide, room or idx.shape[1], format, reach, None, old.update_fn if old else refreshed
        )

    def allocate(position: jax.Array, extra_capacity: int = 0, **options: Any) -> partition.NeighborList:
        side = options.get("box", box)
        most = int(search(position, 0, side).counts.max())
        wide = min(int(most * capacity_multiplier) + extra_capacity, max(len(position) - 1, 1))
        near = search(position, wide, side)
        return found(position, near, None, partition.PartitionError(jnp.zeros((), jnp.uint8)))

    def refreshed(position: jax.Array, old: partition.NeighborList, **options: Any) -> partition.NeighborList:
        def again() -> partition.NeighborList:
            near = search(position, old.cell_list_capacity, options.get("box", box))
            return found(position, near, old.max_occupancy, old.error, old)

        away = jax.vmap(partial(displacement_or_metric, **options))(position, old.reference_position)
        moved = jnp.sum(away.reshape(len(position), -1) ** 2, 1).max()
        return again() if skin == 0 else jax.lax.cond(moved > (skin / 2) ** 2, again, lambda: old)

    return partition.NeighborListFns(allocate, refreshed)
