"""The constants that a kernel's text names outside of it, with the values that they have when it is defined.

Arrays, lists and other objects that could change in place are copied then. Attributes (`settings.dt`) and expressions
in `static(...)` are evaluated then. A name that has no value yet is looked up when it is first needed, and keeps that
value: all specialisations of a kernel have the same constants.
"""

from __future__ import annotations

import ast
import copy
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from jaxwarp.boundary import warn
from jaxwarp.errors import KernelError, KernelNameError, KernelValueError, Loc, did_you_mean
from jaxwarp.frontend.text.host_values import Missing, find, frozen
from jaxwarp.frontend.text.source import Source

# What users call functions that stand for operators, as in Warp.
OPERATOR_FUNCTIONS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.MatMult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv",
    ast.Mod: "mod", ast.Pow: "pow", ast.LShift: "lshift", ast.RShift: "rshift", ast.BitAnd: "bit_and",
    ast.BitOr: "bit_or", ast.BitXor: "bit_xor", ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert",
}  # fmt: skip

# `static` itself, filled where it is defined.
STATIC: list[Any] = []


def capture(source: Source, scope: Mapping[str, Any]) -> None:
    """Keeps the values that the function's constants have now.

    A kernel defined in a loop keeps the values of its iteration. Its own name is left out: it may
    still get further overloads.

    Args:
        scope: the local names where it is defined: annotations may use them.
    """
    for node in _outside_statics(source):
        if isinstance(node, ast.Name) and node.id not in source.captured and node.id != source.name:
            value = find(source.function, node.id)
            if value is not Missing:
                source.captured[node.id] = frozen(value)
        elif isinstance(node, ast.Attribute):
            attribute_chain(source, node)
        elif isinstance(node, ast.operator | ast.unaryop):
            _capture_operator(source, node, scope)
    # With `from __future__ import annotations` a name that only annotations use is in no closure.
    arguments = source.tree.args
    annotations = [a.annotation for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    for annotation in [*annotations, source.tree.returns]:
        for node in ast.walk(annotation) if annotation is not None else ():
            if isinstance(node, ast.Name) and node.id in scope:
                source.captured[node.id] = scope[node.id]


def _capture_operator(source: Source, node: ast.operator | ast.unaryop, scope: Mapping[str, Any]) -> None:
    """Keeps the function that may stand for an operator. It is in no closure, since nothing names it."""
    name = OPERATOR_FUNCTIONS.get(type(node), "not")
    if name in scope and name not in source.captured and name != source.name:
        source.captured[name] = scope[name]


def _outside_statics(source: Source) -> Iterator[ast.AST]:
    """The nodes of a function, but those inside of static expressions that have a value now, which are given theirs."""
    pending: list[ast.AST] = [source.tree]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, ast.Call) and _is_static(source, node) and _evaluate_now(source, node.args[0]):
            pending.append(node.func)
        else:
            pending.extend(ast.iter_child_nodes(node))


def _is_static(source: Source, node: ast.Call) -> bool:
    if len(node.args) != 1 or not isinstance(node.func, ast.Name | ast.Attribute):
        return False
    value = attribute_chain(source, node.func)
    return any(value is static for static in STATIC)


def _evaluate_now(source: Source, argument: ast.expr) -> bool:
    """Evaluates a static expression that needs no local name; false if that fails."""
    nodes = list(ast.walk(argument))
    own = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}  # of comprehensions
    names = {n.id for n in nodes if isinstance(n, ast.Name)} - own
    if names & source.bound:
        return False
    try:
        value = eval(_code(source, argument), _scope(source, names, find))
    except Exception:
        return False  # names may get their values later; else the error comes, with its line, when it is needed
    source.statics[static_key(argument, {})] = frozen(value)
    return True


def static_key(argument: ast.expr, variables: Mapping[str, Any]) -> Any:
    """Return a key for the value of a static expression: the expression, with the values of the local names in it."""
    return argument, frozenset((name, _told_apart(value)) for name, value in variables.items())


