"""Rows of elementary functions. Float32 references are computed in float64, float64 ones in the longest float."""

# ruff: noqa: ARG001, ARG005  (the columns of a row have fixed signatures)

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxwarp.builtins.scalar_ops import vector_math
from jaxwarp.builtins.scalar_ops.expression import Num, emit_formula
from jaxwarp.builtins.scalar_ops.protocols import PartialOps, TextOps
from jaxwarp.builtins.scalar_ops.registry import FLOAT, Args, Types, emit_intrinsic, emit_libm, row, same
from jaxwarp.ir.nodes import Value
from jaxwarp.types import Scalar

Interval = tuple[float, float]


def _wide(fn: Callable[..., Any]) -> Callable[..., np.ndarray]:
    def ref(*args: np.ndarray) -> np.ndarray:
        dtype = args[0].dtype
        wide = np.float64 if dtype == np.float32 else np.longdouble
        return np.asarray(fn(*(a.astype(wide) for a in args))).astype(dtype)

    return ref


def _double(fn: Callable[[float], float]) -> Callable[..., np.ndarray]:
    """Make the reference of a function that only `math` has, computed in float64."""

    def ref(x: np.ndarray) -> np.ndarray:
        return np.vectorize(fn, otypes=[np.float64])(x.astype(np.float64)).astype(x.dtype)

    return ref


def _elementary(
    name: str,
    fn: Callable[..., Any] | None,
    partials: Callable[..., Any],
    *domain: Interval,
    ulp: tuple[float, float] = (2.0, 2.0),
    doc: str,
    ref: Callable[..., Any] | None = None,
    llvm: Callable[..., Num] | None = None,
    operand: str = "{0}",
) -> Any:
    """`ulp` is for float32 and float64. Half types are rounded from float32: a neighbour at most.

    `llvm` is the formula for all lanes at once; without one, the C library is called lane by lane. `operand` is what
    CUDA's function is given as its first.
    """
    count = len(domain)
    operands = ", ".join([operand, *(f"{{{i}}}" for i in range(1, count))])
    reference = ref or _wide(fn)  # pyright: ignore[reportArgumentType]
    return row(name, same(name, count, FLOAT), ref=reference, domain=domain,
               ulp={"f32": ulp[0], "f64": ulp[1], "*": 1.0},
               cuda={"f32": f"{name}f({operands})", "f64": f"{name}({operands})"},
               llvm=emit_formula(llvm) if llvm else emit_libm(name), partials=partials, doc=doc)  # fmt: skip


def _rsqrt_llvm(ops: TextOps, result: Scalar, types: Types, args: Args) -> str:
    root = ops.intrinsic("sqrt", result, [(types[0], args[0])])
    return ops.inst(f"fdiv {ops.type(result)} {ops.const(result, 1.0)}, {root}")


def _atan2_partials(o: PartialOps, out: Value, y: Value, x: Value) -> tuple[Value, Value]:
    """(x, -y) / (x^2 + y^2), and 0 at the origin, where there is no derivative.

    Of the larger one, a, and the smaller one, b: (1, b / a) / (a + b (b / a)). Squares of small numbers would be 0.
    """
    is_steep = o.gt(o.abs(y), o.abs(x))
    larger, smaller = o.select(is_steep, y, x), o.select(is_steep, x, y)
    is_origin = o.eq(larger, 0.0)
    divisor = o.select(is_origin, 1.0, larger)
    ratio = o.div(smaller, divisor)
    first = o.select(is_origin, 0.0, o.div(1.0, o.add(divisor, o.mul(smaller, ratio))))
    second = o.mul(ratio, first)
    return o.select(is_steep, second, first), o.neg(o.select(is_steep, first, second))


def _hypot_partials(o: PartialOps, out: Value, x: Value, y: Value) -> tuple[Value, Value]:
    """(x, y) / out, and 0 at the origin, where there is no derivative."""
    divisor = o.select(o.eq(out, 0.0), 1.0, out)
    return o.div(x, divisor), o.div(y, divisor)


def _erf_slope(o: PartialOps, x: Value) -> Value:
    return o.mul(2.0 / math.sqrt(math.pi), o.exp(o.neg(o.mul(x, x))))


def _over_root(o: PartialOps, square: Value) -> Value:
    return o.div(1.0, o.sqrt(square))


