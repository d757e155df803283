"""Hoisting: code that gives the same values in a whole launch, or in a row of it, runs once, before it is needed.

Most of that code computes addresses: of `f[2, up, x]` all but x. LLVM would hoist it out of the loops over rows and
columns itself, but its loop passes take half of the time that compiling a stencil takes. Here it is enough to look at
the operands of a scalar instruction. If all are known before the loops, or the row, so is the result. An equal
instruction may have been written already, for example for the body for the rest of a row.

Only instructions that neither trap nor access memory move, since they may move out of branches: arithmetic other than
divisions. A name that is known in a row is used in that row only, so equal text always means a value that is known
where the text is.
"""

from __future__ import annotations

import re

_MOVABLE = frozenset((
    "add", "and", "bitcast", "fadd", "fcmp", "fmul", "fneg", "fpext", "fptrunc", "fsub", "getelementptr", "icmp",
    "lshr", "mul", "or", "select", "sext", "shl", "sitofp", "sub", "trunc", "uitofp", "xor", "zext",
))  # fmt: skip
_SPLAT = ("insertelement", "shufflevector")
_OPERANDS = re.compile(r"%[\w.]+")


class Invariants:
    """The instructions before the loops (`launch`) and at the start of each row (`row`)."""

    def __init__(self) -> None:
        self.launch: list[str] = []
        self.row: list[str] = []
        self.row_at: int | None = None  # the line of the function before which the latter belong
        self._levels: dict[str, int] = {}
        self._known: dict[str, str] = {}  # text to name

    def begin_row(self, at: int, numbers: tuple[str, ...]) -> None:
        """Begin a row at this line. `numbers`: the row's number and its thread indices."""
        self.row_at = at
        for number in numbers:
            self._levels.setdefault(number, 1)

    def find(self, text: str) -> str | None:
        """The name of an equal instruction that was moved."""
        return self._known.get(text)

    def take(self, name: str, text: str) -> bool:
        """Move an instruction, if it may move, and return whether it did."""
        if not (text.startswith(_SPLAT) if "<" in text else text.partition(" ")[0] in _MOVABLE):
            return False
        level = 0
        for operand in _OPERANDS.findall(text):
            # What has a name of another kind is an argument of the function, or made of those at its start.
            if operand.startswith("%v"):
                found = self._levels.get(operand)
                if found is None:
                    return False
                level |= found
        self._levels[name] = level
        self._known[text] = name
        (self.row if level else self.launch).append(f"  {name} = {text}")
        return True

    def is_early(self, operand: str) -> bool:
        """Return whether an operand is known before the columns of a row."""
        return not operand.startswith("%v") or operand in self._levels
