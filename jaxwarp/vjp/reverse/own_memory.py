"""Arrays of a thread's own that stay in memory while the thread's part of the kernel is reversed.

    for i in range(n): a[i] = f(x[i])             a: filled by the first run, and read by the sweep
    for i in range(n): s += a[i] * a[i]    ->     a*[i] += 2 a[i] s*;   x*[i] += f'(x[i]) a*[i];  a*[i] = 0

An array has a scope: the innermost block with all its accesses, as long as that fills it anew whenever it runs. The run
that comes before the reverse of the scope does its stores. Blocks inside are run again by the sweep without them, so a
load there sees what the scope leaves in the array. That is what it saw if nothing is stored to its element after it.
If something is, and the sweep needs what it saw, the first run records it, in one more array.

The cotangents are in an array as large, all zeros whenever the scope is not being reversed: each store takes its own.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from jaxwarp.analysis.addresses import Access
from jaxwarp.analysis.integers.trips import Trips
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Block, Const, For, If, Load, Op, Param, Store, Value, While, walk
from jaxwarp.types import int32
from jaxwarp.vjp.load_source import LoadSources
from jaxwarp.vjp.reverse.residuals import Iteration, Residual, iteration_of

# Numbers that are recorded of one load.
MOST_RECORDED = 1 << 14

Path = tuple[tuple[Op | None, Block], ...]
# By axis: indices from one up to another, or one that varies.
Box = tuple[Value | tuple[int, int], ...]


class OwnMemory:
    """The arrays of a kernel that stay in memory.

    Attributes:
        final: loads that see what their scope leaves in the array.
        records: for each of the others, where it is recorded, if that is possible.
    """

    def __init__(self, kernel: Kernel, arrays: Collection[Param], sources: LoadSources, trips: Trips):
        self.arrays = tuple(p for p in kernel.locals if p in arrays)
        self.final: set[Load] = set()
        self.records: dict[Load, Residual] = {}
        self._scopes: dict[Param, frozenset[Block]] = {}
        if not self.arrays:
            return
        self._constants = {op.result: op.value for op in walk(kernel.body) if isinstance(op, Const)}
        self._sources = sources
        self._trips = trips
        paths: dict[Access, Path] = dict(_paths(kernel.body, ((None, kernel.body),)))
        for param in self.arrays:
            accesses = [op for op in paths if op.param is param]
            scope = self._scope(param, [paths[op] for op in accesses])
            self._scopes[param] = frozenset(block for _, block in scope)
            outer = sum(isinstance(op, For | While) for op, _ in scope)
            stores = [op for op in accesses if isinstance(op, Store)]
            for load in (op for op in accesses if isinstance(op, Load)):
                if not any(sources.dependence.may_precede(load, store, outer) for store in stores):
                    self.final.add(load)
                elif (record := self._record(load, paths[load][len(scope) :])) is not None:
                    self.records[load] = record

    def filled_by(self, block: Block) -> frozenset[Param]:
        """The arrays whose scope is a block, or is in it."""
        return frozenset(param for param, scope in self._scopes.items() if block in scope)

    def _scope(self, param: Param, paths: Collection[Path]) -> Path:
        """The scope, and the blocks that it is in, from the kernel's on."""
        first, *others = paths
        common = next(
            (n for n, step in enumerate(first) if any(n >= len(path) or path[n] != step for path in others)), len(first)
        )
        is_repeated = any(isinstance(op, For | While) for op, _ in first[:common])
        if is_repeated and not self._is_filled(param, first[common - 1][1]):
            return first[:1]
        return first[:common]

    def _is_filled(self, param: Param, block: Block) -> bool:
        """Does a block store to each element before it loads any?"""
        filled = np.zeros([n or 0 for n in param.shape], bool)
        for op in block.ops:
            if any(isinstance(inner, Load) and inner.param is param for inner in _with_inner(op)):
                break
            for box in self._stored((op,), param):
                known = [axis for axis in box if isinstance(axis, tuple)]
                if len(known) == param.rank:
                    filled[tuple(slice(max(first, 0), max(end, 0)) for first, end in known)] = True
        return bool(filled.all())

    def _stored(self, ops: Sequence[Op], param: Param) -> set[Box]:
        """Return the elements that operations certainly store to. Variables of outer loops stand for themselves."""
        found: set[Box] = set()
        for op in ops:
            if isinstance(op, Store) and op.param is param:
                places = {v: int(self._constants[v]) for v in op.indices if v in self._constants}
                found.add(tuple((places[v], places[v] + 1) if v in places else v for v in op.indices))
            elif isinstance(op, If):
                then, orelse = (self._stored(block.ops, param) for block in op.blocks)
                found |= then & orelse
            elif isinstance(op, For) and all(v in self._constants for v in (op.start, op.stop, op.step)):
                start, stop, step = (int(self._constants[v]) for v in (op.start, op.stop, op.step))
                index = op.body.params[0]
                if start < stop and step == 1:
                    inside = (box for box in self._stored(op.body.ops, param) if box.count(index) <= 1)
                    found |= {tuple((start, stop) if axis is index else axis for axis in box) for box in inside}
        return found

    def _record(self, load: Load, inside: Path) -> Residual | None:
        """Return a load's record, by the iterations of the loops around it in its scope; None if these are not known.

        An axis of the array may stand for a loop that moves its index.
        """
        loops: list[Iteration] = []
        for (op, block) in inside:
            if isinstance(op, For | While):
                found = iteration_of(op, block, self._trips.counters)
                if found is None:
                    return None
                loops.append(found)
        changing = [
            iteration
            for iteration in loops
            if any(isinstance(x, Store) and x.param is load.param for b in iteration.loop.blocks for x in walk(b))
            and not self._sources.dependence.tells_iteration(load, iteration.loop)
        ]
        axes = tuple(range(load.param.rank))
        made = [self._residual(load, (), loops), self._residual(load, axes, changing)]
        found = [record for record in made if record is not None]
        return min(found, key=lambda record: _size(record.param), default=None)

    def _residual(self, load: Load, axes: tuple[int, ...], iterations: list[Iteration]) -> Residual | None:
        counts = [iteration.most(self._trips) for iteration in iterations]
        known = [max(count, 1) for count in counts if count is not None]
        shape = (*(load.param.shape[axis] or 0 for axis in axes), *known)
        if len(known) < len(counts) or math.prod(shape) > MOST_RECORDED:
            return None
        param = Param(f"{load.param.name}_record{len(self.records)}", load.param.dtype, shape)
        return Residual(load, axes, tuple(iterations), param)


def clear(builder: Builder, param: Param) -> None:
    """Emits stores of zero to all elements of an array of the thread's own."""
    zero, one = builder.const(0, int32), builder.const(1, int32)

    def sweep(*indices: Value) -> tuple[Value, ...]:
        if len(indices) == param.rank:
            builder.store(param, indices, builder.const(0.0, param.dtype))
        else:
            extent = builder.const(param.shape[len(indices)] or 0, int32)
            builder.for_(zero, extent, one, (), lambda index: sweep(*indices, index))
        return ()

    sweep()


def _paths(block: Block, around: Path) -> Iterator[tuple[Access, Path]]:
    for op in block.ops:
        if isinstance(op, Access):
            yield op, around
        for inner in op.blocks:
            yield from _paths(inner, (*around, (op, inner)))


def _with_inner(op: Op) -> Iterator[Op]:
    yield op
    for block in op.blocks:
        yield from walk(block)


def _size(param: Param) -> int:
    return math.prod(n or 0 for n in param.shape)
