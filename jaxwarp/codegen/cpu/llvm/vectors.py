"""Text of one LLVM function, and the view of it that builtins emit through.

A row of the builtins table gets a `VectorBuilder`: its operands are LLVM operands (`"%v7"` or a constant) of the type
`ops.type(scalar)`, and it returns one. At width 1 that is a scalar, otherwise a vector with one element per lane; rows
are written once for both. bool is `i1`; float16 and bfloat16 are their bits, `i16`.

Rows must not trap or be undefined for any operand: lanes that are switched off run with garbage. So: no `nsw`, `nuw`,
`exact` or fast-math flags, no division without a guard, shifts below the width only, no plain `fptosi`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence, Set
from typing import Any

import ml_dtypes
import numpy as np

from jaxwarp.builtins.scalar_ops.protocols import TextOps
from jaxwarp.codegen.cpu.llvm.hoisting import Invariants
from jaxwarp.types import Scalar, bool_, float16, float32, float64, int32, uint32

# Attribute group of library calls: pure, and not to be rewritten by what LLVM believes of the name.
LIBM_ATTRIBUTES = "#1"


# Of the machines without mask registers, those with the widest vectors.
_REGISTER_BITS = 256

# A builtin's column `llvm`.
Row = Callable[[TextOps, Scalar, Sequence[Scalar], Sequence[str]], str]

FRAME_ALIGN = 16  # of memory in the function's frame
_COLD_BITS = 256  # of the vectors of functions that are seldom called


def scalar_type(dtype: Scalar) -> str:
    """The LLVM type of a value of `dtype` in a register."""
    if dtype is float32:
        return "float"
    if dtype is float64:
        return "double"
    return f"i{dtype.bits}"


def memory_type(dtype: Scalar) -> str:
    """The LLVM type of an array element of `dtype`."""
    return "i8" if dtype is bool_ else scalar_type(dtype)


def scalar_constant(dtype: Scalar, value: bool | int | float) -> str:
    """A literal of `dtype`, without its type."""
    if dtype is bool_:
        return "true" if value else "false"
    if dtype.is_half:
        numpy_type = np.float16 if dtype is float16 else ml_dtypes.bfloat16
        return str(int(np.asarray(value, numpy_type).view(np.uint16)))
    if dtype.is_float:
        # LLVM writes floats of either width as the bits of the double of equal value.
        rounded = float(np.float32(value)) if dtype is float32 else float(value)
        return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"
    return str(int(value))


class FunctionText:
    """The instructions of a function under construction and what they need declared, for a machine whose masks are bits
    in registers of their own, or, like most, integers as wide as what was compared."""

    def __init__(
        self,
        has_mask_registers: bool = False,
        invariants: Invariants | None = None,
        has_stored_constants: bool = False,
    ) -> None:
        self.has_mask_registers = has_mask_registers
        self.invariants = invariants
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self.declarations: dict[str, None] = {}
        self.helpers: dict[str, str] = {}  # functions of the same module, by name
        # Variables of the module that nothing writes to, if it may have any.
        self.constants: list[str] | None = [] if has_stored_constants else None
        self.libm: dict[str, None] = {}
        self.shared: Set[Any] = frozenset()  # the formulas that are functions, see formulas.py
        self.label = "entry"  # of the open basic block
        self._count = 0

    def name(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def new_label(self, hint: str) -> str:
        self._count += 1
        return f"{hint}{self._count}"

    def loop_labels(self, kind: str) -> tuple[str, str, str]:
        """Names for the header, the body and the end of a `for` or `while`; the header's tells LLVM's passes."""
        return self.new_label(kind), self.new_label("body"), self.new_label("done")

    def inst(self, text: str) -> str:
        """Appends `%new = text`; returns `%new`."""
        known = self.invariants
        if known is not None and (same := known.find(text)) is not None:
            return same
        name = self.name()
        if known is None or not known.take(name, text):
            self.lines.append(f"  {name} = {text}")
        return name

    def line(self, text: str) -> None:
        """Appends an instruction without a result."""
        self.lines.append("  " + text)

    def open(self, label: str) -> None:
        """Starts a basic block."""
        self.lines.append(f"{label}:")
        self.label = label

    def alloca(self, type_: str) -> str:
        """Memory of the function's frame, reserved on entry."""
        name = self.name()
        self.allocas.append(f"  {name} = alloca {type_}, align {FRAME_ALIGN}")
        return name

    def declare(self, text: str) -> None:
        self.declarations[text] = None


