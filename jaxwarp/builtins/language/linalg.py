"""Functions of vectors and matrices."""

# ruff: noqa: ARG001  (the bodies of functions have one form)

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from jaxwarp.builtins.language import algebra
from jaxwarp.builtins.language.cofactors import adjugate, determinant
from jaxwarp.builtins.language.function import (
    Function,
    FunctionTable,
    require_float,
    require_mat,
    require_row,
    require_vec,
)
from jaxwarp.builtins.language.ops import Ops
from jaxwarp.builtins.language.smooth import root
from jaxwarp.builtins.language.values import Bundle, Operand, describe
from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.errors import KernelTypeError
from jaxwarp.ir.nodes import Value
from jaxwarp.quaternions import IDENTITY_ROTATION, HostValue, cross_product
from jaxwarp.types import Mat, Quat, Vec

_vectors = FunctionTable("Vectors")
_matrices = FunctionTable("Matrices")


def _length_squared(ops: Ops, v: Bundle) -> Value:
    return algebra.dot(ops, v.values, v.values)


def _float_vec(name: str, v: Operand) -> Bundle:
    (vector,) = require_vec(name, v)
    require_float(name, vector.dtype)
    return vector


def _float_row(name: str, v: Operand) -> Bundle:
    (row,) = require_row(name, v)
    require_float(name, row.dtype)
    return row


def _norm(v: np.ndarray) -> np.ndarray:
    return np.linalg.norm(v.astype(np.float64)).astype(v.dtype)


@_vectors.add("dot(a: Vec, b: Vec) -> Scalar", np.dot, domain=(0.1, 2.0), ulp=4)
def _dot(ops: Ops, a: Operand, b: Operand) -> Value:
    """The sum of the products of corresponding components, of vectors or quaternions."""
    x, y = require_row("dot", a, b)
    return algebra.dot(ops, x.values, y.values)


@_vectors.add("cross(a: Vec3, b: Vec3) -> Vec3", cross_product, ulp=4)
def _cross(ops: Ops, a: Operand, b: Operand) -> Bundle:
    """The cross product of two vectors of 3 components. Its products are not fused with its differences, so cross(b, a)
    is exactly -cross(a, b), and cross(a, a) is 0."""
    x, y = require_vec("cross", a, b)
    if x.type.size != 3:
        raise KernelTypeError(f"cross: expected vectors of 3 components, got {x.type}")
    return Bundle(x.type, algebra.cross(ops, x.values, y.values))


@_vectors.add("length(a: Vec) -> Float", _norm, ulp=4)
def _length(ops: Ops, a: Operand) -> Value:
    """The Euclidean length of a vector or quaternion. Its derivative at zero is 0."""
    return root(ops, _length_squared(ops, _float_row("length", a)))


@_vectors.add("length_sq(a: Vec) -> Scalar", lambda v: np.sum(np.square(np.asarray(v)), dtype=v.dtype), ulp=4)
def _length_sq(ops: Ops, a: Operand) -> Value:
    """The square of the length: dot(a, a)."""
    return _length_squared(ops, *require_row("length_sq", a))


@_vectors.add("norm_l1(v: Vec) -> Float", lambda v: np.sum(np.abs(v), dtype=v.dtype), ulp=4)
def _norm_l1(ops: Ops, v: Operand) -> Value:
    """The sum of the absolute values of the components."""
    return algebra.total(ops, [ops.call("abs", x) for x in _float_vec("norm_l1", v).values])


@_vectors.add("norm_l2(v: Vec) -> Float", _norm, ulp=4)
def _norm_l2(ops: Ops, v: Operand) -> Value:
    """The Euclidean length. Its derivative at zero is 0."""
    return root(ops, _length_squared(ops, _float_vec("norm_l2", v)))


def _norm_huber_ref(v: np.ndarray, delta: Any = 1.0) -> np.ndarray:
    length = np.linalg.norm(v.astype(np.float64))
    return np.where(length <= delta, 0.5 * length**2, delta * (length - 0.5 * delta)).astype(v.dtype)


