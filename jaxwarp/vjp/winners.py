"""Stores that may meet, made so that they do not: each element is given to the last thread that stores there.

    store y[i], v        ->   atomic_max winner[i], n                  the finder, launched first
                         ->   w = load winner[i]                       the kernel, which does the same in any order
                              if w == n { store y[i], v }

n - 1 is the number of the thread, by the axes of the grid on which threads that meet may differ. So is each element of
a minimum or maximum, among the threads whose value it is in the end:

    atomic_max y[i], v   ->   f = load y_final[i]                      the finder, launched after the kernel
                              if v == f { atomic_max winner[i], n }
                         ->   the same; w = load winner[i]             what derivatives are made of
                              if w == n { if v == f { store y[i], v } }

Where a kernel also
reads such an array, or updates it by atomics, nothing makes it independent of the order of threads. Then a launch finds
out whether they meet:

    load y[i]            ->   atomic_max y_reads_last[i], n            and of the numbers counted from the end,
                              atomic_max y_reads_first[i], limit - n   which tells whether it was one thread only
    store y[i], v        ->   the same with y_stores_last, ...;   atomics: y_updates_last, ...
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from jaxwarp.analysis.addresses import Access, Grid, Ownership, ownership_of, require_no_visible_race
from jaxwarp.analysis.collisions import Collisions
from jaxwarp.analysis.thread_values import Shapes
from jaxwarp.deep import with_deep_stack
from jaxwarp.errors import DifferentiationError
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, If, Load, Op, Param, Size, Store, Value, walk
from jaxwarp.ir.rewrite import Rewriter
from jaxwarp.types import int32
from jaxwarp.vjp.activity import Activity, used_values
from jaxwarp.vjp.calculus import Calculus
from jaxwarp.vjp.derived import Derived, marking
from jaxwarp.vjp.replay import take_replays
from jaxwarp.vjp.reports import make_report

# Numbers of threads are of 32 bits, and so are those counted from the end.
LIMIT = 2**31 - 1

Extents = Mapping[int, tuple[int, int]]
"""Of grid axes whose extents are not known: parameter and axis that have the same."""


@dataclass(frozen=True)
class Contest:
    """A kernel whose stores may meet, without such stores.

    Attributes:
        finder: finds the winners; they are its slots "winner".
        kernel: its last parameters are the winners, in this order.
        arrays: the parameters that the winners are of.
    """

    finder: Derived
    kernel: Kernel
    arrays: tuple[int, ...]


@with_deep_stack
def hold_contest(
    kernel: Kernel, wanted: Collection[int], grid: Grid, shapes: Shapes, extents: Extents
) -> Contest | None:
    """The kernel with winners for the arrays that are active by `wanted` parameters; None: no stores to them may meet.

    Args:
        kernel: one whose rounding is fixed.
        wanted: positions of its parameters.
        grid: launch extents, as far as they are known.
        shapes: extents of arrays, likewise.
        extents: for those of the grid that are not known.

    Raises:
        DifferentiationError: there may be too many threads, with the line.
    """
    if take_replays(kernel, grid).finals:
        return None  # where its functions store is not known before they have run
    collisions = Collisions(kernel, grid, shapes)
    active = Activity(kernel, [kernel.params[i] for i in wanted]).params
    arrays = [p for p in collisions.stored_only() if p in active and collisions.of(p)]
    if not arrays:
        return None
    require_no_visible_race(kernel, grid)
    numbers = {p: _Number(collisions.ownership, p, extents) for p in arrays}
    winners = {p: Param(f"{p.name}_winner", int32, p.shape) for p in arrays}
    places = tuple(kernel.params.index(p) for p in arrays)
    masked = _Mask(numbers, winners).kernel(kernel)
    masked = replace(masked, name=f"{kernel.name}_last", params=(*kernel.params, *winners.values()))
    found = _Find(numbers, winners).kernel(kernel)
    finder = marking(
        replace(found, name=f"{kernel.name}_winners"), (), {i: winners[p] for i, p in zip(places, arrays, strict=True)}
    )
    return Contest(finder, masked, places)


@with_deep_stack
def hold_selection(
    kernel: Kernel, wanted: Collection[int], grid: Grid, shapes: Shapes, extents: Extents
) -> Contest | None:
    """The kernel with winners for active arrays of which threads that may meet leave minima or maxima; None: no such.

    The kernel stores, and has, after the winners, what it leaves in these arrays as parameters. See `hold_contest`.
    """
    replayed = take_replays(kernel, grid)
    ownership = ownership_of(replayed.kernel, grid, shapes, sized=True)
    active = Activity(kernel, [kernel.params[i] for i in wanted]).params
    arrays = [p for p in selected_only(replayed.kernel) if p in active and not ownership.is_private(p)]
    if not arrays:
        return None
    numbers = {p: _Number(ownership, p, extents) for p in arrays}
    winners = {p: Param(f"{p.name}_winner", int32, p.shape) for p in arrays}
    finals = {p: Param(f"{p.name}_final", p.dtype, p.shape) for p in arrays}
    places = tuple(kernel.params.index(p) for p in arrays)
    chosen = _Select(numbers, winners, finals).kernel(kernel)
    params = (*kernel.params, *winners.values(), *finals.values())
    found = _FindSelected(numbers, winners, finals).kernel(replayed.kernel)
    found = replace(found, name=f"{kernel.name}_winners", params=(*found.params, *finals.values()))
    left = [*(kernel.params.index(p) for p in replayed.finals), *places]
    finder = marking(found, left, {i: winners[p] for i, p in zip(places, arrays, strict=True)})
    return Contest(finder, replace(chosen, name=f"{kernel.name}_selected", params=params), places)


def selected_only(kernel: Kernel) -> list[Param]:
    """The arrays of floats of which a kernel makes minima or maxima, and does nothing else with."""
    used, found = used_values(kernel), dict[Param, set[str]]()
    for op in walk(kernel.body):
        if isinstance(op, (Load, Store, Atomic)):
            kind = op.kind if isinstance(op, Atomic) and op.result not in used else ""
            found.setdefault(op.param, set()).add(kind)
    return [p for p in kernel.params if p.dtype.is_float and found.get(p) in ({"min"}, {"max"})]


@dataclass(frozen=True)
class Survey:
    """A search for threads that meet in arrays that they read and write.

    Attributes:
        finder: its slots "winner" are pairs, the last thread and the first one counted from the end, for each way of
            access of each array, in this order.
        ways: for each array (a parameter), how it is accessed: "reads", "stores", "updates".
    """

    finder: Derived
    ways: tuple[tuple[int, tuple[str, ...]], ...]


@with_deep_stack
def make_survey(kernel: Kernel, grid: Grid, shapes: Shapes, extents: Extents) -> Survey | None:
    """Build the survey of a kernel whose rounding is fixed. See `hold_contest`.

    The result is None if threads share no element that depends on their order.
    """
    replayed = take_replays(kernel, grid)
    ownership = ownership_of(replayed.kernel, grid, shapes, sized=True)
    arrays: dict[Param, list[str]] = {}
    for param, accesses in ownership.accesses.items():
        ways = [way for way, kind in _WAYS.items() if any(isinstance(op, kind) for op in accesses)]
        is_shared = param not in ownership.locals and not ownership.is_private(param)
        if is_shared and (len(ways) > 1 or (ways == ["stores"] and replayed.finals)):
            arrays[param] = ways
    if not arrays:
        return None
    numbers = {p: _Number(ownership, p, extents) for p in arrays}
    marks = {
        (p, way, end): Param(f"{p.name}_{way}_{end}", int32, p.shape)
        for p, ways in arrays.items()
        for way in ways
        for end in ("last", "first")
    }
    places = tuple(replayed.kernel.params.index(p) for p in arrays)
    found = _Survey(numbers, marks).kernel(replayed.kernel)
    of = [(replayed.kernel.params.index(p), mark) for (p, _, _), mark in marks.items()]
    finals = [kernel.params.index(p) for p in replayed.finals]
    return Survey(
        marking(replace(found, name=f"{kernel.name}_meetings"), finals, of),
        tuple((i, tuple(ways)) for i, ways in zip(places, arrays.values(), strict=True)),
    )


def report_meeting(kernel: Kernel, index: int) -> Kernel:
    """Make what fails for one thread where `met` is True of an array of the kernel: else `factor`, NaN then, is 1."""
    param = kernel.params[index]
    access = next(op for op in walk(kernel.body) if isinstance(op, Access) and op.param is param)
    text = (
        f"two threads have met at an element of {param.name}, which the kernel reads and writes: what is left depends "
        "on their order, and the derivative is not defined. Read an input and write an output, or keep the indices "
        "apart"
    )
    return make_report(f"{kernel.name}_met", text, access.loc)


_WAYS: Mapping[str, type[Access]] = {"reads": Load, "stores": Store, "updates": Atomic}


class _Number:
    """The number of a thread from 1 on, as far as threads that meet in an array may differ."""

    def __init__(self, ownership: Ownership, param: Param, extents: Extents):
        told = ownership.told(ownership.accesses[param])
        self.axes = [it for it in ownership.addresses.forms.grid if it.extent != 1 and it not in told]
        self.params, self.extents = ownership.addresses.kernel.params, extents
        self.first = ownership.accesses[param][0]
        count = 1
        for it in self.axes:
            count *= it.extent or 1
        if count >= LIMIT or any(it.extent is None and it.axis not in extents for it in self.axes[1:]):
            raise DifferentiationError(
                f"threads may meet at elements of {param.name}, and who is the last of them is not told where a launch "
                f"has {LIMIT} threads or more, or an unknown number",
                self.first.loc,
            )

    def emit(self, builder: Builder) -> Value:
        o = Calculus(builder)
        total = o.number(0, int32)
        for n, it in enumerate(self.axes):
            axis = it.axis or 0
            index = builder.tid(axis)
            total = index if n == 0 else o.add(o.mul(total, self._extent(builder, axis, it.extent)), index)
        return o.add(total, 1)

    def _extent(self, builder: Builder, axis: int, extent: int | None) -> Value:
        if extent is not None:
            return builder.const(extent, int32)
        param, its = self.extents[axis]
        return builder.size(self.params[param], its)


class _Numbered(Rewriter):
    """Rewrites accesses with the number of the thread."""

    def __init__(self, numbers: Mapping[Param, _Number]):
        super().__init__()
        self.of = dict(numbers)
        self.numbers: dict[Param, Value] = {}

    def kernel(self, kernel: Kernel) -> Kernel:
        builder = Builder()
        self.numbers = {p: number.emit(builder) for p, number in self.of.items()}
        rest = super().kernel(kernel)
        return replace(rest, body=Block((), (*builder.here, *rest.body.ops), ()))

    def add(self, builder: Builder) -> None:
        for op in builder.here:
            self.emit(op)


class _Mask(_Numbered):
    def __init__(self, numbers: Mapping[Param, _Number], winners: Mapping[Param, Param]):
        super().__init__(numbers)
        self.winners = winners

    def op(self, op: Op) -> None:
        if not isinstance(op, Store) or op.param not in self.winners:
            self.copy(op)
            return
        builder = Builder()
        builder.loc = op.loc
        winner = builder.load(self.winners[op.param], op.indices)
        is_last = Calculus(builder).eq(winner, self.numbers[op.param])
        builder.append(If((), is_last, Block((), (op,), ()), Block((), (), ()), loc=op.loc))
        self.add(builder)


class _Find(_Numbered):
    def __init__(self, numbers: Mapping[Param, _Number], winners: Mapping[Param, Param]):
        super().__init__(numbers)
        self.winners = winners

    def op(self, op: Op) -> None:
        if isinstance(op, Size) and op.param in self.winners:
            self.emit(Size(op.result, self.winners[op.param], op.axis, loc=op.loc))
        elif isinstance(op, Store) and op.param in self.winners:
            winner = self.winners[op.param]
            self.emit(Atomic(Value(int32), "max", winner, op.indices, (self.numbers[op.param],), loc=op.loc))
        else:
            self.copy(op)


class _Select(_Numbered):
    """Stores of the last thread whose value is what is left."""

    def __init__(
        self, numbers: Mapping[Param, _Number], winners: Mapping[Param, Param], finals: Mapping[Param, Param]
    ):
        super().__init__(numbers)
        self.winners, self.finals = winners, finals

    def op(self, op: Op) -> None:
        if not isinstance(op, Atomic) or op.param not in self.winners:
            self.copy(op)
            return
        builder = Builder()
        builder.loc = op.loc
        builder.append(self.selected(builder, op))
        self.add(builder)

    def selected(self, builder: Builder, op: Atomic) -> If:
        winner = builder.load(self.winners[op.param], op.indices)
        is_winner = Calculus(builder).eq(winner, self.numbers[op.param])
        with builder.block() as ops:
            store = Store(op.param, op.indices, op.args[0], loc=op.loc)
            builder.append(_if(self.is_final(builder, op), store))
        return _if(is_winner, *ops)

    def is_final(self, builder: Builder, op: Atomic) -> Value:
        return Calculus(builder).eq(op.args[0], builder.load(self.finals[op.param], op.indices))


class _FindSelected(_Select):
    def op(self, op: Op) -> None:
        if isinstance(op, Size) and op.param in self.finals:
            self.emit(Size(op.result, self.finals[op.param], op.axis, loc=op.loc))
        else:
            super().op(op)

    def selected(self, builder: Builder, op: Atomic) -> If:
        winner = self.winners[op.param]
        found = Atomic(Value(int32), "max", winner, op.indices, (self.numbers[op.param],), loc=op.loc)
        return _if(self.is_final(builder, op), found)


def _if(condition: Value, *ops: Op) -> If:
    return If((), condition, Block((), ops, ()), Block((), (), ()), loc=ops[-1].loc)


class _Survey(_Numbered):
    def __init__(self, numbers: Mapping[Param, _Number], marks: Mapping[tuple[Param, str, str], Param]):
        super().__init__(numbers)
        self.marks = marks

    def op(self, op: Op) -> None:
        self.copy(op)
        way = next((way for way, kind in _WAYS.items() if isinstance(op, kind)), None)
        if way is None or not isinstance(op, Access) or op.param not in self.numbers:
            return
        builder, number = Builder(), self.numbers[op.param]
        builder.loc = op.loc
        builder.atomic("max", self.marks[op.param, way, "last"], op.indices, number)
        from_end = Calculus(builder).sub(builder.const(LIMIT, int32), number)
        builder.atomic("max", self.marks[op.param, way, "first"], op.indices, from_end)
        self.add(builder)
