"""Decompositions of small matrices, generic in their float type.

Singular vectors are found by one-sided Jacobi rotations of the columns (Hestenes, 1958; Demmel and Veselic, 1992), and
eigenvectors by those of rows and columns (Golub and Van Loan, Matrix Computations, 8.5). Derivatives are the formulas
of perturbation theory (Giles, Collected matrix derivative results, 2008), with the denominators of pairs split so that
what is smooth where two values are equal, such as U * transpose(V), loses nothing.

`..._found` is a decomposition; `..._of` has the derivative, of what it is handed. It is applied twice, so that the
vectors in the formulas have their derivatives from them too, and no iteration is differentiated below third order.
"""

# Overloads of one name, and arguments that a function assigns to; names are those of the formulas.
# pyright: reportRedeclaration=false, reportInvalidTypeForm=false, reportUnusedVariable=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportAttributeAccessIssue=false, reportReturnType=false, reportGeneralTypeIssues=false
# ruff: noqa: F811, N803, N806, ANN201, ARG001, RUF059, UP018, RUF046

from __future__ import annotations

from typing import Any

import jaxwarp as wp

mat22 = wp.types.matrix(shape=(2, 2), dtype=wp.Float)
mat33 = wp.types.matrix(shape=(3, 3), dtype=wp.Float)
vec2 = wp.types.vector(length=2, dtype=wp.Float)
vec3 = wp.types.vector(length=3, dtype=wp.Float)

_SWEEPS = 4  # of rotations: what is left of the angles is then below rounding in float64, by a search for the worst


@wp.func
def smallest(x: wp.float16):
    return wp.float16(1e-2)


@wp.func
def smallest(x: wp.float32):
    return wp.float32(1e-6)


@wp.func
def smallest(x: wp.float64):
    return wp.float64(1e-14)


@wp.func
def negligible(x: wp.float32):
    """The square of an angle that is rounding, and a square that is too small for a rotation by its root."""
    return wp.float32(4e-15), wp.float32(1e-30)


@wp.func
def negligible(x: wp.float64):
    return wp.float64(1e-32), wp.float64(1e-290)


@wp.func
def rotation(a: Any, b: Any, off: Any, size: Any):
    """Cosine and sine of the rotation that makes the symmetric matrix [[a, off], [off, b]] diagonal; none where `off`
    is no more than rounding beside the root of `size`. NaN makes both NaN."""
    part, least = negligible(off)
    c, s = type(a)(1.0), type(a)(0.0)
    if not off * off <= part * size + least:
        delta, y = b - a, off + off
        x = wp.abs(delta) + wp.sqrt(delta * delta + y * y)
        scale = 1.0 / wp.sqrt(x * x + y * y)
        c, s = x * scale, y * scale
        if delta < 0.0:
            s = -s
    return c, s


@wp.func
def inverse_or_zero(x: Any, size: Any):
    """1 / x, and 0 where x is no more than rounding beside `size`."""
    result = type(x)(0.0)
    if wp.abs(x) > smallest(size) * size:
        result = 1.0 / x
    return result


@wp.func
def unit_or(v: Any, size: Any, other: Any):
    """The direction of v, or another one where v is no more than rounding beside `size`."""
    result = other
    length = wp.sqrt(wp.dot(v, v))
    if not length <= smallest(size) * size:  # NaN stays NaN
        result = v / length
    return result


@wp.func
def across(u: Any):
    """A unit vector perpendicular to a unit vector of three components."""
    x, y, z = wp.abs(u[0]), wp.abs(u[1]), wp.abs(u[2])
    axis = type(u)(1.0, 0.0, 0.0)
    if y <= x and y <= z:
        axis = type(u)(0.0, 1.0, 0.0)
    elif z <= x and z <= y:
        axis = type(u)(0.0, 0.0, 1.0)
    v = axis - wp.dot(axis, u) * u
    return v / wp.length(v)


@wp.func
def unit_beside(v: Any, size: Any, u: Any):
    """The direction of v, or one perpendicular to the unit vector u where v is no more than rounding beside `size`."""
    length = wp.sqrt(wp.dot(v, v))
    return across(u) if length <= smallest(size) * size else v / length


