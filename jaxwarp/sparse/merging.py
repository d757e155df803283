"""Rows that are the union of other rows: the blocks of sums and products."""

from __future__ import annotations

from typing import Any

import jaxwarp as wp
from jaxwarp.sparse.faces import evaluated
from jaxwarp.sparse.lookup import row_end
from jaxwarp.sparse.rows import offsets_of


@wp.kernel(enable_backward=False)
def _size_of_sum(
    x_offsets: wp.array[int],
    x_row_counts: wp.array[int],
    x_columns: wp.array[int],
    y_offsets: wp.array[int],
    y_row_counts: wp.array[int],
    y_columns: wp.array[int],
    sizes: wp.array[int],
):
    row = wp.tid()
    x = x_offsets[row]
    x_end = row_end(x_offsets, x_row_counts, row)
    y = y_offsets[row]
    y_end = row_end(y_offsets, y_row_counts, row)
    count = 0
    while x < x_end and y < y_end:
        x_column = x_columns[x]
        y_column = y_columns[y]
        if x_column <= y_column:
            x += 1
        if y_column <= x_column:
            y += 1
        count += 1
    sizes[row] = count + x_end - x + y_end - y


@wp.kernel(enable_backward=False)
def _merge(  # noqa: PLR0913 - what a kernel reads
    x_offsets: wp.array[int],
    x_row_counts: wp.array[int],
    x_columns: wp.array[int],
    y_offsets: wp.array[int],
    y_row_counts: wp.array[int],
    y_columns: wp.array[int],
    offsets: wp.array[int],
    columns: wp.array[int],
    from_x: wp.array[int],
    from_y: wp.array[int],
):
    row = wp.tid()
    x = x_offsets[row]
    x_end = row_end(x_offsets, x_row_counts, row)
    y = y_offsets[row]
    y_end = row_end(y_offsets, y_row_counts, row)
    for b in range(offsets[row], offsets[row + 1]):
        x_column = 2147483647
        y_column = 2147483647
        if x < x_end:
            x_column = x_columns[x]
        if y < y_end:
            y_column = y_columns[y]
        columns[b] = columns[b] + wp.min(x_column, y_column)
        if x_column <= y_column:
            from_x[b] = from_x[b] + x + 1
            x += 1
        if y_column <= x_column:
            from_y[b] = from_y[b] + y + 1
            y += 1


def merged(x: Any, y: Any) -> tuple[Any, Any, Any, Any]:
    """Offsets and columns of the sum of two matrices, and which block of each is in each of its
    blocks, from 1; 0: none.

    The arrays are as long as the sum of theirs, at least.
    """
    given = [x.offsets, x.row_counts, x.columns, y.offsets, y.row_counts, y.columns]
    offsets = offsets_of(evaluated(_size_of_sum, x.nrow, given, [(x.nrow, int)])[0])
    n = x.nnz + y.nnz
    columns, from_x, from_y = evaluated(_merge, x.nrow, [*given, offsets], [(n, int)] * 3)
    return offsets, columns, from_x, from_y


@wp.kernel(enable_backward=False)
def _merge_product(  # noqa: PLR0913 - what a kernel reads
    ncol: int,
    x_offsets: wp.array[int],
    x_row_counts: wp.array[int],
    x_columns: wp.array[int],
    y_offsets: wp.array[int],
    y_row_counts: wp.array[int],
    y_columns: wp.array[int],
    z_offsets: wp.array[int],
    z_row_counts: wp.array[int],
    z_columns: wp.array[int],
    offsets: wp.array[int],
    cursors: wp.array[int],
    heads: wp.array[int],
    columns: wp.array[int],
    sizes: wp.array[int],
):
    """The columns of a row, one after another: the least that is behind the last one. Without offsets, their number."""
    row = wp.tid()
    begin = x_offsets[row]
    end = row_end(x_offsets, x_row_counts, row)
    for x in range(begin, end):
        y = y_offsets[x_columns[x]]
        head = ncol
        if y < row_end(y_offsets, y_row_counts, x_columns[x]):
            head = y_columns[y]
        cursors[x] = y
        heads[x] = head
    z = 0
    z_end = 0
    if z_offsets:
        z = z_offsets[row]
        z_end = row_end(z_offsets, z_row_counts, row)
    count = 0
    last = -1
    while last < ncol:
        least = ncol
        if z_columns:
            if z < z_end and z_columns[z] == last:
                z += 1
            if z < z_end:
                least = z_columns[z]
        for x in range(begin, end):
            head = heads[x]
            if head == last:
                y = cursors[x] + 1
                cursors[x] = y
                head = ncol
                if y < row_end(y_offsets, y_row_counts, x_columns[x]):
                    head = y_columns[y]
                heads[x] = head
            least = wp.min(least, head)
        if least < ncol:
            if offsets:
                at = offsets[row] + count
                if at < columns.shape[0]:
                    columns[at] = columns[at] + least
            count += 1
        last = least
    sizes[row] = count


def product_sizes(x: Any, y: Any, z: Any) -> Any:
    """(rows,), how many blocks each row of x y + z has; z may be None."""
    outputs = [(x.nnz, int), (x.nnz, int), (1, int), (x.nrow, int)]
    return evaluated(_merge_product, x.nrow, [*_held(x, y, z), None], outputs)[3]


def product_columns(x: Any, y: Any, z: Any, offsets: Any, count: int) -> Any:
    """(count,), the columns of x y + z."""
    outputs = [(x.nnz, int), (x.nnz, int), (count, int), (x.nrow, int)]
    return evaluated(_merge_product, x.nrow, [*_held(x, y, z), offsets], outputs)[2]


def _held(x: Any, y: Any, z: Any) -> list[Any]:
    third = [None, None, None] if z is None else [z.offsets, z.row_counts, z.columns]
    return [y.ncol, x.offsets, x.row_counts, x.columns, y.offsets, y.row_counts, y.columns, *third]
