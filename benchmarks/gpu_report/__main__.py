"""`python -m gpu_report [--out FOLDER] [--dry-run] [--sections copy,kernels]`; see the package."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

from gpu_report.sections import Section, Setup, run_all

SECONDS = 470.0
# In the order of what they are worth: what comes late has the time that is left.
SECTIONS = (
    Section("environment", "gpu_report.tools:environment", 60),
    Section("copy", "gpu_report.kernels:copies", 30),
    Section("kernels", "gpu_report.kernels:kernels", 150),
    Section("tiles", "gpu_report.tiles:tiles", 60),
    Section("spatial", "gpu_report.spatial:queries", 90),
    Section("capture", "gpu_report.launches:capture", 40),
    Section("launch", "gpu_report.launches:launch", 60),
    Section("sweep", "gpu_report.kernels:sweep", 80),
    Section("first_call", "gpu_report.launches:first_call", 60),
    Section("tools", "gpu_report.tools:checkers", 60),
    Section("clocks", "gpu_report.tools:clocks", 10),
    Section("tests", "gpu_report.tools:tests", 240),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="gpu_report", description="What a GPU makes of jaxwarp.")
    default = os.environ.get("OUT") or str(Path(__file__).parent.parent / "results" / "gpu")
    parser.add_argument("--out", default=default, help="folder for JSON (default: OUT, else benchmarks/results/gpu)")
    parser.add_argument("--dry-run", action="store_true", help="without a GPU, on little data: only whether it runs")
    parser.add_argument("--small", action="store_true", help="on little data: only whether it is right")
    parser.add_argument("--only", default="", help="kernels, with commas between them")
    parser.add_argument("--sections", default="", help=f"of {', '.join(s.name for s in SECTIONS)}")
    options = parser.parse_args()
    wanted = _words(options.sections)
    if unknown := set(wanted) - {s.name for s in SECTIONS}:
        parser.error(f"--sections: there is no {', '.join(sorted(unknown))}")
    # Ended from outside, it prints what it has.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("gpu_report: ended before its time"))
    setup = Setup(options.out, options.dry_run, options.small or options.dry_run, _words(options.only))
    found = run_all([s for s in SECTIONS if not wanted or s.name in wanted], setup, SECONDS)
    print(f"\nwrote {options.out}")
    return int(any(s["status"] != "done" or any("failed" in row for row in s["rows"]) for s in found))


def _words(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


if __name__ == "__main__":
    sys.exit(main())
