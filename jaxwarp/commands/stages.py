"""`stages`: from Python text to machine code, every stage, in order."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

from jaxwarp.codegen.cpu.compile import compile_object
from jaxwarp.codegen.cpu.control.function import emit_function
from jaxwarp.codegen.cuda.compile import compile_cuda
from jaxwarp.codegen.cuda.emit import print_cuda
from jaxwarp.frontend.lower import lower
from jaxwarp.frontend.text.read_source import read_source
from jaxwarp.frontend.text.signature import read_parameters
from jaxwarp.passes.checks.checked import checked
from jaxwarp.passes.checks.out_of_range import require_in_range
from jaxwarp.passes.launches.adding import adding
from jaxwarp.passes.launches.batch import batch
from jaxwarp.passes.launches.in_records import in_records
from jaxwarp.passes.launches.same_memory import with_one_for
from jaxwarp.passes.launches.tells import silent
from jaxwarp.passes.pipeline import CPU, CUDA, DERIVE, PREPARE, Pass
from jaxwarp.vjp.forward.tangent import tangent
from jaxwarp.vjp.reverse.adjoint import adjoint


class Stage(NamedTuple):
    """Some functions that follow one another.

    Attributes:
        name: what they make.
        functions: those that run.
        when: which kernels come here, or what is done.
    """

    name: str
    functions: tuple[Callable[..., Any], ...]
    when: str


def stages() -> tuple[Stage, ...]:
    """Every stage from Python text to machine code, in order.

    What JAX does to a launch is up to the program: `vmap` of a gradient is a derivative, then a batch. A kernel that
    a derivative or a batch makes goes on from there.
    """
    return (
        Stage("text", (read_source, read_parameters), "found, proved to be the function's, its constants kept"),
        Stage("IR", (lower,), "for the types of one call; inlines functions, unrolls; verified"),
        Stage("given twice", (with_one_for,), "outside of JAX: one name for an array that several arguments are given"),
        Stage("launch", (require_in_range,), "what the extents prove wrong is refused"),
        Stage("rounding", _functions(DERIVE), "of what is differentiated: its derivatives round as it does"),
        Stage("derivative", (silent, tangent, adjoint), "of either mode and any order"),
        Stage("sums", (adding,), "outside of JAX: what adds to the gradients themselves"),
        Stage("batch", (batch,), "for vmap: one axis more"),
        Stage("records", (in_records,), "outside of JAX, on fields of records"),
        Stage("checks", (checked,), "assertions; in debug mode, tests before what can fail"),
        Stage("prepared", _functions(PREPARE), "as both targets compile it"),
        Stage("CPU passes", _functions(CPU[len(PREPARE) :]), "for a launch's extents, and for several rows at once"),
        Stage("LLVM IR", (emit_function,), "on the CPU"),
        Stage("machine code", (compile_object,), "on the CPU"),
        Stage("GPU passes", _functions(CUDA[len(PREPARE) :]), "for a launch's extents"),
        Stage("CUDA C++", (print_cuda,), "on GPUs"),
        Stage("cubin", (compile_cuda,), "on GPUs"),
    )


def _functions(passes: tuple[Pass, ...]) -> tuple[Callable[..., Any], ...]:
    return tuple(one.function for one in passes)


def run(options: argparse.Namespace) -> tuple[Any, str]:
    """Lists the stages."""
    del options
    rows = [(stage.name, [name_of(f) for f in stage.functions], stage.when) for stage in stages()]
    data = [{"stage": name, "functions": functions, "when": when} for name, functions, when in rows]
    lines = [f"{name:14}{when}\n" + "".join(f"{'':16}{f}\n" for f in functions) for name, functions, when in rows]
    return data, "".join(lines).rstrip()


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function as the command line prints it."""
    return f"{function.__module__.removeprefix('jaxwarp.')}.{function.__name__}"
