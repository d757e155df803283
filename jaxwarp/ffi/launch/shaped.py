"""A launch as the CPU runs it: jitted, exported or outside of JAX, it is the same code."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from jaxwarp.analysis.succession import Succession
from jaxwarp.codegen.abi import MERGED, Geometry
from jaxwarp.codegen.progress import told
from jaxwarp.ffi.launch.spec import is_static
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Param
from jaxwarp.passes.pipeline import Flat, on_cpu

_CODE_CACHE = 512


@dataclass(frozen=True, eq=False)
class Shaped:
    """A launch as it is compiled.

    Attributes:
        kernel: what is compiled.
        cleared: the same over all axes of the launch.
        grid: its launch extents, numbers or symbolic.
        shapes: of its parameters.
        order: how its threads follow each other; None: in any order.
    """

    kernel: Kernel
    cleared: Kernel
    grid: tuple[Any, ...]
    shapes: tuple[tuple[Any, ...], ...]
    order: Succession | None
    _flat: Flat | None

    @property
    def extents(self) -> dict[Param, tuple[Any, ...]]:
        """Extents by parameter."""
        return dict(zip(self.kernel.params, self.shapes, strict=True))

    @property
    def code(self) -> Any:
        """Code for this machine's kind of processor, see `compile_cpu`."""
        return cpu_code(self.kernel, self.order)

    def of_arrays(self, geometry: Geometry) -> Geometry:
        """The run-time integers of its code, by the axes that arrays have in the launch."""
        if self._flat is None:
            return geometry
        axes = self._flat.axes
        places = ((source, (axis, 1) if source < 0 else axes[source][axis]) for source, axis in geometry)
        return tuple((source, first + (count - 1) * MERGED) for source, (first, count) in places)


def shaped(
    kernel: Kernel,
    grid: Sequence[Any],
    shapes: Sequence[Sequence[Any]],
    in_order: bool,
    zeros: Collection[int] = (),
) -> Shaped:
    """A launch of a prepared kernel on arrays of shapes, its parameters'; what is no integer is not known.

    Args:
        kernel: the kernel.
        grid, shapes: extents.
        in_order: see Launch.
        zeros: positions of the parameters that hold zeros on entry.
    """
    numbers = [tuple(int(n) if is_static(n) else n for n in shape) for shape in (grid, *shapes)]
    is_known = all(type(n) is int for shape in numbers for n in shape)
    make = _shaped if is_known else _shaped.__wrapped__
    return make(kernel, numbers[0], tuple(numbers[1:]), in_order, tuple(zeros))


@functools.lru_cache(maxsize=_CODE_CACHE)
def _shaped(
    kernel: Kernel, grid: tuple[Any, ...], shapes: tuple[tuple[Any, ...], ...], in_order: bool, zeros: tuple[int, ...]
) -> Shaped:
    cleared, made, context = on_cpu(kernel, grid, shapes, zeros, in_order)
    return Shaped(made, cleared, context.grid or (), context.shapes, context.order, context.flat)


@functools.lru_cache(maxsize=_CODE_CACHE)
def cpu_code(kernel: Kernel, order: Succession | None) -> Any:
    """Code of a prepared kernel for this machine's kind of processor."""
    from jaxwarp.codegen.cpu import compile_cpu  # LLVM is slow to import, and not needed to trace

    with told(f"making CPU code of {kernel.name}"):
        return compile_cpu(kernel, succession=order)
