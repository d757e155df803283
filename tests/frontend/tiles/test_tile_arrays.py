"""Tiles from arrays and back: every place inside and outside of arrays, indexed forms, atomic sums, kinds of arrays."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tilekit import body_kernel, everywhere

from jaxwarp.ir.nodes import If

RNG = np.random.default_rng(31)
EXTENTS = {1: (5,), 2: (4, 5), 3: (3, 4, 2), 4: (2, 3, 2, 3)}
SHAPES = {1: (3,), 2: (2, 3), 3: (2, 2, 3), 4: (1, 2, 2, 2)}


def places(ndim: int) -> np.ndarray:
    """Offsets inside, partly and wholly outside of the array, also negative ones, in all combinations."""
    axes = [(-n, -1, 0, m - n, m - 1, m) for n, m in zip(SHAPES[ndim], EXTENTS[ndim], strict=True)]
    if ndim > 2:
        axes = [axis[1:6:2] if number else axis for number, axis in enumerate(axes)]
    return np.array(list(itertools.product(*axes)), np.int32)


def padded(a: np.ndarray) -> np.ndarray:
    return np.pad(a, [(8, 8)] * a.ndim)


def window(at: np.ndarray, shape: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(8 + i, 8 + i + n) for i, n in zip(at, shape, strict=True))


@pytest.mark.parametrize("ndim", EXTENTS)
def test_loads_stores_and_sums_at_every_place(ndim):
    shape, extents, at = SHAPES[ndim], EXTENTS[ndim], places(ndim)
    offset = "(" + "".join(f"at[i, {axis}], " for axis in range(ndim)) + ")"
    k = body_kernel(
        f"a: wp.array(dtype=float, ndim={ndim}), at: wp.array2d[int], loaded: wp.array(dtype=float, ndim=2),"
        f" stored: wp.array(dtype=float, ndim=2), total: wp.array(dtype=float, ndim={ndim})",
        f"""
t = wp.tile_load(a, shape={shape}, offset={offset})
wp.tile_store(loaded[i], wp.tile_reshape(t, shape=(-1,)))
own = wp.zeros(shape={extents}, dtype=float)
wp.tile_store(own, wp.tile_ones(shape={shape}, dtype=float) + t, offset={offset})
wp.tile_store(stored[i], wp.tile_reshape(wp.tile_load(own, shape={extents}), shape=(-1,)))
wp.tile_atomic_add(total, wp.tile_ones(shape={shape}, dtype=float), offset={offset})
""",
    )
    a, count = RNG.random(extents).astype(np.float32), len(at)
    blank = np.ones((count, np.prod(shape))), np.ones((count, a.size)), np.zeros(extents)
    _, _, loaded, stored, total = everywhere(k, a, at, *blank, blocks=count, on_host=ndim == 2)
    sums, inner = padded(np.zeros(extents)), window(np.zeros(ndim, int), extents)
    for one, row, kept in zip(at, loaded, stored, strict=True):
        part = padded(a)[window(one, shape)]
        np.testing.assert_array_equal(row, part.ravel())
        marked = padded(np.zeros(extents))
        marked[window(one, shape)] = 1 + part
        sums[window(one, shape)] += 1
        np.testing.assert_allclose(kept, marked[inner].ravel(), rtol=1e-6)
    np.testing.assert_array_equal(total, sums[inner])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_indexed_loads_stores_and_sums(axis):
    """Indices may be outside, negative ones too, and twice the same."""
    shape = (4, 3) if axis == 0 else (3, 4)
    k = body_kernel(
        "a: wp.array2d[float], at: wp.array[int], out: wp.array2d[float], stored: wp.array2d[float],"
        " total: wp.array2d[float], before: wp.array2d[float]",
        f"""
