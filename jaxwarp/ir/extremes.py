"""The smaller and the larger of two floats, as atomics choose them: a NaN is left out, and -0.0 is less than 0.0.

So what an atomic leaves of any number of operands does not depend on their order. IEEE 754 calls these minimumNumber
and maximumNumber.
"""

from __future__ import annotations

import numpy as np


def extreme(kind: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The smaller ("min") or the larger ("max") of two numbers of any type; NaN where both are NaN."""
    takes = np.less if kind == "min" else np.greater
    if not np.issubdtype(a.dtype, np.inexact) and a.dtype.kind != "V":
        return np.where(takes(b, a), b, a)
    sign_a, sign_b = (1 - 2 * np.signbit(x).astype(np.int8) for x in (a, b))
    return np.where(np.isnan(a) | takes(b, a) | ((a == b) & takes(sign_b, sign_a)), b, a)
