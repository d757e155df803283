"""What goes wrong around launches: exceptions, re-entrant calls, forks, collected kernels, processes that end early.

What could hang or crash runs in a process of its own.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref

import jax
import numpy as np
import pytest
from waiting import wait_until

import jaxwarp as wp
from jaxwarp import GraphMode, jax_callable, jax_kernel
from jaxwarp.codegen.cpu import compile as cpu_compile
from jaxwarp.ffi import primitive
from jaxwarp.launches import spec as launch_module
from jaxwarp.native.library import counter

X = np.arange(6, dtype=np.float32)
MODES = [GraphMode.JAX, GraphMode.WARP, GraphMode.NONE]

PRELUDE = """
import faulthandler, gc, os, sys, threading, time, warnings
faulthandler.dump_traceback_later(300, exit=True)
warnings.simplefilter("ignore")
import jax, jax.numpy as jnp, numpy as np
import jaxwarp as wp

@wp.kernel
def add(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] + 1.0

def twice(x: wp.array[float], y: wp.array[float]):
    between = wp.empty_like(x)
    wp.launch(add, x.shape, [x], [between])
    wp.launch(add, x.shape, [between], [y])

def slowly(x: wp.array[float], y: wp.array[float]):
    time.sleep(0.2)
    wp.launch(add, x.shape, [x], [y])

call = wp.jax_kernel(add)
"""


def run(tmp_path, code: str) -> str:
    """The output of a process that ends in good order."""
    file = tmp_path / "tracing.py"
    file.write_text(PRELUDE + code)
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, file], capture_output=True, text=True, timeout=400, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@wp.kernel
def add(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] + 1.0


# Exceptions


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit, jax.vmap], ids=["eager", "jit", "vmap"])
@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.name)
def test_a_function_that_raises_may_be_called_again(mode, transform):
    is_broken = True

    def program(x: wp.array[float], y: wp.array[float]):
        wp.launch(add, x.shape, [x], [y])
        if is_broken:
            raise RuntimeError("broken")

    call = transform(jax_callable(program, graph_mode=mode))
    x = X[None] if transform is jax.vmap else X
    for _ in range(2):
        with pytest.raises((RuntimeError, jax.errors.JaxRuntimeError), match="broken"):
            jax.block_until_ready(call(x))
    is_broken = False
    np.testing.assert_array_equal(call(x)[0], x + 1)
    # No program is left behind as the current one.
    assert wp.zeros(3).numpy().tolist() == [0.0, 0.0, 0.0]


# Re-entrant calls


def test_callables_and_kernels_inside_a_callable():
    def low(x: wp.array[float], y: wp.array[float]):
        wp.launch(add, x.shape, [x], [y])

    low_call = jax_callable(low)

    def high(x: wp.array[float], y: wp.array[float]):
        wp.launch(add, x.shape, [x], [y])
        y.assign(low_call(y.value)[0])
        y.assign(jax_kernel(add)(y.value)[0])
        y.assign(jax_callable(low, graph_mode=GraphMode.WARP)(y.value)[0])
        wp.launch(add, x.shape, [wp.clone(y)], [y])

    call = jax_callable(high)
    np.testing.assert_array_equal(call(X)[0], X + 5)
    np.testing.assert_array_equal(jax.vmap(call)(X[None])[0], X[None] + 5)
    np.testing.assert_array_equal(jax.grad(lambda x: call(x)[0].sum())(X), np.ones(6))


def test_calls_inside_a_callback(tmp_path):
    """Small programs that are compiled do work; calls that we see are refused, as JAX may wait for ever."""
    out = run(
        tmp_path,
        """
x = np.zeros(4, np.float32)
compiled = jax.jit(lambda x: call(x)[0] * 2)
compiled(x)
inside = {"kernel": call, "callable": wp.jax_callable(twice)}
inside["program"] = wp.jax_callable(twice, graph_mode=wp.GraphMode.WARP)
seen = {}
def callback(inputs, outputs, attrs, ctx):
    for name, function in inside.items():
        try:
            function(np.array(inputs[0]))
        except wp.KernelError as error:
            seen[name] = str(error)
    np.copyto(outputs[0].numpy(), compiled(np.array(inputs[0])))
def none(x: wp.array[float], y: wp.array[float]):
    try:
        call(np.array(x.numpy()))
    except wp.KernelError as error:
        seen["none"] = str(error)
