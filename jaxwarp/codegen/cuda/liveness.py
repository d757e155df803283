"""Liveness of values. It decides whether a C++ local may be assigned, instead of declaring a new one."""

from __future__ import annotations

from collections.abc import Iterable

from jaxwarp.ir.nodes import Block, Op, Value


class Liveness:
    """The position of the printer in the program, and what is read after it."""

    def __init__(self) -> None:
        self._inside: dict[Op, frozenset[Value]] = {}
        self._defined: dict[Op, frozenset[Value]] = {}
        self._frames: list[_Frame] = []

    def read_inside(self, op: Op) -> frozenset[Value]:
        """Values that the blocks of an operation read (its own operands are not counted)."""
        found = self._inside.get(op)
        if found is None:
            found = frozenset().union(*(self._read_by(block) for block in op.blocks))
            self._inside[op] = found
        return found

    def _read_by(self, block: Block) -> set[Value]:
        read = set(block.results)
        for op in block.ops:
            read.update(op.operands, self.read_inside(op))
        return read

    def read_from_outside(self, op: Op) -> frozenset[Value]:
        """Return the values read inside an operation but defined before it. A loop reads them in every iteration."""
        return self.read_inside(op) - self._defined_inside(op)

    def _defined_inside(self, op: Op) -> frozenset[Value]:
        found = self._defined.get(op)
        if found is None:
            values: set[Value] = set()
            for block in op.blocks:
                values.update(block.params)
                for inner in block.ops:
                    values.update(inner.defined, self._defined_inside(inner))
            found = self._defined[op] = frozenset(values)
        return found

    def enter(self, block: Block, again: Iterable[Value] = ()) -> None:
        """Starts a block; `again` are values that a further iteration reads."""
        last: dict[Value, int] = {}
        for at, op in enumerate(block.ops):
            for value in (*op.operands, *self.read_inside(op)):
                last[value] = at
        last.update(dict.fromkeys(block.results, len(block.ops)))
        self._frames.append(_Frame(last, frozenset(again)))

    def leave(self) -> None:
        self._frames.pop()

    def move_to(self, position: int) -> None:
        """The printer is at the operation with this number in the innermost block."""
        self._frames[-1].position = position

    def is_live(self, value: Value) -> bool:
        """Return whether the value may be read after the current operation."""
        return any(value in f.again or f.last.get(value, -1) > f.position for f in self._frames)


class _Frame:
    def __init__(self, last: dict[Value, int], again: frozenset[Value]):
        self.last = last
        self.again = again
        self.position = -1
