"""What launches cost: many small ones, graphs, and the first of a process."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxwarp as wp
from gpu_report.by_hand import over
from gpu_report.kernels import ROUNDS, by_hand
from gpu_report.sections import Row, Setup, tried
from jaxwarp.native.library import counter

NODES, ELEMENTS = 100, 16
LAUNCHES, REPLAYS = 20, 50  # of `capture`


@wp.kernel
def increment(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] + 1.0


def increments(x: wp.array[float], n: int, out: wp.array[float]):
    here, there = wp.clone(x), wp.empty_like(x)
    for _ in range(n):
        wp.launch(increment, x.shape, [here], [there])
        here, there = there, here
    wp.copy(out, here)


@wp.kernel
def increment_in_place(x: wp.array[float]):
    i = wp.tid()
    x[i] = x[i] + 1.0


Many = Callable[[jax.Array], jax.Array]


def launch(setup: Setup) -> Iterator[Row]:
    """Microseconds of each of a hundred launches that follow each other."""
    ways: dict[str, Callable[[], Any]] = {
        "eager": lambda: _many(NODES),
        "jit, command buffers": lambda: _compiled(_many(NODES)),
        "jit, no command buffers": lambda: _compiled(_many(NODES), xla_gpu_enable_command_buffer=""),
        "jax.numpy, jit": lambda: _compiled(_loop(lambda x: x + 1, 1)),
        # An iteration is also a kernel that counts and, where the launch writes a new array, a copy of that.
        "fori_loop, a copy an iteration": lambda: _compiled(_loop(_next, 1)),
        "fori_loop, in place": lambda: _compiled(_loop(_next_in_place, 1)),
        "fori_loop, in place, a graph an iteration": lambda: _compiled(
            _loop(_next_in_place, 1), xla_gpu_graph_min_graph_size=1
        ),
        "fori_loop, unroll 10": lambda: _compiled(_loop(_next, 10)),
        "GraphMode.WARP": lambda: _compiled(_callable(wp.GraphMode.WARP)),
        "GraphMode.NONE": lambda: _compiled(_callable(wp.GraphMode.NONE)),
        "wp.launch on arrays outside of JAX": lambda: _outside("cpu" if setup.is_dry else "cuda:0"),
        "by hand": lambda: _hand(setup),
    }
    for name, way in ways.items():
        yield from tried({"way": name}, functools.partial(_cost, setup, name, way))


def _cost(setup: Setup, name: str, way: Callable[[], Many]) -> Iterator[Row]:
    run, zero = way(), jnp.zeros(ELEMENTS)
    np.testing.assert_array_equal(np.asarray(run(zero)), np.full(ELEMENTS, NODES))
    seconds = []
    for _ in range(1 if setup.is_small else 3 * ROUNDS):
        began = time.perf_counter()
        jax.block_until_ready(run(zero))
        seconds.append(time.perf_counter() - began)
    yield {"way": name, "us_per_node": 1e6 * float(np.median(seconds)) / NODES}


_call = wp.jax_kernel(increment)


def _next(x: jax.Array) -> jax.Array:
    return _call(x)[0]


_call_in_place = wp.jax_kernel(increment_in_place, in_out_argnames=["x"])


def _next_in_place(x: jax.Array) -> jax.Array:
    return _call_in_place(x)[0]


def _many(launches: int) -> Many:
    return lambda x: functools.reduce(lambda y, _: _next(y), range(launches), x)


def _loop(step: Many, unroll: int) -> Many:
    return lambda x: jax.lax.fori_loop(0, NODES, lambda _, c: step(c), x, unroll=unroll)


def _callable(mode: wp.GraphMode, launches: int = NODES) -> Many:
    return lambda x: wp.jax_callable(increments, graph_mode=mode)(x, launches)[0]


def _compiled(function: Many, **options: Any) -> Many:
    return jax.jit(function).lower(jnp.zeros(ELEMENTS)).compile(compiler_options=options or None)


def _outside(device: str) -> Many:
    x, y = wp.zeros(ELEMENTS, dtype=float, device=device), wp.zeros(ELEMENTS, dtype=float, device=device)

    def run(_: jax.Array) -> Any:
        x.zero_()
        for _ in range(NODES // 2):
            wp.launch(increment, ELEMENTS, [x], [y], device=device)
            wp.launch(increment, ELEMENTS, [y], [x], device=device)
        wp.synchronize()
        return x.numpy()

    return run


def _hand(setup: Setup) -> Many:
    hand, (x, y) = by_hand(setup), (jnp.zeros(ELEMENTS), jnp.zeros(ELEMENTS))
    jax.block_until_ready((x, y))
    place = over((ELEMENTS,))

    def run(_: jax.Array) -> Any:
        hand.clear(x)
        for _ in range(NODES // 2):
            hand.launch("increment", place, {"x": x, "y": y, "n": ELEMENTS})
            hand.launch("increment", place, {"x": y, "y": x, "n": ELEMENTS})
        hand.wait()
        return np.array(x)

    return run


def capture(setup: Setup) -> Iterator[Row]:
    """What is captured is not executed again: numbers that the handlers count."""
    del setup
    ways = {
        "XLA's graphs": lambda: _compiled(_many(LAUNCHES)),
        "XLA, a launch alone": lambda: _compiled(_next),
        "XLA, a launch alone, graphs of one": lambda: _compiled(_next, xla_gpu_graph_min_graph_size=1),
        "GraphMode.WARP": lambda: _compiled(
            lambda x: wp.jax_callable(increments, graph_mode=wp.GraphMode.WARP)(x, LAUNCHES)[0]
        ),
    }
    for name, way in ways.items():
        yield from tried({"way": name}, functools.partial(_counted, name, way))


def _counted(name: str, way: Callable[[], Many]) -> Iterator[Row]:
    program, names = way(), ("executions", "captures", "graph_launches", "graph_updates")
    before = [counter(n) for n in names]
    for k in range(REPLAYS):
        out = np.asarray(program(jnp.full(ELEMENTS, float(k))))
        launches = out[0] - k
        if not (out == out[0]).all() or launches not in (1, LAUNCHES):
            raise AssertionError(f"replay {k} gives {out[:4]}")
    counted = {n: counter(n) - b for n, b in zip(names, before, strict=True)}
    yield {"way": name, "launches": int(launches), "replays": REPLAYS, **counted}


_STEPS = """
import json, time
marks, began = {}, time.perf_counter()
def mark(name):
    global began
    marks[name], began = time.perf_counter() - began, time.perf_counter()
