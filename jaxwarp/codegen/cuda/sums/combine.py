"""Functions that combine values of many threads: pairs, lanes of a warp, threads of a block. Used by reductions.py."""

from __future__ import annotations

import math

from jaxwarp.codegen.cuda.atomics import AtomicHelpers
from jaxwarp.codegen.cuda.expression import CPP_TYPES, literal
from jaxwarp.errors import InternalError
from jaxwarp.types import Scalar

_OPERATORS = {"and": "&", "or": "|", "xor": "^"}


def identity(kind: str, dtype: Scalar) -> str:
    """The operand that changes nothing."""
    if dtype.is_float:
        return literal(-0.0 if kind == "add" else math.nan, dtype).text
    low = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
    high = (1 << (dtype.bits - dtype.is_signed)) - 1
    return literal({"min": high, "max": low, "and": -1 if dtype.is_signed else high}.get(kind, 0), dtype).text


def is_changed(kind: str, dtype: Scalar, value: str) -> str:
    """The condition that a value is another than the identity."""
    if not dtype.is_float:
        return f"{value} != {identity(kind, dtype)}"
    if kind != "add":
        return f"{value} == {value}"
    # 0.0 added to -0.0 is another zero.
    is_double = dtype.bits == 64
    word, zero = ("unsigned long long", "0x8000000000000000ull") if is_double else ("unsigned int", "0x80000000u")
    return f"bit_cast<{word}>({value}) != {zero}"


def combined(kind: str, dtype: Scalar, old: str, value: str) -> str:
    """The expression for two values combined; both are names or calls."""
    t = CPP_TYPES[dtype.short]
    match kind:
        case "add" if dtype.is_float:
            return f"{old} + {value}"
        case "add":
            # Signed integers wrap, which C++ leaves undefined.
            word = "unsigned long long" if dtype.bits == 64 else "unsigned int"
            return f"({t})(({word}){old} + ({word}){value})"
        case "min" | "max" if dtype.is_float:
            return f"f{kind}{'' if dtype.bits == 64 else 'f'}({old}, {value})"
        case "min" | "max":
            return f"{old} {'<' if kind == 'min' else '>'} {value} ? {old} : {value}"
        case "and" | "or" | "xor":
            return f"({t})({old} {_OPERATORS[kind]} {value})"
        case _:
            raise InternalError(f"atomic {kind!r} is not one that values of several threads are combined for")


def pair_function(helpers: AtomicHelpers, kind: str, dtype: Scalar) -> str:
    """Its name; it gives two values combined."""
    name, t = f"{kind}_of_{dtype.short}", CPP_TYPES[dtype.short]
    body = f"    return {combined(kind, dtype, 'old', 'value')};\n"
    return helpers.define(name, f"__device__ inline {t} {name}({t} old, {t} value)\n{{\n{body}}}\n")


def lanes_function(helpers: AtomicHelpers, kind: str, dtype: Scalar) -> str:
    """Its name; lane 0 gets what the first `lanes` threads of its warp, which all call it, have combined."""
    pair = pair_function(helpers, kind, dtype)
    name, t = f"lanes_{kind}_{dtype.short}", CPP_TYPES[dtype.short]
    # Shuffles move words.
    moved = "value" if dtype.bits >= 32 else "(int)value"
    return helpers.define(
        name,
        f"""\
__device__ inline {t} {name}({t} value, unsigned int lanes)
{{
    const unsigned int everyone = lanes < 32u ? (1u << lanes) - 1u : 0xffffffffu;
    for (unsigned int distance = 16; distance != 0; distance /= 2) {{
        const {t} other = ({t})__shfl_down_sync(everyone, {moved}, distance);
        if (threadIdx.x % 32u + distance < lanes) value = {pair}(value, other);
    }}
    return value;
}}
""",
    )


def warp_function(helpers: AtomicHelpers, kind: str, dtype: Scalar) -> str:
    """Its name; it is an atomic, which one thread does for its warp where all 32 are together and mean one address.

    Where `__activemask` gives all threads, all 32 have come to that very instruction together, so all take the branch.
    Threads that have parted, for whatever reason, each do their own.
    """
    lanes = lanes_function(helpers, kind, dtype)
    name, t = f"warp_{kind}_{dtype.short}", CPP_TYPES[dtype.short]
    atomic = helpers.call(kind, dtype, "address", ["value"])
    return helpers.define(
        name,
        f"""\
__device__ inline void {name}({t} *address, {t} value)
{{
    if (__activemask() == 0xffffffffu) {{
        const unsigned long long first = __shfl_sync(0xffffffffu, (unsigned long long)address, 0);
        if (__all_sync(0xffffffffu, first == (unsigned long long)address)) {{
            value = {lanes}(value, 32);
            if (threadIdx.x % 32u == 0) {atomic};
            return;
        }}
    }}
    {atomic};
}}
""",
    )


def row_function(helpers: AtomicHelpers, kind: str, dtype: Scalar) -> str:
    """Its name; all threads of a block call it with one address, and one of each warp does the atomic for that."""
    lanes = lanes_function(helpers, kind, dtype)
    name, t = f"row_{kind}_{dtype.short}", CPP_TYPES[dtype.short]
    atomic = helpers.call(kind, dtype, "address", ["value"])
    return helpers.define(
        name,
        f"""\
__device__ inline void {name}({t} *address, {t} value)
{{
    const unsigned int left = blockDim.x - threadIdx.x / 32u * 32u;
    value = left < 32u ? {lanes}(value, left) : {lanes}(value, 32);
    if (threadIdx.x % 32u == 0) {atomic};
}}
""",
    )


def block_function(helpers: AtomicHelpers, kind: str, dtype: Scalar) -> str:
    """Its name; all threads of a block call it, and one does the atomic for all."""
    lanes = lanes_function(helpers, kind, dtype)
    name, t = f"block_{kind}_{dtype.short}", CPP_TYPES[dtype.short]
    atomic = helpers.call(kind, dtype, "address", ["value"])
    return helpers.define(
        name,
        f"""\
__device__ inline void {name}({t} *address, {t} value)
{{
    __shared__ {t} of_warp[32];
    const unsigned int warp = threadIdx.x / 32u, lane = threadIdx.x % 32u, left = blockDim.x - 32u * warp;
    value = {lanes}(value, left < 32u ? left : 32u);
    if (lane == 0) of_warp[warp] = value;
    __syncthreads();
    if (warp == 0) {{
        value = lane < (blockDim.x + 31u) / 32u ? of_warp[lane] : {identity(kind, dtype)};
        value = {lanes}(value, left < 32u ? left : 32u);
        if (lane == 0) {atomic};
    }}
    __syncthreads();
}}
""",
    )
