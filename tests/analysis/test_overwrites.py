"""Reverse mode through elements that are overwritten after they were read: against jax.numpy and finite differences."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from orders import check_orders, flat, scalar
from overwrites import KERNELS, SQUARES, lu, some

import jaxwarp as wp
from jaxwarp.analysis.effects import analyze
from jaxwarp.errors import DifferentiationError
from jaxwarp.ffi.derivatives import recording
from jaxwarp.ir.nodes import Atomic, Load, walk
from jaxwarp.types import float64 as F
from jaxwarp.vjp.reverse.adjoint import adjoint


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("name", KERNELS)
def test_gradient(name):
    launched, reference, args = KERNELS[name]
    every = tuple(range(len(args)))
    gradients = [jax.jit(jax.value_and_grad(scalar(f), every)) for f in (launched, reference)]
    for step in range(2):
        moved = [a * (1 + 0.01 * step) for a in args]
        found, expected = (gradient(*moved) for gradient in gradients)
        np.testing.assert_allclose(flat(found), flat(expected), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["softmax of rows", "tested", "components"])
def test_all_orders_of_modes(name):
    launched, _, args = KERNELS[name]
    check_orders(launched, args)


def test_under_vmap_with_what_items_share():
    launched, reference, (w, a) = KERNELS["until"]
    many = np.stack([a, 0.9 * a, 1.2 * a])
    total = [lambda w, many, f=f: scalar(lambda *x: jax.vmap(lambda a: f(w, a)[0])(x[0]))(many)
             for f in (launched, reference)]  # fmt: skip
    found, expected = (jax.jit(jax.grad(f, (0, 1)))(w, many) for f in total)
    np.testing.assert_allclose(flat(found), flat(expected), rtol=1e-9)
    launched, reference, (a,) = KERNELS["tested"]
    found, expected = (jax.jit(jax.jacrev(lambda a, f=f: f(a)[0]))(a) for f in (launched, reference))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-14)


def test_in_a_scan_that_is_checkpointed():
    launched, reference, (a,) = KERNELS["tested"]

    def many(f, a):
        step = jax.checkpoint(lambda a, _: (0.9 * f(a)[0], None))
        return jnp.sum(jnp.sin(jax.lax.scan(step, a, None, 3)[0]))

    found, expected = (jax.jit(jax.grad(lambda a, f=f: many(f, a)))(a) for f in (launched, reference))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_launch_of_no_threads():
    call = wp.jax_kernel(lu, in_out_argnames=["a"], launch_dims=0)
    np.testing.assert_array_equal(jax.grad(lambda a: call(a)[0].sum())(SQUARES), np.ones_like(SQUARES))


def test_single_precision_and_odd_sizes():
    @wp.kernel
    def squares(x: wp.array2d[float], y: wp.array2d[float]):
        i = wp.tid()
        for k in range(x.shape[1]):
            y[i, k] = x[i, k] * x[i, k]
        for _ in range(2):
            for k in range(x.shape[1]):
                y[i, k] = y[i, k] * y[i, k]

    x = np.float32(some(37, 3))
    call = wp.jax_kernel(squares, launch_dims=37, output_dims={"y": (37, 3)})
    np.testing.assert_allclose(jax.grad(lambda x: call(x)[0].sum())(x), 8 * x**7, rtol=1e-5)


@wp.kernel
def counted(w: wp.array[F], a: wp.array2d[F], n: int):
    i = wp.tid()
    for _ in range(n):
        for k in range(1, a.shape[1] - 1):
            a[i, k] = w[0] * (a[i, k - 1] + a[i, k + 1])


@wp.kernel
def uncounted(w: wp.array[F], a: wp.array2d[F]):
    i = wp.tid()
    while a[i, 1] < F(2.0):
        for k in range(1, a.shape[1] - 1):
            a[i, k] = w[0] * (a[i, k - 1] + a[i, k + 1])


def test_iterations_that_are_not_known_are_refused():
    for kernel, extra, hint in (
        (counted, (3,), "let the loop end at a constant, an extent of an array or min(n, constant)"),
        (uncounted, (), "let something count the iterations of the while loops around it"),
    ):
        call = wp.jax_kernel(kernel, in_out_argnames=["a"], launch_dims=2)
        with pytest.raises(DifferentiationError, match="a is read here after it may have been overwritten") as error:
            jax.grad(lambda w, call=call, extra=extra: call(w, np.ones((2, 5)), *extra)[0].sum())(np.ones(1))
        assert hint in str(error.value)
        assert "test_overwrites.py:" in str(error.value)


def test_records_that_are_too_large_are_refused(monkeypatch):
    launched, _, (a,) = KERNELS["tested"]
    gradient = jax.grad(lambda a: launched(a)[0].sum())
    monkeypatch.setattr(recording, "LIMIT", 100)
    with pytest.raises(DifferentiationError, match=r"needs the overwritten values, which are 0\.0 GiB"):
        gradient(a)
    monkeypatch.setattr(recording, "LIMIT", 10_000)
    assert np.isfinite(gradient(a)).all()


@wp.kernel
def byte_counted(x: wp.array[F], places: wp.array2d[int], a: wp.array2d[F]):
    i = wp.tid()
    iterations = wp.uint8(250)
    left = wp.int8(-120)
    k = 0
    while k < 20:
        a[i, places[i, k]] = wp.sin(x[i] * a[i, places[i, k]]) + F(0.5) * a[i, places[i, k + 1]]
        iterations += wp.uint8(1)
        left -= wp.int8(1)
        k += 1
    a[i, 0] += F(iterations) + F(left)


def test_counters_that_wrap_do_not_tell_iterations_apart():
    """Iteration numbers were taken from the first counter: what was recorded went to places before the record."""
    places = np.random.default_rng(3).integers(0, 4, (3, 21)).astype(np.int32)
    x, a = np.array([0.5, -1.2, 0.9]), np.linspace(-1.0, 1.0, 12).reshape(3, 4)
    call = wp.jax_kernel(byte_counted, in_out_argnames=["a"], launch_dims=3)

    def reference(x, a):
        rows = np.arange(3)
        for k in range(20):
            here, next_ = places[:, k], places[:, k + 1]
            a = a.at[rows, here].set(jnp.sin(x * a[rows, here]) + 0.5 * a[rows, next_])
        return a

    found = jax.grad(lambda x, a: jnp.sum(jnp.sin(call(x, places, a)[0][:, 1:])), (0, 1))(x, jnp.asarray(a))
    expected = jax.grad(lambda x, a: jnp.sum(jnp.sin(reference(x, a)[:, 1:])), (0, 1))(x, jnp.asarray(a))
    np.testing.assert_allclose(flat(found), flat(expected), rtol=1e-9)


@wp.kernel
def too_near(x: wp.array[F], y: wp.array[F]):
    i = wp.tid()
    y[3 * i] = x[i]
    y[3 * i + 3] = y[3 * i] * x[i]


@wp.kernel
def too_far(x: wp.array[F], y: wp.array[F]):
    i = wp.tid()
    for k in range(4):
        y[3 * i + k] = x[i]
    y[3 * i] = y[3 * i + 1] * x[i]


@wp.kernel
def next_to_it(x: wp.array[F], index: wp.array[int], y: wp.array[F]):
    i = wp.tid()
    y[index[i]] = y[index[i] + 1] * x[i]


@wp.kernel
def perhaps(x: wp.array[F], index: wp.array[int], y: wp.array[F]):
    """It reads also where it does not write."""
    i = wp.tid()
    if y[index[i]] > x[i]:
        y[index[i]] = x[i]


@wp.kernel
def only_added(x: wp.array[F], index: wp.array[int], y: wp.array[F]):
    """Others may add to the element too."""
    i = wp.tid()
    y[index[i]] += x[i]
    x[i] = y[index[i]]


@pytest.mark.parametrize("kernel", [too_near, too_far])
def test_what_another_thread_may_have_written_is_refused(kernel):
    call = wp.jax_kernel(kernel, in_out_argnames=["y"], launch_dims=3)
    # While it is traced: a program that runs may fail before, where threads meet.
    with pytest.raises(DifferentiationError, match="a thread may read what another one writes"):
        jax.make_jaxpr(jax.grad(lambda x: call(x, np.ones(20))[0].sum()))(np.ones(3))


def by_threads(kernel, x, index, y):
    """The kernel's threads, one after the other."""
    for i, at in enumerate(index):
        if kernel is next_to_it:
            y = y.at[at].set(y[at + 1] * x[i])
        elif kernel is perhaps:
            y = y.at[at].set(jnp.where(y[at] > x[i], x[i], y[at]))
        else:
            y = y.at[at].add(x[i])
            x = x.at[i].set(y[at])
    return jnp.concatenate([x, y]) if kernel is only_added else y


