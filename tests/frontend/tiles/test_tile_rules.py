"""What tiles are: views, changes in place, tiles that branches and loops choose, parts outside of arrays."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
from language import run

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError, KernelValueError

M, N = 4, 3
RNG = np.random.default_rng(7)


def launched(kernel, *arrays, blocks=1):
    """The arrays after a launch of the kernel on tiles."""
    held = [wp.array(a) for a in arrays]
    wp.launch_tiled(kernel, dim=blocks, inputs=held, block_dim=32)
    return [a.numpy() for a in held]


@wp.kernel
def through_views(a: wp.array2d[float], out: wp.array2d[float], parts: wp.array2d[float]):
    t = wp.tile_load(a, shape=(M, N))
    transposed = wp.tile_transpose(t)
    part = wp.tile_view(transposed, offset=(1, 2), shape=(2, 2))
    wp.tile_store(parts, part)
    part[0, 1] = 100.0
    flat = wp.tile_reshape(t, shape=(M * N,))
    flat[0] = -1.0
    row = t[2]
    row[1] += 50.0
    wp.tile_store(out, t)


def test_views_share_their_elements():
    a = RNG.random((M, N)).astype(np.float32)
    _, out, parts = launched(through_views, a, np.zeros((M, N), np.float32), np.zeros((2, 2), np.float32))
    expected = a.copy()
    np.testing.assert_array_equal(parts, a.T[1:3, 2:4])
    expected.T[1, 3] = 100.0
    expected.reshape(-1)[0] = -1.0
    expected[2, 1] += 50.0
    np.testing.assert_array_equal(out, expected)


@wp.func
def double(t: wp.tile[float, M, N]):
    t += t


@wp.kernel
def in_place(a: wp.array2d[float], out: wp.array2d[float], kept: wp.array2d[float]):
    t = wp.tile_load(a, shape=(M, N))
    same, other = t, t * 1.0
    double(t)
    same -= 0.5
    for k in range(2, M):
        same[k, 0] = float(k)
    wp.tile_store(out, t)
    wp.tile_store(kept, other)


def test_in_place_changes_show_everywhere():
    a = RNG.random((M, N)).astype(np.float32)
    _, out, kept = launched(in_place, a, np.zeros_like(a), np.zeros_like(a))
    expected = a + a - np.float32(0.5)
    expected[2:, 0] = [2.0, 3.0]
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(kept, a)


@wp.kernel
def chosen(a: wp.array2d[float], which: wp.array[int], out: wp.array3d[float], left: wp.array3d[float]):
    i = wp.tid()
    t = wp.tile_load(a, shape=(M, N))
    u = t
    if which[i] == 0:
        u = t * 2.0
    elif which[i] == 1:
        u = -t
    u += 1.0
    wp.tile_store(out[i], u)
    wp.tile_store(left[i], t)


def test_tiles_that_branches_choose():
    a = RNG.random((M, N)).astype(np.float32)
    blank = np.zeros((3, M, N), np.float32)
    _, _, out, left = launched(chosen, a, np.arange(3, dtype=np.int32), blank, blank, blocks=3)
    np.testing.assert_allclose(out, [2 * a + 1, -a + 1, a + 1], rtol=1e-6)
    np.testing.assert_array_equal(left, [a, a, a])


@wp.kernel
def exchanged(a: wp.array2d[float], turns: wp.array[int], out: wp.array3d[float]):
    i = wp.tid()
    first = wp.tile_load(a, shape=(2, N))
    second = wp.tile_load(a, shape=(2, N), offset=(2, 0))
    begun = first
    for _ in range(turns[i]):
        first, second = second, first + second
    for _ in range(turns[i]):
        first, second = second, first
    wp.tile_store(out[i], first)
    wp.tile_store(out[i], second, offset=(2, 0))
    wp.tile_store(out[i], begun, offset=(4, 0))


def test_tiles_that_loops_exchange():
    a = RNG.random((M, N)).astype(np.float32)
    turns = np.array([0, 1, 5], np.int32)
    _, _, out = launched(exchanged, a, turns, np.zeros((3, 6, N), np.float32), blocks=3)
    for row, count in zip(out, turns, strict=True):
        first, second = a[:2], a[2:]
        for _ in range(count):
            first, second = second, first + second
        if count % 2:
            first, second = second, first
        np.testing.assert_allclose(row, np.concatenate([first, second, a[:2]]), rtol=1e-6)


@wp.kernel
def shifted(a: wp.array2d[float], at: wp.array2d[int], out: wp.array3d[float], stored: wp.array3d[float]):
    i = wp.tid()
    t = wp.tile_load(a, shape=(M, N), offset=(at[i, 0], at[i, 1]))
    wp.tile_store(out[i], t)
    wp.tile_store(stored[i], wp.tile_ones(shape=(M, N), dtype=float), offset=(at[i, 0], at[i, 1]))


def test_parts_outside_of_the_array():
    a = RNG.random((5, 7)).astype(np.float32)
    at = np.array([[0, 0], [3, 5], [-2, 1], [9, 0], [0, -5], [1, 4]], np.int32)
    count = len(at)
    _, _, out, stored = launched(
        shifted, a, at, np.ones((count, M, N), np.float32), np.zeros((count, 5, 7), np.float32), blocks=count
    )
    padded, marked = np.zeros((40, 40), np.float32), np.zeros((count, 40, 40), np.float32)
    padded[15:20, 15:22] = a
    for k, (i, j) in enumerate(at + 15):
        np.testing.assert_array_equal(out[k], padded[i : i + M, j : j + N])
        marked[k, i : i + M, j : j + N] = 1.0
    np.testing.assert_array_equal(stored, marked[:, 15:20, 15:22])


def test_a_value_of_another_thread_is_refused():
    @wp.kernel
    def k(out: wp.array[float]):
        t = wp.tile_from_thread(shape=1, value=2.0, thread_idx=3)
        wp.tile_store(out, t)

    with pytest.raises(KernelValueError, match="there is no thread 3: a block is one thread"):
        run(k, 1, np.zeros(1, np.float32))


@wp.func
def scaled(t: wp.tile[float], factor: float):
    return t * factor


@wp.func
def scaled(t: wp.tile[float, (M, N)], factor: float):  # noqa: F811
    return t * factor + 100.0


@wp.func
def scaled(t: wp.tile[Any, Any, Literal[2]], factor: float):  # noqa: F811
    return t * wp.float64(factor)


@wp.kernel
def overloaded(a: wp.array2d[float], wide: wp.array2d[wp.float64], out: wp.array2d[float]):
    wp.tile_store(out, scaled(wp.tile_load(a, shape=(M, N)), 2.0))
    wp.tile_store(out, scaled(wp.tile_load(a, shape=(1, N)), 3.0))
    wp.tile_store(wide, scaled(wp.tile_load(wide, shape=(3, 2)), 4.0))


def test_functions_are_chosen_by_the_shapes_of_tiles():
    a, wide = RNG.random((M, N)).astype(np.float32), RNG.random((3, 2))
    _, doubled, out = launched(overloaded, a, wide, np.zeros_like(a))
    np.testing.assert_allclose(out[1:], 2 * a[1:] + 100, rtol=1e-6)
    np.testing.assert_allclose(out[0], 3 * a[0], rtol=1e-6)
    np.testing.assert_array_equal(doubled, wide * 4.0)


def test_annotations_of_tiles():
    assert repr(wp.tile[float]) == "tile[float32]"
    assert wp.tile[float, (4, 3)] == wp.tile[float, 4, Literal[3]] == wp.tile(dtype=float, shape=(4, 3))
    with pytest.raises(KernelTypeError, match="an extent must be a positive integer, got -1"):
        wp.tile[float, -1]
    with pytest.raises(KernelTypeError, match="expected a type and extents, got none"):
        wp.tile[()]
