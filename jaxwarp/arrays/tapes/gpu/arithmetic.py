"""Kernels for the backward pass, beside the launches that it makes, on dense memory of a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.launching import prepared_launch
from jaxwarp.kernel import Kernel
from jaxwarp.memory.gpu.scope import GpuScope
from jaxwarp.memory.region import Region, dense_region
from jaxwarp.types import SCALAR_BY_DTYPE, Array

_MOST = 2**30  # threads of a launch
_FLAG = np.dtype(np.int32)


def plain(scope: GpuScope, region: Region) -> Region:
    """The region, if code takes it as it is, or else a copy that is dense and aligned."""
    return region if region.is_plain else scope.duplicated(region)


def add(scope: GpuScope, target: Region, source: Region, flag: Region | None = None) -> None:
    """Adds a dense region to another one, which may have gaps; with a flag of `find_nonzero`, if it is set."""
    from jaxwarp.arrays.tapes.gpu import kernels  # which are made when they are first used

    dense = plain(scope, target)
    if flag is None:
        _run(scope, kernels.add, [dense, source])
    else:
        _run(scope, kernels.add_if, [dense, source], flag)
    if dense is not target:
        scope.duplicate(target, dense)


def convert(scope: GpuScope, target: Region, source: Region) -> None:
    """Converts the numbers of a dense region to the type of another one."""
    from jaxwarp.arrays.tapes.gpu import kernels  # which are made when they are first used

    _run(scope, kernels.convert, [target, source])


def nonzero(scope: GpuScope, regions: Sequence[Region]) -> np.ndarray:
    """Tell of each dense region whether it holds a number other than zero. The host waits for the device."""
    return scope.read(find_nonzero(scope, regions)).astype(bool)


def find_nonzero(scope: GpuScope, regions: Sequence[Region]) -> Region:
    """Set a flag on the device for each region that holds a number other than zero; nobody waits for it."""
    from jaxwarp.arrays.tapes.gpu import kernels  # which are made when they are first used

    found = scope.make(_FLAG, (len(regions),))
    for place, region in enumerate(regions):
        _run(scope, kernels.find, [region], place, found)
    return found


def differ(scope: GpuScope, pairs: Sequence[tuple[Region, Region]]) -> np.ndarray:
    """Return whether the two regions of each pair, which have the same size, differ in a byte."""
    from jaxwarp.arrays.tapes.gpu import kernels  # which are made when they are first used

    found = scope.make(_FLAG, (len(pairs),))
    for place, pair in enumerate(pairs):
        one, other = (plain(scope, region) for region in pair)
        size = next(size for size in (4, 2, 1) if not (one.address | other.address | one.nbytes) % size)
        word = np.dtype(f"u{size}")
        words = [dense_region(r.address, word, (r.nbytes // size,), r.owner) for r in (one, other)]
        _run(scope, kernels.compare, words, place, found)
    return scope.read(found).astype(bool)


def _run(scope: GpuScope, kernel_: Kernel, regions: Sequence[Region], *rest: Any) -> None:
    """A launch over all elements of dense regions of one size, which no tape is told of."""
    given = [_row(x) if isinstance(x, Region) else x for x in rest]
    for parts in _parts(regions):
        prepared_launch(scope, kernel_, parts[0].size, [*map(_row, parts), *given], None).run()


def _parts(regions: Sequence[Region]) -> Iterator[list[Region]]:
    rows = [dense_region(r.address, r.dtype, (r.size,), r.owner) for r in regions]
    for start in range(0, rows[0].size, _MOST):
        yield [row.part((slice(start, start + _MOST),)) for row in rows]


def _row(region: Region) -> HostArray:
    return HostArray("", Array(SCALAR_BY_DTYPE[region.dtype], 1), region, is_writable=True)
