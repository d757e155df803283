"""Numbers and places that callers give, checked: what is wrong with them is said of the argument."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxwarp.errors import KernelTypeError, KernelValueError, type_text


def number(where: str, name: str, value: Any, above: float = -math.inf) -> float:
    """A finite number, more than `above`.

    Raises:
        KernelTypeError, KernelValueError: it is something else.
    """
    expected = "a finite number" if above == -math.inf else "a positive finite number"
    if isinstance(value, bool) or not (isinstance(value, numbers.Real) or (np.ndim(value) == 0 and _is_real(value))):
        raise KernelTypeError(
            f"{where}: {name}: expected {expected}, got {type_text(value)}", hint="write a number: 0.5"
        )
    found = float(value)
    if not (math.isfinite(found) and found > above):
        raise KernelValueError(f"{where}: {name}: expected {expected}, got {value}", hint="write a number: 0.5")
    return found


def _is_real(value: Any) -> bool:
    return getattr(getattr(value, "dtype", None), "kind", "") in ("i", "u", "f")


def integer(where: str, name: str, value: Any, least: int, most: int) -> int:
    """An integer in a range, which includes its ends.

    Raises:
        KernelTypeError, KernelValueError: it is something else.
    """
    is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_integer or not least <= int(value) <= most:
        raise (KernelValueError if is_integer else KernelTypeError)(
            f"{where}: {name}: expected {least} to {most}, got {value!r}", hint="write an integer in that range"
        )
    return int(value)


def place(where: str, name: str, value: Any) -> list[float]:
    """Three finite coordinates.

    Raises:
        KernelTypeError, KernelValueError: it is something else.
    """
    is_listed = isinstance(value, (Sequence, np.ndarray)) or hasattr(value, "__array__")
    given = list(value) if is_listed and not isinstance(value, str) and np.ndim(value) > 0 else [value]
    if len(given) != 3:
        raise KernelValueError(
            f"{where}: {name}: expected three coordinates, got {value!r}", hint="write (0.0, 0.0, 0.0), or a vec3"
        )
    return [number(where, name, x) for x in given]
