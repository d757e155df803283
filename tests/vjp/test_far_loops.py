"""Reverse sweeps over loops at the ends of integer types: they make the iterations that the loop made, and record
each."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from derivativekit import Case, check_adjoint_of_tangent

import jaxwarp as wp
from jaxwarp.types import float64 as F

TYPES = (wp.int8, wp.int16, wp.int32, wp.int64, wp.uint8, wp.uint16, wp.uint32, wp.uint64)


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def ranges(dtype):
    """Start, stop, step: few iterations, far apart."""
    limits = np.iinfo(dtype.numpy)
    low, high = int(limits.min), int(limits.max)
    found = [
        (low, high, high),
        (low, high, high // 2 + 1),
        (0, high, high // 2 + 1),
        (high - 3, high, 1),
        (low, high, 0),
    ]
    if dtype.is_signed:
        found += [(high, low, low), (high, low, low // 2), (-1, low, low // 2), (low + 3, low, -1), (low, high, -1)]
    return found


def iterations(start, stop, step):
    return len(range(start, stop, step)) if step else 0


def carrying(dtype):
    @wp.kernel
    def carried(x: wp.array[F], a: wp.array[dtype], b: wp.array[dtype], c: wp.array[dtype], y: wp.array[F]):
        i = wp.tid()
        s = x[i]
        for _ in range(a[i], b[i], c[i]):
            s = s * s + F(0.1)
        y[i] = s

    return carried


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_what_a_loop_carries(dtype):
    cases = ranges(dtype)
    bounds = [np.array(column, dtype.numpy) for column in zip(*cases, strict=True)]
    x = np.full(len(cases), 0.5)
    expected = []
    for case in cases:
        s, slope = 0.5, 1.0
        for _ in range(iterations(*case)):
            s, slope = s * s + 0.1, slope * 2 * s
        expected.append(slope)
    call = wp.jax_kernel(carrying(dtype))
    found = jax.grad(lambda x: call(x, *bounds)[0].sum())(x)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def overwriting(dtype, start, stop, step):
    start, stop, step = (wp.constant(dtype(n)) for n in (start, stop, step))

    @wp.kernel
    def overwritten(x: wp.array2d[F], a: wp.array2d[F], y: wp.array[F]):
        i = wp.tid()
        acc = F(0.0)
        for _ in range(start, stop, step):
            for j in range(a.shape[1]):
                acc += a[i, j] * a[i, (j + 1) % 3] * x[i, j]
                a[i, j] = a[i, j] * a[i, j] + x[i, j]
        y[i] = acc

    return overwritten


@pytest.mark.parametrize("dtype", [wp.int64, wp.uint64, wp.int32, wp.uint8], ids=str)
def test_records_of_what_is_overwritten(dtype):
    """The interpreter raises where an iteration is recorded outside of the record."""
    rng = np.random.default_rng(0)
    for case in ranges(dtype):
        if case[2]:  # of others the number of iterations is not known
            kernel = overwriting(dtype, *case).ir()
            buffers = [rng.normal(size=(2, 3)) * 0.3, rng.normal(size=(2, 3)) * 0.3, np.zeros(2)]
            check_adjoint_of_tangent(Case("", kernel, (2,), buffers, (0, 1), (1, 2)))


def test_records_of_a_start_that_is_only_known_when_it_runs():
    """The distance from the start is more than the largest int64."""
    T = wp.int64

    @wp.kernel
    def overwritten(x: wp.array2d[F], n: T, a: wp.array2d[F], y: wp.array[F]):
        i = wp.tid()
        acc = F(0.0)
        for _ in range(n, T(9223372036854775807), T(4611686018427387904)):
            for j in range(a.shape[1]):
                acc += a[i, j] * a[i, (j + 1) % 3] * x[i, j]
                a[i, j] = a[i, j] * a[i, j] + x[i, j]
        y[i] = acc

    call = wp.jax_kernel(overwritten, num_outputs=2, in_out_argnames=["a"], launch_dims=64, output_dims={"y": 64})
    rng = np.random.default_rng(0)
    x, a, t = rng.normal(size=(64, 3)) * 0.3, rng.normal(size=(64, 3)) * 0.3, rng.normal(size=(64, 3))

    def loss(x):
        return sum(r.sum() for r in call(x, np.int64(-(2**63)), a))

    _, along = jax.jvp(loss, (x,), (t,))
    np.testing.assert_allclose(jnp.vdot(jax.grad(loss)(x), t), along, rtol=1e-10)


@wp.kernel
def counted(x: wp.array[F], a: wp.array2d[F], y: wp.array[F]):
    """The counter of a `while` goes further than the largest int64, too."""
    i = wp.tid()
    acc, k = F(0.0), wp.int64(-9223372036854775807)
    while k < wp.int64(2305843009213693951) and acc < F(100.0):
        for j in range(3):
            acc += a[i, j] * a[i, (j + 1) % 3] * x[i]
            a[i, j] = a[i, j] * a[i, j] + x[i]
        k += wp.int64(4611686018427387904)
    y[i] = acc


def test_counters_of_a_while():
    rng = np.random.default_rng(1)
    case = Case(
        "", counted.ir(), (2,), [rng.normal(size=2) * 0.3, rng.normal(size=(2, 3)) * 0.3, np.zeros(2)], (0,), (1, 2)
    )
    check_adjoint_of_tangent(case)
