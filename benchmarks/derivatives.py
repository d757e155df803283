"""What derivatives cost on the CPU, in times of the primal; gradients of what all threads share, beside C++.

    python benchmarks/derivatives.py [--rounds 9] [--only stencil,newton] [--threads 1,2]

`jvp` is the value and its tangent, `vjp` the value and its cotangent, each one jitted program. Primal and derivatives
take turns; a ratio is that of one round, in CPU time at one thread and wall time at several; medians with quartiles.
Before it is timed, each gradient is compared with differences of the primal. Gradients of a number and of 16 weights
that all threads read are timed beside hand-written C++ with OpenMP. Needs g++, or the compiler that CXX names. Writes
results/derivatives.json.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fopenmp", "-shared", "-fPIC")
ITERATIONS = (16, 32, 100, 1000, 4000)
WORK = 1 << 20  # iterations of a loop in a launch
SHARED = 10_000_000 // 4096 * 4096  # threads
LEAST_SECONDS = 4e-3  # of one measurement


@dataclass(frozen=True)
class Case:
    """What is timed: a function of arrays of these shapes, and its derivatives by all of them."""

    name: str
    call: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="", help="names of kernels, with commas between")
    parser.add_argument("--threads", default="", help="numbers of threads, with commas between (default: 1 and all)")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        library, result, threads = options.child.split(",")
        clock = time.process_time if threads == "1" else time.perf_counter
        Path(result).write_text(json.dumps(measure_all(library, clock, options)))
        return 0
    cpus = sorted(os.sched_getaffinity(0))
    counts = [int(n) for n in options.threads.split(",")] if options.threads else sorted({1, len(cpus)})
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        library = compile_reference(Path(folder) / "reference.so")
        if library is None:
            return 1
        for count in counts:
            results[str(count)] = run_child(library, Path(folder) / "result.json", cpus[:count], options)
            report(results[str(count)], count)
    import measure

    measure.write("derivatives", {"threads": results})
    return 0


def compile_reference(target: Path) -> Path | None:
    compiler = os.environ.get("CXX", "g++")
    try:
        done = subprocess.run([compiler, *FLAGS, str(HERE / "derivatives_reference.cc"), "-o", str(target)],
                              capture_output=True, text=True, check=False)  # fmt: skip
    except OSError as error:
        print(f"bench: the hand-written C++ needs a C++ compiler: {compiler}: {error.strerror}; install g++ or set CXX")
        return None
    if done.returncode:
        print(f"bench: {compiler} does not compile derivatives_reference.cc:\n{done.stderr}")
        return None
    return target


def run_child(library: Path, result: Path, cpus: list[int], options: Any) -> dict[str, Any]:
    paths = os.pathsep.join(filter(None, [str(HERE.parent), str(HERE), os.environ.get("PYTHONPATH", "")]))
    settings = {"OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": str(len(cpus)), "JAX_PLATFORMS": "cpu",
                "PYTHONPATH": paths}  # fmt: skip
    command = [sys.executable, __file__, "--rounds", str(options.rounds), "--only", options.only]
    done = subprocess.run(
        [*command, "--child", f"{library},{result},{len(cpus)}"],
        env=os.environ | settings,
        preexec_fn=lambda: os.sched_setaffinity(0, cpus),
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"bench: the process for {len(cpus)} threads failed")
    return json.loads(result.read_text())


def make_cases() -> Iterator[Case]:
    import cpu_kernels
    import derivatives_kernels as kernels
    import jax.numpy as jnp
    import numpy as np

    import jaxwarp as wp

    def case(kernel: Any, shape: tuple[int, ...], *more: Any, name: str = "") -> Case:
        call = wp.jax_kernel(kernel)
        return Case(name or kernel.name, lambda x: call(x, *more)[0], (shape,))

    def of_cpu(name: str, *shapes: tuple[int, ...], launch: Any = None, output: Any = None) -> Case:
        """A kernel of cpu.py, by all that it reads."""
        kernel = cpu_kernels.KERNELS[name](wp.float32, wp.vec3, wp.mat33)
        call = wp.jax_kernel(kernel, launch_dims=launch)
        return Case(name, lambda *arrays: call(*arrays, output_dims=output)[0], shapes)

    yield case(kernels.elementary, (1 << 17,))
    yield case(kernels.polynomial, (1 << 17,))
    yield case(kernels.vectors, (1 << 16, 3))
    for kernel in (kernels.sines, kernels.logistic, kernels.pendulum, kernels.total):
        for n in ITERATIONS:
            yield case(kernel, (WORK // n // 64 * 64,), n, name=f"{kernel.name} {n}")
    for n in (16, 100):
        yield case(kernels.nested, (WORK // 4 // n // 64 * 64,), n, name=f"nested {n} x 4")
    for kernel in (kernels.newton, kernels.roots, kernels.march, kernels.adaptive):
        yield case(kernel, (1 << 16,))
    yield case(kernels.stencil, (256, 512))
    reaction = wp.jax_kernel(kernels.gray_scott, num_outputs=2)
    yield Case("gray_scott", lambda u, v: jnp.stack(reaction(u, v)), ((512, 512), (512, 512)))
    permutation = np.random.default_rng(1).permutation(1 << 17)
    yield case(kernels.gather, (1 << 17,), jnp.asarray(permutation, jnp.int32))
    yield of_cpu("lbm", (9, 256, 256), (), launch=(256, 256), output=(9, 256, 256))
    bodies = wp.jax_kernel(kernels.bodies)
    yield Case("bodies", lambda x, m: bodies(x, m)[0], ((1024, 3), (1024,)))
    yield of_cpu("matmul", (256, 256), (256, 256), launch=(256, 256), output=(256, 256))
    yield of_cpu("mat33", (1 << 15, 3, 3), (1 << 15, 3, 3))
    yield of_cpu("many", *[(100_000,)] * 8, *[()] * 4)
    rows = wp.jax_kernel(cpu_kernels.KERNELS["row_sum"](wp.float32, None, None), launch_dims=(512, 512))
    yield Case("row_sum", lambda a: rows(a, output_dims=512)[0], ((512, 512),))
    lookup = wp.jax_kernel(cpu_kernels.KERNELS["gather"](wp.float32, None, None), launch_dims=1 << 17)
    at = jnp.asarray(np.random.default_rng(2).uniform(size=1 << 17), jnp.float32)
    yield Case("lookup", lambda table: lookup(at, table, output_dims=1 << 17)[0], ((1 << 12,),))


def measure_all(library: str, clock: Callable[[], float], options: Any) -> dict[str, Any]:
    """In the child: {"cost": case -> {"seconds", "jvp", "vjp"}, "shared": case -> {"seconds", "ratio"}}."""
    wanted = set(filter(None, options.only.split(",")))
    cost = {}
    for case in make_cases():
        if not wanted or case.name.split()[0] in wanted:
            found = times(programs(case), options.rounds, clock)
            cost[case.name] = {
                "seconds": median(found["primal"]),
                **{mode: quartiles(found[mode] / found["primal"]) for mode in ("jvp", "vjp")},
            }
    shared = {}
    for name, runs in shared_gradients(ctypes.CDLL(library)).items():
        if not wanted or name in wanted:
            found = times(runs, options.rounds, clock)
            shared[name] = {"seconds": median(found["C++"]), "ratio": quartiles(found["jaxwarp"] / found["C++"])}
    return {"cost": cost, "shared": shared}


def programs(case: Case) -> dict[str, Callable[[], Any]]:
    """The value, with its tangent, with its cotangent: checked."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    rng = np.random.default_rng(7)
    xs, moved = (tuple(jnp.asarray(rng.uniform(0.5, 2.0, n), jnp.float32) for n in case.shapes) for _ in range(2))
    primal = jax.jit(case.call)
    forward = jax.jit(lambda xs, ts: jax.jvp(case.call, xs, ts))

    @jax.jit
    def reverse(xs: Any, ct: Any) -> Any:
        y, pull = jax.vjp(case.call, *xs)
        return y, pull(ct)

    step = 1e-2
    high, low = (np.asarray(primal(*(x + s * t for x, t in zip(xs, moved, strict=True))), np.float64)
                 for s in (step, -step))  # fmt: skip
    difference, ct = (high - low) / (2 * step), jnp.asarray(rng.uniform(0.5, 2.0, high.shape), jnp.float32)
    pushed, pulled = forward(xs, moved)[1], reverse(xs, ct)[1]
    dot = lambda a, b: float(np.vdot(np.asarray(a, np.float64), np.asarray(b, np.float64)))  # noqa: E731
    along = dot(ct, difference)
    for name, got in {"jvp": dot(ct, pushed), "vjp": sum(map(dot, pulled, moved))}.items():
        if not math.isclose(got, along, rel_tol=2e-2, abs_tol=2e-3 * float(np.linalg.norm(ct)) * float(
            np.linalg.norm(difference))):  # fmt: skip
            raise SystemExit(f"bench: the {name} of {case.name} is wrong: {got:.6g}, by differences {along:.6g}")
    runs = {"primal": lambda: primal(*xs), "jvp": lambda: forward(xs, moved), "vjp": lambda: reverse(xs, ct)}
    return {name: lambda run=run: jax.block_until_ready(run()) for name, run in runs.items()}