@wp.func
def turned(p: Any, q: Any, c: Any, s: Any):
    return c * p - s * q, s * p + c * q


@wp.func
def column(m: Any, k: int):
    return wp.vector(m[0, k], m[1, k], m[2, k])


@wp.func
def larger_first(a: Any, b: Any, v: Any, w: Any):
    """Two columns, and those that go with them, the longer of the first two first; swapped by a quarter turn."""
    if wp.dot(a, a) < wp.dot(b, b):
        a, b, v, w = b, -a, w, -v
    return a, b, v, w


@wp.func
def swept(a: Any, b: Any, v: Any, w: Any):
    x, y = wp.dot(a, a), wp.dot(b, b)
    c, s = rotation(x, y, wp.dot(a, b), x * y)
    a, b = turned(a, b, c, s)
    v, w = turned(v, w, c, s)
    return a, b, v, w


@wp.func
def powers_of_two(x: wp.float32):
    """The largest power of two up to x, and its reciprocal; within what both can be."""
    bits = wp.cast(wp.clamp(x, wp.float32(2.0**-126), wp.float32(2.0**126)), wp.int32) & wp.int32(0x7F800000)
    return wp.cast(bits, wp.float32), wp.cast(wp.int32(0x7F000000) - bits, wp.float32)


@wp.func
def powers_of_two(x: wp.float64):
    x = wp.clamp(x, wp.float64(2.0**-1022), wp.float64(2.0**1022))
    bits = wp.cast(x, wp.int64) & wp.int64(0x7FF0000000000000)
    return wp.cast(bits, wp.float64), wp.cast(wp.int64(0x7FE0000000000000) - bits, wp.float64)


@wp.func
def scales(x: Any):
    return powers_of_two(x)


@wp.func_grad(scales)
def adj_scales(x: Any, adj_size: Any, adj_reciprocal: Any):
    pass


@wp.func
def scaled(A: Any):
    """A divided by about its largest entry, and this divisor: rotations take fourth powers, which must not overflow or
    vanish. A power of two rounds nothing."""
    largest = type(A[0, 0])(0.0)
    for i in range(len(A)):
        for j in range(len(A)):
            largest = wp.max(largest, wp.abs(A[i, j]))
    size, reciprocal = scales(largest)
    return A * reciprocal, size


@wp.func
def svd3_found(A: mat33):
    A, scale = scaled(A)
    a, b, c = column(A, 0), column(A, 1), column(A, 2)
    vector = type(a)
    u, v, w = vector(1.0, 0.0, 0.0), vector(0.0, 1.0, 0.0), vector(0.0, 0.0, 1.0)
    sweep = int(0)
    while sweep < _SWEEPS:
        a, b, u, v = swept(a, b, u, v)
        b, c, v, w = swept(b, c, v, w)
        a, c, u, w = swept(a, c, u, w)
        sweep += 1
    a, b, u, v = larger_first(a, b, u, v)
    a, c, u, w = larger_first(a, c, u, w)
    b, c, v, w = larger_first(b, c, v, w)
    size = wp.length(a)
    p = unit_or(a, type(size)(0.0), vector(1.0, 0.0, 0.0))
    q = unit_beside(b - wp.dot(b, p) * p, size, p)
    r = wp.cross(p, q)
    sigma = scale * vector(wp.dot(p, a), wp.dot(q, b), wp.dot(r, c))
    return wp.matrix_from_cols(p, q, r), sigma, wp.matrix_from_cols(u, v, w)


@wp.func
def between(x: Any, y: Any, s: Any, t: Any, size: Any):
    """(x t + s y) / (t t - s s), what turns a pair of singular vectors, as a sum over t - s and t + s."""
    return 0.5 * ((x + y) * inverse_or_zero(t - s, size) + (x - y) * inverse_or_zero(t + s, size))


@wp.func
def svd3_found(A: wp.mat33h):
    U, sigma, V = svd3_found(wp.mat33f(A))
    return wp.mat33h(U), wp.vec3h(sigma), wp.mat33h(V)


@wp.func
def svd3_of(A: mat33, U: mat33, sigma: vec3, V: mat33):
    return U, sigma, V


