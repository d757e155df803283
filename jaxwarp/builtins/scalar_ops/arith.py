"""Rows of arithmetic: + - * / // % neg abs sign min max pow fma copysign."""

# ruff: noqa: ARG001, ARG005  (the columns of a row have fixed signatures)

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from jaxwarp.builtins.scalar_ops.expression import emit_formula
from jaxwarp.builtins.scalar_ops.power import power
from jaxwarp.builtins.scalar_ops.protocols import PartialOps, TextOps
from jaxwarp.builtins.scalar_ops.registry import (
    FLOAT,
    NUMBER,
    Args,
    Types,
    binary,
    compare,
    convert,
    emit_binary,
    emit_intrinsic,
    emit_libm,
    kinds,
    less,
    row,
    same,
    select,
)
from jaxwarp.ir.extremes import extreme
from jaxwarp.ir.nodes import Value
from jaxwarp.types import Scalar, bool_, float64, uint32, uint64

EXACT = {"*": 0.0}


def _is_float(a: np.ndarray) -> bool:
    return np.issubdtype(a.dtype, np.floating)


# References


def _safe_divisor(b: np.ndarray) -> np.ndarray:
    """1 where dividing by b is not defined or overflows."""
    bad = b == 0
    if np.issubdtype(b.dtype, np.signedinteger):
        bad = bad | (b == -1)
    return np.where(bad, b.dtype.type(1), b)


