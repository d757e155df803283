"""What debug mode costs: the kernels of cpu.py with and without it, in turns, in one process.

    python benchmarks/debug.py [--checks bounds] [--small]

For each, the least time of a launch in debug mode over the least in release mode.
The geometric mean of what testing indices costs is at most 2.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from cpu_cases import Case, make_cases

import jaxwarp as wp

_TURNS, _SECONDS = 5, 0.2


def compiled(case: Case, checks: tuple[str, ...] | None) -> Callable[..., Any]:
    """The case's launch; in debug mode with these checks, in release mode with None."""
    wp.config.mode = "release" if checks is None else "debug"
    if checks is not None:
        wp.config.checks = checks
    arrays = [jnp.asarray(a) for a in case.arrays]
    program = jax.jit(case.ours).lower(*arrays).compile()
    return lambda: jax.block_until_ready(program(*arrays))


def least(functions: list[Callable[[], Any]]) -> list[float]:
    """The least time of a call of each, taken in turns."""
    best = [math.inf] * len(functions)
    for _ in range(_TURNS):
        for i, function in enumerate(functions):
            end = time.perf_counter() + _SECONDS / _TURNS
            while True:
                start = time.perf_counter()
                function()
                now = time.perf_counter()
                best[i] = min(best[i], now - start)
                if now > end:
                    break
    return best


def ratios(small: bool, checks: list[tuple[str, ...]]) -> dict[str, list[float]]:
    """Of each case, the time with each choice of checks over that without."""
    found: dict[str, list[float]] = {}
    for case in make_cases(small):
        with jax.enable_x64(case.real is np.float64):
            functions = [compiled(case, chosen) for chosen in (None, *checks)]
            results = [np.asarray(function()) for function in functions]
            for result in results[1:]:
                np.testing.assert_array_equal(result, results[0], err_msg=case.name)
            released, *others = least(functions)
        found[case.name] = [t / released for t in others]
        print(f"{case.name:16}" + "".join(f"{r:8.2f}" for r in found[case.name]), flush=True)
    return found


def main() -> None:
    """Prints the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checks", action="append", help="some, with commas between them; by default: bounds, and all")
    parser.add_argument("--small", action="store_true", help="small data")
    options = parser.parse_args()
    checks = [tuple(c.split(",")) for c in options.checks or ("bounds", ",".join(wp.config.CHECKS))]
    print(f"{'':16}" + "".join(f"{'all' if len(c) > 3 else ','.join(c):>8}" for c in checks))
    found = ratios(options.small, checks)
    means = np.exp(np.mean(np.log(np.array(list(found.values()))), axis=0))
    print(f"{'geometric mean':16}" + "".join(f"{m:8.2f}" for m in means))


if __name__ == "__main__":
    main()
