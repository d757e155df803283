"""Jacobians as pictures, with matplotlib, which is imported when one is drawn."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.kernel import Kernel


@boundary
def jacobian_plot(  # noqa: PLR0913 - the signature users know from Warp
    jacobians: Mapping[tuple[int, int], Any],
    kernel: Kernel,
    inputs: Sequence[Any] | None = None,
    show_plot: bool = True,
    show_colorbar: bool = True,
    scale_colors_per_submatrix: bool = False,
    title: str | None = None,
    colormap: str = "coolwarm",
    log_scale: bool = False,
) -> Any:
    """Draws Jacobians, a row of pictures for each output and a column for each input. Needs matplotlib.

    Args:
        jacobians: what `jacobian` or `jacobian_fd` returned.
        kernel: of which they are; for those of a Python function use `jacobian(..., plot_jacobians=True)`.
        inputs: of the kernel: how many arguments come before the outputs.
        show_plot: whether to call matplotlib's `show`.
        show_colorbar: whether to draw the scale of colours.
        scale_colors_per_submatrix: whether each Jacobian has a scale of its own.
        title: above all. Default: the kernel's key.
        colormap: a name of matplotlib's.
        log_scale: draw the decimal logarithms of sizes.

    Returns:
        matplotlib's figure; None where there are no Jacobians.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit.
        ImportError: matplotlib is not installed.
    """
    if not isinstance(kernel, Kernel):
        raise KernelTypeError(
            f"jacobian_plot: expected a kernel, got {type_text(kernel)}",
            hint="for a Python function use jacobian(..., plot_jacobians=True)",
        )
    if inputs is None:
        raise KernelValueError("jacobian_plot: inputs must be provided", hint="pass those of the launch")
    names = [argument.name for argument in kernel.arguments]
    ins, outs = names[: len(inputs)], names[len(inputs) :]
    for i, j in jacobians:
        if not (0 <= i < len(ins) and 0 <= j < len(outs)):
            raise KernelValueError(
                f"jacobian_plot: kernel {kernel.name} has no input {i} and output {j}",
                hint=f"with these inputs there are {len(ins)} inputs and {len(outs)} outputs",
            )
    matrices = {pair: found.numpy() for pair, found in jacobians.items()}
    options = (show_plot, show_colorbar, scale_colors_per_submatrix, colormap, log_scale)
    return draw(matrices, kernel.key, ins, outs, title, *options)


def draw(  # noqa: PLR0913 - what can be chosen of a picture
    matrices: Mapping[tuple[int, int], np.ndarray],
    name: str,
    input_names: Sequence[str],
    output_names: Sequence[str],
    title: str | None = None,
    is_shown: bool = True,
    has_colorbar: bool = True,
    scales_each: bool = False,
    colormap: str = "coolwarm",
    is_logarithm: bool = False,
) -> Any:
    """The figure, as `jacobian_plot` returns it."""
    try:
        plt: Any = importlib.import_module("matplotlib.pyplot")
    except ImportError as error:
        raise ImportError("jacobian_plot needs matplotlib, which is not installed: pip install matplotlib") from error
    if not matrices:
        return None
    shown = {pair: _shown(matrix, is_logarithm) for pair, matrix in matrices.items()}
    columns, rows = (sorted({pair[k] for pair in shown}) for k in (0, 1))
    ratios = {
        "width_ratios": [next(m.shape[1] for (i, _), m in shown.items() if i == column) for column in columns],
        "height_ratios": [next(m.shape[0] for (_, j), m in shown.items() if j == row) for row in rows],
    }
    figure, axes = plt.subplots(
        len(rows), len(columns), figsize=(7, 7), layout="constrained", squeeze=False, gridspec_kw=ratios
    )
    figure.suptitle(f"{name} kernel Jacobian" if title is None else title)
    limits = _limits(list(shown.values()))
    for (r, row), (c, column) in ((r, c) for r in enumerate(rows) for c in enumerate(columns)):
        ax, matrix = axes[r, c], shown.get((column, row))
        if matrix is None:
            ax.axis("off")
            continue
        low, high = _limits([matrix]) if scales_each else limits
        image = ax.imshow(matrix, colormap, aspect="auto", interpolation="nearest", vmin=low, vmax=high)
        ax.set_xlabel(input_names[column])
        ax.set_ylabel(output_names[row])
        if has_colorbar and (scales_each or (column, row) == next(iter(shown))):
            figure.colorbar(image, ax=ax if scales_each else axes)
    if is_shown:
        plt.show()
    return figure


def _shown(matrix: np.ndarray, is_logarithm: bool) -> np.ndarray:
    """Two axes; components are columns of their own."""
    flat = matrix.reshape(len(matrix), -1).astype(np.float64)
    return np.log10(np.abs(flat) + 1e-8) if is_logarithm else flat


def _limits(matrices: Sequence[np.ndarray]) -> tuple[float, float]:
    """Least and greatest of the numbers that are finite."""
    numbers = np.concatenate([matrix.ravel() for matrix in matrices])
    finite = numbers[np.isfinite(numbers)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
