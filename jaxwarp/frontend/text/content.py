"""The content of a function: two functions of equal content become the same code, whenever they were made.

Of one code (of Python) a factory makes a function in each step. The content of one is its code and the values of all
that its text names: of numbers, texts, arrays and tuples their contents, of functions made by `@func` inside of
functions theirs, of all else which object it is. What may say something else later has no content.

Lowering also asks for values that were not asked for at the definition. They are no part of the content, and are asked
for again (`is_as_found`) before code is taken over.
"""

from __future__ import annotations

import ast
import collections
import enum
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from jaxwarp.frontend.text.constants import static_key
from jaxwarp.frontend.text.functions import Func, Overload, Parameter
from jaxwarp.frontend.text.host_values import Missing, find, frozen
from jaxwarp.frontend.text.reads import Chain, Reads, StaticExpression, body_reads, has_calls_in_annotations
from jaxwarp.frontend.text.source import Source
from jaxwarp.types import Aggregate, Array, Scalar, Struct, struct_of

_MOST_BYTES = 1 << 16  # of an array that a text names: to compare larger ones takes longer than to lower small kernels

_EXACT = frozenset((int, bool, str, bytes, type(None)))
_IN_ORDER = frozenset((list, tuple, collections.deque))
_MAPPINGS = frozenset((dict, collections.OrderedDict))
_TYPES = (Scalar, Aggregate, Struct)  # of which there is one for each meaning
# Which object it is says everything about these. Functions of Python are never run when a kernel is lowered, but in
# static expressions, which are looked at below.
_BY_IDENTITY = (type, enum.Enum, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, TypeVar, *_TYPES)
# The functions and annotations of the language.
_OF_LANGUAGE = ("jaxwarp.builtins.", "jaxwarp.frontend.")
# What static expressions may call and say the same each time.
_PURE = frozenset((
    abs, all, any, bool, divmod, enumerate, float, int, isinstance, len, list, max, min, pow, range, reversed, round,
    sorted, str, sum, tuple, zip,
))  # fmt: skip


class NoContentError(Exception):
    """Something that decides about a function may change, or cannot be compared."""


class Same:
    """An object, equal to itself alone; it lives as long as this."""

    __slots__ = ("value",)

    def __init__(self, value: object):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return type(other) is Same and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


@dataclass(eq=False)
class Content:
    """The content of a kernel, and what was looked at for it.

    Attributes:
        key: the content.
        sources: the texts of the kernel and of the functions that are compared by their content.
        overloads: those of these functions.
    """

    key: Any
    sources: list[Source] = field(default_factory=list)
    overloads: list[Overload] = field(default_factory=list)

    def is_as_found(self) -> bool:
        """Return whether all that lowering has asked for later is still so."""
        return all(map(_is_as_found, self.sources))

    def mark_used(self) -> None:
        """Rules for the functions come too late from now on: code without them is used."""
        for overload in self.overloads:
            overload.rules.is_used = True


def content_of(source: Source, *others: Any) -> Content | None:
    """Return the content of a kernel; None if it has none.

    Args:
        others: what decides about the kernel besides its text: parameters, values of Python.
    """
    found = Content(None)
    try:
        found.key = _of_source(source, found), tuple(_token(value, found) for value in others)
        hash(found.key)
    except (NoContentError, TypeError, RecursionError):
        return None
    return found


def token_of(value: Any) -> Any:
    """Return something that is equal for values that mean the same in a kernel, and for no others.

    Raises:
        NoContentError: there is no such thing.
    """
    return _token(value, Content(None))


def _of_source(source: Source, found: Content) -> Any:
    function = source.function
    found.sources.append(source)
    # A name for itself in a closure is another function each time.
    if source.name in function.__code__.co_freevars:
        raise NoContentError
    if has_calls_in_annotations(source.definition):
        raise NoContentError  # functions of Python, run when it is lowered
    names = source.name, function.__qualname__, function.__module__
    reads = body_reads(source.definition, source.before["static"])
    return Same(source.definition), Same(function.__globals__), names, tuple(_of_reads(source, reads, found, False))