def shared_gradients(code: Any) -> dict[str, dict[str, Callable[[], Any]]]:
    """Gradients of a number and of 16 weights, the primal not computed; ours and by hand, checked."""
    import derivatives_kernels as kernels
    import jax
    import jax.numpy as jnp
    import numpy as np

    import jaxwarp as wp

    rng = np.random.default_rng(8)
    x, ct = rng.uniform(0.5, 2.0, SHARED + 15).astype(np.float32), rng.standard_normal(SHARED).astype(np.float32)
    ours_number, ours_weights = (
        wp.jax_kernel(k, launch_dims=SHARED) for k in (kernels.shared_number, kernels.shared_weights)
    )

    def number(a: Any, x: Any, ct: Any) -> Any:
        return jax.vjp(lambda a: ours_number(a, x[:SHARED], output_dims=SHARED)[0], a)[1](ct)[0]

    def weights(w: Any, x: Any, ct: Any) -> Any:
        return jax.vjp(lambda w: ours_weights(w, x, output_dims=SHARED)[0], w)[1](ct)[0]

    found = {}
    one, many = np.float32(0.7), rng.standard_normal(16).astype(np.float32)
    for name, function, by, data in (
        ("shared_number", number, one, x[:SHARED].copy()),
        ("shared_weights", weights, many, x),
    ):
        operands = [jnp.asarray(v) for v in (by, data, ct)]
        program, out = jax.jit(function).lower(*operands).compile(), np.zeros(by.shape, np.float32)
        inputs = [np.asarray(v) for v in operands[1:]]
        arguments = [v.ctypes.data_as(ctypes.c_void_p) for v in (*inputs, out)]  # these keep the arrays
        leading = [ctypes.c_int64(SHARED), *([ctypes.c_float(one)] if name == "shared_number" else [])]

        by_hand = functools.partial(getattr(code, name), *leading, *arguments)
        by_hand()
        got = np.asarray(program(*operands))
        wide, ct_wide = data.astype(np.float64), ct.astype(np.float64)
        exact = (
            -np.vdot(ct_wide, wide**3 / (1 + 0.7 * wide**2) ** 2)
            if name == "shared_number"
            else np.array([np.vdot(ct_wide, wide[k : k + SHARED]) for k in range(16)])
        )
        for who, value in {"jaxwarp": got, "C++": out}.items():
            if not np.allclose(value, exact, rtol=1e-2, atol=5.0):
                raise SystemExit(f"bench: {name} ({who}) is wrong: {value}, {exact} expected")
        run = lambda program=program, operands=operands: program(*operands).block_until_ready()  # noqa: E731
        found[name] = {"C++": by_hand, "jaxwarp": run}
    return found


