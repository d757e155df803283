"""The walk of a tree in heap order without a stack: one bit a level says whether a sibling is still to be visited.

Node n has the children 2n and 2n + 1, node 1 is the root. `trail` has the bit of the node's own level lowest. Laine
2010; Afra and Szirmay-Kalos 2014.
"""

from __future__ import annotations

from typing import Any

import jaxwarp as wp

Node = wp.types.vector(length=8, dtype=wp.uint32)


@wp.func
def trailing_zeros(x: int) -> int:
    """Zero bits below the lowest one of x, which is not 0: the exponent of a float has them."""
    return (wp.cast(float(x & (0 - x)), int) >> 23) - 127


@wp.func
def bvh_ascend(node: int, trail: int) -> Any:
    """Return where a walk goes on after a node: `node, trail`. Node 0 means that all nodes have been visited."""
    level = trailing_zeros(trail)
    return (node >> level) ^ 1 if trail != 0 else 0, (trail >> level) - 1 if trail != 0 else 0


@wp.func
def bvh_descend(node: int, trail: int, near0: float, near1: float, limit: float) -> Any:
    """Return where a walk goes on from an inner node: `node, trail`.

    The walk goes to the nearer child, and remembers the other one. It skips a child that is not nearer than `limit`.
    If it skips both, it goes on as `bvh_ascend` does.

    Args:
        node: an inner node.
        trail: 0 at the root.
        near0: the distance of child `2 * node`; near1: that of child `2 * node + 1`.
        limit: the distance of the best item found so far.
    """
    is_any = wp.min(near0, near1) < limit
    is_both = wp.max(near0, near1) < limit
    level = trailing_zeros(trail)
    up = (node >> level) ^ 1 if trail != 0 else 0
    up_trail = (trail >> level) - 1 if trail != 0 else 0
    down = 2 * node + (1 if near1 < near0 else 0)
    return down if is_any else up, trail * 2 + (1 if is_both else 0) if is_any else up_trail


@wp.func
def low_plane(word: wp.uint32) -> float:
    return float(int(word & wp.uint32(65535)))


@wp.func
def high_plane(word: wp.uint32) -> float:
    return float(int(word >> wp.uint32(16)))


@wp.func
def root_node(root: int, leaves: int, is_query: bool) -> int:
    """Return the node where a walk starts: `root`, or 1 if that is negative.

    Return 0, which is the end, if there is no such node, or if the query is invalid: NaN compares with no box.
    """
    node = root if root < 2 * leaves else 0
    node = node if root >= 0 else 1
    return node if is_query else 0


@wp.func
def next_node(node: int) -> int:
    """The node that follows in preorder when those below are passed over: 0 after the last one, of all from node 1."""
    after = (node >> trailing_zeros(0 - node - 1)) + 1
    return after if after != 1 else 0
