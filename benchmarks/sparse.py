"""Sparse matrices beside NVIDIA Warp's and SciPy's, on one core: made of triplets, times vectors, times each other.

    python benchmarks/sparse.py [--rounds 7] [--only triplets,vector]

Laplacians of grids (5 and 7 blocks a row) and a random matrix (30 a row), of numbers and of blocks of 3 by 3. Results
are checked against SciPy's; contenders take turns in one process. Medians in milliseconds, and how many times as fast
as Warp ours is; writes results/sparse.json.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
if hasattr(os, "sched_setaffinity"):  # before XLA makes its threads
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])

import measure
import numpy as np
import scipy.sparse as scipy_sparse

import jaxwarp

RNG = np.random.default_rng(0)


def laplacian(n: int, axes: int) -> Any:
    """Of a grid of n points along each axis, with numbers that are not the same."""
    line = scipy_sparse.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(n, n))
    found = line
    for _ in range(axes - 1):
        found = scipy_sparse.kronsum(found, line)
    return found.tocoo()


MATRICES = {
    "grid, 5 a row": laplacian(200, 2),
    "grid, 7 a row": laplacian(30, 3),
    "random, 30 a row": scipy_sparse.random(5000, 5000, 30 / 5000, "coo", random_state=0),
}
BLOCKS = {"numbers": (), "3 x 3": (3, 3)}


class Program:
    """A matrix in a package, from triplets in no order, and a vector."""

    def __init__(self, library: Any, sparse: Any, triplets: tuple[np.ndarray, ...], count: int):
        rows, columns, values = triplets
        self.sparse, self.count = sparse, count
        block = library.mat33 if values.ndim == 3 else library.float32
        self.triplets = [library.array(x, dtype=int, device="cpu") for x in (rows, columns)]
        self.triplets.append(library.array(values, dtype=block, device="cpu"))
        self.matrix = self.made()
        self.matrix.nnz_sync()
        size = count * (values.shape[1] if values.ndim == 3 else 1)
        self.x = library.array(np.linspace(-1, 1, size, dtype=np.float32), dtype=library.float32, device="cpu")
        self.y = library.zeros(size, dtype=library.float32, device="cpu")

    def made(self) -> Any:
        return self.sparse.bsr_from_triplets(self.count, self.count, *self.triplets)

    def transposed(self) -> Any:
        return self.sparse.bsr_transposed(self.matrix)

    def vector(self) -> Any:
        return self.sparse.bsr_mv(self.matrix, self.x, self.y)

    def product(self) -> Any:
        return self.sparse.bsr_mm(self.matrix, self.matrix)

    def sum(self) -> Any:
        return self.sparse.bsr_axpy(self.matrix, self.sparse.bsr_copy(self.matrix), 2.0, 1.0)


class ByScipy:
    """The same in SciPy; blocks are made of triplets in no order by nobody there."""

    def __init__(self, triplets: tuple[np.ndarray, ...], count: int):
        rows, columns, values = triplets
        self.given = scipy_sparse.coo_matrix((np.arange(1, len(rows) + 1), (rows, columns)), shape=(count, count))
        order = self.given.tocsr()
        order.sort_indices()
        self.is_block, self.values = values.ndim == 3, values
        data = (values[order.data - 1], order.indices, order.indptr)
        if self.is_block:
            self.matrix = scipy_sparse.bsr_matrix(data, shape=(3 * count, 3 * count))
        else:
            self.matrix = scipy_sparse.csr_matrix(data, shape=(count, count))
        self.x = np.linspace(-1, 1, self.matrix.shape[0], dtype=np.float32)

    def made(self) -> Any:
        return scipy_sparse.coo_matrix((self.values, self.given.coords), shape=self.given.shape).tocsr()

    def transposed(self) -> Any:
        return self.matrix.T.tobsr() if self.is_block else self.matrix.T.tocsr()

    def vector(self) -> Any:
        return self.matrix @ self.x

    def product(self) -> Any:
        return self.matrix @ self.matrix

    def sum(self) -> Any:
        return 2.0 * self.matrix + self.matrix


WORK = {"triplets": "made", "vector": "vector", "product": "product", "sum": "sum", "transpose": "transposed"}


def contenders(name: str, block: tuple[int, ...]) -> dict[str, Any]:
    import warp
    import warp.sparse

    warp.config.quiet = True
    matrix = MATRICES[name]
    order = RNG.permutation(matrix.nnz)
    rows, columns = (x[order].astype(np.int32) for x in matrix.coords)
    shape = (matrix.nnz, *block)
    triplets = rows, columns, (matrix.data[order].reshape(-1, *[1] * len(block)) + RNG.random(shape)).astype(np.float32)
    count = matrix.shape[0]
    found = {
        "jaxwarp": Program(jaxwarp, jaxwarp.sparse, triplets, count),
        "Warp": Program(warp, warp.sparse, triplets, count),
        "SciPy": ByScipy(triplets, count),
    }
    check(found)
    return found


def check(found: dict[str, Any]) -> None:
    """Stops if results differ from SciPy's."""
    scipy = found["SciPy"]
    for work, expected in (("product", scipy.product()), ("transposed", scipy.transposed()), ("sum", scipy.sum())):
        right = expected @ scipy.x
        for name in ("jaxwarp", "Warp"):
            made = getattr(found[name], work)()
            found[name].sparse.bsr_mv(made, found[name].x, found[name].y)
            most = 1e-4 * np.abs(right).max()
            np.testing.assert_allclose(found[name].y.numpy(), right, rtol=0, atol=most, err_msg=work)


def repeated(run: Callable[[], Any], count: int) -> Callable[[], None]:
    def work() -> None:
        for _ in range(count):
            run()

    return work


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="parts of names, with commas between")
    options = parser.parse_args()
    results: dict[str, Any] = {}
    print(f"{'':44}{'ours, ms':>10}{'Warp, ms':>10}{'SciPy, ms':>10}{'times Warp':>12}")
    for name in MATRICES:
        for blocks, block in BLOCKS.items():
            programs = contenders(name, block)
            for work, method in WORK.items():
                title = f"{work}: {name}, {blocks}"
                if not any(part in title for part in options.only.split(",")):
                    continue
                count = 20 if work == "vector" else 1
                taking = [
                    measure.Contender(who, repeated(getattr(program, method), count), count)
                    for who, program in programs.items()
                    if not (who == "SciPy" and block and work == "triplets")
                ]
                figures = measure.interleave(taking, options.rounds)
                results[title] = {who: figure.times(1e3).__dict__ for who, figure in figures.items()}
                shown = [1e3 * figures[who].median if who in figures else float("nan") for who in programs]
                ratio = figures["Warp"].median / figures["jaxwarp"].median
                print(f"{title:44}" + "".join(f"{x:10.2f}" for x in shown) + f"{ratio:12.2f}", flush=True)
    if not options.only:
        measure.write("sparse", results)


if __name__ == "__main__":
    main()
