"""Operators where a vector or matrix takes part, and the products they are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from jaxwarp.builtins.language.values import Bundle, Operand, describe
from jaxwarp.errors import KernelTypeError
from jaxwarp.ir.nodes import Value
from jaxwarp.types import Mat, Vec

_COMPONENTWISE = ("add", "sub", "mod", "bit_and", "bit_or", "bit_xor", "shl", "shr")
_SYMBOL = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
           "bit_and": "&", "bit_or": "|", "bit_xor": "^", "shl": "<<", "shr": ">>"}  # fmt: skip


class ScalarOps(Protocol):
    """What products are made of: rows applied to scalars, and functions to components. `ops.Ops` is one."""

    def call(self, name: str, *args: Operand) -> Value: ...

    def map(self, fn: Callable[..., Any], *args: Bundle) -> Bundle: ...


def binary(ops: ScalarOps, name: str, a: Operand, b: Operand) -> Value | Bundle:
    """`a <op> b` where one of them is a bundle."""
    if isinstance(a, Bundle) and isinstance(b, Bundle):
        if name in _COMPONENTWISE and a.type == b.type:
            return ops.map(lambda x, y: ops.call(name, x, y), a, b)
        if name in ("mul", "matmul") and _has_product(a, b):
            return product(ops, a, b)
    elif isinstance(a, Bundle) and name in ("mul", "div"):
        return ops.map(lambda x: ops.call(name, x, b), a)
    elif isinstance(b, Bundle) and name in ("mul", "div"):
        return ops.map(lambda y: ops.call(name, a, y), b)
    raise _undefined(name, a, b)


def _has_product(a: Bundle, b: Bundle) -> bool:
    """Matrix times matrix, matrix times column, row times matrix, of one component type."""
    if isinstance(a.type, Vec) and isinstance(b.type, Vec):
        return False
    return a.dtype == b.dtype and a.type.shape[-1] == b.type.shape[0]


def product(ops: ScalarOps, a: Bundle, b: Bundle) -> Bundle:
    """The matrix product; a vector on the left is a row, on the right a column."""
    columns = (b.values,) if isinstance(b.type, Vec) else b.columns
    values = tuple(dot(ops, row, column) for row in a.rows for column in columns)
    if isinstance(a.type, Mat) and isinstance(b.type, Mat):
        return Bundle(Mat(a.type.rows, b.type.columns, a.dtype), values)
    return Bundle(Vec(len(values), a.dtype), values)


def dot(ops: ScalarOps, a: Sequence[Value], b: Sequence[Value]) -> Value:
    """The sum of products, in order."""
    return total(ops, [ops.call("mul", x, y) for x, y in zip(a, b, strict=True)])


def total(ops: ScalarOps, values: Sequence[Value]) -> Value:
    """The sum, from left to right."""
    result, *rest = values
    for value in rest:
        result = ops.call("add", result, value)
    return result


def _undefined(name: str, a: Operand, b: Operand) -> KernelTypeError:
    hint = None
    if isinstance(a, Bundle) and isinstance(b, Bundle):
        if a.type.shape == b.type.shape and a.dtype != b.dtype:
            hint = f"convert one with {a.type!r}(...) or {b.type!r}(...)"
        elif isinstance(a.type, Vec) and isinstance(b.type, Vec) and name in ("mul", "matmul"):
            hint = "use dot(a, b), cross(a, b), outer(a, b) or cw_mul(a, b)"
        elif name == "div":
            hint = "use cw_div(a, b)"
    elif name in ("add", "sub"):
        hint = "make a vector of the scalar first, like vec3(s)"
    return KernelTypeError(f"{name}: {describe(a)} {_SYMBOL.get(name, name)} {describe(b)} is not defined", hint=hint)
