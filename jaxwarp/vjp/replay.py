"""Replays, which `@func_replay` gives. A derivative runs them in place of functions with effects.

    if replaying { v = load a[i]; yield v }        ->      v = load a_final[i]
    else { old = atomic_add counter[0], 1
           store a[i], old; yield old }

A derivative runs the kernel again when the launch is over. By then, the values that the function wrote are in the
arrays that the launch left, and the replay reads them from there. They are what the function itself found only if
nothing has overwritten them since. So each element that the function writes must provably be written once in the
launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from jaxwarp.analysis.addresses import Grid, ownership_of
from jaxwarp.builtins.scalar_ops.rules import REPLAYING, is_replay
from jaxwarp.errors import DifferentiationError
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Call, For, If, Load, Op, Param, Store, Value, While, walk
from jaxwarp.ir.rewrite import Rewriter

_EFFECTS = (Store, Atomic)


@dataclass(frozen=True)
class Replayed:
    """A kernel with replays in place of functions.

    Attributes:
        kernel: its last parameters are the arrays as the launch left them, one for each of `finals`.
        finals: the array that is read after the launch -> the parameter that stands for it.
    """

    kernel: Kernel
    finals: dict[Param, Param]


def has_replays(kernel: Kernel) -> bool:
    """Return whether functions of the kernel have replays."""
    return any(isinstance(op, Call) and is_replay(op.builtin) for op in walk(kernel.body))


def take_replays(kernel: Kernel, grid: Grid | None = None) -> Replayed:
    """The kernel that a derivative is made from.

    Raises:
        DifferentiationError: a replay cannot stand for its function, with the line and the reason.
    """
    conditions = {op.result: op for op in walk(kernel.body) if isinstance(op, Call) and is_replay(op.builtin)}
    if not conditions:
        return Replayed(kernel, {})
    places = [op for op in walk(kernel.body) if isinstance(op, If) and op.condition in conditions]
    for op in places:
        if conditions[op.condition].builtin is REPLAYING and any(v.type.is_float for v in op.results):
            raise DifferentiationError(
                "a function with a func_replay returns floats: how they move is not known of the replay",
                op.loc,
                hint="give it a func_grad too",
            )
    finals = _Check(kernel, places, grid).finals()
    body = _Take(set(conditions), finals).block(kernel.body)
    return Replayed(replace(kernel, params=(*kernel.params, *finals.values()), body=body), finals)


class _Check:
    """A check of the writes of functions, the reads of their replays, and the rest of the kernel's use of both."""

    def __init__(self, kernel: Kernel, places: Sequence[If], grid: Grid | None):
        self.kernel = kernel
        self.ownership = ownership_of(kernel, grid)
        self.addresses = self.ownership.addresses
        self.written: dict[Param, list[Store | Atomic]] = {}
        self.replayed: dict[Param, Load] = {}
        inside: set[Op] = set()
        for place in places:
            for op in walk(place.orelse):
                inside.add(op)
                if isinstance(op, _EFFECTS) and op.param not in kernel.locals:
                    self.written.setdefault(op.param, []).append(op)
            for op in walk(place.then):
                inside.add(op)
                if isinstance(op, Load):
                    self.replayed.setdefault(op.param, op)
        self.others = [
            op
            for op in walk(kernel.body)
            if isinstance(op, Load | Store | Atomic) and op not in inside and op.param in self.written
        ]
        self.loops = _loops(kernel.body.ops, frozenset())

    def finals(self) -> dict[Param, Param]:
        for param, writes in self.written.items():
            if param.dtype.is_float:
                raise DifferentiationError(
                    f"a function with a func_replay writes floats to {param.name}: how they move is not known",
                    writes[0].loc,
                    hint="return the value, and store it where the function is called",
                )
        for op in self.others:
            if isinstance(op, Load) or (isinstance(op, Atomic) and op.param in self.written):
                raise DifferentiationError(
                    f"{op.param.name} is read here, and written by a function with a func_replay, which does not run "
                    "where a derivative runs the kernel again",
                    op.loc,
                    hint="return the value from the function, and use that",
                )
        reads = [param for param in self.written if param in self.replayed]
        for param in reads:
            self.require_written_once(param)
        return {p: Param(f"{p.name}_final", p.dtype, p.shape) for p in reads}

    def require_written_once(self, param: Param) -> None:
        writes = [*self.written[param], *(op for op in self.others if op.param is param)]
        for k, op in enumerate(writes):
            if isinstance(op, Store) and self.is_new(op) and all(self.never_meet(op, o) for o in writes[:k]):
                continue
            what = "updated by an atomic" if isinstance(op, Atomic) else "written more than once"
            raise DifferentiationError(
                f"a func_replay reads {param.name} as the launch leaves it; its elements may have been {what} by then",
                op.loc,
                hint="write once in a launch, to an element that each thread has to itself",
            )

    def is_new(self, op: Store) -> bool:
        """Return whether each element is written at most once, by one thread."""
        own = self.ownership.effects.injective(op, self.addresses.grid)
        return own and self.addresses.is_new_each_time(self.addresses.key(op), set(self.loops[op]))

    def never_meet(self, a: Store | Atomic, b: Store | Atomic) -> bool:
        """Return whether two writes never meet, in all threads: on some axis, their indices are different constants."""
        for p, q in zip(self.addresses.key(a), self.addresses.key(b), strict=True):
            if p[0] == q[0] == "form" and not p[1] and not q[1] and p[2] != q[2]:
                return True
        return False


def _loops(ops: Sequence[Op], around: frozenset[Op]) -> dict[Op, frozenset[Op]]:
    """The loops around each operation."""
    found: dict[Op, frozenset[Op]] = {}
    for op in ops:
        found[op] = around
        for block in op.blocks:
            found |= _loops(block.ops, around | {op} if isinstance(op, For | While) else around)
    return found


class _Take(Rewriter):
    def __init__(self, conditions: set[Value], finals: dict[Param, Param]):
        super().__init__()
        self.conditions = conditions
        self.finals = finals

    def op(self, op: Op) -> None:
        if isinstance(op, Call) and op.result in self.conditions:
            return
        if not (isinstance(op, If) and op.condition in self.conditions):
            self.copy(op)
            return
        outer, self.params = self.params, dict(self.finals)
        block: Block = op.then
        for inner in block.ops:
            self.op(inner)
        self.params = outer
        self.values.update(zip(op.results, self.all(block.results), strict=True))