def _div_ref(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if _is_float(a):
        return a / b
    safe = _safe_divisor(b)
    quotient = (a - np.fmod(a, safe)) // safe
    if np.issubdtype(b.dtype, np.signedinteger):
        quotient = np.where(b == -1, -a, quotient)
    return np.where(b == 0, b.dtype.type(0), quotient)


def _floordiv_ref(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if _is_float(a):
        return np.floor(a / b)
    rest = _mod_ref(a, b)
    return _div_ref(a, b) - ((rest != 0) & ((rest < 0) != (b < 0))).astype(a.dtype)


def _mod_ref(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.fmod(a, b) if _is_float(a) else np.fmod(a, _safe_divisor(b))


def _pow_ref(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    wide = np.float64 if a.dtype == np.float32 else np.longdouble
    # np.power takes the square root where the exponent is one number, 0.5: of -inf that is NaN, of -0.0 it is -0.0.
    power = np.float_power(a.astype(wide), b.astype(wide)).astype(a.dtype)
    # The longest float's pow has been seen wrong here: (-inf) ** -(2.0 ** 63) gave inf.
    return np.where(np.isinf(a), np.float_power(a, b).astype(a.dtype), power)


def _fma_ref(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    if a.dtype == np.float32:
        return _fma_float32(a, b, c)
    return np.vectorize(_fma_float64, otypes=[np.float64])(a, b, c)


def _fma_float32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """One rounding: the product is exact in float64, the sum is rounded to odd there (Boldo, Melquiond 2008)."""
    product, c64 = np.asarray(a.astype(np.float64) * b.astype(np.float64)), c.astype(np.float64)
    total = np.asarray(product + c64)
    part = total - product
    error = (product - (total - part)) + (c64 - part)
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    away = (error > 0) == (total > 0)
    odd = np.where(inexact, bits + np.where(away, 1, -1), bits)
    return odd.view(np.float64).astype(np.float32)


def _fma_float64(a: float, b: float, c: float) -> float:
    if not all(map(np.isfinite, (a, b, c))):
        # The product of finite numbers is finite, however large.
        return c if np.isfinite(a) and np.isfinite(b) else a * b + c
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if exact == 0:
        return a * b + c
    try:
        return float(exact)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


def _sign_ref(a: np.ndarray) -> np.ndarray:
    one = a.dtype.type(1)
    return np.where(a < 0, np.negative(one), one)


# LLVM


def _guarded(ops: TextOps, t: Scalar, b: str) -> tuple[str, str, str]:
    """(b == 0, b == -1 or "", a divisor that neither traps nor overflows)."""
    zero = compare("icmp eq", ops, t, b, ops.const(t, 0))
    if not t.is_signed:
        return zero, "", select(ops, t, zero, ops.const(t, 1), b)
    minus = compare("icmp eq", ops, t, b, ops.const(t, -1))
    safe = select(ops, t, zero, ops.const(t, 1), b)
    return zero, minus, select(ops, t, minus, ops.const(t, 1), safe)


def _quotient(ops: TextOps, t: Scalar, a: str, b: str, safe: str, floors: bool = False) -> str:
    """a / b of integers, toward zero or down, where `safe` is what `_guarded` made of b.

    Processors have no vector division of integers; by a constant, LLVM multiplies. Up to 32 bits the one of float64
    serves: a quotient that is not whole is at least 1 / b from the next whole number, and rounding moves it by less
    than that times 2**-20.
    """
    floors = floors and t.is_signed
    if ops.width == 1 or t.bits > 32 or not b.startswith("%"):
        quotient = binary("sdiv" if t.is_signed else "udiv", ops, t, a, safe)
        return _floored(ops, t, a, safe, quotient) if floors else quotient
    sign = "s" if t.is_signed else "u"
    x, y = (convert(f"{sign}itofp", ops, t, float64, v) for v in (a, safe))
    quotient = binary("fdiv", ops, float64, x, y)
    if floors:
        quotient = ops.intrinsic("floor", float64, [(float64, quotient)])
    return convert(f"fpto{sign}i", ops, float64, t, quotient)


def _floored(ops: TextOps, t: Scalar, a: str, b: str, quotient: str) -> str:
    """The quotient toward zero, less one where the rest has not the sign of b."""
    rest = binary("sub", ops, t, a, binary("mul", ops, t, quotient, b))
    is_other = less(ops, t, binary("xor", ops, t, rest, b), ops.const(t, 0))
    is_inexact = compare("icmp ne", ops, t, rest, ops.const(t, 0))
    less_one = convert("sext", ops, bool_, t, binary("and", ops, bool_, is_other, is_inexact))
    return binary("add", ops, t, quotient, less_one)


def _integer_div_llvm(ops: TextOps, t: Scalar, args: Args, floors: bool) -> str:
    a, b = args
    zero, minus, safe = _guarded(ops, t, b)
    quotient = _quotient(ops, t, a, b, safe, floors)
    if minus:
        quotient = select(ops, t, minus, binary("sub", ops, t, ops.const(t, 0), a), quotient)
    return select(ops, t, zero, ops.const(t, 0), quotient)


def _div_llvm(ops: TextOps, t: Scalar, types: Types, args: Args) -> str:
    return binary("fdiv", ops, t, *args) if t.is_float else _integer_div_llvm(ops, t, args, floors=False)


def _floordiv_llvm(ops: TextOps, t: Scalar, types: Types, args: Args) -> str:
    if t.is_float:
        return ops.intrinsic("floor", t, [(t, binary("fdiv", ops, t, *args))])
    power = _power_of_two(ops, t, args[1])
    if power is not None and t.is_signed:
        return binary("ashr", ops, t, args[0], ops.const(t, power))
    return _integer_div_llvm(ops, t, args, floors=True)


def _power_of_two(ops: TextOps, t: Scalar, b: str) -> int | None:
    """The k of a literal 2**k. LLVM does not find that rounding such a quotient down is one shift."""
    if b.startswith("%"):
        return None
    return next((k for k in range(t.bits - 1) if b == ops.const(t, 1 << k)), None)


def _mod_llvm(ops: TextOps, t: Scalar, types: Types, args: Args) -> str:
    if t.is_float:
        return emit_libm("fmod")(ops, t, types, args)
    # x % 1 is 0, which is also the result for the divisors 0 and -1.
    a, b = args
    _, _, safe = _guarded(ops, t, b)
    if ops.width == 1 or not b.startswith("%"):
        return binary("srem" if t.is_signed else "urem", ops, t, a, safe)
    return binary("sub", ops, t, a, binary("mul", ops, t, _quotient(ops, t, a, b, safe), safe))


def _neg_llvm(ops: TextOps, t: Scalar, types: Types, args: Args) -> str:
    if t.is_float:
        return ops.inst(f"fneg {ops.type(t)} {args[0]}")
    return binary("sub", ops, t, ops.const(t, 0), args[0])


def _abs_llvm(ops: TextOps, t: Scalar, types: Types, args: Args) -> str:
    (a,) = args
    if t.is_float:
        return ops.intrinsic("fabs", t, [(t, a)])
    if not t.is_signed:
        return a
    return select(ops, t, less(ops, t, a, ops.const(t, 0)), binary("sub", ops, t, ops.const(t, 0), a), a)


def _sign_llvm(ops: TextOps, t: Scalar, types: Types, args: Args) -> str:
    if not t.is_signed:
        return ops.const(t, 1)
    return select(ops, t, less(ops, t, args[0], ops.const(t, 0)), ops.const(t, -1), ops.const(t, 1))


def _min_llvm(ops: TextOps, t: Scalar, types: Types, args: Args) -> str:
    a, b = args
    return select(ops, t, less(ops, t, a, b), a, b)


def _max_llvm(ops: TextOps, t: Scalar, types: Types, args: Args) -> str:
    a, b = args
    return select(ops, t, less(ops, t, b, a), a, b)


def _number_llvm(kind: str) -> Callable[..., str]:
    """Each of the two comparisons is one instruction of the machine, which gives its second operand if one is NaN.

    Of two zeros it gives the second one as well: the bits of both results are those of -0.0 if one has them, or not.
    """

    def llvm(ops: TextOps, t: Scalar, types: Types, args: Args) -> str:
        (a, b), bits = args, {32: uint32, 64: uint64}[t.bits]

        def chosen(first: str, second: str) -> str:
            pair = (first, second) if kind == "min" else (second, first)
            return convert("bitcast", ops, t, bits, select(ops, t, less(ops, t, *pair), first, second))

        both = binary("and" if kind == "max" else "or", ops, bits, chosen(b, a), chosen(a, b))
        found = select(ops, t, compare("fcmp uno", ops, t, b, b), a, convert("bitcast", ops, bits, t, both))
        return select(ops, t, compare("fcmp uno", ops, t, a, a), b, found)

    return llvm


# Partial derivatives


def _div_partials(o: PartialOps, out: Value, a: Value, b: Value) -> tuple[Value, Value]:
    """1 / b and -a / b^2 by one division, also where a sweep needs the quotient for nothing else.

    Of half precision the inverse of a small b is no finite number.
    """
    inverse = o.div(1.0, b)
    return inverse, o.neg(o.div(out, b) if b.type.bits < 32 else o.mul(o.mul(a, inverse), inverse))


def _pow_partials(o: PartialOps, out: Value, a: Value, b: Value) -> tuple[Value, Value]:
    """b a^(b-1) and out log a; 0^b does not move with b > 0. Below 0 the power is defined for whole b only: NaN."""
    by_a = o.guarded(b, o.pow(a, o.sub(b, 1.0)))
    return by_a, o.mul(out, o.log(o.select(o.eq(a, 0.0), 1.0, a)))


def _mod_partials(o: PartialOps, out: Value, a: Value, b: Value) -> tuple[Value, Value]:
    """1 and -n, where out is a - n b: n is whole, and near (a - out) / b; a / b may be rounded up to the next."""
    return o.const(1.0, a), o.neg(o.rint(o.div(o.sub(a, out), b)))


# Of equal operands the second one moves. Both modes of derivatives choose by these, too.
EXTREMES: dict[str, Callable[[PartialOps, Value, Value], Value]] = {
    "min": lambda o, a, b: o.lt(a, b),
    "max": lambda o, a, b: o.gt(a, b),
    "min_number": lambda o, a, b: o.logical_or(o.lt(a, b), o.isnan(b)),
    "max_number": lambda o, a, b: o.logical_or(o.gt(a, b), o.isnan(b)),
}
"""The rows that give one of their two operands, and whether it is the first."""


def _selecting(name: str) -> Any:
    def partials(o: PartialOps, out: Value, a: Value, b: Value) -> tuple[Value, Value]:
        first = EXTREMES[name](o, a, b)
        return o.select(first, o.const(1.0, a), 0.0), o.select(first, o.const(0.0, a), 1.0)

    return partials


ARITH = (
    row("add", same("add", 2, NUMBER), ref=np.add, ulp=EXACT, commutative=True,
        cuda=kinds(integer="wrap_add({0}, {1})", floating="{0} + {1}"), llvm=emit_binary("fadd", "add"),
        partials=lambda o, out, a, b: (o.const(1.0, a), o.const(1.0, a)), doc="The sum. Integers wrap."),
    row("sub", same("sub", 2, NUMBER), ref=np.subtract, ulp=EXACT,
        cuda=kinds(integer="wrap_sub({0}, {1})", floating="{0} - {1}"), llvm=emit_binary("fsub", "sub"),
        partials=lambda o, out, a, b: (o.const(1.0, a), o.const(-1.0, a)), doc="The difference. Integers wrap."),
    row("mul", same("mul", 2, NUMBER), ref=np.multiply, ulp=EXACT, commutative=True,
        cuda=kinds(integer="wrap_mul({0}, {1})", floating="{0} * {1}"), llvm=emit_binary("fmul", "mul"),
        partials=lambda o, out, a, b: (b, a), doc="The product. Integers wrap."),
    row("div", same("div", 2, NUMBER), ref=_div_ref, ulp=EXACT,
        cuda=kinds(integer="int_div({0}, {1})", floating="{0} / {1}"), llvm=_div_llvm,
        partials=_div_partials, doc="The quotient. Integers are rounded toward zero, as in C++; an integer divided by "
        "0 gives 0."),
    row("floordiv", same("floordiv", 2, NUMBER), ref=_floordiv_ref, ulp=EXACT,
        cuda=kinds(integer="int_floordiv({0}, {1})", floating="floor({0} / {1})") | {"f32": "floorf({0} / {1})"},
        llvm=_floordiv_llvm, partials=lambda o, out, a, b: (o.const(0.0, a), o.const(0.0, a)),
        doc="floor(a / b), for integers too, as in Python; an integer divided by 0 gives 0."),
    row("mod", same("mod", 2, NUMBER), ref=_mod_ref, ulp=EXACT,
        cuda=kinds(integer="int_mod({0}, {1})", floating="fmod({0}, {1})") | {"f32": "fmodf({0}, {1})"},
        llvm=_mod_llvm, partials=_mod_partials,
        doc="The remainder with the sign of the dividend, as % and fmod of C++; for integers, 0 if the divisor is 0."),
    row("neg", same("neg", 1, NUMBER), ref=np.negative, ulp=EXACT,
        cuda=kinds(integer="wrap_neg({0})", floating="-{0}"), llvm=_neg_llvm,
        partials=lambda o, out, a: (o.const(-1.0, a),), doc="The negation. Integers wrap."),
    row("abs", same("abs", 1, NUMBER), ref=np.abs, ulp=EXACT,
        cuda=kinds(integer="int_abs({0})", unsigned="{0}", floating="fabs({0})") | {"f32": "fabsf({0})"},
        llvm=_abs_llvm, partials=lambda o, out, a: (o.sign(a),),
        doc="The absolute value. The smallest integer stays as it is. The derivative at 0 is 1."),
    row("sign", same("sign", 1, NUMBER), ref=_sign_ref, ulp=EXACT, cuda="sign_of({0})", llvm=_sign_llvm,
        partials=lambda o, out, a: (o.const(0.0, a),), doc="-1 if x < 0, else 1."),
    row("min", same("min", 2, NUMBER), ref=lambda a, b: np.where(a < b, a, b), ulp=EXACT,
        cuda="min_of({0}, {1})", llvm=_min_llvm, partials=_selecting("min"), doc="a if a < b else b."),
    row("max", same("max", 2, NUMBER), ref=lambda a, b: np.where(a > b, a, b), ulp=EXACT,
        cuda="max_of({0}, {1})", llvm=_max_llvm, partials=_selecting("max"), doc="a if a > b else b."),
    # Not said to be commutative: of equal operands the second one moves.
    row("min_number", same("min_number", 2, FLOAT), ref=partial(extreme, "min"), ulp=EXACT,
        cuda={"f32": "fminf({0}, {1})", "f64": "fmin({0}, {1})"}, llvm=_number_llvm("min"),
        partials=_selecting("min_number"),
        doc="The result of atomic_min: the smaller of two numbers. A NaN is ignored; -0.0 is less than 0.0."),
    row("max_number", same("max_number", 2, FLOAT), ref=partial(extreme, "max"), ulp=EXACT,
        cuda={"f32": "fmaxf({0}, {1})", "f64": "fmax({0}, {1})"}, llvm=_number_llvm("max"),
        partials=_selecting("max_number"),
        doc="The result of atomic_max: the larger of two numbers. A NaN is ignored; -0.0 is less than 0.0."),
    row("pow", same("pow", 2, FLOAT), ref=_pow_ref, domain=((0.01, 20.0), (-10.0, 10.0)),
        ulp={"f32": 4.0, "f64": 4.0, "*": 1.0}, cuda={"f32": "powf({0}, {1})", "f64": "pow({0}, {1})"},
        llvm=emit_formula(power), partials=_pow_partials, doc="The first argument to the power of the second."),
    row("fma", same("fma", 3, FLOAT), ref=_fma_ref, ulp=EXACT,
        cuda={"f32": "fmaf({0}, {1}, {2})", "f64": "fma({0}, {1}, {2})"}, llvm=emit_intrinsic("fma"),
        partials=lambda o, out, a, b, c: (b, a, o.const(1.0, a)), doc="a * b + c, rounded once."),
    row("copysign", same("copysign", 2, FLOAT), ref=np.copysign, ulp=EXACT,
        cuda={"f32": "copysignf({0}, {1})", "f64": "copysign({0}, {1})"}, llvm=emit_intrinsic("copysign"),
        partials=lambda o, out, a, b: (o.copysign(o.copysign(1.0, a), o.mul(o.copysign(1.0, a), b)), o.const(0.0, a)),
        doc="The magnitude of the first argument with the sign of the second."),
)  # fmt: skip
