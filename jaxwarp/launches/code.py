"""The code of a launch: `code_of` makes it for every way to launch, on every target. See docs/design/0069-one-maker.md.

Jitted, exported and eager launches, captures, tapes and callbacks differ in a `CodeKey`, or have the same code.
"""

from __future__ import annotations

import functools
import logging
import pickle
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

from jaxwarp.analysis.effects import analyze
from jaxwarp.analysis.scatter.sources import placing_numbers
from jaxwarp.analysis.succession import Succession
from jaxwarp.codegen import cache
from jaxwarp.codegen.abi import (
    CUBIN,
    MERGED,
    NO_CUDA_OPTIONS,
    ArrayUse,
    CudaOptions,
    Entry,
    Geometry,
    LaunchCode,
    are_integers,
    index_bits_of,
)
from jaxwarp.codegen.progress import logged, told
from jaxwarp.codegen.tuned import with_block
from jaxwarp.deep import with_deep_stack
from jaxwarp.ir.kernel import Kernel
from jaxwarp.launches.spec import OUTPUT, LaunchSpec, identity_of, intern_kernel, is_static
from jaxwarp.passes.launches.versions import Versions
from jaxwarp.passes.pipeline import Flat, is_watched, on_cpu, prepared

# LLVM and NVRTC are slow to import, and not needed to trace: `codegen.cpu` and `codegen.cuda` are imported late.

logger = logging.getLogger(__name__)

_MOST = 512
_PICKLE = 5  # the protocol

Shapes = tuple[tuple[Any, ...], ...]
"""Of the parameters of a kernel."""


class Gpus(NamedTuple):
    """The GPUs that code is made for.

    Attributes:
        architectures: those of the GPUs present, 90 for sm_90. Without any, code is made for the common ones.
        model: the model of all of them, of which launches may have been measured; None: not known.
        is_for_export: whether the code may run on other GPUs, too.
    """

    architectures: tuple[int, ...] = ()
    model: str | None = None
    is_for_export: bool = False


class CodeKey(NamedTuple):
    """Everything that decides about the code of a launch.

    Attributes:
        kernel: from `intern_kernel`.
        fma: whether products and sums may be contracted.
        grid, shapes: extents of the launch and of the parameters, numbers or symbolic.
        outputs: the parameters that hold zeros on entry, if the code needs that (`LaunchCode.cleared`).
        in_order: see Launch.
        gpus: the GPUs that it is for; None: it is for the CPU.
        options: on GPUs, what else decides.
        is_aligned: on GPUs, whether every array begins at a multiple of `PACK_BYTES`.
        numbers: see LaunchSpec.
    """

    kernel: Kernel
    fma: bool
    grid: tuple[Any, ...]
    shapes: Shapes
    outputs: tuple[int, ...] = ()
    in_order: bool = True
    gpus: Gpus | None = None
    options: CudaOptions = NO_CUDA_OPTIONS
    is_aligned: bool = True
    numbers: tuple[tuple[int, int], ...] = ()


def key_of(launch: LaunchSpec, shapes: Shapes, gpus: Gpus | None = None) -> CodeKey:
    """Return the key of a launch on arrays that hold values, its outputs too."""
    key = CodeKey(launch.kernel, launch.fma, launch.grid, shapes, (), launch.in_order, gpus, launch.cuda)
    return key._replace(numbers=launch.numbers)


def key_of_call(launch: LaunchSpec, shapes: Shapes, gpus: Gpus | None = None) -> CodeKey:
    """Return the key of a launch whose outputs have memory of their own, which XLA or a tape gives it."""
    outputs = tuple(i for i, role in enumerate(launch.roles) if role == OUTPUT)
    return key_of(launch, shapes, gpus)._replace(outputs=outputs)


def settled(key: CodeKey) -> CodeKey:
    """Return the key without what decides nothing on its target, and with the block size that was measured, if the
    options ask for that one."""
    options, gpus = key.options, key.gpus
    if gpus is None:
        return key if options is NO_CUDA_OPTIONS else key._replace(options=NO_CUDA_OPTIONS, is_aligned=True)
    if not gpus.architectures:  # no GPU here: the program is for export
        from jaxwarp.codegen.cuda import default_archs

        gpus = Gpus(tuple(sorted(default_archs())), None, True)
    if options.is_tuned:
        model = None if gpus.is_for_export else gpus.model
        options = with_block(options, prepared(key.kernel, key.fma), key.grid, key.shapes, model)
    return key._replace(options=options, gpus=gpus._replace(model=None), in_order=True)