def _of_reads(source: Source, reads: Reads, found: Content, is_static: bool) -> Iterator[Any]:
    """Yield what is known of the values that a part of a text reads.

    Args:
        is_static: whether Python evaluates it later, in which functions could be called.
    """
    code = source.function.__code__
    own = source.definition.locals.union(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    values: dict[str, Any] = {}
    for name in reads.names:
        values[name] = source.captured.get(name, Missing)
        if name not in own or name in reads.evaluated or is_static:
            yield _of_value(values[name], name in reads.bare, is_static, found)
    bound = source.definition.bound
    for chain in reads.chains.values():
        values[chain.text] = value = _attribute(source, chain, values, bound)
        yield _of_value(value, chain.text in reads.bare, is_static, found)
    for name in reads.operators:
        yield _token(source.captured.get(name, Missing), found)
    for static in reads.statics:
        yield from _of_static(source, static, found)


def _attribute(source: Source, chain: Chain, values: dict[str, Any], bound: frozenset[str]) -> Any:
    """Return the value that an attribute had when the function was defined."""
    host = Missing if chain.base in bound else values.get(chain.base, Missing)
    _, value = source.attributes.get((id(host), chain.name), (None, Missing))
    if value is Missing and host is not Missing:
        _token(host, Content(None))  # it may have one later, which is that of this object alone
    return value


def _of_value(value: Any, is_bare: bool, is_static: bool, found: Content) -> Any:
    if is_static and callable(value) and not (isinstance(value, Scalar | Aggregate) or value in _PURE):
        raise NoContentError
    try:
        return _token(value, found)
    except NoContentError:
        # Of a settings object only the attributes count that the text names; there is an entry for each.
        if is_bare or is_static:
            raise
        return type(value)


def _of_static(source: Source, static: StaticExpression, found: Content) -> Iterator[Any]:
    value = source.statics.get(static_key(static.argument, {}), Missing)
    yield value is Missing
    if value is not Missing:
        yield _token(value, found)
    elif any(isinstance(n, ast.Call) and not isinstance(n.func, ast.Name) for n in ast.walk(static.argument)):
        raise NoContentError  # a method, of what is known later
    else:
        yield from _of_reads(source, static.inside, found, True)


def _token(value: Any, found: Content) -> Any:
    """Return the token of a value, and add to `found` what was looked at for it."""
    kind = type(value)
    if kind in _EXACT:
        return kind, value
    if kind is float or kind is complex:
        return kind, repr(value)  # zeros of both signs differ
    if isinstance(value, _BY_IDENTITY):
        return Same(value)
    if kind is Func:
        return _of_func(value, found)
    if isinstance(value, np.ndarray | np.generic):
        return _of_array(value)
    if kind in _IN_ORDER or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        return Same(kind), tuple([_token(item, found) for item in value])
    if kind in _MAPPINGS:
        return Same(kind), tuple([(_token(k, found), _token(v, found)) for k, v in value.items()])
    if kind is Array:
        return Array, _token(value.dtype, found), value.ndim, value.axes
    if kind is Parameter:
        parts = value.name, value.pattern, value.default, value.keyword_only, value.is_reference
        return tuple([_token(part, found) for part in parts])
    if struct_of(kind) is not None:
        return Same(kind), tuple([(name, _token(part, found)) for name, part in vars(value).items()])
    if kind.__module__.startswith(_OF_LANGUAGE):
        return Same(value)
    raise NoContentError


def _of_array(value: np.ndarray | np.generic) -> Any:
    if value.dtype.hasobject or value.nbytes > _MOST_BYTES:
        raise NoContentError
    return Same(type(value)), getattr(value, "type", None), value.dtype.str, value.shape, value.tobytes()


def _of_func(func: Func, found: Content) -> Any:
    """Return which object a function of a module is; of one made inside a function, the content."""
    if "<locals>" not in func.key or any(map(func.has_own, vars(func))):
        # Its text may call its name, which another overload has by now.
        return Same(func), tuple([Same(find(o.source.function, o.source.name)) for o in func.overloads])
    return Func, func.name, tuple([_of_overload(overload, found) for overload in func.overloads])


def _of_overload(overload: Overload, found: Content) -> Any:
    if overload in found.overloads:
        return found.overloads.index(overload)
    found.overloads.append(overload)
    rules = overload.rules.grad, overload.rules.replay
    return (
        _of_source(overload.source, found),
        tuple([_token(parameter, found) for parameter in overload.parameters]),
        _token(overload.returns, found),
        tuple([None if rule is None else _of_overload(rule, found) for rule in rules]),
    )


def _is_as_found(source: Source) -> bool:
    late = list(source.attributes.items())[source.before["attributes"] :]
    free = source.function.__code__.co_freevars
    return all(_is_same(value, getattr(host, name, Missing)) for (_, name), (host, value) in late) and all(
        name not in free and _is_same(value, find(source.function, name)) for name, value in source.late.items()
    )


def _is_same(kept: Any, now: Any) -> bool:
    try:
        return token_of(kept) == token_of(frozen(now))
    except NoContentError:
        return False
