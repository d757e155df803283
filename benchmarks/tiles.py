"""Kernels on tiles beside the same kernels of NVIDIA Warp, on one core: launches, and their adjoints on a tape.

    python benchmarks/tiles.py [--rounds 7] [--only product,sort]

Products of matrices by tiles of 8 to 64, square and not, of all floating types, a normalised exponential of rows,
Cholesky factors and systems, Fourier transforms and sorting of rows. Results and gradients are checked against each
other; contenders take turns in one process. Warp's blocks on the CPU are one thread, too. Medians and quartiles in
milliseconds; writes results/tiles.json.
"""

from __future__ import annotations

import argparse
import linecache
import os
from collections.abc import Callable, Sequence
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
if hasattr(os, "sched_setaffinity"):  # before XLA makes its threads
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])

import measure
import numpy as np

SOURCE = """
@library.kernel
def product(a: library.array(dtype=FACTOR, ndim=2), b: library.array(dtype=FACTOR, ndim=2),
            c: library.array(dtype=TOTAL, ndim=2)):
    i, j = library.tid()
    total = library.tile_zeros(shape=(M, N), dtype=TOTAL)
    for k in range(a.shape[1] // K):
        left = library.tile_load(a, shape=(M, K), offset=(i * M, k * K))
        right = library.tile_load(b, shape=(K, N), offset=(k * K, j * N))
        library.tile_matmul(left, right, total)
    library.tile_store(c, total, offset=(i * M, j * N))

@library.kernel
def softmax(a: library.array(dtype=float, ndim=2), out: library.array(dtype=float, ndim=2)):
    i = library.tid()
    powers = library.tile_map(library.exp, library.tile_load(a, shape=(1, N), offset=(i, 0)))
    total = library.tile_sum(powers)
    library.tile_store(out, powers * (1.0 / total[0]), offset=(i, 0))

@library.kernel
def systems(a: library.array(dtype=float, ndim=3), b: library.array(dtype=float, ndim=2),
            x: library.array(dtype=float, ndim=2)):
    i = library.tid()
    factor = library.tile_cholesky(library.tile_load(a[i], shape=(T, T)))
    library.tile_store(x[i], library.tile_cholesky_solve(factor, library.tile_load(b[i], shape=T)))

@library.kernel
def transforms(a: library.array(dtype=library.vec2, ndim=2), out: library.array(dtype=library.vec2, ndim=2)):
    i = library.tid()
    row = library.tile_load(a, shape=(1, N), offset=(i, 0))
    library.tile_fft(row)
    library.tile_store(out, row, offset=(i, 0))

@library.kernel
def sort(keys: library.array(dtype=float, ndim=2), values: library.array(dtype=int, ndim=2),
         order: library.array(dtype=int, ndim=2)):
    i = library.tid()
    k, v = library.tile_load(keys[i], shape=N), library.tile_load(values[i], shape=N)
    library.tile_sort(k, v)
    library.tile_store(order[i], v)
"""
RNG = np.random.default_rng(0)
ROWS, LENGTH, SIZE = 1024, 256, 512


def random(*shape: int) -> np.ndarray:
    return RNG.random(shape, np.float32)


def definite(count: int, n: int) -> np.ndarray:
    a = random(count, n, n)
    return a @ a.transpose(0, 2, 1) + n * np.eye(n, dtype=np.float32)


