"""Arrays that are None on some paths: fields of structs that are set under a condition."""

import numpy as np
import pytest

import jaxwarp as wp


@wp.struct
class Shape:
    size: float
    points: wp.array[float]
    table: wp.array2d[float]


@wp.func
def shape_of(kind: int, points: wp.array[float], table: wp.array2d[float]) -> Shape:
    found = Shape()
    found.size = 1.0
    if kind == 1:
        found.points = points
        found.size = 2.0
    elif kind == 2:
        found.points = points[1:]
        found.table = table
    return found


@wp.kernel
def measured(kinds: wp.array[int], points: wp.array[float], table: wp.array2d[float], out: wp.array2d[float]):
    i = wp.tid()
    shape = shape_of(kinds[i], points, table)
    out[i, 0] = float(shape.points.shape[0])
    if shape.points:
        out[i, 1] = shape.points[0] * shape.size
    if shape.table is not None:
        out[i, 2] = shape.table[0, 1]
    if shape.table is None:
        out[i, 3] = 1.0
    out[i, 4] = float(shape.table.shape[0] + 10 * shape.table.shape[1])


POINTS, TABLE = np.array([3.0, 4.0, 5.0], np.float32), np.arange(6, dtype=np.float32).reshape(2, 3)
EXPECTED = np.array([[0, 0, 0, 1, 0], [3, 6, 0, 1, 0], [2, 4, 1, 0, 32]], np.float32)


def launched(out):
    wp.launch(measured, 3, [wp.array([0, 1, 2], dtype=int), POINTS, TABLE, out])
    return out.numpy()


def test_fields_that_some_paths_set():
    np.testing.assert_array_equal(launched(wp.zeros((3, 5))), EXPECTED)


def test_derivatives_go_to_the_array():
    @wp.kernel
    def summed(kinds: wp.array[int], points: wp.array[float], table: wp.array2d[float], y: wp.array[float]):
        shape = shape_of(kinds[wp.tid()], points, table)
        if shape.points:
            y[0] += shape.points[0] * shape.points[0]

    points, y = wp.array(POINTS, requires_grad=True), wp.zeros(1, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(summed, 1, [wp.array([2], dtype=int), points, TABLE], [y])
    tape.backward(y)
    assert y.list() == [16.0]
    assert points.grad.list() == [0.0, 8.0, 0.0]


@wp.func
def first(a: wp.array[float]):
    return a[0]


@wp.kernel
def asked(kinds: wp.array[int], points: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    shape = Shape()
    if kinds[i] == 1:
        shape.points = points
    if shape.points:
        out[i] = first(shape.points)
    out[i] += shape.points[1] if shape.points is not None else 10.0
    if not shape.points or shape.points[2] == 5.0:
        out[i] += 100.0


@wp.kernel
def read(kinds: wp.array[int], points: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    shape = Shape()
    if kinds[i] == 1:
        shape.points = points
    out[i] = first(shape.points)


@wp.kernel
def written(kinds: wp.array[int], points: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    shape = Shape()
    if kinds[i] == 1:
        shape.points = points
    shape.points[0] = out[i]


@wp.kernel
def updated(kinds: wp.array[int], points: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    shape = Shape()
    if kinds[i] == 1:
        shape.points = points
    wp.atomic_add(shape.points, 0, out[i])


def test_what_asks_is_not_asked_again():
    out = wp.zeros(2)
    wp.launch(asked, 2, [wp.array([0, 1], dtype=int), POINTS, out])
    assert out.list() == [110.0, 107.0]
    assert "None" not in str(asked.specialize())


@pytest.mark.parametrize("kernel", [read, written, updated], ids=lambda kernel: kernel.name)
def test_elements_of_none(kernel):
    """They were those of the array of the other path."""
    points = wp.array(POINTS)
    with pytest.raises(wp.CheckError, match=r"thread \(1,\): the array is None here: it has no elements"):
        wp.launch(kernel, 2, [wp.array([1, 0], dtype=int), points, wp.zeros(2)])
    wp.launch(kernel, 2, [wp.array([1, 1], dtype=int), points, wp.zeros(2)])


def test_a_tile_of_none_is_zeros():
    @wp.kernel
    def loaded(kinds: wp.array[int], points: wp.array[float], out: wp.array[float]):
        i = wp.tid()
        shape = Shape()
        if kinds[i] == 1:
            shape.points = points
        out[i] = wp.tile_load(shape.points, shape=2)[1]

    out = wp.zeros(2)
    wp.launch(loaded, 2, [wp.array([0, 1], dtype=int), POINTS, out])
    assert out.list() == [0.0, 4.0]


def test_one_of_two_arrays():
    @wp.kernel
    def chosen(kinds: wp.array[int], a: wp.array[float], b: wp.array[float], y: wp.array[float]):
        shape = Shape()
        if kinds[0] == 1:
            shape.points = a
        else:
            shape.points = b
        y[0] = shape.points[0]

    for kind, expected in ((1, 3.0), (0, -3.0)):
        y = wp.zeros(1)
        wp.launch(chosen, 1, [wp.array([kind], dtype=int), POINTS, -POINTS, y])
        assert y.list() == [expected]
