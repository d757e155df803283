"""The constants that a kernel's text names outside of it, with the values that they have when it is defined.

Arrays, lists and other objects that could change in place are copied then. Attributes (`settings.dt`) and expressions
in `static(...)` are evaluated then. A name that has no value yet is looked up when it is first needed, and keeps that
value: all specialisations of a kernel have the same constants.
"""

from __future__ import annotations

import ast
import copy
import types
from collections.abc import Callable, Mapping, Set
from typing import Any

import numpy as np

from jaxwarp.boundary import warn
from jaxwarp.errors import KernelError, KernelNameError, KernelValueError, Loc, did_you_mean
from jaxwarp.frontend.text.host_values import Missing, find, frozen
from jaxwarp.frontend.text.reads import Reads, StaticExpression, callees, reads_of
from jaxwarp.frontend.text.source import Definition, Source
from jaxwarp.frontend.text.tree import walk

# `static` itself, filled where it is defined.
STATIC: list[Any] = []


def capture(source: Source, scope: Mapping[str, Any]) -> None:
    """Keeps the values that the function's constants have now.

    A kernel defined in a loop keeps the values of its iteration. Its own name is left out: it may
    still get further overloads.

    Args:
        scope: the local names where it is defined: annotations may use them.
    """
    static = source.before["static"] = _static_callees(source)
    _capture_reads(source, reads_of(source.definition, static), scope)
    # With `from __future__ import annotations` a name that only annotations use is in no closure.
    for name in _names_of_annotations(source.definition):
        if name in scope:
            source.captured[name] = scope[name]
    source.before["attributes"] = len(source.attributes)


def _static_callees(source: Source) -> frozenset[str]:
    """Return what the function calls that is `static`, as it is written."""
    found = ((text, attribute_chain(source, node)) for text, node in callees(source.definition))
    return frozenset(text for text, value in found if any(value is static for static in STATIC))


def _capture_reads(source: Source, reads: Reads, scope: Mapping[str, Any]) -> None:
    captured, function = source.captured, source.function
    for name in reads.names:
        if name not in captured and name != source.name:
            value = find(function, name)
            if value is not Missing:
                captured[name] = frozen(value)
    for chain in reads.chains.values():
        attribute_chain(source, chain.node)
    # What stands for an operator is in no closure, since nothing names it.
    for name in reads.operators:
        if name in scope and name not in captured and name != source.name:
            captured[name] = scope[name]
    for static in reads.statics:
        if not _evaluate_now(source, static):
            _capture_reads(source, static.inside, scope)


def _names_of_annotations(definition: Definition) -> tuple[str, ...]:
    """Return the names in the annotations of arguments and of the result."""
    found = definition.kept.get(_names_of_annotations)
    if found is None:
        arguments = definition.tree.args
        annotations = [a.annotation for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        given = [a for a in (*annotations, definition.tree.returns) if a is not None]
        names = {n.id: None for a in given for n in walk(a) if isinstance(n, ast.Name)}
        found = definition.kept[_names_of_annotations] = tuple(names)
    return found


def _evaluate_now(source: Source, static: StaticExpression) -> bool:
    """Evaluates a static expression that needs no local name; false if that fails."""
    if static.names & source.bound:
        return False
    codes = source.definition.kept
    try:
        code = codes.get(static.argument)
        if code is None:
            code = codes[static.argument] = static.code(source.file)
        if static.is_flat:
            found = ((name, find(source.function, name)) for name in static.names)
            value = eval(code, source.function.__globals__, {n: v for n, v in found if v is not Missing})
        else:
            value = eval(code, _scope(source, static.names, find))
    except Exception:
        return False  # names may get their values later; else the error comes, with its line, when it is needed
    source.statics[static_key(static.argument, {})] = frozen(value)
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
    if name in source.compared or not isinstance(kept, _COMPARED):
        return
    source.compared.add(name)
    if not _is_of_module(source.function):
        return
    found = now()
    if _differ(found, kept):
        warn(
            f"{source.name} was defined when {name} was {kept}, and keeps that; it is {found} by now: "
            "set it before the definition, or pass it as an argument"
        )


_COMPARED = bool | int | float | np.generic | np.ndarray


def has_changed(source: Source, kept: Any, now: Callable[[], Any]) -> bool:
    """Return whether `compare` would warn, the first time."""
    return isinstance(kept, _COMPARED) and _is_of_module(source.function) and _differ(now(), kept)


def _differ(a: Any, b: Any) -> bool:
    return _contents(a) != _contents(b)


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
    try:
        plain = _plain(source, node, variables)
        if plain is not Missing:
            return plain
        names = {n.id for n in walk(node) if isinstance(n, ast.Name)}
        node, attributes = _without_attributes(source, node, variables)
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
        hint = "Python evaluates it when the kernel is defined: correct the expression"
        raise KernelValueError(f"the expression raised {type(error).__name__}: {error}", loc, hint) from error


def _plain(source: Source, node: ast.expr, variables: Mapping[str, Any]) -> Any:
    """The value of names, their attributes and subscripts, as annotations are, without compiling it; else `Missing`."""
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return variables[node.id] if node.id in variables else source.lookup(node.id)
        case ast.Attribute():
            root: ast.expr = node
            while isinstance(root, ast.Attribute):
                root = root.value
            is_free = isinstance(root, ast.Name) and root.id not in variables
            return attribute_chain(source, node) if is_free else Missing
        case ast.Subscript():
            host, index = _plain(source, node.value, variables), _plain(source, node.slice, variables)
            return Missing if host is Missing or index is Missing else host[index]
        case _:
            return Missing


def _code(source: Source, node: ast.expr) -> types.CodeType:
    return compile(ast.Expression(node), source.file, "eval")


def _scope(source: Source, names: Set[str], lookup: Callable[..., Any]) -> dict[str, Any]:
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
