"""The arrays whose contents decide how many iterations loops make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, For, If, Load, Op, Param, Store, Value, While, walk


def arrays_that_count(kernel: Kernel) -> set[Param]:
    """The arrays on whose contents it depends how often a loop runs."""
    sources: dict[Value | Param, list[Value]] = {}
    arrays: dict[Value, Param] = {}
    pending: list[Value] = []
    for op in walk(kernel.body):
        for value, given in _flows(op):
            sources.setdefault(value, []).extend(given)
        if isinstance(op, Load | Atomic):
            arrays[op.result] = op.param
        if isinstance(op, Store | Atomic):
            sources.setdefault(op.param, []).extend(op.operands)
        if isinstance(op, For):
            pending += (op.start, op.stop, op.step)
        elif isinstance(op, While):
            pending += op.condition.results
    seen: set[Value] = set()
    found: set[Param] = set()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        pending += sources.get(value, ())
        if value in arrays and arrays[value] not in found:
            found.add(arrays[value])
            pending += sources.get(arrays[value], ())
    return found


def _flows(op: Op) -> Iterator[tuple[Value, Sequence[Value]]]:
    """What an operation defines, also for its blocks, and what that is made of."""
    yield from ((value, op.operands) for value in op.defined)
    match op:
        case If():
            for block in op.blocks:
                yield from ((value, (given,)) for value, given in zip(op.results, block.results, strict=True))
        case For() | While():
            yield from ((value, op.operands) for block in op.blocks for value in block.params)
            own = [op.results, *(b.params[1:] if isinstance(op, For) else b.params for b in op.blocks)]
            for values in own:
                yield from ((value, (given,)) for value, given in zip(values, op.body.results, strict=True))
        case _:
            pass
