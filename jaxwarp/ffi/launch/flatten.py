"""A launch over short rows as one over their elements, on the CPU: see passes/flatten.py."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from jax import lax

from jaxwarp.ffi.launch.spec import IN_OUT, Launch, intern_kernel, is_static
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Param
from jaxwarp.passes.flatten import merge_axes, merged_axes

# Rows of this many threads fill vectors well enough.
_SHORT = 64
_INDEX_LIMIT = 1 << 31


@functools.lru_cache(maxsize=512)
def _merged(kernel: Kernel) -> tuple[Kernel, dict[Param, int]] | None:
    axes = merged_axes(kernel)
    return None if axes is None else (intern_kernel(merge_axes(kernel, axes)), axes)


def flattened(launch: Launch, avals: Sequence[Any]) -> Callable[[Any, Sequence[Any]], list[Any]] | None:
    """What runs the launch over one axis less, given `bind` and the operands; None where that cannot be or is no gain.

    `bind(operands, launch)` makes a launch.
    """
    shapes = [a.shape for a in avals]
    is_known = all(is_static(n) for shape in (launch.grid, *shapes, *launch.results) for n in shape)
    if len(launch.grid) < 2 or launch.has_side_effect or not is_known or any(getattr(a, "vma", None) for a in avals):
        return None
    *outer, rows, columns = launch.grid
    if not (1 <= columns < _SHORT and rows > 1 and math.prod(launch.grid) < _INDEX_LIMIT) or 0 in outer:
        return None
    merged = _merged(launch.kernel)
    if merged is None:
        return None
    kernel, axes = merged
    places = {i: axes[p] for i, p in enumerate(launch.kernel.params) if p in axes}
    old = [*zip(launch.operand_params, shapes, strict=True), *zip(launch.result_params, launch.results, strict=True)]
    # XLA copies what is updated in place if it is not the donated buffer itself but a view of it.
    if any(launch.roles[i] == IN_OUT for i in places):
        return None
    if any(shape[places[i] + 1] != columns for i, shape in old if i in places):
        return None
    new = [_merge(shape, places.get(i)) for i, shape in old]
    flat = dataclasses.replace(
        launch,
        kernel=kernel,
        grid=(*outer, rows * columns),
        results=tuple(new[len(shapes) :]),
        origin=None,
        factors=None,
    )

    def run(bind: Callable[..., Any], operands: Sequence[Any]) -> list[Any]:
        results = bind([lax.reshape(x, shape) for x, shape in zip(operands, new, strict=False)], flat)
        return [lax.reshape(x, shape) for x, shape in zip(results, launch.results, strict=True)]

    return run


def _merge(shape: tuple[int, ...], axis: int | None) -> tuple[int, ...]:
    return shape if axis is None else (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])
