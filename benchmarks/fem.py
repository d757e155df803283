"""Matrices of finite elements beside NVIDIA Warp's, on one core.

    python benchmarks/fem.py [--rounds 7] [--only diffusion,cubes]

The matrix of Warp's `example_diffusion`: quadratic elements on 50 by 50 squares. The same with vectors, and with
vectors on 8 by 8 by 8 cubes. The numbers of both matrices are compared. Contenders take turns in one process; times are
the process's own. Medians in milliseconds; writes results/fem.json. It takes a minute at first, while both compile.
"""

from __future__ import annotations

import argparse
import importlib
import linecache
import os
import time
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
if hasattr(os, "sched_setaffinity"):  # before XLA makes its threads
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])

import measure
import numpy as np

SOURCE = """
@fem.integrand
def diffusion(s: fem.Sample, u: fem.Field, v: fem.Field):
    return 2.0 * library.dot(fem.grad(u, s), fem.grad(v, s))


@fem.integrand
def vectors(s: fem.Sample, u: fem.Field, v: fem.Field):
    return 2.0 * library.ddot(fem.grad(u, s), fem.grad(v, s))
"""
# Name -> axes and cells along each, whether the field has vectors, the integrand.
CASES = {
    "diffusion, 50 x 50 squares": (2, 50, False, "diffusion"),
    "vectors, 50 x 50 squares": (2, 50, True, "vectors"),
    "vectors, 8 x 8 x 8 cubes": (3, 8, True, "vectors"),
}


def integrands_of(library: Any) -> dict[str, Any]:
    name = f"<fem of {library.__name__}>"
    linecache.cache[name] = (len(SOURCE), None, SOURCE.splitlines(keepends=True), name)
    fem = importlib.import_module(f"{library.__name__}.fem")
    scope: dict[str, Any] = {"library": library, "fem": fem, "__name__": f"fem_of_{library.__name__}"}
    exec(compile(SOURCE, name, "exec"), scope)
    return scope


class Program:
    """A case in a package: its domain, functions and matrix."""

    def __init__(self, library: Any, case: str):
        axes, cells, has_vectors, name = CASES[case]
        self.fem = importlib.import_module(f"{library.__name__}.fem")
        make, place = (self.fem.Grid2D, library.vec2i) if axes == 2 else (self.fem.Grid3D, library.vec3i)
        dtype = {2: library.vec2, 3: library.vec3}[axes] if has_vectors else float
        space = self.fem.make_polynomial_space(make(res=place(cells)), degree=2, dtype=dtype)
        domain = self.fem.Cells(geometry=space.geometry)
        self.fields = {"u": self.fem.make_trial(space=space, domain=domain)}
        self.fields["v"] = self.fem.make_test(space=space, domain=domain)
        self.integrand, self.library = integrands_of(library)[name], library
        self.matrix: Any = None

    def run(self) -> None:
        self.matrix = self.fem.integrate(self.integrand, fields=self.fields)

    def numbers(self) -> np.ndarray:
        """All numbers of the matrix in ascending order, because nodes have other places in Warp; zeros left out."""
        values = np.sort(self.matrix.values.numpy()[: self.matrix.nnz_sync()].ravel())
        return values[np.abs(values) > 1e-4 * np.abs(values).max()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="parts of the names of cases, with commas between")
    options = parser.parse_args()
    packages = measure.packages()
    results = {}
    for case in CASES:
        if not any(part in case for part in options.only.split(",")):
            continue
        programs = {name: Program(package, case) for name, package in packages.items()}
        contenders = [measure.Contender(name, p.run, 1) for name, p in programs.items()]
        found = measure.timed(contenders, options.rounds, time.process_time)
        found = measure.scale({name: measure.figure(seconds) for name, seconds in found.items()}, 1e3)
        first, *others = (p.numbers() for p in programs.values())
        for other in others:
            np.testing.assert_allclose(first, other, rtol=1e-3, atol=1e-3 * np.abs(first).max(), err_msg=case)
        measure.table(case, found)
        results[case] = {name: figure.median for name, figure in found.items()}
    if not options.only:
        measure.write("fem", {"milliseconds": results})


if __name__ == "__main__":
    main()
