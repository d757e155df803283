"""The CUDA compiler, from text to cubins and PTX: architectures, code cache, errors at the user's line, resources."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace

from jaxwarp.codegen import cache
from jaxwarp.codegen.abi import CUBIN, PTX, CudaOptions, Entry
from jaxwarp.codegen.cuda import nvrtc
from jaxwarp.codegen.cuda.emit import CudaCode, print_cuda
from jaxwarp.codegen.progress import logged
from jaxwarp.errors import CompileError, InternalError, KernelValueError, Loc
from jaxwarp.ir.kernel import Kernel

# Compiled for where no device is present: from Ampere on, one of each generation that data centres and desktops have.
DEFAULT_ARCHITECTURES = (80, 90, 100, 120)
# Contraction is an operation of the IR (passes/contract_fma), never the compiler's.
_OPTIONS = ("--std=c++17", "--fmad=false")
# Raise to forget what earlier versions of this module have put in the cache.
_CACHE_VERSION = "cuda-2"
_REPORT = ("--ptxas-options=-v",)


@dataclass(frozen=True)
class Resources:
    """The report of ptxas on a kernel for one architecture; sizes in bytes per thread, shared memory per block."""

    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    shared: int


def compile_cuda(code: CudaCode, archs: Sequence[int | str], ptx: Sequence[int | str] = ()) -> tuple[Entry, ...]:
    """A cubin of the text for each of `archs` and PTX for each of `ptx`; what was compiled before is in the code cache.

    Args:
        code: what `print_cuda` made.
        archs: architectures as 90 or "sm_90".
        ptx: the same, for PTX.

    Raises:
        KernelValueError: an architecture that this NVRTC does not know.
        CompileError: there is no NVRTC, or it refuses the text.
    """
    wanted = [(CUBIN, architecture(a)) for a in archs] + [(PTX, architecture(a)) for a in ptx]
    return tuple(Entry(kind, arch, _compile_cached(code, kind, arch)) for kind, arch in wanted)


def ptx(kernel: Kernel | CudaCode, arch: int | str) -> str:
    """The PTX of a prepared kernel, or of a text made from one.

    Raises:
        KernelValueError, CompileError: as `compile_cuda`.
    """
    return _compile_cached(_printed(kernel), PTX, architecture(arch)).rstrip(b"\0").decode()


def resources(kernel: Kernel | CudaCode, arch: int | str) -> Resources:
    """Registers, spills, stack and shared memory of a prepared kernel, or of a text made from one.

    Raises:
        KernelValueError, CompileError: as `compile_cuda`.
    """
    code = _printed(kernel)
    log = _compile_unspilled(code, architecture(arch)).log
    return Resources(
        registers=_reported(r"Used (\d+) registers", log, required=True),
        spill_stores=_reported(r"(\d+) bytes spill stores", log, required=True),
        spill_loads=_reported(r"(\d+) bytes spill loads", log, required=True),
        stack=_reported(r"(\d+) bytes stack frame", log, required=True),
        shared=_reported(r"(\d+) bytes smem", log) + code.shared_bytes,
    )


def default_archs() -> tuple[int, ...]:
    """Architectures to compile for where no device is present.

    The environment variable JAXWARP_CUDA_ARCHS ("80,90") says which; else the common ones that this NVRTC knows.

    Raises:
        KernelValueError: the variable is not such a list.
        CompileError: there is no NVRTC.
    """
    given = os.environ.get("JAXWARP_CUDA_ARCHS", "").strip()
    if given:
        return tuple(architecture(a.strip()) for a in given.split(","))
    known = nvrtc.supported_architectures()
    return tuple(a for a in DEFAULT_ARCHITECTURES if a in known)


def architecture(arch: int | str) -> int:
    """90 from 90, "90" or "sm_90".

    Raises:
        KernelValueError: this NVRTC does not compile for it.
    """
    number = str(arch).removeprefix("sm_").removeprefix("compute_")
    known = nvrtc.supported_architectures()
    if not number.isdigit() or int(number) not in known:
        major, minor = nvrtc.version()
        listed = ", ".join(f"sm_{a}" for a in known)
        raise KernelValueError(f"architecture {arch!r} is not one that NVRTC {major}.{minor} compiles for: {listed}")
    return int(number)


def _printed(kernel: Kernel | CudaCode) -> CudaCode:
    return kernel if isinstance(kernel, CudaCode) else print_cuda(kernel)


def _compile_cached(code: CudaCode, kind: int, arch: int) -> bytes:
    text = _text(code)
    name = cache.key(_CACHE_VERSION, repr(nvrtc.version()), *_options(kind, arch, code.options), code.symbol, text)
    with logged(f"{code.symbol} for {'sm' if kind == CUBIN else 'compute'}_{arch}") as origin:
        found = cache.get(name)
        origin.is_cached = found is not None
        if found is None:
            found = (_compile_unspilled(code, arch) if kind == CUBIN else _compile(code, PTX, arch)).code
            cache.put(name, found)
    return found


def _compile_unspilled(code: CudaCode, arch: int) -> nvrtc.Compiled:
    """A cubin, with as many registers as it takes where ptxas, left to itself, would spill some into memory.

    It stops at what lets a multiprocessor have as many threads as it can; one block fewer costs less than spills.
    """
    made = _compile(code, CUBIN, arch, _REPORT)
    options = code.options
    if options.bounds or options.max_registers is not None or not _spilled(made.log):
        return made
    bounds = rf"__launch_bounds__\({options.block}(, \d+)?\)"
    one_block = replace(code, source=re.sub(bounds, f"__launch_bounds__({options.block}, 1)", code.source, count=1))
    return min(_compile(one_block, CUBIN, arch, _REPORT), made, key=lambda found: _spilled(found.log))


def _spilled(log: str) -> int:
    """Bytes, written and read."""
    return _reported(r"(\d+) bytes spill stores", log) + _reported(r"(\d+) bytes spill loads", log)


def _options(kind: int, arch: int, options: CudaOptions) -> tuple[str, ...]:
    found = [f"--gpu-architecture={'compute' if kind == PTX else 'sm'}_{arch}"]
    if options.fast_math:
        found.append("--use_fast_math")
    if options.max_registers is not None:
        found.append(f"--maxrregcount={options.max_registers}")
    if options.optimization_level is not None and kind == CUBIN:
        found.append(f"--ptxas-options=-O{options.optimization_level}")
    if options.line_info:
        found.append("--generate-line-info")
    return (*found, *_OPTIONS)


def _text(code: CudaCode) -> str:
    """The text, for line information with the user's lines in it."""
    if not code.options.line_info:
        return code.source
    lines = []
    for text, loc in zip(code.source.splitlines(), code.lines, strict=True):
        if loc is not None:
            lines.append(f'#line {loc.line} "{loc.file}"')
        lines.append(text)
    return "\n".join(lines) + "\n"


