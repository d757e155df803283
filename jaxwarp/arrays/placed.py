"""Arrays outside of JAX at addresses and with strides that a caller names."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.struct_array import array_at
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.memory.host_scope import Outside
from jaxwarp.memory.region import Region, dense_strides
from jaxwarp.structs.records import memory_axes, memory_dtype
from jaxwarp.types import Array, Element, Struct


class _Foreign:
    """Stands for memory of somebody else's: when no array has it any more, its deleter is called."""

    def __init__(self, deleter: Callable[[int, int], Any] | None, address: int, size: int):
        self.deleter = deleter
        if deleter is not None:
            weakref.finalize(self, deleter, address, size)


def placed_array(
    place: Outside,
    name: str,
    element: Element | Struct,
    shape: tuple[int, ...],
    ptr: int | None,
    strides: Sequence[int] | int | None,
    capacity: int | None,
    deleter: Callable[[int, int], Any] | None,
) -> HostArray:
    """An array at an address, or, without one, of new memory; `strides` are of its axes, in bytes.

    Raises:
        KernelTypeError, KernelValueError: the options do not fit each other.
    """
    if ptr is None and (deleter is not None or capacity is not None):
        raise KernelTypeError(f"{name}(...): deleter and capacity are for arrays at an address", hint="write ptr=")
    if ptr is not None and (isinstance(ptr, bool) or not hasattr(ptr, "__index__") or (not ptr and 0 not in shape)):
        raise KernelTypeError(f"{name}(...): ptr: expected an address, got {ptr!r}", hint="write array.ctypes.data")
    dtype, inner = memory_dtype(element), memory_axes(element)
    found = dense_strides((*shape, *inner), dtype.itemsize)
    strides = (strides,) if isinstance(strides, int) else strides
    if strides is not None:
        if len(strides) != len(shape) or any(isinstance(s, bool) or not hasattr(s, "__index__") for s in strides):
            raise KernelValueError(
                f"{name}(...): strides: expected {len(shape)} numbers of bytes, got {strides!r}",
                hint="write one for each axis of shape",
            )
        found = (*(int(s) for s in strides), *found[len(shape) :])
    region = Region(int(ptr or 0), dtype, (*shape, *inner), found)
    low, high = region.span
    if ptr is None:
        if low != region.address:
            raise KernelValueError(f"{name}(...): strides: a new array has none below 0", hint="take array[::-1]")
        made = place.make(memory_dtype(element), (-(-(high - low) // dtype.itemsize),))
        return array_at(name, Array(element, len(shape)), Region(made.address, *_layout(region), made.owner), True)
    if capacity is not None and not (low == region.address and high - low <= capacity):
        raise KernelValueError(
            f"{name}(...): capacity: the array reaches from {low - region.address} to {high - region.address} bytes,"
            f" beyond {capacity}",
            hint="pass the bytes from ptr to the end of the memory",
        )
    owner = _Foreign(deleter, region.address, high - low if capacity is None else capacity)
    kept = place.taken(owner)
    return array_at(name, Array(element, len(shape)), Region(region.address, *_layout(region), kept), True)


def _layout(region: Region) -> tuple[Any, tuple[int, ...], tuple[int, ...]]:
    return region.dtype, region.shape, region.strides
