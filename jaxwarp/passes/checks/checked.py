"""Debug mode: the kernel with a test before what can fail, and a record of the first failure. See docs/design/0015.

One map from kernels to kernels, so that every target and every derivative has it: a launch is checked when it is
lowered, after all that transformations make of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jaxwarp.deep import with_deep_stack
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Const, For, Param, Size, While, walk
from jaxwarp.passes.checks.bounds import check_bounds
from jaxwarp.passes.checks.integers import check_integers
from jaxwarp.passes.checks.nan import check_nan
from jaxwarp.passes.checks.race_scan import Scan, Scanned, make_scans, race_reports
from jaxwarp.passes.checks.races import mark_accesses, shared_arrays
from jaxwarp.passes.checks.reports import Extent, RecordLayout, Report, Reports, lay_out
from jaxwarp.passes.checks.steps import check_steps
from jaxwarp.passes.checks.written import noted, without_notes
from jaxwarp.passes.erase_rules import erase_rules
from jaxwarp.passes.launches.tells import failures_as, may_fail, prints, without_tests
from jaxwarp.passes.pipeline import fix_rounding
from jaxwarp.passes.simplify import simplify
from jaxwarp.types import int64

# So many reports are written where they are; a place to keep the first one of a thread costs all threads time.
_FEW_REPORTS = 4


@dataclass(frozen=True)
class Debug:
    """The checks of a launch while it runs, and who gets the reports; see docs/design/0015.

    Attributes:
        checks: what is looked for; names that `config.checks` may have. Assertions always are.
        max_steps: the most iterations of a loop, with the check "steps".
        batched: so many leading axes of the grid were made by `vmap`.
        delivery: "error": the call fails (on the CPU); "value": the record of failures is one more result of the
            launch; "silent": nobody is told, but what fails is not done.
        own: with "value", so many leading axes of the grid have a record for each of their indices.
        numbered: with "value", the reports by number; by default those of the kernel that is launched.
        arrays: what the parameters are called; none: as the kernel calls them.
        in_front: so many leading axes of each parameter are threads, which reports leave out; none: no axes.
        is_unlaunched: only the reports are wanted, whatever the extents.
        is_derived: the kernel is one that derivatives make: what nothing in it uses nobody has written.
        is_kept: the launch is made for its checks alone, too: where only its derivative is used, or nothing.
    """

    checks: tuple[str, ...]
    max_steps: int
    batched: int = 0
    delivery: str = "error"
    own: int = 0
    numbered: tuple[Report, ...] | None = None
    arrays: tuple[str, ...] = ()
    in_front: tuple[int, ...] = ()
    is_unlaunched: bool = False
    is_derived: bool = False
    is_kept: bool = True

    @property
    def is_value(self) -> bool:
        """True if the record is a result of the launch."""
        return self.delivery == "value"

    def in_batch(self) -> Debug:
        """Return the options for a batch of launches."""
        return replace(self, batched=self.batched + 1, own=self.own + self.is_value)

    def without_record(self) -> Debug:
        """The same where the record is no result."""
        return replace(self, delivery="silent" if self.is_value else self.delivery, own=0, numbered=None)

    def for_derivative(self, arrays: tuple[str, ...], in_front: tuple[int, ...] = ()) -> Debug:
        """Return the options for a launch that derivatives make.

        If failures are values, JAX has none for those of derivatives. Integers are those of the launch itself, which
        reports on them, and jaxwarp orders the accesses to what derivatives share.
        """
        checks = tuple(c for c in self.checks if c in ("bounds", "nan", "steps"))
        options = self.without_record()
        return replace(options, checks=checks, arrays=arrays, in_front=in_front, is_derived=True, is_kept=False)


@dataclass(frozen=True)
class CheckedKernel:
    """A checked kernel.

    Attributes:
        kernel: its last parameters are marks, one for each scan, and the record.
        layout: of the record.
        reports: by number.
        scans: launches after it, which find races.
    """

    kernel: Kernel
    layout: RecordLayout
    reports: tuple[Report, ...]
    scans: tuple[Scan, ...] = ()


@with_deep_stack
def checked(
    kernel: Kernel, debug: Debug, grid: Sequence[Any], shapes: Sequence[Sequence[Any]], *, fma: bool = True
) -> CheckedKernel | None:
    """The kernel with checks; None if nothing in it can fail.

    It computes what the kernel computes, to the last bit.

    Args:
        kernel: as it is launched.
        debug: what is checked.
        grid: launch extents; what is no integer is the extent of an array.
        shapes: those of the parameters; None is unknown.
        fma: whether products and sums are contracted.
    """
    names = dict(zip(kernel.params, debug.arrays, strict=False))
    in_front = dict(zip(kernel.params, debug.in_front, strict=False))
    reports = Reports(names, debug.batched, in_front=in_front)
    extents = tuple(_extent(kernel, n, shapes) for n in grid)
    record = Param(_fresh_name(kernel), int64, (None,) * debug.own + (None,))
    known = {p: tuple(map(_static, shape)) for p, shape in zip(kernel.params, shapes, strict=True)}
    static = tuple(map(_static, grid))
    kernel = _with_assertions(simplify(kernel) if debug.is_derived else kernel, reports, static, known)
    asserted = frozenset(reports.of)
    if "integers" in debug.checks:
        kernel = check_integers(kernel, reports, static, known)
    has_races = _has_races(debug, static, known)
    kernel = kernel if "bounds" in debug.checks else without_tests(kernel)
    kernel, notes = noted(kernel, reports, debug.checks, has_races)
    kernel = erase_rules(fix_rounding(kernel, fma=fma, beside={*reports.of, *notes.params} - asserted))
    marked = shared_arrays(kernel, debug.batched, static, known, notes.reads) if has_races else []
    if "steps" in debug.checks:
        kernel = check_steps(kernel, reports, static, known, record, debug.own, debug.max_steps)
    if "nan" in debug.checks:
        kernel = check_nan(kernel, reports)
    if "bounds" in debug.checks:
        kernel = check_bounds(kernel, reports, static, known, notes.reads)
    races = [report for array in marked for *_, report in race_reports(array, reports, len(grid), debug.checks)]
    if not reports.of and not races:
        return None
    numbers = tuple(dict.fromkeys((*reports.of.values(), *races))) if debug.numbered is None else debug.numbered
    counts = tuple(n or 1 for n in static)  # all are known where there are marks
    scans = make_scans(marked, kernel, Scanned(reports, numbers, record, counts, debug.own, debug.checks))
    kernel = mark_accesses(kernel, marked, counts, notes.reads) if marked else kernel
    kernel = without_notes(kernel, notes.params)
    at_once = not debug.checks and len(reports.of) <= _FEW_REPORTS
    made = lay_out(kernel, reports, numbers, record, extents, debug.own, at_once=at_once)
    return CheckedKernel(made, RecordLayout(len(extents) - debug.own), numbers, scans)


def _with_assertions(
    kernel: Kernel, reports: Reports, grid: Sequence[int | None], shapes: Mapping[Param, Sequence[int | None]]
) -> Kernel:
    """The kernel that reports assertions. A thread that fails one ends there, unless what follows does no harm.

    It does none if nothing is printed, every index is in range, and every loop known to be short, whatever is asserted:
    without a mask, a kernel that streams takes a quarter of the time.
    """
    if not may_fail(kernel):
        return kernel
    is_known = all(n is not None for extents in (grid, *shapes.values()) for n in extents)
    if not is_known or not _ends(kernel) or prints(kernel):
        return failures_as(kernel, reports.tell)
    probe = Reports({})
    kernel_on = without_tests(failures_as(kernel, lambda _b, _op: None, ends=False))
    kernel_on, _ = noted(kernel_on, probe, ("bounds",), has_races=False)
    check_bounds(erase_rules(fix_rounding(kernel_on, beside=())), probe, grid, shapes)
    return failures_as(kernel, reports.tell, ends=bool(probe.of))


def _ends(kernel: Kernel) -> bool:
    """Return whether every loop's iterations are known before the launch."""
    known = {op.defined[0] for op in walk(kernel.body) if isinstance(op, Const | Size)}
    loops = [op for op in walk(kernel.body) if isinstance(op, For | While)]
    return all(isinstance(op, For) and known.issuperset((op.start, op.stop, op.step)) for op in loops)