@_vectors.add("norm_huber(v: Vec, delta: Float = 1.0) -> Float", _norm_huber_ref, domain=(0.1, 2.0), ulp=8)
def _norm_huber(ops: Ops, v: Operand, delta: Operand = 1.0) -> Value:
    """Half the squared length up to a length of delta, and linear beyond: delta * (length - delta / 2)."""
    square = _length_squared(ops, _float_vec("norm_huber", v))
    (limit, _) = ops.scalars("norm_huber", delta, square)
    linear = ops.mul(limit, ops.sub(root(ops, square), ops.mul(0.5, limit)))
    return ops.call("select", ops.le(square, ops.mul(limit, limit)), ops.mul(0.5, square), linear)


def _pseudo_huber_ref(v: np.ndarray, delta: Any = 1.0) -> np.ndarray:
    square = np.sum(v.astype(np.float64) ** 2)
    return (delta * np.sqrt(1.0 + square / np.asarray(delta, np.float64) ** 2)).astype(v.dtype)


@_vectors.add("norm_pseudo_huber(v: Vec, delta: Float = 1.0) -> Float", _pseudo_huber_ref, domain=(0.1, 2.0), ulp=4)
def _norm_pseudo_huber(ops: Ops, v: Operand, delta: Operand = 1.0) -> Value:
    """delta * sqrt(1 + dot(v, v) / delta**2): like norm_huber, but smooth."""
    square = _length_squared(ops, _float_vec("norm_pseudo_huber", v))
    (limit, _) = ops.scalars("norm_pseudo_huber", delta, square)
    return ops.mul(limit, ops.sqrt(ops.add(1.0, ops.div(square, ops.mul(limit, limit)))))


def _normalize_ref(v: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(np.asarray(v, np.float64))
    quat = v.type if isinstance(v, HostValue) and isinstance(v.type, Quat) else None
    at_zero = IDENTITY_ROTATION if quat is not None else np.zeros(np.shape(v))
    made = np.asarray(v) / length if length > 0 else np.asarray(at_zero)
    return made.astype(v.dtype) if quat is None else HostValue.of(quat, made)


@_vectors.add("normalize(a: Vec) -> Vec", _normalize_ref, ulp=4)
def _normalize(ops: Ops, a: Operand) -> Bundle:
    """The vector of length 1 in the same direction. The zero vector stays zero; the zero quaternion becomes the
    identity."""
    vector = _float_row("normalize", a)
    length = root(ops, _length_squared(ops, vector))
    proper = ops.call("gt", length, 0.0)
    divisor = ops.call("select", proper, length, 1.0)
    at_zero = IDENTITY_ROTATION if isinstance(vector.type, Quat) else (0.0,) * vector.type.size
    pairs = zip(vector.values, at_zero, strict=True)
    return Bundle(vector.type, tuple(ops.call("select", proper, ops.call("div", x, divisor), e) for x, e in pairs))


@_vectors.add(
    "smooth_normalize(v: Vec, delta: Float = 1.0) -> Vec",
    lambda v, delta=1.0: (v / _pseudo_huber_ref(v.astype(np.float64), delta)).astype(v.dtype),
    ulp=4,
)
def _smooth_normalize(ops: Ops, v: Operand, delta: Operand = 1.0) -> Bundle:
    """v / norm_pseudo_huber(v, delta)."""
    norm = _norm_pseudo_huber(ops, v, delta)
    return ops.map(lambda x: ops.call("div", x, norm), _float_vec("smooth_normalize", v))


@_vectors.add("outer(a: Vec, b: Vec) -> Mat", np.multiply.outer)
def _outer(ops: Ops, a: Operand, b: Operand) -> Bundle:
    """The matrix of the products a[i] * b[j]."""
    (x,), (y,) = require_vec("outer", a), require_vec("outer", b)
    if x.dtype != y.dtype:
        raise KernelTypeError(f"outer: the vectors have types {x.type} and {y.type}")
    values = tuple(ops.call("mul", p, q) for p in x.values for q in y.values)
    return Bundle(Mat(x.type.size, y.type.size, x.dtype), values)


def _skew_ref(x: Any, y: Any, z: Any) -> np.ndarray:
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]], x.dtype)


