"""`print` and `printf` in kernels: text and values, in Warp's format or in C's. See docs/design/0022."""

from __future__ import annotations

import ast
import builtins
import math
import re
from collections.abc import Iterator
from typing import Any

from jaxwarp.builtins.language.values import Bundle
from jaxwarp.errors import KernelSyntaxError, KernelTypeError, KernelValueError
from jaxwarp.frontend.lowering.expressions import shape_tuple
from jaxwarp.frontend.lowering.frame import Frame
from jaxwarp.frontend.lowering.intrinsics import INTRINSICS, provide, text_of
from jaxwarp.frontend.lowering.tiles.elements import load
from jaxwarp.frontend.lowering.told.failures import format_of, tell
from jaxwarp.frontend.lowering.values import PYTHON_OBJECTS, NoValue, StructValue, Tile, describe, is_dynamic
from jaxwarp.ir import nodes as ir
from jaxwarp.types import Mat, Transform, Vec, bool_, float64, int32, int64, uint32, uint64

Parts = list[str | tuple[ir.Value, str]]
_MOST_SHOWN = 256  # elements of a tile


# print


def _print(frame: Frame, node: ast.Call) -> type[NoValue]:
    between, end = (_option(frame, node, name, default) for name, default in (("sep", " "), ("end", "\n")))
    parts: Parts = []
    for position, argument in enumerate(node.args):
        if isinstance(argument, ast.Starred):
            raise KernelSyntaxError("print: * is not part of it", frame.loc(argument), hint="name the values")
        parts += [between] if position else []
        parts += _shown(frame, argument, is_alone=len(node.args) == 1)
    tell(frame, ir.PRINT, [*parts, end])
    return NoValue


def _option(frame: Frame, node: ast.Call, name: str, default: str) -> str:
    for keyword in node.keywords:
        if keyword.arg not in ("sep", "end"):
            raise KernelTypeError(
                f"print: there is no argument {keyword.arg} in kernels", hint="what can be chosen is sep and end"
            )
        if keyword.arg == name:
            text = text_of(frame, keyword.value)
            if text is None:
                raise KernelTypeError(f"print: {name} must be text that is known before", hint=f'write {name}=", "')
            return text
    return default


def _shown(frame: Frame, node: ast.expr, is_alone: bool = False) -> Parts:
    """An argument of `print`."""
    if isinstance(node, ast.JoinedStr):
        return [part for piece in node.values for part in _piece(frame, piece)]
    text = text_of(frame, node)
    if text is not None:
        return [text]
    value = shape_tuple(frame, frame.evaluate(node))
    with frame.at(node):
        return _of(frame, value, "", is_alone)


def _piece(frame: Frame, node: ast.expr) -> Parts:
    """A part of an f-string."""
    if not isinstance(node, ast.FormattedValue):
        return _shown(frame, node)
    with frame.at(node.value):
        if node.conversion != -1:
            raise KernelSyntaxError("!r, !s and !a are not part of the kernel language", hint="leave it out")
        spec = node.format_spec
        if spec is None:
            return _shown(frame, node.value)
        known = [part.value for part in getattr(spec, "values", ()) if isinstance(part, ast.Constant)]
        if len(known) != len(getattr(spec, "values", ())):
            raise KernelSyntaxError("the format of a value must be known before the kernel runs", hint="write :8.3f")
        text_format = _from_python("".join(map(str, known)))
        return _of(frame, shape_tuple(frame, frame.evaluate(node.value)), text_format, False)


_PYTHON_FORMAT = re.compile(
    r"(?P<align>[<>]?)(?P<flags>[+ ]?0?)(?P<width>\d*)(?P<digits>(\.\d+)?)(?P<kind>[deEfFgGxXo]?)"
)


def _from_python(spec: str) -> str:
    """A format of an f-string as C has it; without a kind, where there is none."""
    found = _PYTHON_FORMAT.fullmatch(spec)
    if found is None:
        raise KernelValueError(
            f"the format {spec!r} is not one that kernels have", hint="write a width, digits and d, x, f, e or g: :8.3f"
        )
    left = "-" if found["align"] == "<" else ""
    return f"%{left}{found['flags']}{found['width']}{found['digits']}{found['kind']}"


