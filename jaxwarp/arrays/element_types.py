"""Element types by the names that NumPy and JAX have for them, and back."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelTypeError
from jaxwarp.types import (
    SCALAR_BY_DTYPE,
    Element,
    Scalar,
    as_dtype,
    element_scalar,
)


def scalar_of_numpy(name: str, dtype: np.dtype) -> Scalar:
    """The type of data that come from NumPy; `name` is the function that was given them."""
    if dtype not in SCALAR_BY_DTYPE:
        raise KernelTypeError(
            f"{name}(...): data: expected numbers of a type of the kernel language, got {dtype}",
            hint="convert the data: data.astype('float32')",
        )
    return SCALAR_BY_DTYPE[dtype]


@boundary
def dtype_from_numpy(numpy_dtype: Any) -> Scalar:
    """The element type that a type of NumPy is.

    Raises:
        KernelTypeError: kernels have no such type.
    """
    return _from_dtype("dtype_from_numpy", numpy_dtype)


@boundary
def dtype_to_numpy(warp_dtype: Any) -> np.dtype:
    """The type of NumPy that the components of an element type have.

    Raises:
        KernelTypeError: it is no element type.
    """
    return element_scalar(concrete("dtype_to_numpy", warp_dtype)).numpy


@boundary
def dtype_from_jax(jax_dtype: Any) -> Scalar:
    """The element type that a type of JAX is.

    Raises:
        KernelTypeError: kernels have no such type.
    """
    return _from_dtype("dtype_from_jax", jax_dtype)


@boundary
def dtype_to_jax(warp_dtype: Any) -> Any:
    """Return JAX's type for an element type, such as `jnp.float32`.

    Raises:
        KernelTypeError: it is no scalar type.
    """
    element = concrete("dtype_to_jax", warp_dtype)
    if not isinstance(element, Scalar):
        raise KernelTypeError(
            f"dtype_to_jax: expected a scalar type, got {element!r}; JAX has axes for components",
            hint="write its scalar type: float32 for vec3",
        )
    return getattr(jnp, "bool_" if element.kind == "bool" else element.name)


def concrete(where: str, dtype: Any) -> Element:
    """An element type, as users write it, that leaves nothing open."""
    element = as_dtype(dtype)
    if element is Any or not isinstance(element_scalar(element), Scalar):
        raise KernelTypeError(
            f"{where}: expected an element type, got {dtype!r}",
            hint="write float, int, float64, vec3 or another type of jaxwarp",
        )
    return element


def _from_dtype(where: str, dtype: Any) -> Scalar:
    try:
        return SCALAR_BY_DTYPE[np.dtype(dtype)]
    except (TypeError, ValueError, KeyError):
        raise KernelTypeError(
            f"{where}: expected a type of the kernel language, got {dtype!r}",
            hint="convert the data to one of them, say float32",
        ) from None
