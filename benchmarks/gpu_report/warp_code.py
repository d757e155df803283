"""NVIDIA Warp's machine code of the report's kernels: made where Warp is, launched where only its files are.

`make warp-code` writes build/warp-code. Parameters are laid out as Warp 1.19 does: the grid, then the kernel's.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sass import programs

import jaxwarp as wp

FOLDER = Path(__file__).resolve().parent.parent.parent / "build" / "warp-code"
NAMES = ("saxpy", "vec3", "vec4", "gather", "lbm2", "lbm3", "stencil", "nbody", "matmul", "polar", "total", "rowsum")
FAST = ("nbody",)  # as cases.py has it
ADDING = ("total", "rowsum")  # to their outputs
_MOST_AXES = 4


class WarpCode(NamedTuple):
    """A cubin, and the kernel in it."""

    code: bytes
    symbol: str


class WarpArray(ctypes.Structure):
    """Warp's `array_t`; strides are in bytes."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("grad", ctypes.c_uint64),
        ("shape", ctypes.c_int32 * _MOST_AXES),
        ("strides", ctypes.c_int32 * _MOST_AXES),
        ("ndim", ctypes.c_uint16),
        ("flags", ctypes.c_uint16),
    )


def make(folder: Path, architecture: int = 90, names: Sequence[str] = NAMES) -> None:
    """Writes cubins of kernels of `sass/programs.py`, and kernels.json, which says what is where. Needs Warp."""
    import warp

    warp.config.quiet = True
    warp.config.enable_backward = False
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    with tempfile.TemporaryDirectory() as work:
        module = _in_warp(Path(work))
        for name in names:
            kernel = getattr(module, name)
            # A module of one kernel: others of the file would be compiled with it.
            kernel = warp.Kernel(kernel.func, module=warp.get_module(f"jaxwarp_report_{name}"))
            kernel.module.options |= {"max_unroll": 32, "fast_math": name in FAST}
            warp.compile_aot_module(kernel.module, arch=architecture, module_dir=f"{work}/{name}", use_ptx=False)
            (cubin,) = Path(work, name).glob("*.cubin")
            (folder / f"{name}.cubin").write_bytes(cubin.read_bytes())
            symbol = f"{kernel.get_mangled_name()}_cuda_kernel_forward"
            found[name] = {"symbol": symbol, "architecture": architecture}
    (folder / "kernels.json").write_text(json.dumps(found, indent=1) + "\n")


def _in_warp(folder: Path) -> Any:
    """The kernels' file as a module of Warp's, which reads its text."""
    path = folder / "jaxwarp_report_programs.py"
    text = Path(programs.__file__).read_text().replace("import jaxwarp as wp", "import warp as wp")
    path.write_text(text.replace("@wp.kernel(module_options=", '@wp.kernel(module="unique", module_options='))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def code_of(name: str, architecture: int) -> WarpCode | None:
    """What was made of a kernel for a GPU, if anything was."""
    listed = FOLDER / "kernels.json"
    entry = json.loads(listed.read_text()).get(name) if listed.exists() else None
    if entry is None or entry["architecture"] != architecture:
        return None
    return WarpCode((FOLDER / f"{name}.cubin").read_bytes(), entry["symbol"])


def parameters(
    kernel: wp.Kernel, grid: Sequence[int], shapes: Mapping[str, Sequence[int]], values: Mapping[str, Any]
) -> list[Any]:
    """What the kernel is launched with: arrays are given by address, and are dense."""

    class Grid(ctypes.Structure):  # `launch_bounds_t`
        _fields_ = (
            ("shape", ctypes.c_uint32 * len(grid)),
            ("size", ctypes.c_size_t),
            ("threads_of_each", ctypes.c_size_t),
        )

    found: list[Any] = [Grid((ctypes.c_uint32 * len(grid))(*grid), math.prod(grid), 1)]
    for p in kernel.specialize().params:
        axes = p.shape.count(None)
        if not p.rank:
            found.append(ctypes.c_float(values[p.name]))
        else:
            found.append(_array(values[p.name], shapes[p.name][:axes], 4 * math.prod(shapes[p.name][axes:])))
    return found


def _array(address: int, shape: Sequence[int], itemsize: int) -> WarpArray:
    strides = [itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    made = WarpArray(data=address, ndim=len(shape))
    made.shape[: len(shape)], made.strides[: len(shape)] = list(shape), strides
    return made


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="gpu_report.warp_code", description="Machine code by Warp, for the report.")
    parser.add_argument("--architecture", type=int, default=90, help="90 for sm_90, of an H100 and an H200")
    make(FOLDER, parser.parse_args().architecture)
    print(f"wrote {FOLDER}")
