"""Machine code as a list of instructions: NVRTC's cubin through nvdisasm. No GPU is needed."""

from __future__ import annotations

import re
import subprocess
import tempfile
from typing import NamedTuple

from jaxwarp.codegen.cuda import nvrtc
from jaxwarp.commands.show import _nvdisasm

ARCHITECTURE = 90


class Instruction(NamedTuple):
    """One line of a disassembly: `@P0 IADD3 R1, R2, 0x4, RZ`; `target` is the label it names, if any."""

    address: int
    predicate: str
    opcode: str
    operands: tuple[str, ...]
    target: str | None


class Code(NamedTuple):
    """The instructions of one kernel, and the addresses of its labels."""

    instructions: list[Instruction]
    labels: dict[str, int]


def available() -> bool:
    return nvrtc.available() and _nvdisasm() is not None


def compiled(source: str, options: tuple[str, ...]) -> Code:
    """The first kernel of a CUDA text."""
    made = nvrtc.compile_source(source, "text.cu", [f"--gpu-architecture=sm_{ARCHITECTURE}", *options], False)
    return code_of(made.code)


def code_of(cubin: bytes) -> Code:
    """The first kernel of a cubin."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run([str(_nvdisasm()), "-c", file.name], capture_output=True, text=True, check=True).stdout
    sections = (s for s in re.split(r"(?m)^\s*\.section\s+", text) if s.startswith(".text."))
    return _parsed(next(sections))


_LABEL = re.compile(r"^(\.L_\S+|\$\S+|\S+):\s*$")
_INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z0-9_.]+)\s*(.*?);")


def _parsed(section: str) -> Code:
    code = Code([], {})
    waiting: list[str] = []
    for line in section.splitlines():
        if label := _LABEL.match(line):
            waiting.append(label[1])
        elif found := _INSTRUCTION.match(line):
            address, predicate, opcode, rest = int(found[1], 16), found[2] or "", found[3], found[4]
            code.labels.update((name, address) for name in waiting)
            waiting = []
            target = re.search(r"`\((\S+?)\)", rest)
            rest = re.sub(r"\(\*.*?\*\)", "", rest).replace(".reuse", "").strip()
            operands = tuple(o.strip() for o in re.split(r",(?![^\[]*\])", rest)) if rest else ()
            code.instructions.append(Instruction(address, predicate, opcode, operands, target and target[1]))
    return code
