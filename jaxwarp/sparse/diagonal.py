"""The diagonal of a matrix, and matrices that have only that."""

# pyright: reportInvalidTypeForm=false

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray, type_of_value
from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelValueError
from jaxwarp.sparse.create import bsr_zeros, named_extents, new_extents, resize
from jaxwarp.sparse.expressions import matrix_and_scale
from jaxwarp.sparse.faces import evaluated, number, require_extent
from jaxwarp.sparse.lookup import bsr_block_index
from jaxwarp.sparse.matrix import (
    as_blocks,
    as_scalars,
    bsr_matrix_t,
    made_of,
    require_matrix,
    require_outside,
    require_same_device,
    reserve,
)
from jaxwarp.types import Mat, Scalar, element_scalar, element_shape


@functools.cache
def _diagonal(scalar: Any) -> Any:
    @wp.kernel
    def bsr_get_diag(
        offsets: wp.array[int],
        row_counts: wp.array[int],
        columns: wp.array[int],
        values: wp.array3d[scalar],
        scale: scalar,
        out: wp.array3d[scalar],
    ):
        row = wp.tid()
        found = bsr_block_index(row, row, offsets, columns, row_counts)
        for i in range(out.shape[1]):
            for j in range(out.shape[2]):
                if found >= 0:
                    out[row, i, j] = scale * values[found, i, j]
                else:
                    out[row, i, j] = scalar(0)

    return bsr_get_diag


@boundary
def bsr_get_diag(A: Any, out: Any = None) -> Any:  # noqa: N803
    """The blocks of the diagonal, zeros where there are none.

    Args:
        A: a matrix.
        out: outside of JAX, an array of its blocks to write to, at least as many as there are; None: a new one.

    Raises:
        KernelTypeError, KernelValueError: `out` does not fit.

    Differentiability:
        By `A.values`.
    """
    what = "bsr_get_diag"
    matrix, scale = matrix_and_scale(what, "A", A)
    count = min(matrix.nrow, matrix.ncol)
    require_same_device(what, A=matrix, out=out)
    if out is not None:
        _require_out(matrix, out, count)
    shape = (count, *matrix.block_shape)
    given = [matrix.offsets, matrix.row_counts, matrix.columns, matrix.scalar_values, number(matrix, scale)]
    if out is not None:
        wp.launch(_diagonal(matrix.scalar_type), count, given, [as_scalars(out[:count], matrix.block_shape)])
        return out
    (found,) = evaluated(_diagonal(matrix.scalar_type), count, given, [(shape, matrix.scalar_type)])
    return as_blocks(what, matrix.block_type, found, count)


def _require_out(matrix: Any, out: Any, count: int) -> None:
    require_outside("bsr_get_diag: out", matrix)
    if not isinstance(out, HostArray) or out.dtype != matrix.block_type:
        got = out.dtype if isinstance(out, HostArray) else type(out).__name__
        raise KernelValueError(f"bsr_get_diag: out: expected an array of {matrix.block_type}, got {got}")
    if out.ndim != 1 or len(out) < count:
        raise KernelValueError(f"bsr_get_diag: out: expected at least {count} blocks, got shape {out.shape}")


@wp.kernel(enable_backward=False)
def _set_offsets(count: int, offsets: wp.array[int], columns: wp.array[int]):
    row = wp.tid()
    offsets[row] = wp.min(row, count)
    if row < count:
        columns[row] = row


@boundary
def bsr_set_diag(A: Any, diag: Any, rows_of_blocks: int | None = None, cols_of_blocks: int | None = None) -> None:  # noqa: N803
    """Give a matrix outside of JAX these blocks on the diagonal, and no others.

    Args:
        A: the matrix.
        diag: an array of blocks, or one block for all; None: zeros.
        rows_of_blocks, cols_of_blocks: its new extents; one alone is both. Without, there are as many as blocks, or
            they stay.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit each other.
    """
    what = "bsr_set_diag"
    require_outside(what, require_matrix(what, "A", A))
    rows, columns = _extents(diag, rows_of_blocks, cols_of_blocks)
    count = min(new_extents(what, A, rows, columns))
    block = 0 if diag is None else diag
    blocks: Any = diag if isinstance(diag, HostArray) else wp.full(count, block, A.block_type, device=A.device)
    _require_blocks(what, A, blocks, count)
    if rows is not None:
        resize(what, A, rows, columns)
    reserve(A, count)
    wp.launch(_set_offsets, A.nrow + 1, [count], [A.offsets, A.columns], device=A.device)
    A.row_counts = None
    if count:
        wp.copy(A.values, blocks, count=count)


def _require_blocks(what: str, matrix: Any, diag: HostArray, count: int) -> None:
    require_same_device(what, A=matrix, diag=diag)
    if diag.dtype != matrix.block_type or diag.ndim != 1 or len(diag) < count:
        raise KernelValueError(
            f"{what}: diag: expected {count} blocks of {matrix.block_type}, got {diag.dtype} of shape {diag.shape}"
        )