@wp.func_grad(svd3_of)
def adj_svd3_of(A: mat33, U: mat33, sigma: vec3, V: mat33, adj_U: mat33, adj_sigma: vec3, adj_V: mat33):
    X = wp.transpose(U) * adj_U
    Y = wp.transpose(V) * adj_V
    M = type(A)()
    for i in range(3):
        M[i, i] = adj_sigma[i]
        for j in range(3):
            if i != j:
                M[i, j] = between(X[i, j] - X[j, i], Y[i, j] - Y[j, i], sigma[i], sigma[j], sigma[0])
    wp.adjoint[A] += U * M * wp.transpose(V)


@wp.func
def svd3(A: mat33) -> tuple[mat33, vec3, mat33]:
    """The singular value decomposition A = U * diag(sigma) * transpose(V), in which U and V are rotations.

    The values sigma fall in magnitude. The last one is negative if the determinant is. The vectors of equal values are
    not unique; the derivative leaves out what would mix them.
    """
    U, sigma, V = svd3_found(A)
    U, sigma, V = svd3_of(A, U, sigma, V)
    return svd3_of(A, U, sigma, V)


@wp.func
def svd3(A: mat33, U: wp.ref[mat33], sigma: wp.ref[vec3], V: wp.ref[mat33]) -> None:
    U, sigma, V = svd3(A)


@wp.func
def svd2_found(A: mat22):
    A, scale = scaled(A)
    a, b = wp.vector(A[0, 0], A[1, 0]), wp.vector(A[0, 1], A[1, 1])
    vector = type(a)
    a, b, u, v = swept(a, b, vector(1.0, 0.0), vector(0.0, 1.0))
    a, b, u, v = larger_first(a, b, u, v)
    p = unit_or(a, wp.length(a) * 0.0, vector(1.0, 0.0))
    q = vector(-p[1], p[0])
    return wp.matrix_from_cols(p, q), scale * vector(wp.dot(p, a), wp.dot(q, b)), wp.matrix_from_cols(u, v)


@wp.func
def svd2_found(A: wp.mat22h):
    U, sigma, V = svd2_found(wp.mat22f(A))
    return wp.mat22h(U), wp.vec2h(sigma), wp.mat22h(V)


@wp.func
def svd2_of(A: mat22, U: mat22, sigma: vec2, V: mat22):
    return U, sigma, V


@wp.func_grad(svd2_of)
def adj_svd2_of(A: mat22, U: mat22, sigma: vec2, V: mat22, adj_U: mat22, adj_sigma: vec2, adj_V: mat22):
    X = wp.transpose(U) * adj_U
    Y = wp.transpose(V) * adj_V
    M = type(A)()
    x, y = X[0, 1] - X[1, 0], Y[0, 1] - Y[1, 0]
    M[0, 0] = adj_sigma[0]
    M[1, 1] = adj_sigma[1]
    M[0, 1] = between(x, y, sigma[0], sigma[1], sigma[0])
    M[1, 0] = between(-x, -y, sigma[1], sigma[0], sigma[0])
    wp.adjoint[A] += U * M * wp.transpose(V)


@wp.func
def svd2(A: mat22) -> tuple[mat22, vec2, mat22]:
    """The singular value decomposition A = U * diag(sigma) * transpose(V), in which U and V are rotations.

    The values sigma fall in magnitude. The second one is negative if the determinant is. The vectors of equal values
    are not unique; the derivative leaves out what would mix them.
    """
    U, sigma, V = svd2_found(A)
    U, sigma, V = svd2_of(A, U, sigma, V)
    return svd2_of(A, U, sigma, V)


@wp.func
def svd2(A: mat22, U: wp.ref[mat22], sigma: wp.ref[vec2], V: wp.ref[mat22]) -> None:
    U, sigma, V = svd2(A)


