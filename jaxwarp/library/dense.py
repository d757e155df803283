"""Products and Cholesky solutions of dense matrices in arrays of one axis, by one thread.

The loops are those of textbooks (Golub and Van Loan, Matrix Computations, 1.1, 3.1, 4.2). Derivatives are theirs, where
the sizes are constants of the kernel; with sizes that are found while it runs, they are refused.
"""

# Names are those of the formulas.
# ruff: noqa: N803, ARG001

from __future__ import annotations

import jaxwarp as wp


@wp.func
def dense_gemm(
    m: int,
    n: int,
    p: int,
    t1: int,
    t2: int,
    A: wp.array[wp.Float],
    B: wp.array[wp.Float],
    C: wp.array[wp.Float],
) -> None:
    """Store the product A * B, of m rows and n columns, in C.

    A has m rows and p columns, B has p rows and n columns. If t1 is 1, A holds the transpose; if t2 is 1, B does.
    """
    for i in range(m):
        for j in range(n):
            total = A.dtype(0.0)
            for k in range(p):
                a = A[k * m + i] if t1 == 1 else A[i * p + k]
                b = B[j * p + k] if t2 == 1 else B[k * n + j]
                total += a * b
            C[i * n + j] = total


@wp.func
def dense_chol(n: int, A: wp.array[wp.Float], regularization: wp.Float, L: wp.array[wp.Float]) -> None:
    """Store the lower triangular L with L * transpose(L) = A + regularization * I.

    A is symmetric and has n rows. Nothing is stored above the diagonal of L.
    """
    for j in range(n):
        s = A[j * n + j] + regularization
        for k in range(j):
            s -= L[j * n + k] * L[j * n + k]
        root = wp.sqrt(s)
        L[j * n + j] = root
        for i in range(j + 1, n):
            rest = A[i * n + j]
            for k in range(j):
                rest -= L[i * n + k] * L[j * n + k]
            L[i * n + j] = rest / root


@wp.func
def dense_subs(n: int, L: wp.array[wp.Float], b: wp.array[wp.Float], x: wp.array[wp.Float]) -> None:
    """Store the solution of L * transpose(L) * x = b in x. L is lower triangular and has n rows."""
    for i in range(n):
        s = b[i]
        for j in range(i):
            s -= L[i * n + j] * x[j]
        x[i] = s / L[i * n + i]
    for k in range(n):
        i = n - 1 - k
        s = x[i]
        for j in range(i + 1, n):
            s -= L[j * n + i] * x[j]
        x[i] = s / L[i * n + i]


@wp.func
def dense_solve(
    n: int, A: wp.array[wp.Float], L: wp.array[wp.Float], b: wp.array[wp.Float], x: wp.array[wp.Float]
) -> None:
    """Store the solution of A * x = b in x, given L from dense_chol. The derivative with respect to A arrives at L, and
    through dense_chol at A."""
    dense_subs(n, L, b, x)
