"""Values that only one side of a choice uses: `a // b if b != 0 else 0` is a select, and computes both.

    %t = ne %b, 0
    %q = floordiv %a, %b       the choices of %q: (%t, True)
    %r = select %t, %q, 0      or    %s = gt %q, 1;  %r = logical_and %t, %s

What fails on the side that is not chosen is no failure.
"""

from __future__ import annotations

from collections import defaultdict

from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Block, Call, Op, Value, walk

Choices = tuple[tuple[Value, bool], ...]


def choices_of(kernel: Kernel) -> dict[Value, Choices]:
    """Return, for the result of each call, the conditions for anything to use it, and which way they have to be.

    The conditions are computed before the call, in its block.
    """
    users: dict[Value, list[Op | None]] = defaultdict(list)
    places: dict[Value, tuple[Block, int]] = {}
    ops = list(walk(kernel.body))
    for block in (kernel.body, *(block for op in ops for block in op.blocks)):
        for value in block.results:
            users[value].append(None)
        for place, op in enumerate(block.ops):
            places.update((result, (block, place)) for result in op.defined)
            for operand in op.operands:
                users[operand].append(op)
    found: dict[Value, Choices] = {}
    for op in reversed(ops):
        if isinstance(op, Call) and users[op.result]:
            first, *others = (_through(user, op.result, found) for user in users[op.result])
            shared = [choice for choice in first if all(choice in other for other in others)]
            found[op.result] = tuple(c for c in shared if _is_before(places, c[0], op.result))
    return found


def _through(user: Op | None, value: Value, found: dict[Value, Choices]) -> Choices:
    """The choices that a user of a value makes for it."""
    if not isinstance(user, Call):
        return ()
    chosen = found.get(user.result, ())
    if sum(argument is value for argument in user.args) > 1:
        return chosen
    match user.builtin.name, user.args:
        case "select", (condition, then, _) if condition is not value:
            return ((condition, then is value), *chosen)
        case ("logical_and" | "logical_or") as name, (first, second) if second is value:
            return ((first, name == "logical_and"), *chosen)
        case _:
            return chosen


def _is_before(places: dict[Value, tuple[Block, int]], condition: Value, value: Value) -> bool:
    (block, place), (other, limit) = places.get(condition, (None, 0)), places[value]
    return block is other and place < limit
