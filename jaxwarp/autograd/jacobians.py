"""Jacobians: by the derivatives of launches, a reverse sweep for each number of an output, and by differences."""

from __future__ import annotations

import contextlib
import math
import numbers
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jaxwarp.arrays.from_data import array_of
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.autograd.plot import draw
from jaxwarp.autograd.subject import Pair, Run, Subject, require_pairs, subject_of
from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelValueError
from jaxwarp.memory.host_scope import contents_of, set_contents
from jaxwarp.memory.region import Region
from jaxwarp.types import element_shape

Mask = Sequence[tuple[int | str, int | str]]
Matrices = dict[Pair, np.ndarray]
"""A row for each number of the output; a column for each element of the input, its components as further axes."""


@boundary
def jacobian(  # noqa: PLR0913 - the signature users know from Warp
    function: Any,
    dim: Any = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    input_output_mask: Mask | None = None,
    device: Any = None,
    max_blocks: int = 0,
    block_dim: int | str | None = None,
    max_outputs_per_var: int = -1,
    plot_jacobians: bool = False,
    restore_inputs: bool = True,
) -> dict[Pair, Any]:
    """The Jacobians of a launch, or of a Python function that launches, by the derivatives of its kernels.

    Arrays outside of JAX with `requires_grad=True` are differentiated; everything else is held fixed. Gradients stay as
    they were. What launches write is undone, too.

    Args:
        function: a kernel; or a Python function of `inputs` that returns an array, or a list of them.
        dim: of a kernel: threads along each axis.
        inputs: of a kernel its first arguments.
        outputs: of a kernel its other arguments.
        input_output_mask: pairs of an input and an output, by number or name, of which the Jacobians are wanted.
            Outputs of a function are called "output_0", "output_1", ... None: all.
        device: of a kernel, as for `launch`.
        max_blocks: accepted, no effect.
        block_dim: of a kernel, as for `launch`.
        max_outputs_per_var: only so many rows are computed, the others are NaN; 0 or less: all.
        plot_jacobians: draw them, as `jacobian_plot` does.
        restore_inputs: of a Python function: whether what its launches and copies write is undone afterwards.

    Returns:
        By the numbers of an input and an output: an array of the input's element type, of shape (numbers in the output,
        elements of the input). Component c of its element (i, j) is `d output[i] / d input[j][c]`.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit, or none has a gradient.
        DifferentiationError: a derivative that cannot be had, with the line of the kernel.
    """
    del max_blocks
    subject = subject_of("jacobian", function, dim, inputs, outputs, device, block_dim, restore_inputs)
    found, names = by_sweeps(subject, input_output_mask, max_outputs_per_var)
    return _finished(subject, found, names, plot_jacobians)


@boundary
def jacobian_fd(  # noqa: PLR0913 - the signature users know from Warp
    function: Any,
    dim: Any = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    input_output_mask: Mask | None = None,
    device: Any = None,
    max_blocks: int = 0,
    block_dim: int | str | None = None,
    max_inputs_per_var: int = -1,
    eps: float = 1e-4,
    plot_jacobians: bool = False,
    restore_inputs: bool = True,
) -> dict[Pair, Any]:
    """Compute what `jacobian` does by central differences: each number of the inputs is moved by `eps` to both sides.

    The quotients use the moved numbers as they were rounded, and are computed in float64.

    Quotients are of what the numbers became when they were rounded, and are computed in float64.

    Args:
        function, dim, inputs, outputs, input_output_mask, device, max_blocks, block_dim, plot_jacobians: as for
            `jacobian`.
        max_inputs_per_var: only so many numbers of an input are moved, and the rest is NaN; 0 or less: all.
        eps: how far.
        restore_inputs: of a Python function: whether what its launches and copies write is undone after each run.

    Returns:
        As `jacobian`.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit, or none has a gradient; `eps` is lost when it is
            added.
    """
    del max_blocks
    subject = subject_of("jacobian_fd", function, dim, inputs, outputs, device, block_dim, restore_inputs)
    found, names = by_differences(subject, input_output_mask, max_inputs_per_var, eps)
    return _finished(subject, found, names, plot_jacobians)


def _finished(subject: Subject, found: Matrices, names: list[str], is_drawn: bool) -> dict[Pair, Any]:
    made = {pair: array_of(matrix, subject.inputs[pair[0]].dtype) for pair, matrix in found.items()}
    if is_drawn:
        draw(found, subject.name, subject.input_names, names)
    return made


def by_sweeps(subject: Subject, mask: Mask | None, most: int) -> tuple[Matrices, list[str]]:
    """The Jacobians by derivatives, and the names of the outputs."""
    run, outputs = subject.run()
    try:
        pairs = subject.pairs(outputs, mask)
        require_pairs(subject, pairs)
        return _sweeps(run, subject.inputs, outputs, pairs, most), subject.names_of(outputs)
    finally:
        subject.undo(run)


