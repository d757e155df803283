"""Transforms of seven numbers, as files and NumPy have them."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.quaternions import HostValue
from jaxwarp.types import Transform, float32


@boundary
def transform_expand(t: Any) -> Any:
    """The transform of seven numbers: its position, then its rotation, a quaternion.

    Raises:
        KernelTypeError, KernelValueError: `t` has none, or not seven.
    """
    try:
        numbers = np.array([] if isinstance(t, (str, bytes)) else [float(x) for x in t], np.float32)
    except (TypeError, ValueError):
        raise KernelTypeError(f"transform_expand: t: expected seven numbers, got {t!r}") from None
    if numbers.shape != (7,):
        raise KernelValueError(
            f"transform_expand: t: expected seven numbers, got {numbers.size}",
            hint="the position has three, the quaternion x, y, z, w",
        )
    return HostValue.of(Transform(float32), numbers)
