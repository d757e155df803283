"""What programs for Warp ask about types: `types.type_size(vec3)`."""

from __future__ import annotations

import math
from typing import Any

from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelTypeError
from jaxwarp.types.elements import as_dtype, element_scalar
from jaxwarp.types.scalars import Scalar


@boundary
def type_size(t: Any) -> int:
    """How many components a value of an element type has: 1 for scalars.

    Raises:
        KernelTypeError: `t` is no element type, or a generic one.
    """
    shape = () if isinstance(found := as_dtype(t), Scalar) else getattr(found, "shape", None)
    if shape is None or not all(isinstance(n, int) for n in shape):
        raise KernelTypeError(f"type_size: expected a type of known components, got {t!r}", hint="write vec3 or float")
    return math.prod(shape)


@boundary
def type_size_in_bytes(t: Any) -> int:
    """How many bytes an element of a type takes in an array.

    Raises:
        KernelTypeError: `t` is no element type, or a generic one.
    """
    size, scalar = type_size(t), element_scalar(as_dtype(t))
    if not isinstance(scalar, Scalar):
        raise KernelTypeError(f"type_size_in_bytes: expected a type that is not generic, got {t!r}", hint="write vec3h")
    return size * scalar.bytes
