"""One atomic on one element, and what it computes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jaxwarp.builtins.scalar_ops import row_of_atomic
from jaxwarp.codegen.cpu.llvm.vectors import VectorBuilder, memory_type
from jaxwarp.errors import InternalError
from jaxwarp.ir.nodes import Atomic
from jaxwarp.types import Scalar, bool_, float32


def atomic(one: VectorBuilder, kind: str, dtype: Scalar, pointer: str, args: Sequence[str]) -> str:
    """A scalar atomic on values as memory holds them; returns the old one."""
    type_, align = memory_type(dtype), dtype.bytes
    if kind == "cas":
        expected, new = (_bits_of(one, dtype, a) for a in args)
        return _from_bits(one, dtype, _exchange_if_equal(one, dtype, pointer, expected, new)[0])
    (value,) = args
    if kind == "exch":
        return one.inst(f"atomicrmw xchg ptr {pointer}, {type_} {value} monotonic, align {align}")
    if dtype is bool_:
        # Of bytes 0 and 1: the sum and the maximum of bools are `or`, the minimum is `and`.
        name = {"add": "or", "max": "or", "min": "and"}.get(kind, kind)
    elif dtype.is_int:
        name = integer_name(kind, dtype)
    elif kind == "add" and not dtype.is_half:
        name = "fadd"
    elif kind in ("add", "min", "max"):
        return _update(one, kind, dtype, pointer, value)
    else:
        raise InternalError(f"atomic {kind} of {dtype}")
    return one.inst(f"atomicrmw {name} ptr {pointer}, {type_} {value} monotonic, align {align}")


def _update(one: VectorBuilder, kind: str, dtype: Scalar, pointer: str, value: str) -> str:
    """Emit an update that LLVM has no atomic for: read, compute, compare and exchange, and repeat until it succeeds."""
    function, bits = one.function, f"i{dtype.bits}"
    computed = float32 if dtype.is_half else dtype
    operand = one.half_to_float(dtype, value) if dtype.is_half else value
    first = one.inst(f"load atomic {bits}, ptr {pointer} monotonic, align {dtype.bytes}")
    before, loop, after = function.label, function.new_label("retry"), function.new_label("updated")
    function.line(f"br label %{loop}")
    function.open(loop)
    old = function.name()
    hole = len(function.lines)
    function.lines.append("")
    held = _from_bits(one, dtype, old)
    current = one.half_to_float(dtype, held) if dtype.is_half else held
    new = combine(one, kind, computed, current, operand)
    stored = one.float_to_half(dtype, new) if dtype.is_half else _bits_of(one, dtype, new)
    if kind != "add":  # most values are no new extremes, and a look at a shared line is cheaper than to own it
        exchange = function.new_label("exchange")
        function.line(f"br i1 {one.inst(f'icmp eq {bits} {old}, {stored}')}, label %{after}, label %{exchange}")
        function.open(exchange)
    seen, is_done = _exchange_if_equal(one, dtype, pointer, old, stored)
    function.lines[hole] = f"  {old} = phi {bits} [ {first}, %{before} ], [ {seen}, %{function.label} ]"
    function.line(f"br i1 {is_done}, label %{after}, label %{loop}")
    function.open(after)
    return _from_bits(one, dtype, old)


def combine(ops: VectorBuilder, kind: str, dtype: Scalar, old: str, value: str) -> str:
    """Return the value that an atomic leaves."""
    type_ = ops.type(dtype)
    if kind == "exch":
        return value
    if kind not in ("min", "max"):
        return ops.inst(f"{'fadd' if dtype.is_float else kind} {type_} {old}, {value}")
    if dtype.is_int:
        sign = "s" if dtype.is_signed else "u"
        return ops.intrinsic(sign + kind, dtype, [(dtype, old), (dtype, value)])
    return row_of_atomic(kind, dtype).llvm(ops, dtype, (dtype, dtype), (old, value))


def _exchange_if_equal(one: VectorBuilder, dtype: Scalar, pointer: str, expected: str, new: str) -> tuple[str, str]:
    """Compare-and-exchange of bits: what was there, and whether it was `expected`."""
    bits = f"i{8 * dtype.bytes}"
    align = f"align {dtype.bytes}"
    pair = one.inst(f"cmpxchg ptr {pointer}, {bits} {expected}, {bits} {new} monotonic monotonic, {align}")
    seen, is_done = (one.inst(f"extractvalue {{ {bits}, i1 }} {pair}, {i}") for i in (0, 1))
    return seen, is_done


def _bits_of(one: VectorBuilder, dtype: Scalar, value: str) -> str:
    if not dtype.is_float or dtype.is_half:
        return value
    return one.inst(f"bitcast {one.type(dtype)} {value} to i{dtype.bits}")


def _from_bits(one: VectorBuilder, dtype: Scalar, bits: str) -> str:
    if not dtype.is_float or dtype.is_half:
        return bits
    return one.inst(f"bitcast i{dtype.bits} {bits} to {one.type(dtype)}")


def in_place(one: VectorBuilder, op: Atomic, pointer: str, value: str) -> str:
    """A load and a store in place of an atomic; returns what was there."""
    type_, dtype = one.type(op.param.dtype), op.param.dtype
    old = one.inst(f"load {type_}, ptr {pointer}, align {dtype.bytes}")
    one.function.line(f"store {type_} {combine(one, op.kind, dtype, old, value)}, ptr {pointer}, align {dtype.bytes}")
    return old


def identity_of(kind: str, dtype: Scalar) -> float:
    """The operand of an atomic that changes nothing."""
    if dtype.is_float:
        return -0.0 if kind == "add" else math.nan
    low = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
    high = (1 << (dtype.bits - dtype.is_signed)) - 1
    return {"min": high, "max": low, "and": -1 if dtype.is_signed else high}.get(kind, 0)


def integer_name(kind: str, dtype: Scalar) -> str:
    """LLVM's name of an atomic on integers."""
    return "u" + kind if kind in ("min", "max") and not dtype.is_signed else kind
