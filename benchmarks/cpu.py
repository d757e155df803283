"""CPU code against C++ with OpenMP SIMD written by hand, Numba, NVIDIA Warp and plain jax.numpy.

    python benchmarks/cpu.py [--rounds 11] [--only saxpy,lbm] [--threads 1,2] [--plot docs/images/cpu.png]

Each case is checked, then all contenders take turns on the same data at the same number of threads: a process for each
number, bound to so many CPUs. A ratio is that of one round, in CPU time at one thread and wall time at several; the
median and the quartiles are printed. All read the same memory and write the same memory; ours and jax.numpy run inside
jax.jit with a donated buffer for the result, as in a loop of a program. Needs g++ (or the compiler that CXX names).
Numba and Warp are left out where they are not installed (pip install numba warp-lang). Writes results/cpu.json, where
cases that were not asked for keep their figures if they are from the same machine; --plot draws that file with
Matplotlib, and nothing is measured with --rounds 0.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FLAGS_ANYWHERE = ("-O3", "-march=native", "-fno-math-errno", "-fopenmp", "-shared", "-fPIC")
FLAGS = (*FLAGS_ANYWHERE, "-mprefer-vector-width=512")
TYPES = {"float": "float32", "double": "float64"}  # of C++ and NumPy
REFERENCE = "C++ OpenMP"
LEAST_SECONDS = 4e-3  # of one measurement


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--only", default="", help="names of cases, with commas between")
    parser.add_argument("--threads", default="", help="numbers of threads, with commas between (default: 1 and all)")
    parser.add_argument("--plot", default="", metavar="FILE", help="draw the results, for example docs/images/cpu.png")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        folder, threads = options.child.split(",")
        (Path(folder) / "result.json").write_text(
            json.dumps(measure_all(load_reference(folder), int(threads), options))
        )
        return 0
    if options.rounds:
        with tempfile.TemporaryDirectory() as folder:
            problem = compile_reference(Path(folder))
            if problem:
                print(f"bench: {problem}")
                return 1
            cpus = sorted(os.sched_getaffinity(0))
            counts = [int(n) for n in options.threads.split(",")] if options.threads else sorted({1, len(cpus)})
            arguments = [__file__, "--rounds", str(options.rounds), "--only", options.only]
            results = {}
            for count in counts:
                results[str(count)] = found = run_child(Path(folder), cpus[:count], arguments)
                report(found, count)
        write(results)
    if options.plot:
        from cpu_plot import plot

        plot(options.plot)
    return 0


def compile_reference(folder: Path) -> str:
    """Compiles cpu_reference.cc for each type of floats; returns what is wrong, or nothing."""
    compiler, complaint = os.environ.get("CXX", "g++"), ""
    for real, name in TYPES.items():
        for flags in (FLAGS, FLAGS_ANYWHERE):  # the second where the first names what only x86 has
            command = [compiler, *flags, f"-DREAL={real}", str(HERE / "cpu_reference.cc")]
            command += ["-o", str(folder / f"{name}.so"), "-lmvec", "-lm"]
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False)
            except OSError as error:
                return f"the hand-written C++ needs a compiler: {compiler}: {error.strerror}. Install g++, or set CXX"
            if done.returncode == 0:
                break
            complaint = done.stderr
        else:
            return f"{compiler} does not compile cpu_reference.cc:\n{complaint}"
    return ""


def load_reference(folder: str | Path) -> dict[str, Any]:
    """The hand-written C++ by NumPy's name of the type."""
    return {name: ctypes.CDLL(str(Path(folder) / f"{name}.so")) for name in TYPES.values()}


def run_child(folder: Path, cpus: list[int], arguments: list[str]) -> dict[str, Any]:
    """What a script leaves in result.json that is given a folder and a number of threads as --child."""
    count = str(len(cpus))
    paths = [str(HERE.parent), str(HERE), os.environ.get("PYTHONPATH", "")]
    # Threads of OpenMP wait asleep: spinning, they would keep a core from whoever is timed next.
    settings = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0",
                "OMP_NUM_THREADS": count, "NUMBA_NUM_THREADS": count, "JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1",
                "PYTHONPATH": os.pathsep.join(filter(None, paths))}  # fmt: skip
    done = subprocess.run(
        [sys.executable, *arguments, "--child", f"{folder},{count}"],
        env=os.environ | settings,
        preexec_fn=lambda: os.sched_setaffinity(0, cpus),
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"bench: the process for {count} threads failed")
    return json.loads((folder / "result.json").read_text())