rows = wp.tile_load(at, shape=4)
t = wp.tile_load_indexed(a, rows, shape={shape}, offset=(1, -1), axis={axis})
wp.tile_store(out, t)
wp.tile_store_indexed(stored, rows, t, offset=(1, -1), axis={axis})
was = wp.tile_atomic_add_indexed(total, rows, wp.tile_ones(shape={shape}, dtype=float), offset=(1, -1), axis={axis})
wp.tile_store(before, was)
""",
    )
    a, at = RNG.random((6, 6)).astype(np.float32), np.array([3, -2, 9, 3], np.int32)
    blank = np.zeros((6, 6))
    _, _, out, stored, total, before = everywhere(k, a, at, np.ones(shape), blank, blank, np.ones(shape))
    for i, j in np.ndindex(*shape):
        x, y = (1 + at[i], j - 1) if axis == 0 else (1 + i, at[j] - 1)
        inside = 0 <= x < 6 and 0 <= y < 6
        assert out[i, j] == (a[x, y] if inside else 0)
        if inside:
            twice = (i if axis == 0 else j) in (0, 3)
            assert stored[x, y] == a[x, y]
            assert total[x, y] == (2 if twice else 1)
            assert before[i, j] == (1 if (i if axis == 0 else j) == 3 else 0)


def test_parts_of_arrays():
    k = body_kernel(
        "a: wp.array3d[float], out: wp.array2d[float]",
        """
t = wp.tile_load(a[1], shape=(2, 2), offset=(1, 1))
wp.tile_store(out[0:2], t, offset=(0, 1))
u = wp.tile_load(a[0, :, 1], shape=4)
wp.tile_store(out[2], u)
wp.tile_store(out[:, 3], wp.tile_load(a[0, 2, ::2], shape=4, offset=1))
""",
    )
    a = RNG.random((2, 3, 5)).astype(np.float32)
    out = everywhere(k, a, np.full((4, 4), 7.0))[1]
    expected = np.full((4, 4), 7, np.float32)
    expected[:2, 1:3] = a[1, 1:, 1:3]
    expected[2] = [*a[0, :, 1], 0]
    expected[:, 3] = [a[0, 2, 2], a[0, 2, 4], 0, 0]
    np.testing.assert_array_equal(out, expected)


def test_loads_that_do_not_ask_for_bounds():
    a = RNG.random((4, 4)).astype(np.float32)
    for asks in (True, False):
        k = body_kernel(
            "a: wp.array2d[float], out: wp.array2d[float]",
            f"""
t = wp.tile_load(a, shape=(2, 2), offset=(i, 1), bounds_check={asks}, aligned=True, storage="shared")
wp.tile_store(out, t, offset=(2 * i, 0), bounds_check={asks})
wp.tile_atomic_add(out, t, offset=(2 * i, 0), bounds_check={asks})
""",
        )
        out = everywhere(k, a, np.zeros((6, 2)), blocks=3)[1]
        np.testing.assert_allclose(out, 2 * np.concatenate([a[i : i + 2, 1:3] for i in range(3)]), rtol=1e-6)
        assert any(isinstance(op, If) for op in k.specialize().body.ops) == asks


def test_what_is_loaded_is_a_copy():
    k = body_kernel(
        "a: wp.array[float], out: wp.array[float]",
        "t = wp.tile_load(a, shape=3)\na[0] = 9.0\nt[1] = 5.0\nwp.tile_store(out, t)\nwp.tile_store(a, t, offset=-1)",
    )
    a, out = everywhere(k, np.array([1, 2, 3], np.float32), np.zeros(3))
    assert out.tolist() == [1, 5, 3]
    assert a.tolist() == [5, 3, 3]


def test_structs_are_loaded_and_stored():
    before = "@wp.struct\nclass Pair:\n    x: float\n    v: wp.vec2\n"
    k = body_kernel(
        "a: wp.array[float], out: wp.array[float]",
        """
own = wp.zeros(shape=4, dtype=Pair)
for n in range(4):
    own[n].x = a[n]
    own[n].v = wp.vec2(a[n], -a[n])
t = wp.tile_load(own, shape=3, offset=2)
t[1].x *= 10.0
wp.tile_store(own, t, offset=-1)
for n in range(4):
    out[n] = own[n].x + 100.0 * own[n].v[1]
""",
        before,
    )
    out = everywhere(k, np.array([1, 2, 3, 4], np.float32), np.zeros(4))[1]
    assert out.tolist() == [40 - 400, 0, 3 - 300, 4 - 400]
