"""The writing of an operation's result to its matrix: side by side, or into rows with a capacity."""

# pyright: reportInvalidTypeForm=false

import functools
from typing import Any, NamedTuple

import jaxwarp as wp
from jaxwarp.sparse.create import clear_status
from jaxwarp.sparse.matrix import BSR_STATUS_ROW_CAPACITY_EXCEEDED, as_scalars, made_of
from jaxwarp.sparse.rows import rows_of


class Found(NamedTuple):
    """A matrix whose rows lie side by side, in arrays of its own.

    Attributes:
        nrow, ncol, nnz: as of a matrix.
        offsets, columns: likewise.
        values: the blocks; None: they do not matter.
    """

    nrow: int
    ncol: int
    nnz: int
    offsets: Any
    columns: Any
    values: Any


def as_matrix(block: Any, found: Found) -> Any:
    """A new matrix of blocks of a type."""
    return made_of(block, **found._asdict())


def store(matrix: Any, found: Found, topology: str) -> None:
    """Writes to a matrix outside of JAX: its own arrays if there is room, and with "padded" only to what rows have."""
    if topology == "padded":
        _store_padded(matrix, found)
        return
    matrix.nrow, matrix.ncol, matrix.nnz, matrix.row_counts = found.nrow, found.ncol, found.nnz, None
    for name in ("offsets", "columns", "values"):
        new, old = getattr(found, name), getattr(matrix, name)
        if new is None:
            if old.shape[0] < found.nnz:
                zeros = wp.zeros(found.nnz, matrix.block_type, device=matrix.device, requires_grad=old.requires_grad)
                matrix.values = zeros
        elif old.shape[0] < new.shape[0]:
            new.begin(new.requires_grad or old.requires_grad)
            setattr(matrix, name, new)
        elif new.shape[0]:
            wp.copy(old, new, count=new.shape[0])


def _store_padded(matrix: Any, found: Found) -> None:
    keep_capacity(matrix)
    given = [found.offsets, found.columns, matrix.offsets]
    wp.launch(_place, matrix.nrow, given, [matrix.row_counts, matrix.columns, matrix.status], device=matrix.device)
    if found.values is None:
        return
    given = [found.offsets, matrix.offsets, rows_of(matrix), as_scalars(found.values, matrix.block_shape)]
    dim = (matrix.nnz, *matrix.block_shape)
    wp.launch(_place_values(matrix.scalar_type), dim, given, [matrix.scalar_values], device=matrix.device)


def keep_capacity(matrix: Any) -> None:
    """Makes a matrix one whose rows have the capacity that they take now."""
    clear_status(matrix)
    if matrix.row_counts is None or matrix.row_counts.shape[0] < matrix.nrow:
        matrix.row_counts = wp.zeros(matrix.nrow, dtype=int, device=matrix.device)
        wp.launch(_used, matrix.nrow, [matrix.offsets], [matrix.row_counts], device=matrix.device)


@wp.kernel(enable_backward=False)
def _used(offsets: wp.array[int], row_counts: wp.array[int]):
    row = wp.tid()
    row_counts[row] = offsets[row + 1] - offsets[row]


_EXCEEDED = wp.constant(BSR_STATUS_ROW_CAPACITY_EXCEEDED)


@wp.kernel(enable_backward=False)
def _place(
    source: wp.array[int],
    found: wp.array[int],
    offsets: wp.array[int],
    row_counts: wp.array[int],
    columns: wp.array[int],
    status: wp.array[int],
):
    row = wp.tid()
    count = source[row + 1] - source[row]
    if offsets[row] + count > offsets[row + 1]:
        wp.atomic_max(status, 0, _EXCEEDED)
        count = 0
    row_counts[row] = count
    for b in range(count):
        columns[offsets[row] + b] = found[source[row] + b]


@functools.cache
def _place_values(scalar: Any) -> Any:
    @wp.kernel
    def bsr_place(
        source: wp.array[int],
        offsets: wp.array[int],
        rows: wp.array[int],
        values: wp.array3d[scalar],
        placed: wp.array3d[scalar],
    ):
        b, i, j = wp.tid()
        row = rows[b]
        total = scalar(0)
        if row >= 0:
            total = values[source[row] + b - offsets[row], i, j]
        placed[b, i, j] = total

    return bsr_place
