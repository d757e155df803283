"""`bsr_mm`: a sparse matrix times a sparse matrix."""

# pyright: reportInvalidTypeForm=false

import functools
from typing import Any

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import boundary, guarded
from jaxwarp.errors import KernelValueError
from jaxwarp.sparse.copying import gathered, require_compact, zero_blocks
from jaxwarp.sparse.create import require_topology
from jaxwarp.sparse.expressions import matrix_and_scale
from jaxwarp.sparse.faces import evaluated, is_zero, number, require_extent, require_factor
from jaxwarp.sparse.lookup import row_end
from jaxwarp.sparse.matrix import (
    as_blocks,
    as_scalars,
    extents_of,
    is_large,
    is_outside,
    made_of,
    of_jax,
    require_matrix,
    require_same_device,
)
from jaxwarp.sparse.merging import product_columns, product_sizes
from jaxwarp.sparse.rows import count_of, offsets_of
from jaxwarp.sparse.storing import Found, as_matrix, keep_capacity, store
from jaxwarp.sparse.sums import add_blocks, bsr_scale
from jaxwarp.types import element_scalar, element_shape, matrix


@guarded
class bsr_mm_work_arrays:  # noqa: N801
    """The places of the product's blocks, which `bsr_mm` keeps for a call with `reuse_topology`.

    Attributes:
        found: these places, with the rows and columns of blocks that the factors have.
        total: offsets for all blocks, where there was perhaps no room for some.
    """

    def __init__(self) -> None:
        self.found: tuple[tuple[int, int, int], Found] | None = None
        self.total: Any = None


@functools.cache
def _product(x_block: Any, y_block: Any, z_block: Any) -> Any:
    """product += alpha x y, where it has blocks; a thread for each row."""
    scalar = element_scalar(z_block)

    @wp.kernel
    def bsr_mm(  # noqa: PLR0913 - what a kernel reads
        alpha: scalar,
        x_offsets: wp.array[int],
        x_row_counts: wp.array[int],
        x_columns: wp.array[int],
        x_values: wp.array[x_block],
        y_offsets: wp.array[int],
        y_row_counts: wp.array[int],
        y_columns: wp.array[int],
        y_values: wp.array[y_block],
        offsets: wp.array[int],
        row_counts: wp.array[int],
        columns: wp.array[int],
        product: wp.array[z_block],
    ):
        row = wp.tid()
        end = row_end(offsets, row_counts, row)
        for x in range(x_offsets[row], row_end(x_offsets, x_row_counts, row)):
            k = x_columns[x]
            value = alpha * x_values[x]
            b = offsets[row]
            for y in range(y_offsets[k], row_end(y_offsets, y_row_counts, k)):
                b = wp.lower_bound(columns, b, end, y_columns[y])
                if b < end and columns[b] == y_columns[y]:
                    product[b] = product[b] + value * y_values[y]

    return bsr_mm


@functools.cache
def _product_of_large(scalar: Any) -> Any:
    """The same of large blocks, a thread for each number of a row of blocks."""

    @wp.kernel
    def bsr_mm_large(  # noqa: PLR0913 - what a kernel reads
        alpha: scalar,
        x_offsets: wp.array[int],
        x_row_counts: wp.array[int],
        x_columns: wp.array[int],
        x_values: wp.array3d[scalar],
        y_offsets: wp.array[int],
        y_row_counts: wp.array[int],
        y_columns: wp.array[int],
        y_values: wp.array3d[scalar],
        offsets: wp.array[int],
        row_counts: wp.array[int],
        columns: wp.array[int],
        product: wp.array3d[scalar],
    ):
        row, i, j = wp.tid()
        end = row_end(offsets, row_counts, row)
        for x in range(x_offsets[row], row_end(x_offsets, x_row_counts, row)):
            k = x_columns[x]
            b = offsets[row]
            for y in range(y_offsets[k], row_end(y_offsets, y_row_counts, k)):
                b = wp.lower_bound(columns, b, end, y_columns[y])
                if b < end and columns[b] == y_columns[y]:
                    total = scalar(0)
                    for m in range(x_values.shape[2]):
                        total += x_values[x, i, m] * y_values[y, m, j]
                    product[b, i, j] = product[b, i, j] + alpha * total

    return bsr_mm_large


