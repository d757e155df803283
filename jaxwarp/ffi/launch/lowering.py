"""The attributes of a launch's custom call (docs/design/0002-launch-abi.md): code, buffers, geometry."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax

from jaxwarp.analysis.effects import analyze
from jaxwarp.analysis.succession import Succession
from jaxwarp.codegen.abi import CopiesAttributes, Cut, LaunchAttributes, LaunchCode, attributes_of, index_bits_of
from jaxwarp.codegen.progress import told
from jaxwarp.codegen.tuned import with_block
from jaxwarp.deep import with_deep_stack
from jaxwarp.errors import InternalError, KernelValueError
from jaxwarp.ffi.launch.calls.dims import format_shape
from jaxwarp.ffi.launch.image import CPU, CUDA, CudaEntry, pack_cuda_payload, pack_image
from jaxwarp.ffi.launch.shaped import Shaped, cpu_code, shaped
from jaxwarp.ffi.launch.spec import OUTPUT, Dim, Launch, is_static
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Param
from jaxwarp.passes.pipeline import prepared

TARGET = "jaxwarp_launch"

_CODE_CACHE = 512


@with_deep_stack
def call_attributes(
    launch: Launch, operand_shapes: Sequence[tuple[Dim, ...]], platform: str, is_for_export: bool = True
) -> dict[str, Any]:
    """The attributes of the custom call on `platform`, "cpu" or "cuda"; what is exported may meet other GPUs."""
    shapes = [*operand_shapes, *launch.results]
    extents, grain, unsplit = launch.grid, 1, 1
    index_bits = index_bits_of(launch.grid, shapes)
    match platform:
        case "cpu":
            made = _on_cpu(launch, shapes)
            code = _cpu_code(made.kernel, made.order)
            code = replace(code, geometry=made.of_arrays(code.geometry))
            cleared, extents = outputs_to_clear(launch, shapes, made.cleared), made.grid
            grain, unsplit = _grain(made), _max_unsplit_threads(made, code.cut)
        case "cuda":
            launch = _with_measured_block(launch, shapes, is_for_export) if launch.cuda.is_tuned else launch
            text = _cuda_text(launch, shapes, index_bits)
            code = _compiled_cuda(text, _cuda_targets(is_for_export))
            extents = tuple(text.grid) or launch.grid
            cleared = outputs_to_clear(launch.replace(grid=extents), shapes, text.kernel)
        case _:
            raise InternalError(f"no launch on {platform}")
    grid, grid_from = _locate_grid(launch.name, extents, shapes)
    declared = LaunchAttributes(
        name=launch.name,
        symbol=code.symbol,
        image=code.image,
        buffers=launch.buffers,
        ranks=[p.rank for p in launch.kernel.params],
        grid=grid,
        grid_from=grid_from,
        geometry=[n for pair in code.geometry for n in pair],
        zero=cleared,
        grain=grain,
        max_unsplit_threads=unsplit,
        max_pieces_per_thread=code.cut.max_pieces_per_thread,
        rows_per_piece=code.cut.rows_per_piece,
        block=code.block if platform == "cuda" else launch.cuda.block,
        max_blocks=code.max_blocks,
        index_bits=index_bits,
    )
    return attributes_of(declared)


@with_deep_stack
def scratch_attributes(launch: Launch, operand_shapes: Sequence[tuple[Dim, ...]]) -> tuple[int, dict[str, Any]]:
    """Return, for the CPU, the bytes of a buffer for copies of arrays (codegen/cpu/plan/copies.py), and its attributes.

    The buffer is a result after all others. 0 bytes: no buffer is wanted.
    """
    shapes = [*operand_shapes, *launch.results]
    made = _on_cpu(launch, shapes)
    code = _cpu_code(made.kernel, made.order)
    if not code.cut.copied or not all(is_static(n) for shape in (launch.grid, *shapes) for n in shape):
        return 0, {}
    if math.prod(launch.grid) // 2 < _grain(made):  # never shared
        return 0, {}
    from jaxwarp.codegen.cpu import choose_copies

    kernel, extents = made.kernel, made.extents
    sizes = [param.dtype.bytes * math.prod(extents[param]) for param in kernel.params]
    found = choose_copies(
        kernel,
        code.cut.contended,
        code.cut.summed,
        extents,
        [sizes[i] for i in code.cut.copied],
        sum(sizes),
        math.prod(launch.grid),
        pool_size(),
    )
    if found is None:
        return 0, {}
    costs = found.alone, found.atomic, found.copy
    declared = CopiesAttributes(found.count, len(shapes), code.cut.copied, costs)
    return found.count * found.size, attributes_of(declared)


def pool_size() -> int:
    """Return how many threads XLA's CPU pool has in this process, at least."""
    wanted = os.environ.get("PJRT_NPROC", "")
    return int(wanted) if wanted.isdigit() and int(wanted) else len(os.sched_getaffinity(0))


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


