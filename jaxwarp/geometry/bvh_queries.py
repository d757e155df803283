"""Queries of a `Bvh`: the boxes that overlap a box, a ray, a capsule or a sphere, one after the other."""

# ruff: noqa: A002, F841, UP018
# pyright: reportUnusedVariable=false

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import jaxwarp as wp
from jaxwarp.geometry.bvh import Bvh
from jaxwarp.geometry.steps import bvh_ascend, bvh_descend, high_plane, low_plane, root_node

_BOX, _RAY, _CAPSULE, _SPHERE = 0, 1, 2, 3


@wp.struct
class BvhQuery:
    """A query, and how far it has come: what `bvh_query_next` advances, and `for i in query` goes over."""

    bvh: Bvh
    kind: int
    a: wp.vec3  # the lower corner; the start; the centre
    b: wp.vec3  # the upper corner; the direction
    radius: float
    node: int  # the next one
    trail: int
    place: int  # the next one in the leaf being looked through
    stop: int

    if TYPE_CHECKING:  # kernels go over it: see func_next

        def __iter__(self) -> Iterator[int]: ...


@wp.func
def _query(bvh: Bvh, kind: int, a: wp.vec3, b: wp.vec3, radius: float, root: int):
    """A query at its start; of a place that is NaN or, but for corners of boxes, infinite, at its end."""
    is_place = wp.isfinite(a) and wp.isfinite(b) and not wp.isnan(radius)
    is_box = kind == _BOX and not wp.isnan(a) and not wp.isnan(b)
    node = root_node(root, len(bvh.first) - 1, is_place or is_box)
    return BvhQuery(bvh, kind, a, b, wp.max(radius, 0.0), node, 0, 0, 0)


@wp.func
def group_root(names: wp.array[int], roots: wp.array[int], group: int) -> int:
    """The root of a group, among those in ascending order; -1 if it is none of them."""
    low = 0
    high = len(names)
    while low < high:
        middle = (low + high) // 2
        if names[middle] < group:
            low = middle + 1
        else:
            high = middle
    found = -1
    if low < len(names):
        found = roots[low] if names[low] == group else -1
    return found


@wp.func
def bvh_get_group_root(id: Bvh, group: int) -> int:
    """The node that the boxes of a group are below, and no others: what queries take as `root`; -1 of no group."""
    if id.names:
        return group_root(id.names, id.roots, group)
    return -1


@wp.func
def bvh_query_aabb(id: Bvh, low: wp.vec3, high: wp.vec3, root: int = -1) -> BvhQuery:
    """A query for the boxes that overlap one, whose borders count.

    `root` is the root of a group, see `bvh_get_group_root`; -1 for all.
    """
    return _query(id, _BOX, low, high, 0.0, root)


@wp.func
def bvh_query_ray(id: Bvh, start: wp.vec3, dir: wp.vec3, root: int = -1) -> BvhQuery:
    """A query for the boxes that a ray goes through, before `max_dist` of `bvh_query_next`, in lengths of `dir`."""
    return _query(id, _RAY, start, dir, 0.0, root)


@wp.func
def bvh_query_capsule(id: Bvh, start: wp.vec3, dir: wp.vec3, radius: float, root: int = -1) -> BvhQuery:
    """A query for the boxes that a ray goes through if they are made larger by a radius; `max_dist` itself counts."""
    return _query(id, _CAPSULE, start, dir, radius, root)


@wp.func
def bvh_query_sphere(id: Bvh, center: wp.vec3, radius: float, root: int = -1) -> BvhQuery:
    """A query for the boxes that overlap a sphere, whose surface counts."""
    return _query(id, _SPHERE, center, center, radius, root)


@wp.func
def _gap(x: float, low: float, high: float) -> float:
    return wp.max(wp.max(low - x, x - high), 0.0)


@wp.func
def _passes(start: wp.vec3, dir: wp.vec3, low: wp.vec3, high: wp.vec3, max_dist: float, is_closed: bool) -> bool:
    """Return whether a ray goes through a box before `max_dist`; if `is_closed`, also at `max_dist`."""
    enter = float(-wp.inf)
    leave = float(wp.inf)
    is_beside = bool(False)
    for k in range(3):
        if dir[k] == 0.0:
            is_beside = is_beside or start[k] < low[k] or start[k] > high[k]
        else:
            inverse = 1.0 / dir[k]
            p = (low[k] - start[k]) * inverse
            q = (high[k] - start[k]) * inverse
            enter = wp.max(enter, wp.min(p, q))
            leave = wp.min(leave, wp.max(p, q))
    is_near = enter <= max_dist if is_closed else enter < max_dist
    return not is_beside and leave >= 0.0 and leave >= enter and is_near


