"""Launches of 1,000 to 10 million threads: what starting them costs, and whether both ends use the cores well.

    python benchmarks/sizes.py [--rounds 11] [--only scale,attract] [--sizes 1000,10000] [--threads 1,2]

Three bodies: next to nothing (scale), elementary functions, and a loop over 256 points (attract), which is work for all
cores from a few threads on. Beside C++ with OpenMP, Numba (with fastmath; both also on one thread, which is what a
careful programmer would choose for small arrays), and plain jax.numpy, on the same arrays, interleaved, in a process
for each number of threads bound to so many CPUs. Every contender runs many times within one call from Python, ours and
jax.numpy in a fori_loop in jax.jit, with another factor in each iteration so that nothing is moved out of the loop.
Figures are microseconds of wall time (CPU time at one thread) and the median ratio to the fastest of the C++ and Numba.
Writes results/sizes.json.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cpu

SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
POINTS = 256
MOST_OF_A_LOOP = 100_000  # threads of `attract`, each of which does as much as hundreds of `scale`
LEAST_SECONDS = 3e-3  # of one measurement
OURS, PLAIN = "jaxwarp", "jax.numpy"

Run = Callable[[int], Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--only", default="", help="names of kernels, with commas between")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of threads of the launches")
    parser.add_argument("--threads", default="", help="of the machine, with commas between (default: 1 and all)")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        folder, threads = options.child.split(",")
        found = measure_all(cpu.load_reference(folder)["float32"], int(threads), options)
        (Path(folder) / "result.json").write_text(json.dumps(found))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        problem = cpu.compile_reference(Path(folder))
        if problem:
            print(f"bench: {problem}")
            return 1
        cpus = sorted(os.sched_getaffinity(0))
        counts = [int(n) for n in options.threads.split(",")] if options.threads else sorted({1, len(cpus)})
        results = {}
        for count in counts:
            arguments = ["--rounds", str(options.rounds), "--only", options.only, "--sizes", options.sizes]
            results[str(count)] = found = cpu.run_child(Path(folder), cpus[:count], [__file__, *arguments])
            report(found, count)
    import measure

    measure.write("sizes", {"threads": results})
    return 0


def measure_all(code: Any, threads: int, options: Any) -> dict[str, dict[str, Any]]:
    """In the child: name of kernel -> launch size -> contender -> seconds and ratio."""
    wanted = set(filter(None, options.only.split(",")))
    clock = time.process_time if threads == 1 else time.perf_counter
    found: dict[str, dict[str, Any]] = {}
    for name in ("scale", "elementary", "attract"):
        for size in map(int, options.sizes.split(",")):
            if (not wanted or name in wanted) and (name != "attract" or size <= MOST_OF_A_LOOP):
                runs = contenders(name, size, code, threads)
                found.setdefault(name, {})[str(size)] = compare(runs, options.rounds, clock)
        print(f"bench: {name} done", file=sys.stderr, flush=True)
    return found


def contenders(name: str, size: int, code: Any, threads: int) -> dict[str, Run]:
    """Functions that run a kernel so many times; checked against jax.numpy for one time."""
    import jax.numpy as jnp
    import numpy as np

    random = np.random.default_rng(size)
    second = POINTS if name == "attract" else size
    inputs = [jnp.array(random.uniform(0.1, 1.0, n).astype(np.float32)) for n in (size, second)]
    memory = Buffers(inputs, jnp.zeros(size, jnp.float32))
    runs = {OURS: memory.jitted(launch(name, size)), PLAIN: memory.jitted(plain(name))}
    for count in sorted({1, threads}):
        runs[f"C++ on {count}"] = compiled(code, name, memory, count)
        try:
            runs[f"Numba on {count}"] = numba_run(name, memory, count)
        except ImportError:
            print("bench: Numba is not installed: left out", file=sys.stderr)
    runs[PLAIN](1)
    expected = np.array(memory.out)
    for contender, run in runs.items():
        memory.out[:] = np.nan
        run(1)
        np.testing.assert_allclose(
            memory.out, expected, rtol=3e-4, atol=1e-3, err_msg=f"{contender} is wrong: {name}, {size}"
        )
    return runs


class Buffers:
    """Inputs and the result in memory of JAX's, the same for all contenders."""

    def __init__(self, inputs: list[Any], result: Any):
        import numpy as np

        self.inputs, self.result = inputs, result.block_until_ready()
        self.address = result.unsafe_buffer_pointer()
        self.arrays = [np.asarray(a) for a in inputs]
        self.out = np.ctypeslib.as_array((ctypes.c_float * result.size).from_address(self.address))

    def jitted(self, call: Callable[..., Any]) -> Run:
        import jax
        import jax.numpy as jnp

        def loop(times: Any, out: Any, *arrays: Any) -> Any:
            def iteration(k: Any, _: Any) -> Any:
                return call(jnp.float32(1) + jnp.float32(1e-9) * k.astype(jnp.float32), *arrays)

            return jax.lax.fori_loop(0, times, iteration, out)

        jit = jax.jit(loop, donate_argnums=1, keep_unused=True)
        program = jit.lower(jnp.int32(1), self.result, *self.inputs).compile()

        def run(times: int) -> None:
            self.result = program(jnp.int32(times), self.result, *self.inputs).block_until_ready()
            if self.result.unsafe_buffer_pointer() != self.address:
                raise SystemExit("bench: JAX did not use the donated buffer")

        return run