@_vectors.add("skew(vec: Vec3) -> Mat33", lambda v: _skew_ref(*np.asarray(v)))
def _skew(ops: Ops, vec: Operand) -> Bundle:
    """The matrix whose product with a vector w is cross(vec, w)."""
    (vector,) = require_vec("skew", vec)
    if vector.type.size != 3:
        raise KernelTypeError(f"skew: expected a vector of 3 components, got {vector.type}")
    x, y, z = vector.values
    zero = ops.const(0, vector.dtype)
    nx, ny, nz = (ops.call("neg", c) for c in (x, y, z))
    return Bundle(Mat(3, 3, vector.dtype), (zero, nz, y, z, zero, nx, ny, x, zero))


def _same_bundles(name: str, a: Operand, b: Operand) -> tuple[Bundle, Bundle]:
    if isinstance(a, Bundle) and isinstance(b, Bundle) and a.type == b.type and isinstance(a.type, Vec | Mat):
        return a, b
    raise KernelTypeError(f"{name}: expected vectors or matrices of one type, got {describe(a)} and {describe(b)}")


@_vectors.add("cw_mul(a: Any, b: Any) -> Any", ROWS["mul"].ref)
def _cw_mul(ops: Ops, a: Operand, b: Operand) -> Bundle:
    """The products of corresponding components of vectors or matrices."""
    return ops.map(lambda x, y: ops.call("mul", x, y), *_same_bundles("cw_mul", a, b))


@_vectors.add("cw_div(a: Any, b: Any) -> Any", ROWS["div"].ref, domain=(0.5, 2.0))
def _cw_div(ops: Ops, a: Operand, b: Operand) -> Bundle:
    """The quotients of corresponding components of vectors or matrices."""
    return ops.map(lambda x, y: ops.call("div", x, y), *_same_bundles("cw_div", a, b))


@_matrices.add("transpose(a: Mat) -> Mat", np.transpose)
def _transpose(ops: Ops, a: Operand) -> Bundle:
    """Rows become columns."""
    (matrix,) = require_mat("transpose", a)
    values = tuple(v for column in matrix.columns for v in column)
    rows, columns = matrix.type.shape
    return Bundle(Mat(columns, rows, matrix.dtype), values)


def _square(name: str, m: Operand, sizes: tuple[int, ...] = ()) -> Bundle:
    (matrix,) = require_mat(name, m)
    rows, columns = matrix.type.shape
    if rows != columns or (sizes and rows not in sizes):
        what = f"a square matrix of {sizes[0]} to {sizes[-1]} rows" if sizes else "a square matrix"
        raise KernelTypeError(f"{name}: expected {what}, got {matrix.type}")
    return matrix


def _wide_linalg(fn: Callable[[np.ndarray], np.ndarray]) -> Any:
    def ref(m: np.ndarray) -> np.ndarray:
        wide = fn(m.astype(np.float64))
        return (wide if np.issubdtype(m.dtype, np.floating) else np.rint(wide)).astype(m.dtype)

    return ref


@_matrices.add("determinant(a: Mat) -> Scalar", _wide_linalg(np.linalg.det), ulp=16)
def _determinant(ops: Ops, a: Operand) -> Value:
    """The determinant of a square matrix of up to 4 rows. Products are not fused with differences, so equal products
    cancel exactly. It is therefore exactly 0 for a matrix with a row or column of zeros; with 2 rows, if both products
    are equal; with 3, if the last two rows, or any two columns, are equal; with 4, if the first two or the last two
    rows are equal. For other singular matrices it is 0 up to rounding."""
    return determinant(ops, _square("determinant", a, (1, 2, 3, 4)).rows)


