"""The reading of a decorated Python function into its `Source`."""

from __future__ import annotations

import inspect
import types
import weakref
from collections.abc import Mapping
from typing import Any

from jaxwarp.errors import KernelSyntaxError, KernelTypeError, type_text
from jaxwarp.frontend.text.constants import capture
from jaxwarp.frontend.text.definition import find_definition
from jaxwarp.frontend.text.source import Definition, Source


def read_source(function: Any, decorator: str, scope: Mapping[str, Any]) -> Source:
    """Finds the text of a function.

    Args:
        scope: the local names where it is defined: annotations may use them.

    Raises:
        KernelTypeError: not a plain Python function.
        KernelSyntaxError: a lambda or another kind of function that has no body of statements.
        KernelValueError: its source is not available, or has changed.
    """
    if not isinstance(function, types.FunctionType):
        raise KernelTypeError(
            f"@{decorator} expects a Python function, got {type_text(function)}",
            hint=f"write @{decorator} above a def",
        )
    if function.__name__ == "<lambda>":
        raise KernelSyntaxError(
            f"@{decorator} cannot be applied to a lambda", hint="write it as a function with def and a name"
        )
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise KernelSyntaxError(f"{function.__name__}: @{decorator} cannot be applied to async def", hint="use def")
    source = Source(function.__name__, function.__code__.co_filename, _definition_of(function), function)
    capture(source, scope)
    return source


def _definition_of(function: types.FunctionType) -> Definition:
    """Return the text of a function, which is looked for once for each code: a factory makes many functions of one."""
    code = function.__code__
    number = id(code)  # codes of two files may be equal
    known = _definitions.get(number)
    if known is None:
        made = Definition(*find_definition(function))
        known = _definitions.setdefault(number, (weakref.ref(code, lambda _: _definitions.pop(number, None)), made))
    return known[1]


_definitions: dict[int, tuple[weakref.ref[types.CodeType], Definition]] = {}
