"""Linear algebra of integrands and of arrays: `fem.linalg`."""

# pyright: reportInvalidTypeForm=false, reportRedeclaration=false

from __future__ import annotations

import sys
from typing import Any

import jaxwarp as wp
from jaxwarp.boundary import boundary, raise_for_user
from jaxwarp.errors import KernelValueError, no_attribute
from jaxwarp.fem.operators import _skew_part as skew_part
from jaxwarp.fem.operators import _symmetric_part as symmetric_part
from jaxwarp.types import element_scalar

__all__ = ["array_axpy", "generalized_inner", "generalized_outer", "inverse_qr", "skew_part", "spherical_part",
           "symmetric_eigen", "symmetric_eigenvalues_qr", "symmetric_part"]  # fmt: skip


_any: Any = Any
_Vector = wp.types.vector(length=_any, dtype=Any)
_Matrix = wp.types.matrix(shape=(_any, _any), dtype=Any)


@wp.func
def generalized_outer(x: _Vector, y: _Vector):
    """The outer product; of a vector and a number, their product."""
    return wp.outer(x, y)


@wp.func
def generalized_outer(x: wp.Scalar, y: _Vector):
    return y * x


@wp.func
def generalized_outer(x: _Vector, y: wp.Scalar):
    return x * y


@wp.func
def generalized_inner(x: _Vector, y: _Vector):
    """The sum of products over the first index of both."""
    return wp.dot(x, y)


@wp.func
def generalized_inner(x: wp.Scalar, y: wp.Scalar):
    return x * y


@wp.func
def generalized_inner(x: _Matrix, y: _Vector):
    return wp.transpose(x) * y


@wp.func
def generalized_inner(x: _Vector, y: _Matrix):
    return wp.transpose(y) * x


@wp.func
def generalized_inner(x: _Matrix, y: _Matrix):
    return wp.ddot(x, y)


@wp.func
def spherical_part(x: Any):
    """The multiple of the unit matrix that has a matrix's trace."""
    n = len(x[0])
    return wp.identity(n=n, dtype=x.dtype) * (wp.trace(x) / x.dtype(n))


@wp.func
def inverse_qr(a: Any):
    """The inverse of a square matrix of any size, by elimination with the largest pivot of each column."""
    n = len(a[0])
    left = a
    right = wp.identity(n=n, dtype=a.dtype)
    for k in range(n):
        at = k
        for i in range(k + 1, n):
            if wp.abs(left[i, k]) > wp.abs(left[at, k]):
                at = i
        for j in range(n):
            p, q = left[k, j], right[k, j]
            left[k, j] = left[at, j]
            right[k, j] = right[at, j]
            left[at, j] = p
            right[at, j] = q
        pivot = a.dtype(1.0) / left[k, k]
        for j in range(n):
            left[k, j] *= pivot
            right[k, j] *= pivot
        for i in range(n):
            factor = left[i, k]
            if i != k:
                for j in range(n):
                    left[i, j] -= factor * left[k, j]
                    right[i, j] -= factor * right[k, j]
    return right


@wp.func
def _rotated(m: Any, vectors: Any, p: int, q: int):
    """The element p, q of a symmetric matrix is made 0 by a rotation of its rows and columns, which turns vectors."""
    n = len(m[0])
    one, zero = m.dtype(1.0), m.dtype(0.0)
    difference = m[q, q] - m[p, p]
    t = zero
    if difference != zero and one + (m[p, q] / difference) * (m[p, q] / difference) == one:
        t = m[p, q] / difference  # also of 0, with its derivative; theta might be infinite
    elif m[p, q] != zero:
        theta = difference / (m.dtype(2.0) * m[p, q])
        t = one / (wp.abs(theta) + wp.sqrt(theta * theta + one))
        t = wp.where(theta < zero, -t, t)
    c = one / wp.sqrt(t * t + one)
    s = t * c
    for k in range(n):
        x, y = m[k, p], m[k, q]
        m[k, p] = c * x - s * y
        m[k, q] = s * x + c * y
    for k in range(n):
        x, y = m[p, k], m[q, k]
        m[p, k] = c * x - s * y
        m[q, k] = s * x + c * y
        x, y = vectors[p, k], vectors[q, k]
        vectors[p, k] = c * x - s * y
        vectors[q, k] = s * x + c * y
    return m, vectors


