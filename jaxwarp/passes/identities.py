"""Algebra that is exact: what a call of a builtin equals, for every value of its arguments, to the last bit.

For integers (which wrap), x + 0 = x, x * 0 = 0, x - x = 0 and the like. For floats only what IEEE arithmetic keeps:

    x + (-0) = x     x - 0 = x     x * 1 = x     x / 1 = x     x / 2^k = x * 2^-k     -(-x) = x     x < x is false

but not x + 0 (which turns -0 into 0), x * 0 or x - x (NaN, infinities). The sign and payload of a NaN are nobody's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from jaxwarp.ir.nodes import Call, Const, Op, Value
from jaxwarp.types import Scalar, bfloat16, float16, float32, float64

# Bits of significand, the hidden one included.
_PRECISION = {float16: 11, bfloat16: 8, float32: 24, float64: 53}

Literal = bool | int | float


@dataclass(frozen=True)
class Constant:
    """The call equals this constant."""

    value: Literal


@dataclass(frozen=True)
class Instead:
    """The call equals a call of another builtin; literals stand for constants of the first argument's type."""

    builtin: str
    args: tuple[Value | Literal, ...]


Outcome = Value | Constant | Instead | None
Definition = Callable[[Value], Op | None]


def identity(call: Call, args: tuple[Value, ...], definition: Definition) -> Outcome:
    """Return what `call`, applied to `args`, equals; None if nothing simpler is known.

    Args:
        call: the operation; only its builtin and result type are looked at.
        args: its arguments as they are now.
        definition: the operation that defines a value, if known.
    """
    if call.builtin.commutative and isinstance(definition(args[0]), Const):
        args = (args[1], args[0], *args[2:])
    outcome = _identity(call.builtin.name, args, call.result.type, definition)
    if isinstance(outcome, Value) and outcome.type != call.result.type:
        return None
    return outcome


def _identity(name: str, args: tuple[Value, ...], dtype: Scalar, definition: Definition) -> Outcome:
    match name, args:
        case "cast", (a,):
            return _cast(a, dtype, definition)
        case "select", (condition, a, b):
            return _select(condition, a, b, definition)
        case _, (a,):
            return _unary(name, a, definition)
        case (("lt" | "gt"), (a, b)) if a is b:
            return Constant(False)
        case (("min" | "max" | "min_number" | "max_number"), (a, b)) if a is b:
            return a
        case _, (a, b):
            constant = _constant(b, definition)
            if a.type.is_float:
                return _float(name, a, constant)
            return _integer(name, a, b, constant)
        case _:
            return None


def _constant(value: Value, definition: Definition) -> Literal | None:
    op = definition(value)
    return op.value if isinstance(op, Const) else None


def _call(value: Value, name: str, definition: Definition) -> Call | None:
    op = definition(value)
    return op if isinstance(op, Call) and op.builtin.name == name else None


def _unary(name: str, a: Value, definition: Definition) -> Outcome:
    if name in ("neg", "bit_not", "logical_not") and (inner := _call(a, name, definition)):
        return inner.args[0]
    if name == "abs" and _call(a, "abs", definition):
        return a
    return None


def _select(condition: Value, a: Value, b: Value, definition: Definition) -> Outcome:
    known = _constant(condition, definition)
    if known is not None:
        return a if known else b
    if a is b:
        return a
    if inner := _call(condition, "logical_not", definition):
        return Instead("select", (inner.args[0], b, a))
    match _constant(a, definition), _constant(b, definition):
        case True, False:
            return condition
        case False, True:
            return Instead("logical_not", (condition,))
        case _:
            return None


def _cast(a: Value, dtype: Scalar, definition: Definition) -> Outcome:
    if a.type == dtype:
        return a
    inner = _call(a, "cast", definition)
    if inner is not None and inner.args[0].type == dtype and _keeps_all(dtype, a.type):
        return inner.args[0]
    return None


def _keeps_all(narrow: Scalar, wide: Scalar) -> bool:
    """Does every value of `narrow` survive the way to `wide` and back?"""
    match narrow.kind, wide.kind:
        case "bool", _:
            return True
        case (("int" | "uint"), ("int" | "uint")):
            return wide.bits >= narrow.bits
        case (("int" | "uint"), "float"):
            return narrow.bits - (narrow.kind == "int") <= _PRECISION[wide]
        case "float", "float":
            return wide.bits > narrow.bits
        case _:
            return False


def _float(name: str, a: Value, b: Literal | None) -> Outcome:
    if b is None:
        return None
    match name:
        case "add" if b == 0 and math.copysign(1, b) < 0:
            return a
        case "sub" if b == 0 and math.copysign(1, b) > 0:
            return a
        case "mul" | "div" if b == 1:
            return a
        case "div" if abs(math.frexp(b)[0]) == 0.5:
            limits = np.finfo(np.float16 if a.type.is_half else a.type.numpy)
            normal = float(limits.tiny) <= abs(1 / b) <= float(limits.max)
            return Instead("mul", (a, 1 / b)) if normal else None
        case _:
            return None


def _integer(name: str, a: Value, b: Value, constant: Literal | None) -> Outcome:
    """Integers and bools."""
    if a is b:
        match name:
            case "sub" | "bit_xor":
                return Constant(0)
            case "bit_and" | "bit_or" | "logical_and" | "logical_or":
                return a
            case "eq" | "le" | "ge":
                return Constant(True)
            case "ne":
                return Constant(False)
            case _:
                return None
    if constant is None:
        return None
    match name, int(constant):
        case (("add" | "sub" | "bit_or" | "bit_xor" | "shl" | "shr" | "logical_or"), 0):
            return a
        case (("mul" | "div" | "floordiv" | "logical_and"), 1):
            return a
        case (("mul" | "bit_and"), 0):
            return Constant(0)
        case "mod", 1:
            return Constant(0)
        case "logical_and", 0:
            return Constant(False)
        case "logical_or", 1:
            return Constant(True)
        case "bit_and", n if a.type.is_int and n == (-1 if a.type.is_signed else 2**a.type.bits - 1):
            return a
        case _:
            return None
