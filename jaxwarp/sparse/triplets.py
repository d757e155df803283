"""Matrices from lists of rows, columns and blocks."""

# pyright: reportInvalidTypeForm=false

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.sparse.blocks_of_triplets import Blocks, blocks_of, nonzero, summed
from jaxwarp.sparse.create import bsr_set_zero, require_topology
from jaxwarp.sparse.faces import require_extent
from jaxwarp.sparse.lookup import bsr_block_index
from jaxwarp.sparse.mapping import BsrTripletMap
from jaxwarp.sparse.matrix import (
    apart,
    as_blocks,
    as_scalars,
    bsr_matrix_t,
    require_matrix,
    require_outside,
    require_same_device,
)
from jaxwarp.sparse.storing import Found, as_matrix, store
from jaxwarp.types import SCALAR_BY_DTYPE, matrix


@boundary
def bsr_from_triplets(
    rows_of_blocks: int,
    cols_of_blocks: int,
    rows: Any,
    columns: Any,
    values: Any,
    prune_numerical_zeros: bool | None = None,
) -> Any:
    """Make a sparse matrix from blocks with their rows and columns.

    Blocks at the same place are added. Blocks with a row or column outside of the matrix are left out. From JAX arrays
    it makes a value of JAX, also under `jit`. That has room for all blocks that you pass, and `nnz` is their number
    until you call `nnz_sync()`.

    Args:
        rows_of_blocks, cols_of_blocks: the number of rows and columns of blocks.
        rows, columns: (n,) of int32.
        values: (n,) numbers or matrices; or (n, r, c) numbers, of blocks of shape (r, c).
        prune_numerical_zeros: leave out blocks of zeros: no gradient reaches them. None: do, but not in JAX, nor where
            a tape records or the values have a gradient.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit each other.

    Differentiability:
        By `values`.
    """
    what = "bsr_from_triplets"
    nrow = require_extent(what, "rows_of_blocks", rows_of_blocks)
    ncol = require_extent(what, "cols_of_blocks", cols_of_blocks)
    rows, columns, values = (_as_array(what, *given) for given in zip(_NAMES, (rows, columns, values), strict=True))
    block = bsr_matrix_t(_block_type(what, values)).block_type
    rows, columns, values = require_triplets(what, block, rows, columns, values)
    found, _ = _found(nrow, ncol, block, (rows, columns, values), None, prune_numerical_zeros)
    return as_matrix(block, found)


def _found(
    nrow: int, ncol: int, block: Any, triplets: tuple[Any, Any, Any], count: Any, prunes: bool | None
) -> tuple[Found, Blocks]:
    rows, columns, values = triplets
    kept = None if values is None else nonzero(values, block, prunes)
    blocks = blocks_of(nrow, ncol, rows, columns, count, kept)
    sums = None if values is None else summed(nrow, block, blocks, values)
    return Found(nrow, ncol, rows.shape[0], blocks.offsets, blocks.columns, sums), blocks


@boundary
def bsr_set_from_triplets(
    dest: Any,
    rows: Any,
    columns: Any,
    values: Any = None,
    count: Any = None,
    prune_numerical_zeros: bool | None = None,
    topology: str | None = None,
    build_mapping: Any = None,
) -> BsrTripletMap | None:
    """Replace the blocks of a matrix outside of JAX by blocks with their rows and columns, as `bsr_from_triplets` takes
    them.

    Args:
        dest: the matrix; its extents stay.
        rows, columns: (n,) of int32.
        values: (n,) blocks, or (n, r, c) numbers; None: what its blocks hold does not matter.
        count: an array of one int32, how many of them there are; None: all.
        prune_numerical_zeros: as of `bsr_from_triplets`.
        topology: "compact": its rows lie side by side, "padded": they keep their capacity, and one that has too many
            is empty and noted in `dest.status_sync()`; "masked": it keeps its blocks, and what is elsewhere is left
            out.
        build_mapping: True, or a `BsrTripletMap` that is to be built again: for `bsr_set_from_mapped_values`.

    Returns:
        The map, if one is built.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit each other.

    Differentiability:
        By `values`.
    """
    what = "bsr_set_from_triplets"
    require_outside(what, require_matrix(what, "dest", dest))
    topology = require_topology(what, topology)
    mapping = _mapping(what, build_mapping, dest, topology, prune_numerical_zeros is not False)
    for name, array in (("rows", rows), ("columns", columns)):
        if not isinstance(array, HostArray):
            raise KernelTypeError(f"{what}: {name}: expected an array outside of JAX, got {type_text(array)}")
    require_same_device(what, dest=dest, rows=rows, count=count)
    rows, columns, values = require_triplets(what, dest.block_type, rows, columns, values)
    if count is not None and not isinstance(count, HostArray):
        raise KernelTypeError(f"{what}: count: expected an array of one int32, got {count!r}")
    if count is not None and (count.shape != (1,) or count.dtype != wp.int32):
        raise (KernelTypeError if count.dtype != wp.int32 else KernelValueError)(
            f"{what}: count: expected an array of one int32, got {count.dtype} of shape {count.shape}"
        )
    if not rows.size:
        bsr_set_zero(dest, topology=topology)
        return None if mapping is None else mapping.bound(dest, None)
    if topology == "masked":
        values = apart(values, dest.values)
        dest.values.zero_()
        if values is not None:
            _add_to_blocks(dest, rows, columns, values, count)
        return None
    triplets = rows, columns, values
    found, blocks = _found(dest.nrow, dest.ncol, dest.block_type, triplets, count, prune_numerical_zeros)
    store(dest, found, topology)
    return None if mapping is None else mapping.bound(dest, blocks)


