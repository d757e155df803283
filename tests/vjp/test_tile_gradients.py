"""Reverse derivatives of kernels on tiles, of first and second order, against JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp

D = wp.float64
T = wp.constant(9)
RNG = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@wp.kernel
def product(a: wp.array2d[D], b: wp.array2d[D], out: wp.array2d[D]):
    """Tiles that are loaded in a loop of unknown length; the last ones are partly outside of the arrays."""
    i = wp.tid()
    total = wp.tile_zeros(shape=(T, T), dtype=D)
    for k in range((a.shape[1] + T - 1) // T):
        x = wp.tile_load(a, shape=(T, T), offset=(i * T, k * T))
        y = wp.tile_load(b, shape=(T, T), offset=(k * T, 0))
        wp.tile_matmul(x, y, total)
    wp.tile_store(out, wp.tile_map(wp.sin, total), offset=(i * T, 0))


def product_of(a: Any, b: Any) -> Any:
    return jnp.sin(a @ b)


@wp.kernel
def solved(a: wp.array2d[D], b: wp.array[D], out: wp.array[D]):
    low = wp.tile_cholesky(wp.tile_load(a, shape=(T, T)))
    wp.tile_store(out, wp.tile_cholesky_solve(low, wp.tile_load(b, shape=T)))


def symmetric(a: Any) -> Any:
    return jnp.tril(a) + jnp.tril(a, -1).T


def solved_of(a: Any, b: Any) -> Any:
    return jnp.linalg.solve(symmetric(a), b)


@wp.kernel
def softmax(a: wp.array2d[D], out: wp.array2d[D]):
    i = wp.tid()
    t = wp.tile_load(a[i], shape=100)
    e = wp.tile_map(wp.exp, t - wp.tile_broadcast(wp.tile_max(t), shape=(100,)))
    wp.tile_store(out[i], e / wp.tile_broadcast(wp.tile_sum(e), shape=(100,)))


def softmax_of(a: Any) -> Any:
    return jax.nn.softmax(a, axis=1)


@wp.kernel
def in_place(a: wp.array2d[D], out: wp.array2d[D]):
    t = wp.tile_load(a, shape=(T, T))
    other = wp.tile_map(wp.sin, t)
    wp.tile_cholesky_inplace(t)
    t += other
    t *= t
    wp.tile_store(out, t)


def in_place_of(a: Any) -> Any:
    return (jnp.linalg.cholesky(symmetric(a), symmetrize_input=False) + jnp.sin(a)) ** 2


@wp.kernel
def exchanged(a: wp.array2d[D], out: wp.array2d[D]):
    first = wp.tile_load(a, shape=(6, 12))
    second = wp.tile_load(a, shape=(6, 12), offset=(6, 0))
    for _ in range(20):
        first, second = second, wp.tile_map(wp.sin, first * second) + second
    wp.tile_store(out, first)
    wp.tile_store(out, second, offset=(6, 0))


def exchanged_of(a: Any) -> Any:
    first, second = a[:6], a[6:]
    for _ in range(20):
        first, second = second, jnp.sin(first * second) + second
    return jnp.concatenate([first, second])


def positive(n: int) -> np.ndarray:
    a = RNG.random((n, n))
    return a @ a.T + n * np.eye(n)


CASES: dict[str, tuple[Any, Callable[..., Any], tuple[np.ndarray, ...], int]] = {
    "product": (product, product_of, (RNG.random((16, 24)), RNG.random((24, 7))), 2),
    "solved": (solved, solved_of, (positive(9), RNG.random(9)), 1),
    "softmax": (softmax, softmax_of, (RNG.random((2, 100)),), 2),
    "in place": (in_place, in_place_of, (positive(9),), 1),
    "exchanged": (exchanged, exchanged_of, (RNG.random((12, 12)),), 1),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_tiles(name):
    kernel, reference, inputs, threads = CASES[name]
    x = tuple(map(jnp.asarray, inputs))
    shape = jax.eval_shape(reference, *x).shape
    call = wp.jax_kernel(kernel, launch_dims=threads, output_dims=shape)
    weights = jnp.asarray(RNG.random(shape))
    ours, theirs = (
        jax.grad(lambda *x, f=f: (jnp.sin(f(*x)) * weights).sum(), tuple(range(len(x))))
        for f in (lambda *x: call(*x)[0], reference)
    )
    for got, expected in zip(ours(*x), jax.jit(theirs)(*x), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-10)
    along = tuple(jnp.asarray(RNG.random(v.shape)) for v in x)
    moved, expected = jax.jvp(ours, x, along)[1], jax.jit(lambda *x: jax.jvp(theirs, x, along)[1])(*x)
    back = jax.vjp(ours, *x)[1](along)
    for forward, reverse, want in zip(moved, back, expected, strict=True):
        np.testing.assert_allclose(forward, want, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(reverse, want, rtol=1e-7, atol=1e-9)


@wp.kernel
def added_product(a: wp.array2d[D], alpha: wp.array[D], beta: wp.array[D], out: wp.array2d[D]):
    t = wp.tile_load(a, shape=(T, T))
    total = t * D(3.0)
    wp.tile_matmul(t, t, total, alpha=alpha[0], beta=beta[0])
    wp.tile_store(out, total)


@wp.kernel
def added_complex_product(a: wp.array2d[wp.vec2d], alpha: wp.array[D], beta: wp.array[D], out: wp.array2d[wp.vec2d]):
    t = wp.tile_load(a, shape=(T, T))
    total = t * D(3.0)
    wp.tile_matmul(t, t, total, alpha=alpha[0], beta=beta[0])
    wp.tile_store(out, total)


def complex_square(a: Any) -> Any:
    real, imaginary = a[..., 0], a[..., 1]
    return jnp.stack([real @ real - imaginary @ imaginary, real @ imaginary + imaginary @ real], -1)


@pytest.mark.parametrize(("kernel", "square", "shape"), [
    (added_product, lambda a: a @ a, (9, 9)),
    (added_complex_product, complex_square, (9, 9, 2)),
])  # fmt: skip
def test_factors_of_a_product_that_are_zero(kernel, square, shape):
    """What is left out where a factor is 0 has a derivative by the factor, of first and second order."""
    a = jnp.asarray(RNG.standard_normal(shape))
    call = wp.jax_kernel(kernel, launch_dims=1, output_dims=(9, 9))

    def loss(f):
        return lambda a, alpha, beta: jnp.sum(jnp.sin(f(a, alpha, beta)))

    ours = loss(lambda a, alpha, beta: call(a, alpha, beta)[0])
    theirs = loss(lambda a, alpha, beta: alpha * square(a) + beta * 3 * a)
    along = tuple(jnp.ones_like(x) for x in (a, jnp.ones(1), jnp.ones(1)))
    derived = [jax.jit(lambda *x, f=f: jax.jvp(jax.value_and_grad(f, (0, 1, 2)), x, along)) for f in (ours, theirs)]
    for alpha, beta in ((0.0, 0.0), (0.7, 0.0), (0.0, 0.5)):
        found, expected = (jax.tree.leaves(f(a, jnp.array([alpha]), jnp.array([beta]))) for f in derived)
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-10)


def test_what_is_left_out_of_a_product_may_be_infinite():
    a = jnp.asarray(RNG.standard_normal((9, 9))).at[0, 0].set(jnp.inf)
    call = wp.jax_kernel(added_product, launch_dims=1, output_dims=(9, 9))
    found = call(a, jnp.ones(1), jnp.zeros(1))[0]
    np.testing.assert_array_equal(found[1:, 1:], (a @ a)[1:, 1:])
    assert np.isinf(found[0, 0])


@wp.kernel
def stacked(a: wp.array2d[D], out: wp.array2d[D]):
    """Pushed in one loop, one of them left out, and popped in another one."""
    i = wp.tid()
    s = wp.tile_stack(3, D)
    for n in range(5):
        wp.tile_stack_push(s, wp.sin(a[i, n]) * a[i, 0], n != 1)
    for n in range(4):
        value, _where = wp.tile_stack_pop(s)
        out[i, n] = value * value * a[i, n]


def stacked_of(a: Any) -> Any:
    v = jnp.sin(a) * a[:, :1]
    popped = jnp.stack([v[:, 3], v[:, 2], v[:, 0], jnp.zeros(len(a))], 1)
    return popped**2 * a[:, :4]


def test_stacks_have_derivatives():
    a = jnp.asarray(RNG.normal(size=(2, 5)))
    (found,) = wp.jax_kernel(stacked, launch_dims=2, output_dims=(2, 4))(a)
    np.testing.assert_allclose(found, stacked_of(a), atol=1e-14)

    def ours(a):
        return wp.jax_kernel(stacked, launch_dims=2, output_dims=(2, 4))(a)[0]

    for mode in (jax.jacfwd, jax.jacrev, lambda f: jax.jacfwd(jax.jacrev(f))):
        np.testing.assert_allclose(mode(ours)(a), jax.jit(mode(stacked_of))(a), atol=1e-13)
