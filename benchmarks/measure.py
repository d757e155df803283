"""What the benchmarks share: contenders in turn, medians with spread, tables, results as JSON."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import jaxlib
import numpy as np

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Figure:
    """Several measurements: the median, the quartiles around it, the least (which others disturb least)."""

    median: float
    low: float
    high: float
    least: float

    def __str__(self) -> str:
        return f"{self.median:8.3g}  [{self.low:.3g}, {self.high:.3g}]  {self.least:.3g}"

    def times(self, factor: float) -> Figure:
        return Figure(*(factor * x for x in (self.median, self.low, self.high, self.least)))


@dataclass(frozen=True)
class Contender:
    """Something to time. `run()` does its work `count` times and waits for it."""

    name: str
    run: Callable[[], Any]
    count: int


def interleave(contenders: Sequence[Contender], rounds: int) -> dict[str, Figure]:
    """Seconds per unit of work of each contender."""
    return {name: figure(values) for name, values in timed(contenders, rounds).items()}


def timed(
    contenders: Sequence[Contender], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds per unit of work of each contender, round by round.

    All are run once first, unmeasured; then each once a round, so that a busy moment of the machine hits all alike.
    """
    times: dict[str, list[float]] = {c.name: [] for c in contenders}
    for contender in contenders:
        contender.run()
    for _ in range(rounds):
        for contender in contenders:
            began = clock()
            contender.run()
            times[contender.name].append((clock() - began) / contender.count)
    return times


def ratios(times: dict[str, list[float]], base: str) -> dict[str, Figure]:
    """How many times as long as `base` each of the others took, compared within each round."""
    others = [name for name in times if name != base]
    return {n: figure([a / b for a, b in zip(times[n], times[base], strict=True)]) for n in others}


def figure(values: Sequence[float]) -> Figure:
    low, median, high = np.quantile(values, (0.25, 0.5, 0.75))
    return Figure(float(median), float(low), float(high), min(values))


def scale(found: dict[str, Figure], by: float) -> dict[str, Figure]:
    return {name: f.times(by) for name, f in found.items()}


def table(title: str, found: dict[str, Figure]) -> None:
    """Prints figures under each other: median, quartiles in brackets, least."""
    width = max(map(len, found))
    print(f"\n{title}: median [quartiles] least")
    for name, value in found.items():
        print(f"  {name:<{width}}  {value}")


def environment() -> dict[str, Any]:
    """What the figures depend on."""
    device = jax.devices()[0]
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "device": device.device_kind,
        "platform": device.platform,
        "processor": processor(),
        "cores": cores(),
        "load": os.getloadavg()[0],  # above the number of cores, other programs are in the figures
        "python": platform.python_version(),
        "jax": jax.__version__,
        "jaxlib": jaxlib.__version__,
        "numpy": np.__version__,
    }


def processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def write(name: str, results: dict[str, Any]) -> Path:
    """Keeps results beside this file, as JSON."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    plain = json.dumps({"environment": environment(), **results}, indent=2, default=_plain)
    path.write_text(plain + "\n")
    print(f"\nwrote {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    return path


def _plain(value: Any) -> Any:
    if isinstance(value, Figure):
        return {"median": value.median, "quartiles": [value.low, value.high], "least": value.least}
    raise TypeError(f"{value!r} is not a result")


def packages() -> dict[str, Any]:
    """Return jaxwarp, and NVIDIA Warp if it is installed, by their names."""
    import jaxwarp

    found: dict[str, Any] = {"jaxwarp": jaxwarp}
    try:
        import warp

        warp.config.quiet = True
        found["Warp"] = warp
    except ImportError:
        print("NVIDIA Warp is not installed: no peer")
    return found