@wp.func
def _overlaps(kind: int, a: wp.vec3, b: wp.vec3, radius: float, low: wp.vec3, high: wp.vec3, max_dist: float) -> bool:
    """Return whether a query finds a box. No query finds a box that is NaN or infinite."""
    found = bool(False)
    if kind == _BOX:
        apart = a[0] > high[0] or a[1] > high[1] or a[2] > high[2] or b[0] < low[0] or b[1] < low[1] or b[2] < low[2]
        found = not apart
    elif kind == _SPHERE:
        x = _gap(a[0], low[0], high[0])
        y = _gap(a[1], low[1], high[1])
        z = _gap(a[2], low[2], high[2])
        found = x * x + y * y + z * z <= radius * radius
    else:
        more = wp.vec3(radius, radius, radius)
        found = _passes(a, b, low - more, high + more, max_dist, kind == _CAPSULE)
    size = 0.5 * high - 0.5 * low  # a number, if they are
    is_some = size[0] >= 0.0 and size[1] >= 0.0 and size[2] >= 0.0
    return found and is_some and size[0] < wp.inf and size[1] < wp.inf and size[2] < wp.inf


@wp.func
def _near(query: BvhQuery, x: wp.uint32, y: wp.uint32, z: wp.uint32, max_dist: float) -> float:
    """0 if the box of a node may have some of what a query looks for, else infinite.

    Coordinates are those from the grid's origin, which are exact enough for boxes that are a step larger on each side;
    what is lost where the query is far away is added.
    """
    step = query.bvh.grid[1]
    a = query.a - query.bvh.grid[0]
    b = query.b - query.bvh.grid[0] if query.kind == _BOX else query.b
    far = wp.max(wp.max(wp.abs(a[0]), wp.abs(a[1])), wp.abs(a[2]))
    more = 0.0 if query.kind == _BOX else 1.0e-6 * far
    low = wp.vec3(low_plane(x) * step[0] - more, low_plane(y) * step[1] - more, low_plane(z) * step[2] - more)
    high = wp.vec3(high_plane(x) * step[0] + more, high_plane(y) * step[1] + more, high_plane(z) * step[2] + more)
    limit = max_dist * 1.000001
    return 0.0 if _overlaps(query.kind, a, b, query.radius * 1.000001, low, high, limit) else wp.inf


@wp.func_next(BvhQuery)
@wp.func
def bvh_query_next(query: wp.ref[BvhQuery], index: wp.ref[int], max_dist: float = wp.inf) -> bool:
    """Sets `index` to the next box that a query finds, and returns True; or returns False, when there is none.

    `max_dist` is how far rays and capsules go; it may become less in the course of a query.
    """
    bvh = query.bvh
    leaves = len(bvh.first) - 1
    found = bool(False)
    while not found and (query.place < query.stop or query.node != 0):
        if query.place < query.stop:
            item = bvh.order[query.place]
            query.place += 1
            if _overlaps(query.kind, query.a, query.b, query.radius, bvh.lowers[item], bvh.uppers[item], max_dist):
                index = item
                found = True
        elif query.node >= leaves:
            query.place = bvh.first[query.node - leaves]
            query.stop = bvh.first[query.node - leaves + 1]
            node, trail = bvh_ascend(query.node, query.trail)
            query.node = node
            query.trail = trail
        else:
            box = bvh.nodes[query.node]
            near0 = _near(query, box[0], box[1], box[2], max_dist)
            near1 = _near(query, box[3], box[4], box[5], max_dist)
            node, trail = bvh_descend(query.node, query.trail, near0, near1, wp.inf)
            query.node = node
            query.trail = trail
    return found


# By all threads of a block together, which is one thread: they find one box at a time. Names and results are Warp's.


@wp.func
def tile_bvh_query_aabb(id: Bvh, low: wp.vec3, high: wp.vec3) -> BvhQuery:
    """A query for the boxes that overlap one, whose borders count; `tile_bvh_query_next` advances it."""
    return _query(id, _BOX, low, high, 0.0, -1)


@wp.func
def tile_bvh_query_ray(id: Bvh, start: wp.vec3, dir: wp.vec3) -> BvhQuery:
    """A query for the boxes that a ray goes through; `tile_bvh_query_next` advances it."""
    return _query(id, _RAY, start, dir, 0.0, -1)


@wp.func
def tile_query_valid(query: BvhQuery) -> bool:
    """Return whether a query may find more. Even then, the next result may be -1."""
    return query.place < query.stop or query.node != 0


@wp.func
def tile_bvh_query_next(query: wp.ref[BvhQuery]):  # noqa: ANN201 - a tile
    """A tile of one int: the next box that a query finds, or face of a mesh; -1 if there is none."""
    index = int(-1)  # noqa: RUF046
    bvh_query_next(query, index)
    return wp.tile(index)


BvhQueryTiled = BvhQuery
# Warp's earlier names.
bvh_query_aabb_tiled, bvh_query_ray_tiled, bvh_query_next_tiled = (
    tile_bvh_query_aabb,
    tile_bvh_query_ray,
    tile_bvh_query_next,
)
