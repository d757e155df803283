"""`LinearOperator`: what multiplies vectors, and the matrices that can be one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import boundaries, located_call
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.host.checks import require_array
from jaxwarp.optim.linear.vectors import flat
from jaxwarp.sparse.matrix import BsrMatrix, is_outside
from jaxwarp.sparse.vector_products import bsr_mv
from jaxwarp.types import element_scalar, element_shape, float16, float32, float64, int32

FLOATS = (float16, float32, float64)


@boundaries
class LinearOperator:
    """A matrix that is known by its products with vectors: the left-hand side of a system, or a preconditioner.

    Args:
        shape: the numbers of rows and columns.
        dtype: the type of the elements: a float, or a vector or matrix of floats.
        device: the device of the vectors. In JAX it may be None.
        matvec: outside of JAX, a function `matvec(x, y, z, alpha, beta)` that sets `z = alpha A x + beta y`; `z` may be
            `y`, and must not read `y` if `beta` is 0. In JAX, a function of `x` that returns `A x`.
        batch_offsets: outside of JAX, an array of int32 for several systems in one: each has the scalars from one
            offset to the next. Scalars after the last offset belong to no system, and do not change.
        max_batch_length: the length of the longest system. Accepted, but has no effect.

    Raises:
        KernelTypeError, KernelValueError: an argument has another type or shape.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: Any,
        device: Any,
        matvec: Callable[..., Any],
        batch_offsets: Any = None,
        max_batch_length: int | None = None,
    ):
        if not callable(matvec):
            raise KernelTypeError(f"LinearOperator: matvec: expected a function, got {matvec!r}")
        if max_batch_length is not None:
            if batch_offsets is None:
                raise KernelValueError("LinearOperator: max_batch_length requires batch_offsets", hint="pass both")
            if max_batch_length < 0:
                raise KernelValueError(f"LinearOperator: max_batch_length must be non-negative, got {max_batch_length}")
        if batch_offsets is not None:
            _require_offsets(batch_offsets)
        self.shape, self.dtype, self.matvec = tuple(shape), wp.types.as_dtype(dtype), matvec
        self.device = wp.get_device(device)
        self.batch_offsets, self.max_batch_length = batch_offsets, max_batch_length

    @property
    def scalar_type(self) -> Any:
        """The scalar type of the elements."""
        return element_scalar(self.dtype)

    @property
    def batch_count(self) -> int:
        """The number of systems in the operator."""
        return 1 if self.batch_offsets is None else self.batch_offsets.shape[0] - 1


def _require_offsets(offsets: Any) -> None:
    what = "LinearOperator"
    given = require_array(what, "batch_offsets", offsets)
    if given.dtype != int32 or given.ndim != 1 or given.shape[0] < 1:
        raise KernelTypeError(
            f"{what}: batch_offsets: expected a row of int32, got {given.dtype} of shape {given.shape}",
            hint="make it with array([0, ...], dtype=int)",
        )


@located_call
def aslinearoperator(A: Any, batch_offsets: Any = None, max_batch_length: int | None = None) -> Any:
    """Make a `LinearOperator` of a matrix.

    Args:
        A: an array with two axes, the matrix; an array with one axis, a diagonal of floats or vectors; a `BsrMatrix`;
            or a `LinearOperator`, which is returned.
        batch_offsets, max_batch_length: see `LinearOperator`.

    Raises:
        KernelTypeError, KernelValueError: `A` is not a matrix of floats.
    """
    return operator_of("aslinearoperator", "A", A, batch_offsets, max_batch_length)


def operator_of(what: str, name: str, A: Any, batch_offsets: Any = None, max_batch_length: int | None = None) -> Any:
    """A matrix as an operator; None stays None."""
    if A is None or isinstance(A, LinearOperator):
        return A
    if isinstance(A, BsrMatrix) and is_outside(A):
        if A.scalar_type not in FLOATS:
            raise KernelTypeError(f"{what}: {name}: expected a matrix of floats, got one of {A.dtype}")
        return LinearOperator(A.shape, A.dtype, A.device, _Sparse(A), batch_offsets, max_batch_length)
    if not isinstance(A, HostArray) or A.ndim not in (1, 2):
        raise KernelValueError(
            f"{what}: {name}: expected an array outside of JAX with one or two axes, a BsrMatrix of such arrays or a "
            f"LinearOperator, got {type_text(A)}"
            + (" of JAX arrays" if isinstance(A, BsrMatrix) else ""),
            hint="the right side b is an array outside of JAX: for a matrix of JAX pass jax.numpy.asarray(b)"
            if isinstance(A, (BsrMatrix, jax.Array))
            else None,
        )
    scalar, parts = element_scalar(A.dtype), len(element_shape(A.dtype))
    if scalar not in FLOATS or parts > 2 - A.ndim:
        allowed = "floats" if A.ndim == 2 else "floats or of vectors of floats"
        raise KernelTypeError(f"{what}: {name}: expected an array of {allowed}, got one of {A.dtype}")
    matvec = _Dense(A) if A.ndim == 2 else _Diagonal(A)
    return LinearOperator(A.shape, A.dtype, A.device, matvec, batch_offsets, max_batch_length)


@wp.func
def one_of(first: wp.array[wp.Float], second: wp.array[wp.Float], i: int) -> Any:
    """The element of the first array, if there is that."""
    found = second[i]
    if first:
        found = first[i]
    return found


