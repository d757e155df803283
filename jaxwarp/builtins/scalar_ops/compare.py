"""Rows that give or take bools: comparisons, logic, select, tests of floats."""

# ruff: noqa: ARG001, ARG005  (the columns of a row have fixed signatures)

from __future__ import annotations

from typing import Any

import numpy as np

from jaxwarp.builtins.scalar_ops.protocols import TextOps
from jaxwarp.builtins.scalar_ops.registry import (
    ANY,
    BOOL,
    FLOAT,
    NUMBER,
    Args,
    NoGradient,
    Types,
    compare,
    emit_binary,
    require_count,
    require_equal,
    require_kind,
    row,
    same,
    select,
)
from jaxwarp.types import Scalar, bool_

EXACT = {"*": 0.0}
_BOOL_RESULT = NoGradient("its result is a bool")


def _emit_compare(floating: str, signed: str, unsigned: str) -> Any:
    def llvm(ops: TextOps, result: Scalar, types: Types, args: Args) -> str:
        t = types[0]
        predicate = f"fcmp {floating}" if t.is_float else f"icmp {signed if t.is_signed else unsigned}"
        return compare(predicate, ops, t, *args)

    return llvm


def _compare_row(name: str, ref: np.ufunc, operator: str, emit: tuple[str, str, str], kind: str, doc: str) -> Any:
    return row(name, same(name, 2, kind, bool_), ref=ref, ulp=EXACT, cuda=f"{{0}} {operator} {{1}}",
               llvm=_emit_compare(*emit), partials=_BOOL_RESULT, doc=doc,
               commutative=name in ("eq", "ne"))  # fmt: skip


def _select_infer(types: tuple[Scalar, ...]) -> Scalar:
    require_count("select", types, 3)
    require_kind("select", types[:1], BOOL)
    require_equal("select", types[1:])
    return types[1]


def _not_llvm(ops: TextOps, result: Scalar, types: Types, args: Args) -> str:
    return ops.inst(f"xor {ops.type(bool_)} {args[0]}, {ops.const(bool_, True)}")


def _isnan_llvm(ops: TextOps, result: Scalar, types: Types, args: Args) -> str:
    return compare("fcmp uno", ops, types[0], args[0], args[0])


def _against_infinity(predicate: str) -> Any:
    def llvm(ops: TextOps, result: Scalar, types: Types, args: Args) -> str:
        t = types[0]
        magnitude = ops.intrinsic("fabs", t, [(t, args[0])])
        return compare(f"fcmp {predicate}", ops, t, magnitude, ops.const(t, float("inf")))

    return llvm


COMPARE = (
    _compare_row("lt", np.less, "<", ("olt", "slt", "ult"), NUMBER, "a < b; false if either is NaN."),
    _compare_row("le", np.less_equal, "<=", ("ole", "sle", "ule"), NUMBER, "a <= b; false if either is NaN."),
    _compare_row("gt", np.greater, ">", ("ogt", "sgt", "ugt"), NUMBER, "a > b; false if either is NaN."),
    _compare_row("ge", np.greater_equal, ">=", ("oge", "sge", "uge"), NUMBER, "a >= b; false if either is NaN."),
    _compare_row("eq", np.equal, "==", ("oeq", "eq", "eq"), ANY, "a == b; false if either is NaN."),
    _compare_row("ne", np.not_equal, "!=", ("une", "ne", "ne"), ANY, "a != b; true if either is NaN."),
    row("logical_and", same("logical_and", 2, BOOL), ref=np.logical_and, ulp=EXACT, cuda="{0} && {1}",
        llvm=emit_binary("and", "and"), partials=_BOOL_RESULT, commutative=True,
        doc="True if both are. Both are evaluated."),
    row("logical_or", same("logical_or", 2, BOOL), ref=np.logical_or, ulp=EXACT, cuda="{0} || {1}",
        llvm=emit_binary("or", "or"), partials=_BOOL_RESULT, commutative=True,
        doc="True if at least one is. Both are evaluated."),
    row("logical_not", same("logical_not", 1, BOOL), ref=np.logical_not, ulp=EXACT, cuda="!{0}",
        llvm=_not_llvm, partials=_BOOL_RESULT, doc="True if the argument is false."),
    row("select", _select_infer, ref=np.where, ulp=EXACT, cuda="{0} ? {1} : {2}",
        llvm=lambda ops, result, types, args: select(ops, result, *args),
        partials=lambda o, out, c, a, b: (
            None, o.select(c, o.const(1.0, a), 0.0), o.select(c, o.const(0.0, a), 1.0)),
        doc="a if the condition holds, else b."),
    row("isnan", same("isnan", 1, FLOAT, bool_), ref=np.isnan, ulp=EXACT, cuda="is_nan({0})",
        llvm=_isnan_llvm, partials=_BOOL_RESULT, doc="True if the argument is NaN."),
    row("isinf", same("isinf", 1, FLOAT, bool_), ref=np.isinf, ulp=EXACT, cuda="is_inf({0})",
        llvm=_against_infinity("oeq"), partials=_BOOL_RESULT, doc="True if the argument is infinite, of either sign."),
    row("isfinite", same("isfinite", 1, FLOAT, bool_), ref=np.isfinite, ulp=EXACT, cuda="is_finite({0})",
        llvm=_against_infinity("olt"), partials=_BOOL_RESULT, doc="True if the argument is neither infinite nor NaN."),
)  # fmt: skip
