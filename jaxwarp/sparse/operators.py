"""Operators of matrices, on the functions of this folder."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jaxwarp.arrays.host_array import HostArray
from jaxwarp.sparse.expressions import Scaled
from jaxwarp.sparse.matrix import BsrMatrix
from jaxwarp.sparse.vector_products import bsr_mv


def _matmul(self: Any, other: Any) -> Any:
    return bsr_mv(self, other) if _is_vector(other) else NotImplemented


def _rmatmul(self: Any, other: Any) -> Any:
    return bsr_mv(self, other, transpose=True) if _is_vector(other) else NotImplemented


def _is_vector(value: Any) -> bool:
    return isinstance(value, (HostArray, jax.Array, np.ndarray))


for kind in (BsrMatrix, Scaled):
    kind.__matmul__, kind.__rmatmul__ = _matmul, _rmatmul  # pyright: ignore[reportAttributeAccessIssue]