@wp.kernel(enable_backward=False)
def _multiply(
    a: wp.array2d[wp.Float],
    x: wp.array[wp.Float],
    alpha: wp.Float,
    beta: wp.Float,
    y: wp.array[wp.Float],
    z: wp.array[wp.Float],
):
    i = wp.tid()
    total = type(alpha)(0.0)
    if alpha != type(alpha)(0.0):
        for k in range(a.shape[1]):
            total += type(alpha)(a[i, k]) * type(alpha)(x[k])
        total = alpha * total
    if beta != type(alpha)(0.0):
        total += beta * type(alpha)(one_of(y, z, i))
    z[i] = z.dtype(total)


@wp.kernel(enable_backward=False)
def _scale(
    a: wp.array[wp.Float],
    x: wp.array[wp.Float],
    alpha: wp.Float,
    beta: wp.Float,
    y: wp.array[wp.Float],
    z: wp.array[wp.Float],
):
    i = wp.tid()
    total = type(alpha)(0.0)
    if alpha != type(alpha)(0.0):
        total = alpha * type(alpha)(a[i]) * type(alpha)(one_of(x, z, i))
    if beta != type(alpha)(0.0):
        total += beta * type(alpha)(one_of(y, z, i))
    z[i] = z.dtype(total)


class _Dense:
    def __init__(self, a: HostArray):
        self.matrix = a

    def __call__(self, x: Any, y: Any, z: Any, alpha: float, beta: float) -> None:
        a = self.matrix
        x, y, z = operands(a.dtype, (a.shape[1], a.shape[0]), x, y, z, beta)
        x = x.new_like().assign(x) if x.ptr == z.ptr else x
        number = accurate_type(a.dtype)
        launch_rows(_multiply, a.shape[0], [a, x, number(alpha), number(beta), y, z])


class _Diagonal:
    def __init__(self, a: HostArray):
        self.matrix = a

    def __call__(self, x: Any, y: Any, z: Any, alpha: float, beta: float) -> None:
        a = flat(self.matrix if self.matrix.is_contiguous else self.matrix.contiguous())
        x, y, z = operands(a.dtype, (a.shape[0], a.shape[0]), x, y, z, beta)
        number = accurate_type(a.dtype)
        launch_rows(_scale, a.shape[0], [a, None if x.ptr == z.ptr else x, number(alpha), number(beta), y, z])


class _Sparse:
    def __init__(self, a: Any, is_transposed: bool = False):
        self.matrix, self._is_transposed = a, is_transposed

    def __call__(self, x: Any, y: Any, z: Any, alpha: float, beta: float) -> None:
        if beta != 0.0 and y.ptr != z.ptr:
            x = x.new_like().assign(x) if x.ptr == z.ptr else x
            z.assign(y)
        bsr_mv(self.matrix, x, z, alpha, beta, self._is_transposed)


def numbers_of(A: LinearOperator) -> HostArray | None:
    """The array of an operator's numbers; None of a function."""
    if not isinstance(A.matvec, (_Dense, _Diagonal, _Sparse)):
        return None
    matrix = A.matvec.matrix
    return matrix if isinstance(matrix, HostArray) else matrix.values


def transposed(A: LinearOperator) -> LinearOperator:
    """The transpose of an operator that has numbers."""
    matvec: Any = A.matvec
    if isinstance(matvec, _Dense):
        matvec = _Dense(matvec.matrix.transpose())
    elif isinstance(matvec, _Sparse):
        matvec = _Sparse(matvec.matrix, is_transposed=True)
    return LinearOperator(A.shape, A.dtype, A.device, matvec)


def launch_rows(kernel: Any, count: int, arguments: list[Any]) -> None:
    """Launches a kernel of a product, with its last argument's device."""
    if count:
        wp.launch(kernel, count, arguments, device=arguments[-1].device)


def accurate_type(scalar: Any) -> Any:
    """Return the type in which numbers of a type are summed."""
    return wp.float64 if scalar == float64 else wp.float32


def operands(scalar: Any, sizes: tuple[int, int], x: Any, y: Any, z: Any, beta: float) -> tuple[Any, Any, Any]:
    """The vectors of a product as rows of scalars; `y` is None where it is `z`, or not read.

    Raises:
        KernelTypeError, KernelValueError: they are no vectors for the matrix.
    """
    what = "LinearOperator.matvec"
    columns, rows = sizes
    row_x = _operand(what, "x", x, scalar, columns)
    row_z = _operand(what, "z", z, scalar, rows, is_written=True)
    if beta == 0.0 or y is z:
        return row_x, None, row_z
    row_y = _operand(what, "y", y, scalar, rows)
    return row_x, None if row_y.ptr == row_z.ptr else row_y, row_z


def _operand(what: str, name: str, given: Any, scalar: Any, size: int, is_written: bool = False) -> HostArray:
    array = require_array(what, name, given, is_written)
    if element_scalar(array.dtype) != scalar:
        raise KernelTypeError(f"{what}: {name}: expected an array of {scalar}, as the matrix, got one of {array.dtype}")
    if not array.is_contiguous and is_written:
        raise KernelValueError(f"{what}: {name} has gaps between its elements", hint="pass a contiguous array")
    row = flat(array if array.is_contiguous else array.contiguous())
    if row.shape[0] != size:
        raise KernelValueError(f"{what}: {name}: expected {size} numbers, got {row.shape[0]}")
    return row
