"""The boxes of trees, and the faces of meshes, by kernels.

A thread of `join_boxes` has a node, and finds its box in those of the nodes `_LEVELS` below, not in those of its
children, so that a launch has several levels: a tree of a million items takes five launches.
"""

# pyright: reportInvalidTypeForm=false, reportArgumentType=false

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.launching import launch_unrecorded
from jaxwarp.geometry.kernels.arrays import new, set_zero
from jaxwarp.geometry.kernels.order import is_usable, numbers_on
from jaxwarp.geometry.steps import Node

Box = wp.types.vector(length=6, dtype=wp.float32)
_LEVELS = 6
_FURTHEST = 1e25  # see tree.py
_NO_BOX = 0xFFFFFFFF


@wp.kernel
def place_faces(
    points: wp.array[wp.vec3], faces: wp.array2d[int], order: wp.array[int], corners: wp.array[wp.mat33],
    lowers: wp.array[wp.vec3], uppers: wp.array[wp.vec3],
) -> None:  # fmt: skip
    """Write the corners of the face at a place, and the bounds of the face of that number."""
    i = wp.tid()
    corners[i] = corners_of(points, faces, wp.clamp(order[i], 0, len(order) - 1))
    own = corners_of(points, faces, i)
    low = wp.vec3()
    high = wp.vec3()
    for k in range(3):
        is_some = not (wp.isnan(own[0, k]) or wp.isnan(own[1, k]) or wp.isnan(own[2, k]))
        low[k] = wp.min(wp.min(own[0, k], own[1, k]), own[2, k]) if is_some else wp.nan
        high[k] = wp.max(wp.max(own[0, k], own[1, k]), own[2, k]) if is_some else wp.nan
    lowers[i] = low
    uppers[i] = high


@wp.func
def corners_of(points: wp.array[wp.vec3], faces: wp.array2d[int], face: int) -> wp.mat33:
    """The corners of a face; NaN of one that names no vertex."""
    a = faces[face, 0]
    b = faces[face, 1]
    c = faces[face, 2]
    last = len(points) - 1
    is_there = wp.min(a, wp.min(b, c)) >= 0 and wp.max(a, wp.max(b, c)) <= last
    x = points[wp.clamp(a, 0, last)]
    y = points[wp.clamp(b, 0, last)]
    z = points[wp.clamp(c, 0, last)]
    found = wp.mat33(x[0], x[1], x[2], y[0], y[1], y[2], z[0], z[1], z[2])
    none = wp.nan
    return found if is_there else wp.mat33(none, none, none, none, none, none, none, none, none)


@wp.kernel
def take_corners(given: wp.array[wp.mat33], order: wp.array[int], corners: wp.array[wp.mat33]) -> None:
    """Write corners in an order."""
    i = wp.tid()
    corners[i] = given[order[i]]


@wp.kernel
def find_bad_face(faces: wp.array2d[int], vertices: int, bad: wp.array[int]) -> None:
    """Write the largest number, counted from the end, of a face that names no vertex: of the first one."""
    i = wp.tid()
    a = faces[i, 0]
    b = faces[i, 1]
    c = faces[i, 2]
    if wp.min(a, wp.min(b, c)) < 0 or wp.max(a, wp.max(b, c)) >= vertices:
        wp.atomic_max(bad, 0, len(faces) - i)


@wp.kernel
def bound_leaves(
    lowers: wp.array[wp.vec3], uppers: wp.array[wp.vec3], order: wp.array[int], first: wp.array[int],
    boxes: wp.array[Box],
) -> None:  # fmt: skip
    """Write the box of a leaf; of nothing it is the wrong way round."""
    i = wp.tid()
    low = wp.vec3(wp.inf, wp.inf, wp.inf)
    high = wp.vec3(-wp.inf, -wp.inf, -wp.inf)
    for k in range(wp.max(first[i], 0), wp.min(first[i + 1], len(order))):
        item = wp.clamp(order[k], 0, len(order) - 1)
        if is_usable(lowers[item], uppers[item]):
            low = wp.min(low, lowers[item])
            high = wp.max(high, uppers[item])
    box = Box()
    for k in range(3):
        box[k] = wp.max(wp.min(low[k], _FURTHEST), -_FURTHEST) if low[k] <= high[k] else wp.inf
        box[3 + k] = wp.max(wp.min(high[k], _FURTHEST), -_FURTHEST) if low[k] <= high[k] else -wp.inf
    boxes[i] = box


