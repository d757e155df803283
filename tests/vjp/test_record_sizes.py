"""What records take: an axis of the array, or of a loop, only where runs of the load could not share a place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from orders import flat, scalar
from overwrites import some

import jaxwarp as wp
from jaxwarp.types import float64 as F

SIZES: dict[str, tuple[Any, Callable[[Any, Any], Any], list[tuple[int, ...]]]] = {}
"""Kernels of (x[2], n = 3, a[2, 40]), the same in jax.numpy, and the shapes of their records."""


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def case(reference: Callable[[Any, Any], Any], *shapes: tuple[int, ...]) -> Callable[[Any], Any]:
    def add(kernel: Any) -> Any:
        SIZES[kernel.name] = kernel, reference, sorted(shapes)
        return kernel

    return add


def iterations(step: Callable[[Any, Any, int, int], Any], outer: int, inner: int) -> Callable[[Any, Any], Any]:
    def reference(x: Any, a: Any) -> Any:
        for s in range(outer):
            for k in range(inner):
                a = step(x, a, s, k)
        return a

    return reference


@case(iterations(lambda x, a, s, k: a.at[:, (s + k) % 2].set(jnp.sin(a[:, 0] * x) + 0.5 * a[:, 2]), 3, 20), (2, 3, 20))
@wp.kernel
def at_a_constant(x: wp.array[F], n: int, a: wp.array2d[F]):
    i = wp.tid()
    for s in range(wp.min(n, 3)):
        for k in range(20):
            a[i, (s + k) % 2] = wp.sin(a[i, 0] * x[i]) + F(0.5) * a[i, 2]


@case(iterations(lambda x, a, s, k: a.at[:, 3 - k % 2].set(jnp.sin(a[:, 3] * x)), 1, 5), (2, 5), (2, 6))
@wp.kernel
def at_an_argument(x: wp.array[F], n: int, a: wp.array2d[F]):
    """The condition reads it once more than there are iterations."""
    i = wp.tid()
    k = 5
    while k > 0 and a[i, n] * a[i, n] < F(9.0):
        k -= 1
        a[i, n - k % 2] = wp.sin(a[i, n] * x[i])


def not_written_in_the_inner_loop_reference(x: Any, a: Any) -> Any:
    for s in range(3):
        total = sum(jnp.sin(a[:, 1] * x * k) * jnp.cos(a[:, k % 3]) for k in range(20))
        a = a.at[:, s % 2].set(total)
    return a


@case(not_written_in_the_inner_loop_reference, (2, 3), (2, 40, 3))
@wp.kernel
def not_written_in_the_inner_loop(x: wp.array[F], n: int, a: wp.array2d[F]):
    i = wp.tid()
    for s in range(wp.min(n, 3)):
        total = F(0.0)
        for k in range(20):
            total += wp.sin(a[i, n - 2] * x[i] * F(k)) * wp.cos(a[i, k % n])
        a[i, s % 2] = total


def on_the_diagonal_reference(x: Any, a: Any) -> Any:
    i = np.arange(2)
    for s in range(3):
        a = a.at[i, (i + s) % 2].set(jnp.sin(a[i, i] * x))
    return a


@case(on_the_diagonal_reference, (2, 3))
@wp.kernel
def on_the_diagonal(x: wp.array[F], n: int, a: wp.array2d[F]):
    """Two axes tell the threads apart."""
    i = wp.tid()
    for s in range(wp.min(n, 3)):
        a[i, (i + s) % 2] = wp.sin(a[i, i] * x[i])


@case(
    iterations(lambda x, a, s, k: a.at[:, k].set(jnp.sin(a[:, k] * x * a[:, 39 - 2 * k])), 3, 18),
    (2, 3, 18),
    (2, 3, 18),
)
@wp.kernel
def of_few_iterations(x: wp.array[F], n: int, a: wp.array2d[F]):
    """The loop takes fewer elements than the axis has."""
    i = wp.tid()
    for _ in range(wp.min(n, 3)):
        for k in range(18):
            a[i, k] = wp.sin(a[i, k] * x[i] * a[i, 39 - 2 * k])


@case(iterations(lambda x, a, s, k: a.at[:, k].set(jnp.sin(a[:, k] * x)) if k < 3 else a, 3, 50), (2, 40, 3))
@wp.kernel
def of_iterations_that_do_not_come(x: wp.array[F], n: int, a: wp.array2d[F]):
    """The loop has more iterations than the axis elements."""
    i = wp.tid()
    for _ in range(wp.min(n, 3)):
        for k in range(50):
            if k < n:
                a[i, k] = wp.sin(a[i, k] * x[i])


@pytest.mark.parametrize("name", SIZES)
def test_sizes(name):
    kernel, reference, shapes = SIZES[name]
    call = wp.jax_kernel(kernel, in_out_argnames=["a"], launch_dims=2)
    args = some(2), some(2, 40, seed=2)
    gradient = jax.grad(scalar(lambda x, a: call(x, 3, a)), (0, 1))
    made = [eqn for eqn in jax.make_jaxpr(gradient)(*args).eqns if "_record" in str(eqn.params.get("launch"))]
    assert sorted(v.aval.shape for eqn in made for v in eqn.outvars[1:]) == shapes
    found = jax.jit(gradient)(*args)
    expected = jax.jit(jax.grad(scalar(lambda x, a: [reference(x, a)]), (0, 1)))(*args)
    np.testing.assert_allclose(flat(found), flat(expected), rtol=1e-9, atol=1e-12)
