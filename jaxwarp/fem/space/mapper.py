"""The storage of a field's values at nodes: as they are, or symmetric and skew matrices as vectors."""

# pyright: reportRedeclaration=false, reportInvalidTypeForm=false

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

import jaxwarp as wp
from jaxwarp.boundary import boundary, guarded
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.fem.types import matrix, vector
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


# Matrices that are orthogonal, with a sum of squares of 2.
_BESIDE = {
    n: [_unit(n, {(i, j): 1.0, (j, i): 1.0}) for i, j in p] for n, p in ((2, [(0, 1)]), (3, [(1, 2), (0, 2), (0, 1)]))
}
_VOIGT = {n: [*(_unit(n, {(i, i): 2.0**0.5}) for i in range(n)), *_BESIDE[n]] for n in (2, 3)}
_DB16 = {
    2: [np.eye(2), np.diag([1.0, -1.0]), *_BESIDE[2]],
    3: [np.eye(3) * (2.0 / 3.0) ** 0.5, np.diag([1.0, -1.0, 0.0]), np.diag([-1.0, -1.0, 2.0]) / 3.0**0.5, *_BESIDE[3]],
}
_SKEW = {
    2: [_unit(2, {(0, 1): -1.0, (1, 0): 1.0})],
    3: [_unit(3, {(i, j): -1.0, (j, i): 1.0}) for i, j in ((1, 2), (2, 0), (0, 1))],
}


class TensorMapping(enum.Enum):
    """The order of the numbers of a symmetric matrix."""

    VOIGT = 0
    """First the diagonal, then the entries beside it."""
    DB16 = 1
    """First the trace, then the rest of the diagonal, then the entries beside it (Daviet, Bertails-Descoubes 2016)."""


_BASES = {TensorMapping.VOIGT: _VOIGT, TensorMapping.DB16: _DB16, None: _SKEW}


@functools.cache
def _of_basis(dtype: Any, kind: Any) -> DofMapper:
    n, scalar = dtype.shape[0], dtype.dtype
    basis = np.array(_BASES[kind][n])
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


def _require_square(what: str, dtype: Any) -> Any:
    found = as_dtype(dtype)
    if not isinstance(found, Mat) or found.shape not in ((2, 2), (3, 3)):
        raise KernelTypeError(f"{what}: dtype: expected matrices of 2 by 2 or 3 by 3, got {found}")
    return found


def _of_precision(n: int, kind: Any, is_inverse: bool) -> Any:
    """Make a function of matrices, or of what is stored for them, in single and in double precision."""
    single, double = (_of_basis(matrix(n, n, s), kind) for s in (wp.float32, wp.float64))
    given, given_double = (m.dtype if is_inverse else m.dof_dtype for m in (single, double))
    of_single, of_double = (m.inverse if is_inverse else m.function for m in (single, double))

    @wp.func
    def convert(x: given):
        return of_single(x)

    @wp.func
    def convert(x: given_double):
        return of_double(x)

    return convert


class SymmetricTensorMapper(DofMapper):
    """Symmetric matrices as vectors, whose length is that of the matrix by the square root of 2.

    Args:
        dtype: the matrix type.
        mapping: the order of the numbers, `SymmetricTensorMapper.Mapping.VOIGT` or `DB16`.
    """

    Mapping = TensorMapping
    dof_to_value_2d = _of_precision(2, TensorMapping.DB16, False)
    dof_to_value_3d = _of_precision(3, TensorMapping.DB16, False)
    value_to_dof_2d = _of_precision(2, TensorMapping.DB16, True)
    value_to_dof_3d = _of_precision(3, TensorMapping.DB16, True)
    dof_to_value_2d_voigt = _of_precision(2, TensorMapping.VOIGT, False)
    dof_to_value_3d_voigt = _of_precision(3, TensorMapping.VOIGT, False)
    value_to_dof_2d_voigt = _of_precision(2, TensorMapping.VOIGT, True)
    value_to_dof_3d_voigt = _of_precision(3, TensorMapping.VOIGT, True)

    @boundary
    def __init__(self, dtype: Any, mapping: TensorMapping = TensorMapping.VOIGT) -> None:
        if not isinstance(mapping, TensorMapping):
            raise KernelValueError(
                f"SymmetricTensorMapper: mapping: expected SymmetricTensorMapper.Mapping.VOIGT or DB16, got {mapping!r}"
            )
        made = _of_basis(_require_square("SymmetricTensorMapper", dtype), mapping)
        super().__init__(made.dtype, made.dof_dtype, made.function, made.inverse)


def SkewSymmetricTensorMapper(dtype: Any) -> DofMapper:
    """Skew matrices as vectors, or numbers in the plane.

    Args:
        dtype: the matrix type.
    """
    return _of_basis(_require_square("SkewSymmetricTensorMapper", dtype), None)
