"""Functions of integrands that depend on what they are called with: on the kind of a field, a domain, an integrand."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jaxwarp.boundary import boundary, caller, guarded
from jaxwarp.builtins.language.values import Bundle
from jaxwarp.errors import KernelTypeError
from jaxwarp.fem.types import Domain, Field, Sample
from jaxwarp.frontend.lowering.values import Expanded, StructValue, describe
from jaxwarp.frontend.text.functions import Func, Overload, Parameter
from jaxwarp.frontend.text.read_source import read_source
from jaxwarp.frontend.text.signature import read_parameters, read_return


def operator(name: str, doc: str, instead: str = "") -> Expanded:
    """A function of a field or a domain, its first argument, which that one's kind has under this name.

    Kinds that do not know the name have the function under the name `instead`.
    """

    def expand(call: Callable[..., Any], args: Sequence[Any], keywords: dict[str, Any]) -> Any:
        if not args or not isinstance(args[0], StructValue):
            given = describe(args[0]) if args else "nothing"
            raise KernelTypeError(
                f"fem.{name}: expected a field or a domain, got {given}", hint=f"pass one first: {name}(u, s)"
            )
        kind = args[0].type.kind
        functions = getattr(kind, "FUNCTIONS", {})
        known = name if name in functions or not instead else instead
        found = functions.get(known)
        if found is None:
            raise KernelTypeError(
                f"fem.{known} is not available for {kind.__name__}",
                hint=getattr(kind, "HINTS", {}).get(known, "see what it has in docs/fem.md"),
            )
        return found if isinstance(found, StructValue) else call(found, args, keywords)

    made = Expanded(name, expand)
    object.__setattr__(made, "__doc__", doc)
    return made


def constant(value: Any) -> Expanded:
    """A function of a kind that is the same for all its instances."""
    return Expanded("constant", lambda *_: value)


def part(name: str) -> Expanded:
    """A function of a kind that gives a field of its struct."""

    def expand(call: Callable[..., Any], args: Sequence[Any], keywords: dict[str, Any]) -> Any:
        return args[0].values[args[0].type.index(name)]

    return Expanded(name, expand)


@guarded
@dataclass(eq=False)
class Integrand(Func):
    """A function of the kernel language that takes fields and domains, made by `@integrand`.

    `roles` has the role of each argument: "sample", "domain", "field", or "value".
    """

    roles: dict[str, str] = None  # pyright: ignore

    @property
    def types(self) -> dict[str, Any]:
        """The declared types of arguments that are values."""
        return {p.name: p.pattern for p in self.overloads[0].parameters if self.roles[p.name] == "value"}


@boundary
def integrand(func: Any = None, kernel_options: Any = None) -> Any:
    """Makes a function that can be integrated and interpolated: `@fem.integrand`.

    Its arguments are a sample `s: fem.Sample`, perhaps a domain `domain: fem.Domain`, fields `u: fem.Field`, values.

    Args:
        func: the function.
        kernel_options: accepted, no effect.

    Raises:
        KernelError: the function cannot be one of the language; errors in its body come when it is used.
    """
    del kernel_options
    scope = caller()

    @boundary
    def decorate(function: Any) -> Integrand:
        marks = {name: _mark(function, scope.f_locals, a) for name, a in inspect.get_annotations(function).items()}
        roles = {name: marks.get(name, "value") for name in inspect.signature(function).parameters}
        plain = dict(function.__annotations__)
        try:  # the marks are no types of the language
            function.__annotations__ = {n: Any if roles.get(n, "value") != "value" else a for n, a in plain.items()}
            source = read_source(function, "func", scope.f_locals)
            parameters = read_parameters(source, "func")
        finally:
            function.__annotations__ = plain
        open_ = tuple(p if roles[p.name] == "value" else Parameter(p.name, Any, p.default) for p in parameters)
        overload = Overload(source, open_, read_return(source))
        return Integrand(source.name, function.__qualname__, function.__module__, (overload,), roles)

    return decorate if func is None else decorate(func)


def _mark(function: Any, scope: Any, annotation: Any) -> str:
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, {**function.__globals__, **scope})
        except Exception:  # what is no mark is read, and told about, with the other annotations
            return "value"
    return {Sample: "sample", Domain: "domain", Field: "field"}.get(annotation, "value")


def applied(function: Integrand, is_number: bool = False) -> Expanded:
    """`(sample, domain, fields, values)`: the integrand with its arguments, of structs that have their names. With
    `is_number` it is refused if it returns a vector, a matrix or a struct."""

    def expand(call: Callable[..., Any], args: Sequence[Any], keywords: dict[str, Any]) -> Any:
        sample, domain, fields, values = args
        given = {}
        for name, role in function.roles.items():
            if role == "sample":
                given[name] = sample
            elif role == "domain":
                given[name] = domain
            else:
                struct = fields if role == "field" else values
                index = struct.type.index(name)
                if index is not None:
                    given[name] = struct.values[index]
        result = call(function, [], given)
        if is_number and isinstance(result, (Bundle, StructValue)):
            raise KernelTypeError(
                f"integrate: integrand: expected {function.name} to return a number, got {describe(result)}",
                hint="multiply by the test function: dot(a, b) of vectors, a * v(s) of numbers",
            )
        return result

    return Expanded(function.name, expand)


@functools.cache
def of_values(function: Func, names: tuple[str, ...]) -> Expanded:
    """`(*arguments, values)`: a function with its first arguments and its values, of a struct that has their names."""

    def expand(call: Callable[..., Any], args: Sequence[Any], keywords: dict[str, Any]) -> Any:
        *first, values = args
        return call(function, first, {n: values.values[values.type.index(n)] for n in names})

    return Expanded(function.name, expand)
