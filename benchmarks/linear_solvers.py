"""Iterations of linear solvers on Poisson's equation beside NVIDIA Warp's and SciPy's, on one core.

    python benchmarks/linear_solvers.py [--rounds 5] [--only cg,gmres] [--sides 32,316]

A square of 32 by 32 and of 316 by 316 unknowns, a sparse matrix with five numbers of float32 in a row, no
preconditioner and the diagonal. Each contender makes 31 iterations from zero; the residuals that Warp and jaxwarp have
then are compared. "jaxwarp in JAX" is the same solver inside of `jax.jit`. Contenders take turns in one process; times
are the process's own. Warp's sums on the CPU go over each part of 512 numbers 512 times, so the larger system takes
minutes: only conjugate gradients solve it in Warp. SciPy has no conjugate residuals. Medians in microseconds an
iteration; writes results/linear_solvers.json.
"""

from __future__ import annotations

import argparse
import importlib
import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("OMP_NUM_THREADS", "1")
if hasattr(os, "sched_setaffinity"):  # before XLA makes its threads
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])

import measure
import numpy as np
import scipy.sparse
import scipy.sparse.linalg

import jaxwarp

ITERATIONS = 31  # of GMRES a cycle
SOLVERS = ("cg", "cr", "bicgstab", "gmres")
LARGE = 10_000  # unknowns from which on there are fewer rounds, for Warp's sake


def poisson(side: int) -> Any:
    line = scipy.sparse.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(side, side))
    return scipy.sparse.csr_matrix(scipy.sparse.kronsum(line, line), dtype=np.float32)


def right_side(count: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(count).astype(np.float32)


class Program:
    """A solver of a package, with its system."""

    def __init__(self, library: Any, name: str, given: Any, is_preconditioned: bool):
        linear, sparse = (importlib.import_module(f"{library.__name__}.{part}") for part in ("optim.linear", "sparse"))
        listed, count = given.tocoo(), given.shape[0]
        places = (library.array(i.astype(np.int32), dtype=int, device="cpu") for i in (listed.row, listed.col))
        values = library.array(listed.data, dtype=library.float32, device="cpu")
        matrix = sparse.bsr_from_triplets(count, count, *places, values)
        b = library.array(right_side(count), dtype=library.float32, device="cpu")
        self.x, self.residual = library.zeros_like(b), np.inf
        inverse = linear.preconditioner(matrix, "diag") if is_preconditioned else None
        how = {"tol": 0.0, "atol": 0.0, "maxiter": ITERATIONS, "check_every": ITERATIONS, "run": False}
        self.solver = getattr(linear, name)(matrix, b, self.x, M=inverse, **how)

    def run(self) -> None:
        self.x.zero_()
        count, self.residual, _ = self.solver()
        assert count == ITERATIONS


def jax_program(name: str, given: Any, is_preconditioned: bool) -> Callable[[], Any]:
    """A program of JAX that solves the system, and returns the solution and its residual."""
    import jax
    import jax.numpy as jnp

    linear, listed = importlib.import_module("jaxwarp.optim.linear"), given.tocoo()
    rows, columns = (jnp.asarray(i, jnp.int32) for i in (listed.row, listed.col))
    matrix = jaxwarp.sparse.bsr_from_triplets(*given.shape, rows, columns, jnp.asarray(listed.data))
    b = jnp.asarray(right_side(given.shape[0]))

    def solve(matrix: Any, b: Any) -> Any:
        inverse = linear.preconditioner(matrix, "diag") if is_preconditioned else None
        return getattr(linear, name)(matrix, b, jnp.zeros_like(b), tol=0.0, atol=0.0, maxiter=ITERATIONS, M=inverse)

    program = jax.jit(solve)
    return lambda: jax.block_until_ready(program(matrix, b))


def scipy_program(name: str, matrix: Any, is_preconditioned: bool) -> Callable[[], Any]:
    solve, b = getattr(scipy.sparse.linalg, name), right_side(matrix.shape[0])
    inverse = scipy.sparse.diags(1.0 / matrix.diagonal()) if is_preconditioned else None
    cycle = {"restart": ITERATIONS, "maxiter": 1} if name == "gmres" else {"maxiter": ITERATIONS}
    return lambda: solve(matrix, b, rtol=0.0, atol=0.0, M=inverse, **cycle)


def measured(name: str, side: int, is_preconditioned: bool, packages: dict[str, Any], rounds: int) -> dict[str, Any]:
    matrix = poisson(side)
    is_large = side * side >= LARGE
    if is_large and name != "cg":
        packages = {"jaxwarp": packages["jaxwarp"]}
    programs = {title: Program(library, name, matrix, is_preconditioned) for title, library in packages.items()}
    contenders = [measure.Contender(title, program.run, ITERATIONS) for title, program in programs.items()]
    in_jax = jax_program(name, matrix, is_preconditioned)
    contenders.append(measure.Contender("jaxwarp in JAX", in_jax, ITERATIONS))
    residual_in_jax = float(in_jax().residual)
    if name != "cr":
        contenders.append(measure.Contender("SciPy", scipy_program(name, matrix, is_preconditioned), ITERATIONS))
    times = measure.timed(contenders, min(rounds, 3) if is_large else rounds, time.process_time)
    found = measure.scale({title: measure.figure(seconds) for title, seconds in times.items()}, 1e6)
    residuals = [residual_in_jax, *(program.residual for program in programs.values())]
    rounded = 1e-5 * float(np.linalg.norm(right_side(matrix.shape[0])))  # what is left of a system that is solved
    np.testing.assert_allclose(residuals, residuals[0], rtol=0.01 if name != "bicgstab" else 0.5, atol=rounded)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join(SOLVERS), help="names of solvers, with commas between")
    parser.add_argument("--sides", default="32,316", help="unknowns along each side of the square")
    options = parser.parse_args()
    packages = measure.packages()
    results = {}
    for side in map(int, options.sides.split(",")):
        for name in options.only.split(","):
            for kind in ("none", "diag"):
                case = f"{name}, {side * side} unknowns, preconditioner {kind}"
                found = measured(name, side, kind == "diag", packages, options.rounds)
                measure.table(case, found)
                results[case] = {title: figure.median for title, figure in found.items()}
    if options.only == ",".join(SOLVERS):
        measure.write("linear_solvers", {"microseconds an iteration": results})


if __name__ == "__main__":
    main()
