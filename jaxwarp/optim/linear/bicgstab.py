"""`BiCGSTAB`: for matrices that need not be symmetric.

H. A. van der Vorst, "Bi-CGSTAB: a fast and smoothly converging variant of Bi-CG", SIAM J. Sci. Stat. Comput. 13, 1992.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import boundaries
from jaxwarp.errors import KernelValueError
from jaxwarp.optim.linear.operators import LinearOperator
from jaxwarp.optim.linear.state import Iterate, LinearSolverState
from jaxwarp.optim.linear.vectors import flat, group_of, quotient, times


@wp.kernel(enable_backward=False)
def _first(
    limit: wp.array[wp.Float],
    rho: wp.array[wp.Float],
    r0v: wp.array[wp.Float],
    square: wp.array[wp.Float],
    alpha: wp.array[wp.Float],
):
    g = wp.tid()
    alpha[g] = limit.dtype(0.0)
    if not (square[g] <= limit[g]):
        alpha[g] = quotient(rho[g], r0v[g])
    square[g] = limit.dtype(0.0)


@wp.kernel(enable_backward=False)
def _second(
    limit: wp.array[wp.Float],
    square: wp.array[wp.Float],
    st: wp.array[wp.Float],
    tt: wp.array[wp.Float],
    omega: wp.array[wp.Float],
):
    g = wp.tid()
    omega[g] = limit.dtype(0.0)
    if not (square[g] <= limit[g]):
        omega[g] = quotient(st[g], tt[g])
    square[g] = limit.dtype(0.0)


@wp.kernel(enable_backward=False)
def _third(
    rho_new: wp.array[wp.Float],
    rho: wp.array[wp.Float],
    alpha: wp.array[wp.Float],
    omega: wp.array[wp.Float],
    beta: wp.array[wp.Float],
    square: wp.array[wp.Float],
    r0v: wp.array[wp.Float],
    st: wp.array[wp.Float],
    tt: wp.array[wp.Float],
):
    """`beta` is 0 where the recurrence has broken down: it starts again from the residual."""
    g = wp.tid()
    zero = rho.dtype(0.0)
    beta[g] = quotient(rho_new[g], rho[g]) * quotient(alpha[g], omega[g])
    rho[g] = wp.where(beta[g] == zero, square[g], rho_new[g])
    rho_new[g] = zero
    r0v[g] = zero
    st[g] = zero
    tt[g] = zero


@wp.kernel(enable_backward=False)
def _direction(
    r: wp.array[wp.Float],
    v: wp.array[wp.Float],
    beta: wp.array[wp.Float],
    omega: wp.array[wp.Float],
    groups: wp.array[int],
    r0: wp.array[wp.Float],
    p: wp.array[wp.Float],
):
    """`p = r + beta (p - omega v)`."""
    i = wp.tid()
    g = group_of(groups, i)
    if g >= 0:
        rest = beta.dtype(p[i]) - times(omega[g], v[i])
        p[i] = p.dtype(beta.dtype(r[i]) + times(beta[g], rest))
        r0[i] = wp.where(beta[g] == beta.dtype(0.0), r[i], r0[i])


@boundaries
class BiCGSTAB(LinearSolverState):
    """A solver by stabilised biconjugate gradients, for any matrix. `LinearSolverState` lists the other arguments.

    Args:
        is_left_preconditioner: multiply by `M` from the left, not from the right.
    """

    name = "bicgstab"

    def __init__(
        self,
        A: Any,
        b: Any,
        x: Any,
        tol: float | None = None,
        atol: float | None = None,
        maxiter: float | None = 0,
        M: Any = None,
        callback: Callable[..., Any] | None = None,
        check_every: int = 10,
        use_cuda_graph: bool = True,
        is_left_preconditioner: bool = False,
    ):
        self._is_left = bool(is_left_preconditioner)
        super().__init__(A, b, x, tol, atol, maxiter, M, callback, check_every, use_cuda_graph)

    def _allocate(self) -> None:
        vectors = self._vectors
        self._r, self._r0, self._p, self._v, self._t = (vectors.new() for _ in range(5))
        self._y, self._z, self._w = (None, None, None) if self._M is None else (vectors.new() for _ in range(3))
        self._all = vectors.numbers(10)
        self._sums = self._all[0:5]

    def _require_same(self, A: LinearOperator, b: HostArray, x: HostArray, M: LinearOperator | None) -> None:
        super()._require_same(A, b, x, M)
        if (M is None) != (self._M is None):
            expected, found = ("None", "a matrix") if self._M is None else ("a matrix", "None")
            raise KernelValueError(f"{self.name}: M: expected {expected}, as the solver was made with, got {found}")

    def _start(self, A: LinearOperator, b: HostArray, x: HostArray, M: LinearOperator | None) -> Iterate:
        vectors = self._vectors
        square, rho_new, r0v, st, tt, rho, alpha, omega, beta, limit = (self._all[i] for i in range(10))
        y_vector = self._p if self._y is None else self._y
        z_vector = self._r if self._z is None else self._z
        row_x, r, r0, p, v, t = (flat(a) for a in (x, self._r, self._r0, self._p, self._v, self._t))
        y, z = (p, r) if M is None else (flat(y_vector), flat(z_vector))
        s_part, t_part = (r, t) if self._w is None or not self._is_left else (z, flat(self._w))
        for vector in (self._v, self._t, self._y, self._z, self._w):
            if vector is not None:
                vector.zero_()

        def precondition(source: HostArray, target: HostArray | None) -> None:
            if M is not None:
                M.matvec(source, target, target, alpha=1.0, beta=0.0)

        def advance() -> None:
            precondition(self._p, self._y)
            A.matvec(y_vector, self._v, self._v, alpha=1.0, beta=0.0)
            vectors.add_dot(r0, v, r0v)
            vectors.launch_groups(_first, [limit, rho, r0v, square, alpha])
            vectors.step(alpha, y, v, row_x, r, square)
            precondition(self._r, self._z)
            A.matvec(z_vector, self._t, self._t, alpha=1.0, beta=0.0)
            if self._is_left:
                precondition(self._t, self._w)
            vectors.add_dot(s_part, t_part, st)
            vectors.add_dot(t_part, t_part, tt)
            vectors.launch_groups(_second, [limit, square, st, tt, omega])
            vectors.step(omega, z, t, row_x, r, square)
            vectors.add_dot(r0, r, rho_new)
            vectors.launch_groups(_third, [rho_new, rho, alpha, omega, beta, square, r0v, st, tt])
            vectors.launch(_direction, [r, v, beta, omega, vectors.groups, r0, p])

        def begin() -> None:
            self._sums.zero_()
            self._residual(A, b, x, self._r)
            vectors.add_dot(r, r, square)
            p.assign(r)
            r0.assign(r)
            rho.assign(square)

        self._sums.zero_()
        self._set_limit(b, square, limit)
        begin()
        return Iterate(advance, square, limit, renew=begin)
