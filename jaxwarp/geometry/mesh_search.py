"""The search for the face that a mesh query finds: an integer, without a derivative.

The answer of the query is evaluated elsewhere, from the face.
"""

# ruff: noqa: A002, RUF046, RUF059, UP018
# pyright: reportUnusedVariable=false

from __future__ import annotations

import jaxwarp as wp
from jaxwarp.geometry.mesh import Mesh
from jaxwarp.geometry.steps import bvh_ascend, bvh_descend, high_plane, low_plane, root_node
from jaxwarp.geometry.triangles import closest_on, crossing_of, ray_distance, ray_frame, unit_of

_LEAST = 1.0e-12
_FURTHEST = 3.4028234e38


@wp.func
def _inverse(x: float) -> float:
    """1 / x, finite, where the largest component is about 1: as boxes are larger than their content, 0 may be small."""
    sign = -1.0 if x < 0.0 else 1.0
    return 1.0 / (x if wp.abs(x) > _LEAST else sign * _LEAST)


@wp.func
def _entry(x: wp.uint32, y: wp.uint32, z: wp.uint32, base: wp.vec3, scale: wp.vec3, far: float) -> float:
    """Return where a ray enters the box of a node, or infinity if it does not do so before `far`.

    `base` and `scale` come from the ray and the grid of the nodes.
    """
    ax = low_plane(x) * scale[0] + base[0]
    bx = high_plane(x) * scale[0] + base[0]
    ay = low_plane(y) * scale[1] + base[1]
    by = high_plane(y) * scale[1] + base[1]
    az = low_plane(z) * scale[2] + base[2]
    bz = high_plane(z) * scale[2] + base[2]
    enter = wp.max(wp.max(wp.min(ax, bx), wp.min(ay, by)), wp.max(wp.min(az, bz), 0.0))
    leave = wp.min(wp.min(wp.max(ax, bx), wp.max(ay, by)), wp.min(wp.max(az, bz), far))
    return enter if enter <= leave * 1.0000006 else wp.inf


@wp.func
def find_hit(mesh: Mesh, start: wp.vec3, dir: wp.vec3, max_t: float, is_any: bool, root: int = -1) -> int:
    """The first face that a ray hits before `max_t`, or any; -1 if there is none."""
    first = mesh.bvh.first
    leaves = len(first) - 1
    is_ray = wp.isfinite(start) and wp.isfinite(dir) and max_t > 0.0
    unit = unit_of(dir)
    way = unit * dir
    frame = ray_frame(way)
    inverse = wp.vec3(_inverse(way[0]), _inverse(way[1]), _inverse(way[2]))
    base = wp.cw_mul(mesh.bvh.grid[0] - start, inverse)
    scale = wp.cw_mul(mesh.bvh.grid[1], inverse)
    node = root_node(root, leaves, is_ray)
    trail = int(0)
    best = wp.min(max_t, _FURTHEST) / unit  # in lengths of `way`, so that small and large directions are as any others
    found = int(-1)
    while node != 0:
        while node != 0 and node < leaves:
            box = mesh.bvh.nodes[node]
            near0 = _entry(box[0], box[1], box[2], base, scale, best)
            near1 = _entry(box[3], box[4], box[5], base, scale, best)
            node, trail = bvh_descend(node, trail, near0, near1, wp.inf)
        if node != 0:
            leaf = node - leaves
            for k in range(first[leaf], first[leaf + 1]):
                distance = ray_distance(mesh.corners[k], start, frame)
                if distance < best:
                    best = distance
                    found = k
            node, trail = bvh_ascend(node, trail)
            if is_any:
                node = 0 if found >= 0 else node
    return mesh.bvh.order[found] if found >= 0 else -1


@wp.func
def find_hit_after(mesh: Mesh, start: wp.vec3, dir: wp.vec3, max_t: float, last: int, root: int = -1) -> int:
    """Find the `corners` that a ray crosses next after those at `last`, before `max_t`; -1 if there are no more.

    Crossings are in the order of their distances, and those at one distance in the order of the corners. `last` is -1
    for the first one.
    """
    first = mesh.bvh.first
    leaves = len(first) - 1
    is_ray = wp.isfinite(start) and wp.isfinite(dir) and max_t > 0.0
    unit = unit_of(dir)
    way = unit * dir
    frame = ray_frame(way)
    inverse = wp.vec3(_inverse(way[0]), _inverse(way[1]), _inverse(way[2]))
    base = wp.cw_mul(mesh.bvh.grid[0] - start, inverse)
    scale = wp.cw_mul(mesh.bvh.grid[1], inverse)
    node = root_node(root, leaves, is_ray)
    trail = int(0)
    after = float(-1.0)
    if last >= 0:
        after, _turn = crossing_of(mesh.corners[last], start, frame)
    best = wp.min(max_t, _FURTHEST) / unit  # in lengths of `way`, so that small and large directions are as any others
    found = int(-1)
    while node != 0:
        while node != 0 and node < leaves:
            box = mesh.bvh.nodes[node]
            near0 = _entry(box[0], box[1], box[2], base, scale, best)
            near1 = _entry(box[3], box[4], box[5], base, scale, best)
            node, trail = bvh_descend(node, trail, near0, near1, wp.inf)
        if node != 0:
            leaf = node - leaves
            for k in range(first[leaf], first[leaf + 1]):
                distance, _way = crossing_of(mesh.corners[k], start, frame)
                is_later = distance > after or (distance == after and k > last)
                is_sooner = distance < best or (distance == best and k < found)
                if is_later and is_sooner:
                    best = distance
                    found = k
            node, trail = bvh_ascend(node, trail)
    return found