@boundary
def bsr_mm(  # noqa: PLR0913 - the signature users know from Warp
    x: Any,
    y: Any,
    z: Any = None,
    alpha: Any = 1.0,
    beta: Any = 0.0,
    work_arrays: Any = None,
    reuse_topology: bool = False,
    tile_size: int = 0,
    max_new_nnz: int | None = None,
    topology: str | None = None,
) -> Any:
    """Compute `alpha x y + beta z`. Outside of JAX it changes and returns `z`; in JAX it returns a new matrix.

    Under `jit` and in a capture, pass `max_new_nnz`, the most blocks that the product may have. If it has more, all
    numbers that the result stores are NaN.

    Args:
        x, y: matrices, whose sizes fit each other, of one scalar type.
        z: a matrix of the size of the product, which may be `x` or `y`; None: zero.
        alpha, beta: factors.
        work_arrays: `bsr_mm_work_arrays()`, which keeps where the blocks of the product are.
        reuse_topology: take them from `work_arrays`: blocks of x, y and z are where they were in the last call with it.
        tile_size: accepted, no effect.
        max_new_nnz: how many blocks the product has at most, not counting those of `z`.
        topology: "compact": rows lie side by side, "padded": those of `z` keep their capacity, and one that has too
            many blocks is empty and noted in `z.status_sync()`; "masked": `z` keeps its blocks, and what is elsewhere
            is left out.

    Raises:
        KernelTypeError, KernelValueError: the matrices do not fit each other; there are more than `max_new_nnz` blocks;
            or their number is not known.

    Differentiability:
        By the values of the matrices, and in JAX by `alpha` and `beta`.
    """
    del tile_size
    what = "bsr_mm"
    (left, left_scale), (right, right_scale) = matrix_and_scale(what, "x", x), matrix_and_scale(what, "y", y)
    factor = require_factor(what, "alpha", alpha, left.scalar_type) * left_scale * right_scale
    require_factor(what, "beta", beta, left.scalar_type)
    topology = require_topology(what, topology)
    if z is not None:
        require_matrix(what, "z", z)
    elif topology != "compact":
        raise KernelValueError(f"{what}: z: expected a matrix with topology={topology!r}, got None")
    if reuse_topology and topology != "compact":
        raise KernelValueError(f"{what}: reuse_topology is only supported with topology='compact', got {topology!r}")
    block = _block_of(what, left, right, z)
    is_host = is_outside(left, right) and (z is None or is_outside(z))
    if not is_host:
        require_compact(what, topology)
        left, right, z = of_jax(left), of_jax(right), None if z is None else of_jax(z)
    if z is not None and is_zero(factor):
        return bsr_scale(z, beta)
    old = None if z is None or is_zero(beta) else z
    if z is not None and topology == "masked":
        values = _values(left, right, factor, z.block_type, z, old, beta)
        return _kept(z, values) if is_host else made_of(z.block_type, **{**vars(z), "values": values})
    if reuse_topology:
        found, total = _remembered(what, work_arrays, left, right)
    else:
        capacity = z.nnz if z is not None and topology == "padded" else None
        found, total = _places(what, left, right, old, max_new_nnz, capacity)
    if isinstance(work_arrays, bsr_mm_work_arrays):
        work_arrays.found = (left.nrow, left.ncol, right.ncol), _apart(found)
        work_arrays.total = total
    if total is not None:
        left, right = _nan_if_short(left, total, found.nnz), _nan_if_short(right, total, found.nnz)
        old = None if old is None else _nan_if_short(old, total, found.nnz)
    result = found._replace(values=_values(left, right, factor, block, as_matrix(block, found), old, beta))
    if z is None or not is_host:
        return as_matrix(block, result)
    if topology == "padded":
        keep_capacity(z)
    store(z, result, topology)
    return z


