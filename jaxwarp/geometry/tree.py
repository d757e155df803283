"""A complete binary tree over boxes, in heap order: node n has the children 2n and 2n + 1, so there are no links.

The depth follows from the number of items alone. Items are halved at medians, along the axis in which their centres
spread most; leaf k of 2**d has the places `first[k]` to `first[k + 1]` of `order`. A node holds the boxes of its two
children in 16 bits a plane, two planes to a word, rounded outwards, on a grid over all items.

Of items in groups, each group is all that is below one node: larger ones come first, on as many leaves as a tree of
their own has, so that none straddles.

On GPUs kernels do it (geometry/kernels), on CPUs native code (native/tree.h), with the same result to the bit. The
order of items in groups is found by operations of JAX, here.

Halving at medians: Wald and Havran 2006; boxes on a grid: Mahovsky 2005; no links, and so no stack: Afra and
Szirmay-Kalos 2014.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from jaxwarp.geometry.kernels.arrays import is_on_gpu, sent
from jaxwarp.geometry.kernels.boxes import boxes_in_jax
from jaxwarp.geometry.kernels.order import first_on, order_in_jax, order_on_gpu
from jaxwarp.geometry.operations import detached, is_on_host, like, operation
from jaxwarp.native import trees
from jaxwarp.types import int32

# Items, at most, on average. Beside half as many, closest points, winding numbers and refits take 0.65 to 0.85 of the
# time, rays and boxes 0.85 to 1; twice as many make rays slower by a tenth (Xeon, code for AVX2 and for AVX-512).
PER_LEAF = 4.4
WORDS = 8  # of a node; six of them are used
_NO_GROUP = 2**31 - 1


class Order(NamedTuple):
    """Items in the order of the leaves.

    Attributes:
        order: (n,) the items.
        first: (2**d + 1,) where those of each leaf start.
        groups: (n,) the groups in ascending order, then 2**31 - 1; None where there are none.
        roots: (n,) the node that each group is below, then -1; None where there are none.
    """

    order: Any
    first: Any
    groups: Any = None
    roots: Any = None


def depth_of(count: int) -> int:
    """The levels of inner nodes above the leaves, for a number of items."""
    return max(0, math.ceil(math.log2(count / PER_LEAF))) if count else 0


def grouped_depth_of(count: int) -> int:
    """The levels that suffice for any groups: a group has no more leaves than items."""
    return max(0, count - 1).bit_length()


def _sizes(count: int, level: int) -> np.ndarray:
    """Return how many items each node of a level has. Of an odd number, the left child gets one more."""
    sizes = np.array([count], np.int32)
    for _ in range(level):
        sizes = np.stack([(sizes + 1) // 2, sizes // 2], 1).reshape(-1)
    return sizes


@functools.lru_cache(maxsize=64)
def first_of(count: int) -> np.ndarray:
    """Return where the items of each leaf start in the order, and where those of the last one end, without groups."""
    first = np.concatenate([[0], np.cumsum(_sizes(count, depth_of(count)))]).astype(np.int32)
    first.setflags(write=False)
    return first.view()


def usable(lowers: Any, uppers: Any) -> Any:
    """Return which boxes are valid: their bounds are not NaN, infinite or the wrong way round."""
    return (jnp.isfinite(lowers) & jnp.isfinite(uppers) & (lowers <= uppers)).all(-1)


# The order


def _centres(lowers: Any, uppers: Any) -> Any:
    """(n, 3); infinite where there is no box, so that it comes last."""
    real = usable(lowers, uppers)[:, None]
    middle = jnp.where(real, lowers, 0.0) * np.float32(0.5) + jnp.where(real, uppers, 0.0) * np.float32(0.5)
    return jnp.where(real, middle + np.float32(0.0), np.float32(np.inf))  # + 0.0: there is one zero


class _Parts(NamedTuple):
    """The part that each place is in, while parts are halved."""

    order: Any  # the item that is there
    start: Any
    size: Any
    depth: Any  # levels that are left
    leaf: Any  # the first one


def _halved(centres: Any, parts: _Parts) -> _Parts:
    """One level: a sort of all items, by the part and then by its axis, equal ones by number."""
    count = len(centres)
    places = jnp.arange(count, dtype=jnp.int32)
    points = centres[parts.order]
    real = jnp.isfinite(points)
    low = jax.ops.segment_min(jnp.where(real, points, jnp.inf), parts.start, count, indices_are_sorted=True)
    high = jax.ops.segment_max(jnp.where(real, points, -jnp.inf), parts.start, count, indices_are_sorted=True)
    axis = jnp.argmax(high - low, 1)[parts.start]
    more = parts.depth > 0
    keys = jnp.where(more, jnp.take_along_axis(points, axis[:, None], axis=1)[:, 0], 0.0)
    _, _, _, order = jax.lax.sort((parts.start, keys, jnp.where(more, parts.order, places), parts.order), num_keys=3)
    left = (parts.size + 1) // 2
    is_left = places - parts.start < left
    half = jnp.where(more & ~is_left, jnp.left_shift(1, jnp.maximum(parts.depth - 1, 0)), 0)
    start = jnp.where(more & ~is_left, parts.start + left, parts.start)
    size = jnp.where(more, jnp.where(is_left, left, parts.size - left), parts.size)
    return _Parts(order, start, size, parts.depth - more.astype(jnp.int32), parts.leaf + half)


def ordered_by_jax(lowers: Any, uppers: Any) -> Any:
    """The items in the order of the leaves: (n,) of int32, for boxes (n, 3) of float32."""
    return order_in_jax(lowers, uppers, depth_of(len(lowers)))


def grouped_by_jax(lowers: Any, uppers: Any, groups: Any) -> Order:
    """`Order`, of items in groups, (n,) of int32."""
    count = len(lowers)
    places = jnp.arange(count, dtype=jnp.int32)
    groups, order = jax.lax.sort((groups, places), num_keys=1, is_stable=True)
    is_new = jnp.concatenate([jnp.ones(1, bool), groups[1:] != groups[:-1]])
    number = jnp.cumsum(is_new, dtype=jnp.int32) - 1
    size = jax.ops.segment_sum(jnp.ones_like(places), number, count, indices_are_sorted=True)[number]
    most = [math.floor(PER_LEAF * 2**level) for level in range(depth_of(count))]
    depth = (size[:, None] > np.array(most, np.int32)).sum(1, dtype=jnp.int32)
    _, order, groups, number, size, depth, is_new = jax.lax.sort(
        (-depth, order, groups, number, size, depth, is_new), num_keys=1, is_stable=True
    )
    start = jax.lax.cummax(jnp.where(is_new, places, 0))
    leaves = jnp.left_shift(1, depth)
    leaf = jnp.cumsum(jnp.where(is_new, leaves, 0), dtype=jnp.int32) - leaves
    levels = grouped_depth_of(count)
    names = jnp.full_like(groups, _NO_GROUP).at[number].set(groups)
    roots = jnp.full_like(groups, -1).at[number].set(jnp.right_shift(2**levels + leaf, depth))
    centres = _centres(lowers, uppers)
    parts = _Parts(order, start, size, depth, leaf)
    parts = jax.lax.fori_loop(0, depth_of(count), lambda _, p: _halved(centres, p), parts)
    bounds = jnp.arange(2**levels + 1, dtype=jnp.int32)
    first = jnp.searchsorted(parts.leaf, bounds, method="sort").astype(jnp.int32)
    return Order(parts.order, first, names, roots)


# Either


def _order_results(lowers: jax.core.ShapedArray, _uppers: object) -> Any:
    return [(lowers.shape[:-1], np.int32)]


def _grouped_results(_lowers: object, _uppers: object, groups: jax.core.ShapedArray) -> Any:
    *batch, count = groups.shape
    return [((*batch, n), np.int32) for n in (count, 2 ** grouped_depth_of(count) + 1, count, count)]


def _box_results(lowers: jax.core.ShapedArray, _uppers: object, _order: object, first: jax.core.ShapedArray) -> Any:
    batch = lowers.shape[:-2]
    return [((*batch, first.shape[-1] - 1, WORDS), np.uint32), ((*batch, 2, 3), np.float32)]


_order = operation(
    "jaxwarp_tree_order", _order_results, lambda *a: (jnp.vectorize(ordered_by_jax, signature="(n,k),(n,k)->(n)")(*a),)
)
_grouped = operation(
    "jaxwarp_tree_grouped", _grouped_results,
    jnp.vectorize(grouped_by_jax, signature="(n,k),(n,k),(n)->(n),(m),(n),(n)"),
)  # fmt: skip
_boxed = operation(
    "jaxwarp_tree_boxes", _box_results, jnp.vectorize(boxes_in_jax, signature="(n,k),(n,k),(n),(m)->(l,w),(p,k)")
)


def order_of(lowers: Any, uppers: Any, groups: Any = None) -> Order:
    """Items in the order of the leaves, for boxes (n, 3) and groups (n,). A search has no derivative."""
    if is_on_gpu(lowers):
        return _order_on_gpu(lowers, uppers, groups)
    lowers, uppers = detached(lowers), detached(uppers)
    count = len(lowers)
    operands = (lowers, uppers) if groups is None else (lowers, uppers, groups)
    if count == 0:
        none = like(lowers, np.zeros(0, np.int32))
        found = (none, first_of(0)) if groups is None else (none, first_of(0), none, none)
    elif is_on_host(*operands):
        found = trees.order_items(*(np.asarray(x) for x in operands))
    else:
        found = (_order if groups is None else _grouped)(*operands)
    return Order(*(like(lowers, x) for x in ((found[0], first_of(count)) if groups is None else found)))


def _order_on_gpu(lowers: Any, uppers: Any, groups: Any) -> Order:
    """The order of boxes that are on a GPU, outside of JAX. Of groups it is found on the host, over copies."""
    place, count = lowers.scope, len(lowers)
    if groups is None:
        depth = depth_of(count)
        return Order(order_on_gpu(lowers, uppers, depth), first_on(place, count, depth))
    found = order_of(lowers.numpy(), uppers.numpy(), groups)
    return Order(*(sent(place, int32, numbers) for numbers in found))


def boxes_of(lowers: Any, uppers: Any, order: Any, first: Any) -> tuple[Any, Any]:
    """Return what `boxes_in_jax` returns, without a derivative, computed on the host for arrays that are there."""
    lowers, uppers = detached(lowers), detached(uppers)
    if len(lowers) == 0:
        found = np.zeros((1, WORDS), np.uint32), np.array([[0, 0, 0], [1, 1, 1]], np.float32)
    elif is_on_host(lowers, uppers, order, first):
        found = trees.box_items(*(np.asarray(x) for x in (lowers, uppers, order, first)))
    else:
        return tuple(_boxed(lowers, uppers, order, first))
    return like(lowers, found[0]), like(lowers, found[1])
