"""What a launch costs: 16 floats in a jitted loop and called eagerly, beside the alternatives.

    python benchmarks/launch.py [--rounds 15]

Contenders: jaxwarp, the same with a kernel whose code is over 200 kB, plain jax.numpy (which XLA compiles into the
loop: the floor), jax.pure_callback, and NVIDIA Warp's jax_kernel where `warp-lang` is installed. All compute x + 1 and
are checked before they are timed. Interleaved; medians and quartiles. Writes results/launch.json.
"""

from __future__ import annotations

import argparse
import linecache
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import measure
import numpy as np

import jaxwarp as wp
from jaxwarp.ffi.lowering import call_attributes
from jaxwarp.ffi.primitive import launch_p
from jaxwarp.launches.image import unpack_image
from jaxwarp.native.library import counter

N = 16
BIG_CODE = 200_000  # bytes
SHORT_LOOP = 1000
LOOPS = {"jaxwarp": 200_000, "jax.numpy": 400_000, "pure_callback": 300, "Warp jax_kernel": 1000}
EAGER = {"pure_callback": 100, "Warp jax_kernel": 20}

Call = Callable[[Any], Any]


@wp.kernel
def increment(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] + 1.0


def big_kernel(lines: int) -> Any:
    """`increment` with a long branch that no thread takes."""
    text = [
        "@wp.kernel",
        "def increment_big(x: wp.array[float], y: wp.array[float]):",
        "    i = wp.tid()",
        "    v = x[i]",
        "    if v < -1.0e30:",
        *(f"        v = wp.sin(v * {1 + k / 1000}) + wp.exp(v - {k})" for k in range(lines)),
        "    y[i] = v + 1.0",
    ]
    name = f"<increment_big of {lines} lines>"
    linecache.cache[name] = (1, None, [line + "\n" for line in text], name)
    scope = {"wp": wp}
    exec(compile("\n".join(text), name, "exec"), scope)
    return scope["increment_big"]


def code_size(call: Call) -> int:
    """Bytes of code that a launch carries."""
    jaxpr = jax.make_jaxpr(call)(jnp.zeros(N))
    (equation,) = [e for e in jaxpr.jaxpr.eqns if e.primitive is launch_p]
    image = call_attributes(equation.params["launch"], [(N,)], "cpu")["image"]
    return len(unpack_image(image)[1])


def warp_call() -> Call | None:
    """The same kernel through NVIDIA Warp, if it is installed."""
    try:
        import warp
    except ImportError:
        return None
    warp.config.quiet = True
    warp.init()
    source = (
        "@warp.kernel\n"
        "def increment_warp(x: warp.array(dtype=float), y: warp.array(dtype=float)):\n"
        "    i = warp.tid()\n"
        "    y[i] = x[i] + 1.0\n"
    )
    name = "<increment of Warp>"
    linecache.cache[name] = (1, None, source.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"warp": warp}
    exec(compile(source, name, "exec"), scope)
    return _first(warp.jax_kernel(scope["increment_warp"]))


def _first(kernel: Callable[..., Any]) -> Call:
    return lambda x: kernel(x)[0]


def pure_callback(x: jax.Array) -> jax.Array:
    return jax.pure_callback(lambda a: np.asarray(a) + np.float32(1), jax.ShapeDtypeStruct((N,), jnp.float32), x)


def program_call() -> Call:
    """The same launch in a function that runs on real memory."""

    def program(x: wp.array[float], y: wp.array[float]) -> None:
        wp.launch(increment, N, [x], [y])

    return _first(wp.jax_callable(program, graph_mode=wp.GraphMode.NONE))


def contenders() -> dict[str, Call]:
    big = _first(wp.jax_kernel(big_kernel(90)))
    size = code_size(big)
    if size < BIG_CODE:
        raise SystemExit(f"the big kernel has only {size} bytes of code, {BIG_CODE} are wanted")
    calls = {
        "jaxwarp": _first(wp.jax_kernel(increment)),
        f"jaxwarp, {size // 1000} kB of code": big,
        "jax.numpy": lambda x: x + 1,
        "pure_callback": pure_callback,
    }
    warp = warp_call()
    if warp is None:
        print("NVIDIA Warp is not installed (pip install warp-lang): left out")
    else:
        calls["Warp jax_kernel"] = warp
    return calls


