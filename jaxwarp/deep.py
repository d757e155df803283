"""Room for functions that recurse over a kernel: one of hundreds of nested branches or terms is deeper than Python's
usual limit, and so is a small one in a program that is itself deep in calls. Imports nothing of ours."""

from __future__ import annotations

import contextvars
import functools
import sys
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_FRAMES = 100_000
_STACK_BYTES = 512 * 2**20

# The limit on frames and the size of a thread's stack are settings of the process.
_settings = threading.Lock()


def with_deep_stack(function: Callable[P, R]) -> Callable[P, R]:
    """The function, run again in a thread with a large stack where it exceeds the recursion limit.

    For functions that leave nothing behind when they fail. A RecursionError of that thread is passed on.
    """

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except RecursionError:
            if getattr(_here, "is_deep", False):
                raise
        return _in_thread(functools.partial(function, *args, **kwargs))

    return run


_here = threading.local()


def _in_thread(function: Callable[[], Any]) -> Any:
    context = contextvars.copy_context()
    outcome: list[Any] = []
    errors: list[BaseException] = []

    def work() -> None:
        _here.is_deep = True
        try:
            outcome.append(context.run(function))
        except BaseException as error:
            errors.append(error)

    with _settings:
        limit, size = sys.getrecursionlimit(), threading.stack_size()
        sys.setrecursionlimit(max(limit, _FRAMES))
        threading.stack_size(_STACK_BYTES)
        try:
            thread = threading.Thread(target=work, name="jaxwarp-deep")
            thread.start()
            threading.stack_size(size)
            thread.join()
        finally:
            threading.stack_size(size)
            sys.setrecursionlimit(limit)
    if errors:
        raise errors[0]
    return outcome[0]
