"""Colours of graphs: valid, few where that is known, and as many of each as asked for."""

import itertools

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.errors import ArrayError, KernelError, KernelTypeError, KernelValueError, OutOfRangeError
from jaxwarp.utils import (
    GraphColoringAlgorithm,
    graph_coloring_assign,
    graph_coloring_balance,
    graph_coloring_get_groups,
)

MCS, GREEDY = GraphColoringAlgorithm.MCS, GraphColoringAlgorithm.GREEDY


def graph(pairs, nodes):
    edges = np.array(pairs, np.int32).reshape(-1, 2)
    return wp.array(edges, dtype=int), wp.full(nodes, -7, dtype=int), edges


def is_valid(edges, colors) -> bool:
    colors = colors.numpy()
    return bool((colors[edges[:, 0]] != colors[edges[:, 1]]).all())


def lattice(n):
    i = np.arange(n * n).reshape(n, n)
    return np.concatenate([np.stack([a.ravel(), b.ravel()], 1) for a, b in ((i[:, 1:], i[:, :-1]), (i[1:], i[:-1]))])


def random_graph(seed, nodes=200, edges=900):
    pairs = np.random.default_rng(seed).integers(0, nodes, (edges, 2))
    return pairs[pairs[:, 0] != pairs[:, 1]]  # many edges come twice, or both ways


@pytest.mark.parametrize("algorithm", [MCS, GREEDY, 0, 1])
@pytest.mark.parametrize("seed", range(4))
def test_colours_are_valid_and_no_more_than_degrees_ask_for(seed, algorithm):
    edges, colors, pairs = graph(random_graph(seed), 200)
    count = graph_coloring_assign(edges, colors, algorithm)
    assert is_valid(pairs, colors)
    assert np.unique(colors.numpy()).tolist() == list(range(count))
    assert count <= np.bincount(np.unique(np.sort(pairs, 1), axis=0).ravel()).max() + 1


def interval_graph(seed):
    """Intervals that overlap: a chordal graph, whose fewest colours are the most that overlap somewhere."""
    start = np.random.default_rng(seed).uniform(0, 10, 60)
    end = start + 1.0
    pairs = [(i, j) for i, j in itertools.combinations(range(60), 2) if start[i] <= end[j] and start[j] <= end[i]]
    return pairs, max(int(((start <= x) & (end >= x)).sum()) for x in start)


@pytest.mark.parametrize("seed", range(5))
def test_maximum_cardinality_search_is_best_on_chordal_graphs(seed):
    pairs, fewest = interval_graph(seed)
    edges, colors, pairs = graph(pairs, 60)
    assert graph_coloring_assign(edges, colors) == fewest
    assert is_valid(pairs, colors)


def test_graphs_whose_colours_are_known():
    for algorithm in (MCS, GREEDY):
        for pairs, nodes, fewest in (
            ([(0, 1), (1, 2), (2, 0)], 3, 3),
            ([(0, 1), (1, 2), (2, 3), (3, 0)], 4, 2),
            (list(itertools.combinations(range(7), 2)), 7, 7),
            ([], 5, 1),
        ):
            edges, colors, _ = graph(pairs, nodes)
            assert graph_coloring_assign(edges, colors, algorithm) == fewest
    edges, colors, pairs = graph(lattice(30), 900)
    assert graph_coloring_assign(edges, colors, MCS) == 2
    assert is_valid(pairs, colors)


@pytest.mark.parametrize("seed", range(4))
def test_colours_are_balanced_and_stay_valid(seed):
    edges, colors, pairs = graph(random_graph(seed, 400, 800), 400)
    count = graph_coloring_assign(edges, colors)
    before = np.bincount(colors.numpy())
    ratio = graph_coloring_balance(edges, colors, count, 1.25)
    after = np.bincount(colors.numpy())
    assert is_valid(pairs, colors)
    assert ratio == after.max() / after.min() <= 1.25 < before.max() / before.min()
    kept = colors.numpy().copy()
    assert graph_coloring_balance(edges, colors, count, 1.25) == ratio
    np.testing.assert_array_equal(colors.numpy(), kept)


def test_balancing_ends_where_no_node_can_go():
    """A star: its hub alone has its colour, whatever is asked for."""
    edges, colors, pairs = graph([(0, i) for i in range(1, 9)], 9)
    count = graph_coloring_assign(edges, colors)
    assert graph_coloring_balance(edges, colors, count, 1.0) == 8.0
    # With a third colour half of the leaves have it.
    assert graph_coloring_balance(edges, colors, 3, 1.0) == 4.0
    assert np.bincount(colors.numpy()).tolist() == [1, 4, 4]
    assert is_valid(pairs, colors)


