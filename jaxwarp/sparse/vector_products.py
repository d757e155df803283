"""`bsr_mv`: a sparse matrix times a vector."""

# pyright: reportInvalidTypeForm=false

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.sparse.blocks_of_triplets import itself
from jaxwarp.sparse.expressions import matrix_and_scale
from jaxwarp.sparse.faces import evaluated, is_zero, number, require_factor
from jaxwarp.sparse.lookup import row_end
from jaxwarp.sparse.matrix import apart, as_scalars, is_large, is_outside, of_jax, require_same_device
from jaxwarp.types import element_scalar, element_shape, vector


@functools.cache
def _kernels(block: Any) -> tuple[Any, Any]:
    """y = alpha A x + beta y, and y += alpha transposed(A) x, a thread for each row of blocks."""
    scalar, left, right = element_scalar(block), part_type(block, 0), part_type(block, 1)
    turned = wp.transpose if element_shape(block) else itself

    @wp.kernel
    def bsr_mv(
        offsets: wp.array[int],
        row_counts: wp.array[int],
        columns: wp.array[int],
        values: wp.array[block],
        x: wp.array[right],
        alpha: scalar,
        beta: scalar,
        y: wp.array[left],
    ):
        row = wp.tid()
        total = left(scalar(0.0))
        if alpha != scalar(0.0):
            for b in range(offsets[row], row_end(offsets, row_counts, row)):
                total += values[b] * x[columns[b]]
        total = alpha * total
        if beta != scalar(0.0):
            total += beta * y[row]
        y[row] = total

    @wp.kernel
    def bsr_mv_transposed(
        offsets: wp.array[int],
        row_counts: wp.array[int],
        columns: wp.array[int],
        values: wp.array[block],
        x: wp.array[left],
        alpha: scalar,
        y: wp.array[right],
    ):
        row = wp.tid()
        scaled = alpha * x[row]
        for b in range(offsets[row], row_end(offsets, row_counts, row)):
            wp.atomic_add(y, columns[b], turned(values[b]) * scaled)

    return bsr_mv, bsr_mv_transposed


@functools.cache
def _kernels_of_large(scalar: Any) -> tuple[Any, Any]:
    """The same of large blocks, a thread for each row of numbers."""

    @wp.kernel
    def bsr_mv_large(
        offsets: wp.array[int],
        row_counts: wp.array[int],
        columns: wp.array[int],
        values: wp.array3d[scalar],
        x: wp.array2d[scalar],
        alpha: scalar,
        beta: scalar,
        y: wp.array2d[scalar],
    ):
        row, i = wp.tid()
        total = scalar(0.0)
        if alpha != scalar(0.0):
            for b in range(offsets[row], row_end(offsets, row_counts, row)):
                for j in range(values.shape[2]):
                    total += values[b, i, j] * x[columns[b], j]
        total = alpha * total
        if beta != scalar(0.0):
            total += beta * y[row, i]
        y[row, i] = total

    @wp.kernel
    def bsr_mv_transposed_large(
        offsets: wp.array[int],
        row_counts: wp.array[int],
        columns: wp.array[int],
        values: wp.array3d[scalar],
        x: wp.array2d[scalar],
        alpha: scalar,
        y: wp.array2d[scalar],
    ):
        row, i = wp.tid()
        scaled = alpha * x[row, i]
        for b in range(offsets[row], row_end(offsets, row_counts, row)):
            for j in range(values.shape[2]):
                wp.atomic_add(y, columns[b], j, values[b, i, j] * scaled)

    return bsr_mv_large, bsr_mv_transposed_large


def part_type(block: Any, axis: int) -> Any:
    """The type of what a block acts on (axis 1), or gives (axis 0): a vector, or of a number a number."""
    shape = element_shape(block)
    return vector(shape[axis], element_scalar(block)) if shape else block


@boundary
def bsr_mv(
    A: Any,  # noqa: N803 - the names users know from Warp
    x: Any,
    y: Any = None,
    alpha: Any = 1.0,
    beta: Any = 0.0,
    transpose: bool = False,
    work_buffer: Any = None,
    tile_size: int = 0,
) -> Any:
    """Compute `alpha A x + beta y` with a sparse matrix A.

    Outside of JAX it is written to `y`, which may be `x`; in JAX it is returned, with as many axes as `x`.

    Args:
        A: a matrix, m rows and n columns of numbers.
        x: n numbers: an array of them, or of vectors, as many as A has columns of blocks.
        y: m numbers, likewise; None: new ones.
        alpha, beta: factors. What has the factor 0 is not read.
        transpose: take A transposed. Sums are in no certain order then, outside of one thread.
        work_buffer: accepted, no effect, as is `tile_size`.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit each other.

    Differentiability:
        By `A.values`, `x`, `y`, and in JAX by `alpha` and `beta`.
    """
    del work_buffer, tile_size
    matrix, scale = matrix_and_scale("bsr_mv", "A", A)
    rows, columns = (matrix.shape[::-1] if transpose else matrix.shape)
    _require_size("x", x, columns, matrix)
    if y is not None:
        _require_size("y", y, rows, matrix)
    require_same_device("bsr_mv", A=matrix, x=x, y=y)
    factor = require_factor("bsr_mv", "alpha", alpha, matrix.scalar_type) * scale
    require_factor("bsr_mv", "beta", beta, matrix.scalar_type)
    if is_outside(matrix) and isinstance(x, HostArray):
        return _in_place(matrix, x, y, factor, beta, transpose)
    product = _by_jax(of_jax(matrix), jnp.asarray(x), transpose)
    product = jnp.zeros_like(product) if is_zero(factor) else number(matrix, factor) * product
    if y is None:
        return product
    given = jnp.asarray(y)
    total = product.reshape(given.shape)
    return total if is_zero(beta) else total + number(matrix, beta) * given


