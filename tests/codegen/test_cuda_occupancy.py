"""Block sizes from what machine code uses: a table of registers, cubins, and what launches get."""

from __future__ import annotations

import pytest
from native.pretended import cubin

import jaxwarp as wp
from jaxwarp.codegen.abi import CudaOptions
from jaxwarp.codegen.cuda import compile_cuda, nvrtc, print_cuda, resources
from jaxwarp.codegen.cuda.occupancy import _LIMITS, best_block, choose_block, registers_of, warps_of
from jaxwarp.ir.kernel import Kernel
from jaxwarp.passes.pipeline import prepare

needs_nvrtc = pytest.mark.skipif(not nvrtc.available(), reason="needs NVRTC")
FREE = CudaOptions(is_free=True)

# Warps that the occupancy calculator gives for compute capability 9.0: registers, in blocks of 256, of 128 threads.
TABLE = [
    *((16, 64, 64), (32, 64, 64), (33, 48, 48), (40, 48, 48), (48, 40, 40), (56, 32, 36), (64, 32, 32), (72, 24, 28)),
    *((80, 24, 24), (88, 16, 20), (96, 16, 20), (104, 16, 16), (128, 16, 16), (136, 8, 12), (168, 8, 12), (255, 8, 8)),
]


@pytest.mark.parametrize(("registers", "large", "small"), TABLE)
def test_warps_of_a_multiprocessor(registers: int, large: int, small: int):
    assert warps_of(registers, 256, _LIMITS[90]) == large
    assert warps_of(registers, 128, _LIMITS[90]) == small
    assert best_block(registers, 90, 256) == (128 if small >= 1.1 * large else 256)


def test_blocks_and_warps_are_limited_too():
    assert warps_of(16, 32, _LIMITS[90]) == 32  # 32 blocks
    assert warps_of(16, 64, _LIMITS[86]) == 32  # 16 blocks
    assert warps_of(16, 256, _LIMITS[86]) == 48
    assert warps_of(16, 1024, _LIMITS[86]) == 32
    assert warps_of(128, 1024, _LIMITS[90]) == 0


@pytest.mark.parametrize(("registers", "arch"), [(None, 90), (96, 999)])
def test_what_is_not_known_is_the_default(registers: int | None, arch: int):
    assert best_block(registers, arch, 256) == 256


def test_registers_in_a_cubin():
    assert registers_of(cubin(40)) == 40
    assert registers_of(cubin(40, 96)) == 96
    assert registers_of(b".version 8.0\n.target sm_90\n") is None
    for length in range(0, len(cubin(40)) - 20, 7):  # damaged: no answer, or the right one
        assert registers_of(cubin(40)[:length]) in (None, 40)


@wp.kernel
def plain(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 2.0 * x[i]


@wp.kernel(launch_bounds=256)
def bounded(y: wp.array[float]):
    y[wp.tid()] = 1.0


@wp.kernel
def total(x: wp.array[float], s: wp.array[float]):
    wp.atomic_add(s, 0, x[wp.tid()])


def ir(kernel: wp.Kernel) -> Kernel:
    return prepare(kernel.specialize())


def test_nobody_said_it_and_nothing_is_summed_over_blocks():
    free, said = print_cuda(ir(plain), options=FREE), print_cuda(ir(plain))
    assert choose_block(free, [(90, cubin(96))]) == 128
    assert choose_block(free, [(90, cubin(96)), (80, cubin(90))]) == 128
    assert choose_block(free, [(90, cubin(96)), (80, cubin(40))]) == 256
    assert choose_block(free, [(90, cubin(32))]) == 256
    assert choose_block(free, []) == 256
    assert choose_block(said, [(90, cubin(96))]) == 256
    assert choose_block(print_cuda(ir(total), options=FREE), [(90, cubin(96))]) == 256


def test_who_says_it():
    assert plain.cuda_options().is_free
    assert not plain.cuda_options(64).is_free
    assert not plain.cuda_options("auto").is_free
    assert not bounded.cuda_options().is_free


@needs_nvrtc
@pytest.mark.parametrize("arch", [80, 90, 100, 120])
def test_registers_are_what_ptxas_reports(arch: int):
    if arch not in nvrtc.supported_architectures():
        pytest.skip("this NVRTC does not know it")
    code = print_cuda(ir(plain))
    (entry,) = compile_cuda(code, [arch])
    assert registers_of(entry.code) == resources(code, arch).registers
