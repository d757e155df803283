"""Parameters that are given the same array become one: what is written to it by one name is read by the other.

store @y[%i], %a                store @x[%i], %a
%b = load @x[%i]        ->      %b = load @x[%i]
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from jaxwarp.analysis.effects import analyze
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.rewrite import Rewriter


def same_memory(kernel: Kernel, places: Sequence[Hashable | None]) -> dict[int, int]:
    """Return the parameters that others stand for, by their numbers: in each place, the one that is written, if any.

    Args:
        places: where each parameter is; None: nobody else is there.
    """
    params, effects = kernel.params, analyze(kernel)
    groups: dict[Hashable, list[int]] = {}
    for i, place in enumerate(places):
        if place is not None:
            groups.setdefault((place, params[i].dtype, params[i].shape), []).append(i)
    same: dict[int, int] = {}
    for group in groups.values():
        written = next((i for i in group if effects[params[i]].modifies), None)
        if written is not None:
            same |= {i: written for i in group if i != written}
    return same


def with_one_for(kernel: Kernel, same: Mapping[int, int]) -> Kernel:
    """The kernel in which `same[i]` is used wherever i was. Parameter i is still there, and untouched."""
    if not same:
        return kernel
    rewriter = Rewriter()
    rewriter.params = {kernel.params[i]: kernel.params[first] for i, first in same.items()}
    body = rewriter.block(kernel.body)
    return Kernel(kernel.name, kernel.grid_rank, kernel.params, body, kernel.locals, kernel.sizes)
