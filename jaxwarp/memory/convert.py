"""Values of the host on their way into arrays of a known type."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import numpy as np

from jaxwarp.conversions import as_numbers, converted, kind_of, require_unmasked
from jaxwarp.errors import KernelTypeError, type_text


def as_values(source: object, dtype: np.dtype, where: str) -> np.ndarray:
    """`source` as an array to be copied to one of `dtype`.

    Python numbers adapt, and so do 64-bit data of the same kind, which JAX makes 32-bit too.

    Raises:
        KernelTypeError, KernelValueError: `source` is no array, or its numbers do not exist in `dtype`.
    """
    if source is None or isinstance(source, (str, bytes)):
        raise KernelTypeError(
            f"{where}: expected an array, got {type_text(source)}", hint="pass an array, or np.asarray(values)"
        )
    require_unmasked(source)
    values = as_numbers(source)
    is_python = isinstance(source, (bool, int, float, list, tuple))
    kind, given = kind_of(dtype), kind_of(values.dtype)
    if given == "other":
        raise KernelTypeError(
            f"{where}: expected an array of numbers, got {type_text(source)}",
            hint="pass numbers in equal rows: np.asarray(values)",
        )
    if values.dtype != dtype and kind == given and kind != "complex" and (is_python or values.dtype.itemsize == 8):
        return converted(values, dtype, where)
    return values


def taken_apart(values: np.ndarray, components: tuple[int, ...]) -> np.ndarray:
    """The values with the component axes of an element type, if their last axis has the numbers of whole elements."""
    if not components or not values.ndim or values.shape[-len(components) :] == components:
        return values
    count, last = math.prod(components), values.shape[-1]
    if last % count:
        return values
    return values.reshape(*values.shape[:-1], *([] if last == count else [last // count]), *components)


def as_element(value: object, dtype: np.dtype, components: tuple[int, ...], where: str) -> np.ndarray:
    """A value to fill with: a number, or an array of an element's shape.

    Raises:
        KernelTypeError, KernelValueError: it is neither, or does not exist in `dtype`.
    """
    if isinstance(value, (float, int)) and value != 0:  # -0.0 is equal to another number
        return _number_element(value, dtype, components, where)
    return _element(value, dtype, components, where)


@functools.lru_cache(maxsize=256, typed=True)
def _number_element(value: float, dtype: np.dtype, components: tuple[int, ...], where: str) -> np.ndarray:
    return _element(value, dtype, components, where)


def _element(value: object, dtype: np.dtype, components: tuple[int, ...], where: str) -> np.ndarray:
    given = np.asarray(value)
    if len(components) > 1 and given.shape == (math.prod(components),):
        given = given.reshape(components)
    if given.shape not in ((), components):
        expected = "a number" if not components else f"a number or an array of shape {components}"
        raise KernelTypeError(
            f"{where}: expected {expected} to fill it with, got an array of shape {given.shape}",
            hint="copy an array with assign(values)",
        )
    if kind_of(given.dtype) == "other":
        raise KernelTypeError(f"{where}: expected a number to fill it with, got {value!r}", hint="write fill_(0.0)")
    return np.broadcast_to(converted(given, dtype, where), components)


@functools.lru_cache(maxsize=256)
def zero_element(dtype: np.dtype, components: tuple[int, ...]) -> np.ndarray:
    """The element that is zero everywhere, to fill with."""
    made = np.zeros(components, dtype)
    made.flags.writeable = False
    return made


def cast_values(values: np.ndarray, dtype: np.dtype, where: str) -> np.ndarray:
    """An array converted to a type that somebody asks for.

    Raises:
        KernelTypeError, KernelValueError: it is none of numbers, or has numbers that do not exist in `dtype`.
    """
    if kind_of(values.dtype) in ("other", "complex"):
        raise KernelTypeError(
            f"{where}: expected an array of numbers, got one of {values.dtype}",
            hint="pass numbers of a type of the kernel language: values.astype('float32')",
        )
    return values if values.dtype == dtype else converted(values, dtype, where)


def taken(values: np.ndarray, dtype: np.dtype, where: str) -> np.ndarray:
    """A copy that JAX can be given: it reads memory some time after the call, when that may have changed, also to copy
    it (`jnp.array(values, copy=True)`).

    Raises:
        KernelTypeError, KernelValueError: as `cast_values`; JAX itself would drop bits of 64-bit integers.
    """
    found = cast_values(values, dtype, where)
    return values.copy() if found is values else found


def for_jax(value: Any, where: str) -> Any:
    """An array of NumPy as JAX can be given it, of the type that JAX holds it in: `taken`. Anything else as it is."""
    if type(value) is not np.ndarray or value.dtype.kind not in "biuf":
        return value
    return taken(value, jax.dtypes.canonicalize_dtype(value.dtype), where)
