"""`CG` and `CR`: conjugate gradients and conjugate residuals, for symmetric matrices.

M. R. Hestenes, E. Stiefel, "Methods of conjugate gradients for solving linear systems", 1952; Y. Saad, "Iterative
methods for sparse linear systems", 2nd edition, algorithms 9.1 and 6.20.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import boundaries, called
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.optim.linear.operators import LinearOperator
from jaxwarp.optim.linear.state import Iterate, LinearSolverState
from jaxwarp.optim.linear.vectors import Vectors, flat, group_of, quotient, scaled_sum, times


@wp.kernel(enable_backward=False)
def _go(
    limit: wp.array[wp.Float],
    square: wp.array[wp.Float],
    product: wp.array[wp.Float],
    curvature: wp.array[wp.Float],
    factor: wp.array[wp.Float],
    before: wp.array[wp.Float],
    has_product: bool,
):
    """Compute how far each system goes: 0 if it has ended. Set both sums to zero."""
    g = wp.tid()
    now = wp.where(has_product, product[g], square[g])
    before[g] = now
    if square[g] <= limit[g]:
        factor[g] = limit.dtype(0.0)
    else:
        factor[g] = quotient(now, curvature[g])
    square[g] = limit.dtype(0.0)
    product[g] = limit.dtype(0.0)


@wp.kernel(enable_backward=False)
def _turn(
    square: wp.array[wp.Float],
    product: wp.array[wp.Float],
    factor: wp.array[wp.Float],
    before: wp.array[wp.Float],
    curvature: wp.array[wp.Float],
    turn: wp.array[wp.Float],
    has_product: bool,
):
    """Compute how much of this direction is in the next one: none, if this one led nowhere."""
    g = wp.tid()
    now = wp.where(has_product, product[g], square[g])
    turn[g] = times(wp.where(factor[g] == turn.dtype(0.0), turn.dtype(0.0), turn.dtype(1.0)), quotient(now, before[g]))
    curvature[g] = turn.dtype(0.0)


@wp.kernel(enable_backward=False)
def _subtract(y: wp.array[wp.Float], factor: wp.array[wp.Float], groups: wp.array[int], z: wp.array[wp.Float]):
    """`z -= factor y`."""
    i = wp.tid()
    g = group_of(groups, i)
    if g >= 0:
        z[i] = z.dtype(factor.dtype(z[i]) - times(factor[g], y[i]))


class _Sums:
    """The sums of each system: the residual's square, the other product, the direction's curvature; and factors."""

    def __init__(self, vectors: Vectors):
        self._vectors = vectors
        self._all = vectors.numbers(7)
        self.square, self.product, self.curvature, self.factor, self.turn, self.before, self.limit = (
            self._all[i] for i in range(7)
        )
        self._sums = self._all[0:3]

    def clear(self) -> None:
        self._sums.zero_()

    def go(self, has_product: bool) -> None:
        arguments = [self.limit, self.square, self.product, self.curvature, self.factor, self.before, has_product]
        self._vectors.launch_groups(_go, arguments)

    def set_turn(self, has_product: bool) -> None:
        arguments = [self.square, self.product, self.factor, self.before, self.curvature, self.turn, has_product]
        self._vectors.launch_groups(_turn, arguments)


class _Restarted(LinearSolverState):
    @called("LinearSolverState")
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
        *,
        restart: int | None = None,
    ):
        self._restart = None if restart is None else _require_restart(self.name, restart)
        super().__init__(A, b, x, tol, atol, maxiter, M, callback, check_every, use_cuda_graph)

    def _options(self) -> dict[str, Any]:
        return {"restart": self._restart}

    def _cycle(self, begin: Callable[[], None], advance: Callable[[], None], sums: _Sums) -> Iterate:
        begin()
        if self._restart is None:
            return Iterate(advance, sums.square, sums.limit, renew=begin)
        count = max(1, min(self._restart, self._maxiter))

        def run() -> None:
            for _ in range(count):
                advance()
            begin()

        return Iterate(run, sums.square, sums.limit, count)


def _require_restart(what: str, restart: Any) -> int:
    try:
        found = None if isinstance(restart, bool) else operator.index(restart)
    except TypeError:
        found = None
    if found is None:
        raise KernelTypeError(f"{what}: restart must be an integer or None, got {restart!r}")
    if found < 1:
        raise KernelValueError(f"{what}: restart must be positive, got {restart!r}")
    return found


@boundaries
class CG(_Restarted):
    """A solver by conjugate gradients, for symmetric positive definite matrices.

    `LinearSolverState` lists the other arguments.

    Args:
        restart: start again from the current solution after so many iterations. None: never.
    """

    name = "cg"

    def _allocate(self) -> None:
        self._r, self._z, self._p, self._q = (self._vectors.new() for _ in range(4))
        self._sums = _Sums(self._vectors)

    def _start(self, A: LinearOperator, b: HostArray, x: HostArray, M: LinearOperator | None) -> Iterate:
        vectors, sums, has_product = self._vectors, self._sums, M is not None
        z_vector = self._r if M is None else self._z
        row_x, r, z, p, q = (flat(v) for v in (x, self._r, z_vector, self._p, self._q))
        z = r if M is None else z
        self._q.zero_()

        def precondition() -> None:
            if M is not None:
                M.matvec(self._r, self._z, self._z, alpha=1.0, beta=0.0)
                vectors.add_dot(r, z, sums.product)

        def begin() -> None:
            sums.clear()
            self._residual(A, b, x, self._r)
            vectors.add_dot(r, r, sums.square)
            precondition()
            p.assign(z)

        def advance() -> None:
            A.matvec(self._p, self._q, self._q, alpha=1.0, beta=0.0)
            vectors.add_dot(p, q, sums.curvature)
            sums.go(has_product)
            vectors.step(sums.factor, p, q, row_x, r, sums.square)
            precondition()
            sums.set_turn(has_product)
            vectors.launch(scaled_sum, [z, sums.turn, vectors.groups, p])

        sums.clear()
        self._set_limit(b, sums.square, sums.limit)
        return self._cycle(begin, advance, sums)


@boundaries
class CR(_Restarted):
    """A solver by conjugate residuals, for symmetric matrices. `LinearSolverState` lists the other arguments.

    Args:
        restart: start again from the current solution after so many iterations. None: never.
    """

    name = "cr"

    def _allocate(self) -> None:
        self._r, self._z, self._p, self._q, self._y, self._t = (self._vectors.new() for _ in range(6))
        self._sums = _Sums(self._vectors)

    def _start(self, A: LinearOperator, b: HostArray, x: HostArray, M: LinearOperator | None) -> Iterate:
        # z = M r, q = A p, y = M q, t = A z.
        vectors, sums = self._vectors, self._sums
        z_vector = self._r if M is None else self._z
        row_x, r, p, q, t = (flat(v) for v in (x, self._r, self._p, self._q, self._t))
        z, y = (r, q) if M is None else (flat(self._z), flat(self._y))
        for vector in (self._z, self._y, self._t):
            vector.zero_()

        def multiply() -> None:
            A.matvec(z_vector, self._t, self._t, alpha=1.0, beta=0.0)
            vectors.add_dot(z, t, sums.product)

        def begin() -> None:
            sums.clear()
            self._residual(A, b, x, self._r)
            vectors.add_dot(r, r, sums.square)
            if M is not None:
                M.matvec(self._r, self._z, self._z, alpha=1.0, beta=0.0)
            multiply()
            p.assign(z)
            q.assign(t)

        def advance() -> None:
            if M is not None:
                M.matvec(self._q, self._y, self._y, alpha=1.0, beta=0.0)
            vectors.add_dot(q, y, sums.curvature)
            sums.go(True)
            vectors.step(sums.factor, p, q, row_x, r, sums.square)
            if M is not None:
                vectors.launch(_subtract, [y, sums.factor, vectors.groups, z])
            multiply()
            sums.set_turn(True)
            vectors.launch(scaled_sum, [z, sums.turn, vectors.groups, p])
            vectors.launch(scaled_sum, [t, sums.turn, vectors.groups, q])

        sums.clear()
        self._set_limit(b, sums.square, sums.limit)
        return self._cycle(begin, advance, sums)
