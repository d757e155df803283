"""Numbers of launches that are like one before: each launch has those that it is given."""

from __future__ import annotations

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.errors import KernelValueError

KINDS = {"i": wp.int32, "j": wp.int64, "x": wp.float32, "y": wp.float64, "z": wp.bfloat16}


@wp.kernel
def numbers(
    i: int,
    j: wp.int64,
    x: float,
    y: wp.float64,
    z: wp.bfloat16,
    a: wp.array[int],
    b: wp.array[wp.int64],
    c: wp.array[float],
    d: wp.array[wp.float64],
    e: wp.array[wp.bfloat16],
):
    a[0] = i
    b[0] = j
    c[0] = x
    d[0] = y
    e[0] = z


def launched(*given):
    found = [wp.zeros(1, dtype=kind) for kind in KINDS.values()]
    wp.launch(numbers, 1, [*given, *found])
    return [array.numpy()[0] for array in found]


NUMBERS = [(7, 0.5), (-3, -2.25), (True, 1), (np.int32(5), np.float32(0.1)), (2**31 - 1, 1e30), (2, -0.0), (7, 0.5)]


def test_each_launch_has_its_numbers():
    for i, x in NUMBERS:
        found = launched(i, i, x, x, x)
        expected = [np.array(v).astype(f.dtype) for v, f in zip((i, i, x, x, x), found, strict=True)]
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_numbers_that_do_not_fit_are_refused_after_some_that_did():
    launched(1, 1, 0.5, 0.5, 0.5)
    with pytest.raises(KernelValueError, match=r"argument 'i': expected a value of int32, got 2147483648"):
        launched(2**31, 1, 0.5, 0.5, 0.5)
    with pytest.raises(KernelValueError, match=r"argument 'x': expected a value of float32, got 1e\+39"):
        launched(1, 1, 1e39, 0.5, 0.5)


def test_a_tape_has_the_numbers_of_its_launch():
    x, y = wp.array([2.0], dtype=float, requires_grad=True), wp.zeros(1, requires_grad=True)
    for factor in (3.0, 5.0):
        with wp.Tape() as tape:
            wp.launch(times, 1, [x, factor, y])
        wp.launch(times, 1, [x, 7.0, y])
        x.grad.zero_()
        tape.backward(grads={y: wp.ones(1)})
        assert x.grad.numpy()[0] == factor


@wp.kernel
def times(x: wp.array[float], factor: float, y: wp.array[float]):
    y[0] = factor * x[0]


@wp.kernel
def corners(first: wp.array[int], last: wp.array[int], rows: wp.array[wp.int64]):
    i, j = wp.tid()
    if i == 0 and j == 1:
        first[0] = j
    if i == 69_999 and j == 39_999:
        last[0] = i
        last[1] = j
    if j == 39_999:
        wp.atomic_add(rows, 0, wp.int64(i))


def test_more_threads_than_an_int32_counts():
    first, last, rows = wp.zeros(1, dtype=int), wp.zeros(2, dtype=int), wp.zeros(1, dtype=wp.int64)
    wp.launch(corners, dim=(70_000, 40_000), inputs=[first, last, rows])
    assert (first.list(), last.list(), rows.list()) == ([1], [69_999, 39_999], [70_000 * 69_999 // 2])
    with pytest.raises(ValueError, match=r"dim: Extents must not exceed .* 32-bit integer, got \(1, 2147483648\)"):
        wp.launch(corners, dim=(1, 2**31), inputs=[first, last, rows])
