"""After a launch: which of its threads raced, by the marks that they have left. See races.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Param, Value
from jaxwarp.passes.checks.races import PLACES, TOP, Marked, halves
from jaxwarp.passes.checks.reports import RecordLayout, Report, Reports, Row, write_failure
from jaxwarp.types import int32, int64

_VERBS = {"store": "stores to", "load": "reads", "atomic": "updates"}
# Indices of an element that are told.
_MOST_WORDS = 5


@dataclass(frozen=True)
class Scan:
    """A launch after the launch, which finds races on one array.

    Attributes:
        kernel: its parameters are the marks and a record; it has a thread for each element of the array.
        array: the number of the parameter whose elements are marked.
        fields: numbers for each of them.
    """

    kernel: Kernel
    array: int
    fields: int


def race_reports(
    array: Marked, reports: Reports, rank: int, checks: Sequence[str]
) -> list[tuple[int, int, bool, Report]]:
    """Return the possible reports on an array: places of two threads, whether they store one value, and the text."""
    threads = rank - reports.batched
    indices = [a for a in range(array.param.rank) if a not in array.items][:_MOST_WORDS]
    other = _slots(0, threads)
    element = _slots(threads, len(indices))
    found: list[tuple[int, int, bool, Report]] = []
    for i, first in enumerate(array.places):
        for j, second in enumerate(array.places):
            kinds = {first.kind, second.kind}
            if "store" not in kinds and kinds != {"atomic", "load"}:
                continue
            line = f" in line {second.loc.line}" if second.loc is not None else ""
            text = f"it {_VERBS[first.kind]} element {element} of {reports.array(array.param)}"
            text = f"{text}, which thread {other} {_VERBS[second.kind]}{line}"
            words = threads + len(indices)
            if "races" in checks:
                found.append((i, j, False, Report(f"race: {text}", first.loc, words)))
            if "equal_stores" in checks and kinds == {"store"}:
                found.append((i, j, True, Report(f"stores of one value: {text}", first.loc, words)))
    return found


def _slots(start: int, count: int) -> str:
    listed = ", ".join(f"{{{start + n}}}" for n in range(count))
    return f"({listed},)" if count == 1 else f"({listed})"


@dataclass(frozen=True)
class Scanned:
    """The state that scans of a launch share: its reports and their numbers, its record and grid, and the checks.

    `own`: this many leading axes of the grid have a record for each of their indices.
    """

    reports: Reports
    numbers: Sequence[Report]
    record: Param
    grid: Sequence[int]
    own: int
    checks: Sequence[str]


# The marks of one kind of access, as they are and as numbers of threads and places.
_Kept = tuple[Sequence[Value], tuple[Value, Value]]


class _ScanMaker:
    """Builds the kernel of a `Scan`."""

    def __init__(self, array: Marked, scanned: Scanned):
        self.b = Builder()
        self.array, self.record, self.grid, self.own = array, scanned.record, scanned.grid, scanned.own
        self.batched, self.checks = scanned.reports.batched, scanned.checks
        known = {report: n for n, report in enumerate(scanned.numbers)}
        told = race_reports(array, scanned.reports, len(scanned.grid), scanned.checks)
        self.reports = [(i, j, same, known.get(report, len(known))) for i, j, same, report in told]

    def made(self) -> Kernel:
        b, array = self.b, self.array
        element = [b.tid(axis) for axis in range(array.param.rank)]
        self.element = element
        marks = {k: [self.load(array.field(k) + end) for end in (0, 1)] for k in array.kinds}
        numbers = {k: self.ends(*found) for k, found in marks.items()}
        if "store" in array.kinds:
            self.stores(marks["store"], numbers["store"])
        for other in ("load", "atomic"):
            if "store" in array.kinds and other in array.kinds:
                self.pair((marks["store"], numbers["store"]), (marks[other], numbers[other]))
        if {"load", "atomic"} <= set(array.kinds):
            self.pair((marks["load"], numbers["load"]), (marks["atomic"], numbers["atomic"]))
        return b.finish(f"races_{array.param.name}", max(array.param.rank, 1), (array.marks, self.record))

    def load(self, field: int) -> Value:
        return self.b.load(self.array.marks, (*self.element, self.b.const(field, int32)))

    def number(self, n: int) -> Value:
        return self.b.const(n, int64)

    def call(self, name: str, *args: Value) -> Value:
        return self.b.call(ROWS[name], *args)

    def ends(self, low: Value, high: Value) -> tuple[Value, Value]:
        """The least and the greatest number that was kept."""
        return self.call("sub", self.number(TOP), low), self.call("sub", high, self.number(1))

    def thread(self, mark: Value) -> Value:
        return self.call("shr", mark, self.number(PLACES.bit_length() - 1))

    def differ(self, a: Value, b: Value) -> Value:
        return self.call("ne", self.thread(a), self.thread(b))

    def is_there(self, marks: Sequence[Value]) -> Value:
        return self.call("ne", marks[0], self.number(0))

    def stores(self, marks: Sequence[Value], ends: tuple[Value, Value]) -> None:
        both = self.call("logical_and", self.is_there(marks), self.differ(*ends))
        same = self.b.const(True, both.type)
        for half in range(halves(self.array.param.dtype)):
            field = self.array.value_field + 2 * half
            low, high = self.ends(self.load(field), self.load(field + 1))
            same = self.call("logical_and", same, self.call("eq", low, high))
        if "races" in self.checks:
            self.tell(self.call("logical_and", both, self.call("logical_not", same)), *ends, False)
        if "equal_stores" in self.checks:
            self.tell(self.call("logical_and", both, same), *ends, True)

    def pair(self, a: _Kept, c: _Kept) -> None:
        """The first thread of both kinds with another one of the other kind; or else the one that is of both."""
        if "races" not in self.checks:
            return
        (low, high), (least, most) = a[1], c[1]
        is_first = self.call("le", low, least)
        first, other = self.call("select", is_first, low, least), self.call("select", is_first, most, high)
        again, rest = self.call("select", is_first, least, low), self.call("select", is_first, high, most)
        found, more = self.differ(first, other), self.differ(again, rest)
        there = self.call("logical_and", self.is_there(a[0]), self.is_there(c[0]))
        condition = self.call("logical_and", there, self.call("logical_or", found, more))
        self.tell(condition, self.call("select", found, first, again), self.call("select", found, other, rest), False)

    def tell(self, condition: Value, first: Value, second: Value, is_same: bool) -> None:
        self.b.if_(condition, lambda: self.write(first, second, is_same))

    def write(self, first: Value, second: Value, is_same: bool) -> Sequence[Value]:
        b = self.b
        places = [self.call("bit_and", m, self.number(PLACES - 1)) for m in (first, second)]
        number = self.number(0)
        for i, j, same, known in self.reports:
            if same == is_same:
                tests = [self.call("eq", p, self.number(n)) for p, n in zip(places, (i, j), strict=True)]
                number = self.call("select", self.call("logical_and", *tests), self.number(known + 1), number)
        tids, others = self.split(self.thread(first)), self.split(self.thread(second))
        shown = [a for a in range(self.array.param.rank) if a not in self.array.items][:_MOST_WORDS]
        element = [b.call(ROWS["cast"], self.element[a], dtype=int64) for a in shown]
        item = [b.call(ROWS["cast"], t, dtype=int32) for t in tids[: self.own]]
        row = Row(self.record, RecordLayout(len(self.grid) - self.own), item)
        thread = self.whole(tids[self.own :], self.grid[self.own :])
        write_failure(b, row, thread, number, [*tids[self.own :], *others[self.batched :], *element])
        return ()

    def whole(self, tids: Sequence[Value], grid: Sequence[int]) -> Value:
        number = self.number(0)
        for tid, extent in zip(tids, grid, strict=True):
            number = self.call("add", self.call("mul", number, self.number(extent)), tid)
        return number

    def split(self, thread: Value) -> list[Value]:
        """The thread index."""
        tids: list[Value] = []
        for extent in reversed(self.grid):
            tids.append(self.call("mod", thread, self.number(extent)))
            thread = self.call("div", thread, self.number(extent))
        return tids[::-1]


def make_scans(arrays: Sequence[Marked], kernel: Kernel, scanned: Scanned) -> tuple[Scan, ...]:
    """The launches that find races of a launch of `kernel`."""
    return tuple(Scan(_ScanMaker(a, scanned).made(), kernel.params.index(a.param), a.fields) for a in arrays)
