"""Functions that make vectors and matrices. (`vec3(...)`, `mat33(...)` are the types themselves: `Ops.construct`.)"""

# ruff: noqa: ARG001  (the bodies of functions have one form)

from __future__ import annotations

from typing import Any

import numpy as np

from jaxwarp.builtins.language.function import Function, FunctionTable, require_vec
from jaxwarp.builtins.language.ops import Ops, literal_type
from jaxwarp.builtins.language.values import LITERALS, Bundle, Operand
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.ir.nodes import Value
from jaxwarp.types import Mat, Scalar, Vec, as_dtype, float32, int32

_constructors = FunctionTable("Constructors")


def _component_type(name: str, args: tuple[Operand, ...], dtype: Any) -> Scalar:
    """The type given, else that of the components, else that of the literals."""
    if dtype is not None:
        scalar = as_dtype(dtype)
        if not isinstance(scalar, Scalar):
            raise KernelTypeError(f"{name}: dtype must be a scalar type, got {scalar}")
        return scalar
    for a in args:
        if isinstance(a, (Value, Bundle)):
            return a.type if isinstance(a, Value) else a.dtype
    if not args:
        raise KernelTypeError(f"{name}: expected components or dtype=")
    literals = [literal_type(a) for a in args if isinstance(a, LITERALS)]
    return float32 if float32 in literals else int32 if int32 in literals else literals[0]


def _vector_ref(*args: Any, length: Any = None, dtype: Any = None) -> np.ndarray:
    values = np.asarray(args[0] if len(args) == 1 else args if args else 0)
    return np.array(np.broadcast_to(values, length if length is not None else values.shape or (1,)), _numpy(dtype))


def _numpy(dtype: Any) -> Any:
    return None if dtype is None else as_dtype(dtype).numpy


@_constructors.add("vector(*components: Scalar, length: int = ..., dtype: type = ...) -> Vec", _vector_ref)
def _vector(ops: Ops, *args: Operand, length: Any = None, dtype: Any = None) -> Bundle:
    """A vector of the given components. With `length`, one component is repeated, and no component means zeros."""
    if len(args) == 1 and isinstance(args[0], Bundle):
        (vector,) = require_vec("vector", *args)
        length = vector.type.size if length is None else length
    count = len(args) if length is None else _extent("vector", "length", length)
    if count < 1:
        raise KernelTypeError("vector: expected components or length=")
    return ops.construct(Vec(count, _component_type("vector", args, dtype)), args)


def _extent(name: str, what: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise KernelValueError(f"{name}: {what} must be a positive integer known before the kernel runs")
    return int(value)


def _matrix_ref(*args: Any, shape: Any, dtype: Any = None) -> np.ndarray:
    if len(args) > 1:
        return np.reshape(args, shape).astype(_numpy(dtype) or np.asarray(args).dtype)
    return np.array(np.broadcast_to(args[0] if args else 0, shape), _numpy(dtype))


@_constructors.add("matrix(*components: Scalar, shape: tuple[int, int], dtype: type = ...) -> Mat", _matrix_ref)
def _matrix(ops: Ops, *args: Operand, shape: Any, dtype: Any = None) -> Bundle:
    """A matrix of the given components, row by row. One component is repeated, and no component means zeros."""
    if not isinstance(shape, tuple) or len(shape) != 2:
        raise KernelTypeError("matrix: shape must be (rows, columns)")
    rows, columns = (_extent("matrix", "shape", n) for n in shape)
    return ops.construct(Mat(rows, columns, _component_type("matrix", args, dtype)), args)


@_constructors.add("identity(n: int, dtype: type) -> Mat", lambda n, dtype: np.eye(int(n), dtype=_numpy(dtype)))
def _identity(ops: Ops, n: Any, dtype: Any) -> Bundle:
    """The square matrix with ones on its diagonal."""
    size, scalar = _extent("identity", "n", n), _component_type("identity", (), dtype)
    zero, one = ops.const(0, scalar), ops.const(1, scalar)
    return Bundle(Mat(size, size, scalar), tuple(one if i == j else zero for i in range(size) for j in range(size)))


@_constructors.add("matrix_from_rows(*rows: Vec) -> Mat", lambda *rows: np.stack(rows))
def _matrix_from_rows(ops: Ops, first: Operand, *more: Operand) -> Bundle:
    """The matrix with these rows."""
    rows = require_vec("matrix_from_rows", first, *more)
    values = tuple(v for row in rows for v in row.values)
    return Bundle(Mat(len(rows), rows[0].type.size, rows[0].dtype), values)


@_constructors.add("matrix_from_cols(*columns: Vec) -> Mat", lambda *columns: np.stack(columns, -1))
def _matrix_from_cols(ops: Ops, first: Operand, *more: Operand) -> Bundle:
    """The matrix with these columns."""
    columns = require_vec("matrix_from_cols", first, *more)
    values = tuple(v for row in zip(*(c.values for c in columns), strict=True) for v in row)
    return Bundle(Mat(columns[0].type.size, len(columns), columns[0].dtype), values)


CONSTRUCTORS: tuple[Function, ...] = tuple(_constructors.functions)
