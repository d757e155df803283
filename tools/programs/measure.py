"""Run a model of tools/programs, or pytest, with `warp` being Warp or jaxwarp; `tools/programs.py` starts it.

    python measure.py warp|jaxwarp MODEL STEPS OUT     write the times of steps, and the state after STEPS of them
    python measure.py warp|jaxwarp pytest ARGUMENTS    run tests
"""

import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Model = tuple[Callable[[], None], Callable[[], Any]]
"""What makes a step, and what reads the state."""

TIMED = 20
"""How many steps are timed, after those whose state is compared."""


def choose(package: str) -> None:
    """Let `import warp` give a package."""
    if package == "jaxwarp":
        import jaxwarp

        jaxwarp.install_as_warp()
    import warp

    warp.config.quiet = True


def measure(model: str, steps: int) -> dict[str, object]:
    """Return the seconds of the first step, with what is imported and compiled, and of later ones, and the state."""
    begin = time.perf_counter()
    step, read = importlib.import_module(Path(model).stem).build()
    step()
    first = time.perf_counter() - begin
    for _ in range(steps - 1):
        step()
    state = read()
    times = []
    for _ in range(TIMED):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return {"first": first, "step": statistics.median(times), "shape": state.shape, "state": state.ravel().tolist()}


def main() -> int:
    package, what, *rest = sys.argv[1:]
    choose(package)
    if what == "pytest":
        import pytest

        return pytest.main(rest)
    steps, out = rest
    Path(out).write_text(json.dumps(measure(what, int(steps))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