def _of(frame: Frame, value: Any, text_format: str, is_alone: bool) -> Parts:
    """A value as Warp prints it; a format is for each component."""
    match value:
        case Bundle(type=Transform()):
            first, second = value.values[:3], value.values[3:]
            return ["(", *_row(frame, first, text_format), ") (", *_row(frame, second, text_format), ")"]
        case Bundle(type=Mat()):
            rows = [_row(frame, row, text_format) for row in value.rows]
            return [*_joined(rows, " \n"), " "] if is_alone else _joined(rows, "\n")
        case Bundle():
            row = _row(frame, value.values, text_format)
            # Warp's vectors and rows of matrices end with a blank, its quaternions do not.
            return [*row, " "] if is_alone and isinstance(value.type, Vec) else row
        case StructValue():
            named = zip(value.type.fields, value.values, strict=True)
            fields = [[f"{f.name}=", *_inside(frame, v, "")] for f, v in named]
            return [f"{value.type!r}(", *_joined(fields, ", "), ")"]
        case Tile():
            shape = ",".join(map(str, value.shape))
            return [*_tile(frame, value, text_format), f" = tile(shape=({shape}), storage=register)"]
        case tuple():
            entries = [_inside(frame, v, text_format) for v in value]
            return ["(", *_joined(entries, ", "), ",)" if len(value) == 1 else ")"]
        case _ if is_dynamic(value):
            return [_scalar(frame, frame.typed(value), text_format)]
        case _:
            raise KernelTypeError(
                f"print: expected text, numbers, vectors, matrices or structs, got {describe(value)}",
                hint="print an element of the array: a[i]",
            )


def _tile(frame: Frame, tile: Tile, text_format: str, outer: tuple[ir.Value, ...] = ()) -> Parts:
    """The elements, row by row."""
    if math.prod(tile.shape) > _MOST_SHOWN:
        raise KernelValueError(
            f"print: {tile.type!r} has more than {_MOST_SHOWN} elements", hint="print a part of it: tile_view(t, ...)"
        )
    at = [(*outer, frame.constant(k, int32)) for k in range(tile.shape[len(outer)])]
    if len(outer) < tile.ndim - 1:
        inner = [_tile(frame, tile, text_format, where) for where in at]
        return ["[", *_joined(inner, "\n" * (tile.ndim - 1 - len(outer)) + " " * (len(outer) + 1)), "]"]
    return ["[", *_joined([_of(frame, load(frame, tile, where), text_format, False) for where in at], " "), "]"]


def _inside(frame: Frame, value: Any, text_format: str) -> Parts:
    """A value in a struct or tuple."""
    parts = _of(frame, value, text_format, False)
    return ["(", *parts, ")"] if isinstance(value, Bundle) else parts


def _joined(groups: list[Parts], between: str) -> Parts:
    return [part for k, group in enumerate(groups) for part in ([between] if k else []) + group]


def _row(frame: Frame, values: tuple[ir.Value, ...], text_format: str) -> Parts:
    return _joined([[_scalar(frame, v, text_format)] for v in values], " ")


def _scalar(frame: Frame, value: ir.Value, text_format: str) -> tuple[ir.Value, str]:
    if not text_format:
        return value, format_of(value)
    if text_format[-1] not in "deEfFgGxXo":
        text_format += "g" if value.type.is_float else "d"
    return _converted(frame, value, text_format)


# printf

_DIRECTIVE = re.compile(
    r"%(?:%|(?P<flags>[-+ #0]*)(?P<width>\*|\d*)(?P<digits>(?:\.(?:\*|\d*))?)"
    r"(?P<size>hh|h|ll|l|j|z|t|q|L|)(?P<kind>.?))",
    re.DOTALL,
)
_SHORT = {"hh": 8, "h": 16}


