"""The texts that `help(wp.sin)` and `inspect.signature(wp.sin)` show of functions of the language."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import Any


class OfInstances:
    """A property of which the class itself has another value, or none: Python asks classes for it, too."""

    def __init__(self, get: Callable[[Any], Any], of_class: Any = None):
        self._get, self._of_class = get, of_class

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is not None:
            return self._get(instance)
        if self._of_class is None:
            raise AttributeError("it is of instances")
        return self._of_class


def parsed(signature: str) -> inspect.Signature:
    """A signature of its text, `sin(x: Float) -> Float`; annotations are text.

    Raises:
        AttributeError: the text leaves out arguments, so that there is none.
    """
    try:
        tree = ast.parse(f"def {signature}: ...").body[0]
    except SyntaxError:
        raise AttributeError("__signature__") from None
    assert isinstance(tree, ast.FunctionDef)
    arguments, empty = tree.args, inspect.Parameter.empty
    positional, by_name = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    defaults = [None] * (len(arguments.args) - len(arguments.defaults)) + arguments.defaults
    listed = [(a, positional, d) for a, d in zip(arguments.args, defaults, strict=True)]
    if arguments.vararg is not None:
        listed.append((arguments.vararg, inspect.Parameter.VAR_POSITIONAL, None))
    listed += [(a, by_name, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    parameters = [
        inspect.Parameter(a.arg, kind, default=_value(d) if d else empty, annotation=_text(a.annotation))
        for a, kind, d in listed
    ]
    return inspect.Signature(parameters, return_annotation=_text(tree.returns))


def _text(annotation: ast.expr | None) -> Any:
    return inspect.Parameter.empty if annotation is None else ast.unparse(annotation)


def _value(default: ast.expr) -> Any:
    try:
        return ast.literal_eval(default)
    except ValueError:
        return ast.unparse(default)
