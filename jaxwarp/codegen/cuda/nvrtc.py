"""NVRTC, NVIDIA's run-time compiler, through ctypes: finds the library, compiles text to cubin or PTX.

It needs no GPU and no driver. ctypes rather than cuda-bindings: eleven functions, the same in CUDA 12 and 13, and no
pairing of a binding's version with a library's.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jaxwarp.errors import CompileError, InternalError

_MISSING = (
    "compiling for CUDA needs NVRTC, and no libnvrtc was found: install it with `pip install jaxwarp[cuda13]` or "
    "`pip install jaxwarp[cuda12]` (or the package nvidia-cuda-nvrtc or nvidia-cuda-nvrtc-cu12 alone), or set "
    "CUDA_HOME to a CUDA toolkit"
)
_SUCCESS = 0
_COMPILATION = 6
# Where the wheels of each CUDA major version put the library, below site-packages/nvidia.
_WHEELS = {13: "cu13/lib", 12: "cuda_nvrtc/lib"}


@dataclass(frozen=True)
class Compiled:
    """What NVRTC made: `code` is a cubin or PTX text, `log` what it said."""

    code: bytes
    log: str


class NvrtcError(Exception):
    """NVRTC refused the text; the message is its log."""


def available() -> bool:
    """Whether NVRTC can be loaded here."""
    try:
        _library()
    except CompileError:
        return False
    return True


def version() -> tuple[int, int]:
    """NVRTC's version, as (13, 0).

    Raises:
        CompileError: there is no NVRTC.
    """
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(_library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "nvrtcVersion")
    return major.value, minor.value


@cache
def supported_architectures() -> tuple[int, ...]:
    """Architectures that this NVRTC compiles for: 90 is sm_90.

    Raises:
        CompileError: there is no NVRTC.
    """
    library = _library()
    count = ctypes.c_int()
    _check(library.nvrtcGetNumSupportedArchs(ctypes.byref(count)), "nvrtcGetNumSupportedArchs")
    found = (ctypes.c_int * count.value)()
    _check(library.nvrtcGetSupportedArchs(found), "nvrtcGetSupportedArchs")
    return tuple(found)


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
    library = _library()
    program = ctypes.c_void_p()
    created = library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), name.encode(), 0, None, None)
    _check(created, "nvrtcCreateProgram")
    try:
        arguments = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
        status = library.nvrtcCompileProgram(program, len(options), arguments)
        log = _output(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
        if status == _COMPILATION:
            raise NvrtcError(log)
        _check(status, "nvrtcCompileProgram", log)
        return Compiled(_output(program, "PTX" if ptx else "CUBIN"), log)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _output(program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(getattr(_library(), f"nvrtcGet{what}Size")(program, ctypes.byref(size)), f"nvrtcGet{what}Size")
    buffer = ctypes.create_string_buffer(size.value)
    _check(getattr(_library(), f"nvrtcGet{what}")(program, buffer), f"nvrtcGet{what}")
    return buffer.raw


def _check(status: int, function: str, log: str = "") -> None:
    if status != _SUCCESS:
        text = _library().nvrtcGetErrorString(status).decode()
        raise InternalError(f"{function} failed: {text}" + (f"\n{log}" if log else ""))


@cache
def _library() -> ctypes.CDLL:
    """The first libnvrtc that loads, which stays for the life of the process."""
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        return library
    raise CompileError(_MISSING)


def _candidates() -> Iterator[str]:
    """Wheels, a CUDA toolkit, the loader's path; in this order, so that the version is the environment's own."""
    majors = [13, 12]
    if importlib.util.find_spec("jax_cuda12_plugin") is not None:
        # A driver of CUDA 12 need not accept what a compiler of CUDA 13 makes.
        majors.reverse()
    packages = importlib.util.find_spec("nvidia")
    for major in majors:
        for root in (packages.submodule_search_locations or ()) if packages is not None else ():
            yield from _libraries_in(Path(root) / _WHEELS[major])
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if variable in os.environ:
            yield from _libraries_in(Path(os.environ[variable]) / "lib64")
    yield from _libraries_in(Path("/usr/local/cuda/lib64"))
    yield from (f"libnvrtc.so.{major}" for major in majors)
    found = ctypes.util.find_library("nvrtc")
    if found is not None:
        yield found


def _libraries_in(folder: Path) -> list[str]:
    """Files like libnvrtc.so.12, newest first; not libnvrtc-builtins, nor the variant libnvrtc.alt."""
    if not folder.is_dir():
        return []
    return sorted((str(p) for p in folder.iterdir() if re.fullmatch(r"libnvrtc\.so\.\d+", p.name)), reverse=True)
