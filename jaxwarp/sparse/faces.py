"""One launch for both faces: new arrays outside of JAX, whose launches a tape records, or results of JAX."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.types import as_dtype, element_scalar, element_shape


def evaluated(kernel: Any, dim: Any, inputs: Sequence[Any], outputs: Sequence[tuple[Any, Any]]) -> list[Any]:
    """Launch a kernel and return its last arguments, which are zero before the launch.

    Args:
        outputs: extents and element type of each.
    """
    arrays = [value for value in inputs if isinstance(value, HostArray)]
    if arrays:
        needs = any(array.requires_grad for array in arrays)
        made = [wp.zeros(n, dtype=t, device=arrays[0].device, requires_grad=needs) for n, t in outputs]
        wp.launch(kernel, dim, list(inputs), made, device=arrays[0].device)
        return made
    shapes = {name: _extents(n) for name, (n, _) in zip(_names(kernel)[len(inputs) :], outputs, strict=True)}
    if 0 in _extents(dim):
        elements = [as_dtype(t) for _, t in outputs]
        both = zip(outputs, elements, strict=True)
        return [jnp.zeros((*_extents(n), *element_shape(t)), element_scalar(t).numpy) for (n, _), t in both]
    return _of_jax(kernel, len(outputs))(*inputs, launch_dims=dim, output_dims=shapes)


def _extents(dim: Any) -> tuple[int, ...]:
    return tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)


def _names(kernel: Any) -> list[str]:
    return [argument.name for argument in kernel.arguments]


@functools.lru_cache(maxsize=1024)
def _of_jax(kernel: Any, count: int) -> Any:
    return wp.jax_kernel(kernel, num_outputs=count)


def is_number(value: Any) -> bool:
    """Return whether a value is a number of Python or NumPy, so that it is known."""
    return isinstance(value, (bool, int, float, np.generic))


def is_zero(value: Any) -> bool:
    """Return whether a factor is known to be zero. Then what it multiplies is not read."""
    return is_number(value) and value == 0


def require_factor(what: str, name: str, value: Any, scalar: Any) -> Any:
    """A number, or one of JAX, that matrices of a scalar type can be multiplied by.

    Raises:
        KernelTypeError, KernelValueError: it is none, or not an integer where they are of integers.
    """
    kind = value.dtype.kind if hasattr(value, "dtype") and np.ndim(value) == 0 else "f" if is_number(value) else ""
    if kind not in ("b", "i", "u", "f", "V"):  # V: bfloat16 and the like; not complex ones, nor names
        raise KernelTypeError(f"{what}: {name}: expected a number, got {value!r}")
    if not (scalar.is_float or _is_exact(scalar.numpy, value)):
        raise KernelValueError(
            f"{what}: {name}: expected a number of {scalar}, as the matrix is, got {value!r}",
            hint="convert the matrix: bsr_copy(A, scalar_type=float)",
        )
    return value


def _is_exact(dtype: np.dtype[Any], value: Any) -> bool:
    if not is_number(value):
        return value.dtype.kind in "iub"
    try:
        return bool(dtype.type(value) == value)
    except (OverflowError, ValueError):
        return False


def number(matrix: Any, value: Any) -> Any:
    """A factor as a number of a matrix's type; traced ones stay what they are."""
    return scale_of(matrix.scalar_type, value)


def scale_of(scalar: Any, value: Any) -> Any:
    """A factor as a number of a type."""
    return scalar.numpy.type(value) if is_number(value) else jnp.asarray(value, scalar.numpy)


def require_extent(what: str, name: str, value: Any) -> int:
    """A number of rows, columns or blocks.

    Raises:
        KernelTypeError, KernelValueError: it is none.
    """
    try:
        count = operator.index(value)
    except TypeError:
        raise KernelTypeError(f"{what}: {name}: expected an integer, got {value!r}") from None
    if not 0 <= count < 2**31:
        raise KernelValueError(f"{what}: {name} must be nonnegative, and below 2^31, got {count}")
    return count