@wp.kernel
def join_boxes(below: wp.array[Box], begin: int, boxes: wp.array[Box]) -> None:
    """Write the boxes of the nodes from `begin` on, of which `below` has the level after the last one."""
    i = wp.tid()
    node = begin + i
    size = 1
    while node < len(below):
        node = 2 * node
        size = 2 * size
    node -= len(below)
    box = below[node]
    for k in range(1, size):
        other = below[node + k]
        for j in range(3):
            box[j] = wp.min(box[j], other[j])
            box[3 + j] = wp.max(box[3 + j], other[3 + j])
    boxes[i] = box


@wp.func
def grid_of(box: Box) -> Any:
    """Origin and steps of a grid over a box; see `tree._grid`."""
    low = wp.vec3()
    extent = wp.vec3()
    longest = 0.0
    furthest = 0.0
    for k in range(3):
        is_some = box[k] <= box[3 + k]
        low[k] = box[k] if is_some else 0.0
        high = box[3 + k] if is_some else 0.0
        extent[k] = high - low[k]
        longest = wp.max(longest, extent[k])
        furthest = wp.max(furthest, wp.max(wp.abs(low[k]), wp.abs(high)))
    least = wp.max(longest * 1.0e-5, furthest * 1.0e-6)
    step = wp.vec3()
    for k in range(3):
        step[k] = wp.max(wp.max(extent[k], least), 1.0e-30) * (1.0 / 65528.0)
    return low - step - step, step


@wp.func
def planes_of(low: float, high: float, origin: float, per_length: float) -> wp.uint32:
    """Two planes of a box on the grid, rounded outwards."""
    below = wp.clamp(wp.floor((low - origin) * per_length) - 1.0, 0.0, 65535.0)
    above = wp.clamp(wp.ceil((high - origin) * per_length) + 1.0, 0.0, 65535.0)
    word = wp.uint32(int(below)) | (wp.uint32(int(above)) << wp.uint32(16))
    return word if low <= high else wp.uint32(_NO_BOX)


@wp.kernel(module_options={"fuse_fp": False})
def write_nodes(boxes: wp.array[Box], nodes: wp.array[Node], grid: wp.array[wp.vec3]) -> None:
    """Write a node: the boxes of its children on the grid over all. Node 0 is unused."""
    i = wp.tid()
    origin, step = grid_of(boxes[1])
    node = Node()
    if i > 0:
        one = boxes[2 * i]
        two = boxes[2 * i + 1]
        for k in range(3):
            node[k] = planes_of(one[k], one[3 + k], origin[k], 1.0 / step[k])
            node[3 + k] = planes_of(two[k], two[3 + k], origin[k], 1.0 / step[k])
    nodes[i] = node
    if i == 0:
        grid[0] = origin
        grid[1] = step


def _launches(leaves: int) -> Iterator[tuple[int, int]]:
    """Yield where the nodes of each launch of `join_boxes` begin and end."""
    depth = leaves.bit_length() - 1
    while depth > 0:
        top = max(0, depth - _LEVELS)
        yield 1 << top, 1 << depth
        depth = top


# In programs of JAX

_place = wp.jax_kernel(place_faces, num_outputs=3)
_leaves = wp.jax_kernel(bound_leaves)
_join = wp.jax_kernel(join_boxes)
_write = wp.jax_kernel(write_nodes, num_outputs=2)


