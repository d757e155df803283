"""The lists of passes are what compiling runs, what the command line prints, and the only places that name a pass."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from counting import profiled

import jaxwarp as wp
from jaxwarp import passes
from jaxwarp.codegen.abi import index_bits_of
from jaxwarp.codegen.cuda import code_for
from jaxwarp.commands.kernels import find
from jaxwarp.commands.main import main
from jaxwarp.launches import code
from jaxwarp.launches.code import CodeKey, code_of
from jaxwarp.passes import pipeline
from jaxwarp.passes.alone import alone
from jaxwarp.passes.pipeline import COARSEN, CPU, CUDA, HOLD, PREPARE, prepared

ROOT = Path(wp.__file__).parent
# Folders of `passes/` that hold no steps of compiling: kernels of other launches, and the tests of debug mode.
OTHERS = ("launches", "checks")
# Derivatives are made of simplified kernels, and are simplified themselves.
HELPERS = {"vjp": {"simplify"}}
KERNELS = """
import jaxwarp as wp

@wp.kernel
def scaled(x: wp.array2d[float], y: wp.array2d[float]):
    i, j = wp.tid()
    y[i, j] = 2.0 * x[i, j] + 1.0

@wp.kernel
def product(a: wp.array2d[float], b: wp.array2d[float], c: wp.array2d[float]):
    i, j = wp.tid()
    s = float(0.0)
    for k in range(a.shape[1]):
        s += a[i, k] * b[k, j]
    c[i, j] = s
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    path = tmp_path / "piped_kernels.py"
    path.write_text(KERNELS)
    yield str(path)
    sys.modules.pop("piped_kernels", None)


def makers():
    """Functions that make a kernel of a kernel, in the modules whose passes the lists may name; by their code."""
    found = {one.function for one in (*CPU, *CUDA)}
    for module in pkgutil.iter_modules(passes.__path__, f"{passes.__name__}."):
        for name, function in vars(importlib.import_module(module.name)).items():
            is_here = getattr(function, "__module__", None) == module.name and not name.startswith("_")
            if is_here and inspect.isfunction(function) and not module.name.endswith(".pipeline"):
                returns = inspect.signature(inspect.unwrap(function)).return_annotation
                if str(returns).startswith(("Kernel", "tuple[Kernel", "Flat")):
                    found.add(function)
    return {inspect.unwrap(f).__code__: f for f in found}


def entered(run):
    """Which of these `run` enters, in order, without those that another one enters."""
    codes, seen, inside = makers(), [], []

    def note(frame, event, _):
        if frame.f_code not in codes:
            return
        if event == "call":
            if not inside:
                seen.append(codes[frame.f_code])
            inside.append(frame)
        elif event == "return":
            inside.pop()

    with profiled(note):
        run()
    return seen


def forget():
    """Forget the code of kernels, which equal kernels share: to print its passes has made it."""
    for module in (pipeline, code):
        for function in vars(module).values():
            if hasattr(function, "cache_clear"):
                function.cache_clear()


def names(functions):
    return [f"{f.__module__.removeprefix('jaxwarp.')}.{f.__name__}" for f in functions]


def of(listed):
    return [one.function for one in listed]


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_only_the_lists_name_passes(path):
    folder = path.relative_to(ROOT).parts[0]
    if folder == "passes":
        return
    for node in ast.walk(ast.parse(path.read_text())):
        found = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            found = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in found:
            if name.startswith("jaxwarp.passes."):
                module, last = name.split(".")[2], name.rpartition(".")[2]
                allowed = ("pipeline", *OTHERS)
                assert module in allowed or last in HELPERS.get(folder, ()), f"{path} imports {name}"


def outside(kernel):
    wp.launch(kernel, (64, 3), [wp.ones((64, 3), dtype=float), wp.zeros((64, 3), dtype=float)])


def jitted(kernel):
    jax.jit(wp.jax_kernel(kernel)).lower(jnp.ones((64, 3), jnp.float32))


def shown(capsys, *arguments):
    assert main(["show", *arguments, "--stages", "--json"]) == 0
    return [row["pass"] for row in json.loads(capsys.readouterr().out)["passes"]]


@pytest.mark.release_mode("passes of release mode")
@pytest.mark.parametrize("launch", [outside, jitted])
def test_a_launch_runs_what_is_printed(file, capsys, launch):
    printed = shown(capsys, f"{file}:scaled", "--dim", "64,3", "--shape", "x=64,3", "--shape", "y=64,3")
    kernel, _ = find(f"{file}:scaled", None)
    forget()
    ran = entered(lambda: launch(kernel))
    assert printed == names(f for f in of(CPU[: -len((*HOLD, *COARSEN))]) if f is not alone)
    assert names(ran[-len(printed) :]) == printed
    # Before that, the launch is checked and JAX is told which axes are independent: of kernels made for that alone.
    before = {f.__name__ for f in ran[: -len(printed)]}
    assert before <= {"simplify", "without_failures", "without_tests", "erase_rules"}


def test_rows_are_merged_where_they_are_short(file, capsys):
    shapes = ("--dim", "64,3", "--shape", "x=64,3", "--shape", "y=64,3")
    assert main(["show", f"{file}:scaled", "--stages", *shapes]) == 0
    last = capsys.readouterr().out.splitlines()[-1].split()
    assert last[0] == "passes.flatten.flatten"
    assert last[1] != last[3]  # one index less


def test_one_thread_has_no_index(file, capsys):
    printed = shown(capsys, f"{file}:scaled", "--dim", "1,1", "--shape", "x=1,1", "--shape", "y=1,1")
    assert printed[-1] == "passes.alone.alone"
    kernel, _ = find(f"{file}:scaled", None)
    forget()
    arrays = [wp.ones((1, 1), dtype=float), wp.zeros((1, 1), dtype=float)]
    assert names(entered(lambda: wp.launch(kernel, (1, 1), arrays)))[-len(printed) :] == printed


def test_bodies_for_several_rows_are_printed(file, capsys):
    printed = shown(capsys, f"{file}:product")
    kernel, _ = find(f"{file}:product", None)

    def compiled():
        ir = kernel.specialize()
        code_of(CodeKey(ir, True, (None, None), tuple(p.shape for p in ir.params)))

    kernel.found.specialized.clear()
    forget()
    ran = names(entered(compiled))
    assert ran == printed
    assert printed[: len(PREPARE)] == names(of(PREPARE))  # no extents, nothing to be done for them
    assert set(printed[len(PREPARE) :]) == {"passes.coarsen.coarsen"}


def test_cuda_runs_what_is_printed(file, capsys):
    shapes = [(64, 3), (64, 3)]
    printed = shown(
        capsys, f"{file}:scaled", "--target", "cuda", "--dim", "64,3", "--shape", "x=64,3", "--shape", "y=64,3"
    )
    kernel, _ = find(f"{file}:scaled", None)
    kernel.found.specialized.clear()

    def compiled():
        made = prepared(kernel.specialize(), True)
        code_for(made, (64, 3), shapes, index_bits_of((64, 3), shapes), kernel.cuda_options(), zeros=[1])

    assert names(entered(compiled)) == printed == names(of(CUDA))


def test_both_lists_begin_alike():
    assert CPU[: len(PREPARE)] == CUDA[: len(PREPARE)] == PREPARE
