"""Calls from eight threads at once, of everything that goes through the native library. Run by tools/sanitize.py.

Results are checked: with a number, how many calls there are in all.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

import jaxwarp as wp
from jaxwarp import GraphMode, jax_callable, jax_kernel

THREADS = 8


@wp.kernel
def scale(x: wp.array[float], s: float, y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * s


@wp.kernel
def histogram(x: wp.array[float], bins: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(bins, i % 7, x[i])


def twice(x: wp.array[float], y: wp.array[float]):
    between = wp.empty_like(x)
    wp.launch(scale, x.shape, [x, 2.0], [between])
    wp.launch(scale, x.shape, [between, 2.0], [y])


def kernel_of(factor: int) -> wp.Kernel:
    @wp.kernel
    def scaled(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = x[i] * wp.static(float(factor))

    return scaled


scale_by, bins_of = jax_kernel(scale), jax_kernel(histogram, launch_dims=100_000, output_dims=7)
recorded = jax_callable(twice, graph_mode=GraphMode.WARP)
in_python = jax_callable(twice, graph_mode=GraphMode.NONE)
shared = jax.jit(lambda x, s: scale_by(x, s)[0])
large = jax.jit(lambda x: bins_of(x)[0])
loop = jax.jit(lambda x: jax.lax.fori_loop(0, 20, lambda _, c: recorded(c)[0] * 0.25, x))
python = jax.jit(lambda x: in_python(x)[0])


def compiled_alike(x: jax.Array, n: int) -> None:
    """A program of each thread's own, made at the same time as others of the same code."""
    program = jax.jit(lambda x: jax_kernel(kernel_of(n))(x)[0])
    np.testing.assert_array_equal(program(x), np.asarray(x) * n)


def eager(x: jax.Array, n: int) -> None:
    array = wp.array(np.asarray(x))
    out = wp.empty_like(array)
    wp.launch(scale, array.shape, [array, float(n)], [out])
    np.testing.assert_array_equal(out.numpy(), np.asarray(x) * n)


def eager_on_all_cores(x: jax.Array, n: int) -> None:
    array = wp.array(np.arange(300_000, dtype=np.float32))
    out = wp.empty_like(array)
    wp.launch(scale, array.shape, [array, float(n)], [out])
    np.testing.assert_array_equal(out.numpy(), array.numpy() * n)


def all_at_once(x: jax.Array, n: int) -> None:
    ones = jnp.ones(100_000, jnp.float32)
    expected = [len(range(k, 100_000, 7)) for k in range(7)]
    np.testing.assert_array_equal(large(ones), expected)


CALLS: list[Callable[[jax.Array, int], None]] = [
    lambda x, n: np.testing.assert_array_equal(shared(x, float(n)), np.asarray(x) * n),
    lambda x, n: np.testing.assert_array_equal(loop(x), x),
    lambda x, n: np.testing.assert_array_equal(python(x), np.asarray(x) * 4),
    eager,
    eager_on_all_cores,
    all_at_once,
]


def work(number: int, count: int, start: threading.Barrier, failures: list[BaseException]) -> None:
    x = jnp.arange(50.0 + number)
    start.wait()
    try:
        for n in range(count):
            if n % 25 == 0:
                compiled_alike(x, n + 2)
            else:
                CALLS[(n + number) % len(CALLS)](x, n)
    except BaseException as error:
        failures.append(error)
        raise


def main() -> None:
    count = int(sys.argv[1])
    start, failures = threading.Barrier(THREADS), []
    threads = [threading.Thread(target=work, args=(i, count // THREADS, start, failures)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise SystemExit(f"{len(failures)} threads failed")
    print(count // THREADS * THREADS, "calls from", THREADS, "threads")


if __name__ == "__main__":
    main()
