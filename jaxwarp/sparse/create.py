"""New matrices without blocks, and matrices that are emptied."""

from __future__ import annotations

from typing import Any

import numpy as np

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.memory.host_scope import capturing
from jaxwarp.sparse.faces import require_extent
from jaxwarp.sparse.matrix import bsr_matrix_t, made_of, require_matrix, require_outside, reserve

_TOPOLOGIES = ("compact", "masked", "padded")


@boundary
def bsr_zeros(
    rows_of_blocks: int,
    cols_of_blocks: int,
    block_type: Any,
    device: Any = None,
    *,
    topology: str | None = None,
    row_capacity: Any = None,
    nnz_capacity: int | None = None,
) -> Any:
    """A matrix without blocks, in arrays outside of JAX.

    Args:
        rows_of_blocks, cols_of_blocks: the number of rows and columns of blocks.
        block_type: a scalar type, or one of matrices.
        device: where it is, None: the device that is chosen.
        topology: "compact": rows lie side by side; "padded": each has a capacity, which it keeps.
        row_capacity: for how many blocks each row has room: a number, or an int32 array of one for each. Then "padded"
            is meant.
        nnz_capacity: for how many blocks the arrays have room.

    Raises:
        KernelTypeError, KernelValueError: the arguments are not that.
    """
    what = "bsr_zeros"
    chosen = topology or ("padded" if row_capacity is not None else "compact")
    if chosen not in ("compact", "padded"):
        raise KernelValueError(f"{what}: topology: expected 'compact' or 'padded', got {chosen!r}")
    rows, columns = (require_extent(what, *pair) for pair in named_extents(rows_of_blocks, cols_of_blocks))
    block = bsr_matrix_t(block_type).block_type
    made = made_of(
        block,
        nrow=rows, ncol=columns, nnz=0, offsets=wp.zeros(rows + 1, dtype=int, device=device),
        columns=wp.zeros(0, dtype=int, device=device),
        values=wp.zeros(0, dtype=block, device=device),
    )
    _empty(what, made, chosen, row_capacity, nnz_capacity)
    return made


def named_extents(rows: Any, columns: Any) -> tuple[tuple[str, Any], ...]:
    return (("rows_of_blocks", rows), ("cols_of_blocks", columns))


@boundary
def bsr_set_zero(
    bsr: Any,
    rows_of_blocks: int | None = None,
    cols_of_blocks: int | None = None,
    *,
    topology: str = "compact",
    row_capacity: Any = None,
    nnz_capacity: int | None = None,
) -> None:
    """Takes all blocks from a matrix, which may get another size.

    Args:
        bsr: a matrix outside of JAX.
        rows_of_blocks, cols_of_blocks: its new extents; None: as they are.
        topology: "compact": it has no blocks; "padded": its rows are empty and keep their capacity; "masked": its
            blocks stay, with zeros in them.
        row_capacity, nnz_capacity: as of `bsr_zeros`.

    Raises:
        KernelTypeError, KernelValueError: the arguments are not that.
    """
    what = "bsr_set_zero"
    require_outside(what, require_matrix(what, "bsr", bsr))
    if require_topology(what, topology) == "masked":
        if rows_of_blocks is not None or cols_of_blocks is not None:
            raise KernelValueError(f"{what}: Cannot resize a matrix with topology='masked'", hint="leave the size out")
        bsr.values.zero_()
        return
    is_kept = topology == "padded" and row_capacity is None
    resize(what, bsr, rows_of_blocks, cols_of_blocks, is_kept)
    _empty(what, bsr, topology, row_capacity, nnz_capacity)


def require_topology(what: str, topology: str | None) -> str:
    """Check and return a choice for the places of a matrix's blocks; "compact" for None.

    Raises:
        KernelValueError: there is no such choice.
    """
    if topology is None:
        return "compact"
    if topology not in _TOPOLOGIES:
        raise KernelValueError(
            f"{what}: topology: Unsupported topology policy: {topology}", hint=f"write one of {', '.join(_TOPOLOGIES)}"
        )
    return topology


