"""The arrays that a kernel might store past the caches, see streaming.py."""

from __future__ import annotations

from collections.abc import Set

from jaxwarp.analysis.effects import analyze
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Block, For, Param, Store, Value, While

LINE = 64  # bytes

Element = tuple[Param, tuple[Value, ...]]


def streamed(kernel: Kernel) -> Set[Param]:
    """The arrays that a kernel might stream.

    Not those of which an element may be stored to again, in a loop or under a condition: a line that has left the
    caches would come back. Even where nothing is streamed, the test before such a store costs (Xeon): distances to the
    faces that rays hit, infinite at first, took 33 ns a ray with 16 lanes, and take 9.
    """
    effects = analyze(kernel)
    stored, again = _stores(kernel.body, frozenset(), in_loop=False)
    streamed = {param for param, _ in stored} - again - set(kernel.locals)
    return {p for p in streamed if not effects[p].loads and not effects[p].atomics}


def _stores(block: Block, before: Set[Element], in_loop: bool) -> tuple[Set[Element], Set[Param]]:
    """The elements that are stored to when a block ends, `before` among them; the arrays of those stored to again."""
    stored, again = set(before), set[Param]()
    for op in block.ops:
        if isinstance(op, Store):
            element = op.param, op.indices
            if in_loop or element in stored:
                again.add(op.param)
            stored.add(element)
        sides = [_stores(inner, frozenset(stored), in_loop or isinstance(op, (For, While))) for inner in op.blocks]
        for elements, params in sides:  # of which one runs
            stored |= elements
            again |= params
    return stored, again
