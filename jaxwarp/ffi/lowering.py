"""From a launch to the attributes of its custom call (docs/design/0002-launch-abi.md): code, buffers, geometry."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxwarp.codegen.cpu import compile_cpu
from jaxwarp.codegen.cuda import DEFAULT_ARCHITECTURES, compile_cuda, print_cuda
from jaxwarp.errors import InternalError, KernelValueError
from jaxwarp.ffi.image import CPU, CUDA, pack_cuda_payload, pack_image
from jaxwarp.ffi.launch import OUTPUT, Dim, Launch, is_static
from jaxwarp.ir.nodes import Kernel
from jaxwarp.passes import prepare
from jaxwarp.passes.effects import analyze

TARGET = "jaxwarp_launch"

# A CUDA thread steps past the end of the grid before it stops: that index must not wrap either.
_INDEX32_LIMIT = 2**30
_DEFAULT_BLOCK = 256
_CODE_CACHE = 512


def call_attributes(launch: Launch, operand_shapes: Sequence[tuple[Dim, ...]], platform: str) -> dict[str, Any]:
    """The attributes of the custom call on `platform`, "cpu" or "cuda"."""
    shapes = [*operand_shapes, *launch.results]
    grid, grid_from = _locate_grid(launch, shapes)
    match platform:
        case "cpu":
            code = _cpu_code(launch.kernel, launch.fma)
            kind = {"image": code.image, "grain": np.int64(code.grain)}
        case "cuda":
            block, bits = launch.block_dim or _DEFAULT_BLOCK, _index_bits(launch.grid, shapes)
            code = _cuda_code(launch.kernel, launch.fma, block, bits, _cuda_architectures())
            kind = {"image": code.image, "block": np.int64(block), "index_bits": np.int64(bits)}
        case _:
            raise InternalError(f"no launch on {platform}")
    defaults = {"grain": np.int64(0), "block": np.int64(_DEFAULT_BLOCK), "index_bits": np.int64(64)}
    return (
        defaults
        | kind
        | {
            "name": launch.name,
            "symbol": code.symbol,
            "buffers": _int64(launch.buffers),
            "ranks": _int64([p.rank for p in launch.kernel.params]),
            "grid": _int64(grid),
            "grid_from": _int64(grid_from),
            "geometry": _int64([n for pair in code.geometry for n in pair]),
            "zero": _int64(_outputs_to_clear(launch)),
        }
    )


def _int64(values: Sequence[int]) -> np.ndarray:
    return np.array(values, np.int64)


def _locate_grid(launch: Launch, shapes: Sequence[tuple[Dim, ...]]) -> tuple[list[int], list[int]]:
    """Numbers where they are known, else which axis of which buffer has the extent."""
    grid: list[int] = []
    grid_from: list[int] = []
    for axis, dim in enumerate(launch.grid):
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
                f"kernel {launch.name}: the symbolic launch extent {dim} of axis {axis} is no extent of an argument or "
                f"an output; their shapes are {', '.join(map(_shape_text, shapes))}",
                hint="pass an array that has this extent, or give an output it with output_dims",
            )
        grid.append(-1)
        grid_from += place
    return grid, grid_from


def _shape_text(shape: tuple[Dim, ...]) -> str:
    return f"({', '.join(map(str, shape))})"


def _index_bits(grid: Sequence[Dim], shapes: Sequence[tuple[Dim, ...]]) -> int:
    sizes = [math.prod(shape) for shape in (tuple(grid), *shapes) if all(map(is_static, shape))]
    is_small = len(sizes) == len(shapes) + 1 and max(sizes) < _INDEX32_LIMIT
    return 32 if is_small else 64


def _outputs_to_clear(launch: Launch) -> list[int]:
    """The pure outputs of which some element may stay unwritten."""
    shapes = dict(zip(launch.result_params, launch.results, strict=True))
    effects = analyze(prepared(launch.kernel, launch.fma))
    return [
        index
        for index, param in enumerate(effects.kernel.params)
        if launch.roles[index] == OUTPUT and not effects.covers(param, launch.grid, shapes[index])
    ]


@functools.lru_cache(maxsize=_CODE_CACHE)
def prepared(kernel: Kernel, fma: bool) -> Kernel:
    """What both code generators compile."""
    return prepare(kernel, fma=fma)


class Code(NamedTuple):
    """Code of one kernel for one platform. `grain` is of use on the CPU only."""

    symbol: str
    image: bytes
    geometry: tuple[tuple[int, int], ...]
    grain: int = 0


@functools.lru_cache(maxsize=_CODE_CACHE)
def _cpu_code(kernel: Kernel, fma: bool) -> Code:
    code = compile_cpu(prepared(kernel, fma))
    return Code(code.symbol, pack_image(CPU, code.bitcode), code.geometry, code.grain)


@functools.lru_cache(maxsize=_CODE_CACHE)
def _cuda_code(kernel: Kernel, fma: bool, block: int, index_bits: int, architectures: tuple[int, ...]) -> Code:
    code = print_cuda(prepared(kernel, fma), index_bits=index_bits, block=block)
    # PTX of the oldest architecture lets a device that is newer than all of them run the program, too.
    entries = compile_cuda(code.source, code.symbol, architectures, ptx=(min(architectures),))
    return Code(code.symbol, pack_image(CUDA, pack_cuda_payload(entries)), code.geometry)


def _cuda_architectures() -> tuple[int, ...]:
    """Those of the devices present; without one, the common ones."""
    try:
        devices = jax.local_devices(backend="cuda")
    except RuntimeError:  # no CUDA here: the program is for export
        return DEFAULT_ARCHITECTURES
    return tuple(sorted({int(d.compute_capability.replace(".", "")) for d in devices}))
