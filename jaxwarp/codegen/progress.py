"""Lines on standard error about compiling: what takes long, and, if the log asks for it, everything."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from jaxwarp import config

AFTER = 2.0  # seconds that pass in silence
LOGGED = 10  # the level, Warp's LOG_DEBUG, at which each compilation is logged


@contextlib.contextmanager
def told(what: str) -> Iterator[None]:
    """Writes `what` to the standard error output if the block takes longer than `AFTER`, where somebody may look."""
    if not _is_shown():
        yield
        return
    said = threading.Event()

    def say() -> None:
        said.set()
        _write(f"jaxwarp: {what} ...\n")

    began = time.perf_counter()
    timer = threading.Timer(AFTER, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if said.is_set():
            _write(f"jaxwarp: {what}: {time.perf_counter() - began:.1f} s\n")


@contextlib.contextmanager
def logged(what: str) -> Iterator[CodeOrigin]:
    """Writes after the block what was compiled, in what time, if `config.log_level` asks for it.

    The block says in the yielded `CodeOrigin` if the code came from the cache.
    """
    origin = CodeOrigin()
    began = time.perf_counter()
    yield origin
    if config.log_level <= LOGGED:
        verb, source = ("loaded", " from the cache") if origin.is_cached else ("compiled", "")
        _write(f"jaxwarp: {verb} {what}{source} in {time.perf_counter() - began:.3f} s\n")


@dataclass
class CodeOrigin:
    """The origin of a piece of code: the cache, or a compiler."""

    is_cached: bool = False


def _is_shown() -> bool:
    if config.progress is not None:
        return config.progress
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except (AttributeError, ValueError):  # a stream that somebody put there, or one that is closed
        return False


def _write(line: str) -> None:
    """Nothing fails because a line cannot be written."""
    with contextlib.suppress(Exception):
        sys.stderr.write(line)
        sys.stderr.flush()
