"""The program as it is written, noted before anything is moved, put in another's place, or left out.

    %v = load x[%i]    ->    inside "index ", %i, " of axis 0 of array x ...", size x 0
                             %v = load x[%i]

A value that was stored before is not loaded again, and what nobody uses is not computed: an access may go, and a loop.
Notes have an effect, so they stay where they are, and the checks are made of them. They count for no rounding.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from jaxwarp.ir.builder import Builder
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import INSIDE, Atomic, Block, Const, For, Load, Op, Param, Store, Tell, Tid, While, walk
from jaxwarp.ir.rewrite import Rewriter, rebuild
from jaxwarp.passes.checks.reports import Reports
from jaxwarp.types import bool_

_Access = Load | Store | Atomic


@dataclass(frozen=True)
class Notes:
    """Parameters to which nothing is stored, but the note that a thread comes here.

    Attributes:
        reads: for arrays that the kernel writes too, what stands for a load, at its indices.
        loops: what stands for an iteration.
    """

    reads: Mapping[Param, Param] = field(default_factory=dict)
    loops: Param = field(default_factory=lambda: Param("loops", bool_, ()))

    @property
    def params(self) -> frozenset[Param]:
        """All of them."""
        return frozenset((*self.reads.values(), self.loops))


def noted(kernel: Kernel, reports: Reports, checks: Collection[str], has_races: bool) -> tuple[Kernel, Notes]:
    """The kernel with notes of what the checks look at.

    Args:
        kernel: before it is simplified.
        reports: how arrays are called, and which axes are those of batches.
        checks: what is looked for.
        has_races: whether accesses of several threads are compared.
    """
    shared = _read_and_written(kernel) if has_races else ()
    notes = Notes({p: Param(f"reads_{p.name}", bool_, (None,) * p.rank) for p in shared})
    return _Noting(kernel, reports, checks, notes).kernel(kernel), notes


def without_notes(kernel: Kernel, params: Collection[Param]) -> Kernel:
    """The kernel without stores to these parameters."""
    return _Without(params).kernel(kernel)


def _read_and_written(kernel: Kernel) -> list[Param]:
    written = {op.param for op in walk(kernel.body) if isinstance(op, Store | Atomic)}
    read = {op.param for op in walk(kernel.body) if isinstance(op, Load)}
    return [p for p in kernel.params if p.rank and p in written and p in read]


class _Noting(Rewriter):
    def __init__(self, kernel: Kernel, reports: Reports, checks: Collection[str], notes: Notes):
        super().__init__()
        self.b = Builder(self.scopes)
        self.reports, self.notes = reports, notes
        self.bounds, self.steps = "bounds" in checks, "steps" in checks
        self.arrays = {*kernel.params, *kernel.locals}
        ops = list(walk(kernel.body))
        self.constants = {op.result: op.value for op in ops if isinstance(op, Const)}
        self.batches = {op.result for op in ops if isinstance(op, Tid) and op.axis < reports.batched}

    def op(self, op: Op) -> None:
        self.b.loc = op.loc
        match op:
            case Load() | Store() | Atomic() if op.param in self.arrays:
                self.access(op)
            case For() | While() if self.steps:
                self.loop(op)
            case _:
                self.copy(op)

    def access(self, op: _Access) -> None:
        if self.bounds:
            for axis in range(op.param.rank):
                self.test(op, axis)
        if isinstance(op, Load) and op.param in self.notes.reads:
            self.b.store(self.notes.reads[op.param], self.all(op.indices), self.b.const(True, bool_))
        self.copy(op)

    def test(self, op: _Access, axis: int) -> None:
        index, extent = op.indices[axis], op.param.shape[axis]
        constant = self.constants.get(index)
        if index in self.batches or (extent is not None and constant is not None and 0 <= constant < extent):
            return
        hidden = self.reports.in_front.get(op.param, 0) + sum(i in self.batches for i in op.indices[:axis])
        named = axis - hidden
        what = f" of axis {named} of {self.reports.array(op.param)} is out of range; its extent is "
        args = self.value(index), self.b.size(op.param, axis)
        self.emit(Tell(INSIDE, ("index ", what, ""), ("%d", "%d"), args, loc=op.loc))

    def loop(self, op: For | While) -> None:
        *before, body = op.blocks
        kept = [self.block(block) for block in before]
        self.scopes.append([])
        self.b.store(self.notes.loops, (), self.b.const(True, bool_))
        for inner in body.ops:
            self.op(inner)
        made = Block(body.params, tuple(self.scopes.pop()), self.all(body.results))
        self.emit(rebuild(op, op.defined, self.all(op.operands), (*kept, made)))


class _Without(Rewriter):
    def __init__(self, params: Collection[Param]):
        super().__init__()
        self.left_out = params

    def op(self, op: Op) -> None:
        if not isinstance(op, Store) or op.param not in self.left_out:
            self.copy(op)
