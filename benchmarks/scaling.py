"""How the wind tunnel in strips scales: virtual devices of one process, and processes under mpirun.

    python benchmarks/scaling.py [--steps 400] [--json FILE]

Strong scaling: a tunnel of one size on more and more devices. Weak: the rows grow with the devices. Bytes per step are
those of the compiled program's permutations, beside what the links of the lattice that cross the cuts need. On a machine
with fewer cores than devices nothing gets faster: what is measured there is what the mechanism costs.
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


def series(kind: str, counts: tuple[int, ...], are_processes: bool, steps: int) -> list[dict[str, Any]]:
    found = []
    for count in counts:
        rows = STRONG_ROWS if kind == "strong" else WEAK_ROWS * count
        run = measure(count, count if are_processes else 1, rows, steps)
        alone = found[0] if found else run
        # Strong: the time of one device over that of all; weak: the rate of all over that of one.
        found.append({**run, "kind": kind, "mlups_ratio": run["mlups"] / alone["mlups"]})
        ratio = run["bytes_per_step"] / run["least_bytes_per_step"] if run["least_bytes_per_step"] else 1.0
        unit = "processes" if are_processes else "devices"
        print(
            f"| {kind} | {count} {unit} | {WIDTH} x {rows} | {run['mlups']:.1f} | {found[-1]['mlups_ratio']:.2f} |"
            f" {run['bytes_per_step']} | {ratio:.2f} |",
            flush=True,
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400, help="time steps of a run (default %(default)s)")
    parser.add_argument("--json", type=Path, help="file for the results")
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    print(f"{cores} cores, JAX {jax.__version__}\n")
    print("| scaling | on | cells | million updates/s | times that of one | bytes a step | over the least |")
    print("|---|---|---|---|---|---|---|")
    runs = []
    for kind in ("strong", "weak"):
        runs += series(kind, (1, 2, 4, 8), are_processes=False, steps=options.steps)
        if shutil.which("mpirun"):
            runs += series(kind, (1, 2, 4), are_processes=True, steps=options.steps)
    if shutil.which("mpirun") is None:
        print("\nno mpirun: processes are not measured", file=sys.stderr)
    if options.json:
        options.json.write_text(json.dumps({"cores": cores, "jax": jax.__version__, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
