"""What compiling costs: stages, first calls, the disk cache, kernels of up to 20,000 operations, growth, memory.

    python benchmarks/compile.py [--rounds 5] [--only stages,calls,sizes,cold,growth,programs,memory]

Stages are timed one after the other in one process, in CPU time (least of the rounds): other programs disturb it less
than wall time. First calls are those of fresh processes, after `import jax` and a jitted function of JAX's own: with an
empty cache on disk, then with what the first process left there. Growth is by the depth of functions that call
functions, the statements of a function, and the length of a straight line with a sine: the first launch of a fresh
process, in CPU seconds, beside Warp's on the CPU where that is installed, and beside the gradient's and NVRTC's PTX.
"refused": the kernel was, after so many seconds. Cold: all that a process does until the results of its first kernel,
in CPU seconds, imports and all, beside Warp's and beside a function of JAX's own. Programs: all kernels of MuJoCo Warp,
see compile_programs.py, where that is installed. Memory is the growth of the process's peak beyond the buffers of a
launch. Writes results/compile.json.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp

HERE = Path(__file__).parent
NAMES = ("saxpy", "vec3", "lbm", "nbody", "mandelbrot", "gather", "row_sum", "matmul", "elementary", "collatz", "mat33")
SIZES = {
    "straight": (100, 1000, 10_000),
    "memory": (100, 1000, 10_000),
    "loops": (100, 1000, 4000),
    "branches": (100, 1000, 5000),
    "nested": (20, 80),
    "elifs": (25, 100, 200),
    "calls": (100, 1000, 10_000),
}


# What grows, and rows: the sizes, and what is timed of them beside the launch.
GROWTH = {
    "depth": ((1, 4, 8, 10, 12, 16), ("warp", "ptx")),
    "width": ((10, 100, 1000), ("warp",)),
    "sines": ((250, 500, 1000), ("warp", "gradient", "ptx")),
}
MOST_SECONDS, MOST_SECONDS_OF_PROGRAMS = 300, 1200


def kernel(name: str) -> Any:
    import cpu_kernels

    import jaxwarp as wp

    return cpu_kernels.KERNELS[name](float, wp.vec3, wp.mat33)


def stages(made: Any) -> dict[str, float]:
    """Milliseconds of CPU time from a kernel's text to code in this process, by stage; and sizes."""
    from jaxwarp import config
    from jaxwarp.codegen.cpu import compile as cpu
    from jaxwarp.codegen.cpu.control.function import emit_function
    from jaxwarp.codegen.cpu.plan.target import host
    from jaxwarp.codegen.cpu.plan.width import choose_width
    from jaxwarp.frontend.lower import lower
    from jaxwarp.ir.nodes import walk
    from jaxwarp.passes.pipeline import prepare

    laps, began = {}, time.process_time()

    def lap(name: str) -> None:
        nonlocal began
        now = time.process_time()
        laps[name], began = 1e3 * (now - began), now

    types = tuple(a.annotation for a in made.arguments)
    ir = lower(made._source, [(a.name, a.annotation) for a in made.arguments], types, config.max_unroll)
    lap("frontend")
    prepared = prepare(ir)
    lap("passes")
    code = emit_function(prepared, choose_width(prepared), host())
    lap("emission")
    bitcode = cpu._assemble(code.text, ir.name)
    lap("bitcode")
    machine = cpu.compile_object(bitcode, host())
    lap("llvm")
    cpu._linker().link(machine, code.symbol)
    lap("load")
    laps["total"] = sum(laps.values())
    sizes = {"operations": sum(1 for _ in walk(ir.body)), "lines": code.text.count("\n"), "object": len(machine)}
    return {**laps, **sizes}


def least(made: Any, rounds: int) -> dict[str, float]:
    from jaxwarp.deep import with_deep_stack

    found = [with_deep_stack(stages)(made) for _ in range(rounds)]
    return {key: min(one[key] for one in found) for key in found[0]}