def new_extents(what: str, matrix: Any, rows: Any, columns: Any) -> tuple[int, int]:
    """The rows and columns of blocks that a matrix gets; None: as many as it has.

    Raises:
        KernelTypeError, KernelValueError: these are no extents.
    """
    both = zip((matrix.nrow, matrix.ncol), named_extents(rows, columns), strict=True)
    nrow, ncol = (old if extent is None else require_extent(what, name, extent) for old, (name, extent) in both)
    return nrow, ncol


def resize(what: str, matrix: Any, rows: int | None, columns: int | None, keeps_capacity: bool = False) -> None:
    """Gives a matrix other extents. Rows that are new have no room if the others keep theirs."""
    old = matrix.nrow
    matrix.nrow, matrix.ncol = new_extents(what, matrix, rows, columns)
    if matrix.offsets.shape[0] <= matrix.nrow:
        kept = matrix.offsets
        matrix.offsets = wp.zeros(matrix.nrow + 1, dtype=int, device=matrix.device)
        if keeps_capacity:
            wp.copy(matrix.offsets, kept, count=old + 1)
    if keeps_capacity and matrix.nrow > old:
        wp.launch(_extend, matrix.nrow - old, [old], [matrix.offsets], device=matrix.device)


@wp.kernel(enable_backward=False)
def _extend(rows: int, offsets: wp.array[int]):
    offsets[rows + 1 + wp.tid()] = offsets[rows]


@wp.kernel(enable_backward=False)
def _fill_offsets(capacity: int, offsets: wp.array[int]):
    row = wp.tid()
    offsets[row] = row * capacity


def _empty(what: str, matrix: Any, topology: str, row_capacity: Any, nnz_capacity: int | None) -> None:
    """Takes the blocks away, and says how much room rows have."""
    if nnz_capacity is not None:
        require_extent(what, "nnz_capacity", nnz_capacity)
    if topology == "compact":
        if row_capacity is not None:
            raise KernelValueError(f"{what}: row_capacity requires topology='padded'", hint='pass topology="padded"')
        matrix.offsets.zero_()
        matrix.row_counts = None
        reserve(matrix, 0, nnz_capacity)
        return
    nnz = matrix.nnz if row_capacity is None else _set_capacity(what, matrix, row_capacity)
    matrix.row_counts = wp.zeros(matrix.nrow, dtype=int, device=matrix.device)
    clear_status(matrix)
    if nnz is not None:
        reserve(matrix, nnz, nnz_capacity)
    else:
        matrix.notify_nnz_changed(nnz_capacity=nnz_capacity)


def _set_capacity(what: str, matrix: Any, capacity: Any) -> int | None:
    """Writes the offsets of rows with room for so many blocks. Returns how many that are, if it is a number."""
    if not isinstance(capacity, HostArray):
        number = require_extent(what, "row_capacity", capacity)
        if matrix.nrow * number >= 2**31:
            raise KernelValueError(f"{what}: row_capacity: expected less than 2^31 in all, got {matrix.nrow * number}")
        wp.launch(_fill_offsets, matrix.nrow + 1, [number], [matrix.offsets], device=matrix.device)
        return matrix.nrow * number
    if capacity.shape != (matrix.nrow,) or capacity.dtype != wp.int32:
        raise (KernelTypeError if capacity.dtype != wp.int32 else KernelValueError)(
            f"{what}: row_capacity: expected int32 of shape ({matrix.nrow},), one for each row, got {capacity.dtype} of"
            f" shape {capacity.shape}"
        )
    if capturing.get() is None:
        known = capacity.numpy().astype(np.int64)
        if (known < 0).any() or known.sum() >= 2**31:
            raise KernelValueError(
                f"{what}: row_capacity: expected numbers that are not negative, less than 2^31 in all, got the least"
                f" {known.min(initial=0)} and the sum {known.sum()}"
            )
    matrix.offsets[:1].zero_()
    wp.utils.array_scan(capacity, matrix.offsets[1 : matrix.nrow + 1])
    return None


def clear_status(matrix: Any) -> None:
    """Makes a matrix have a status, if it has none."""
    if getattr(matrix, "status", None) is None or matrix.status.device != matrix.device:
        object.__setattr__(matrix, "status", wp.zeros(1, dtype=int, device=matrix.device))
