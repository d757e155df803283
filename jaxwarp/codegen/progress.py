"""A line on the terminal while something takes long: what it is, and in the end how long it took."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

from jaxwarp import config

AFTER = 2.0  # seconds that pass in silence


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