def _block_of(what: str, x: Any, y: Any, z: Any) -> Any:
    """The type of the blocks of the product.

    Raises:
        KernelValueError: matrices do not fit each other.
    """
    require_same_device(what, x=x, y=y, z=z)
    shape, others = (x.block_shape[0], y.block_shape[1]), [y] if z is None else [y, z]
    for name, other in zip("yz", others, strict=False):
        if other.scalar_type != x.scalar_type:
            raise KernelValueError(
                f"{what}: {name}: expected a matrix of {x.scalar_type}, as x is, got one of {other.scalar_type}",
                hint="convert it: bsr_copy(y, scalar_type=...)",
            )
    if x.block_shape[1] != y.block_shape[0] or (z is not None and z.block_shape != shape):
        given = "" if z is None else f", to {z.block_shape}"
        raise KernelValueError(
            f"{what}: Incompatible block sizes for matrix multiplication, got {x.block_shape} times"
            f" {y.block_shape}{given}"
        )
    if x.ncol != y.nrow or (z is not None and (z.nrow, z.ncol) != (x.nrow, y.ncol)):
        given = "" if z is None else f", to ({z.nrow}, {z.ncol})"
        raise KernelValueError(
            f"{what}: Incompatible number of rows/columns for matrix multiplication, got ({x.nrow}, {x.ncol}) times"
            f" ({y.nrow}, {y.ncol}){given}"
        )
    if z is not None:
        return z.block_type
    return x.scalar_type if shape == (1, 1) else matrix(shape, x.scalar_type)


def _remembered(what: str, work_arrays: Any, x: Any, y: Any) -> tuple[Found, Any]:
    kept = getattr(work_arrays, "found", None)
    if kept is None:
        raise KernelValueError(
            f"{what}: work_arrays: expected those of a call before, to reuse its topology, got {work_arrays!r}",
            hint="pass the same bsr_mm_work_arrays() to both calls",
        )
    (rows, inner, columns), found = kept
    if (rows, inner, columns) != (x.nrow, x.ncol, y.ncol):
        raise KernelValueError(
            f"{what}: work_arrays: expected those of a product ({x.nrow}, {x.ncol}) times ({y.nrow}, {y.ncol}), got"
            f" ones of ({rows}, {inner}) times ({inner}, {columns})"
        )
    return found, work_arrays.total


def _apart(found: Found) -> Found:
    """The places of blocks in arrays of their own: a matrix writes to those that it is stored in."""
    if not isinstance(found.offsets, HostArray):
        return found
    return found._replace(offsets=wp.clone(found.offsets), columns=wp.clone(found.columns))


def _places(what: str, x: Any, y: Any, z: Any, most: Any, capacity: int | None) -> tuple[Found, Any]:
    """The blocks of x y + z, without values. Where it is not known whether there is room for all, also the offsets that
    they would have if there was."""
    total = offsets_of(product_sizes(x, y, z))
    count = count_of(total, x.nrow)
    limit = None if most is None else require_extent(what, "max_new_nnz", most) + (0 if z is None else z.nnz)
    if count is not None and limit is not None and count > limit:
        raise KernelValueError(
            f"{what}: max_new_nnz: the number of blocks, {count}, has exceeded {limit}", hint="pass a larger number"
        )
    room = limit if count is None else count
    room = capacity if room is None else room
    if room is None:
        raise KernelValueError(
            f"{what}: how many blocks the product has is not known in a capture, or when JAX traces it",
            hint='pass max_new_nnz=..., or a matrix z and topology="masked"',
        )
    if count is None and not room and x.nnz and y.nnz:
        raise KernelValueError(
            f"{what}: max_new_nnz: expected room for a block at least, got {room}: NaN tells that there are more",
            hint="pass the number of blocks that the product has at most",
        )
    offsets = total if count is not None else evaluated(_clip, x.nrow + 1, [total, room], [(x.nrow + 1, int)])[0]
    columns = product_columns(x, y, z, offsets, room)
    return Found(x.nrow, y.ncol, room, offsets, columns, None), None if count is not None else total


