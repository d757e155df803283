"""`info`: versions, devices, tools and the cache, and how to get what is missing."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable
from importlib import metadata
from typing import Any

import jax

from jaxwarp.boundary import boundary
from jaxwarp.codegen.cpu.plan.target import host
from jaxwarp.codegen.cuda import nvrtc
from jaxwarp.commands import stored
from jaxwarp.errors import JaxwarpError
from jaxwarp.memory.driver import driver
from jaxwarp.native.library import load_library

_PACKAGES = ("jaxwarp", "jax", "jaxlib", "numpy", "llvmlite", "cuda-python")


def run(options: argparse.Namespace) -> tuple[Any, str]:
    """Report the versions, devices and libraries on this machine."""
    del options
    data: dict[str, Any] = {
        "python": platform.python_version(),
        **{name: _version(name) for name in _PACKAGES},
        "platform": platform.platform(),
        "cpu": f"{host().cpu}, vectors of {host().vector_bits} bits, {_cores()} cores",
        "jax devices": _found(lambda: ", ".join(map(str, jax.devices()))),
        "native library": _found(lambda: load_library()._name),
        "NVRTC": _found(_nvrtc),
        "CUDA driver": _found(_driver),
        "code cache": stored.run(argparse.Namespace(action="size"))[1],
    }
    width = max(map(len, data)) + 2
    return data, "\n".join(f"{name:<{width}}{value}" for name, value in data.items())


@boundary
def print_diagnostics() -> None:
    """Prints versions, devices and tools: what `python -m jaxwarp info` says."""
    print(run(argparse.Namespace())[1])


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed: used from its sources" if package == "jaxwarp" else f"none: pip install {package}"


def _found(look: Callable[[], str]) -> str:
    """Return what `look` finds, or its message about what is missing."""
    try:
        return look()
    except (JaxwarpError, ImportError, OSError, RuntimeError) as error:
        return f"none: {error}"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _nvrtc() -> str:
    major, minor = nvrtc.version()
    return f"{major}.{minor}, for {', '.join(f'sm_{arch}' for arch in nvrtc.supported_architectures())}"


def _driver() -> str:
    driver()
    return "found"
