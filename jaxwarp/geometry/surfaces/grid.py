"""The cases of a grid's cells, and the points where the surface passes edges, for kernels."""

from __future__ import annotations

import jaxwarp as wp

Field = wp.array3d[float]


@wp.func
def node_at(field: Field, number: int) -> wp.vec3i:
    """The node with a number, in the order of the field's memory."""
    row = number // field.shape[2]
    return wp.vec3i(row // field.shape[1], row % field.shape[1], number % field.shape[2])


@wp.func
def crosses(a: float, b: float, threshold: float) -> bool:
    """Return whether the surface passes between two nodes. It does not pass beside a NaN."""
    return (a >= threshold and b < threshold) or (a < threshold and b >= threshold)


@wp.func
def slice_case(field: Field, i: int, j: int, k: int, threshold: float) -> int:
    """Return which of four nodes are above the threshold, as four bits; 256 if one is NaN."""
    a = field[i, j, k]
    b = field[i + 1, j, k]
    c = field[i + 1, j + 1, k]
    d = field[i, j + 1, k]
    found = (1 if a >= threshold else 0) + (2 if b >= threshold else 0)
    found += (4 if c >= threshold else 0) + (8 if d >= threshold else 0)
    below = (1 if a < threshold else 0) + (2 if b < threshold else 0)
    below += (4 if c < threshold else 0) + (8 if d < threshold else 0)
    return found if found + below == 15 else 256


@wp.func
def joined_case(low: int, high: int) -> int:
    """The case of a cell between two slices; that of no surface if a node is NaN."""
    return low + 16 * high if low < 256 and high < 256 else 0


@wp.func
def spacing(field: Field, lower: wp.vec3, upper: wp.vec3) -> wp.vec3:
    """Return how far nodes are from each other along each axis."""
    way = upper - lower
    return wp.vec3(
        way[0] / float(field.shape[0] - 1), way[1] / float(field.shape[1] - 1), way[2] / float(field.shape[2] - 1)
    )


@wp.func
def share(a: float, b: float, threshold: float) -> float:
    """Return how far from a to b a linear function reaches the threshold, from 0 to 1.

    If one of them is infinite, this is at the other.
    """
    t = (threshold - a) / (b - a)
    if wp.isinf(a) or wp.isinf(b):
        t = 0.5 + (0.5 if wp.isinf(a) else 0.0) - (0.5 if wp.isinf(b) else 0.0)
    # Where a node has the value itself, t is 0 or 1, with its slope: clamp has none there.
    return 0.0 if t < 0.0 else (1.0 if t > 1.0 else t)


@wp.func
def crossing(field: Field, threshold: float, i: int, j: int, k: int, axis: int) -> wp.vec3:
    """Return where the surface passes an edge, in steps from node to node."""
    x = i + (1 if axis == 0 else 0)
    y = j + (1 if axis == 1 else 0)
    z = k + (1 if axis == 2 else 0)
    t = share(field[i, j, k], field[x, y, z], threshold)
    return wp.vec3(float(i) + t * float(x - i), float(j) + t * float(y - j), float(k) + t * float(z - k))
