"""What programs for Warp write, beside what Python would have."""

# ruff: noqa: RET503  (kernels are written for their own sake)

import numpy as np
import pytest

import jaxwarp as wp


@wp.func
def doubled(x: float):
    if x > 0.0:
        return 2.0 * x


@wp.func
def constant(x: float):
    if x > 0.0:
        return 3, wp.vec2(x, 5.0)


@wp.func
def first_above(x: wp.array[float], limit: float):
    for k in range(x.shape[0]):
        if x[k] > limit:
            return k + 1


@wp.kernel
def returned(x: wp.array[float], y: wp.array2d[float]):
    i = wp.tid()
    number, pair = constant(x[i])
    y[i, 0] = doubled(x[i])
    y[i, 1] = float(number) + pair[1]
    y[i, 2] = float(first_above(x, x[i]))


def test_a_path_that_returns_nothing_returns_zero():
    y = wp.zeros((3, 3))
    wp.launch(returned, 3, [np.float32([1.5, -1.0, 4.0]), y])
    assert y.numpy().tolist() == [[3, 8, 3], [0, 0, 1], [8, 8, 0]]


@wp.kernel
def typed(x: wp.array[wp.float64], y: wp.array[wp.float64]):
    i = wp.tid()
    value = x[i]
    whole = wp.vec3i(1, 2, 3, dtype=wp.int32)
    y[i] = x[i].dtype(2.5) * value + value.dtype(whole[2]) + type(value).dtype(0.25)


def test_types_of_values():
    y = wp.zeros(2, dtype=wp.float64)
    wp.launch(typed, 2, [np.array([2.0, 1e300]), y])
    assert y.list() == [8.25, 2.5e300]

    @wp.kernel
    def wrong(y: wp.array[float]):
        y[0] = float(wp.vec3i(1, 2, 3, dtype=wp.int64)[0])

    with pytest.raises(wp.KernelError, match="dtype"):
        wp.launch(wrong, 1, [wp.zeros(1)])


@wp.kernel
def sized(y: wp.array[float]):
    m = wp.mat22(1.0, 2.0, 3.0, 4.0)
    n = wp.types.matrix(shape=(2, 2), dtype=float)(m, shape=(2, 2), dtype=float)
    y[0] = n[1, 0] + wp.vec2(5.0, 6.0, length=2)[1]


def test_constructors_take_what_the_type_says():
    y = wp.zeros(1)
    wp.launch(sized, 1, [y])
    assert y.list() == [9.0]
    assert wp.mat22(wp.mat22(1, 2, 3, 4), shape=(2, 2), dtype=float) == wp.mat22(1, 2, 3, 4)
    assert wp.vec3i(1, 2, 3, length=3, dtype=int) == wp.vec3i(1, 2, 3)
    for wrong in ({"length": 2}, {"dtype": float}, {"shape": (2,)}, {"dtype": np.zeros(3)}):
        with pytest.raises(wp.KernelError, match=next(iter(wrong))):
            wp.vec3i(1, 2, 3, **wrong)


@wp.func
def digits(a: float, b: float, c: float):
    return 100.0 * a + 10.0 * b + c


@wp.kernel
def spread(x: wp.array[float], points: wp.array[wp.vec3], y: wp.array[float]):
    v = wp.vec3(1.0, 2.0, 3.0)
    m = wp.matrix_from_rows(*wp.mat22(1.0, 2.0, 3.0, 4.0))
    y[0] = digits(*v) + digits(*v[::-1])
    y[1] = digits(x[0], *points[1][:2])
    y[2] = digits(*x[1:4]) + digits(*x[0:6:2])
    y[3] = digits(*m[1], *m[0][:1])
    y[4] = digits(*x[2:][0:3])


