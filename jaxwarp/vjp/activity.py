"""The values and arrays that change when the wanted inputs change. Only these get derivative code."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from jaxwarp.builtins.scalar_ops.rules import DETACH
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Call, For, If, Load, Op, Param, Store, Value, While, walk


class Activity:
    """The floats of a kernel that depend on the parameters in `wanted`, through values or through memory.

    A least fixed point: a value is active if an active one enters the operation that makes it, a parameter if an
    active value is stored in it. Integers and bools are never active. Loads in `on_entry` see what was there on entry:
    they are active only of what is wanted.
    """

    def __init__(self, kernel: Kernel, wanted: Iterable[Param], on_entry: Collection[Load] = ()):
        self.params = {p for p in wanted if p.dtype.is_float}
        self.still = {op for op in on_entry if op.param not in self.params}
        self.values: set[Value] = set()
        ops = list(walk(kernel.body))
        size = -1
        while size != len(self.params) + len(self.values):
            size = len(self.params) + len(self.values)
            for op in ops:
                self._visit(op)

    def _visit(self, op: Op) -> None:
        match op:
            case Call():
                if op.builtin is not DETACH and any(a in self.values for a in op.args):
                    self._mark(op.result)
            case Load():
                if op.param in self.params and op not in self.still:
                    self._mark(op.result)
            case Store():
                if op.value in self.values:
                    self.params.add(op.param)
            case Atomic():
                if any(a in self.values for a in op.args):
                    self.params.add(op.param)
                if op.param in self.params:
                    self._mark(op.result)
            case If():
                for block in op.blocks:
                    self._flow(block.results, op.results)
            case For():
                self._loop(op, op.body.params[1:])
            case While():
                self._flow(op.inits, op.condition.params)
                self._flow(op.body.params, op.condition.params)
                self._loop(op, op.body.params)
            case _:
                pass

    def _loop(self, op: For | While, carried: tuple[Value, ...]) -> None:
        self._flow(op.inits, carried)
        self._flow(op.body.results, carried)
        self._flow(carried, op.results)

    def _flow(self, sources: Iterable[Value], targets: Iterable[Value]) -> None:
        for source, target in zip(sources, targets, strict=True):
            if source in self.values:
                self._mark(target)

    def _mark(self, value: Value) -> None:
        if value.type.is_float:
            self.values.add(value)


def used_values(kernel: Kernel) -> set[Value]:
    """Every value that some operation or block reads."""
    used = set(kernel.body.results)
    for op in walk(kernel.body):
        used.update(op.operands)
        for block in op.blocks:
            used.update(block.results)
    return used


def read_inside(kernel: Kernel) -> set[Value]:
    """Every value that an operation reads, or the end of a block inside the one that it is defined in."""
    read: set[Value] = set()
    for op in walk(kernel.body):
        read.update(op.operands)
        for block in op.blocks:
            own = {value for inner in block.ops for value in inner.defined}
            read.update(value for value in block.results if value not in own)
    return read