def faces_in_jax(points: Any, faces: Any, order: Any) -> tuple[Any, Any, Any]:
    """The corners of faces (m, 3) in an order, (m, 3, 3), and their bounds, (m, 3), by number.

    Of a face that names no vertex all is NaN; of one with a vertex that is NaN, its bounds are.
    """
    corners, lowers, uppers = _place(points, faces, order, launch_dims=len(faces), output_dims=len(faces))
    return corners, lowers, uppers


def boxes_in_jax(lowers: Any, uppers: Any, order: Any, first: Any) -> tuple[Any, Any]:
    """The nodes of a tree, for an order of the leaves: what is made anew when items move.

    Args:
        lowers, uppers: (n, 3), float32.
        order: (n,), int32.
        first: (2**d + 1,), int32.

    Returns:
        The nodes, (2**d, 8) of uint32, of which node 0 is unused; the origin and the steps of the grid, (2, 3).
    """
    count = len(first) - 1
    levels = list(_leaves(lowers, uppers, order, first, launch_dims=count, output_dims=count))
    for begin, end in _launches(count):
        levels += _join(levels[-1][:end], begin, launch_dims=end - begin, output_dims=end - begin)
    boxes = jnp.concatenate([jnp.zeros((1, 6), jnp.float32), *levels[::-1]])
    nodes, grid = _write(boxes, launch_dims=count, output_dims={"nodes": count, "grid": 2})
    return nodes, grid


# Of arrays on a GPU, outside of JAX


def set_faces(points: HostArray, faces: HostArray, order: HostArray, into: tuple[HostArray, ...]) -> None:
    """Write `faces_in_jax` to arrays that are there."""
    launch_unrecorded(points.scope, place_faces, len(faces), points, faces, order, *into)


def faces_on_gpu(points: HostArray, faces: HostArray, order: HostArray | None) -> tuple[Any, Any, Any]:
    """Return what `faces_in_jax` does; without `order`, faces keep the order they have."""
    place, count = points.scope, len(faces)
    made = new(place, wp.mat33, count), new(place, wp.vec3, count), new(place, wp.vec3, count)
    set_faces(points, faces, numbers_on(place, count) if order is None else order, made)
    return made


def corners_on_gpu(given: HostArray, order: HostArray) -> HostArray:
    """Return corners in an order."""
    made = new(given.scope, wp.mat33, len(order))
    launch_unrecorded(given.scope, take_corners, len(order), given, order, made)
    return made


def bad_face_on_gpu(faces: HostArray, vertices: int) -> int:
    """Return the first face that names no vertex, or the number of faces: all that the host reads of a mesh."""
    bad = new(faces.scope, wp.int32, 1)
    set_zero(bad)
    launch_unrecorded(faces.scope, find_bad_face, len(faces), faces, vertices, bad)
    return len(faces) - int(faces.scope.read(bad.region)[0])


class Levels:
    """The boxes of all nodes of a tree with so many leaves, and what the launches that join them are given."""

    def __init__(self, place: Any, leaves: int):
        self.place, self.boxes = place, new(place, Box, 2 * leaves)
        self.leaves = self.boxes[leaves:]
        self._joins = [(end - begin, self._part(end), begin, self.boxes[begin:end]) for begin, end in _launches(leaves)]

    def _part(self, begin: int) -> HostArray:
        return self.boxes[begin : 2 * begin]

    def join(self) -> None:
        """Write the boxes of the inner nodes."""
        for dim, *given in self._joins:
            launch_unrecorded(self.place, join_boxes, dim, *given)


def set_boxes(
    lowers: HostArray,
    uppers: HostArray,
    order: HostArray,
    first: HostArray,
    into: tuple[HostArray, HostArray],
    levels: Levels,
) -> None:
    """Write `boxes_in_jax` to the nodes and the grid."""
    place, (nodes, grid) = lowers.scope, into
    launch_unrecorded(place, bound_leaves, len(nodes), lowers, uppers, order, first, levels.leaves)
    levels.join()
    launch_unrecorded(place, write_nodes, len(nodes), levels.boxes, nodes, grid)
