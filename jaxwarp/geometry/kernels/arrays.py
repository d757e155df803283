"""Arrays on a GPU, outside of JAX, that trees consist of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxwarp.arrays.host_array import HostArray
from jaxwarp.memory.host_scope import HOST
from jaxwarp.types import Array, element_scalar, element_shape, set_fields


def is_on_gpu(value: Any) -> bool:
    """Return whether a value is an array outside of JAX in the memory of a GPU."""
    return isinstance(value, HostArray) and value.scope is not HOST


def place_of(value: Any) -> Any:
    """Return the GPU that an array outside of JAX is on, or None."""
    return value.scope if is_on_gpu(value) else None


def new(place: Any, dtype: Any, count: int) -> HostArray:
    """An array that is still to be written."""
    region = place.new(element_scalar(dtype).numpy, (count, *element_shape(dtype)))
    return HostArray("", Array(dtype, 1), region, is_writable=True)


def sent(place: Any, dtype: Any, values: Any) -> HostArray:
    """An array with numbers of the host."""
    given = np.ascontiguousarray(values, element_scalar(dtype).numpy)
    ndim = given.ndim - len(element_shape(dtype))
    return HostArray("", Array(dtype, ndim), place.uploaded(given), is_writable=True)


def set_zero(array: HostArray) -> None:
    """Write zeros. No tape is told."""
    place: Any = array.scope
    place.set(array.region, np.zeros((), array.region.dtype))


def with_own_memory(value: Any, names: Sequence[str]) -> None:
    """Give an object copies of those arrays of it that are on a GPU, where they change in place."""
    held = vars(value)
    arrays = {name: held[name] for name in names if is_on_gpu(held.get(name))}
    set_fields(value, {name: copied(array) for name, array in arrays.items()})


def copied(array: HostArray) -> HostArray:
    """The array in new memory."""
    place: Any = array.scope
    return HostArray("", array.type, place.duplicated(array.region), is_writable=True)
