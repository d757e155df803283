"""The choice of a launch's text: one with its extents as constants, or one for all extents.

A program of a few shapes gets a version for each. One of many shapes would compile forever. So after MOST_VERSIONS
versions, a kernel's other launches share one text, which takes the extents as arguments.
docs/design/0030-cuda-code.md has figures.
"""

from __future__ import annotations

import functools
import math
import threading
import weakref
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jaxwarp.codegen.abi import CudaOptions
from jaxwarp.codegen.cuda.emit import CudaCode, print_cuda
from jaxwarp.codegen.cuda.loops import ANY_NUMBER
from jaxwarp.codegen.cuda.occupancy import LEAST_BLOCK
from jaxwarp.ir.kernel import Kernel
from jaxwarp.passes.pipeline import on_gpu

Shape = tuple[int | None, ...]

MOST_VERSIONS = 8
_CACHE = 512

_versions: weakref.WeakKeyDictionary[Kernel, set[tuple[Shape, ...]]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def code_for(
    kernel: Kernel,
    grid: Sequence[Any],
    shapes: Sequence[Sequence[Any]],
    index_bits: int,
    options: CudaOptions,
    is_aligned: bool = True,
    zeros: Collection[int] = (),
) -> CudaCode:
    """The text for a launch.

    Args:
        kernel: a prepared one.
        grid, shapes: extents of the launch and of the parameters; what is no int is known at run time only.
        index_bits: as `print_cuda` takes it.
        options: what else decides about the text.
        is_aligned: whether every array begins at a multiple of 16 bytes, as XLA's do.
        zeros: positions of the parameters that hold zeros on entry.
    """
    known = tuple(
        tuple(int(n) if isinstance(n, (int, np.integer)) else None for n in shape) for shape in (grid, *shapes)
    )
    if not _has_version(kernel, known):
        return _generic(kernel, index_bits, options, is_aligned)
    kernel, context = on_gpu(kernel, known[0], known[1:], frozenset(zeros))
    if context.is_known:
        # A loop over threads is for more of them than there may be blocks for.
        least = LEAST_BLOCK if options.is_free else options.block
        options = replace(options, grid_stride=math.prod(context.threads) > ANY_NUMBER * least)
    return print_cuda(kernel, index_bits, options, grid=context.threads, is_aligned=is_aligned)


def _has_version(kernel: Kernel, known: tuple[Shape, ...]) -> bool:
    """Return whether these extents are among the first that the kernel is launched with."""
    with _lock:
        seen = _versions.setdefault(kernel, set())
        if known not in seen and len(seen) < MOST_VERSIONS:
            seen.add(known)
        return known in seen


@functools.lru_cache(maxsize=_CACHE)
def _generic(kernel: Kernel, index_bits: int, options: CudaOptions, is_aligned: bool) -> CudaCode:
    made, _ = on_gpu(kernel, None)
    return print_cuda(made, index_bits, options, is_aligned=is_aligned)
