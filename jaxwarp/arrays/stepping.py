"""`kernel.interpret(...)`: which arguments, which threads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxwarp import config
from jaxwarp.analysis.effects import analyze
from jaxwarp.arrays.eager import PlacedValue, argument_given
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.frontend.stepping import SteppedKernel
from jaxwarp.frontend.text.source import Source
from jaxwarp.kernel import Kernel
from jaxwarp.launches.arguments.argument import CallParameter, with_absent
from jaxwarp.launches.arguments.bind import arguments_of, make_converters, resolve_elements, types_of
from jaxwarp.launches.arguments.converters import Convert
from jaxwarp.launches.arguments.default_dims import default_extents
from jaxwarp.launches.arguments.dims import normalize_dims
from jaxwarp.launches.arguments.leaves import spread
from jaxwarp.launches.arguments.roles import bind_names
from jaxwarp.launches.spec import INPUT, fit_grid
from jaxwarp.memory.host_scope import HOST
from jaxwarp.types import Array


def step_kernel(
    kernel: Kernel, source: Source, args: Sequence[Any], keywords: dict[str, Any], dim: Any, threads: Any
) -> None:
    """Runs a kernel in Python; see `Kernel.interpret`."""
    declared = [CallParameter(kernel.name, a.name, a.annotation, INPUT) for a in kernel.arguments]
    bound = bind_names(declared, args, keywords, kernel.defaults)
    kernel = kernel.given(bound)
    arguments = arguments_of(kernel)
    given = spread(kernel, bound)
    values = [argument_given(HOST, kernel, i, g) for i, g in enumerate(given)]
    described = with_absent(arguments, [v.describe() for v in values])
    elements = resolve_elements(arguments, described)
    converters = make_converters(arguments, elements, described)
    types = types_of(arguments, elements, described)
    limit = kernel.module_option("max_unroll", config.max_unroll)
    steps = SteppedKernel(source, [(a.name, a.annotation) for a in kernel.arguments], types, limit)
    _require_writable(steps, arguments, values)
    buffers = [_buffer(v, convert) for v, convert in zip(values, converters, strict=True)]
    _, grid = fit_grid(steps.kernel, _extents(steps, dim, buffers, types))
    steps.run(grid, buffers, _numbers(kernel, threads, grid))


def _extents(steps: SteppedKernel, dim: Any, buffers: Sequence[np.ndarray], types: Sequence[Any]) -> Sequence[Any]:
    if dim is not None:
        return normalize_dims(dim, f"kernel {steps.kernel.name}: dim")
    arrays = zip(steps.kernel.params, buffers, types, strict=True)
    first = next(((p.name, b.shape[: t.ndim]) for p, b, t in arrays if isinstance(t, Array)), None)
    return default_extents(steps.kernel, first, "dim")


def _buffer(value: PlacedValue, convert: Convert | None) -> np.ndarray:
    """An array itself; a copy of what is no memory of ours."""
    if value.region is not None:
        return value.region.view(HOST.lease("", value.region))
    return np.array(value.value if convert is None else convert(value.value))


def _require_writable(steps: SteppedKernel, arguments: Sequence[CallParameter], values: Sequence[Any]) -> None:
    effects = analyze(steps.kernel)
    for param, argument, value in zip(steps.kernel.params, arguments, values, strict=True):
        if effects[param].modifies and (value.region is None or not value.is_writable):
            raise KernelTypeError(
                f"{argument.where} is written by the kernel: expected an array that may be written, got"
                f" {type_text(value.value)}",
                effects[param].first_write,
                hint="pass a NumPy array, such as np.array(x)",
            )


def _numbers(kernel: Kernel, threads: Any, grid: Sequence[int]) -> Sequence[int]:
    """The numbers of the chosen threads, row by row."""
    if threads is None:
        return range(math.prod(grid))
    chosen = threads if isinstance(threads, list) else [threads]
    return [_number(kernel, thread, grid) for thread in chosen]


def _number(kernel: Kernel, thread: Any, grid: Sequence[int]) -> int:
    index = thread if isinstance(thread, tuple) else (thread,)
    fits = len(index) == len(grid) and all(isinstance(i, (int, np.integer)) for i in index)
    if not fits or not all(0 <= i < n for i, n in zip(index, grid, strict=True)):
        raise KernelValueError(
            f"kernel {kernel.name}: threads: {thread!r} is no thread of a launch of {tuple(grid)}",
            hint="give an index, a tuple of indices, or a list of these",
        )
    return int(np.ravel_multi_index(index, tuple(grid)))
