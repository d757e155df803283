"""Outputs that threads clear as they go, so that nobody has to before.

    if %inside {                            if %inside {
        store @out[%i, %j], %v       ->         store @out[%i, %j], %v }
    }                                       else { store @out[%i, %j], 0.0 }

A launch with a thread for each element of an output, where each stores to its own or to none, stores to all of them
then: the guard of a stencil, a mask. An output that is cleared before is written twice, by the memory's time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxwarp.deep import with_deep_stack
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Const, For, If, Load, Op, Param, Store, Tid, Value, While, walk
from jaxwarp.ir.rewrite import rebuild
from jaxwarp.types import bool_

Word = tuple[int, ...]  # of a thread's element: constant indices, which vectors and matrices have


@with_deep_stack
def filled(kernel: Kernel, params: Sequence[int]) -> Kernel:
    """The kernel for launches with a thread for each element of the parameters at these positions, which are zeros."""
    for number in params:
        words = _words(kernel, kernel.params[number])
        if words is not None:
            body, _ = _Filler(kernel.params[number], words).block(kernel.body)
            kernel = Kernel(kernel.name, kernel.grid_rank, kernel.params, body, kernel.locals)
    return kernel


def are_elements(grid: Sequence[Any], shape: Sequence[Any]) -> bool:
    """Return whether a launch has a thread for each element or row of an array; extents may be symbolic."""
    return tuple(shape[: len(grid)]) == tuple(grid)


def _words(kernel: Kernel, param: Param) -> dict[Store, Word] | None:
    """The stores to an array, if each is to a thread's own element, and nothing else is done to it."""
    rank = kernel.grid_rank
    if any(isinstance(op, Load | Atomic) and op.param is param for op in walk(kernel.body)):
        return None
    axes = {op.result: op.axis for op in walk(kernel.body) if isinstance(op, Tid)}
    integers = [op for op in walk(kernel.body) if isinstance(op, Const) and op.result.type.is_int]
    constants = {op.result: int(op.value) for op in integers}
    looped = [block for op in walk(kernel.body) if isinstance(op, For | While) for block in op.blocks]
    if any(isinstance(op, Store) and op.param is param for block in looped for op in walk(block)):
        return None
    found: dict[Store, Word] = {}
    for op in walk(kernel.body):
        if not isinstance(op, Store) or op.param is not param:
            continue
        word = tuple(constants.get(index, -1) for index in op.indices[rank:])
        is_inside = all(0 <= at < (extent or 0) for at, extent in zip(word, param.shape[rank:], strict=True))
        if [axes.get(index) for index in op.indices[:rank]] != list(range(rank)) or not is_inside:
            return None
        found[op] = word
    return found


class _Filler:
    """Stores a zero at the end of branches, to each word that the other one has stored to."""

    def __init__(self, param: Param, words: dict[Store, Word]):
        self._param = param
        self._words = words
        self._example = {word: op for op, word in words.items()}

    def block(self, block: Block) -> tuple[Block, set[Word]]:
        """The block, and the words that it stores to on every path."""
        ops: list[Op] = []
        stored: set[Word] = set()
        for op in block.ops:
            if isinstance(op, If):
                made, more = self._branches(op, stored)
                ops.append(made)
                stored |= more
                continue
            if isinstance(op, Store) and op in self._words:
                stored.add(self._words[op])
            ops.append(op)
        return Block(block.params, tuple(ops), block.results), stored

    def _branches(self, op: If, stored: set[Word]) -> tuple[If, set[Word]]:
        blocks = [self.block(block) for block in op.blocks]
        every = blocks[0][1] | blocks[1][1]
        if not every:
            return op, every
        made = [self._with_zeros(block, sorted(every - has - stored)) for block, has in blocks]
        rebuilt = rebuild(op, op.defined, op.operands, made)
        assert isinstance(rebuilt, If)
        return rebuilt, every

    def _with_zeros(self, block: Block, words: Sequence[Word]) -> Block:
        ops = list(block.ops)
        for word in words:
            like = self._example[word]
            kinds = [index.type for index in like.indices]
            rank = len(kinds) - len(word)
            indices: list[Tid | Const] = [Tid(Value(kind), axis) for axis, kind in enumerate(kinds[:rank])]
            indices += [Const(Value(kind), at) for kind, at in zip(kinds[rank:], word, strict=True)]
            dtype = like.value.type
            zero = Const(Value(dtype), False if dtype is bool_ else 0.0 if dtype.is_float else 0)
            ops += [*indices, zero, Store(self._param, tuple(i.result for i in indices), zero.result, loc=like.loc)]
        return Block(block.params, tuple(ops), block.results)
