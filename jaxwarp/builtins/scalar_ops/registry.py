"""The shared parts of the table's rows: typing rules, reference wrappers, LLVM emission helpers, row constructor."""

# ruff: noqa: ARG001, ARG005  (the columns of a row have fixed signatures)

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxwarp.builtins.scalar_ops.protocols import TextOps
from jaxwarp.errors import InternalError, KernelTypeError
from jaxwarp.ir.nodes import Builtin
from jaxwarp.types import SCALAR_BY_DTYPE, Scalar, bool_

Infer = Callable[[tuple[Scalar, ...]], Scalar]
Args = Sequence[str]
Types = Sequence[Scalar]

FLOAT = "a float"
INTEGER = "an integer"
NUMBER = "a number"
BOOL = "a bool"
ANY = "a scalar"

_ACCEPTS: dict[str, Callable[[Scalar], bool]] = {
    FLOAT: lambda t: t.is_float,
    INTEGER: lambda t: t.is_int,
    NUMBER: lambda t: t is not bool_,
    BOOL: lambda t: t is bool_,
    ANY: lambda t: True,
}


@dataclass(frozen=True)
class NoGradient:
    """The `partials` of a row without a derivative, with the reason (quoted in the error)."""

    reason: str


def row(  # noqa: PLR0913  (a row is its columns)
    name: str,
    infer: Infer,
    *,
    ref: Callable[..., Any],
    cuda: str | Mapping[str, str],
    llvm: Callable[..., str],
    partials: Any,
    doc: str,
    domain: tuple[tuple[float, float], ...] = (),
    ulp: Mapping[str, float] | None = None,
    typed: bool = False,
    commutative: bool = False,
) -> Builtin:
    """One row. Its reference gets the treatment of half types and the silence of IEEE exceptions here."""
    return Builtin(
        name, infer, _reference(ref, typed), cuda, llvm, partials, domain, ulp or {}, doc, typed, commutative
    )  # fmt: skip


def _reference(ref: Callable[..., Any], typed: bool) -> Callable[..., Any]:
    """Half types are computed in float32 and rounded; casts see the types themselves."""

    def silent(*args: Any, **options: Any) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(ref(*args, **options))

    def widened(*args: Any) -> np.ndarray:
        arrays = [np.asarray(a) for a in args]
        half = next((a.dtype for a in arrays if SCALAR_BY_DTYPE[a.dtype].is_half), None)
        if half is None:
            return silent(*arrays)
        wide = [a.astype(np.float32) if a.dtype == half else a for a in arrays]
        result = silent(*wide)
        with np.errstate(all="ignore"):
            return result.astype(half) if result.dtype == np.float32 else result

    return silent if typed else widened


def require_count(name: str, types: Types, count: int) -> None:
    """Raises unless there are `count` operands."""
    if len(types) != count:
        plural = "argument" if count == 1 else "arguments"
        raise KernelTypeError(f"{name}: expected {count} {plural}, got {len(types)}")


def same(name: str, count: int, kind: str, result: Scalar | None = None) -> Infer:
    """`count` arguments of one type that is `kind`; gives that type, or `result`."""

    def infer(types: tuple[Scalar, ...]) -> Scalar:
        require_count(name, types, count)
        require_kind(name, types, kind)
        require_equal(name, types)
        return result or types[0]

    return infer


def require_kind(name: str, types: Types, kind: str) -> None:
    """Raises unless every operand is of the kind."""
    for position, t in enumerate(types, 1):
        if not _ACCEPTS[kind](t):
            which = "the operand" if len(types) == 1 else f"operand {position}"
            raise KernelTypeError(f"{name}: {which} must be {kind}, got {t}", hint=_kind_hint(kind, t))


def _kind_hint(kind: str, t: Scalar) -> str | None:
    if t is bool_ and kind in (NUMBER, INTEGER, FLOAT):
        return "convert the bool with int(...) or float(...)"
    if kind == FLOAT:
        return "convert with float(...) or float64(...)"
    if kind == BOOL:
        return "write a comparison, like x != 0"
    return None


def require_equal(name: str, types: Types) -> None:
    """Raises unless all operands have one type."""
    first = types[0]
    for t in types:  # no generator: every operation of a kernel is asked
        if t is not first and t != first:
            break
    else:
        return
    different = list(dict.fromkeys(types))
    listed = " and ".join(str(t) for t in types) if len(types) == 2 else ", ".join(str(t) for t in types)
    hint = " or ".join(f"{t}(...)" for t in different)
    raise KernelTypeError(f"{name}: the operands have types {listed}", hint=f"convert with {hint}")


def kinds(*, integer: str, floating: str, unsigned: str | None = None) -> dict[str, str]:
    """Texts of a row by the kind of its operands."""
    texts = dict.fromkeys(("i8", "i16", "i32", "i64"), integer)
    texts |= dict.fromkeys(("u8", "u16", "u32", "u64"), unsigned or integer)
    return texts | {"f32": floating, "f64": floating}


def no_partials(*_: Any) -> Any:
    """The partials of `cast`: a derivative passes through it by a cast, not by a factor."""
    raise InternalError("partials of a typed row were asked without its types")


# LLVM emission. Each function appends to `ops` (codegen/cpu/llvm/vectors.py) and returns the operand's name.


def binary(opcode: str, ops: TextOps, t: Scalar, a: str, b: str) -> str:
    """`opcode` of two values of one type."""
    return ops.inst(f"{opcode} {ops.type(t)} {a}, {b}")


def compare(predicate: str, ops: TextOps, t: Scalar, a: str, b: str) -> str:
    """`predicate` is a full one: "icmp slt", "fcmp olt"."""
    return ops.inst(f"{predicate} {ops.type(t)} {a}, {b}")


def select(ops: TextOps, t: Scalar, condition: str, a: str, b: str) -> str:
    """a where the condition holds, else b."""
    return ops.inst(f"select {ops.type(bool_)} {condition}, {ops.type(t)} {a}, {ops.type(t)} {b}")


def convert(opcode: str, ops: TextOps, source: Scalar, target: Scalar, a: str) -> str:
    """A conversion instruction."""
    return ops.inst(f"{opcode} {ops.type(source)} {a} to {ops.type(target)}")


def less(ops: TextOps, t: Scalar, a: str, b: str) -> str:
    """a < b in the type's own order; false if unordered."""
    predicate = "fcmp olt" if t.is_float else "icmp slt" if t.is_signed else "icmp ult"
    return compare(predicate, ops, t, a, b)


def emit_binary(floating: str, integer: str, unsigned: str | None = None) -> Callable[..., str]:
    """A row that is one instruction, chosen by the kind of its operands."""

    def llvm(ops: TextOps, result: Scalar, types: Types, args: Args) -> str:
        t = types[0]
        opcode = floating if t.is_float else integer if t.is_signed else unsigned or integer
        return binary(opcode, ops, t, *args)

    return llvm


def emit_intrinsic(base: str) -> Callable[..., str]:
    """A row that is `llvm.<base>` of its operands."""

    def llvm(ops: TextOps, result: Scalar, types: Types, args: Args) -> str:
        return ops.intrinsic(base, result, list(zip(types, args, strict=True)))

    return llvm


def emit_libm(name: str) -> Callable[..., str]:
    """A row that is a call of libm per lane: `name` for float64, `name`f for float32."""

    def llvm(ops: TextOps, result: Scalar, types: Types, args: Args) -> str:
        if result.bits == 16:
            raise InternalError(f"{name}: {result} reached the code generator; passes.widen_half comes first")
        return ops.libm(name if result.bits == 64 else name + "f", result, list(args))

    return llvm
