"""The roles of a kernel's parameters in a call (input, in-out, output), and the value that each input gets."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from jaxwarp.analysis.effects import Access, analyze
from jaxwarp.errors import KernelTypeError, KernelValueError, did_you_mean
from jaxwarp.ir.kernel import Kernel
from jaxwarp.launches.arguments.argument import CallParameter
from jaxwarp.launches.spec import IN_OUT, INPUT, OUTPUT
from jaxwarp.types import Array, leaves_of


class Annotated(Protocol):
    """An argument as its function declares it."""

    @property
    def name(self) -> str: ...

    @property
    def annotation(self) -> Any: ...


class Callee(Protocol):
    """A kernel, or a function of `jax_callable`."""

    @property
    def name(self) -> str: ...

    @property
    def arguments(self) -> Sequence[Annotated]: ...


def assign_roles(
    kernel: Callee, num_outputs: int, in_out_argnames: Iterable[str] | None, *, by_name: bool = False
) -> list[CallParameter]:
    """The leaves of the kernel's arguments: inputs and in-outs first, the pure outputs last.

    Of a struct that is updated, the fields that are no arrays are inputs.

    Args:
        by_name: the caller has named the outputs (`outputs`), and `num_outputs` is how many names there are.

    Raises:
        KernelTypeError, KernelValueError: the number of outputs or the in-out names do not fit the kernel.
    """
    owner = getattr(kernel, "owner", "kernel")
    where, names = f"{owner} {kernel.name}", [a.name for a in kernel.arguments]
    in_outs = _in_out_names(where, in_out_argnames, names)
    if not isinstance(num_outputs, (int, np.integer)) or isinstance(num_outputs, bool):
        raise KernelTypeError(
            f"{where}: num_outputs: expected an integer, got {num_outputs!r}",
            hint="write how many arguments are outputs: num_outputs=1",
        )
    if not names:
        raise KernelTypeError(f"{where} has no arguments", hint="a launch needs an output: an array argument")
    low = max(1, len(in_outs))
    if not low <= num_outputs <= len(names):
        counting = " (in-out arguments count among the outputs)" if in_outs else ""
        option, unit = ("outputs", " names") if by_name else ("num_outputs", "")
        raise KernelValueError(
            f"{where}: {option}: expected {low} to {len(names)}{unit}{counting}, got {num_outputs}",
            hint=f"the outputs are the last arguments, which the kernel writes: {'name' if by_name else 'count'} them",
        )
    first_output = len(names) - (num_outputs - len(in_outs))
    arguments = []
    for position, (name, annotation) in enumerate((a.name, a.annotation) for a in kernel.arguments):
        role = OUTPUT if position >= first_output else IN_OUT if name in in_outs else INPUT
        if role == OUTPUT and name in in_outs:
            raise KernelValueError(
                f"{where}: in-out argument '{name}' is among the last {len(names) - first_output} arguments, "
                "which are the outputs",
                hint="in-out arguments count among the outputs, and come before the last arguments",
            )
        for leaf, type_ in leaves_of(name, annotation):
            argument = CallParameter(kernel.name, leaf, type_, role, owner, "" if leaf == name else name)
            if role == IN_OUT and argument.root and not argument.is_array:
                argument = replace(argument, role=INPUT)
            elif role != INPUT and not argument.is_array:
                raise KernelTypeError(
                    f"{argument.where} is an {role} argument: expected an array, got {type_}",
                    hint=f"outputs are arrays; a struct that is updated has numbers too: in_out_argnames=[{name!r}]"
                    if argument.root
                    else _array_hint(kernel, role, name, by_name),
                )
            arguments.append(argument)
    return arguments


def _in_out_names(where: str, given: Iterable[str] | None, names: Sequence[str]) -> set[str]:
    listed = [given] if isinstance(given, str) else list(given or ())
    for name in listed:
        if name not in names:
            raise KernelValueError(
                f"{where}: in_out_argnames: no argument is named {name!r}; the arguments are {', '.join(names)}",
                hint=did_you_mean(name, names) or f"write in_out_argnames=[{names[0]!r}], say",
            )
    if len(set(listed)) != len(listed):
        raise KernelValueError(
            f"{where}: in_out_argnames must not contain duplicate names, got {', '.join(listed)}",
            hint="write each name once",
        )
    return set(listed)


def bind_names(
    arguments: Sequence[CallParameter],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    defaults: Mapping[str, Any],
    options: Sequence[str] = (),
) -> list[Any]:
    """The inputs' values in order, from positional and keyword arguments, and defaults for those that are left out.

    `options` are the names of the call's other keyword arguments, which an error suggests for a misspelled one.
    """
    inputs = list(dict.fromkeys(a.declared for a in arguments if a.role != OUTPUT))
    kwargs = {name: defaults[name] for name in inputs[len(args) :] if name in defaults} | dict(kwargs)
    where, listing = f"{arguments[0].owner} {arguments[0].kernel}", f"({', '.join(inputs)})" if inputs else ""
    for name in kwargs:
        if name not in inputs:
            is_output = any(a.declared == name for a in arguments)
            problem = f"'{name}' is an output, not an input" if is_output else f"no input is named '{name}'"
            hint = (
                "leave it out: outputs are returned; output_dims says their shape, in_out_argnames which are updated"
                if is_output
                else "did you mean launch_dims?"
                if name == "dim" and "launch_dims" in options
                else did_you_mean(name, (*inputs, *options)) or "pass the inputs by position, or by these names"
            )
            raise KernelTypeError(f"{where}: {problem}; the inputs are {', '.join(inputs) or 'none'}", hint=hint)
        if name in inputs[: len(args)]:
            raise KernelTypeError(
                f"{where}: input '{name}' is given twice, by position and by name",
                hint=f"leave one of them out: the inputs are {', '.join(inputs)}",
            )
    if len(args) + len(kwargs) != len(inputs):
        plural = "input" if len(inputs) == 1 else "inputs"
        expected = f"{len(inputs)} {plural} {listing}".rstrip()
        missing = [name for name in inputs[len(args) :] if name not in kwargs]
        hint = f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing" if missing else None
        outputs = list(dict.fromkeys(a.declared for a in arguments if a.role == OUTPUT))
        if not missing and outputs:
            hint = f"leave out {', '.join(outputs)}: outputs are returned; output_dims says their shape"
        raise KernelTypeError(f"{where}: expected {expected}, got {len(args) + len(kwargs)}", hint=hint)
    return [*args, *(kwargs[name] for name in inputs[len(args) :])]


def call_signature(
    call: Callable[..., Any], arguments: Sequence[CallParameter], types: Mapping[str, Any], defaults: Mapping[str, Any]
) -> inspect.Signature:
    """Return the signature of a call: what `bind_names` takes, and the options of `call`."""
    kind, none = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
    names = dict.fromkeys(a.declared for a in arguments if a.role != OUTPUT)
    inputs = [inspect.Parameter(n, kind, default=defaults.get(n, none), annotation=types[n]) for n in names]
    options = [p for p in inspect.signature(call).parameters.values() if p.kind is p.KEYWORD_ONLY]
    return inspect.Signature([*inputs, *options])


def _array_hint(kernel: Callee, role: str, name: str, by_name: bool) -> str:
    """Return a hint for a number that is declared an output: outputs are arrays, and the last arguments."""
    if role == IN_OUT:
        return f"leave {name!r} out of in_out_argnames: numbers are passed by value"
    last = [isinstance(a.annotation, Array) for a in reversed(kernel.arguments)]
    count = last.index(False)
    if count:
        most = outputs_text([a.name for a in kernel.arguments[-count:]], by_name=by_name)
        return f"outputs are arrays, and the last arguments: {most}{'' if by_name else ' at most'}"
    return "write results to an array: make it the last argument, an array[float]"


def outputs_text(outputs: Sequence[str], in_outs: Sequence[str] = (), *, by_name: bool) -> str:
    """Return the options by which these are the outputs, and those the in-out arguments: named, or counted."""
    names = (*in_outs, *outputs)
    named = repr(names[0]) if len(names) == 1 else repr(names)
    given = f"outputs={named}" if by_name else f"num_outputs={len(names)}"
    return f"{given}, in_out_argnames={list(in_outs)}" if in_outs else given


def updating_options(
    kernel: Kernel, arguments: Sequence[CallParameter], inputs: int | None = None, *, by_name: bool = False
) -> str | None:
    """The options that fit a kernel that updates arguments: of those that it writes to, the last ones are outputs and
    the others are updated. None: it updates none.

    Args:
        inputs: how many inputs it is to have then. What it only adds to may be updated, too.
        by_name: name the outputs, and do not count them.
    """
    for is_kept in (_is_read, _is_read_or_summed):
        count = _written_last(kernel, arguments, is_kept)
        before = len(arguments) - count
        found = zip(kernel.params[:before], arguments, strict=False)
        names = list(dict.fromkeys(a.declared for p, a in found if analyze(kernel)[p].modifies))
        total = len({a.declared for a in arguments})
        if names and not any(a.root for a in arguments[before:]) and inputs in (None, total - count):
            return outputs_text(_declared(arguments[before:]), names, by_name=by_name)
        if inputs is None:
            break
    return None


def written_last(kernel: Kernel, arguments: Sequence[CallParameter]) -> int:
    """Return how many of the last parameters the kernel writes and does not read: its largest number of outputs."""
    return _written_last(kernel, arguments, _is_read)


def _is_read(access: Access) -> bool:
    return access.reads


def _is_read_or_summed(access: Access) -> bool:
    return access.reads or access.accumulates


def _written_last(kernel: Kernel, arguments: Sequence[CallParameter], is_kept: Callable[[Access], bool]) -> int:
    effects = [analyze(kernel)[p] for p in kernel.params]
    written = [e.modifies and not is_kept(e) and a.is_array for e, a in zip(effects, arguments, strict=True)]
    return len(written) if all(written) else written[::-1].index(False)


def require_inputs_unchanged(kernel: Kernel, arguments: Sequence[CallParameter], *, by_name: bool = False) -> None:
    """JAX arrays are values: a kernel may not write to an input that is not also an output."""
    effects = analyze(kernel)
    for param, argument in zip(kernel.params, arguments, strict=True):
        if argument.role == INPUT and effects[param].modifies:
            raise KernelTypeError(
                f"{argument.where} is an input, but the kernel writes to it",
                effects[param].first_write,
                hint=_written_hint(kernel, arguments, argument, by_name),
            )


def roles_of_written(
    kernel: Kernel, arguments: Sequence[CallParameter]
) -> tuple[list[str], tuple[tuple[int, int], ...]]:
    """The roles in a launch: of a struct that is updated, arrays that the kernel does not write are inputs.

    Returns:
        The roles, and for each such array its place among the results and among the inputs.
    """
    effects, roles = analyze(kernel), [a.role for a in arguments]
    unwritten = [
        i
        for i, (param, a) in enumerate(zip(kernel.params, arguments, strict=True))
        if a.role == IN_OUT and a.root and not effects[param].modifies
    ]
    results = [i for i, role in enumerate(roles) if role != INPUT]
    if len(unwritten) == len(results):  # a launch has a result
        return roles, ()
    for i in unwritten:
        roles[i] = INPUT
    return roles, tuple((results.index(i), i) for i in unwritten)


def _written_hint(kernel: Kernel, arguments: Sequence[CallParameter], argument: CallParameter, by_name: bool) -> str:
    """The options under which the kernel may write to an input."""
    in_outs = _declared([a for a in arguments if a.role == IN_OUT])
    outputs = _declared([a for a in arguments if a.role == OUTPUT])
    count, position = written_last(kernel, arguments), list(arguments).index(argument)
    names = [n for n in _declared(arguments) if n in (*in_outs, argument.declared)]
    update = (not in_outs and updating_options(kernel, arguments, by_name=by_name)) or outputs_text(
        outputs, names, by_name=by_name
    )
    if position < len(arguments) - count or in_outs or any(a.root for a in arguments):
        return f"update it: {update}"
    made = outputs_text(_declared(arguments[len(arguments) - count :]), by_name=by_name)
    return f"make it an output: {made}; or pass it and update it: {update}"


def _declared(arguments: Sequence[CallParameter]) -> list[str]:
    return list(dict.fromkeys(a.declared for a in arguments))
