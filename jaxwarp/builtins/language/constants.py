"""Mathematical constants of the language, in both spellings. In a kernel they are literals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelTypeError, type_text

_VALUES = {
    "pi": math.pi,
    "half_pi": math.pi / 2,
    "tau": math.tau,
    "e": math.e,
    "log2e": math.log2(math.e),
    "log10e": math.log10(math.e),
    "ln2": math.log(2.0),
    "ln10": math.log(10.0),
    "phi": (1.0 + math.sqrt(5.0)) / 2.0,
    "inf": math.inf,
    "nan": math.nan,
}

CONSTANTS: dict[str, float] = _VALUES | {name.upper(): value for name, value in _VALUES.items()}


@boundary
def constant(x: float) -> Any:
    """Warp's mark of a constant: the value itself. Here what a kernel names is one: numbers, vectors, matrices, texts.

    Raises:
        KernelTypeError: the value is none of these.
    """
    if not isinstance(x, (bool, int, float, str, np.generic, np.ndarray)):
        raise KernelTypeError(
            f"constant: expected a number, a vector, a matrix or a text, got {type_text(x)}",
            hint="write constant(3.0), constant(vec3(1.0, 2.0, 3.0))",
        )
    return x
