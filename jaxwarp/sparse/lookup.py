"""The lookup of a block, and of the row that a block is in: functions of kernels."""

# ruff: noqa: F811
# pyright: reportRedeclaration=false

from __future__ import annotations

import jaxwarp as wp


@wp.func
def row_end(offsets: wp.array[int], row_counts: wp.array[int], row: int) -> int:
    """Behind the last block of a row."""
    if row_counts:
        return offsets[row] + row_counts[row]
    return offsets[row + 1]


@wp.func
def bsr_row_index(offsets: wp.array[int], row_count: int, block_index: int) -> int:
    """The row that a block is in; -1 if it is in none.

    Args:
        offsets: of the matrix.
        row_count: how many rows it has.
        block_index: the number of the block.
    """
    if block_index < 0 or block_index >= offsets[row_count]:
        return -1
    return wp.lower_bound(offsets, 0, row_count + 1, block_index + 1) - 1


@wp.func
def bsr_row_index(offsets: wp.array[int], row_count: int, block_index: int, row_counts: wp.array[int]) -> int:
    """The row that a block is in, which `row_counts` says is used; -1 if it is in none."""
    row = bsr_row_index(offsets, row_count, block_index)
    if row_counts and row >= 0 and block_index >= offsets[row] + row_counts[row]:
        row = -1
    return row


@wp.func
def block_between(col: int, begin: int, end: int, columns: wp.array[int]) -> int:
    """The block of a column among those from `begin` to `end`; -1 if there is none."""
    found = wp.lower_bound(columns, begin, end, col)
    if found < end and columns[found] == col:
        return found
    return -1


@wp.func
def bsr_block_index(row: int, col: int, bsr_offsets: wp.array[int], bsr_columns: wp.array[int]) -> int:
    """The number of the block in a row and column; -1 if there is none. The columns of a row ascend."""
    if row < 0:
        return -1
    return block_between(col, bsr_offsets[row], bsr_offsets[row + 1], bsr_columns)


@wp.func
def bsr_block_index(
    row: int, col: int, bsr_offsets: wp.array[int], bsr_columns: wp.array[int], bsr_row_counts: wp.array[int]
) -> int:
    """The number of the block in a row and column, which `bsr_row_counts` says is used; -1 if there is none."""
    if row < 0:
        return -1
    return block_between(col, bsr_offsets[row], row_end(bsr_offsets, bsr_row_counts, row), bsr_columns)
