"""Colours of the nodes of graphs, such that no edge joins two of one colour: outside of JAX, by kernels of one thread.

What happens to nodes of one colour may happen at once: a launch for each colour is a Gauss-Seidel sweep.
"""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.launch import launch
from jaxwarp.boundary import boundary, warn
from jaxwarp.decorators import kernel
from jaxwarp.errors import ArrayError, KernelTypeError, KernelValueError, OutOfRangeError
from jaxwarp.frontend.text.annotations import array
from jaxwarp.host.checks import require_array, require_count, short
from jaxwarp.memory.host_scope import require_settled
from jaxwarp.memory.scope import view_of
from jaxwarp.types import float64, int32

Row = array[int]


class GraphColoringAlgorithm(enum.IntEnum):
    """The order in which nodes get the lowest colour that no neighbour has.

    MCS (maximum cardinality search): the next node is always one that has the most neighbours among those before it.
    Chordal graphs then get as few colours as possible. GREEDY: nodes with the most edges come first.
    """

    MCS = 0
    GREEDY = 1


@boundary
def graph_coloring_assign(
    edges: Any, node_colors: Any, algorithm: GraphColoringAlgorithm | int = GraphColoringAlgorithm.MCS
) -> int:
    """Gives each node of a graph a colour, such that no edge joins two of one colour.

    Args:
        edges: int32, (m, 2): the two nodes that each edge joins, in any order, also several times.
        node_colors: int32, (n,): the colours of nodes 0 to n - 1 go there.
        algorithm: the order in which nodes get the lowest colour that is left to them.

    Returns:
        How many colours there are: they are 0 to this number.

    Raises:
        KernelTypeError, ArrayError: no such arrays, or not on the CPU; there are no nodes.
        OutOfRangeError: an edge names a node that is not there.
        KernelValueError: an edge joins a node with itself, or there is no such algorithm.
    """
    what = "graph_coloring_assign"
    pairs, colors = _graph(what, edges, node_colors)
    if not isinstance(algorithm, int) or isinstance(algorithm, bool) or algorithm not in tuple(GraphColoringAlgorithm):
        raise KernelValueError(
            f"{what}: algorithm must be a GraphColoringAlgorithm, got {algorithm!r}",
            hint="write utils.GraphColoringAlgorithm.MCS or GREEDY",
        )
    starts, neighbors = _adjacency(pairs, colors.size)
    degrees = np.diff(starts)
    order = np.argsort(-degrees, kind="stable").astype(np.int32)
    if algorithm == GraphColoringAlgorithm.MCS:
        links = [np.full(n, -1, np.int32) for n in (degrees.max() + 1, colors.size, colors.size)]
        launch(_search, 1, [starts, neighbors, np.zeros(colors.size, np.int32), *links, order])
    found = np.full(colors.size, -1, np.int32)
    launch(_color, 1, [starts, neighbors, order, np.zeros(degrees.max() + 2, np.int32), found])
    view_of(colors.region)[...] = found
    return int(found.max()) + 1


