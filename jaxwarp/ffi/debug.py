"""Debug mode in JAX: which launches are checked, and how what a check finds reaches the caller."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from jaxwarp.errors import CheckError, located_text
from jaxwarp.ir.kernel import Kernel as KernelIR
from jaxwarp.ir.texts import formatted
from jaxwarp.launches.code import key_of
from jaxwarp.launches.on_memory import launch_on
from jaxwarp.launches.spec import INPUT, OUTPUT, Dim, LaunchSpec, intern_kernel, is_static
from jaxwarp.memory.scope import Scope
from jaxwarp.passes.checks.checked import CheckedKernel, Debug, checked
from jaxwarp.passes.checks.reports import RecordLayout, Report, first_row, number_of

_CACHE = 512
# How the text of an error of XLA's begins that is a failed check (native/reports.h).
FAILED = "jaxwarp: check failed: "


def record_shape(launch: LaunchSpec) -> tuple[Dim, ...]:
    """Return the shape of a launch's record as a result of 32-bit words: JAX may have no 64-bit types."""
    debug = launch.debug
    assert debug is not None
    return (*launch.grid[: debug.own], RecordLayout(len(launch.grid) - debug.own).size, 2)


@functools.lru_cache(maxsize=_CACHE)
def _checked(
    kernel: KernelIR, debug: Debug, fma: bool, grid: tuple[Dim, ...], shapes: tuple[tuple[Dim, ...], ...]
) -> CheckedKernel | None:
    found = checked(kernel, debug, grid, shapes, fma=fma)
    if found is None:
        return None
    scans = tuple(replace(scan, kernel=intern_kernel(scan.kernel)) for scan in found.scans)
    return replace(found, kernel=intern_kernel(found.kernel), scans=scans)


def with_checks(
    launch: LaunchSpec, operand_shapes: Sequence[tuple[Dim, ...]]
) -> tuple[LaunchSpec, CheckedKernel | None]:
    """The launch of the checked kernel: its last results are marks and the record. None: nothing can fail."""
    debug = launch.debug
    assert debug is not None
    shapes = [*operand_shapes, *launch.results]
    by_param = tuple(tuple(shapes[buffer]) for buffer in launch.buffers)
    key = launch.kernel, debug, launch.fma, launch.grid, by_param
    is_known = all(is_static(n) for shape in (launch.grid, *by_param) for n in shape)
    found = _checked(*key) if is_known else _checked.__wrapped__(*key)
    if found is None:
        return launch.replace(debug=None), None
    marks = [(*by_param[scan.array], scan.fields) for scan in found.scans]
    made = launch.replace(
        kernel=found.kernel,
        roles=(*launch.roles, *[OUTPUT] * len(marks), OUTPUT),
        results=(*launch.results, *marks, record_shape(launch)[:-1]),
        debug=None,
        origin=None,
        factors=None,
    )
    return made, found


@functools.lru_cache(maxsize=_CACHE)
def _all_reports(kernel: KernelIR, debug: Debug, fma: bool) -> tuple[Report, ...]:
    """Return all reports a kernel may make, whatever the extents. They number reports before extents are known."""
    unknown = [[None] * p.rank for p in kernel.params]
    grid = [2**31 - 1] * kernel.grid_rank
    found = checked(kernel, replace(debug, is_unlaunched=True), grid, unknown, fma=fma)
    return () if found is None else found.reports


def reporting(launch: LaunchSpec) -> LaunchSpec:
    """The launch with its record as one more result."""
    debug = launch.debug
    assert debug is not None
    numbered = _all_reports(launch.kernel, debug, launch.fma)
    return launch.replace(debug=replace(debug, delivery="value", own=0, numbered=numbered), factors=None)


@dataclass(frozen=True)
class Reported:
    """The meaning of a row of a record. The launch has `rank` axes, the first `batched` of them from `vmap`."""

    name: str
    reports: tuple[Report, ...]
    rank: int
    batched: int

    @classmethod
    def of(cls, launch: LaunchSpec) -> Reported:
        """Return the instance for a launch whose failures are values."""
        assert launch.debug is not None
        assert launch.debug.numbered is not None
        return cls(launch.name, launch.debug.numbered, len(launch.grid), launch.debug.batched)


def require_no_failure(launch: LaunchSpec, record: Any) -> None:
    """Raises what the record of a launch says, for which failures are values.

    Raises:
        CheckError: a thread has failed a check.
    """
    error = error_of(launch, np.asarray(record))
    if error is not None:
        raise error


@contextmanager
def failures_raised() -> Iterator[None]:
    """Raise the `CheckError` of a thread when a call of XLA in the `with` block fails because of it."""
    try:
        yield
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        _, marked, text = str(error).partition(FAILED)
        if not marked:
            raise
        raise CheckError(text) from None


