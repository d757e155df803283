"""Which of a kernel's parameters are inputs, in-outs and outputs of a call, and which value each input gets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.ffi.arguments import Argument
from jaxwarp.ffi.launch import IN_OUT, INPUT, OUTPUT
from jaxwarp.ir import nodes as ir
from jaxwarp.passes.effects import analyze


def assign_roles(kernel: Any, num_outputs: int, in_out_argnames: Iterable[str] | None) -> list[Argument]:
    """The kernel's arguments: inputs and in-outs first, the pure outputs last.

    Raises:
        KernelTypeError, KernelValueError: the number of outputs or the in-out names do not fit the kernel.
    """
    owner = getattr(kernel, "owner", "kernel")
    where, names = f"{owner} {kernel.name}", [a.name for a in kernel.arguments]
    in_outs = _in_out_names(where, in_out_argnames, names)
    if not isinstance(num_outputs, (int, np.integer)) or isinstance(num_outputs, bool):
        raise KernelTypeError(f"{where}: num_outputs: expected an integer, got {num_outputs!r}")
    if not names:
        raise KernelTypeError(f"{where} has no arguments", hint="a launch needs an output: an array argument")
    low = max(1, len(in_outs))
    if not low <= num_outputs <= len(names):
        counting = " (in-out arguments count among the outputs)" if in_outs else ""
        raise KernelValueError(f"{where}: num_outputs: expected {low} to {len(names)}{counting}, got {num_outputs}")
    first_output = len(names) - (num_outputs - len(in_outs))
    arguments = []
    for position, (name, annotation) in enumerate((a.name, a.annotation) for a in kernel.arguments):
        role = OUTPUT if position >= first_output else IN_OUT if name in in_outs else INPUT
        if role == OUTPUT and name in in_outs:
            raise KernelValueError(
                f"{where}: in-out argument '{name}' is among the last {len(names) - first_output} arguments, "
                "which are the outputs",
                hint="in-out arguments count in num_outputs, and come before the outputs",
            )
        argument = Argument(kernel.name, name, annotation, role, owner)
        if role != INPUT and not argument.is_array:
            raise KernelTypeError(f"{argument.where} is an {role} argument: expected an array, got {annotation}")
        arguments.append(argument)
    return arguments


def _in_out_names(where: str, given: Iterable[str] | None, names: Sequence[str]) -> set[str]:
    listed = [given] if isinstance(given, str) else list(given or ())
    for name in listed:
        if name not in names:
            raise KernelValueError(
                f"{where}: in_out_argnames: no argument is named {name!r}; the arguments are {', '.join(names)}"
            )
    if len(set(listed)) != len(listed):
        raise KernelValueError(f"{where}: in_out_argnames: a name is given twice: {', '.join(listed)}")
    return set(listed)


def bind_names(arguments: Sequence[Argument], args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The inputs' values in order, from positional and keyword arguments."""
    inputs = [a.name for a in arguments if a.role != OUTPUT]
    where, listing = f"{arguments[0].owner} {arguments[0].kernel}", f"({', '.join(inputs)})" if inputs else ""
    for name in kwargs:
        if name not in inputs:
            is_output = any(a.name == name for a in arguments)
            problem = f"'{name}' is an output, not an input" if is_output else f"no input is named '{name}'"
            raise KernelTypeError(f"{where}: {problem}; the inputs are {', '.join(inputs) or 'none'}")
        if name in inputs[: len(args)]:
            raise KernelTypeError(f"{where}: input '{name}' is given twice, by position and by name")
    if len(args) + len(kwargs) != len(inputs):
        plural = "input" if len(inputs) == 1 else "inputs"
        expected = f"{len(inputs)} {plural} {listing}".rstrip()
        raise KernelTypeError(f"{where}: expected {expected}, got {len(args) + len(kwargs)}")
    return [*args, *(kwargs[name] for name in inputs[len(args) :])]


def require_inputs_unchanged(kernel: ir.Kernel, arguments: Sequence[Argument]) -> None:
    """JAX arrays are values: a kernel may not write to an input that is not also an output."""
    effects = analyze(kernel)
    for param, argument in zip(kernel.params, arguments, strict=True):
        if argument.role == INPUT and effects[param].modifies:
            raise KernelTypeError(
                f"{argument.where} is an input, but the kernel writes to it",
                effects[param].first_write,
                hint=f"update it with in_out_argnames=['{argument.name}'], or make it an output: the last num_outputs "
                "arguments are",
            )
