"""What the instructions of sm_90 do that our kernels and their twins are made of.

Found out from NVIDIA's list of instructions (CUDA binary utilities, "Instruction set reference") and from running code
whose results are known; `test_sass.py` compares what our code and its twins store.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import numpy as np
from sass.disassembly import Instruction
from sass.machine import (
    LOCAL,
    LONG,
    SHARED,
    WORD,
    Access,
    Thread,
    UnknownInstructionError,
    bits_float,
    float_bits,
    following,
    signed,
)

OPERATIONS: dict[str, Callable[[Thread, Instruction], int | None]] = {}
_COMPARE = {
    "GE": operator.ge, "GT": operator.gt, "LE": operator.le, "LT": operator.lt, "EQ": operator.eq, "NE": operator.ne,
}  # fmt: skip


def _rule(*names: str):
    def add(function):
        OPERATIONS.update((name, function) for name in names)
        return function

    return add


def _is_predicate(text: str) -> bool:
    return text.lstrip("!") in ("PT", "UPT") or text.lstrip("!U").startswith("P")


def _flags(i: Instruction) -> list[str]:
    return i.opcode.split(".")[1:]


# Control. A warp goes together, so barriers and convergence change nothing.


@_rule("BSSY", "BSYNC", "NOP", "YIELD", "BAR", "ENDCOLLECTIVE", "BREAK", "BMOV", "DEPBAR", "WARPSYNC", "MEMBAR")
def _nothing(t: Thread, i: Instruction) -> None:
    pass


@_rule("EXIT")
def _exit(t: Thread, i: Instruction) -> int:
    return -1


@_rule("BRA", "UBRA")
def _branch(t: Thread, i: Instruction) -> int | None:
    if "DIV" in _flags(i):
        return None
    condition = i.operands[0].split("`")[0].strip()
    return None if condition and not t.predicate(condition) else t.code.labels[i.target or ""]


@_rule("CALL")
def _call(t: Thread, i: Instruction) -> int:
    return t.code.labels[i.target or ""]


@_rule("RET")
def _return(t: Thread, i: Instruction) -> int:
    return t.register(i.operands[0].split()[0])


# Moves


@_rule("LDC", "ULDC")
def _load_constant(t: Thread, i: Instruction) -> None:
    to, source = i.operands
    if "64" in _flags(i):
        t.set_pair(to, t.constant(source, 8))
    else:
        t.set(to, t.constant(source))


@_rule("S2R", "S2UR")
def _special(t: Thread, i: Instruction) -> None:
    to, name = i.operands
    kind, _, axis = name.partition(".")
    values = {"SR_TID": t.place.thread, "SR_CTAID": t.place.number}
    if kind in values:
        t.set(to, values[kind]["XYZ".index(axis)])
    else:
        t.set(to, {"SR_LANEID": t.place.thread[0] % 32, "SR_SWINHI": SHARED >> 32, "SR_CgaCtaId": 0}[name])


@_rule("CS2R")
def _zero(t: Thread, i: Instruction) -> None:
    assert i.operands[1] == "SRZ", i
    t.set_pair(i.operands[0], 0)


@_rule("MOV", "UMOV", "R2UR")
def _move(t: Thread, i: Instruction) -> None:
    t.set(i.operands[0], t.integer(i.operands[1]))


@_rule("HFMA2")
def _constant_of_halves(t: Thread, i: Instruction) -> None:
    to, zero, _, *halves = i.operands
    if "RZ" not in zero or len(halves) != 2:
        raise UnknownInstructionError(i.opcode)
    high, low = (int(np.float16(float(x)).view(np.uint16)) for x in halves)
    t.set(to, high << 16 | low)


@_rule("SEL", "USEL")
def _select(t: Thread, i: Instruction) -> None:
    to, yes, no, condition = i.operands
    t.set(to, t.integer(yes if t.predicate(condition) else no))


@_rule("P2R")
def _predicates_to_register(t: Thread, i: Instruction) -> None:
    bits = sum(1 << k for k in range(7) if t.predicates[f"P{k}"])
    t.set(i.operands[0], bits & int(i.operands[3], 16))


# Integers


@_rule("IMAD", "UIMAD")
def _multiply_add(t: Thread, i: Instruction) -> None:
    flags, (to, a, b, c, *carry) = _flags(i), i.operands
    x, y = t.integer(a), t.integer(b)
    if "WIDE" in flags or "HI" in flags:
        if "U32" not in flags:
            x, y = signed(x), signed(y)
        total = x * y + t.integer(c, wide=True)
        if "WIDE" in flags:
            t.set_pair(to, total)
        else:
            t.set(to, total >> 32)
        return
    t.set(to, x * y + t.integer(c, complement="X" in flags) + (t.predicate(carry[0]) if "X" in flags else 0))


@_rule("IADD3", "UIADD3")
def _add(t: Thread, i: Instruction) -> None:
    extended = "X" in _flags(i)
    to, *rest = i.operands
    carries = []
    while _is_predicate(rest[0]):
        carries.append(rest.pop(0))
    # A negative operand adds its complement and one, which matters for the carry.
    negatives = [text[0] == "-" and not text[1].isdigit() for text in rest[:3]]
    total = sum(t.integer(text, complement=True) for text in rest[:3])
    total += sum(map(t.predicate, rest[3:5])) if extended else sum(negatives)
    t.set(to, total)
    for name, bit in zip(carries, (total >> 32, total >> 33), strict=False):
        t.set_predicate(name, bit & 1 or (total >> 33 and name is carries[0]))


@_rule("VIADD")
def _add_two(t: Thread, i: Instruction) -> None:
    to, a, b = i.operands
    t.set(to, t.integer(a) + t.integer(b))


def _least_or_most(t: Thread, i: Instruction, x: int, y: int, chooses_least: str) -> None:
    if "U32" not in _flags(i):
        x, y = signed(x), signed(y)
    t.set(i.operands[0], min(x, y) if t.predicate(chooses_least) else max(x, y))


@_rule("VIMNMX", "IMNMX", "UIMNMX")
def _least(t: Thread, i: Instruction) -> None:
    _, a, b, condition = i.operands
    _least_or_most(t, i, t.integer(a), t.integer(b), condition)


@_rule("VIADDMNMX")
def _least_of_sum(t: Thread, i: Instruction) -> None:
    _, a, b, c, condition = i.operands
    _least_or_most(t, i, (t.integer(a) + t.integer(b)) & WORD, t.integer(c), condition)


@_rule("IABS")
def _absolute(t: Thread, i: Instruction) -> None:
    t.set(i.operands[0], abs(signed(t.integer(i.operands[1]))))


@_rule("LEA", "ULEA")
def _scaled_add(t: Thread, i: Instruction) -> None:
    flags, (to, *rest) = _flags(i), i.operands
    carry = rest.pop(0) if _is_predicate(rest[0]) else None
    x, y = t.integer(rest[0]), t.integer(rest[1])
    if "HI" not in flags:
        total = ((x << int(rest[2], 16)) & WORD) + y
        t.set(to, total)
        if carry is not None:
            t.set_predicate(carry, total >> 32)
        return
    if "SX32" in flags:
        high, rest = (signed(x) << int(rest[2], 16)) >> 32, rest[3:]
    else:
        high, rest = ((t.integer(rest[2]) << 32 | x) << int(rest[3], 16)) >> 32, rest[4:]
    t.set(to, high + y + (t.predicate(rest[0]) if "X" in flags else 0))


@_rule("SHF", "USHF")
def _shift(t: Thread, i: Instruction) -> None:
    flags, (to, *rest) = _flags(i), i.operands
    low, by, high = (t.integer(x) for x in rest)
    both = high << 32 | low
    if "L" in flags:
        t.set(to, (both << min(by, 63)) >> 32 if {"U64", "HI"} & set(flags) else low << by if by < 32 else 0)
    elif "HI" in flags:
        t.set(to, signed(high) >> min(by, 31) if "S32" in flags else high >> by)
    else:
        t.set(to, (signed(both, 64) if "S64" in flags else both) >> by)


@_rule("LOP3", "ULOP3")
def _logic(t: Thread, i: Instruction) -> None:
    rest = list(i.operands)
    found = rest.pop(0) if _is_predicate(rest[0]) else None
    to, *inputs = rest[:4]
    x, y, z = (t.integer(text) for text in inputs)
    table, value = int(rest[4], 16), 0
    for bit in (bit for bit in range(8) if table >> bit & 1):
        value |= (x if bit & 4 else ~x) & (y if bit & 2 else ~y) & (z if bit & 1 else ~z)
    t.set(to, value)
    if found is not None:
        t.set_predicate(found, value & WORD)


@_rule("PLOP3", "UPLOP3")
def _logic_of_predicates(t: Thread, i: Instruction) -> None:
    first, second, a, b, c, table, other = i.operands
    at = 4 * t.predicate(a) + 2 * t.predicate(b) + t.predicate(c)
    t.set_predicate(first, int(table, 16) >> at & 1)
    t.set_predicate(second, int(other, 16) >> at & 1)


def _joined(flags: list[str], value: bool, other: bool) -> bool:
    return (value and other) if "AND" in flags else (value or other) if "OR" in flags else value != other


@_rule("ISETP", "UISETP")
def _compare(t: Thread, i: Instruction) -> None:
    flags, (first, second, a, b, other, *low) = _flags(i), i.operands
    x, y = t.integer(a), t.integer(b)
    if "U32" not in flags:
        x, y = signed(x), signed(y)
    value = bool(_COMPARE[flags[0]](x, y))
    if "EX" in flags:  # the upper halves, after the lower ones
        below = t.predicate(low[0])
        value = (value and below) if flags[0] == "EQ" else (value or below) if flags[0] == "NE" else value
        value = below if x == y and flags[0] not in ("EQ", "NE") else value
    t.set_predicate(first, _joined(flags, value, t.predicate(other)))
    t.set_predicate(second, _joined(flags, not value, t.predicate(other)))


# Floats


@_rule("FADD", "FMUL", "FFMA", "FMNMX")
def _float_arithmetic(t: Thread, i: Instruction) -> None:
    to, a, b, *rest = i.operands
    x, y = t.real(a), t.real(b)
    with np.errstate(all="ignore"):
        match i.opcode.split(".")[0]:
            case "FADD":
                value = x + y
            case "FMUL":
                value = x * y
            case "FFMA":
                value = np.float64(x) * np.float64(y) + np.float64(t.real(rest[0]))
            case _:
                value = min(x, y) if t.predicate(rest[0]) else max(x, y)
        t.set_float(to, value)


@_rule("FSEL")
def _select_float(t: Thread, i: Instruction) -> None:
    to, yes, no, condition = i.operands
    t.set_float(to, t.real(yes if t.predicate(condition) else no))


@_rule("FSETP")
def _compare_floats(t: Thread, i: Instruction) -> None:
    flags, (first, _, a, b, other) = _flags(i), i.operands
    x, y = t.real(a), t.real(b)
    unordered = math.isnan(x) or math.isnan(y)
    kind = flags[0]
    value = kind.endswith("U") and len(kind) == 3 if unordered else bool(_COMPARE[kind[:2]](x, y))
    t.set_predicate(first, _joined(flags, value, t.predicate(other)))


@_rule("FCHK")
def _division_is_hard(t: Thread, i: Instruction) -> None:
    x, y = abs(t.real(i.operands[1])), abs(t.real(i.operands[2]))
    t.set_predicate(i.operands[0], not 1e-30 < y < 1e30 or not (x == 0 or 1e-30 < x < 1e30))


@_rule("MUFU")
def _special_function(t: Thread, i: Instruction) -> None:
    functions = {"RCP": lambda x: 1 / x, "RSQ": lambda x: 1 / np.sqrt(x), "SQRT": np.sqrt}
    kind = _flags(i)[0]
    if kind not in functions:
        raise UnknownInstructionError(i.opcode)
    with np.errstate(all="ignore"):
        t.set_float(i.operands[0], functions[kind](np.float64(t.real(i.operands[1]))))


@_rule("I2F", "I2FP")
def _integer_to_float(t: Thread, i: Instruction) -> None:
    flags, (to, source) = _flags(i), i.operands
    value = t.pair(source) if "U64" in flags else t.integer(source)
    value = value if {"U32", "U64"} & set(flags) else signed(value)
    found = np.float32(value)
    t.set_float(to, np.nextafter(found, np.float32(np.inf)) if "RP" in flags and int(found) < value else found)


@_rule("F2I")
def _float_to_integer(t: Thread, i: Instruction) -> None:
    most = LONG if "U64" in _flags(i) else WORD
    value = min(max(int(t.real(i.operands[1])), 0), most)
    if most == LONG:
        t.set_pair(i.operands[0], value)
    else:
        t.set(i.operands[0], value)


# Memory


def _size(i: Instruction) -> int:
    flags = set(_flags(i))
    narrow = 1 if {"U8", "S8"} & flags else 2 if {"U16", "S16"} & flags else 4
    return 16 if "128" in flags else 8 if "64" in flags else narrow


def _place(t: Thread, i: Instruction, text: str, size: int) -> int:
    base = i.opcode.split(".")[0]
    offset = SHARED if base in ("LDS", "STS", "ATOMS") else LOCAL if base in ("LDL", "STL") else 0
    address = t.address(text, offset != 0) + offset
    t.accesses.append(Access(i.opcode, address, size))
    return address


@_rule("LDG", "LD", "LDS", "LDL")
def _load(t: Thread, i: Instruction) -> None:
    to, size = i.operands[0], _size(i)
    address = _place(t, i, i.operands[1], size)
    if size < 4:
        t.set(to, t.load(address & ~3) >> 8 * (address & 3) & (1 << 8 * size) - 1)
    else:
        for n in range(size // 4):
            t.set(following(to, n), t.load(address + 4 * n))


@_rule("STG", "ST", "STS", "STL")
def _store(t: Thread, i: Instruction) -> None:
    source, size = i.operands[1], _size(i)
    address = _place(t, i, i.operands[0], size)
    for n in range(max(1, size // 4)):
        t.memory[address + 4 * n] = 0 if source == "RZ" else t.register(following(source, n))


@_rule("RED", "REDG", "ATOM", "ATOMG", "ATOMS")
def _atomic(t: Thread, i: Instruction) -> None:
    at = next(n for n, text in enumerate(i.operands) if "[" in text and not text.startswith("c["))
    address, flags, before = _place(t, i, i.operands[at], 4), _flags(i), i.operands[:at]
    old = t.load(address)
    if "CAST" in flags:
        t.memory[address] = t.register(i.operands[at + 2])
        if i.opcode.startswith("ATOMS"):
            t.set(before[0], 1)
            return
    elif "ADD" in flags and "F32" in flags:
        t.memory[address] = float_bits(bits_float(old) + t.real(i.operands[at + 1]))
    else:
        raise UnknownInstructionError(i.opcode)
    for name in before:
        if _is_predicate(name):
            t.set_predicate(name, True)
        elif name != "RZ":
            t.set(name, old)


@_rule("QSPC")
def _kind_of_memory(t: Thread, i: Instruction) -> None:
    t.set_predicate(i.operands[0], "S" in _flags(i) and t.address(i.operands[2], False) >= SHARED)


# The warp


@_rule("SHFL")
def _shuffle(t: Thread, i: Instruction) -> None:
    t.set_predicate(i.operands[0], True)
    t.set(i.operands[1], t.integer(i.operands[2]))


@_rule("VOTE", "VOTEU")
def _vote(t: Thread, i: Instruction) -> None:
    if "ALL" in _flags(i):
        t.set_predicate(i.operands[0], t.predicate(i.operands[1]))
    else:
        t.set(i.operands[0], WORD if t.predicate(i.operands[-1]) else 0)


@_rule("MATCH")
def _match(t: Thread, i: Instruction) -> None:
    t.set(i.operands[-2], WORD)


@_rule("REDUX")
def _reduce_over_warp(t: Thread, i: Instruction) -> None:
    if not {"OR", "AND", "MIN", "MAX"} & set(_flags(i)):
        raise UnknownInstructionError(i.opcode)
    t.set(i.operands[0], t.integer(i.operands[1]))
