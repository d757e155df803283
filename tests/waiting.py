"""Waiting for what happens a little later, on another thread, however busy the machine is."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], seconds: float = 120) -> None:
    """Waits until a condition holds; where it never does, that is the error.

    XLA frees a program, and what the program holds, on a thread of its own after the last call has returned.
    """
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"still not so after {seconds} seconds"
        gc.collect()
        time.sleep(0.001)


def least_ratio(ours: Callable[[], float], theirs: Callable[[], float], limit: float) -> float:
    """What the first takes of the second's time, each at its fastest in short iterations.

    Where other programs run, most of the iterations are slow; so there are up to 100, fewer once the limit is kept.
    """
    best = [float("inf")] * 2
    for iteration in range(100):
        best = [min(best[0], ours()), min(best[1], theirs())]
        if iteration >= 5 and best[0] < limit * best[1]:
            break
        time.sleep(0.02)
    return best[0] / best[1]