def product(m: int, n: int, k: int, factor: str = "float32", total: str = "", back: bool = False) -> tuple[Any, ...]:
    """A product of matrices by tiles of (m, k) and (k, n), of about `SIZE` rows and columns."""
    rows, columns, inner = (round(SIZE / t) * t for t in (m, n, k))
    sizes = {"M": m, "N": n, "K": k, "FACTOR": factor, "TOTAL": total or factor}
    inputs = [random(*shape).astype(factor) for shape in ((rows, inner), (inner, columns))]
    return "product", sizes, (rows // m, columns // n), inputs, ((rows, columns), total or factor), back


# Those from 48 on were not chosen by anybody: squares, ragged ones, flat ones, of each type.
PRODUCTS = {f"product, tiles of {t}": product(t, t, t, back=t in (16, 32)) for t in (8, 16, 32, 48, 64)} | {
    f"product, tiles of {m} x {n} x {k}, {factor} to {total}": product(m, n, k, factor, total)
    for m, n, k, factor, total in (
        (64, 64, 16, "float32", "float32"),
        (24, 40, 12, "float32", "float32"),
        (17, 33, 9, "float32", "float32"),
        (16, 16, 16, "float64", "float64"),
        (64, 64, 64, "float64", "float64"),
        (16, 16, 16, "float16", "float32"),
        (64, 64, 64, "float16", "float32"),
        (64, 64, 64, "float16", "float16"),
    )
}

# Name -> kernel, constants, blocks, inputs, shape and type of the output, whether it has a gradient in Warp.
CASES: dict[str, tuple[str, dict[str, Any], Any, Sequence[np.ndarray], Any, bool]] = PRODUCTS | {
    "softmax of rows of 256": ("softmax", {"T": 1, "N": LENGTH}, ROWS, (random(ROWS, LENGTH),),
                               ((ROWS, LENGTH), "float"), True),
    "systems of 16": ("systems", {"T": 16, "N": 1}, ROWS, (definite(ROWS, 16), random(ROWS, 16)),
                      ((ROWS, 16), "float"), False),
    "transforms of 256": ("transforms", {"T": 1, "N": LENGTH}, ROWS, (random(ROWS, LENGTH, 2),),
                          ((ROWS, LENGTH), "vec2"), True),
    "sort of 256": ("sort", {"T": 1, "N": LENGTH}, ROWS,
                    (RNG.permuted(np.tile(np.arange(LENGTH, dtype=np.float32), (ROWS, 1)), axis=1),
                     np.tile(np.arange(LENGTH, dtype=np.int32), (ROWS, 1))),
                    ((ROWS, LENGTH), "int"), False),
}  # fmt: skip


class Program:
    """A case in a package: its kernel and arrays."""

    def __init__(self, library: Any, case: str):
        name, sizes, self.blocks, inputs, (shape, dtype), self.has_gradient = CASES[case]
        self.library, self.kernel = library, kernels_of(library, sizes)[name]
        types = {"float": float, "int": int, "vec2": library.vec2, "float16": library.float16}
        types |= {"float32": library.float32, "float64": library.float64}
        held = [library.vec2 if a.shape[-1] == 2 else None for a in inputs]
        make = {"requires_grad": self.has_gradient, "device": "cpu"}
        self.inputs = [
            library.array(a, **({"dtype": t} if t else {}), **make) for a, t in zip(inputs, held, strict=True)
        ]
        self.output = library.zeros(shape, dtype=types[dtype], **make)

    def launch(self) -> None:
        self.library.launch_tiled(
            self.kernel, dim=self.blocks, inputs=self.inputs, outputs=[self.output], block_dim=64, device="cpu"
        )

    def recorded(self) -> Callable[[], None]:
        """What goes back through a launch."""
        with self.library.Tape() as tape:
            self.launch()

        def backward() -> None:
            self.output.grad.fill_(1.0)
            for array in self.inputs:
                array.grad.zero_()
            tape.backward()

        return backward


def kernels_of(library: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The kernels with these constants, of which strings are names of types; those not given are 1 and float32."""
    sizes = dict.fromkeys("TMNK", 1) | {"FACTOR": "float32", "TOTAL": "float32"} | given
    name = f"<tiles of {library.__name__} {sizes}>"
    linecache.cache[name] = (len(SOURCE), None, SOURCE.splitlines(keepends=True), name)
    constants = {k: getattr(library, v) if isinstance(v, str) else v for k, v in sizes.items()}
    module = "_".join(["tiles", *map(str, sizes.values())])
    scope: dict[str, Any] = {"library": library, "__name__": module, **constants}
    exec(compile(SOURCE, name, "exec"), scope)
    return scope


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="parts of the names of cases, with commas between")
    options = parser.parse_args()
    packages = measure.packages()
    results = {}
    for case in CASES:
        if options.only and not any(part in case for part in options.only.split(",")):
            continue
        programs = {name: Program(package, case) for name, package in packages.items()}
        contenders = [measure.Contender(name, p.launch, 1) for name, p in programs.items()]
        found = measure.scale(measure.interleave(contenders, options.rounds), 1e3)
        require_equal(case, [p.output.numpy() for p in programs.values()])
        results[case] = show(case, found)
        if programs["jaxwarp"].has_gradient:
            contenders = [measure.Contender(name, p.recorded(), 1) for name, p in programs.items()]
            found = measure.scale(measure.interleave(contenders, options.rounds), 1e3)
            for k in range(len(programs["jaxwarp"].inputs)):
                require_equal(case, [p.inputs[k].grad.numpy() for p in programs.values()])
            results[f"{case}, back"] = show(f"{case}, back", found)
    if not options.only:
        measure.write("tiles", {"cases": results})


def show(case: str, found: dict[str, measure.Figure]) -> dict[str, float]:
    measure.table(case, found)
    if "Warp" in found:
        print(f"  Warp's time over ours: {found['Warp'].median / found['jaxwarp'].median:.2f}")
    return {name: f.median for name, f in found.items()}


def require_equal(case: str, found: list[np.ndarray]) -> None:
    tolerance = 1e-2 if found[0].dtype == np.float16 else 2e-3  # a few units in the last place of sums
    for other in found[1:]:
        np.testing.assert_allclose(found[0], other, rtol=tolerance, atol=tolerance, err_msg=case)


if __name__ == "__main__":
    main()