@wp.func
def symmetric_eigen(a: Any):
    """Eigenvectors of a symmetric matrix, as rows, and eigenvalues: Jacobi's method, 10 sweeps."""
    n = len(a[0])
    m = a
    vectors = wp.identity(n=n, dtype=a.dtype)
    for _ in range(10):
        for p in range(n - 1):
            for q in range(p + 1, n):
                m, vectors = _rotated(m, vectors, p, q)
    return vectors, wp.get_diag(m)


@wp.func
def _is_small(x: Any, a: Any, b: Any, tol: Any):
    """Return whether an element is negligible beside those of the diagonal in its row and column."""
    near = wp.abs(a) + wp.abs(b)
    return wp.abs(x) <= tol * near or near + wp.abs(x) == near


@wp.func
def symmetric_eigenvalues_qr(A: Any, tol: Any):
    """Eigenvalues d of a symmetric matrix, in no order, and its eigenvectors as rows of p: A = transpose(p) diag(d) p.

    Jacobi's method, until every element beside the diagonal is at most `tol` times those of the diagonal in its row and
    column, or no more than rounding beside these.
    """
    n = len(A[0])
    m = A
    vectors = wp.identity(n=n, dtype=A.dtype)
    for _ in range(30):
        going = False
        for p in range(n - 1):
            for q in range(p + 1, n):
                if not _is_small(m[p, q], m[p, p], m[q, q], tol):
                    going = True
                m, vectors = _rotated(m, vectors, p, q)  # what is small has a derivative, too
        if not going:
            break
    return wp.get_diag(m), vectors


@wp.kernel
def _axpy(x: wp.array[Any], alpha: Any, beta: Any, is_kept: bool, y: wp.array[Any]):
    i = wp.tid()
    if is_kept:
        y[i] = x[i] * alpha + y[i] * beta
    else:
        y[i] = x[i] * alpha


@boundary
def array_axpy(x: Any, y: Any, alpha: float = 1.0, beta: float = 1.0) -> None:
    """y = alpha x + beta y, in place. With a beta of 0, what y holds is not read.

    Args:
        x, y: arrays of one shape and type.
        alpha, beta: factors.

    Raises:
        KernelValueError: the shapes differ.
    """
    if x.shape != y.shape:
        raise KernelValueError(f"array_axpy: expected arrays of one shape, got {x.shape} and {y.shape}")
    scalar = element_scalar(y.dtype)
    if x is y or x.ptr == y.ptr:  # a kernel takes no array twice that it writes
        x = wp.clone(x)
    inputs = [x, scalar(float(alpha)), scalar(float(beta)), float(beta) != 0.0]
    wp.launch(_axpy, x.shape, inputs, [y], device=y.device)


_FACTORS = "use inverse_qr, wp.inverse, or wp.qr3 of a 3 by 3 matrix"
_MISSING = {
    "householder_make_hessenberg": "use symmetric_eigen",
    "householder_qr_decomposition": _FACTORS,
    "solve_triangular": _FACTORS,
    "symmetric_eigenvalues_qr": "use symmetric_eigen",
    "tridiagonal_symmetric_eigenvalues_qr": "use symmetric_eigen",
}


@boundary
def __getattr__(name: str) -> object:
    if name in _MISSING:
        raise_for_user(AttributeError(f"fem.linalg.{name} is not there yet; {_MISSING[name]}"))
    raise_for_user(no_attribute(sys.modules[__name__], name))