@pytest.mark.parametrize("kernel", [next_to_it, perhaps, only_added])
def test_what_another_thread_may_have_written_is_looked_at(kernel):
    """Where indices are found in data: when the launch runs."""
    names = [a.name for a in kernel.arguments]
    changed = ["x", "y"] if kernel is only_added else ["y"]
    call = wp.jax_kernel(kernel, num_outputs=len(changed), in_out_argnames=changed, launch_dims=3)
    x, y, weights = np.array([0.5, 2.0, -1.0]), np.linspace(0.2, 3.0, 8), np.linspace(-1.0, 2.0, 11)

    def loss(x, y, index):
        given = {"x": x, "y": y, "index": index}
        out = jnp.concatenate(call(*(given[n] for n in names)))
        return jnp.sin(out) @ weights[: len(out)]

    def expected(x, y, index):
        out = by_threads(kernel, x, index, y)
        return jnp.sin(out) @ weights[: len(out)]

    index = np.array([4, 0, 2], np.int32)
    found, slopes = (
        jax.jit(jax.grad(loss, (0, 1)))(x, y, index),
        jax.jit(jax.grad(lambda x, y: expected(x, y, index), (0, 1)))(x, y),
    )
    np.testing.assert_allclose(flat(found), flat(slopes), rtol=1e-12)
    with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match="two threads have met at an element of y"):
        jax.block_until_ready(jax.grad(loss)(x, y, np.array([1, 2, 1], np.int32)))


