"""One thread of a GPU: runs its machine code (sm_90), counts what it executes and keeps what it loads and stores.

The threads of a warp are taken to go together: a shuffle gives a thread its own value, votes are of 32 threads that
agree. Integers are exact. Floats are rounded to nearest, in single precision.
"""

from __future__ import annotations

import re
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from sass.disassembly import Code, Instruction

WORD, LONG = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
# Where other kinds of memory begin in the one address space.
SHARED, LOCAL = 0x7F0000000000, 0x7E0000000000
_PARAMETERS, _MOST_STEPS = 0x210, 2_000_000


class UnknownInstructionError(Exception):
    """What this machine has no rule for."""


class Place(NamedTuple):
    """Where a thread is in its launch."""

    block: Sequence[int]
    thread: Sequence[int]
    number: Sequence[int]
    blocks: Sequence[int]


class Access(NamedTuple):
    """One access to memory: the instruction, the address, how many bytes."""

    opcode: str
    address: int
    size: int


def float_bits(x: float | np.floating) -> int:
    return struct.unpack("<I", np.float32(x).tobytes())[0]


def bits_float(bits: int) -> np.float32:
    return np.frombuffer(struct.pack("<I", bits & WORD), np.float32)[0]


def signed(x: int, bits: int = 32) -> int:
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


@dataclass
class Thread:
    """A thread and what it has seen.

    Attributes:
        code: what it runs.
        words: reads four bytes of memory that it has not written.
        executed: the instructions, in order.
        accesses: those of memory.
        memory: what it has stored, by address, four bytes each.
    """

    code: Code
    parameters: bytes
    place: Place
    words: Callable[[int], int]
    executed: list[Instruction] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    memory: dict[int, int] = field(default_factory=dict)
    registers: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    predicates: dict[str, bool] = field(default_factory=lambda: defaultdict(bool))

    def __post_init__(self) -> None:
        self.constants = bytearray(0x1000)
        struct.pack_into("<6I", self.constants, 0, *self.place.block, *self.place.blocks)
        self.constants[_PARAMETERS : _PARAMETERS + len(self.parameters)] = self.parameters

    def run(self, operations: dict[str, Callable[[Thread, Instruction], int | None]]) -> Thread:
        """To its end. An operation gives the address to go on at, if that is not the next; -1 ends."""
        instructions = self.code.instructions
        index = {instruction.address: n for n, instruction in enumerate(instructions)}
        at = 0
        while at >= 0:
            instruction = instructions[at]
            at += 1
            if instruction.opcode != "NOP":
                self.executed.append(instruction)
            if instruction.predicate and not self.predicate(instruction.predicate):
                continue
            operation = operations.get(instruction.opcode.split(".")[0])
            if operation is None or len(self.executed) > _MOST_STEPS:
                raise UnknownInstructionError(f"{instruction.opcode} {', '.join(instruction.operands)}")
            to = operation(self, instruction)
            if to is not None:
                at = index[to] if to >= 0 else -1
        return self

    # Operands

    def predicate(self, text: str) -> bool:
        name = text.lstrip("!")
        return (name in ("PT", "UPT") or self.predicates[name]) != text.startswith("!")

    def set_predicate(self, name: str, value: object) -> None:
        self.predicates[name] = bool(value)

    def register(self, name: str) -> int:
        return 0 if name in ("RZ", "URZ", "SRZ") else self.registers[name]

    def set(self, name: str, value: int) -> None:
        self.registers[name] = value & WORD

    def set_float(self, name: str, value: float | np.floating) -> None:
        self.set(name, float_bits(value))

    def pair(self, name: str) -> int:
        return 0 if name.endswith("Z") else self.register(name) | self.register(following(name, 1)) << 32

    def set_pair(self, name: str, value: int) -> None:
        if not name.endswith("Z"):
            self.set(name, value)
            self.set(following(name, 1), value >> 32)

    def constant(self, text: str, size: int = 4) -> int:
        found = re.fullmatch(r"c\[0x0\]\[(?:(U?R\w+)\+?)?(-?0x[0-9a-f]+)?\]", text)
        assert found is not None, text
        at = (self.register(found[1]) if found[1] else 0) + int(found[2] or "0", 16)
        return int.from_bytes(self.constants[at : at + size], "little")

    def integer(self, text: str, wide: bool = False, complement: bool = False) -> int:
        """The value of an operand without a sign; `complement`: a minus means that, as in sums with a carry."""
        negative = text.startswith("-") and not re.match(r"-(0x|\d)", text)
        inverted = text[negative:].startswith("~")
        name = text[negative + inverted :]
        if name.startswith("|"):
            value = abs(signed(self.register(name.strip("|"))))
        elif name.startswith("c["):
            value = self.constant(name, 8 if wide else 4)
        elif re.match(r"U?R(\d|Z)", name):
            value = self.pair(name.removesuffix(".64")) if wide else self.register(name)
        else:
            value = int(name, 16) if "0x" in name else int(name)
        if negative:
            value = ~value if complement else -value
        return (~value if inverted else value) & (LONG if wide else WORD)

    def real(self, text: str) -> np.float32:
        negative = text.startswith("-")
        name = text.lstrip("+-")
        magnitude = name.startswith("|")
        name = name.strip("|")
        if name.startswith("c["):
            value = bits_float(self.constant(name))
        elif re.match(r"U?R(\d|Z)", name):
            value = bits_float(self.register(name))
        else:
            value = np.float32(name.replace("QNAN", "nan").replace("INF", "inf"))
        value = abs(value) if magnitude else value
        return np.float32(-value if negative else value)

    def address(self, text: str, is_short: bool) -> int:
        """Of `[R2.64+UR4+0x10]`; `is_short`: within 32 bits, in shared or local memory."""
        inner = re.search(r"\[([^\[\]]*)\]$", text)
        assert inner is not None, text
        total = 0
        for part in filter(None, inner[1].replace("+-", "+~").split("+")):
            name = part.lstrip("~")
            if name.startswith("0x"):
                total += -int(name, 16) if part.startswith("~") else int(name, 16)
            elif name.endswith(".64") or not is_short:
                total += self.pair(name.removesuffix(".64"))
            else:
                total += self.register(name.split(".")[0])
        return total & LONG

    def load(self, address: int) -> int:
        return self.memory[address] if address in self.memory else self.words(address) & WORD


def following(name: str, distance: int) -> str:
    """The register some places on: R7 after R4."""
    if distance == 0 or name.endswith("Z"):
        return name
    letters = name.rstrip("0123456789")
    return f"{letters}{int(name[len(letters) :]) + distance}"


def counts(thread: Thread) -> Counter[str]:
    """How often each instruction was executed, without what follows its first dot."""
    return Counter(instruction.opcode.split(".")[0] for instruction in thread.executed)


def most_loads_in_flight(thread: Thread) -> int:
    """How many loads from memory are under way at once: until the first use of one, in order."""
    flying: list[set[str]] = []
    most = 0
    for instruction in thread.executed:
        base = instruction.opcode.split(".")[0]
        sources = instruction.operands if base in ("STG", "RED", "REDG") else instruction.operands[1:]
        read = set(re.findall(r"\bR\d+", " ".join(sources)))
        used = [n for n, loaded in enumerate(flying) if loaded & read]
        flying = flying[used[-1] + 1 :] if used else flying
        if base == "LDG":
            width = 4 if ".128" in instruction.opcode else 2 if ".64" in instruction.opcode else 1
            flying.append({following(instruction.operands[0], n) for n in range(width)})
            most = max(most, len(flying))
    return most
