"""One payload for every machine: cross-compiled, run at the levels this machine has, cached and exported apart."""

import ctypes
import functools
import hashlib
import math
import os
import platform
import subprocess
import sys
import textwrap
from pathlib import Path

import cpushapes
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cpushapes import MACHINES
from jax import export
from kernels import KERNELS
from kernels_strategy import same_values
from test_cpu_code import undefined_symbols

import jaxwarp as wp
from jaxwarp.codegen.abi import GRID, OWN_COPIES
from jaxwarp.codegen.cpu import compile as cpu_compile
from jaxwarp.codegen.cpu import compile_cpu, load_bitcode
from jaxwarp.codegen.cpu.compile import _LIBM, _MEMORY, compile_object
from jaxwarp.codegen.cpu.plan.target import Machine, host
from jaxwarp.codegen.cpu.plan.width import choose_width
from jaxwarp.codegen.cpu.run import _LAUNCH
from jaxwarp.ir.interpret import interpret
from jaxwarp.passes.pipeline import prepare

PROVIDED = {name + suffix for name in _LIBM for suffix in ("", "f")} | set(_MEMORY)


def here(level: str) -> Machine:
    """The level, as a machine that this one can stand for."""
    return Machine(host().triple, MACHINES[level].cpu, MACHINES[level].features)


# What this CPU can run; on others than x86-64 there is nothing to choose from.
LEVELS = [
    level
    for level in ("v2", "v3", "v4")
    if platform.machine() in ("x86_64", "AMD64")
    and set(MACHINES[level].features.split(",")) <= set(host().features.split(","))
]


@pytest.fixture(scope="module", autouse=True)
def _all_targets():
    cpushapes.initialize()


@functools.cache
def prepared(name):
    return prepare(KERNELS[name].ir)


@pytest.mark.parametrize("level", list(MACHINES))
@pytest.mark.parametrize("name", list(KERNELS))
def test_every_kernel_is_code_for_every_machine(name, level):
    """At the width that suits the machine; what it needs of a process is the C library."""
    machine = MACHINES[level]
    code = compile_cpu(prepared(name), choose_width(prepared(name), machine))
    elf = compile_object(code.bitcode, machine)
    assert int.from_bytes(elf[18:20], "little") == (183 if level == "arm" else 62)  # EM_AARCH64, EM_X86_64
    assert undefined_symbols(elf) <= PROVIDED


def run_on(machine, name, width):
    """The buffers that code for a machine leaves."""
    one, kernel = KERNELS[name], prepared(name)
    code, buffers = compile_cpu(kernel, width), one.buffers()
    function = _LAUNCH(cpu_compile._linker().link(compile_object(code.bitcode, machine), code.symbol))
    pointers = (ctypes.c_void_p * len(buffers))(*(b.ctypes.data for b in buffers))
    known = {GRID: tuple(one.grid), OWN_COPIES: (0,)}
    entries = [(known.get(source) or buffers[source].shape)[axis] for source, axis in code.geometry]
    geometry = (ctypes.c_int64 * max(1, len(entries)))(*entries)
    addresses = ctypes.addressof(pointers), ctypes.addressof(geometry)
    function(*addresses, 0, math.prod(one.grid[:-1]), 0, one.grid[-1])
    return buffers


@functools.cache
def expected(name):
    buffers = KERNELS[name].buffers()
    interpret(prepared(name), KERNELS[name].grid, buffers)
    return buffers


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", list(KERNELS))
def test_every_kernel_runs_at_every_level(name, level):
    """The interpreter's answer where it is exact; the same bits as this machine's own code in any case."""
    machine = here(level)
    width = choose_width(prepared(name), machine)
    found = run_on(machine, name, width)
    wanted = expected(name) if KERNELS[name].exact else run_on(host(), name, width)
    for param, right, ours in zip(prepared(name).params, wanted, found, strict=True):
        assert same_values(right, ours), f"{name}, {param.name}"


