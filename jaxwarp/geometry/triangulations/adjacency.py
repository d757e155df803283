"""The neighbours of triangles: those that share an edge."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.geometry.sorting import sort_order, taken
from jaxwarp.memory.host_scope import HOST


def beside(triangles: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The triangle over the edge opposite each corner, (m, 3), -1 where there is none; and which of its edges that is.

    Edges are sorted by their vertices, so that equal ones follow each other. One of three triangles or more is a border
    of all of them.
    """
    ends = triangles[:, jnp.array([1, 2, 0])].reshape(-1), triangles[:, jnp.array([2, 0, 1])].reshape(-1)
    low, high = jnp.minimum(*ends), jnp.maximum(*ends)
    order = sort_order(high)[1]
    order = taken(order, sort_order(taken(low, order))[1])
    low, high = taken(low, order), taken(high, order)
    is_same = (low[1:] == low[:-1]) & (high[1:] == high[:-1])
    none = jnp.zeros(1, bool)
    after, before = jnp.concatenate([is_same, none]), jnp.concatenate([none, is_same])
    is_first = after & ~before & ~jnp.concatenate([is_same[1:], none, none])[: len(order)]
    is_second = jnp.concatenate([none, is_first[:-1]])
    mate = jnp.where(is_first, jnp.roll(order, -1), jnp.where(is_second, jnp.roll(order, 1), -1))
    mate = jnp.where(mate // 3 == order // 3, -1, mate)  # two edges of a triangle with a corner twice
    found = jnp.full(len(order), -1, jnp.int32).at[order].set(mate, unique_indices=True).reshape(-1, 3)
    return jnp.where(found < 0, -1, found // 3), jnp.where(found < 0, -1, found % 3)


_beside = jax.jit(beside)


def require_triangles(where: str, indices: Any) -> None:
    """Raises an error unless these are triangles, (m, 3) of int32."""
    shape, dtype = getattr(indices, "shape", None), getattr(indices, "dtype", None)
    if shape is None or dtype not in (np.int32, wp.int32):
        given = type(indices).__name__ if shape is None else dtype
        raise KernelTypeError(
            f"{where}: indices: expected an array of int32, got {given}", hint="np.asarray(indices, np.int32)"
        )
    if len(shape) != 2 or shape[1] != 3:
        raise KernelValueError(
            f"{where}: indices: expected the shape (m, 3), got {tuple(shape)}", hint="indices.reshape((-1, 3))"
        )


@boundary
def tri_tri_adjacency(indices: Any, vertex_count: int | None = None, return_neighbor_edge_indices: bool = True) -> Any:
    """Find the triangles that share an edge. Works under `jit`, `vmap` and `scan`, and on arrays outside of JAX.

    Args:
        indices: (m, 3) vertices of triangles, int32, of NumPy or JAX, or an array outside of it.
        vertex_count: accepted, no effect.
        return_neighbor_edge_indices: whether the second result is there.

    Returns:
        `neighbors`, (m, 3): at [t, j] the triangle over the edge opposite corner j of triangle t; -1 if there is none,
        or more than one. `edges`, (m, 3): which edge that is of the neighbour, by its corner opposite; -1 likewise.

    Raises:
        KernelTypeError, KernelValueError: `indices` is of another type or shape.
    """
    del vertex_count
    require_triangles("tri_tri_adjacency", indices)
    if isinstance(indices, HostArray):
        results = _on_host(indices)
    else:
        results = _beside(indices) if indices.shape[0] else (jnp.zeros((0, 3), jnp.int32),) * 2
    return results if return_neighbor_edge_indices else results[0]


def _on_host(indices: HostArray) -> tuple[Any, Any]:
    made: list[Any] = [wp.zeros(indices.shape, dtype=int, device="cpu") for _ in range(2)]
    neighbors, edges = made

    def run() -> None:
        if indices.shape[0]:
            neighbors.numpy()[:], edges.numpy()[:] = (np.asarray(x) for x in _beside(indices.numpy()))

    HOST.change("tri_tri_adjacency", run, [indices.region], [neighbors.region, edges.region])
    return neighbors, edges


@wp.func
def find_triangle_neighbor_edge_index(triangle_neighbors: wp.array2d[int], triangle: int, neighbor: int) -> int:
    """Return which edge of a triangle a neighbour shares, by its corner opposite; -1 if none. For kernels.

    Args:
        triangle_neighbors: `tri_tri_adjacency(...)[0]`.
        triangle, neighbor: numbers of triangles.
    """
    found = -1
    for k in range(3):
        if found < 0 and triangle_neighbors[triangle, k] == neighbor:
            found = k
    return found
