"""Queries of a `HashGrid`: the points in the cells around a place, one after the other.

Cells along x that follow each other are one run of points, so there are two runs for each row of cells at most: one,
and the rest where the grid repeats. Of one group, each cell is a run.
"""

# ruff: noqa: A002, F811, F841, SIM210
# pyright: reportRedeclaration=false, reportUnusedVariable=false, reportArgumentType=false

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import jaxwarp as wp
from jaxwarp.geometry.cells import cell_of, repeated
from jaxwarp.geometry.hash_grid import HashGrid


@wp.struct
class HashGridQuery:
    """A query of a hash grid. Iterate over it with `for i in query`, or advance it with `hash_grid_query_next`."""

    grid: HashGrid
    x: int  # the first cell of a row, the one after the last, and where those end that the grid repeats
    x_stop: int
    x_more: int
    part: int  # the run of the row that is next, and how many a row has
    parts: int
    y: int  # the row that is next, how many are left, and both for the rows above
    y_left: int
    y_first: int
    y_count: int
    z: int
    z_left: int
    at: int  # the point that is next, and the one after the last of the run
    stop: int
    group: int
    is_of_group: bool

    def __class_getitem__(cls, dtype: Any) -> Any:
        """Itself: queries of any precision are one type."""
        return cls

    if TYPE_CHECKING:  # kernels go over it: see func_next

        def __iter__(self) -> Iterator[int]: ...


@wp.func
def _reach(p: Any, r: Any, per_length: float, period: float, dim: int) -> Any:
    """The first cell of the grid that is within a distance, and how many follow, itself included: each once.

    The distance is a little larger, for what rounding makes of the distances that are compared with it, and of the
    places of points that are beyond the ends of a box.
    """
    far = r + r * type(r)(1.0e-6) + type(r)(period * 1.0e-6)
    first = cell_of(p - far, per_length)
    return repeated(first, dim), wp.clamp(cell_of(p + far, per_length) - first + 1, 0, dim)


@wp.func
def _query(grid: HashGrid, p: Any, r: Any, group: int, is_of_group: bool) -> HashGridQuery:
    x, nx = _reach(p[0], r, grid.per_length[0], grid.period[0], grid.dim_x)
    y, ny = _reach(p[1], r, grid.per_length[1], grid.period[1], grid.dim_y)
    z, nz = _reach(p[2], r, grid.per_length[2], grid.period[2], grid.dim_z)
    is_some = wp.isfinite(p) and r >= type(r)(0.0) and nx > 0 and ny > 0
    x_more = wp.max(x + nx - grid.dim_x, 0)
    parts = nx if is_of_group else (2 if x_more > 0 else 1)
    return HashGridQuery(
        grid, x, wp.min(x + nx, grid.dim_x), x_more, 0, parts, y, ny, y, ny, z, nz if is_some else 0, 0, 0, group,
        is_of_group,
    )  # fmt: skip


@wp.func
def hash_grid_query(id: HashGrid, point: wp.vec3, max_dist: float) -> HashGridQuery:
    """A query for the points of a grid that are within a distance of a place, each once; others are among them."""
    return _query(id, point, max_dist, 0, False)


@wp.func
def hash_grid_query(id: HashGrid, point: wp.vec3d, max_dist: wp.float64) -> HashGridQuery:
    """The same in double precision."""
    return _query(id, point, max_dist, 0, False)


@wp.func
def hash_grid_query(id: HashGrid, point: wp.vec3h, max_dist: wp.float16) -> HashGridQuery:
    """The same in half precision."""
    return _query(id, wp.vec3(point), float(max_dist), 0, False)


@wp.func
def hash_grid_query(id: HashGrid, point: wp.vec3, max_dist: float, group: int) -> HashGridQuery:
    """A query for those of one group; of a grid without groups, for all."""
    return _query(id, point, max_dist, group, True if id.groups else False)


@wp.func
def hash_grid_query(id: HashGrid, point: wp.vec3d, max_dist: wp.float64, group: int) -> HashGridQuery:
    """The same in double precision."""
    return _query(id, point, max_dist, group, True if id.groups else False)


@wp.func
def hash_grid_query(id: HashGrid, point: wp.vec3h, max_dist: wp.float16, group: int) -> HashGridQuery:
    """The same in half precision."""
    return _query(id, wp.vec3(point), float(max_dist), group, True if id.groups else False)


@wp.func
def next_run(query: wp.ref[HashGridQuery]) -> Any:
    """Sets `at` and `stop` to the points of the next run, which may be none."""
    grid = query.grid
    row = (query.z * grid.dim_y + query.y) * grid.dim_x
    if query.is_of_group:
        if grid.groups:  # known when the kernel is compiled
            cell = query.x + query.part
            cell = row + (cell if cell < grid.dim_x else cell - grid.dim_x)
            stop = grid.start[cell + 1]
            query.at = _first_of(grid.groups, grid.start[cell], stop, query.group, False)
            query.stop = _first_of(grid.groups, query.at, stop, query.group, True)
    else:
        query.at = grid.start[row + (query.x if query.part == 0 else 0)]
        query.stop = grid.start[row + (query.x_stop if query.part == 0 else query.x_more)]
    query.part = query.part + 1 if query.part + 1 < query.parts else 0
    if query.part == 0:
        query.y = query.y + 1 if query.y + 1 < grid.dim_y else 0
        query.y_left -= 1
        if query.y_left == 0:
            query.y = query.y_first
            query.y_left = query.y_count
            query.z = query.z + 1 if query.z + 1 < grid.dim_z else 0
            query.z_left -= 1


@wp.func
def _first_of(groups: wp.array[int], start: int, stop: int, group: int, is_after: bool) -> int:
    """The first place of a group among some in ascending order, or the first one after it."""
    low = start
    high = stop
    while low < high:
        middle = low + (high - low) // 2
        if groups[middle] < group or (is_after and groups[middle] == group):
            low = middle + 1
        else:
            high = middle
    return low


@wp.func
def _next_places(query: wp.ref[HashGridQuery], run: wp.ref[wp.vec2i]) -> bool:
    is_more = query.z_left > 0
    if is_more:
        next_run(query)
        run = wp.vec2i(query.at, query.stop)
    return is_more


@wp.func
def _point_at(query: HashGridQuery, place: int) -> int:
    return wp.max(query.grid.ids[place], 0)  # so kernels know that it is not negative


@wp.func_next(HashGridQuery, runs=(_next_places, _point_at))
@wp.func
def hash_grid_query_next(query: wp.ref[HashGridQuery], index: wp.ref[int]) -> bool:
    """Sets `index` to the next point that a query finds, and returns True; or returns False, when there is none."""
    while query.at >= query.stop and query.z_left > 0:
        next_run(query)
    found = query.at < query.stop
    if found:
        index = query.grid.ids[query.at]
        query.at += 1
    return found


@wp.func
def hash_grid_point_id(id: HashGrid, index: int) -> int:
    """The number of the point at a place of the order of cells; -1 if there is no such place."""
    return id.ids[index] if index >= 0 and index < len(id.ids) else -1


@wp.func
def hash_grid_offset(id: HashGrid, start: wp.vec3, stop: wp.vec3) -> wp.vec3:
    """The shortest way from one place to another: in a periodic box, to the nearest of its images."""
    way = stop - start
    for axis in range(3):
        if id.period[axis] > 0.0:
            way[axis] -= id.period[axis] * wp.round(way[axis] / id.period[axis])
    return way
