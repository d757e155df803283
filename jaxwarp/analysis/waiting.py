"""Loops in which a thread waits for another one: a lock, a flag.

    while atomic_cas(lock, 0, 0, 1) != 0 { }           ends when the thread that has the lock gives it back,
    ...                                                which it does after its own loop
    atomic_exch(lock, 0, 0)

Threads that keep step, as lanes of a vector do, would wait for ever: who has left the loop waits for the others. A loop
that tries until its own exchange succeeds, and leaves nothing to be done after it, does not wait in this sense.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from jaxwarp.analysis.addresses import Grid, ownership_of
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Const, For, Load, Op, Param, Store, Value, While, walk


def waits(kernel: Kernel, grid: Grid | None = None) -> bool:
    """May a thread wait, in some loop, for what another one does when it has left that loop?"""
    if not any(isinstance(op, Atomic) for op in walk(kernel.body)):
        return False
    loops = dict(_loops(kernel.body, None))
    trying = [loop for loop in loops if isinstance(loop, While) and any(map(_has_atomic, loop.blocks))]
    watched = [(loop, param) for loop in trying for param in _Watch(loop, kernel).params()]
    if not watched:
        return False
    ownership = ownership_of(kernel, grid)
    return any(
        not ownership.is_private(param) and any(op.param is param for op in _done_later(kernel, loop, loops))
        for loop, param in watched
        if param not in kernel.locals
    )


def _has_atomic(block: Block) -> bool:
    return any(isinstance(op, Atomic) for op in walk(block))


def _loops(block: Block, around: Op | None) -> Iterator[tuple[Op, Op]]:
    """Each loop, and the outermost one around it."""
    for op in block.ops:
        outermost = around or op
        if isinstance(op, For | While):
            yield op, outermost
        for inner in op.blocks:
            yield from _loops(inner, outermost if isinstance(op, For | While) else around)


def _done_later(kernel: Kernel, loop: Op, outermost: dict[Op, Op]) -> Iterator[Store | Atomic]:
    """Yield the writes of threads after the loop, or before it if they come to it again."""
    inside, is_later = {loop, *(op for block in loop.blocks for op in walk(block))}, False
    again = set[Op]() if outermost[loop] is loop else {op for block in outermost[loop].blocks for op in walk(block)}
    for op in walk(kernel.body):
        is_later = is_later or op is loop
        if isinstance(op, Store | Atomic) and op not in inside and (is_later or op in again):
            yield op


class _Watch:
    """The values that decide whether a loop goes on."""

    def __init__(self, loop: While, kernel: Kernel):
        self.loop = loop
        inside = [op for block in loop.blocks for op in walk(block)]
        self.makers = {v: op for op in inside for v in op.defined}
        self.zeros = {op.result for op in walk(kernel.body) if isinstance(op, Const) and op.value == 0}
        self.stored = {op.param for op in inside if isinstance(op, Store)}
        blocks = (loop.condition.params, loop.body.params)
        self.next = {v: after for params in blocks for v, after in zip(params, loop.body.results, strict=True)}

    def params(self) -> set[Param]:
        """The arrays of which atomics return an element that decides: an exchange does, or one that changes nothing,
        at a place that the loop does not choose. (Loads do not wait: a loop of nothing else is no loop.)"""
        found: set[Param] = set()
        for op in self._deciding(self.loop.condition.results):
            if isinstance(op, Atomic):
                is_read = op.args[0] in self.zeros and op.param not in self.stored and not self._is_chosen(op.indices)
                if is_read or op.kind in ("exch", "cas"):
                    found.add(op.param)
        return found

    def _is_chosen(self, indices: Collection[Value]) -> bool:
        seen: set[Value] = set()
        decided = any(isinstance(op, Load | Atomic) for op in self._deciding(indices, seen))
        return decided or not seen.isdisjoint(self.next)

    def _deciding(self, values: Collection[Value], seen: set[Value] | None = None) -> Iterator[Op]:
        """The operations in the loop that values are made of, also in iterations before."""
        seen = set() if seen is None else seen
        pending = list(values)
        while pending:
            value = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            pending += [self.next[value]] if value in self.next else []
            op = self.makers.get(value)
            if op is not None:
                yield op
                pending += op.operands
                for block in op.blocks:
                    pending += block.results
                    pending += [v for inner in walk(block) if inner.blocks for v in inner.operands]
