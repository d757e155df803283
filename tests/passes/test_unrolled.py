"""Loops over the few elements of an array that all threads add to: written out, they mean the same."""

from __future__ import annotations

import hostcuda
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.codegen.abi import NO_CUDA_OPTIONS
from jaxwarp.codegen.cuda import code_for
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.nodes import For, walk
from jaxwarp.ir.verify import verify
from jaxwarp.passes.extents import with_extents
from jaxwarp.passes.pipeline import prepare
from jaxwarp.passes.unrolled import unrolled

N = 700


@wp.kernel
def weights(x: wp.array[int], w: wp.array[int]):
    i = wp.tid()
    for k in range(w.shape[0]):
        wp.atomic_add(w, k, x[i] * (k + 1))


@wp.kernel
def carried(x: wp.array[int], w: wp.array[int]):
    i = wp.tid()
    power = 1
    for k in range(w.shape[0] - 1, -1, -1):
        wp.atomic_max(w, k, power)
        power *= x[i]


@wp.kernel
def nested(x: wp.array[int], w: wp.array2d[int]):
    i = wp.tid()
    if x[i] > 0:
        for j in range(w.shape[0]):
            for k in range(w.shape[1]):
                wp.atomic_add(w, j, k, x[i] * (j + 3 * k))


@wp.kernel
def in_longer_loops(x: wp.array[int], w: wp.array[int]):
    i = wp.tid()
    for _ in range(x[i] & 3):
        for k in range(w.shape[0]):
            wp.atomic_add(w, k, x[i] + k)


SHAPES = {weights: (16,), carried: (5,), nested: (4, 4), in_longer_loops: (3,)}


def taken(kernel, shape):
    return with_extents(prepare(kernel.specialize()), [(N,), shape])


@pytest.mark.parametrize("kernel", SHAPES, ids=lambda k: k.name)
def test_the_same_sums(kernel):
    shape = SHAPES[kernel]
    before = taken(kernel, shape)
    made = verify(unrolled(before))
    assert sum(isinstance(op, For) for op in walk(made.body)) == int(kernel is in_longer_loops)
    x = np.random.default_rng(0).integers(-3, 4, N).astype(np.int32)
    expected, found, printed = (np.full(shape, 5, np.int32) for _ in range(3))
    interpret(before, (N,), [x, expected])
    interpret(made, (N,), [x, found])
    np.testing.assert_array_equal(found, expected)
    code = code_for(prepare(kernel.specialize()), (N,), [(N,), shape], 32, NO_CUDA_OPTIONS)
    assert "_part" in code.source
    assert "__shared__ int w_part" not in code.source
    assert code.kernel is not None
    hostcuda.run_host(code.kernel, code.grid, [x, printed])
    np.testing.assert_array_equal(printed, expected)


@wp.kernel
def by_data(x: wp.array[int], w: wp.array[int]):
    i = wp.tid()
    for k in range(3):
        wp.atomic_add(w, (x[i] + k) & 7, 1)


@pytest.mark.parametrize(("kernel", "shape"), [(weights, (17,)), (by_data, (8,)), (weights, (1,))])
def test_others_stay_loops(kernel, shape):
    before = taken(kernel, shape)
    assert unrolled(before) is before



@wp.func
def little(y: float) -> float:
    return wp.sin(y) + y * y


@wp.func
def much(y: float) -> float:
    return little(little(little(little(y))))


@wp.kernel
def long(x: wp.array[float], w: wp.array[float]):
    i = wp.tid()
    for k in range(16):
        wp.atomic_add(w, k, much(much(much(much(x[i] + float(k))))))


def test_where_it_would_be_long_it_stays_a_loop():
    before = taken(long, (16,))
    assert unrolled(before) is before