def _clamped(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: fn(np.clip(x, -1.0, 1.0))


def _asin_slope(o: PartialOps, x: Value) -> Value:
    """1 / sqrt(1 - x^2), and 0 where x is clamped and at the ends, where only one side has a derivative: it is 0."""
    square = o.sub(1.0, o.mul(x, x))
    is_clamped = o.le(square, 0.0)
    return o.select(is_clamped, 0.0, _over_root(o, o.select(is_clamped, 1.0, square)))


_EXACT = {"*": 0.0}
_ENDS = "Arguments beyond -1 and 1 count as -1 and 1. The derivative is 0 there and at the ends."

ELEMENTARY = (
    row("sqrt", same("sqrt", 1, FLOAT), ref=np.sqrt, domain=((0.0, 1e4),), ulp=_EXACT,
        cuda={"f32": "sqrtf({0})", "f64": "sqrt({0})"}, llvm=emit_intrinsic("sqrt"),
        partials=lambda o, out, x: (o.div(0.5, out),), doc="The square root, correctly rounded."),
    row("rsqrt", same("rsqrt", 1, FLOAT), ref=lambda x: x.dtype.type(1) / np.sqrt(x), domain=((1e-4, 1e4),),
        ulp=_EXACT, cuda={"f32": "1.0f / sqrtf({0})", "f64": "1.0 / sqrt({0})"}, llvm=_rsqrt_llvm,
        partials=lambda o, out, x: (o.div(o.mul(-0.5, out), x),), doc="1 / sqrt(x). The root and the quotient are each "
        "rounded."),
    _elementary("cbrt", np.cbrt, lambda o, out, x: (o.div(1.0, o.mul(3.0, o.mul(out, out))),), (-1e3, 1e3),
        ulp=(2, 4), llvm=vector_math.cbrt, doc="The cube root. It exists for negative numbers too."),
    _elementary("exp", np.exp, lambda o, out, x: (out,), (-80.0, 80.0), llvm=vector_math.exp, doc="e to the power x."),
    _elementary("exp2", np.exp2, lambda o, out, x: (o.mul(math.log(2.0), out),), (-100.0, 100.0),
        llvm=vector_math.exp2, doc="2 to the power x."),
    _elementary("expm1", np.expm1, lambda o, out, x: (o.add(out, 1.0),), (-20.0, 20.0),
        llvm=vector_math.expm1, doc="exp(x) - 1, accurate near 0."),
    _elementary("log", np.log, lambda o, out, x: (o.div(1.0, x),), (1e-6, 1e6),
        llvm=vector_math.log, doc="The natural logarithm."),
    _elementary("log2", np.log2, lambda o, out, x: (o.div(1.0 / math.log(2.0), x),), (1e-6, 1e6),
        llvm=vector_math.log2, doc="The logarithm to base 2."),
    _elementary("log10", np.log10, lambda o, out, x: (o.div(1.0 / math.log(10.0), x),), (1e-6, 1e6), ulp=(3, 2),
        llvm=vector_math.log10, doc="The logarithm to base 10."),
    _elementary("log1p", np.log1p, lambda o, out, x: (o.div(1.0, o.add(x, 1.0)),), (-0.99, 1e3),
        llvm=vector_math.log1p, doc="log(1 + x), accurate near 0."),
    _elementary("sin", np.sin, lambda o, out, x: (o.cos(x),), (-100.0, 100.0),
        llvm=vector_math.sin, doc="The sine of x radians."),
    _elementary("cos", np.cos, lambda o, out, x: (o.neg(o.sin(x)),), (-100.0, 100.0),
        llvm=vector_math.cos, doc="The cosine of x radians."),
    _elementary("tan", np.tan, lambda o, out, x: (o.add(o.mul(out, out), 1.0),), (-1.5, 1.5), ulp=(4, 4),
        llvm=vector_math.tan, doc="The tangent of x radians."),
    _elementary("asin", _clamped(np.arcsin), lambda o, out, x: (_asin_slope(o, x),), (-1.0, 1.0),
        ulp=(4, 3), llvm=vector_math.asin, operand="clamp_to_unit({0})", doc=f"The arc sine, in radians. {_ENDS}"),
    _elementary("acos", _clamped(np.arccos), lambda o, out, x: (o.neg(_asin_slope(o, x)),), (-1.0, 1.0),
        llvm=vector_math.acos, operand="clamp_to_unit({0})", doc=f"The arc cosine, in radians. {_ENDS}"),
    _elementary("atan", np.arctan, lambda o, out, x: (o.div(1.0, o.add(o.mul(x, x), 1.0)),), (-100.0, 100.0),
        llvm=vector_math.atan, doc="The arc tangent, in radians."),
    _elementary("atan2", np.arctan2, _atan2_partials, (-10.0, 10.0), (-10.0, 10.0), ulp=(3, 2),
        llvm=vector_math.atan2, doc="The angle of the point (x, y) in radians; the arguments are y, x. The"
        " derivatives at the origin are 0."),
    _elementary("hypot", np.hypot, _hypot_partials, (-10.0, 10.0), (-10.0, 10.0), ulp=(3, 2), llvm=vector_math.hypot,
        doc="sqrt(x * x + y * y), without overflow on the way. The derivatives at the origin are 0."),
    _elementary("sinh", np.sinh, lambda o, out, x: (o.cosh(x),), (-80.0, 80.0), ulp=(3, 3),
        llvm=vector_math.sinh, doc="The hyperbolic sine."),
    _elementary("cosh", np.cosh, lambda o, out, x: (o.sinh(x),), (-80.0, 80.0), ulp=(2, 2),
        llvm=vector_math.cosh, doc="The hyperbolic cosine."),
    _elementary("tanh", np.tanh, lambda o, out, x: (o.sub(1.0, o.mul(out, out)),), (-10.0, 10.0), ulp=(3, 3),
        llvm=vector_math.tanh, doc="The hyperbolic tangent."),
    _elementary("asinh", np.arcsinh, lambda o, out, x: (_over_root(o, o.add(o.mul(x, x), 1.0)),), (-1e3, 1e3),
        ulp=(3, 3), llvm=vector_math.asinh, doc="The inverse hyperbolic sine."),
    _elementary("acosh", np.arccosh, lambda o, out, x: (_over_root(o, o.sub(o.mul(x, x), 1.0)),), (1.0, 1e3),
        ulp=(4, 3), llvm=vector_math.acosh, doc="The inverse hyperbolic cosine."),
    _elementary("atanh", np.arctanh, lambda o, out, x: (o.div(1.0, o.sub(1.0, o.mul(x, x))),), (-0.999, 0.999),
        ulp=(3, 3), llvm=vector_math.atanh, doc="The inverse hyperbolic tangent."),
    _elementary("erf", None, lambda o, out, x: (_erf_slope(o, x),), (-5.0, 5.0), ref=_double(math.erf),
        llvm=vector_math.erf, doc="The error function."),
    _elementary("erfc", None, lambda o, out, x: (o.neg(_erf_slope(o, x)),), (-5.0, 8.0), ulp=(4, 6),
        ref=_double(math.erfc), llvm=vector_math.erfc, doc="1 - erf(x), accurate for large x."),
)  # fmt: skip
