"""Launches on memory of the host: of those that are alike the code is kept, and a launch is a call with addresses.

Outside of all calls, large ones use all cores.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import math
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from jaxwarp.analysis.succession import Succession
from jaxwarp.codegen.abi import GRID, OWN_COPIES
from jaxwarp.ffi.launch.lowering import succession
from jaxwarp.ir.kernel import Kernel
from jaxwarp.native.ieee import ieee_arithmetic
from jaxwarp.passes.pipeline import prepared

Shapes = tuple[tuple[int, ...], ...]
"""Of the parameters of a kernel."""

_UNIT = 64  # columns are cut at multiples of it


class NativeCode:
    """A launch of a kernel on dense arrays of known shapes.

    Args:
        in_order: see Launch.

    Attributes:
        is_whole: whether it is too small to be divided among cores.
    """

    def __init__(self, kernel: Kernel, fma: bool, grid: tuple[int, ...], shapes: Shapes, in_order: bool = True):
        made, code = cpu_code(kernel, fma, grid, shapes, in_order)
        from jaxwarp.codegen.cpu import choose_grain, entry  # LLVM is slow to import

        self._entry, count = entry(code), len(made.params)
        known = {GRID: grid, OWN_COPIES: (0,)}
        entries = [(known.get(source) or shapes[source])[axis] for source, axis in code.geometry]
        self._geometry = (ctypes.c_int64 * max(1, len(entries)))(*entries)
        self._place = ctypes.addressof(self._geometry)
        self._pointers = ctypes.c_void_p * max(1, count)
        grain = choose_grain(made, dict(zip(made.params, shapes, strict=True)))
        threads = _cores() if math.prod(grid) > max(2 * grain, code.cut.max_unsplit_threads) else 1
        rows, columns = math.prod(grid[:-1]), grid[-1]
        self._all = 0, rows, 0, columns
        self._tiles = _cut(rows, columns, grain, threads, code.cut.max_pieces_per_thread)
        self.is_whole = len(self._tiles) == 1

    def pointers(self, addresses: Iterable[int]) -> Any:
        """What `call` takes the address of."""
        return self._pointers(*addresses)

    def call(self, pointers: int) -> None:
        """Runs it in this thread."""
        self._entry(pointers, self._place, *self._all)

    def run(self, addresses: Sequence[int], is_divided: bool = True) -> None:
        """Runs it on arrays that are dense and aligned; unless `is_divided`, in this thread."""
        pointers = self._pointers(*addresses)
        if self.is_whole or not is_divided:
            self._entry(ctypes.addressof(pointers), self._place, *self._all)
        else:
            _run_tiles(self._entry, (ctypes.addressof(pointers), self._place), self._tiles)


code_of = functools.lru_cache(maxsize=512)(NativeCode)


def cpu_code(
    kernel: Kernel, fma: bool, grid: Sequence[int], shapes: Sequence[Sequence[int | None]], in_order: bool = True
) -> tuple[Kernel, Any]:
    """The prepared kernel and its code, for launches outside of programs on arrays of these shapes.

    `in_order`: see Launch.
    """
    made = prepared(kernel, fma)
    return made, _cpu_code(made, succession(made, grid, shapes) if in_order else None)


@functools.lru_cache(maxsize=256)
def _cpu_code(made: Kernel, order: Succession | None) -> Any:
    from jaxwarp.codegen.cpu import compile_cpu

    # XLA may call the function from several threads at a time, and each may update an array that is not XLA's.
    return compile_cpu(made, shared=True, succession=order)


def _cut(rows: int, columns: int, grain: int, threads: int, pieces: int) -> list[tuple[int, int, int, int]]:
    """The rectangles of a launch, about as XLA's launches are cut (`Cut` in native/cpu.cc)."""
    if threads == 1:
        return [(0, rows, 0, columns)]
    wanted = max(1, min(pieces * threads, rows * columns * 4 // max(4, grain)))
    wanted = wanted // threads * threads or wanted
    row_pieces = min(rows, wanted)
    column_pieces = max(1, min(-(-wanted // row_pieces), columns // _UNIT)) if row_pieces < wanted else 1
    cuts = [columns // _UNIT * i // column_pieces * _UNIT for i in range(column_pieces)] + [columns]
    return [
        (rows * i // row_pieces, rows * (i + 1) // row_pieces, cuts[j], cuts[j + 1])
        for i in range(row_pieces)
        for j in range(column_pieces)
    ]


def _cores() -> int:
    return len(os.sched_getaffinity(0))


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, _cores() - 1), thread_name_prefix="jaxwarp")


# A process that is forked has no threads but one.
os.register_at_fork(after_in_child=_pool.cache_clear)


def _run_tiles(entry: Any, places: tuple[int, int], tiles: Sequence[tuple[int, int, int, int]]) -> None:
    """Runs the rectangles on this thread and those of the pool, each taking the next one that is left.

    A signal (Ctrl-C) is seen between two of them: no other one is begun, and those that run are waited for, since they
    use memory of the caller's.
    """
    left = itertools.count()
    ended: list[BaseException] = []

    def work() -> None:
        with ieee_arithmetic():
            while not ended and (i := next(left)) < len(tiles):
                entry(*places, *tiles[i])

    others: list[Future[None]] = []
    with contextlib.suppress(RuntimeError):  # the process ends, and takes no new work: this thread does it
        others += (_pool().submit(work) for _ in range(min(_cores(), len(tiles)) - 1))
    try:
        work()
    except BaseException as error:
        ended.append(error)
    while others:
        try:
            others[-1].result()
            others.pop()
        except BaseException as error:
            ended.append(error)
            if others[-1].done():
                others.pop()
    if ended:
        raise ended[0]
