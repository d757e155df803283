"""Launches on arrays of structs in memory work on the records themselves."""

from __future__ import annotations

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.arrays import launching
from jaxwarp.errors import KernelTypeError
from jaxwarp.memory.host_scope import HOST


@wp.struct
class Word:
    x: wp.vec3
    m: float
    v: wp.vec3
    n: int
    w: wp.mat22
    d: wp.float64


@wp.kernel
def advance(p: wp.array[Word], dt: float):
    i = wp.tid()
    p[i].x = p[i].x + p[i].v * dt
    p[i].n = p[i].n + 1
    p[i].w[1, i % 2] = p[i].m
    p[i].d = p[i].d * 2.0 + wp.float64(p[i].x[i % 3])


def words(count):
    found = np.zeros(count, Word.numpy_dtype())
    rng = np.random.default_rng(0)
    for name in found.dtype.names:
        found[name] = (rng.random(found[name].shape) * 100).astype(found[name].dtype)
    return found


def advanced(given):
    found, i = given.copy(), np.arange(len(given))
    found["x"] += found["v"] * np.float32(0.5)
    found["n"] += 1
    found["w"][i, 1, i % 2] = found["m"]
    found["d"] = found["d"] * 2 + found["x"][i, i % 3]
    return found


@pytest.mark.parametrize("count", [1, 7, 64, 4099])
def test_records_of_words_of_several_sizes(count):
    given = words(count)
    array = wp.array(given, dtype=Word)
    expected = given
    for _ in range(3):  # the first launch, and those that are like one before
        expected = advanced(expected)
        wp.launch(advance, dim=count, inputs=[array, 0.5])
        for name in given.dtype.names:
            np.testing.assert_allclose(array.numpy()[name], expected[name], rtol=1e-6, err_msg=name)


def test_launches_copy_no_records(monkeypatch):
    array = wp.array(words(5), dtype=Word)
    wp.launch(advance, dim=5, inputs=[array, 0.5])

    def refuse(*_):
        raise AssertionError("a copy")

    monkeypatch.setattr(HOST, "move", refuse)
    wp.launch(advance, dim=5, inputs=[array, 0.5])
    other = wp.array(words(6), dtype=Word)
    wp.launch(advance, dim=6, inputs=[other, 0.5])


def test_parts_of_records_and_of_other_arrays_are_told_apart():
    @wp.kernel
    def exchange(a: wp.array[wp.vec3], b: wp.array[wp.vec3]):
        i = wp.tid()
        a[i] = b[i] * 2.0

    array = wp.array(words(9), dtype=Word)
    expected = array.numpy().copy()
    for launched in (array, wp.array(words(9), dtype=Word), array[1:4], array[::2]):
        expected = launched.numpy().copy()
        for _ in range(2):
            wp.launch(exchange, dim=launched.shape, inputs=[launched.field("x"), launched.field("v")])
        expected["x"] = expected["v"] * 2
        for name in expected.dtype.names:
            np.testing.assert_array_equal(launched.numpy()[name], expected[name])
        wp.launch(exchange, dim=launched.shape, inputs=[launched.field("x"), launched.field("x")])
        expected["x"] *= 2
        for name in expected.dtype.names:
            np.testing.assert_array_equal(launched.numpy()[name], expected[name])
        x = launched.field("x")
        with pytest.raises(wp.KernelError, match="shares memory with argument 'b'"):
            wp.launch(exchange, dim=2, inputs=[x[:2], x[1:]])


def test_atomics_on_fields_leave_the_other_words_alone():
    @wp.kernel
    def add(p: wp.array[Word], x: wp.array[float]):
        i = wp.tid()
        p[i % 3].m += x[i]
        p[i % 3].x[1] += 1.0

    given = words(3)
    given["n"] = np.array([-(2**31), -1, 2**31 - 1])  # as floats -0 and NaN
    array = wp.array(given, dtype=Word)
    count = 30_000
    for _ in range(2):
        wp.launch(add, dim=count, inputs=[array, wp.ones(count, dtype=float)])
    for name in ("v", "n", "w", "d"):
        np.testing.assert_array_equal(array.numpy()[name], given[name])
    np.testing.assert_allclose(array.numpy()["m"], given["m"] + 2 * count / 3, rtol=1e-5)


def test_a_tape_runs_launches_on_records_again_elsewhere():
    @wp.kernel
    def squared(p: wp.array[Word]):
        i = wp.tid()
        p[i].m = p[i].m * p[i].m

    array = wp.array(words(4), dtype=Word, requires_grad=True)
    m = array.numpy()["m"].copy()
    for _ in range(2):
        tape, before = wp.Tape(), array.numpy()["m"].copy()
        with tape:
            wp.launch(squared, dim=4, inputs=[array])
        array.grad.field("m").fill_(1.0)
        tape.backward()
        np.testing.assert_allclose(array.grad.numpy()["m"], 2 * before, rtol=1e-6)
        array.field("m").assign(m)
        tape.zero()


@wp.kernel
def swap_pairs(low: wp.array[wp.vec2], high: wp.array[wp.vec2], scale: wp.array[float]):
    i = wp.tid()
    old = low[i]
    low[i] = high[i] * scale[i]
    high[i] = old


@pytest.mark.parametrize("count", [2, 9, 300])
def test_columns_of_a_matrix_are_used_in_place(count, monkeypatch):
    expected = np.random.default_rng(1).random((count, 7)).astype(np.float32)
    matrix = wp.array(expected, copy=True)

    def refuse(*_):
        raise AssertionError("a copy, or another look")

    for number in range(3):
        # Made anew, as a program does: the last columns reach to the last byte of the memory.
        low, high = matrix[:, 1:3].view(wp.vec2), matrix[:, 5:].view(wp.vec2)
        monkeypatch.setattr(HOST, "move", refuse)
        if number:
            monkeypatch.setattr(launching, "check", refuse)
        wp.launch(swap_pairs, dim=count, inputs=[low, high, matrix[:, 3]])
        old = expected[:, 1:3].copy()
        expected[:, 1:3] = expected[:, 5:] * expected[:, 3:4]
        expected[:, 5:] = old
        np.testing.assert_array_equal(matrix.numpy(), expected)


def test_columns_that_overlap_are_refused():
    matrix = wp.zeros((4, 6))
    wp.launch(swap_pairs, dim=4, inputs=[matrix[:, :2].view(wp.vec2), matrix[:, 2:4].view(wp.vec2), matrix[:, 4]])
    with pytest.raises(KernelTypeError, match="shares memory with argument 'high'"):
        wp.launch(swap_pairs, dim=4, inputs=[matrix[:, :2].view(wp.vec2), matrix[:, 1:3].view(wp.vec2), matrix[:, 4]])


def test_elements_of_no_row_are_copied():
    """Every other column, rows from the end, and rows of which one is not whole in memory."""
    expected = np.arange(40, dtype=np.float32).reshape(5, 8)
    matrix = wp.array(expected, copy=True)
    rows = matrix.reshape(40)[3:38].reshape(5, 7)
    for part in (matrix[:, ::3], matrix[::-1, :2], matrix.transpose()[:2]):
        assert part.in_records is None
    assert matrix[:4:2, 3].in_records.place == (16, 3)
    assert matrix[1::2, 3].in_records.place == (16, 11)
    assert rows[:4:2, 0].in_records.place == (14, 3)
    assert matrix[::2, 3].in_records is None  # of the last two rows, one is there
    assert rows[::2, 0].in_records is None
