"""The reports of a thread by `assert`, `expect_eq`, `expect_neq` and `expect_near`. See docs/design/0022."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxwarp.builtins.language.values import Bundle
from jaxwarp.errors import CheckError, KernelSyntaxError, KernelTypeError
from jaxwarp.frontend.lowering.calls import evaluate_arguments
from jaxwarp.frontend.lowering.frame import Frame, statement
from jaxwarp.frontend.lowering.intrinsics import INTRINSICS, provide, text_of
from jaxwarp.frontend.lowering.values import NoValue, StructValue, describe, is_dynamic, is_literal
from jaxwarp.ir import nodes as ir
from jaxwarp.types import Aggregate, Mat, bool_, float32, int32

Texts = Sequence[str | tuple[ir.Value, str]]
"""Text, and values with their formats."""


def tell(frame: Frame, kind: str, parts: Texts) -> None:
    """Appends what a thread says here."""
    if frame.context.ruled:
        raise KernelSyntaxError(
            "a func_grad cannot print or assert: it is no part of what the kernel runs",
            hint="print in the function itself, or in the kernel",
        )
    texts, values = [""], list[tuple[ir.Value, str]]()
    for part in parts:
        if isinstance(part, str):
            texts[-1] += part
        else:
            values.append(_plain(frame, *part))
            texts.append("")
    args, formats = tuple(v for v, _ in values), tuple(f for _, f in values)
    frame.builder.append(ir.Tell(kind, tuple(texts), formats, args, loc=frame.builder.loc))


def _plain(frame: Frame, value: ir.Value, text_format: str) -> tuple[ir.Value, str]:
    """A value as `Tell` takes it: half precision is shown as float32."""
    return (frame.ops.cast_scalar(float32, value) if value.type.is_half else value), text_format


def printable(text: str) -> str:
    """Text without control characters that have a meaning on the way to the reader, and without surrogates."""
    return "".join(c if c in "\n\t" or c.isprintable() else repr(c)[1:-1] for c in text)


# Assertions


@statement(ast.Assert)
def _assert(frame: Frame, node: ast.Assert) -> None:
    message = "assertion failed"
    if node.msg is not None:
        text = text_of(frame, node.msg)
        if text is None:
            with frame.at(node.msg):
                raise KernelSyntaxError(
                    "the message of an assertion must be text that is known before the kernel runs",
                    hint='write assert condition, "message"; what a value is can be printed before',
                )
        message += f": {printable(text)}"
    test = frame.test(node.test)
    _unless(frame, test, ir.ASSERT, lambda: [message])


def _unless(frame: Frame, holds: bool | ir.Value, kind: str, parts: Callable[[], Texts]) -> None:
    """Fails where a condition does not hold."""
    if holds is True:
        return
    if holds is False:
        tell(frame, kind, parts())
        return

    def failed() -> Sequence[ir.Value]:
        tell(frame, kind, parts())
        return ()

    frame.builder.if_(frame.ops.call("logical_not", holds), failed)


def _require(frame: Frame, holds: ir.Value, message: str) -> None:
    _unless(frame, holds, ir.ASSERT, lambda: [message])


Frame.require = _require


# Expectations


def _operands(frame: Frame, node: ast.Call, name: str, optional: Sequence[str] = ()) -> list[Any]:
    """The arguments by position or name; literals where optional ones are left out are None."""
    args, keywords = evaluate_arguments(frame, node)
    names = ("a", "b", *optional)
    unknown = [k for k in keywords if k not in names[len(args) :]]
    values = [*args, *(keywords.get(n) for n in names[len(args) :])]
    if unknown or len(args) > len(names) or None in values[:2]:
        raise KernelTypeError(
            f"{name}: expected arguments {', '.join(names)}, got {len(args) + len(keywords)}"
            + (f", among them {unknown[0]}" if unknown else ""),
            hint=f"the signature is {INTRINSICS[name].signature}",
        )
    return values


@dataclass(frozen=True)
class _Compared:
    """The components of two values of one type; `where` is the field of a struct, or empty."""

    where: str
    type: Any
    pairs: tuple[tuple[ir.Value, ir.Value], ...]


def _compared(frame: Frame, name: str, a: Any, b: Any, where: str = "") -> list[_Compared]:
    """Two values of one type, those of each field apart."""
    if isinstance(a, StructValue) and isinstance(b, StructValue) and a.type == b.type:
        fields = zip(a.type.fields, a.values, b.values, strict=True)
        return [found for f, x, y in fields for found in _compared(frame, name, x, y, f"{where}.{f.name}")]
    if isinstance(a, Bundle) and isinstance(b, Bundle) and a.type == b.type:
        return [_Compared(where, a.type, tuple(zip(a.values, b.values, strict=True)))]
    if not is_dynamic(a) or not is_dynamic(b) or isinstance(a, Bundle) or isinstance(b, Bundle):
        raise KernelTypeError(
            f"{name}: expected two values of one type, got {describe(a)} and {describe(b)}",
            hint="convert one of them, or compare components; of arrays compare elements: a[i]",
        )
    x, y = _in_one_type(frame, name, a, b)
    return [_Compared(where, x.type, ((x, y),))]


def _in_one_type(frame: Frame, name: str, a: Any, b: Any) -> tuple[ir.Value, ir.Value]:
    """Scalars; a literal takes the type of the other one."""
    if is_literal(a) and is_literal(b):
        a = frame.typed(a)
    a = a if isinstance(a, ir.Value) else frame.ops.adopt(a, b.type)
    b = b if isinstance(b, ir.Value) else frame.ops.adopt(b, a.type)
    if a.type != b.type:
        raise KernelTypeError(
            f"{name}: expected two values of one type, got {a.type} and {b.type}", hint="convert one of them"
        )
    return a, b


def format_of(value: ir.Value, digits: str = "") -> str:
    """Return the format of a number: the one that Warp uses, or one with so many digits."""
    if value.type is bool_:
        return "%B"
    if value.type.is_float:
        return f"%{digits}g"
    return "%d" if value.type.is_signed else "%u"


def _digits(value: ir.Value) -> str:
    """So many that a number is told from its neighbours."""
    return {64: ".17", 32: ".9"}.get(value.type.bits, ".5")


def _shown(value: ir.Value) -> tuple[ir.Value, str]:
    return value, format_of(value, _digits(value))


def _expect_equal(frame: Frame, node: ast.Call) -> type[NoValue]:
    for found in _compared(frame, "expect_eq", *_operands(frame, node, "expect_eq")):
        _expect(frame, "expect_eq", found, lambda x, y: frame.ops.call("eq", x, y))
    return NoValue


def _expect_different(frame: Frame, node: ast.Call) -> type[NoValue]:
    compared = _compared(frame, "expect_neq", *_operands(frame, node, "expect_neq"))
    pairs = [pair for found in compared for pair in found.pairs]
    different = [frame.ops.call("ne", x, y) for x, y in pairs]
    parts: Texts = ["expect_neq: both are ", _shown(pairs[0][0])] if len(pairs) == 1 else ["expect_neq: both are equal"]
    _unless(frame, _joined(frame, "logical_or", different), ir.EXPECT, lambda: parts)
    return NoValue


def _expect_near(frame: Frame, node: ast.Call) -> type[NoValue]:
    a, b, tolerance = _operands(frame, node, "expect_near", ("tolerance",))
    for found in _compared(frame, "expect_near", a, b):
        dtype = found.pairs[0][0].type
        if not dtype.is_float:
            raise KernelTypeError(
                f"expect_near: expected floats, got {found.type}{f' in {found.where}' if found.where else ''}",
                hint="compare integers with expect_eq",
            )
        limit = _tolerance(frame, 1.0e-6 if tolerance is None else tolerance, dtype)
        _expect(frame, "expect_near", found, lambda x, y, limit=limit: _is_near(frame, x, y, limit), limit)
    return NoValue


def _is_near(frame: Frame, x: ir.Value, y: ir.Value, limit: ir.Value) -> ir.Value:
    """Equal infinities are near; a NaN is near nothing."""
    distance = frame.ops.call("abs", frame.ops.call("sub", x, y))
    return frame.ops.call("logical_or", frame.ops.call("le", distance, limit), frame.ops.call("eq", x, y))


def _tolerance(frame: Frame, given: Any, dtype: Any) -> ir.Value:
    if is_literal(given):
        return frame.typed(float(given), dtype)
    if not isinstance(given, ir.Value) or given.type != dtype:
        raise KernelTypeError(
            f"expect_near: the tolerance is {describe(given)}, and the values are {dtype}",
            hint=f"convert it: {dtype}(tolerance)",
        )
    return given


def _joined(frame: Frame, operator: str, tests: Sequence[ir.Value]) -> ir.Value:
    result, *rest = tests
    for other in rest:
        result = frame.ops.call(operator, result, other)
    return result


def _expect(
    frame: Frame,
    name: str,
    found: _Compared,
    holds: Callable[[ir.Value, ir.Value], ir.Value],
    limit: ir.Value | None = None,
) -> None:
    """Fails by the first component for which a test does not hold."""
    tests = [holds(x, y) for x, y in found.pairs]

    def parts() -> Texts:
        a, b = found.pairs[-1]
        place = frame.builder.const(len(tests) - 1, int32)
        for k in reversed(range(len(tests) - 1)):
            x, y = found.pairs[k]
            a, b = frame.ops.call("select", tests[k], a, x), frame.ops.call("select", tests[k], b, y)
            place = frame.ops.call("select", tests[k], place, frame.builder.const(k, int32))
        where = [f", {found.where}" if found.where else "", *_place(frame, found.type, place)]
        within: Texts = [] if limit is None else [", within ", _shown(limit)]
        return [name, *where, ": got ", _shown(a), ", expected ", _shown(b), *within]

    _unless(frame, _joined(frame, "logical_and", tests), ir.EXPECT, parts)


def _place(frame: Frame, dtype: Any, place: ir.Value) -> Texts:
    """Return the text that says which component it is; nothing for a scalar."""
    if isinstance(dtype, Mat):
        columns = frame.builder.const(dtype.shape[1], int32)
        row, column = frame.ops.call("floordiv", place, columns), frame.ops.call("mod", place, columns)
        return [", component [", (row, "%d"), ", ", (column, "%d"), "]"]
    return [", component [", (place, "%d"), "]"] if isinstance(dtype, Aggregate) else []


# Outside of kernels, where functions for kernels may be called too.


def _checks(name: str, holds: Callable[..., Any]) -> Callable[..., None]:
    def check(*args: Any, **named: Any) -> None:
        found = bind(*args, **named)
        a, b = found.args[:2]
        if not np.all(holds(*found.args)):
            raise CheckError(f"{name}: got {a}, expected {b}" if name != "expect_neq" else f"{name}: both are {a}")

    bind = inspect.signature(holds).bind
    return check


def _are_near(a: Any, b: Any, tolerance: float = 1.0e-6) -> Any:
    return (np.abs(np.asarray(a) - np.asarray(b)) <= tolerance) | (np.asarray(a) == np.asarray(b))


_NOTE = " Otherwise the launch raises CheckError, as an `assert` does, but the thread goes on."
provide(
    "expect_eq",
    "expect_eq(a: Any, b: Any) -> None",
    "Check that two values of one type are equal." + _NOTE,
    _checks("expect_eq", lambda a, b: a == b),
)(_expect_equal)
provide(
    "expect_neq",
    "expect_neq(a: Any, b: Any) -> None",
    "Check that two values of one type differ." + _NOTE,
    _checks("expect_neq", lambda a, b: not np.all(a == b)),
)(_expect_different)
provide(
    "expect_near",
    "expect_near(a: Any, b: Any, tolerance: Float = 1e-6) -> None",
    "Check that all components of two values differ by at most `tolerance`. A NaN fails." + _NOTE,
    _checks("expect_near", _are_near),
)(_expect_near)
