"""Launch dimensions where nobody gives any: those of the first array, as far as the kernel uses them."""

from __future__ import annotations

from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.ir.kernel import Kernel, TileUse
from jaxwarp.ir.nodes import Param, Tid, walk
from jaxwarp.launches.arguments.dims import format_shape
from jaxwarp.launches.spec import Dim, is_idempotent

First = tuple[str, tuple[Dim, ...]]
"""The name and the shape of the first array argument, without component axes."""


def default_extents(kernel: Kernel, first: First | None, option: str) -> tuple[Dim, ...]:
    """Return as many leading extents of the first array as `tid()` gives indices.

    Args:
        kernel: as the frontend makes it.
        first: None: there is no array.
        option: how the caller would give the dimensions, for hints.

    Raises:
        KernelTypeError, KernelValueError: they do not follow from the array.
    """
    where = f"kernel {kernel.name}"
    if first is None:
        raise KernelTypeError(
            f"{where} has no array input to take the launch dimensions from", hint=f"pass {option}=..."
        )
    asked = next((op for op in walk(kernel.body) if isinstance(op, Tid)), None)
    if asked is None and not is_idempotent(kernel):
        raise KernelValueError(
            f"{where} asks for no thread index, and its result depends on how many threads run it",
            hint=f"pass {option}=1 for one thread",
        )
    name, shape = first
    if asked is not None and kernel.grid_rank > len(shape):
        raise KernelValueError(
            f"{where}: tid() gives {kernel.grid_rank} indices, but the launch has by default the dimensions of its"
            f" first array, '{name}', which are {format_shape(shape)}",
            asked.loc,
            hint=f"pass {option}=({', '.join(['...'] * kernel.grid_rank)})",
        )
    blocked = next((use for use in kernel.tiles if use.moves), None)
    if blocked is not None:
        raise KernelValueError(
            f"{where}: its threads are blocks of elements: each has a {_tile(blocked)} of '{blocked.param.name}' at a"
            " place of its own",
            blocked.loc,
            hint=f"say how many blocks there are: {option}=...",
        )
    return shape[: kernel.grid_rank]


def require_no_tiles(kernel: Kernel, param: Param) -> None:
    """
    Raises:
        KernelValueError: tiles are stored in an output, whose shape then does not follow from the launch.
    """
    use = next((use for use in kernel.tiles if use.stores and use.param is param), None)
    if use is not None:
        raise KernelValueError(
            f"kernel {kernel.name}: output '{param.name}': the kernel stores a {_tile(use)} there, so its shape is not"
            " that of the launch",
            use.loc,
            hint="pass output_dims=..., in elements",
        )


def _tile(use: TileUse) -> str:
    return f"tile of {' x '.join(map(str, use.shape))} elements"
