"""The limits that end a solver: tolerances and numbers of iterations."""

from __future__ import annotations

import contextlib
from typing import Any

from jaxwarp.errors import KernelValueError
from jaxwarp.types import float16, float64

_EPSILONS = {float16: 1e-4, float64: 1e-16}
# With a relative tolerance of 1 a derivative would be 0, whatever it is.
_LOOSEST = 1e-2


def require_tolerances(what: str, scalar: Any, tol: Any, atol: Any) -> tuple[float, float]:
    """The relative and the absolute one; None is the other one, or a default of the type.

    Raises:
        KernelValueError: they are no such numbers.
    """
    epsilon = _EPSILONS.get(scalar, 1e-8)
    given = []
    for name, value in (("tol", tol), ("atol", atol)):
        number = None
        if value is not None:
            with contextlib.suppress(TypeError, ValueError):
                number = float(value)
            if number is None or not number >= 0.0:
                raise KernelValueError(f"{what}: {name}: expected a number that is not negative, got {value!r}")
        given.append(number)
    relative, absolute = given
    default = epsilon**0.75 if absolute is None else absolute
    relative = default if relative is None else relative
    return relative, max(relative if absolute is None else absolute, epsilon**2.25)


def tolerance_of_derivatives(scalar: Any, tol: Any) -> float:
    """The relative tolerance of systems that give derivatives: `tol` where that is one, never the absolute one."""
    return min(float(tol or 0.0) or _EPSILONS.get(scalar, 1e-8) ** 0.75, _LOOSEST)


def require_iterations(what: str, maxiter: Any) -> int | None:
    """Return how many iterations there may be, or None if that follows from the size.

    Raises:
        KernelValueError: it is no such number.
    """
    try:
        found = 0.0 if maxiter is None else float(maxiter)
    except (TypeError, ValueError):
        found = -1.0
    if not found >= 0.0:
        raise KernelValueError(f"{what}: maxiter: expected a number that is not negative, got {maxiter!r}")
    return None if found == 0.0 else max(1, int(min(found, 2**31 - 1)))
