"""Replacements for code that takes a lock of Python's.

As the process ends, a daemon thread that is stopped while it has a lock never releases it, and Python's last finalizers
would wait for it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

import numpy as np

T = TypeVar("T")


class cached_property(Generic[T]):  # noqa: N801 - as in functools
    """A property like `functools.cached_property` from Python 3.12 on. In 3.11 it has a lock that all objects share."""

    def __init__(self, function: Callable[[Any], T]):
        self.func, self.name, self.__doc__ = function, function.__name__, function.__doc__

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> cached_property[T]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> cached_property[T] | T:
        if instance is None:
            return self
        # Found there from now on, before this method.
        value = instance.__dict__[self.name] = self.func(instance)
        return value


_from_buffer: Callable[[Any], ctypes.c_char] = ctypes.c_char.from_buffer
_NUMBERS = 17  # NumPy's types from here on have no buffers


def address_of(array: np.ndarray) -> int:
    """Return the address of an array.

    For a contiguous, writable array of numbers this takes a third of the time. `array.ctypes` is not used: it imports a
    module each time, which takes a lock.
    """
    if array.dtype.num < _NUMBERS and array.flags.carray and array.size:
        return ctypes.addressof(_from_buffer(array))
    return array.__array_interface__["data"][0]
