"""`A * s` of matrices outside of JAX: a matrix and a factor, which operations take without making it."""

from __future__ import annotations

from typing import Any

from jaxwarp.sparse.matrix import require_matrix


class Scaled:
    """A factor times a matrix. What is asked of the matrix is asked of it, too; `eval()` makes it a matrix.

    Attributes:
        mat, scale: the matrix and the factor.
    """

    __array_ufunc__ = None

    def __init__(self, mat: Any, scale: Any):
        self.mat, self.scale = mat, scale

    def __getattr__(self, name: str) -> Any:
        if name in _SHARED:
            return getattr(self.mat, name)
        raise AttributeError(f"a scaled BsrMatrix has no attribute {name!r}; eval() makes it a matrix")

    def __repr__(self) -> str:
        return f"{self.scale} * {self.mat!r}"


_SHARED = (
    *("nrow", "ncol", "nnz", "offsets", "row_counts", "columns", "scalar_type", "block_shape", "block_size", "shape"),
    *("ndim", "dtype", "requires_grad", "device"),
)


def matrix_and_scale(what: str, name: str, value: Any) -> tuple[Any, Any]:
    """The matrix and factor of an argument.

    Raises:
        KernelTypeError, KernelValueError: it is no matrix.
    """
    matrix, scale = (value.mat, value.scale) if isinstance(value, Scaled) else (value, 1.0)
    return require_matrix(what, name, matrix), scale