def _extents(diag: Any, rows: Any, columns: Any) -> tuple[Any, Any]:
    if rows is None and columns is None:
        return (diag.shape[0], diag.shape[0]) if _is_array(diag) else (None, None)
    return (columns if rows is None else rows, rows if columns is None else columns)


def _is_array(diag: Any) -> bool:
    """Return whether `diag` is an array of blocks, not a single block."""
    return isinstance(diag, HostArray) or (hasattr(diag, "aval") and diag.ndim in (1, 3))


@boundary
def bsr_diag(
    diag: Any = None,
    rows_of_blocks: int | None = None,
    cols_of_blocks: int | None = None,
    block_type: Any = None,
    device: Any = None,
) -> Any:
    """Make a matrix with blocks on the diagonal.

    Args:
        diag: an array of blocks outside of JAX; a JAX array of shape (n,) or (n, r, c), from which it makes a value of
            JAX; one block for all; or None for zeros.
        rows_of_blocks, cols_of_blocks: the number of rows and columns of blocks. If you pass one, it is both. Default:
            as many as there are blocks.
        block_type: the type of the blocks, if `diag` is None.
        device: the device, if `diag` is no array.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit each other.

    Differentiability:
        By `diag`, an array.
    """
    what = "bsr_diag"
    rows, columns = _extents(diag, rows_of_blocks, cols_of_blocks)
    if rows is None or columns is None:
        raise KernelValueError(
            f"{what}: rows_of_blocks and/or cols_of_blocks must be provided where diag is no array of blocks",
            hint="pass rows_of_blocks=n",
        )
    if _is_array(diag) and not isinstance(diag, HostArray):
        return _of_jax(what, diag, *(require_extent(what, *pair) for pair in named_extents(rows, columns)))
    if isinstance(diag, HostArray):
        block, device = diag.dtype, diag.device
    elif diag is None and block_type is None:
        raise KernelValueError(f"{what}: Either `diag` or `block_type` needs to be provided")
    else:
        block = block_type if diag is None else _type_of(diag)
    made = bsr_zeros(rows, columns, block, device)
    made.values.begin(isinstance(diag, HostArray) and diag.requires_grad)
    bsr_set_diag(made, diag, rows, columns)
    return made


def _type_of(diag: Any) -> Any:
    found = type_of_value(diag)
    if not isinstance(found, (Mat, Scalar)):
        raise KernelValueError(f"BsrMatrix block type must be either warp matrix or scalar; got {found!r}")
    return found


def _of_jax(what: str, diag: Any, rows: int, columns: int) -> Any:
    scalar = wp.dtype_from_jax(diag.dtype)
    block = scalar if diag.ndim == 1 else wp.types.matrix(diag.shape[1:], scalar)
    count = min(rows, columns)
    if diag.shape[0] < count:
        raise KernelValueError(f"{what}: diag: expected at least {count} blocks, got {diag.shape[0]}")
    places = np.arange(rows + 1, dtype=np.int32)
    return made_of(
        block,
        nrow=rows, ncol=columns, nnz=count, offsets=jnp.asarray(np.minimum(places, count)),
        columns=jnp.arange(count, dtype=np.int32),
        values=diag[:count],
    )


@boundary
def bsr_set_identity(A: Any, rows_of_blocks: int | None = None) -> None:  # noqa: N803
    """Makes a matrix outside of JAX, of square blocks, the identity, of `rows_of_blocks` rows if that is given.

    Raises:
        KernelTypeError, KernelValueError: it is no such matrix.
    """
    what = "bsr_set_identity"
    require_outside(what, require_matrix(what, "A", A))
    bsr_set_diag(A, _identity(what, A.block_type), rows_of_blocks, rows_of_blocks)


def _identity(what: str, block: Any) -> Any:
    shape = element_shape(block)
    if shape and shape[0] != shape[1]:
        raise KernelValueError(f"{what}: expected square blocks, got {block}")
    dtype = element_scalar(block).numpy
    return np.eye(shape[0], dtype=dtype) if shape else dtype.type(1)


@boundary
def bsr_identity(rows_of_blocks: int, block_type: Any, device: Any = None) -> Any:
    """The identity, in arrays outside of JAX.

    Args:
        rows_of_blocks: rows and columns of blocks.
        block_type: a scalar type, or one of square matrices.
        device: where it is.

    Raises:
        KernelTypeError, KernelValueError: the arguments are not that.
    """
    block = bsr_matrix_t(block_type).block_type
    made = bsr_zeros(rows_of_blocks, rows_of_blocks, block, device)
    bsr_set_diag(made, _identity("bsr_identity", block), rows_of_blocks)
    return made