def _has_races(debug: Debug, grid: Sequence[int | None], shapes: Mapping[Param, Sequence[int | None]]) -> bool:
    """Return whether to look for races: a check asks for it, there are several threads, and all extents are known."""
    is_asked = "races" in debug.checks or "equal_stores" in debug.checks
    is_known = all(n is not None for shape in (grid, *shapes.values()) for n in shape)
    return is_asked and (debug.is_unlaunched or (is_known and any(n != 1 for n in grid)))


def _static(extent: Any) -> int | None:
    return int(extent) if isinstance(extent, (int, np.integer)) else None


def _extent(kernel: Kernel, extent: Any, shapes: Sequence[Sequence[Any]]) -> Extent:
    """A number, or where it is found. Lowering refuses launches of which an extent is nowhere."""
    if isinstance(extent, (int, np.integer)):
        return int(extent)
    places = (
        (param, axis)
        for param, shape in zip(kernel.params, shapes, strict=True)
        for axis, n in enumerate(shape)
        if not isinstance(n, (int, np.integer)) and n == extent
    )
    return next(places, 1)


def _fresh_name(kernel: Kernel) -> str:
    names = {p.name for p in (*kernel.params, *kernel.locals)}
    return next(n for n in ("failures", *(f"failures{i}" for i in range(len(names)))) if n not in names)