def test_stars_take_vectors_and_slices_apart():
    x, points, y = np.arange(6.0, dtype=np.float32), np.arange(6.0, dtype=np.float32).reshape(2, 3), wp.zeros(5)
    wp.launch(spread, 1, [x, wp.array(points, dtype=wp.vec3), y])
    assert y.list() == [123 + 321, 34, 123 + 24, 341, 234]

    @wp.kernel
    def whole(x: wp.array[float], y: wp.array[float]):
        y[0] = digits(*x[1:])

    @wp.kernel
    def moved(x: wp.array[float], n: int, y: wp.array[float]):
        y[0] = digits(*x[n : n + 3])

    with pytest.raises(wp.KernelError, match=r"\* of a slice of x: expected one axis, a stop"):
        wp.launch(whole, 1, [x, y])
    with pytest.raises(wp.KernelError, match=r"the bounds of a slice of an array after \* must be constant"):
        wp.launch(moved, 1, [x, 1, y])


@wp.kernel
def of_fabric(x: wp.fabricarray(dtype=float), rows: wp.indexedfabricarray[wp.vec3], y: wp.array[float]):
    i = wp.tid()
    y[i] = 2.0 * x[i] + rows[i][1]


def test_kernels_for_fabric_take_arrays():
    x, rows, y = wp.array([1.0, 2.0], dtype=float), wp.ones(2, dtype=wp.vec3), wp.zeros(2)
    wp.launch(of_fabric, 2, [x, rows, y])
    assert y.list() == [3.0, 5.0]
    assert not isinstance(x, wp.fabricarray)
    for made in (lambda: wp.fabricarray({"version": 1}), lambda: wp.indexedfabricarray(fa=x, indices=y)):
        with pytest.raises(wp.KernelError, match="arrays of Fabric cannot be made here"):
            made()


@wp.kernel
def unrolled(n: int, rows: wp.array[wp.vec3], y: wp.array[float]):
    v = wp.vec3(1.0, 2.0, 3.0)
    m = wp.mat22(1.0, 2.0, 3.0, 4.0)
    for i in range(4):
        if i < n:
            y[0] += v[i] + rows[0][i]
            v[i] = 7.0
            if i < 2:
                y[1] += m[i, 1]
    y[2] = v[0] + v[1] + v[2]


def test_constant_indices_in_code_that_is_skipped():
    y = wp.zeros(3)
    wp.launch(unrolled, 1, [2, np.float32([[10, 20, 30]]), y])
    assert y.list() == [33.0, 6.0, 17.0]


def test_debug_mode_names_a_constant_index_out_of_range(monkeypatch):
    @wp.kernel
    def out(n: int, y: wp.array[float]):
        v = wp.vec3(1.0, 2.0, 3.0)
        for i in range(4):
            if i < n:
                y[0] += v[i]

    monkeypatch.setattr(wp.config, "mode", "debug")
    y = wp.zeros(1)
    wp.launch(out, 1, [3, y])
    assert y.list() == [6.0]
    with pytest.raises(wp.KernelError, match=r"index 3 of axis 0 of a vec3.* is out of range; its extent is 3"):
        wp.launch(out, 1, [4, y])


def test_a_literal_out_of_range_is_refused():
    @wp.kernel
    def out(n: int, y: wp.array[float]):
        v = wp.vec3(1.0, 2.0, 3.0)
        if n > 0:
            y[0] = v[3]

    with pytest.raises(wp.KernelError, match="index 3 is out of range"):
        wp.launch(out, 1, [0, wp.zeros(1)])


def test_names_that_stand_as_defaults():
    def step(mode=wp.CaptureMode.THREAD_LOCAL, timed=wp.TIMING_ALL):
        y = wp.zeros(1)
        with wp.ScopedTimer("step", print=False, cuda_filter=timed), wp.ScopedCapture(capture_mode=mode) as capture:
            y.fill_(2.0)
        wp.capture_launch(capture.graph)
        return y.list()

    assert step() == [2.0]
    assert wp.TIMING_ALL & wp.TIMING_GRAPH
    assert wp.TIMING_KERNEL | wp.TIMING_MEMCPY == 5


def test_the_python_function_of_a_func():
    assert doubled.func(3.0) == 6.0
    assert doubled.func.__name__ == "doubled"
