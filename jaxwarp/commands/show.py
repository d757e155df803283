"""`show` and `compile`: the code of a kernel for a target."""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import asdict, replace
from typing import Any

from jaxwarp.codegen.abi import index_bits_of
from jaxwarp.codegen.cpu import compile_cpu
from jaxwarp.codegen.cpu.compile import compile_object
from jaxwarp.codegen.cpu.plan.target import host
from jaxwarp.codegen.cuda import code_for, print_cuda
from jaxwarp.codegen.cuda.compile import CudaCode, compile_cuda, default_archs, resources
from jaxwarp.commands.kernels import find, given, shape_of
from jaxwarp.commands.stages import name_of
from jaxwarp.cuda_options import extents_of
from jaxwarp.errors import CompileError
from jaxwarp.ir.kernel import Kernel as KernelIR
from jaxwarp.ir.nodes import walk
from jaxwarp.kernel import Kernel
from jaxwarp.launches.code import CodeKey, code_of
from jaxwarp.passes.pipeline import prepare, watching

TARGETS = ("ir", "cpu", "assembly", "cuda", "ptx", "sass")


def run(options: argparse.Namespace) -> tuple[Any, str]:
    """The text of a kernel for a target: the IR, LLVM's text or assembly for this CPU, CUDA C++, PTX or SASS."""
    kernel, types = find(options.kernel, options.types)
    if options.stages:
        return _passes(kernel, types, options)
    match options.target:
        case "ptx":
            text = kernel.ptx(options.arch, types)
        case "sass":
            text = _disassembled(_cuda(kernel, types), options.arch)
        case "assembly":
            text = compile_object(compile_cpu(_prepared(kernel, types)).bitcode, host(), assembly=True).decode()
        case target:
            text = kernel.source(target, types)
    return {"kernel": kernel.name, "target": options.target, "text": text}, text.rstrip()


def _passes(kernel: Kernel, types: list[Any] | None, options: argparse.Namespace) -> tuple[Any, str]:
    """The passes that compiling a launch runs, in order, and by how many operations the kernel is longer after each."""
    ir = replace(kernel.specialize(types))  # another kernel to all that is kept: every pass runs
    grid, shapes = _extents(kernel, ir, options)
    fma = kernel.options["fma"]
    with watching() as ran:
        if options.target in ("cuda", "ptx", "sass"):
            code_for(prepare(ir, fma=fma), grid, shapes, index_bits_of(grid, shapes), kernel.cuda_options())
        else:
            code_of(CodeKey(ir, fma, grid, tuple(map(tuple, shapes))))
    rows = [(name_of(one.function), *(sum(1 for _ in walk(k.body)) for k in (one.before, one.after))) for one in ran]
    data = [{"pass": name, "before": before, "after": after} for name, before, after in rows]
    lines = [f"{name:44}{before:6} -> {after}" for name, before, after in rows]
    return {"kernel": kernel.name, "passes": data}, "\n".join([f"{'pass':44}operations", *lines])


def _extents(kernel: Kernel, ir: KernelIR, options: argparse.Namespace) -> tuple[tuple[Any, ...], list[Any]]:
    """Extents of the launch and of the parameters; without `--dim`, none is known."""
    shapes = {name: shape_of(name, text) for name, text in given(kernel, "--shape", options.shape).items()}
    if options.dim is None and not shapes:
        return (None,) * ir.grid_rank, [p.shape for p in ir.params]
    return extents_of(ir, options.dim or (), shapes)


def run_compile(options: argparse.Namespace) -> tuple[Any, str]:
    """Compiles a kernel for this CPU or for GPUs, and says what it takes."""
    kernel, types = find(options.kernel, options.types)
    begin = time.perf_counter()
    if options.arch is None:
        code = compile_cpu(_prepared(kernel, types))
        machine_code = compile_object(code.bitcode, host())
        found = {"target": host().cpu, "bytes": len(machine_code), "lanes": code.width}
        made = [found]
        lines = [f"{found['target']}: {found['bytes']} bytes of object code, {code.width} threads a vector"]
    else:
        made, lines = _for_gpus(_cuda(kernel, types), options.arch)
    seconds = time.perf_counter() - begin
    data = {"kernel": kernel.name, "seconds": seconds, "code": made}
    return data, "\n".join([*lines, f"{kernel.name}: {seconds:.2f} s, from the source on"])


def _for_gpus(code: CudaCode, archs: str) -> tuple[list[dict[str, Any]], list[str]]:
    wanted = list(default_archs()) if archs == "all" else archs.split(",")
    made, lines = [], []
    for entry in compile_cuda(code, wanted):
        used = asdict(resources(code, entry.arch))
        made.append({"target": f"sm_{entry.arch}", "bytes": len(entry.code), **used})
        listed = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in used.items())
        lines.append(f"sm_{entry.arch}: {len(entry.code)} bytes; {listed}")
    return made, lines


def _prepared(kernel: Kernel, types: list[Any] | None) -> Any:
    return prepare(kernel.specialize(types), fma=kernel.options["fma"])


def _cuda(kernel: Kernel, types: list[Any] | None) -> CudaCode:
    return print_cuda(_prepared(kernel, types), options=kernel.cuda_options())


def _disassembled(code: CudaCode, arch: str) -> str:
    tool = _nvdisasm()
    if tool is None:
        raise CompileError(
            "showing SASS needs nvdisasm", hint="pip install nvidia-cuda-nvdisasm, or put a CUDA toolkit on the PATH"
        )
    (entry,) = compile_cuda(code, [arch])
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(entry.code)
        file.flush()
        done = subprocess.run([tool, "-c", file.name], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompileError(f"nvdisasm: {done.stderr.strip()}")
    return done.stdout


def _nvdisasm() -> str | None:
    if found := os.environ.get("NVDISASM") or shutil.which("nvdisasm"):
        return found
    # What only a machine with cuda-python has; older ones have no such search.
    find_utility = getattr(importlib.import_module("cuda.pathfinder"), "find_nvidia_binary_utility", None)
    return None if find_utility is None else find_utility("nvdisasm")