def _compile(code: CudaCode, kind: int, arch: int, extra: Sequence[str] = ()) -> nvrtc.Compiled:
    name = f"{code.symbol}.cu"
    try:
        return nvrtc.compile_source(_text(code), name, [*_options(kind, arch, code.options), *extra], kind == PTX)
    except nvrtc.NvrtcError as error:
        log = str(error).strip()
        raise CompileError(
            f"NVRTC refused the code of kernel {code.symbol} for sm_{arch}:\n{_indent(log)}\n"
            f"  the code is kept in {_save(code)}",
            _first_loc(log, name, code),
            "this is a fault of jaxwarp: please report it with that file",
        ) from None


def _first_loc(log: str, name: str, code: CudaCode) -> Loc | None:
    """The kernel line of the first message about a line of the text that comes from one."""
    for number in re.findall(rf"^{re.escape(name)}\((\d+)\): error", log, re.MULTILINE):
        at = int(number) - 1
        if at < len(code.lines) and code.lines[at] is not None:
            return code.lines[at]
    return None


def _save(code: CudaCode) -> str:
    handle, path = tempfile.mkstemp(prefix=f"jaxwarp-{code.symbol}-", suffix=".cu")
    with os.fdopen(handle, "w") as file:
        file.write(code.source)
    return path


def _indent(text: str) -> str:
    return "\n".join("  " + line if line else "" for line in text.splitlines())


def _reported(pattern: str, log: str, required: bool = False) -> int:
    found = re.search(pattern, log)
    if found is None and required:
        raise InternalError(f"the report of ptxas has no {pattern!r}:\n{log}")
    return int(found[1]) if found is not None else 0