@functools.lru_cache(maxsize=_MOST)
def placing(kernel: Kernel, fma: bool) -> frozenset[int]:
    """Return the parameters that hold one integer, on which it depends to which elements a launch adds."""
    return placing_numbers(prepared(kernel, fma))


@with_deep_stack
def code_of(key: CodeKey) -> LaunchCode:
    """Return the code of a launch."""
    if set(map(type, chain(key.grid, *key.shapes))) <= {int}:
        return _made(settled(key))
    grid, *shapes = [tuple(int(n) if is_static(n) else n for n in extents) for extents in (key.grid, *key.shapes)]
    make = _made if are_integers(grid, *shapes) else _make  # symbolic extents may not be comparable
    return make(settled(key._replace(grid=grid, shapes=tuple(shapes))))


@functools.lru_cache(maxsize=_MOST)
def _made(key: CodeKey) -> LaunchCode:
    """Return code that this process or an earlier one has made: docs/design/0092-code-of-earlier-processes.md."""
    _own[key.gpus is None].has(key.kernel, _known(key))  # it counts if it is found, too
    name = _name_on_disk(key)
    if name is None:
        return _make(key)
    found = _found(name, key.kernel.name)
    if found is None:
        found = _make(key)
        if _has_own_code(key) and not _may_warn(key, found):
            cache.put_own(name, pickle.dumps(found, _PICKLE))
    return found


def _may_warn(key: CodeKey, made: LaunchCode) -> bool:
    """Return whether a warning came with the code, of tiles that one thread works on: each process is to give it."""
    if key.gpus is None or len(made.grid) > len(key.grid):
        return False
    from jaxwarp.codegen.cuda.blocks.plan import has_tiles

    return has_tiles(key.kernel)


def _found(name: str, kernel: str) -> LaunchCode | None:
    """Return the code that is kept under a name, if it is there."""
    data = cache.get(name)
    if data is None:
        return None
    with logged(f"the code of {kernel}") as origin:
        try:
            found = pickle.loads(data)
        except Exception as error:
            logger.warning("code from the cache cannot be read, making it again: %s", error)
            return None
        origin.is_cached = True
    return found


def _name_on_disk(key: CodeKey) -> str | None:
    """Return the name under which the code of a launch is kept for other processes; None: it is not.

    Only the first launches of a kernel are: a program that changes sizes for ever would fill the disk.
    """
    kernel, *others = key
    if not _is_kept or is_watched() or not _on_disk.has(kernel, tuple(others)):
        return None
    if key.gpus is None:
        from jaxwarp.codegen.cpu import target_key

        target = target_key()
    else:
        from jaxwarp.codegen.cuda import nvrtc

        target = repr(nvrtc.version()), repr(_targets(key.gpus))
    return cache.own_key("launch", *target, *identity_of(kernel), repr(others))


_on_disk = Versions()
_own = {is_on_cpu: Versions() for is_on_cpu in (True, False)}
_is_kept = True


def _has_own_code(key: CodeKey) -> bool:
    """Return whether a launch is one of the first of its kernel, and of what several kernels are once prepared."""
    launches, known = _own[key.gpus is None], _known(key)
    return launches.has(key.kernel, known) and launches.has(intern_kernel(prepared(key.kernel, key.fma)), known)


def _known(key: CodeKey) -> tuple[Any, ...]:
    """Return what code of its own has as constants."""
    extents = (tuple(n if is_static(n) else None for n in extents) for extents in (key.grid, *key.shapes))
    return *extents, key.numbers


def _make(key: CodeKey) -> LaunchCode:
    # Kernels that differ before they are prepared may be equal then: those with checks, at other extents.
    kernel = intern_kernel(prepared(key.kernel, key.fma))
    return _for_cpu(key, kernel) if key.gpus is None else _for_gpus(key, kernel, key.gpus)


def _for_cpu(key: CodeKey, kernel: Kernel) -> LaunchCode:
    from jaxwarp.codegen.cpu import choose_cut, choose_grain, prices_without_copies, target_key

    zeros = _to_clear(key, kernel, key.grid)
    is_own = _has_own_code(key)
    cleared, own_grid, made, context = on_cpu(kernel, key.grid, key.shapes, zeros, key.in_order, key.numbers, is_own)
    code, grid = _bitcode(made, context.order, target_key()), context.grid or ()
    extents, cut = dict(zip(made.params, context.shapes, strict=True)), code.cut
    if code.summed:  # extents decide how many threads are worth it
        cut = replace(cut, max_unsplit_threads=choose_cut(made, code.contended, code.summed, False, extents)[0])
    return LaunchCode(
        symbol=code.symbol,
        bitcode=code.bitcode,
        geometry=_of_arrays(code.geometry, context.flat),
        arrays=_uses(made),
        grid=grid,
        shapes=context.shapes,
        cleared=_to_clear(key, cleared, own_grid),
        cut=cut,
        prices=prices_without_copies(made, code.contended, code.summed, extents) if cut.copied else None,
        grain=choose_grain(made, extents),
        index_bits=index_bits_of(key.grid, key.shapes),
    )


