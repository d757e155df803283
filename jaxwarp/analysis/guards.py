"""Elements that have one owner, which an array says:

    owner = load owners[i]
    if owner == n { store y[i], v }        no two threads get here with one i, if n tells the threads apart

whatever `owners` holds, if the kernel does not write to it. So stores are after they have been given to the last
thread that makes them (winners.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Call, If, Load, Op, Param, Store, Value, walk

Access = Load | Store | Atomic
Guard = tuple[Load, Value]
"""What is loaded of the owners, and what it equals."""


class Guards:
    """The comparisons with loaded integers under which the accesses of a kernel run."""

    def __init__(self, kernel: Kernel):
        ops = list(walk(kernel.body))
        written = {op.param for op in ops if isinstance(op, Store | Atomic)} | set(kernel.locals)
        loads = {op.result: op for op in ops if isinstance(op, Load) and op.result.type.is_int}
        self.guards: dict[Value, list[Guard]] = {
            op.result: [
                (loads[a], b) for a, b in (op.args, op.args[::-1]) if a in loads and loads[a].param not in written
            ]
            for op in ops
            if isinstance(op, Call) and op.builtin.name == "eq"
        }
        self.of: dict[Op, list[Guard]] = {}
        if any(self.guards.values()):
            self._block(kernel.body, [])

    def owners(self, accesses: Sequence[Access], position: Callable[[Value], Any]) -> list[Value] | None:
        """Return what the owner of the element equals at each of these accesses of one array; None: there is no owner.

        Args:
            accesses: the accesses.
            position: equal for indices that are equal.
        """
        for load, _ in self.of.get(accesses[0], []):
            place = _place(load, accesses[0], position)
            found = [self._owner(op, load.param, place, position) for op in accesses]
            if place is not None and None not in found:
                return [v for v in found if v is not None]
        return None

    def _owner(self, op: Access, owners: Param, place: Any, position: Callable[[Value], Any]) -> Value | None:
        guards = self.of.get(op, [])
        return next((n for load, n in guards if load.param is owners and _place(load, op, position) == place), None)

    def _block(self, block: Block, around: list[Guard]) -> None:
        for op in block.ops:
            if isinstance(op, Load | Store | Atomic):
                self.of[op] = around
            if isinstance(op, If):
                self._block(op.then, [*around, *self.guards.get(op.condition, [])])
                self._block(op.orelse, around)
                continue
            for inner in op.blocks:
                self._block(inner, around)


def _place(load: Load, op: Access, position: Callable[[Value], Any]) -> tuple[int, ...] | None:
    """The indices of `op`, by number, that say which owner is loaded; None: it is not theirs."""
    known = [position(v) for v in op.indices]
    asked = [position(v) for v in load.indices]
    return tuple(known.index(v) for v in asked) if all(v in known for v in asked) else None
