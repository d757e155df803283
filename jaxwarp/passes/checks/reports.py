"""The reports on threads that fail a check, while a kernel is being checked; `lay_out` gives them a place in memory.

    if not ok { report "index {0} of ...", (%i) }

A report is a store to a parameter that stands for it, indexed by the numbers of its text, so that no pass moves or
drops it. A thread keeps the first that it comes to, in an array of its own. At its end it writes that to the *record*,
an int64 array of the launch which starts as zeros:

    record[0]               2^62 - key of the first thread that failed: the greatest of all threads'
    record[1]               how many rows have been written
    record[2]               not zero: some loop was given up, so others need not run on
    record[HEAD + ...]      rows: 2^62 - key, number of the report, thread index, numbers of the report

A thread writes a row if it is the first so far (by `atomic_max`), so the last of them is in the record, on any
number of cores and lanes. Rows are a ring.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.errors import Loc
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Block, Op, Param, Store, Tell, Value
from jaxwarp.ir.rewrite import Rewriter
from jaxwarp.types import bool_, float64, int32, int64

HEAD, ROWS_KEPT = 4, 32
# The most numbers of a report.
WORDS = 12
_BEST, _COUNT, GAVE_UP = range(3)
_TOP = 1 << 62
_MOST_REPORTS = 1 << 16
_KEY, _NUMBER = range(2)


@dataclass(frozen=True)
class Report:
    """A failure at one place of a kernel.

    Attributes:
        text: with {0}, {1}, ... where the numbers belong.
        words: how many these are.
        formats: of each, as `Tell` has them: of a float, the word is the bits of the float64; none: they are integers.
    """

    text: str
    loc: Loc | None
    words: int
    formats: tuple[str, ...] = ()

    def filled(self, words: Sequence[str]) -> str:
        """The text with its numbers, as they are shown."""
        text = self.text
        for i in range(self.words):
            text = text.replace(f"{{{i}}}", words[i])
        return text

    def format(self, word: int) -> str:
        """Return the format of a number of the text."""
        return self.formats[word] if self.formats else "%d"


@dataclass
class Reports:
    """The reports of a kernel, by what stands for them in it.

    Attributes:
        arrays: what parameters are called.
        batched: so many leading axes of the launch are those of batches.
        in_front: so many leading axes of parameters are threads, which reports leave out.
    """

    arrays: dict[Param, str]
    batched: int = 0
    of: dict[Param, Report] = field(default_factory=dict)
    in_front: dict[Param, int] = field(default_factory=dict)

    def array(self, param: Param) -> str:
        """Return the name of an array in reports."""
        return self.arrays.get(param, f"array {param.name}")

    def emit(self, builder: Builder, text: str, words: Sequence[Value], loc: Loc | None) -> None:
        """Says here that the thread has failed. `words` are integers."""
        self.put(builder, Report(text, loc, len(words)), words)

    def tell(self, builder: Builder, op: Tell) -> None:
        """Says here what the operation says."""
        slots = [*(f"{{{i}}}" for i in range(len(op.args))), ""]
        text = "".join(part for pair in zip(op.texts, slots, strict=True) for part in pair)
        words = [_as_integer(builder, value) for value in op.args]
        self.put(builder, Report(text, op.loc, len(words), op.formats), words)

    def put(self, builder: Builder, report: Report, words: Sequence[Value]) -> None:
        """The report here, with its numbers."""
        param = Param(f"report{len(self.of)}", bool_, (None,) * len(words))
        self.of[param] = report
        wide = [w if w.type in (int32, int64) else builder.call(ROWS["cast"], w, dtype=int64) for w in words]
        builder.store(param, wide, builder.const(True, bool_))


def _as_integer(builder: Builder, value: Value) -> Value:
    if not value.type.is_float:
        return builder.call(ROWS["cast"], value, dtype=int64)
    wide = value if value.type is float64 else builder.call(ROWS["cast"], value, dtype=float64)
    return builder.call(ROWS["bitcast"], wide, dtype=int64)


@dataclass(frozen=True)
class RecordLayout:
    """The layout of the record of a launch of `rank` axes, without the axes that have records of their own."""

    rank: int

    @property
    def row(self) -> int:
        return 2 + self.rank + WORDS

    @property
    def size(self) -> int:
        return HEAD + ROWS_KEPT * self.row


Extent = int | tuple[Param, int]
"""An extent of the launch: a number, or an axis of a parameter that has it."""


def lay_out(
    kernel: Kernel,
    reports: Reports,
    numbers: Sequence[Report],
    record: Param,
    grid: Sequence[Extent],
    own: int = 0,
    *,
    at_once: bool = False,
) -> Kernel:
    """The kernel with its reports written to `record`, its last parameter.

    Args:
        kernel: with stores that stand for reports.
        reports: what they stand for.
        numbers: the number of a report is its place here; others have the next one.
        record: int64, of `own` axes and one of `RecordLayout.size`.
        grid: the extents of the launch.
        own: so many leading axes of the launch have a record for each of their indices.
        at_once: a report is written where it is: of those of one thread the one of the least number is told.
    """
    known = {report: number for number, report in enumerate(numbers)}
    numbered = {param: known.get(report, len(known)) for param, report in reports.of.items()}
    words = max((report.words for report in reports.of.values()), default=0)
    layout = _AtOnce if at_once else _LayOut
    return layout(numbered, words, record, grid, own).kernel(kernel)


class _LayOut(Rewriter):
    def __init__(self, numbers: dict[Param, int], words: int, record: Param, grid: Sequence[Extent], own: int):
        super().__init__()
        self.b = Builder(self.scopes)
        self.numbers, self.words = numbers, words
        self.layout, self.record, self.grid, self.own = RecordLayout(len(grid) - own), record, grid, own
        # The first report of a thread: its number from 1 on, and its words.
        self.first = Param(f"first_{record.name}", int64, (1 + words,))

    def kernel(self, kernel: Kernel) -> Kernel:
        self.scopes.append([])
        self.b.loc = None
        self.b.store(self.first, (self.index(0),), self.number(0))
        for op in kernel.body.ops:
            self.op(op)
        self.b.loc = None
        self.write_first()
        body = Block((), tuple(self.scopes.pop()), ())
        params = tuple(p for p in kernel.params if p not in self.numbers)
        return Kernel(kernel.name, kernel.grid_rank, (*params, self.record), body, (*kernel.locals, self.first))

    def op(self, op: Op) -> None:
        if not isinstance(op, Store) or op.param not in self.numbers:
            self.copy(op)
            return
        self.b.loc = op.loc
        number, words = self.numbers[op.param], [self.wide(w) for w in self.all(op.indices)]

        def keep() -> Sequence[Value]:
            for i, word in enumerate((self.number(number + 1), *words)):
                self.b.store(self.first, (self.index(i),), word)
            return ()

        is_first = self.b.call(ROWS["eq"], self.b.load(self.first, (self.index(0),)), self.number(0))
        self.b.if_(is_first, keep)

    def index(self, i: int) -> Value:
        return self.b.const(i, int32)

    def number(self, n: int) -> Value:
        return self.b.const(n, int64)

    def wide(self, value: Value) -> Value:
        return value if value.type is int64 else self.b.call(ROWS["cast"], value, dtype=int64)

    def write_first(self) -> None:
        """At the end of a thread: its report, if it has one."""
        b = self.b
        number = b.load(self.first, (self.index(0),))

        def write() -> Sequence[Value]:
            self.write(number, [b.load(self.first, (self.index(1 + i),)) for i in range(self.words)])
            return ()

        b.if_(b.call(ROWS["ne"], number, self.number(0)), write)

    def write(self, number: Value, words: Sequence[Value]) -> None:
        """Writes a report of this thread, given its number from 1 on."""
        tids = [self.b.tid(axis) for axis in range(len(self.grid))]
        item, rest = tids[: self.own], [self.wide(t) for t in tids[self.own :]]
        thread = thread_number(self.b, self.grid, self.own)
        write_failure(self.b, Row(self.record, self.layout, item), thread, number, [*rest, *words])


class _AtOnce(_LayOut):
    """Nothing is kept: threads that do not fail have nothing to do but the tests."""

    def kernel(self, kernel: Kernel) -> Kernel:
        made = Rewriter.kernel(self, kernel)
        params = tuple(p for p in made.params if p not in self.numbers)
        return replace(made, params=(*params, self.record))

    def op(self, op: Op) -> None:
        if not isinstance(op, Store) or op.param not in self.numbers:
            self.copy(op)
            return
        self.b.loc = op.loc
        self.write(self.number(self.numbers[op.param] + 1), [self.wide(w) for w in self.all(op.indices)])


@dataclass(frozen=True)
class Row:
    """The place of a failure: the record at indices of `item`, if there are several."""

    record: Param
    layout: RecordLayout
    item: Sequence[Value]


def thread_number(b: Builder, grid: Sequence[Extent], start: int = 0) -> Value:
    """The number of a thread in row-major order of the axes from `start` on."""
    number = b.const(0, int64)
    for axis, extent in list(enumerate(grid))[start:]:
        known = isinstance(extent, int)
        wide = b.const(extent, int64) if known else b.call(ROWS["cast"], b.size(*extent), dtype=int64)
        tid = b.call(ROWS["cast"], b.tid(axis), dtype=int64)
        number = b.call(ROWS["add"], b.call(ROWS["mul"], number, wide), tid)
    return number


def write_failure(b: Builder, row: Row, thread: Value, number: Value, words: Sequence[Value]) -> None:
    """Writes a failure, unless a thread before it is known to have one. `number` is that of the report from 1 on."""

    def const(n: int) -> Value:
        return b.const(n, int64)

    shifted = b.call(ROWS["mul"], thread, const(_MOST_REPORTS))
    order = b.call(ROWS["add"], shifted, b.call(ROWS["min"], number, const(_MOST_REPORTS - 1)))
    key = b.call(ROWS["sub"], const(_TOP), order)
    before = b.atomic("max", row.record, (*row.item, b.const(_BEST, int32)), key)

    def write() -> Sequence[Value]:
        count = b.atomic("add", row.record, (*row.item, b.const(_COUNT, int32)), const(1))
        start = b.call(ROWS["mul"], b.call(ROWS["bit_and"], count, const(ROWS_KEPT - 1)), const(row.layout.row))
        for i, word in enumerate((key, number, *words)):
            b.store(row.record, (*row.item, b.call(ROWS["add"], start, const(HEAD + i))), word)
        return ()

    b.if_(b.call(ROWS["lt"], before, key), write)


def first_row(record: Sequence[int], row: int) -> list[int] | None:
    """The row of the first thread that failed; None if none did. Only its key where the row is lost."""
    if record[_BEST] == 0:
        return None
    rows = (list(record[at : at + row]) for at in range(HEAD, HEAD + ROWS_KEPT * row, row))
    return next((r for r in rows if r[_KEY] == record[_BEST]), [record[_BEST]])


def number_of(row: Sequence[int]) -> int:
    """Return the number of the report in a row."""
    return (_TOP - row[_KEY]) % _MOST_REPORTS - 1
