"""CPU code of kernels over irregular data against C++ written by hand, Numba and NVIDIA Warp, and its own other widths.

    python benchmarks/irregular.py [--rounds 11] [--only rays,closest] [--threads 1,2]

Rays and closest points through a tree of boxes, sums over neighbours in a cell list, rows of a sparse matrix, trilinear
samples. As in cpu.py: results are checked, contenders take turns, a process for each number of threads. "8 lanes" is
our code of that width, where by default one is chosen; at one thread only. Warp runs the same kernels; its launches on
CPUs use one thread. Writes results/irregular.json.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cpu

HERE = Path(__file__).parent
WIDTHS = (4, 8, 16)  # one lane is for debugging: LLVM leaves it as it is


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--only", default="", help="names of cases or kernels, with commas between")
    parser.add_argument("--threads", default="", help="numbers of threads, with commas between (default: 1 and all)")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        folder, threads = options.child.split(",")
        found = measure_all(load_reference(folder), int(threads), options)
        (Path(folder) / "result.json").write_text(json.dumps(found))
        return 0
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
            results[str(count)] = found = cpu.run_child(Path(folder), cpus[:count], arguments)
            cpu.report(found, count)
    if not options.only:
        import measure

        measure.write("irregular", {"threads": results})
    return 0


def compile_reference(folder: Path) -> str:
    """Compiles irregular_reference.cc; returns what is wrong, or nothing."""
    compiler = os.environ.get("CXX", "g++")
    command = [compiler, *cpu.FLAGS_ANYWHERE, str(HERE / "irregular_reference.cc"), "-o", str(folder / "irregular.so")]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"the hand-written C++ needs a compiler: {compiler}: {error.strerror}. Install g++, or set CXX"
    return f"{compiler} does not compile irregular_reference.cc:\n{done.stderr}" if done.returncode else ""


def load_reference(folder: str | Path) -> Any:
    return ctypes.CDLL(str(Path(folder) / "irregular.so"))


def by_hand(case: Any, code: Any, out: Any) -> Callable[[], Any]:
    """The case through the C++."""
    sizes: list[Any] = [ctypes.c_int64(case.threads)]
    if case.kernel_name in ("rays", "closest"):
        sizes.append(ctypes.c_int64(len(case.arrays[1]) - 1))
    if case.kernel_name == "trilinear":
        sizes.append((ctypes.c_int64 * 3)(*case.arrays[0].shape))
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in case.arrays]
    scalars = [ctypes.c_float(s) if isinstance(s, float) else ctypes.c_int32(s) for s in case.scalars]
    function = getattr(code, case.kernel_name)

    def run() -> Any:
        function(*sizes, *pointers, *scalars, ctypes.c_void_p(out.ctypes.data))
        return out

    return run


def measure_all(code: Any, threads: int, options: Any) -> dict[str, Any]:
    """In the child: name of case -> contender -> {"ratio": [low, median, high], "seconds": median}."""
    from irregular_cases import make_cases

    wanted = set(filter(None, options.only.split(",")))
    missing, found, began = set(), {}, time.perf_counter()
    clock = time.process_time if threads == 1 else time.perf_counter
    for case in make_cases():
        if wanted and not wanted & {case.name, case.kernel_name}:
            continue
        runs = contenders(case, code, threads, missing)
        require_right(case, runs)
        found[case.name] = cpu.compare(runs, options.rounds, clock)
        print(f"bench: {case.name} done after {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    for name in sorted(missing):
        print(f"bench: {name} is not installed: left out", file=sys.stderr)
    return found


def contenders(case: Any, code: Any, threads: int, missing: set[str]) -> dict[str, Callable[[], Any]]:
    import irregular_peers

    memory = cpu.Memory(case)
    case = dataclasses.replace(case, arrays=memory.arrays)
    runs = {cpu.REFERENCE: by_hand(case, code, memory.out), "jaxwarp": memory.jitted(case.ours)}
    if threads == 1:
        runs |= {f"{width} lanes": at_width(case, memory.out, width) for width in WIDTHS}
    for name, make in {"Numba": irregular_peers.numba_runs, "Warp": irregular_peers.warp_runs}.items():
        try:
            runs[name] = make(case, memory.out)
        except ImportError:
            missing.add(name)
    return runs


def at_width(case: Any, out: Any, width: int) -> Callable[[], Any]:
    """Our code of so many lanes, in this thread."""
    import numpy as np
    from irregular_kernels import KERNELS

    from jaxwarp.codegen.cpu.compile import compile_cpu
    from jaxwarp.codegen.cpu.run import launch
    from jaxwarp.passes.pipeline import prepare

    kernel = prepare(KERNELS[case.kernel_name].ir())
    code = compile_cpu(kernel, width)
    buffers = [*case.arrays, *map(np.asarray, map(_narrow, case.scalars)), out]

    def run() -> Any:
        launch(code, kernel, (case.threads,), buffers)
        return out

    return run


def _narrow(scalar: Any) -> Any:
    import numpy as np

    return np.float32(scalar) if isinstance(scalar, float) else np.int32(scalar)


def require_right(case: Any, runs: dict[str, Callable[[], Any]]) -> None:
    """All agree with the C++, but for what a ray does at an edge."""
    import numpy as np

    expected = np.array(runs[cpu.REFERENCE](), np.float64)
    for name, run in runs.items():
        close = np.abs(np.array(run(), np.float64) - expected) <= case.tolerance * (1 + np.abs(expected))
        if not 1 - close.mean() <= case.tolerance:
            raise SystemExit(f"bench: {case.name} ({name}) is wrong in {(~close).sum()} of {close.size} threads")


if __name__ == "__main__":
    raise SystemExit(main())
