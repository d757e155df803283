"""Loops that load tiles and multiply them: the loads of later iterations run while an earlier one is worked on.

    for k { load p; load q; total += p q }
    ->  for k from the first one less { load p[k + 1], q[k + 1]; total += p[k] q[k] }

A tile then has several stages in shared memory. What is moved ahead only loads from arrays that the kernel never stores
to, at places that follow from the loop's index and what was known before the loop. It stores to every element of tiles
that nothing else stores to and nothing outside of the loop reads. So it has the values of its own iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jaxwarp.analysis.loops.nests import Nest, Nests, is_pure
from jaxwarp.codegen.cuda.blocks.places import Places
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Call, Const, For, If, Load, Op, Param, Size, Store, Tid, Value, walk
from jaxwarp.types import int32, int64

MOST_STAGES = 3


@dataclass(frozen=True, eq=False)
class Pipeline:
    """A loop of which a part runs ahead.

    Attributes:
        loop: as the program has it.
        ahead: the operations that load tiles, and what these need.
        rest: the others, and what they need.
        tiles: what is loaded.
    """

    loop: For
    ahead: tuple[Op, ...]
    rest: tuple[Op, ...]
    tiles: tuple[Param, ...]


def pipelines_in(kernel: Kernel, nests: Nests, places: Places) -> dict[For, Pipeline]:
    """Return the loops of a kernel whose loads of matrices can run ahead."""
    ops = list(walk(kernel.body))
    stored = {op.param for op in ops if isinstance(op, (Store, Atomic))}
    accesses: dict[Param, list[Op]] = {p: [] for p in places.layouts}
    for op in ops:
        if isinstance(op, (Load, Store, Atomic)) and op.param in accesses:
            accesses[op.param].append(op)
    found: dict[For, Pipeline] = {}
    for op in ops:
        if isinstance(op, For) and op not in nests.of and op not in nests.found:
            pipeline = _pipeline(op, nests, stored, accesses)
            if pipeline is not None:
                found[op] = pipeline
    return found


def _pipeline(loop: For, nests: Nests, stored: set[Param], accesses: dict[Param, list[Op]]) -> Pipeline | None:
    step = nests.number(loop.step)
    index = loop.body.params[0]
    if step is None or step <= 0 or index.type not in (int32, int64):
        return None
    inside = set(walk(loop.body))
    defined = {v: op for op in loop.body.ops for v in op.defined}
    tiles: list[Param] = []
    fills: list[Op] = []
    needed: set[Op] = set()
    for op in loop.body.ops:
        params = _filled(op, nests, stored)
        slice_ = _slice(op, index, loop, defined, stored) if params else None
        if slice_ is None or not all(_is_own(op, loop, inside, accesses.get(p, [])) for p in params):
            continue
        tiles += params
        fills.append(op)
        needed |= {op, *slice_}
    if not fills:
        return None
    ahead = tuple(op for op in loop.body.ops if op in needed)
    rest = live([op for op in loop.body.ops if op not in fills], loop.body.results)
    return Pipeline(loop, ahead, rest, tuple(tiles))


def _filled(op: Op, nests: Nests, stored: set[Param]) -> list[Param]:
    """Return the matrices that an operation stores to, if it stores to each of their elements and does nothing else."""
    if not isinstance(op, (For, If)) or op.results:
        return []
    inner = list(walk(Block((), (op,), ())))
    if not all(isinstance(x, (For, If, Store)) or is_pure(x) for x in inner):
        return []
    if any(isinstance(x, Load) and x.param in stored for x in inner):
        return []
    params = list(dict.fromkeys(x.param for x in inner if isinstance(x, Store)))
    return params if params and all(_fills(op, p, nests) for p in params) else []


def _fills(op: Op, param: Param, nests: Nests) -> bool:
    """Return whether an operation stores to every element of a matrix, whatever way it takes."""
    if isinstance(op, If):
        return all(any(_fills(inner, param, nests) for inner in block.ops) for block in op.blocks)
    nest = nests.found.get(op) if isinstance(op, For) else None
    if nest is None or nest.fold is not None or len(nest.ranges) != param.rank:
        return False
    if any(r != range(n or 0) for r, n in zip(nest.ranges, param.shape, strict=True)):
        return False
    return _stores(nest.loops[-1].body, param, nest)


def _stores(block: Block, param: Param, nest: Nest) -> bool:
    for op in block.ops:
        if isinstance(op, Store) and op.param is param and op.indices == nest.indices:
            return True
        if isinstance(op, If) and all(_stores(inner, param, nest) for inner in op.blocks):
            return True
    return False


def _slice(op: Op, index: Value, loop: For, defined: dict[Value, Op], stored: set[Param]) -> set[Op] | None:
    """Return what an operation needs of a loop's body; None: that is more than its index decides about."""
    found: set[Op] = set()
    waiting = [op]
    carried = set(loop.body.params) - {index}
    while waiting:
        for value in _read(waiting.pop()):
            source = defined.get(value)
            if value in carried:
                return None
            if source is None or source in found:
                continue
            if not is_pure(source) or any(isinstance(x, Load) and x.param in stored for x in _within(source)):
                return None
            found.add(source)
            waiting.append(source)
    return found


def _within(op: Op) -> Iterator[Op]:
    return walk(Block((), (op,), ()))


def _read(op: Op) -> set[Value]:
    """Return what an operation and those inside of it read."""
    return {v for inner in _within(op) for v in (*inner.operands, *(r for b in inner.blocks for r in b.results))}


def _is_own(fill: Op, loop: For, inside: set[Op], accesses: Sequence[Op]) -> bool:
    """Return whether all accesses of a matrix are in a loop, and after what fills it."""
    filling = set(_within(fill))
    others = [op for op in accesses if op not in filling]
    if not accesses or any(op not in inside or not isinstance(op, Load) for op in others):
        return False
    before = loop.body.ops[: loop.body.ops.index(fill)]
    return not any(x in others for op in before for x in _within(op))


def live(ops: Sequence[Op], results: Sequence[Value]) -> tuple[Op, ...]:
    """Return operations without values that only what was left out has used."""
    wanted, kept = set(results), list[Op]()
    for op in reversed(ops):
        if not isinstance(op, (Const, Size, Tid, Call, Load)) or wanted.intersection(op.defined):
            kept.append(op)
            wanted |= _read(op)
    return tuple(reversed(kept))
