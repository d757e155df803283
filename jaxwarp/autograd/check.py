"""Derivatives against differences: of a launch, of a Python function that launches, of all launches on a tape."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxwarp.arrays.tapes.tape import Tape
from jaxwarp.autograd.jacobians import Mask, Matrices, by_differences, by_sweeps, rows_of
from jaxwarp.autograd.plot import draw
from jaxwarp.autograd.subject import Pair, Subject, subject_of, subject_of_recorded
from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text

_HEADS = ("input", "output", "largest error", "derivative", "difference", "relative error", "")


class _Options(NamedTuple):
    """The options of a check."""

    eps: float
    atol: float
    rtol: float
    raise_exception: bool
    max_inputs_per_var: int
    max_outputs_per_var: int
    plot_relative_error: bool
    plot_absolute_error: bool
    show_summary: bool


@boundary
def gradcheck(  # noqa: PLR0913 - the signature users know from Warp
    function: Any,
    dim: Any = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    *,
    eps: float = 1e-4,
    atol: float = 1e-3,
    rtol: float = 1e-2,
    raise_exception: bool = True,
    input_output_mask: Mask | None = None,
    device: Any = None,
    max_blocks: int = 0,
    block_dim: int | str | None = None,
    max_inputs_per_var: int = -1,
    max_outputs_per_var: int = -1,
    plot_relative_error: bool = False,
    plot_absolute_error: bool = False,
    show_summary: bool = True,
    restore_inputs: bool = True,
) -> bool:
    """Check the derivatives of a launch, or of a Python function that launches, against finite differences.

    The check passes if |derivative - difference| <= atol + rtol |difference| everywhere, and none is NaN.

    Args:
        function, dim, inputs, outputs, input_output_mask, device, max_blocks, block_dim: see `jacobian`.
        eps: how far numbers are moved, see `jacobian_fd`.
        atol, rtol: what is tolerated.
        raise_exception: whether to raise where the check fails.
        max_inputs_per_var: only so many numbers of each input are looked at; 0 or less: all.
        max_outputs_per_var: likewise of each output.
        plot_relative_error: draw the errors, as `jacobian_plot` does.
        plot_absolute_error: likewise.
        show_summary: print a table.
        restore_inputs: of a Python function: whether what its launches and copies write is undone after each run.

    Returns:
        Whether the check passed.

    Raises:
        KernelValueError: it failed, and `raise_exception` is given; no array has a gradient, so that there is nothing
            to check; as `jacobian` and `jacobian_fd`.
    """
    del max_blocks
    subject = subject_of("gradcheck", function, dim, inputs, outputs, device, block_dim, restore_inputs)
    sizes = max_inputs_per_var, max_outputs_per_var
    options = _Options(eps, atol, rtol, raise_exception, *sizes, plot_relative_error, plot_absolute_error, show_summary)
    return _check(subject, input_output_mask, options)


@boundary
def gradcheck_tape(  # noqa: PLR0913 - the signature users know from Warp
    tape: Tape,
    *,
    eps: float = 1e-4,
    atol: float = 1e-3,
    rtol: float = 1e-2,
    raise_exception: bool = True,
    input_output_masks: Mapping[str, Mask] | None = None,
    blacklist_kernels: Collection[str] | None = None,
    whitelist_kernels: Collection[str] | None = None,
    max_inputs_per_var: int = -1,
    max_outputs_per_var: int = -1,
    plot_relative_error: bool = False,
    plot_absolute_error: bool = False,
    show_summary: bool = True,
    reverse_launches: bool = False,
    skip_to_launch_index: int = 0,
) -> bool:
    """`gradcheck` of each launch that a tape has recorded, on what its arrays hold now.

    Inputs are the arrays that the kernel reads, outputs those that it writes, in the order of its arguments. Launches
    without arrays with `requires_grad=True` on both sides are passed over.

    Args:
        tape: what was recorded.
        input_output_masks: by the key of a kernel, see `jacobian`.
        blacklist_kernels: keys of kernels that are passed over.
        whitelist_kernels: if there are any, other kernels are passed over.
        reverse_launches: begin with the last launch.
        skip_to_launch_index: pass over so many launches.
        eps, atol, rtol, raise_exception, max_inputs_per_var, max_outputs_per_var: see `gradcheck`.
        plot_relative_error, plot_absolute_error, show_summary: see `gradcheck`.

    Returns:
        Whether all checks passed.

    Raises:
        KernelValueError: as `gradcheck`.
    """
    if not isinstance(tape, Tape):
        raise KernelTypeError(f"gradcheck_tape: expected a Tape, got {type_text(tape)}", hint="pass Tape()")
    sizes = max_inputs_per_var, max_outputs_per_var
    options = _Options(eps, atol, rtol, raise_exception, *sizes, plot_relative_error, plot_absolute_error, show_summary)
    recorded = tape.launches[::-1] if reverse_launches else tape.launches
    passed = True
    for op in recorded[skip_to_launch_index:]:
        subject = subject_of_recorded("gradcheck_tape", op)
        if subject.name in (blacklist_kernels or ()) or subject.name not in (whitelist_kernels or (subject.name,)):
            continue
        if not subject.pairs(subject.outputs or (), None):
            continue
        passed = _check(subject, (input_output_masks or {}).get(subject.name), options) and passed
    return passed


class _Row(NamedTuple):
    """The report on one Jacobian."""

    cells: tuple[str, ...]
    problem: str


def _check(subject: Subject, mask: Mask | None, options: _Options) -> bool:
    derivatives, names = by_sweeps(subject, mask, options.max_outputs_per_var)
    differences, _ = by_differences(subject, mask, options.max_inputs_per_var, options.eps)
    rows = {}
    for pair, found in derivatives.items():
        labels = subject.input_names[pair[0]], names[pair[1]]
        rows[pair] = _compared(labels, *_cut(found, differences[pair], options), options)
    failed = [pair for pair, row in rows.items() if row.problem]
    if options.show_summary:
        _print_table([_HEADS, *(row.cells for row in rows.values())])
        print(f"gradcheck of {subject.name} {'failed' if failed else 'passed'}")
    _draw_errors(subject, names, derivatives, differences, options)
    if failed and options.raise_exception:
        raise KernelValueError(
            f"{subject.what}: {subject.name}: {'; '.join(rows[pair].problem for pair in failed)}",
            hint="a rule by hand (func_grad) may be wrong; or pass other eps, atol or rtol",
        )
    return not failed


def _cut(derivative: np.ndarray, difference: np.ndarray, options: _Options) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of which both are known, as float64."""
    rows, columns = options.max_outputs_per_var, options.max_inputs_per_var
    part = slice(rows if rows > 0 else None), slice(columns if columns > 0 else None)
    first, second = (rows_of(matrix).astype(np.float64)[part] for matrix in (derivative, difference))
    return first, second