def _extents(launch: Launch, kernel: Kernel, shapes: Sequence[tuple[Dim, ...]]) -> dict[Param, tuple[Dim, ...]]:
    """The extents of the parameters, given those of the buffers."""
    return dict(zip(kernel.params, (shapes[buffer] for buffer in launch.buffers), strict=True))


def _grain(made: Shaped) -> int:
    from jaxwarp.codegen.cpu import choose_grain

    return choose_grain(made.kernel, made.extents)


def _max_unsplit_threads(made: Shaped, cut: Cut) -> int:
    """Return the most threads of a pool for which the launch stays whole, now that extents are known."""
    if not cut.summed:
        return cut.max_unsplit_threads
    from jaxwarp.codegen.cpu import choose_cut

    return choose_cut(made.kernel, cut.contended, cut.summed, False, made.extents)[0]


def outputs_to_clear(launch: Launch, shapes: Sequence[tuple[Dim, ...]], kernel: Kernel | None = None) -> list[int]:
    """The pure outputs of which some element may stay unwritten.

    `shapes` are those of the buffers; `kernel` is the prepared one that runs, if it is another than that of the launch.
    """
    effects = analyze(kernel or prepared(launch.kernel, launch.fma))
    known = _extents(launch, effects.kernel, shapes)
    return [
        index
        for index, param in enumerate(effects.kernel.params)
        if launch.roles[index] == OUTPUT and not effects.covers(param, launch.grid, known[param], known)
    ]


def _on_cpu(launch: Launch, shapes: Sequence[tuple[Dim, ...]]) -> Shaped:
    """The launch as it is compiled, on arrays of `shapes`, those of the buffers."""
    kernel = prepared(launch.kernel, launch.fma)
    extents = list(_extents(launch, kernel, shapes).values())
    return shaped(kernel, launch.grid, extents, launch.in_order, outputs_to_clear(launch, shapes))


@functools.lru_cache(maxsize=_CODE_CACHE)
def _cpu_code(kernel: Kernel, order: Succession | None) -> LaunchCode:
    code = cpu_code(kernel, order)
    image = pack_image(CPU, code.bitcode)
    return LaunchCode(code.symbol, image, code.geometry, code.cut)


def _cuda_text(launch: Launch, shapes: Sequence[tuple[Dim, ...]], index_bits: int) -> Any:
    from jaxwarp.codegen.cuda import code_for

    kernel = prepared(launch.kernel, launch.fma)
    known = list(_extents(launch, kernel, shapes).values())
    zeros = [i for i, role in enumerate(launch.roles) if role == OUTPUT]
    return code_for(kernel, launch.grid, known, index_bits, launch.cuda, zeros=zeros)


def _with_measured_block(launch: Launch, shapes: Sequence[tuple[Dim, ...]], is_for_export: bool) -> Launch:
    kernel = prepared(launch.kernel, launch.fma)
    known = list(_extents(launch, kernel, shapes).values())
    gpu = None if is_for_export else _gpu_model()
    return launch.replace(cuda=with_block(launch.cuda, kernel, launch.grid, known, gpu))


def _gpu_model() -> str | None:
    """Return the model of the GPUs of this process, if all are of one model; else None."""
    try:
        found = {device.device_kind for device in jax.local_devices(backend="cuda")}
    except RuntimeError:  # there are none
        return None
    return found.pop() if len(found) == 1 else None


@functools.lru_cache(maxsize=_CODE_CACHE)
def _compiled_cuda(code: Any, targets: Targets) -> LaunchCode:
    from jaxwarp.codegen.cuda import choose_block, compile_cuda

    with told(f"compiling {code.symbol} for CUDA"):
        entries = compile_cuda(code, targets.cubins, ptx=targets.ptx)
    payload = pack_cuda_payload([CudaEntry(*entry) for entry in entries])
    block = choose_block(code, [(e.arch, e.code) for e in entries[: len(targets.cubins)]])
    image = pack_image(CUDA, payload)
    return LaunchCode(code.symbol, image, code.geometry, max_blocks=code.most_blocks, block=block)


class Targets(NamedTuple):
    """Architectures that an image has machine code for, and those that it has PTX for."""

    cubins: tuple[int, ...]
    ptx: tuple[int, ...]


def _cuda_targets(is_for_export: bool) -> Targets:
    """Machine code for the devices present, or where there is none for the common ones; PTX for newer devices."""
    from jaxwarp.codegen.cuda import default_archs, nvrtc

    try:
        devices = jax.local_devices(backend="cuda")
    except RuntimeError:  # no CUDA here: the program is for export
        cubins = default_archs()
        return Targets(cubins, (min(cubins),))
    present = sorted({int(d.compute_capability.replace(".", "")) for d in devices})
    known = set(nvrtc.supported_architectures())
    if not is_for_export and known.issuperset(present):
        return Targets(tuple(present), ())
    # A device newer than NVRTC compiles PTX itself.
    older = [a for a in known if a <= present[0]]
    return Targets(tuple(a for a in present if a in known), (max(older, default=present[0]),))