def _told_apart(value: Any) -> Any:
    """Unlike 1, True, 1.0 and zeros of both signs, not equal to a value of another type or sign."""
    if isinstance(value, tuple):
        return tuple(map(_told_apart, value))
    return type(value), repr(value) if isinstance(value, (bool, int, float)) else value


def attribute_chain(source: Source, node: ast.expr) -> Any:
    """The value of a free name or an attribute (of an attribute ...) of one; `Missing` if there is none."""
    if isinstance(node, ast.Name):
        return Missing if node.id in source.bound else source.lookup(node.id)
    if not isinstance(node, ast.Attribute):
        return Missing
    host = attribute_chain(source, node.value)
    if host is Missing:
        return Missing
    try:
        return source.attribute(host, node.attr)
    except Exception:
        return Missing


def compare(source: Source, name: str, kept: Any, now: Callable[[], Any]) -> None:
    """Warns if a number or vector that a function of a module names is another one when it is first lowered: Python,
    JAX and Warp would take that one. Functions that a loop defines again and again are left alone.

    Args:
        name: what the text calls it.
        now: its value by now.
    """
    if name in source.compared or not isinstance(kept, bool | int | float | np.generic | np.ndarray):
        return
    source.compared.add(name)
    if not _is_of_module(source.function):
        return
    found = now()
    if _contents(found) != _contents(kept):
        warn(
            f"{source.name} was defined when {name} was {kept}, and keeps that; it is {found} by now: "
            "set it before the definition, or pass it as an argument"
        )


def _contents(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.dtype, value.shape, value.tobytes()
    return type(value), repr(value)


def _is_of_module(function: types.FunctionType) -> bool:
    """Return whether the function's name in its module stands for this function."""
    found = function.__globals__.get(function.__name__)
    overloads = getattr(found, "overloads", ())
    return getattr(found, "func", None) is function or any(o.source.function is function for o in overloads)


def evaluate_host(source: Source, node: ast.expr, variables: dict[str, Any], loc: Loc) -> Any:
    """Evaluates an expression of the kernel's text in Python: annotations, `static(...)`.

    Args:
        variables: local names that have a constant value (variables of unrolled loops).
    """
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    node, attributes = _without_attributes(source, node, variables)
    try:
        scope = _scope(source, names, lambda _, name: source.lookup(name))
        return eval(_code(source, node), scope | variables | attributes)
    except KernelError as error:
        error.loc = error.loc or loc
        raise
    except NameError as error:
        names = [*source.free_names(), *source.captured, "float", "int", "bool"]
        hint = did_you_mean(error.name, names) or "define the name before the kernel, or import it"
        raise KernelNameError(str(error), loc, hint) from error
    except Exception as error:
        hint = "it is evaluated by Python when the kernel is made: what raises there must be mended"
        raise KernelValueError(f"the expression raised {type(error).__name__}: {error}", loc, hint) from error


def _code(source: Source, node: ast.expr) -> types.CodeType:
    return compile(ast.Expression(node), source.file, "eval")


def _scope(source: Source, names: set[str], lookup: Callable[..., Any]) -> dict[str, Any]:
    found = {name: lookup(source.function, name) for name in names}
    return source.function.__globals__ | {name: value for name, value in found.items() if value is not Missing}


class _Attributes(ast.NodeTransformer):
    """Replaces attributes of free names by names of their own."""

    def __init__(self, source: Source, variables: Mapping[str, Any]):
        self.source = source
        self.variables = variables
        self.values: dict[str, Any] = {}

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        root: ast.expr = node
        while isinstance(root, ast.Attribute):
            root = root.value
        known = isinstance(root, ast.Name) and root.id not in self.variables
        value = attribute_chain(self.source, node) if known and isinstance(node.ctx, ast.Load) else Missing
        if value is Missing:
            self.generic_visit(node)
            return node
        name = f"${len(self.values)}"
        self.values[name] = value
        return ast.copy_location(ast.Name(name, ast.Load()), node)


def _without_attributes(
    source: Source, node: ast.expr, variables: Mapping[str, Any]
) -> tuple[ast.expr, dict[str, Any]]:
    """The expression with attributes of free names as names, and their values at definition."""
    replace = _Attributes(source, variables)
    return replace.visit(copy.deepcopy(node)), replace.values
