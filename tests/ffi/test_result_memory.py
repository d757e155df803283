"""Large results of launches on the CPU: their memory stays with the process, or has huge pages where there are some."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
KERNELS = """
import re
import resource
from pathlib import Path

import jax
import jax.numpy as jnp
import jaxwarp as wp

@wp.kernel
def products(a: wp.array[float], b: wp.array[float], c: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = a[i] * b[i] * c[i]

@wp.kernel
def twice(a: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = 2.0 * a[i]

def program(a: wp.array[float], out: wp.array[float]):
    wp.launch(twice, dim=a.shape, inputs=[a], outputs=[out])
    wp.launch(twice, dim=a.shape, inputs=[a], outputs=[out])
"""
FAULTS = """
arrays = [jnp.ones(100_000) for _ in range(3)]
step = jax.jit(jax.value_and_grad(lambda a: wp.jax_kernel(products)(*a)[0].sum()))
for _ in range(12):
    jax.block_until_ready(step(arrays))
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    jax.block_until_ready(step(arrays))
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 20)
"""
FLAGS = '''
def flags(array):
    """What the system notes about the memory of an array."""
    address, found = array.unsafe_buffer_pointer() + array.nbytes // 2, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if area := re.match("([0-9a-f]+)-([0-9a-f]+) ", line):
            found = int(area[1], 16) <= address < int(area[2], 16)
        elif found and line.startswith("VmFlags:"):
            return line.split()[1:]

for size in (16 << 20, 1 << 10):
    x = jnp.ones(size)
    results = [wp.jax_kernel(twice)(x)[0], wp.jax_callable(program)(x)[0]]
    print(*("hg" in flags(array) for array in (x, *results)))
'''


def run(folder: Path, code: str) -> str:
    """What a process of its own prints, whose C library has no thresholds set."""
    script = folder / "script.py"
    script.write_text(KERNELS + code)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is another one")
def test_steps_do_not_get_memory_from_the_system_anew(tmp_path):
    """A step's results are arrays of 98 pages; without the lesson more than 200 pages are new in each step."""
    assert float(run(tmp_path, FAULTS)) < 60


@pytest.mark.skipif(not HUGE_PAGES.exists(), reason="this system has no huge pages for whoever asks")
def test_large_results_ask_for_huge_pages(tmp_path):
    assert run(tmp_path, FLAGS).split() == ["False", "True", "True", "False", "False", "False"]
