"""The sources of loads from arrays that the kernel also writes: the contents on entry, or those at the end.

A reverse sweep can read both, whatever the order it goes in. A load that sees something in between cannot be
repeated. That matters only if the sweep needs its value: a linear kernel's cotangents do not (see `Adjoint`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from jaxwarp.analysis.addresses import Access, Addresses, ownership_of
from jaxwarp.analysis.dependence import Dependence
from jaxwarp.analysis.thread_values import Shapes
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, For, Load, Op, Param, Store, While, walk
from jaxwarp.passes.simplify import simplify
from jaxwarp.unlocked import cached_property
from jaxwarp.vjp.activity import used_values
from jaxwarp.vjp.promote import promote_memory

Grid = Sequence[int | None]


class LoadSources:
    """The loads of a kernel whose arrays are written too, by what they see.

    Attributes:
        final: those that see what the launch leaves. (What it also found there counts as found.)
        lost: those that may see something in between; and those, if `finals` is False.
        as_written: whether indices of arrays of floats are taken not to count from the end.
    """

    def __init__(
        self,
        kernel: Kernel,
        grid: Grid | None = None,
        finals: bool = True,
        shapes: Shapes | None = None,
        as_written: bool = False,
    ):
        self.kernel = kernel
        self.as_written = as_written
        self.ownership = ownership_of(kernel, grid, shapes)
        self.addresses: Addresses = self.ownership.addresses
        self.final: set[Load] = set()
        self.lost: set[Load] = set()
        for param, accesses in self.ownership.accesses.items():
            writes = [op for op in accesses if not isinstance(op, Load)]
            for load in (op for op in accesses if isinstance(op, Load)):
                if not writes or self._is_first(load, param):
                    continue
                if finals and param not in self.ownership.locals and self._is_last(load, writes):
                    self.final.add(load)
                else:
                    self.lost.add(load)

    @cached_property
    def dependence(self) -> Dependence:
        return Dependence(self.kernel, self.addresses.grid, self.ownership.shapes, self.as_written)

    def _is_first(self, load: Load, param: Param) -> bool:
        suspects = _writes_before(self.kernel.body.ops, load, param, self.addresses)
        return not any(self.dependence.may_precede(write, load) for write in suspects)

    def _is_last(self, load: Load, writes: Sequence[Access]) -> bool:
        # Of other threads nothing is known.
        return self.ownership.is_own(load.param) and not any(self.dependence.may_precede(load, w) for w in writes)


def loads_on_entry(kernel: Kernel, params: Collection[Param], grid: Grid | None = None) -> frozenset[Load]:
    """The loads of `params` that see what was there on entry, where the kernel also writes to these arrays."""
    ops = list(walk(kernel.body))
    written = {op.param for op in ops if isinstance(op, (Store, Atomic))} & set(params)
    loads = [op for op in ops if isinstance(op, Load) and op.param in written]
    return frozenset(loads) - LoadSources(kernel, grid, finals=False).lost if loads else frozenset()


@dataclass(frozen=True)
class FinalReads:
    """The reads of a tangent kernel from the final contents of arrays.

    Attributes:
        loads: those that do.
        arrays: those of which no load needs what the kernel stores: the stores may be left out.
    """

    loads: frozenset[Load] = frozenset()
    arrays: frozenset[Param] = frozenset()


def reads_of_finals(kernel: Kernel, grid: Grid | None = None) -> FinalReads:
    """The loads that a tangent kernel should read from the final contents: its transpose could not do them again."""
    ops = list(walk(kernel.body))
    written = {op.param for op in ops if isinstance(op, (Store, Atomic))} - set(kernel.locals)
    if not any(isinstance(op, Load) and op.param in written for op in ops):
        return FinalReads()
    promoted = LoadSources(promote_memory(simplify(kernel), grid), grid)
    late = {op.param for op in promoted.final | promoted.lost}
    if not late & written:
        return FinalReads()
    sources = LoadSources(kernel, grid)
    used = used_values(kernel)
    returned = {op.param for op in ops if isinstance(op, Atomic) and op.result in used}
    final = frozenset(op for op in sources.final if op.param in late - returned)
    return FinalReads(final, frozenset(op.param for op in final) - {op.param for op in sources.lost})


def _writes_before(ops: Sequence[Op], load: Load, param: Param, addresses: Addresses) -> list[Access]:
    """The writes to a load's element that may come before it, as far as comparing addresses tells."""
    placed: list[tuple[Access, frozenset[Op]]] = []

    def collect(ops: Sequence[Op], loops: frozenset[Op]) -> None:
        for op in ops:
            if isinstance(op, (Load, Store, Atomic)) and op.param is param:
                placed.append((op, loops))
            for block in op.blocks:
                # What stands later in a loop runs before what stands earlier, an iteration later.
                collect(block.ops, loops | {op} if isinstance(op, (For, While)) else loops)

    collect(ops, frozenset())
    at = next(n for n, (op, _) in enumerate(placed) if op is load)
    loops, key = placed[at][1], addresses.key(load)
    found: list[Access] = []
    for other_at, (other, other_loops) in enumerate(placed):
        if isinstance(other, Load):
            continue
        shared, other_key = set(loops & other_loops), addresses.key(other)
        if addresses.never_meet(key, other_key, shared):
            continue
        if key == other_key and other_at > at and addresses.is_new_each_time(key, shared):
            continue
        if other_at < at or shared:
            found.append(other)
    return found