def report(title: str, results: dict[str, dict[str, float]]) -> None:
    print(f"\n{title}")
    columns = list(next(iter(results.values())))
    print(" " * 20 + "".join(f"{c:>11}" for c in columns))
    for name, values in results.items():
        print(f"{name:<20}" + "".join(f"{values[c]:11.1f}" for c in columns), flush=True)


def arguments(name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    x, v, square = jnp.ones(1000), jnp.ones((1000, 3)), jnp.ones((64, 64))
    match name:
        case "saxpy":
            return (2.0, x, x), {}
        case "vec3":
            return (v, v), {}
        case "lbm":
            return (jnp.ones((9, 64, 64)), 1.2), {"launch_dims": (64, 64), "output_dims": (9, 64, 64)}
        case "nbody":
            return (v, x), {}
        case "mandelbrot":
            return (64.0, 100), {"launch_dims": (64, 64)}
        case "row_sum":
            return (square,), {"launch_dims": (64, 64), "output_dims": 64}
        case "matmul":
            return (square, square), {}
        case "collatz":
            return (jnp.ones(1000, jnp.int32),), {}
        case "mat33":
            return (jnp.ones((1000, 3, 3)), jnp.ones((1000, 3, 3))), {}
        case _:
            return (x, x), {}


def child_calls() -> dict[str, Any]:
    """In a fresh process: milliseconds of each kernel's first call, and of making or finding its machine code in it."""
    x = jnp.arange(8.0)
    jax.jit(lambda a: (2 * a).sum())(x).block_until_ready()
    began = time.perf_counter()
    import jaxwarp as wp

    found: dict[str, Any] = {"import": 1e3 * (time.perf_counter() - began)}
    inputs = {name: arguments(name) for name in NAMES}
    functions = {name: wp.jax_kernel(kernel(name)) for name in NAMES}
    loads: list[float] = []
    # The first call brings in LLVM; what a kernel costs is what the others do.
    first = wp.jax_kernel(kernel("many"))
    for name, function in (("first", first), *functions.items()):
        given, options = inputs.get(name, ((*[jnp.ones(64)] * 8, *[1.0] * 4), {}))
        loads.clear()
        began = time.perf_counter()
        function(*given, **options)[0].block_until_ready()
        found[name] = {"call": 1e3 * (time.perf_counter() - began), "code": 1e3 * sum(loads)}
        if name == "first":
            note_loads(loads)
    floors = []
    for k in range(5):
        began = time.perf_counter()
        jax.jit(lambda a, k=k: a * k + 1.5)(x).block_until_ready()
        floors.append(1e3 * (time.perf_counter() - began))
    found["jax"] = min(floors)
    return found


def note_loads(loads: list[float]) -> None:
    """Times each way from a payload's digest to code in the process: by the cache on disk, or by LLVM."""
    from jaxwarp.codegen import cpu

    load = cpu.load_bitcode

    def timed(*given: Any) -> int:
        began = time.perf_counter()
        address = load(*given)
        loads.append(time.perf_counter() - began)
        return address

    cpu.load_bitcode = timed


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts kilobytes


def child_memory() -> dict[str, float]:
    """In a fresh process: megabytes by which the peak exceeds the buffers of a launch, and of its gradient's."""
    import jaxwarp as wp

    call = wp.jax_kernel(kernel("elementary"))
    small = jnp.full(1000, 0.5)
    run = jax.jit(lambda x, y: call(x, y)[0])
    pull = jax.jit(lambda x, y, g: jax.vjp(lambda a, b: call(a, b)[0], x, y)[1](g))
    jax.block_until_ready((run(small, small), pull(small, small, small)))
    count = 350_000_000 // 4
    x = jnp.full(count, 0.5).block_until_ready()
    y = jnp.full(count, 0.25).block_until_ready()
    before = peak()
    out = run(x, y).block_until_ready()
    launched = peak() - before - out.nbytes
    results = jax.block_until_ready(pull(x, y, out))
    adjoint = peak() - before - out.nbytes - sum(r.nbytes for r in results)
    buffers = x.nbytes + y.nbytes + out.nbytes
    return {"buffers": buffers / 1e6, "launch": max(launched, 0) / 1e6, "gradient": max(adjoint, 0) / 1e6}


def child_growth(family: str, size: int, what: str) -> dict[str, Any]:
    """In a fresh process: CPU seconds of the first launch of a kernel, of its gradient, or of its PTX."""
    import compile_kernels
    import numpy as np

    if what == "warp":
        import warp

        warp.config.quiet = True
        compile_kernels.module = warp
        warp.init()
        warp.config.kernel_cache_dir = os.environ["JAXWARP_CACHE_DIR"]
    made = compile_kernels.FAMILIES[family](size)
    real = np.float64 if family == "sines" else np.float32
    x, n = np.linspace(0, 1, 64, dtype=real), np.zeros(64, np.int32)
    began = sum(os.times()[:4])
    try:
        _first(made, x, n, what)
    except Exception as error:
        if "too large" not in str(error):
            raise
        return {"seconds": sum(os.times()[:4]) - began, "refused": True}
    return {"seconds": sum(os.times()[:4]) - began, "refused": False}


def _first(made: Any, x: Any, n: Any, what: str) -> None:
    if what == "warp":
        import warp

        out = warp.zeros(len(x), dtype=warp.from_numpy(x).dtype)
        warp.launch(made, len(x), [warp.array(x), warp.array(n), out], device="cpu")
    elif what == "ptx":
        made.ptx(90)
    else:
        import jaxwarp as wp

        jax.config.update("jax_enable_x64", True)
        call = wp.jax_kernel(made)
        function = jax.grad(lambda x: call(x, n)[0].sum()) if what == "gradient" else lambda x: call(x, n)[0]
        jax.block_until_ready(jax.jit(function)(jnp.asarray(x)))


def growth() -> dict[str, Any]:
    """Seconds by family, size, and what was done; None where it took too long, or Warp is not there.

    PTX is left out where there is no NVRTC.
    """
    import jaxwarp as wp

    found, has_nvrtc = {}, wp.get_cuda_toolkit_version() is not None
    with tempfile.TemporaryDirectory() as folder:
        for what in ("launch", "warp", "gradient", "ptx"):
            _timed("depth", 1, what, folder)  # leaves Python's bytecode
        for family, (sizes, beside) in GROWTH.items():
            for size in sizes:
                asked = [what for what in ("launch", *beside) if what != "ptx" or has_nvrtc]
                row = {what: _timed(family, size, what, folder) for what in asked}
                found[f"{family} {size}"] = row
                listed = ", ".join(f"{what} {_shown(seconds)}" for what, seconds in row.items())
                print(f"{family:>8} {size:5}: {listed}", flush=True)
    return found


def _timed(family: str, size: int, what: str, folder: str) -> dict[str, Any] | None:
    try:
        return in_child(f"growth,{family},{size},{what}", folder, tempfile.mkdtemp(dir=folder))
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return None


def cold(rounds: int) -> dict[str, float | None]:
    """The least of the rounds, in turns, of what compile_cold.py takes."""
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for k in range(rounds + 1):
            for what in ("jaxwarp", "warp", "jax"):
                try:
                    row = in_child(what, folder, tempfile.mkdtemp(dir=folder), "compile_cold.py")
                except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
                    continue
                found.setdefault(what, []).extend([row["seconds"]] if k else [])  # the first leaves Python's bytecode
    return {what: min(seconds) for what, seconds in found.items() if seconds}


def programs() -> dict[str, Any] | None:
    """What compile_programs.py finds, in fresh processes; None if MuJoCo Warp is not installed."""
    if importlib.util.find_spec("mujoco_warp") is None or importlib.util.find_spec("mujoco") is None:
        print("MuJoCo Warp: left out, not installed (pip install mujoco-warp==4.0.0 mujoco==4.0.0)")
        return None
    found = {}
    for who in ("jaxwarp", "warp"):
        with tempfile.TemporaryDirectory() as folder:
            found[who] = in_child(who, folder, program="compile_programs.py", limit=MOST_SECONDS_OF_PROGRAMS)
        row = found[who]
        (slowest, seconds), *_ = row["slowest"].items()
        print(f"MuJoCo Warp by {who}: {row['kernels']} kernels in {row['seconds']:.0f} s; {slowest} {seconds:.1f} s")
        for name, why in row["not_compiled"].items():
            print(f"  not compiled: {name}: {why}", flush=True)
    return found


def _shown(found: dict[str, Any] | None) -> str:
    if found is None:
        return f"none in {MOST_SECONDS} s"
    return f"{found['seconds']:.2f} s{', refused' if found['refused'] else ''}"


def in_child(
    what: str, folder: str, code: str = "code", program: str = "compile.py", limit: float = MOST_SECONDS
) -> dict[str, Any]:
    """A part of this program in a fresh process, which finds Python's own bytecode on disk as an installed one does."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    paths = [str(HERE.parent), str(HERE), os.environ.get("PYTHONPATH", "")]
    environment |= {"PYTHONPATH": os.pathsep.join(paths), "JAXWARP_CACHE_DIR": os.path.join(folder, code)}
    environment["PYTHONPYCACHEPREFIX"] = folder + "/python"
    command = [sys.executable, str(HERE / program), *(("--child",) if program == "compile.py" else ()), what]
    pipe = subprocess.PIPE
    done = subprocess.run(command, env=environment, stdout=pipe, text=True, check=True, timeout=limit)
    return json.loads(done.stdout.splitlines()[-1])


def calls() -> dict[str, Any]:
    """First calls with an empty cache on disk, and in a second process."""
    with tempfile.TemporaryDirectory() as folder:
        # Python's own bytecode, also of what a first kernel imports: compiling that would be half of its time.
        in_child("calls", folder, "other")
        cold, warm = in_child("calls", folder), in_child("calls", folder)
    rows = {
        name: {
            "new": cold[name]["call"], "LLVM": cold[name]["code"],
            "second": warm[name]["call"], "disk": warm[name]["code"],
        }
        for name in ("first", *NAMES)
    }  # fmt: skip
    report(
        f"First calls, ms (a new function of JAX's own: {cold['jax']:.1f}; import jaxwarp: {warm['import']:.0f})", rows
    )
    return {"jax": cold["jax"], "import": warm["import"], "kernels": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="stages,calls,sizes,cold,growth,programs,memory")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        what, *given = options.child.split(",")
        if what == "growth":
            print(json.dumps(child_growth(given[0], int(given[1]), given[2])))
            return
        child = {"calls": child_calls, "memory": child_memory, "import": lambda: __import__("jaxwarp") and {}}
        print(json.dumps(child[what]()))
        return
    import compile_kernels
    import measure

    only, results = options.only.split(","), {}
    if "stages" in only:
        least(kernel("saxpy"), 1)
        results["stages_ms"] = {name: least(kernel(name), options.rounds) for name in NAMES}
        report("From a kernel's text to code, ms of CPU time", results["stages_ms"])
    if "calls" in only:
        results["calls_ms"] = calls()
    if "sizes" in only:
        made = {f"{f} {n}": compile_kernels.FAMILIES[f](n) for f, sizes in SIZES.items() for n in sizes}
        results["sizes_ms"] = {name: least(one, 1) for name, one in made.items()}
        report("Kernels of any size, ms of CPU time", results["sizes_ms"])
    if "growth" in only:
        print("\nFirst launch of a process, CPU seconds")
        results["growth_s"] = growth()
    if "cold" in only:
        results["cold_s"] = cold(options.rounds)
        listed = ", ".join(f"{what} {seconds:.2f}" for what, seconds in results["cold_s"].items())
        print(f"\nA process until its first results, CPU seconds: {listed}", flush=True)
    if "programs" in only:
        results["programs_s"] = programs()
    if "memory" in only:
        with tempfile.TemporaryDirectory() as folder:
            results["memory_mb"] = in_child("memory", folder)
        print(f"\nMegabytes beyond the buffers: {results['memory_mb']}")
    measure.write("compile", results)


if __name__ == "__main__":
    main()