def _compared(labels: tuple[str, str], derivative: np.ndarray, difference: np.ndarray, options: _Options) -> _Row:
    if not derivative.size:
        return _Row((*labels, "0 numbers", "", "", "", "passed"), "")
    with np.errstate(all="ignore"):  # of infinities
        error = np.abs(derivative - difference)
        relative = (error / (np.abs(difference) + 1e-8)).max()
    at = np.unravel_index(np.argmax(error), error.shape)  # NaN is the largest
    is_close = np.allclose(derivative, difference, rtol=options.rtol, atol=options.atol)
    verdict = "NaN" if np.isnan(derivative).any() else "passed" if is_close else "failed"
    place, found, expected = tuple(int(n) for n in at), f"{derivative[at]:.3e}", f"{difference[at]:.3e}"
    cells = (*labels, f"{error[at]:.3e} at {place}", found, expected, f"{relative:.3e}", verdict)
    if verdict == "passed":
        return _Row(cells, "")
    return _Row(cells, f"d {labels[1]} / d {labels[0]} at {place} is {found}, by differences {expected}")


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _draw_errors(subject: Subject, names: list[str], found: Matrices, expected: Matrices, options: _Options) -> None:
    with np.errstate(all="ignore"):
        errors: dict[Pair, np.ndarray] = {pair: np.abs(found[pair] - expected[pair]) for pair in found}
        relative = {pair: error / np.maximum(np.abs(found[pair]), 1e-8) for pair, error in errors.items()}
    for is_wanted, matrices, kind in (
        (options.plot_relative_error, relative, "relative"),
        (options.plot_absolute_error, errors, "absolute"),
    ):
        if is_wanted:
            draw(matrices, subject.name, subject.input_names, names, f"{subject.name} kernel Jacobian {kind} error")
