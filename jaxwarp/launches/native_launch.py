"""Launches on memory of the host: a launch is a call with addresses.

Native code cuts and runs them as it does those of XLA's programs (native/outside.cc); outside of all calls, large ones
use all cores.
"""

from __future__ import annotations

import ctypes
import math
import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jaxwarp.codegen.abi import LaunchCode
from jaxwarp.errors import KernelValueError
from jaxwarp.launches.code import Shapes
from jaxwarp.memory.region import Region
from jaxwarp.native.library import load_library

_HEARS_AFTER = 100  # milliseconds: a launch that is divided hears a signal (Ctrl-C) so late, or a piece later


class NativeCode:
    """The code of a launch on the CPU, loaded, for dense arrays of the shapes that it was made for.

    Attributes:
        is_whole: whether it is too small to be divided among cores.
        cleared: the numbers of the arguments that have to hold zeros.
    """

    def __init__(self, code: LaunchCode, shapes: Shapes):
        from jaxwarp.codegen.cpu import loaded  # LLVM is slow to import

        arrays, cut = code.arrays, code.cut
        how = code.grain, cut.max_unsplit_threads, cut.max_pieces_per_thread, cut.rows_per_piece
        atomics = [i for i, array in enumerate(arrays) if array.is_updated]
        updated = [word for i in atomics for word in (i, math.prod(shapes[i]) * arrays[i].bytes)]
        rows, columns = math.prod(code.grid[:-1]), code.grid[-1]
        self._loaded = loaded(code.bitcode, code.symbol)  # until the last launch of it has ended
        words = self._loaded.address, rows, columns, pool_size(), *how, len(atomics), *updated, *code.integers(shapes)
        self.cleared = code.cleared
        self._words = (ctypes.c_int64 * len(words))(*words)  # `Outside` in native/outside.cc
        self._launch = ctypes.addressof(self._words)
        self._pointers = ctypes.c_void_p * max(1, len(arrays))
        self._packed = struct.Struct(f"{len(arrays)}P").pack  # several times as fast as an array of ctypes
        self._library = load_library()
        self._run = self._library.jaxwarp_outside_alone
        self.is_whole = self._library.jaxwarp_outside_pieces(self._launch) == 1

    def pointers(self, addresses: Iterable[int]) -> Any:
        """Return the array of addresses whose own address `call` takes."""
        return self._pointers(*addresses)

    def packed(self, addresses: Sequence[int]) -> bytes:
        """Return addresses as `call` takes them."""
        return self._packed(*addresses)

    def call(self, pointers: int | bytes, is_divided: bool = True) -> None:
        """Runs it on the addresses at `pointers`, or packed in them; unless `is_divided`, in this thread."""
        if is_divided and not self.is_whole:
            self._share(pointers)
        elif not self._run(self._launch, pointers):
            raise _in_a_handler()

    def run(self, addresses: Sequence[int], is_divided: bool = True) -> None:
        """Runs it on arrays that are dense and aligned; unless `is_divided`, in this thread."""
        self.call(self._packed(*addresses), is_divided)

    def _share(self, pointers: int | bytes) -> None:
        """Runs it on this thread and others.

        A signal is seen to whenever native code returns. Where it raises, no other piece is begun, and those that run
        are waited for, since they use memory of the caller's.
        """
        under_way = ctypes.c_void_p()
        place = ctypes.addressof(under_way)
        share, stop = self._library.jaxwarp_outside_share, self._library.jaxwarp_outside_stop
        try:
            while not (has_ended := share(self._launch, pointers, place, _HEARS_AFTER)):
                pass
        finally:
            stop(place)
        if has_ended < 0:
            raise _in_a_handler()


@contextmanager
def updating(regions: Sequence[Region]) -> Iterator[None]:
    """Runs while no launch updates the memory by atomics, nor another one that says so here."""
    if not regions:
        yield
        return
    library, words = load_library(), [word for region in regions for word in region.span]
    memory = (ctypes.c_int64 * len(words))(*words)
    if not library.jaxwarp_updates_begin(ctypes.addressof(memory), len(regions)):
        raise _in_a_handler()
    try:
        yield
    finally:
        library.jaxwarp_updates_end(ctypes.addressof(memory))


def _in_a_handler() -> KernelValueError:
    """Build the error for a launch that would wait for one that is under way in its own thread."""
    return KernelValueError(
        "a launch that updates an array by atomics is under way in this thread, and another one would update it, too",
        hint="launch after it, not in the handler of a signal",
    )


def pool_size() -> int:
    """Return how many threads XLA's CPU pool has in this process, at least."""
    wanted = os.environ.get("PJRT_NPROC", "")
    return int(wanted) if wanted.isdigit() and int(wanted) else len(os.sched_getaffinity(0))
