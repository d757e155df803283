"""What a launch computes and moves, beside counts made by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

import jaxwarp as wp


@wp.kernel
def saxpy(a: float, x: wp.array[float], y: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = a * x[i] + y[i]


@wp.kernel
def product(a: wp.array2d[float], b: wp.array2d[float], c: wp.array2d[float]):
    i, j = wp.tid()
    s = 0.0
    for k in range(a.shape[1]):
        s += a[i, k] * b[k, j]
    c[i, j] = s


@wp.kernel
def guarded(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    if i < x.shape[0]:
        y[i] = wp.exp(x[i]) + 1.0


@wp.kernel
def root(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    g = 1.0
    while wp.abs(g * g - x[i]) > 1e-5:
        g = 0.5 * (g + x[i] / g)
    y[i] = g


@wp.kernel
def escape(x: wp.array[float], y: wp.array[int]):
    i = wp.tid()
    z = 0.0
    n = 0
    while n < 60 and z < 4.0:
        z = z * z + x[i]
        n += 1
    y[i] = n


@wp.kernel
def triangle(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    s = 0.0
    for k in range(i):
        s += x[k]
    y[i] = s


@wp.kernel
def histogram(x: wp.array[int], out: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(out, x[i], 1.0)


@wp.kernel
def lengths(x: wp.array[wp.vec3d], y: wp.array[wp.float64]):
    i = wp.tid()
    y[i] = wp.dot(x[i], x[i])


@wp.kernel
def counted(n: int, x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    s = 0.0
    for _ in range(n):
        s += x[i] * s
    y[i] = s


def test_saxpy():
    found = saxpy.roofline(1000, {"x": 1000, "y": 1000, "out": 1000}, bandwidth=1e9, peak_flops=1e9)
    assert found.flops == (2000, 2000)
    assert found.requested == (12000, 12000)
    assert (found.bytes_read, found.bytes_written) == (8000, 4000)
    assert found.is_exact
    assert found.bound == "memory"
    assert found.seconds == pytest.approx(12e-6)
    assert found.intensity == pytest.approx(1 / 6)


def test_a_product_of_matrices():
    found = product.roofline((20, 30), {"a": (20, 50), "b": (50, 30), "c": (20, 30)}, bandwidth=1e9, peak_flops=1e9)
    assert found.flops == (2 * 20 * 30 * 50,) * 2
    assert found.requested == (20 * 30 * (2 * 50 + 1) * 4,) * 2
    assert found.bytes_read == (20 * 50 + 50 * 30) * 4  # each element once, however often it is asked for
    assert found.bytes_written == 20 * 30 * 4
    assert found.bound == "arithmetic"


def test_a_condition_that_holds_for_every_thread():
    exact = guarded.roofline(100, {"x": 100, "y": 100})
    assert (exact.flops, exact.functions, exact.is_exact) == ((100, 100), (100, 100), True)
    beyond = guarded.roofline(128, {"x": 100, "y": 100})
    assert (beyond.flops, beyond.functions, beyond.is_exact) == ((0, 128), (0, 128), False)
    assert beyond.bytes_read == 400


def test_loops_that_data_decides():
    found = root.roofline(10, {"x": 10, "y": 10})
    assert found.flops[1] == math.inf
    assert "not bounded" in str(found)
    assert found.data_loops == (root.ir().body.ops[0].loc.line + 2,)
    assumed = root.roofline(10, {"x": 10, "y": 10}, trips=5)
    assert assumed.flops[0] == assumed.flops[1] < math.inf
    assert assumed.assumed_trips == 5
    assert not assumed.is_exact
    assert "5 by assumption" in str(assumed)
    assert counted.roofline(10, {"x": 10, "y": 10}).flops[1] == math.inf
    assert counted.roofline(10, {"x": 10, "y": 10}, trips=3).flops == (60, 60)


def test_iterations_that_are_bounded():
    assert escape.roofline(10, {"x": 10, "y": 10}).flops == (0, 10 * 60 * 2)
    found = triangle.roofline(10, {"x": 10, "y": 10})
    assert found.flops == (0, 10 * 9)  # the true count, 45, lies between
    assert found.data_loops == ()


def test_atomics_read_and_write():
    found = histogram.roofline(100, {"x": 100, "out": 8})
    assert found.flops == (100, 100)
    assert (found.bytes_read, found.bytes_written) == (400 + 32, 32)


def test_components_and_wide_types():
    found = lengths.roofline(7, {"x": 7, "y": 7})
    assert found.bytes_read == 7 * 24
    assert found.bytes_written == 7 * 8
    assert found.flops == (7 * 5, 7 * 5)


def test_no_threads():
    assert root.roofline(0, {"x": 0, "y": 0}).flops == (0, 0)


def test_what_is_wrong_is_named():
    with pytest.raises(wp.KernelError, match="expected the shape of x"):
        saxpy.roofline(10, {})
    with pytest.raises(wp.KernelError, match="bandwidth: expected a positive number, got -1"):
        saxpy.roofline(10, {"x": 10, "y": 10, "out": 10}, bandwidth=-1)
    with pytest.raises(wp.KernelError, match=r"trips: expected a positive integer, got 0\.5"):
        saxpy.roofline(10, {"x": 10, "y": 10, "out": 10}, trips=0.5)
    with pytest.raises(wp.KernelError, match="dim: expected integers from 0, got -1"):
        saxpy.roofline(-1, {"x": 10, "y": 10, "out": 10})
    with pytest.raises(wp.KernelError, match="shapes: x: expected integers from 0, got -3"):
        saxpy.roofline(10, {"x": -3, "y": 10, "out": 10})
    found = saxpy.roofline(10, {"x": 10, "y": 10, "out": 10}, bandwidth=np.float32(1e9))
    assert found.seconds == pytest.approx(found.bytes / 1e9)
