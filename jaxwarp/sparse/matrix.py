"""`BsrMatrix`: sparse matrices of blocks in rows, in arrays outside of JAX or as a value of JAX."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, ClassVar

import jax
import jax.core
import numpy as np

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import boundaries
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.sparse.faces import require_extent
from jaxwarp.sparse.rows import rows_of
from jaxwarp.structs.instances import METHODS
from jaxwarp.types import Mat, Scalar, as_dtype, element_scalar, element_shape, matrix

BSR_STATUS_SUCCESS = 0
"""Of `BsrMatrix.status_sync`: every row had room."""

BSR_STATUS_ROW_CAPACITY_EXCEEDED = 1
"""Of `BsrMatrix.status_sync`: a row did not have room, and is empty."""

_MESSAGES = {BSR_STATUS_SUCCESS: "success", BSR_STATUS_ROW_CAPACITY_EXCEEDED: "row capacity exceeded"}


@boundaries
class BsrMatrix:
    """A sparse matrix that stores its blocks row after row.

    `bsr_zeros`, `bsr_from_triplets` and others make one. It is a pytree of JAX, and an argument of kernels, annotated
    `BsrMatrix[block_type]`. With arrays outside of JAX, functions change it in place; with JAX arrays it never changes.

    Attributes:
        nrow, ncol: rows and columns of blocks. JAX does not trace them, nor `nnz`.
        nnz: how many blocks there are room for in what is used of the arrays; `nnz_sync()` makes it their number.
        offsets: (nrow + 1,) of int32: row r has the blocks from `offsets[r]` to `offsets[r + 1]`.
        row_counts: (nrow,) of int32, how many of them are used, or None: all.
        columns: (nnz,) of int32, the column of each block. They ascend in each row.
        values: (nnz,) blocks.
    """

    __slots__ = ("__weakref__", "places", "status")  # no part of the value: the class of each type has a `__dict__`
    __array_ufunc__ = None  # operators beside arrays of NumPy are the matrix's
    _SETTABLE = ("nrow", "ncol", "nnz", "offsets", "columns", "values", "row_counts")
    _CALLED = "BsrMatrix"
    block_type: ClassVar[Any]
    __jaxwarp_open__ = "say what its blocks are: BsrMatrix[float], BsrMatrix[wp.mat33]"
    nrow: int
    ncol: int
    nnz: int
    offsets: Any
    row_counts: Any
    columns: Any
    values: Any

    def __class_getitem__(cls, block_type: Any) -> Any:
        """The class of matrices with blocks of this type."""
        return bsr_matrix_t(block_type)

    def __init__(self) -> None:
        raise KernelTypeError(
            "BsrMatrix: the type of its blocks is not told", hint="write bsr_zeros(rows, columns, wp.mat33)"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a field. Arrays are taken as they are, not copied; functions of matrices look whether sizes fit them."""
        if name in _SIZES:
            value = require_extent("BsrMatrix", name, value)
        if name == "values" and isinstance(value, HostArray) and value.dtype != self.block_type:
            raise KernelTypeError(
                f"BsrMatrix: values: expected an array of {self.block_type}, got one of {value.dtype}",
                hint=f"make it with dtype={self.block_type}",
            )
        if name not in ("values", "nnz"):
            object.__setattr__(self, "places", object())
        METHODS["__setattr__"](self, name, value)

    def __reduce__(self) -> Any:
        return _rebuilt, (self.block_type, dict(vars(self)))

    @property
    def dtype(self) -> Any:
        """The type of its blocks."""
        return self.block_type

    @property
    def scalar_type(self) -> Scalar:
        """The type of the components of its blocks."""
        return element_scalar(self.block_type)

    @property
    def block_shape(self) -> tuple[int, int]:
        """Rows and columns of a block; (1, 1) of a number."""
        return extents_of(self.block_type)

    @property
    def block_size(self) -> int:
        """The number of components of a block."""
        rows, columns = self.block_shape
        return rows * columns

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of numbers."""
        rows, columns = self.block_shape
        return (self.nrow * rows, self.ncol * columns)

    @property
    def ndim(self) -> int:
        return 2

    @property
    def device(self) -> Any:
        """The device that the arrays are on."""
        return self.offsets.device

    @property
    def requires_grad(self) -> bool:
        """True if the blocks have a gradient, for a `Tape`."""
        return isinstance(self.values, HostArray) and self.values.requires_grad

    @property
    def scalar_values(self) -> Any:
        """The blocks as an array with three axes, of numbers: the same memory, of arrays outside of JAX."""
        return as_scalars(self.values, self.block_shape)

    def uncompress_rows(self, out: Any = None) -> Any:
        """(nnz,) of int32, the row of each place; -1 where none is used.

        Args:
            out: outside of JAX, an array of at least `nnz` int32 to write to.

        Raises:
            KernelValueError: `out` is too short, or of another type.
        """
        found = rows_of(self)
        if out is None:
            return found
        if not isinstance(out, HostArray) or out.dtype != wp.int32 or out.ndim != 1 or len(out) < self.nnz:
            raise KernelValueError(
                f"BsrMatrix.uncompress_rows: out: expected an array of at least {self.nnz} int32, got {out!r}"
            )
        if self.nnz:
            wp.copy(out, found, count=self.nnz)
        return out

    def nnz_sync(self) -> int:
        """Makes `nnz` what the offsets say, and returns it: the number of blocks, or with `row_counts` of places.

        Raises:
            KernelTypeError: they are traced by JAX.
            KernelValueError: a capture is being made.
        """
        if isinstance(self.offsets, jax.core.Tracer):
            raise KernelTypeError(
                "BsrMatrix.nnz_sync: the number of blocks is known when the program runs, not when JAX traces it",
                hint="use A.offsets[A.nrow], a value of the program",
            )
        last = self.offsets[self.nrow : self.nrow + 1]
        count = int(np.asarray(last.numpy() if isinstance(last, HostArray) else last)[0])
        setattr(self, "nnz", count)  # noqa: B010 - see __slots__
        return count

    def copy_nnz_async(self) -> None:
        """Does nothing: `nnz_sync` reads the number when it is asked for."""

    def notify_nnz_changed(self, nnz: int | None = None, nnz_capacity: int | None = None) -> None:
        """Tells that the offsets were changed by others: `nnz` follows, and arrays that are too small are replaced.

        Args:
            nnz: at least as many as there are blocks; None: what the offsets say.
            nnz_capacity: for how many the arrays are to have room.

        Raises:
            KernelValueError: `nnz_capacity` is below `nnz`.
        """
        require_outside("BsrMatrix.notify_nnz_changed", self)
        if nnz is None and nnz_capacity is None:
            self.nnz_sync()
        reserve(self, nnz_capacity if nnz is None else nnz, nnz_capacity)

    def status_sync(self) -> int:
        """`BSR_STATUS_SUCCESS`, or what was wrong in an operation with `topology="padded"` since `clear_status()`."""
        status = getattr(self, "status", None)
        return BSR_STATUS_SUCCESS if status is None else int(status.numpy()[0])

    def status_message(self) -> str:
        """Return the status from `status_sync` in words."""
        return _MESSAGES[self.status_sync()]

    def clear_status(self) -> None:
        """Forgets what was wrong."""
        if getattr(self, "status", None) is not None:
            self.status.zero_()


_SIZES = ("nrow", "ncol", "nnz")
_FIELDS = {
    **dict.fromkeys(_SIZES, int),
    **dict.fromkeys(("offsets", "row_counts", "columns"), wp.array[int]),
}


def bsr_matrix_t(dtype: Any) -> Any:
    """The class of matrices with blocks of a type: a scalar, or a matrix.

    Raises:
        KernelTypeError, KernelValueError: it is neither.
    """
    block: Any = None if dtype is None else as_dtype(dtype)  # to NumPy, None is float64
    is_block = isinstance(block, Scalar) or (isinstance(block, Mat) and isinstance(block.dtype, Scalar))
    if not is_block or not all(isinstance(n, int) for n in element_shape(block)):
        raise KernelValueError(
            f"BsrMatrix block type must be either warp matrix or scalar; got {dtype!r}",
            hint="write wp.float32, or wp.types.matrix((rows, columns), wp.float32)",
        )
    return _class_of(block)


@functools.cache
def _class_of(block: Any) -> Any:
    sizes = {name: dataclasses.field(default=0, metadata={"static": True}) for name in _SIZES}
    said = {"__doc__": BsrMatrix.__doc__, "__module__": __name__, "block_type": block}
    fields = {**_FIELDS, "values": wp.array[block]}
    made = type(f"BsrMatrix[{block!r}]", (BsrMatrix,), {**sizes, **said, "__annotations__": fields})
    made = wp.struct(made)
    for name in ("__setattr__", "__reduce__"):
        setattr(made, name, getattr(BsrMatrix, name))
    return made


def _rebuilt(block: Any, fields: dict[str, Any]) -> BsrMatrix:
    return made_of(block, **fields)


def made_of(block: Any, **fields: Any) -> Any:
    """A matrix of these fields, as they are."""
    made = object.__new__(bsr_matrix_t(block))
    made.__dict__.update(dict.fromkeys((*_FIELDS, "values")) | fields)
    return made


# What functions of matrices ask of them


def require_matrix(what: str, name: str, value: Any) -> Any:
    """A matrix, whose arrays are as long as its sizes say.

    Raises:
        KernelTypeError, KernelValueError: it is none.
    """
    if not isinstance(value, BsrMatrix):
        raise KernelTypeError(
            f"{what}: {name}: expected a BsrMatrix, got {type_text(value)}",
            hint="make one with bsr_from_triplets(rows, columns, ...)",
        )
    extents = {"offsets": value.nrow + 1, "row_counts": value.nrow, "columns": value.nnz, "values": value.nnz}
    for field, least in extents.items():
        array = getattr(value, field)
        if array is not None and (not array.shape or array.shape[0] < least):
            raise KernelValueError(
                f"{what}: {name}: expected {field} of at least {least} elements, with nrow={value.nrow} and"
                f" nnz={value.nnz}, got shape {tuple(array.shape)}",
                hint="take one of many matrices with jax.vmap; notify_nnz_changed() makes room",
            )
    return value


def places_of(matrix: Any) -> Any:
    """Return an object that is replaced whenever an operation moves the blocks of a matrix outside of JAX."""
    if getattr(matrix, "places", None) is None:
        object.__setattr__(matrix, "places", object())
    return matrix.places


def is_outside(*matrices: Any) -> bool:
    """Return whether the arrays of matrices are outside of JAX. Such matrices are changed in place."""
    return all(isinstance(m.values, HostArray) and isinstance(m.offsets, HostArray) for m in matrices)


def of_jax(matrix: Any) -> Any:
    """The matrix as a value of JAX: arrays outside of JAX are copied."""
    return jax.tree.map(lambda leaf: leaf, matrix)


def require_outside(what: str, matrix: Any) -> None:
    """A matrix that can be changed.

    Raises:
        KernelTypeError: its arrays are of JAX.
    """
    if not is_outside(matrix):
        raise KernelTypeError(
            f"{what}: the matrix is a value of JAX, which never changes",
            hint="use what returns another one: bsr_from_triplets, bsr_copy, bsr_transposed, bsr_axpy, bsr_mm",
        )


def require_same_device(what: str, **named: Any) -> None:
    """Arrays or matrices on one device, where they are outside of JAX.

    Raises:
        KernelValueError: they are on several.
    """
    arrays = {k: v.values if isinstance(v, BsrMatrix) else v for k, v in named.items() if v is not None}
    known = {k: v for k, v in arrays.items() if isinstance(v, HostArray)}
    for name, array in known.items():
        first, one = next(iter(known.items()))
        if array.scope is not one.scope:
            raise KernelValueError(
                f"{what}: expected {name} on the same device as {first}, {one.device}, got {array.device}",
                hint=f'pass a copy: array.to("{one.device}")',
            )


def extents_of(block: Any) -> tuple[int, int]:
    """Rows and columns of a block; (1, 1) of a number."""
    rows, columns = element_shape(block) or (1, 1)
    return rows, columns


def transposed_type(block: Any) -> Any:
    """The type of a block with rows and columns exchanged."""
    shape = element_shape(block)
    return matrix((shape[1], shape[0]), element_scalar(block)) if shape else block


def is_large(block: Any) -> bool:
    """Return whether kernels take blocks number by number instead of as matrices.

    The numbers of a matrix are all in registers. So a product with blocks of 12 x 12 takes 0.8 s to compile, one with
    blocks of 30 x 30 takes 20 s.
    """
    rows, columns = extents_of(block)
    return rows * columns > _LARGEST


_LARGEST = 64


def apart(values: Any, written: Any) -> Any:
    """Values outside of JAX, or a copy of them if they share memory with what is written."""
    return wp.clone(values) if values is not None and values.region.overlaps(written.region) else values


def as_scalars(values: Any, block_shape: tuple[int, int]) -> Any:
    """Blocks, (n,), as numbers, (n, rows, columns)."""
    if isinstance(values, HostArray):
        return values.view(element_scalar(values.dtype)).reshape((values.shape[0], *block_shape))
    return values.reshape(-1, *block_shape)


def as_blocks(what: str, block: Any, values: Any, count: int) -> Any:
    """Values, given as blocks or as numbers of blocks, as blocks."""
    is_ours, shape, scalar = isinstance(values, HostArray), element_shape(block), element_scalar(block)
    given = element_scalar(values.dtype) if is_ours else values.dtype
    if given != (scalar if is_ours else scalar.numpy):
        raise KernelValueError(f"{what}: values: expected numbers of {scalar}, got {given}")
    if is_ours and not values.is_contiguous:
        raise KernelValueError(f"{what}: Values array must be contiguous", hint="pass values.contiguous()")
    found = tuple(values.shape) + (element_shape(values.dtype) if is_ours else ())
    if found not in ((count, *shape), (count, *(shape or (1, 1)))):
        raise KernelValueError(
            f"{what}: values: expected {count} of shape {shape or '()'}, as many as rows, got an array of shape {found}"
        )
    if not is_ours:
        return values.reshape((count, *shape))
    if values.dtype == block and values.ndim == 1:
        return values
    found = values.view(scalar).reshape((count, *shape))
    return found.view(block) if shape else found


def reserve(matrix: Any, nnz: int | None = None, capacity: int | None = None) -> None:
    """Makes room for `capacity` blocks, of which `nnz` are used; what does not fit is replaced by zeros."""
    matrix.nnz = matrix.nnz if nnz is None else nnz
    most = matrix.nnz if capacity is None else capacity
    if most < matrix.nnz:
        raise KernelValueError(f"BsrMatrix: nnz_capacity: expected at least nnz, {matrix.nnz}, got {most}")
    if matrix.columns.shape[0] < most:
        matrix.columns = wp.zeros(most, dtype=int, device=matrix.device)
    if matrix.values.shape[0] < most:
        matrix.values = wp.zeros(
            most, dtype=matrix.block_type, device=matrix.device, requires_grad=matrix.values.requires_grad
        )
