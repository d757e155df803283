"""Parts of geometries."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from jaxwarp.errors import KernelValueError
from jaxwarp.fem.geometry.geometries import Geometry


class GeometryPartition:
    """Some cells of a geometry, and the sides whose inner cell is one of them."""

    def __init__(self, geometry: Geometry, cells: np.ndarray) -> None:
        self.geometry = geometry
        self.cells = np.asarray(cells, np.int32)

    @functools.cached_property
    def sides(self) -> np.ndarray:
        return np.flatnonzero(np.isin(self.geometry.sides.cells[:, 0], self.cells)).astype(np.int32)

    def cell_count(self) -> int:
        return len(self.cells)

    def side_count(self) -> int:
        return len(self.sides)


class _Whole(GeometryPartition):
    @functools.cached_property
    def sides(self) -> np.ndarray:
        return np.arange(self.geometry.side_count(), dtype=np.int32)


def whole(geometry: Geometry) -> GeometryPartition:
    """All of a geometry."""
    return _Whole(geometry, np.arange(geometry.cell_count(), dtype=np.int32))


class ExplicitGeometryPartition(GeometryPartition):
    """The cells for which a mask is not zero."""

    def __init__(self, geometry: Geometry, cell_mask: Any, *_: Any, **__: Any) -> None:
        mask = cell_mask.numpy()
        if mask.shape != (geometry.cell_count(),):
            raise KernelValueError(
                f"ExplicitGeometryPartition: cell_mask: expected shape ({geometry.cell_count()},), got {mask.shape}"
            )
        super().__init__(geometry, np.flatnonzero(mask))


class LinearGeometryPartition(GeometryPartition):
    """One of `partition_count` equal runs of cells."""

    def __init__(self, geometry: Geometry, partition_rank: int, partition_count: int, *_: Any, **__: Any) -> None:
        size = -(-geometry.cell_count() // partition_count)
        first = min(partition_rank * size, geometry.cell_count())
        super().__init__(geometry, np.arange(first, min(first + size, geometry.cell_count())))
