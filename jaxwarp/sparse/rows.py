"""The row that each block is in, and rows that lie side by side."""

from __future__ import annotations

from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.memory.host_scope import capturing
from jaxwarp.sparse.faces import evaluated
from jaxwarp.sparse.lookup import row_end


@wp.kernel(enable_backward=False)
def fill_rows(offsets: wp.array[int], row_counts: wp.array[int], nrow: int, rows: wp.array[int]) -> None:
    """The row of each place; -1 where none is used.

    As in other kernels here, a thread adds to elements of its own, which are zeros, where it could store: to elements
    that are only stored to, at places that are found in data, threads store one after the other.
    """
    row = wp.tid()
    end = wp.min(row_end(offsets, row_counts, row), rows.shape[0])
    for b in range(offsets[row], end):
        rows[b] = rows[b] + row
    behind = wp.min(offsets[row + 1], rows.shape[0])
    if row == nrow - 1:
        behind = rows.shape[0]
    for b in range(end, behind):
        rows[b] = rows[b] - 1


def rows_of(matrix: Any) -> Any:
    """(nnz,), the row of each place; -1 where none is used."""
    if matrix.nrow == 0 or matrix.nnz == 0:
        columns = matrix.columns
        if isinstance(columns, HostArray):
            return wp.full(matrix.nnz, -1, int, device=columns.device)
        return jnp.full(matrix.nnz, -1, np.int32)
    given = [matrix.offsets, matrix.row_counts, matrix.nrow]
    return evaluated(fill_rows, matrix.nrow, given, [(matrix.nnz, int)])[0]


@wp.kernel(enable_backward=False)
def _sizes(offsets: wp.array[int], row_counts: wp.array[int], sizes: wp.array[int]):
    row = wp.tid()
    sizes[row] = row_end(offsets, row_counts, row) - offsets[row]


@wp.kernel(enable_backward=False)
def _side_by_side(
    offsets: wp.array[int],
    columns: wp.array[int],
    target: wp.array[int],
    found: wp.array[int],
    source: wp.array[int],
):
    row = wp.tid()
    shift = offsets[row] - target[row]
    for b in range(target[row], target[row + 1]):
        found[b] = found[b] + columns[b + shift]
        source[b] = source[b] + b + shift


def side_by_side(matrix: Any) -> tuple[Any, Any, Any]:
    """Offsets and columns of a matrix without places that are not used, and which place each block has now."""
    given = [matrix.offsets, matrix.row_counts]
    (sizes,) = evaluated(_sizes, matrix.nrow, given, [(matrix.nrow, int)])
    offsets = offsets_of(sizes)
    n = matrix.nnz
    found = evaluated(_side_by_side, matrix.nrow, [matrix.offsets, matrix.columns, offsets], [(n, int), (n, int)])
    return offsets, found[0], found[1]


def offsets_of(sizes: Any) -> Any:
    """(n + 1,), where rows of these sizes, (n,), start that lie side by side."""
    if not isinstance(sizes, HostArray):
        return jnp.concatenate([jnp.zeros(1, np.int32), running_sums(sizes)])
    offsets = wp.zeros(sizes.size + 1, int, device=sizes.device)
    if sizes.size:
        wp.utils.array_scan(sizes, offsets[1:])
    return offsets


def running_sums(numbers: Any) -> Any:
    """The sum of integers, (n,), up to each."""
    if not isinstance(numbers, HostArray):
        return jnp.cumsum(numbers, dtype=np.int32)
    sums = wp.zeros(numbers.shape, int, device=numbers.device)
    wp.utils.array_scan(numbers, sums)
    return sums


def count_of(offsets: Any, nrow: int) -> int | None:
    """Return the number of blocks from offsets, or None if it is not known yet: in a trace of JAX, or in a capture."""
    if isinstance(offsets, jax.core.Tracer) or (isinstance(offsets, HostArray) and capturing.get() is not None):
        return None
    last = offsets[nrow : nrow + 1]
    return int(np.asarray(last.numpy() if isinstance(last, HostArray) else last)[0])