def _mapping(what: str, wanted: Any, dest: Any, topology: str, prunes: bool) -> BsrTripletMap | None:
    """The map that is asked for.

    Raises:
        KernelTypeError, KernelValueError: there is none of that.
    """
    if wanted is None or wanted is False:
        return None
    if wanted is not True and not isinstance(wanted, BsrTripletMap):
        raise KernelTypeError(
            f"{what}: build_mapping must be None, a bool or a BsrTripletMap, got {type_text(wanted)}"
        )
    if topology != "compact":
        raise KernelValueError(f'{what}: build_mapping requires topology="compact", got {topology!r}')
    if prunes:
        raise KernelValueError(f"{what}: build_mapping requires prune_numerical_zeros=False")
    mapping = BsrTripletMap(device=dest.device) if wanted is True else wanted
    if mapping.device != dest.device:
        raise KernelValueError(
            f"{what}: build_mapping: expected a map on the same device as dest, {dest.device}, got {mapping.device}"
        )
    return mapping


def _add_to_blocks(dest: Any, rows: Any, columns: Any, values: Any, count: Any) -> None:
    given = [rows, columns, count, dest.nrow, dest.offsets, dest.row_counts, dest.columns]
    blocks = as_scalars(values, dest.block_shape)
    wp.launch(_adding(dest.scalar_type), rows.size, [*given, blocks], [dest.scalar_values], device=dest.device)


@functools.cache
def _adding(scalar: Any) -> Any:
    @wp.kernel
    def bsr_add(  # noqa: PLR0913 - what a kernel reads
        rows: wp.array[int],
        columns: wp.array[int],
        count: wp.array[int],
        nrow: int,
        offsets: wp.array[int],
        row_counts: wp.array[int],
        found: wp.array[int],
        values: wp.array3d[scalar],
        sums: wp.array3d[scalar],
    ):
        t = wp.tid()
        if count and t >= count[0]:
            return
        row = rows[t]
        if row < 0 or row >= nrow:
            return
        block = bsr_block_index(row, columns[t], offsets, found, row_counts)
        if block >= 0:
            for i in range(values.shape[1]):
                for j in range(values.shape[2]):
                    wp.atomic_add(sums, block, i, j, values[t, i, j])

    return bsr_add


def _block_type(what: str, values: Any) -> Any:
    if isinstance(values, HostArray):
        return matrix((values.shape[1], values.shape[2]), values.dtype) if values.ndim == 3 else values.dtype
    if values.ndim not in (1, 3):
        raise KernelValueError(
            f"{what}: values: expected shape (n,), or (n, rows, columns) of blocks, got shape {values.shape}"
        )
    scalar = SCALAR_BY_DTYPE.get(np.dtype(values.dtype))
    if scalar is None:
        raise KernelTypeError(f"{what}: values: expected numbers, none of them complex, got {values.dtype}")
    return scalar if values.ndim == 1 else matrix(values.shape[1:], scalar)


_NAMES = ("rows", "columns", "values")


def _as_array(what: str, name: str, given: Any) -> Any:
    if isinstance(given, HostArray):
        return given
    try:
        found = jnp.asarray(given)
    except (TypeError, ValueError):
        raise KernelTypeError(f"{what}: {name}: expected an array, got {given!r}") from None
    if isinstance(given, np.ndarray) and given.dtype.kind in "iu" and (given.astype(found.dtype) != given).any():
        raise KernelValueError(f"{what}: {name}: expected numbers of {found.dtype}, got {given.dtype} that do not fit")
    return found


def require_triplets(what: str, block: Any, rows: Any, columns: Any, values: Any) -> tuple[Any, Any, Any]:
    """Rows, columns and blocks of a type, as many of each, all outside of JAX or all of JAX.

    Raises:
        KernelTypeError, KernelValueError: they are not.
    """
    named = dict(zip(_NAMES, (rows, columns, values), strict=True))
    require_same_device(what, **named)
    ours = [isinstance(value, HostArray) for value in named.values() if value is not None]
    if not all(ours):
        rows, columns, values = (None if v is None else jnp.asarray(v) for v in named.values())
    is_int = rows.dtype == columns.dtype == (wp.int32 if all(ours) else np.int32)
    if not is_int:
        raise KernelTypeError(
            f"{what}: got {rows.dtype} and {columns.dtype}: Rows and columns arrays must be of type int32"
        )
    if rows.ndim != 1 or rows.shape != columns.shape:
        raise KernelValueError(
            f"{what}: rows and columns: expected arrays with one axis and the same length, got shapes"
            f" {tuple(rows.shape)} and {tuple(columns.shape)}"
        )
    return rows, columns, None if values is None else as_blocks(what, block, values, rows.shape[0])
