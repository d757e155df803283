"""Arithmetic of IEEE 754 in Python code that XLA calls: XLA runs CPU programs with subnormals flushed to zero."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

_DEFAULT_ENVIRONMENT = -1  # FE_DFL_ENV of Linux's C libraries: as a program starts, subnormal numbers included
_Environment = ctypes.c_char * 128  # more than any fenv_t


@functools.cache
def _library() -> Any:
    try:
        library = ctypes.CDLL("libm.so.6")
    except OSError:  # not glibc: then the functions are in the C library, which every process has
        library = ctypes.CDLL(None)
    library.fegetenv.argtypes = library.fesetenv.argtypes = [ctypes.c_void_p]
    return library


class ieee_arithmetic:  # noqa: N801 - used as a function
    """Nothing is flushed to zero in the `with`; afterwards this thread computes as before."""

    __slots__ = ("_saved",)

    def __enter__(self) -> None:
        library, self._saved = _library(), _Environment()
        library.fegetenv(self._saved)
        library.fesetenv(_DEFAULT_ENVIRONMENT)

    def __exit__(self, *_: object) -> None:
        _library().fesetenv(self._saved)
