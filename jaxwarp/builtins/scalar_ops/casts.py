"""Rows whose result type is given: `cast` and `bitcast`. The only rows that touch float16 and bfloat16 as such.

Floats become half types by one rounding; integers become float32 first, as everything from a half type does.
"""

# ruff: noqa: ARG001  (the columns of a row have fixed signatures)

from __future__ import annotations

import numpy as np

from jaxwarp.builtins.scalar_ops.protocols import TextOps
from jaxwarp.builtins.scalar_ops.registry import (
    Args,
    NoGradient,
    Types,
    compare,
    convert,
    less,
    no_partials,
    row,
    select,
)
from jaxwarp.errors import InternalError
from jaxwarp.types import SCALAR_BY_DTYPE, SCALARS, Scalar, bool_, float32, float64


def _no_infer(types: tuple[Scalar, ...]) -> Scalar:
    raise InternalError("a cast has no inferred type")


# References


def _cast_ref(x: np.ndarray, *, dtype: np.dtype) -> np.ndarray:
    dtype = np.dtype(dtype)
    source, target = SCALAR_BY_DTYPE[x.dtype], SCALAR_BY_DTYPE[dtype]
    if source == target:
        return x.copy()
    if target is bool_:
        return x != x.dtype.type(0)
    if source.is_half or target.is_half:
        wide = _round_to_odd(x) if source is float64 else x.astype(np.float32)
        return wide.astype(dtype) if target.is_half else _cast_ref(wide, dtype=dtype)
    if source.is_float and target.is_int:
        return _saturate(x, dtype)
    return x.astype(dtype)


def _round_to_odd(x: np.ndarray) -> np.ndarray:
    """float64 to float32 such that rounding the result to a half type is one rounding of `x`.

    Truncates, and sets the last bit if anything was lost (Boldo and Melquiond, 2008).
    """
    nearest = np.asarray(x.astype(np.float32))
    wide = np.abs(nearest.astype(np.float64))
    bits = nearest.view(np.int32)
    truncated = np.where(wide > np.abs(x), bits - np.int32(1), bits)
    inexact = ~np.isnan(x) & (wide != np.abs(x))
    return np.where(inexact, truncated | np.int32(1), truncated).view(np.float32)


def _saturate(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    limits = np.iinfo(dtype)
    # 2**63 and the like are floats exactly, the largest integers are not.
    above, below = x >= x.dtype.type(2.0 ** (limits.bits - (limits.min < 0))), x < x.dtype.type(limits.min)
    safe = np.where(above | below | np.isnan(x), x.dtype.type(0), x).astype(dtype)
    return np.where(above, dtype.type(limits.max), np.where(below, dtype.type(limits.min), safe))


# LLVM


def _cast_llvm(ops: TextOps, target: Scalar, types: Types, args: Args) -> str:
    (source,), (x,) = types, args
    if source == target:
        return x
    if source.is_half:
        return _cast_llvm(ops, target, (float32,), (ops.half_to_float(source, x),))
    if target is bool_:
        predicate = "fcmp une" if source.is_float else "icmp ne"
        return compare(predicate, ops, source, x, ops.const(source, 0.0 if source.is_float else 0))
    if target.is_half:
        if source is float64:
            return ops.float_to_half(target, x, float64)
        return ops.float_to_half(target, _cast_llvm(ops, float32, types, args))
    if source.is_float and target.is_int:
        return _float_to_int(ops, source, target, x)
    if target.is_float:
        if source.is_float:
            return convert("fpext" if target.bits > source.bits else "fptrunc", ops, source, target, x)
        return convert("sitofp" if source.kind == "int" else "uitofp", ops, source, target, x)
    if target.bits == source.bits:
        return x
    opcode = "trunc" if target.bits < source.bits else "sext" if source.kind == "int" else "zext"
    return convert(opcode, ops, source, target, x)


def _float_to_int(ops: TextOps, source: Scalar, target: Scalar, x: str) -> str:
    """Truncates what fits; fptosi of what does not is poison, so that is clamped first, and NaN converted as 0.

    x -> fptosi(min(max(x, least), greatest)), with the greatest float that fits; where it is not the greatest integer
    all floats above it become that.
    """
    signed, limits = target.is_signed, np.iinfo(target.numpy)
    bound = float(2 ** (target.bits - signed))
    below_bound = float(np.nextafter(source.numpy.type(bound), source.numpy.type(0)))
    least, greatest = ops.const(source, float(limits.min)), ops.const(source, below_bound)
    clamped = select(ops, source, less(ops, source, x, least), least, x)
    clamped = select(ops, source, less(ops, source, greatest, clamped), greatest, clamped)
    safe = select(ops, source, compare("fcmp uno", ops, source, x, x), ops.const(source, 0.0), clamped)
    result = convert("fptosi" if signed else "fptoui", ops, source, target, safe)
    if int(below_bound) == limits.max:
        return result
    above = compare("fcmp oge", ops, source, x, ops.const(source, bound))
    return select(ops, target, above, ops.const(target, int(limits.max)), result)


def _bitcast_llvm(ops: TextOps, target: Scalar, types: Types, args: Args) -> str:
    return ops.inst(f"bitcast {ops.type(types[0])} {args[0]} to {ops.type(target)}")


# CUDA: texts by "source->target" of short names; {type} is the C++ name of the target.


def _cast_text(source: Scalar, target: Scalar) -> str:
    if source == target:
        return "{0}"
    if source.is_half:
        wide = f"{_HALF[source.short]}_to_float({{0}})"
        return wide if target is float32 else _cast_text(float32, target).format(wide, type="{type}")
    if target is bool_:
        return "{0} != 0"
    if target.is_half:
        wide = {float32: "{0}", float64: "round_to_odd({0})"}.get(source, "(float){0}")
        return f"float_to_{_HALF[target.short]}({wide})"
    if source.is_float and target.is_int:
        return "float_to_int<{type}>({0})"
    return "({type}){0}"


_HALF = {"f16": "float16", "bf16": "bfloat16"}

CASTS = (
    row("cast", _no_infer, ref=_cast_ref, ulp={"*": 0.0}, typed=True, llvm=_cast_llvm,
        cuda={f"{s.short}->{t.short}": _cast_text(s, t) for s in SCALARS for t in SCALARS},
        partials=no_partials,
        doc="The value in another type. Floats to integers truncate, stop at the limits, and make NaN 0. Integers "
        "wrap. Anything to bool is x != 0. The derivative is the cast of the tangent."),
    row("bitcast", _no_infer, ref=lambda x, *, dtype: x.view(dtype), ulp={"*": 0.0}, typed=True, llvm=_bitcast_llvm,
        cuda="bit_cast<{type}>({0})", partials=NoGradient("it reinterprets bits"),
        doc="The bits of a value read as another type of the same size."),
)  # fmt: skip
