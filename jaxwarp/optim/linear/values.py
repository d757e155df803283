"""Systems of values of JAX: the same methods as functions, whose solution has derivatives.

The solution is found without any. To it is added the solution for what is left, from which its value is taken away:
zero, with the derivatives of `A^-1 (b - r)`, all of them, where r is the residual. These are systems of their own,
solved to the relative tolerance alone: a small cotangent is no solution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.sparse.linalg import gmres as jax_gmres

from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import guarded
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.launches.arguments.dims import require_known
from jaxwarp.optim.linear.operators import LinearOperator
from jaxwarp.optim.linear.options import require_iterations, require_tolerances, tolerance_of_derivatives
from jaxwarp.sparse.matrix import BsrMatrix
from jaxwarp.sparse.vector_products import bsr_mv
from jaxwarp.types import SCALAR_BY_DTYPE

Product = Callable[[jax.Array], jax.Array]


@guarded
class Solution(NamedTuple):
    """The result of a solver for values of JAX.

    Attributes:
        x: the solution.
        residual: the norm of `b - A x`.
        tolerance: the tolerance of the residual. If the residual is larger, the solver has not converged.
    """

    x: jax.Array
    residual: jax.Array
    tolerance: jax.Array


# A derivative whose residual is so many times its tolerance is none. Rounding keeps some residuals above it. The right
# side is the residual of 0, so that the limit is a part of it.
_ENOUGH, _MOST = 100.0, 0.1


class Search(NamedTuple):
    """The settings of the search for a solution.

    Attributes:
        relative, absolute: tolerances of the residual.
        most: iterations.
        restart: of GMRES, the size of its basis.
        is_derivative: whether a solution that does not come near is NaN, as nothing else tells.
    """

    relative: float
    absolute: float | jax.Array
    most: int
    restart: int = 0
    is_derivative: bool = False


def is_value(given: Any) -> bool:
    """Return whether an object is a value of JAX, or an array of NumPy."""
    return isinstance(given, (jax.Array, np.ndarray)) and not isinstance(given, HostArray)


def solve_value(
    what: str,
    A: Any,
    b: Any,
    x: Any,
    tolerances: tuple[Any, Any],
    maxiter: Any,
    M: Any,
    outside: dict[str, Any],
    restart: int = 0,
) -> Solution:
    """A solution of `A x = b`, with its derivatives.

    Args:
        outside: arguments that are for arrays outside of JAX only, and whether each was given.
    """
    for name, is_given in outside.items():
        if is_given:
            raise KernelTypeError(
                f"{what}: {name} is for arrays outside of JAX", hint="leave it out, or look at the result"
            )
    right = jnp.asarray(b)
    if right.ndim not in (1, 2) or right.dtype not in (jnp.float16, jnp.float32, jnp.float64):
        raise KernelTypeError(
            f"{what}: b: expected floats of shape (n,), or (n, k) for vectors, got {right.dtype} of shape {right.shape}"
        )
    first = jnp.zeros_like(right) if x is None else jnp.asarray(x) if is_value(x) else x
    if not is_value(first) or (first.shape, first.dtype) != (right.shape, right.dtype):
        raise KernelValueError(f"{what}: x: expected {_of(right)}, as b, got {_of(first)}")
    product = product_of(what, "A", A, right)
    inverse = None if M is None else product_of(what, "M", M, right)
    scalar = SCALAR_BY_DTYPE[np.dtype(right.dtype)]
    most = require_iterations(what, maxiter)
    if not most or restart:  # both are at most what the system has unknowns
        require_known(right.shape, f"{what}: b" if restart else f"{what}: b, without maxiter")
    most = most or max(1, right.size)
    search = Search(*require_tolerances(what, scalar, *tolerances), most, restart)
    of_derivatives = Search(tolerance_of_derivatives(scalar, tolerances[0]), 0.0, most, restart, True)
    start = jax.lax.stop_gradient(jnp.asarray(first))
    return _solved(what, product, right, start, inverse, search, of_derivatives)


def _solved(
    what: str,
    product: Product,
    b: jax.Array,
    start: jax.Array,
    inverse: Product | None,
    search: Search,
    of_derivatives: Search,
) -> Solution:
    def solution(right: jax.Array, first: jax.Array, how: Search) -> jax.Array:
        def solve(multiply: Product, given: jax.Array) -> jax.Array:
            return _near_one(METHODS[what], multiply, inverse, given, first, how)

        def transposed(multiply: Product, given: jax.Array) -> jax.Array:
            turned = None if inverse is None else _transpose(inverse, given)
            return _near_one(METHODS[what], multiply, turned, given, first, how)

        return jax.lax.custom_linear_solve(product, right, solve, transposed, symmetric=what in ("cg", "cr"))

    found = jax.lax.stop_gradient(solution(jax.lax.stop_gradient(b), start, search))
    left = b - product(found)
    value = jax.lax.stop_gradient(left)
    x = found + solution(left - value, jnp.zeros_like(b), of_derivatives)
    return Solution(x, _norm(value), _limit(jax.lax.stop_gradient(b), search))


def _near_one(
    method: Callable[..., jax.Array],
    A: Product,
    M: Product | None,
    b: jax.Array,
    x: jax.Array,
    search: Search,
) -> jax.Array:
    """Solve by a method with numbers scaled to be near 1, so that their squares neither overflow nor vanish."""
    magnitude = _magnitude(b) if search.is_derivative else jnp.maximum(_magnitude(b), 1)
    unit, scaled = magnitude.astype(b.dtype), search._replace(absolute=search.absolute / magnitude)
    found = method(A, M, b / unit, x / unit, scaled)
    if search.is_derivative:
        left = _norm(b / unit - A(found))
        enough = min(_ENOUGH * search.relative, _MOST) * _norm(b / unit)
        found = jnp.where(left <= enough, found, jnp.full_like(found, jnp.nan))
    return found * unit


def _transpose(product: Product, like: jax.Array) -> Product:
    turned = jax.linear_transpose(product, like)
    return lambda x: turned(x)[0]


def product_of(what: str, name: str, A: Any, like: jax.Array) -> Product:
    """Multiplies a vector by a matrix.

    Raises:
        KernelTypeError, KernelValueError: it is none, or does not fit `like`.
    """
    if isinstance(A, LinearOperator):
        if A.batch_offsets is not None:
            raise KernelTypeError(f"{what}: {name}: batch_offsets are for arrays outside of JAX", hint="use jax.vmap")
        return A.matvec
    if isinstance(A, BsrMatrix):
        if isinstance(A.values, HostArray):
            raise KernelTypeError(
                f"{what}: {name}: expected a matrix of JAX, as b is, got one of arrays outside of JAX"
            )
        if A.shape != (like.size, like.size):
            raise KernelValueError(f"{what}: {name}: expected the shape {(like.size, like.size)}, got {A.shape}")
        return lambda x: bsr_mv(A, x.reshape(-1)).reshape(x.shape)
    if callable(A):
        return cast(Product, A)
    if not is_value(A):
        raise KernelTypeError(
            f"{what}: {name}: expected an array of JAX, a BsrMatrix, a LinearOperator or a function, got {_of(A)}"
        )
    matrix = jnp.asarray(A)
    if matrix.dtype != like.dtype:
        raise KernelTypeError(f"{what}: {name}: expected {like.dtype}, as b is, got {matrix.dtype}")
    if matrix.shape == like.shape:
        return lambda x: matrix * x
    if matrix.shape != (like.size, like.size):
        raise KernelValueError(
            f"{what}: {name}: expected the shape {(like.size, like.size)}, or that of b for a diagonal, "
            f"got {matrix.shape}"
        )
    return lambda x: (matrix @ x.reshape(-1)).reshape(x.shape)


# The methods: `conjugate.py` and `bicgstab.py` say what they are. A quotient without a value is 0: it goes no further.


def _dot(a: jax.Array, b: jax.Array) -> jax.Array:
    accurate = jnp.float64 if a.dtype == jnp.float64 else jnp.float32
    return jnp.vdot(a.astype(accurate), b.astype(accurate))


def _magnitude(a: jax.Array) -> jax.Array:
    """The largest power of two that is in the numbers, so that to divide by it rounds nothing; 1 of zeros."""
    found = jnp.max(jnp.abs(a), initial=0).astype(jnp.float64 if a.dtype == jnp.float64 else jnp.float32)
    power = jnp.ldexp(jnp.ones_like(found), jnp.frexp(found)[1] - 1)
    power = jnp.where(jnp.isfinite(found), power, jnp.full_like(found, jnp.nan))
    return jnp.where(found == 0, jnp.ones_like(found), power)


def _norm(a: jax.Array) -> jax.Array:
    """Also where squares overflow; NaN of what is not finite."""
    unit = _magnitude(a)
    scaled = a.astype(unit.dtype) / unit
    return unit * jnp.sqrt(_dot(scaled, scaled))


def _limit(b: jax.Array, search: Search) -> jax.Array:
    norm = _norm(b)
    return jnp.maximum(search.relative * norm, jnp.asarray(search.absolute, norm.dtype))


def _quotient(a: jax.Array, b: jax.Array) -> jax.Array:
    found = a / jnp.where(b == 0, jnp.ones_like(b), b)
    return jnp.where((b == 0) | ~jnp.isfinite(found), jnp.zeros_like(found), found)


def _times(factor: jax.Array, x: jax.Array) -> jax.Array:
    return (factor * x.astype(factor.dtype)).astype(x.dtype)


def _repeated(step: Callable[..., Any], state: tuple[Any, ...], b: jax.Array, search: Search) -> jax.Array:
    """Steps of a state, solution and residual first, until the residual is small or a step changes nothing."""
    limit = _limit(b, search) ** 2

    def goes_on(carry: Any) -> jax.Array:
        (_, r, *_), count, moves = carry
        return moves & ~(_dot(r, r) <= limit) & (count < search.most)

    def advance(carry: Any) -> Any:
        state, count, _ = carry
        state, moves = step(*state)
        return state, count + 1, moves

    (x, *_), _, _ = jax.lax.while_loop(goes_on, advance, (state, jnp.int32(0), jnp.bool_(True)))
    return x


def _conjugate_gradients(A: Product, M: Product | None, b: jax.Array, x: jax.Array, search: Search) -> jax.Array:
    precondition = M or (lambda v: v)

    def step(x: Any, r: Any, p: Any, product: Any) -> Any:
        q = A(p)
        factor = _quotient(product, _dot(p, q))
        x, r = x + _times(factor, p), r - _times(factor, q)
        z = precondition(r)
        now = _dot(r, z)
        return (x, r, z + _times(_quotient(now, product), p), now), factor != 0

    r = b - A(x)
    z = precondition(r)
    return _repeated(step, (x, r, z, _dot(r, z)), b, search)


def _conjugate_residuals(A: Product, M: Product | None, b: jax.Array, x: jax.Array, search: Search) -> jax.Array:
    precondition = M or (lambda v: v)

    def step(x: Any, r: Any, z: Any, p: Any, q: Any, product: Any) -> Any:
        y = precondition(q)
        factor = _quotient(product, _dot(q, y))
        x, r, z = x + _times(factor, p), r - _times(factor, q), z - _times(factor, y)
        t = A(z)
        now = _dot(z, t)
        turn = _quotient(now, product)
        return (x, r, z, z + _times(turn, p), t + _times(turn, q), now), factor != 0

    r = b - A(x)
    z = precondition(r)
    t = A(z)
    return _repeated(step, (x, r, z, z, t, _dot(z, t)), b, search)


def _bicgstab(A: Product, M: Product | None, b: jax.Array, x: jax.Array, search: Search) -> jax.Array:
    precondition = M or (lambda v: v)

    def step(x: Any, r: Any, first: Any, p: Any, rho: Any) -> Any:
        y = precondition(p)
        v = A(y)
        alpha = _quotient(rho, _dot(first, v))
        x, r = x + _times(alpha, y), r - _times(alpha, v)
        z = precondition(r)
        t = A(z)
        omega = _quotient(_dot(t, r), _dot(t, t))
        x, r = x + _times(omega, z), r - _times(omega, t)
        now = _dot(first, r)
        beta = _quotient(now, rho) * _quotient(alpha, omega)
        is_new = beta == 0  # the recurrence has broken down: it starts again from the residual
        p = r + _times(beta, p - _times(omega, v))
        first, rho = jnp.where(is_new, r, first), jnp.where(is_new, _dot(r, r), now)
        return (x, r, first, p, rho), (alpha != 0) | (omega != 0)

    r = b - A(x)
    return _repeated(step, (x, r, r, r, _dot(r, r)), b, search)


def _gmres(A: Product, M: Product | None, b: jax.Array, x: jax.Array, search: Search) -> jax.Array:
    restart = max(1, min(search.restart, search.most, b.size))
    cycles = -(-search.most // restart)
    how = {"tol": search.relative, "atol": search.absolute, "restart": restart, "maxiter": cycles}
    if b.dtype != jnp.float16:
        return jax_gmres(A, b, x, M=M, **how)[0]
    wide, *products = b.astype(jnp.float32), *(None if P is None else _widened(P) for P in (A, M))
    return jax_gmres(products[0], wide, x.astype(jnp.float32), M=products[1], **how)[0].astype(b.dtype)


def _widened(product: Product) -> Product:
    return lambda x: product(x.astype(jnp.float16)).astype(jnp.float32)


METHODS: dict[str, Callable[..., jax.Array]] = {
    "cg": _conjugate_gradients,
    "cr": _conjugate_residuals,
    "bicgstab": _bicgstab,
    "gmres": _gmres,
}


def _of(given: Any) -> str:
    if isinstance(given, HostArray):
        return "an array outside of JAX"
    return f"{given.dtype} of shape {given.shape}" if is_value(given) else type(given).__name__
