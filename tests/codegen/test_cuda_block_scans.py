"""Scans of tiles by a block of CUDA threads, on the host: each thread has elements that follow each other."""

from __future__ import annotations

from dataclasses import replace

import hostcuda
import numpy as np
import pytest
from kernels_strategy import same_values
from tilekit import NUMBERS, body_kernel

from jaxwarp.codegen.cuda import CudaCode, compile_cuda, print_cuda
from jaxwarp.codegen.cuda.blocks import plan as planning
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.passes.pipeline import fix_rounding, prepare
from jaxwarp.vjp.forward.tangent import tangent
from jaxwarp.vjp.reverse.adjoint import adjoint

PARTS = {
    "inclusive": "wp.tile_store(y, wp.tile_scan_inclusive(wp.tile_load(x, shape=({n},), offset=(1,))))",
    "exclusive": "wp.tile_store(y, wp.tile_reshape(wp.tile_scan_exclusive("
    "wp.tile_reshape(wp.tile_load(x, shape=({n},)), ({n} // 3, 3))), ({n},)))",
    "smallest": "wp.tile_store(y, wp.tile_scan_min_inclusive(wp.tile_load(x, shape=({n},), offset=(2,))))",
    "largest": "t = wp.tile_transpose(wp.tile_reshape(wp.tile_load(x, shape=({n},)), ({n} // 3, 3)))\n"
    "for k in range(2):\n    t = wp.tile_scan_max_inclusive(t)\n    t[{n} // 33, 1] = t[2, {n} // 3 - 1]\n"
    "wp.tile_store(y, wp.tile_reshape(t, ({n},)))",
}


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of many threads also for tiles that are too small to be worth them."""
    for name, value in (("LEAST_ELEMENTS", 1), ("WORTH", 0), ("EACH", 2)):
        monkeypatch.setattr(planning, name, value)


def made(part: str, n: int, dtype: str = "float", way: str = "") -> Kernel:
    arguments = f"x: wp.array[{dtype}], y: wp.array[{dtype}]"
    kernel = body_kernel(arguments, PARTS[part].replace("{n}", str(n))).specialize()
    if way:
        kernel = {"reverse": adjoint, "forward": tangent}[way](fix_rounding(kernel, fma=False), range(2), (1,)).kernel
    return replace(prepare(kernel, fma=False), name=f"{part}_{n}_{dtype.replace('.', '_')}_{way}")


def compare(kernel: Kernel, code: CudaCode, is_exact: bool) -> None:
    rng = np.random.default_rng(4)
    expected: list[np.ndarray] = []
    for param in kernel.params:
        numbers = rng.integers(-9, 9, 80) if param.dtype.is_float or param.dtype.is_signed else rng.integers(0, 9, 80)
        found = numbers.astype(param.dtype.numpy)
        if param.dtype.is_float and is_exact:
            found = np.where(found == 0, np.copysign(0.0, rng.standard_normal(80)), found).astype(param.dtype.numpy)
            found[[0, 1, 2, 30, 45]] = np.nan
        expected.append(found)
    got = [a.copy() for a in expected]
    interpret(kernel, (1,), expected)
    hostcuda.run_code(kernel, code, (1,), got)
    for a, b in zip(got, expected, strict=True):
        if is_exact:
            assert same_values(a, b), code.source
        else:
            message = f"{kernel.name}\n{code.source}"
            np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), 1e-5, 1e-5, err_msg=message)


def test_scans_of_all_extents_and_types() -> None:
    """Integers and extremes to the bit, with NaN and zeros of both signs. Sums of half precision stay in order."""
    names = [name for name in NUMBERS if name not in ("wp.int8", "wp.uint16")]
    cases = [(part, n, "float") for part in PARTS for n in (6, 33, 66)]
    cases += [(part, 33, name) for part in ("inclusive", "smallest") for name in names if name != "float"]
    kernels = [made(*case) for case in cases]
    codes = [print_cuda(kernel) for kernel in kernels]
    assert {code.threads for code in codes} == {32, 64}
    hostcuda.compile_host(list(zip(kernels, codes, strict=True)), "-O0")
    for (part, _, name), kernel, code in zip(cases, kernels, codes, strict=True):
        compare(kernel, code, part in ("smallest", "largest") or "float" not in name)


def test_derivatives_of_scans() -> None:
    """A scan of cotangents goes from the last element to the first."""
    kernels = [made(part, n, way="reverse") for part in ("inclusive", "exclusive") for n in (33, 66)]
    kernels += [made(part, 66, way="forward") for part in PARTS]
    codes = [print_cuda(kernel) for kernel in kernels]
    assert {code.threads for code in codes} == {32, 64}
    hostcuda.compile_host(list(zip(kernels, codes, strict=True)), "-O0")
    for kernel, code in zip(kernels, codes, strict=True):
        assert code.source.count("before_") > 0
        compare(kernel, code, is_exact=False)


def test_no_barrier_of_a_scan_can_be_left_out() -> None:
    kernel = made("largest", 66)
    code = print_cuda(kernel)
    pieces = code.source.split("__syncthreads();")
    assert len(pieces) > 4
    halves = [(pieces[:k], pieces[k:]) for k in range(1, len(pieces))]
    faulty = [replace(code, source=" ".join(map("__syncthreads();".join, pair))) for pair in halves]
    hostcuda.compile_host([(kernel, one) for one in (code, *faulty)], "-O0")
    compare(kernel, code, is_exact=True)
    for one in faulty:
        with pytest.raises(AssertionError, match="a race in shared memory"):
            hostcuda.run_code(kernel, one, (2,), [np.zeros(80, np.float32) for _ in kernel.params], threads=one.threads)


def test_scans_compile() -> None:
    for part, dtype in (("inclusive", "wp.float64"), ("largest", "wp.int64"), ("smallest", "wp.float16")):
        assert compile_cuda(print_cuda(made(part, 66, dtype)), (90,))
