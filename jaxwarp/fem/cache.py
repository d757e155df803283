"""Names of programs for Warp that reuse kernels and memory: `fem.cache`. Both are kept here anyway."""

from __future__ import annotations

import weakref
from typing import Any

import jaxwarp as wp
from jaxwarp.boundary import boundary, guarded
from jaxwarp.decorators import func, kernel
from jaxwarp.errors import KernelValueError


def dynamic_kernel(suffix: Any = "", kernel_options: Any = None, **_: Any) -> Any:
    """`@wp.kernel`.

    Args:
        suffix, kernel_options: accepted, no effect.
    """
    del suffix, kernel_options
    return kernel


def dynamic_func(suffix: Any = "", **_: Any) -> Any:
    """`@wp.func`.

    Args:
        suffix: accepted, no effect.
    """
    del suffix
    return func


@guarded
class TemporaryStore:
    """The place where Warp keeps temporary arrays. jaxwarp keeps nothing in it."""

    def clear(self) -> None:
        """Does nothing."""


Temporary = wp.array
"""What `borrow_temporary` gives: an array, which goes when it is no longer used."""


def set_default_temporary_store(temporary_store: Any) -> None:
    """Does nothing.

    Args:
        temporary_store: accepted, no effect.
    """
    del temporary_store


@boundary
def borrow_temporary(temporary_store: Any, shape: Any, dtype: Any, pinned: bool = False, requires_grad: bool = False,
                     device: Any = None) -> Any:  # fmt: skip
    """Make an array of zeros. Its `detach()` returns the array itself; its `release()` does nothing.

    Args:
        temporary_store, pinned: accepted, no effect.
        shape, dtype, requires_grad, device: as of `wp.zeros`.
    """
    del temporary_store, pinned
    return _temporary(wp.zeros(shape, dtype=dtype, device=device, requires_grad=requires_grad))


@boundary
def borrow_temporary_like(array: Any, temporary_store: Any = None) -> Any:
    """Make an array of zeros like another one, with the methods that `borrow_temporary` adds.

    Args:
        array: the other one.
        temporary_store: accepted, no effect.
    """
    del temporary_store
    return _temporary(wp.zeros_like(array))


def _temporary(array: Any) -> Any:
    array.detach = _Detach(array)
    array.release = _release
    return array


class _Detach:
    """`detach` of one temporary. A strong reference would keep its memory until the next collection of garbage."""

    def __init__(self, array: Any):
        self._array = weakref.ref(array)

    def __call__(self) -> Any:
        array = self._array()
        if array is None:
            raise KernelValueError(
                "borrow_temporary: detach(): the temporary is no longer used, and its memory is gone",
                hint="give it a name first: t = borrow_temporary(...); or leave detach() out, as it is an array",
            )
        return array


def _release() -> None:
    """Do nothing: the memory goes with the array."""
