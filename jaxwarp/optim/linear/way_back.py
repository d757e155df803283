"""The record of a solution on a tape: with `x = A^-1 b`, another system gives the derivatives.

For the derivative g by x, that system is `A^T u = g`. Then u is added to the derivative by b, and `-u x^T` to that by
the numbers of A.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.errors import DifferentiationError, KernelTypeError, KernelValueError
from jaxwarp.memory.host_scope import contents_of, recording
from jaxwarp.optim.linear.operators import LinearOperator, numbers_of, transposed
from jaxwarp.optim.linear.vectors import flat
from jaxwarp.sparse.lookup import bsr_row_index
from jaxwarp.sparse.matrix import as_scalars


@wp.kernel(enable_backward=False)
def _add(change: wp.array[wp.Float], total: wp.array[wp.Float]):
    i = wp.tid()
    total[i] = total[i] + change[i]


@wp.kernel(enable_backward=False)
def _subtract_products(u: wp.array[wp.Float], x: wp.array[wp.Float], total: wp.array[wp.Float]):
    i = wp.tid()
    total[i] = total[i] - u[i] * x[i]


@wp.kernel(enable_backward=False)
def _subtract_outer(u: wp.array[wp.Float], x: wp.array[wp.Float], total: wp.array2d[wp.Float]):
    i, j = wp.tid()
    total[i, j] = total[i, j] - u[i] * x[j]


@wp.kernel(enable_backward=False)
def _subtract_blocks(
    offsets: wp.array[int],
    row_counts: wp.array[int],
    columns: wp.array[int],
    u: wp.array[wp.Float],
    x: wp.array[wp.Float],
    rows: int,
    total: wp.array3d[wp.Float],
):
    block, i, j = wp.tid()
    row = bsr_row_index(offsets, rows, block, row_counts)
    if row >= 0:
        left = u[row * total.shape[1] + i]
        total[block, i, j] = total[block, i, j] - left * x[columns[block] * total.shape[2] + j]


def solve_recorded(
    what: str, A: LinearOperator, b: HostArray, x: HostArray, solve: Callable[[], Any], solver_of: Callable[..., Any]
) -> Any:
    """Solves, and gives the tape that records the way back.

    Args:
        solve: does it, unrecorded.
        solver_of: another solver, of a matrix, a right-hand side and a solution.

    Raises:
        KernelTypeError, KernelValueError: the tape would leave out a derivative.
    """
    tape, values = recording.get(), numbers_of(A)
    assert tape is not None
    if values is None or A.batch_offsets is not None:
        raise KernelTypeError(
            f"{what}: a tape is recording, and A is a function, or several systems, through which it finds no way back",
            hint="solve outside of the tape; in JAX, the solution has a derivative",
        )
    wanted = [array for array in (b, values) if array.requires_grad]
    if wanted and not x.requires_grad:
        raise KernelValueError(
            f"{what}: x: expected an array with a gradient, as b or A has one, and a tape is recording",
            hint="make it with requires_grad=True",
        )
    for name, array in (("b", b), ("x", x), ("A", values)):
        if not array.is_contiguous and (name != "A" or array.ndim == 1):
            raise KernelValueError(
                f"{what}: {name} has gaps between its elements, and a tape is recording", hint="pass a copy of it"
            )
    if b.region.overlaps(x.region):  # whose gradient is that of the solution, and then of what was there before
        copied: Any = wp.clone(b)
        b, wanted = copied, [copied if array is b else array for array in wanted]
    matrix: Any = A.matvec.matrix  # pyright: ignore[reportFunctionMemberAccess]
    of_matrix = [values] if isinstance(matrix, HostArray) else [values, *_structure(matrix)]
    before = _digest(of_matrix)
    tape.see(x)
    tape.record_write(x.region)
    token = recording.set(None)
    try:
        found = solve()
        kept: Any = wp.clone(x, requires_grad=False)
    finally:
        recording.reset(token)
    tape.record_result(x.region)

    def back() -> None:
        if x.grad is None:  # nothing depends on what has a gradient
            return
        if _digest(of_matrix) != before:
            raise KernelValueError(
                f"{what}: A has changed since it was solved with, and its derivative needs what it was",
                hint="change a copy of it; or record again",
            )
        unit = _magnitude(x.grad.numpy())
        given: Any = wp.zeros_like(x, requires_grad=False)
        u: Any = wp.zeros_like(x, requires_grad=False)
        given.assign(x.grad.numpy() / unit)
        x.grad.zero_()
        _, error, limit = solver_of(A if what in ("cg", "cr") else transposed(A), given, u)()
        if not error <= limit:
            raise DifferentiationError(
                f"{what}: the system of its derivative was not solved: its residual is {error * unit:.3g}, and was to "
                f"be at most {limit * unit:.3g}",
                hint="pass a larger maxiter, or a preconditioner",
            )
        u.assign(u.numpy() * unit)
        if b.grad is not None:
            wp.launch(_add, flat(u).shape, [flat(u), flat(b.grad)], device=x.device)
        if values.grad is not None:
            _add_outer(matrix, flat(u), flat(kept), values.grad)

    arrays = [array for array in (x, *wanted) if array.requires_grad]
    tape.record_called(back, arrays, {f"{what}: b": b, f"{what}: A": values}, {f"{what}: x": x})  # pyright: ignore[reportAttributeAccessIssue]
    return found


def _magnitude(numbers: np.ndarray) -> Any:
    """The largest power of two that is in them, so that no square of what is divided by it overflows or vanishes."""
    largest = np.abs(numbers).max(initial=0)
    return np.ldexp(numbers.dtype.type(1), np.frexp(largest)[1] - 1) if np.isfinite(largest) and largest else 1


def _structure(matrix: Any) -> list[HostArray]:
    """Return the arrays that say where a sparse matrix has its numbers."""
    return [part for part in (matrix.offsets, matrix.row_counts, matrix.columns) if part is not None]


def _digest(arrays: Sequence[HostArray]) -> bytes:
    """Return a digest of the contents of arrays."""
    found = hashlib.blake2b()
    for array in arrays:
        found.update(contents_of(array.region).tobytes())
    return found.digest()


def _add_outer(matrix: Any, u: HostArray, x: HostArray, total: HostArray) -> None:
    if not isinstance(matrix, HostArray):
        blocks = as_scalars(total, matrix.block_shape)
        held = [matrix.offsets, matrix.row_counts, matrix.columns, u, x, matrix.nrow]
        wp.launch(_subtract_blocks, blocks.shape, [*held, blocks], device=u.device)
    elif matrix.ndim == 2:
        wp.launch(_subtract_outer, total.shape, [u, x, total], device=u.device)
    else:
        wp.launch(_subtract_products, u.shape, [u, x, flat(total)], device=u.device)
