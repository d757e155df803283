"""A complete binary tree over boxes, in heap order: node n has the children 2n and 2n + 1, so there are no links.

The depth follows from the number of items alone. Items are halved at medians, along the axis in which their centres
spread most; leaf k of 2**d has the places `first[k]` to `first[k + 1]` of `order`. A node holds the boxes of its two
children in 16 bits a plane, two planes to a word, rounded outwards, on a grid over all items.

What is on the host is sorted by NumPy, what JAX traces by JAX, with the same result. Halving at medians: Wald and
Havran 2006; boxes on a grid: Mahovsky 2005; no links, and so no stack: Afra and Szirmay-Kalos 2014.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy

PER_LEAF = 2.2  # items, at most, on average
WORDS = 8  # of a node; six of them are used
_LAST = 65535


def depth_of(count: int) -> int:
    """The levels of inner nodes above the leaves, for a number of items."""
    return max(0, math.ceil(math.log2(count / PER_LEAF))) if count else 0


def _sizes(count: int, level: int) -> numpy.ndarray:
    """How many items the nodes of a level have: of an odd number, the left child gets one more."""
    sizes = numpy.array([count], numpy.int32)
    for _ in range(level):
        sizes = numpy.stack([(sizes + 1) // 2, sizes // 2], 1).reshape(-1)
    return sizes


@functools.lru_cache(maxsize=64)
def first_of(count: int) -> numpy.ndarray:
    """Where the items of each leaf start in the order, and where those of the last one end."""
    first = numpy.concatenate([[0], numpy.cumsum(_sizes(count, depth_of(count)))]).astype(numpy.int32)
    first.setflags(write=False)
    return first


def usable(lowers: Any, uppers: Any, np: Any = numpy) -> Any:
    """Which boxes are some: bounds that are NaN, infinite or the wrong way round are those of none."""
    return (np.isfinite(lowers) & np.isfinite(uppers) & (lowers <= uppers)).all(-1)


def _centres(lowers: Any, uppers: Any, np: Any) -> Any:
    """(n, 3); infinite where there is no box, so that it comes last."""
    real = usable(lowers, uppers, np)[:, None]
    middle = np.where(real, lowers, 0.0) * np.float32(0.5) + np.where(real, uppers, 0.0) * np.float32(0.5)
    return np.where(real, middle + np.float32(0.0), np.float32(np.inf))  # + 0.0: there is one zero


# The order


def ordered_by_numpy(lowers: numpy.ndarray, uppers: numpy.ndarray) -> numpy.ndarray:
    """The items in the order of the leaves: (n,) of int32, for boxes (n, 3) of float32."""
    count = len(lowers)
    depth = depth_of(count)
    none = numpy.full((1, 3), numpy.inf, numpy.float32)
    centres = numpy.concatenate([_centres(lowers, uppers, numpy), none])
    width = max(1, math.ceil(count / 2**depth)) << depth
    rows = numpy.full((1, width), count, numpy.int32)
    rows[0, :count] = numpy.arange(count)
    for level in range(depth):
        rows = _halved(_sorted(centres, rows), _sizes(count, level)[:, None], count)
    return rows[rows < count]


def _sorted(centres: numpy.ndarray, rows: numpy.ndarray) -> numpy.ndarray:
    """Each row in the order of the axis in which it is longest; of equal ones, as they were."""
    points = centres[rows]
    real = numpy.isfinite(points)
    spread = points.max(1, where=real, initial=-numpy.inf) - points.min(1, where=real, initial=numpy.inf)
    keys = numpy.take_along_axis(points, spread.argmax(1)[:, None, None], axis=2)[..., 0]
    bits = keys.view(numpy.uint32)
    bits = numpy.where(bits >> 31, ~bits, bits | numpy.uint32(1 << 31)).astype(numpy.uint64)
    numbered = (bits << numpy.uint64(32)) | numpy.arange(rows.shape[1], dtype=numpy.uint64)
    numbered.sort(axis=1)
    return numpy.take_along_axis(rows, (numbered & numpy.uint64(0xFFFFFFFF)).astype(numpy.int64), axis=1)


def _halved(rows: numpy.ndarray, sizes: numpy.ndarray, count: int) -> numpy.ndarray:
    """Two rows for each, whose items are first in them."""
    half = rows.shape[1] // 2
    places = numpy.arange(half)
    left, right = (sizes + 1) // 2, sizes // 2
    one = numpy.where(places < left, rows[:, :half], count)
    taken = numpy.take_along_axis(rows, numpy.minimum(places + left, rows.shape[1] - 1), axis=1)
    return numpy.stack([one, numpy.where(places < right, taken, count)], 1).reshape(-1, half)


@jax.jit
def ordered_by_jax(lowers: Any, uppers: Any) -> Any:
    """`ordered_by_numpy` inside of a program: one sort a level, of all items, by the part and then by the axis."""
    count = len(lowers)
    centres = _centres(lowers, uppers, jnp)
    places = jnp.arange(count, dtype=jnp.int32)

    def halve(_: Any, state: Any) -> Any:
        order, start, size = state
        points = centres[order]
        real = jnp.isfinite(points)
        low = jax.ops.segment_min(jnp.where(real, points, jnp.inf), start, count, indices_are_sorted=True)
        high = jax.ops.segment_max(jnp.where(real, points, -jnp.inf), start, count, indices_are_sorted=True)
        axis = jnp.argmax(high - low, 1)[start]
        keys = jnp.take_along_axis(points, axis[:, None], axis=1)[:, 0]
        _, _, order = jax.lax.sort((start, keys, order), num_keys=2)
        left = (size + 1) // 2
        is_left = places - start < left
        return order, jnp.where(is_left, start, start + left), jnp.where(is_left, left, size - left)

    state = (places, jnp.zeros_like(places), jnp.full_like(places, count))
    return jax.lax.fori_loop(0, depth_of(count), halve, state)[0] if count else places


# Boxes


def boxed(lowers: Any, uppers: Any, order: Any, np: Any = numpy) -> tuple[Any, Any, Any]:
    """The nodes of a tree, for an order of the leaves: what is made anew when items move.

    Args:
        lowers, uppers: (n, 3), float32.
        order: (n,), int32.
        np: numpy, or jax.numpy.

    Returns:
        The nodes, (2**d, 8) of uint32, of which node 0 is unused; the origin and the steps of the grid, (3,) each.
    """
    count = len(lowers)
    if count == 0:
        return np.zeros((1, WORDS), np.uint32), np.zeros(3, np.float32), np.ones(3, np.float32)
    depth, first = depth_of(count), first_of(count)
    real = usable(lowers, uppers, np)[:, None]
    places = first[:-1, None] + numpy.arange(math.ceil(count / 2**depth))
    inside = (places < first[1:, None])[..., None]
    items = order[numpy.minimum(places, count - 1)]
    low = np.where(inside, np.where(real, lowers, np.float32(np.inf))[items], np.float32(np.inf)).min(1)
    high = np.where(inside, np.where(real, uppers, np.float32(-np.inf))[items], np.float32(-np.inf)).max(1)
    lows, highs = [low], [high]
    for _ in range(depth):
        lows.append(lows[-1].reshape(-1, 2, 3).min(1))
        highs.append(highs[-1].reshape(-1, 2, 3).max(1))
    origin, step = _grid(lows[-1][0], highs[-1][0], np)
    if depth == 0:
        return np.zeros((1, WORDS), np.uint32), origin, step
    words = _words(np.concatenate(lows[-2::-1]), np.concatenate(highs[-2::-1]), origin, step, np).reshape(-1, 6)
    return np.concatenate([np.zeros((1, 6), np.uint32), words])[:, [0, 1, 2, 3, 4, 5, 0, 0]], origin, step


def _grid(low: Any, high: Any, np: Any) -> tuple[Any, Any]:
    """Origin and steps of a grid of 65,536 planes an axis, that starts and ends outside of the box."""
    some = low <= high
    low, high = np.where(some, low, np.float32(0.0)), np.where(some, high, np.float32(0.0))
    extent = high - low
    # Of a flat scene, the grid has some height: no step is zero, or far less than the coordinates' own spacing.
    least = np.maximum(extent.max() * np.float32(1e-5), np.maximum(abs(low), abs(high)).max() * np.float32(1e-6))
    step = np.maximum(np.maximum(extent, least), np.float32(1e-30)) * np.float32(1.0 / 65528.0)
    return low - step - step, step


def _words(low: Any, high: Any, origin: Any, step: Any, np: Any) -> Any:
    """Boxes on the grid. A box of nothing is the last plane's corner, where nothing is."""
    some = low <= high
    below = np.floor((np.where(some, low, origin) - origin) / step) - 1
    above = np.ceil((np.where(some, high, origin) - origin) / step) + 1
    below = np.where(some, np.clip(below, 0, _LAST), _LAST).astype(np.uint32)
    above = np.where(some, np.clip(above, 0, _LAST), _LAST).astype(np.uint32)
    return below | (above << np.uint32(16))


