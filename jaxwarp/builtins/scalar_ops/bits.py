"""Rows on the bits of integers."""

# ruff: noqa: ARG001  (the columns of a row have fixed signatures)

from __future__ import annotations

import re
from typing import Any

import numpy as np

from jaxwarp.builtins.scalar_ops.protocols import TextOps
from jaxwarp.builtins.scalar_ops.registry import (
    INTEGER,
    Args,
    Infer,
    NoGradient,
    Types,
    binary,
    compare,
    emit_binary,
    emit_intrinsic,
    row,
    same,
    select,
)
from jaxwarp.errors import KernelTypeError
from jaxwarp.types import SCALARS, Scalar, int32, int64

EXACT = {"*": 0.0}
_INTEGERS = NoGradient("it works on integers")


def _unsigned(a: np.ndarray) -> np.ndarray:
    return a.view(np.dtype(f"u{a.dtype.itemsize}"))


def _shl_ref(a: np.ndarray, n: np.ndarray) -> np.ndarray:
    inside = _unsigned(n) < a.dtype.itemsize * 8
    return np.where(inside, np.left_shift(a, np.where(inside, n, 0).astype(a.dtype)), a.dtype.type(0))


def _shr_ref(a: np.ndarray, n: np.ndarray) -> np.ndarray:
    bits = a.dtype.itemsize * 8
    inside = _unsigned(n) < bits
    shifted = np.right_shift(a, np.where(inside, n, bits - 1).astype(a.dtype))
    return np.where(inside | (a < 0), shifted, a.dtype.type(0))


def _popcount_ref(a: np.ndarray) -> np.ndarray:
    return np.bitwise_count(_unsigned(a)).astype(a.dtype)


def _smear_ref(a: np.ndarray) -> np.ndarray:
    """Every bit below the highest one set."""
    bits, shift = _unsigned(a).copy(), 1
    while shift < a.dtype.itemsize * 8:
        bits |= bits >> bits.dtype.type(shift)
        shift *= 2
    return bits


def _clz_ref(a: np.ndarray) -> np.ndarray:
    return (a.dtype.itemsize * 8 - np.bitwise_count(_smear_ref(a)).astype(np.int64)).astype(a.dtype)


def _ctz_ref(a: np.ndarray) -> np.ndarray:
    bits = _unsigned(a)
    return np.bitwise_count(~bits & (bits - bits.dtype.type(1))).astype(a.dtype)


def _from_end_infer(types: tuple[Scalar, ...]) -> Scalar:
    found = same("from_end", 2, INTEGER)(types)
    if found not in (int32, int64):
        raise KernelTypeError(f"from_end: an index is int32 or int64, got {found}")
    return found


def _from_end_ref(i: np.ndarray, n: np.ndarray) -> np.ndarray:
    bits, size = _unsigned(i), _unsigned(n)
    return np.minimum(bits, bits + size).view(i.dtype)


def _from_end_llvm(ops: TextOps, t: Scalar, types: Types, args: Args) -> str:
    # Of i and i + n, as numbers without a sign, the index that is meant is the smaller one.
    index, sum_ = args[0], binary("add", ops, t, *args)
    return select(ops, t, compare("icmp ult", ops, t, sum_, index), sum_, index)


def _places_infer(name: str, count: int) -> Infer:
    def infer(types: tuple[Scalar, ...]) -> Scalar:
        found = same(name, count, INTEGER)(types)
        if found is not int64:
            raise KernelTypeError(f"{name}: expected int64, got {found}")
        return found

    return infer


def _within_ref(i: np.ndarray, n: np.ndarray) -> np.ndarray:
    return np.where(_unsigned(i) < _unsigned(n), i, i.dtype.type(0))


def _within_llvm(ops: TextOps, t: Scalar, types: Types, args: Args) -> str:
    return select(ops, t, compare("icmp ult", ops, t, *args), args[0], ops.const(t, 0))


def _live_row_ref(row: np.ndarray, found: np.ndarray, number: np.ndarray) -> np.ndarray:
    return np.where(found == number, row, row.dtype.type(0))


def _live_row_llvm(ops: TextOps, t: Scalar, types: Types, args: Args) -> str:
    return select(ops, t, compare("icmp eq", ops, t, *args[1:]), args[0], ops.const(t, 0))


def _inside(ops: TextOps, t: Scalar, n: str) -> str:
    """Return whether a shift count, read as unsigned, is below the width."""
    return compare("icmp ult", ops, t, n, ops.const(t, t.bits))


def _is_inside(t: Scalar, n: str) -> bool:
    """Return whether a shift count is a literal below the width."""
    literal = re.fullmatch(r"(?:splat \(i\d+ )?(\d+)\)?", n)
    return literal is not None and int(literal[1]) < t.bits


def _shl_llvm(ops: TextOps, t: Scalar, types: Types, args: Args) -> str:
    a, n = args
    if _is_inside(t, n):
        return binary("shl", ops, t, a, n)
    inside = _inside(ops, t, n)
    shifted = binary("shl", ops, t, a, select(ops, t, inside, n, ops.const(t, 0)))
    return select(ops, t, inside, shifted, ops.const(t, 0))


