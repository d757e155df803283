"""Functions on arrays outside of JAX, by their names in Warp: `jaxwarp.utils.array_scan(values, sums)`."""

from typing import TYPE_CHECKING

from jaxwarp.boundary import boundary, read_later
from jaxwarp.frontend.text.refused import missing
from jaxwarp.host.events import ScopedTimer

if TYPE_CHECKING:
    from jaxwarp.host.coloring import (
        GraphColoringAlgorithm,
        graph_coloring_assign,
        graph_coloring_balance,
        graph_coloring_get_groups,
    )
    from jaxwarp.host.functions import create_warp_function
    from jaxwarp.host.reducing import array_cast, array_inner, array_sum
    from jaxwarp.host.sorting import array_scan, radix_sort_pairs, runlength_encode, segmented_sort_pairs

__all__ = [
    "GraphColoringAlgorithm", "ScopedTimer", "array_cast", "array_inner", "array_scan", "array_sum",
    "create_warp_function", "graph_coloring_assign", "graph_coloring_balance", "graph_coloring_get_groups",
    "radix_sort_pairs", "runlength_encode", "segmented_sort_pairs",
]  # fmt: skip
# Modules that define kernels are imported when one of their names is used first.
_LATER = {
    "coloring": (
        *("GraphColoringAlgorithm", "graph_coloring_assign", "graph_coloring_balance", "graph_coloring_get_groups"),
    ),
    "functions": ("create_warp_function",),
    "reducing": ("array_cast", "array_inner", "array_sum"),
    "sorting": ("array_scan", "radix_sort_pairs", "runlength_encode", "segmented_sort_pairs"),
}
_MODULE_OF = {name: f"jaxwarp.host.{module}" for module, names in _LATER.items() for name in names}


@boundary
def __getattr__(name: str) -> object:
    return read_later(__name__, name, _MODULE_OF) if name in _MODULE_OF else missing(name, __name__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
