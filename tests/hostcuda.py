"""Runs the CUDA text of kernels on the host: compiled as plain C++ behind a shim, its threads one after another.

Where threads of a block wait for each other (barriers, shuffles) they are fibers that take turns, in blocks of BLOCK.

One translation unit can hold many kernels: `prepare_host` compiles a whole suite's texts at once, and `run_host` then
finds them. Libraries are kept by the hash of all that went into them.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import math
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from jaxwarp.codegen.abi import NO_CUDA_OPTIONS, CudaOptions
from jaxwarp.codegen.cuda import CudaCode, print_cuda
from jaxwarp.codegen.cuda.expression import CPP_TYPES
from jaxwarp.ir.kernel import Kernel

SHIM = Path(__file__).parent / "shim" / "cuda_on_host.h"
FIBERS = SHIM.parent / "fibers.h"
BLOCK = 40  # of threads that wait for each other: a whole warp and a part of one
# Signed overflow wraps and words are read as other types, as NVRTC's helpers assume; no contraction, as --fmad=false.
# Without -frounding-math GCC takes `0.0f - (float)i` for `-(float)i`, which is another zero.
MEANING = ("-fwrapv", "-fno-strict-aliasing", "-ffp-contract=off", "-frounding-math")
FLAGS = ("-std=c++17", *MEANING, "-w", "-fPIC", "-shared")
OPTIMISED = "-O1"

_launchers: dict[str, Callable[..., None]] = {}


def run_host(
    kernel: Kernel,
    grid: Sequence[int],
    buffers: Sequence[np.ndarray],
    index_bits: int = 32,
    threads: int | None = None,
    block: int | None = None,
    options: CudaOptions = NO_CUDA_OPTIONS,
) -> None:
    """Launches the CUDA text of a prepared kernel on host arrays, in place.

    Args:
        threads: how many CUDA threads share the launch (a multiple of 4 is spread over blocks of 4); None: one each,
            so that elements are visited in the interpreter's order.
        block: threads per block.
        options: of the text.
    """
    run_code(kernel, print_cuda(kernel, index_bits, options), grid, buffers, threads, block)


def run_code(
    kernel: Kernel,
    code: CudaCode,
    grid: Sequence[int],
    buffers: Sequence[np.ndarray],
    threads: int | None = None,
    block: int | None = None,
) -> None:
    """As `run_host`, of a text made from the kernel."""
    shapes = [b.shape for b in buffers]
    geometry = [grid[axis] if number < 0 else shapes[number][axis] for number, axis in code.geometry]
    total = math.prod(code.grid or grid) * code.threads
    block = code.threads if code.threads > 1 else block
    block = min(block or (BLOCK if waits(code) else 4), total) or 1
    blocks = min(-(-(threads or total) // block), code.most_blocks)
    launch_at(kernel, code, [b.ctypes.data for b in buffers], [*geometry, total], blocks, block)


def launch_at(
    kernel: Kernel, code: CudaCode, addresses: Sequence[int], numbers: Sequence[int], blocks: int, block: int
) -> None:
    """A launch with the arguments that the driver gets: addresses of arrays, then extents and the number of threads."""
    if key(code) not in _launchers:
        compile_host([(kernel, code)])
    *geometry, total = numbers
    pointers = (ctypes.c_void_p * max(1, len(addresses)))(*addresses)
    extents = (ctypes.c_longlong * max(1, len(geometry)))(*geometry)
    race = _launchers[key(code)](pointers, extents, ctypes.c_longlong(total), blocks, block)
    assert race is None, f"a race in shared memory: {race.decode()}\n{code.source}"


def prepare_host(kernels: Iterable[Kernel], index_bits: Sequence[int] = (32, 64)) -> None:
    """Compiles the texts of many kernels at once."""
    compile_missing((kernel, print_cuda(kernel, bits)) for kernel in kernels for bits in index_bits)


def compile_missing(codes: Iterable[tuple[Kernel, CudaCode]]) -> None:
    """One library for those of these texts that have none: a text more takes less time than a library more."""
    missing = {key(code): (kernel, code) for kernel, code in codes if key(code) not in _launchers}
    if missing:
        compile_host(list(missing.values()))


def key(code: CudaCode) -> str:
    return hashlib.sha256(code.source.encode()).hexdigest()[:24]


def waits(code: CudaCode) -> bool:
    """Do threads of a block wait for each other?"""
    return any(word in code.source for word in ("__syncthreads()", "__activemask()", "_sync(", "__shared__", "_async("))


def compile_host(codes: Sequence[tuple[Kernel, CudaCode]], optimisation: str = OPTIMISED) -> None:
    """One library for these texts."""
    loaded = load_unit("\n".join(_unit(kernel, code) for kernel, code in codes), optimisation)
    for _, code in codes:
        launcher = getattr(loaded, f"launch_{key(code)}")
        launcher.restype = ctypes.c_char_p
        launcher.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_longlong, ctypes.c_uint, ctypes.c_uint]
        _launchers[key(code)] = launcher


def load_unit(text: str, optimisation: str = OPTIMISED) -> ctypes.CDLL:
    """A library of C++ that is written for the shim."""
    unit = f'#include "{SHIM.name}"\n' + text
    flags = (*FLAGS, optimisation)
    identity = "\0".join([SHIM.read_text(), FIBERS.read_text(), unit, *flags])
    digest = hashlib.sha256(identity.encode()).hexdigest()[:32]
    folder = _folder()
    library = folder / f"{digest}.so"
    if not library.exists():
        _compile(unit, flags, folder, library)
    return ctypes.CDLL(str(library))


def _folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"jaxwarp-host-cuda-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    return folder


def _compiler() -> str:
    compiler = shutil.which("g++") or shutil.which("c++")
    assert compiler is not None, "running CUDA text on the host needs a C++ compiler"
    return compiler


@functools.cache
def _precompiled_shim(flags: tuple[str, ...]) -> Path:
    """A folder with the shim as GCC has parsed it, which takes longer than all else of a small kernel.

    Another compiler than GCC, or another version of it, reads the shim itself.
    """
    version = subprocess.run([_compiler(), "--version"], capture_output=True, text=True, check=True).stdout
    identity = "\0".join([SHIM.read_text(), FIBERS.read_text(), version, *flags])
    folder = _folder() / f"shim-{hashlib.sha256(identity.encode()).hexdigest()[:32]}"
    folder.mkdir(exist_ok=True)
    header = folder / f"{SHIM.name}.gch"
    if not header.exists():
        with tempfile.TemporaryDirectory(dir=folder) as work:
            built = Path(work) / header.name
            command = [_compiler(), *flags, "-x", "c++-header", str(SHIM), "-o", str(built)]
            subprocess.run(command, capture_output=True, check=True)
            os.replace(built, header)
    return folder


def _compile(unit: str, flags: tuple[str, ...], folder: Path, library: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as work:
        source, built = Path(work) / "unit.cc", Path(work) / "unit.so"
        source.write_text(unit)
        includes = [f"-I{_precompiled_shim(flags)}", f"-I{SHIM.parent}"]
        linker = ("-fuse-ld=gold",) if shutil.which("ld.gold") else ()  # a third less for a small library
        command = [_compiler(), *flags, *linker, *includes, str(source), "-o", str(built), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            kept = library.with_suffix(".failed.cc")
            kept.write_text(unit)
            raise AssertionError(
                f"the CUDA text, {kept}, does not compile as C++:\n{done.stderr}\n"
                f"A function of CUDA's that is not declared: declare it in {SHIM}."
            )
        # Renaming is atomic: another process sees the whole library or none.
        os.replace(built, library)


def _watched(source: str) -> str:
    """The text with tiles in shared memory as arrays that see races."""
    helpers, kernel, text = source.partition('extern "C" __global__')
    text = re.sub(_PART, r"alignas(16) __shared__ \1 \2[\3];", re.sub(_DYNAMIC, "", text))
    names = dict.fromkeys(name for _, name, _ in re.findall(_SHARED, text))
    texts = re.sub(_SHARED, r"static fibers::Shared<\1, \3> \2;", text).splitlines()
    return helpers + kernel + "\n".join(functools.reduce(_accessed, names, line) for line in texts)


def dynamic_parts(source: str) -> list[tuple[str, int, int, int]]:
    """Return the arrays in shared memory which the launch gives: type, elements, where each begins and ends."""
    sizes = {name: int(short.lstrip("abcdefghijklmnopqrstuvwxyz") or 8) // 8 for short, name in CPP_TYPES.items()}
    found = [(of, int(count), int(at)) for of, _, count, at in re.findall(_PART, source)]
    return [(of, count, at, at + count * sizes[of]) for of, count, at in found]


_SHARED = r"alignas\(16\) __shared__ ([\w ]+) (\w+)\[(\d+)\];"
_DYNAMIC = r"extern __shared__ __align__\(16\) unsigned char \w+\[\];"
_PART = r"(\w[\w ]*) \(&(\w+)\)\[(\d+)\] = \*\(\1 \(\*\)\[\3\]\)\(\w+ \+ (\d+)\);"


def _accessed(line: str, name: str) -> str:
    """A line with `name[at] = value;` as `name.store(at, value);`, and `name[at]` as `name.load(at)`."""
    begin = 0
    while (found := re.compile(rf"\b{name}\[").search(line, begin)) is not None:
        depth, end = 1, found.end()
        while depth:
            depth += {"[": 1, "]": -1}.get(line[end], 0)
            end += 1
        index, rest = line[found.end() : end - 1], line[end:]
        if rest.startswith(" = "):
            value, after = rest[3:].split(";", 1)
            line = f"{line[: found.start()]}{name}.store({index}, {value});{after}"
        else:
            line = f"{line[: found.start()]}{name}.load({index}){rest}"
        begin = found.start() + len(name)
    return line


def _unit(kernel: Kernel, code: CudaCode) -> str:
    """The text in a namespace of its own, its extern "C" function renamed by the preprocessor, and a launcher."""
    mark = key(code)
    index = "int" if code.index_bits == 32 else "long long"
    pointers = [f"({CPP_TYPES[p.dtype.short]} *)buffers[{i}]" for i, p in enumerate(kernel.params)]
    numbers = [f"({index})geometry[{i}]" for i in range(len(code.geometry))]
    arguments = ", ".join([*pointers, *numbers, f"({index})total"])
    call = f"text_{mark}::{code.symbol}({arguments})"
    block = f"for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) {call};"
    if waits(code):
        block = f"""{{
            auto thread = [&] {{ {call}; }};
            fibers::run_block(threads, [](void *it) {{ (*(decltype(thread) *)it)(); }}, &thread);
        }}"""
    return f"""
#define {code.symbol} {code.symbol}_{mark}
namespace text_{mark} {{
{_watched(code.source)}
}}
extern "C" const char *launch_{mark}(
    void **buffers, const long long *geometry, long long total, unsigned int blocks, unsigned int threads)
{{
    fibers::race = nullptr;
    gridDim = {{blocks, 1, 1}};
    blockDim = {{threads, 1, 1}};
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
        {block}
    return fibers::race;
}}
#undef {code.symbol}
"""
