"""`@func`: functions of the kernel language, inlined where they are called."""

from __future__ import annotations

import ast
import inspect
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from jaxwarp.boundary import boundary, call_for_user, guarded
from jaxwarp.builtins.language.shown import OfInstances
from jaxwarp.frontend.text.host_values import Missing
from jaxwarp.frontend.text.source import Source


def named(module: str, key: str) -> Any:
    """Return what a module has under a qualified name; None if it has nothing."""
    found: Any = sys.modules.get(module)
    for part in key.split("."):
        found = getattr(found, part, None)
    return found


class PickledByName:
    """A decorated function, which is pickled by its name, as functions are, and is its own copy."""

    def __reduce__(self) -> str | tuple[Any, ...]:
        key, module = getattr(self, "key", ""), self.__module__
        found = named(module, key)
        if getattr(found, "kernel", None) is self:  # under a decorator that made a call of JAX of it
            return getattr, (found, "kernel")
        if found is not self:
            raise pickle.PicklingError(
                f"{self!r} cannot be pickled: that is done by name, and {module}.{key} is something else; define it at"
                " the top of a module, under the name that it has"
            )
        return key

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, _: Any) -> Any:
        return self


@dataclass(frozen=True, eq=False)
class Parameter:
    """`pattern` is what `annotations.resolve` made of the annotation, `typing.Any` where there is none.

    What the function assigns to a reference is what its caller's variable holds then.
    """

    name: str
    pattern: Any
    default: Any = Missing
    keyword_only: bool = False
    is_reference: bool = False


@dataclass(eq=False)
class Rules:
    """The rules that `@func_grad` and `@func_replay` give an overload; `apply` (in rules.py) then lowers its calls."""

    grad: Overload | None = None
    replay: Overload | None = None
    apply: Callable[..., Any] | None = None
    # A kernel has been made with the overload: it is too late for rules.
    is_used: bool = False


# Functions of this package to which programs have given rules: kernels may call them by others of its functions.
WITH_FOREIGN_RULES: list[Any] = []


@guarded
@dataclass(frozen=True, eq=False)
class Overload:
    source: Source
    parameters: tuple[Parameter, ...]
    returns: Any = Missing
    rules: Rules = field(default_factory=Rules)

    @property
    def references(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters if p.is_reference)

    def signature(self) -> str:
        """Return the signature, with the types that the annotations mean."""
        from jaxwarp.frontend.text.annotations import pattern_text

        patterns = [(p, pattern_text(p.pattern)) for p in self.parameters]
        parts = [f"{p.name}: ref[{text}]" if p.is_reference else f"{p.name}: {text}" for p, text in patterns]
        return f"{self.source.name}({', '.join(parts)})"

    @property
    def written(self) -> str:
        """The signature as it is written, with defaults and result."""
        tree = self.source.tree
        arguments, defaults = tree.args.args, [ast.unparse(d) for d in tree.args.defaults]
        values = [""] * (len(arguments) - len(defaults)) + [f" = {d}" for d in defaults]
        listed = [f"{a.arg}: {_text(a.annotation)}{value}" for a, value in zip(arguments, values, strict=True)]
        return f"{tree.name}({', '.join(listed)}) -> {_text(tree.returns)}"


def _text(annotation: ast.expr | None) -> str:
    return ast.unparse(annotation).replace("wp.", "") if annotation is not None else "Any"


@guarded
@dataclass(frozen=True)
class NativeFunc:
    """The result of `@func_native`: a function whose text is C++, which kernels cannot call for a reason."""

    __name__: str
    reason: str = ""


@guarded
@dataclass(eq=False)
class Func(PickledByName):
    """The result of `@func`: one name, one or more overloads, chosen by argument types.

    A call from Python runs the Python function of the overload that fits the values. A function of the library returns
    what it returns in a kernel.
    """

    name: str
    key: str
    module: str
    overloads: tuple[Overload, ...]

    pattern: ClassVar[Any] = Callable
    """What the class means as an annotation (`wp.Function`)."""
    evaluate: ClassVar[Callable[..., Any]]
    """Calls a function of the library from Python: `(func, args, kwargs)`. kernel.py gives it."""

    @property
    def doc(self) -> str | None:
        """Its docstring; of overloads, the last one that has one."""
        said = [o.source.function.__doc__ for o in self.overloads]
        return next((text for text in reversed(said) if text), None)

    @doc.setter
    def doc(self, text: str | None) -> None:
        self.__doc__ = self.overloads[-1].source.function.__doc__ = text

    def _help(self) -> str | None:
        if not self.module.startswith("jaxwarp."):
            return self.doc
        said = ((o.written, inspect.getdoc(o.source.function)) for o in self.overloads)
        return "\n\n".join(text for texts in said for text in texts if text)

    __doc__ = OfInstances(_help, __doc__)  # pyright: ignore

    # Of the last overload.
    __signature__ = OfInstances(lambda self: inspect.signature(self.overloads[-1].source.function))

    _SETTABLE = ("key",)

    def has_own(self, name: str) -> bool:
        """Return whether a name is an attribute that somebody has given the function."""
        return name in vars(self) and not name.startswith("_") and name not in type(self).__dataclass_fields__

    def _rename(self, name: str) -> None:
        self.name = name

    __name__ = property(lambda self: self.name, _rename)

    @property
    def func(self) -> Callable[..., Any]:
        """The Python function; of overloads, that of the last one."""
        return self.overloads[-1].source.function

    @property
    def defaults(self) -> dict[str, Any]:
        """The values of arguments that calls may leave out, by name; of the last overload."""
        return {p.name: p.default for p in self.overloads[-1].parameters if p.default is not Missing}

    def __post_init__(self) -> None:
        object.__setattr__(self, "__module__", self.module)  # where pickle looks for it

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.module.startswith("jaxwarp.library."):
            return Func.evaluate(self, args, kwargs)
        if len(self.overloads) == 1 and not self.module.startswith("jaxwarp."):
            function = self.overloads[0].source.function
        else:
            from jaxwarp.frontend.text.host_calls import chosen

            function = chosen(self, args, kwargs).source.function
        return call_for_user(function, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<jaxwarp func {self.key}>"

    def with_overload(self, overload: Overload) -> Func:
        """This function and one more overload, which replaces one of the same signature."""
        patterns = [p.pattern for p in overload.parameters]
        others = [o for o in self.overloads if [p.pattern for p in o.parameters] != patterns]
        return Func(self.name, self.key, self.module, (*others, overload))
