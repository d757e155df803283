"""Machine code of a kernel's main body, by basic block: what tests of its shape look at."""

from __future__ import annotations

import re
from dataclasses import dataclass

import llvmlite.binding as llvm

from jaxwarp.codegen.cpu import compile_cpu
from jaxwarp.codegen.cpu.compile import compile_object
from jaxwarp.codegen.cpu.plan.target import Machine
from jaxwarp.ir.kernel import Kernel

LINUX = "x86_64-unknown-linux-gnu"
# The levels of x86-64 that Linux distributions build for, and 64-bit Arm. `features` repeat what the CPU's name says.
MACHINES = {
    "v2": Machine(LINUX, "x86-64-v2", "+sse4.2"),
    "v3": Machine(LINUX, "x86-64-v3", "+avx,+avx2,+fma"),
    "v4": Machine(LINUX, "x86-64-v4", "+avx,+avx2,+fma,+avx512f"),
    "arm": Machine("aarch64-unknown-linux-gnu", "generic", "+neon"),
}

_ENTRY = re.compile(r"getelementptr i64, ptr %geometry, i64 (\d+)")
_SEPARATE = re.compile(r"(?:\.LBB\d+_\d+:|# %bb\.\d+:)(?:\s+# %([\w.]+))?")
_INSTRUCTION = re.compile(r"\t([a-z]\w+)\s*(.*?)(?:\s+#.*)?$")


@dataclass(frozen=True)
class MainBody:
    """The body for full chunks of the interior: (mnemonic, operands) of each instruction, by block."""

    width: int
    blocks: list[tuple[str, list[tuple[str, str]]]]

    def names(self, *hints: str) -> list[str]:
        """The mnemonics, of all blocks or of those whose name starts with one of `hints`."""
        return [n for label, block in self.blocks if not hints or label.startswith(hints) for n, _ in block]

    def count(self, pattern: str, *hints: str) -> int:
        return sum(re.fullmatch(pattern, name) is not None for name in self.names(*hints))

    def vectors(self, register: str) -> int:
        """Instructions between memory and whole vector registers, in either direction."""
        return sum(
            register in operands and "(%r" in operands and "%rip" not in operands and "broadcast" not in name
            for _, block in self.blocks
            for name, operands in block
        )


def entries_read(text: str) -> set[int]:
    """The numbers of the run-time integers that LLVM text of a launch function reads."""
    return {int(number) for number in _ENTRY.findall(text)}


def initialize() -> None:
    """Has LLVM make code for all machines."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def main_body(kernel: Kernel, machine: Machine) -> MainBody:
    """What a machine runs most of the time, of a prepared kernel at the width that suits that machine."""
    code = compile_cpu(kernel, machine=machine)
    start = "\ninside:" if "\ninside:" in code.text else "\nchunk:"
    main = code.text.split(start)[1].split("\nrest:")[0]
    labels = {start.strip(":\n"), "following", *re.findall(r"^(\w+):$", main, re.MULTILINE)}
    text = compile_object(code.bitcode, machine, assembly=True).decode()
    found: list[tuple[str, list[tuple[str, str]]]] = []
    block: list[tuple[str, str]] | None = None
    for line in text[text.index(f"\n{code.symbol}:") :].splitlines():
        if separate := _SEPARATE.match(line):
            name = separate.group(1) or ""
            block = [] if name.split(".")[0] in labels and "preheader" not in name else None
            if block is not None:
                found.append((name, block))
        elif line.startswith(".Lfunc_end"):
            break
        elif block is not None and (instruction := _INSTRUCTION.match(line)):
            block.append((instruction.group(1), instruction.group(2)))
    assert found, "no block of the main body was recognised"
    return MainBody(code.width, found)
