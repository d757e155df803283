"""Arithmetic of IEEE 754 in Python code that XLA calls: XLA runs CPU programs with subnormals flushed to zero."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_DEFAULT_ENVIRONMENT = -1  # FE_DFL_ENV of Linux's C libraries: as a program starts, subnormal numbers included
_ENVIRONMENT_BYTES = 128  # more than any fenv_t


@functools.cache
def _library() -> Any:
    try:
        library = ctypes.CDLL("libm.so.6")
    except OSError:  # not glibc: then the functions are in the C library, which every process has
        library = ctypes.CDLL(None)
    library.fegetenv.argtypes = library.fesetenv.argtypes = [ctypes.c_void_p]
    return library


@contextmanager
def ieee_arithmetic() -> Iterator[None]:
    """Nothing is flushed to zero in the `with`; afterwards this thread computes as before."""
    library, saved = _library(), ctypes.create_string_buffer(_ENVIRONMENT_BYTES)
    library.fegetenv(saved)
    library.fesetenv(_DEFAULT_ENVIRONMENT)
    try:
        yield
    finally:
        library.fesetenv(saved)