def _sweeps(run: Run, inputs: Sequence[Any], outputs: Sequence[Any], pairs: Sequence[Pair], most: int) -> Matrices:
    active = [*(inputs[i] for i, _ in pairs), *(outputs[j] for _, j in pairs)]
    found = {(i, j): _blank(inputs[i], outputs[j]) for i, j in pairs}
    with _gradients_kept([*run.gradients, *active]) as gradients:
        for j in dict.fromkeys(j for _, j in pairs):
            seeds = outputs[j].grad.region
            for row in range(_limit(seeds.size, most)):
                for gradient in gradients:
                    set_contents(gradient, np.zeros(gradient.shape, gradient.dtype))
                set_contents(seeds, _unit(seeds, row))
                run.backward()
                for i in (i for i, of in pairs if of == j):
                    found[i, j][row] = contents_of(inputs[i].grad.region).reshape(found[i, j].shape[1:])
    return found


@contextlib.contextmanager
def _gradients_kept(arrays: Sequence[HostArray]) -> Iterator[list[Region]]:
    """Yield the regions of the gradients of arrays, and restore their contents afterwards.

    Meanwhile no gradient is retained: a retained one is the derivative by what an array holds last, not by what it held
    first.
    """
    regions = [grad.region for array in arrays if (grad := array.grad) is not None]
    kept = [contents_of(region) for region in regions]
    retained = {id(region.owner): region.owner for region in regions if region.owner.is_retained}
    for owner in retained.values():
        owner.is_retained = False
    try:
        yield regions
    finally:
        for owner in retained.values():
            owner.is_retained = True
        for region, contents in zip(regions, kept, strict=True):
            set_contents(region, contents)


def _unit(region: Region, place: int) -> np.ndarray:
    """Zeros, and a one."""
    made = np.zeros(region.shape, region.dtype)
    made.flat[place] = 1
    return made


def by_differences(subject: Subject, mask: Mask | None, most: int, eps: float) -> tuple[Matrices, list[str]]:
    """The Jacobians by differences, and the names of the outputs."""
    if not isinstance(eps, numbers.Real) or not 0 < eps < math.inf:
        raise KernelValueError(
            f"{subject.what}: eps: expected a positive finite number, got {eps!r}", hint="pass how far to move: 1e-3"
        )
    run, outputs = subject.run()
    subject.undo(run)
    pairs = subject.pairs(outputs, mask)
    require_pairs(subject, pairs)
    found = {(i, j): _blank(subject.inputs[i], outputs[j]) for i, j in pairs}
    for i in dict.fromkeys(i for i, _ in pairs):
        wanted = [j for k, j in pairs if k == i]
        subject.inputs[i].require_writable(f"moved by {subject.what}")
        region = subject.inputs[i].region
        for column in range(_limit(region.size, most)):
            for j, slopes in zip(wanted, _slopes(subject, region, column, wanted, eps), strict=True):
                matrix = found[i, j]
                if len(slopes) != len(matrix):
                    raise KernelValueError(
                        f"{subject.what}: {subject.name} gave an output of {len(matrix)} numbers, then {len(slopes)}",
                        hint="shapes must not depend on the contents of inputs",
                    )
                rows_of(matrix)[:, column] = slopes
    return found, subject.names_of(outputs)


def _slopes(subject: Subject, region: Region, place: int, wanted: Sequence[int], eps: float) -> list[np.ndarray]:
    """The difference quotients of outputs by one number."""
    numbers = contents_of(region)
    here = numbers.flat[place]
    left, right = (type(here)(float(here) + step) for step in (-eps, eps))
    if not float(right) > float(left):
        raise KernelValueError(
            f"{subject.what}: eps: {here} plus {eps} is rounded to {right}, minus it to {left}",
            hint="pass a greater eps",
        )
    sides = []
    for value in (left, right):
        moved = numbers.copy()
        moved.flat[place] = value
        set_contents(region, moved)
        try:
            run, outputs = subject.run()
            sides.append([outputs[j].numpy().astype(np.float64).ravel() for j in wanted])
            subject.undo(run)
        finally:
            set_contents(region, numbers)
    step = float(right) - float(left)
    with np.errstate(all="ignore"):  # of infinities
        return [(high - low) / step for low, high in zip(*sides, strict=True)]


def _blank(given: HostArray, output: HostArray) -> np.ndarray:
    """Return the array that a Jacobian is written to, full of NaN."""
    shape = (output.region.size, given.size, *element_shape(given.dtype))
    return np.full(shape, np.nan, given.region.dtype)


def rows_of(matrix: np.ndarray) -> np.ndarray:
    """A Jacobian with an axis for the numbers of the input; it may have none."""
    return matrix.reshape(len(matrix), math.prod(matrix.shape[1:]))


def _limit(count: int, most: int) -> int:
    return min(count, most) if most > 0 else count
