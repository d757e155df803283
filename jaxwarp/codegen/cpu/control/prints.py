"""Printing: lane by lane, in one call of the native library for each, which puts the text together (native/told.cc)."""

from __future__ import annotations

import hashlib

from jaxwarp.codegen.cpu.llvm.lanes import Lanes
from jaxwarp.codegen.cpu.llvm.vectors import FRAME_ALIGN, scalar_type
from jaxwarp.codegen.provided import PRINT
from jaxwarp.ir.nodes import Tell, Value
from jaxwarp.types import float32

_OPEN, _CLOSE = "\x02", "\x03"


def emit_print(lanes: Lanes, op: Tell) -> None:
    """Prints for each lane that is on, in order."""
    function = lanes.function
    words = function.alloca(f"[{max(1, len(op.args))} x i64]")
    scalars = {a: lanes.scalar(a) for a in op.args if lanes.strides.of[a] == 0}
    spilled = {a: _spill(lanes, a) for a in op.args if a not in scalars}
    text = template(op)
    name = _constant(lanes, text)
    function.declare(f"declare void @{PRINT}(ptr, i64, ptr, i64)")
    lane, close = lanes.many.lane_loop("-1" if lanes.mask is None else lanes.bits(lanes.mask))
    for i, arg in enumerate(op.args):
        value = scalars[arg] if arg in scalars else _pick(lanes, arg, spilled[arg], lane)
        place = function.inst(f"getelementptr i64, ptr {words}, i64 {i}")
        function.line(f"store i64 {_word(lanes, arg, value)}, ptr {place}")
    function.line(f"call void @{PRINT}(ptr {name}, i64 {len(text)}, ptr {words}, i64 {len(op.args)})")
    close()


def template(op: Tell) -> bytes:
    """The text with the places of the values, as native/told.h has them."""
    made = op.texts[0].replace(_OPEN, _OPEN + _CLOSE)
    for i, (text_format, text) in enumerate(zip(op.formats, op.texts[1:], strict=True)):
        made += f"{_OPEN}{i}{text_format}{_CLOSE}" + text.replace(_OPEN, _OPEN + _CLOSE)
    return made.encode()


def _constant(lanes: Lanes, text: bytes) -> str:
    """The name of a constant that holds the text."""
    quoted = "".join(chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02X}" for b in text)
    name = f"@text.{hashlib.sha256(text).hexdigest()[:16]}"
    lanes.function.declare(f'{name} = private unnamed_addr constant [{len(text)} x i8] c"{quoted}"')
    return name


def _word(lanes: Lanes, arg: Value, value: str) -> str:
    """A value in 64 bits: of a float the bits of the double, of an integer its value."""
    inst, dtype = lanes.function.inst, arg.type
    if dtype.is_float:
        double = inst(f"fpext float {value} to double") if dtype is float32 else value
        return inst(f"bitcast double {double} to i64")
    if dtype.bits == 64:
        return value
    return inst(f"{'sext' if dtype.is_signed else 'zext'} {scalar_type(dtype)} {value} to i64")


def _spill(lanes: Lanes, arg: Value) -> str:
    """The values of the lanes in memory, where a lane's number can index them."""
    memory = lanes.function.alloca(f"[{lanes.width} x {_held(arg)}]")
    vector = lanes.vector(arg)
    if _held(arg) != scalar_type(arg.type):
        vector = lanes.function.inst(f"zext {lanes.many.type(arg.type)} {vector} to {lanes.many.wide(_held(arg))}")
    lanes.function.line(f"store {lanes.many.wide(_held(arg))} {vector}, ptr {memory}, align {FRAME_ALIGN}")
    return memory


def _pick(lanes: Lanes, arg: Value, memory: str, lane: str) -> str:
    place = lanes.function.inst(f"getelementptr {_held(arg)}, ptr {memory}, i64 {lane}")
    value = lanes.function.inst(f"load {_held(arg)}, ptr {place}")
    return value if _held(arg) == scalar_type(arg.type) else lanes.function.inst(f"trunc i8 {value} to i1")


def _held(arg: Value) -> str:
    """A bool takes a byte there."""
    return "i8" if scalar_type(arg.type) == "i1" else scalar_type(arg.type)
