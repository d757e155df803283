"""Where the threads of a block wait for each other: the one place that decides it.

Between a store by one thread and an access of another one, and between a load and a store that comes after it, there is
a barrier. What a nest does to elements of its own needs none inside. Loops are gone through until nothing is new, since
their end meets their beginning; so is the loop over the threads of the launch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from jaxwarp.codegen.cuda.blocks.nests import Nest, Nests
from jaxwarp.codegen.cuda.blocks.places import Places
from jaxwarp.codegen.cuda.blocks.spread import WARP
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, For, If, Load, Op, Param, Store, While, walk

SCRATCH = "scratch"
"""What stands for the memory in which warps exchange values."""

_Memory = Param | str


@dataclass(frozen=True)
class _Since:
    """What was stored and loaded since the last barrier."""

    stored: frozenset[_Memory] = frozenset()
    loaded: frozenset[_Memory] = frozenset()

    def without(self, params: Collection[Param]) -> _Since:
        return _Since(self.stored.difference(params), self.loaded.difference(params))

    def join(self, other: _Since) -> _Since:
        return _Since(self.stored | other.stored, self.loaded | other.loaded)


def barriers(kernel: Kernel, nests: Nests, places: Places) -> frozenset[Op]:
    """Return the operations before which there is a barrier."""
    finder = _Finder(kernel, nests, places)
    # Other threads of the launch may come before this one in the same block; what they do to parameters has no order.
    finder.again(lambda since: finder.block(kernel.body, since.without(kernel.params)), _Since())
    return frozenset(finder.before)


def exchanges(op: Op, nests: Nests, places: Places) -> bool:
    """Return whether warps exchange values for an operation, in `SCRATCH`."""
    if places.threads == WARP:
        return False
    if isinstance(op, For):
        return op in nests.found and nests.found[op].fold is not None
    return isinstance(op, Load) and op.param in places.registers and op not in nests.of


class _Finder:
    def __init__(self, kernel: Kernel, nests: Nests, places: Places):
        self.before: dict[Op, None] = {}
        self._nests = nests
        self._places = places
        ops = list(walk(kernel.body))
        stored = {op.param for op in ops if isinstance(op, (Store, Atomic))}
        self._watched = {*places.shared, *(p for p in kernel.params if p in stored)}

    def again(self, step: object, since: _Since) -> _Since:
        """Go through a loop, with all that may come before each of its iterations."""
        while True:
            after = since.join(step(since))  # type: ignore[operator]
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
            case For():
                return self.again(lambda before: self.block(op.body, before), since)
            case While():
                return self.again(lambda before: self.block(op.body, self.block(op.condition, before)), since)
            case If():
                return self.block(op.then, since).join(self.block(op.orelse, since))
            case _:
                return self.touch(op, [op], since)

    def nest(self, op: For, nest: Nest, since: _Since) -> _Since:
        return self.touch(op, walk(nest.loops[0].body), since)

    def touch(self, at: Op, ops: Iterable[Op], since: _Since) -> _Since:
        loaded, stored = set[_Memory](), set[_Memory]()
        for op in ops:
            if isinstance(op, (Load, Store, Atomic)) and op.param in self._watched:
                (loaded if isinstance(op, Load) else stored).add(op.param)
        inside = exchanges(at, self._nests, self._places)
        if inside:
            stored.add(SCRATCH)
        if _meet(loaded, since.stored) or _meet(stored, since.stored | since.loaded):
            self.before[at] = None
            since = _Since()
        if inside:  # which has a barrier of its own
            return _Since(frozenset(), frozenset([SCRATCH]))
        return _Since(since.stored | stored, since.loaded | loaded)


def _meet(a: Collection[_Memory], b: Collection[_Memory]) -> bool:
    return not frozenset(a).isdisjoint(b)
