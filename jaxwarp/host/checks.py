"""Requirements that the functions of `jaxwarp.utils` have on their arrays."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from jaxwarp.arrays.host_array import HostArray
from jaxwarp.builtins.language.short_names import AGGREGATES
from jaxwarp.errors import ArrayError, KernelTypeError, KernelValueError, type_text
from jaxwarp.ffi.programs.traced_array import ArrayHandle
from jaxwarp.ffi.programs.tracing import share
from jaxwarp.memory.current import scope_now
from jaxwarp.memory.host_scope import HOST
from jaxwarp.memory.scope import view_of
from jaxwarp.types import Element, Scalar, element_scalar, element_shape


def require_here(what: str, name: str, value: Any, is_written: bool = False) -> Any:
    """An array outside of JAX; in a traced function, one of that function's.

    Raises:
        KernelTypeError: it is none, or `is_written` and it cannot be.
    """
    if scope_now() is not None:
        return require_array(what, name, value, is_written)
    if not isinstance(value, ArrayHandle):
        raise KernelTypeError(
            f"{what}: {name}: expected an array of the function that is traced, got {type(value).__name__}",
            hint="pass it to the jax_callable as an argument",
        )
    if is_written:
        value.require_writable(f"written by {what}")
    return value


def are_apart(one: Any, other: Any) -> bool:
    """Return whether two arrays, both outside of JAX or both of one traced function, have no memory in common."""
    return not (share(one, other) if isinstance(one, ArrayHandle) else one.region.overlaps(other.region))


def require_array(what: str, name: str, value: Any, is_written: bool = False) -> HostArray:
    """An array outside of JAX.

    Raises:
        KernelTypeError: it is none, or `is_written` and it cannot be.
    """
    if not isinstance(value, HostArray):
        raise KernelTypeError(
            f"{what}: {name}: expected an array outside of JAX, got {type_text(value)}",
            hint="make one with array(data); in programs use jnp",
        )
    HOST.require_untraced(value.label, f"used by {what}")
    if is_written:
        value.require_writable(f"written by {what}")
    return value


def are_on_gpu(what: str, named: dict[str, Any]) -> bool:
    """Return whether arrays, all on one device, are on a GPU; of a traced function, JAX knows.

    Raises:
        KernelTypeError: they are on several.
    """
    (first, one), *others = ((name, array) for name, array in named.items() if array is not None)
    for name, array in others:
        if not isinstance(array, ArrayHandle) and array.scope is not one.scope:
            raise KernelTypeError(
                f"{what}: {name}: expected an array on {one.device}, where {first} is, got one on {array.device}",
                hint=f'pass a copy: array.to("{one.device}")',
            )
    return not isinstance(one, ArrayHandle) and not one.device.is_cpu


def require_count(what: str, name: str, value: Any) -> int:
    """A number of elements.

    Raises:
        KernelTypeError, KernelValueError: it is none.
    """
    try:
        count = operator.index(value)
    except TypeError:
        count = None
    if count is None or isinstance(value, bool):
        raise KernelTypeError(f"{what}: {name} must be an integer, got {value!r}")
    if count < 0:
        raise KernelValueError(f"{what}: {name} must be non-negative, got {count}")
    return count


def require_same_type(what: str, names: str, one: HostArray, other: HostArray) -> None:
    """Two arrays of one element type.

    Raises:
        ArrayError: they are of two.
    """
    if one.dtype != other.dtype:
        raise ArrayError(f"{what}: {names} data types do not match ({short(one.dtype)} vs {short(other.dtype)})")


def require_scalars(what: str, array: HostArray, accepted: tuple[Scalar, ...]) -> None:
    """An array of scalars or vectors of these types.

    Raises:
        ArrayError: it is of another.
    """
    if element_scalar(array.dtype) not in accepted or len(element_shape(array.dtype)) > 1:
        raise ArrayError(f"{what}: Unsupported data type: {short(array.dtype)}")


def require_row(what: str, name: str, array: HostArray) -> None:
    """An array whose elements have an order: with one axis, or contiguous.

    Raises:
        ArrayError: it is neither.
    """
    if not array.is_contiguous and array.ndim != 1:
        raise ArrayError(f"{what}: {name} array must be contiguous or one-dimensional")


_SHORT: dict[Any, str] = {element: name for name, element in AGGREGATES.items()}


def short(element: Element) -> str:
    """An element type by its short name, where it has one: float32, vec3h."""
    return _SHORT.get(element, str(element))


def elements(array: HostArray) -> np.ndarray:
    """The elements in order, as a view where there is one: the first axis is theirs, components follow."""
    return view_of(array.region).reshape(array.size, *element_shape(array.dtype))


def put(array: HostArray, values: np.ndarray) -> None:
    """Sets the first elements, in order; the array is contiguous or has one axis."""
    view = view_of(array.region)
    if array.ndim != 1:
        view = view.reshape(array.size, *element_shape(array.dtype))
    view[: len(values)] = values
