"""Sums that threads make in elements around their own, as what the owner of an element gathers.

    %t = mul %c, load @y_ct[%i]                     %s = (1 <= %i and %i < n) ? mul %c, load @y_ct[%i - 1] : 0
    atomic_add @x_ct[%i + 1], %t             ->     %s = %s + ...
    ...                                             store @x_ct[%i], %s

The gradient of a stencil adds to as many elements as the stencil reads. Here a thread computes again what its
neighbours would add to its element: code in place of memory traffic. Threads that add nothing take no part, as before:
what is copied keeps its conditions, but for those that its place proves. The launch may need other threads than before:
one for each element that may get something.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jaxwarp.analysis.scatter.lines import ThreadLines
from jaxwarp.analysis.scatter.sources import AddingThreads, Addition, Interval, Scatter, only_added_to, scatters
from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.deep import with_deep_stack
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Call, Const, For, If, Load, Op, Param, Store, Tell, Tid, Value, While, walk
from jaxwarp.ir.rewrite import Rewriter
from jaxwarp.passes.extents import with_extents
from jaxwarp.passes.simplify import simplify
from jaxwarp.types import bool_, int32


class Price(NamedTuple):
    """Operations that take as long as one addition that is not gathered.

    Attributes:
        atomic: one to an element around a thread.
        own: one to its own element.
    """

    atomic: float
    own: float


# Memory makes atomic additions, of threads side by side: a model (an H100 issues 128 operations a cycle and
# multiprocessor; its L2 adds 8 words a cycle and slice).
ON_GPUS = Price(24, 24)
# A load, a sum and a store, of whole vectors: measured with the gradient of Gray-Scott. Own elements are no atomics.
ON_CPUS = Price(6, 0)
_LOAD = 4
_SLOW = {**dict.fromkeys(("div", "sqrt", "rsqrt", "mod", "floordiv"), 8), "pow": 40}
_ELEMENTARY = 16
_TRIPS = 32
# Threads, beside those of the launch; where fewer of an array's elements get something, it is not written in full.
_MORE_THREADS = 2
_FEW_THREADS = 256  # more of which cost nothing


@with_deep_stack
def gathered(
    kernel: Kernel,
    grid: Sequence[int],
    zeros: Collection[int] = (),
    shapes: Sequence[tuple[int, ...]] | None = None,
    numbers: Mapping[int, int] | None = None,
    price: Price = ON_GPUS,
) -> tuple[Kernel, tuple[int, ...]]:
    """The kernel and the launch in which threads gather what it scatters, where that is known to be less work.

    Args:
        kernel: a prepared one.
        grid: the launch.
        zeros: positions of the parameters that hold zeros on entry.
        shapes: of the parameters; None: the kernel has them.
        numbers: see `with_extents`.
        price: that of additions by atomics.

    Returns:
        The kernel, of constant extents, and the grid. Both are as they were if nothing is gathered.
    """
    if not only_added_to(kernel):
        return kernel, tuple(grid)
    known = kernel if shapes is None else with_extents(kernel, shapes, numbers)
    lines = ThreadLines(known, grid)
    owned = [_owned(each, grid) for each in scatters(known, grid, lines) if _is_worth_it(known, each, grid, price)]
    if not owned or math.prod(_extents(owned)) > _MORE_THREADS * max(_FEW_THREADS, math.prod(grid)):
        return kernel, tuple(grid)
    made = _Gathered(known, grid, lines, owned, {known.params[i] for i in zeros})
    return simplify(made.kernel(known)), made.extents


@dataclass(frozen=True, eq=False)
class _Owned:
    """A scatter, and which elements are written, by axis of the grid."""

    scatter: Scatter
    box: tuple[Interval, ...]


def _owned(scatter: Scatter, grid: Sequence[int]) -> _Owned:
    """Return the scatter with the elements to write: all of them, or, if these are many more, those it reaches."""
    box = tuple(scatter.reach(axis) for axis in range(len(grid)))
    extents = {axis: n or 0 for n, axis in zip(scatter.param.shape, scatter.axes, strict=True) if axis is not None}
    whole = tuple((0, extents[axis] - 1) if axis in extents else (0, 0) for axis in range(len(grid)))
    return _Owned(scatter, whole if _volume(whole) <= _MORE_THREADS * _volume(box) else box)


def _volume(box: Sequence[Interval]) -> int:
    return math.prod(last - first + 1 for first, last in box)


def _extents(owned: Sequence[_Owned]) -> tuple[int, ...]:
    return tuple(
        max(last for _, last in along) - min(first for first, _ in along) + 1
        for along in zip(*(each.box for each in owned), strict=True)
    )


def _is_worth_it(kernel: Kernel, scatter: Scatter, grid: Sequence[int], price: Price) -> bool:
    """Return whether computing the additions in copies is less work than computing them once and adding by atomics."""
    copies = 0.0
    around: set[Atomic] = set()
    every = {add.op for adds in scatter.sources.values() for add in adds}
    for sources, adds in scatter.sources.items():
        threads = math.prod(s.last - s.first + 1 for s in sources if s is not None)
        copies += threads / math.prod(grid) * _price(kernel, [add.op for add in adds])
        if not all(s is None or s.is_own for s in sources):
            around.update(add.op for add in adds)
    own = len(every) - len(around)
    return copies < _price(kernel, every) + price.atomic * len(around) + price.own * own


def _price(kernel: Kernel, adds: Collection[Atomic]) -> float:
    """Return the price of computing what one thread adds."""
    needed: set[Value] = {v for op in adds for v in op.args}

    def block(inside: Block) -> float:
        total = 0.0
        for op in reversed(inside.ops):
            is_needed = not needed.isdisjoint(op.defined)
            if is_needed:
                needed.update(v for inner in op.blocks for v in inner.results)
            trips = _TRIPS if isinstance(op, (For, While)) else 1
            total += trips * sum(block(inner) for inner in op.blocks)
            if is_needed or any(each in adds for inner in op.blocks for each in inner.all_ops):
                needed.update(op.operands)
                total += _price_of(op)
        return total

    return block(kernel.body)


def _price_of(op: Op) -> float:
    match op:
        case Load():
            return _LOAD
        case Call():
            return _SLOW.get(op.builtin.name, 1 if isinstance(op.builtin.cuda, str) or _is_plain(op) else _ELEMENTARY)
        case _:
            return 0


def _is_plain(op: Call) -> bool:
    return op.builtin.name in ("add", "sub", "mul", "neg", "fma", "min", "max", "abs", "cast")


class _Gathered(Rewriter):
    """The kernel without the additions, and behind it their sums."""

    def __init__(
        self, kernel: Kernel, grid: Sequence[int], lines: ThreadLines, owned: Sequence[_Owned], zeros: set[Param]
    ):
        super().__init__()
        self.source = kernel
        self.grid = tuple(grid)
        self.lines = lines
        self.owned = owned
        self.zeros = zeros
        self.added = {each.scatter.param for each in owned}
        self.build = Builder(self.scopes)
        self.origin = tuple(min(first for first, _ in along) for along in zip(*(o.box for o in owned), strict=True))
        rest = any(isinstance(op, (Store, Atomic)) and op.param not in self.added for op in walk(kernel.body))
        self.extents = tuple(max(n, m) if rest else n for n, m in zip(_extents(owned), self.grid, strict=True))

    def kernel(self, kernel: Kernel) -> Kernel:
        self.scopes.append([])
        tids = [self.build.tid(axis) for axis in range(len(self.grid))]
        inside = self.all_of(
            self.below(t, n - 1) for t, n, m in zip(tids, self.grid, self.extents, strict=True) if n < m
        )
        body = self.block(kernel.body)
        if inside is None:
            self.scopes[-1] += body.ops
        else:
            self.scopes[-1].append(If((), inside, Block((), body.ops, ()), Block((), (), ())))
        elements = [self.moved(t, first) for t, first in zip(tids, self.origin, strict=True)]
        for each in self.owned:
            self.gather(each, elements)
        return Kernel(kernel.name, kernel.grid_rank, kernel.params, Block((), tuple(self.scopes.pop()), ()))

    def op(self, op: Op) -> None:
        if not isinstance(op, Atomic) or op.param not in self.added:
            self.copy(op)

    # Integers

    def number(self, value: int) -> Value:
        return self.build.const(value, int32)

    def moved(self, value: Value, by: int) -> Value:
        return self.build.call(ROWS["add"], value, self.number(by)) if by else value

    def below(self, value: Value, last: int) -> Value:
        return self.build.call(ROWS["le"], value, self.number(last))

    def all_of(self, conditions: Iterable[Value]) -> Value | None:
        found: Value | None = None
        for condition in conditions:
            found = condition if found is None else self.build.call(ROWS["logical_and"], found, condition)
        return found

    def between(self, elements: Sequence[Value], inner: Sequence[Interval], outer: Sequence[Interval]) -> Value | None:
        """Return the condition that an element of the box `outer` is in the box `inner`; None: it always is."""
        tests: list[Value] = []
        for element, (first, last), (least, most) in zip(elements, inner, outer, strict=True):
            if first > least:
                tests.append(self.build.call(ROWS["ge"], element, self.number(first)))
            if last < most:
                tests.append(self.below(element, last))
        return self.all_of(tests)

    # Sums

    def gather(self, owned: _Owned, elements: Sequence[Value]) -> None:
        threads = tuple((o, o + n - 1) for o, n in zip(self.origin, self.extents, strict=True))
        inside = self.between(elements, owned.box, threads)
        if inside is None:
            self.write(owned, elements)
        else:
            self.build.if_(inside, lambda: self.write(owned, elements))

    def write(self, owned: _Owned, elements: Sequence[Value]) -> tuple[Value, ...]:
        param, axes = owned.scatter.param, owned.scatter.axes
        sums = _Sums(self.build, param)
        components = dict.fromkeys(add.component for adds in owned.scatter.sources.values() for add in adds)
        places = {component: self.place(axes, component, elements) for component in components}
        if param not in self.zeros:
            sums.totals = {component: self.build.load(param, place) for component, place in places.items()}
        for sources, adds in owned.scatter.sources.items():
            self.add(sums, owned, sources, adds, elements)
        for component, total in sums.totals.items():
            self.build.store(param, places[component], total)
        return ()

    def place(self, axes: Sequence[int | None], component: Sequence[int], elements: Sequence[Value]) -> list[Value]:
        constants = iter(component)
        return [self.number(next(constants)) if axis is None else elements[axis] for axis in axes]

    def add(
        self,
        sums: _Sums,
        owned: _Owned,
        sources: Sequence[AddingThreads | None],
        adds: Sequence[Addition],
        elements: Sequence[Value],
    ) -> None:
        """Add what one thread adds to the element, if there is such a thread."""
        box = [(s.first, s.last) if s is not None else (0, 0) for s in sources]
        condition = self.between(elements, box, owned.box)
        components = list(dict.fromkeys(add.component for add in adds))

        def there() -> list[Value]:
            tids = [self.thread(e, s) for e, s in zip(elements, sources, strict=True)]
            copy = _Copy(self, {add.op: add.component for add in adds}, tids, sources, sums)
            copy.run(self.source.body)
            return [sums.total(c) for c in components]

        if condition is None:
            there()
            return
        before = dict(sums.totals)

        def absent() -> list[Value]:
            sums.totals = dict(before)
            return [sums.total(c) for c in components]

        totals = self.build.if_(condition, there, absent)
        sums.totals = before | dict(zip(components, totals, strict=True))

    def thread(self, element: Value, source: AddingThreads | None) -> Value:
        """Return the thread along an axis that adds to the element."""
        if source is None:
            return self.number(0)
        *moves, final = source.moves
        found = self.moved(element, -final.by)
        for move in reversed(moves):
            is_before = self.below(element, move.last + move.by)
            found = self.build.call(ROWS["select"], is_before, self.moved(element, -move.by), found)
        return found


class _Sums:
    """The sums of the components of an element, so far."""

    def __init__(self, build: Builder, param: Param):
        self.build = build
        self.dtype = param.dtype
        self.totals: dict[tuple[int, ...], Value] = {}

    def add(self, component: tuple[int, ...], value: Value) -> None:
        before = self.totals.get(component)
        self.totals[component] = value if before is None else self.build.call(ROWS["add"], before, value)

    def total(self, component: tuple[int, ...]) -> Value:
        found = self.totals.get(component)
        return found if found is not None else self.build.const(0, self.dtype)


class _Copy(Rewriter):
    """A copy of the kernel's code that computes what another thread adds."""

    def __init__(
        self,
        into: _Gathered,
        wanted: Mapping[Atomic, tuple[int, ...]],
        tids: Sequence[Value],
        sources: Sequence[AddingThreads | None],
        sums: _Sums,
    ):
        super().__init__(fresh=True)
        self.scopes = into.scopes
        self.lines = into.lines
        self.wanted = wanted
        self.tids = tids
        self.runs = [[(m.first, m.last) for m in s.moves] if s is not None else [(0, 0)] for s in sources]
        self.sums = sums

    def run(self, block: Block) -> None:
        for op in block.ops:
            self.op(op)

    def op(self, op: Op) -> None:
        match op:
            case Tid():
                self.values[op.result] = self.tids[op.axis]
            case Atomic() if op in self.wanted:
                self.sums.add(self.wanted[op], self.value(op.args[0]))
            case Store() | Atomic() | Tell():
                pass
            case Call() if (truth := self.truth(op)) is not None:
                result = Value(bool_)
                self.emit(Const(result, truth))
                self.values[op.result] = result
            case If():
                self.branch(op)
            case _:
                self.copy(op)

    def truth(self, op: Call) -> bool | None:
        """Return the truth of a condition in all threads that this is a copy of; None if it is not known or differs."""
        line = self.lines.of(op.result) if op.result.type is bool_ else None
        if line is None:
            return None
        runs = [(0, 0)] if line.axis is None else self.runs[line.axis]
        found = {bool(p.offset) for p in line.pieces for first, last in runs if p.first <= last and first <= p.last}
        return found.pop() if len(found) == 1 else None

    def branch(self, op: If) -> None:
        inside = [o for inner in op.blocks for o in inner.all_ops if isinstance(o, Atomic) and o in self.wanted]
        components = list(dict.fromkeys(self.wanted[add] for add in inside))
        condition, before = self.value(op.condition), dict(self.sums.totals)
        blocks: list[Block] = []
        for inner in op.blocks:
            self.sums.totals = dict(before)
            self.scopes.append([])
            self.run(inner)
            results = (*self.all(inner.results), *(self.sums.total(c) for c in components))
            blocks.append(Block((), tuple(self.scopes.pop()), results))
        totals = tuple(Value(self.sums.dtype) for _ in components)
        self.emit(If((*self.define(op.results), *totals), condition, *blocks, loc=op.loc))
        self.sums.totals = before | dict(zip(components, totals, strict=True))
