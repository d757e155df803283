"""`cg`, `cr`, `bicgstab` and `gmres`: each makes a solver, and runs it; or solves for values of JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxwarp.boundary import located_call
from jaxwarp.optim.linear.bicgstab import BiCGSTAB
from jaxwarp.optim.linear.conjugate import CG, CR
from jaxwarp.optim.linear.gmres import GMRES, require_restart
from jaxwarp.optim.linear.values import is_value, solve_value


@located_call
def cg(
    A: Any,
    b: Any,
    x: Any = None,
    tol: float | None = None,
    atol: float | None = None,
    maxiter: float | None = 0,
    M: Any = None,
    callback: Callable[..., Any] | None = None,
    check_every: int = 10,
    use_cuda_graph: bool = True,
    run: bool = True,
    *,
    restart: int | None = None,
) -> Any:
    """Solve `A x = b` for a symmetric positive definite `A` by conjugate gradients. `CG` lists the arguments.

    With a JAX array `b`, `A` and `M` are JAX arrays, `BsrMatrix`, `LinearOperator` or functions of a vector. You may
    leave out the initial guess `x`. `callback`, `run` and `restart` are refused, and `check_every` has no effect.

    Returns:
        The number of iterations, the norm of the residual (computed anew at the end), and the tolerance that it should
        reach (see `LinearSolverState`). With `run=False` the solver. In JAX a `Solution`.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit, or a tape would leave out a derivative.

    Differentiability:
        With respect to `A` and `b`. In JAX of any order and mode; on a tape, unless `A` is a function.
    """
    if is_value(b):
        outside = {"callback": callback is not None, "run": not run, "restart": restart is not None}
        return solve_value("cg", A, b, x, (tol, atol), maxiter, M, outside)
    state = CG(A, b, x, tol, atol, maxiter, M, callback, check_every, use_cuda_graph, restart=restart)
    return state() if run else state


@located_call
def cr(
    A: Any,
    b: Any,
    x: Any = None,
    tol: float | None = None,
    atol: float | None = None,
    maxiter: float | None = 0,
    M: Any = None,
    callback: Callable[..., Any] | None = None,
    check_every: int = 10,
    use_cuda_graph: bool = True,
    run: bool = True,
    *,
    restart: int | None = None,
) -> Any:
    """Solve `A x = b` for a symmetric `A` by conjugate residuals. `CR` lists the arguments; `cg` says what JAX takes.

    Returns:
        The same as `cg`.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit, or a tape would leave out a derivative.

    Differentiability:
        With respect to `A` and `b`. In JAX of any order and mode; on a tape, unless `A` is a function.
    """
    if is_value(b):
        outside = {"callback": callback is not None, "run": not run, "restart": restart is not None}
        return solve_value("cr", A, b, x, (tol, atol), maxiter, M, outside)
    state = CR(A, b, x, tol, atol, maxiter, M, callback, check_every, use_cuda_graph, restart=restart)
    return state() if run else state


@located_call
def bicgstab(
    A: Any,
    b: Any,
    x: Any = None,
    tol: float | None = None,
    atol: float | None = None,
    maxiter: float | None = 0,
    M: Any = None,
    callback: Callable[..., Any] | None = None,
    check_every: int = 10,
    use_cuda_graph: bool = True,
    is_left_preconditioner: bool = False,
    run: bool = True,
) -> Any:
    """Solve `A x = b` by stabilised biconjugate gradients, for any `A`. `BiCGSTAB` lists the arguments.

    Returns:
        The same as `cg`.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit, or a tape would leave out a derivative.

    Differentiability:
        With respect to `A` and `b`. In JAX of any order and mode; on a tape, unless `A` is a function.
    """
    if is_value(b):
        return solve_value(
            "bicgstab", A, b, x, (tol, atol), maxiter, M, {"callback": callback is not None, "run": not run}
        )
    state = BiCGSTAB(A, b, x, tol, atol, maxiter, M, callback, check_every, use_cuda_graph, is_left_preconditioner)
    return state() if run else state


@located_call
def gmres(
    A: Any,
    b: Any,
    x: Any = None,
    tol: float | None = None,
    atol: float | None = None,
    restart: int = 31,
    maxiter: float | None = 0,
    M: Any = None,
    callback: Callable[..., Any] | None = None,
    check_every: int = 31,
    use_cuda_graph: bool = True,
    is_left_preconditioner: bool = False,
    run: bool = True,
) -> Any:
    """Solve `A x = b` by restarted generalised minimal residuals, for any `A`. `GMRES` lists the arguments.

    Returns:
        As `cg`. The number of iterations is a multiple of `restart`. The residual is computed anew at each restart.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit, or a tape would leave out a derivative.

    Differentiability:
        With respect to `A` and `b`. In JAX of any order and mode; on a tape, unless `A` is a function.
    """
    if is_value(b):
        outside = {"callback": callback is not None, "run": not run}
        return solve_value("gmres", A, b, x, (tol, atol), maxiter, M, outside, require_restart("gmres", restart))
    state = GMRES(
        A, b, x, tol, atol, restart, maxiter, M, callback, check_every, use_cuda_graph, is_left_preconditioner
    )
    return state() if run else state
