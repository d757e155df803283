"""Launches of one thread: code without lanes, with the values of the interpreter."""

import re

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.codegen.cpu import compile_cpu
from jaxwarp.ir.interpret import interpret
from jaxwarp.passes.pipeline import on_cpu, prepared


@wp.kernel
def sums(x: wp.array2d[float], y: wp.array2d[float]):
    i = wp.tid()
    s = 0.0
    for k in range(x.shape[1]):
        s += x[i, k]
        y[i, k] = s


@wp.kernel
def in_a_plane(x: wp.array2d[float], y: wp.array2d[float]):
    i, j = wp.tid()
    for k in range(x.shape[1] - 1):
        y[i, k] = x[j + i, k] * x[i, k + 1] + float(i + j)
        wp.atomic_add(y, j, x.shape[1] - 1, x[i, k])


@wp.kernel
def in_space(x: wp.array2d[float], y: wp.array2d[float]):
    i, j, k = wp.tid()
    total = wp.vec3(float(k))
    for n in range(x.shape[1]):
        if x[i, n] > 0.0:
            total[wp.max(n - 2, 0) % 3] += x[j, n]
    y[i + j, k] = wp.dot(total, wp.vec3(1.0, 2.0, 4.0))


CASES = [(sums, (1,)), (in_a_plane, (1, 1)), (in_space, (1, 1, 1))]


def vectors(kernel, grid):
    """How often the text of a launch names vectors of floats."""
    ir = prepared(kernel.specialize(), True)
    made = on_cpu(ir, grid, [(grid[0], 9)] * 2, (), True)
    return len(re.findall(r"<\d+ x float>", compile_cpu(made.kernel, 8).text))


@pytest.mark.parametrize(("kernel", "grid"), CASES, ids=lambda v: getattr(v, "key", None))
def test_one_thread_has_no_lanes(kernel, grid):
    x = np.random.default_rng(0).integers(-4, 5, (1, 9)).astype(np.float32)
    given, found = wp.array(x), wp.full((1, 9), 3.0, dtype=float)
    wp.launch(kernel, grid, [given, found])
    expected = [x.copy(), np.full((1, 9), 3.0, np.float32)]
    interpret(prepared(kernel.specialize(), True), grid, expected)
    np.testing.assert_array_equal(found.numpy(), expected[1])
    several = (2, *grid[1:])
    assert vectors(kernel, grid) < vectors(kernel, several) / 2
