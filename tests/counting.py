"""What a piece of Python does, counted: a busy machine changes nothing."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable


def calls_of(function: Callable[[], object]) -> int:
    """How many calls of Python and built-in functions it makes."""
    count = 0

    def seen(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before, is_collecting = sys.getprofile(), gc.isenabled()
    gc.disable()  # what it calls is not the function's
    sys.setprofile(seen)
    try:
        function()
    finally:
        sys.setprofile(before)
        if is_collecting:
            gc.enable()
    return count