wp.register_ffi_callback("reenters", callback)
f = jax.jit(jax.ffi.ffi_call("reenters", jax.ShapeDtypeStruct(x.shape, x.dtype)))
print(f(x).tolist())
jax.block_until_ready(wp.jax_callable(none, graph_mode=wp.GraphMode.NONE)(x))
for text in seen.values(): print(text.splitlines()[0])
print(call(x)[0].tolist())
""",
    )
    waiting = "it is called in a function that a program is waiting for, and JAX may wait for that program"
    names = ["kernel add", "callable twice", "callable twice", "kernel add"]
    assert out.splitlines() == ["[2.0, 2.0, 2.0, 2.0]", *(f"{n}: {waiting}" for n in names), "[1.0, 1.0, 1.0, 1.0]"]


# Forks

FORKED = """
def in_child(work):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            print(work())
        except BaseException as error:
            print(type(error).__name__, str(error).splitlines()[0][:60])
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
x = np.zeros(3, np.float32)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_launches_in_a_fork_are_refused(tmp_path):
    out = run(
        tmp_path,
        FORKED
        + """
compiled = jax.jit(lambda x: call(x)[0])
modes = wp.GraphMode.JAX, wp.GraphMode.WARP, wp.GraphMode.NONE
callables = [wp.jax_callable(twice, graph_mode=mode) for mode in modes]
call(x), compiled(x).block_until_ready()
in_child(lambda: call(x))
in_child(lambda: jax.make_jaxpr(call)(x))
for c in callables: in_child(lambda: c(x))
in_child(lambda: compiled(x).tolist())
print(call(x)[0].tolist())
""",
    )
    lines = out.splitlines()
    text = "KernelError {}: this process was forked from one that had used JAX"
    assert all(line.startswith(text.format("kernel add")[:60]) for line in lines[:2]), out
    assert all(line.startswith(text.format("callable twice")[:60]) for line in lines[2:5]), out
    # What is compiled already does not enter Python, and is JAX's affair; a small program runs in the calling thread.
    assert lines[5:] == ["[1.0, 1.0, 1.0]"] * 2, out


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_before_jax_is_used(tmp_path):
    out = run(tmp_path, FORKED + "in_child(lambda: call(x)[0].tolist())\nprint(call(x)[0].tolist())\n")
    assert out == "[1.0, 1.0, 1.0]\n" * 2


# Things that are collected


@pytest.mark.parametrize("mode", [GraphMode.JAX, GraphMode.WARP], ids=lambda m: m.name)
def test_programs_outlive_what_they_were_made_of(mode):
    @wp.kernel
    def temporary(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = x[i] * 7.0

    def program(x: wp.array[float], y: wp.array[float]):
        wp.launch(temporary, x.shape, [x], [y])

    call = jax_callable(program, graph_mode=mode)
    compiled = jax.jit(lambda x: call(x)[0]).lower(X).compile()
    gone = [weakref.ref(o) for o in (call, program, temporary)]
    call = program = temporary = None
    jax.clear_caches()
    wait_until(lambda: not any(ref() for ref in gone))
    for _ in range(3):
        np.testing.assert_array_equal(compiled(X), 7 * X)


def kernel_of(c):
    @wp.kernel
    def scaled(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = x[i] * wp.static(float(c))

    return scaled


def test_kernels_that_come_and_go(monkeypatch):
    """Their programs go too, but for the last ones."""
    monkeypatch.setattr(primitive.compiled_launches, "_keep", 8)
    jax.clear_caches()
    gc.collect()
    before = counter("live_states")
    for c in range(40):
        np.testing.assert_array_equal(jax_kernel(kernel_of(1000 + c))(X)[0], (1000 + c) * X)
        if c == 9:
            gc.collect()
            started = len(launch_module._kernels), len(primitive.compiled_launches)
    wait_until(lambda: counter("live_states") - before <= 10)
    assert len(primitive.compiled_launches) <= started[1]
    kept = jax_kernel(kernel_of(999))
    kept(X)
    for c in range(10):
        jax_kernel(kernel_of(2000 + c))(X)
    instantiations = counter("instantiations")
    kept(X)  # a function that is alive keeps its programs
    assert counter("instantiations") == instantiations


def test_code_of_kernels_that_are_gone_is_unloaded(monkeypatch):
    """But for the last pieces. What a live program holds stays, and what comes back is loaded again."""
    monkeypatch.setattr(primitive.compiled_launches, "_keep", 8)
    linker = cpu_compile._linker()
    kept = jax.jit(lambda x: jax_kernel(kernel_of(-1))(x)[0])
    np.testing.assert_array_equal(kept(X), -X)
    first = jax_kernel(kernel_of(4000))
    first(X)
    before, loads = len(linker._loaded), counter("images_loaded")
    del first
    for c in range(100):
        np.testing.assert_array_equal(jax_kernel(kernel_of(3000 + c))(X)[0], (3000 + c) * X)
        if c % 20 == 0:
            gc.collect()
    gc.collect()
    np.testing.assert_array_equal(jax_kernel(kernel_of(4000))(X)[0], 4000 * X)
    assert counter("images_loaded") - loads == 101
    assert len(linker._loaded) - before <= 90
    np.testing.assert_array_equal(kept(X), -X)


# The end of a process


@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.name)
def test_a_process_that_ends_while_programs_run(tmp_path, mode):
    code = f"""
program = slowly if wp.GraphMode.{mode.name} == wp.GraphMode.NONE else twice
f = jax.jit(wp.jax_callable(program, graph_mode=wp.GraphMode.{mode.name}))
x = np.zeros(1_000_000, np.float32)
jax.block_until_ready(f(x))
def work():
    for _ in range(4): jax.block_until_ready(f(x))
for _ in range(3): threading.Thread(target=work).start()
pending = [f(x) for _ in range(5)]
print("end", flush=True)
"""
    assert run(tmp_path, code) == "end\n"
