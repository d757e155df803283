"""Runs kernels of the language tests: on the interpreter, on CPU code, and as plain Python."""

from __future__ import annotations

import linecache
import math
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

import jaxwarp as wp
from jaxwarp.codegen.cpu import run_cpu
from jaxwarp.ir.interpret import interpret
from jaxwarp.launches.arguments.leaves import rebuilt
from jaxwarp.passes.pipeline import prepare

_sources = 0


def define(source: str, **names: Any) -> dict[str, Any]:
    """Executes source made by a test; returns its names. The text is registered, as programs that use `exec` must."""
    global _sources
    _sources += 1
    file = f"<test source {_sources}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope = {"wp": wp, **names}
    exec(compile(source, file, "exec"), scope)
    return scope


def run(
    kernel: wp.Kernel,
    grid: Sequence[int] | int,
    *arguments: Any,
    kinds: Sequence[Any] | None = None,
    rtol: float = 2e-6,
    atol: float = 0.0,
) -> list[Any]:
    """Runs a kernel on copies of the arguments; returns them as they are afterwards.

    The interpreter and CPU code of two widths must agree, and Python that steps through the function.
    """
    ir = kernel.specialize(kinds)
    shape = (grid,) if isinstance(grid, int) else tuple(grid)
    buffers = [np.array(a, dtype=p.dtype.numpy) for a, p in zip(arguments, ir.params, strict=True)]
    expected = [b.copy() for b in buffers]
    interpret(ir, shape, expected)
    if math.prod(shape) <= 16:
        stepped = [b.copy() for b in buffers]
        leaves = iter(stepped)
        kernel.interpret(*(rebuilt(a.annotation, leaves) for a in kernel.arguments), dim=shape)
        for a, b, p in zip(expected, stepped, ir.params, strict=True):
            np.testing.assert_array_equal(b, a, err_msg=f"{p.name}, stepped")
    prepared = prepare(ir, fma=False)
    for width in (1, 8):
        got = [b.copy() for b in buffers]
        run_cpu(prepared, shape, got, width=width)
        for a, b, p in zip(expected, got, ir.params, strict=True):
            # Elementary functions have an accuracy of their own; everything else agrees to the last bit.
            exact = not p.dtype.is_float
            where, inexact = f"{p.name}, width {width}", not exact
            np.testing.assert_allclose(b, a, rtol=inexact * rtol, atol=inexact * atol, err_msg=where)
    return expected


def outputs(kernel: wp.Kernel, grid: Sequence[int] | int, *arguments: Any, **options: Any) -> Any:
    """The last argument after `run`."""
    return run(kernel, grid, *arguments, **options)[-1]


class _Thread:
    """Stands for `wp` when a kernel's function is run by Python."""

    def __init__(self) -> None:
        self.index = 0

    def tid(self) -> int:
        return self.index


def run_python(scope: dict[str, Any], kernel: str, threads: int, *arguments: Any) -> None:
    """Runs the Python functions behind the kernels and funcs of a scope, thread by thread."""
    thread = _Thread()
    plain: dict[str, Any] = {"wp": thread}
    for name, value in scope.items():
        if isinstance(value, wp.Func):
            plain[name] = types.FunctionType(value.overloads[-1].source.function.__code__, plain)
    function = types.FunctionType(scope[kernel].func.__code__, plain)
    for index in range(threads):
        thread.index = index
        function(*arguments)
