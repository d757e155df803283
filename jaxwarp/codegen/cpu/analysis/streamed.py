"""The arrays that a kernel might store past the caches, see streaming.py."""

from __future__ import annotations

from collections.abc import Iterator, Set

from jaxwarp.analysis.effects import analyze
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Block, For, Param, Store, While

LINE = 64  # bytes


def streamed(kernel: Kernel) -> Set[Param]:
    """The arrays that a kernel might stream."""
    effects = analyze(kernel)
    stored = set(_stored(kernel.body, in_loop=False))
    repeated = set(_stored(kernel.body, in_loop=True))
    return {p for p in stored - repeated if not effects[p].loads and not effects[p].atomics} - set(kernel.locals)


def _stored(block: Block, in_loop: bool, inside: bool = False) -> Iterator[Param]:
    """What is stored to in loops, or outside of them."""
    for op in block.ops:
        if isinstance(op, Store) and inside == in_loop:
            yield op.param
        for inner in op.blocks:
            yield from _stored(inner, in_loop, inside or isinstance(op, (For, While)))
