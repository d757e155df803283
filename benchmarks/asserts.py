"""What an `assert` costs: a kernel that copies 16 MB, with and without it, in turns, on one core.

    python benchmarks/asserts.py [--rounds 15]

It stands last in a kernel that only copies, where nothing hides it; before an index that only the assertion keeps in
range; and in a kernel that also computes a sine. At last a launch of 16 numbers outside of JAX, which has to wait for
its threads. Medians of processor time in milliseconds, and the ratio to the kernel without the `assert`. It takes 10
seconds.
"""

# ruff: noqa: ARG001  (all kernels take the same arguments)

from __future__ import annotations

import argparse
import os
import time
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
if hasattr(os, "sched_setaffinity"):  # before XLA makes its threads
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])

import measure
import numpy as np

import jaxwarp as wp

COUNT = 1 << 21  # floats: 8 MB read, 8 MB written


@wp.kernel
def copy(x: wp.array[float], at: wp.array[int], out: wp.array[float]):
    i = wp.tid()
    out[i] = x[i]


@wp.kernel
def copy_with_assert(x: wp.array[float], at: wp.array[int], out: wp.array[float]):
    i = wp.tid()
    out[i] = x[i]
    assert x[i] < 2.0


@wp.kernel
def gather(x: wp.array[float], at: wp.array[int], out: wp.array[float]):
    i = wp.tid()
    out[i] = x[at[i]]


@wp.kernel
def gather_after_assert(x: wp.array[float], at: wp.array[int], out: wp.array[float]):
    i = wp.tid()
    k = at[i]
    assert k < x.shape[0]
    out[i] = x[k]


@wp.kernel
def sine(x: wp.array[float], at: wp.array[int], out: wp.array[float]):
    i = wp.tid()
    out[i] = wp.sin(wp.exp(x[i]))


@wp.kernel
def sine_with_assert(x: wp.array[float], at: wp.array[int], out: wp.array[float]):
    i = wp.tid()
    out[i] = wp.sin(wp.exp(x[i]))
    assert x[i] < 2.0


PAIRS = {
    "copies": (copy, copy_with_assert),
    "gathers": (gather, gather_after_assert),
    "sines": (sine, sine_with_assert),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    random = np.random.default_rng(0)
    for count, names in ((COUNT, PAIRS), (16, ("copies",))):
        x = wp.array(random.random(count, np.float32))
        at, out = wp.array(np.arange(count, dtype=np.int32)), wp.zeros(count, dtype=float)

        def run(kernel: Any, count: int = count, arrays: tuple[Any, ...] = (x, at, out)) -> None:
            wp.launch(kernel, dim=count, inputs=list(arrays[:2]), outputs=[arrays[2]])
            wp.synchronize()

        for name in names:
            plain, checked = PAIRS[name]
            contenders = [measure.Contender(k.__name__, lambda k=k: run(k), 1) for k in (plain, checked)]
            times = measure.timed(contenders, options.rounds, time.process_time)
            measure.table(f"{name} of {count}", {n: measure.figure(s).times(1e3) for n, s in times.items()})
            (ratio,) = measure.ratios(times, plain.__name__).values()
            print(f"  with over without: {ratio}")


if __name__ == "__main__":
    main()
