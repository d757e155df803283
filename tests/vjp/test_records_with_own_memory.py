"""Reverse derivatives of kernels that overwrite what they need, and have tiles or larger arrays of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from orders import check_orders, flat, scalar
from overwrites import some

import jaxwarp as wp
from jaxwarp.types import float64 as F

CASES: dict[str, tuple[Any, Callable[..., list[Any]], tuple[np.ndarray, ...]]] = {}
"""Kernels whose last argument is updated, the same in jax.numpy, and arguments. Two threads, a row for each."""
ORDER = np.array([1, 2, 0, 4, 3], np.int32)


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def case(reference: Callable[..., list[Any]], *args: np.ndarray) -> Callable[[Any], Any]:
    def add(kernel: Any) -> Any:
        CASES[kernel.name] = kernel, reference, args
        return kernel

    return add


def filled_reference(x, a):
    t = x / 5
    for k in range(4):
        for j in range(5):
            a = a.at[:, j].set(a[:, j] * a[:, k] / 2 + t[(7 * k + j) % 100])
    return [a]


@case(filled_reference, some(100), some(2, 5, seed=2))
@wp.kernel
def filled(x: wp.array[F], a: wp.array2d[F]):
    """An own array that is filled once, and only read after that."""
    i = wp.tid()
    t = wp.zeros(100, dtype=F)
    for k in range(100):
        t[k] = x[k] * F(0.2)
    for k in range(a.shape[1] - 1):
        for j in range(a.shape[1]):
            a[i, j] = a[i, j] * a[i, k] * F(0.5) + t[(7 * k + j) % 100]


def both_overwritten_reference(x, a):
    t = jnp.outer(x, jnp.arange(70.0))
    for k in range(3):
        t = jnp.sin(t) * a[:, :1]
        for j in range(5):
            a = a.at[:, j].set(a[:, j] * a[:, k] + t[:, 3 * k + j] * t[:, 69])
    return [a]


@case(both_overwritten_reference, some(2), some(2, 5, seed=2))
@wp.kernel
def both_overwritten(x: wp.array[F], a: wp.array2d[F]):
    """Records of an own array and of an argument, each of which depends on the other."""
    i = wp.tid()
    t = wp.zeros(70, dtype=F)
    for j in range(70):
        t[j] = x[i] * F(j)
    for k in range(3):
        first = a[i, 0]
        for j in range(70):
            t[j] = wp.sin(t[j]) * first
        for j in range(a.shape[1]):
            a[i, j] = a[i, j] * a[i, k] + t[3 * k + j] * t[69]


def product_of_tiles_reference(w, b, a):
    t = w @ w + w
    total = b + jnp.sum(t) / 10
    for q in range(5):
        new = a[:, ORDER[q]] * a[:, q] + total * t[q % 4, 3]
        a, total = a.at[:, q].set(new), jnp.tanh(total * new)
    return [a]


@case(product_of_tiles_reference, some(4, 4), some(2), some(2, 5, seed=2))
@wp.kernel
def product_of_tiles(w: wp.array2d[F], b: wp.array[F], a: wp.array2d[F]):
    i = wp.tid()
    order = wp.vector(1, 2, 0, 4, 3, dtype=int)
    t = wp.tile_load(w, shape=(4, 4))
    wp.tile_matmul(t, t, t)
    total = wp.tile_sum(t)[0] * F(0.1) + b[i]
    for q in range(5):
        a[i, q] = a[i, order[q]] * a[i, q] + total * t[q % 4, 3]
        total = wp.tanh(total * a[i, q])


def rows_as_tiles_reference(w, a):
    for _ in range(3):
        a = a * jnp.sin(w @ a.T).T + a[:, :1]
    return [a]


@case(rows_as_tiles_reference, some(9, 9), some(2, 9, seed=2))
@wp.kernel
def rows_as_tiles(w: wp.array2d[F], a: wp.array2d[F]):
    """Tiles that are loaded from what is overwritten, and stored there."""
    i = wp.tid()
    matrix = wp.tile_load(w, shape=(9, 9))
    for _ in range(3):
        row = wp.tile_load(a[i], shape=9)
        product = wp.tile_matmul(matrix, wp.tile_reshape(row, shape=(9, 1)))
        changed = row * wp.tile_map(wp.sin, wp.tile_reshape(product, shape=(9,))) + wp.tile_full(9, row[0], F)
        wp.tile_store(a[i], changed)


def fully_recorded_reference(x, a):
    def fill(k, state):
        t, a = state
        t = t.at[:, k].set(x * a[:, k % 5] + k)
        return t, a.at[:, k % 5].set(jnp.tanh(t[:, k] * a[:, (k + 2) % 5] / 80))

    def use(k, state):
        t, a = state
        return t, a.at[:, (3 * k) % 5].set(a[:, k % 5] * jnp.cos(t[:, 79 - k]))

    return [jax.lax.fori_loop(0, 80, use, jax.lax.fori_loop(0, 80, fill, (jnp.zeros((2, 80)), a)))[1]]


@case(fully_recorded_reference, some(2), some(2, 5, seed=2))
@wp.kernel
def fully_recorded(x: wp.array[F], a: wp.array2d[F]):
    """What an own array holds was read from elements that are gone."""
    i = wp.tid()
    t = wp.zeros(80, dtype=F)
    for k in range(80):
        t[k] = x[i] * a[i, k % 5] + F(k)
        a[i, k % 5] = wp.tanh(t[k] * a[i, (k + 2) % 5] / F(80.0))
    for k in range(80):
        a[i, (3 * k) % 5] = a[i, k % 5] * wp.cos(t[79 - k])


def launched(kernel: Any) -> Any:
    return wp.jax_kernel(kernel, in_out_argnames=["a"], launch_dims=2)


@pytest.mark.parametrize("name", CASES)
def test_first_and_second_order(name):
    kernel, _, args = CASES[name]
    check_orders(launched(kernel), args)


@pytest.mark.parametrize("name", ["rows_as_tiles", "fully_recorded"])
def test_batches(name):
    """Of the last argument; the others are shared, so their gradient is the sum over the batch."""
    kernel, reference, (*others, a) = CASES[name]
    many = np.stack([a, 1.1 * a, 0.9 * a])
    every = tuple(range(len(others) + 1))

    def gradient(f: Any) -> Any:
        def total(*args: Any) -> Any:
            return jnp.sum(jax.vmap(scalar(f), (*[None] * len(others), 0))(*args))

        return flat(jax.jit(jax.grad(total, every))(*others, many))

    np.testing.assert_allclose(gradient(launched(kernel)), gradient(reference), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_without_jit_and_on_a_tape(name):
    kernel, reference, args = CASES[name]
    every = tuple(range(len(args)))
    expected = jax.grad(lambda *args: jnp.sum(reference(*args)[0]), every)(*args)
    found = jax.grad(lambda *args: jnp.sum(launched(kernel)(*args)[0]), every)(*args)
    np.testing.assert_allclose(flat(found), flat(expected), rtol=1e-9, atol=1e-12)
    arrays = [wp.array(x, dtype=F, requires_grad=True) for x in args]
    with wp.Tape() as tape:
        copied = wp.clone(arrays[-1])
        wp.launch(kernel, dim=2, inputs=[*arrays[:-1], copied])
    tape.backward(grads={copied: wp.array(np.ones(args[-1].shape), dtype=F)})
    np.testing.assert_allclose(flat([x.grad.numpy() for x in arrays]), flat(expected), rtol=1e-9, atol=1e-12)
