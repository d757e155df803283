"""Launches CPU code on NumPy arrays, without JAX: for tests and tools."""

from __future__ import annotations

import ctypes
import hashlib
import math
import weakref
from collections import deque
from collections.abc import Sequence

import numpy as np

from jaxwarp.codegen.abi import GRID, OWN_COPIES
from jaxwarp.codegen.cpu.compile import CpuCode, compile_cpu, load_bitcode, put_down
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
    held = loaded(code.bitcode, code.symbol)  # while it runs
    _recent.append(held)
    function = _LAUNCH(held.address)
    # ctypes arrays are at least one element long, so that there is an address.
    pointers = (ctypes.c_void_p * max(1, len(buffers)))(*(address_of(b) for b in buffers))
    known = {GRID: tuple(grid), OWN_COPIES: (int(has_copies),)}
    entries = [(known.get(source) or buffers[source].shape)[axis] for source, axis in code.geometry]
    geometry = (ctypes.c_int64 * max(1, len(entries)))(*entries)
    for tile in tiles if tiles is not None else [(0, math.prod(grid[:-1]), 0, grid[-1])]:
        function(ctypes.addressof(pointers), ctypes.addressof(geometry), *tile)


class LoadedCode:
    """The function of compiled code (docs/design/0002), in this process for as long as somebody holds this object.

    Attributes:
        address: where it is.
    """

    def __init__(self, bitcode: bytes, symbol: str):
        self.address = load_bitcode(bitcode, hashlib.sha256(bitcode).hexdigest(), symbol)
        weakref.finalize(self, put_down, self.address).atexit = False


def loaded(bitcode: bytes, symbol: str) -> LoadedCode:
    """Compiled code in this process, once. Whoever runs it holds the result meanwhile."""
    made = _loaded.get((bitcode, symbol))
    if made is None:
        made = _loaded[bitcode, symbol] = LoadedCode(bitcode, symbol)
    return made


_recent: deque[LoadedCode] = deque(maxlen=8)  # of `launch`, which is often called again
_loaded: weakref.WeakValueDictionary[tuple[bytes, str], LoadedCode] = weakref.WeakValueDictionary()


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
