"""Functions on arrays outside of JAX, by their names in Warp: `jaxwarp.utils.array_scan(values, sums)`."""

from jaxwarp.boundary import boundary
from jaxwarp.frontend.text.refused import missing
from jaxwarp.host.coloring import (
    GraphColoringAlgorithm,
    graph_coloring_assign,
    graph_coloring_balance,
    graph_coloring_get_groups,
)
from jaxwarp.host.events import ScopedTimer
from jaxwarp.host.reducing import array_cast, array_inner, array_sum
from jaxwarp.host.sorting import array_scan, radix_sort_pairs, runlength_encode, segmented_sort_pairs

__all__ = [
    "GraphColoringAlgorithm", "ScopedTimer", "array_cast", "array_inner", "array_scan", "array_sum",
    "graph_coloring_assign", "graph_coloring_balance", "graph_coloring_get_groups", "radix_sort_pairs",
    "runlength_encode", "segmented_sort_pairs",
]  # fmt: skip


@boundary
def __getattr__(name: str) -> object:
    return missing(name, __name__)
