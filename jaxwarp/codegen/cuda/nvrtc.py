"""NVRTC, NVIDIA's run-time compiler, through cuda-python: compiles text to cubin or PTX. It needs no GPU, no driver."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jaxwarp.errors import CompileError, InternalError

_MISSING = (
    "compiling for CUDA needs cuda-python and NVRTC ({}): install them with `pip install jaxwarp[cuda13]` or "
    "`pip install jaxwarp[cuda12]` (or the packages cuda-python and nvidia-cuda-nvrtc, or nvidia-cuda-nvrtc-cu12), or "
    "set CUDA_HOME to a CUDA toolkit"
)

# Where there is a driver, these keep code on disk, and the log of a text that was compiled before is empty: no report
# of ptxas, so no spills to be seen.
_FIRST_WITH_A_CACHE = (12, 9)


@dataclass(frozen=True)
class Compiled:
    """The output of NVRTC: `code` is a cubin or PTX text, `log` its messages."""

    code: bytes
    log: str


class NvrtcError(Exception):
    """NVRTC refused the text; the message is its log."""


def available() -> bool:
    """Return whether NVRTC can be loaded here."""
    try:
        version()
    except CompileError:
        return False
    return True


@cache
def version() -> tuple[int, int]:
    """NVRTC's version, as (13, 0).

    Raises:
        CompileError: there is no NVRTC.
    """
    major, minor = _call("nvrtcVersion")
    return int(major), int(minor)


@cache
def supported_architectures() -> tuple[int, ...]:
    """Architectures that this NVRTC compiles for: 90 is sm_90.

    Raises:
        CompileError: there is no NVRTC.
    """
    (found,) = _call("nvrtcGetSupportedArchs")
    return tuple(int(arch) for arch in found)


def compile_source(source: str, name: str, options: Sequence[str], ptx: bool) -> Compiled:
    """Compiles one text.

    Args:
        source: CUDA C++ without includes.
        name: what messages call the text.
        options: NVRTC's command line.
        ptx: PTX instead of a cubin.

    Raises:
        NvrtcError: the text does not compile, with the log.
        CompileError: there is no NVRTC.
    """
    if version() >= _FIRST_WITH_A_CACHE:
        options = [*options, "--no-cache"]
    (program,) = _call("nvrtcCreateProgram", source.encode(), name.encode(), 0, None, None)
    try:
        nvrtc = _bindings()
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
        log = _output(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
        if status == nvrtc.nvrtcResult.NVRTC_ERROR_COMPILATION:
            raise NvrtcError(log)
        _check(status, "nvrtcCompileProgram", log)
        return Compiled(_output(program, "PTX" if ptx else "CUBIN"), log)
    finally:
        _call("nvrtcDestroyProgram", program)


def _output(program: Any, what: str) -> bytes:
    (size,) = _call(f"nvrtcGet{what}Size", program)
    buffer = bytearray(size)
    _call(f"nvrtcGet{what}", program, buffer)
    return bytes(buffer)


def _call(function: str, *arguments: Any) -> tuple[Any, ...]:
    status, *results = getattr(_bindings(), function)(*arguments)
    _check(status, function)
    return tuple(results)


def _check(status: Any, function: str, log: str = "") -> None:
    nvrtc = _bindings()
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        _, text = nvrtc.nvrtcGetErrorString(status)
        raise InternalError(f"{function} failed: {text.decode()}" + (f"\n{log}" if log else ""))


@cache
def _bindings() -> Any:
    """cuda-python's module, with NVRTC loaded, which stays for the life of the process.

    Raises:
        CompileError: one of them is not there.
    """
    try:
        nvrtc = importlib.import_module("cuda.bindings.nvrtc")
        _prefer_older()
        _, *found = nvrtc.nvrtcVersion()
        _load_builtins(*found)
    except (ImportError, RuntimeError) as error:  # of pathfinder: the library was not found
        raise CompileError(_MISSING.format(" ".join(str(error).split()) or type(error).__name__)) from None
    return nvrtc


def _prefer_older() -> None:
    """Loads NVRTC 12 where JAX or the driver is of CUDA 12, also where 13 is there, which cuda-python looks for first.

    A driver of CUDA 12 need not accept what a compiler of CUDA 13 makes. Within 13 it accepts machine code of all.
    """
    packages = importlib.util.find_spec("nvidia")
    for root in (packages.submodule_search_locations or ()) if packages is not None else ():
        found = Path(root) / "cuda_nvrtc" / "lib" / "libnvrtc.so.12"
        if found.exists() and (importlib.util.find_spec("jax_cuda12_plugin") or driver_version()[0] == 12):
            ctypes.CDLL(str(found))
            return


def _load_builtins(major: int, minor: int) -> None:
    """Loads the library of what is declared in all texts. NVRTC 13.0 does not look for it beside itself, and who has
    loaded NVRTC before, as JAX does, need not have."""
    if importlib.util.find_spec("cuda.pathfinder") is None:
        return
    loaded = importlib.import_module("cuda.pathfinder").load_nvidia_dynamic_lib("nvrtc")
    found = Path(loaded.abs_path or "").with_name(f"libnvrtc-builtins.so.{major}.{minor}")
    if loaded.abs_path and found.exists():
        ctypes.CDLL(str(found))


def driver_version() -> tuple[int, int]:
    """The CUDA that the driver here is of, as (13, 0); (0, 0) where there is no driver."""
    try:
        status, found = importlib.import_module("cuda.bindings.driver").cuDriverGetVersion()
    except (ImportError, RuntimeError):
        return 0, 0
    return (0, 0) if int(status) else (int(found) // 1000, int(found) % 1000 // 10)


def misfit() -> str:
    """Return a hint for code that cannot be loaded if the driver's CUDA is older than NVRTC's, else an empty string."""
    ours, theirs = version(), driver_version()
    if not theirs[0] or theirs[0] >= ours[0]:
        return ""
    return (
        f" (compiled by NVRTC {ours[0]}.{ours[1]}, and the driver is of CUDA {theirs[0]}.{theirs[1]}: install "
        f"jaxwarp[cuda{theirs[0]}], or a newer driver)"
    )
