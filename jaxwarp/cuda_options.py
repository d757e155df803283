"""The options of a kernel, its module and the process for the kernel's CUDA code, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jaxwarp.codegen.abi import DEFAULT_BLOCK, CudaOptions
from jaxwarp.errors import KernelValueError
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Param

_MOST_THREADS = 1024
_MOST_REGISTERS = 255
_AUTO = "auto"
_BLOCK_HINT = 'block_dim=256 is the default; "auto" is what wp.autotune has measured'


def cuda_options(name: str, option: Callable[[str], Any], block_dim: Any = None) -> CudaOptions:
    """The options of a kernel's CUDA code.

    Args:
        name: of the kernel.
        option: the value of an option, None where nobody says.
        block_dim: what the call says.

    Raises:
        KernelValueError: a value that cannot be, or a block larger than `launch_bounds`.
    """
    read = _Reader(name, option)
    bounds = read.bounds()
    block = option("block_dim") if block_dim is None else block_dim
    is_tuned = isinstance(block, str) and block == _AUTO
    block = None if is_tuned else read.integer("block_dim", 1, _MOST_THREADS, _BLOCK_HINT, block_dim)
    is_free = block is None and not is_tuned and not bounds
    if block is None:
        block = min(DEFAULT_BLOCK, bounds[0]) if bounds else DEFAULT_BLOCK
    if bounds and block > bounds[0]:
        raise KernelValueError(
            f"kernel {name}: block_dim: expected at most {bounds[0]}, as launch_bounds={bounds} says, got {block}",
            hint="give launch_bounds the largest block that it is launched with",
        )
    return CudaOptions(
        block,
        bounds,
        read.integer("max_registers", 1, _MOST_REGISTERS, "a thread has at most 255"),
        read.flag("fast_math", False),
        read.integer("optimization_level", 0, 3, "3 is the default"),
        read.flag("lineinfo", False),
        read.flag("grid_stride", True),
        is_tuned,
        is_free,
    )


def extents_of(kernel: Kernel, dim: Any, shapes: Mapping[str, Any]) -> tuple[tuple[int, ...], list[Any]]:
    """The extents of a launch that somebody asks about, and of the kernel's parameters.

    Args:
        kernel: its IR.
        dim: of the launch, as `wp.launch` takes it.
        shapes: of arrays, by parameter, without what every element has (a vector's components).

    Raises:
        KernelValueError: a launch of another number of axes, a parameter that is not there, has another rank,
            or is an array whose shape is not given.
    """
    grid = tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    if len(grid) != kernel.grid_rank:
        raise KernelValueError(
            f"kernel {kernel.name}: dim: expected {kernel.grid_rank} extents, got {dim!r}",
            hint="pass one integer for each axis of its threads",
        )
    _require_extents(f"kernel {kernel.name}: dim", grid)
    names = [p.name for p in kernel.params]
    for name in shapes:
        if name not in names:
            raise KernelValueError(
                f"kernel {kernel.name}: shapes: no parameter {name!r}", hint=f"the parameters are {', '.join(names)}"
            )
    return grid, [_extents(kernel.name, p, shapes.get(p.name)) for p in kernel.params]


def _extents(kernel: str, param: Param, given: Any) -> tuple[int | None, ...]:
    rank = param.shape.count(None)
    if given is None and rank:
        raise KernelValueError(
            f"kernel {kernel}: shapes: expected the shape of {param.name}, of {rank} axes",
            hint=f'pass shapes={{"{param.name}": ...}}',
        )
    shape = () if given is None else tuple(given) if isinstance(given, (tuple, list)) else (given,)
    if len(shape) != rank:
        raise KernelValueError(
            f"kernel {kernel}: shapes: {param.name} has {rank} axes, got {given!r}",
            hint="leave out the components of vectors and matrices",
        )
    _require_extents(f"kernel {kernel}: shapes: {param.name}", shape)
    return (*shape, *param.shape[rank:])


def _require_extents(where: str, extents: Sequence[Any]) -> None:
    for n in extents:
        if not _is_integer(n, 0, 2**31 - 1):
            raise KernelValueError(f"{where}: expected integers from 0, got {n!r}", hint="extents are below 2^31")


class _Reader:
    def __init__(self, name: str, option: Callable[[str], Any]):
        self._name = name
        self._option = option

    def integer(self, option: str, least: int, most: int, hint: str, given: Any = None) -> int | None:
        value = self._option(option) if given is None else given
        if value is None or _is_integer(value, least, most):
            return None if value is None else int(value)
        raise KernelValueError(
            f"kernel {self._name}: {option}: expected an integer from {least} to {most}, got {value!r}", hint=hint
        )

    def flag(self, option: str, default: bool) -> bool:
        value = self._option(option)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        raise KernelValueError(
            f"kernel {self._name}: {option}: expected True or False, got {value!r}", hint=f"{default} is the default"
        )

    def bounds(self) -> tuple[int, ...]:
        """`launch_bounds`: threads of a block at most, and of blocks of a multiprocessor at least, if that is said."""
        value = self._option("launch_bounds")
        given = () if value is None else tuple(value) if isinstance(value, (tuple, list)) else (value,)
        limits = (_MOST_THREADS, 32)
        if len(given) <= 2 and all(_is_integer(n, 1, most) for n, most in zip(given, limits, strict=False)):
            return tuple(int(n) for n in given)
        raise KernelValueError(
            f"kernel {self._name}: launch_bounds: expected the most threads of a block (1 to 1024), or these and the "
            f"least blocks of a multiprocessor (1 to 32), got {value!r}",
            hint="write launch_bounds=256 or launch_bounds=(256, 2)",
        )


def _is_integer(value: Any, least: int, most: int) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(least <= value <= most)
