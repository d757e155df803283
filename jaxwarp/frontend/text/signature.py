"""The parameters of a kernel or function, from its Python signature, checked when it is decorated."""

from __future__ import annotations

import ast
import inspect
import typing
from typing import Any

from jaxwarp.errors import KernelError, KernelSyntaxError, KernelTypeError
from jaxwarp.frontend.text.annotations import Reference, resolve
from jaxwarp.frontend.text.constants import attribute_chain, evaluate_host
from jaxwarp.frontend.text.content import NoContentError, token_of
from jaxwarp.frontend.text.functions import Parameter
from jaxwarp.frontend.text.host_values import Missing, frozen
from jaxwarp.frontend.text.reads import parsed, reads_of_text
from jaxwarp.frontend.text.source import Source
from jaxwarp.types import Aggregate, Array


def read_parameters(source: Source, what: str) -> tuple[Parameter, ...]:
    """The parameters of a function.

    Args:
        what: "kernel" or "func"; arguments of kernels need annotations.

    Raises:
        KernelSyntaxError: it has `*args` or `**kwargs`.
        KernelTypeError: an annotation is missing, or is no type of the language.
    """
    key, kept = _told(source, what), source.definition.kept
    known = None if key is None else kept.get(key)
    if known is None:
        known = _read_parameters(source, what)
        if key is not None:
            kept[key] = known
    return known


def _told(source: Source, what: str) -> Any:
    """Return what decides about the parameters of functions of one code; None if it cannot be said."""
    function = source.function
    annotations, defaults = function.__annotations__.values(), (function.__defaults__, function.__kwdefaults__)
    try:
        values = [v for a in annotations for v in (_values_in(source, a) if isinstance(a, str) else [a])]
        return read_parameters, what, source.name, *map(token_of, (*values, *defaults))
    except NoContentError:
        return None


def _values_in(source: Source, text: str) -> list[Any]:
    """Return an annotation that is a text, and the values of its names.

    Raises:
        NoContentError: it is more than names, attributes and subscripts.
    """
    kept = source.definition.kept
    reads = kept.get((_values_in, text))
    if reads is None:
        reads = kept[_values_in, text] = reads_of_text(text)
    if reads is None or reads.names.keys() & source.bound:
        raise NoContentError
    names = [source.lookup(name) for name in reads.names]
    return [text, *names, *(attribute_chain(source, chain.node) for chain in reads.chains.values())]


def _read_parameters(source: Source, what: str) -> tuple[Parameter, ...]:
    arguments = source.tree.args
    for extra, text in ((arguments.vararg, "*"), (arguments.kwarg, "**")):
        if extra is not None:
            raise KernelSyntaxError(
                f"{source.name}: {text}{extra.arg} is not part of the kernel language",
                source.loc(extra),
                hint="name the arguments one by one",
            )
    if what == "kernel" and read_return(source) is not Missing:
        assert source.tree.returns is not None
        raise KernelTypeError(
            f"{source.name}: a kernel returns nothing",
            source.loc(source.tree.returns),
            hint="leave the annotation out; results are written to output arrays",
        )
    signature = inspect.signature(source.function)
    nodes = {a.arg: a for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    return tuple(_parameter(source, nodes[p.name], p, what) for p in signature.parameters.values())


def _parameter(source: Source, node: ast.arg, parameter: inspect.Parameter, what: str) -> Parameter:
    loc = source.loc(node)
    name = parameter.name
    default = Missing if parameter.default is inspect.Parameter.empty else frozen(parameter.default)
    if parameter.annotation is inspect.Parameter.empty:
        if what == "kernel":
            raise KernelTypeError(
                f"{source.name}: argument {name} has no annotation",
                loc,
                hint=f"write {name}: float, or {name}: array[float]",
            )
        pattern: Any = Any
        is_reference = False
    else:
        try:
            annotation = _annotation(source, node, parameter.annotation)
            is_reference = isinstance(annotation, Reference)
            pattern = resolve(annotation.type if isinstance(annotation, Reference) else annotation)
            _require_variable(is_reference, default, what)
        except KernelError as error:
            error.loc = error.loc or loc
            error.message = f"{source.name}: argument {name}: {error.message}"
            raise
        if what == "kernel" and not _is_kernel_argument(pattern):
            raise KernelTypeError(
                f"{source.name}: argument {name} of a kernel must be an array, scalar, vector, matrix or struct",
                loc,
                hint="pass its parts as separate arguments; only a @func takes tuples and functions",
            )
        if what == "kernel" and _is_empty(pattern):
            raise KernelTypeError(
                f"{source.name}: argument {name}: {pattern!r} has no components", loc, hint="leave the argument out"
            )
    return Parameter(name, pattern, default, parameter.kind is inspect.Parameter.KEYWORD_ONLY, is_reference)


def _require_variable(is_reference: bool, default: object, what: str) -> None:
    if is_reference and what == "kernel":
        raise KernelTypeError(
            "an argument of a kernel cannot be a ref[...]", hint="take an array of one element, and write to it"
        )
    if is_reference and default is not Missing:
        raise KernelTypeError("a ref[...] has no default value", hint="leave it out: a variable is passed")


def _is_kernel_argument(pattern: object) -> bool:
    import collections.abc

    return not (isinstance(pattern, tuple) or pattern is collections.abc.Callable)


def _is_empty(pattern: object) -> bool:
    element = pattern.dtype if isinstance(pattern, Array) else pattern
    return isinstance(element, Aggregate) and 0 in element.shape


def _annotation(source: Source, node: ast.arg, annotation: object) -> Any:
    """The value of an annotation; text (of `from __future__ import annotations`) is evaluated."""
    if isinstance(annotation, typing.ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        return evaluate_host(source, parsed(annotation), {}, source.loc(node))
    return annotation


def read_return(source: Source) -> Any:
    """The pattern of the return annotation; `Missing` without one, and for None."""
    node = source.tree.returns
    annotation = source.function.__annotations__.get("return", Missing)
    if node is None or annotation is Missing or annotation in (None, "None", type(None)):
        return Missing
    loc = source.loc(node)
    try:
        if isinstance(annotation, str):
            annotation = evaluate_host(source, parsed(annotation), {}, loc)
        return Missing if annotation is None else resolve(annotation)
    except KernelError as error:
        error.loc = error.loc or loc
        error.message = f"{source.name}: the return annotation: {error.message}"
        raise