def error_of(launch: LaunchSpec, record: np.ndarray) -> CheckError | None:
    """Return the error in the record of a launch whose failures are values; None: there is none."""
    reported = Reported.of(launch)
    words = np.ascontiguousarray(record).view(np.int64).reshape(-1)
    row = first_row(words.tolist(), RecordLayout(reported.rank).row)
    return None if row is None else error_of_row(row, reported)


def launch_in(scope: Scope, launch: LaunchSpec, operands: Sequence[Any]) -> CheckError | None:
    """A launch in the memory of a call or of the process, on all its arguments: the first failure, in debug mode."""
    shapes = tuple(tuple(o.shape) for o in operands)
    found = failing_in(launch, shapes) if scope.can_wait() else None
    key = key_of(launch, shapes)
    if found is None:
        launch_on(scope, key, operands)
        return None
    kind = np.dtype(np.int64)
    records = [scope.make(kind, (found.layout.size,)) for _ in range(1 + len(found.scans))]
    marks = [scope.make(kind, (*shapes[scan.array], scan.fields)) for scan in found.scans]
    given = [*operands, *marks, records[0]]
    launch_on(scope, key._replace(kernel=found.kernel, shapes=tuple(tuple(o.shape) for o in given)), given)
    for scan, marked, record in zip(found.scans, marks, records[1:], strict=True):
        shapes = marked.shape, record.shape
        launch_on(scope, key._replace(kernel=scan.kernel, grid=marked.shape[:-1], shapes=shapes), [marked, record])
    failures = (failure_in(scope.read(record), launch, found) for record in records)
    return next((failure for failure in failures if failure is not None), None)


def failing_in(launch: LaunchSpec, shapes: tuple[tuple[int, ...], ...]) -> CheckedKernel | None:
    """Return the kernel that tells of failures, in a record behind its arguments; None if nothing can fail."""
    return None if launch.debug is None else _checked(launch.kernel, launch.debug, launch.fma, launch.grid, shapes)


def failure_in(record: np.ndarray, launch: LaunchSpec, found: CheckedKernel) -> CheckError | None:
    """Return the first failure of a launch, by its record."""
    row = first_row(record.tolist(), found.layout.row)
    return None if row is None else error_of_row(row, Reported(launch.name, found.reports, len(launch.grid), 0))


def error_of_row(row: Sequence[int], reported: Reported) -> CheckError:
    """The failure that a row of a record tells of."""
    number, reports = number_of(row), reported.reports
    report = reports[number] if number < len(reports) else Report(f"kernel {reported.name}: a check failed", None, 0)
    slots = [*row, *[None] * (RecordLayout(reported.rank).row - len(row))]

    def shown(slot: int, text_format: str) -> str:
        word = slots[slot]
        return "?" if word is None else formatted(text_format, _of_bits(text_format, word))

    return CheckError(_message(report, shown, reported.rank, reported.batched), report.loc)


def _of_bits(text_format: str, word: int) -> int | float:
    """The number that a word of a record stands for."""
    kind = np.float64 if text_format[-1] in "eEfFgG" else np.uint64 if text_format[-1] == "u" else np.int64
    return np.array(word, np.int64).view(kind).item()


def _message(report: Report, shown: Callable[[int, str], str], rank: int, batched: int) -> str:
    """Return the text of a report; `shown` returns the number in a slot of a row, in a format."""
    tids = [shown(2 + axis, "%d") for axis in range(rank)]
    batch = f"batch index {_tuple(tids[:batched])}, " if batched else ""
    text = report.filled([shown(2 + rank + i, report.format(i)) for i in range(report.words)])
    return f"{batch}thread {_tuple(tids[batched:])}: {text}"


def _tuple(entries: Sequence[str]) -> str:
    return f"({entries[0]},)" if len(entries) == 1 else f"({', '.join(entries)})"


# Where the numbers of a row belong in a text that is put together without Python (native/reports.cc).
_OPEN, _CLOSE, _END = "\x02", "\x03", "\x1e"


def scan_launches(launch: LaunchSpec, made: LaunchSpec, found: CheckedKernel) -> list[LaunchSpec]:
    """The launches that find races, each with the marks of an array as its operand and a record as its result."""
    marks = made.results[len(launch.results) : -1]
    return [
        LaunchSpec(scan.kernel, shape[:-1], (INPUT, OUTPUT), (made.results[-1],), fma=launch.fma, has_side_effect=True)
        for scan, shape in zip(found.scans, marks, strict=True)
    ]


def told(launch: LaunchSpec, found: CheckedKernel) -> str:
    """Return what a handler reports: a text for each report, with placeholders for the numbers of a row."""
    debug, rank = launch.debug, len(launch.grid)
    assert debug is not None

    def shown(slot: int, text_format: str) -> str:
        return f"{_OPEN}{slot}{text_format}{_CLOSE}"

    texts: list[str] = []
    for report in (*found.reports, Report(f"kernel {launch.name}: a check failed", None, 0)):
        message = _message(report, shown, rank, debug.batched)
        texts.append(message if report.loc is None else located_text(message, report.loc))
    return _END.join(texts)
