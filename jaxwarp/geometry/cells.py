"""The cells of a hash grid: in which one a point is, and where the points of each are when sorted by cell.

Space is cut into cells, infinitely many along each axis, and the grid repeats: cell c is cell c mod dim of the grid. So
coordinates may be negative or far away, and a box with as many cells as the grid is periodic.
"""

# pyright: reportRedeclaration=false, reportOperatorIssue=false, reportArgumentType=false, reportInvalidTypeForm=false

from __future__ import annotations

from typing import Any

import jaxwarp as wp

Vec3: Any = wp.types.vector(length=3, dtype=wp.Float)

LAST = 1 << 29
"""Cells beyond are one: the number of cells between two is an int32."""


@wp.func
def cell_of(x: wp.float32, per_length: float) -> int:
    """The cell, of infinitely many along an axis. It never decreases with x, in any precision."""
    return int(wp.clamp(wp.floor(x * per_length), -536870912.0, 536870912.0))


@wp.func
def cell_of(x: wp.float64, per_length: float) -> int:  # noqa: F811
    return int(wp.clamp(wp.floor(x * wp.float64(per_length)), wp.float64(-536870912.0), wp.float64(536870912.0)))


@wp.func
def cell_of(x: wp.float16, per_length: float) -> int:  # noqa: F811
    return cell_of(float(x), per_length)


@wp.func
def repeated(cell: int, count: int) -> int:
    """The cell of the grid."""
    return cell - cell // count * count


@wp.kernel
def find_cells(
    points: wp.array[Vec3], per_length: wp.vec3, dim_x: int, dim_y: int, dim_z: int, cells: wp.array[wp.uint32]
) -> None:
    """The number of each point's cell; the number of cells, for points that are nowhere."""
    i = wp.tid()
    p = points[i]
    cell = dim_x * dim_y * dim_z
    if wp.isfinite(p):
        x = repeated(cell_of(p[0], per_length[0]), dim_x)
        y = repeated(cell_of(p[1], per_length[1]), dim_y)
        z = repeated(cell_of(p[2], per_length[2]), dim_z)
        cell = (z * dim_y + y) * dim_x + x
    cells[i] = wp.uint32(cell)


@wp.kernel
def find_starts(cells: wp.array[wp.uint32], start: wp.array[int]) -> None:
    """Write where the points of each cell start, with `cells` in order: a thread for each point and one more.

    A thread writes for all cells after the point before, up to its own.
    """
    i = wp.tid()
    first = 0
    if i > 0:
        first = int(cells[i - 1]) + 1
    last = len(start) - 1
    if i < len(cells):
        last = int(cells[i])
    for cell in range(first, last + 1):
        start[cell] = i
