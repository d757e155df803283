"""Large arrays of threads' own are on the heap: a launch runs in a thread with a small stack."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.codegen.cpu import compile_cpu, launch
from jaxwarp.codegen.cpu.llvm.own_memory import STACK_BYTES
from jaxwarp.ir.kernel import Kernel
from jaxwarp.passes.pipeline import prepare

PROGRAM = Path(__file__).parents[1] / "small_stack_programs.py"
STEPS = "jitted gradients eager launched taped tiles"


def summed(elements: int) -> Kernel:
    """Each thread fills two arrays of its own and sums products of them, from both ends."""

    @wp.kernel
    def kernel(a: wp.array[float], o: wp.array[float]):
        i = wp.tid()
        own = wp.zeros(shape=elements, dtype=float)
        flags = wp.zeros(shape=7, dtype=bool)
        for k in range(elements):
            own[k] = a[i] + float(k)
            flags[k % 7] = k % 2 == 0
        total = 0.0
        for k in range(elements):
            if flags[k % 7]:
                total += own[k] * own[elements - 1 - k]
        o[i] = total

    return prepare(kernel.ir())


def test_small_arrays_are_on_the_stack_and_large_ones_on_the_heap():
    small, large = (compile_cpu(summed(n), 8).text for n in (STACK_BYTES // 64, STACK_BYTES // 32))
    assert f"alloca [{STACK_BYTES // 8} x float]" in small
    assert "aligned_alloc" not in small
    assert "alloca" not in large
    assert large.count("call noalias ptr @jaxwarp.own_memory(") == 1
    assert large.count("call void @free(ptr %own.memory)\n  ret void") == 1


@pytest.mark.parametrize("width", [1, 8])
def test_arrays_on_the_heap_do_not_overlap(width):
    elements, rows = 20_001, 13
    kernel, a, o = summed(elements), np.arange(rows, dtype=np.float32), np.zeros(rows, np.float32)
    code = compile_cpu(kernel, width)
    assert "jaxwarp.own_memory" in code.text
    launch(code, kernel, (rows,), [a, o])
    own = a[:, None].astype(np.float64) + np.arange(elements)
    flags = np.zeros(7, bool)
    for k in range(elements):
        flags[k % 7] = k % 2 == 0
    want = (own * own[:, ::-1])[:, flags[np.arange(elements) % 7]].sum(1)
    np.testing.assert_allclose(o, want, rtol=1e-3)


@pytest.mark.parametrize(("stack", "limit"), [(128, None), (1024, None), (0, 512)])
def test_launches_in_threads_with_a_small_stack(tmp_path, stack, limit):
    """In a thread of 128 KiB or 1 MiB; and where `ulimit -s` gives all threads, XLA's too, 512 KiB."""
    command = [sys.executable, str(PROGRAM), str(stack)]
    if limit:
        command = ["sh", "-c", f'ulimit -s {limit} && exec "$@"', "sh", *command]
    environment = {**os.environ, "JAXWARP_CACHE_DIR": str(tmp_path)}  # so that all is compiled in such a thread
    found = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300, env=environment)
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip() == STEPS