def _in_place(matrix: Any, x: Any, y: Any, alpha: Any, beta: Any, transpose: bool) -> Any:
    if y is None:
        kind = matrix.block_shape[1 if transpose else 0]
        dtype = matrix.scalar_type if kind == 1 else vector(kind, matrix.scalar_type)
        count = matrix.ncol if transpose else matrix.nrow
        needs = x.requires_grad or matrix.requires_grad
        y, beta = wp.zeros(count, dtype=dtype, device=x.device, requires_grad=needs), 0.0
    if not isinstance(y, HostArray):
        raise KernelTypeError(f"bsr_mv: y: expected an array outside of JAX, as x is, got {type_text(y)}")
    x = apart(x, y)
    kernels, values, dim = _form(matrix)
    source, target = _grouped(matrix, x, transpose), _grouped(matrix, y, not transpose)
    held = [matrix.offsets, matrix.row_counts, matrix.columns, values, source]
    alpha, beta = number(matrix, alpha), number(matrix, beta)
    if not transpose:
        wp.launch(kernels[0], dim, [*held, alpha, beta], [target], device=x.device)
        return y
    if beta == 0:
        y.zero_()
    elif beta != 1:
        flat = target.flatten()
        wp.launch(scale_kernel(flat.dtype), flat.size, [beta], [flat], device=x.device)
    if alpha != 0:
        wp.launch(kernels[1], dim, [*held, alpha], [target], device=x.device)
    return y


def _by_jax(matrix: Any, given: jax.Array, transpose: bool) -> jax.Array:
    kernels, values, dim = _form(matrix)
    held = [matrix.offsets, matrix.row_counts, matrix.columns, values, _grouped(matrix, given, transpose)]
    factors = [number(matrix, 1.0)] if transpose else [number(matrix, 1.0), number(matrix, 0.0)]
    count, axis = (matrix.ncol, 1) if transpose else (matrix.nrow, 0)
    size = matrix.block_shape[axis]
    small = (count, part_type(matrix.block_type, axis))
    result = ((count, size), matrix.scalar_type) if is_large(matrix.block_type) else small
    (found,) = evaluated(kernels[1 if transpose else 0], dim, [*held, *factors], [result])
    return found.reshape(-1) if given.ndim == 1 else found.reshape(count, size)


def _form(matrix: Any) -> tuple[tuple[Any, Any], Any, Any]:
    """The kernels, the blocks as they take them, and the threads."""
    if not is_large(matrix.block_type):
        return _kernels(matrix.block_type), matrix.values, matrix.nrow
    blocks = as_scalars(matrix.values, matrix.block_shape)
    return _kernels_of_large(matrix.scalar_type), blocks, (matrix.nrow, matrix.block_shape[0])


def _grouped(matrix: Any, x: Any, is_left: bool) -> Any:
    """The numbers of a vector as blocks act on them: one vector for each column of blocks, or row if `is_left`."""
    count, axis = (matrix.nrow, 0) if is_left else (matrix.ncol, 1)
    size, is_block = matrix.block_shape[axis], bool(element_shape(matrix.block_type))
    shape = (count, size) if is_block else (count,)
    if not isinstance(x, HostArray):
        return x.reshape(shape)
    wanted = part_type(matrix.block_type, axis)
    if x.dtype == wanted and x.ndim == 1:
        return x
    found = x.view(element_scalar(x.dtype)).reshape(shape)
    return found.view(wanted) if is_block and not is_large(matrix.block_type) else found


def _require_size(name: str, x: Any, count: int, matrix: Any) -> None:
    shape = getattr(x, "shape", None)
    if shape is None:
        raise KernelTypeError(f"bsr_mv: {name}: expected an array, got {type_text(x)}")
    is_ours = isinstance(x, HostArray)
    size = math.prod(shape) * (math.prod(element_shape(x.dtype)) if is_ours else 1)
    scalar = element_scalar(x.dtype) if is_ours else x.dtype
    if size != count or len(shape) > 2:
        raise KernelValueError(
            f"bsr_mv: Incompatible '{name}' vector: expected {count} numbers, got an array of shape {tuple(shape)}"
            + (f" of {x.dtype}" if is_ours else ""),
            hint="map over the columns: jax.vmap(lambda x: A @ x, 1, 1)(X)"
            if not is_ours and len(shape) == 2 and shape[0] == count
            else f"the matrix has shape {matrix.shape}",
        )
    if scalar != (matrix.scalar_type if is_ours else matrix.scalar_type.numpy):
        raise KernelValueError(
            f"bsr_mv: Incompatible '{name}' vector: expected numbers of {matrix.scalar_type}, got {scalar}",
            hint="convert the vector, or the matrix: bsr_copy(A, scalar_type=...)",
        )
    if is_ours and not x.is_contiguous:
        raise KernelValueError(
            f"bsr_mv: Incompatible '{name}' vector: it has gaps between its elements", hint="pass x.contiguous()"
        )


@functools.cache
def scale_kernel(element: Any) -> Any:
    """x = alpha x, of arrays with one axis."""
    scalar = element_scalar(element)

    @wp.kernel
    def bsr_scale(alpha: scalar, x: wp.array[element]):
        i = wp.tid()
        x[i] = alpha * x[i]

    return bsr_scale
