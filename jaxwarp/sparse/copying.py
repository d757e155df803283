"""Copies of matrices: in blocks of another shape or type, transposed, and without what is stored twice."""

# pyright: reportInvalidTypeForm=false

import functools
from typing import Any

import jax.numpy as jnp

import jaxwarp as wp
from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelValueError
from jaxwarp.sparse.blocks_of_triplets import blocks_of, nonzero, summed
from jaxwarp.sparse.create import bsr_zeros, require_topology
from jaxwarp.sparse.expressions import matrix_and_scale
from jaxwarp.sparse.faces import evaluated, is_zero, number, require_extent
from jaxwarp.sparse.lookup import bsr_block_index
from jaxwarp.sparse.matrix import (
    as_blocks,
    extents_of,
    is_outside,
    require_matrix,
    require_outside,
    require_same_device,
    reserve,
    transposed_type,
)
from jaxwarp.sparse.rows import offsets_of, rows_of, side_by_side
from jaxwarp.sparse.storing import Found, as_matrix, keep_capacity, store
from jaxwarp.types import Scalar, as_dtype, element_scalar, element_shape, matrix

# The values of a matrix elsewhere


@functools.cache
def _gather(source: Any, target: Any) -> Any:
    """Make a kernel that reads another matrix at the blocks of a matrix, in numbers; 0 where it has no block."""

    @wp.kernel
    def bsr_gather(  # noqa: PLR0913 - what a kernel reads
        scale: source,
        transposed: bool,
        offsets: wp.array[int],
        row_counts: wp.array[int],
        columns: wp.array[int],
        values: wp.array3d[source],
        to_rows: wp.array[int],
        to_columns: wp.array[int],
        found: wp.array3d[target],
    ):
        b, i, j = wp.tid()
        total = target(0)
        if to_rows[b] >= 0:
            down = to_rows[b] * found.shape[1] + i
            across = to_columns[b] * found.shape[2] + j
            p = across if transposed else down
            q = down if transposed else across
            rows = values.shape[1]
            cols = values.shape[2]
            block = bsr_block_index(p // rows, q // cols, offsets, columns, row_counts)
            if block >= 0:
                total = target(scale * values[block, p % rows, q % cols])
        found[b, i, j] = total

    return bsr_gather


def gathered(source: Any, scale: Any, block: Any, like: Any, transposed: bool = False) -> Any:
    """Blocks of a type with what a matrix holds, where `like` has blocks: (nnz,) of them."""
    shape, scalar = (like.nnz, *extents_of(block)), element_scalar(block)
    if is_zero(scale):
        return zero_blocks(block, like.nnz, source)
    _require_countable(*source.shape, like.nrow * shape[1], like.ncol * shape[2])
    held = [source.offsets, source.row_counts, source.columns, source.scalar_values]
    given = [number(source, scale), transposed, *held, rows_of(like), like.columns]
    (found,) = evaluated(_gather(source.scalar_type, scalar), shape, given, [(shape, scalar)])
    return as_blocks("gathered", block, found, like.nnz)


def _require_countable(*extents: int) -> None:
    for extent in extents:
        if extent >= 2**31:
            raise KernelValueError(
                f"BsrMatrix: expected less than 2^31 rows and columns of numbers, where blocks are looked up, got"
                f" {extent}"
            )


@functools.cache
def _move(source: Any, target: Any) -> Any:
    @wp.kernel
    def bsr_move(scale: source, places: wp.array[int], values: wp.array3d[source], moved: wp.array3d[target]):
        b, i, j = wp.tid()
        moved[b, i, j] = target(scale * values[places[b], i, j])

    return bsr_move


def _moved(source: Any, scale: Any, block: Any, places: Any) -> Any:
    """The blocks at places, (n,), as ones of a type of the same shape."""
    if is_zero(scale):
        return zero_blocks(block, places.shape[0], source)
    shape, scalar = (places.shape[0], *source.block_shape), element_scalar(block)
    given = [number(source, scale), places, source.scalar_values]
    (found,) = evaluated(_move(source.scalar_type, scalar), shape, given, [(shape, scalar)])
    return as_blocks("moved", block, found, shape[0])


# Copies


@wp.kernel(enable_backward=False)
def _list_parts(
    parts: int,
    across: int,
    to_parts: int,
    to_across: int,
    rows: wp.array[int],
    columns: wp.array[int],
    to_rows: wp.array3d[int],
    to_columns: wp.array3d[int],
):
    """The blocks of another shape that the parts of each block are in; -1 where none is."""
    b, i, j = wp.tid()
    if rows[b] < 0:
        to_rows[b, i, j] = -1
        to_columns[b, i, j] = -1
    else:
        to_rows[b, i, j] = (rows[b] * parts + i) // to_parts
        to_columns[b, i, j] = (columns[b] * across + j) // to_across


def _parts(what: str, source: Any, shape: tuple[int, int]) -> list[tuple[int, int]]:
    """Return, for rows and columns, how many parts a block is cut into, and how many parts make a block of a new shape.

    Raises:
        KernelValueError: they do not divide each other, or the matrix.
    """
    found = []
    for axis, name in ((0, "rows"), (1, "columns")):
        old, new = source.block_shape[axis], shape[axis]
        parts, to_parts = max(old // new, 1), max(new // old, 1)
        if parts * new != old * to_parts:
            raise KernelValueError(
                f"{what}: Incompatible dest and src block shapes; block {name} must evenly divide one another, got"
                f" {new} and {old}"
            )
        found.append((parts, to_parts))
    if source.shape[0] % shape[0] or source.shape[1] % shape[1]:
        raise KernelValueError(
            f"{what}: The requested block shape {shape} does not evenly divide the source matrix of total size"
            f" {source.shape}"
        )
    return found


def copied(what: str, source: Any, scale: Any, block: Any, has_values: bool = True) -> Found:
    """A matrix in blocks of a type, side by side."""
    shape = extents_of(block)
    (parts, to_parts), (across, to_across) = _parts(what, source, shape)
    nrow, ncol = source.shape[0] // shape[0], source.shape[1] // shape[1]
    if shape == source.block_shape:
        offsets, columns, places = side_by_side(source)
        values = _moved(source, scale, block, places) if has_values else None
        return Found(nrow, ncol, source.nnz, offsets, columns, values)
    _require_countable(*source.shape)
    n = source.nnz * parts * across
    given = [parts, across, to_parts, to_across, rows_of(source), source.columns]
    dim = (source.nnz, parts, across)
    rows, columns = (x.reshape(n) for x in evaluated(_list_parts, dim, given, [(dim, int), (dim, int)]))
    blocks = blocks_of(nrow, ncol, rows, columns)
    found = Found(nrow, ncol, n, blocks.offsets, blocks.columns, None)
    if not has_values:
        return found
    return found._replace(values=gathered(source, scale, block, as_matrix(block, found)))


@boundary
def bsr_assign(dest: Any, src: Any, structure_only: bool = False, topology: str | None = None) -> None:
    """Copy a matrix to another one outside of JAX, converted to the blocks and the type of that.

    Args:
        dest: the matrix; it gets the size of `src`.
        src: what is copied. The extents of its blocks and of those of `dest` divide each other.
        structure_only: what its blocks hold does not matter.
        topology: "compact": its rows lie side by side, "padded": they keep their capacity, and one that has too many
            blocks is empty and noted in `dest.status_sync()`; "masked": it keeps its blocks, and what is elsewhere is
            left out.

    Raises:
        KernelTypeError, KernelValueError: the matrices do not fit each other.

    Differentiability:
        By `src.values`.
    """
    what = "bsr_assign"
    source, scale = matrix_and_scale(what, "src", src)
    require_outside(what, require_matrix(what, "dest", dest))
    require_outside(what, source)
    require_same_device(what, dest=dest, src=source)
    topology = require_topology(what, topology)
    _parts(what, source, dest.block_shape)
    if topology != "compact":
        r, c = dest.block_shape
        require_size(what, "dest", dest, (source.shape[0] // r, source.shape[1] // c))
    if topology != "masked":
        store(dest, copied(what, source, scale, dest.block_type, not structure_only), topology)
    elif not structure_only and dest.nnz:
        wp.copy(dest.values, gathered(source, scale, dest.block_type, dest), count=dest.nnz)


def require_size(what: str, name: str, matrix: Any, size: tuple[int, int]) -> None:
    """A matrix of so many rows and columns of blocks.

    Raises:
        KernelValueError: it is of another size.
    """
    if (matrix.nrow, matrix.ncol) != size:
        raise KernelValueError(
            f"{what}: {name}: expected {size[0]} rows and {size[1]} columns of blocks, got {matrix.nrow} and"
            f" {matrix.ncol}"
        )


@boundary
def bsr_copy(
    A: Any,  # noqa: N803
    scalar_type: Any = None,
    block_shape: tuple[int, int] | None = None,
    structure_only: bool = False,
    topology: str = "compact",
) -> Any:
    """A copy of a matrix.

    Args:
        A: a matrix.
        scalar_type: of its numbers; None: as they are.
        block_shape: of its blocks; None: as they are. Their extents divide each other.
        structure_only: what its blocks hold does not matter.
        topology: "compact": its rows lie side by side, "padded": they keep their capacity, outside of JAX.

    Raises:
        KernelTypeError, KernelValueError: there is no such copy.

    Differentiability:
        By `A.values`.
    """
    what = "bsr_copy"
    source, scale = matrix_and_scale(what, "A", A)
    if topology not in ("compact", "padded"):
        raise KernelValueError(f"{what}: topology: expected 'compact' or 'padded', got {topology!r}")
    scalar = source.scalar_type if scalar_type is None else as_dtype(scalar_type)
    shape = source.block_shape if block_shape is None else block_shape
    if not isinstance(scalar, Scalar) or not isinstance(shape, (tuple, list)) or len(shape) != 2:
        raise KernelValueError(f"{what}: expected a scalar type and two extents, got {scalar_type!r}, {block_shape!r}")
    shape = (require_extent(what, "block_shape", shape[0]), require_extent(what, "block_shape", shape[1]))
    if 0 in shape:
        raise KernelValueError(f"{what}: block_shape: expected positive extents, got {shape}")
    block = scalar if shape == (1, 1) else matrix(shape, scalar)
    found = copied(what, source, scale, block, not structure_only)
    if topology == "compact":
        return as_matrix(block, without_none(found, block, source))
    require_outside(f"{what} with topology='padded'", source)
    (parts, to_parts), (across, _) = _parts(what, source, shape)
    made = bsr_zeros(found.nrow, found.ncol, block, source.device)
    made.values.begin(source.requires_grad)
    given = [source.offsets, source.nrow, parts, across, to_parts]
    (capacity,) = evaluated(_capacities, made.nrow, given, [(made.nrow, int)])
    made.offsets, made.row_counts = offsets_of(capacity), wp.zeros(made.nrow, dtype=int, device=made.device)
    reserve(made, source.nnz * parts * across)
    store(made, found, "padded")
    return made


@wp.kernel(enable_backward=False)
def _capacities(
    offsets: wp.array[int], nrow: int, parts: int, across: int, to_parts: int, capacities: wp.array[int]
):
    """Compute how many blocks of another shape each row has room for."""
    row = wp.tid()
    first = row * to_parts
    begin = first // parts
    end = wp.min((first + to_parts + parts - 1) // parts, nrow)
    capacities[row] = (offsets[end] - offsets[begin]) * across


def without_none(found: Found, block: Any, like: Any) -> Found:
    """Return a result with blocks of zeros if it has none because their values do not matter."""
    if found.values is not None:
        return found
    return found._replace(values=zero_blocks(block, found.nnz, like))


def zero_blocks(block: Any, count: int, like: Any) -> Any:
    if is_outside(like):
        return wp.zeros(count, block, device=like.device, requires_grad=like.requires_grad)
    return jnp.zeros((count, *element_shape(block)), element_scalar(block).numpy)


# The transpose


def transposed(source: Any, scale: Any) -> Found:
    """A matrix with rows and columns exchanged, side by side."""
    blocks = blocks_of(source.ncol, source.nrow, source.columns[: source.nnz], rows_of(source))
    used = source.values[: source.nnz]
    if is_zero(scale):
        values = zero_blocks(transposed_type(source.block_type), source.nnz, source)
    else:
        values = summed(source.ncol, source.block_type, blocks, used, scale, is_transposed=True)
    return Found(source.ncol, source.nrow, source.nnz, blocks.offsets, blocks.columns, values)


@boundary
def bsr_set_transpose(dest: Any, src: Any, topology: str | None = None) -> None:
    """Make a matrix outside of JAX the transpose of another one.

    Args:
        dest: the matrix; it gets the size.
        src: what is transposed; it may be `dest`.
        topology: as of `bsr_assign`.

    Raises:
        KernelTypeError, KernelValueError: the matrices do not fit each other.

    Differentiability:
        By `src.values`.
    """
    what = "bsr_set_transpose"
    source, scale = matrix_and_scale(what, "src", src)
    require_outside(what, require_matrix(what, "dest", dest))
    require_outside(what, source)
    require_same_device(what, dest=dest, src=source)
    topology = require_topology(what, topology)
    if dest.scalar_type != source.scalar_type:
        raise KernelValueError(
            f"{what}: dest: expected a matrix of {source.scalar_type}, got one of {dest.scalar_type}"
        )
    if dest.block_shape != source.block_shape[::-1]:
        raise KernelValueError(
            f"{what}: Destination block shape must be {source.block_shape[::-1]}, got {dest.block_shape}"
        )
    if topology != "compact":
        require_size(what, "dest", dest, (source.ncol, source.nrow))
    if topology != "masked":
        store(dest, transposed(source, scale), topology)
    elif dest.nnz:
        wp.copy(dest.values, gathered(source, scale, dest.block_type, dest, transposed=True), count=dest.nnz)


@boundary
def bsr_transposed(A: Any) -> Any:  # noqa: N803
    """The transpose of a matrix, a new one.

    Raises:
        KernelTypeError: it is no matrix.

    Differentiability:
        By `A.values`.
    """
    source, scale = matrix_and_scale("bsr_transposed", "A", A)
    return as_matrix(transposed_type(source.block_type), transposed(source, scale))


# What is stored twice


@boundary
def bsr_compress(
    src: Any,
    prune_numerical_zeros: bool | None = None,
    inplace: bool = False,
    topology: str | None = None,
    structure_only: bool = False,
) -> Any:
    """Adds blocks that are at the same place, sorts the rows, and leaves out blocks outside of the matrix.

    Args:
        src: a matrix, whose columns may be in any order. Outside of JAX it is changed, and returned; in JAX another
            one is.
        prune_numerical_zeros: as of `bsr_from_triplets`.
        inplace: accepted, no effect.
        topology: "compact": its rows lie side by side, "padded": they keep their capacity.
        structure_only: what its blocks hold does not matter: zeros are kept, and the values do not move.

    Raises:
        KernelTypeError, KernelValueError: the arguments are not that.

    Differentiability:
        By `src.values`.
    """
    del inplace
    what = "bsr_compress"
    require_matrix(what, "src", src)
    if topology not in (None, "compact", "padded"):
        raise KernelValueError(f"{what}: topology: expected 'compact' or 'padded', got {topology!r}")
    n, columns = src.nnz, src.columns[: src.nnz]
    kept = None if structure_only else nonzero(src.values[:n], src.block_type, prune_numerical_zeros)
    blocks = blocks_of(src.nrow, src.ncol, rows_of(src), columns, None, kept)
    found = Found(src.nrow, src.ncol, n, blocks.offsets, blocks.columns, None)
    if not structure_only:
        found = found._replace(values=summed(src.nrow, src.block_type, blocks, src.values[:n]))
    if not is_outside(src):
        require_compact(what, topology)
        return as_matrix(src.block_type, without_none(found, src.block_type, src))
    if topology == "padded":
        keep_capacity(src)
    store(src, found, topology or "compact")
    return src


def require_compact(what: str, topology: str | None) -> None:
    """Check that rows of a matrix in JAX are to lie side by side.

    Raises:
        KernelValueError: they are to have capacities.
    """
    if topology == "padded":
        raise KernelValueError(
            f"{what}: topology: the matrix is a value of JAX, whose rows lie side by side", hint="leave topology out"
        )
