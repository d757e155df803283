"""Launches outside of JAX that are like one before: what the checks found is kept by the types and shapes of the
arguments, and what is left is to find addresses and call the code. Large launches use all cores.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import math
import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from jaxwarp.errors import KernelError
from jaxwarp.ffi import compat
from jaxwarp.ffi.debug import debug_now, mode_of
from jaxwarp.ffi.host import HOST, HostArray, recording
from jaxwarp.ffi.ieee import ieee_arithmetic
from jaxwarp.ffi.immediate import Checked, check, run_checked
from jaxwarp.ffi.libraries import library_of
from jaxwarp.ffi.scope import cpu_code
from jaxwarp.types import SCALAR_BY_DTYPE, Array

_MAX_KNOWN = 512
_PLAIN = frozenset((HostArray, np.ndarray, int, float, bool))
_UNIT = 64  # columns are cut at multiples of it


def launch_outside(kernel: Any, dim: Any, given: Sequence[Any], block_dim: int | None, is_recorded: bool) -> None:
    """A launch on arrays outside of JAX, at once. An active tape records it, or, unless `is_recorded`, its results.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit the kernel.
        CheckError: in debug mode, a thread has failed a check.
    """
    tape = recording.get()
    if tape is not None:
        checked = check(HOST, kernel, dim, given, block_dim)
        if is_recorded:
            tape.record_launch(checked)
            run_checked(HOST, checked)
            return
        written = [r for i in checked.plan.written if (r := checked.values[i].region) is not None]
        tape.see(*(checked.values[i].array for i in checked.plan.written))
        for region in written:
            tape.record_write(region)
        run_checked(HOST, checked)
        for region in written:
            tape.record_result(region)
        return
    views = [_as_array(value) for value in given]
    is_plain = block_dim is None and debug_now(mode_of(kernel)) is None
    key = _signature(kernel, dim, views) if is_plain else None
    if key is not None and not compat.is_tracing():
        known = _known.get(key)
        if known is not None and known.run(views):
            return
    checked = check(HOST, kernel, dim, given, block_dim)
    if key is None or 0 in checked.plan.grid:
        run_checked(HOST, checked)
        return
    if len(_known) >= _MAX_KNOWN:
        _known.clear()
    made = _known[key] = _Known(checked)
    if not made.run(views):
        run_checked(HOST, checked)


def _as_array(value: Any) -> Any:
    """A tensor of another library as an array; any other value as it is."""
    library = None if type(value) in _PLAIN else library_of(value)
    if library is None or library.is_recording(value):
        return value
    try:
        region = library.region(value)
    except KernelError:
        return value  # the checks say what is wrong
    type_ = Array(SCALAR_BY_DTYPE[region.dtype], len(region.shape))
    return HostArray("", type_, region, is_writable=True) if region.shape else value


def _signature(kernel: Any, dim: Any, given: Sequence[Any]) -> Any:
    """What decides a launch but for the values; None where it is not that simple."""
    if type(dim) is not int and not (type(dim) is tuple and all(type(n) is int for n in dim)):
        return None
    tokens = [_token(value) for value in given]
    return None if None in tokens else (kernel, dim, *tokens)


def _token(value: Any) -> Any:
    kind = type(value)
    if kind is HostArray:
        return value.token
    if kind is np.ndarray:
        flags = value.flags
        plain = value.ndim and flags.c_contiguous and flags.aligned
        return (value.dtype, value.shape, flags.writeable) if plain else None
    return kind if kind in (float, int, bool) or isinstance(value, np.generic) else None


class _Known:
    """A launch with everything found but the addresses."""

    def __init__(self, checked: Checked):
        plan = checked.plan
        shapes = [given.shape for given in checked.described]
        known = [p.shape if shape is None else shape for p, shape in zip(plan.kernel.params, shapes, strict=True)]
        kernel, code = cpu_code(plan.kernel, checked.options["fma"], plan.grid, known)
        from jaxwarp.codegen.cpu import choose_grain, entry  # LLVM is slow to import

        self._entry, grid = entry(code), plan.grid
        self._sizes = [
            0 if shape is None else math.prod(shape) * param.dtype.numpy.itemsize
            for shape, param in zip(shapes, kernel.params, strict=True)
        ]
        self._converters = [
            None if argument.is_array else convert or (lambda value: value)
            for argument, convert in zip(plan.arguments, plan.converters, strict=True)
        ]
        self._written = tuple(plan.written)
        self._arrays = [i for i, argument in enumerate(plan.arguments) if argument.is_array]
        # -1: of the grid; -2: whether the call has copies, which it has not.
        entries = [
            (shapes[source] or ())[axis] if source >= 0 else grid[axis] if source == -1 else 0
            for source, axis in code.geometry
        ]
        self._geometry = (ctypes.c_int64 * max(1, len(entries)))(*entries)
        extents = {p: shape for p, shape in zip(kernel.params, shapes, strict=True) if shape is not None}
        grain = choose_grain(kernel, extents)
        threads = _cores() if math.prod(grid) > max(2 * grain, code.alone) else 1
        self._tiles = _cut(math.prod(grid[:-1]), grid[-1], grain, threads, code.pieces)

    def run(self, given: Sequence[Any]) -> bool:
        """Runs it, unless arrays overlap."""
        addresses: list[int] = []
        kept: list[np.ndarray] = []
        for value, convert in zip(given, self._converters, strict=True):
            if type(value) is HostArray:
                addresses.append(value._region.address)
            else:
                array = value if convert is None else np.asarray(convert(value))
                kept.append(array)
                addresses.append(array.ctypes.data)
        for i in self._written:
            low, high = addresses[i], addresses[i] + self._sizes[i]
            for j in self._arrays:
                if i != j and addresses[j] < high and low < addresses[j] + self._sizes[j]:
                    return False
        pointers = (ctypes.c_void_p * max(1, len(addresses)))(*addresses)
        places = ctypes.addressof(pointers), ctypes.addressof(self._geometry)
        if len(self._tiles) == 1:
            self._entry(*places, *self._tiles[0])
        else:
            _run_tiles(self._entry, places, self._tiles)
        for i in self._written:
            value = given[i]
            if type(value) is HostArray and value._region.owner.tensors:
                value._region.owner.written()
        return True


_known: dict[Any, _Known] = {}


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
