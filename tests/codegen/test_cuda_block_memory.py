"""Blocks of CUDA threads whose tiles need more shared memory than code may declare: the launch gives it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import replace

import hostcuda
import numpy as np
import pytest
from devicecuda import run_device
from kernels_strategy import same_values
from tilekit import body_kernel

from jaxwarp.codegen.abi import CudaOptions
from jaxwarp.codegen.cuda import CudaCode, most_shared_bytes, print_cuda, resources
from jaxwarp.errors import PerformanceWarning
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.launches.code import CodeKey, Gpus, code_of
from jaxwarp.passes.pipeline import prepare
from jaxwarp.vjp.reverse.adjoint import adjoint

TURNED = "t = wp.tile_load(m, shape=({n}, {n}))\nwp.tile_store(m, t + wp.tile_transpose(t))"
# Tiles of three types in shared memory, one of which ends at no multiple of 16 bytes.
SEVERAL = """
t = wp.tile_load(m, shape=(83, 83))
u = wp.tile_astype(wp.tile_load(m, shape=(61, 61), offset=(5, 3)), wp.float64)
v = wp.tile_astype(wp.tile_map(wp.abs, wp.tile_load(m, shape=(83, 83))), wp.uint8)
wp.tile_store(m, t + wp.tile_transpose(t) + wp.tile_astype(wp.tile_transpose(v), float))
wp.tile_store(m, wp.tile_astype(u * wp.tile_transpose(u), float), offset=(20, 20))
"""
PRODUCT = """
total = wp.tile_zeros(shape=({n}, {n}), dtype={sum})
for k in range(m.shape[1] // {n}):
    a = wp.tile_load(m, shape=({n}, {n}), offset=(0, k * {n}))
    wp.tile_matmul(a, wp.tile_load(m, shape=({n}, {n}), offset=(k * {n}, 0)), total)
wp.tile_store(c, total)
"""
FLOATS = "m: wp.array2d[float]"
DOUBLES = "m: wp.array2d[wp.float64], c: wp.array2d[wp.float64]"
HALVES = "m: wp.array2d[wp.float16], c: wp.array2d[float]"


def made(body: str, arguments: str = FLOATS) -> Kernel:
    return prepare(body_kernel(arguments, body).specialize(), fma=False)


def run_both(kernel: Kernel, code: CudaCode, arrays: Sequence[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    expected, got = [a.copy() for a in arrays], [a.copy() for a in arrays]
    interpret(kernel, (1,), expected)
    hostcuda.run_code(kernel, code, (1,), got, threads=code.threads)
    return list(zip(got, expected, strict=True))


def numbers(n: int, dtype: str = "f4") -> np.ndarray:
    return np.random.default_rng(3).standard_normal((n, n)).astype(dtype)


def require_parts(code: CudaCode) -> None:
    """Arrays begin where 16 bytes can be moved at once, lie behind one another, and end inside."""
    parts = hostcuda.dynamic_parts(code.source)
    ends = [0, *(-(-end // 16) * 16 for *_, end in parts)]
    assert parts
    assert [begin for _, _, begin, _ in parts] == ends[:-1], code.source
    assert ends[-1] == code.shared_bytes


def test_large_tiles_have_the_values_of_one_thread() -> None:
    kernel = made(SEVERAL)
    code = print_cuda(kernel)
    assert code.threads > 1
    assert code.shared_bytes > 48 * 1024
    require_parts(code)
    hostcuda.compile_host([(kernel, code)], "-O0")
    for got, expected in run_both(kernel, code, [numbers(100)]):
        assert same_values(got, expected), code.source


@pytest.mark.gpu
def test_large_tiles_on_a_gpu() -> None:
    kernel = made(SEVERAL)
    expected, got = [numbers(100)], [numbers(100)]
    interpret(kernel, (1,), expected)
    run_device(kernel, (1,), got)
    assert same_values(got[0], expected[0])


def test_no_barrier_between_large_tiles_can_be_left_out() -> None:
    kernel = made(TURNED.replace("{n}", "120"))
    code = print_cuda(kernel)
    before, *_, last = re.finditer(r"__syncthreads\(\);", code.source)
    for found in (before, last):
        faulty = replace(code, source=code.source[: found.start()] + code.source[found.end() :])
        hostcuda.compile_host([(kernel, faulty)], "-O0")
        with pytest.raises(AssertionError, match="a race in shared memory"):
            hostcuda.run_code(kernel, faulty, (2,), [numbers(120)], threads=code.threads)


def test_a_product_of_doubles_and_its_gradient() -> None:
    """64 x 64 numbers of 8 bytes, of both operands: 64 KiB."""
    kernel = made(PRODUCT.replace("{n}", "64").replace("{sum}", "wp.float64"), DOUBLES)
    code = print_cuda(kernel)
    assert (code.threads > 1, code.shared_bytes > 64 * 1024) == (True, True)
    require_parts(code)
    hostcuda.compile_host([(kernel, code)], "-O0")
    m, got = numbers(70, "f8"), np.zeros((64, 64))
    hostcuda.run_code(kernel, code, (1,), [m, got], threads=code.threads)
    np.testing.assert_allclose(got, m[:64, :64] @ m[:64, :64], rtol=1e-12, atol=1e-12)
    backward = prepare(adjoint(kernel, range(2), (1,)).kernel, fma=False)
    assert print_cuda(backward, options=CudaOptions(shared_bytes=227 * 1024)).threads > 1


def test_how_much_there_is_follows_from_the_gpus() -> None:
    kib = {arch: most_shared_bytes([arch], True) // 1024 for arch in (70, 75, 80, 86, 89, 90, 100, 120, 130)}
    assert kib == {70: 48, 75: 64, 80: 163, 86: 99, 89: 99, 90: 227, 100: 227, 120: 99, 130: 99}
    assert most_shared_bytes([80, 90], True) == 163 * 1024
    # Machine code for 8.0 runs on 8.6, PTX for 9.0 on 12.0.
    assert most_shared_bytes([80], False) == most_shared_bytes([90, 100], False) == 99 * 1024
    kernel = body_kernel(FLOATS, TURNED.replace("{n}", "150")).specialize()

    def code(*archs: int, is_for_export: bool = False) -> tuple[tuple[int, ...], int]:
        found = code_of(CodeKey(kernel, True, (1,), ((150, 150),), gpus=Gpus(archs, None, is_for_export)))
        return found.grid, found.shared_bytes

    needed = -(-150 * 151 * 4 // 16) * 16
    assert code(90) == ((1, 512), needed)
    assert code(120) == ((1, 512), needed)
    with pytest.warns(PerformanceWarning, match="room for 64512 on the GPUs that this code is for"):
        assert code(75) == ((1,), 0)


def test_a_warning_names_the_tiles_that_there_is_no_room_for() -> None:
    kernel = made(TURNED.replace("{n}", "180"))
    with pytest.warns(PerformanceWarning) as found:
        assert print_cuda(kernel).threads == 1
    assert re.fullmatch(
        r"kernel k: one CUDA thread does the work of a block, which is slow: its tiles need 130320 bytes of shared"
        r" memory, and there is room for 100352 on the GPUs that this code is for: 130320 bytes of t \(line \d+\)\."
        r" Smaller tiles, or fewer of them, let a block of threads share the work",
        str(found[0].message),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a Python that is asked to says it once
        print_cuda(made("y = m[0, 0]\nm[0, 0] = y + 1.0"))
        print_cuda(kernel, options=CudaOptions(shared_bytes=227 * 1024))


def test_what_fits_without_asking_does_not_ask() -> None:
    """Less memory lets a multiprocessor have more blocks."""
    code = print_cuda(made(TURNED.replace("{n}", "100")))
    assert (code.threads, code.shared_bytes) == (256, 0)
    assert "extern __shared__" not in code.source


def test_indices_are_found_anew_in_each_nest() -> None:
    """Else the unrolled loops have them in registers, 254 of them, from one to the next."""
    found = resources(print_cuda(made(TURNED.replace("{n}", "100"))), 90)
    assert (found.registers <= 96, found.spill_stores, found.stack) == (True, 0, 0)


@pytest.mark.parametrize("arch", [90, 120])
def test_large_tiles_compile(arch: int) -> None:
    code = print_cuda(made(TURNED.replace("{n}", "120")))
    found = resources(code, arch)
    assert found.shared == code.shared_bytes
    assert (found.registers <= 96, found.spill_stores) == (True, 0)
    half = print_cuda(made(PRODUCT.replace("{n}", "128").replace("{sum}", "float"), HALVES))
    assert "multiply" in half.source
    assert half.shared_bytes > 64 * 1024
    assert resources(half, arch).shared == half.shared_bytes