@boundary
def graph_coloring_balance(
    edges: Any, node_colors: Any, color_count: int, target_max_min_ratio: float, *, max_iterations: int | None = None
) -> float:
    """Gives nodes other colours, such that there are about as many of each; edges still join different ones.

    A node goes from a colour to the rarest that is left to it, if that has two nodes less at least, until the most
    common colour has at most `target_max_min_ratio` times the nodes of the rarest, or no node can go.

    Args:
        edges: as in `graph_coloring_assign`.
        node_colors: the colours, in place.
        color_count: how many colours there are.
        target_max_min_ratio: what is enough.
        max_iterations: how often nodes get another colour at most; None: as often as there are nodes. There is a
            warning if that was not enough.

    Returns:
        How many times the nodes of the rarest colour the most common one has; infinite if a colour has none.

    Raises:
        KernelTypeError, ArrayError, OutOfRangeError, KernelValueError: as `graph_coloring_assign`; a colour is not one
            of `color_count`, an edge joins nodes of one colour, or numbers are none.
    """
    what = "graph_coloring_balance"
    pairs, colors = _graph(what, edges, node_colors)
    count = require_count(what, "color_count", color_count)
    limit = colors.size if max_iterations is None else require_count(what, "max_iterations", max_iterations)
    if limit >= 2**31:
        raise KernelValueError(f"{what}: max_iterations must be less than 2^31, got {limit}")
    if isinstance(target_max_min_ratio, bool) or not isinstance(target_max_min_ratio, (int, float, np.number)):
        raise KernelTypeError(f"{what}: target_max_min_ratio must be a number, got {target_max_min_ratio!r}")
    found = view_of(colors.region).copy()
    _require_colors(what, found, count)
    same = np.flatnonzero(found[pairs[:, 0]] == found[pairs[:, 1]])
    if same.size:
        first, second = pairs[same[0]].tolist()
        raise KernelValueError(
            f"{what}: node_colors: the nodes of edge {same[0]}, {first} and {second}, have one colour, {found[first]}",
            hint="graph_coloring_assign(edges, node_colors) makes colours",
        )
    sizes, reached = np.bincount(found, minlength=count).astype(np.int32), np.zeros(1, np.int32)
    given = [*_adjacency(pairs, colors.size), float(target_max_min_ratio), limit]
    launch(_balance, 1, [*given, np.zeros(count, np.int32), sizes, found, reached])
    view_of(colors.region)[...] = found
    ratio = float(sizes.max() / sizes.min()) if sizes.min() else float("inf")
    if reached[0]:
        warn(
            f"{what} has given {limit} nodes another colour, as max_iterations allows: the ratio is {ratio:g}, "
            f"not {float(target_max_min_ratio):g}"
        )
    return ratio


@boundary
def graph_coloring_get_groups(
    node_colors: Any, color_count: int, return_wp_array: bool = True, device: Any = "cpu"
) -> tuple[Any, ...]:
    """The nodes of each colour, in order.

    Args:
        node_colors: as `graph_coloring_assign` makes them.
        color_count: how many colours there are.
        return_wp_array: whether arrays are those of jaxwarp, or NumPy's.
        device: where arrays of jaxwarp are.

    Returns:
        An array of int32 for each colour.

    Raises:
        KernelTypeError, ArrayError, OutOfRangeError, KernelValueError: no such array, or a colour is not one of
            `color_count`.
    """
    what = "graph_coloring_get_groups"
    colors = _colors(what, node_colors)
    count = require_count(what, "color_count", color_count)
    values = view_of(colors.region)
    _require_colors(what, values, count)
    nodes = np.argsort(values, kind="stable").astype(np.int32)
    groups = np.split(nodes, np.cumsum(np.bincount(values, minlength=count))[:-1])[:count]
    return tuple(array(g, dtype=int32, device=device) if return_wp_array else g for g in groups)


def _graph(what: str, edges: Any, node_colors: Any) -> tuple[np.ndarray, HostArray]:
    """The edges, and the array of colours."""
    given, colors = require_array(what, "edges", edges), _colors(what, node_colors, is_written=True)
    _require_int32(what, "edges", given)
    if given.ndim != 2 or given.shape[1] != 2:
        raise ArrayError(f"{what}: edges: expected the shape (m, 2), got {given.shape}")
    if max(colors.size, 2 * given.shape[0]) >= 2**31:
        raise ArrayError(f"{what}: {colors.size} nodes and {given.shape[0]} edges are more than int32 counts both ways")
    if colors.size == 0:
        raise ArrayError(f"{what}: node_colors: a graph without nodes has no colours")
    pairs = view_of(given.region)
    outside = np.flatnonzero(((pairs < 0) | (pairs >= colors.size)).any(1))
    if outside.size:
        at = int(outside[0])
        raise OutOfRangeError(
            f"{what}: edges: edge {at} is {tuple(pairs[at].tolist())}, nodes are 0 to {colors.size - 1}"
        )
    loops = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if loops.size:
        at = int(loops[0])
        raise KernelValueError(
            f"{what}: edges: edge {at} joins node {pairs[at, 0]} with itself: no colour is left to it"
        )
    return pairs, colors


def _colors(what: str, value: Any, is_written: bool = False) -> HostArray:
    found = require_array(what, "node_colors", value, is_written)
    _require_int32(what, "node_colors", found)
    if found.ndim != 1:
        raise ArrayError(f"{what}: node_colors: expected one axis, got the shape {found.shape}")
    return found


