"""The checks of parameters and gradients for optimisers, which see both as rows of scalars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxwarp.arrays.create import zeros
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.host.checks import require_array
from jaxwarp.types import Scalar, element_scalar, float32, float64


def require_parameters(what: str, given: Any) -> list[HostArray]:
    """Parameters: writable arrays of floats, of vectors or matrices of them.

    Raises:
        KernelTypeError: they are none.
    """
    if not isinstance(given, list | tuple):
        raise KernelTypeError(
            f"{what}: params: expected a list of arrays, got {type_text(given)}", hint=f"write {what}([array])"
        )
    found = [require_array(what, f"params[{i}]", value, is_written=True) for i, value in enumerate(given)]
    for i, array in enumerate(found):
        if not element_scalar(array.dtype).is_float:
            raise KernelTypeError(f"{what}: params[{i}]: expected an array of floats, got one of {array.dtype}")
        if not array.is_contiguous:
            raise KernelValueError(f"{what}: params[{i}] has gaps between its elements", hint="optimise a copy of it")
    return found


def require_gradient(what: str, gradient: Any, params: HostArray) -> HostArray:
    """A gradient: an array like the parameters.

    Raises:
        KernelTypeError, KernelValueError: it is none, or of another type or shape.
    """
    found = require_array(what, "gradient", gradient)
    if found.dtype != params.dtype:
        raise KernelTypeError(
            f"{what}: the gradient's dtype must be the parameters', {params.dtype}, got {found.dtype}"
        )
    if found.shape != params.shape:
        raise KernelValueError(
            f"{what}: the gradient's shape must be the parameters', {params.shape}, got {found.shape}"
        )
    return found


def require_number(what: str, name: str, value: Any) -> float:
    """A number.

    Raises:
        KernelTypeError: it is none.
    """
    try:
        return float(value)
    except (TypeError, ValueError):
        raise KernelTypeError(f"{what}: {name} must be a number, got {value!r}") from None


def accurate(array: HostArray) -> Scalar:
    """The type in which the state of parameters is kept and steps are computed: float64 for these, else float32."""
    return float64 if element_scalar(array.dtype) == float64 else float32


def states_for(params: Sequence[HostArray], states: Sequence[HostArray]) -> list[HostArray]:
    """A state for each of the parameters, on its device: those that there are where they fit, else zeros."""
    kept = states if len(states) == len(params) else [None] * len(params)
    found = []
    for array, state in zip(params, kept, strict=True):
        count = scalars(array).shape[0]
        if state is not None and (state.shape, state.dtype) == ((count,), accurate(array)):
            found.append(state.to(array.device))
        else:
            found.append(zeros(count, accurate(array), device=array.device))
    return found


def scalars(array: HostArray) -> HostArray:
    """The numbers of an array in a row: a view where it has no gaps, else a copy."""
    flat = (array if array.is_contiguous else array.contiguous()).flatten()
    scalar = element_scalar(array.dtype)
    return flat if flat.dtype == scalar else flat.view(scalar).flatten()