@wp.kernel(enable_backward=False)
def _clip(total: wp.array[int], room: int, offsets: wp.array[int]):
    i = wp.tid()
    offsets[i] = wp.min(total[i], room)


def _values(x: Any, y: Any, alpha: Any, block: Any, like: Any, z: Any, beta: Any) -> Any:
    """Blocks of alpha x y + beta z where `like` has some; z may be None."""
    scalar, n = element_scalar(block), like.nnz
    is_plain = all(extents_of(b) == (1, 1) for b in (x.block_type, y.block_type))
    held = [[m.offsets, m.row_counts, m.columns] for m in (x, y, like)]
    if is_zero(alpha):
        found = zero_blocks(block, n, x)
    elif any(map(is_large, (x.block_type, y.block_type, block))):
        shape = (n, *extents_of(block))
        given = [number(x, alpha), *held[0], x.scalar_values, *held[1], y.scalar_values, *held[2]]
        (found,) = evaluated(_product_of_large(scalar), (x.nrow, *shape[1:]), given, [(shape, scalar)])
    else:
        kinds = [scalar if is_plain else matrix(extents_of(b), scalar) for b in (x.block_type, y.block_type, block)]
        x_values, y_values = (_as_type(m.scalar_values, kind) for m, kind in zip((x, y), kinds, strict=False))
        given = [number(x, alpha), *held[0], x_values, *held[1], y_values, *held[2]]
        (found,) = evaluated(_product(*kinds), x.nrow, given, [(n, kinds[2])])
    product = as_scalars(found, extents_of(block)) if isinstance(found, HostArray) and found.ndim == 1 else found
    product = as_blocks("bsr_mm", block, product.reshape((n, *extents_of(block))), n)
    if z is None:
        return product
    others = gathered(z, beta, block, like)
    if not isinstance(product, HostArray):
        return product + others
    add_blocks(product, others, extents_of(block))
    return product


def _as_type(values: Any, kind: Any) -> Any:
    """Numbers, (n, rows, columns), as blocks of a type of that shape."""
    found = values.reshape((values.shape[0], *element_shape(kind)))
    return found.view(kind) if isinstance(found, HostArray) and element_shape(kind) else found


def _nan_if_short(matrix: Any, total: Any, room: int) -> Any:
    """A matrix, with NaN in all blocks if there is no room for a product: so are derivatives by them."""
    if not matrix.scalar_type.is_float:
        raise KernelValueError(
            "bsr_mm: the matrices are of integers: that there is no room for all blocks could not be told",
            hint='pass a matrix z and topology="masked"',
        )
    given = matrix.scalar_values
    shape = tuple(given.shape)
    (found,) = evaluated(_spoil(matrix.scalar_type), shape, [total, room, given], [(shape, matrix.scalar_type)])
    return made_of(
        matrix.block_type, **{**vars(matrix), "values": as_blocks("bsr_mm", matrix.block_type, found, shape[0])}
    )


@functools.cache
def _spoil(scalar: Any) -> Any:
    nan = float("nan")

    @wp.kernel
    def bsr_spoil(total: wp.array[int], room: int, values: wp.array3d[scalar], spoiled: wp.array3d[scalar]):
        b, i, j = wp.tid()
        factor = scalar(1)
        if total[total.shape[0] - 1] > room:
            factor = scalar(nan)
        spoiled[b, i, j] = factor * values[b, i, j]

    return bsr_spoil


def _kept(z: Any, values: Any) -> Any:
    if z.nnz:
        wp.copy(z.values, values, count=z.nnz)
    return z
