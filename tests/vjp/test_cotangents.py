"""Cotangents that a gradient only reads, and those that it clears: by differences, and by the compiled program."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import jaxwarp as wp

N = 6
X = np.linspace(0.3, 1.4, N)
SHARED = np.array([0, 2, 2, 4, 0, 1], np.int32)

Array = wp.array[wp.float64]
Table = wp.array2d[wp.float64]


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


# Each element of y at most once: nothing is cleared.


@wp.kernel
def straight(x: Array, y: Array):
    i = wp.tid()
    y[i] = wp.sin(x[i])


@wp.kernel
def vectors(x: wp.array[wp.vec3d], y: wp.array[wp.vec3d]):
    i = wp.tid()
    y[i] = wp.cross(wp.normalize(x[i]), wp.vec3d(x[i][1], x[i][2], x[i][0]))


@wp.kernel
def one_side_or_the_other(x: Array, y: Array):
    i = wp.tid()
    if x[i] > 0.8:
        y[i] = x[i] * x[i]
    else:
        y[i] = wp.sin(x[i])


@wp.kernel
def returns_early(x: Array, y: Array):
    i = wp.tid()
    if x[i] > 0.8:
        return
    y[i] = x[i] * x[i]


@wp.kernel
def row(x: Array, y: Table):
    i = wp.tid()
    for k in range(y.shape[1]):
        y[i, k] = wp.sin(x[i] * wp.float64(k + 1))


@wp.kernel
def sides_in_a_row(x: Array, y: Table):
    i = wp.tid()
    for k in range(y.shape[1]):
        if wp.float64(k) * x[i] < 1.5:
            y[i, k] = wp.sin(x[i])
        else:
            y[i, k] = x[i] * x[i]


@wp.kernel
def added(x: Array, y: Array):
    i = wp.tid()
    wp.atomic_add(y, i // 2, x[i] * x[i])
    wp.atomic_add(y, 0, wp.sin(x[i]))


@wp.kernel
def neighbours(x: Array, y: Array):
    """Elements of different threads are told apart by the stride of their indices."""
    i = wp.tid()
    y[2 * i] = wp.sin(x[i])
    y[2 * i + 1] = wp.cos(x[i])


# Some element more than once, or perhaps: what a store takes is no longer there for those before it.


@wp.kernel
def overwritten(x: Array, y: Array):
    i = wp.tid()
    y[i] = wp.sin(x[i])
    y[i] = x[i] * x[i]


@wp.kernel
def perhaps_overwritten(x: Array, y: Array):
    i = wp.tid()
    y[i] = wp.sin(x[i])
    if x[i] > 0.8:
        y[i] = x[i] * x[i]


@wp.kernel
def overwritten_in_iteration(x: Array, n: int, y: Array):
    i = wp.tid()
    v = x[i]
    for _ in range(n):
        v = wp.sin(v) + x[i]
        y[i] = v


@wp.kernel
def overwritten_in_a_while(x: Array, y: Array):
    i = wp.tid()
    v = x[i]
    while v < 3.0:
        v = v * 1.5
        y[i] = v


@wp.kernel
def overlapping(x: Array, y: Table):
    i = wp.tid()
    for k in range(y.shape[1] - 1):
        y[i, k] = wp.sin(x[i] * wp.float64(k + 1))
        y[i, k + 1] = x[i] * x[i]


@wp.kernel
def sides_that_overlap(x: Array, y: Table):
    i = wp.tid()
    for k in range(y.shape[1] - 1):
        if k % 2 == 0:
            y[i, k + 1] = wp.sin(x[i] * wp.float64(k + 1))
        else:
            y[i, k] = x[i] * x[i]


@wp.kernel
def row_again_and_again(x: Array, y: Table):
    i = wp.tid()
    for j in range(3):
        for k in range(y.shape[1]):
            y[i, k] = wp.sin(x[i] * wp.float64(j + k))


@wp.kernel
def row_at_found_places(x: Array, place: wp.array[int], y: Table):
    i = wp.tid()
    for k in range(place.shape[0]):
        y[i, place[k]] = wp.sin(x[i] * wp.float64(k + 1))


@wp.kernel
def stored_and_added(x: Array, y: Array):
    i = wp.tid()
    wp.atomic_add(y, i, wp.sin(x[i]))
    y[i] = x[i] * x[i]
    wp.atomic_add(y, i, wp.cos(x[i]))


@wp.kernel
def read_back(x: Array, y: Array):
    i = wp.tid()
    y[i] = wp.sin(x[i])
    y[i] = y[i] * y[i] + x[i]


ONCE = {
    "straight": (straight, 1, N),
    "one_side_or_the_other": (one_side_or_the_other, 1, N),
    "returns_early": (returns_early, 1, N),
    "row": (row, 1, (N, 4)),
    "sides_in_a_row": (sides_in_a_row, 1, (N, 4)),
    "added": (added, 1, N),
    "neighbours": (neighbours, 1, 2 * N),
}
AGAIN = {
    "overwritten": (overwritten, 1, N),
    "perhaps_overwritten": (perhaps_overwritten, 1, N),
    "read_back": (read_back, 1, N),
    "overwritten_in_iteration": (overwritten_in_iteration, (1, 3), N),
    "overwritten_in_a_while": (overwritten_in_a_while, 1, N),
    "overlapping": (overlapping, 1, (N, 4)),
    "sides_that_overlap": (sides_that_overlap, 1, (N, 4)),
    "row_again_and_again": (row_again_and_again, 1, (N, 4)),
    "row_at_found_places": (row_at_found_places, (1, SHARED), (N, N)),
    "stored_and_added": (stored_and_added, 1, N),
}


def calling(kernel, more, dims):
    given = more[1:] if isinstance(more, tuple) else ()
    call = wp.jax_kernel(kernel, launch_dims=N)
    return lambda x: call(x, *given, output_dims=dims)[0]


def gradient_program(f, x):
    y = jax.eval_shape(f, x)
    text = jax.jit(lambda x, ct: jax.vjp(f, x)[1](ct)[0]).lower(x, jnp.ones(y.shape)).compile().as_text()
    assert text
    return text


def updates_in_place(program):
    return "output_to_operand_aliasing" in program


@pytest.mark.parametrize("name", ONCE)
def test_a_cotangent_that_is_taken_once_is_only_read(name):
    f = calling(*ONCE[name])
    check_grads(f, (X,), order=1, modes=["fwd", "rev"], rtol=1e-5)
    program = gradient_program(f, X)
    assert not updates_in_place(program)
    assert " copy(" not in program


def test_so_are_those_of_vectors_and_of_what_is_taken_twice():
    x = np.random.default_rng(1).uniform(0.5, 1.5, (N, 3))
    f = lambda x: wp.jax_kernel(vectors)(x)[0]  # noqa: E731
    check_grads(f, (x,), order=2, modes=["fwd", "rev"], rtol=1e-4)
    assert not updates_in_place(gradient_program(f, x))
    check_grads(jax.vmap(f), (np.stack([x, x[::-1]]),), order=1, modes=["rev"], rtol=1e-5)


@pytest.mark.parametrize("name", AGAIN)
def test_a_cotangent_that_is_taken_again_is_cleared(name):
    f = calling(*AGAIN[name])
    check_grads(f, (X,), order=1, modes=["fwd", "rev"], rtol=1e-5)
    assert updates_in_place(gradient_program(f, X))


def test_second_reverse_and_batches_of_cotangents_that_are_only_read():
    f = calling(one_side_or_the_other, 1, N)
    along = jax.grad(lambda x, ct: (f(x) * ct).sum())
    ct = np.linspace(-1.0, 2.0, N)
    slope = np.where(X > 0.8, 2 * X, np.cos(X))
    bend = np.where(X > 0.8, 2.0, -np.sin(X))
    np.testing.assert_allclose(jax.jacrev(along)(X, ct), np.diag(bend * ct), rtol=1e-12)
    np.testing.assert_allclose(jax.jacrev(along, 1)(X, ct), np.diag(slope), rtol=1e-12)
    np.testing.assert_allclose(jax.jacrev(jax.jacrev(along, 1))(X, ct)[1, 1, 1], bend[1], rtol=1e-12)
    many = np.stack([ct, 2 * ct, ct * ct])
    np.testing.assert_allclose(jax.vmap(along, (None, 0))(X, many), slope * many, rtol=1e-12)
    np.testing.assert_allclose(jax.vmap(along, (0, None))(many, ct)[0], along(many[0], ct), rtol=1e-12)
    mixed = jax.vmap(lambda x, ct: jax.jvp(lambda x: along(x, ct), (x,), (jnp.ones(N),))[1], (None, 0))
    np.testing.assert_allclose(mixed(X, many), bend * many, rtol=1e-12)


@wp.kernel
def half_kept(a: Array, x: Array):
    i = wp.tid()
    if x[i] > 0.8:
        a[i] = x[i] * x[i]


def test_initial_contents_get_what_no_store_took():
    call = wp.jax_kernel(half_kept, in_out_argnames=["a"])
    a, ct = np.linspace(1.0, 2.0, N), np.linspace(-1.0, 2.0, N)
    _, pull = jax.vjp(lambda a, x: call(a, x)[0], a, X)
    by_a, by_x = pull(jnp.asarray(ct))
    np.testing.assert_allclose(by_a, np.where(X > 0.8, 0.0, ct))
    np.testing.assert_allclose(by_x, np.where(X > 0.8, 2 * X * ct, 0.0))
    # Where nobody asks for them nothing is cleared.
    by_x_only = lambda x: call(a, x)[0]  # noqa: E731
    np.testing.assert_allclose(jax.vjp(by_x_only, X)[1](jnp.asarray(ct))[0], by_x)
    assert " copy(" not in gradient_program(by_x_only, X)


@wp.kernel
def scattered(x: Array, place: wp.array[int], y: Array):
    i = wp.tid()
    y[place[i]] = x[place[i]] * x[place[i]]


def test_what_several_threads_store_is_taken_by_the_last_of_them_which_only_reads_it():
    f = lambda x: wp.jax_kernel(scattered, launch_dims=N)(x, SHARED, output_dims=N)[0]  # noqa: E731
    found = jax.vjp(f, X)[1](jnp.ones(N))[0]
    np.testing.assert_allclose(found, np.where(np.isin(np.arange(N), SHARED), 2 * X, 0.0))
    program = gradient_program(f, X)
    assert not updates_in_place(program)
    assert " copy(" not in program


# The other side: x* = where one load adds to it, x* += where several do.


@wp.kernel
def read_in_iteration(x: Array, n: int, y: Array):
    i = wp.tid()
    v = wp.float64(0.0)
    for k in range(n):
        if k % 2 == 1:
            v += wp.sin(x[i] * wp.float64(k))
    if v > 0.2:
        v = v * x[i]
    y[i] = v


@wp.kernel
def read_by_neighbours(x: Array, y: Array):
    i = wp.tid()
    y[i] = x[2 * i] * x[2 * i + 1] + x[2 * i + 2] * x[2 * i + 2]


@wp.kernel
def read_in_a_condition(x: Table, y: Array):
    i = wp.tid()
    k = 0
    v = wp.float64(0.0)
    while v + x[i, k] < 2.0 and k < 3:
        v += x[i, k] * x[i, 3]
        k += 1
    y[i] = v


@wp.kernel
def rows_read_twice(x: Table, y: Array):
    i = wp.tid()
    v = wp.float64(1.0)
    for k in range(x.shape[1]):
        v = v * wp.sin(x[i, k])
    for k in range(x.shape[1] - 1):
        v = v + x[i, k] * x[i, k + 1] * v
    y[i] = v


def test_what_is_read_several_times_gets_the_sum():
    table = np.random.default_rng(2).uniform(0.3, 0.9, (N, 4))
    for kernel, x, more in (
        (read_in_iteration, X, (4,)),
        (read_by_neighbours, np.linspace(0.3, 1.2, 2 * N + 1), ()),
        (read_in_a_condition, table, ()),
        (rows_read_twice, table, ()),
    ):
        call = wp.jax_kernel(kernel, launch_dims=N)
        check_grads(lambda x, c=call, m=more: c(x, *m, output_dims=N)[0], (x,), order=1, modes=["fwd", "rev"],
                    rtol=1e-5)  # fmt: skip


@wp.kernel
def half_read(x: Array, y: Array):
    i = wp.tid()
    y[i] = wp.float64(1.0)
    if i % 2 == 0:
        y[i] = wp.sin(x[i])


def test_what_is_not_read_gets_zero():
    f = lambda x: wp.jax_kernel(half_read, launch_dims=N)(x, output_dims=N)[0]  # noqa: E731
    x = np.linspace(0.1, 1.0, N + 3)
    for _ in range(3):
        found = jax.jit(jax.grad(lambda x: f(x).sum()))(x)
        expected = np.where((np.arange(N + 3) % 2 == 0) & (np.arange(N + 3) < N), np.cos(x), 0.0)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
