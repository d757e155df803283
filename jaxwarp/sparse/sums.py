"""Sums of matrices, and factors."""

# pyright: reportInvalidTypeForm=false

import functools
from typing import Any

import jax.numpy as jnp

import jaxwarp as wp
from jaxwarp.boundary import boundary, guarded
from jaxwarp.errors import KernelValueError
from jaxwarp.sparse.copying import copied, gathered, require_compact
from jaxwarp.sparse.create import require_topology
from jaxwarp.sparse.expressions import matrix_and_scale
from jaxwarp.sparse.faces import evaluated, is_zero, number, require_factor, scale_of
from jaxwarp.sparse.matrix import (
    as_blocks,
    as_scalars,
    is_outside,
    made_of,
    of_jax,
    require_matrix,
    require_same_device,
)
from jaxwarp.sparse.merging import merged
from jaxwarp.sparse.storing import Found, as_matrix, keep_capacity, store
from jaxwarp.sparse.vector_products import scale_kernel
from jaxwarp.types import element_scalar


@boundary
def bsr_scale(x: Any, alpha: Any) -> Any:
    """Multiply a matrix by a factor. Outside of JAX it changes and returns the matrix; in JAX it returns a new one.

    Args:
        x: the matrix.
        alpha: the factor. All blocks stay.

    Raises:
        KernelTypeError: these are no matrix and number.

    Differentiability:
        By `x.values`, and in JAX by `alpha`.
    """
    matrix, scale = matrix_and_scale("bsr_scale", "x", x)
    factor = require_factor("bsr_scale", "alpha", alpha, matrix.scalar_type) * scale
    if not is_outside(matrix):
        values = jnp.zeros_like(matrix.values) if is_zero(factor) else number(matrix, factor) * matrix.values
        return made_of(matrix.block_type, **{**vars(matrix), "values": values})
    if factor == 0:
        matrix.values.zero_()
    elif factor != 1 and matrix.nnz:
        used = matrix.values[: matrix.nnz]
        wp.launch(scale_kernel(used.dtype), matrix.nnz, [number(matrix, factor)], [used], device=matrix.device)
    return matrix


@guarded
class bsr_axpy_work_arrays:  # noqa: N801
    """Accepted by `bsr_axpy`, no effect."""


@functools.cache
def _sum(scalar: Any) -> Any:
    @wp.kernel
    def bsr_sum(
        alpha: scalar,
        beta: scalar,
        from_x: wp.array[int],
        from_y: wp.array[int],
        x: wp.array3d[scalar],
        y: wp.array3d[scalar],
        total: wp.array3d[scalar],
    ):
        b, i, j = wp.tid()
        found = scalar(0)
        if from_x[b] > 0:
            found += alpha * x[from_x[b] - 1, i, j]
        if from_y[b] > 0:
            found += beta * y[from_y[b] - 1, i, j]
        total[b, i, j] = found

    return bsr_sum


