"""What is here: the machine, what checks and profiles it, the tests that need it."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import jax

from gpu_report import warp_code
from gpu_report.cases import CASES
from gpu_report.kernels import by_hand
from gpu_report.sections import Row, Setup, keep, path_of, read, tried
from jaxwarp.codegen.cuda import nvrtc
from jaxwarp.commands import info

ROOT = Path(__file__).resolve().parent.parent.parent
_ASKED = (
    "name",
    "driver_version",
    "clocks.sm",
    "clocks.mem",
    "temperature.gpu",
    "power.draw",
    "memory.used",
    "mig.mode.current",
)
_CHECKS = ("memcheck", "racecheck")
_METRICS = (
    "dram__throughput.avg.pct_of_peak_sustained_elapsed,sm__inst_issued.avg.pct_of_peak_sustained_active,"
    "lts__t_sectors_op_red.sum,lts__t_sectors_op_atom.sum"
)
_PROFILED = ("stencil", "stencil gradient", "rowsum", "lbm3")
_SECONDS_TO_END = 15  # that pytest may take to say what it has found


def environment(setup: Setup) -> Iterator[Row]:
    """Versions, the device, and that code can be compiled and run."""
    found, _ = info.run(argparse.Namespace())
    for name, value in found.items():
        yield {"what": name, "is": value}
    device = jax.devices()[0]
    yield {"what": "device", "is": f"{device.device_kind}, {getattr(device, 'compute_capability', 'no GPU')}"}
    yield {"what": "platform", "is": str(getattr(device.client, "platform_version", "")).replace("\n", ", ")}
    has_warp = warp_code.code_of("saxpy", by_hand(setup).architecture) is not None
    yield {"what": "Warp's code", "is": "is here" if has_warp else "is not here (make warp-code)"}
    yield from clocks(setup)
    yield from tried({"what": "a compile"}, lambda: _compile(setup))
    yield from tried({"what": "a launch"}, _launch)


def clocks(setup: Setup) -> Iterator[Row]:
    """What nvidia-smi says now."""
    del setup
    if (tool := shutil.which("nvidia-smi")) is None:
        yield {"what": "nvidia-smi", "is": "is not here"}
        return
    command = [tool, f"--query-gpu={','.join(_ASKED)}", "--format=csv,noheader", "--id=0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    values = done.stdout.strip().split(", ")
    for name, value in zip(_ASKED, values, strict=False):
        yield {"what": name, "is": value}


def _compile(setup: Setup) -> Iterator[Row]:
    kernel, architecture = CASES["saxpy"].make(1000).kernel, by_hand(setup).architecture
    began = time.perf_counter()
    found = kernel.resources(architecture, dim=1000, shapes=dict.fromkeys(("x", "y", "out"), (1000,)))
    seconds = time.perf_counter() - began
    yield {"what": "a compile", "is": f"sm_{architecture}, {found.registers} registers, {seconds:.3f} s"}
    libraries = re.findall(r"\S*libnvrtc\.so\S*", Path("/proc/self/maps").read_text())
    yield {"what": "NVRTC's library", "is": f"{nvrtc.version()}, {', '.join(sorted(set(libraries)))}"}


def _launch() -> Iterator[Row]:
    case = CASES["saxpy"].make(1000)
    a, x, y = case.data().values()
    (out,) = jax.jit(case.ours())(a, x, y)
    yield {
        "what": "a launch",
        "is": f"on {next(iter(out.devices()))}: {float(abs(out - (a * x + y)).max()):.2g} off at most",
    }


def checkers(setup: Setup) -> Iterator[Row]:
    """compute-sanitizer on the kernels, on little data; ncu on some, on much."""
    for check in _CHECKS:
        yield from tried({"tool": check}, lambda check=check: _sanitized(setup, check))
    yield from tried({"tool": "ncu"}, lambda: _profiled(setup))


def _sanitized(setup: Setup, check: str) -> Iterator[Row]:
    if (tool := shutil.which("compute-sanitizer")) is None:
        yield {"tool": check, "found": "compute-sanitizer is not here"}
        return
    # The first ten.
    small = replace(setup, is_small=True, folder=str(Path(setup.folder) / check), only=tuple(list(CASES)[:10]))
    output = _section([tool, "--tool", check, "--target-processes", "all"], small)
    summary = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (.*)", output) or ["no summary"]
    failed = [row["kernel"] for row in read(small, "kernels")["rows"] if "failed" in row]
    yield {"tool": check, "found": "; ".join(summary), **({"failed": f"kernels {failed}"} if failed else {})}


def _profiled(setup: Setup) -> Iterator[Row]:
    if (tool := shutil.which("ncu")) is None:
        yield {"tool": "ncu", "found": "is not here"}
        return
    large = replace(setup, folder=str(Path(setup.folder) / "ncu"), only=_PROFILED)
    output = _section([tool, "--csv", "--metrics", _METRICS, "--launch-count", "100"], large)
    keep(path_of(large, "ncu"), {"output": output.splitlines()})
    yield {"tool": "ncu", "found": f"{len(output.splitlines())} lines in {large.folder}/ncu.json"}


def _section(before: Sequence[str], setup: Setup) -> str:
    """The section of kernels under a tool."""
    child = ["-m", "gpu_report.child", "kernels", "gpu_report.kernels:kernels", json.dumps(asdict(setup))]
    done = subprocess.run([*before, sys.executable, *child], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def tests(setup: Setup) -> Iterator[Row]:
    """Those that need a GPU: the last lines of pytest."""
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-q", "--no-header", "--tb=line"]
    command += ["-p", "no:benchmark", "-p", "no:cacheprovider"]
    # Without a GPU they are skipped: a few of them show that the command is right.
    command += ["tests/ffi/test_gpu_jax.py"] if setup.is_dry else []
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        output, _ = process.communicate(timeout=max(1, setup.seconds - _SECONDS_TO_END))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)  # it then says what it has found
        output, _ = process.communicate()
    keep(Path(setup.folder) / "pytest.json", {"output": output.splitlines()})
    for line in output.splitlines():
        if line.startswith(("FAILED", "ERROR")):
            yield {"pytest": line[:160]}
    yield {
        "pytest": output.strip().splitlines()[-1],
        **({"failed": f"exit {process.returncode}"} if process.returncode else {}),
    }