def test_components_take_no_atomics():
    """They belong to the thread, and cover what they are stored to."""

    @wp.kernel
    def swapped(x: wp.array[F], y: wp.array[F]):
        i = wp.tid()
        y[2 * i] = x[2 * i + 1]
        y[2 * i + 1] = wp.sin(x[2 * i])

    call = wp.jax_kernel(swapped, launch_dims=4, output_dims=8)
    x = some(8)
    gradient = jax.grad(lambda x: jnp.sum(jnp.arange(8.0) * call(x)[0]))
    np.testing.assert_allclose(gradient(x).reshape(4, 2)[:, 1], [0.0, 2.0, 4.0, 6.0])
    np.testing.assert_allclose(gradient(x).reshape(4, 2)[:, 0], np.array([1.0, 3.0, 5.0, 7.0]) * np.cos(x[::2]))
    backward = adjoint(swapped.ir(), [0], (4,))
    ops = list(walk(backward.kernel.body))
    assert not any(isinstance(op, (Atomic, Load)) and op.param.name == "x_ct" for op in ops)
    (cotangent,) = (p for p in backward.kernel.params if p.name == "x_ct")
    assert analyze(backward.kernel).covers(cotangent, (4,), (8,))


@wp.kernel
def beside_a_counter_that_wraps(w: wp.array[F], start: wp.array[int], a: wp.array2d[F]):
    i = wp.tid()
    j = start[i]
    k = 0
    while k < 6:
        j += 1073741824
        k += 1
        a[i, k % 2] = w[0] * a[i, k % 2] * a[i, 2] + F(0.1) * F(j % 3)
        a[i, 2] = a[i, k % 2] + F(0.2)


@wp.kernel
def counter_that_comes_again(w: wp.array[F], start: wp.array[int], a: wp.array2d[F]):
    i = wp.tid()
    j = start[0]
    t = 0
    while t < 9:
        if j >= 0 and j < 3:
            a[i, j] = w[0] * a[i, j] * a[i, 1] + F(0.3)
        j += 1073741824
        t += 1


@wp.kernel
def products_that_wrap(w: wp.array[F], start: wp.array[int], a: wp.array2d[F]):
    i = wp.tid()
    for k in range(start[0], 2000000000, 268435456):
        j = 16 * k
        a[i, j] = w[0] * a[i, j] * a[i, j] + F(0.1)


@wp.kernel
def products_of_any_step(w: wp.array[F], start: wp.array[int], a: wp.array2d[F]):
    i = wp.tid()
    for t in range(start[0], 6):
        for k in range(0, 2000000000, 268435456 * (start[0] + 1)):
            a[i, 16 * k] = w[0] * a[i, 16 * k] * a[i, 16 * k] + F(0.1) * F(t)


@pytest.mark.parametrize(
    "kernel", [beside_a_counter_that_wraps, counter_that_comes_again, products_that_wrap, products_of_any_step]
)
def test_counters_and_indices_that_wrap_do_not_tell_iterations_apart(kernel):
    """They are recorded by what does, or refused."""
    call = wp.jax_kernel(kernel, in_out_argnames=["a"], launch_dims=2)
    f = scalar(lambda w, a: call(w, np.zeros(2, np.int32), a))
    args = np.array([0.5]), 0.5 * some(2, 3)
    _, slope = jax.jvp(f, args, args)
    try:
        gradient = jax.grad(f, (0, 1))(*args)
    except DifferentiationError:
        assert kernel is products_of_any_step
        return
    np.testing.assert_allclose(sum(np.vdot(g, x) for g, x in zip(gradient, args, strict=True)), slope, rtol=1e-9)
