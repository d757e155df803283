"""The storage of a field's values at nodes: as they are, or symmetric and skew matrices as vectors."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

import jaxwarp as wp
from jaxwarp.boundary import guarded
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.fem.types import vector
from jaxwarp.types import Mat, as_dtype


@guarded
@dataclass(frozen=True)
class DofMapper:
    """`function` makes a value of what is stored, `inverse` the other way; both are linear."""

    dtype: Any
    dof_dtype: Any
    function: Any
    inverse: Any


@wp.func
def _identity(value: Any):
    return value


def identity(dtype: Any) -> DofMapper:
    """Values are stored as they are."""
    return DofMapper(dtype, dtype, _identity, _identity)


def _unit(n: int, entries: dict[tuple[int, int], float]) -> np.ndarray:
    made = np.zeros((n, n))
    for place, value in entries.items():
        made[place] = value
    return made


# Matrices that are orthogonal, with a sum of squares of 2: deviators are after the first, the multiple of one.
_SYMMETRIC = {
    2: [np.eye(2), np.diag([1.0, -1.0]), _unit(2, {(0, 1): 1.0, (1, 0): 1.0})],
    3: [np.eye(3) * (2.0 / 3.0) ** 0.5, np.diag([1.0, -1.0, 0.0]), np.diag([-1.0, -1.0, 2.0]) / 3.0**0.5,
        *(_unit(3, {(i, j): 1.0, (j, i): 1.0}) for i, j in ((1, 2), (0, 2), (0, 1)))],
}  # fmt: skip
_SKEW = {
    2: [_unit(2, {(0, 1): -1.0, (1, 0): 1.0})],
    3: [_unit(3, {(i, j): -1.0, (j, i): 1.0}) for i, j in ((1, 2), (2, 0), (0, 1))],
}


@functools.cache
def _of_basis(dtype: Any, is_symmetric: bool) -> DofMapper:
    n, scalar = dtype.shape[0], dtype.dtype
    basis = np.array((_SYMMETRIC if is_symmetric else _SKEW)[n])
    size = len(basis)
    dof_dtype = vector(size, scalar) if size > 1 else scalar
    bases = tuple(dtype(*map(float, b.reshape(-1))) for b in basis)

    @wp.func
    def to_value(dof: Any):
        if wp.static(size == 1):
            return wp.static(bases[0]) * dof
        else:
            found = dtype()
            for k in range(size):
                found += wp.static(bases[k]) * dof[k]
            return found

    @wp.func
    def to_dof(value: Any):
        if wp.static(size == 1):
            return wp.ddot(value, wp.static(bases[0])) * scalar(0.5)
        else:
            found = dof_dtype()
            for k in range(size):
                found[k] = wp.ddot(value, wp.static(bases[k])) * scalar(0.5)
            return found

    return DofMapper(dtype, dof_dtype, to_value, to_dof)


def _require_square(what: str, dtype: Any, mapping: Any) -> Any:
    found = as_dtype(dtype)
    if not isinstance(found, Mat) or found.shape not in ((2, 2), (3, 3)):
        raise KernelTypeError(f"{what}: dtype: expected matrices of 2 by 2 or 3 by 3, got {found}")
    if mapping is not None:
        raise KernelValueError(f"{what}: mapping: only the default is available, got {mapping}", hint="leave it out")
    return found


def SymmetricTensorMapper(dtype: Any, mapping: Any = None) -> DofMapper:
    """Symmetric matrices as vectors, whose length is that of the matrix by the square root of 2.

    Args:
        dtype: the matrix type.
        mapping: only None.
    """
    return _of_basis(_require_square("SymmetricTensorMapper", dtype, mapping), True)


def SkewSymmetricTensorMapper(dtype: Any) -> DofMapper:
    """Skew matrices as vectors, or numbers in the plane.

    Args:
        dtype: the matrix type.
    """
    return _of_basis(_require_square("SkewSymmetricTensorMapper", dtype, None), False)