def _shr_llvm(ops: TextOps, t: Scalar, types: Types, args: Args) -> str:
    a, n = args
    if _is_inside(t, n):
        return binary("ashr" if t.is_signed else "lshr", ops, t, a, n)
    inside = _inside(ops, t, n)
    if t.is_signed:
        return binary("ashr", ops, t, a, select(ops, t, inside, n, ops.const(t, t.bits - 1)))
    shifted = binary("lshr", ops, t, a, select(ops, t, inside, n, ops.const(t, 0)))
    return select(ops, t, inside, shifted, ops.const(t, 0))


def _not_llvm(ops: TextOps, t: Scalar, types: Types, args: Args) -> str:
    return binary("xor", ops, t, args[0], ops.const(t, -1 if t.is_signed else (1 << t.bits) - 1))


def _count_zeros(intrinsic: str) -> Any:
    def llvm(ops: TextOps, t: Scalar, types: Types, args: Args) -> str:
        # "false": the count of 0 is the width, not poison.
        return ops.intrinsic(intrinsic, t, [(t, args[0])], immediates=["i1 false"])

    return llvm


def _operator(text: str) -> dict[str, str]:
    """C++ computes 8 and 16 bits as int: the result is put back, for helpers that deduce its type."""
    plain, small = f"{{0}} {text} {{1}}", f"({{type}})({{0}} {text} {{1}})"
    return {t.short: plain if t.bits >= 32 else small for t in SCALARS if t.is_int}


BITS = (
    row("bit_and", same("bit_and", 2, INTEGER), ref=np.bitwise_and, ulp=EXACT, cuda=_operator("&"),
        llvm=emit_binary("and", "and"), partials=_INTEGERS, doc="The bits that are 1 in both.", commutative=True),
    row("bit_or", same("bit_or", 2, INTEGER), ref=np.bitwise_or, ulp=EXACT, cuda=_operator("|"),
        llvm=emit_binary("or", "or"), partials=_INTEGERS, doc="The bits that are 1 in at least one.", commutative=True),
    row("bit_xor", same("bit_xor", 2, INTEGER), ref=np.bitwise_xor, ulp=EXACT, cuda=_operator("^"),
        llvm=emit_binary("xor", "xor"), partials=_INTEGERS, doc="The bits that differ.", commutative=True),
    row("bit_not", same("bit_not", 1, INTEGER), ref=np.bitwise_not, ulp=EXACT, cuda="({type})~{0}",
        llvm=_not_llvm, partials=_INTEGERS, doc="All bits inverted."),
    row("shl", same("shl", 2, INTEGER), ref=_shl_ref, ulp=EXACT, cuda="shift_left({0}, {1})",
        llvm=_shl_llvm, partials=_INTEGERS, doc="a shifted left by b bits; 0 if b, read as unsigned, is the width or "
        "more."),
    row("shr", same("shr", 2, INTEGER), ref=_shr_ref, ulp=EXACT, cuda="shift_right({0}, {1})",
        llvm=_shr_llvm, partials=_INTEGERS,
        doc="a shifted right by b bits, keeping its sign; 0 or -1 if b, read as unsigned, is the width or more."),
    row("popcount", same("popcount", 1, INTEGER), ref=_popcount_ref, ulp=EXACT, cuda="count_ones({0})",
        llvm=emit_intrinsic("ctpop"), partials=_INTEGERS, doc="The number of bits that are 1."),
    row("clz", same("clz", 1, INTEGER), ref=_clz_ref, ulp=EXACT, cuda="leading_zeros({0})",
        llvm=_count_zeros("ctlz"), partials=_INTEGERS,
        doc="The number of zero bits above the highest 1. For 0 it is the width."),
    row("ctz", same("ctz", 1, INTEGER), ref=_ctz_ref, ulp=EXACT, cuda="trailing_zeros({0})",
        llvm=_count_zeros("cttz"), partials=_INTEGERS,
        doc="The number of zero bits below the lowest 1. For 0 it is the width."),
    row("from_end", _from_end_infer, ref=_from_end_ref, ulp=EXACT, cuda="from_end({0}, {1})",
        llvm=_from_end_llvm, partials=_INTEGERS,
        doc="An index that counts from the end if negative: i + n if -n <= i < 0, else i."),
    row("within", _places_infer("within", 2), ref=_within_ref, ulp=EXACT, cuda="within({0}, {1})",
        llvm=_within_llvm, partials=_INTEGERS,
        doc="The index i if it is below n (both read as unsigned), else 0. Debug mode reports the latter."),
    row("live_row", _places_infer("live_row", 3), ref=_live_row_ref, ulp=EXACT, cuda="({1} == {2} ? {0} : 0ll)",
        llvm=_live_row_llvm, partials=_INTEGERS,
        doc="The row where what was found is the id; else 0, which debug mode reports."),
)  # fmt: skip
