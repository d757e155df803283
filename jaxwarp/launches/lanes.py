"""Warnings of launches that ask for several threads a block, of kernels to which it matters how many there are."""

from __future__ import annotations

import warnings
from typing import Any

from jaxwarp.ir.kernel import Kernel

_warned: dict[Any, Any] = {}  # as Python has in every module: what was said of which line


def warn_of_lanes(kernel: Kernel, block_dim: int, axis: int | None = None) -> None:
    """Warn that a block is one thread, once for each line that names the threads of a block.

    Args:
        kernel: as the frontend makes it.
        block_dim: the threads that the launch asks for; there is no warning for 1.
        axis: the axis of the launch that is that of the threads; None: there is none.
    """
    if block_dim == 1:
        return
    for use in kernel.lanes:
        if use.axis is not None and use.axis != axis:
            continue
        warnings.warn_explicit(
            f"kernel {kernel.name}: block_dim={block_dim} has no effect on {use.what}: a block is one thread, as in"
            f" Warp on a CPU. On a GPU, Warp runs {block_dim} threads, so its results differ unless the kernel is right"
            " for every block_dim. If it is, leave block_dim out. See docs/tiles.md",
            UserWarning,
            use.loc.file if use.loc else kernel.name,
            use.loc.line if use.loc else 1,
            registry=_warned,
        )