class VectorBuilder(TextOps):
    """Emits operations on values of `width` lanes; width 1 means scalars."""

    def __init__(self, width: int, function: FunctionText | None = None):
        self.width = width
        self.function = FunctionText() if function is None else function
        self.inst = self.function.inst
        self.mask_type = "i1" if width == 1 else f"<{width} x i1>"
        self._types: dict[Scalar, str] = {}

    def type(self, dtype: Scalar) -> str:
        """The LLVM type of `dtype` at this width."""
        known = self._types.get(dtype)
        if known is None:
            known = self._types[dtype] = self.wide(scalar_type(dtype))
        return known

    def wide(self, llvm_type: str) -> str:
        """The vector of an LLVM scalar type at this width."""
        return llvm_type if self.width == 1 else f"<{self.width} x {llvm_type}>"

    def const(self, dtype: Scalar, value: bool | int | float) -> str:
        """A literal, the same in every lane."""
        text = scalar_constant(dtype, value)
        return text if self.width == 1 else f"splat ({scalar_type(dtype)} {text})"

    def stored(self, dtype: Scalar, value: float) -> str:
        """A literal that an instruction may take from memory, as processors of few registers best do.

        LLVM broadcasts literals into a register each, and spills what was there. It does not know that these variables
        are constant, and that each is of one use, so it leaves them where they are.
        """
        constants = self.function.constants
        if constants is None or self.width == 1 or dtype is not float64:
            return self.const(dtype, value)
        name, type_ = f"@constant{len(constants)}", self.type(dtype)
        constants.append(f"{name} = private global {type_} {self.const(dtype, value)}, align 64")
        return self.inst(f"load {type_}, ptr {name}, align 64")

    def select(self, condition: str, llvm_type: str, yes: str, no: str) -> str:
        return self.inst(f"select {self.mask_type} {condition}, {llvm_type} {yes}, {llvm_type} {no}")

    def intrinsic(
        self,
        base: str,
        result: Scalar,
        operands: Sequence[tuple[Scalar, str]],
        immediates: Sequence[str] = (),
        overloads: Sequence[Scalar] = (),
    ) -> str:
        """Calls `llvm.<base>.<suffix>`.

        Args:
            base: name without the type suffix, like "sqrt", "smin" or "ctlz".
            result: type of the result.
            operands: types and operands.
            immediates: literals that end the argument list, typed: "i1 false" for abs, ctlz and cttz.
            overloads: the types that the suffix names; the first operand's by default.
        """
        types = [self.type(t) for t, _ in operands] + [text.split()[0] for text in immediates]
        arguments = [f"{self.type(t)} {x}" for t, x in operands] + list(immediates)
        suffix = ".".join(self._suffix(t) for t in overloads or (operands[0][0],))
        signature = f"{self.type(result)} @llvm.{base}.{suffix}"
        self.function.declare(f"declare {signature}({', '.join(types)})")
        return self.inst(f"call {signature}({', '.join(arguments)})")

    def _suffix(self, dtype: Scalar) -> str:
        scalar = f"f{dtype.bits}" if dtype in (float32, float64) else f"i{dtype.bits}"
        return scalar if self.width == 1 else f"v{self.width}{scalar}"

    def libm(self, name: str, dtype: Scalar, operands: Sequence[str]) -> str:
        """Calls a C library function of `dtype` operands and result once per lane.

        Args:
            name: the function's name for this type: "sinf" for float32, "sin" for float64.
        """
        type_ = scalar_type(dtype)
        self.function.libm[name] = None
        self.function.declare(f"declare {type_} @{name}({', '.join([type_] * len(operands))}) {LIBM_ATTRIBUTES}")

        def call(arguments: Sequence[str]) -> str:
            text = ", ".join(f"{type_} {a}" for a in arguments)
            return self.inst(f"call {type_} @{name}({text}) {LIBM_ATTRIBUTES}")

        if self.width == 1:
            return call(operands)
        vector, result = self.type(dtype), "poison"
        for lane in range(self.width):
            arguments = [self.inst(f"extractelement {vector} {x}, i32 {lane}") for x in operands]
            result = self.inst(f"insertelement {vector} {result}, {type_} {call(arguments)}, i32 {lane}")
        return result

    def libm_where(self, condition: str, name: str, dtype: Scalar, operands: Sequence[str], other: str) -> str:
        """`libm` in the lanes where the condition holds, `other` in the rest: a branch that is seldom taken."""
        function, type_ = self.function, scalar_type(dtype)
        before, slow, after = function.label, function.new_label("cold"), function.new_label("hot")
        vector = self.type(dtype)
        function.line(f"br i1 {self.any(condition, dtype.bits)}, label %{slow}, label %{after}")
        function.open(slow)
        if self.width == 1:
            found = self.libm(name, dtype, operands)
        else:
            mask = self.inst(f"bitcast {self.mask_type} {condition} to i{self.width}")
            spilled = [self._spill(dtype, x) for x in operands]
            results = self._spill(dtype, other)
            lane, close = self.lane_loop(mask)
            one = VectorBuilder(1, function)
            picked = [self.inst(f"load {type_}, ptr {self._element(dtype, x, lane)}") for x in spilled]
            function.line(f"store {type_} {one.libm(name, dtype, picked)}, ptr {self._element(dtype, results, lane)}")
            close()
            found = self.inst(f"load {vector}, ptr {results}, align {FRAME_ALIGN}")
        end = function.label
        function.line(f"br label %{after}")
        function.open(after)
        return self.inst(f"phi {vector} [ {other}, %{before} ], [ {found}, %{end} ]")

    def cold(
        self,
        condition: str,
        dtype: Scalar,
        name: str,
        operands: Sequence[str],
        formula: Callable[[VectorBuilder, Sequence[str]], str],
        other: str,
    ) -> str:
        """`formula` in the lanes where the condition holds, `other` in the rest: a branch that is seldom taken.

        The formula becomes a function of the module, of `dtype` operands and result, that all uses share.
        """
        function, vector = self.function, self.type(dtype)
        # As wide as a register: half as much code where the vectors are two, and one function for both bodies.
        part = VectorBuilder(min(self.width, _COLD_BITS // dtype.bits), function)
        symbol = f"{name}.{part._suffix(dtype)}"
        if symbol not in function.helpers:
            held = part.type(dtype)
            part._define(symbol, "#3", [held] * len(operands), held, formula)
        before, slow, after = function.label, function.new_label("cold"), function.new_label("hot")
        function.line(f"br i1 {self.any(condition, dtype.bits)}, label %{slow}, label %{after}, !prof !3")
        function.open(slow)
        found: list[str] = []
        for start in range(0, self.width, part.width):
            pieces = [self.piece(scalar_type(dtype), x, start, part.width) for x in operands]
            arguments = ", ".join(f"{part.type(dtype)} {x}" for x in pieces)
            found.append(self.inst(f"call {part.type(dtype)} @{symbol}({arguments})"))
        value = self.select(condition, vector, self.joined(scalar_type(dtype), found), other)
        function.line(f"br label %{after}")
        function.open(after)
        return self.inst(f"phi {vector} [ {other}, %{before} ], [ {value}, %{slow} ]")

    def any(self, mask: str, bits: int) -> str:
        """Return an i1: whether a mask has a lane that is on. `bits`: the width of the values that were compared."""
        if self.width == 1:
            return mask
        if self.function.has_mask_registers:
            number = self.inst(f"bitcast {self.mask_type} {mask} to i{self.width}")
            return self.inst(f"icmp ne i{self.width} {number}, 0")
        return self.any_sign(self.inst(f"sext {self.mask_type} {mask} to {self.wide(f'i{bits}')}"), bits)

    def any_sign(self, vector: str, bits: int) -> str:
        """Return an i1: whether an integer of the vector is negative.

        Halves are combined until one register is left. An instruction reads the signs of a register.
        """
        part, type_ = self, f"i{bits}"
        while part.width * bits > _REGISTER_BITS:
            half = VectorBuilder(part.width // 2, self.function)
            low, high = (part.piece(type_, vector, start, half.width) for start in (0, half.width))
            vector, part = self.inst(f"or {half.wide(type_)} {low}, {high}"), half
        signs = self.inst(f"icmp slt {part.wide(type_)} {vector}, zeroinitializer")
        number = self.inst(f"bitcast {part.mask_type} {signs} to i{part.width}")
        return self.inst(f"icmp ne i{part.width} {number}, 0")

    def piece(self, llvm_type: str, vector: str, start: int, length: int) -> str:
        """`length` lanes of a vector, from a lane on."""
        if length == self.width:
            return vector
        wide = self.wide(llvm_type)
        order = ", ".join(f"i32 {i}" for i in range(start, start + length))
        return self.inst(f"shufflevector {wide} {vector}, {wide} poison, <{length} x i32> <{order}>")

    def joined(self, llvm_type: str, pieces: Sequence[str]) -> str:
        """The vector that consists of equal pieces, a power of two of them."""
        length = self.width // len(pieces)
        while len(pieces) > 1:
            part, order = f"<{length} x {llvm_type}>", ", ".join(f"i32 {i}" for i in range(2 * length))
            pieces = [
                self.inst(f"shufflevector {part} {low}, {part} {high}, <{2 * length} x i32> <{order}>")
                for low, high in zip(pieces[::2], pieces[1::2], strict=True)
            ]
            length *= 2
        return pieces[0]

    def shared(self, name: str, result: Scalar, types: Sequence[Scalar], operands: Sequence[str], formula: Row) -> str:
        """The call of a builtin's formula as a function of the module, which all calls of this width share."""
        symbol = ".".join([name, *(t.short for t in (*types, result)), str(self.width)])
        held = [self.type(t) for t in types]
        if symbol not in self.function.helpers:
            self._define(symbol, "#4", held, self.type(result), lambda o, args: formula(o, result, types, args))
        arguments = ", ".join(f"{t} {x}" for t, x in zip(held, operands, strict=True))
        return self.inst(f"call {self.type(result)} @{symbol}({arguments})")

    def _define(
        self,
        symbol: str,
        attributes: str,
        types: Sequence[str],
        result: str,
        formula: Callable[[VectorBuilder, Sequence[str]], str],
    ) -> None:
        """Writes a function of the module."""
        outer = self.function
        inner = FunctionText(outer.has_mask_registers)
        # Shared with the launch function: what is declared, or has a name in the module.
        inner.declarations, inner.helpers, inner.libm = outer.declarations, outer.helpers, outer.libm
        inner.constants = outer.constants
        found = formula(VectorBuilder(self.width, inner), [f"%x{i}" for i in range(len(types))])
        parameters = ", ".join(f"{t} %x{i}" for i, t in enumerate(types))
        body = "\n".join([*(["entry:"] if inner.label != "entry" else []), *inner.allocas, *inner.lines])
        head = f"define internal {result} @{symbol}({parameters}) {attributes}"
        outer.helpers[symbol] = f"{head} {{\n{body}\n  ret {result} {found}\n}}"

    def lane_loop(self, bits: str) -> tuple[str, Callable[[], None]]:
        """Starts a loop over the lanes whose bit is set (one is). Returns the lane, i64, and what ends the loop."""
        function, type_ = self.function, f"i{self.width}"
        before, loop, after = function.label, function.new_label("lane"), function.new_label("lanes_done")
        function.line(f"br label %{loop}")
        function.open(loop)
        left, rest = function.name(), function.name()
        hole = len(function.lines)
        function.lines.append("")  # the phi, once the block that closes the loop is known
        function.declare(f"declare {type_} @llvm.cttz.{type_}({type_}, i1)")
        lane = function.inst(f"call {type_} @llvm.cttz.{type_}({type_} {left}, i1 true)")
        if self.width < 64:
            lane = function.inst(f"zext {type_} {lane} to i64")

        def close() -> None:
            lower = function.inst(f"sub {type_} {left}, 1")
            function.line(f"{rest} = and {type_} {left}, {lower}")
            is_more = function.inst(f"icmp ne {type_} {rest}, 0")
            function.lines[hole] = f"  {left} = phi {type_} [ {bits}, %{before} ], [ {rest}, %{function.label} ]"
            function.line(f"br i1 {is_more}, label %{loop}, label %{after}")
            function.open(after)

        return lane, close

    def _spill(self, dtype: Scalar, vector: str) -> str:
        memory = self.function.alloca(f"[{self.width} x {scalar_type(dtype)}]")
        self.function.line(f"store {self.type(dtype)} {vector}, ptr {memory}, align {FRAME_ALIGN}")
        return memory

    def _element(self, dtype: Scalar, memory: str, lane: str) -> str:
        return self.inst(f"getelementptr {scalar_type(dtype)}, ptr {memory}, i64 {lane}")

    def half_to_float(self, dtype: Scalar, operand: str) -> str:
        """float16 or bfloat16 bits (`i16`) to float32, exactly.

        In integer code: LLVM's fpext and fptrunc of these types call compiler runtime functions, which a process need
        not have, on CPUs without the instructions.
        """
        i32, f32 = self.type(uint32), self.type(float32)
        bits = self.inst(f"zext {self.wide('i16')} {operand} to {i32}")
        if dtype is not float16:
            shifted = self.inst(f"shl {i32} {bits}, {self.const(uint32, 16)}")
            return self.inst(f"bitcast {i32} {shifted} to {f32}")
        magnitude = self.inst(f"and {i32} {bits}, {self.const(uint32, 0x7FFF)}")
        # Normal numbers: move the fields, rebias the exponent; infinity and NaN need the bias once more.
        moved = self.inst(f"shl {i32} {magnitude}, {self.const(uint32, 13)}")
        normal = self.inst(f"add {i32} {moved}, {self.const(uint32, 0x38000000)}")
        special = self.inst(f"add {i32} {moved}, {self.const(uint32, 0x70000000)}")
        is_special = self.inst(f"icmp uge {i32} {magnitude}, {self.const(uint32, 0x7C00)}")
        large = self.select(is_special, i32, special, normal)
        # Subnormal numbers count units of 2**-24.
        units = self.inst(f"sitofp {i32} {magnitude} to {f32}")
        small = self.inst(f"fmul {f32} {units}, {self.const(float32, 2.0**-24)}")
        small = self.inst(f"bitcast {f32} {small} to {i32}")
        is_small = self.inst(f"icmp ult {i32} {magnitude}, {self.const(uint32, 0x0400)}")
        result = self.select(is_small, i32, small, large)
        sign = self.inst(f"and {i32} {bits}, {self.const(uint32, 0x8000)}")
        sign = self.inst(f"shl {i32} {sign}, {self.const(uint32, 16)}")
        result = self.inst(f"or {i32} {result}, {sign}")
        return self.inst(f"bitcast {i32} {result} to {f32}")

    def float_to_half(self, dtype: Scalar, operand: str, source: Scalar = float32) -> str:
        """float32 (or float64, by `source`) to float16 or bfloat16 bits, rounded once, to nearest even."""
        if source is float64:
            operand = self._round_to_odd(operand)
        i32, f32 = self.type(uint32), self.type(float32)
        bits = self.inst(f"bitcast {f32} {operand} to {i32}")
        magnitude = self.inst(f"and {i32} {bits}, {self.const(int32, 0x7FFFFFFF)}")
        is_nan = self.inst(f"icmp ugt {i32} {magnitude}, {self.const(int32, 0x7F800000)}")
        encode = self._float16_magnitude if dtype is float16 else self._bfloat16_magnitude
        result = encode(magnitude, is_nan)
        sign = self.inst(f"lshr {i32} {bits}, {self.const(uint32, 16)}")
        sign = self.inst(f"and {i32} {sign}, {self.const(uint32, 0x8000)}")
        result = self.inst(f"or {i32} {result}, {sign}")
        return self.inst(f"trunc {i32} {result} to {self.wide('i16')}")

    def _bfloat16_magnitude(self, magnitude: str, is_nan: str) -> str:
        i32 = self.type(uint32)
        rounded = self._round_field(magnitude, 16, 0)
        return self.select(is_nan, i32, self.const(uint32, 0x7FC0), rounded)

    def _float16_magnitude(self, magnitude: str, is_nan: str) -> str:
        i32, f32 = self.type(uint32), self.type(float32)
        normal = self._round_field(magnitude, 13, (15 - 127) << 23)
        # Below 2**-14: adding 0.5 puts units of 2**-24 in the last place, so the addition itself rounds.
        value = self.inst(f"bitcast {i32} {magnitude} to {f32}")
        value = self.inst(f"fadd {f32} {value}, {self.const(float32, 0.5)}")
        value = self.inst(f"bitcast {f32} {value} to {i32}")
        small = self.inst(f"sub {i32} {value}, {self.const(uint32, 0x3F000000)}")
        is_small = self.inst(f"icmp ult {i32} {magnitude}, {self.const(uint32, 0x38800000)}")
        result = self.select(is_small, i32, small, normal)
        is_large = self.inst(f"icmp uge {i32} {magnitude}, {self.const(uint32, 0x47800000)}")
        result = self.select(is_large, i32, self.const(uint32, 0x7C00), result)
        return self.select(is_nan, i32, self.const(uint32, 0x7E00), result)

    def _round_field(self, magnitude: str, shift: int, rebias: int) -> str:
        """(magnitude + rebias) >> shift, rounded to nearest even."""
        i32 = self.type(uint32)
        odd = self.inst(f"lshr {i32} {magnitude}, {self.const(uint32, shift)}")
        odd = self.inst(f"and {i32} {odd}, {self.const(uint32, 1)}")
        bias = (rebias + (1 << (shift - 1)) - 1) & 0xFFFFFFFF
        total = self.inst(f"add {i32} {magnitude}, {self.const(int32, bias)}")
        total = self.inst(f"add {i32} {total}, {odd}")
        return self.inst(f"lshr {i32} {total}, {self.const(uint32, shift)}")

    def _round_to_odd(self, operand: str) -> str:
        """float64 to float32 such that a second rounding to fewer bits equals one rounding from float64.

        Truncate, then set the last bit if anything was lost (Boldo and Melquiond, 2008).
        """
        i32, f32, f64 = self.type(uint32), self.type(float32), self.type(float64)
        nearest = self.inst(f"fptrunc {f64} {operand} to {f32}")
        back = self.inst(f"fpext {f32} {nearest} to {f64}")
        size, exact = (self.intrinsic("fabs", float64, [(float64, x)]) for x in (back, operand))
        above = self.inst(f"fcmp ogt {f64} {size}, {exact}")
        inexact = self.inst(f"fcmp one {f64} {size}, {exact}")
        bits = self.inst(f"bitcast {f32} {nearest} to {i32}")
        below = self.inst(f"sub {i32} {bits}, {self.const(uint32, 1)}")
        bits = self.select(above, i32, below, bits)
        odd = self.inst(f"or {i32} {bits}, {self.const(uint32, 1)}")
        bits = self.select(inexact, i32, odd, bits)
        return self.inst(f"bitcast {i32} {bits} to {f32}")
