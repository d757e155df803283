"""The block sizes that were measured to be fastest, for each GPU and everything that determines a launch's code.

They are kept in memory, and on disk beside compiled code (`cache.py`). See docs/design/0037-autotuning.md.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jaxwarp.codegen import cache
from jaxwarp.codegen.abi import CudaOptions
from jaxwarp.ir.kernel import Kernel

# Raise to forget what earlier versions have measured: when code is made otherwise.
_VERSION = "tuned-1"
_MOST_KNOWN = 4096


@dataclass(frozen=True)
class Tuning:
    """The result of a measurement: the seconds that a launch takes, by block size, and the block size to use."""

    block: int
    times: dict[int, float]


_known: dict[str, Tuning | None] = {}


def key_of(
    kernel: Kernel, grid: Sequence[Any], shapes: Sequence[Sequence[Any]], options: CudaOptions, gpu: str
) -> str | None:
    """The name of what is measured; None where extents are not known.

    Args:
        kernel: a prepared one.
        grid, shapes: extents of the launch and of the parameters.
        options: of its code.
        gpu: the name of the device's model.
    """
    from jaxwarp.codegen.cuda import nvrtc  # slow to import

    extents = (tuple(grid), *map(tuple, shapes))
    if not all(isinstance(n, (int, np.integer)) for shape in extents for n in shape):
        return None
    known = repr([[int(n) for n in shape] for shape in extents])
    others = repr(replace(options, block=0, is_tuned=False, is_free=False))
    return cache.key(_VERSION, kernel.digest, known, others, gpu, repr(nvrtc.version()))


def tuning(key: str) -> Tuning | None:
    """Return the result of a measurement made in this process or an earlier one, or None if there is none."""
    if key not in _known:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        data = cache.get(key)
        _known[key] = None if data is None else _decoded(data)
    return _known[key]


def keep(key: str, found: Tuning) -> None:
    """Launches from now on have this."""
    _known[key] = found
    cache.put(key, json.dumps([found.block, list(found.times.items())]).encode())


def with_block(
    options: CudaOptions, kernel: Kernel, grid: Sequence[Any], shapes: Sequence[Sequence[Any]], gpu: str | None
) -> CudaOptions:
    """The options, with the block size that was measured, if it is to be that and there is one.

    Args:
        options: those that a launch was asked for with.
        kernel, grid, shapes, gpu: as in `key_of`; None: it is not known on what it will run.
    """
    key = None if gpu is None else key_of(kernel, grid, shapes, options, gpu)
    found = None if key is None else tuning(key)
    if found is None:
        return replace(options, is_tuned=False, is_free=not options.bounds)
    return replace(options, block=found.block, is_tuned=False)


def _decoded(data: bytes) -> Tuning:
    block, times = json.loads(data)
    return Tuning(block, dict(map(tuple, times)))