_boxed_by_jax = jax.jit(lambda lowers, uppers, order: boxed(lowers, uppers, order, jnp))


# Either


def is_on_host(*values: Any) -> bool:
    """Whether NumPy can read all of these as they are: nothing that is traced, or in the memory of a GPU."""
    return all(isinstance(v, numpy.ndarray) or _is_on_cpu(v) for v in values)


def _is_on_cpu(value: Any) -> bool:
    if isinstance(value, jax.core.Tracer) or not isinstance(value, jax.Array):
        return False
    return value.is_fully_addressable and all(device.platform == "cpu" for device in value.devices())


def order_of(lowers: Any, uppers: Any) -> Any:
    """The items in the order of the leaves: (n,) of int32, for boxes (n, 3). A search has no derivative."""
    lowers, uppers = detached(lowers), detached(uppers)
    if is_on_host(lowers, uppers):
        return like(lowers, ordered_by_numpy(numpy.asarray(lowers), numpy.asarray(uppers)))
    return ordered_by_jax(lowers, uppers)


def boxes_of(lowers: Any, uppers: Any, order: Any) -> tuple[Any, Any, Any]:
    """As `boxed`."""
    lowers, uppers = detached(lowers), detached(uppers)
    if not is_on_host(lowers, uppers, order):
        return _boxed_by_jax(lowers, uppers, order)
    nodes, origin, step = boxed(numpy.asarray(lowers), numpy.asarray(uppers), numpy.asarray(order))
    return like(lowers, nodes), like(lowers, origin), like(lowers, step)


def like(given: Any, made: Any) -> Any:
    """An array of NumPy as one of JAX, if `given` is one."""
    return jnp.asarray(made) if isinstance(given, jax.Array) else made


def detached(value: Any) -> Any:
    """The value without a derivative."""
    return jax.lax.stop_gradient(value) if isinstance(value, jax.Array) else value
