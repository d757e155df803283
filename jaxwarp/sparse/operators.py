"""Operators of matrices, on the functions of this folder."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import boundary
from jaxwarp.sparse.copying import bsr_copy, bsr_transposed
from jaxwarp.sparse.expressions import Scaled, matrix_and_scale
from jaxwarp.sparse.faces import require_factor
from jaxwarp.sparse.matrix import BsrMatrix, is_outside
from jaxwarp.sparse.products import bsr_mm
from jaxwarp.sparse.sums import bsr_axpy, bsr_scale
from jaxwarp.sparse.vector_products import bsr_mv


def _is_vector(value: Any) -> bool:
    return isinstance(value, (HostArray, jax.Array, np.ndarray)) and np.ndim(value) > 0


def _is_matrix(value: Any) -> bool:
    return isinstance(value, (BsrMatrix, Scaled))


def _matmul(self: Any, other: Any) -> Any:
    """`A @ x`, `A @ B`."""
    if _is_matrix(other):
        return bsr_mm(self, other)
    return bsr_mv(self, other) if _is_vector(other) else NotImplemented


def _rmatmul(self: Any, other: Any) -> Any:
    return bsr_mv(self, other, transpose=True) if _is_vector(other) else NotImplemented


def _imatmul(self: Any, other: Any) -> Any:
    return bsr_mm(self, other, self if is_outside(self) else None) if _is_matrix(other) else NotImplemented


def _added(x: Any, y: Any, alpha: Any, beta: Any) -> Any:
    """alpha x + beta y, as a new matrix."""
    if not (_is_matrix(x) and _is_matrix(y)):
        return NotImplemented
    other, scale = matrix_and_scale("+", "y", y)
    return bsr_axpy(x, bsr_copy(other) if is_outside(other) else other, alpha, beta * scale)


def _add(self: Any, other: Any) -> Any:
    return _added(other, self, 1.0, 1.0)


def _sub(self: Any, other: Any) -> Any:
    return _added(other, self, -1.0, 1.0)


def _iadd(self: Any, other: Any) -> Any:
    return bsr_axpy(other, self) if _is_matrix(other) else NotImplemented


def _isub(self: Any, other: Any) -> Any:
    return bsr_axpy(other, self, alpha=-1.0) if _is_matrix(other) else NotImplemented


def _mul(self: Any, factor: Any) -> Any:
    """`A * s`: outside of JAX it is not made before it is needed."""
    if _is_matrix(factor) or np.ndim(factor) > 0:
        return NotImplemented
    matrix, scale = matrix_and_scale("*", "A", self)
    require_factor("*", "factor", factor, matrix.scalar_type)
    return Scaled(matrix, scale * factor) if is_outside(matrix) else bsr_scale(matrix, factor)


def _truediv(self: Any, divisor: Any) -> Any:
    return NotImplemented if _is_matrix(divisor) or np.ndim(divisor) > 0 else _mul(self, 1.0 / divisor)


def _neg(self: Any) -> Any:
    return _mul(self, -1.0)


def _transpose(self: Any) -> Any:
    """The transpose, a new matrix."""
    matrix, scale = matrix_and_scale("transpose", "A", self)
    made = bsr_transposed(matrix)
    return made if isinstance(self, BsrMatrix) else Scaled(made, scale)


_BOTH = {
    "__matmul__": _matmul, "__rmatmul__": _rmatmul, "__add__": _add, "__sub__": _sub, "__mul__": _mul,
    "__rmul__": _mul, "__truediv__": _truediv, "__neg__": _neg, "transpose": _transpose,
}  # fmt: skip
_OF_MATRICES = {"__iadd__": _iadd, "__isub__": _isub, "__imul__": bsr_scale, "__imatmul__": _imatmul}

for kind, methods in ((BsrMatrix, _BOTH | _OF_MATRICES), (Scaled, _BOTH | {"eval": bsr_copy})):
    for name, method in methods.items():
        setattr(kind, name, boundary(method))
