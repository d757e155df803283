"""The attributes of a launch's custom call (docs/design/0002-launch-abi.md): code, buffers, geometry."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax

from jaxwarp.codegen.abi import CopiesAttributes, LaunchAttributes, LaunchCode, attributes_of
from jaxwarp.deep import with_deep_stack
from jaxwarp.errors import InternalError, KernelValueError
from jaxwarp.launches.arguments.dims import format_shape
from jaxwarp.launches.code import Gpus, code_of, key_of_call
from jaxwarp.launches.image import CPU, CUDA, pack_cuda_payload, pack_image
from jaxwarp.launches.native_launch import pool_size
from jaxwarp.launches.spec import Dim, LaunchSpec, is_static

TARGET = "jaxwarp_launch"


def call_attributes(
    launch: LaunchSpec, operand_shapes: Sequence[tuple[Dim, ...]], platform: str, is_for_export: bool = True
) -> dict[str, Any]:
    """The attributes of the custom call on `platform`, "cpu" or "cuda"; what is exported may meet other GPUs."""
    shapes, code = [*operand_shapes, *launch.results], _code(launch, operand_shapes, platform, is_for_export)
    grid, grid_from = _locate_grid(launch.name, code.grid, shapes)
    declared = LaunchAttributes(
        name=launch.name,
        symbol=code.symbol,
        image=_image(code),
        buffers=launch.buffers,
        ranks=[p.rank for p in launch.kernel.params],
        grid=grid,
        grid_from=grid_from,
        geometry=[n for pair in code.geometry for n in pair],
        zero=code.cleared,
        grain=code.grain,
        max_unsplit_threads=code.cut.max_unsplit_threads,
        max_pieces_per_thread=code.cut.max_pieces_per_thread,
        rows_per_piece=code.cut.rows_per_piece,
        block=code.block,
        max_blocks=code.max_blocks,
        index_bits=code.index_bits,
        shared_bytes=code.shared_bytes,
    )
    return attributes_of(declared)


def _code(
    launch: LaunchSpec, operand_shapes: Sequence[tuple[Dim, ...]], platform: str, is_for_export: bool = True
) -> LaunchCode:
    buffers = [*operand_shapes, *launch.results]
    shapes = tuple(tuple(buffers[b]) for b in launch.buffers)
    match platform:
        case "cpu":
            return code_of(key_of_call(launch, shapes, None))
        case "cuda":
            return code_of(key_of_call(launch, shapes, _gpus(is_for_export)))
        case _:
            raise InternalError(f"no launch on {platform}")


def _image(code: LaunchCode) -> bytes:
    return pack_image(CUDA, pack_cuda_payload(code.entries)) if code.entries else pack_image(CPU, code.bitcode)


@with_deep_stack
def scratch_attributes(launch: LaunchSpec, operand_shapes: Sequence[tuple[Dim, ...]]) -> tuple[int, dict[str, Any]]:
    """Return, for the CPU, the bytes of a buffer for copies of arrays (codegen/cpu/plan/copies.py), and its attributes.

    The buffer is a result after all others. 0 bytes: no buffer is wanted.
    """
    buffers = [*operand_shapes, *launch.results]
    if not all(is_static(n) for shape in (launch.grid, *buffers) for n in shape):
        return 0, {}
    code = _code(launch, operand_shapes, "cpu")
    if code.prices is None or math.prod(launch.grid) // 2 < code.grain:  # never shared
        return 0, {}
    from jaxwarp.codegen.cpu import choose_copies

    sizes = [array.bytes * math.prod(shape) for array, shape in zip(code.arrays, code.shapes, strict=True)]
    found = choose_copies(
        code.prices,
        [sizes[i] for i in code.cut.copied],
        sum(sizes),
        math.prod(launch.grid),
        pool_size(),
    )
    if found is None:
        return 0, {}
    costs = found.alone, found.atomic, found.copy
    declared = CopiesAttributes(found.count, len(buffers), code.cut.copied, costs)
    return found.count * found.size, attributes_of(declared)


def _locate_grid(
    name: str, extents: Sequence[Dim], shapes: Sequence[tuple[Dim, ...]]
) -> tuple[list[int], list[int]]:
    """Numbers where they are known, else which axis of which buffer has the extent."""
    grid: list[int] = []
    grid_from: list[int] = []
    for axis, dim in enumerate(extents):
        if is_static(dim):
            grid.append(int(dim))
            grid_from += (-1, -1)
            continue
        places = (
            (b, a) for b, shape in enumerate(shapes) for a, n in enumerate(shape) if not is_static(n) and n == dim
        )
        place = next(places, None)
        if place is None:
            raise KernelValueError(
                f"kernel {name}: the symbolic launch extent {dim} of axis {axis} is no extent of an argument or "
                f"an output; their shapes are {', '.join(map(format_shape, shapes))}",
                hint="pass an array that has this extent, or give an output it with output_dims",
            )
        grid.append(-1)
        grid_from += place
    return grid, grid_from


def _gpus(is_for_export: bool) -> Gpus:
    """Return the GPUs of this process."""
    try:
        devices = jax.local_devices(backend="cuda")
    except RuntimeError:  # there are none
        return Gpus(is_for_export=is_for_export)
    models = {device.device_kind for device in devices}
    present = sorted({int(d.compute_capability.replace(".", "")) for d in devices})
    return Gpus(tuple(present), models.pop() if len(models) == 1 else None, is_for_export)
