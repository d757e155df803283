"""Matrices from lists of rows, columns and blocks."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.sparse.blocks_of_triplets import Blocks, blocks_of, nonzero, sums_kernel
from jaxwarp.sparse.faces import evaluated, require_extent
from jaxwarp.sparse.matrix import as_scalars, bsr_matrix_t, extents_of, made_of, require_same_device
from jaxwarp.types import SCALAR_BY_DTYPE, element_scalar, element_shape, matrix


@boundary
def bsr_from_triplets(
    rows_of_blocks: int, cols_of_blocks: int, rows: Any, columns: Any, values: Any, prune_numerical_zeros: bool = True
) -> Any:
    """A matrix of blocks at rows and columns. Blocks at the same place are added; those outside are left out.

    With arrays outside of JAX, the matrix is; with arrays of JAX it is a value of JAX, also under `jit`: it has room
    for all that is given, and `nnz` says so until `nnz_sync()`.

    Args:
        rows_of_blocks, cols_of_blocks: its extents.
        rows, columns: (n,) of int32.
        values: (n,) numbers or matrices; or (n, r, c) numbers, of blocks of shape (r, c).
        prune_numerical_zeros: leave out blocks of zeros.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit each other.

    Differentiability:
        By `values`.
    """
    what = "bsr_from_triplets"
    nrow = require_extent(what, "rows_of_blocks", rows_of_blocks)
    ncol = require_extent(what, "cols_of_blocks", cols_of_blocks)
    values = values if isinstance(values, HostArray) else jnp.asarray(values)
    block = bsr_matrix_t(_block_type(what, values)).block_type
    rows, columns, values = require_triplets(what, block, rows, columns, values)
    blocks = blocks_of(nrow, ncol, rows, columns, None, nonzero(values, block) if prune_numerical_zeros else None)
    sums = summed(nrow, block, blocks, values)
    sizes = {"nrow": nrow, "ncol": ncol, "nnz": rows.shape[0]}
    return made_of(block, **sizes, offsets=blocks.offsets, columns=blocks.columns, values=sums)


def _block_type(what: str, values: Any) -> Any:
    if isinstance(values, HostArray):
        return matrix((values.shape[1], values.shape[2]), values.dtype) if values.ndim == 3 else values.dtype
    if values.ndim not in (1, 3):
        raise KernelValueError(
            f"{what}: values: expected shape (n,), or (n, rows, columns) of blocks, got shape {values.shape}"
        )
    scalar = SCALAR_BY_DTYPE[np.dtype(values.dtype)]
    return scalar if values.ndim == 1 else matrix(values.shape[1:], scalar)


def require_triplets(what: str, block: Any, rows: Any, columns: Any, values: Any) -> tuple[Any, Any, Any]:
    """Rows, columns and blocks of a type, as many of each, all outside of JAX or all of JAX.

    Raises:
        KernelTypeError, KernelValueError: they are not.
    """
    named = {"rows": rows, "columns": columns, "values": values}
    require_same_device(what, **named)
    ours = [isinstance(value, HostArray) for value in named.values() if value is not None]
    if not all(ours):
        rows, columns, values = (None if v is None else jnp.asarray(v) for v in named.values())
    is_int = rows.dtype == columns.dtype == (wp.int32 if all(ours) else np.int32)
    if not is_int:
        raise KernelTypeError(
            f"{what}: Rows and columns arrays must be of type int32", hint=f"got {rows.dtype} and {columns.dtype}"
        )
    if rows.ndim != 1 or rows.shape != columns.shape:
        raise KernelValueError(
            f"{what}: rows and columns: expected arrays with one axis and the same length, got shapes"
            f" {tuple(rows.shape)} and {tuple(columns.shape)}"
        )
    return rows, columns, None if values is None else as_blocks(what, block, values, rows.shape[0])


def as_blocks(what: str, block: Any, values: Any, count: int) -> Any:
    """Values, given as blocks or as numbers of blocks, as blocks."""
    is_ours, shape, scalar = isinstance(values, HostArray), element_shape(block), element_scalar(block)
    given = element_scalar(values.dtype) if is_ours else values.dtype
    if given != (scalar if is_ours else scalar.numpy):
        raise KernelValueError(f"{what}: values: expected numbers of {scalar}, got {given}")
    if is_ours and not values.is_contiguous:
        raise KernelValueError(f"{what}: Values array must be contiguous", hint="pass values.contiguous()")
    found = tuple(values.shape) + (element_shape(values.dtype) if is_ours else ())
    if found not in ((count, *shape), (count, *(shape or (1, 1)))):
        raise KernelValueError(
            f"{what}: values: expected {count} of shape {shape or '()'}, as many as rows, got an array of shape {found}"
        )
    if not is_ours:
        return values.reshape((count, *shape))
    if values.dtype == block and values.ndim == 1:
        return values
    found = values.view(scalar).reshape((count, *shape))
    return found.view(block) if shape else found


def summed(nrow: int, block: Any, blocks: Blocks, values: Any) -> Any:
    """The blocks that values, (n,) blocks, make; (n,)."""
    n, shape = values.shape[0], extents_of(block)
    given = [nrow, blocks.offsets, blocks.ends, blocks.order, as_scalars(values, shape)]
    (sums,) = evaluated(sums_kernel(element_scalar(block)), (n, *shape), given, [((n, *shape), element_scalar(block))])
    return as_blocks("summed", block, sums, n)
