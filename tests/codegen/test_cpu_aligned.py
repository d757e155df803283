"""CPU code: loops that lanes enter at different numbers and leave together, against the interpreter."""

from dataclasses import replace

import numpy as np
import pytest
from cpukit import Make, check, floats

from jaxwarp.codegen.cpu import compile_cpu
from jaxwarp.codegen.cpu.analysis.uniformity import find_strides
from jaxwarp.ir.nodes import Param
from jaxwarp.ir.verify import verify
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import float16, float32, int8, int32, int64, uint32

SPAN = 24


def ring(m, dtype, step, stop, divergent=False, held=float32):
    """for k in range(start[i], stop, step): total += w[k]; out[i, k] = total; own[k % 8] = total

    Then y[i] = total + the sum of `own`, which is zero at first. Indices count from where the range begins.
    """
    starts, flags, x, y = m.array(None, dtype=dtype), m.array(None), m.array(None), m.array(None)
    w, out = m.array(SPAN), m.array(None, SPAN)
    own = Param("own", held, (8,))
    i = m.tid(0)
    for slot in range(8):
        m.store(own, [m.i(slot)], m.const(0, held))
    base = stop if step < 0 else stop - SPAN
    step_value = m.i(step, dtype)

    def body(k, total):
        at = m.op("sub", k, m.i(base + (step < 0), dtype))
        total = m.op("add", total, m.load(w, [at]))
        m.store(out, [i, at], total)
        slot = m.op("bit_and", at, m.i(7, dtype))
        m.store(own, [slot], m.cast(total, held))
        return [m.op("add", total, m.cast(m.load(own, [slot]), float32))]

    def loop():
        return m.for_(m.load(starts, [i]), m.i(stop, dtype), step_value, [m.load(x, [i])], body)

    if divergent:
        (total,) = m.if_(m.op("gt", m.load(flags, [i]), m.f(0.0)), loop, lambda: (m.f(-1.0),))
    else:
        (total,) = loop()
    for slot in range(8):
        total = m.op("add", total, m.cast(m.load(own, [m.i(slot)]), float32))
    m.store(y, [i], total)
    return verify(replace(m.finish("test", 1, m.params), locals=(own,)))


def data(n, dtype, step, stop, seed=0):
    """Starts in and beyond the range, that of many lanes empty."""
    rng = np.random.default_rng(seed)
    away = rng.integers(-3 if abs(stop) < 1000 else 0, SPAN + 1, n)
    away[rng.random(n) < 0.2] = 0
    starts = (stop - step * away).astype(dtype.numpy)
    out = np.zeros((n, SPAN), np.float32)
    return [starts, floats(n, seed=1), floats(n, seed=2) / 64, floats(n), floats(SPAN) / 64, out]


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize(("dtype", "divergent"), [(int32, False), (int64, True)], ids=str)
def test_lanes_wait_for_their_start(dtype, step, divergent):
    limits = np.iinfo(dtype.numpy)
    for stop in (5, limits.max if step > 0 else limits.min):
        kernel = ring(Make(), dtype, step, int(stop), divergent)
        assert len(find_strides(prepare(kernel), 8).aligned) == 1
        for n in (7, 37):
            check(kernel, (n,), data(n, dtype, step, int(stop), n))


@pytest.mark.parametrize("held", [int8, float16], ids=str)
def test_small_elements_of_own_arrays(held):
    kernel = ring(Make(), int32, -1, 0, True, held)
    inputs = data(37, int32, -1, 0)
    for at in (2, 4):
        inputs[at] = np.round(inputs[at])
    check(kernel, (37,), inputs, widths=(2, 8, 16))


def test_no_lane_enters():
    for step in (1, -1):
        inputs = data(21, int32, step, 5)
        inputs[0][:] = 5 + step * np.arange(21)
        check(ring(Make(), int32, step, 5), (21,), inputs)


@pytest.mark.parametrize(("step", "dtype"), [(2, int32), (-2, int64), (1, uint32)], ids=str)
def test_other_loops_are_not_aligned(step, dtype):
    """Lanes would not be at the same numbers, or unsigned ones would have to be compared as such."""
    m = Make()
    starts, y = m.array(None, dtype=dtype), m.array(None)
    i = m.tid(0)
    stop, far = m.i(20, dtype), m.load(starts, [i])
    (total,) = m.for_(far, stop, m.i(step, dtype), [m.f(0.0)], lambda k, t: [m.op("add", t, m.cast(k, float32))])
    m.store(y, [i], total)
    assert not find_strides(prepare(m.kernel()), 8).aligned
    check(m.kernel(), (37,), [np.arange(37, dtype=dtype.numpy), floats(37)])


@pytest.mark.parametrize("is_loaded", [False, True])
def test_integers_that_may_be_alike(is_loaded):
    """A counter that all running lanes share is worth more than an index; one that they do not share anyway is not."""
    m = Make()
    starts, first, y = (m.array(None, dtype=int32) for _ in range(3))
    i = m.tid(0)
    init = m.load(first, [i]) if is_loaded else m.i(3)

    def body(k, count):
        return [m.op("add", m.op("mul", count, m.i(3)), k)]

    (count,) = m.for_(m.load(starts, [i]), m.i(9), m.i(1), [init], body)
    m.store(y, [i], count)
    assert len(find_strides(prepare(m.kernel()), 8).aligned) == is_loaded
    rng = np.random.default_rng(0)
    check(m.kernel(), (37,), [rng.integers(-5, 12, 37).astype(np.int32) for _ in range(3)])


def test_a_loop_in_a_loop():
    """for a in range(start[i], 6): for b in range(other[i], a): total = total / 2 + w[a] * w[b]"""
    m = Make()
    starts, others, w, y = m.array(None, dtype=int32), m.array(None, dtype=int32), m.array(6), m.array(None)
    i = m.tid(0)
    one = m.i(1)
    other = m.load(others, [i])

    def outer(a, total):
        def inner(b, total):
            product = m.op("mul", m.load(w, [a]), m.load(w, [b]))
            return [m.op("add", m.op("mul", total, m.f(0.5)), product)]

        return m.for_(other, a, one, [total], inner)

    (total,) = m.for_(m.load(starts, [i]), m.i(6), one, [m.f(1.0)], outer)
    m.store(y, [i], total)
    assert len(find_strides(prepare(m.kernel()), 8).aligned) == 2
    rng = np.random.default_rng(0)
    check(m.kernel(), (37,), [*(rng.integers(0, 8, 37).astype(np.int32) for _ in range(2)), floats(6), floats(37)])


def test_elements_of_the_index_are_loaded_once_for_all_lanes():
    kernel = prepare(ring(Make(), int32, -1, 0))
    text = compile_cpu(kernel, 8).text
    assert "masked.gather" not in text
    assert "vector.reduce.smax" in text
