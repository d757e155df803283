"""Register pressure: the number of vectors live at once in a body of code, which limits its number of lanes."""

from __future__ import annotations

from jaxwarp.codegen.cpu.analysis.uniformity import Strides, find_strides
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Block, For, Load, Value, While, walk


def register_pressure(kernel: Kernel, strides: Strides | None = None) -> int:
    """The most values of a kernel's `busy_blocks` that are alive at one time and differ between lanes."""
    strides = strides or find_strides(kernel, 2)
    return max(pressure(block, strides) for block in busy_blocks(kernel))


def busy_blocks(kernel: Kernel) -> list[Block]:
    """The blocks in which a kernel spends its time: the innermost loops, or all of it if there are none."""
    loops = [op for op in walk(kernel.body) if isinstance(op, For | While)]
    inner = [op for op in loops if not any(isinstance(o, For | While) for b in op.blocks for o in walk(b))]
    return [Block((), (op,), op.results) for op in inner] or [kernel.body]


def pressure(block: Block, strides: Strides) -> int:
    """The most values that are alive at one time and differ between lanes.

    A value lives from its operation to its last use; what a loop reads from outside, as long as the loop. A load can
    wait until its value is wanted, so what it loads lives from its first use.
    """
    ranges = _Ranges()
    ranges.block(block)
    changes = []
    for value, begin in ranges.begins.items():
        if value in ranges.ends and strides.of[value] is None:
            changes += [(begin, 1), (ranges.ends[value], -1)]
    most = alive = 0
    for _, change in sorted(changes):  # at one moment, ends come before beginnings
        alive += change
        most = max(most, alive)
    return most


class _Ranges:
    def __init__(self) -> None:
        self.begins: dict[Value, int] = {}
        self.ends: dict[Value, int] = {}
        self.waiting: set[Value] = set()  # loaded, and not used yet
        self.now = 0

    def block(self, block: Block) -> None:
        self.now += 1
        for param in block.params:
            self.begins[param] = self.now
        for op in block.ops:
            self.now += 1
            for value in op.operands:
                self.use(value)
            entered = self.now
            for inner in op.blocks:
                self.block(inner)
            if isinstance(op, (For, While)):
                self.repeat(entered)
            self.now += 1
            for result in op.defined:
                self.begins[result] = self.now
            if isinstance(op, Load):
                self.waiting.add(op.result)
        self.now += 1
        for value in block.results:
            self.use(value)

    def use(self, value: Value) -> None:
        self.begins.setdefault(value, 0)
        self.ends[value] = self.now
        if value in self.waiting:
            self.waiting.discard(value)
            self.begins[value] = self.now

    def repeat(self, entered: int) -> None:
        """At the end of a loop: what it reads from outside has lived to here."""
        for value, end in self.ends.items():
            if end > entered >= self.begins.get(value, entered + 1):
                self.ends[value] = self.now