def in_loop(call: Call, count: int) -> Callable[[], Any]:
    program = jax.jit(lambda x: jax.lax.fori_loop(0, count, lambda _, c: call(c), x)).lower(jnp.zeros(N)).compile()
    # Sums of ones are exact in float32 up to 2**24.
    np.testing.assert_array_equal(program(jnp.zeros(N)), np.full(N, count))
    x = jnp.zeros(N)
    return lambda: program(x).block_until_ready()


def multiples_of_plain(calls: dict[str, Call], rounds: int) -> dict[str, measure.Figure]:
    """How many times as long as `x + 1` of jax.numpy a launch takes in a jitted loop of 1,000.

    The clock of a machine changes from minute to minute. The ratio of two programs of one round does not, so it shows
    a launch that has become twice as slow.
    """
    loops = [measure.Contender(name, in_loop(call, SHORT_LOOP), SHORT_LOOP) for name, call in calls.items()]
    return measure.ratios(measure.timed(loops, 20 * rounds), "jax.numpy")


def eager(call: Call, count: int) -> Callable[[], Any]:
    x = jnp.arange(N, dtype=jnp.float32)
    np.testing.assert_array_equal(call(x), np.arange(N) + 1)

    def run() -> None:
        for _ in range(count):
            call(x).block_until_ready()

    return run


def resident() -> int:
    """Bytes of memory in use, where the system tells."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def growth() -> dict[str, int]:
    """What remains of 200 traces and 200,000 launches."""

    def once() -> None:
        call = _first(wp.jax_kernel(increment))
        jax.jit(lambda x: jax.lax.fori_loop(0, 1000, lambda _, c: call(c), x))(jnp.zeros(N)).block_until_ready()

    for _ in range(50):  # allocators and caches of JAX reach their size
        once()
    names = ("images_loaded", "live_states")
    jax.clear_caches()
    before, memory = {n: counter(n) for n in names}, resident()
    for _ in range(200):
        once()
    jax.clear_caches()
    found = {n: counter(n) - before[n] for n in names}
    return {**found, "kilobytes": (resident() - memory) // 1000}


def eager_to_plain(calls: dict[str, Call], rounds: int) -> dict[str, measure.Figure]:
    """How many times as long as `x + 1` of jax.numpy an eager call takes, in processor time of the calling thread."""
    contenders = [measure.Contender(name, eager(call, 100), 100) for name, call in calls.items()]
    return measure.ratios(measure.timed(contenders, 5 * rounds, time.thread_time), "jax.numpy")


def eager_compilations() -> int:
    """How often code is loaded in 1000 eager calls of a signature seen before."""
    call = _first(wp.jax_kernel(increment))
    x = jnp.zeros(N)
    call(x)
    before = counter("instantiations")
    for _ in range(1000):
        call(x)
    return counter("instantiations") - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    calls = contenders()
    loops = [
        measure.Contender(n, in_loop(c, LOOPS.get(n, LOOPS["jaxwarp"])), LOOPS.get(n, LOOPS["jaxwarp"]))
        for n, c in calls.items()
    ]
    looped = measure.scale(measure.interleave(loops, rounds), 1e6)
    measure.table(f"A launch on {N} floats in a jitted fori_loop, microseconds", looped)
    in_process = {name: call for name, call in calls.items() if name.startswith("jax")}
    multiples = multiples_of_plain(in_process, rounds)
    measure.table(f"The same in a loop of {SHORT_LOOP}, as a multiple of x + 1 of jax.numpy", multiples)
    eagers = [measure.Contender(n, eager(c, EAGER.get(n, 1000)), EAGER.get(n, 1000)) for n, c in calls.items()]
    called = measure.scale(measure.interleave(eagers, rounds), 1e6)
    measure.table("An eager call of a signature seen before, result waited for, microseconds", called)
    to_plain = eager_to_plain({**in_process, "GraphMode.NONE": program_call()}, rounds)
    measure.table("The same in processor time of the thread, as a multiple of x + 1 of jax.numpy", to_plain)
    compiled, grown = eager_compilations(), growth()
    print(f"\n1000 more eager calls: code loaded {compiled} times")
    print(f"200 more traces and 200,000 launches: {grown}")
    versions = {"warp": __import__("warp").__version__} if "Warp jax_kernel" in calls else {}
    measure.write(
        "launch",
        {
            "versions": versions,
            "loop_us": looped,
            "loop_of_1000_to_plain": multiples,
            "eager_us": called,
            "eager_to_plain": to_plain,
            "eager_loads": compiled,
            "growth": grown,
        },
    )


if __name__ == "__main__":
    main()
