"""Nests whose iterations are sums over a loop of their own, like the elements of a product of matrices.

A thread has several elements and goes through that loop once, for all of them:

    for i, j {                                   for k {
      for k carry(total) { total + a[i, k] b[k, j] }    ->    for each own (i, j) { total[i, j] += a[i, k] b[k, j] }
      store c[i, j], total }                            } for each own (i, j) { store c[i, j], total[i, j] }

Each sum is in the order that it was in, and what `a[i, k]` and `b[k, j]` have for several elements is loaded once.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxwarp.analysis.loops.nests import Nest, Nests, is_pure
from jaxwarp.ir.nodes import Atomic, Call, Const, For, Load, Op, Param, Store, walk


@dataclass(frozen=True, eq=False)
class Product:
    """The parts of the innermost body of a nest.

    Attributes:
        before: pure operations, done again where their values are needed.
        loop: what is summed over.
        after: what is done with the sums.
        adds_to: the array that has an element for each sum, which is added to it: the sum may begin with that element.
    """

    before: tuple[Op, ...]
    loop: For
    after: tuple[Op, ...]
    adds_to: Param | None


def product_in(nest: Nest, nests: Nests) -> Product | None:
    """Return the parts of a nest that can be done for several elements together, if it is one."""
    if nest.fold is not None or len(nest.loops) != 2 or nest.is_open:
        return None
    ops = nest.loops[-1].body.ops
    at = next((n for n, op in enumerate(ops) if isinstance(op, For)), None)
    if at is None:
        return None
    before, loop, after = ops[:at], ops[at], ops[at + 1 :]
    assert isinstance(loop, For)
    outer = [op for op in nest.loops[0].body.ops if op is not nest.loops[1]]
    inside = list(walk(loop.body))
    bounds = (loop.start, loop.stop, loop.step)
    is_one = loop.inits and nest.loops[1] in nest.loops[0].body.ops and not any(nests.of_value(v, nest) for v in bounds)
    if not is_one or any(isinstance(op, For) for op in (*after, *inside)):
        return None
    if not nests.range_of(loop) or nests.range_of(loop).step < 0:
        return None
    if not all(map(is_pure, (*outer, *before, *inside))):
        return None
    stored = {op.param for op in walk(nest.loops[0].body) if isinstance(op, (Store, Atomic))}
    if any(isinstance(op, Load) and op.param in stored for op in inside):
        return None
    return Product(before, loop, after, _adds_to(loop, after, nests))


def _adds_to(loop: For, after: tuple[Op, ...], nests: Nests) -> Param | None:
    """Return the array of `store c[i, j], sum + load c[i, j]`, where a sum may be in any order."""
    start = nests.constants.get(loop.inits[0])
    match [op for op in after if not isinstance(op, Const)]:
        case [Load() as held, Call() as total, Store() as stored]:
            is_same = held.param is stored.param and held.indices == stored.indices and stored.value is total.result
            adds = total.builtin.name == "add" and set(total.args) == {held.result, *loop.results}
            if loop.over_tile and start == 0 and is_same and adds:
                return held.param
        case _:
            pass
    return None
