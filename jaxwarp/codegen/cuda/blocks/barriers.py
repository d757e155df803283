"""Barriers: the places where the threads of a block wait for each other are decided here.

Between a store by one thread and an access of another one, and between a load and a store that comes after it, there is
a barrier. Nests that give each thread the same elements, and what one thread does alone, need none between them, nor do
accesses of elements that are proved to be others. Loops are gone through until nothing is new, since their end meets
their beginning; so is the loop over the launch's threads. What an iteration before this one did may be at any element.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from jaxwarp.analysis.loops.nests import Nest, Nests
from jaxwarp.codegen.cuda.blocks.pipelines import Pipeline
from jaxwarp.codegen.cuda.blocks.places import Places
from jaxwarp.codegen.cuda.blocks.spread import WARP
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, For, If, Load, Op, Param, Store, While, walk

SCRATCH = "scratch"
"""What stands for the memory in which warps exchange values."""

_Touch = tuple[Param | str, object, Load | Store | Atomic | None]
"""Memory; a description of which thread has which element, None: it may be any thread; the access, if it is of this
iteration of the loops around it."""
_FIRST = "the first thread"


@dataclass(frozen=True)
class _Since:
    """The memory that was stored to, and loaded from, since the last barrier."""

    stored: frozenset[_Touch] = frozenset()
    loaded: frozenset[_Touch] = frozenset()

    def without(self, params: Collection[Param]) -> _Since:
        stored, loaded = (frozenset(t for t in found if t[0] not in params) for found in (self.stored, self.loaded))
        return _Since(stored, loaded)

    def any_iteration(self) -> _Since:
        """Return what is known when the values of a loop are those of another iteration, or of none."""
        stored, loaded = (frozenset((at, who, None) for at, who, _ in found) for found in (self.stored, self.loaded))
        return _Since(stored, loaded)

    def join(self, other: _Since) -> _Since:
        return _Since(self.stored | other.stored, self.loaded | other.loaded)


def barriers(
    kernel: Kernel, nests: Nests, places: Places, pipelines: Mapping[For, Pipeline] = MappingProxyType({})
) -> frozenset[Op]:
    """Return the operations before which there is a barrier, besides those that loops which run ahead have."""
    finder = _Finder(kernel, nests, places, pipelines)
    zeroed = _Since(frozenset((p, None, None) for p, layout in places.layouts.items() if layout.is_zeroed))
    # Other threads of the launch may come before this one in the same block; what they do to parameters has no order.
    finder.again(lambda since: finder.block(kernel.body, since.without(kernel.params)), zeroed)
    return frozenset(finder.before)


def exchanges(op: Op, nests: Nests, places: Places) -> bool:
    """Return whether warps exchange values for an operation, in `SCRATCH`."""
    if places.threads == WARP:
        return False
    if isinstance(op, For):
        return op in nests.found and nests.found[op].fold is not None and not nests.found[op].is_of_each_warp
    return op in places.told or (isinstance(op, Load) and op.param in places.registers and op not in nests.of)


class _Finder:
    def __init__(self, kernel: Kernel, nests: Nests, places: Places, pipelines: Mapping[For, Pipeline]):
        self.before: dict[Op, None] = {}
        self._nests = nests
        self._places = places
        self._pipelines = pipelines
        ops = list(walk(kernel.body))
        stored = {op.param for op in ops if isinstance(op, (Store, Atomic))}
        self._watched = {*places.shared, *(p for p in kernel.params if p in stored)}

    def again(self, step: Callable[[_Since], _Since], since: _Since) -> _Since:
        """Go through a loop, with all that may come before each of its iterations."""
        found = dict(self.before)
        while True:
            self.before = dict(found)
            after = since.join(step(since).any_iteration())
            if after == since:
                return since
            since = after

    def block(self, block: Block, since: _Since) -> _Since:
        for op in block.ops:
            since = self.op(op, since)
        return since

    def op(self, op: Op, since: _Since) -> _Since:
        match op:
            case For() if op in self._nests.found:
                return self.nest(op, self._nests.found[op], since)
            case For() if op in self._pipelines:
                # Each of its rounds begins with a barrier.
                return since.join(self.block(Block((), self._pipelines[op].rest, ()), _Since()))
            case For():
                return self.again(lambda before: self.block(op.body, before), since)
            case While():
                return self.again(lambda before: self.block(op.body, self.block(op.condition, before)), since)
            case If():
                if all(self.needs(block, since) for block in op.blocks):
                    self.before[op] = None
                    since = _Since()
                return self.block(op.then, since).join(self.block(op.orelse, since))
            case _:
                return self.touch(op, [op], since)

    def needs(self, block: Block, since: _Since) -> bool:
        """Return whether a block has a barrier because of what came before it."""
        found = self.before
        tried: list[set[Op]] = []
        for before in (since, _Since()):
            self.before = {}
            self.block(block, before)
            tried.append(set(self.before))
        self.before = found
        return tried[0] != tried[1]

    def nest(self, op: For, nest: Nest, since: _Since) -> _Since:
        return self.touch(op, walk(nest.loops[0].body), since)

    def who(self, op: Load | Store | Atomic) -> object:
        """Return a description of which thread is at which element."""
        nest = self._nests.of.get(op)
        if nest is None:
            return None if isinstance(op, Load) and op not in self._places.told else _FIRST
        if nest.is_open or nest.is_scan:
            return None
        if sorted(map(id, op.indices)) != sorted(map(id, nest.indices)):  # else several threads have the element
            return None
        span = self._places.spans[nest]
        starts = tuple((r.start, r.step) for r in nest.ranges) if span.is_own else ()
        starts = starts if any(one != (0, 1) for one in starts) else ()
        along = tuple(span.box.index(nest.indices.index(index)) for index in op.indices)
        return span.shape, span.box, self._places.mapping(nest), starts, along

    def touch(self, at: Op, ops: Iterable[Op], since: _Since) -> _Since:
        loaded, stored = set[_Touch](), set[_Touch]()
        for op in ops:
            if isinstance(op, (Load, Store, Atomic)) and op.param in self._watched:
                (loaded if isinstance(op, Load) else stored).add((op.param, self.who(op), op))
        inside = exchanges(at, self._nests, self._places)
        if inside:
            stored.add((SCRATCH, None, None))
        if self.meet(loaded, since.stored) or self.meet(stored, since.stored | since.loaded):
            self.before[at] = None
            since = _Since()
        if isinstance(at, For) and self._nests.found[at].is_scan:  # its last accesses come after its own barrier
            return _Since(since.stored | stored, since.loaded | loaded)
        if inside:  # which has a barrier of its own
            return _Since(frozenset(), frozenset([(SCRATCH, None, None)]))
        return _Since(since.stored | stored, since.loaded | loaded)

    def meet(self, some: Collection[_Touch], others: Collection[_Touch]) -> bool:
        """Return whether two threads may be at one element."""
        return any(
            a == b and (who is None or who != other) and not self.are_apart(op, before)
            for a, who, op in some
            for b, other, before in others
        )

    def are_apart(self, a: Load | Store | Atomic | None, b: Load | Store | Atomic | None) -> bool:
        return a is not None and b is not None and self._nests.elements.are_apart(a, b, self._nests.varying)
