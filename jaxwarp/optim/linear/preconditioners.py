"""`preconditioner`: an approximation of the inverse of a matrix, made of its diagonal or of parts of it."""

from __future__ import annotations

from typing import Any

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import located_call
from jaxwarp.errors import KernelValueError
from jaxwarp.optim.linear.operators import LinearOperator, operator_of


@located_call
def preconditioner(A: Any, ptype: str = "diag") -> LinearOperator | None:
    """An approximation of the inverse of a matrix, to be the `M` of a solver.

    Args:
        A: the matrix: an array with two axes, or a `BsrMatrix`.
        ptype: "diag", the inverse of its diagonal, 1 where that is 0; "diag_abs", that of its absolute values; "id",
            None.

    Raises:
        KernelTypeError, KernelValueError: there is no such preconditioner, or not of this matrix.
    """
    if ptype == "id":
        return None
    if ptype in ("diag", "diag_abs"):
        return _diagonal(A, ptype == "diag_abs")
    raise KernelValueError(
        f"preconditioner: there is no ptype {ptype!r}", hint='the types are "diag", "diag_abs" and "id"'
    )


@wp.kernel(enable_backward=False)
def _inverse_of_diagonal(a: wp.array2d[Any], is_absolute: bool, inverse: wp.array[Any]):
    i = wp.tid()
    inverse[i] = _inverse(a[i, i], is_absolute)


@wp.func
def _inverse(value: Any, is_absolute: bool):
    found = type(value)(1.0)
    if value != type(value)(0.0):
        found = found / wp.where(is_absolute, wp.abs(value), value)
    return found


def _diagonal(A: Any, is_absolute: bool) -> LinearOperator:
    what = "preconditioner"
    operator_of(what, "A", A)
    if not isinstance(A, HostArray) or A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise KernelValueError(f"{what}: A: expected a square matrix, with all its elements, got {A!r}")
    inverse = wp.empty(A.shape[0], dtype=A.dtype, device=A.device)
    wp.launch(_inverse_of_diagonal, A.shape[0], [A, is_absolute, inverse], device=A.device)
    return operator_of(what, "A", inverse)
