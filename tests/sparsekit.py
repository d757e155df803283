"""Sparse matrices for tests: random triplets, and what a matrix is as a dense one."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from hypothesis import strategies as st

import jaxwarp as wp

SHAPES = [None, (1, 1), (3, 3), (2, 3), (9, 8)]  # None: of numbers, not of blocks


class Triplets(NamedTuple):
    nrow: int
    ncol: int
    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray  # (n,) or (n, r, c)

    @property
    def block(self) -> tuple[int, int]:
        return self.values.shape[1:] or (1, 1)

    @property
    def dense(self) -> np.ndarray:
        r, c = self.block
        found = np.zeros((self.nrow * r, self.ncol * c))
        for row, column, value in zip(self.rows, self.columns, self.values, strict=True):
            if 0 <= row < self.nrow and 0 <= column < self.ncol:
                found[row * r : (row + 1) * r, column * c : (column + 1) * c] += value
        return found

    @property
    def element(self) -> Any:
        scalar = wp.dtype_from_numpy(self.values.dtype)
        return wp.types.matrix(self.block, scalar) if self.values.ndim == 3 else scalar

    def outside(self, requires_grad: bool = False) -> Any:
        """The arrays of wp that the triplets are."""
        values = wp.array(self.values, dtype=self.element, requires_grad=requires_grad)
        return wp.array(self.rows), wp.array(self.columns), values

    @property
    def matrix(self) -> Any:
        return wp.sparse.bsr_from_triplets(self.nrow, self.ncol, *self.outside())

    @property
    def value(self) -> Any:
        """The matrix in JAX."""
        return wp.sparse.bsr_from_triplets(self.nrow, self.ncol, self.rows, self.columns, self.values, True)

    @property
    def both(self) -> Any:
        """The matrix on both faces."""
        with jax.enable_x64(True):
            return self.matrix, self.value


def random_triplets(seed=0, nrow=7, ncol=5, count=20, block=None, dtype=np.float32):
    """Some are outside of the matrix, some zero; numbers are small integers, so that sums are exact."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(-1, nrow + 1, count).astype(np.int32)
    columns = rng.integers(-1, ncol + 1, count).astype(np.int32)
    values = rng.integers(-4, 5, (count, *(block or ()))).astype(dtype)
    values[rng.random(count) < 0.2] = 0
    return Triplets(nrow, ncol, rows, columns, values)


# Programs of JAX are compiled for each size and type: few of them, and any numbers.
SIZES = [(6, 5, 25), (5, 6, 11), (1, 1, 3), (0, 3, 2), (3, 0, 2), (4, 2, 0)]
KINDS = [(None, np.float32), ((1, 1), np.float64), ((3, 3), np.float16), ((2, 3), np.float32)]
# Each kind in the first size, and each other size of one kind.
PROGRAMS = [*((SIZES[0], kind) for kind in KINDS), *zip(SIZES[1:], [*KINDS, KINDS[0]], strict=True)]


@st.composite
def triplets(draw):
    (nrow, ncol, count), (block, dtype) = draw(st.sampled_from(PROGRAMS))
    return random_triplets(draw(st.integers(0, 2**16)), nrow, ncol, count, block, dtype)


def numpy(array):
    return array.numpy() if isinstance(array, wp.array) else np.asarray(array)


def dense(matrix):
    """A matrix as a dense one, read as the fields say; its columns must ascend in each row."""
    r, c = matrix.block_shape
    found = np.zeros(matrix.shape)
    offsets, columns, values = map(numpy, (matrix.offsets, matrix.columns, matrix.values))
    for row in range(matrix.nrow):
        begin = offsets[row]
        end = offsets[row + 1] if matrix.row_counts is None else begin + numpy(matrix.row_counts)[row]
        assert (np.diff(columns[begin:end]) > 0).all(), "columns ascend, and there is one block at each place"
        for b in range(begin, end):
            column = columns[b]
            found[row * r : (row + 1) * r, column * c : (column + 1) * c] = values[b].reshape(r, c)
    return found