@wp.func
def qr3(A: mat33) -> tuple[mat33, mat33]:
    """The decomposition A = Q * R into a rotation Q and an upper triangular R.

    The first two diagonal entries of R are not negative. The third has the sign of the determinant.
    """
    A, scale = scaled(A)
    a, b, c = column(A, 0), column(A, 1), column(A, 2)
    zero = A[0, 0] * 0.0
    size = wp.sqrt(wp.ddot(A, A))
    p = unit_or(a, zero, type(a)(1.0, 0.0, 0.0))
    rest = b - wp.dot(p, b) * p
    q = unit_beside(rest - wp.dot(p, rest) * p, size, p)
    r = wp.cross(p, q)
    R = type(A)(wp.dot(p, a), wp.dot(p, b), wp.dot(p, c), zero, wp.dot(q, b), wp.dot(q, c), zero, zero, wp.dot(r, c))
    return wp.matrix_from_cols(p, q, r), scale * R


@wp.func
def qr3(A: mat33, Q: wp.ref[mat33], R: wp.ref[mat33]) -> None:
    Q, R = qr3(A)


@wp.func
def annihilated(a: Any, b: Any, off: Any, pr: Any, qr: Any, p: Any, q: Any):
    """A Jacobi rotation of rows and columns p and q of a symmetric matrix: its entries, and the vectors turned."""
    c, s = rotation(a, b, off, a * a + b * b)
    t = s / c
    pr, qr = turned(pr, qr, c, s)
    p, q = turned(p, q, c, s)
    return a - t * off, b + t * off, pr, qr, p, q


@wp.func
def greater_first(a: Any, b: Any, p: Any, q: Any):
    if a < b:
        a, b, p, q = b, a, q, -p
    return a, b, p, q


@wp.func
def eig3_found(A: mat33):
    A, scale = scaled(A)
    a, b, c = A[0, 0], A[1, 1], A[2, 2]
    d, e, f = 0.5 * (A[0, 1] + A[1, 0]), 0.5 * (A[1, 2] + A[2, 1]), 0.5 * (A[0, 2] + A[2, 0])
    vector = type(column(A, 0))
    zero = A[0, 0] * 0.0
    p, q, r = vector(1.0, 0.0, 0.0), vector(0.0, 1.0, 0.0), vector(0.0, 0.0, 1.0)
    sweep = int(0)
    while sweep < _SWEEPS:
        a, b, f, e, p, q = annihilated(a, b, d, f, e, p, q)
        b, c, d, f, q, r = annihilated(b, c, e, zero, f, q, r)
        a, c, d, e, p, r = annihilated(a, c, f, d, zero, p, r)
        f = zero
        sweep += 1
    a, b, p, q = greater_first(a, b, p, q)
    a, c, p, r = greater_first(a, c, p, r)
    b, c, q, r = greater_first(b, c, q, r)
    return wp.matrix_from_cols(p, q, r), scale * vector(a, b, c)


@wp.func
def eig3_found(A: wp.mat33h):
    Q, d = eig3_found(wp.mat33f(A))
    return wp.mat33h(Q), wp.vec3h(d)


@wp.func
def eig3_of(A: mat33, Q: mat33, d: vec3):
    return Q, d


@wp.func_grad(eig3_of)
def adj_eig3_of(A: mat33, Q: mat33, d: vec3, adj_Q: mat33, adj_d: vec3):
    X = wp.transpose(Q) * adj_Q
    size = wp.max(wp.abs(d[0]), wp.abs(d[2]))
    M = type(A)()
    for i in range(3):
        M[i, i] = adj_d[i]
        for j in range(3):
            if i != j:
                M[i, j] = X[i, j] * inverse_or_zero(d[j] - d[i], size)
    G = Q * M * wp.transpose(Q)
    wp.adjoint[A] += 0.5 * (G + wp.transpose(G))


@wp.func
def eig3(A: mat33) -> tuple[mat33, vec3]:
    """The eigenvalues d and eigenvectors of the symmetric part of A, which is Q * diag(d) * transpose(Q).

    Q is a rotation with the eigenvectors as columns, and the values fall. The vectors of equal values are not unique;
    the derivative leaves out what would mix them.
    """
    Q, d = eig3_found(A)
    Q, d = eig3_of(A, Q, d)
    return eig3_of(A, Q, d)


@wp.func
def eig3(A: mat33, Q: wp.ref[mat33], d: wp.ref[vec3]) -> None:
    Q, d = eig3(A)
