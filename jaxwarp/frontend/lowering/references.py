"""Arguments that a function advances: `ref[...]` parameters of a `@func`.

A variable is handed over, and takes what the function leaves there when it returns. So nothing points anywhere: to the
IR a reference is one more argument and one more result.

    @func
    def twice(x: ref[float]):
        x = 2.0 * x                    twice(a[i])     ->     x = a[i];  x = 2.0 * x;  a[i] = x
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jaxwarp.builtins.language.function import Function
from jaxwarp.errors import KernelTypeError
from jaxwarp.frontend.lowering.frame import Frame
from jaxwarp.frontend.lowering.memory import loaded
from jaxwarp.frontend.lowering.targets import Attribute, Name, Part, Place, Section, Target, target
from jaxwarp.frontend.lowering.values import (
    Chosen,
    ElementValue,
    Host,
    StructValue,
    StructView,
    View,
    capture,
    describe,
    type_of,
)
from jaxwarp.frontend.text.functions import Func, Overload
from jaxwarp.frontend.text.host_values import Missing
from jaxwarp.frontend.text.source import Source
from jaxwarp.frontend.text.tree import walk
from jaxwarp.ir import nodes as ir

_NONE: Mapping[str, Any] = {}


@dataclass(frozen=True, eq=False)
class Passed:
    """An argument that may be a reference: where it is, if that is a place, and what stands in the call."""

    node: ast.expr
    place: Target | None
    value: Any = None


def reference_keys(callee: Any) -> Collection[int | str]:
    """Positions and names of the arguments that a function may advance."""
    if isinstance(callee, Host) and isinstance(callee.value, Function):
        return (*callee.value.writes, *callee.value.written_names)
    if not isinstance(callee, Func):
        return ()
    return {
        key
        for overload in callee.overloads
        for k, p in enumerate(overload.parameters)
        if p.is_reference
        for key in ((p.name,) if p.keyword_only else (k, p.name))
    }


def passed(frame: Frame, node: ast.expr) -> Passed:
    """An argument; a variable is read only when all arguments are evaluated, one of which may advance it."""
    if _root(node) in frame.variables:
        return Passed(node, target(frame, node))
    return Passed(node, None, frame.evaluate(node))


def _root(node: ast.AST) -> str | None:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def value_of(frame: Frame, argument: Any) -> Any:
    """The value of an argument, now."""
    if not isinstance(argument, Passed):
        return argument
    if argument.place is None:
        return argument.value
    with frame.at(argument.node):
        place = argument.place
        if isinstance(place, Place) and isinstance(place.place, StructValue):
            return loaded(frame.builder, place.place)
        return place.get(frame)


def require_distinct(frame: Frame, overload: Overload, given: Mapping[str, Any]) -> None:
    """Raises if two names in the function would be one variable, or one that is no variable is to be advanced."""
    name, seen = overload.source.name, dict[Any, str]()
    for parameter in overload.references:
        argument = given[parameter.name]
        assert isinstance(argument, Passed)
        with frame.at(argument.node):
            roots = _storage(argument.place)
            if not roots and not isinstance(argument.node, ast.Call):
                raise KernelTypeError(
                    f"{name} advances its argument {parameter.name}, got {describe(value_of(frame, argument))}",
                    hint="pass a variable: assign the value to one before",
                )
            for root in roots & seen.keys():
                raise KernelTypeError(
                    f"{name}: the arguments {seen[root]} and {parameter.name} may be one variable, and it advances "
                    "both",
                    hint="pass two variables, and assign them to their places afterwards",
                )
            seen |= dict.fromkeys(roots, parameter.name)
    for parameter, argument in given.items():
        for root in arrays_in(argument) & seen.keys():
            raise KernelTypeError(
                f"{name}: the argument {seen[root]} is an element of the argument {parameter}",
                hint="pass a variable, and assign it to the element afterwards",
            )


def _storage(place: Target | None) -> frozenset[str | ir.Param]:
    """The variable or the arrays that a place is in."""
    match place:
        case Name():
            return frozenset((place.name,))
        case Part() | Attribute() | Section():
            return _storage(place.parent)
        case Place():
            return frozenset(arrays_in(place.place))
        case _:
            return frozenset()


def arrays_in(value: Any) -> set[ir.Param]:
    """The arrays that a value is in, or has in it."""
    match value:
        case View():
            return {value.param}
        case Chosen(views=views):
            return {view.param for view in views}
        case ElementValue():
            return {view.param for view in value.views}
        case StructValue(values=parts) | StructView(views=parts):
            return set[ir.Param]().union(*map(arrays_in, parts))
        case tuple():
            return set[ir.Param]().union(*map(arrays_in, value))
        case _:
            return set()


def give_back(
    frame: Frame, overload: Overload, given: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]
) -> None:
    """Assigns what a function has left in its references to what was passed."""
    for parameter in overload.references:
        argument, value = given[parameter.name], after[parameter.name]
        with frame.at(argument.node):
            if type_of(value) != type_of(before[parameter.name]):
                name, was = parameter.name, describe(before[parameter.name])
                raise KernelTypeError(
                    f"{overload.source.name} leaves {describe(value)} in its argument {name}, which was {was}",
                    hint="a variable that is passed keeps its type: use another name in the function",
                )
            if argument.place is not None and value is not before[parameter.name]:
                argument.place.set(frame, value)


def assign_results(frame: Frame, function: Function, args: Sequence[Any]) -> None:
    """A call of a builtin function that assigns what it computes to some of its arguments."""
    result = function.expand(frame.ops, *(value_of(frame, a) for a in args[: function.reads]))
    for place, value in zip(function.writes, result if isinstance(result, tuple) else (result,), strict=True):
        argument = args[place]
        variable = argument.place if isinstance(argument, Passed) else None
        given = value_of(frame, argument)
        if variable is None or type_of(given) != type_of(value):
            raise KernelTypeError(
                f"{function.name}: argument {place + 1} must be a variable of type {describe(value)}, got "
                f"{describe(given)}",
                hint="give a variable that type before",
            )
        variable.set(frame, value)


# Which variables a piece of syntax advances


def advanced(source: Source, nodes: Sequence[ast.AST], variables: Mapping[str, Any] = _NONE) -> list[str]:
    """Names of variables that calls in the syntax advance, in order; `variables` may be functions that are called."""
    calls = (n for node in nodes for n in walk(node) if isinstance(n, ast.Call))
    found = (name for call in calls for name in _advanced_by(call, _callee(source, call.func, variables)))
    return list(dict.fromkeys(found))


def _advanced_by(call: ast.Call, callee: Any) -> Iterator[str]:
    keys = reference_keys(callee)
    if not keys:
        return
    starred = any(isinstance(a, ast.Starred) for a in call.args)
    for k, argument in enumerate(call.args):
        name = _root(argument)
        if name is not None and (starred or k in keys):
            yield name
    for keyword in call.keywords:
        name = _root(keyword.value)
        if name is not None and keyword.arg in keys:
            yield name


def _callee(source: Source, node: ast.expr, variables: Mapping[str, Any]) -> Any:
    match node:
        case ast.Name(id=name) if name in variables:
            return variables[name]
        case ast.Name(id=name) if name not in source.bound:
            found = source.lookup(name)
            return found if found is Missing else capture(found)
        case ast.Attribute():
            owner = _callee(source, node.value, variables)
            host = owner.value if isinstance(owner, Host) else None
            return capture(source.attribute(host, node.attr)) if hasattr(host, node.attr) else Missing
        case _:
            return Missing