import jax, jax.numpy as jnp
x = jnp.zeros(1000).block_until_ready()
mark("jax, and its device")
import jaxwarp as wp
from sass.programs import lbm2 as kernel
mark("jaxwarp")
from jaxwarp.passes.pipeline import prepare
prepare(kernel.specialize())
mark("frontend")
call = jax.jit(wp.jax_kernel(kernel, launch_dims=(64, 128), output_dims=(9, 64, 128)))
f, omega = jnp.ones((9, 64, 128)), jnp.float32(1.6)
jax.block_until_ready((f, omega))
mark("inputs")
lowered = call.lower(f, omega)
mark("lowering and machine code")
compiled = lowered.compile()
mark("XLA and loading")
jax.block_until_ready(compiled(f, omega))
mark("first run")
jax.block_until_ready(compiled(f, omega))
mark("second run")
print(json.dumps(marks))
"""


def first_call(setup: Setup) -> Iterator[Row]:
    """Milliseconds of a new kernel's first call, by stage, in two processes: the second finds the code in the cache."""
    yield from tried({"stage": "NVRTC"}, functools.partial(_nvrtc, setup))
    with tempfile.TemporaryDirectory() as cache:
        found = [_stages(cache) for _ in range(2)]
    for stage in found[0]:
        cold, warm = (1e3 * marks[stage] for marks in found)
        yield {"stage": stage, "cold_ms": cold, "warm_ms": warm}


def _nvrtc(setup: Setup) -> Iterator[Row]:
    """Not through the cache."""
    from sass.programs import lbm2

    architecture = by_hand(setup).architecture
    lbm2.specialize()
    began = time.perf_counter()
    lbm2.resources(architecture, dim=(64, 128), shapes={"f": (9, 64, 128), "g": (9, 64, 128)})
    yield {"stage": f"NVRTC, sm_{architecture}", "cold_ms": 1e3 * (time.perf_counter() - began)}


def _stages(cache: str) -> dict[str, float]:
    environment = {**os.environ, "JAXWARP_CACHE_DIR": cache}
    done = subprocess.run(
        [sys.executable, "-c", _STEPS], capture_output=True, text=True, env=environment, check=False, timeout=120
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout.splitlines()[-1])
