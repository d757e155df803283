"""Sections of a report: functions that yield rows, run in processes with a bound on their time; their files; tables."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Setup:
    """What a section is told.

    Attributes:
        folder: where files go.
        is_dry: there is no GPU.
        is_small: on little data, for checks and not for figures; a dry run is.
        only: kernels to look at; none: all.
        seconds: that the section has.
    """

    folder: str
    is_dry: bool = False
    is_small: bool = False
    only: tuple[str, ...] = ()
    seconds: float = 600.0


@dataclass(frozen=True)
class Section:
    """A part of the report.

    Attributes:
        name: of its file, too.
        function: "module:function", from a Setup to rows.
        seconds: that it has at most.
    """

    name: str
    function: str
    seconds: float


def tried(head: Row, rows: Callable[[], Iterator[Row]]) -> Iterator[Row]:
    """The rows; an error is one, too."""
    try:
        yield from rows()
    except Exception as error:
        yield {**head, "failed": reason(error)}


def reason(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200] if lines else ''}"


def run_all(sections: Sequence[Section], setup: Setup, seconds: float) -> list[Row]:
    """Runs sections while there is time, and returns what their files hold."""
    end, done = time.monotonic() + seconds, []
    try:
        for section in sections:
            done.append(section)
            _run(section, setup, min(section.seconds, end - time.monotonic()))
    finally:
        found = [read(setup, section.name) for section in done]
        print_tables(found)
        keep(Path(setup.folder) / "report.json", {"sections": found})
    return found


def _run(section: Section, setup: Setup, seconds: float) -> None:
    path, began = path_of(setup, section.name), time.monotonic()
    status = "did not start" if seconds > 0 else "not begun: no time was left"
    keep(path, {"section": section.name, "status": status, "rows": []})
    if seconds <= 0:
        return
    print(f"\n== {section.name}, {seconds:.0f} s at most", flush=True)
    given = json.dumps(asdict(replace(setup, seconds=seconds)))
    command = [sys.executable, "-u", "-m", "gpu_report.child", section.name, section.function, given]
    process = subprocess.Popen(command, env=_environment(setup), start_new_session=True)
    status = "ended with the report"
    try:
        code = process.wait(timeout=seconds)
        status = "died of " + signal.Signals(-code).name if code < 0 else ""
    except subprocess.TimeoutExpired:
        status = f"cut off after {seconds:.0f} s"
    finally:
        _kill(process)
        found = read(setup, section.name)
        keep(path, {**found, "status": status or found["status"], "seconds": round(time.monotonic() - began, 1)})


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The process, and those that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _environment(setup: Setup) -> dict[str, str]:
    # Memory as it is needed: other programs of the report are on the device, too.
    found = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **os.environ}
    if setup.is_dry:
        found["JAX_PLATFORMS"] = "cpu"
        # Programs that run once are not worth more.
        found["XLA_FLAGS"] = f"{found.get('XLA_FLAGS', '')} --xla_backend_optimization_level=0"
    return found


def path_of(setup: Setup, name: str) -> Path:
    return Path(setup.folder) / f"{name}.json"


def read(setup: Setup, name: str) -> Row:
    """What the file of a section holds; nothing, if it has none."""
    path = path_of(setup, name)
    return json.loads(path.read_text()) if path.exists() else {"section": name, "status": "has not run", "rows": []}


def keep(path: Path, data: Row) -> None:
    """As JSON. Who reads it meanwhile has it as it was or as it will be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(data, indent=1, default=str) + "\n")
    part.replace(path)


def print_tables(found: Sequence[Row]) -> None:
    for section in found:
        print(f"\n{section['section']}: {section['status']}, {section.get('seconds', 0)} s")
        for line in _lines(section["rows"]):
            print("  " + line)
    sys.stdout.flush()


def _lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Rows of the same keys under each other."""
    names = list(dict.fromkeys(name for row in rows for name in row if name != "failed"))
    cells = [names, *([shown(row.get(name)) for name in names] for row in rows)]
    widths = [max(len(line[k]) for line in cells) for k in range(len(names))]
    failed = ["", *(f"  FAILED {row['failed']}" if "failed" in row else "" for row in rows)]
    for line, more in zip(cells, failed, strict=True):
        yield ("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) + more).rstrip()


def shown(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
