"""Dirichlet's conditions: projectors onto what is fixed, and systems without it."""

from __future__ import annotations

from typing import Any

import jaxwarp as wp
from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelValueError
from jaxwarp.fem.linalg import array_axpy, symmetric_eigen
from jaxwarp.sparse import bsr_assign, bsr_axpy, bsr_block_index, bsr_copy, bsr_mm, bsr_mv
from jaxwarp.sparse.matrix import require_matrix, require_outside
from jaxwarp.types import Scalar


def _require(what: str, **matrices: Any) -> list[Any]:
    """Matrices outside of JAX, by the names of arguments."""
    for name, matrix in matrices.items():
        require_outside(what, require_matrix(what, name, matrix))
    return list(matrices.values())


@boundary
def normalize_dirichlet_projector(projector_matrix: Any, fixed_value: Any = None) -> None:
    """Makes the blocks of a diagonal matrix projectors, and scales the fixed values alike.

    Of each eigenvector of a block the eigenvalue becomes 1, or 0 if it is below a millionth of the block's trace.

    Args:
        projector_matrix: symmetric positive semidefinite blocks on the diagonal.
        fixed_value: one value for each row, or None.

    Raises:
        KernelValueError: the sizes differ.
    """
    matrix = _require("normalize_dirichlet_projector", projector_matrix=projector_matrix)[0]
    if matrix.nrow != matrix.ncol or matrix.block_shape[0] != matrix.block_shape[1]:
        raise KernelValueError(
            "normalize_dirichlet_projector: projector_matrix: expected a square matrix of square blocks"
        )
    if fixed_value is not None and fixed_value.shape[0] != matrix.nrow:
        raise KernelValueError(
            f"normalize_dirichlet_projector: fixed_value: expected {matrix.nrow} values, got {fixed_value.shape[0]}"
        )
    is_number = isinstance(matrix.values.dtype, Scalar)
    if fixed_value is None:
        dtype = matrix.scalar_type if is_number else wp.types.vector(matrix.block_shape[0], matrix.scalar_type)
        fixed_value = wp.zeros(matrix.nrow, dtype=dtype, device=matrix.device)
    kernel = _normalize_numbers if is_number else _normalize_blocks
    arguments = [matrix.offsets, matrix.row_counts, matrix.columns, matrix.values, fixed_value]
    wp.launch(kernel, matrix.nrow, arguments, device=matrix.device)


@wp.kernel(enable_backward=False)
def _normalize_numbers(offsets: wp.array[int], row_counts: wp.array[int], columns: wp.array[int], blocks: wp.array[Any],
                       fixed: wp.array[Any]):  # fmt: skip
    row = wp.tid()
    at = bsr_block_index(row, row, offsets, columns, row_counts)
    if at >= 0:
        a = blocks[at]
        one = blocks.dtype(1.0)
        is_fixed = a > blocks.dtype(0.0)
        fixed[row] = wp.where(is_fixed, fixed[row] / wp.where(is_fixed, a, one), fixed[row] * blocks.dtype(0.0))
        blocks[at] = wp.where(is_fixed, one, blocks.dtype(0.0))


@wp.kernel(enable_backward=False)
def _normalize_blocks(offsets: wp.array[int], row_counts: wp.array[int], columns: wp.array[int], blocks: wp.array[Any],
                       fixed: wp.array[Any]):  # fmt: skip
    row = wp.tid()
    at = bsr_block_index(row, row, offsets, columns, row_counts)
    if at >= 0:
        a = blocks[at]
        b = fixed[row]
        least = wp.trace(a) * a.dtype(1.0e-6)
        vectors, values = symmetric_eigen(a)
        projector = a * a.dtype(0.0)
        scaled = b * a.dtype(0.0)
        for k in range(len(values)):
            if values[k] > least:
                v = vectors[k]
                projector += wp.outer(v, v)
                scaled += v * (wp.dot(v, b) / values[k])
        blocks[at] = projector
        fixed[row] = scaled


@boundary
def project_system_rhs(system_matrix: Any, system_rhs: Any, projector_matrix: Any, fixed_value: Any = None) -> None:
    """Replace b by (I - P) (b - A P u) + P u, which has the fixed values.

    Args:
        system_matrix: A, as it was before `project_system_matrix`.
        system_rhs: b.
        projector_matrix: P, normalized.
        fixed_value: u; None: zero.
    """
    _require("project_system_rhs", system_matrix=system_matrix, projector_matrix=projector_matrix)
    rest = wp.clone(system_rhs)
    if fixed_value is None:
        system_rhs.zero_()
    else:
        bsr_mv(projector_matrix, x=fixed_value, y=system_rhs, alpha=1.0, beta=0.0)
    bsr_mv(system_matrix, x=system_rhs, y=rest, alpha=-1.0, beta=1.0)
    array_axpy(x=rest, y=system_rhs, alpha=1.0, beta=1.0)
    bsr_mv(projector_matrix, x=rest, y=system_rhs, alpha=-1.0, beta=1.0)


@boundary
def project_system_matrix(system_matrix: Any, projector_matrix: Any) -> None:
    """Replace A by (I - P) A (I - P) + P, so that fixed nodes keep their values.

    Args:
        system_matrix: A.
        projector_matrix: P, normalized.
    """
    _require("project_system_matrix", system_matrix=system_matrix, projector_matrix=projector_matrix)
    rest = bsr_copy(system_matrix)
    bsr_mm(projector_matrix, system_matrix, rest, alpha=-1.0, beta=1.0)
    bsr_assign(system_matrix, rest)
    bsr_axpy(projector_matrix, system_matrix)
    bsr_mm(rest, projector_matrix, system_matrix, alpha=-1.0, beta=1.0)


@boundary
def project_linear_system(
    system_matrix: Any,
    system_rhs: Any,
    projector_matrix: Any,
    fixed_value: Any = None,
    normalize_projector: bool = True,
) -> None:
    """Apply Dirichlet conditions to a linear system, in place. See `project_system_rhs` and `project_system_matrix`.

    Args:
        system_matrix, system_rhs: the matrix and the right-hand side.
        projector_matrix: the projector on the fixed nodes, for example their mass matrix.
        fixed_value: the values there. None: zero.
        normalize_projector: whether to call `normalize_dirichlet_projector` first.
    """
    _require("project_linear_system", system_matrix=system_matrix, projector_matrix=projector_matrix)
    if normalize_projector:
        normalize_dirichlet_projector(projector_matrix, fixed_value)
    project_system_rhs(system_matrix, system_rhs, projector_matrix, fixed_value)
    project_system_matrix(system_matrix, projector_matrix)