@functools.lru_cache(maxsize=_MOST)
def _bitcode(kernel: Kernel, order: Succession | None, _target: tuple[str, ...]) -> Any:
    """Return CPU code that launches of several extents share, see `compile_cpu`. `_target`: what else decides now."""
    from jaxwarp.codegen.cpu import compile_cpu

    with told(f"making CPU code of {kernel.name}"), logged(f"{kernel.name} to LLVM bitcode"):
        return compile_cpu(kernel, succession=order)


def _of_arrays(geometry: Geometry, flat: Flat | None) -> Geometry:
    """Return the run-time integers of code by the axes that arrays have in the launch, before some were merged."""
    if flat is None:
        return geometry
    places = ((source, (axis, 1) if source < 0 else flat.axes[source][axis]) for source, axis in geometry)
    return tuple((source, first + (count - 1) * MERGED) for source, (first, count) in places)


def _for_gpus(key: CodeKey, kernel: Kernel, gpus: Gpus) -> LaunchCode:
    from jaxwarp.codegen.cuda import choose_block, code_for, most_shared_bytes
    from jaxwarp.codegen.cuda.blocks.plan import MOST_THREADS, has_tiles

    zeros = _to_clear(key, kernel, key.grid)
    threads = (*key.grid, MOST_THREADS) if has_tiles(kernel) else key.grid
    bits = index_bits_of(threads, key.shapes)
    options = replace(key.options, shared_bytes=most_shared_bytes(gpus.architectures, not gpus.is_for_export))
    own = key.grid if _has_own_code(key) else None
    text = code_for(kernel, own, key.shapes, bits, options, key.is_aligned, zeros, dict(key.numbers))
    entries, grid = _machine_code(text, gpus), tuple(text.grid) or key.grid
    lanes = (text.threads,) if text.threads > 1 else ()
    return LaunchCode(
        symbol=text.symbol,
        entries=entries,
        geometry=text.geometry,
        arrays=_uses(text.kernel or kernel),
        grid=(*grid, *lanes),
        shapes=key.shapes,
        cleared=_to_clear(key, text.kernel or kernel, grid),
        block=choose_block(text, [(e.arch, e.code) for e in entries if e.kind == CUBIN]),
        max_blocks=text.most_blocks,
        index_bits=bits,
        shared_bytes=text.shared_bytes,
    )


@functools.lru_cache(maxsize=_MOST)
def _machine_code(text: Any, gpus: Gpus) -> tuple[Entry, ...]:
    """Return the machine code of a text, which launches of several extents may share."""
    from jaxwarp.codegen.cuda import compile_cuda

    cubins, ptx = _targets(gpus)
    with told(f"compiling {text.symbol} for CUDA"):
        return compile_cuda(text, cubins, ptx=ptx)


def _targets(gpus: Gpus) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the architectures that there is machine code for, and those that there is PTX for, for newer GPUs."""
    from jaxwarp.codegen.cuda import nvrtc

    present = gpus.architectures
    known = set(nvrtc.supported_architectures())
    if not gpus.is_for_export and known.issuperset(present):
        return present, ()
    # A GPU newer than NVRTC compiles PTX itself.
    older = max((a for a in known if a <= present[0]), default=present[0])
    return tuple(a for a in present if a in known), (older,)


def _uses(kernel: Kernel) -> tuple[ArrayUse, ...]:
    """Return how a kernel uses each of its parameters."""
    effects = analyze(kernel)
    return tuple(ArrayUse(p.dtype.bytes, effects[p].modifies, bool(effects[p].atomics)) for p in kernel.params)


def _to_clear(key: CodeKey, kernel: Kernel, grid: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the outputs of which a launch of `kernel`, over `grid`, may leave some element unwritten."""
    if not key.outputs:
        return ()
    effects = analyze(kernel)
    params = effects.kernel.params
    extents = dict(zip(params, key.shapes, strict=True))
    return tuple(i for i in key.outputs if not effects.covers(params[i], grid, key.shapes[i], extents))


def forget() -> None:
    """Make all code in this process, anew, from now on: for tests that change what decides about it."""
    global _is_kept
    _is_kept = False
    for kept in (_made, _bitcode, _machine_code):
        kept.cache_clear()
