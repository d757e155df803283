"""The memory of a GPU, as the way back of a tape sees it: all that it does is queued there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.launching import prepared_launch
from jaxwarp.arrays.tapes.memory import Memory
from jaxwarp.kernel import Kernel
from jaxwarp.launches.code import CodeKey
from jaxwarp.launches.on_memory import CudaLaunch, are_aligned, loaded_on
from jaxwarp.memory.gpu.ordering import is_zero
from jaxwarp.memory.gpu.scope import GpuScope
from jaxwarp.memory.region import Region, dense_region
from jaxwarp.types import SCALAR_BY_DTYPE, Array

_MOST = 2**30  # threads of a launch
_FLAG = np.dtype(np.int32)


class GpuMemory(Memory):
    """The memory of a GPU."""

    def __init__(self, scope: GpuScope):
        self.scope: GpuScope = scope

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GpuMemory) and other.scope is self.scope

    def __hash__(self) -> int:
        return hash(self.scope)

    def entered(self) -> Any:
        return self.scope.entered()

    def new(self, dtype: np.dtype, shape: Sequence[int]) -> Region:
        return self.scope.new(dtype, shape)

    def plain(self, region: Region) -> Region:
        return region if region.is_plain else self.copied(region)

    def operand(self, value: np.ndarray, is_array: bool) -> Region:
        return self.scope.uploaded(value) if is_array else self.scope.constant(value)

    def copy(self, target: Region, source: Region) -> None:
        self.scope.duplicate(target, source)

    def set(self, target: Region, values: np.ndarray) -> None:
        if values.shape == target.shape and values.shape:
            self.scope.put(target, values)
        else:
            self.scope.set(target, values)

    def clear(self, target: Region) -> None:
        self.scope.set(target, np.zeros((), target.dtype))

    def add(self, target: Region, source: Region, flag: Region | None = None) -> None:
        from jaxwarp.arrays.tapes.gpu import kernels  # which are made when they are first used

        dense = self.plain(target)
        if flag is None:
            _run(self.scope, kernels.add, [dense, source])
        else:
            _run(self.scope, kernels.add_if, [dense, source], flag)
        if dense is not target:
            self.copy(target, dense)

    def convert(self, target: Region, source: Region) -> None:
        from jaxwarp.arrays.tapes.gpu import kernels  # which are made when they are first used

        _run(self.scope, kernels.convert, [target, source])

    def nonzero(self, regions: Sequence[Region]) -> list[bool]:
        """Return, for each region, whether it holds a number other than zero. Where that is not known from what was
        written, the host asks the device, and waits for it."""
        known = [is_zero(region) for region in regions]
        asked = [self.plain(region) for region, found in zip(regions, known, strict=True) if found is None]
        answers = iter(self.scope.read(self.find_nonzero(asked)).tolist() if asked else ())
        return [bool(next(answers)) if found is None else not found for found in known]

    def find_nonzero(self, regions: Sequence[Region]) -> Region:
        """Set a flag on the device for each dense region that holds a number other than zero; nobody waits for it."""
        from jaxwarp.arrays.tapes.gpu import kernels  # which are made when they are first used

        found = self.scope.make(_FLAG, (len(regions),))
        for place, region in enumerate(regions):
            _run(self.scope, kernels.find, [region], place, found)
        return found

    def launcher(self, key: CodeKey) -> Callable[[Sequence[Region]], None]:
        scope = self.scope
        codes: dict[bool, CudaLaunch] = {}

        def launch(regions: Sequence[Region]) -> None:
            is_aligned = are_aligned(regions)
            code = codes.get(is_aligned)
            if code is None:
                code = codes[is_aligned] = loaded_on(scope, key, is_aligned)
            with scope.entered():
                for k in code.cleared:
                    self.clear(regions[k])
                scope.uses(*([r for i, r in enumerate(regions) if (i in code.written) is w] for w in (False, True)))
                code.run(scope, [region.address for region in regions])

        return launch

    def differ(self, pairs: Sequence[tuple[Region, Region]]) -> np.ndarray:
        """Return whether the two regions of each pair, which have the same size, differ in a byte."""
        from jaxwarp.arrays.tapes.gpu import kernels  # which are made when they are first used

        found = self.scope.make(_FLAG, (len(pairs),))
        for place, pair in enumerate(pairs):
            one, other = map(self.plain, pair)
            size = next(size for size in (4, 2, 1) if not (one.address | other.address | one.nbytes) % size)
            word = np.dtype(f"u{size}")
            words = [dense_region(r.address, word, (r.nbytes // size,), r.owner) for r in (one, other)]
            _run(self.scope, kernels.compare, words, place, found)
        return self.scope.read(found).astype(bool)


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
