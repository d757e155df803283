"""Loops over tiles that combine all elements into one value: sums, and extrema with where they are.

Each thread combines its own elements, then the threads combine theirs. A sum of floats is in another order then; an
extremum is not, since of equal elements the first one is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jaxwarp.ir.nodes import Atomic, Block, Call, Const, For, If, Load, Op, Size, Store, Tid, Value, walk

SUM, SMALLEST, LARGEST = "sum", "smallest", "largest"
_ORDERS = {"lt": SMALLEST, "gt": LARGEST}


@dataclass(frozen=True)
class Fold:
    """The way in which a nest combines what it carries.

    Attributes:
        kind: SUM: each value is a sum; SMALLEST, LARGEST: the first value is the extremum, others what is known of its
            element.
        running: of a scan, which also uses what it has combined so far: the operations that make what it carries.
    """

    kind: str
    running: tuple[Op, ...] = ()


def chain_of(loop: For) -> list[For]:
    """Return a loop that carries something, and the loops right inside of it that do."""
    chain = [loop]
    while True:
        inner = [op for op in chain[-1].body.ops if isinstance(op, For)]
        if len(inner) != 1 or not inner[0].inits:
            return chain
        chain.append(inner[0])


def fold_of(
    loops: Sequence[For], defining: Mapping[Value, Op], uses: Counter[Value], may_store: bool = False
) -> Fold | None:
    """Return how loops, each right inside the one before, combine elements of tiles; None: they do something else.

    `may_store`: what else they do is independent of other iterations, as in the adjoint of a loop over elements, which
    adds to their cotangents, and to that of a number that all of them were made of.
    """
    if not all(loop.over_tile for loop in loops) or not _is_one_loop(loops, uses, may_store):
        return None
    params, results = loops[-1].body.params[1:], loops[-1].body.results
    made = [defining.get(r) for r in results]
    if any(uses[r] != 1 for r in results):
        return None
    if all(_is_sum(op, param, uses) for op, param in zip(made, params, strict=True)):
        return Fold(SUM)
    kind = "" if may_store and _stores(loops[0].body) else _extremum(made, params, defining, uses)
    return Fold(kind) if kind else None


def scan_of(loops: Sequence[For], defining: Mapping[Value, Op], uses: Counter[Value]) -> Fold | None:
    """Return how loops combine what each iteration uses, too; what they store must be independent otherwise."""
    if not all(loop.over_tile for loop in loops) or not _is_one_loop(loops, uses, may_store=True):
        return None
    last = loops[-1].body
    params, made = last.params[1:], [defining.get(r) for r in last.results]
    running = _needed(last)
    if not all(_is_value(op, may_store=False) for op in running):
        return None
    dependent = set(params)
    for op in running:
        if dependent.intersection(op.operands):
            dependent.update(op.defined)
    if all(_adds(op, param, dependent) for op, param in zip(made, params, strict=True)):
        return Fold(SUM, running)
    kind = _extremum(made, params, defining, uses)
    if not kind or (len(made) > 1 and not last.results[0].type.is_float):
        return None
    chosen = [op.args[1] for op in made if isinstance(op, Call)]
    return None if dependent.intersection(chosen) else Fold(kind, running)


def _needed(block: Block) -> tuple[Op, ...]:
    """Return the operations that the results of a block follow from."""
    wanted, found = set(block.results), list[Op]()
    for op in reversed(block.ops):
        if wanted.intersection(op.defined):
            found.append(op)
            inner = list(walk(Block((), (op,), ())))
            wanted.update(v for x in inner for v in (*x.operands, *(r for b in x.blocks for r in b.results)))
    return tuple(reversed(found))


def _adds(op: Op | None, param: Value, dependent: set[Value]) -> bool:
    """Return whether `op` adds something to `param` that what is carried has no part in."""
    if not isinstance(op, Call) or op.result.type.is_half or op.builtin.name not in ("add", "sub", "fma"):
        return False
    at = {"add": (0, 1), "sub": (0,), "fma": (2,)}[op.builtin.name]
    others = [v for v in op.args if v is not param]
    is_once = len(others) == len(op.args) - 1
    return any(op.args[n] is param for n in at) and is_once and not dependent.intersection(others)


def _stores(block: Block) -> bool:
    return any(isinstance(op, (Store, Atomic)) for op in walk(block))


def _is_one_loop(loops: Sequence[For], uses: Counter[Value], may_store: bool) -> bool:
    """Return whether nothing but the innermost loop changes what is carried, and nothing has effects."""
    for outer, inner in zip(loops, (*loops[1:], None), strict=True):
        others = [op for op in outer.body.ops if op is not inner]
        if not all(_is_value(op, may_store) for op in others):
            return False
        if inner is not None:
            carried = outer.body.params[1:]
            if inner not in outer.body.ops or inner.inits != carried or inner.results != outer.body.results:
                return False
            if any(uses[v] != 1 for v in (*carried, *inner.results)):
                return False
    return True


def _is_value(op: Op, may_store: bool) -> bool:
    if isinstance(op, If):
        return all(_is_value(inner, may_store) for block in op.blocks for inner in block.ops)
    return isinstance(op, (Const, Tid, Size, Call, Load)) or (may_store and isinstance(op, (Store, Atomic)))


def _is_sum(op: Op | None, param: Value, uses: Counter[Value]) -> bool:
    """Return whether `op` adds to `param`, and nothing else reads that."""
    if not isinstance(op, Call) or uses[param] != 1 or op.result.type.is_half:
        return False
    name, args = op.builtin.name, op.args
    return (
        (name == "add" and param in args)
        or (name == "sub" and args[0] is param)
        or (name == "fma" and args[2] is param)
    )


def _extremum(
    made: Sequence[Op | None], params: Sequence[Value], defining: Mapping[Value, Op], uses: Counter[Value]
) -> str:
    """Return SMALLEST or LARGEST if the results are those of `tile_min` and the like; else nothing.

    %better = (x > best) or (best != best and x == x)        integers: x > best
    yield select(%better, x, best), select(%better, where, best_where)
    """
    if not all(isinstance(op, Call) and op.builtin.name == "select" for op in made) or not made:
        return ""
    chosen = [op for op in made if isinstance(op, Call)]
    test, new, best = chosen[0].args
    if any(op.args[0] is not test or op.args[2] is not p for op, p in zip(chosen, params, strict=True)):
        return ""
    if uses[test] != len(chosen) or any(uses[p] != 1 for p in params[1:]) or new.type.is_half:
        return ""
    is_float = new.type.is_float
    if uses[best] != (4 if is_float else 2):
        return ""
    compared = defining.get(test)
    if is_float:
        parts = _args(compared, "logical_or")
        numbers = _args(defining.get(parts[1]), "logical_and") if parts else None
        if not parts or not numbers:
            return ""
        if _args(defining.get(numbers[0]), "ne") != (best, best) or _args(defining.get(numbers[1]), "eq") != (new, new):
            return ""
        compared = defining.get(parts[0])
    for name, kind in _ORDERS.items():
        if _args(compared, name) == (new, best):
            return kind
    return ""


def _args(op: Op | None, name: str) -> tuple[Value, ...]:
    return op.args if isinstance(op, Call) and op.builtin.name == name else ()
