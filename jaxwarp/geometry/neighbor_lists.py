"""`neighbors`: lists of the points near each point of a grid, and whether they were long enough."""

# ruff: noqa: RUF046, UP018

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import jaxwarp as wp
from jaxwarp.boundary import boundary, guarded
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.geometry.grid_queries import hash_grid_offset, hash_grid_query, next_run
from jaxwarp.geometry.hash_grid import HashGrid
from jaxwarp.geometry.operations import as_number


@guarded
class Neighbors(NamedTuple):
    """The result of `neighbors`.

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
def _list(grid: HashGrid, r: float, found: wp.array2d[int], counts: wp.array[int]) -> None:
    """A column for each place of the order of cells: threads beside each other write beside each other."""
    place = wp.tid()
    p = grid.points[place]
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
                if count < found.shape[0]:
                    found[count, place] = k
                count += 1
    counts[place] = count


@wp.kernel
def _rows(ids: wp.array[int], found: wp.array2d[int], found_counts: wp.array[int], indices: wp.array2d[int]) -> None:
    """A row for each point, by its number."""
    place, k = wp.tid()
    indices[ids[place], k] = ids[found[k, place]] if k < found_counts[place] else len(ids)


@boundary
def neighbors(grid: HashGrid, r: Any, capacity: int) -> Neighbors:
    """List the points within a distance of each point of a grid, without the point itself.

    Each neighbour is listed once. In a periodic box, distances are those to the nearest image. The lists are integers
    and have no derivative; values that you compute from the points have one.

    Args:
        grid: a `HashGrid.build(...)` of n points of float32.
        r: the largest distance, a number. It may be larger than the grid's cells.
        capacity: the most neighbours of a point that a list has room for. It is static.

    Returns:
        `Neighbors(indices, counts, overflow)`.

    Raises:
        KernelTypeError, KernelValueError: `grid` was not made in JAX of float32; `capacity` is negative.
    """
    if not isinstance(grid, HashGrid) or grid.points is None:
        raise KernelTypeError(
            f"neighbors: grid: expected HashGrid.build(...) of points of float32, got {type_text(grid)}",
            hint="points of other types: go over hash_grid_query in a kernel",
        )
    if grid.start.ndim > 1:
        raise KernelValueError(
            f"neighbors: grid: expected one HashGrid, got a batch of the shape {grid.start.shape[:-1]}",
            hint="map over it: jax.vmap",
        )
    if not isinstance(capacity, int) or isinstance(capacity, bool) or capacity < 0:
        raise KernelValueError(
            f"neighbors: capacity: expected an integer from 0 that Python knows, got {capacity!r}",
            hint="under jit mark it static, or use a constant",
        )
    n = grid.ids.shape[0]
    list_call = wp.jax_kernel(_list, num_outputs=2, launch_dims=n, output_dims={"found": (capacity, n), "counts": n})
    found, counts = list_call(jax.lax.stop_gradient(grid), jax.lax.stop_gradient(as_number("neighbors: r", r)))
    (indices,) = wp.jax_kernel(_rows, launch_dims=(n, capacity), output_dims=(n, capacity))(grid.ids, found, counts)
    by_number = jnp.zeros_like(counts).at[grid.ids].set(counts, unique_indices=True, mode="promise_in_bounds")
    return Neighbors(indices, by_number, (counts > capacity).any())
