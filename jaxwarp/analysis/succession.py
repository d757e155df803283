"""The order that threads must keep, and the questions to ask a launch at run time that show that they need not.

    y[i * width + j] = ...         no two threads meet if width >= the launch's second extent: known when it runs

Indices are treated as sums of thread indices and loop indices. Their coefficients are sums of products of values that
all threads share: extents, and integers passed by value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Call, Const, For, Load, Op, Param, Size, Store, Tid, Value, walk
from jaxwarp.types import int32, int64

# Products of more factors, and sums of more terms, are not looked at.
_MOST_FACTORS = 6
_MOST_TERMS = 32


@dataclass(frozen=True)
class Leaf:
    """An integer that all threads share: an extent, or (axis None) what is passed by value."""

    param: Param
    axis: int | None


@dataclass(frozen=True)
class Uniform:
    """A sum of products of leaves, each with a number."""

    terms: tuple[tuple[tuple[Leaf, ...], int], ...]

    @staticmethod
    def of(terms: Mapping[tuple[Leaf, ...], int]) -> Uniform:
        kept = [(leaves, number) for leaves, number in terms.items() if number]
        return Uniform(tuple(sorted(kept, key=lambda term: [_rank(leaf) for leaf in term[0]])))

    @staticmethod
    def number(value: int) -> Uniform:
        return Uniform.of({(): value})

    def plus(self, other: Uniform, factor: int = 1) -> Uniform:
        terms = dict(self.terms)
        for leaves, number in other.terms:
            terms[leaves] = terms.get(leaves, 0) + factor * number
        return Uniform.of(terms)

    def times(self, other: Uniform) -> Uniform:
        terms: dict[tuple[Leaf, ...], int] = {}
        for a, m in self.terms:
            for b, n in other.terms:
                leaves = tuple(sorted((*a, *b), key=_rank))
                terms[leaves] = terms.get(leaves, 0) + m * n
        return Uniform.of(terms)

    @property
    def known(self) -> int | None:
        """The number that it is, if it is one whatever the leaves are."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None


def _rank(leaf: Leaf) -> tuple[int, int]:
    return id(leaf.param), -1 if leaf.axis is None else leaf.axis


@dataclass(frozen=True)
class CountedLoop:
    """A loop over start ... stop: its index is start + a number below |stop - start|."""

    start: Uniform
    stop: Uniform
    coefficient: Uniform


@dataclass(frozen=True)
class Apart:
    """No two threads that differ on grid `axes` meet if an index tells them apart: if the coefficient of each axis is
    larger than all that the smaller ones, the loops and constants that differ by `spread` can add up to.

    Attributes:
        axes: grid axis -> its coefficient.
        loops: what else moves the index.
        spread: between the accesses.
        constants: the rest of the index, of each access: nothing may wrap.
        counted: whether some of these indices would count from the end, were they negative: none may be.
    """

    axes: tuple[tuple[int, Uniform], ...]
    loops: tuple[CountedLoop, ...]
    spread: int
    constants: tuple[Uniform, ...]
    counted: bool


@dataclass(frozen=True)
class Succession:
    """The order of the threads of a launch whose stores may meet, on the CPU: after one another, on one core.

    Attributes:
        one_by_one: each thread ends before the next begins; else lanes may keep step.
        apart: what proves at run time that none of this is needed; None: nothing does.
    """

    one_by_one: bool
    apart: tuple[Apart, ...] | None = None


@dataclass(frozen=True)
class Linear:
    """constant + the sum of coefficient * iterator, an iterator being a grid axis or a loop (start aside)."""

    constant: Uniform
    terms: tuple[tuple[int | For, Uniform], ...] = ()

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        terms = dict(self.terms)
        for it, coefficient in other.terms:
            terms[it] = terms.get(it, Uniform(())).plus(coefficient, factor)
        return Linear(self.constant.plus(other.constant, factor), tuple((it, c) for it, c in terms.items() if c.terms))

    def times(self, factor: Uniform) -> Linear:
        scaled = [(it, c.times(factor)) for it, c in self.terms]
        return Linear(self.constant.times(factor), tuple((it, c) for it, c in scaled if c.terms))


