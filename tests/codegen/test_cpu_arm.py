"""CPU code for 64-bit Arm runs and gives what the interpreter gives: as a C program, which elsewhere QEMU emulates."""

import functools
import math
import platform
import shutil
import struct
import subprocess

import cpushapes
import llvmlite.binding as llvm
import numpy as np
import pytest
from cpushapes import MACHINES
from kernels import KERNELS
from kernels_strategy import same_values

from jaxwarp.codegen.abi import GRID, OWN_COPIES
from jaxwarp.codegen.cpu import compile_cpu
from jaxwarp.codegen.cpu.compile import compile_object
from jaxwarp.ir.interpret import interpret
from jaxwarp.passes.pipeline import prepare

IS_ARM = platform.machine() == "aarch64"
COMPILERS = ("cc",) if IS_ARM else ("aarch64-linux-gnu-gcc",)
EMULATORS = ("qemu-aarch64", "qemu-aarch64-static")
WIDTHS = (1, 4, 16)

# Runs the launches that it reads: which kernel, tile, geometry, buffers. Writes all buffers as they are then.
PROGRAM = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef void Launch(void **, const int64_t *, int64_t, int64_t, int64_t, int64_t);
{declarations}
static Launch *const launches[] = {{{names}}};

static void get(void *to, int64_t bytes) {{
  if (fread(to, 1, bytes, stdin) != (size_t)bytes) exit(2);
}}

int main(void) {{
  int64_t head[7];
  while (fread(head, sizeof head, 1, stdin) == 1) {{
    int64_t geometry[64], sizes[64];
    void *buffers[64];
    if (head[5] > 64 || head[6] > 64) return 3;
    get(geometry, 8 * head[5]);
    get(sizes, 8 * head[6]);
    for (int64_t i = 0; i < head[6]; ++i) {{
      buffers[i] = aligned_alloc(64, (sizes[i] + 128) / 64 * 64);
      get(buffers[i], sizes[i]);
    }}
    launches[head[0]](buffers, geometry, head[1], head[2], head[3], head[4]);
    for (int64_t i = 0; i < head[6]; ++i) {{
      fwrite(buffers[i], 1, sizes[i], stdout);
      free(buffers[i]);
    }}
  }}
  return 0;
}}
"""


@functools.cache
def prepared(name):
    return prepare(KERNELS[name].ir)


@functools.cache
def codes():
    """Code of every kernel at some widths, by the place of its function in the program."""
    return [(name, compile_cpu(prepared(name), width, MACHINES["arm"])) for name in KERNELS for width in WIDTHS]


def first(names):
    return next(filter(None, map(shutil.which, names)), None)


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """What runs a program that has the code of all kernels."""
    compiler, emulator = first(COMPILERS), first(EMULATORS)
    if compiler is None:
        pytest.skip(f"no {COMPILERS[0]}: apt-get install gcc-aarch64-linux-gnu")
    if emulator is None and not IS_ARM:
        pytest.skip(f"no {EMULATORS[0]}: apt-get install qemu-user")
    cpushapes.initialize()
    folder = tmp_path_factory.mktemp("arm")
    names, sources = [], []
    for number, (_, code) in enumerate(codes()):
        names.append(f"launch_{number}")
        path = folder / f"{number}.o"
        path.write_bytes(compile_object(renamed(code, names[-1]), MACHINES["arm"]))
        sources.append(path)
    declarations = "\n".join(f"Launch {name};" for name in names)
    (folder / "main.c").write_text(PROGRAM.format(declarations=declarations, names=", ".join(names)))
    arguments = ["-O1", "-static", folder / "main.c", *sources, "-lm", "-o", folder / "program"]
    subprocess.run([compiler, *map(str, arguments)], check=True)
    return [*([] if IS_ARM else [emulator]), str(folder / "program")]


def renamed(code, name):
    """The bitcode with another name of its function: one kernel has one, at every width."""
    with llvm.create_context() as context, llvm.parse_bitcode(code.bitcode, context) as module:
        module.get_function(code.symbol).name = name
        return module.as_bitcode()


def request(number, name, code, buffers):
    """A launch of the whole grid, as the program reads it."""
    grid = KERNELS[name].grid
    known = {GRID: tuple(grid), OWN_COPIES: (0,)}
    geometry = [(known.get(source) or buffers[source].shape)[axis] for source, axis in code.geometry]
    head = [number, 0, math.prod(grid[:-1]), 0, grid[-1], len(geometry), len(buffers)]
    numbers = [*head, *geometry, *(b.nbytes for b in buffers)]
    return struct.pack(f"<{len(numbers)}q", *numbers) + b"".join(b.tobytes() for b in buffers)


@pytest.fixture(scope="module")
def results(command):
    """The buffers that each launch leaves, by kernel and width."""
    samples = [KERNELS[name].buffers() for name, _ in codes()]
    asked = [request(n, name, code, samples[n]) for n, (name, code) in enumerate(codes())]
    done = subprocess.run(command, input=b"".join(asked), capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found, at = {}, 0
    for (name, code), buffers in zip(codes(), samples, strict=True):
        for buffer in buffers:
            data = np.frombuffer(done.stdout, buffer.dtype, buffer.size, at)
            found.setdefault((name, code.width), []).append(data.reshape(buffer.shape))
            at += buffer.nbytes
    assert at == len(done.stdout)
    return found


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", list(KERNELS))
def test_every_kernel(name, width, results):
    expected = KERNELS[name].buffers()
    interpret(prepared(name), KERNELS[name].grid, expected)
    for param, right, ours in zip(prepared(name).params, expected, results[name, width], strict=True):
        if KERNELS[name].exact:
            assert same_values(right, ours), param.name
        else:
            np.testing.assert_allclose(ours, right, rtol=2e-6, atol=2e-6)