def test_code_for_a_lower_level_uses_nothing_above_it():
    code = compile_cpu(prepared("saxpy"), 16)
    texts = {level: compile_object(code.bitcode, MACHINES[level], assembly=True) for level in ("v2", "v3", "v4")}
    assert [b"%ymm" in text or b"%zmm" in text for text in texts.values()] == [False, True, True]
    assert [b"%zmm" in text for text in texts.values()] == [False, False, True]
    assert [b"vfmadd" in text for text in texts.values()] == [False, True, True]


def test_what_the_machine_is_belongs_to_the_cache_key(tmp_path, monkeypatch):
    """Triple, CPU and features: each has entries of its own, found again when it comes back."""
    monkeypatch.setenv("JAXWARP_CACHE_DIR", str(tmp_path))
    compiled = []
    original = cpu_compile.compile_object
    monkeypatch.setattr(cpu_compile, "compile_object", lambda *args: compiled.append(args[1]) or original(*args))
    code = compile_cpu(prepared("saxpy"))
    own = host()
    fewer = ",".join(own.features.split(",")[:-1])
    machines = [own, Machine(own.triple, "generic", own.features), Machine(own.triple, own.cpu, fewer)]
    machines.append(Machine(own.triple + "-elf" if own.triple.endswith("gnu") else own.triple, "generic", fewer))
    for machine in (*machines, *machines):
        monkeypatch.setattr(cpu_compile, "host", lambda machine=machine: machine)
        load_bitcode(code.bitcode, hashlib.sha256(code.bitcode).hexdigest(), code.symbol)
    assert compiled == machines
    assert len(list(tmp_path.glob("*.bin"))) == len(machines)


PROGRAM = """
import sys
import jax.numpy as jnp
import numpy as np
from jax import export
import jaxwarp
import jaxwarp.codegen.cpu.compile as made
from jaxwarp.codegen.cpu.plan.target import Machine
triple, cpu, features = sys.argv[3:6]
machine, seen = Machine(triple, cpu, features), []
original = made.compile_object
def compile_object(payload, given):
    seen.append((given, original(payload, given, assembly=True)))
    return original(payload, given)
made.host()  # has LLVM ready
made.host, made.compile_object = lambda: machine, compile_object
program = export.deserialize(open(sys.argv[1], "rb").read())
x = np.load(sys.argv[2])
np.save(sys.argv[2] + ".out.npy", np.stack(program.call(x[0], x[1])))
assert [given for given, _ in seen] == [machine], seen
print("ymm" in seen[0][1].decode())
"""


@wp.kernel
def mixed(x: wp.array[float], y: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    s = wp.sin(x[i]) * wp.exp(y[i])
    if y[i] > 0.5:
        s += wp.sqrt(x[i]) * y[wp.max(i - 1, 0)]
    out[i] = s


@pytest.mark.parametrize("level", LEVELS[:1])
def test_an_exported_program_runs_on_a_cpu_of_fewer_features(level, tmp_path):
    """Made here, at the width that suits this machine; loaded in a process whose CPU is a lesser one."""
    machine = here(level)
    call = wp.jax_kernel(mixed)
    x = np.random.default_rng(3).uniform(0, 1, (2, 501)).astype(np.float32)
    program = export.export(jax.jit(call), disabled_checks=wp.export_checks())(*map(jnp.asarray, x))
    (tmp_path / "program").write_bytes(program.serialize())
    np.save(tmp_path / "x.npy", x)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(wp.__file__).parent.parent), *sys.path]),
        "JAX_PLATFORMS": "cpu",
        "JAXWARP_CACHE_DIR": str(tmp_path / "cache"),
    }
    arguments = [tmp_path / "program", tmp_path / "x.npy", machine.triple, machine.cpu, machine.features]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), *map(str, arguments)],
        env=environment, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split()[-1] == "False"
    found = np.load(tmp_path / "x.npy.out.npy")
    assert same_values(np.stack(call(*map(jnp.asarray, x))), found)
