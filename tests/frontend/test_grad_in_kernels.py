"""`grad(f)` in kernels: against derivatives by hand, JAX's own, and differentiated again."""

# ruff: noqa: F811  (overloads)

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from language import outputs, run

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError

X = np.linspace(0.3, 1.7, 7)


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@wp.func
def square(x: float):
    return x * x


@wp.func
def iterated(x: wp.float64, n: int, y: wp.float64) -> wp.float64:
    """v = y sin(v), n times, left early where it is small."""
    v = x
    for _ in range(n):
        if v < wp.float64(0.1):
            break
        v = wp.sin(v) * y
    return v


@wp.func
def iterated(x: float):
    return wp.exp(x)


@wp.func
def distance(p: wp.vec3, m: wp.mat22, offset: float = 2.0):
    """A negative side whose root must not make the gradient NaN."""
    return wp.where(p[0] > 0.0, wp.sqrt(p[0]), 0.0) + p[1] * p[2] * m[0, 1] + m[1, 1] * m[1, 1] * offset


@wp.func
def newton(x: wp.float64):
    """The root of cos(v) = v, from x, with a `while`; its slope comes from a gradient."""
    v = x
    while wp.abs(wp.cos(v) - v) > wp.float64(1e-3):
        v -= (wp.cos(v) - v) / wp.grad(residual)(v)
    return v * x


@wp.func
def residual(v: wp.float64):
    return wp.cos(v) - v


@wp.func
def constant(x: float):
    return 3.0


