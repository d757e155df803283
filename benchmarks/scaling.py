"""How the wind tunnel in strips scales: virtual devices of one process, and processes under mpirun.

    python benchmarks/scaling.py [--steps 400] [--json FILE]

Strong scaling: a tunnel of one size on more and more devices. Weak: the rows grow with the devices. Bytes per step are
those of the compiled program's permutations, beside what the links of the lattice that cross the cuts need. On a
machine with fewer cores than devices nothing gets faster: what is measured there is what the mechanism costs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "examples" / "distributed_wind_tunnel.py"
WIDTH = 512
STRONG_ROWS = 256
WEAK_ROWS = 64  # for each device


def measure(devices: int, processes: int, rows: int, steps: int) -> dict[str, Any]:
    """One run of the program."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        sizes = ["--width", str(WIDTH), "--height", str(rows), "--steps", str(steps), "--repeats", "3"]
        command = [sys.executable, str(PROGRAM), *sizes, "--json", str(result)]
        if processes > 1:
            command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(processes), *command]
        else:
            command += ["--devices", str(devices)]
        as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        environment = {**os.environ, **as_root, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
        return json.loads(result.read_text())


def series(kind: str, steps: int, processes: tuple[int, ...]) -> list[dict[str, Any]]:
    """The runs of one kind. Strong: all have the same cells; weak: cells grow with the devices."""
    found: list[dict[str, Any]] = []
    for count, are_processes in [*((n, False) for n in (1, 2, 4, 8)), *((n, True) for n in processes)]:
        rows = STRONG_ROWS if kind == "strong" else WEAK_ROWS * count
        run = measure(count, count if are_processes else 1, rows, steps)
        alone = found[0] if found else run
        found.append({**run, "kind": kind, "rate_over_one_device": run["mlups"] / alone["mlups"]})
        on, ratio = f"{count} {'processes' if are_processes else 'devices'}", found[-1]["rate_over_one_device"]
        bytes_moved = f"{run['bytes_per_step']} | {run['least_bytes_per_step']}"
        print(f"| {kind} | {on} | {WIDTH} x {rows} | {run['mlups']:.1f} | {ratio:.2f} | {bytes_moved} |", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400, help="time steps of a run (default %(default)s)")
    parser.add_argument("--kinds", default="strong,weak", help="which scalings (default %(default)s)")
    parser.add_argument("--json", type=Path, help="file for the results")
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    print(f"{cores} cores, JAX {jax.__version__}\n")
    processes = (2, 4) if shutil.which("mpirun") else ()
    if not processes:
        print("no mpirun: processes are not measured", file=sys.stderr)
    print("| scaling | on | cells | million updates/s | over one device | bytes a step | least |")
    print("|---|---|---|---|---|---|---|")
    runs = [run for kind in options.kinds.split(",") for run in series(kind, options.steps, processes)]
    if options.json:
        options.json.write_text(json.dumps({"cores": cores, "jax": jax.__version__, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
