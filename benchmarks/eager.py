"""Large launches outside of JAX beside the jitted call of the same kernel, on the CPU.

    python benchmarks/eager.py [--rounds 21]

`launch` on dense arrays, on every second column of a wider one (which is copied together first), and under a `Tape`;
all in one process and in turn, checked once. Medians and quartiles; writes results/eager.json.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import measure
import numpy as np

import jaxwarp as wp

N = 1_000_000


@wp.kernel
def waves(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    s = 0.0
    for k in range(8):
        s += wp.sin(x[i] * float(k)) * wp.cos(x[i] + float(k))
    y[i] = s


def ways() -> dict[str, Callable[[], object]]:
    """What is timed; each has given the same result."""
    host = np.linspace(-3, 3, N).astype(np.float32)
    call, given = jax.jit(lambda x: wp.jax_kernel(waves)(x)[0]), jnp.asarray(host)
    x, y, wide = wp.array(host), wp.zeros(N), wp.array(np.repeat(host[:, None], 2, 1))
    strided = wide[:, 1]

    def taped() -> None:
        with wp.Tape():
            wp.launch(waves, N, [x], [y])

    made: dict[str, Callable[[], object]] = {
        "jitted": lambda: call(given).block_until_ready(),
        "launch": lambda: wp.launch(waves, N, [x], [y]),
        "launch, strided": lambda: wp.launch(waves, N, [strided], [y]),
        "launch under a tape": taped,
    }
    expected = np.asarray(call(given))
    for name, run in made.items():
        y.zero_()
        run()
        if name != "jitted":
            np.testing.assert_array_equal(y.numpy(), expected)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21)
    rounds = parser.parse_args().rounds
    contenders = [measure.Contender(name, run, 1) for name, run in ways().items()]
    found = measure.scale(measure.interleave(contenders, rounds), 1e3)
    measure.table(f"{N} threads, milliseconds", found)
    measure.write("eager", {"threads": N, "launch_ms": found})


if __name__ == "__main__":
    main()