def test_a_limit_of_changes():
    edges, colors, _ = graph([], 6)
    colors.assign([0, 0, 0, 0, 0, 1])
    with pytest.warns(UserWarning, match=r"given 1 nodes another colour.*the ratio is 2, not 1") as caught:
        assert graph_coloring_balance(edges, colors, 2, 1.0, max_iterations=1) == 2.0
    assert caught[0].filename == __file__
    assert sorted(colors.list()) == [0, 0, 0, 0, 1, 1]
    assert graph_coloring_balance(edges, colors, 2, 1.0, max_iterations=1) == 1.0
    with pytest.warns(UserWarning, match="the ratio is inf"):
        assert graph_coloring_balance(edges, colors, 3, 3.0, max_iterations=0) == float("inf")


def test_groups_are_the_nodes_of_each_colour():
    colors = wp.array([2, 0, 2, 0, 3], dtype=int)
    groups = graph_coloring_get_groups(colors, 4)
    assert [g.list() for g in groups] == [[1, 3], [], [0, 2], [4]]
    assert all(g.dtype == wp.int32 for g in groups)
    of_numpy = graph_coloring_get_groups(colors, 5, return_wp_array=False)
    assert [g.tolist() for g in of_numpy] == [[1, 3], [], [0, 2], [4], []]
    assert graph_coloring_get_groups(wp.zeros(0, dtype=int), 0) == ()


def test_parts_of_arrays():
    storage = wp.zeros((3, 4), dtype=int)
    storage.assign([[0, 9, 1, 9], [1, 9, 2, 9], [0, 9, 2, 9]])
    colors = wp.full(6, -1, dtype=int)
    assert graph_coloring_assign(storage[:, ::2], colors[1::2]) == 3
    assert sorted(colors.list()) == [-1, -1, -1, 0, 1, 2]


EDGE = wp.array([[0, 1]], dtype=int)
REFUSED = {
    "edge 0 is (0, 2), nodes are 0 to 1": lambda: graph_coloring_assign(
        wp.array([[0, 2]], dtype=int), wp.zeros(2, dtype=int)
    ),
    "edge 0 is (-1, 0)": lambda: graph_coloring_balance(wp.array([[-1, 0]], dtype=int), wp.zeros(2, dtype=int), 2, 1.1),
    "edge 1 joins node 1 with itself": lambda: graph_coloring_assign(
        wp.array([[0, 1], [1, 1]], dtype=int), wp.zeros(2, dtype=int)
    ),
    "edges: expected the shape (m, 2), got (2,)": lambda: graph_coloring_assign(
        wp.zeros(2, dtype=int), wp.zeros(2, dtype=int)
    ),
    "edges: expected int32, got float32": lambda: graph_coloring_assign(
        wp.zeros((1, 2), dtype=float), wp.zeros(2, dtype=int)
    ),
    "node_colors: expected one axis": lambda: graph_coloring_assign(EDGE, wp.zeros((2, 2), dtype=int)),
    "a graph without nodes": lambda: graph_coloring_assign(wp.zeros((0, 2), dtype=int), wp.zeros(0, dtype=int)),
    "algorithm must be": lambda: graph_coloring_assign(EDGE, wp.zeros(2, dtype=int), 99),
    "edges: expected an array outside of JAX": lambda: graph_coloring_assign([[0, 1]], wp.zeros(2, dtype=int)),
    "the nodes of edge 0, 0 and 1, have one colour, 0": lambda: graph_coloring_balance(
        EDGE, wp.zeros(2, dtype=int), 2, 1.1
    ),
    "node 1 has the colour 1, color_count is 1": lambda: graph_coloring_balance(
        EDGE, wp.array([0, 1], dtype=int), 1, 1.1
    ),
    "max_iterations must be non-negative": lambda: graph_coloring_balance(
        EDGE, wp.array([0, 1], dtype=int), 2, 1.1, max_iterations=-1
    ),
    "max_iterations must be less than 2^31": lambda: graph_coloring_balance(
        EDGE, wp.array([0, 1], dtype=int), 2, 1.1, max_iterations=2**31
    ),
    "max_iterations must be an integer": lambda: graph_coloring_balance(
        EDGE, wp.array([0, 1], dtype=int), 2, 1.1, max_iterations=True
    ),
    "target_max_min_ratio must be a number": lambda: graph_coloring_balance(
        EDGE,
        wp.array([0, 1], dtype=int),
        2,
        "1.1",  # pyright: ignore[reportArgumentType]
    ),
    "node 0 has the colour 4, color_count is 3": lambda: graph_coloring_get_groups(wp.full(2, 4, dtype=int), 3),
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text):
    with pytest.raises(KernelError) as caught:
        REFUSED[text]()
    assert text in caught.value.message
    assert isinstance(caught.value, (ArrayError, KernelTypeError, KernelValueError, OutOfRangeError))
