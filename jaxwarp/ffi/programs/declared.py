"""The arguments that a Python function under `jax_callable` declares, annotated like those of a kernel."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, NamedTuple

from jaxwarp.errors import KernelError, KernelTypeError
from jaxwarp.frontend.text.annotations import resolve
from jaxwarp.types.given import given_types, takes_structs


class _Annotated(NamedTuple):
    """An argument of the Python function."""

    name: str
    annotation: Any


def _enclosing(func: Callable[..., None]) -> dict[str, Any]:
    """Return the variables of enclosing functions that a function names, which an annotation may name as well."""
    plain = inspect.unwrap(func)
    return dict(inspect.getclosurevars(plain).nonlocals) if inspect.isfunction(plain) else {}


class DeclaredFunction:
    """A Python function, as what asks for the arguments of a kernel sees it."""

    owner = "callable"

    def __init__(self, func: Callable[..., None]):
        self.name = getattr(func, "__name__", "function")
        self.arguments: list[_Annotated] = []
        try:
            signature = inspect.signature(func, eval_str=True, locals=_enclosing(func))
        except NameError as error:
            raise KernelTypeError(
                f"callable {self.name}: an annotation cannot be evaluated: {error}",
                hint="define or import the name before the function is passed to jax_callable",
            ) from error
        for parameter in signature.parameters.values():
            if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                raise KernelTypeError(
                    f"callable {self.name}: argument {parameter.name} must be an ordinary one",
                    hint="name the arguments one by one, without * and **",
                )
            if parameter.annotation is parameter.empty:
                raise KernelTypeError(
                    f"callable {self.name}: argument {parameter.name} has no annotation",
                    hint=f"write {parameter.name}: float, or {parameter.name}: array[float]",
                )
            try:
                pattern = resolve(parameter.annotation)
            except KernelError as error:
                error.message = f"callable {self.name}: argument {parameter.name}: {error.message}"
                raise
            self.arguments.append(_Annotated(parameter.name, pattern))
        self.func = func
        self.takes_structs = tuple(k for k, a in enumerate(self.arguments) if takes_structs(a.annotation))

    def given(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return what annotations that take structs mean for these values; None for each that means what it says."""
        return given_types(self.takes_structs, [a.annotation for a in self.arguments], values)

    def with_types(self, types: Sequence[Any]) -> DeclaredFunction:
        """The function with types in place of some annotations that take structs, in order; None: as they are."""
        made = copy(self)
        made.arguments = list(self.arguments)
        for k, found in zip(self.takes_structs, types, strict=True):
            if found is not None:
                made.arguments[k] = _Annotated(self.arguments[k].name, found)
        return made