def _require_int32(what: str, name: str, given: HostArray) -> None:
    require_settled(what)
    if given.dtype != int32:
        raise ArrayError(f"{what}: {name}: expected int32, got {short(given.dtype)}")
    if not given.device.is_cpu:
        raise ArrayError(f"{what}: {name}: expected an array on the CPU, got one on {given.device}")


def _require_colors(what: str, colors: np.ndarray, count: int) -> None:
    outside = np.flatnonzero((colors < 0) | (colors >= count))
    if outside.size:
        at = int(outside[0])
        raise OutOfRangeError(
            f"{what}: node_colors: node {at} has the colour {colors[at]}, color_count is {count}",
            hint="pass the number that graph_coloring_assign returned",
        )


def _adjacency(pairs: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return where the neighbours of each node start in the array of all neighbours, and that array."""
    first, second = pairs.astype(np.int64).T
    keys = np.concatenate([first * count + second, second * count + first])
    keys.sort()
    nodes, neighbors = np.divmod(keys[np.diff(keys, prepend=-1) > 0], count)
    starts = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(nodes, minlength=count), out=starts[1:])
    return starts, neighbors.astype(np.int32)


# `first[w]` is one of the nodes that w nodes before adjoin (`weight`), `after` and `before` are its list.
@kernel
def _search(starts: Row, neighbors: Row, weight: Row, first: Row, after: Row, before: Row, order: Row):
    most = 0
    count = order.shape[0]
    for k in range(count):
        after[k] = k + 1 if k + 1 < count else -1
        before[k] = k - 1
    first[0] = 0
    for k in range(count):
        while first[most] < 0:
            most -= 1
        node = first[most]
        order[k] = node
        first[most] = after[node]
        if after[node] >= 0:
            before[after[node]] = -1
        weight[node] = -1
        for e in range(starts[node], starts[node + 1]):
            other = neighbors[e]
            w = weight[other]
            if w >= 0:
                if before[other] >= 0:
                    after[before[other]] = after[other]
                else:
                    first[w] = after[other]
                if after[other] >= 0:
                    before[after[other]] = before[other]
                after[other] = first[w + 1]
                before[other] = -1
                if first[w + 1] >= 0:
                    before[first[w + 1]] = other
                first[w + 1] = other
                weight[other] = w + 1
                most = max(most, w + 1)


# A colour c is taken where `taken[c]` is k + 1.
@kernel
def _color(starts: Row, neighbors: Row, order: Row, taken: Row, colors: Row):
    for k in range(order.shape[0]):
        node = order[k]
        for e in range(starts[node], starts[node + 1]):
            if colors[neighbors[e]] >= 0:
                taken[colors[neighbors[e]]] = k + 1
        color = 0
        while taken[color] == k + 1:
            color += 1
        colors[node] = color


# Each move makes the sum of the squares of `sizes` less: it ends.
@kernel
def _balance(
    starts: Row,
    neighbors: Row,
    target: float64,
    limit: int,
    taken: Row,
    sizes: Row,
    colors: Row,
    reached: Row,
):
    moves, has_moved = 0, True
    while has_moved:
        has_moved = False
        for node in range(colors.shape[0]):
            least, most = sizes[0], sizes[0]
            for c in range(sizes.shape[0]):
                least, most = min(least, sizes[c]), max(most, sizes[c])
            if float64(most) <= target * float64(least):
                return
            own = colors[node]
            for e in range(starts[node], starts[node + 1]):
                taken[colors[neighbors[e]]] = 1
            chosen = own
            for c in range(sizes.shape[0]):
                if taken[c] == 0 and sizes[c] + 2 <= sizes[own] and sizes[c] < sizes[chosen]:
                    chosen = c
            for e in range(starts[node], starts[node + 1]):
                taken[colors[neighbors[e]]] = 0
            if chosen != own:
                if moves == limit:
                    reached[0] = 1
                    return
                moves += 1
                has_moved = True
                sizes[own] -= 1
                sizes[chosen] += 1
                colors[node] = chosen
