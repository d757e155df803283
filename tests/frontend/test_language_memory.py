"""Arrays in kernels: elements, components, views, shapes, atomics."""

# ruff: noqa: UP018  (kernels are written for their own sake)

from __future__ import annotations

import numpy as np
import pytest
from language import define, outputs, run

import jaxwarp as wp


@wp.kernel
def shapes(a: wp.array3d[float], v: wp.array2d[wp.mat22], out: wp.array[int]):
    out[0] = a.shape[0]
    out[1] = a.shape[-1]
    n, m, k = a.shape
    out[2] = n * m * k
    out[3] = len(a[0])
    out[4] = a.ndim + v.ndim * 10
    out[5] = v.shape[1]
    out[6] = a[1].size + len(v.shape)
    out[7] = len(v[0, 0])


def test_shapes():
    out = outputs(shapes, 1, np.zeros((2, 3, 4)), np.zeros((5, 6, 2, 2)), np.zeros(8))
    np.testing.assert_array_equal(out, [2, 4, 24, 3, 23, 6, 14, 2])


@wp.kernel
def views(a: wp.array3d[float], out: wp.array2d[float]):
    i, j = wp.tid()
    plane = a[i]
    row = plane[j]
    out[i, j] = row[0] + plane[j][1] * 10.0 + a[i, j, -1] * 100.0 + a[-1][0, 0]
    a[i][j][1] = 0.5
    row[2] = 0.25


def test_views_of_leading_axes():
    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    a[-1, 0, 0] = 7000
    after, out = run(views, (2, 3), a, np.zeros((2, 3)))
    np.testing.assert_array_equal(out, a[:, :, 0] + a[:, :, 1] * 10 + a[:, :, 3] * 100 + 7000)
    a[:, :, 1], a[:, :, 2] = 0.5, 0.25
    np.testing.assert_array_equal(after, a)


@wp.func
def total(a: wp.array[float]):
    s = float(0.0)
    for k in range(len(a)):
        s += a[k]
    return s


@wp.kernel
def slices(a: wp.array2d[float], lo: int, hi: int, out: wp.array2d[float]):
    i = wp.tid()
    out[i, 0] = total(a[i])
    out[i, 1] = total(a[i, 1:])
    out[i, 2] = total(a[i, :-1])
    out[i, 3] = total(a[i][lo:hi])
    out[i, 4] = total(a[:, i])
    out[i, 5] = total(a[1:][0, 2:][1:])
    out[i, 6] = a[i, 1:3][-1]
    out[i, 7] = float(len(a[i, lo:]))


@pytest.mark.parametrize(("lo", "hi"), [(1, 3), (0, 9), (3, 1), (4, 5), (9, 12)])
def test_slices(lo, hi):
    a = np.random.default_rng(1).integers(0, 9, (3, 4)).astype(np.float32)
    out = outputs(slices, 3, a, lo, hi, np.zeros((3, 8)))
    expected = [a.sum(1), a[:, 1:].sum(1), a[:, :-1].sum(1), a[:, lo:hi].sum(1), a.sum(0)[:3]]
    expected += [np.full(3, a[1, 3:].sum()), a[:, 2], np.full(3, len(a[0, lo:]))]
    np.testing.assert_array_equal(out, np.stack(expected, -1))


@wp.kernel
def element_components(v: wp.array[wp.vec3], m: wp.array2d[wp.mat22], k: int):
    i = wp.tid()
    v[i].x += 1.0
    v[i][k] *= 10.0
    v[i][-1] = v[i].y
    m[i, 0][0, 1] = 5.0
    m[i, 0][k] = wp.vec2(8.0, 9.0)
    m[-1, 0][0][0] -= 2.0


def test_components_of_elements():
    v, m = np.arange(6.0).reshape(2, 3), np.zeros((2, 1, 2, 2))
    got_v, got_m = run(element_components, 2, v, m, 1)[:2]
    v[:, 0] += 1
    v[:, 1] *= 10
    v[:, 2] = v[:, 1]
    m[:, 0, 0, 1] = 5
    m[:, 0, 1] = [8, 9]
    m[-1, 0, 0, 0] -= 4  # by both threads
    np.testing.assert_array_equal(got_v, v)
    np.testing.assert_array_equal(got_m, m)


def test_components_of_elements_are_loaded_and_stored_alone():
    source = """
@wp.kernel
def k(m: wp.array[wp.mat44]):
    i = wp.tid()
    m[i][0, 1] = m[i][2][3] * 2.0
"""
    text = define(source)["k"].source("ir")
    assert text.count("load") == 1
    assert text.count("store") == 1


@wp.kernel
def augmented(a: wp.array[int], v: wp.array[wp.vec2], f: wp.array[float]):
    i = wp.tid()
    a[0] += i
    a[1] -= i
    a[2] |= 1 << i
    a[3] ^= i
    v[0] += wp.vec2(1.0, float(i))
    f[i] *= 3.0
    f[i] /= 2.0


def test_augmented_assignment_to_elements_is_atomic_where_threads_can_meet():
    n = 20
    a, v, f = run(augmented, n, np.zeros(4), np.zeros((1, 2)), np.arange(n))
    total = sum(range(n))
    np.testing.assert_array_equal(a, [total, -total, 2**n - 1, np.bitwise_xor.reduce(range(n))])
    np.testing.assert_array_equal(v, [[n, total]])
    np.testing.assert_array_equal(f, np.arange(n) * 1.5)