def test_one_argument_gives_the_gradient_itself():
    @wp.kernel
    def k(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        slope = wp.grad(square)
        y[i] = slope(x[i]) + wp.grad(constant)(x[i]) + wp.grad(square)(3)

    np.testing.assert_allclose(outputs(k, 7, X, 0 * X), 2 * X + 6, rtol=1e-6)


def test_several_arguments_give_a_tuple_in_the_order_of_the_call():
    @wp.kernel
    def k(x: wp.array[wp.float64], out: wp.array2d[wp.float64]):
        i = wp.tid()
        by_x, by_n, by_y = wp.grad(iterated)(x[i], 3, wp.float64(1.1))
        out[i, 0] = by_x
        out[i, 1] = wp.float64(by_n)
        out[i, 2] = by_y
        last, first = wp.grad(wp.atan2)(x[i], wp.float64(2.0))
        out[i, 3] = last
        out[i, 4] = first

    def reference(x, y):
        return 1.0 * y * jnp.sin(y * jnp.sin(y * jnp.sin(x)))

    got = outputs(k, 7, X, np.zeros((7, 5)))
    expected = jax.vmap(jax.grad(reference, (0, 1)), (0, None))(X, 1.1)
    np.testing.assert_allclose(got[:, 0], expected[0], rtol=1e-12)
    np.testing.assert_array_equal(got[:, 1], 0)
    np.testing.assert_allclose(got[:, 2], expected[1], rtol=1e-12)
    np.testing.assert_allclose(got[:, 3], 2 / (X**2 + 4), rtol=1e-12)
    np.testing.assert_allclose(got[:, 4], -X / (X**2 + 4), rtol=1e-12)


def test_the_same_value_as_several_arguments():
    @wp.func
    def product(a: float, b: float):
        return a * a * b

    @wp.kernel
    def k(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        a, b = wp.grad(product)(b=x[i], a=x[i])
        y[i] = a - 10.0 * b

    np.testing.assert_allclose(outputs(k, 7, X, 0 * X), X**2 - 20 * X**2, rtol=1e-5)


def test_vectors_and_matrices():
    @wp.kernel
    def k(p: wp.array[wp.vec3], dp: wp.array[wp.vec3], dm: wp.array[wp.mat22]):
        i = wp.tid()
        by_p, by_m = wp.grad(distance)(p[i], wp.mat22(1.0, 2.0, 3.0, 4.0))
        dp[i] = by_p
        dm[i] = by_m

    p = np.array([[4.0, 2.0, 3.0], [-1.0, 5.0, 6.0]], np.float32)
    _, dp, dm = run(k, 2, p, np.zeros((2, 3)), np.zeros((2, 2, 2)))
    np.testing.assert_allclose(dp, [[0.25, 6, 4], [0, 12, 10]], rtol=1e-6)
    np.testing.assert_allclose(dm, [[[0, 6], [0, 16]], [[0, 30], [0, 16]]], rtol=1e-6)


def test_overloads_and_generic_functions():
    @wp.func
    def cube(x: Any):
        return x * x * x

    @wp.kernel
    def k(x: wp.array[Any], y: wp.array[Any]):
        i = wp.tid()
        y[i] = wp.grad(cube)(x[i]) + wp.grad(wp.grad(cube))(x[i])

    @wp.kernel
    def chosen(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = wp.grad(iterated)(x[i])

    for dtype in (wp.float32, wp.float64):
        got = outputs(k, 7, X, 0 * X, kinds=[wp.array(dtype=dtype), wp.array(dtype=dtype)])
        np.testing.assert_allclose(got, 3 * X**2 + 6 * X, rtol=1e-6)
    np.testing.assert_allclose(outputs(chosen, 7, X, 0 * X), np.exp(X), rtol=1e-6)


@wp.kernel
def slopes(x: wp.array[wp.float64], n: int, y: wp.array[wp.float64]):
    i = wp.tid()
    a, _, b = wp.grad(iterated)(x[i], n, x[i])
    y[i] = a * b + wp.grad(newton)(x[i])


def slopes_by_jax(x, n):
    def f(a, b):
        return jax.lax.fori_loop(0, n, lambda _, v: jnp.where(v < 0.1, v, jnp.sin(v) * b), a)

    def g(x):
        def step(_, v):
            return jnp.where(jnp.abs(jnp.cos(v) - v) > 1e-3, v - (jnp.cos(v) - v) / (-jnp.sin(v) - 1), v)

        return jax.lax.fori_loop(0, 20, step, x) * x

    a, b = jax.grad(f, (0, 1))(x, x)
    return a * b + jax.grad(g)(x)


@pytest.mark.parametrize("n", [0, 1, 5, 70])
def test_gradients_are_differentiated_again(n):
    """Through a dynamic loop with an early end and a `while`: value, both modes, second order."""
    call = wp.jax_kernel(slopes)

    def ours(x):
        return call(x, n)[0]

    @jax.jit
    def reference(x):
        return jax.vmap(lambda v: slopes_by_jax(v, n))(x)

    x = jnp.asarray(X)
    np.testing.assert_allclose(ours(x), reference(x), rtol=1e-9, atol=1e-12)
    expected = jax.jvp(reference, (x,), (jnp.ones_like(x),))[1]
    np.testing.assert_allclose(jax.jvp(ours, (x,), (jnp.ones_like(x),))[1], expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(jax.grad(lambda x: ours(x).sum())(x), expected, rtol=1e-8, atol=1e-10)
    step = 1e-6
    np.testing.assert_allclose((ours(x + step) - ours(x - step)) / (2 * step), expected, rtol=1e-5, atol=1e-7)


def test_second_derivatives_of_a_kernel_with_gradients():
    call = wp.jax_kernel(slopes)
    x = jnp.asarray(X)
    got = jax.jit(jax.hessian(lambda x: call(x, 4)[0].sum()))(x)
    expected = jax.jit(jax.hessian(lambda x: jax.vmap(lambda v: slopes_by_jax(v, 4))(x).sum()))(x)
    np.testing.assert_allclose(got, expected, rtol=1e-7, atol=1e-9)


def test_scalars_that_are_python_numbers():
    """They stay Python numbers under JAX's transformations, in some versions with a type and no shape."""

    @wp.kernel
    def k(x: wp.array[wp.float64], s: wp.float64, y: wp.array[wp.float64]):
        i = wp.tid()
        y[i] = s * s * s * x[i]

    call = wp.jax_kernel(k)

    def total(s):
        return call(jnp.asarray(X), s)[0].sum()

    np.testing.assert_allclose(jax.grad(total)(2.0), 12 * X.sum())
    np.testing.assert_allclose(jax.jvp(total, (2.0,), (1.0,))[1], 12 * X.sum())
    np.testing.assert_allclose(jax.hessian(total)(2.0), 12 * X.sum())


@wp.struct
class Table:
    values: wp.array[wp.float64]
    scale: wp.float64


@wp.func
def looked_up(x: wp.float64, t: Table):
    return x * x * t.values[1] * t.scale


@wp.kernel
def with_own_table(x: wp.array[wp.float64], out: wp.array2d[wp.float64]):
    i = wp.tid()
    t = Table()
    t.scale = x[i]
    t.values = wp.zeros(2, dtype=wp.float64)
    t.values[1] = wp.float64(5.0) * x[i]
    by_x, by_table = wp.grad(looked_up)(x[i], t)
    out[i, 0] = by_x
    out[i, 1] = by_table.scale


def test_arrays_of_the_caller_keep_what_they_hold():
    (found,) = wp.jax_kernel(with_own_table, output_dims=(7, 2))(X)
    np.testing.assert_allclose(found, np.stack([10 * X**3, 5 * X**3], 1), rtol=1e-12)


@wp.func
def kept(x: wp.float64, t: Table):
    t.values[0] = x * x
    return t.values[0] * x


@wp.func
def counted(x: wp.float64, t: Table):
    wp.atomic_add(t.values, 0, 1.0)
    return x * t.scale


@pytest.mark.parametrize("function", [kept, counted])
def test_functions_that_write_are_refused(function):
    """They would, for each component of their arguments, or never."""

    @wp.kernel
    def kernel(x: wp.array[wp.float64], t: Table, out: wp.array[wp.float64]):
        i = wp.tid()
        by_x, _ = wp.grad(function)(x[i], t)
        out[i] = by_x

    call = wp.jax_kernel(kernel, num_outputs=2, in_out_argnames=["t"])
    with pytest.raises(KernelTypeError, match=rf"grad\({function.name}\): {function.name} writes to t.values"):
        call(X, Table(np.zeros(1), 1.0))
