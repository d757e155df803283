"""Launches of hand-written kernels inside JAX programs, on XLA's pool of four threads. Run by test_native_cpu.py."""

import ctypes
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from jaxwarp.launches import image
from jaxwarp.native import library

sys.path.insert(0, str(Path(__file__).parents[1]))

from waiting import wait_until

with tempfile.TemporaryDirectory() as folder:
    so = Path(folder) / "kernels.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", Path(__file__).parent / "kernels.c", "-o", so], check=True)
    kernels = ctypes.CDLL(str(so))

loads = []


def load(payload, digest, symbol):
    loads.append((payload, symbol, threading.current_thread().name))
    time.sleep(0.05)  # others come to ask for the same image meanwhile
    if payload == b"bad":
        raise ValueError("no such kernel")
    return ctypes.cast(getattr(kernels, symbol), ctypes.c_void_p).value


def integers(*values):
    return np.array(values, np.int64)


def launch(symbol, result, *operands, grain=256, zero=(), code=b"code"):
    """Launches a kernel over the shape of its only result."""
    rank, number = result.ndim, len(operands)
    ranks = [x.ndim for x in operands] + [rank]
    call = jax.ffi.ffi_call(library.TARGET, jax.ShapeDtypeStruct(result.shape, result.dtype))
    attributes = {
        "name": symbol,
        "symbol": symbol,
        "image": image.pack_image(image.CPU, code),
        "buffers": integers(*range(number + 1)),
        "ranks": integers(*ranks),
        "grid": integers(*[-1] * rank),
        "grid_from": integers(*[x for axis in range(rank) for x in (number, axis)]),
        "geometry": integers(-1, rank - 1),
        "zero": integers(*zero),
        "grain": np.int64(grain),
        "block": np.int64(256),
        "blocks": np.int64(1),
        "index_bits": np.int64(32),
    }
    return call(*operands, **image.sealed(attributes))


def add_one(x, grain=256):
    return launch("add_one", x, x, grain=grain)


def check_counting():
    for shape in [(5,), (100_000,), (3, 50_001), (7, 11, 300)]:
        counted = jax.jit(lambda shape=shape: launch("count", jnp.zeros(shape, jnp.int32), zero=[0]))()
        np.testing.assert_array_equal(counted, 1)
    assert [symbol for _, symbol, _ in loads] == ["count"]


def check_programs_compiled_at_once():
    x = jnp.arange(3000.0)
    programs = [jax.jit(lambda x, k=k: add_one(x * k)) for k in range(8)]
    results = [None] * 8

    def run(k):
        results[k] = np.asarray(programs[k](x))

    threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, result in enumerate(results):
        np.testing.assert_array_equal(result, np.arange(3000.0, dtype=np.float32) * k + 1)
    assert [symbol for _, symbol, _ in loads].count("add_one") == 1


def check_chains():
    """Chains of jnp operations and launches, all parallel: workers of the pool run launches and help with others."""

    @jax.jit
    def program(xs):
        for _ in range(6):
            xs = [add_one(jnp.tanh(x) @ jnp.eye(64)) for x in xs]
        return sum(xs)

    xs = [jnp.full((256, 64), 0.1 * k) for k in range(12)]
    expected = None
    for _ in range(30):
        result = np.asarray(program(xs))
        expected = result if expected is None else expected
        np.testing.assert_allclose(result, expected, rtol=1e-5)
    threads = [
        threading.Thread(target=lambda: jax.block_until_ready([program(xs) for _ in range(10)])) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def check_errors():
    try:
        jax.jit(lambda: launch("count", jnp.zeros(3, jnp.int32), code=b"bad"))()
        message = "nothing"
    except jax.errors.JaxRuntimeError as error:
        message = str(error)
    expected = "jaxwarp: kernel 'count': the code image could not be loaded: ValueError: no such kernel"
    if expected not in message:
        raise AssertionError(message)


def check_states_end_with_their_programs():
    def are_alive(count):
        wait_until(lambda: library.counter("live_states") == count)

    jax.clear_caches()
    are_alive(0)
    program = jax.jit(lambda x: add_one(add_one(x) * 3)).lower(jnp.zeros(7)).compile()
    are_alive(2)
    del program
    are_alive(0)


def print_overhead(trips=20_000):
    """Not an assertion: the machine may be busy."""
    x = jnp.zeros(16)
    times = {}
    for name, step in {"x + 1": lambda x: x + 1, "launch": partial(add_one, grain=1024)}.items():
        program = jax.jit(lambda x, step=step: jax.lax.fori_loop(0, trips, lambda _, x: step(x), x))
        jax.block_until_ready(program(x))
        best = min(timed(program, x) for _ in range(10))
        times[name] = f"{best / trips * 1e9:.0f} ns"
    print("one trip of a fori_loop over 16 floats:", times)


def timed(program, x):
    start = time.perf_counter()
    jax.block_until_ready(program(x))
    return time.perf_counter() - start


if __name__ == "__main__":
    library.register(load, lambda _: None)
    library.register(load, lambda _: None)
    check_counting()
    check_programs_compiled_at_once()
    check_chains()
    check_errors()
    check_states_end_with_their_programs()
    print_overhead()
