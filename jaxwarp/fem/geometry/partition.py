"""Parts of geometries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import boundaries
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.fem.geometry.geometries import Geometry
from jaxwarp.fem.geometry.lookup import number_among


class of_sides_now:
    """A property that is computed once, and again when the sides of `geometry` have become others."""

    def __init__(self, compute: Callable[[Any], Any]) -> None:
        self._compute, self._key = compute, f"_{compute.__name__}_of"

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        if owner is None:
            return self
        sides = owner.geometry.sides
        known, found = owner.__dict__.get(self._key, (None, None))
        if known is not sides:
            found = self._compute(owner)
            owner.__dict__[self._key] = sides, found
        return found


@wp.struct
class ElementIndexArg:
    """The numbers in the geometry of some of its elements; those of cells ascend."""

    elements: wp.array[int]


@wp.func
def _cell_at(index: ElementIndexArg, place: int):
    return index.elements[place]


@wp.func
def _place_of(index: ElementIndexArg, cell: int):
    return number_among(index.elements, cell)


@boundaries
class GeometryPartition:
    """Some cells of a geometry, and the sides whose inner cell is one of them."""

    is_whole = False
    CellArg = ElementIndexArg
    """The struct of `cell_arg_value`, to annotate an argument of a kernel."""
    cell_index = _cell_at
    """The function `(cell_arg, place)`: the cell at a place in the part."""
    partition_cell_index = _place_of
    """The function `(cell_arg, cell)`: the place of a cell in the part, or -1."""

    def __init__(self, geometry: Geometry, cells: np.ndarray) -> None:
        self.geometry = geometry
        self.cells = np.sort(np.asarray(cells, np.int32))

    @property
    def name(self) -> str:
        return type(self).__name__

    def cell_arg_value(self, device: Any = None) -> Any:
        """Return the numbers of the cells, for a kernel; `device` has no effect."""
        del device
        return ElementIndexArg(self.geometry.integers(self.cells))

    @of_sides_now
    def sides(self) -> np.ndarray:
        return np.flatnonzero(np.isin(self.geometry.sides.cells[:, 0], self.cells)).astype(np.int32)

    @of_sides_now
    def outer_cells(self) -> np.ndarray:
        """The cells beyond the sides between the part and others."""
        is_inside = np.zeros(self.geometry.cell_count(), bool)
        is_inside[self.cells] = True
        sides = self.geometry.sides.cells
        ends = sides[is_inside[sides[:, 0]] != is_inside[sides[:, 1]]]
        return np.unique(ends[~is_inside[ends]]).astype(np.int32)

    def cell_count(self) -> int:
        return len(self.cells)

    def side_count(self) -> int:
        return len(self.sides)


class _Whole(GeometryPartition):
    is_whole = True

    @of_sides_now
    def sides(self) -> np.ndarray:
        return np.arange(self.geometry.side_count(), dtype=np.int32)


def whole(geometry: Geometry) -> GeometryPartition:
    """All of a geometry."""
    return _Whole(geometry, np.arange(geometry.cell_count(), dtype=np.int32))


def chosen_by_mask(what: str, mask: Any, count: int) -> np.ndarray:
    """Return where a mask of `count` elements, an array outside of JAX or one of NumPy, is not zero.

    Raises:
        KernelTypeError, KernelValueError: it is none.
    """
    found = numbers_of(what, mask)
    if found.shape != (count,):
        raise KernelValueError(f"{what}: expected shape ({count},), got {found.shape}")
    return np.flatnonzero(found)


def numbers_of(what: str, given: Any) -> np.ndarray:
    """Return the numbers in an array outside of JAX, or in one of NumPy."""
    if not isinstance(given, (HostArray, np.ndarray)):
        raise KernelTypeError(
            f"{what}: expected an array outside of JAX, got {type_text(given)}", hint="make it with wp.array"
        )
    return np.asarray(given if isinstance(given, np.ndarray) else given.numpy())


@boundaries
class ExplicitGeometryPartition(GeometryPartition):
    """The cells for which a mask is not zero.

    Args:
        geometry: of the cells.
        cell_mask: an array with a number for each cell of the geometry.
        max_cell_count, max_side_count, temporary_store: accepted, no effect: the part has all cells that are chosen.
    """

    def __init__(
        self, geometry: Geometry, cell_mask: Any, max_cell_count: int = -1, max_side_count: int = -1,
        temporary_store: Any = None,
    ) -> None:  # fmt: skip
        del max_cell_count, max_side_count, temporary_store
        count = geometry.cell_count()
        super().__init__(geometry, chosen_by_mask("ExplicitGeometryPartition: cell_mask", cell_mask, count))


@boundaries
class LinearGeometryPartition(GeometryPartition):
    """One of `partition_count` equal runs of cells."""

    def __init__(
        self, geometry: Geometry, partition_rank: int, partition_count: int, device: Any = None,
        temporary_store: Any = None,
    ) -> None:  # fmt: skip
        del device, temporary_store
        if not 0 <= partition_rank < partition_count:
            raise KernelValueError(
                f"LinearGeometryPartition: partition_rank: expected one of {partition_count}, got {partition_rank}"
            )
        size = -(-geometry.cell_count() // partition_count)
        first = min(partition_rank * size, geometry.cell_count())
        super().__init__(geometry, np.arange(first, min(first + size, geometry.cell_count())))
