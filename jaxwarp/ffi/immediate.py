"""Launches that run at once, on memory of the host: what `launch` does inside a callback."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxwarp.errors import KernelTypeError
from jaxwarp.ffi.arguments import Argument, Given, describe, make_converter, resolve_element
from jaxwarp.ffi.buffers import Buffer
from jaxwarp.ffi.dims import normalize_dims
from jaxwarp.ffi.launch import INPUT, fit_grid, intern_kernel
from jaxwarp.ffi.lowering import prepared
from jaxwarp.ir.nodes import Kernel
from jaxwarp.passes.effects import analyze
from jaxwarp.types import Array


def launch_now(kernel: Any, dim: Any, given: Sequence[Any]) -> None:
    """Runs a kernel in this thread, on buffers of a callback, NumPy arrays and numbers.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit the kernel.
    """
    arguments = [Argument(kernel.name, a.name, a.annotation, INPUT) for a in kernel.arguments]
    values = [_on_host(a, g) for a, g in zip(arguments, given, strict=True)]
    described = [_describe(v) for v in values]
    elements = [resolve_element(a, d) for a, d in zip(arguments, described, strict=True)]
    converters = [make_converter(a, e, d) for a, e, d in zip(arguments, elements, described, strict=True)]
    types = [Array(e, a.ndim) if a.is_array else e for a, e in zip(arguments, elements, strict=True)]
    ir, grid = fit_grid(kernel.specialize(tuple(types)), normalize_dims(dim, f"kernel {kernel.name}: dim"))
    _require_writable(ir, arguments, given, values)
    operands = [
        np.ascontiguousarray(v if convert is None else convert(v)).reshape(np.shape(v))
        for v, convert in zip(values, converters, strict=True)
    ]
    if 0 in grid:
        return
    from jaxwarp.codegen.cpu import launch  # LLVM is slow to import

    made, code = _code(intern_kernel(ir), kernel.options.get("fma", True))
    launch(code, made, grid, operands)


@functools.lru_cache(maxsize=256)
def _code(kernel: Kernel, fma: bool) -> tuple[Kernel, Any]:
    from jaxwarp.codegen.cpu import compile_cpu

    made = prepared(kernel, fma)
    return made, compile_cpu(made)


def _on_host(argument: Argument, value: Any) -> Any:
    if not isinstance(value, Buffer):
        return value
    if value.platform != "cpu":
        raise KernelTypeError(
            f"{argument.where}: launches on the GPU buffers of a callback are not available yet",
            hint="call the kernel with jax_kernel, or in a function under jax_callable",
        )
    return value.numpy()


def _describe(value: Any) -> Given:
    """As `describe`, but 64-bit data are that: they do not go through JAX."""
    if isinstance(value, (np.ndarray, np.generic)):
        return Given(type(value).__name__, value.shape, value.dtype, is_host=value.ndim == 0)
    return describe(value)


def _require_writable(ir: Kernel, arguments: Sequence[Argument], given: Sequence[Any], values: Sequence[Any]) -> None:
    """What the kernel writes must be memory that may be written, and no other argument may overlap it."""
    effects = analyze(ir)
    for i, (param, argument, value) in enumerate(zip(ir.params, arguments, values, strict=True)):
        if not effects[param].modifies:
            continue
        where, line = f"{argument.where} is written by the kernel", effects[param].first_write
        if not isinstance(value, np.ndarray):
            raise KernelTypeError(f"{where}: expected a buffer or a NumPy array, got {type(value).__name__}", line)
        if not value.flags.writeable:
            what = f"{given[i].name}, an input of the callback" if isinstance(given[i], Buffer) else "a read-only array"
            raise KernelTypeError(f"{where}, but it is {what}", line, hint="write to an output, or to a copy")
        if not value.flags.c_contiguous:
            raise KernelTypeError(f"{where}: expected a contiguous array", line, hint="write to a copy of it")
        for j, other in enumerate(values):
            if i != j and isinstance(other, np.ndarray) and np.may_share_memory(value, other):
                raise KernelTypeError(
                    f"{where}, and shares memory with argument '{arguments[j].name}'", line, hint="pass a copy as one"
                )
