"""Operators where a vector, matrix, quaternion or transform takes part, and the products they are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from jaxwarp.builtins.language.values import Bundle, Operand, describe
from jaxwarp.errors import KernelTypeError
from jaxwarp.ir.nodes import Value
from jaxwarp.types import Mat, Quat, Transform, Vec

_COMPONENTWISE = ("add", "sub", "mod", "bit_and", "bit_or", "bit_xor", "shl", "shr")
_SYMBOL = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
           "bit_and": "&", "bit_or": "|", "bit_xor": "^", "shl": "<<", "shr": ">>"}  # fmt: skip


class ScalarOps(Protocol):
    """The operations that products are made of: rows applied to scalars, functions to components. See `ops.Ops`."""

    def call(self, name: str, *args: Operand, fixed_rounding: bool = False) -> Value: ...

    def map(self, fn: Callable[..., Any], *args: Bundle) -> Bundle: ...


def binary(ops: ScalarOps, name: str, a: Operand, b: Operand) -> Value | Bundle:
    """`a <op> b` where one of them is a bundle."""
    if isinstance(a, Bundle) and isinstance(b, Bundle):
        if a.type == b.type and (name in ("add", "sub") or (name in _COMPONENTWISE and isinstance(a.type, Vec | Mat))):
            return ops.map(lambda x, y: ops.call(name, x, y), a, b)
        if name == "mul" and a.type == b.type and isinstance(a.type, Quat):
            return Bundle(a.type, quat_product(ops, a.values, b.values))
        if name == "mul" and a.type == b.type and isinstance(a.type, Transform):
            return transform_product(ops, a, b)
        if name in ("mul", "matmul") and _has_product(a, b):
            return product(ops, a, b)
    elif isinstance(a, Bundle) and name in ("mul", "div"):
        return ops.map(lambda x: ops.call(name, x, b), a)
    elif isinstance(b, Bundle) and name in ("mul", "div"):
        return ops.map(lambda y: ops.call(name, a, y), b)
    raise _undefined(name, a, b)


def _has_product(a: Bundle, b: Bundle) -> bool:
    """Matrix times matrix, matrix times column, row times matrix, of one component type."""
    if not (isinstance(a.type, Mat) or isinstance(b.type, Mat)):
        return False
    if not (isinstance(a.type, Vec | Mat) and isinstance(b.type, Vec | Mat)):
        return False
    return a.dtype == b.dtype and a.type.shape[-1] == b.type.shape[0]


def product(ops: ScalarOps, a: Bundle, b: Bundle) -> Bundle:
    """The matrix product; a vector on the left is a row, on the right a column."""
    columns = (b.values,) if isinstance(b.type, Vec) else b.columns
    values = tuple(dot(ops, row, column) for row in a.rows for column in columns)
    if isinstance(a.type, Mat) and isinstance(b.type, Mat):
        return Bundle(Mat(a.type.rows, b.type.columns, a.dtype), values)
    return Bundle(Vec(len(values), a.dtype), values)


def dot(ops: ScalarOps, a: Sequence[Value], b: Sequence[Value], *, fixed_rounding: bool = False) -> Value:
    """The sum of products, in order."""
    return total(ops, [ops.call("mul", x, y) for x, y in zip(a, b, strict=True)], fixed_rounding=fixed_rounding)


def total(ops: ScalarOps, values: Sequence[Value], *, fixed_rounding: bool = False) -> Value:
    """The sum, from left to right."""
    result, *rest = values
    for value in rest:
        result = ops.call("add", result, value, fixed_rounding=fixed_rounding)
    return result


def minor(ops: ScalarOps, a: Value, b: Value, c: Value, d: Value, *, fixed_rounding: bool = True) -> Value:
    """a d - b c, 0 where both products round to one number: docs/design/0058."""
    return ops.call("sub", ops.call("mul", a, d), ops.call("mul", b, c), fixed_rounding=fixed_rounding)


def cross(
    ops: ScalarOps, a: Sequence[Value], b: Sequence[Value], *, fixed_rounding: bool = True
) -> tuple[Value, ...]:
    """The vector product of three components, 0 of equal vectors."""
    return tuple(
        minor(ops, a[i], a[j], b[i], b[j], fixed_rounding=fixed_rounding) for i, j in ((1, 2), (2, 0), (0, 1))
    )


def quat_product(ops: ScalarOps, a: Sequence[Value], b: Sequence[Value]) -> tuple[Value, ...]:
    """Hamilton's product: (a_w b_v + b_w a_v + a_v x b_v, a_w b_w - a_v . b_v)."""
    (*u, p), (*v, q) = a, b
    turned = cross(ops, u, v, fixed_rounding=False)
    scaled = [ops.call("add", ops.call("mul", p, y), ops.call("mul", q, x)) for x, y in zip(u, v, strict=True)]
    imaginary = [ops.call("add", s, t) for s, t in zip(scaled, turned, strict=True)]
    return (*imaginary, ops.call("sub", ops.call("mul", p, q), dot(ops, u, v)))


