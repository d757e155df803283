"""`Tape`: gradients on arrays outside of JAX, against finite differences, `jax.grad` and formulas."""

from __future__ import annotations

import gc
import itertools
import random
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.arrays import launching
from jaxwarp.arrays.tapes import pull
from jaxwarp.errors import CheckError, DifferentiationError, KernelTypeError, KernelValueError

X = np.array([-2.0, -0.5, 0.25, 0.5, 2.0], np.float32)


@wp.kernel
def square(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def sine(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = wp.sin(x[i])


@wp.kernel
def square_in_place(x: wp.array[float]):
    i = wp.tid()
    x[i] = x[i] * x[i]


@wp.kernel
def total(x: wp.array[float], out: wp.array[float]):
    wp.atomic_add(out, 0, x[wp.tid()])


@wp.kernel
def loss_of_points(xs: wp.array(dtype=float, ndim=2), out: wp.array(dtype=float)):
    tid = wp.tid()
    wp.atomic_add(out, 0, xs[tid, 0] ** 2.0 + xs[tid, 1] ** 2.0)


@wp.kernel
def lengths(v: wp.array[wp.vec3], scale: float, out: wp.array[float]):
    i = wp.tid()
    out[i] = scale * wp.length(v[i])


@wp.kernel
def scatter(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[index[i]] = 3.0 * x[i]


@wp.kernel
def cube64(x: wp.array[wp.float64], y: wp.array[wp.float64]):
    i = wp.tid()
    y[i] = x[i] * x[i] * x[i]


def variable(values=X, dtype=float):
    return wp.array(values, dtype=dtype, requires_grad=True)


def grad_of(array):
    return array.grad.numpy()


def test_seeds_in_grad():
    x, y = variable(), wp.zeros(5, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(square, 5, [x], [y])
    y.grad.fill_(1.0)
    tape.backward()
    np.testing.assert_allclose(y.numpy(), X**2)
    np.testing.assert_allclose(grad_of(x), 2 * X)
    y.grad.fill_(2.0)
    tape.backward()  # adds
    np.testing.assert_allclose(grad_of(x), 6 * X)
    tape.zero()
    assert not grad_of(x).any()
    tape.backward(grads={y: wp.array(X, dtype=float)})
    np.testing.assert_allclose(grad_of(x), 2 * X * X, rtol=1e-6)
    assert tape.gradients == {x: x.grad, y: y.grad}


def test_a_chain_and_a_loss():
    x, loss = variable(), wp.zeros(1, requires_grad=True)
    y, z = wp.zeros(5), wp.zeros(5)  # what lies between needs no gradient of its own
    with wp.Tape() as tape:
        wp.launch(square, 5, [x], [y])
        wp.launch(sine, 5, [y], [z])
        wp.launch(total, 5, [z], [loss])
    tape.backward(loss)
    np.testing.assert_allclose(grad_of(x), 2 * X * np.cos(X * X), rtol=1e-5)
    np.testing.assert_allclose(loss.list(), [np.sin(X * X).sum()], rtol=1e-5)


@pytest.mark.parametrize("between", ["copy", "clone", "assign", "parts", "array"])
def test_copies(between):
    x, loss, y, z = variable(), wp.zeros(1, requires_grad=True), wp.zeros(5), wp.zeros(5)
    with wp.Tape() as tape:
        wp.launch(square, 5, [x], [y])
        if between == "copy":
            wp.copy(z, y)
        elif between == "clone":
            z = wp.clone(y)
        elif between == "assign":
            z.assign(y)
        elif between == "array":
            z = wp.array(wp.array(y.reshape(5, 1)), shape=5, dtype=float)
            with pytest.raises(KernelTypeError, match="does not record conversions from float32 to float64"):
                wp.array(y, dtype=wp.float64)
        else:
            wp.copy(z, y, 0, 0, 2)
            wp.copy(z[2:], y[2:])
        wp.launch(sine, 5, [z], [y])  # y is used again
        wp.launch(total, 5, [y], [loss])
    tape.backward(loss)
    np.testing.assert_allclose(grad_of(x), 2 * X * np.cos(X * X), rtol=1e-5)


def test_overwritten_arrays():
    """Warp reads what they hold at the end."""
    a, b, loss = variable(), wp.zeros(5), wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 5, [a], [b])
        wp.launch(sine, 5, [b], [a])
        wp.launch(square, 5, [a], [b])
        wp.launch(total, 5, [b], [loss])
    tape.backward(loss)
    np.testing.assert_allclose(grad_of(a), 2 * np.sin(X * X) * np.cos(X * X) * 2 * X, rtol=1e-5)
    a, loss = variable(), wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        for _ in range(3):
            wp.launch(square_in_place, 5, [a])
        wp.launch(total, 5, [a], [loss])
    tape.backward(loss)
    np.testing.assert_allclose(grad_of(a), 8 * X**7, rtol=1e-5)
    a.fill_(1.0)
    with pytest.raises(KernelValueError, match="which the tape reads and overwrites, has changed since"):
        tape.backward(loss)


def test_what_was_read_before_it_was_added_to_is_checked():
    x, weight, loss = variable(), wp.array(X, dtype=float), wp.zeros(1, requires_grad=True)

    @wp.kernel
    def weigh(x: wp.array[float], w: wp.array[float], out: wp.array[float]):
        i = wp.tid()
        wp.atomic_add(out, 0, w[i] * x[i])

    @wp.kernel
    def spread(x: wp.array[float], w: wp.array[float]):
        i = wp.tid()
        wp.atomic_add(w, i, x[i])

    with wp.Tape() as tape:
        wp.launch(weigh, 5, [x, weight], [loss])
        wp.launch(spread, 5, [x], [weight])
        wp.launch(weigh, 5, [x, weight], [loss])  # of w x + (w + x) x
    tape.backward(loss)
    np.testing.assert_allclose(grad_of(x), 2 * X + 2 * X, rtol=1e-6)
    weight.fill_(2.0)
    with pytest.raises(KernelValueError, match="has changed since"):
        tape.backward(loss)


def test_a_fill_cuts():
    x, y, loss = variable(), wp.zeros(5), wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 5, [x], [y])
        y[:2].zero_()
        y[4].fill_(1.0)
        wp.launch(total, 5, [y], [loss])
    tape.backward(loss)
    np.testing.assert_allclose(grad_of(x), [0, 0, 2 * X[2], 2 * X[3], 0])
    with wp.Tape() as tape:
        wp.launch(square, 5, [x], [y], record_tape=False)
        wp.launch(total, 5, [y], [loss])
    tape.zero()
    x.grad.zero_()
    tape.backward(loss)
    assert not grad_of(x).any()


def test_parts_rows_and_strides():
    host = np.arange(12, dtype=np.float32).reshape(4, 3) / 7 + 0.5
    x, loss = variable(host), wp.zeros(1, requires_grad=True)
    y = wp.zeros((3, 4))
    with wp.Tape() as tape:
        wp.launch(square, 4, [x[:, 1]], [y[0]])
        wp.launch(sine, 3, [x[2]], [y[1, :3]])
        wp.launch(square, 2, [x[::2, 0]], [y[2, ::2]])
        wp.launch(total, 12, [y.flatten()], [loss])
    tape.backward(loss)
    expected = np.zeros_like(host)
    expected[:, 1] += 2 * host[:, 1]
    expected[2] += np.cos(host[2])
    expected[::2, 0] += 2 * host[::2, 0]
    np.testing.assert_allclose(grad_of(x), expected, rtol=1e-5)
    part = x[1:3]
    assert part.grad.ptr == x.grad[1:3].ptr


def test_vectors_numbers_and_types():
    v = np.random.default_rng(1).normal(size=(6, 3)).astype(np.float32)
    x, y = variable(v, wp.vec3), wp.zeros(6, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(lengths, 6, [x, 2.0], [y])
    y.grad.fill_(1.0)
    tape.backward()
    np.testing.assert_allclose(grad_of(x), 2 * v / np.linalg.norm(v, axis=1, keepdims=True), rtol=1e-5)
    x, y = variable(X.astype(np.float64), wp.float64), wp.zeros(5, dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(cube64, 5, [x], [y])
    y.grad.fill_(1.0)
    tape.backward()
    np.testing.assert_allclose(grad_of(x), 3 * X.astype(np.float64) ** 2, rtol=1e-14)
    assert jnp.zeros(1).dtype == jnp.float32  # JAX is as before
    x, y = variable(), wp.zeros(8, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(scatter, 5, [x, np.array([7, 1, 4, 0, 2], np.int32)], [y])
    y.grad.assign(np.arange(8, dtype=np.float32))
    tape.backward()
    np.testing.assert_allclose(grad_of(x), 3 * np.array([7, 1, 4, 0, 2]))
    np.testing.assert_allclose(grad_of(y), [0, 0, 0, 3, 0, 5, 6, 0])  # by what y held before


def test_memory_of_others():
    host, out = X.copy(), np.zeros(5, np.float32)
    x, loss = wp.array(host, copy=False, requires_grad=True), wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 5, [x], [out])
        wp.launch(total, 5, [out], [loss])
        wp.launch(total, 5, [jnp.ones(5)], [loss])
    tape.backward(loss)
    np.testing.assert_allclose(grad_of(x), 2 * X)
    host[:] = 3.0  # what is only read is taken as it is
    tape.zero()
    tape.backward(loss)
    np.testing.assert_allclose(grad_of(x), 6.0)


def test_one_recording_of_an_optimisation():
    """The loop of Warp's documents, with gradient descent."""
    start = np.random.default_rng(0).normal(size=(100, 2)).astype(np.float32)
    xs, loss = variable(start, wp.float32), wp.zeros(1, dtype=wp.float32, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(loss_of_points, dim=len(xs), inputs=[xs], outputs=[loss], device=xs.device)
    expected = start.copy()
    for _ in range(20):
        tape.zero()
        tape.backward(loss=loss)
        np.testing.assert_allclose(grad_of(xs), 2 * expected, rtol=1e-5)
        xs.numpy()[...] -= 0.1 * xs.grad.numpy()
        expected -= 0.2 * expected
        loss.zero_()
        wp.launch(loss_of_points, dim=len(xs), inputs=[xs], outputs=[loss], device=xs.device)
    np.testing.assert_allclose(loss.list(), [(expected**2).sum()], rtol=1e-4)


def test_a_simulation_against_jax():
    @wp.kernel
    def step(u: wp.array2d[float], rate: float, v: wp.array2d[float]):
        i, j = wp.tid()
        n = u.shape[0]
        around = u[(i + 1) % n, j] + u[(i + n - 1) % n, j] - 2.0 * u[i, j]
        v[i, j] = u[i, j] + rate * around * wp.cos(u[i, j])

    host = np.random.default_rng(2).normal(size=(9, 4)).astype(np.float32)
    a, b = variable(host), wp.zeros((9, 4))
    start = a
    with wp.Tape() as tape:
        for _ in range(6):
            wp.launch(step, a.shape, [a, 0.2], [b])
            a, b = b, a
        loss = wp.zeros(1, requires_grad=True)
        wp.launch(total, 36, [a.flatten()], [loss])
    tape.backward(loss)
    jax_step = wp.jax_kernel(step)

    def run(u):
        for _ in range(6):
            (u,) = jax_step(u, 0.2)
        return u.sum()

    np.testing.assert_allclose(grad_of(start), jax.grad(run)(host), rtol=1e-4, atol=1e-5)


@wp.kernel
def square_or_nan(x: wp.array[Any], y: wp.array[Any]):
    i = wp.tid()
    if not wp.isfinite(x[i]):
        y[i] = type(y[i])(wp.nan)
        return
    y[i] = type(y[i])(0.5) * x[i] * x[i]


def test_the_type_of_an_element_does_not_need_what_is_there():
    x, y, slope = variable(), wp.zeros(5), wp.zeros(5)
    wp.launch(square_or_nan, 5, [x], [y], [slope], [wp.ones(5)], adjoint=True)
    np.testing.assert_array_equal(slope.numpy(), X)


def test_adjoint_launches():
    x, y = variable(), wp.zeros(5, requires_grad=True)
    wp.launch(square, 5, inputs=[x], outputs=[y])
    y.grad.fill_(1.0)
    wp.launch(square, 5, [x], [y], adj_inputs=[x.grad], adj_outputs=[y.grad], adjoint=True)
    np.testing.assert_allclose(grad_of(x), 2 * X)
    out = np.zeros(5, np.float32)
    wp.launch(square, 5, [x], [y], [out], [np.full(5, 3.0, np.float32)], adjoint=True)
    np.testing.assert_allclose(out, 6 * X)
    with pytest.raises(DifferentiationError, match="the kernel overwrites 'x', and its adjoint needs what was there"):
        wp.launch(square_in_place, 5, [x], adj_inputs=[x.grad], adjoint=True)
    with pytest.raises(KernelTypeError, match=r"its adjoint: expected float32 of shape \(5,\), got float32"):
        wp.launch(square, 5, [x], [y], [wp.zeros(4)], [y.grad], adjoint=True)
    with pytest.raises(KernelTypeError, match="adj_inputs: expected at most 1 arrays, got 2"):
        wp.launch(square, 5, [x], [y], [x.grad, y.grad], adjoint=True)


def test_an_adjoint_launch_like_one_before_sees_what_has_changed():
    x, y = variable(), wp.ones(5, requires_grad=True)

    def found(**adjoints):
        """What is added to the gradient of x, to begin with 1."""
        if x.grad is not None:
            x.grad.fill_(1.0)
        wp.launch(square, 5, [x], [y], adjoint=True, **adjoints)
        return None if x.grad is None else x.grad.numpy() - 1.0

    np.testing.assert_array_equal(found(), np.zeros(5))  # that of y is zero
    y.grad.fill_(2.0)
    np.testing.assert_allclose(found(), 4 * X)
    x.fill_(3.0)
    np.testing.assert_allclose(found(), np.full(5, 12.0))
    x.assign(X)
    y.grad.assign(np.arange(5, dtype=np.float32))
    np.testing.assert_allclose(found(), 2 * X * np.arange(5))
    y.grad = wp.ones(5)
    np.testing.assert_allclose(found(), 2 * X)
    before = x.grad
    x.grad = wp.zeros(5)
    np.testing.assert_allclose(found(), 2 * X)
    np.testing.assert_allclose(before.numpy(), 2 * X + 1.0)
    x.requires_grad = False
    assert found() is None
    other = wp.zeros(5)
    wp.launch(square, 5, [x], [y], adj_inputs=[other], adjoint=True)
    np.testing.assert_allclose(other.numpy(), 2 * X)
    x.requires_grad = True
    np.testing.assert_allclose(found(), 2 * X)
    x.grad.is_writable = False
    with pytest.raises(KernelTypeError, match="its adjoint is added to, and it is read-only"):
        wp.launch(square, 5, [x], [y], adjoint=True)


def test_adjoint_launches_on_memory_that_was_free_in_between():
    for k in range(60):
        n = (5, 7)[k // 2 % 2]
        x, y = wp.full(n, float(k), requires_grad=k % 3 > 0), wp.zeros(n, requires_grad=k % 5 > 0)
        if y.grad is not None:
            y.grad.fill_(1.0)
        wp.launch(square, n, [x], [y], adjoint=True)
        if x.grad is not None:
            np.testing.assert_array_equal(x.grad.numpy(), np.full(n, 2.0 * k if y.grad is not None else 0.0))


def test_adjoint_launches_follow_the_mode(monkeypatch):
    at = np.array([0, 1, 2, 3], np.int32)
    x, y = variable(X[:4]), wp.zeros(4, requires_grad=True)
    y.grad.fill_(1.0)
    for mode in ("release", "debug"):
        monkeypatch.setattr(wp.config, "mode", mode)
        wp.launch(sines_at, 4, [x, at], [y], adjoint=True)
    np.testing.assert_allclose(grad_of(x), 2 * np.cos(X[:4]), rtol=1e-5)
    at[2] = 9
    with pytest.raises(CheckError, match="index 9"):
        wp.launch(sines_at, 4, [x, at], [y], adjoint=True)


def test_tapes_record_several_times():
    x, y, z = variable(), wp.zeros(5, requires_grad=True), wp.zeros(5, requires_grad=True)
    loss = wp.zeros(1, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(square, 5, [x], [y])
    wp.launch(square, 5, [y], [z])  # by hand: dz/dy is 2 y
    tape.record_func(lambda: y.grad.assign(y.grad.numpy() + 2.0 * y.numpy() * z.grad.numpy()), [y, z])
    with tape:
        wp.launch(total, 5, [z], [loss])
    tape.backward(loss)
    np.testing.assert_allclose(x.grad.numpy(), 4.0 * x.numpy() ** 3, rtol=1e-5)


def test_what_changes_between_two_records_is_refused():
    x, tape = variable(), wp.Tape()
    with tape:
        wp.launch(doubled, 5, [], [x])
    x.fill_(3.0)
    with pytest.raises(KernelValueError, match="has changed since it was recorded"), tape:
        pass


@wp.kernel
def doubled(x: wp.array[float]):
    i = wp.tid()
    x[i] = x[i] * x[i]


@pytest.mark.parametrize("is_captured", [False, True])
def test_a_loss_that_only_a_launch_of_no_threads_writes(is_captured: bool):
    """A step without contacts, say: the loss depends on nothing, and the step after it works as before."""
    x, out = variable(), variable(np.zeros(1, np.float32))

    def differentiate(count: int) -> None:
        with wp.Tape() as tape:
            wp.launch(total, dim=count, inputs=[x], outputs=[out])
        tape.backward(out)

    if is_captured:
        with wp.ScopedCapture() as capture:
            differentiate(0)
        wp.capture_launch(capture.graph)
    else:
        differentiate(0)
    np.testing.assert_array_equal(x.grad, np.zeros(5))
    differentiate(3)
    np.testing.assert_array_equal(x.grad, [1, 1, 1, 0, 0])


@wp.struct
class Sums:
    out: wp.array[float]


@wp.kernel
def total_in_struct(x: wp.array[float], sums: Sums):
    wp.atomic_add(sums.out, 0, x[wp.tid()])


def test_a_loss_in_a_struct_of_a_launch_of_no_threads():
    x, sums = variable(), Sums(out=variable(np.zeros(1, np.float32)))
    with wp.Tape() as tape:
        wp.launch(total_in_struct, dim=0, inputs=[x, sums])
    tape.backward(sums.out)
    np.testing.assert_array_equal(x.grad, np.zeros(5))


@pytest.mark.release_mode("one of its programs is a race, on purpose")
def test_refused():
    x, y = variable(), wp.zeros(5)
    tape = wp.Tape()
    with pytest.raises(KernelValueError, match="loss: no recorded launch or copy writes it"):
        tape.backward(wp.zeros(1, requires_grad=True))
    with tape:
        wp.launch(square, 5, [x], [y])
        with pytest.raises(KernelValueError, match="the tape is still recording"):
            tape.backward()
        with pytest.raises(KernelValueError, match="tapes do not nest"), wp.Tape():
            pass
    with pytest.raises(KernelTypeError, match="loss: expected an array of one number"):
        tape.backward(y)
    tape.reset()
    with tape:
        wp.launch(square, 5, [x], [y])
        loss = wp.zeros(1)
        wp.launch(total, 5, [y], [loss])
    with pytest.raises(KernelTypeError, match="loss: integers have no derivatives"):
        wp.Tape().backward(wp.zeros(1, dtype=int, requires_grad=True))
    with pytest.raises(KernelTypeError, match="grads: integers have no derivatives"):
        wp.Tape().backward(grads={(n := wp.zeros(1, dtype=int)): n})
    with pytest.raises(KernelValueError, match="loss: expected an array with requires_grad=True"):
        tape.backward(loss)
    with pytest.raises(KernelValueError, match="has no gradient to keep"):
        wp.zeros(3, retain_grad=True)

    @wp.kernel
    def neighbours(x: wp.array[float]):
        i = wp.tid()
        x[i] = x[i] * x[(i + 1) % 5]

    z = variable()
    z.grad.fill_(1.0)
    with wp.Tape() as tape:
        wp.launch(neighbours, 5, [z])
    with pytest.raises(DifferentiationError, match="the kernel reads x and writes it"):
        tape.backward()
    a = wp.array(X, dtype=float, requires_grad=True)
    b = wp.array(a, copy=False, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 5, [a], [y])
        wp.launch(square, 5, [b], [y])
    with pytest.raises(KernelValueError, match="share memory, and their gradients do not"):
        tape.backward()


def test_a_gradient_that_two_arrays_share_is_refused():
    x = wp.array(X, dtype=float, requires_grad=True)
    y = wp.zeros(5, dtype=float, requires_grad=True)
    y.grad = x.grad
    with (tape := wp.Tape()):
        wp.launch(square, 5, inputs=[x], outputs=[y])
    with pytest.raises(KernelValueError, match=r"the gradients of .* share memory, they do not"):
        tape.backward()


@pytest.mark.parametrize("way", ["copy", "assign", "clone", "array", "part"])
def test_arrays_that_are_only_copied(way):
    """Copies and fills are told of arrays with gradients as launches are."""
    x, loss = variable(), wp.zeros(1, requires_grad=True)
    y = wp.zeros(5, requires_grad=True)
    y.grad.fill_(7.0)  # of what is overwritten: used up
    z = y
    with wp.Tape() as tape:
        if way == "copy":
            wp.copy(y, x)
        elif way == "assign":
            y.assign(x)
        elif way == "part":
            y[1:].assign(x[1:])
            y[0] = x[0]
        else:
            z = wp.clone(x) if way == "clone" else wp.array(x)
            y.fill_(1.0)
        wp.launch(square, 5, [z], [wp.zeros(5)])
        wp.launch(total, 5, [z], [loss])
    tape.backward(loss)
    np.testing.assert_allclose(grad_of(x), np.full(5, 1.0 if way in ("clone", "array") else 8.0))
    assert not grad_of(y).any()


def test_what_a_launch_overwrites_without_gradients_is_used_up():
    x, y = wp.array(X, dtype=float), wp.zeros(5, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 5, [x], [y])
    y.grad.fill_(3.0)
    tape.backward()
    assert not grad_of(y).any()


def test_overlapping_copies():
    """A copy to a part of what it reads; NumPy itself is wrong where the steps differ."""
    host = np.arange(8.0)
    x = wp.array(host, dtype=wp.float64, requires_grad=True)
    y, w = wp.zeros(8, dtype=wp.float64, requires_grad=True), np.linspace(0.5, 4.0, 8)
    with wp.Tape() as tape:
        x[:4].assign(x[2:6])
        x[1::2].assign(x[2:6])
        wp.launch(cube64, 8, [x], [y])
    expected, jacobian = host.copy(), np.eye(8)
    for values in (expected, jacobian):
        values[:4] = values[2:6].copy()
        values[1::2] = values[2:6].copy()
    np.testing.assert_array_equal(x.numpy(), expected)
    tape.backward(grads={y: w})
    np.testing.assert_allclose(grad_of(x), (w * 3 * expected**2) @ jacobian)


def test_a_launch_that_is_not_recorded_overwrites_what_was_read():
    x, y, loss = variable(), wp.zeros(5), wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 5, [x], [y])
        wp.launch(square_in_place, 5, [x], record_tape=False)
        wp.launch(total, 5, [y], [loss])
    tape.backward(loss)
    np.testing.assert_allclose(grad_of(x), 2 * X)


def calls_of(count):
    """How many functions are called for a tape of so many launches."""
    arrays = [wp.ones(8, dtype=float, requires_grad=True) for _ in range(count + 1)]

    def run():
        with wp.Tape() as tape:
            for x, y in itertools.pairwise(arrays):
                wp.launch(sine, 8, [x], [y])
            wp.copy(arrays[0], arrays[-1])  # what was read is overwritten
        arrays[-1].grad.fill_(1.0)
        tape.backward()

    run()
    calls = 0

    def note(frame, event, argument):
        nonlocal calls
        calls += event == "call"

    gc.disable()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls


def test_time_is_linear_in_the_number_of_launches():
    small, middle, large = (calls_of(count) for count in (20, 60, 140))
    assert large - middle < 2.1 * (middle - small)  # twice as many more launches


def test_gradients_that_share_memory_where_their_arrays_do_not():
    """Among many, some of which may: parts of one array."""
    whole = wp.zeros(40, requires_grad=True)
    parts = [whole[4 * i : 4 * i + 8] for i in range(8)]
    x, y = wp.zeros(5, requires_grad=True), wp.zeros(5, requires_grad=True)
    with wp.Tape() as tape:
        for part in parts:
            wp.launch(total, 8, [part], [x])
        wp.launch(total, 5, [x], [y])
    tape.backward()
    y.grad = whole.grad[3:8]
    with pytest.raises(KernelValueError, match=r"the gradients of .* share memory, they do not"):
        tape.backward()
    y.grad = x.grad
    with pytest.raises(KernelValueError, match=r"the gradients of .* share memory, they do not"):
        tape.backward()
    z = x[1:]
    z.grad = wp.zeros(4)
    with wp.Tape() as tape:
        wp.launch(total, 4, [z], [y])
        wp.launch(total, 5, [x], [y])
    y.grad = wp.zeros(5)
    with pytest.raises(KernelValueError, match="share memory, and their gradients do not"):
        tape.backward()


@wp.kernel
def mixed(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = y[i] * wp.sin(x[i]) + x[i]


@wp.kernel
def spread(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(y, i // 2, 0.5 * x[i])


@wp.kernel
def sines_at(x: wp.array[float], at: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[at[i]] = wp.sin(x[i])


def colliding(*at):
    """The last of the threads that store to an element wins."""

    def stored(x, y):
        for i, j in enumerate(at):
            y = y.at[j].set(jnp.sin(x[i]))
        return y

    return lambda x, y: (stored(x, y), lambda a, b: wp.launch(sines_at, 4, [a, np.array(at, np.int32)], [b]))


def part_of(draw):
    start = draw.randrange(9)
    return slice(start, start + 4)


STEPS = {
    "square": lambda x, y: (jnp.square(x), lambda a, b: wp.launch(square, 4, [a], [b])),
    "mixed": lambda x, y: (y * jnp.sin(x) + x, lambda a, b: wp.launch(mixed, 4, [a], [b])),
    "in_place": lambda x, y: (jnp.square(y), lambda a, b: wp.launch(square_in_place, 4, [b])),
    "spread": lambda x, y: (
        y.at[:2].add(0.5 * x.reshape(2, 2).sum(1)),
        lambda a, b: wp.launch(spread, 4, [a], [b]),
    ),
    "copy": lambda x, y: (x, lambda a, b: wp.copy(b, a)),
    "fill": lambda x, y: (jnp.full_like(y, 0.75), lambda a, b: b.fill_(0.75)),
    "three meet": colliding(1, 3, 1, 1),
    "pairs meet": colliding(0, 2, 2, 0),
}


def forget_plans():
    launching.forget()
    for kernel in [value for value in globals().values() if isinstance(value, wp.Kernel)]:
        kernel.found.plans.clear()  # in debug mode nothing more is kept


@pytest.fixture
def pulls(monkeypatch):
    """What reverses launches of another plan: native code, or None where a program of XLA's does."""
    forget_plans()
    used, original = [], pull.native_pull

    def native(*given):
        used.append(original(*given))
        return used[-1]

    monkeypatch.setattr(pull, "native_pull", native)
    return used


@pytest.mark.release_mode("threads store to equal indices, on purpose, and reverses run in native code")
@pytest.mark.parametrize("seed", range(20))
def test_random_tapes(seed, pulls):
    """Against `jax.grad` of the same steps on values; parts of three arrays are read, overwritten, updated, and stored
    to by several threads."""
    draw = random.Random(seed)
    steps = []
    while len(steps) < draw.randrange(3, 14):
        (i, source), (j, target) = ((draw.randrange(3), part_of(draw)) for _ in range(2))
        if i != j or abs(source.start - target.start) >= 4:
            steps.append((draw.choice(list(STEPS)), i, source, j, target))
    starts = [np.random.default_rng((seed, k)).uniform(0.2, 1.2, 12).astype(np.float32) for k in range(3)]

    def loss(values):
        values = list(values)
        for name, i, source, j, target in steps:
            made, _ = STEPS[name](values[i][source], values[j][target])
            values[j] = values[j].at[target].set(made)
        return sum((k + 1.0) * value.sum() for k, value in enumerate(values))

    arrays = [wp.array(start, dtype=float, requires_grad=True) for start in starts]
    with wp.Tape() as tape:
        for name, i, source, j, target in steps:
            _, run = STEPS[name](jnp.zeros(4), jnp.zeros(4))
            run(arrays[i][source], arrays[j][target])
    for k, array in enumerate(arrays):
        array.grad.fill_(k + 1.0)
    tape.backward()
    expected = jax.grad(loss)([jnp.asarray(start) for start in starts])
    touched = {j for _, _, _, j, _ in steps} | {i for _, i, *_ in steps}
    for k in touched:
        np.testing.assert_allclose(arrays[k].grad.numpy(), expected[k], rtol=2e-5, atol=1e-6)
    assert None not in pulls


@wp.kernel
def halves(x: wp.array[wp.float16], scale: float, y: wp.array[wp.float16]):
    i = wp.tid()
    wp.atomic_add(y, i // 2, wp.float16(scale) * wp.sin(x[i]))


@pytest.mark.release_mode("in debug mode reverses are programs of XLA's")
def test_small_reverses_run_in_native_code(monkeypatch, pulls):
    """With the results of XLA's programs."""

    def gradients():
        x, y, z = variable(X[:4]), variable(X[1:]), wp.zeros(2, requires_grad=True)
        h = wp.array(X[:4], dtype=wp.float16, requires_grad=True)
        g = wp.zeros(2, dtype=wp.float16, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(mixed, 4, [x], [y])
            wp.launch(square_in_place, 4, [y])
            wp.launch(spread, 4, [y], [z])
            wp.launch(halves, 4, [h, 1.5], [g])
        z.grad.fill_(1.0)
        g.grad.fill_(1.0)
        tape.backward()
        return [grad_of(array) for array in (x, y, z, h, g)]

    found = gradients()
    assert len(pulls) == 4
    assert None not in pulls
    monkeypatch.setattr(pull, "native_pull", lambda *given: None)
    forget_plans()
    for one, other in zip(found, gradients(), strict=True):
        np.testing.assert_allclose(one.astype(float), other.astype(float), rtol=1e-6)


@wp.kernel
def products_at(x: wp.array[wp.float64], at: wp.array[int], y: wp.array[wp.float64]):
    i = wp.tid()
    y[at[i]] = x[i] * x[i] * x[0]


@wp.kernel
def weighted(y: wp.array[wp.float64], loss: wp.array[wp.float64]):
    i = wp.tid()
    wp.atomic_add(loss, 0, wp.float64(i + 1) * wp.sin(y[i]))


@pytest.mark.release_mode("threads store to equal indices, on purpose, and reverses run in native code")
@pytest.mark.parametrize("at", [[0, 0, 0, 0, 0], [2, 1, 2, 1, 0], [4, 3, 2, 1, 0]])
def test_equal_indices_in_native_code_against_finite_differences(at, pulls):
    at = np.array(at, np.int32)

    def value(x):
        y, loss = np.full(5, 0.25), np.zeros(1)
        wp.launch(products_at, 5, [x, at], [y])
        wp.launch(weighted, 5, [y], [loss])
        return loss[0]

    start = X.astype(np.float64)
    x, y = variable(start, wp.float64), wp.array(np.full(5, 0.25), dtype=wp.float64)
    loss = wp.zeros(1, dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(products_at, 5, [x, at], [y])
        wp.launch(weighted, 5, [y], [loss])
    tape.backward(loss)
    expected = [(value(start + step) - value(start - step)) / 2e-5 for step in 1e-5 * np.eye(5)]
    np.testing.assert_allclose(grad_of(x), expected, rtol=1e-7, atol=1e-7)
    assert len(pulls) == 2
    assert None not in pulls


@wp.kernel
def updates_at(x: wp.array[float], at: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[at[i]] = y[at[i]] * x[i]


@pytest.mark.release_mode("threads store to equal indices, on purpose, and reverses run in native code")
@pytest.mark.parametrize(("at", "is_defined"), [([1, 0, 3, 2], True), ([0, 1, 1, 2], False)])
def test_threads_that_may_meet_are_left_to_xla(at, is_defined, pulls):
    x, y = variable(X[:4]), variable(X[1:])
    with wp.Tape() as tape:
        wp.launch(updates_at, 4, [x, np.array(at, np.int32)], [y])
    if is_defined:
        tape.backward(grads={y: wp.ones(4)})
        np.testing.assert_allclose(grad_of(x), X[1:][at])
    else:
        with pytest.raises(CheckError, match="two threads have met at an element of y"):
            tape.backward(grads={y: wp.ones(4)})
    assert pulls == [None]


def test_what_is_checked_is_left_to_xla(pulls, monkeypatch):
    """In the replay, and in the reverse of launches that were recorded in debug mode."""
    monkeypatch.setattr(wp.config, "mode", "debug")
    at = np.array([0, 1, 2, 3], np.int32)
    x, y, z = variable(X[:4]), wp.zeros(4, requires_grad=True), wp.zeros(4, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 4, [x], [y])
        wp.launch(sines_at, 4, [y, at], [z])
    z.grad.fill_(1.0)
    tape.backward()
    assert pulls == [None, None]
    np.testing.assert_allclose(grad_of(x), 2 * X[:4] * np.cos(X[:4] ** 2), rtol=1e-5)
    at[2] = 9
    z.grad.fill_(1.0)
    with pytest.raises(CheckError, match="index 9"):
        tape.backward()
    with wp.Tape(), pytest.raises(CheckError, match="index 9"):
        wp.launch(sines_at, 4, [y, at], [z])


@pytest.mark.release_mode("in debug mode reverses are programs of XLA's")
def test_arrays_between_addresses_of_their_type(pulls):
    """NumPy arrays in the middle of bytes, and with gaps."""
    odd = np.zeros(17, np.uint8)[1:].view(np.float32)
    odd[:] = X[:4]
    gaps = np.repeat(X[:4], 2)[::2]
    for given in (odd, gaps):
        x, y = variable(X[1:]), wp.zeros(4, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(products, 4, [x, given], [y])
        np.testing.assert_array_equal(y.numpy(), X[:4] * X[1:])
        y.grad.fill_(1.0)
        tape.backward()
        np.testing.assert_array_equal(grad_of(x), X[:4])
    assert len(pulls) == 1
    assert None not in pulls


@wp.kernel
def products(x: wp.array[float], y: wp.array[float], z: wp.array[float]):
    i = wp.tid()
    z[i] = x[i] * y[i]


@wp.kernel
def roots(x: wp.array[float], y: wp.array[float], z: wp.array[float]):
    i = wp.tid()
    y[i] = wp.sqrt(x[i])
    z[i] = 2.0 * x[i]


@pytest.mark.release_mode("in debug mode reverses are programs of XLA's")
def test_results_that_nobody_uses_in_native_code(pulls):
    """The slope of the other result is infinite."""
    x, y, z = variable(np.zeros(5, np.float32)), wp.zeros(5, requires_grad=True), wp.zeros(5, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(roots, 5, [x], [y, z])
    z.grad.fill_(1.0)
    tape.backward()
    np.testing.assert_array_equal(grad_of(x), np.full(5, 2.0))
    assert len(pulls) == 1
    assert None not in pulls


def test_gradients_that_are_kept():
    @wp.kernel
    def scaled(x: wp.array[float], by: float, y: wp.array[float]):
        i = wp.tid()
        y[i] = by * x[i]

    @wp.kernel
    def added(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] += x[i] * x[i]

    x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
    y = wp.zeros(2, dtype=float, requires_grad=True, retain_grad=True)
    z = wp.zeros(2, dtype=float, requires_grad=True)
    assert (y.retain_grad, y[1:].retain_grad, x.retain_grad) == (True, True, False)
    with wp.Tape() as tape:
        wp.launch(scaled, 2, [x, 5.0, y])
        wp.launch(added, 2, [y, z])  # reads what is overwritten next
        wp.launch(scaled, 2, [x, 3.0, y])
        wp.launch(added, 2, [y, z])
    tape.backward(grads={z: wp.ones_like(z)})
    assert y.grad.list() == [6.0, 12.0]  # by 3 x alone
    assert x.grad.list() == [50.0 + 18.0, 100.0 + 36.0]
    tape.zero()
    y.retain_grad = False
    tape.backward(grads={z: wp.ones_like(z)})
    assert y.grad.list() == [0.0, 0.0]
    y.retain_grad = True
    y.requires_grad = False
    assert not y.retain_grad


def test_components_by_value_from_numpy_are_kept():
    @wp.kernel
    def along(x: wp.array[wp.vec3], by: wp.vec3, y: wp.array[float]):
        i = wp.tid()
        y[i] = wp.dot(x[i], by)

    x, y = wp.ones(2, dtype=wp.vec3, requires_grad=True), wp.zeros(2, dtype=float, requires_grad=True)
    for _ in range(3):  # the first launch, and those that are like one before
        by = np.array([1.0, 2.0, 3.0])
        with wp.Tape() as tape:
            wp.launch(along, 2, [x, by, y])
        by[...] = 9.0
        tape.backward(grads={y: wp.ones_like(y)})
        assert x.grad.numpy().tolist() == [[1.0, 2.0, 3.0]] * 2
        tape.zero()


def test_copies_of_elements_in_one_place_are_refused():
    row = wp.array(np.broadcast_to(np.float32(2.0), (4,)), dtype=float, copy=False, requires_grad=True)
    y = wp.zeros(4, dtype=float, requires_grad=True)
    with wp.Tape(), pytest.raises(KernelTypeError, match="copy: several elements of the source are in one place"):
        wp.copy(y, row)
    one = wp.zeros(1, dtype=float)
    same = wp.array(ptr=one.ptr, shape=(4,), strides=(0,), dtype=float)
    with wp.Tape(), pytest.raises(KernelTypeError, match="copy: several elements of the destination are in one place"):
        same.assign(y)
    wp.copy(y, row)  # without a tape
    assert y.list() == [2.0] * 4


@pytest.mark.release_mode("reverses run in native code")
def test_the_reverse_of_a_large_launch_is_native_code(pulls):
    """Also where it is worth several cores."""
    n = 1_000_000
    x, y = wp.array(np.linspace(-1, 1, n), dtype=float, requires_grad=True), wp.zeros(n, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(sine, n, [x, y])
    cotangent = np.arange(n, dtype=np.float32)
    y.grad.assign(cotangent)
    tape.backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos(x.numpy()) * cotangent, rtol=1e-6)
    assert [made is not None for made in pulls] == [True]


@wp.kernel
def extremes(x: wp.array[float], least: wp.array[float], most: wp.array[float]):
    i = wp.tid()
    wp.atomic_min(least, 0, x[i])
    wp.atomic_max(most, 0, x[i])


@pytest.mark.parametrize("count", [6, 1000])
def test_the_last_of_equal_operands_has_the_gradient(count):
    values = np.tile(np.array([1, 5, 2, 5, 1, 3], np.float32), count // 6 + 1)[:count]
    x = wp.array(values, requires_grad=True)
    least, most = (wp.full(1, start, dtype=float, requires_grad=True) for start in (9.0, -9.0))
    with wp.Tape() as tape:
        wp.launch(extremes, count, [x], [least, most])
    tape.backward(grads={least: wp.ones(1), most: wp.full(1, 10.0, dtype=float)})
    want = np.zeros(count, np.float32)
    want[np.flatnonzero(values == 1)[-1]], want[np.flatnonzero(values == 5)[-1]] = 1, 10
    np.testing.assert_array_equal(x.grad.numpy(), want)


@wp.kernel
def differences(a: wp.array[float], b: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = a[i] * wp.sin(b[i])


@wp.kernel
def descend(x: wp.array[float], slope: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] - 0.5 * slope[i] * x[i]


def test_parts_of_one_array_are_read_by_one_launch():
    """Sums for both go to the same elements."""
    x, y = variable(), wp.zeros(4, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(differences, 4, [x[1:], x[:4]], [y])
        wp.launch(differences, 4, [x[:4], x[1:]], [y])
    given = np.arange(1.0, 5.0, dtype=np.float32)
    for _ in range(2):
        y.grad.assign(given)
        tape.backward()
    expected = jax.grad(lambda x: jnp.sum(given * x[:4] * jnp.sin(x[1:])))(jnp.asarray(X))
    np.testing.assert_allclose(grad_of(x), 2 * expected, rtol=1e-5)
    out = np.zeros(5, np.float32)
    wp.launch(differences, 4, [x[:4], x[1:]], [y], [out[:4], out[1:]], [given], adjoint=True)
    np.testing.assert_allclose(out, expected, rtol=1e-5)


def test_gradients_that_a_tape_reads():
    """As they are when it goes back, though derivatives are added to them then."""
    x, y = variable(), wp.zeros(5, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 5, [x], [y])
        wp.launch(descend, 5, [x, x.grad], [y])
    x.grad.fill_(0.25)
    y.grad.fill_(1.0)
    tape.backward()
    np.testing.assert_allclose(grad_of(x), 0.25 + (1 - 0.5 * 0.25) * np.ones(5), rtol=1e-6)


def test_adjoints_that_are_operands_or_given():
    """They are added to when all has been read."""
    x, y, g = variable(), wp.zeros(5), wp.array(X + 1.0, dtype=float)
    wp.launch(square, 5, [x], [y], [g], [g], adjoint=True)
    np.testing.assert_allclose(g.numpy(), (X + 1.0) * (1.0 + 2 * X), rtol=1e-6)
    part = wp.array(np.append(X, 1.0), dtype=float)
    before = part.numpy().copy()
    wp.launch(square, 5, [x], [y], [part[:5]], [part[1:]], adjoint=True)
    np.testing.assert_allclose(part.numpy()[:5], before[:5] + 2 * X * before[1:], rtol=1e-6)
    z = variable()
    wp.launch(square, 5, [z], [y], [z], [wp.ones(5)], adjoint=True)
    np.testing.assert_allclose(z.numpy(), 3 * X, rtol=1e-6)


@wp.kernel
def racing(x: wp.array[float]):
    i = wp.tid()
    x[i] = x[i] * x[(i + 1) % 5]


@pytest.mark.release_mode("a race, on purpose")
def test_a_derivative_that_cannot_be_had_changes_no_gradient():
    """The launches behind it can be reversed."""
    x, y = variable(), wp.zeros(5, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(racing, 5, [x])
        wp.launch(square, 5, [x], [y])
    y.grad.fill_(1.0)
    with pytest.raises(DifferentiationError, match="the kernel reads x and writes it"):
        tape.backward()
    assert (x.grad.list(), y.grad.list()) == ([0.0] * 5, [1.0] * 5)


@wp.kernel
def gather_chosen(x: wp.array(dtype=float), chosen: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 2.0 * x[chosen[i]]
    chosen[i] = 0


def test_gradients_of_integers_stay_zero():
    x, y = (wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True) for _ in range(2))
    chosen = wp.array([2, 2, 1], dtype=int, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(gather_chosen, 3, [x, chosen], [y])
    tape.backward(grads={y: wp.ones(3)})
    assert x.grad.list() == [0.0, 2.0, 4.0]
    assert tape.gradients[chosen].list() == [0, 0, 0]
    tape.zero()
    assert x.grad.list() == [0.0, 0.0, 0.0]
