"""What a piece of Python does, counted: a busy machine changes nothing."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def profiled(note: Callable[..., Any]) -> Iterator[None]:
    """Calls `note` for each event of Python's profiler."""
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)


def calls_of(function: Callable[[], object]) -> int:
    """How many calls of Python and built-in functions it makes."""
    count = 0

    def seen(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    is_collecting = gc.isenabled()
    gc.disable()  # what it calls is not the function's
    try:
        with profiled(seen):
            function()
    finally:
        if is_collecting:
            gc.enable()
    return count
