"""The reverse of loops that look for an extremum of a tile: all goes to the element that it is.

    for k carry(best) { new = x[k]; select(new > best, new, best) }
    ->  for k carry(best, at, found) { the same, and where: select(..., k, at), select(..., 1, found) }
        x*[at] += found ? best* : 0;  the initial value's cotangent += found ? 0 : best*

No states are kept. Threads may share the loop: an extremum and the first place of it are the same in any order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jaxwarp.analysis.loops.folds import SUM, chain_of, fold_of
from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Block, Call, For, Op, Value, walk
from jaxwarp.ir.rewrite import rebuild
from jaxwarp.ir.rows import count_uses
from jaxwarp.types import int32
from jaxwarp.vjp.reverse.context import Cotangents, Environment, Reversal

Chain = tuple[For, ...]


def extrema_of(kernel: Kernel) -> dict[Op, Chain]:
    """Return the loops of a kernel that look for an extremum, each with the loops right inside of it."""
    ops = list(walk(kernel.body))
    loops = [op for op in ops if isinstance(op, For) and op.over_tile and op.inits]
    if not loops:
        return {}
    defining, uses = {v: op for op in ops for v in op.defined}, count_uses(kernel)
    found: dict[Op, Chain] = {}
    for loop in loops:
        chain = tuple(chain_of(loop))
        fold = fold_of(chain, defining, uses)
        if fold is not None and fold.kind != SUM:
            found[loop] = chain
    return found


def reverse_extremum(
    context: Reversal, chain: Chain, starts: Sequence[int], env: Environment, cotangents: Cotangents
) -> None:
    """Emits the reverse of loops that look for an extremum.

    Args:
        context: what the adjoint is made in.
        chain: the loops.
        starts: their first indices. Each has an iteration.
        env: the values of the kernel.
        cotangents: those of the results; then also those of initial values and of what the loops captured.
    """
    outer, last = chain[0], chain[-1]
    given = {n: c for n, r in enumerate(outer.results) if (c := cotangents.pop(r, None)) is not None}
    if not given:
        return
    o = context.o
    choices = {v: op for op in last.body.ops for v in op.defined}
    chosen = [choices[r] for r in last.body.results]
    with context.running(outer.body):
        one, child = o.number(1, int32), env.new_child()
        numbers = [o.number(n, loop.body.params[0].type) for n, loop in zip(starts, chain, strict=True)]
        numbers.append(o.number(0, int32))
        child.update({v: v for v in (*numbers, one)})
        located = _with_places(chain, tuple(numbers), chosen[0].operands[0], {}, one)
        context.forward(Block((), (located,), ()), child)
        *at, found = (child[v] for v in located.results[len(outer.results) :])
        is_found = o.ne(found, 0)
        inside = env.new_child(dict(zip((loop.body.params[0] for loop in chain), at, strict=True)))
        blocks = [Block((), tuple(ops), ()) for ops in _of_elements(chain)]
        for block in blocks:
            context.forward(block, inside)
        local: Cotangents = {}
        for n, cotangent in given.items():
            call = chosen[n]
            assert isinstance(call, Call)
            context.add(local, call.args[1], context.chosen(is_found, cotangent, 0.0))
            context.add(cotangents, outer.inits[n], context.chosen(is_found, 0.0, cotangent))
        for block in reversed(blocks):
            context.reverse(block, inside, local)
    for value, cotangent in local.items():
        context.add(cotangents, value, cotangent)


def _with_places(
    chain: Sequence[For], inits: tuple[Value, ...], test: Value, indices: Mapping[int, Value], one: Value
) -> For:
    """Return loops that also carry the indices at which a value was the best one last, and whether there are any."""
    loop, *rest = chain
    indices = {**indices, len(indices): loop.body.params[0]}
    held = tuple(Value(v.type) for v in inits)
    if rest:
        inner = _with_places(rest, held, test, indices, one)
        ops = [inner if op is rest[0] else op for op in loop.body.ops]
        results = inner.results[len(rest[0].results) :]
    else:
        news = (*indices.values(), one)
        calls = [Call(Value(v.type), ROWS["select"], (test, new, v)) for new, v in zip(news, held, strict=True)]
        ops, results = [*loop.body.ops, *calls], tuple(call.result for call in calls)
    body = Block((*loop.body.params, *held), tuple(ops), (*loop.body.results, *results))
    defined = (*loop.results, *(Value(v.type) for v in inits))
    made = rebuild(loop, defined, (*loop.operands, *inits), (body,))
    assert isinstance(made, For)
    return made


def _of_elements(chain: Chain) -> list[list[Op]]:
    """Return the operations of each loop that have no part in the choice."""
    carried = {v for loop in chain for v in loop.body.params[1:]}
    found: list[list[Op]] = []
    for loop in chain:
        found.append([])
        for op in loop.body.ops:
            if op in chain or carried.intersection(op.operands):
                carried.update(op.defined)
            else:
                found[-1].append(op)
    return found
