"""Ways back that programs write themselves: `Tape.record_func`."""

from __future__ import annotations

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError, KernelValueError

N = 7


@wp.kernel
def relax(rhs: wp.array[float], x: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = 0.5 * (x[(i + N - 1) % N] + x[(i + 1) % N] - rhs[i])


@wp.kernel
def relax_back(g: wp.array[float], rhs_grad: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    rhs_grad[i] -= 0.5 * g[i]
    out[i] = 0.5 * (g[(i + N - 1) % N] + g[(i + 1) % N])


@wp.kernel
def bend(x: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = wp.sin(x[i]) * x[i]


@wp.kernel
def add_to(x: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] += x[i]


def variable(seed):
    return wp.array(np.random.default_rng(seed).normal(size=N).astype(np.float32), requires_grad=True)


def solve(tape, rhs, x, out, rounds, scratch):
    """`rounds` of relaxation into `out`; with a tape they are not recorded, but their way back is."""
    current = x
    for k in range(rounds):
        target = out if k == rounds - 1 else scratch[k]
        wp.launch(relax, N, [rhs, current], [target], record_tape=tape is None)
        current = target
    if tape is None:
        return

    def back():
        g, other = wp.clone(out.grad), wp.zeros(N, dtype=float)
        for _ in range(rounds):
            wp.launch(relax_back, N, [g, rhs.grad], [other])
            g, other = other, g
        wp.launch(add_to, N, [g], [x.grad])

    tape.record_func(back, [rhs, x, out])


@pytest.mark.parametrize("by_hand", [True, False])
@pytest.mark.parametrize("rounds", [1, 4])
def test_between_launches_that_are_recorded(rounds, by_hand):
    """Two solves on one right side, the second from what becomes of the first: beside matrices, twice."""
    rhs, x = variable(1), variable(2)
    y, bent, z = (wp.zeros(N, dtype=float, requires_grad=True) for _ in range(3))
    scratch = [wp.zeros(N, dtype=float, requires_grad=not by_hand) for _ in range(2 * rounds)]
    with wp.Tape() as tape:
        solve(tape if by_hand else None, rhs, x, y, rounds, scratch[:rounds])
        wp.launch(bend, N, [y], [bent])
        solve(tape if by_hand else None, rhs, bent, z, rounds, scratch[rounds:])
    one = 0.5 * (np.roll(np.eye(N), 1, 0) + np.roll(np.eye(N), -1, 0))
    a = np.linalg.matrix_power(one, rounds)
    b = -0.5 * sum(np.linalg.matrix_power(one, k) for k in range(rounds))
    inner = a @ x.numpy() + b @ rhs.numpy()
    np.testing.assert_allclose(z.numpy(), a @ (np.sin(inner) * inner) + b @ rhs.numpy(), rtol=1e-4, atol=1e-5)
    seeds = [np.random.default_rng(k).normal(size=N).astype(np.float32) for k in (3, 4)]
    for before in (0.0, 0.25):
        x.grad.fill_(before)
        rhs.grad.fill_(before)
        tape.backward(grads={y: wp.array(seeds[0]), z: wp.array(seeds[1])})
        slope = seeds[0] + (a.T @ seeds[1]) * (np.sin(inner) + inner * np.cos(inner))
        np.testing.assert_allclose(x.grad.numpy(), before + a.T @ slope, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(rhs.grad.numpy(), before + b.T @ slope + b.T @ seeds[1], rtol=1e-4, atol=1e-5)
        assert not y.grad.numpy().any()  # used up
        tape.zero()
        assert not any(array.grad.numpy().any() for array in (rhs, x, y, bent, z))


def test_arrays_that_no_launch_names():
    """The function alone says how the loss moves."""
    x, loss = variable(5), wp.zeros(1, dtype=float, requires_grad=True)
    tape, calls = wp.Tape(), []

    def back():
        calls.append(x.grad.numpy().tolist())
        x.grad.assign(x.grad.numpy() + 2 * x.numpy() * loss.grad.numpy())

    with tape:
        loss.fill_(float((x.numpy() ** 2).sum()))
        tape.record_func(back, [x, loss])
    assert not calls
    tape.backward(loss)
    assert len(calls) == 1
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.numpy(), rtol=1e-6)
    assert set(tape.gradients) == {x, loss}
    tape.reset()
    assert not x.grad.numpy().any()


@pytest.mark.parametrize("named", ["all", "none"])
@pytest.mark.parametrize("position", ["between", "first", "last"])
def test_gradients_that_a_function_uses_without_naming_them(named, position):
    """It reads what is there; what it writes is taken, or refused."""
    x, y, z = variable(7), *(wp.zeros(N, dtype=float, requires_grad=True) for _ in range(2))
    read = []

    def back():
        read.append([array.grad.numpy().copy() for array in (x, y, z)])
        y.grad.fill_(3.0)

    tape = wp.Tape()
    with tape:
        if position == "first":
            tape.record_func(back, [x, y, z] if named == "all" else [x])
        wp.launch(bend, N, [x], [y])
        if position == "between":
            tape.record_func(back, [x, y, z] if named == "all" else [x])
        wp.launch(bend, N, [y], [z])
        if position == "last":
            tape.record_func(back, [x, y, z] if named == "all" else [x])
    seed = wp.array(np.arange(1.0, N + 1, dtype=np.float32))
    if named == "none":
        with pytest.raises(KernelValueError, match=r"has written the gradient of array.*none of the arrays"):
            tape.backward(grads={z: seed})
    else:
        tape.backward(grads={z: seed})
        slope = lambda v: np.sin(v) + v * np.cos(v)  # noqa: E731
        by_y = {"first": seed.numpy() * slope(y.numpy()), "between": 3.0, "last": 3.0 + seed.numpy() * slope(y.numpy())}
        np.testing.assert_allclose(x.grad.numpy(), by_y[position] * slope(x.numpy()), rtol=1e-5)
    (found,) = read
    by_y = seed.numpy() * (np.sin(y.numpy()) + y.numpy() * np.cos(y.numpy()))
    np.testing.assert_allclose(found[1], {"first": 0 * by_y, "between": by_y, "last": 0 * by_y}[position], rtol=1e-5)
    np.testing.assert_allclose(found[2], seed.numpy() if position == "last" else 0 * by_y)


def test_refused():
    x, tape = variable(6), wp.Tape()
    for backward, arrays, kind, text in (
        (3, [x], KernelTypeError, "backward: expected a function of no arguments, got int"),
        (print, [x, 2.0], KernelTypeError, r"arrays\[1\]: expected an array outside of JAX, got float"),
        (print, x.numpy(), KernelTypeError, r"arrays\[0\]: expected an array outside of JAX, got float32"),
        (print, [wp.zeros(3, dtype=float)], KernelValueError, r"arrays\[0\]: array .* has no gradient"),
    ):
        with pytest.raises(kind, match=text):
            tape.record_func(backward, arrays)
    tape.record_func(lambda: 1 / 0, x)
    with pytest.raises(ZeroDivisionError):
        tape.backward(grads={x: wp.ones(N, dtype=float)})


@wp.kernel
def total(x: wp.array[float], loss: wp.array[float]):
    wp.atomic_add(loss, 0, x[wp.tid()] * x[wp.tid()])


def test_the_order_is_that_of_the_way_back():
    seen = []
    x, loss = variable(5), wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        tape.record_func(lambda: seen.append(x.grad.numpy().copy()), [x])
        wp.launch(total, N, [x, loss])
        tape.record_func(lambda: seen.append(x.grad.numpy().copy()), [x])
    tape.backward(loss)
    last, first = seen
    assert not last.any()
    np.testing.assert_allclose(first, 2 * x.numpy(), rtol=1e-6)
    np.testing.assert_array_equal(x.grad.numpy(), first)


@wp.kernel
def doubled(x: wp.array[float]):
    i = wp.tid()
    x[i] = x[i] * 2.0


def test_an_update_in_place_has_no_way_back_by_hand():
    x, loss = variable(5), wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(doubled, N, [x], record_tape=False)
        tape.record_func(lambda: wp.launch(doubled, N, [x.grad], record_tape=False), [x])
        wp.launch(total, N, [x, loss])
    with pytest.raises(KernelValueError, match="updates in place: by which of its contents the derivative is"):
        tape.backward(loss)


def test_parts_and_vectors():
    x = wp.array(np.zeros((4, 3), np.float32), dtype=wp.vec3, requires_grad=True)
    part, y = x[1:3], wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        tape.record_func(lambda: part.grad.assign(part.grad.numpy() + np.float32(2.0) * y.grad.numpy()), [part, y])
    tape.backward(grads={y: wp.full(1, 3.0)})
    np.testing.assert_array_equal(x.grad.numpy(), np.repeat([0.0, 6.0, 6.0, 0.0], 3).reshape(4, 3))


def test_an_error_of_the_function_is_the_users():
    x = variable(6)
    with wp.Tape() as tape:
        tape.record_func(lambda: 1 / 0, [x])
    with pytest.raises(ZeroDivisionError):
        tape.backward(grads={x: wp.ones(N)})
