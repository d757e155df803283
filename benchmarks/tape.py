"""What a launch costs on a tape: to record it, to go back through it, and without one to run its adjoint
(`launch(adjoint=True)`), beside NVIDIA Warp where it is installed.

    python benchmarks/tape.py [--rounds 7]

Chains of launches on 16 floats, all on the CPU, in one process and in turn. Gradients are checked before they are
timed. Medians and quartiles; writes results/tape.json.
"""

from __future__ import annotations

import argparse
import itertools
import linecache
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import measure
import numpy as np

import jaxwarp as wp

N = 16
COUNTS = (100, 400, 1600)
SOURCE = """
@library.kernel
def bend(x: library.array(dtype=float), y: library.array(dtype=float)):
    i = library.tid()
    y[i] = 0.5 * library.sin(x[i]) + 0.5 * x[i]
"""


class Times(NamedTuple):
    """Seconds of the thread per launch, which other programs on the machine disturb least."""

    record: float
    backward: float
    adjoint: float


def kernel_of(library: Any) -> Any:
    name = f"<bend of {library.__name__}>"
    linecache.cache[name] = (len(SOURCE), None, SOURCE.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"library": library}
    exec(compile(SOURCE, name, "exec"), scope)
    return scope["bend"]


def chain(library: Any, count: int) -> Callable[[], Times]:
    """Records `count` launches, each on what the one before made, goes back, and does the same by their adjoints."""
    kernel, start = kernel_of(library), np.linspace(-1, 1, N).astype(np.float32)
    arrays = [library.array(start, dtype=float, requires_grad=True, device="cpu")]
    arrays += [library.zeros(N, dtype=float, requires_grad=True, device="cpu") for _ in range(count)]
    expected = slopes(start, count)

    def prepare() -> None:
        for array in arrays:
            array.grad.zero_()
        arrays[-1].grad.fill_(1.0)

    def check() -> None:
        np.testing.assert_allclose(arrays[0].grad.numpy(), expected, rtol=1e-3, atol=1e-12)

    def run() -> Times:
        prepare()
        began = time.thread_time()
        with library.Tape() as tape:
            for x, y in itertools.pairwise(arrays):
                library.launch(kernel, N, inputs=[x], outputs=[y], device="cpu")
        recorded = time.thread_time()
        tape.backward()
        ended = time.thread_time()
        check()
        prepare()
        backwards = [(y, x, y.grad, x.grad) for y, x in itertools.pairwise(arrays[::-1])]
        last = time.thread_time()
        for y, x, adj_y, adj_x in backwards:
            library.launch(
                kernel, N, inputs=[x], outputs=[y], adj_inputs=[adj_x], adj_outputs=[adj_y], device="cpu", adjoint=True
            )
        adjoint = time.thread_time() - last
        check()
        return Times((recorded - began) / count, (ended - recorded) / count, adjoint / count)

    run()
    return run


def slopes(x: np.ndarray, count: int) -> np.ndarray:
    found, value = np.ones(N), x.astype(np.float64)
    for _ in range(count):
        found, value = found * (0.5 * np.cos(value) + 0.5), 0.5 * np.sin(value) + 0.5 * value
    return found


def libraries() -> dict[str, Any]:
    try:
        import warp
    except ImportError:
        print("NVIDIA Warp is not installed (pip install warp-lang): left out")
        return {"jaxwarp": wp}
    warp.config.quiet = True
    warp.init()
    return {"jaxwarp": wp, "Warp": warp}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    results = {}
    for count in COUNTS:
        runs = {name: chain(library, count) for name, library in libraries().items()}
        times: dict[str, list[Times]] = {name: [] for name in runs}
        for _ in range(rounds):
            for name, run in runs.items():
                times[name].append(run())
        found = {
            f"{name}, {part}": measure.figure([1e6 * getattr(t, part) for t in taken])
            for part in Times._fields
            for name, taken in times.items()
        }
        measure.table(f"{count} launches on {N} floats, microseconds per launch", found)
        results[count] = found
    measure.write("tape", {"floats": N, "launch_us": results})


if __name__ == "__main__":
    main()
