"""Integers of a kernel that are found in data, at a place that depends on the thread: offsets[i], order[i] + k.

Where they are indices, the kernel does not show whether threads meet: the caller has to know. That is not so of what is
the same for all threads (an argument by value), or made of the thread's index by arithmetic alone (i // 2).

And the arrays whose contents decide how many iterations loops make.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Call, For, If, Load, Op, Param, Store, Tid, Value, While, walk


def indirect_indices(kernel: Kernel) -> set[Value]:
    """The values that are, or are made of, elements which are loaded at an index that differs from thread to thread."""
    varying: set[Value] = set()
    found: set[Value] = set()
    ops = [op for op in walk(kernel.body) if not op.defined or op.defined[0].type.is_int or op.blocks]
    size = -1
    while size != len(varying) + len(found):
        size = len(varying) + len(found)
        for op in ops:
            _visit(op, varying, found)
    return found


def _visit(op: Op, varying: set[Value], found: set[Value]) -> None:
    if isinstance(op, Tid):
        varying.add(op.result)
    elif isinstance(op, Load) and not varying.isdisjoint(op.indices):
        varying.add(op.result)
        found.add(op.result)
    for values in (varying, found):
        for target, sources in flow(op):
            if not values.isdisjoint(sources):
                values.add(target)


def flow(op: Op) -> list[tuple[Value, tuple[Value, ...]]]:
    """Return each integer that an operation defines, with the values that it is made of."""
    match op:
        case Call():
            return [(op.result, op.args)]
        case If():
            return list(zip(op.results, zip(op.then.results, op.orelse.results, strict=True), strict=True))
        case For():
            # The index starts somewhere; how far it goes does not tell threads apart.
            carried = list(zip(op.inits, op.body.results, strict=True))
            return [(op.body.params[0], (op.start,)), *zip(op.body.params[1:], carried, strict=True),
                    *zip(op.results, carried, strict=True)]  # fmt: skip
        case While():
            carried = list(zip(op.inits, op.body.results, strict=True))
            return [pair for targets in (op.condition.params, op.body.params, op.results)
                    for pair in zip(targets, carried, strict=True)]  # fmt: skip
        case _:
            return []


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
    """Yield each value that an operation defines, also for its blocks, and what it is made of."""
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
