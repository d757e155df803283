"""Nests of sums, made of loops that add to elements of several arrays: the adjoints of products and broadcasts.

    for i, j {                                          for i, k {
      g = load c[i, j]                                    for j carry(s = 0) { s + load c[i, j] * y[k, j] }
      store c[i, j], 0                                    x[i, k] += s }
      for k {                                    ->     for k, j {
        x[i, k] += g * b[k, j]                            for i carry(s = 0) { s + load c[i, j] * a[i, k] }
        y[k, j] += g * a[i, k] } }                        y[k, j] += s }
                                                        for i, j { store c[i, j], 0 }

A sum over a tile may be in any order, and nothing but such additions meets the arrays `x` and `y` here. What is added
follows from arrays that the loops do not change, or change only later in the iteration that has read the element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from jaxwarp.analysis.loops.nests import Nests, is_pure
from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.codegen.cuda.blocks.pipelines import live
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Call, For, Load, Op, Param, Store, Tell, Value, While, walk
from jaxwarp.ir.rewrite import Rewriter, rebuild
from jaxwarp.ir.rows import count_uses


def parted(kernel: Kernel, nests: Nests) -> Kernel:
    """Return the kernel with a nest for each array that loops add to and whose elements are those of several loops."""
    return _Parter(kernel, nests).kernel(kernel)


@dataclass(frozen=True, eq=False)
class _Addition:
    """The operations that add to an element.

    Attributes:
        held: the load of the element.
        total: the sum of that and something else.
        store: of the sum.
        path: the loops around them, from the outside.
    """

    held: Load
    total: Call
    store: Store
    path: tuple[For, ...]


@dataclass(frozen=True, eq=False)
class _Part:
    """An addition that becomes a nest.

    Attributes:
        addition: what it does.
        own: the loops whose indices are those of the element, in the order of its axes.
        summed: the other loops.
        places: the operations that make the indices of the element.
        terms: those that make what is added.
    """

    addition: _Addition
    own: tuple[For, ...]
    summed: tuple[For, ...]
    places: tuple[Op, ...]
    terms: tuple[Op, ...]


class _Parter(Rewriter):
    def __init__(self, kernel: Kernel, nests: Nests):
        super().__init__()
        self._nests = nests
        self._uses = count_uses(kernel)

    def op(self, op: Op) -> None:
        if op in self._nests.found:
            self.emit(op)
            return
        parts = self._parts(op) if isinstance(op, For) else []
        if not isinstance(op, For) or not parts:
            self.copy(op)
            return
        for part in parts:
            _Emitter(self.scopes, self._nests).part(part)
        gone: set[Op] = {x for part in parts for x in (part.addition.held, part.addition.total, part.addition.store)}
        rest = _without(op, gone)
        if rest is not None:
            self.op(rest)

    def _parts(self, loop: For) -> list[_Part]:
        ops = list(walk(Block((), (loop,), ())))
        if any(isinstance(op, (Tell, While)) or (isinstance(op, For) and not self._is_plain(op)) for op in ops):
            return []
        additions = list(self._additions(loop.body, (loop,)))
        adding = {op for found in additions for op in (found.held, found.store)}
        others = {op.param for op in ops if isinstance(op, (Load, Store, Atomic)) and op not in adding}
        stored = {op.param for op in ops if isinstance(op, (Store, Atomic))}
        found = [self._part(a, ops, stored) for a in additions if a.store.param not in others]
        return [part for part in found if part is not None]

    def _is_plain(self, loop: For) -> bool:
        return not loop.inits and len(self._nests.range_of(loop)) > 0

    def _additions(self, block: Block, path: tuple[For, ...]) -> Iterator[_Addition]:
        defined = {v: op for op in block.ops for v in op.defined}
        for op in block.ops:
            if isinstance(op, For):
                yield from self._additions(op.body, (*path, op))
            total = defined.get(op.value) if isinstance(op, Store) and op.param in self._nests.locals else None
            if not isinstance(op, Store) or not isinstance(total, Call) or op.param.dtype.is_half:
                continue
            loads = [defined.get(v) for v in _sums(total)]
            held = next((x for x in loads if isinstance(x, Load) and x.param is op.param), None)
            if held is None or held.indices != op.indices:
                continue
            if self._uses[held.result] == self._uses[total.result] == 1:
                yield _Addition(held, total, op, path)

    def _part(self, addition: _Addition, ops: Sequence[Op], stored: set[Param]) -> _Part | None:
        path = addition.path
        inside = {v for op in ops for v in (*op.defined, *(p for b in op.blocks for p in b.params))}
        indices = [loop.body.params[0] for loop in path]
        own: list[For] = []
        for value in addition.store.indices:
            if value not in inside or self._nests.number(value) is not None:
                continue
            term = self._nests.term(value, indices, inside)
            loop = path[indices.index(term[0])] if term is not None else None
            if loop is None or loop in own:
                return None
            own.append(loop)
        summed = tuple(loop for loop in path if loop not in own)
        if not summed or not all(loop.over_tile for loop in summed):
            return None
        kept = {p for p in stored if not self._is_read_first(p, ops, path, inside)}
        added = [v for v in addition.total.args if v is not addition.held.result]
        places, terms = (_slice(values, path, kept) for values in (addition.store.indices, added))
        if places is None or terms is None:
            return None
        return _Part(addition, tuple(own), summed, places, terms)

    def _is_read_first(self, param: Param, ops: Sequence[Op], path: Sequence[For], inside: set[Value]) -> bool:
        """Return whether each iteration has an element of its own, and loads it before it stores to it."""
        accesses = [op for op in ops if isinstance(op, (Load, Store, Atomic)) and op.param is param]
        for depth, loop in enumerate(path, 1):
            here = [op for op in loop.body.ops if op in accesses]
            if len(here) == len(accesses):
                first = next((n for n, op in enumerate(here) if not isinstance(op, Load)), 0)
                if any(isinstance(op, Load) for op in here[first:]) or param not in self._nests.locals:
                    return False
                indices = [x.body.params[0] for x in path[:depth]]
                places = [[self._nests.term(v, indices, inside) for v in op.indices] for op in accesses]
                found = {term[0] for term in places[0] if term is not None}
                return found == set(indices) and all(place == places[0] for place in places)
        return False


def _sums(total: Call) -> tuple[Value, ...]:
    """Return the operands that may be a sum so far."""
    match total.builtin.name:
        case "add":
            return total.args
        case "sub":
            return total.args[:1]
        case "fma":
            return total.args[2:]
        case _:
            return ()


def _slice(values: Sequence[Value], path: Sequence[For], stored: set[Param]) -> tuple[Op, ...] | None:
    """Return the operations in some loops that values follow from; None: more than their indices decides about them."""
    order = [op for loop in path for op in loop.body.ops]
    defined = {v: op for op in order for v in op.defined}
    found: set[Op] = set()
    waiting = list(values)
    while waiting:
        op = defined.get(waiting.pop())
        if op is None or op in found:
            continue
        within = list(walk(Block((), (op,), ())))
        if not is_pure(op) or any(isinstance(x, Load) and x.param in stored for x in within):
            return None
        found.add(op)
        waiting += [v for x in within for v in (*x.operands, *(r for b in x.blocks for r in b.results))]
    return tuple(op for op in order if op in found)


def _without(loop: For, gone: set[Op]) -> For | None:
    """Return a loop without some operations, and without those that only they needed; None: nothing is left."""
    ops: list[Op] = []
    for op in loop.body.ops:
        left = _without(op, gone) if isinstance(op, For) else op
        if left is not None and op not in gone:
            ops.append(left)
    ops = list(live(ops, ()))
    if not any(isinstance(x, (Store, Atomic)) for x in walk(Block((), tuple(ops), ()))):
        return None
    made = rebuild(loop, loop.defined, loop.operands, (Block(loop.body.params, tuple(ops), ()),))
    assert isinstance(made, For)
    return made


class _Emitter:
    def __init__(self, scopes: list[list[Op]], nests: Nests):
        self._build = Builder(scopes)
        self._clone = Rewriter(fresh=True)
        self._clone.scopes = scopes
        self._nests = nests

    def part(self, part: _Part) -> None:
        addition = part.addition
        dtype = addition.store.param.dtype
        self._build.loc = addition.store.loc

        def term(total: Value) -> Sequence[Value]:
            self._again(op for op in part.terms if op not in part.places)
            self._clone.values[addition.held.result] = total
            self._clone.op(addition.total)
            return (self._clone.value(addition.total.result),)

        def element() -> Sequence[Value]:
            self._again(part.places)
            (total,) = self._loops(part.summed, (self._build.const(0, dtype),), term)
            indices = self._clone.all(addition.store.indices)
            held = self._build.load(addition.store.param, indices)
            self._build.store(addition.store.param, indices, self._build.call(ROWS["add"], held, total))
            return ()

        self._loops(part.own, (), element)

    def _again(self, ops: Iterable[Op]) -> None:
        for op in ops:
            self._clone.op(op)

    def _loops(
        self, loops: Sequence[For], carried: Sequence[Value], inner: Callable[..., Sequence[Value]]
    ) -> Sequence[Value]:
        if not loops:
            return inner(*carried)
        first, *rest = loops
        numbers, index = self._nests.range_of(first), first.body.params[0]
        bounds = (numbers.start, numbers.stop, numbers.step)
        start, stop, step = (self._build.const(n, index.type) for n in bounds)

        def body(new: Value, *values: Value) -> Sequence[Value]:
            self._clone.values[index] = new
            return self._loops(rest, values, inner)

        return self._build.for_(start, stop, step, carried, body, [index.name], over_tile=True)
