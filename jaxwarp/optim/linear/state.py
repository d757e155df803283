"""`LinearSolverState`: what all solvers share: their arguments, when they end, and what they give back."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import boundaries
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.host.checks import require_array, require_count
from jaxwarp.memory.host_scope import capturing, recording, require_settled
from jaxwarp.optim.linear.operators import FLOATS, LinearOperator, numbers_of, operator_of
from jaxwarp.optim.linear.options import require_iterations, require_tolerances, tolerance_of_derivatives
from jaxwarp.optim.linear.vectors import Vectors, flat
from jaxwarp.optim.linear.way_back import solve_recorded
from jaxwarp.types import element_scalar, element_shape


@wp.kernel(enable_backward=False)
def _tolerances(tol: wp.Float, atol: wp.Float, square: wp.array[wp.Float], limit: wp.array[wp.Float]):
    g = wp.tid()
    least = wp.max(tol * wp.sqrt(square[g]), atol)
    limit[g] = least * least
    if not wp.isfinite(square[g]) or not wp.isfinite(limit[g]):
        limit[g] = limit.dtype(wp.nan)  # no residual is told from infinity
    square[g] = square.dtype(0.0)


@wp.kernel(enable_backward=False)
def _go_on(square: wp.array[wp.Float], limit: wp.array[wp.Float], cycle: int, most: int, progress: wp.array[int]):
    """Counts the iterations, and tells whether another cycle is to follow."""
    goes = 0
    for g in range(square.shape[0]):
        if not (square[g] <= limit[g]):
            goes = 1
    count = progress[0] + cycle
    progress[0] = count
    progress[1] = wp.where(count < most, goes, 0)


@boundaries
class LinearSolverState:
    """A solver that keeps its memory between calls: the base class of `CG`, `CR`, `BiCGSTAB` and `GMRES`.

    Calling it solves the system. You can pass other arrays of the same types and shapes to the call. The functions
    `cg`, `cr`, `bicgstab` and `gmres` return a solver if you pass `run=False`.

    Args:
        A: the matrix: an array with two axes; an array with one axis, which is a diagonal; a `BsrMatrix`; or a
            `LinearOperator`.
        b: the right-hand side, an array of floats or of vectors of floats.
        x: the initial guess, an array like `b`. The solver overwrites it with the solution.
        tol: the relative tolerance. The solver stops if the norm of the residual is at most `max(tol * norm(b), atol)`.
        atol: the absolute tolerance. If one of `tol` and `atol` is None, it takes the value of the other. If both are,
            they take a default of the type, 1e-6 for float32.
        maxiter: the largest number of iterations. 0 and None: the number of unknowns (of one system, if there are
            several).
        M: a preconditioner: an approximate inverse of `A`, of the same kinds as `A`.
        callback: called with the iteration, residual and tolerance at each check. If `check_every` is 0, it is a kernel
            that takes three arrays of these, the last two squared.
        check_every: the number of iterations between checks of the residual. 0: Python reads no residual, and the call
            returns arrays, so that a capture can contain it.
        use_cuda_graph: accepted, but has no effect.

    Raises:
        KernelTypeError, KernelValueError: an argument has another type or shape.
    """

    name = "LinearSolverState"

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
    ):
        del use_cuda_graph
        what = self.name
        self._A, self._M = operator_of(what, "A", A), operator_of(what, "M", M)
        if self._A is None:
            raise KernelTypeError(f"{what}: A: expected a matrix or a LinearOperator, got None")
        self._b, self._x = self._unknowns("b", b), self._unknowns("x", x, is_written=True)
        self._require_like("x", self._x, self._b)
        self._callback, self._check_every = callback, require_count(what, "check_every", check_every)
        self._vectors = Vectors(self._b, self._A.scalar_type, self._offsets())
        self._tolerances = require_tolerances(what, self._A.scalar_type, tol, atol)
        self._tolerance_of_derivatives = tolerance_of_derivatives(self._A.scalar_type, tol)
        self._maxiter = require_iterations(what, maxiter) or self._vectors.size // self._vectors.count
        self._cur_iter_and_condition = wp.zeros(2, dtype=int, device=self._b.device)
        self._allocate()

    def __call__(self, A: Any = None, b: Any = None, x: Any = None, M: Any = None) -> tuple[Any, Any, Any]:
        """Solve the system. An argument that you pass replaces the one that the solver was made with.

        Returns:
            The number of iterations, the norm of the residual, and the tolerance; of several systems the largest. With
            `check_every=0` arrays, with the squares of both norms for each system.

        Raises:
            KernelTypeError, KernelValueError: an argument has another type or shape, or a tape would leave out a
                derivative.
        """
        operator = self._A if A is None else operator_of(self.name, "A", A)
        inverse = self._M if M is None else operator_of(self.name, "M", M)
        right = self._b if b is None else self._unknowns("b", b)
        solution = self._x if x is None else self._unknowns("x", x, is_written=True)
        self._require_same(operator, right, solution, inverse)
        if self._check_every:
            require_settled(self.name)
        if recording.get() is None:
            return self._solve_any(operator, right, solution, inverse)

        def solve() -> tuple[Any, Any, Any]:
            return self._solve_any(operator, right, solution, inverse)

        def solver_of(matrix: LinearOperator, b: HostArray, x: HostArray) -> LinearSolverState:
            how = {"tol": self._tolerance_of_derivatives, "atol": 0.0, "maxiter": self._maxiter, **self._options()}
            return type(self)(matrix, b, x, M=inverse, **how)

        return solve_recorded(self.name, operator, right, solution, solve, solver_of)

    def _solve_any(
        self, operator: LinearOperator, right: HostArray, solution: HostArray, inverse: LinearOperator | None
    ) -> tuple[Any, Any, Any]:
        """Also of arrays with gaps, or that share memory."""
        numbers = [numbers_of(matrix) for matrix in (operator, inverse) if matrix is not None]
        is_apart = not any(n is not None and n.region.overlaps(solution.region) for n in numbers)
        dense = solution if solution.is_contiguous and is_apart else solution.new_like().assign(solution)
        if not right.is_contiguous or right.region.overlaps(solution.region):
            right = right.new_like().assign(right)
        found = self._solve(operator, right, dense, inverse)
        if dense is not solution:
            solution.assign(dense)
        return found

    # What a solver defines.

    def _allocate(self) -> None:
        """Makes the memory that it needs."""
        raise NotImplementedError

    def _start(self, A: LinearOperator, b: HostArray, x: HostArray, M: LinearOperator | None) -> Iterate:
        """Prepares a solution: the residual's square is known afterwards."""
        raise NotImplementedError

    def _options(self) -> dict[str, Any]:
        """Arguments of its own that a solver for derivatives has, too."""
        return {}

    # What they share.

    def _solve(self, A: LinearOperator, b: HostArray, x: HostArray, M: LinearOperator | None) -> tuple[Any, Any, Any]:
        if not self._vectors.size:
            return self._nothing()
        iteration = self._start(A, b, x, M)
        if self._check_every:
            return self._run(iteration)
        return self._run_unread(iteration)

    def _nothing(self) -> tuple[Any, Any, Any]:
        if self._check_every:
            return 0, 0.0, self._tolerances[1]
        squares = self._vectors.numbers(2)
        self._cur_iter_and_condition.zero_()
        return self._cur_iter_and_condition[0:1], squares[0], squares[1]

    def _residual(self, A: LinearOperator, b: HostArray, x: HostArray, r: HostArray) -> None:
        """`r = b - A x`."""
        A.matvec(x, b, r, alpha=-1.0, beta=1.0)

    def _set_limit(self, b: HostArray, square: HostArray, limit: HostArray) -> None:
        """`limit`: the square of what the residual is to be; `square` is zero before and afterwards."""
        row = flat(b)
        self._vectors.add_dot(row, row, square)
        number = square.dtype
        self._vectors.launch_groups(_tolerances, [*(number(t) for t in self._tolerances), square, limit])

    def _run(self, iteration: Iterate) -> tuple[int, float, float]:
        cycle, square = iteration.length, iteration.square
        limits = iteration.limit.numpy().copy()
        tolerance, count, every = math.sqrt(limits.max()), 0, max(self._check_every, cycle)

        def residual() -> tuple[float, bool]:
            squares = square.numpy()
            return float(math.sqrt(squares.max())), bool((squares <= limits).all())

        def tell(error: float) -> None:
            if self._callback is not None:
                self._callback(count, error, tolerance)

        error, is_done = residual()
        tell(error)
        before = math.inf
        while not is_done:
            iteration.run()
            count += cycle
            is_done = count >= self._maxiter
            if is_done or count % every < cycle:
                error, is_near = residual()
                if (is_near or is_done) and iteration.renew is not None:
                    # Rounding has parted the two: it goes on from here, while that makes it smaller.
                    iteration.renew()
                    error, is_near = residual()
                    is_done = is_done or not error < before / 2
                    before = error
                is_done = is_done or is_near
                tell(error)
        return count, error, float(tolerance)

    def _run_unread(self, iteration: Iterate) -> tuple[HostArray, HostArray, HostArray]:
        progress, square, limit = self._cur_iter_and_condition, iteration.square, iteration.limit
        progress.fill_(-iteration.length)
        count, condition = progress[0:1], progress[1:2]
        kernel: Any = self._callback if isinstance(self._callback, wp.Kernel) else None

        def look() -> None:
            wp.launch(_go_on, 1, [square, limit, iteration.length, self._maxiter, progress], device=progress.device)
            if kernel is not None:
                wp.launch(kernel, 1, [count, square, limit], device=progress.device)

        def cycle() -> None:
            iteration.run()
            look()

        look()
        wp.capture_while(condition, cycle)
        if iteration.renew is not None:
            iteration.renew()
        return count, square, limit

    # What is asked of arguments.

    def _unknowns(self, name: str, given: Any, is_written: bool = False) -> HostArray:
        array, scalar = require_array(self.name, name, given, is_written), self._A.scalar_type
        if element_scalar(array.dtype) not in FLOATS or len(element_shape(array.dtype)) > 1 or array.ndim != 1:
            raise KernelTypeError(
                f"{self.name}: {name}: expected a row of floats or of vectors of them, "
                f"got {array.dtype} of shape {array.shape}"
            )
        if element_scalar(array.dtype) != scalar:
            raise KernelValueError(f"{self.name}: {name}: expected numbers of {scalar}, as A has, got {array.dtype}")
        return array

    def _offsets(self) -> HostArray | None:
        offsets = self._A.batch_offsets
        if offsets is None or capturing.get() is not None:
            return offsets
        steps = offsets.numpy()
        if steps[0] < 0 or steps[-1] > flat(self._b).shape[0] or any(steps[1:] < steps[:-1]):
            raise KernelValueError(
                f"{self.name}: batch_offsets: expected numbers from 0 to {flat(self._b).shape[0]} in order, "
                f"got {steps.tolist()}"
            )
        return offsets

    def _require_like(self, name: str, given: HostArray, expected: HostArray) -> None:
        if (given.shape, given.dtype, given.device) != (expected.shape, expected.dtype, expected.device):
            raise KernelValueError(
                f"{self.name}: {name}: expected {_of(expected)}, got {_of(given)}",
            )

    def _require_same(self, A: LinearOperator, b: HostArray, x: HostArray, M: LinearOperator | None) -> None:
        self._require_like("b", b, self._b)
        self._require_like("x", x, self._b)
        if A is not self._A:
            self._require_operator("A", A, self._A)
            if A.batch_offsets is not self._A.batch_offsets:
                raise KernelValueError(
                    f"{self.name}: A: expected the batch_offsets that the solver was made with, got others"
                )
            if A.max_batch_length != self._A.max_batch_length:
                raise KernelValueError(
                    f"{self.name}: A: expected a max_batch_length of {self._A.max_batch_length}, "
                    f"got {A.max_batch_length}"
                )
        if M is not None and self._M is not None and M is not self._M:
            self._require_operator("M", M, self._M)

    def _require_operator(self, name: str, given: LinearOperator, known: LinearOperator) -> None:
        for part in ("shape", "dtype", "device"):
            expected, found = getattr(known, part), getattr(given, part)
            if expected != found:
                raise KernelValueError(f"{self.name}: {name}: expected {part} {expected}, got {found}")


class Iterate:
    """A solution on its way.

    Attributes:
        run: makes `length` iterations.
        square: the square of the residual.
        limit: what that is to be at most.
        renew: computes the residual anew, and starts again from it. None: `run` has just done so.
    """

    def __init__(
        self,
        run: Callable[[], None],
        square: HostArray,
        limit: HostArray,
        length: int = 1,
        renew: Callable[[], None] | None = None,
    ):
        self.run, self.square, self.limit, self.length, self.renew = run, square, limit, length, renew


def _of(array: HostArray) -> str:
    return f"{array.dtype} of shape {array.shape} on {array.device}"
