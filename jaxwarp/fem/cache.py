"""Names of programs for Warp that reuse kernels and memory: `fem.cache`. Both are kept here anyway."""

from __future__ import annotations

from typing import Any

import jaxwarp as wp
from jaxwarp.boundary import boundary, guarded
from jaxwarp.decorators import func, kernel
from jaxwarp.errors import KernelTypeError


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


@guarded
class Temporary:
    """A new array that goes when it is no longer used."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def detach(self) -> Any:
        return self.array

    def release(self) -> None:
        """Does nothing: the array goes by itself."""


def set_default_temporary_store(temporary_store: Any) -> None:
    """Does nothing.

    Args:
        temporary_store: accepted, no effect.
    """
    del temporary_store


@boundary
def borrow_temporary(temporary_store: Any, dtype: Any, shape: Any = None, pinned: bool = False,
                     requires_grad: bool = False, device: Any = None) -> Temporary:  # fmt: skip
    """A new array of zeros, in `array`.

    Args:
        temporary_store, pinned: accepted, no effect.
        dtype, shape, requires_grad, device: as of `wp.zeros`.
    """
    del temporary_store, pinned
    if shape is None:
        raise KernelTypeError("borrow_temporary: shape: expected extents, got None")
    return Temporary(wp.zeros(shape, dtype=dtype, device=device, requires_grad=requires_grad))


@boundary
def borrow_temporary_like(array: Any, temporary_store: Any = None) -> Temporary:
    """A new array of zeros like another one, in `array`.

    Args:
        array: the other one.
        temporary_store: accepted, no effect.
    """
    del temporary_store
    return Temporary(wp.zeros_like(array.array if isinstance(array, Temporary) else array))