def launch(name: str, size: int) -> Callable[..., Any]:
    import cpu_kernels

    import jaxwarp as wp

    call = wp.jax_kernel(cpu_kernels.SIZED[name](wp.float32), launch_dims=size, output_dims=size)
    return lambda *a: call(*a)[0]


def plain(name: str) -> Callable[..., Any]:
    import jax.numpy as jnp

    def attract(a: Any, x: Any, points: Any) -> Any:
        d = points[None, :] - x[:, None]
        r2 = d * d + a
        return (d / (r2 * jnp.sqrt(r2))).sum(1)

    return {
        "scale": lambda a, x, y: a * x + y,
        "elementary": lambda a, x, y: jnp.sin(a * x) * jnp.exp(-y) + x**y + jnp.sqrt(x),
        "attract": attract,
    }[name]


def compiled(code: Any, name: str, memory: Buffers, threads: int) -> Run:
    function, pointers = getattr(code, f"{name}_times"), [ctypes.c_void_p(a.ctypes.data) for a in memory.arrays]
    n, m, one = ctypes.c_int64(memory.out.size), ctypes.c_int64(memory.arrays[1].size), ctypes.c_float(1)
    out = ctypes.c_void_p(memory.address)
    return lambda times: function(ctypes.c_int64(times), ctypes.c_int(threads), n, m, one, *pointers, out)


def numba_run(name: str, memory: Buffers, threads: int) -> Run:
    import cpu_peers
    import numpy as np

    function = cpu_peers.numba_times(name, parallel=threads > 1)
    return lambda times: function(times, np.float32(1), *memory.arrays, memory.out)


def compare(runs: dict[str, Run], rounds: int, clock: Callable[[], float]) -> dict[str, Any]:
    import numpy as np

    times, seconds = {}, {name: [] for name in runs}
    for name, run in runs.items():
        times[name] = 1
        while True:
            began = time.perf_counter()
            run(times[name])
            taken = time.perf_counter() - began
            if taken > LEAST_SECONDS:
                break
            times[name] = math.ceil(times[name] * min(10, 1.5 * LEAST_SECONDS / taken))
    for _ in range(rounds):
        for name, run in runs.items():
            began = clock()
            run(times[name])
            seconds[name].append((clock() - began) / times[name])
    rivals = np.array([s for name, s in seconds.items() if name not in (OURS, PLAIN)])
    best = rivals[np.argmin(np.median(rivals, axis=1))]
    return {
        name: {"seconds": float(np.median(s)), "ratio": float(np.median(np.array(s) / best))}
        for name, s in seconds.items()
    }


def report(found: dict[str, dict[str, Any]], threads: int) -> None:
    print(f"\n{threads} thread{'s' if threads > 1 else ''}: microseconds, and times the best of the C++ and Numba")
    for name, sizes in found.items():
        names = list(next(iter(sizes.values())))
        print(f"{name:18}" + "".join(f"{n:>16}" for n in names))
        for size, row in sizes.items():
            cells = (f"{1e6 * row[n]['seconds']:10.4g} {row[n]['ratio']:5.2f}" for n in names)
            print(f"{int(size):18,}" + "".join(cells), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