def times(runs: dict[str, Callable[[], Any]], rounds: int, clock: Callable[[], float]) -> dict[str, Any]:
    """Seconds of each in each round, in turns."""
    import numpy as np

    repeats = {}
    for name, run in runs.items():
        run()
        began = time.perf_counter()
        run()
        repeats[name] = max(1, min(200, math.ceil(LEAST_SECONDS / (time.perf_counter() - began))))
    found: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            began = clock()
            for _ in range(repeats[name]):
                run()
            found[name].append((clock() - began) / repeats[name])
    return {name: np.array(seconds) for name, seconds in found.items()}


def median(values: Any) -> float:
    return quartiles(values)[1]


def quartiles(values: Any) -> list[float]:
    import numpy as np

    return [float(q) for q in np.quantile(values, (0.25, 0.5, 0.75))]


def report(found: dict[str, Any], threads: int) -> None:
    print(f"\n{threads} thread{'s' if threads > 1 else ''}: value and derivative, times the value alone, [quartiles]")
    print(f"{'':16}{'ms':>9}{'jvp':>24}{'vjp':>24}")
    cell = lambda q: f"{q[1]:8.2f} [{q[0]:.2f}, {q[2]:.2f}]".rjust(24)  # noqa: E731
    for name, row in found["cost"].items():
        print(f"{name:16}{1e3 * row['seconds']:9.3f}{cell(row['jvp'])}{cell(row['vjp'])}")
    if found["shared"]:
        print(f"gradient by what {SHARED / 1e6:.0f} million threads read, times that of C++ with OpenMP")
    for name, row in found["shared"].items():
        print(f"{name:16}{1e3 * row['seconds']:9.3f}{cell(row['ratio'])}")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
