"""Functions on tiles: how their calls are taken apart, and what arguments may be."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import Any, ClassVar, TypeGuard

from jaxwarp.builtins.language.shown import parsed
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.frontend.lowering.calls import evaluate_arguments, inline
from jaxwarp.frontend.lowering.expressions import shape_tuple
from jaxwarp.frontend.lowering.frame import Frame
from jaxwarp.frontend.lowering.intrinsics import provide
from jaxwarp.frontend.lowering.values import (
    NoArray,
    Prototype,
    StructView,
    Tile,
    View,
    describe,
    is_literal,
    known_text,
)
from jaxwarp.frontend.lowering.views import known_extents
from jaxwarp.ir import nodes as ir
from jaxwarp.types import Aggregate, Scalar, Struct, int32

MAX_AXES = 4
_STORAGE = ("register", "shared")


class TileLibrary:
    """Functions on tiles that are written in the kernel language, `jaxwarp/library/tiles.py`."""

    find: ClassVar[Callable[[str], Any]]
    """One of them by its name. names.py sets it: the library is made with this package."""


def in_library(frame: Frame, node: ast.AST, name: str, *args: Any) -> Any:
    """Calls a function of the library, whose loops stay loops."""
    context, builder = frame.context, frame.builder
    before = context.max_unroll, builder.over_tile
    context.max_unroll, builder.over_tile = 1, True
    try:
        return inline(frame, node, TileLibrary.find(name), list(args), {})
    finally:
        context.max_unroll, builder.over_tile = before


def tile_function(signature: str, doc: str) -> Callable[..., Any]:
    """Makes a function of the language of `lower(frame, node, **arguments)`, which gets evaluated arguments; text that
    is written in the call is text. A decorator.

    `storage` and `aligned` are accepted, checked and dropped: where tiles lie is decided by the code generators.
    """
    name, listed = signature.partition("(")[0], parsed(signature)

    def register(lower: Callable[..., Any]) -> Callable[..., Any]:
        def handle(frame: Frame, node: ast.Call) -> Any:
            args, keywords = _evaluated(frame, node)
            try:
                bound = listed.bind(*args, **keywords)
            except TypeError as error:
                raise KernelTypeError(f"{name}: {error}", hint=f"the signature is {signature}") from None
            for parameter, value in bound.arguments.items():
                _require_no_text(name, listed.parameters[parameter], value)
            bound.apply_defaults()
            given = dict(bound.arguments)
            storage = given.pop("storage", "register")
            if storage not in _STORAGE:
                raise KernelValueError(
                    f'{name}: storage must be "register" or "shared", got {text_or(storage)}',
                    hint="leave it out: it decides nothing here",
                )
            require_known(frame, f"{name}: aligned", given.pop("aligned", False), bool)
            return lower(frame, node, **given)

        provide(name, signature, doc)(handle)
        return lower

    return register


def _require_no_text(name: str, parameter: inspect.Parameter, value: Any) -> None:
    for one in value if parameter.kind is parameter.VAR_POSITIONAL else (value,):
        if isinstance(one, str) and parameter.annotation != "str":
            raise KernelTypeError(
                f"{name}: {parameter.name} must be {parameter.annotation}, got the text {one!r}",
                hint="only names of modes are text",
            )


def _evaluated(frame: Frame, node: ast.Call) -> tuple[list[Any], dict[str, Any]]:
    """The arguments, among them texts: as they are written, or values of Python that the kernel names."""
    args: list[Any] = []
    for argument in node.args:
        alone = ast.copy_location(ast.Call(node.func, [argument], []), node)
        args += [argument.value] if _is_text(argument) else evaluate_arguments(frame, alone)[0]
    texts = {k.arg: k.value.value for k in node.keywords if k.arg and _is_text(k.value)}
    others = ast.copy_location(ast.Call(node.func, [], [k for k in node.keywords if k.arg not in texts]), node)
    named = evaluate_arguments(frame, others)[1] | texts
    return [_text_or_value(v) for v in args], {name: _text_or_value(v) for name, v in named.items()}


def _is_text(node: ast.expr) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _text_or_value(value: Any) -> Any:
    text = known_text(value)
    return value if text is None else text


def text_or(value: Any) -> str:
    """A value in a message, which may be text."""
    return repr(value) if isinstance(value, str) else describe(value)


# What arguments are


def require_tile(what: str, value: Any, ndim: int | None = None) -> Tile:
    if not isinstance(value, Tile):
        raise KernelTypeError(
            f"{what} must be a tile, got {text_or(value)}", hint="tile_load(a, shape=(m, n)) makes one of an array"
        )
    if ndim is not None and value.ndim != ndim:
        raise KernelTypeError(
            f"{what} must have {ndim} ax{'is' if ndim == 1 else 'es'}, got {value.type!r}",
            hint="tile_reshape, tile_squeeze and tile_broadcast change axes",
        )
    return value


def require_array(what: str, value: Any) -> View | StructView:
    if isinstance(value, (View, StructView)):
        return value
    if isinstance(value, NoArray):
        raise KernelValueError(f"{what} is None: it has no elements", hint="pass an array")
    hint = "tile_assign(t, part, offset) stores a tile in another one" if isinstance(value, Tile) else "pass an array"
    raise KernelTypeError(f"{what} must be an array, got {text_or(value)}", hint=hint)


def require_type(what: str, value: Any) -> Any:
    """An element type."""
    value = value.type if isinstance(value, Prototype) else value
    if not isinstance(value, Scalar | Aggregate | Struct):
        raise KernelTypeError(
            f"{what}: dtype must be a scalar, vector, matrix or struct type, got {text_or(value)}",
            hint="write dtype=float",
        )
    return value


def require_known(frame: Frame, what: str, value: Any, kind: type) -> Any:
    """A bool or an integer that is known before the kernel runs."""
    known = frame.known(value) if isinstance(value, ir.Value) or is_literal(value) else None
    if not isinstance(known, kind) or (kind is int and isinstance(known, bool)):
        expected = "True or False" if kind is bool else "an integer"
        raise KernelTypeError(
            f"{what} must be {expected} that is known before the kernel runs, got {text_or(value)}",
            hint="write a constant, or static(...)",
        )
    return known


def shape_of_tile(frame: Frame, what: str, shape: Any) -> tuple[int, ...]:
    """The shape of a tile: up to four extents."""
    extents = known_extents(frame, shape_tuple(frame, shape), what, "shape=(16, 16)")
    if len(extents) > MAX_AXES:
        raise KernelValueError(
            f"{what}: a tile has at most {MAX_AXES} axes, got {len(extents)}", hint="put axes together"
        )
    return extents


def offsets(frame: Frame, what: str, offset: Any, count: int) -> tuple[ir.Value, ...]:
    """`offset=(i, j)` as indices, one for each of `count` axes; zeros where it is None."""
    if offset is None or isinstance(offset, NoArray):
        return tuple(frame.constant(0, int32) for _ in range(count))
    given = shape_tuple(frame, offset)
    given = given if isinstance(given, tuple) else (given,)
    if len(given) != count:
        raise KernelValueError(
            f"{what}: expected {count} offset{'' if count == 1 else 's'}, got {len(given)}",
            hint="an offset is an integer for each axis, in elements",
        )
    return tuple(frame.index(v, f"{what}: an offset") for v in given)
