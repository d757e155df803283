"""Numbers of the host as numbers of another type: those that the type does not have are refused."""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np

from jaxwarp.errors import KernelTypeError, KernelValueError


@functools.lru_cache(maxsize=256)
def kind_of(dtype: np.dtype) -> str:
    """ "bool", "int", "float", "complex" or "other"."""
    if dtype.kind in "biufc":
        return {"b": "bool", "i": "int", "u": "int", "f": "float", "c": "complex"}[dtype.kind]
    try:
        ml_dtypes.finfo(dtype)
    except (TypeError, ValueError):
        return "other"
    return "float"


def require_whole(values: Any, dtype: Any, where: str) -> None:
    """
    Args:
        dtype: the type of integers that they are for.

    Raises:
        KernelValueError: they have fractions, are NaN, or floats that are larger than any integer is.
    """
    given = np.asarray(values)
    if kind_of(given.dtype) != "float":
        return
    exact = given.astype(np.float64).reshape(-1)
    most = 2.0**64 if str(dtype).startswith("u") else 2.0**63
    wrong = exact[~((exact >= -(2.0**63)) & (exact < most) & (exact == np.trunc(exact)))]
    if wrong.size:
        raise KernelValueError(
            f"{where}: expected whole numbers, of {dtype}, got {wrong[0].item()}",
            hint="round them first: round(x), np.round(values)",
        )


def as_numbers(value: Any) -> np.ndarray:
    """Return numbers as an array. Integers from 2**63, of which NumPy makes floats beside others, stay integers."""
    made = np.asarray(value)
    if made.dtype == np.float64 and isinstance(value, (list, tuple)):
        exact = np.asarray(value, dtype=object).reshape(-1).tolist()
        if all(isinstance(x, (int, np.integer)) for x in exact) and min(exact, default=-1) >= 0:
            return np.array(exact, np.uint64).reshape(made.shape) if max(exact) < 2**64 else made
    return made


def converted(values: np.ndarray, dtype: np.dtype, where: str) -> np.ndarray:
    """An array of numbers as one of `dtype`; of floats the nearest ones.

    Raises:
        KernelValueError: `dtype` is of integers, and has not all of them.
    """
    if kind_of(dtype) == "int" and kind_of(values.dtype) in ("int", "float"):
        least, most = limits_of(dtype)
        exact = values if kind_of(values.dtype) == "int" else values.astype(np.float64)
        # As Python's numbers, which are compared exactly: 2**63 is no int64. NaN is neither.
        if exact.size and not (exact.min().item() >= least and exact.max().item() <= most):
            raise KernelValueError(
                f"{where}: expected values of {dtype}, from {least} to {most}",
                hint="choose a larger type, or take the values that fit",
            )
        require_whole(values, dtype, where)
    with np.errstate(all="ignore"):
        return values.astype(dtype)


@functools.cache
def limits_of(dtype: np.dtype) -> tuple[int, int]:
    """Return the least and the largest integer of a type. NumPy takes 15 microseconds to say them."""
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def require_unmasked(value: Any) -> None:
    """
    Raises:
        KernelTypeError: an array of NumPy with a mask, which kernels do not see.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise KernelTypeError(
            f"a masked array of NumPy, of shape {value.shape}: kernels do not see the mask",
            hint="pass value.filled(...), and np.ma.getmaskarray(value) too where the kernel is to know",
        )
