"""Operations of a few instructions without effects, which may run for lanes that are off; loops made of them."""

from __future__ import annotations

import itertools
from collections.abc import Hashable

from jaxwarp.codegen.cpu.analysis.uniformity import Strides
from jaxwarp.ir.nodes import Block, Call, Const, For, If, Op, Size, Tid, Value, While, walk
from jaxwarp.types import bool_

# fmt: off
# Rows of a few instructions. Blocks of few of them are computed by all lanes rather than branched around.
_CHEAP_ROWS = frozenset((
    "abs", "add", "bit_and", "bit_not", "bit_or", "bit_xor", "bitcast", "cast", "copysign", "eq", "fma", "ge", "gt",
    "isfinite", "isinf", "isnan", "le", "logical_and", "logical_not", "logical_or", "lt", "max", "max_number", "min",
    "min_number", "mul", "ne", "neg", "select", "shl", "shr", "sign", "sub",
))
# fmt: on
# Those of floats that take longer, and count as so many. A branch that lanes seldom all pass over is foreseen wrongly
# each time they do: sums of 1 - distance / radius over neighbours take 0.55 to 0.75 of the time without.
_SLOW_ROWS, _SLOW = frozenset(("ceil", "div", "floor", "rint", "rsqrt", "sqrt", "trunc")), 4
_CHEAP_BLOCK = 12
# Operations of a loop that is long.
_MANY = 150


def is_cheap(block: Block) -> bool:
    """Can all lanes compute the block faster than branch around it? Only pure operations qualify."""
    return _left_of(_CHEAP_BLOCK, block) >= 0


def _left_of(budget: int, block: Block) -> int:
    """Return what a block's operations leave of a budget, negative if they do not fit. Counting stops there."""
    for op in block.ops:
        match op:
            case Const() | Size() | Tid():
                pass
            case Call():
                budget -= _cost(op)
            case If():
                budget = _left_of(_left_of(budget, op.then), op.orelse)
            case _:
                return -1
        if budget < 0:
            break
    return budget


def _cost(op: Call) -> int:
    """Return the cost in cheap operations. A function call or an integer division costs more than a cheap block."""
    if op.builtin.name in _SLOW_ROWS and op.result.type.is_float:
        return _SLOW
    return 1 if op.builtin.name in _CHEAP_ROWS else _CHEAP_BLOCK + 1


def is_speculatable(loop: While, strides: Strides) -> bool:
    """Return whether the body is short, of cheap operations, and harmless to run for lanes that are off.

    Such a body has no memory accesses, calls or loops, and all lanes compute both sides of its branches. Long bodies
    do not qualify: they have enough parallel work, and LLVM would get several copies of them.
    """
    ops = list(itertools.islice((op for block in loop.blocks for op in walk(block)), _MANY + 1))
    return len(ops) <= _MANY and all(_is_speculatable(op, strides) for op in ops)


def _is_speculatable(op: Op, strides: Strides) -> bool:
    match op:
        case Const() | Size():
            return True
        case Call():
            # Lanes of other types do not fill registers.
            fills = all(v.type.bits >= 32 or v.type is bool_ for v in (op.result, *op.args))
            return _cost(op) <= _CHEAP_BLOCK and fills
        case If():
            # What all lanes decide alike is a branch.
            differ = not strides.is_uniform(op.condition) and not any(strides.is_scalar(r) for r in op.results)
            return differ and all(is_cheap(block) for block in op.blocks)
        case _:
            return False


def shares_work(loop: While, strides: Strides) -> bool:
    """Does a loop's body compute again what its condition computes?"""
    calls = numbered(loop)
    of = [
        {calls[op] for op in walk(block) if isinstance(op, Call) and not strides.is_uniform(op.result)}
        for block in loop.blocks
    ]
    return not of[0].isdisjoint(of[1])


def numbered(loop: For | While) -> dict[Call, int]:
    """The calls of a loop: the same number for those that compute the same of the same carried values."""
    numbers: dict[Value, Hashable] = {}
    known: dict[Hashable, int] = {}
    for block in loop.blocks:
        numbers |= {param: ("carried", i) for i, param in enumerate(block.params)}
    found: dict[Call, int] = {}
    for block in loop.blocks:
        for op in walk(block):
            if isinstance(op, Call):
                key = (op.builtin.name, op.result.type, *(numbers.get(a, a) for a in op.args))
                found[op] = numbers[op.result] = known.setdefault(key, len(known))
            elif isinstance(op, Const):
                numbers[op.result] = (str(op.value), op.result.type)
    return found
