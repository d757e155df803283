"""Machine code of kernels is unloaded when nobody has them any more, and stays while somebody may still run it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.codegen.cpu import compile as compiler
from jaxwarp.launches import on_memory

MAPS = Path("/proc/self/maps")


def scaled(factor: float) -> wp.Kernel:
    @wp.kernel
    def kernel(x: wp.array[float], o: wp.array[float]):
        i = wp.tid()
        o[i] = x[i] * x[i] * factor

    return kernel


def loaded() -> int:
    """How many pieces of machine code launches outside of JAX hold."""
    gc.collect()
    return len(compiler._linker()._loaded) - len(compiler._unused)


def launched(kernel, backward: bool = False) -> None:
    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=backward)
    o = wp.zeros(3, dtype=float, requires_grad=backward)
    if not backward:
        wp.launch(kernel, dim=3, inputs=[x], outputs=[o])
        return
    with wp.Tape() as tape:
        wp.launch(kernel, dim=3, inputs=[x], outputs=[o])
    tape.backward(grads={o: wp.ones(3, dtype=float)})


def drop_others(first: float) -> None:
    """Loads code that would take the place of what was unloaded."""
    gc.collect()
    kernels = [scaled(first + n) for n in range(5)]
    for kernel in kernels:
        launched(kernel)


@pytest.mark.parametrize("backward", [False, True])
def test_code_goes_with_its_kernel(backward):
    first = 1000.5 if backward else 100.5  # what is made a second time is kept for a while
    for n in range(3):
        launched(scaled(first + n), backward)
    before = loaded()
    for n in range(12):
        launched(scaled(first + 100 + n), backward)
    assert loaded() <= before + 2


def test_code_stays_while_its_kernel_is_held():
    kernels = [scaled(300.5 + n) for n in range(5)]
    before = loaded()
    for kernel in kernels:
        launched(kernel)
    assert loaded() == before + 5
    codes = set(map(id, on_memory._loaded.values()))
    for kernel in kernels:
        launched(kernel)
    assert set(map(id, on_memory._loaded.values())) == codes


def test_a_tape_keeps_the_code_that_it_replays():
    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    o = wp.zeros(3, dtype=float, requires_grad=True)
    kernel = scaled(401.5)
    seen = weakref.ref(kernel)
    with wp.Tape() as tape:
        wp.launch(kernel, dim=3, inputs=[x], outputs=[o])
    del kernel
    for n in range(2):
        tape.zero()
        tape.backward(grads={o: wp.ones(3, dtype=float)})
        drop_others(410.5 + 10 * n)
    np.testing.assert_allclose(x.grad.numpy(), 2 * 401.5 * np.array([1.0, 2.0, 3.0]))
    tape.reset()
    del tape
    gc.collect()
    assert seen() is None


def test_a_prepared_launch_and_a_capture_keep_theirs():
    x, o = wp.array([1.0, 2.0], dtype=float), wp.zeros(2, dtype=float)
    command = wp.launch(scaled(501.5), dim=2, inputs=[x], outputs=[o], record_cmd=True)
    with wp.ScopedCapture() as capture:
        wp.launch(scaled(502.5), dim=2, inputs=[o], outputs=[x])
    for n in range(2):
        x.assign([1.0, 2.0])
        command.launch()
        np.testing.assert_allclose(o.numpy(), [501.5, 4 * 501.5])
        o.assign([1.0, 2.0])
        wp.capture_launch(capture.graph)
        np.testing.assert_allclose(x.numpy(), [502.5, 4 * 502.5])
        drop_others(510.5 + 10 * n)


def test_a_compiled_program_keeps_its_code():
    program = jax.jit(lambda x: wp.jax_kernel(scaled(601.5))(x)[0]).lower(jnp.ones(3)).compile()
    drop_others(610.5)
    np.testing.assert_allclose(program(jnp.ones(3)), 601.5)


def test_code_is_not_unloaded_under_a_thread_that_runs_it():
    """Threads launch kernels that they make and drop, while others load code and so unload what was dropped."""
    wrong: list[float] = []

    def work(first: int) -> None:
        for n in range(first, first + 10):
            x, o = wp.ones(4096, dtype=float), wp.zeros(4096, dtype=float)
            wp.launch(scaled(n + 0.25), dim=4096, inputs=[x], outputs=[o])
            if (o.numpy() != np.float32(n + 0.25)).any():
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(1000 * k,)) for k in range(1, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


_PROGRAM = """
import gc, sys
import jaxwarp as wp

x, o = wp.ones(3, dtype=float), wp.zeros(3, dtype=float)
for n in range(150):
    q = float(n)

    @wp.kernel
    def k(x: wp.array[float], o: wp.array[float]):
        i = wp.tid()
        o[i] = x[i] * q

    wp.launch(k, dim=3, inputs=[x], outputs=[o])
    if n % 50 == 49:
        gc.collect()
        print(sum(1 for _ in open("/proc/self/maps")))
"""


@pytest.mark.skipif(not MAPS.exists(), reason="needs a list of memory maps")
def test_kernels_made_in_a_loop_do_not_fill_the_address_space(tmp_path):
    """The process has 65,530 memory maps on Linux. Two went with each kernel."""
    (tmp_path / "program.py").write_text(_PROGRAM)
    command = [sys.executable, str(tmp_path / "program.py")]
    environment = {**os.environ, "JAXWARP_CACHE_DIR": str(tmp_path / "cache")}
    found = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300, env=environment)
    first, *later = map(int, found.stdout.split())
    assert max(later) < first + 40