@wp.kernel
def atomics(c: wp.array2d[int], old: wp.array2d[int], v: wp.array[wp.vec2], tickets: wp.array[int]):
    i = wp.tid()
    old[i, 0] = wp.atomic_add(c, 0, 0, 1)
    wp.atomic_sub(c, 0, 1, i)
    wp.atomic_min(c, 0, 2, i - 5)
    wp.atomic_max(c, (0, 3), i)
    wp.atomic_and(c, 1, 0, 0 if i == 3 else -1)
    wp.atomic_or(c, 1, 1, 1 << i)
    wp.atomic_xor(c[1], 2, 1 << i)
    if i == 4:
        old[i, 1] = wp.atomic_exch(c, 1, 3, 77)
        old[i, 2] = wp.atomic_cas(c, 1, 4, 9, 10)
        old[i, 3] = wp.atomic_cas(c, 1, 5, 1, 10)
    before = wp.atomic_max(v, 0, wp.vec2(float(i), -float(i)))
    tickets[wp.atomic_add(arr=c, i=0, j=4, value=1)] = 1 + int(before.y) * 0


def test_atomics():
    n = 8
    c = np.array([[0, 0, 0, 0, 0, 0], [-1, 0, 0, 5, 9, 9]])
    c, old, v, tickets = run(atomics, n, c, np.zeros((n, 4)), [[0.0, -3.0]], np.zeros(n))
    np.testing.assert_array_equal(c, [[n, -28, -5, 7, n, 0], [0, 255, 255, 77, 10, 9]])
    np.testing.assert_array_equal(np.sort(old[:, 0]), np.arange(n))
    np.testing.assert_array_equal(old[4, 1:], [5, 9, 9])
    np.testing.assert_array_equal(v, [[7.0, 0.0]])
    np.testing.assert_array_equal(tickets, np.ones(n))


@wp.kernel
def atomic_index_once(counter: wp.array[int], out: wp.array[int]):
    out[wp.atomic_add(counter, 0, 1)] += 5


def test_an_index_is_evaluated_once():
    counter, out = run(atomic_index_once, 3, [0], np.zeros(3))
    assert counter[0] == 3
    np.testing.assert_array_equal(out, [5, 5, 5])


@wp.kernel
def index_types(a: wp.array[float], small: wp.array[wp.uint8], big: wp.array[wp.int64]):
    i = wp.tid()
    a[small[i]] = 1.0
    a[big[i]] = 2.0
    a[wp.uint32(4)] = 3.0


def test_indices_of_any_integer_type():
    np.testing.assert_array_equal(run(index_types, 2, np.zeros(5), [0, 1], [2, 3])[0], [1, 1, 2, 2, 3])


def test_arrays_of_rank_six():
    source = """
@wp.kernel
def k(a: wp.array(dtype=float, ndim=6), out: wp.array[float]):
    i, j, l, m, n, o = wp.tid()
    wp.atomic_add(out, 0, a[i, j][l][m, n, o] * float(a.shape[5] + a[0][0][0].ndim))
"""
    a = np.arange(1 * 2 * 3 * 2 * 2 * 2).reshape(1, 2, 3, 2, 2, 2)
    assert outputs(define(source)["k"], a.shape, a, np.zeros(1))[0] == a.sum() * 5


def test_bool_arrays():
    source = """
@wp.kernel
def k(a: wp.array[bool], out: wp.array[wp.bool]):
    i = wp.tid()
    out[i] = not a[i]
    out[i] |= a[i] and i == 0
"""
    np.testing.assert_array_equal(outputs(define(source)["k"], 2, [True, False], [0, 0]), [True, True])


@wp.kernel
def moving_views(a: wp.array2d[float], b: wp.array[float], n: int, out: wp.array[float]):
    row = a[0]
    tail = b[0:]
    for k in range(n):
        out[0] = out[0] * 10.0 + row[1]
        row = a[k + 1]
        tail = tail[1:]
    best = a[2] if n > 2 else a[1]
    if n == 1:
        best = row
    out[1] = best[0]
    out[2] = tail[0] + float(len(tail))


@pytest.mark.parametrize("n", [1, 3])
def test_a_variable_can_stand_for_different_parts_of_one_array(n):
    a, b = np.arange(8.0).reshape(4, 2), np.arange(10.0, 15.0)
    out = outputs(moving_views, 1, a, b, n, np.zeros(3))
    digits = float("".join(str(int(x)) for x in a[:n, 1]))
    np.testing.assert_array_equal(out, [digits, 4.0 if n == 3 else 2.0, b[n] + 5 - n])


@wp.kernel
def wide_bounds(a: wp.array[float], lo: wp.int64, hi: wp.uint32, out: wp.array[float]):
    out[0] = total(a[lo:hi])
    out[1] = float(len(a[hi:]))


def test_slice_bounds_of_other_integer_types():
    a = np.arange(5.0)
    np.testing.assert_array_equal(outputs(wide_bounds, 1, a, -(2**40), 3, np.zeros(2)), [3, 2])
    np.testing.assert_array_equal(outputs(wide_bounds, 1, a, 2, 2**32 - 1, np.zeros(2)), [9, 0])
