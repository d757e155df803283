"""`neighbors`: lists of the points near each point of a grid, and whether they were long enough."""

# ruff: noqa: RUF046, UP018

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import jaxwarp as wp
from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.geometry.grid_queries import hash_grid_offset, hash_grid_query, next_run
from jaxwarp.geometry.hash_grid import HashGrid


class Neighbors(NamedTuple):
    """What `neighbors` gives.

    Attributes:
        indices: (n, capacity) the neighbours of each point, in no particular order, the same each time; n where there
            are no more: `x.at[indices].get(mode="fill", fill_value=...)`.
        counts: (n,) how many each has, also where they are more than there is room for.
        overflow: whether that is anywhere so: then `indices` lacks some.
    """

    indices: jax.Array
    counts: jax.Array
    overflow: jax.Array


@wp.kernel
def _list(grid: HashGrid, r: float, indices: wp.array2d[int], counts: wp.array[int]):
    place = wp.tid()
    i = grid.ids[place]
    p = grid.points[place]
    room = indices.shape[1]
    count = int(0)
    is_periodic = wp.max(grid.period) > 0.0
    query = hash_grid_query(grid, p, r)
    while query.z_left > 0:
        next_run(query)
        for k in range(query.at, query.stop):
            way = grid.points[k] - p
            if is_periodic:
                way = hash_grid_offset(grid, p, grid.points[k])
            if wp.dot(way, way) <= r * r and k != place:
                if count < room:
                    indices[i, count] = grid.ids[k]
                count += 1
    counts[i] = count
    for k in range(count, room):
        indices[i, k] = len(grid.ids)


@boundary
def neighbors(grid: HashGrid, r: Any, capacity: int) -> Neighbors:
    """The points within a distance of each point of a grid, other than itself. Each is there once.

    In a periodic box distances are those to the nearest image. Derivatives are those of what is computed of the points:
    the lists are integers.

    Args:
        grid: a `HashGrid.build(...)` of n points of float32.
        r: the distance, which counts; of any size.
        capacity: room for how many neighbours of a point. It is static.

    Returns:
        `Neighbors(indices, counts, overflow)`.

    Raises:
        KernelTypeError, KernelValueError: `grid` was not made in JAX of float32; `capacity` is negative.
    """
    if not isinstance(grid, HashGrid) or grid.points is None:
        raise KernelTypeError(
            "neighbors: grid: expected HashGrid.build(...) of points of float32",
            hint="points of other types: go over hash_grid_query in a kernel",
        )
    if not isinstance(capacity, int) or isinstance(capacity, bool) or capacity < 0:
        raise KernelValueError(f"neighbors: capacity: expected a number of neighbours, got {capacity!r}")
    n = grid.ids.shape[0]
    call = wp.jax_kernel(_list, num_outputs=2, launch_dims=n, output_dims={"indices": (n, capacity), "counts": n})
    r = jax.lax.stop_gradient(jnp.asarray(r).astype(jnp.float32))
    indices, counts = call(jax.lax.stop_gradient(grid), r)
    return Neighbors(indices, counts, (counts > capacity).any())