@boundary
def bsr_axpy(
    x: Any,
    y: Any = None,
    alpha: Any = 1.0,
    beta: Any = 1.0,
    work_arrays: Any = None,
    topology: str | None = None,
) -> Any:
    """Compute `alpha x + beta y`. Outside of JAX it changes and returns `y`; in JAX it returns a new matrix.

    Under `jit` the result has room for the blocks of both, and `nnz` is that number until you call `nnz_sync()`.

    Args:
        x: a matrix.
        y: a matrix of the same type and size, which may be `x`; None: zero.
        alpha, beta: factors. With `beta` 0 the blocks are those of `x`.
        work_arrays: accepted, no effect.
        topology: "compact": rows lie side by side, "padded": those of `y` keep their capacity, and one that has too
            many blocks is empty and noted in `y.status_sync()`; "masked": `y` keeps its blocks, and what is elsewhere
            is left out.

    Raises:
        KernelTypeError, KernelValueError: the matrices do not fit each other.

    Differentiability:
        By `x.values`, `y.values`, and in JAX by `alpha` and `beta`.
    """
    del work_arrays
    what = "bsr_axpy"
    source, scale = matrix_and_scale(what, "x", x)
    factor = require_factor(what, "alpha", alpha, source.scalar_type) * scale
    require_factor(what, "beta", beta, source.scalar_type)
    topology = require_topology(what, topology)
    if y is None:
        if topology != "compact":
            raise KernelValueError(f"{what}: y: expected a matrix with topology={topology!r}, got None")
        return as_matrix(source.block_type, copied(what, source, factor, source.block_type))
    require_matrix(what, "y", y)
    require_same_device(what, x=source, y=y)
    _require_alike(what, source, y)
    if not is_outside(source, y):
        require_compact(what, topology)
        return _by_jax(of_jax(source), of_jax(y), factor, beta, topology)
    if topology == "padded":
        keep_capacity(y)
    if source is y:
        return bsr_scale(y, factor + beta)
    if topology == "masked":
        kept = made_of(y.block_type, **vars(y))
        values = gathered(source, factor, y.block_type, kept)
        if y.nnz and is_zero(beta):
            wp.copy(y.values, values, count=y.nnz)
        elif y.nnz:
            add_blocks(y.values[: y.nnz], values, y.block_shape, beta)
        return y
    if factor == 0 and beta != 0:
        return bsr_scale(y, beta)
    found = copied(what, source, factor, y.block_type) if beta == 0 else _summed(source, y, factor, beta)
    store(y, found, topology)
    return y


def _by_jax(x: Any, y: Any, alpha: Any, beta: Any, topology: str) -> Any:
    if topology == "masked":
        values = gathered(x, alpha, y.block_type, y)
        values = values if is_zero(beta) else values + number(y, beta) * y.values[: y.nnz]
        return made_of(y.block_type, **{**vars(y), "values": values, "columns": y.columns[: y.nnz]})
    if is_zero(beta):
        return as_matrix(y.block_type, copied("bsr_axpy", x, alpha, y.block_type))
    if is_zero(alpha):
        return bsr_scale(y, beta)
    return as_matrix(y.block_type, _summed(x, y, alpha, beta))


def _summed(x: Any, y: Any, alpha: Any, beta: Any) -> Found:
    offsets, columns, from_x, from_y = merged(x, y)
    shape = (x.nnz + y.nnz, *y.block_shape)
    given = [number(y, alpha), number(y, beta), from_x, from_y, x.scalar_values, y.scalar_values]
    (found,) = evaluated(_sum(y.scalar_type), shape, given, [(shape, y.scalar_type)])
    values = as_blocks("bsr_axpy", y.block_type, found, shape[0])
    return Found(y.nrow, y.ncol, shape[0], offsets, columns, values)


@functools.cache
def _addition(scalar: Any) -> Any:
    @wp.kernel
    def bsr_add(beta: scalar, x: wp.array3d[scalar], y: wp.array3d[scalar]):
        b, i, j = wp.tid()
        y[b, i, j] = x[b, i, j] + beta * y[b, i, j]

    return bsr_add


def add_blocks(values: Any, others: Any, shape: tuple[int, int], factor: Any = 1) -> None:
    """Makes blocks outside of JAX, as many as others, `factor` times what they are, plus the others."""
    blocks, scalar = as_scalars(values, shape), element_scalar(values.dtype)
    given = [scale_of(scalar, factor), as_scalars(others, shape)]
    wp.launch(_addition(scalar), blocks.shape, given, [blocks], device=values.device)


def _require_alike(what: str, x: Any, y: Any) -> None:
    if x.scalar_type != y.scalar_type or x.block_shape != y.block_shape:
        raise KernelValueError(
            f"{what}: Matrices must have the same block type, got {x.block_type} and {y.block_type}",
            hint="convert one: bsr_copy(x, scalar_type=..., block_shape=...)",
        )
    if (x.nrow, x.ncol) != (y.nrow, y.ncol):
        raise KernelValueError(
            f"{what}: Matrices must have the same number of rows and columns, got ({x.nrow}, {x.ncol}) and ({y.nrow},"
            f" {y.ncol})"
        )
