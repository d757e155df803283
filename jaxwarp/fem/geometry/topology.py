"""The sides and the nodes that cells share. NumPy finds them once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jaxwarp.errors import KernelValueError
from jaxwarp.fem.geometry.reference import Element, vertex_weights


@dataclass(frozen=True)
class SideTable:
    """The inner and the outer cell of each side, and the numbers of its corners in both cells.

    At the boundary, the outer cell is the inner cell. `local` is the number of the side in the inner cell, `vertices`
    are the vertices at its corners.
    """

    cells: np.ndarray
    corners: np.ndarray
    local: np.ndarray
    vertices: np.ndarray

    @property
    def boundary(self) -> np.ndarray:
        return np.flatnonzero(self.cells[:, 0] == self.cells[:, 1]).astype(np.int32)


def find_sides(element: Element, cells: np.ndarray) -> SideTable:
    """The sides of cells in the order of their vertices, those at the boundary before the others.

    Raises:
        KernelValueError: more than two cells share one.
    """
    local = np.array(element.value.sides)
    count, per_cell, width = len(cells), *local.shape
    corners = cells[:, local].reshape(-1, width)
    owner = np.repeat(np.arange(count), per_cell)
    number = np.tile(np.arange(per_cell), count)
    _, first, inverse, uses = np.unique(
        np.sort(corners, axis=1), axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    if (uses > 2).any():
        raise KernelValueError("geometry: expected at most two cells at each side, got more", hint="split the mesh")
    inverse = inverse.reshape(-1)
    inner, outer = owner[first], owner[first].copy()
    inner_corners = local[number[first]]
    outer_corners = inner_corners.copy()
    is_second = np.ones(len(corners), bool)
    is_second[first] = False
    second = np.flatnonzero(is_second)
    sides = inverse[second]
    outer[sides] = owner[second]
    wanted = corners[first[sides]]
    outer_corners[sides] = (cells[outer[sides]][:, None, :] == wanted[:, :, None]).argmax(-1)
    # Those at the boundary first: their numbers stay where edges inside are flipped.
    order = np.argsort(inner != outer, kind="stable")
    return SideTable(
        np.stack([inner, outer], 1)[order].astype(np.int32),
        np.concatenate([inner_corners, outer_corners], 1)[order].astype(np.int32),
        number[first][order].astype(np.int32),
        corners[first][order].astype(np.int32),
    )


def shared_nodes(element: Element, nodes: np.ndarray, cells: np.ndarray, vertex_count: int) -> tuple[np.ndarray, int]:
    """Numbers of the nodes of cells that are shared where cells meet, and how many there are.

    A node is known by how much of each vertex it has. Those at vertices have the vertices' numbers.
    """
    weights = np.round(vertex_weights(element, nodes) * 2**20).astype(np.int64)
    ids = np.where(weights > 0, cells[:, None, :], -1)
    order = np.argsort(ids, axis=-1)
    keys = np.concatenate(
        [np.take_along_axis(ids, order, -1), np.take_along_axis(np.broadcast_to(weights, ids.shape), order, -1)], -1
    )
    table = np.empty(ids.shape[:2], np.int32)
    if not len(cells):
        return table, vertex_count
    at_vertex = (weights > 0).sum(1) == 1
    table[:, at_vertex] = ids[:, at_vertex].max(-1)
    if at_vertex.all():
        return table, vertex_count
    rest = keys[:, ~at_vertex].reshape(-1, keys.shape[-1])
    found, inverse = np.unique(rest, axis=0, return_inverse=True)
    table[:, ~at_vertex] = inverse.reshape(len(cells), -1) + (vertex_count if at_vertex.any() else 0)
    return table, len(found) + (vertex_count if at_vertex.any() else 0)


def by_position(table: np.ndarray, count: int, positions: np.ndarray) -> np.ndarray:
    """Renumbers nodes in the order of their positions, the first coordinate first.

    Args:
        positions: of each entry of the table, whole numbers.
    """
    points = np.empty((count, positions.shape[-1]), np.int64)
    points[table.reshape(-1)] = positions.reshape(-1, positions.shape[-1])
    rank = np.empty(count, np.int32)
    rank[np.lexsort(points.T[::-1])] = np.arange(count)
    return rank[table]
