"""Basic indices of arrays outside of kernels: integers and slices of the leading axes."""

from __future__ import annotations

from typing import Any

import jax.core
import numpy as np

from jaxwarp.errors import KernelTypeError, KernelValueError, OutOfRangeError


def require_index(where: str, shape: tuple[Any, ...], index: Any) -> tuple[Any, ...]:
    """Integers and slices of the leading axes, in range.

    Raises:
        KernelTypeError, KernelValueError: `index` is something else.
        OutOfRangeError: it is out of range.
    """
    given = index if isinstance(index, tuple) else (index,)
    for part in given:
        if isinstance(part, jax.core.Tracer):
            raise KernelTypeError(
                f"{where}: an index is a number when the function is traced, got the traced value {part}",
                hint="use array.value[index], or index in a kernel",
            )
        is_integer = hasattr(part, "__index__") and not isinstance(part, bool) and np.ndim(part) == 0
        if not isinstance(part, slice) and not is_integer:
            raise KernelTypeError(
                f"{where}: an index is an integer or a slice, got {part!r}",
                hint="write a[1], a[1:3]; for other indices use array.value, or a kernel",
            )
        if isinstance(part, slice) and part.step is not None and not part.step:
            raise KernelValueError(f"{where}: slice step cannot be zero", hint="write a[start:stop]")
    if len(given) > len(shape):
        raise KernelTypeError(
            f"{where} has {len(shape)} axes, got {len(given)} indices", hint=f"write at most {len(shape)}"
        )
    for part, extent in zip(given, shape, strict=False):
        if not isinstance(part, slice) and not -extent <= part < extent:
            raise OutOfRangeError(
                f"{where}: index {part} is out of range, the extent is {extent}",
                hint=f"indices go from 0 to {extent - 1}, or from -{extent} to -1" if extent else "it has no elements",
            )
    return given