class LinearForms:
    """The integers of a kernel that are linear in thread and loop indices, as whole numbers; arithmetic may wrap."""

    def __init__(self, kernel: Kernel):
        written = {op.param for op in walk(kernel.body) if isinstance(op, Store | Atomic)}
        self.fixed = frozenset(p for p in kernel.params if not p.rank and p not in written)
        self.forms: dict[Value, Linear] = {}
        self.bounds: dict[For, tuple[Uniform, Uniform]] = {}
        self.counted: dict[Value, Value] = {}  # indices that count from the end, and as they are written
        self._block(kernel.body)

    def __getitem__(self, value: Value) -> Linear | None:
        return self.forms.get(value)

    def _block(self, block: Block) -> None:
        for op in block.ops:
            form = self._form(op) if op.defined and op.defined[0].type in (int32, int64) else None
            if form is not None and _is_short(form):
                self.forms[op.defined[0]] = form
            if isinstance(op, Call) and op.builtin.name == "from_end":
                self.counted[op.result] = op.args[0]
            if isinstance(op, For):
                self._loop(op)
            for inner in op.blocks:
                self._block(inner)

    def _loop(self, op: For) -> None:
        start, stop = self.forms.get(op.start), self.forms.get(op.stop)
        if start is None or stop is None or start.terms or stop.terms or op.start.type not in (int32, int64):
            return
        self.bounds[op] = start.constant, stop.constant
        self.forms[op.body.params[0]] = start.plus(Linear(Uniform(()), ((op, Uniform.number(1)),)))

    def _form(self, op: Op) -> Linear | None:
        match op:
            case Const():
                return Linear(Uniform.number(int(op.value)))
            case Tid():
                return Linear(Uniform(()), ((op.axis, Uniform.number(1)),))
            case Size():
                known = op.param.shape[op.axis]
                return Linear(Uniform.of({(Leaf(op.param, op.axis),): 1}) if known is None else Uniform.number(known))
            case Load() if op.param in self.fixed:
                return Linear(Uniform.of({(Leaf(op.param, None),): 1}))
            case Call():
                args = [self.forms.get(v) for v in op.args]
                return None if None in args else _called(op.builtin.name, [a for a in args if a is not None])
            case _:
                return None


def _called(name: str, args: Sequence[Linear]) -> Linear | None:
    match name, args:
        case "add", (a, b):
            return a.plus(b)
        case "sub", (a, b):
            return a.plus(b, -1)
        case "neg", (a,):
            return a.times(Uniform.number(-1))
        case "mul", (a, b):
            return a.times(b.constant) if not b.terms else b.times(a.constant) if not a.terms else None
        case "cast", (a,):
            return a
        case _:
            return None


def _is_short(form: Linear) -> bool:
    uniforms = (form.constant, *(c for _, c in form.terms))
    return all(len(u.terms) <= _MOST_TERMS and all(len(f) <= _MOST_FACTORS for f, _ in u.terms) for u in uniforms)


def told_at_run_time(
    forms: LinearForms, addresses: Sequence[Sequence[Value]], axes: frozenset[int]
) -> tuple[Apart, ...] | None:
    """Return questions that show at run time that threads which differ on these grid axes do not meet at any address.

    None: there are no such questions. A question is about an index on one axis of the array, and tells apart the grid
    axes that the index moves with.
    """
    left, found = set(axes), list[Apart]()
    for column in zip(*addresses, strict=True):
        question = _question(forms, column)
        if question is not None and not left.isdisjoint(axis for axis, _ in question.axes):
            left -= {axis for axis, _ in question.axes}
            found.append(question)
    return None if left else tuple(found)


def _question(forms: LinearForms, column: Sequence[Value]) -> Apart | None:
    found = [forms[forms.counted.get(v, v)] for v in column]
    if None in found:
        return None
    linear = [form for form in found if form is not None]
    threads = [frozenset((it, c) for it, c in form.terms if isinstance(it, int)) for form in linear]
    shifts = [form.constant.plus(linear[0].constant, -1).known for form in linear]
    if any(part != threads[0] for part in threads) or None in shifts or not threads[0]:
        return None
    numbers = [n for n in shifts if n is not None]
    loops = {
        CountedLoop(*forms.bounds[it], coefficient)
        for form in linear
        for it, coefficient in form.terms
        if not isinstance(it, int)
    }
    constants = tuple(dict.fromkeys(form.constant for form in linear))
    counted = not forms.counted.keys().isdisjoint(column)
    return Apart(tuple(threads[0]), tuple(loops), max(numbers) - min(numbers), constants, counted)
