"""`FSAI`: a sparse approximate inverse in two factors, whose rows are found independently of each other.

Row i of the lower triangular G has a support S of columns up to i: with `A[S, S] z = e_i` it is `z / sqrt(z_i)`. They
grow where the residual of the row is largest: C. Janna, M. Ferronato, "Adaptive pattern research for block FSAI
preconditioning", SIAM J. Sci. Comput. 33, 2011. The inverse is about `G^T G`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import jaxwarp as wp
from jaxwarp.arrays import create
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import boundaries
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.memory.host_scope import HOST, capturing, recording
from jaxwarp.optim.linear import fsai_kernels as kernels
from jaxwarp.optim.linear.operators import FLOATS, LinearOperator, accurate_type, operands
from jaxwarp.sparse.matrix import BsrMatrix, is_outside, made_of
from jaxwarp.types import as_dtype, float16, float32, float64

_FLOORS = {float16: 1e-3, float32: 1e-6, float64: 1e-12}
_WIDEST = 64


@boundaries
class FSAI(LinearOperator):
    """A factorized sparse approximate inverse `G^T G` of a symmetric positive definite `BsrMatrix`, outside of JAX.

    Pass it as `M` to a solver. G is a matrix of numbers, whatever blocks the matrix has.

    Args:
        A: the matrix, with both triangles and square blocks. That it is positive definite is not checked as a whole.
        max_row_size: the largest number of elements in a row of G, 1 to 64. With 1, G is diagonal.
        kap_tolerance: a row stops growing when the relative improvement is at most this. 0: never because of it.
        pivot_floor: a row stops growing before a pivot below this, where the diagonal of the matrix is scaled to 1.
            None: 1e-3 for float16, 1e-6 for float32, 1e-12 for float64.
        factor_dtype: the type of the numbers of G: that of the matrix (None), or float32 for float64.
        reuse_pattern: keep the pattern, so that you can call `update`.
        max_step_size: the number of columns that a row takes at once, 1 to 64.
        regularize_refit: `update` raises small pivots to the floor, and reduces rows without other pivots to their
            scaled diagonal. If False, it refuses such a matrix.
        validate_topology: `update` checks that the blocks have the same places. If False, other places are undefined
            behaviour.
        defer_pattern: the first `update` that succeeds chooses the pattern. Until then G is the identity.

    Attributes:
        G, GT: the factor, a matrix of numbers, and its transpose. Do not change them.
        truncated_rows: the number of rows that stopped at `pivot_floor`; None with `defer_pattern`.
        source: the matrix of the last update that succeeded.
        update_status: with `reuse_pattern`, four numbers about the last update: places that differ, diagonal
            elements that are not positive, rows that failed, rows that were regularized.
        pattern_ready: with `defer_pattern`, an array that holds 1 once the pattern is chosen.
        pattern_status: with `defer_pattern`, an array whose element 1 is the number of truncated rows.

    Raises:
        KernelTypeError, KernelValueError: the matrix or an option does not fit, or a diagonal element is not positive.
    """

    def __init__(
        self,
        A: Any,
        max_row_size: int = 8,
        kap_tolerance: float = 1.0e-3,
        pivot_floor: float | None = None,
        factor_dtype: Any = None,
        reuse_pattern: bool = False,
        max_step_size: int = 1,
        regularize_refit: bool = False,
        validate_topology: bool = True,
        defer_pattern: bool = False,
    ):
        _require_matrix(A)
        _require_no_tape()
        scalar = A.scalar_type
        for name, value in (("max_row_size", max_row_size), ("max_step_size", max_step_size)):
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _WIDEST:
                raise KernelValueError(f"FSAI: {name}: expected an integer from 1 to {_WIDEST}, got {value!r}")
        if not 0 <= kap_tolerance < 1:
            raise KernelValueError(f"FSAI: kap_tolerance: expected a number from 0 to below 1, got {kap_tolerance!r}")
        floor = _FLOORS[scalar] if pivot_floor is None else pivot_floor
        if not 0 < floor < 1:
            raise KernelValueError(f"FSAI: pivot_floor: expected a number between 0 and 1, got {pivot_floor!r}")
        stored = scalar if factor_dtype is None else as_dtype(factor_dtype)
        if stored != scalar and (scalar, stored) != (float64, float32):
            raise KernelValueError(f"FSAI: factor_dtype: expected {scalar}, or float32 for float64, got {stored}")
        if reuse_pattern and A.row_counts is not None:
            raise KernelValueError(
                "FSAI: reuse_pattern: expected a matrix in compact storage, got one with row_counts",
                hint="call bsr_compress(A)",
            )
        if defer_pattern and not reuse_pattern:
            raise KernelValueError("FSAI: defer_pattern: expected reuse_pattern=True with it", hint="pass both")
        super().__init__(A.shape, A.dtype, A.device, self._apply)
        n, number = A.shape[0], accurate_type(scalar)
        self.max_row_size, self.max_step_size, self.factor_dtype, self.source = max_row_size, max_step_size, stored, A
        self._number, self._tolerance, self._floor = number, number(kap_tolerance), number(floor)
        self._regularizes, self._checks = bool(regularize_refit), bool(validate_topology)
        self._grow_rows = kernels.grow_kernel(number, max_row_size, max_step_size)
        self._fit_rows = kernels.fit_kernel(number, max_row_size)
        self._status, self._grown = self._zeros(4, int), self._zeros(3, int)
        self._scale, self._between = self._zeros(n, number), self._zeros(n, number)
        self._fitted = self._zeros((n, max_row_size), stored)
        self._is_grown = False
        self._known = (A.shape, A.dtype, A.device, A.nrow, A.nnz_sync())
        self._topology = None
        if reuse_pattern and validate_topology:
            self._topology = [wp.clone(part) for part in self._places_of(A)]
        own = np.full((n, max_row_size), -1, np.int32)
        own[:, 0] = np.arange(n)
        self._chosen = wp.array(own, dtype=int, device=A.device)
        self.G: Any = None
        self.GT: Any = None
        self.truncated_rows: int | None = None
        self.update_status = self._status if reuse_pattern else None
        self.pattern_ready = self.pattern_status = None
        if defer_pattern:
            self.pattern_ready, self.pattern_status = self._zeros(1, int), self._grown
            self._publish(own)
            self.G.values.fill_(1)
            self.GT.values.fill_(1)
            return
        self._scale_rows(A)
        self._grow(A)
        invalid = int(self._status.numpy()[1])
        if invalid:
            raise KernelValueError(f"FSAI: A: expected finite positive diagonals, got {invalid} rows with others")
        self.truncated_rows = int(self._grown.numpy()[1])
        self._publish(self._chosen.numpy())
        self._fit(A)
        if self._status.numpy()[2]:
            raise KernelValueError(
                f"FSAI: A: its factor has no finite numbers with a positive diagonal in {stored}",
                hint="scale the matrix",
            )
        self._is_grown = True

    def update(self, A: Any = None) -> FSAI:
        """Compute the factor of changed numbers, with the same pattern.

        Args:
            A: the matrix, with blocks in the same places. None: `source`, whose numbers you have changed.

        Raises:
            KernelValueError: `reuse_pattern` was not set, the matrix differs in more than its numbers, or it has no
                factor. The factor then stays as it was. In a capture there is no error: read `update_status`.
        """
        if self.update_status is None:
            raise KernelValueError(
                "FSAI.update: it was made without what updates need", hint="pass reuse_pattern=True to FSAI"
            )
        matrix = self.source if A is None else A
        if not isinstance(matrix, BsrMatrix):
            raise KernelValueError(f"FSAI.update: A: expected a BSR matrix, got {type_text(matrix)}")
        _require_no_tape()
        shape, dtype, device, rows, count = self._known
        given = (matrix.shape, matrix.dtype, matrix.device)
        if given != (shape, dtype, device) or matrix.row_counts is not None:
            raise KernelValueError(
                f"FSAI.update: A: expected the shape, dtype, device and storage {(shape, dtype, device)}, got {given}"
            )
        if matrix.offsets.shape[0] <= rows or min(matrix.columns.shape[0], matrix.values.shape[0]) < count:
            raise KernelValueError(f"FSAI.update: A: expected arrays of {count} blocks, got smaller ones")
        self._update(matrix)
        return self

    # How it is made.

    def _zeros(self, shape: Any, dtype: Any) -> HostArray:
        return create.zeros(shape, dtype=dtype, device=self.device)

    def _places_of(self, A: Any) -> list[HostArray]:
        *_, rows, count = self._known
        return [A.offsets[: rows + 1], *([A.columns[:count]] if count else [])]

    def _launch(self, kernel: Any, dim: Any, arguments: list[Any]) -> None:
        if self.shape[0]:
            wp.launch(kernel, dim, arguments, device=self.device)

    def _matrix(self, A: Any) -> list[Any]:
        return [A.offsets, A.row_counts, A.columns, A.scalar_values]

    def _scale_rows(self, A: Any) -> None:
        self._launch(kernels.scale_rows, self.shape[0], [*self._matrix(A), self._scale, self._status, 1])

    def _grow(self, A: Any) -> None:
        self._grown.zero_()
        arguments = [*self._matrix(A), self._scale, self._tolerance, self._floor, self._chosen, self._grown]
        self._launch(self._grow_rows, self.shape[0], arguments)

    def _fit(self, A: Any) -> None:
        """Computes all rows, and writes them if they are accepted."""
        arguments = [*self._matrix(A), self._scale, self._floor, self._regularizes, self._chosen, self._fitted]
        self._launch(self._fit_rows, self.shape[0], [*arguments, self._status])
        self._commit()

    def _commit(self) -> None:
        arguments = [self._fitted, self._status, self._regularizes, self._places, self._places_across]
        self._launch(kernels.commit, self._fitted.shape, [*arguments, self.G.values, self.GT.values])

    def _publish(self, chosen: np.ndarray) -> None:
        """Sets the places of the numbers of G and GT."""
        n, width = chosen.shape
        row, rank = np.nonzero(chosen >= 0)
        column = chosen[row, rank]
        sizes = n, width, len(row)
        self.G, self._places = self._placed(self.G, row, column, (row, rank), sizes)
        self.GT, self._places_across = self._placed(self.GT, column, row, (row, rank), sizes)

    def _placed(self, matrix: Any, row: Any, column: Any, key: Any, sizes: tuple[int, int, int]) -> tuple[Any, Any]:
        n, width, count = sizes
        order = np.lexsort((column, row))
        places = np.full((n, width), -1, np.int32)
        places[key[0][order], key[1][order]] = np.arange(count)
        offsets = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n))]).astype(np.int32)
        if matrix is None:
            room = n * width if self.pattern_ready is not None else count
            columns, values = self._zeros(room, int), self._zeros(room, self.factor_dtype)
            held = {"offsets": self._zeros(n + 1, int), "columns": columns, "values": values}
            matrix = made_of(self.factor_dtype, nrow=n, ncol=n, nnz=room, row_counts=None, **held)
        matrix.offsets.assign(offsets)
        if count:
            matrix.columns[:count].assign(column[order].astype(np.int32))
        return matrix, wp.array(places, dtype=int, device=self.device)

    def _update(self, A: Any) -> None:
        is_first = self.pattern_ready is not None and not self._is_grown
        if is_first and HOST.defers("FSAI.update", lambda: self._update_first(A)):
            return
        if is_first:
            self._update_first(A)
            self._raise_for_status()
        else:
            self._begin(A)
            self._fit(A)
            if capturing.get() is None and (self._checks or not self._regularizes):
                self._raise_for_status()
        self.source = A

    def _begin(self, A: Any) -> None:
        self._status.zero_()
        for known, now in zip(self._topology or (), self._places_of(A), strict=False):
            wp.launch(kernels.compare, known.shape[0], [now, known, self._status], device=self.device)
        self._scale_rows(A)

    def _update_first(self, A: Any) -> None:
        """Choose the supports and compute the rows. Keep the choice if the rows are accepted."""
        if self._is_grown:  # a capture is launched again
            self._begin(A)
            self._fit(A)
            return
        before = self._chosen.numpy().copy()
        self._begin(A)
        self._grow(A)
        arguments = [*self._matrix(A), self._scale, self._floor, self._regularizes, self._chosen, self._fitted]
        self._launch(self._fit_rows, self.shape[0], [*arguments, self._status])
        status = self._status.numpy()
        if status[0] or (not self._regularizes and status[1:3].any()):
            self._chosen.assign(before)
            return
        self._publish(self._chosen.numpy())
        self._commit()
        self._is_grown = True
        assert self.pattern_ready is not None
        self.pattern_ready.fill_(1)

    def _raise_for_status(self) -> None:
        places, diagonals, rows, _ = (int(count) for count in self._status.numpy())
        if places:
            raise KernelValueError(
                "FSAI.update: A: expected identical sparsity, got blocks in other places", hint="make another FSAI"
            )
        if (diagonals or rows) and not self._regularizes:
            raise KernelValueError(
                "FSAI.update: A: expected finite positive diagonals and SPD local supports, got "
                f"{diagonals} diagonals and {rows} rows that are not",
                hint="make another FSAI, or pass regularize_refit=True",
            )

    def _apply(self, x: Any, y: Any, z: Any, alpha: float, beta: float) -> None:
        x, y, z = operands(self.scalar_type, (self.shape[1], self.shape[0]), x, y, z, beta)
        n, number, between = self.shape[0], self._number, self._between
        if alpha != 0.0:
            held = [self.G.offsets, self.G.columns, self.G.values]
            self._launch(kernels.multiply, n, [*held, x, number(1.0), number(0.0), None, between])
        held = [self.GT.offsets, self.GT.columns, self.GT.values]
        self._launch(kernels.multiply, n, [*held, between, number(alpha), number(beta), y, z])


def _require_matrix(A: Any) -> None:
    is_square = isinstance(A, BsrMatrix) and A.shape[0] == A.shape[1] and A.block_shape[0] == A.block_shape[1]
    if not is_square or not is_outside(A):
        got = f"one of shape {A.shape} with blocks {A.block_shape}" if isinstance(A, BsrMatrix) else type(A).__name__
        raise KernelValueError(f"FSAI: A: expected a square BsrMatrix outside of JAX with square blocks, got {got}")
    if A.scalar_type not in FLOATS:
        raise KernelTypeError(f"FSAI: A: expected numbers of float16, float32 or float64, got {A.scalar_type}")


def _require_no_tape() -> None:
    if recording.get() is not None:
        raise KernelTypeError(
            "FSAI: a tape is recording, and it has no derivative", hint="make and update it outside of the tape"
        )
