"""Run programs that people have on Warp with jaxwarp instead, and write what was seen to `docs/programs.md`.

    python tools/programs.py [--only NAME,NAME] [--tests] [--keep]

Each program of `programs.toml` gets a virtual environment in `build/programs`, with the versions that it names. Its
model runs twice, with Warp and with jaxwarp, each with empty caches; with `--tests` its own tests do, too. Rows of
programs that are not run stay as they are. A release runs all of them: `make programs`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DATA = Path(__file__).with_suffix(".toml")
MODELS = Path(__file__).with_suffix("")
RESULTS = ROOT / "benchmarks" / "results" / "programs.json"
PAGE = ROOT / "docs" / "programs.md"
BEGIN, END = "<!-- programs: made by tools/programs.py -->", "<!-- end -->"
COMMON = ("numpy", "pytest", "warp-lang==1.19.0")
PACKAGES = ("warp", "jaxwarp")
PATIENCE = 1800
"""Seconds after which a run is given up."""


def programs() -> list[dict[str, Any]]:
    """The rows of `programs.toml`."""
    return tomllib.loads(DATA.read_text())["program"]


def environment(program: dict[str, Any]) -> Path:
    """Make the virtual environment of a program, and return its Python."""
    folder = ROOT / "build" / "programs" / program["model"].removesuffix(".py")
    python = folder / "bin" / "python"
    wanted = sorted({*COMMON, *_own_requirements(), *program["packages"]})
    stamp = folder / "requirements.txt"
    if not stamp.exists() or stamp.read_text().split("\n") != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *wanted], check=True)
        stamp.write_text("\n".join(wanted))
    return python


def _own_requirements() -> list[str]:
    """What jaxwarp itself needs, which is used from the source tree."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]


def _run(python: Path, package: str, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Start `measure.py` with empty caches."""
    with tempfile.TemporaryDirectory() as caches:
        known = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{MODELS}", "WARP_CACHE_PATH": f"{caches}/warp",
                 "JAXWARP_CACHE_DIR": f"{caches}/jaxwarp"}  # fmt: skip
        command = [str(python), str(MODELS / "measure.py"), package, *arguments]
        try:
            return subprocess.run(command, env=known, cwd=caches, text=True, capture_output=True, check=False,
                                  timeout=PATIENCE)  # fmt: skip
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, -1, "", f"gave up after {PATIENCE} seconds")


def steps(python: Path, package: str, program: dict[str, Any]) -> dict[str, Any]:
    """Return what `measure.py` has seen of a model, or why it has seen nothing."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "seen.json"
        done = _run(python, package, [program["model"], str(program.get("steps", 5)), str(out)])
        if out.exists():
            return json.loads(out.read_text())
        lines = [line for line in (done.stderr or done.stdout).strip().splitlines() if line.strip()]
        return {"failed": lines[-1][:200] if lines else f"exit {done.returncode}"}


def passed(python: Path, package: str, program: dict[str, Any]) -> list[str]:
    """Return the names of the program's own tests that pass."""
    home = subprocess.run([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
                          text=True, capture_output=True, check=True).stdout.strip()  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        options = [text.format(packages=home) for text in program["tests"]]
        _run(python, package, ["pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *options])
        if not report.exists():
            return []
        cases = ET.parse(report).iter("testcase")
        return sorted(f"{c.get('classname')}::{c.get('name')}" for c in cases if not len(c.findall("*")))


def versions(python: Path, program: dict[str, Any]) -> str:
    """Return what was installed of the packages that a program names."""
    names = [package.split("=")[0] for package in program["packages"] if "==" in package] or ["warp-lang"]
    code = f"from importlib.metadata import version; print(*(f'{{n}} {{version(n)}}' for n in {names!r}), sep=', ')"
    return subprocess.run([str(python), "-c", code], text=True, capture_output=True, check=True).stdout.strip()


def difference(a: dict[str, Any], b: dict[str, Any]) -> float:
    """Return the largest difference of two states, beside the largest number of the first one."""
    if a["shape"] != b["shape"]:
        return float("inf")
    largest = max(map(abs, a["state"]), default=0.0) or 1.0
    return max((abs(x - y) for x, y in zip(a["state"], b["state"], strict=True)), default=0.0) / largest


def see(program: dict[str, Any], with_tests: bool) -> dict[str, Any]:
    """Install a program, run it with both packages, and return what its row says."""
    python = environment(program)
    seen = {package: steps(python, package, program) for package in PACKAGES}
    row: dict[str, Any] = {"versions": versions(python, program)}
    for package, found in seen.items():
        row[package] = {name: found[name] for name in ("first", "step", "failed") if name in found}
    if not any("failed" in found for found in seen.values()):
        row["difference"] = difference(seen["warp"], seen["jaxwarp"])
    if with_tests and "tests" in program:
        names = {package: set(passed(python, package, program)) for package in PACKAGES}
        row["tests"] = {"warp": len(names["warp"]), "both": len(names["warp"] & names["jaxwarp"])}
    return row


def _seconds(found: dict[str, Any], name: str) -> str:
    if name not in found:
        return "fails"
    value = found[name]
    return f"{value:.1f} s" if name == "first" else f"{1000.0 * value:.3g} ms"


def _result(program: dict[str, Any], row: dict[str, Any]) -> str:
    if "failed" in row["jaxwarp"]:
        return "fails"
    if "difference" not in row:
        return "runs; fails on Warp"
    if row["difference"] == 0.0:
        return "the same"
    is_near = row["difference"] <= program["within"]
    return f"within {row['difference']:.0e}" if is_near else f"**differs by {row['difference']:.0e}**"


def table(rows: dict[str, Any]) -> str:
    """The rows of the page. A program that has not been run is not in it."""
    lines = [
        "| program | versions | model | state | own tests, of Warp's | first step, on Warp | step, on Warp |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for program in programs():
        row = rows.get(program["name"])
        if row is None:
            continue
        tests = f"{row['tests']['both']} of {row['tests']['warp']}" if "tests" in row else ""
        times = [f"{_seconds(row['jaxwarp'], n)}, {_seconds(row['warp'], n)}" for n in ("first", "step")]
        cells = [program["name"], row["versions"], program["what"], _result(program, row), tests, *times]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def written(page: str, rows: dict[str, Any]) -> str:
    """The page with a table of these rows."""
    before, rest = page.split(BEGIN, 1)
    return f"{before}{BEGIN}\n{table(rows)}\n{END}{rest.split(END, 1)[1]}"


def main(options: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names of programs, with commas between them")
    parser.add_argument("--tests", action="store_true", help="run the programs' own tests, too")
    chosen = parser.parse_args(options)
    names = [program["name"] for program in programs()]
    wanted = chosen.only.split(",") if chosen.only else names
    unknown = [name for name in wanted if name not in names]
    if unknown:
        parser.error(f"--only: expected some of {', '.join(names)}, got {', '.join(unknown)}")
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for program in programs():
        if program["name"] in wanted:
            row = see(program, chosen.tests)
            if "tests" not in row and "tests" in rows.get(program["name"], {}) and not chosen.tests:
                row["tests"] = rows[program["name"]]["tests"]
            rows[program["name"]] = row
            print(program["name"], json.dumps(row), flush=True)
            RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
    PAGE.write_text(written(PAGE.read_text(), rows))
    return int(any("failed" in rows[name]["jaxwarp"] for name in wanted))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
