"""Updates at any places of a small array, in CUDA text, through copies in shared memory; by the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hostcuda
import numpy as np
import pytest
from kernels_strategy import same_values
from test_cuda_reductions import PLACES

import jaxwarp as wp
from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.codegen.abi import NO_CUDA_OPTIONS
from jaxwarp.codegen.cuda import CudaCode, code_for, nvrtc, print_cuda, resources
from jaxwarp.codegen.cuda.sums import reductions
from jaxwarp.codegen.cuda.sums.reductions import MOST_BLOCKS
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Param
from jaxwarp.passes.extents import with_extents
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import Scalar, int32

needs_nvrtc = pytest.mark.skipif(not nvrtc.available(), reason="needs NVRTC")
THREADS, BINS = 150, 5


def scatter(kind: str, t: Scalar) -> Kernel:
    """x[i] goes to element at[i], and to element [at[i], i % 3] of a matrix where x[i] is not 0."""
    b = Builder()
    x, at = Param("x", t, (None,)), Param("at", int32, (None,))
    bins, matrix = Param("bins", t, (None,)), Param("matrix", t, (None, 3))
    i = b.tid(0)
    value, place = b.load(x, [i]), b.load(at, [i])
    b.atomic(kind, bins, [place], value)

    def other() -> Sequence[Any]:
        b.atomic(kind, matrix, [place, b.call(ROWS["mod"], i, b.const(3, int32))], value)
        return ()

    b.if_(b.call(ROWS["ne"], value, b.const(0, t)), other)
    return prepare(b.finish(f"scatter_{kind}_{t.short}", 1, [x, at, bins, matrix]))


@pytest.fixture(scope="module")
def scattered() -> dict[tuple[str, Scalar], tuple[Kernel, CudaCode]]:
    shapes = [(THREADS,), (THREADS,), (BINS,), (BINS, 3)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reductions, "_LEAST_BLOCKS", 1)
        kernels = {place: with_extents(scatter(*place), shapes) for place in PLACES}
        codes = {place: (kernel, print_cuda(kernel, grid=(THREADS,))) for place, kernel in kernels.items()}
    hostcuda.compile_host(list(codes.values()))
    return codes


@pytest.mark.parametrize(("kind", "t"), PLACES, ids=[f"{k}-{t.short}" for k, t in PLACES])
def test_every_kind_and_type(kind: str, t: Scalar, scattered: Any):
    kernel, code = scattered[kind, t]
    assert "matrix_part[15]" in code.source
    assert code.most_blocks == THREADS // (2 * 15)
    rng = np.random.default_rng(5)
    if t.is_float:
        x = rng.integers(-50, 50, THREADS).astype(t.numpy)  # sums of small whole numbers are exact in any order
        x[rng.random(THREADS) < 0.2] = -0.0
    else:
        x = rng.integers(np.iinfo(t.numpy).min, np.iinfo(t.numpy).max, THREADS, dtype=t.numpy, endpoint=True)
    at = rng.integers(0, BINS - 1, THREADS).astype(np.int32)  # nothing comes to the last bin
    start = [rng.integers(0, 9, s).astype(t.numpy) for s in ((BINS,), (BINS, 3))]
    cases = [[x, at, *start]]
    if t.is_float:
        unknown = np.where(rng.random(THREADS) < 0.3, np.nan, x).astype(t.numpy)
        cases += [[unknown, at, *start], [x, at, *(np.full_like(s, np.nan) for s in start)]]
        cases += [[x * t.numpy.type(-0.0), at, *(np.full_like(s, -0.0) for s in start)]]
    for given in cases:
        expected = [a.copy() for a in given]
        interpret(kernel, (THREADS,), expected)
        for threads, block in ((None, 40), (96, 32)):
            found = [a.copy() for a in given]
            hostcuda.run_code(kernel, code, (THREADS,), found, threads, block)
            assert all(map(same_values, found, expected)), (threads, block, found, expected)


@wp.kernel
def histogram(x: wp.array[float], count: wp.array[int]):
    i = wp.tid()
    wp.atomic_add(count, wp.min(int(x[i] * float(count.shape[0])), count.shape[0] - 1), 1)


@wp.kernel
def places(x: wp.array[int], count: wp.array[int], place: wp.array[int]):
    i = wp.tid()
    place[i] = wp.atomic_add(count, x[i], 1)


def code(kernel: Any, threads: int, *shapes: tuple[int, ...]) -> CudaCode:
    return code_for(prepare(kernel.specialize()), (threads,), shapes, 32, NO_CUDA_OPTIONS)


def test_a_histogram_of_many_threads_is_counted_by_blocks():
    found = code(histogram, 1 << 26, (1 << 26,), (256,))
    assert "__shared__ int count_part[256]" in found.source
    assert "atomicAdd(&(count_is_small ? count_part : count)[" in found.source
    assert found.most_blocks == MOST_BLOCKS
    assert code(histogram, 1 << 21, (1 << 21,), (2048,)).most_blocks == 512


@pytest.mark.parametrize(
    ("kernel", "threads", "shapes"),
    [
        (histogram, 1 << 26, [(1 << 26,), (1 << 14,)]),  # 64 KiB
        (histogram, 1 << 16, [(1 << 16,), (256,)]),  # few threads for each bin
        (places, 1 << 26, [(1 << 26,), (256,), (1 << 26,)]),  # old values are read
    ],
)
def test_others_go_to_memory(kernel: Any, threads: int, shapes: list[tuple[int, ...]]):
    found = code(kernel, threads, *shapes)
    assert "__shared__" not in found.source
    assert "atomicAdd(&count[" in found.source
    assert found.most_blocks > MOST_BLOCKS


def test_text_for_all_extents_goes_to_memory():
    assert "__shared__" not in print_cuda(prepare(histogram.specialize())).source


@needs_nvrtc
def test_copies_fit_into_a_block():
    found = code(histogram, 1 << 26, (1 << 26,), (10_240,))
    assert resources(found, 90).shared == 40 * 1024


def test_a_histogram_is_numpys(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reductions, "_LEAST_BLOCKS", 1)
    x = np.random.default_rng(1).uniform(0, 1, 5000).astype(np.float32)
    kernel = prepare(histogram.specialize())
    made = code_for(kernel, (5000,), [(5000,), (64,)], 32, NO_CUDA_OPTIONS)
    assert "count_part[64]" in made.source
    count = np.ones(64, np.int32)
    hostcuda.run_code(kernel, made, (5000,), [x, count], 480, 48)
    np.testing.assert_array_equal(count, 1 + np.histogram(x, 64, (0, 1))[0])
