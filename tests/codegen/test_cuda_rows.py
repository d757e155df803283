"""Sums over rows of threads, on the host: every number of rows, pieces and threads gives what NumPy does."""

from __future__ import annotations

import hostcuda
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.codegen.abi import CudaOptions
from jaxwarp.codegen.cuda import code_for
from jaxwarp.ir.kernel import Kernel
from jaxwarp.passes.pipeline import prepare

SMALL = CudaOptions(block=hostcuda.BLOCK)


def launched(kernel: Kernel, grid, buffers, threads=None, options=SMALL):
    """The text, after it has run."""
    code = code_for(kernel, grid, [b.shape for b in buffers], 32, options)
    hostcuda.run_code(kernel, code, grid, buffers, threads)
    return code.source


@wp.kernel
def rows(x: wp.array2d[float], s: wp.array[float], n: wp.array2d[int], most: wp.array[int]):
    i, j = wp.tid()
    wp.atomic_add(s, i, x[i, j])
    if x[i, j] > 0.5:
        wp.atomic_add(n, i, 1, 1)
    wp.atomic_max(most, i, int(x[i, j] * 1000.0))


@pytest.mark.parametrize("grid", [(1, 1024), (3, 1024), (2, 1500), (1, 20000), (5, 3001), (0, 2048)])
@pytest.mark.parametrize("threads", [None, 40, 120])
def test_rows(grid: tuple[int, int], threads: int | None):
    x = np.random.default_rng(0).random(grid, np.float32)
    s, n, most = np.ones(grid[0], np.float32), np.full((grid[0], 2), 7, np.int32), np.full(grid[0], -3, np.int32)
    text = launched(prepare(rows.specialize()), grid, [x, s, n, most], threads)
    np.testing.assert_allclose(s, 1 + x.sum(1, dtype=np.float64), rtol=1e-5)
    np.testing.assert_array_equal(n[:, 1], 7 + (x > 0.5).sum(1))
    assert np.all(n[:, 0] == 7)
    np.testing.assert_array_equal(most, (x * np.float32(1000)).astype(np.int32).max(1, initial=-3))
    assert "for (unsigned int piece" in text


@wp.kernel
def planes(x: wp.array3d[float], by_row: wp.array2d[float], by_plane: wp.array[float], all_of_it: wp.array[float]):
    i, j, k = wp.tid()
    wp.atomic_add(by_row, i, j, x[i, j, k])
    wp.atomic_sub(by_plane, i, x[i, j, k])
    wp.atomic_add(all_of_it, 0, 2.0 * x[i, j, k])


@pytest.mark.parametrize("grid", [(2, 3, 1024), (1, 1, 4100), (4, 2, 1111)])
def test_rows_of_planes_beside_a_sum_of_everything(grid: tuple[int, int, int]):
    x = np.random.default_rng(1).random(grid, np.float32)
    sums = [np.zeros(grid[:2], np.float32), np.zeros(grid[0], np.float32), np.zeros(1, np.float32)]
    launched(prepare(planes.specialize()), grid, [x, *sums])
    for got, expected in zip(sums, (x.sum(2), -x.sum((1, 2)), 2 * x.sum(keepdims=True).reshape(1)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-5)


@pytest.mark.parametrize(
    ("grid", "sums"),
    [((3, 64), 3), ((3, 1024), 2), ((3, 1024), 5)],
    ids=["short rows", "rows that have no element", "more elements than rows"],
)
def test_what_is_known_to_exist_is_summed_by_rows(grid: tuple[int, int], sums: int):
    @wp.kernel
    def guarded(x: wp.array2d[float], s: wp.array[float]):
        i, j = wp.tid()
        if i < s.shape[0]:
            wp.atomic_add(s, i, x[i, j])

    x, s = np.random.default_rng(2).random(grid, np.float32), np.zeros(sums, np.float32)
    text = launched(prepare(guarded.specialize()), grid, [x, s])
    expected = np.zeros(sums)
    expected[: grid[0]] = x.sum(1)[:sums]
    np.testing.assert_allclose(s, expected, rtol=1e-5)
    assert ("for (unsigned int piece" in text) == (sums >= grid[0] and grid[1] >= 1024)


@wp.kernel
def sums_of_loops(x: wp.array2d[float], s: wp.array[float]):
    i, j = wp.tid()
    for k in range(i + 1):
        wp.atomic_add(s, i, x[i, j] * float(k))


def test_a_long_body_is_written_once():
    x, s = np.random.default_rng(3).random((4, 1200), np.float32), np.zeros(4, np.float32)
    text = launched(prepare(sums_of_loops.specialize()), (4, 1200), [x, s])
    np.testing.assert_allclose(s, x.sum(1) * [0, 1, 3, 6], rtol=1e-5)
    assert "#pragma unroll" not in text


@wp.kernel
def total(x: wp.array[float], s: wp.array[float]):
    wp.atomic_add(s, 0, x[wp.tid()])


@pytest.mark.parametrize("count", [1, 39, 40, 41, 319, 320, 321, 5000])
@pytest.mark.parametrize("threads", [None, 40, 80])
def test_a_sum_of_some_elements_at_a_time(count: int, threads: int | None):
    x, s = np.random.default_rng(4).random(count, np.float32), np.zeros(1, np.float32)
    text = launched(prepare(total.specialize()), (count,), [x, s], threads)
    np.testing.assert_allclose(s, [x.sum()], rtol=1e-5)
    # One thread has the element to itself.
    assert ("atomicAdd" in text and "#pragma unroll" in text) == (count > 1)
