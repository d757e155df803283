"""Steps a second of Warp's own example programs, on Warp's CPU and here, with nothing changed but the import.

    python benchmarks/warp_steps.py [--rounds 15] [--only raycast,sph] [--cores 1]

Each package has a process of its own, which makes the program's `Example` and has stepped it once before the first
measured round; the two take turns of the same steps. The last column is Warp's time over ours. Warp launches on one
thread on the CPU, whatever `--cores` says. Needs `warp-lang`. Writes results/warp_steps.json.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent / "tests")]

QUIET = {"stage_path": None}

# Programs whose steps take longer at first than later: a turn is all that the program does.
WHOLE = {"core/example_mesh"}

# Program -> what is called for a step, how the example is made (of the size that the program has if nothing is said),
# and how many steps are a turn.
PROGRAMS: dict[str, tuple[str, dict[str, Any], int]] = {
    "core/example_raycast": ("render", {}, 1),
    "core/example_raymarch": ("render", {}, 1),
    "core/example_sph": ("step", QUIET, 1),
    "core/example_dem": ("step", QUIET, 1),
    "core/example_nvdb": ("step", QUIET, 20),
    "core/example_mesh": ("step", QUIET, 500),
    "core/example_sample_mesh": ("step", QUIET, 1000),
    "core/example_mesh_intersect": ("step", QUIET, 20),
    "core/example_fluid": ("step", {}, 2),
    "core/example_wave": ("step", QUIET, 5),
    "geometry/example_isosurface": ("step", QUIET, 1),
    "optim/example_diffray": ("step", {"height": 256}, 1),
    "optim/example_particle_repulsion": ("step", {}, 2),
}


def child(name: str, package: str, folder: str) -> None:
    """Makes the example; then steps it for each line that comes, and prints the seconds that this took."""
    from warp_program import load

    method, options, count = PROGRAMS[name]
    program = load(name, package, Path(folder) / f"{package}_{Path(name).name}.py")
    answers, sys.stdout = sys.stdout, sys.stderr
    with program.wp.ScopedDevice("cpu"):
        step = getattr(program.Example(**options), method)
        step()
        print("ready", file=answers, flush=True)
        for _ in sys.stdin:
            step = getattr(program.Example(**options), method) if name in WHOLE else step
            began = time.perf_counter()
            for _ in range(count):
                step()
            program.wp.synchronize()
            print((time.perf_counter() - began) / count, file=answers, flush=True)


def start(name: str, package: str, folder: str, cores: int) -> subprocess.Popen[str]:
    paths = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(HERE / "warp_steps.py"), "--child", name, package, folder, "--cores", str(cores)]
    made = subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL)
    assert made.stdout is not None
    assert made.stdout.readline() == "ready\n", f"{name} does not run on {package}"
    return made


def step(process: subprocess.Popen[str]) -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    print(file=process.stdin, flush=True)
    return float(process.stdout.readline())


def compare(name: str, rounds: int, cores: int) -> dict[str, Any]:
    """Seconds of a step on both, and the ratio of the two of each round."""
    import measure

    with tempfile.TemporaryDirectory() as folder:
        both = {package: start(name, package, folder, cores) for package in ("jaxwarp", "warp")}
        times: dict[str, list[float]] = {package: [] for package in both}
        for _ in range(rounds):
            for package, process in both.items():
                times[package].append(step(process))
        for process in both.values():
            process.communicate()
    ratios = [b / a for a, b in zip(times["jaxwarp"], times["warp"], strict=True)]
    found: dict[str, Any] = {package: asdict(measure.figure(values)) for package, values in times.items()}
    return {**found, "ratio": statistics.median(ratios)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
        child(*options.child)
        return
    import measure

    only, results = options.only.split(","), {}
    print(f"{'':<32}{'steps/s':>10}{'Warp':>10}{'times':>8}")
    for name in PROGRAMS:
        if any(part in name for part in only):
            found = results[name] = compare(name, options.rounds, options.cores)
            ours, warp = found["jaxwarp"]["median"], found["warp"]["median"]
            print(f"{name:<32}{1 / ours:10.1f}{1 / warp:10.1f}{found['ratio']:8.2f}", flush=True)
    if not options.only:
        measure.write("warp_steps", {"cores": options.cores, "programs": results})


if __name__ == "__main__":
    main()
