"""Functions on arrays outside of JAX, by their names in Warp: `jaxwarp.utils.array_scan(values, sums)`."""

from jaxwarp.boundary import boundary
from jaxwarp.frontend.text.refused import missing
from jaxwarp.host.events import ScopedTimer
from jaxwarp.host.reducing import array_cast, array_inner, array_sum
from jaxwarp.host.sorting import array_scan, radix_sort_pairs, runlength_encode, segmented_sort_pairs

__all__ = [
    "ScopedTimer", "array_cast", "array_inner", "array_scan", "array_sum", "radix_sort_pairs", "runlength_encode",
    "segmented_sort_pairs",
]  # fmt: skip


@boundary
def __getattr__(name: str) -> object:
    return missing(name, __name__)