@wp.func
def count_crossings(mesh: Mesh, start: wp.vec3, dir: wp.vec3, is_signed: bool, root: int = -1) -> int:
    """Return how many faces a ray crosses; if `is_signed`, those from their backs minus those from their fronts."""
    first = mesh.bvh.first
    leaves = len(first) - 1
    is_ray = wp.isfinite(start) and wp.isfinite(dir)
    unit = unit_of(dir)
    way = unit * dir
    frame = ray_frame(way)
    inverse = wp.vec3(_inverse(way[0]), _inverse(way[1]), _inverse(way[2]))
    base = wp.cw_mul(mesh.bvh.grid[0] - start, inverse)
    scale = wp.cw_mul(mesh.bvh.grid[1], inverse)
    node = root_node(root, leaves, is_ray)
    trail = int(0)
    count = int(0)
    while node != 0:
        while node != 0 and node < leaves:
            box = mesh.bvh.nodes[node]
            near0 = _entry(box[0], box[1], box[2], base, scale, wp.inf)
            near1 = _entry(box[3], box[4], box[5], base, scale, wp.inf)
            node, trail = bvh_descend(node, trail, near0, near1, wp.inf)
        if node != 0:
            leaf = node - leaves
            for k in range(first[leaf], first[leaf + 1]):
                distance, turn = crossing_of(mesh.corners[k], start, frame)
                count += (turn if is_signed else 1) if distance < wp.inf else 0
            node, trail = bvh_ascend(node, trail)
    # The frame has the third axis towards the longest component of the direction if that is positive: 1 / it is there.
    is_positive = frame[2][0] + frame[2][1] + frame[2][2] > 0.0
    return 0 - count if is_signed and is_positive else count


@wp.func
def _gap(x: wp.uint32, y: wp.uint32, z: wp.uint32, base: wp.vec3, step: wp.vec3) -> float:
    """The square of how far the box of a node is from the point that `base` is relative to."""
    ax = wp.max(wp.max(low_plane(x) * step[0] + base[0], 0.0 - (high_plane(x) * step[0] + base[0])), 0.0)
    ay = wp.max(wp.max(low_plane(y) * step[1] + base[1], 0.0 - (high_plane(y) * step[1] + base[1])), 0.0)
    az = wp.max(wp.max(low_plane(z) * step[2] + base[2], 0.0 - (high_plane(z) * step[2] + base[2])), 0.0)
    return ax * ax + ay * ay + az * az


@wp.func
def find_closest(mesh: Mesh, point: wp.vec3, max_dist: float) -> int:
    """The face that is closest to a point, and closer than `max_dist`; -1 if there is none."""
    first = mesh.bvh.first
    leaves = len(first) - 1
    base = mesh.bvh.grid[0] - point
    node = root_node(-1, leaves, wp.isfinite(point))
    trail = int(0)
    best = float(max_dist * max_dist if max_dist > 0.0 else 0.0)
    found = int(-1)
    while node != 0:
        while node != 0 and node < leaves:
            box = mesh.bvh.nodes[node]
            near0 = _gap(box[0], box[1], box[2], base, mesh.bvh.grid[1])
            near1 = _gap(box[3], box[4], box[5], base, mesh.bvh.grid[1])
            node, trail = bvh_descend(node, trail, near0, near1, best)
        if node != 0:
            leaf = node - leaves
            for k in range(first[leaf], first[leaf + 1]):
                v, w, square = closest_on(mesh.corners[k], point)
                if square < best:
                    best = square
                    found = k
            node, trail = bvh_ascend(node, trail)
    return mesh.bvh.order[found] if found >= 0 else -1


@wp.func
def _reach(x: wp.uint32, y: wp.uint32, z: wp.uint32, base: wp.vec3, step: wp.vec3) -> float:
    """Minus the square of how far the box of a node reaches away from a point."""
    ax = wp.max(wp.abs(low_plane(x) * step[0] + base[0]), wp.abs(high_plane(x) * step[0] + base[0]))
    ay = wp.max(wp.abs(low_plane(y) * step[1] + base[1]), wp.abs(high_plane(y) * step[1] + base[1]))
    az = wp.max(wp.abs(low_plane(z) * step[2] + base[2]), wp.abs(high_plane(z) * step[2] + base[2]))
    return 0.0 - (ax * ax + ay * ay + az * az)


@wp.func
def find_furthest(mesh: Mesh, point: wp.vec3, min_dist: float) -> int:
    """The face with the vertex that is furthest from a point, and further than `min_dist`; -1 if there is none."""
    first = mesh.bvh.first
    leaves = len(first) - 1
    base = mesh.bvh.grid[0] - point
    node = root_node(-1, leaves, wp.isfinite(point) and not wp.isnan(min_dist))
    trail = int(0)
    best = float(0.0 - min_dist * min_dist if min_dist > 0.0 else 0.0)
    found = int(-1)
    while node != 0:
        while node != 0 and node < leaves:
            box = mesh.bvh.nodes[node]
            near0 = _reach(box[0], box[1], box[2], base, mesh.bvh.grid[1])
            near1 = _reach(box[3], box[4], box[5], base, mesh.bvh.grid[1])
            node, trail = bvh_descend(node, trail, near0, near1, best)
        if node != 0:
            leaf = node - leaves
            for k in range(first[leaf], first[leaf + 1]):
                for j in range(3):
                    square = 0.0 - wp.length_sq(mesh.corners[k][j] - point)
                    if square < best:
                        best = square
                        found = k
            node, trail = bvh_ascend(node, trail)
    return mesh.bvh.order[found] if found >= 0 else -1
