"""`preconditioner`: an approximation of the inverse of a matrix, made of its diagonal, or of the blocks on that."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import located_call
from jaxwarp.errors import KernelValueError
from jaxwarp.optim.linear.fsai import FSAI
from jaxwarp.optim.linear.operators import LinearOperator, accurate_type, launch_rows, one_of, operands, operator_of
from jaxwarp.optim.linear.values import is_value
from jaxwarp.sparse.diagonal import bsr_get_diag
from jaxwarp.sparse.matrix import BsrMatrix, as_scalars, is_outside
from jaxwarp.types import float16, float64

# Kinds of `block_jacobi`, and whether their blocks are to be symmetric and positive definite.
_BLOCKS = {"block_jacobi_direct": False, "block_jacobi_sequential": True, "block_jacobi_tile": True}
# Of the largest number of a block: a pivot that is smaller is rounding.
_ROUNDING = {float16: 1e-3, float64: 1e-12}


@located_call
def preconditioner(A: Any, ptype: str = "diag") -> LinearOperator | None:
    """Make an approximate inverse of a matrix, to pass as `M` to a solver.

    Args:
        A: the matrix: an array with two axes, or a `BsrMatrix`. Values of JAX support only "diag" and "diag_abs".
        ptype: "diag", the inverse of the diagonal, with 1 for zeros; "diag_abs", that of its absolute values;
            "block_jacobi_direct", the inverses of the diagonal blocks of a `BsrMatrix`, with the identity for singular
            ones; "block_jacobi_sequential" and "block_jacobi_tile" (not for float16), the same for blocks that are
            symmetric and positive definite, with the identity for others; "fsai", `FSAI(A)`; "id", None.

    Raises:
        KernelTypeError, KernelValueError: `ptype` is unknown, or does not work for this matrix.
    """
    if ptype == "id":
        return None
    if ptype in ("diag", "diag_abs"):
        return _diagonal(A, ptype == "diag_abs")
    if (ptype == "fsai" or ptype in _BLOCKS) and _is_of_jax(A):
        raise KernelValueError(
            f"preconditioner: {ptype} is for matrices outside of JAX, got a value of JAX: {_of(A)}",
            hint='take "diag" or "diag_abs"; or pass as M a function of a vector, which may be a kernel',
        )
    if ptype == "fsai":
        return FSAI(A)
    if ptype in _BLOCKS:
        return _of_blocks(A, ptype)
    raise KernelValueError(
        f"preconditioner: there is no ptype {ptype!r}",
        hint=f"the types are diag, diag_abs, {', '.join(_BLOCKS)}, fsai, id",
    )


@wp.kernel(enable_backward=False)
def _inverse_of_diagonal(a: wp.array3d[wp.Float], is_absolute: bool, inverse: wp.array[wp.Float]):
    """Compute the inverse of a diagonal from the blocks on it. One block can be the whole matrix."""
    block, i = wp.tid()
    inverse[block * a.shape[1] + i] = _inverse(a[block, i, i], is_absolute)


@wp.func
def _inverse(value: Any, is_absolute: bool) -> Any:
    found = type(value)(1.0)
    if value != type(value)(0.0):
        found = found / wp.where(is_absolute, wp.abs(value), value)
    return found


def _diagonal(A: Any, is_absolute: bool) -> LinearOperator:
    what = "preconditioner"
    if is_value(A) or (isinstance(A, BsrMatrix) and not isinstance(A.values, HostArray)):
        return _diagonal_of_value(A, is_absolute)
    known = operator_of(what, "A", A)
    is_matrix = isinstance(A, BsrMatrix) or (isinstance(A, HostArray) and A.ndim == 2)
    if known is None or not is_matrix or known.shape[0] != known.shape[1]:
        raise KernelValueError(f"{what}: A: expected a square matrix with its elements, got {_of(A)}")
    blocks = _blocks_of(A) if isinstance(A, BsrMatrix) else A.reshape((1, *A.shape))
    inverse = wp.empty(A.shape[0], dtype=known.scalar_type, device=A.device)
    if A.shape[0]:
        wp.launch(_inverse_of_diagonal, blocks.shape[:2], [blocks, is_absolute, inverse], device=A.device)
    return operator_of(what, "A", inverse)


def _diagonal_of_value(A: Any, is_absolute: bool) -> LinearOperator:
    if len(A.shape) != 2 or A.shape[0] != A.shape[1]:
        raise KernelValueError(f"preconditioner: A: expected a square matrix with its elements, got shape {A.shape}")
    if isinstance(A, BsrMatrix):
        found = as_scalars(bsr_get_diag(A), A.block_shape)
        diagonal = jnp.diagonal(found, axis1=1, axis2=2).reshape(-1)
    else:
        diagonal = jnp.diagonal(jnp.asarray(A))
    chosen = jax.lax.stop_gradient(jnp.abs(diagonal) if is_absolute else diagonal)
    inverse = jnp.where(chosen == 0, jnp.ones_like(chosen), 1 / jnp.where(chosen == 0, jnp.ones_like(chosen), chosen))
    return LinearOperator(A.shape, wp.dtype_from_jax(inverse.dtype), None, lambda x: inverse.reshape(x.shape) * x)


def _blocks_of(A: Any) -> HostArray:
    """The blocks on the diagonal, as numbers."""
    if A.block_shape[0] != A.block_shape[1]:
        raise KernelValueError(f"preconditioner: A: expected square matrix blocks, got {A.block_shape}")
    return as_scalars(bsr_get_diag(A), A.block_shape)


@wp.func
def _is_symmetric(a: wp.array3d[wp.Float], block: int, difference: Any) -> bool:
    found = True
    for i in range(a.shape[1]):
        for j in range(i):
            if not (wp.abs(a[block, i, j] - a[block, j, i]) <= difference):
                found = False
    return found


@wp.func
def _set_identity(a: wp.array3d[wp.Float], block: int) -> None:
    for i in range(a.shape[1]):
        for j in range(a.shape[2]):
            a[block, i, j] = wp.where(i == j, a.dtype(1.0), a.dtype(0.0))


@wp.func
def _row_of_pivot(a: wp.array3d[wp.Float], block: int, k: int) -> int:
    row = k
    for i in range(k + 1, a.shape[1]):
        if wp.abs(a[block, i, k]) > wp.abs(a[block, row, k]):
            row = i
    return row


@wp.func
def _bring_up(a: wp.array3d[wp.Float], block: int, k: int, row: int, pivot: Any) -> None:
    """Exchanges two rows, and divides the upper one by the pivot."""
    for j in range(a.shape[2]):
        other = a[block, row, j]
        a[block, row, j] = a[block, k, j]
        a[block, k, j] = other / pivot


@wp.kernel(enable_backward=False)
def _invert(is_definite: bool, rounding: wp.Float, work: wp.array3d[wp.Float], inverse: wp.array3d[wp.Float]):
    """Gauss-Jordan, in place: `work` is the block before, and the identity afterwards.

    Of what is symmetric and positive definite no rows are exchanged, and all pivots are positive.
    """
    block = wp.tid()
    n = work.shape[1]
    largest = work.dtype(0.0)
    for i in range(n):
        for j in range(n):
            if i == j or not is_definite:
                largest = wp.max(largest, wp.abs(work[block, i, j]))
    least = rounding * largest
    is_good = wp.isfinite(largest)
    if is_definite:
        is_good = is_good and _is_symmetric(work, block, least)
    _set_identity(inverse, block)
    for k in range(n):
        row = k
        if not is_definite:
            row = _row_of_pivot(work, block, k)
        pivot = work[block, row, k]
        is_good = is_good and wp.where(is_definite, pivot, wp.abs(pivot)) > least
        if not is_good:
            break
        _bring_up(work, block, k, row, pivot)
        _bring_up(inverse, block, k, row, pivot)
        for i in range(n):
            factor = wp.where(i == k, work.dtype(0.0), work[block, i, k])
            for j in range(n):
                work[block, i, j] -= factor * work[block, k, j]
                inverse[block, i, j] -= factor * inverse[block, k, j]
    if not is_good:
        _set_identity(inverse, block)


@wp.kernel(enable_backward=False)
def _widen(source: wp.array3d[wp.Float], target: wp.array3d[wp.Float]):
    i, j, k = wp.tid()
    target[i, j, k] = target.dtype(source[i, j, k])


@wp.kernel(enable_backward=False)
def _multiply_blocks(
    inverse: wp.array3d[wp.Float],
    x: wp.array[wp.Float],
    alpha: wp.Float,
    beta: wp.Float,
    y: wp.array[wp.Float],
    z: wp.array[wp.Float],
):
    i = wp.tid()
    size = inverse.shape[1]
    block = i // size
    total = type(alpha)(0.0)
    if alpha != type(alpha)(0.0):
        for j in range(size):
            total += inverse[block, i - block * size, j] * type(alpha)(x[block * size + j])
        total = alpha * total
    if beta != type(alpha)(0.0):
        total += beta * type(alpha)(one_of(y, z, i))
    z[i] = z.dtype(total)


def _of_blocks(A: Any, kind: str) -> LinearOperator:
    what = "preconditioner"
    if not isinstance(A, BsrMatrix):
        raise KernelValueError(
            f"{what}: A: {kind} expects a BsrMatrix of blocks, got {_of(A)}", hint='take "diag" or "diag_abs"'
        )
    if A.block_shape[0] != A.block_shape[1]:
        raise KernelValueError(f"{what}: A: {kind} expects square matrix blocks, got {A.block_shape}")
    if A.nrow != A.ncol:
        raise KernelValueError(
            f"{what}: A: {kind} expects as many rows as columns, got {A.nrow} and {A.ncol} of blocks"
        )
    if A.block_shape[0] == 1:
        return _diagonal(A, False)
    scalar = A.scalar_type
    if scalar not in (wp.float32, wp.float64) and not (scalar == wp.float16 and kind != "block_jacobi_tile"):
        raise KernelValueError(f"{what}: A: {kind} expects numbers of float32 or float64, got {scalar}")
    number = accurate_type(scalar)
    blocks = _blocks_of(A)
    work, inverse = (wp.zeros(blocks.shape, dtype=number, device=A.device) for _ in range(2))
    if A.nrow:
        wp.launch(_widen, blocks.shape, [blocks, work], device=A.device)
        arguments = [_BLOCKS[kind], number(_ROUNDING.get(scalar, 1e-6)), work, inverse]
        wp.launch(_invert, A.nrow, arguments, device=A.device)

    def matvec(x: Any, y: Any, z: Any, alpha: float, beta: float) -> None:
        x, y, z = operands(scalar, A.shape, x, y, z, beta)
        x = x.new_like().assign(x) if x.ptr == z.ptr else x
        launch_rows(_multiply_blocks, A.shape[0], [inverse, x, number(alpha), number(beta), y, z])

    return LinearOperator(A.shape, A.dtype, A.device, matvec)


def _is_of_jax(A: Any) -> bool:
    return isinstance(A, jax.Array) or (isinstance(A, BsrMatrix) and not is_outside(A))


def _of(given: Any) -> str:
    if isinstance(given, HostArray):
        return f"an array of shape {given.shape}"
    return f"{type(given).__name__} of shape {given.shape}" if hasattr(given, "shape") else repr(given)