class _Numbers:
    """The operations of cofactors on numbers of NumPy, each rounded to their precision."""

    _OPERATIONS: ClassVar = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative}

    def call(self, name: str, *values: Any, fixed_rounding: bool = True) -> Any:
        del fixed_rounding  # NumPy contracts no products
        return self._OPERATIONS[name](*values)

    def const(self, value: float, like: Any) -> Any:
        return type(like)(value)


def _inverse_ref(m: np.ndarray) -> np.ndarray:
    """Return zero for the matrices that are singular in kernels: a determinant of 1e-48 is 0 in 32 bits."""
    matrix: Any = np.asarray(m)  # its numbers take the place of values
    numbers: Any = _Numbers()
    with np.errstate(all="ignore"):
        rounded = determinant(numbers, tuple(map(tuple, matrix)))
        if rounded == 0:
            return np.zeros_like(matrix)
        cofactors, exact = adjugate(numbers, tuple(map(tuple, matrix.astype(np.float64))))
        # The exact one may be 0 where rounding made the other one differ from it.
        wide = np.asarray(cofactors) / (exact or rounded)
    return wide.reshape(matrix.shape).astype(matrix.dtype)


@_matrices.add("inverse(a: Mat) -> Mat", _inverse_ref, ulp=16)
def _inverse(ops: Ops, a: Operand) -> Bundle:
    """The inverse of a square matrix of up to 4 rows. If `determinant` is 0, all elements of the result are 0."""
    matrix = _square("inverse", a, (1, 2, 3, 4))
    require_float("inverse", matrix.dtype)
    cofactors, value = adjugate(ops, matrix.rows)
    regular = ops.call("ne", value, 0.0)
    scale = ops.call("div", 1.0, ops.call("select", regular, value, 1.0))
    values = [ops.call("select", regular, ops.call("mul", c, scale), 0.0) for c in cofactors]
    return Bundle(matrix.type, tuple(values))


@_matrices.add("inverse_approx(a: Mat) -> Mat", _inverse_ref, ulp=16)
def _inverse_approx(ops: Ops, a: Operand) -> Bundle:
    """The same as `inverse`."""
    return _inverse(ops, a)


@_matrices.add("trace(a: Mat) -> Scalar", lambda m: np.trace(m, dtype=m.dtype), ulp=4)
def _trace(ops: Ops, a: Operand) -> Value:
    """The sum of the diagonal of a square matrix."""
    return algebra.total(ops, [row[i] for i, row in enumerate(_square("trace", a).rows)])


@_matrices.add("diag(vec: Vec) -> Mat", np.diag)
def _diag(ops: Ops, vec: Operand) -> Bundle:
    """The matrix with vec on its diagonal and zeros elsewhere."""
    (vector,) = require_vec("diag", vec)
    n, zero = vector.type.size, ops.const(0, vector.dtype)
    values = tuple(vector.values[i] if i == j else zero for i in range(n) for j in range(n))
    return Bundle(Mat(n, n, vector.dtype), values)


@_matrices.add("get_diag(mat: Mat) -> Vec", np.diag)
def _get_diag(ops: Ops, mat: Operand) -> Bundle:
    """The diagonal of a square matrix."""
    matrix = _square("get_diag", mat)
    return Bundle(Vec(matrix.type.shape[0], matrix.dtype), tuple(row[i] for i, row in enumerate(matrix.rows)))


@_matrices.add("ddot(a: Mat, b: Mat) -> Scalar", np.vdot, domain=(0.1, 2.0), ulp=8)
def _ddot(ops: Ops, a: Operand, b: Operand) -> Value:
    """The sum of the products of corresponding components of two matrices."""
    x, y = require_mat("ddot", a, b)
    return algebra.dot(ops, x.values, y.values)


LINALG_FUNCTIONS: tuple[Function, ...] = (*_vectors.functions, *_matrices.functions)