def quat_rotated(
    ops: ScalarOps, q: Sequence[Value], v: Sequence[Value], *, backwards: bool = False
) -> tuple[Value, ...]:
    """A vector turned by a unit quaternion, or by its inverse: (2 w w - 1) v + 2 (u . v) u +- 2 w (u x v)."""
    *u, w = q
    along = ops.call("mul", 2.0, dot(ops, u, v))
    kept = ops.call("sub", ops.call("mul", 2.0, ops.call("mul", w, w)), 1.0)
    twice = ops.call("mul", 2.0, w)
    turned = [ops.call("mul", twice, c) for c in cross(ops, u, v, fixed_rounding=False)]
    straight = [ops.call("add", ops.call("mul", x, kept), ops.call("mul", y, along)) for x, y in zip(v, u, strict=True)]
    sign = "sub" if backwards else "add"
    return tuple(ops.call(sign, s, t) for s, t in zip(straight, turned, strict=True))


def transform_product(ops: ScalarOps, a: Bundle, b: Bundle) -> Bundle:
    """The motion b, and then a."""
    p, q = a.values[:3], a.values[3:]
    moved = [ops.call("add", x, y) for x, y in zip(quat_rotated(ops, q, b.values[:3]), p, strict=True)]
    return Bundle(a.type, (*moved, *quat_product(ops, q, b.values[3:])))


def _undefined(name: str, a: Operand, b: Operand) -> KernelTypeError:
    hint = None
    if isinstance(a, Bundle) and isinstance(b, Bundle):
        if a.type.shape == b.type.shape and a.dtype != b.dtype:
            hint = f"convert one with {a.type!r}(...) or {b.type!r}(...)"
        elif isinstance(a.type, Vec) and isinstance(b.type, Vec) and name in ("mul", "matmul"):
            hint = "use dot(a, b), cross(a, b), outer(a, b) or cw_mul(a, b)"
        elif name == "div":
            hint = "use cw_div(a, b)"
        if isinstance(a.type, Quat | Transform) or isinstance(b.type, Quat | Transform):
            hint = _product_hint(a, b)
    elif name in ("add", "sub"):
        hint = "make a vector of the scalar first, like vec3(s)"
    return KernelTypeError(f"{name}: {describe(a)} {_SYMBOL.get(name, name)} {describe(b)} is not defined", hint=hint)


def _product_hint(a: Bundle, b: Bundle) -> str | None:
    """Return what to write instead of an operator on a quaternion or transform and something else."""
    if isinstance(a.type, Quat) and isinstance(b.type, Vec):
        return "use quat_rotate(q, v)"
    if isinstance(a.type, Transform) and isinstance(b.type, Vec):
        return "use transform_point(t, p), or transform_vector(t, v)"
    if a.type == b.type:
        return "multiply with *; the inverse is quat_inverse(q), transform_inverse(t)"
    return "convert one of them"
