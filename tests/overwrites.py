"""Kernels that overwrite elements which they have read, and needed: eliminations, sweeps, places found in data."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxwarp as wp
from jaxwarp.types import float64 as F

Function = Callable[..., Sequence[Any]]
KERNELS: dict[str, tuple[Function, Function, tuple[np.ndarray, ...]]] = {}
"""Launches as functions of float arrays, the same in jax.numpy, and arguments."""


def some(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.3, 1.1, shape)


def case(name: str, kernel: Any, reference: Function, args: tuple[Any, ...], **options: Any) -> None:
    KERNELS[name] = wp.jax_kernel(kernel, **options), reference, args


@wp.kernel
def lu(a: wp.array3d[F]):
    t = wp.tid()
    n = a.shape[1]
    for k in range(n):
        for i in range(k + 1, n):
            a[t, i, k] = a[t, i, k] / a[t, k, k]
            for j in range(k + 1, n):
                a[t, i, j] -= a[t, i, k] * a[t, k, j]


def lu_reference(a: Any) -> Any:
    for k in range(a.shape[1]):
        factor = a[:, k + 1 :, k] / a[:, k, k, None]
        a = a.at[:, k + 1 :, k].set(factor)
        a = a.at[:, k + 1 :, k + 1 :].add(-factor[:, :, None] * a[:, None, k, k + 1 :])
    return [a]


SQUARES = some(2, 4, 4) + 2.0 * np.eye(4)
case("lu", lu, lu_reference, (SQUARES,), in_out_argnames=["a"], launch_dims=2)


@wp.kernel
def cholesky(a: wp.array3d[F]):
    """Right-looking: every element is updated in each iteration of the outer loop."""
    t = wp.tid()
    n = a.shape[1]
    for k in range(n):
        a[t, k, k] = wp.sqrt(a[t, k, k])
        for i in range(k + 1, n):
            a[t, i, k] = a[t, i, k] / a[t, k, k]
            a[t, k, i] = F(0.0)
        for j in range(k + 1, n):
            for i in range(j, n):
                a[t, i, j] = a[t, i, j] - a[t, i, k] * a[t, j, k]


def cholesky_reference(a: Any) -> Any:
    lower = jnp.tril(a)
    return [jnp.linalg.cholesky(lower + jnp.swapaxes(jnp.tril(a, -1), 1, 2), symmetrize_input=False)]


case(
    "cholesky", cholesky, cholesky_reference, (SQUARES @ SQUARES.swapaxes(1, 2),), in_out_argnames=["a"], launch_dims=2
)


@wp.kernel
def solve(a: wp.array3d[F], b: wp.array2d[F]):
    """Gauss elimination with the largest pivot, and substitution backward: all in place."""
    t = wp.tid()
    n = a.shape[1]
    for k in range(n):
        p = k
        for i in range(k + 1, n):
            if wp.abs(a[t, i, k]) > wp.abs(a[t, p, k]):
                p = i
        for j in range(n):
            saved = a[t, k, j]
            a[t, k, j] = a[t, p, j]
            a[t, p, j] = saved
        saved = b[t, k]
        b[t, k] = b[t, p]
        b[t, p] = saved
        for i in range(k + 1, n):
            factor = a[t, i, k] / a[t, k, k]
            for j in range(k, n):
                a[t, i, j] = a[t, i, j] - factor * a[t, k, j]
            b[t, i] = b[t, i] - factor * b[t, k]
    for k in range(n - 1, -1, -1):
        total = b[t, k]
        for j in range(k + 1, n):
            total -= a[t, k, j] * b[t, j]
        b[t, k] = total / a[t, k, k]


launched_solve = wp.jax_kernel(solve, num_outputs=2, in_out_argnames=["a", "b"], launch_dims=2)
KERNELS["solve"] = (
    lambda a, b: [launched_solve(a, b)[1]],
    lambda a, b: [jnp.linalg.solve(a, b[:, :, None])[:, :, 0]],
    (SQUARES[:, ::-1].copy(), some(2, 4, seed=2)),
)


@wp.kernel
def softmax(x: wp.array2d[F], y: wp.array2d[F]):
    i = wp.tid()
    total = F(0.0)
    for k in range(x.shape[1]):
        y[i, k] = wp.exp(x[i, k])
        total += y[i, k]
    for k in range(x.shape[1]):
        y[i, k] = y[i, k] / total


case("softmax", softmax, lambda x: [jax.nn.softmax(x)], (some(2, 5),), launch_dims=2, output_dims={"y": (2, 5)})


@wp.kernel
def until(w: wp.array[F], a: wp.array2d[F]):
    """Sweeps backward over every second element until one is small: threads stop apart."""
    i = wp.tid()
    for _ in range(6):
        if a[i, 0] < F(0.2):
            break
        for k in range(a.shape[1] - 2, -1, -2):
            a[i, k] = a[i, k] * wp.sin(a[i, k + 1]) * w[i]
        a[i, 1] = a[i, 0] + a[i, 2]


def until_reference(w: Any, a: Any) -> Any:
    for _ in range(6):
        new = a
        for k in range(a.shape[1] - 2, -1, -2):
            new = new.at[:, k].set(new[:, k] * jnp.sin(new[:, k + 1]) * w)
        new = new.at[:, 1].set(new[:, 0] + new[:, 2])
        a = jnp.where((a[:, 0] < 0.2)[:, None], a, new)
    return [a]


case("until", until, until_reference, (np.array([1.3, 0.7]), np.array([[1.1] * 6, [0.9] * 6])), in_out_argnames=["a"],
     launch_dims=2)  # fmt: skip


@wp.kernel
def tested(a: wp.array2d[F]):
    """The condition reads what the body overwrites; one test more than iterations."""
    i = wp.tid()
    iteration = 9
    while iteration >= 3 and a[i, iteration % 2] * a[i, 1] < F(2.0):
        for k in range(1, 3):
            a[i, k] = a[i, k - 1] * a[i, k] + F(0.3)
        a[i, 0] = a[i, 2] * a[i, 1] + F(0.1)
        iteration -= 2


def tested_reference(a: Any) -> Any:
    for iteration in (9, 7, 5, 3):
        new = a
        for k in range(1, 3):
            new = new.at[:, k].set(new[:, k - 1] * new[:, k] + 0.3)
        new = new.at[:, 0].set(new[:, 2] * new[:, 1] + 0.1)
        a = jnp.where((a[:, iteration % 2] * a[:, 1] < 2.0)[:, None], new, a)
    return [a]


case("tested", tested, tested_reference, (some(2, 3) + np.array([[0.0], [0.6]]),), in_out_argnames=["a"], launch_dims=2)


@wp.kernel
def by_data(x: wp.array[F], place: wp.array[int], n: int, a: wp.array2d[F]):
    """Where it reads is found in data, how often is not known but by its bound."""
    i = wp.tid()
    for k in range(wp.min(n, 4)):
        a[i, place[k]] = wp.sin(a[i, place[k + 1]]) * x[i] + a[i, place[k]]


PLACES = np.array([1, 0, 1, 2, 0], np.int32)
launched_by_data = wp.jax_kernel(by_data, in_out_argnames=["a"], launch_dims=2)


def by_data_reference(x: Any, a: Any) -> Any:
    for k in range(4):
        a = a.at[:, PLACES[k]].add(jnp.sin(a[:, PLACES[k + 1]]) * x)
    return [a]


KERNELS["by data"] = lambda x, a: launched_by_data(x, PLACES, 9, a), by_data_reference, (some(2), some(2, 3, seed=2))


@wp.kernel
def alone(a: wp.array[F]):
    """One thread, and vectors that it overwrites."""
    v = wp.vec2d(a[0], a[1])
    for s in range(3):
        for k in range(0, a.shape[0] - 1, 2):
            v = v * a[k] + wp.vec2d(a[k + 1], F(s))
            a[k] = v[0] * a[k + 1]
            a[k + 1] = wp.tanh(v[1])


def alone_reference(a: Any) -> Any:
    v = a[:2]
    for s in range(3):
        for k in range(0, len(a) - 1, 2):
            v = v * a[k] + jnp.stack([a[k + 1], 1.0 * s])
            a = a.at[k].set(v[0] * a[k + 1])
            a = a.at[k + 1].set(jnp.tanh(v[1]))
    return [a]


case("alone", alone, alone_reference, (some(4),), in_out_argnames=["a"], launch_dims=1)


@wp.kernel
def strides(x: wp.array[F], a: wp.array2d[F], n: int):
    """The step is not known, but that an index comes once is."""
    i = wp.tid()
    for k in range(0, 3, n):
        a[i, k + 1] = wp.sin(a[i, k]) * x[i]


def strides_reference(x: Any, a: Any) -> Any:
    for k in range(3):
        a = a.at[:, k + 1].set(jnp.sin(a[:, k]) * x)
    return [a]


launched_strides = wp.jax_kernel(strides, in_out_argnames=["a"], launch_dims=2)
KERNELS["strides"] = lambda x, a: launched_strides(x, a, 1), strides_reference, (some(2), some(2, 4, seed=2))


@wp.kernel
def components(x: wp.array[F], y: wp.array[F]):
    """Elements of a flat array, which belong to the thread by their remainders."""
    i = wp.tid()
    y[3 * i] = wp.sin(x[3 * i])
    y[3 * i + 1] = x[3 * i + 1] * y[3 * i]
    y[3 * i + 2] = y[3 * i + 1] * y[3 * i]
    for k in range(2):
        y[3 * i + k] = y[3 * i + k] * y[3 * i + k + 1]


def components_reference(x: Any) -> Any:
    a, b = jnp.sin(x[::3]), x[1::3]
    b = b * a
    c = a * b
    return [jnp.stack([a * b, b * c, c], 1).ravel()]


case("components", components, components_reference, (some(12),), launch_dims=4, output_dims=12)

OFFSETS = np.array([0, 2, 2, 5, 6], np.int32)


@wp.kernel
def softmax_of_rows(x: wp.array[F], offsets: wp.array[int], y: wp.array[F]):
    """Rows of lengths found in data; one is empty."""
    i = wp.tid()
    end = offsets[i + 1]
    total = F(0.0)
    for k in range(offsets[i], end):
        y[k] = wp.exp(x[k])
        total += y[k]
    for k in range(offsets[i], end):
        y[k] = y[k] / total


def softmax_of_rows_reference(x: Any) -> Any:
    return [jnp.concatenate([jax.nn.softmax(x[a:b]) for a, b in itertools.pairwise(OFFSETS)])]


launched_softmax = wp.jax_kernel(softmax_of_rows, launch_dims=4, output_dims=6)
KERNELS["softmax of rows"] = lambda x: launched_softmax(x, OFFSETS), softmax_of_rows_reference, (some(6),)


@wp.kernel
def accumulated(x: wp.array[F], offsets: wp.array[int], y: wp.array[F], z: wp.array[F]):
    """Written, added to and read at one place that is found in data."""
    i = wp.tid()
    start = offsets[i]
    for k in range(offsets[i + 1] - start):
        y[start + k] = wp.exp(x[start + k])
        y[start + k] += x[start + k]
        z[i] += y[start + k] * y[start + k]


def accumulated_reference(x: Any) -> Any:
    y = jnp.exp(x) + x
    return [y, jnp.stack([jnp.sum(y[a:b] ** 2) for a, b in itertools.pairwise(OFFSETS)])]


launched_accumulated = wp.jax_kernel(accumulated, num_outputs=2, launch_dims=4, output_dims={"y": 6, "z": 4})
KERNELS["accumulated"] = lambda x: launched_accumulated(x, OFFSETS), accumulated_reference, (some(6),)


@wp.kernel
def squared_where(index: wp.array[int], a: wp.array[F]):
    i = wp.tid()
    a[index[i]] = a[index[i]] * a[index[i]]


WHERE = np.array([3, 0, 2], np.int32)
launched_squared = wp.jax_kernel(squared_where, in_out_argnames=["a"])
KERNELS["squared where"] = lambda a: launched_squared(WHERE, a), lambda a: [a.at[WHERE].set(a[WHERE] ** 2)], (some(5),)
