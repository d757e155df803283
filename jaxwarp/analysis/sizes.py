"""`a.size` in a kernel is int32, as in Warp. A launch where it does not fit is refused."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxwarp.errors import KernelValueError
from jaxwarp.ir.kernel import Kernel

_MOST = 2**31 - 1


def require_sizes_fit(kernel: Kernel, shapes: Sequence[Sequence[Any] | None]) -> None:
    """Refuses arrays whose size the kernel asks for and cannot hold. Extents fit by themselves.

    Args:
        kernel: as the frontend makes it.
        shapes: extents of each parameter; None, or an entry that is no integer, is unknown.

    Raises:
        KernelValueError: with the line that asks.
    """
    known = dict(zip(kernel.params, shapes, strict=True))
    for use in kernel.sizes:
        shape = known.get(use.param) or ()
        extents = [int(n) for n in shape if isinstance(n, (int, np.integer))]
        if len(extents) < len(shape) or not shape:
            continue
        extents = [extents[axis] for axis in use.axes]
        if math.prod(extents) > _MOST:
            product = " * ".join(f"int64({use.param.name}.shape[{k}])" for k in range(len(extents)))
            raise KernelValueError(
                f"{kernel.name}: size is int32, and an array of {math.prod(extents)} elements does not fit:"
                f" {use.param.name} has the extents {' x '.join(map(str, extents))}",
                use.loc,
                hint=f"multiply the extents in 64 bits: {product}",
            )