def measure_all(code: dict[str, Any], threads: int, options: Any) -> dict[str, Any]:
    """In the child: name of case -> contender -> {"ratio": [low, median, high], "seconds": median}."""
    from cpu_cases import make_cases

    wanted = set(filter(None, options.only.split(",")))
    missing, found, began = set(), {}, time.perf_counter()
    clock = time.process_time if threads == 1 else time.perf_counter
    for case in make_cases():
        if wanted and not wanted & {case.name, case.kernel_name}:
            continue
        runs = contenders(case, code, missing)
        require_right(case, runs)
        found[case.name] = compare(runs, options.rounds, clock)
        print(f"bench: {case.name} done after {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    for name in sorted(missing):
        print(f"bench: {name} is not installed: left out", file=sys.stderr)
    return found


class Memory:
    """The data of a case in memory that JAX allocated, the same for all contenders, and so for the result.

    Allocators differ in what pages they ask for: that alone is worth 15% or more. Programs of JAX get the result's
    buffer donated and give it back as their result, so it stays where it is.
    """

    def __init__(self, case: Any):
        import jax.numpy as jnp
        import numpy as np

        self.inputs = [jnp.array(a) for a in case.arrays]
        self.result = jnp.zeros(case.shape, case.result_dtype).block_until_ready()
        self.address = self.result.unsafe_buffer_pointer()
        self.arrays = tuple(np.asarray(a) for a in self.inputs)
        kind = {np.int32: ctypes.c_int32, np.float32: ctypes.c_float}.get(case.result_dtype, ctypes.c_double)
        self.out = np.ctypeslib.as_array((kind * self.result.size).from_address(self.address)).reshape(case.shape)

    def jitted(self, call: Callable[..., Any]) -> Callable[[], Any]:
        """A call inside jax.jit."""
        import jax

        jit = jax.jit(lambda _, *a: call(*a), donate_argnums=0, keep_unused=True)
        program = jit.lower(self.result, *self.inputs).compile()

        def run() -> Any:
            self.result = program(self.result, *self.inputs).block_until_ready()
            if self.result.unsafe_buffer_pointer() != self.address:
                raise SystemExit("bench: JAX did not use the donated buffer")
            return self.out

        return run


def contenders(case: Any, code: dict[str, Any], missing: set[str]) -> dict[str, Callable[[], Any]]:
    import cpu_peers

    memory = Memory(case)
    case, out = dataclasses.replace(case, arrays=memory.arrays), memory.out
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*case.arrays, out)]
    function = getattr(code[case.real.__name__], case.kernel_name)

    def by_hand() -> Any:
        function(*case.scalars, *pointers)
        return out

    runs = {REFERENCE: by_hand, "jaxwarp": memory.jitted(case.ours), "jax.numpy": memory.jitted(case.plain)}
    for name, make in {
        "Numba": lambda: cpu_peers.numba_runs(case, out, fastmath=False),
        "Numba fastmath": lambda: cpu_peers.numba_runs(case, out, fastmath=True),
        "Warp": lambda: cpu_peers.warp_runs(case, out),
    }.items():
        try:
            runs[name] = make()
        except ImportError:
            missing.add(name)
    return runs


def require_right(case: Any, runs: dict[str, Callable[[], Any]]) -> None:
    import numpy as np

    expected = np.array(runs["jax.numpy"](), np.float64)
    for name, run in runs.items():
        error = np.linalg.norm(np.array(run(), np.float64) - expected) / np.linalg.norm(expected)
        if not error <= case.tolerance:
            raise SystemExit(f"bench: {case.name} ({name}) is wrong: relative error {error:.2e}")


def compare(runs: dict[str, Callable[[], Any]], rounds: int, clock: Callable[[], float]) -> dict[str, Any]:
    import numpy as np

    repeats = {}
    for name, run in runs.items():
        began = time.perf_counter()
        run()
        repeats[name] = max(1, min(50, math.ceil(LEAST_SECONDS / (time.perf_counter() - began))))
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            began = clock()
            for _ in range(repeats[name]):
                run()
            seconds[name].append((clock() - began) / repeats[name])
    reference = np.array(seconds[REFERENCE])
    return {
        name: {
            "seconds": float(np.median(s)),
            "ratio": [float(q) for q in np.quantile(np.array(s) / reference, (0.25, 0.5, 0.75))],
        }
        for name, s in seconds.items()
    }


def report(found: dict[str, Any], threads: int) -> None:
    names = list(dict.fromkeys(n for row in found.values() for n in row if n != REFERENCE))
    print(f"\n{threads} thread{'s' if threads > 1 else ''}: times that of {REFERENCE} (lower is better), [quartiles]")
    print(f"{'':12}{'ms':>8}" + "".join(f"{n:>22}" for n in names))
    for case, row in found.items():
        cells = []
        for name in names:
            low, median, high = row[name]["ratio"] if name in row else (math.nan,) * 3
            cells.append(f"{median:8.2f} [{low:.2f}, {high:.2f}]".rjust(22))
        print(f"{case:12}{1e3 * row[REFERENCE]['seconds']:8.3f}" + "".join(cells))
    means = [mean_over_ours(found, [n]) for n in names]
    print(f"{'over ours':20}" + "".join(f"{m:22.2f}" for m in means) + "   (geometric means)", flush=True)
    print(
        f"the better of Numba's modes over ours: {mean_over_ours(found, ['Numba', 'Numba fastmath']):.2f}", flush=True
    )


def mean_over_ours(found: dict[str, Any], names: Sequence[str]) -> float:
    """Geometric mean, over the cases, of the time of the fastest of `names` over ours; NaN where there is none."""
    logs = []
    for row in found.values():
        least = min((row[n]["ratio"][1] for n in names if n in row), default=math.nan)
        logs.append(math.log(least / row["jaxwarp"]["ratio"][1]))
    return math.exp(sum(logs) / len(logs))


def write(results: dict[str, Any]) -> None:
    import cpu_cases
    import measure

    path = measure.RESULTS / "cpu.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    if before.get("environment", {}).get("processor") == measure.processor():
        names = [case.name for case in cpu_cases.make_cases(small=True)]
        for threads, old in before["threads"].items():
            cases = old | results.get(threads, {})
            results[threads] = {name: cases[name] for name in names if name in cases}
    versions = {}
    for name in ("numba", "warp"):
        try:
            versions[name] = __import__(name).__version__
        except ImportError:
            versions[name] = None
    measure.write("cpu", {"versions": versions, "threads": results})


if __name__ == "__main__":
    raise SystemExit(main())
