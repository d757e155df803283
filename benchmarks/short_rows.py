"""Launches over (n, 1) to (n, 16) threads: what a short last axis costs beside one of 16, jitted, eager and in Warp.

    python benchmarks/short_rows.py [--rounds 15]

Four bodies: elements in and out, elements in place, a value made of the index, and weights that are read by the index
(`w[j] * x[i, j] + s[i]`), which keep rows apart. The number of threads is always the same. All contenders of one body
run in turn, in one process on one core, as Warp's code does, and give what NumPy gives. Times are CPU times. Prints the
median of each, and the medians over rounds of ratios to extent 16 and to Warp, if it is installed. The last rows are a
kernel of tiles by `launch` and by `launch_tiled`, and sums along the rows of a matrix, a row a thread, by few threads.
Writes results/short_rows.json.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import measure
import numpy as np

import jaxwarp as wp

THREADS = 480_000
EXTENTS = (1, 2, 3, 4, 6, 8, 12, 16)
FEW = (1, 2, 3, 5, 8, 64)


def kernels(wp: Any) -> dict[str, Any]:
    """The bodies, for jaxwarp or Warp."""

    @wp.kernel
    def copied(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float)):
        i, j = wp.tid()
        y[i, j] = x[i, j] * 2.0 + 1.0

    @wp.kernel
    def in_place(y: wp.array2d(dtype=float)):
        i, j = wp.tid()
        y[i, j] = y[i, j] * 0.5 + 1.0

    @wp.kernel
    def index(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float)):
        i, j = wp.tid()
        y[i, j] = x[i, j] * float(j) + 1.0

    @wp.kernel
    def weights(
        x: wp.array2d(dtype=float), w: wp.array(dtype=float), s: wp.array(dtype=float), y: wp.array2d(dtype=float)
    ):
        i, j = wp.tid()
        y[i, j] = x[i, j] * w[j] + s[i]

    @wp.kernel
    def running(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float)):
        i = wp.tid()
        s = float(0.0)  # noqa: UP018  Warp sums up in variables, not in constants
        for k in range(x.shape[1]):
            s += x[i, k]
            y[i, k] = s

    return {"copied": copied, "in_place": in_place, "index": index, "weights": weights, "running": running}


@wp.kernel
def factors(a: wp.array3d[float], l: wp.array3d[float]):  # noqa: E741
    i = wp.tid()
    wp.tile_store(l[i], wp.tile_cholesky(wp.tile_load(a[i], shape=(8, 8))))


def operands(name: str, columns: int) -> list[np.ndarray]:
    rng, rows = np.random.default_rng(0), THREADS // columns
    x = rng.random((rows, columns), np.float32)
    more = [rng.random(columns, np.float32), rng.random(rows, np.float32)]
    return [] if name == "in_place" else [x, *more] if name == "weights" else [x]


def expected(name: str, columns: int, arrays: list[np.ndarray]) -> np.ndarray:
    match name:
        case "copied":
            return arrays[0] * 2 + 1
        case "in_place":
            return np.ones((THREADS // columns, columns), np.float32)
        case "index":
            return arrays[0] * np.arange(columns, dtype=np.float32) + 1
    return arrays[0] * arrays[1] + arrays[2][:, None]


def contenders(name: str, columns: int, peer: Any) -> list[measure.Contender]:
    """An eager launch, a jitted call and Warp's launch; each is right."""
    arrays, shape = operands(name, columns), (THREADS // columns, columns)
    want = expected(name, columns, arrays)
    runs: dict[str, Callable[[], Any]] = {}
    for which, package in (("eager", wp), ("Warp", peer)):
        if package is None:
            continue
        kernel, inputs = kernels(package)[name], [package.array(a, dtype=float) for a in arrays]
        out = package.zeros(shape, dtype=float)
        run = lambda p=package, k=kernel, i=inputs, o=out: p.launch(k, dim=shape, inputs=i, outputs=[o])  # noqa: E731
        run()
        np.testing.assert_allclose(out.numpy(), want, rtol=1e-6)
        runs[which] = run
    call = wp.jax_kernel(kernels(wp)[name], in_out_argnames=["y"] if name == "in_place" else None)
    jitted, held = jax.jit(lambda *a: call(*a)[0], donate_argnums=0 if name == "in_place" else ()), [jnp.zeros(shape)]
    given = [jnp.asarray(a) for a in arrays]

    def run_jitted() -> None:
        held[0] = jitted(*(held if name == "in_place" else given)).block_until_ready()

    run_jitted()
    np.testing.assert_allclose(held[0], want, rtol=1e-6)
    runs["jitted"] = run_jitted
    return [measure.Contender(f"{which} {columns}", run, 1) for which, run in runs.items()]


def tiles() -> list[measure.Contender]:
    x = np.random.default_rng(0).random((20_000, 8, 8), np.float32)
    a, l = wp.array(x @ x.transpose(0, 2, 1) + 8 * np.eye(8, dtype=np.float32)), wp.zeros((20_000, 8, 8))  # noqa: E741
    ways = {
        "launch": lambda: wp.launch(factors, dim=20_000, inputs=[a], outputs=[l]),
        "launch_tiled": lambda: wp.launch_tiled(factors, dim=20_000, inputs=[a], outputs=[l], block_dim=32),
    }
    for run in ways.values():
        l.zero_()
        run()
        np.testing.assert_allclose(l.numpy() @ l.numpy().transpose(0, 2, 1), a.numpy(), rtol=1e-4, atol=1e-4)
    return [measure.Contender(name, run, 1) for name, run in ways.items()]


def few(peer: Any, rounds: int) -> dict[str, dict[str, float]]:
    """Prints and returns what sums along rows take by few threads: microseconds, and the ratio to Warp's."""
    x, timed = np.random.default_rng(0).integers(0, 2, THREADS).astype(np.float32), []
    for threads in FEW:
        rows = x.reshape(threads, -1)
        for package in filter(None, (wp, peer)):
            kernel, given, sums = kernels(package)["running"], package.array(rows), package.zeros(rows.shape)
            run = lambda p=package, k=kernel, g=given, s=sums: p.launch(k, len(g), [g], [s])  # noqa: E731
            run()
            np.testing.assert_array_equal(sums.numpy(), np.cumsum(rows, axis=1))
            timed.append(measure.Contender(f"{'eager' if package is wp else 'Warp'} {threads}", run, 1))
    times, found = measure.timed(timed, rounds, time.process_time), {}
    print("\nsums along rows, one a thread: microseconds [of Warp's time]")
    for threads in FEW:
        ours, theirs = times[f"eager {threads}"], times.get(f"Warp {threads}")
        found[str(threads)] = {"microseconds": 1e6 * float(np.median(ours))}
        if theirs is not None:
            found[str(threads)]["of_warp"] = _median_ratio(ours, theirs)
        print(f"  {threads:3}  {'  '.join(f'{value:.2f}' for value in found[str(threads)].values())}")
    return found


def ratios(name: str, times: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    """Prints a line for each extent, and returns its figures: microseconds, ratios to extent 16 and to Warp."""
    print(f"\n{name}: microseconds (times extent {EXTENTS[-1]}) [of Warp's time]")
    found: dict[str, dict[str, float]] = {}
    for columns in EXTENTS:
        cells = []
        for which in ("eager", "jitted", "Warp"):
            if (key := f"{which} {columns}") not in times:
                continue
            last, peer = (times.get(other) for other in (f"{which} {EXTENTS[-1]}", f"Warp {columns}"))
            figures = {"microseconds": 1e6 * float(np.median(times[key])), "of_last": _median_ratio(times[key], last)}
            cells.append(f"{which} {figures['microseconds']:7.0f} ({figures['of_last']:5.2f})")
            if which != "Warp" and peer is not None:
                figures["of_warp"] = _median_ratio(times[key], peer)
                cells[-1] += f" [{figures['of_warp']:.2f}]"
            found[key] = figures
        print(f"  {columns:3}  {'   '.join(cells)}")
    return found


def _median_ratio(times: list[float], others: list[float]) -> float:
    """Return the median of the ratios of each round."""
    return float(np.median(np.divide(times, others)))


def main() -> None:
    os.environ["PJRT_NPROC"] = "1"  # threads of XLA, which begins later
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    try:
        import warp as peer

        peer.config.quiet = True
    except ImportError:
        print("bench: Warp is not installed: left out")
        peer = None
    results = {}
    for name in list(kernels(wp))[:-1]:
        timed = [c for columns in EXTENTS for c in contenders(name, columns, peer)]
        results[name] = ratios(name, measure.timed(timed, rounds, time.process_time))
    seconds = measure.timed(tiles(), rounds, time.process_time)
    of_tiles = measure.scale({way: measure.figure(values) for way, values in seconds.items()}, 1e6)
    measure.table("Cholesky of tiles, microseconds", of_tiles)
    of_few = few(peer, rounds)
    found = {"threads": THREADS, "last": EXTENTS[-1], "rows": results, "tiles": of_tiles, "few": of_few}
    measure.write("short_rows", found)


if __name__ == "__main__":
    main()