def _printf(frame: Frame, node: ast.Call) -> type[NoValue]:
    if not node.args or node.keywords:
        given = f"the keyword argument '{node.keywords[0].arg}'" if node.keywords else "nothing"
        raise KernelTypeError(
            f"printf: expected a format and values for it, got {given}", hint='write printf("%d %g\\n", i, x)'
        )
    text = text_of(frame, node.args[0])
    if text is None:
        raise KernelTypeError(
            "printf: the format must be text that is known before the kernel runs", frame.loc(node.args[0]),
            hint='write printf("%d %g\\n", i, x)',
        )  # fmt: skip
    given = list(node.args[1:])
    wanted = sum(1 for found in _DIRECTIVE.finditer(text) if found[0] != "%%")
    if wanted != len(given):
        raise KernelTypeError(
            f"printf: the format has places for {wanted} value{'s' * (wanted != 1)}, got {len(given)}",
            hint="a percent sign is written %%",
        )
    tell(frame, ir.PRINT, list(_filled(frame, text, given)))
    return NoValue


def _filled(frame: Frame, text: str, given: list[ast.expr]) -> Iterator[str | tuple[ir.Value, str]]:
    at = 0
    for found in _DIRECTIVE.finditer(text):
        yield text[at : found.start()]
        at = found.end()
        if found[0] == "%%":
            yield "%"
        else:
            node = given.pop(0)
            with frame.at(node):
                yield _directive(frame, found, node)
    yield text[at:]


def _directive(frame: Frame, found: re.Match[str], node: ast.expr) -> str | tuple[ir.Value, str]:
    """The value of a directive with its format; text, where the value is text."""
    start, kind = f"%{found['flags']}{found['width']}{found['digits']}", found["kind"]
    if "*" in start or not kind or kind not in "diuxXocsfFeEgG" or ("#" in start and kind == "o"):
        raise KernelValueError(f"printf: {found[0]} is no format that kernels have", hint=_KINDS)
    text = text_of(frame, node)
    if kind == "s":
        if text is None:
            raise KernelTypeError("printf: %s is for text that is known before the kernel runs", hint=_KINDS)
        return f"{start}s" % text
    value = frame.evaluate(node) if text is None else text
    if not is_dynamic(value) or isinstance(value, Bundle):
        what = "text" if text is not None else describe(value)
        raise KernelTypeError(
            f"printf: {found[0]} is for a number, got {what}",
            hint="write a format for each component; print(...) prints values of any type",
        )
    typed = frame.typed(value)
    is_float = kind in "fFeEgG"
    if typed.type.is_float != is_float:
        right = "%g, %f or %e" if typed.type.is_float else "%d" if typed.type.is_signed else "%u"
        raise KernelTypeError(f"printf: {found[0]} is not for {typed.type}", hint=f"write {right}")
    if typed.type.bits > _SHORT.get(found["size"], 64):
        raise KernelTypeError(f"printf: {found[0]} does not hold {typed.type}", hint=f"write %{kind}")
    return _converted(frame, typed, start + {"i": "d"}.get(kind, kind))


_KINDS = "formats are %d %i %u %x %X %o %c of integers, %f %e %g of floats, %s of text, with flags, width and digits"


def _converted(frame: Frame, value: ir.Value, text_format: str) -> tuple[ir.Value, str]:
    """A value of a type that its format is for, in C: integers of 64 bits, bits of at least 32."""
    kind, dtype = text_format[-1], value.type
    if dtype is bool_:
        value, dtype = frame.ops.cast_scalar(int32, value), int32
    if kind in "eEfFgG":
        return (value if dtype.is_float else frame.ops.cast_scalar(float64, value)), text_format
    if dtype.is_float:
        raise KernelTypeError(f"the format {text_format[1:]} is for integers, got {dtype}", hint="write g, f or e")
    if kind == "d":
        if dtype is uint64:
            return value, f"{text_format[:-1]}u"
        return frame.ops.cast_scalar(int64, value), text_format
    if kind == "c":
        return frame.ops.cast_scalar(int32, value), text_format
    return frame.ops.cast_scalar(uint64 if dtype.bits == 64 else uint32, value), text_format


provide(
    "print",
    'print(*values: Any, sep: str = " ", end: str = "\\n") -> None',
    "Print values in Warp's format, or an f-string. Lines of different threads never mix.",
    builtins.print,
)(_print)
provide(
    "printf",
    "printf(fmt: str, *values: Scalar) -> None",
    "Print values in a format of C. jaxwarp refuses a format that does not fit their types.",
    lambda fmt, *values: builtins.print(fmt % values, end=""),
)(_printf)
PYTHON_OBJECTS[builtins.print] = INTRINSICS["print"]
