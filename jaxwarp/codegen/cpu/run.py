"""Launches CPU code on NumPy arrays, without JAX: for tests and tools."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import math
from collections.abc import Callable, Sequence

import numpy as np

from jaxwarp.codegen.abi import GRID, OWN_COPIES
from jaxwarp.codegen.cpu.compile import CpuCode, compile_cpu, load_bitcode
from jaxwarp.codegen.cpu.plan.target import Machine
from jaxwarp.errors import KernelTypeError
from jaxwarp.ir.kernel import Kernel
from jaxwarp.unlocked import address_of

Tile = tuple[int, int, int, int]
"""row_begin, row_end, col_begin, col_end"""

_LAUNCH = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
)


def run_cpu(
    kernel: Kernel,
    grid: Sequence[int],
    buffers: Sequence[np.ndarray],
    width: int | None = None,
    tiles: Sequence[Tile] | None = None,
    machine: Machine | None = None,
) -> CpuCode:
    """Launches a prepared kernel, in place, in this thread.

    Args:
        kernel: the kernel.
        grid: launch extents.
        buffers: one C-contiguous array per parameter.
        width: threads per vector; by default what suits.
        tiles: the rectangles to run, one after the other; by default one, the whole grid.
        machine: what to shape the code for, see `compile_cpu`.

    Returns:
        The code that ran.

    Raises:
        KernelTypeError: a buffer is not what the parameter is.
    """
    code = compile_cpu(kernel, width, machine)
    launch(code, kernel, grid, buffers, tiles)
    return code


def launch(
    code: CpuCode,
    kernel: Kernel,
    grid: Sequence[int],
    buffers: Sequence[np.ndarray],
    tiles: Sequence[Tile] | None = None,
    has_copies: bool = False,
) -> None:
    """Runs compiled code of `kernel`; see `run_cpu`. `has_copies`: nobody else uses the arrays in `code.cut.copied`."""
    _require_fit(kernel, grid, buffers)
    function = entry(code)
    # ctypes arrays are at least one element long, so that there is an address.
    pointers = (ctypes.c_void_p * max(1, len(buffers)))(*(address_of(b) for b in buffers))
    known = {GRID: tuple(grid), OWN_COPIES: (int(has_copies),)}
    entries = [(known.get(source) or buffers[source].shape)[axis] for source, axis in code.geometry]
    geometry = (ctypes.c_int64 * max(1, len(entries)))(*entries)
    for tile in tiles if tiles is not None else [(0, math.prod(grid[:-1]), 0, grid[-1])]:
        function(ctypes.addressof(pointers), ctypes.addressof(geometry), *tile)


def entry(code: CpuCode) -> Callable[..., None]:
    """The function of compiled code; see docs/design/0002."""
    return _LAUNCH(entry_address(code))


@functools.lru_cache(maxsize=256)
def entry_address(code: CpuCode) -> int:
    """Where the function of compiled code is. It stays there."""
    return load_bitcode(code.bitcode, hashlib.sha256(code.bitcode).hexdigest(), code.symbol)


def _require_fit(kernel: Kernel, grid: Sequence[int], buffers: Sequence[np.ndarray]) -> None:
    if len(grid) != kernel.grid_rank or len(buffers) != len(kernel.params):
        raise KernelTypeError(
            f"{kernel.name}: expected {kernel.grid_rank} grid extents and {len(kernel.params)} buffers,"
            f" got {len(grid)} and {len(buffers)}"
        )
    for param, buffer in zip(kernel.params, buffers, strict=True):
        shape_fits = len(buffer.shape) == param.rank and all(
            known in (None, extent) for known, extent in zip(param.shape, buffer.shape, strict=True)
        )
        if buffer.dtype != param.dtype.numpy or not shape_fits or not buffer.flags.c_contiguous:
            raise KernelTypeError(
                f"{kernel.name}: buffer {param.name}: expected contiguous {param.dtype} of shape {param.shape},"
                f" got {buffer.dtype} of shape {buffer.shape}"
            )
