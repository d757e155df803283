"""The choice of a launch's text: one with its extents as constants, or one for all extents.

After some versions, a kernel's other launches share one text, which takes the extents as arguments
(`passes/launches/versions.py`). docs/design/0030-cuda-code.md has figures.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jaxwarp.codegen.abi import CudaOptions
from jaxwarp.codegen.cuda.emit import CudaCode, print_cuda
from jaxwarp.codegen.cuda.loops import ANY_NUMBER
from jaxwarp.codegen.cuda.occupancy import LEAST_BLOCK
from jaxwarp.ir.kernel import Kernel
from jaxwarp.passes.pipeline import on_gpu

_CACHE = 512


def code_for(
    kernel: Kernel,
    grid: Sequence[Any] | None,
    shapes: Sequence[Sequence[Any]],
    index_bits: int,
    options: CudaOptions,
    is_aligned: bool = True,
    zeros: Collection[int] = (),
    numbers: Mapping[int, int] | None = None,
) -> CudaCode:
    """The text for a launch.

    Args:
        kernel: a prepared one.
        grid, shapes: extents of the launch and of the parameters; what is no int is known at run time only. Without
            a grid, it is the text that launches of all extents share.
        index_bits: as `print_cuda` takes it.
        options: what else decides about the text.
        is_aligned: whether every array begins at a multiple of 16 bytes, as XLA's do.
        zeros: positions of the parameters that hold zeros on entry.
        numbers: the parameters without axes whose values are known.
    """
    if grid is None:
        return _generic(kernel, index_bits, options, is_aligned)
    known = tuple(
        tuple(int(n) if isinstance(n, (int, np.integer)) else None for n in shape) for shape in (grid, *shapes)
    )
    given = tuple(sorted((numbers or {}).items()))
    kernel, context = on_gpu(kernel, known[0], known[1:], frozenset(zeros), given)
    if context.is_known:
        # A loop over threads is for more of them than there may be blocks for.
        least = LEAST_BLOCK if options.is_free else options.block
        options = replace(options, grid_stride=math.prod(context.threads) > ANY_NUMBER * least)
    return print_cuda(kernel, index_bits, options, grid=context.threads, is_aligned=is_aligned)


@functools.lru_cache(maxsize=_CACHE)
def _generic(kernel: Kernel, index_bits: int, options: CudaOptions, is_aligned: bool) -> CudaCode:
    made, _ = on_gpu(kernel, None)
    return print_cuda(made, index_bits, options, is_aligned=is_aligned)
