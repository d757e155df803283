"""Kernels that read elements they stored themselves: recurrences, solves, tables. Each with a launch that fits it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import jaxwarp as wp
from jaxwarp.types import float64 as F

KERNELS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
"""Launches as functions of float arrays, and arguments."""


def rows(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.3, 1.1, shape)


def case(name: str, kernel: Any, args: tuple[Any, ...], extra: tuple[Any, ...] = (), **options: Any) -> None:
    call = wp.jax_kernel(kernel, **options)
    KERNELS[name] = (lambda *floats: call(*floats, *extra), args)


@wp.kernel
def steps(x: wp.array2d[F], a: wp.array2d[F], n: int):
    i = wp.tid()
    for k in range(n):
        a[i, k + 1] = wp.sin(a[i, k]) * x[i, k] + a[i, k + 1]


case("steps", steps, (rows(2, 5), rows(2, 6)), (5,), in_out_argnames=["a"], launch_dims=2)


@wp.kernel
def backward(x: wp.array2d[F], a: wp.array2d[F]):
    i = wp.tid()
    for k in range(a.shape[1] - 2, -1, -1):
        a[i, k] = a[i, k] * a[i, k + 1] + wp.cos(x[i, k])


case("backward", backward, (rows(2, 5), rows(2, 6)), in_out_argnames=["a"], launch_dims=2)


@wp.kernel
def two_terms(x: wp.array[F], a: wp.array2d[F]):
    i = wp.tid()
    a[i, 0] = x[i]
    a[i, 1] = x[i] * x[i]
    for k in range(2, a.shape[1]):
        a[i, k] = a[i, k - 1] * a[i, k - 2] + wp.sin(a[i, k - 1])


case("two-terms", two_terms, (rows(3),), output_dims={"a": (3, 6)}, launch_dims=3)


@wp.kernel
def prefix(a: wp.array2d[F]):
    i = wp.tid()
    for k in range(1, a.shape[1]):
        a[i, k] *= a[i, k - 1]


case("prefix", prefix, (rows(2, 5),), in_out_argnames=["a"], launch_dims=2)


@wp.kernel
def by_twos(a: wp.array2d[F], n: int):
    i = wp.tid()
    for k in range(0, n, 2):
        a[i, k + 2] = wp.exp(a[i, k]) * a[i, k + 1] * F(0.3)


case("by-twos", by_twos, (rows(2, 7),), (5,), in_out_argnames=["a"], launch_dims=2)


@wp.kernel
def sweep(a: wp.array2d[F]):
    """Gauss and Seidel: what is to the left is new, what is to the right is old."""
    i = wp.tid()
    for k in range(1, a.shape[1] - 1):
        a[i, k] = F(0.5) * (a[i, k - 1] * a[i, k + 1] + wp.sin(a[i, k]))


case("sweep", sweep, (rows(2, 6),), in_out_argnames=["a"], launch_dims=2)


@wp.kernel
def until(x: wp.array2d[F], a: wp.array2d[F], n: int):
    i = wp.tid()
    for k in range(n):
        if x[i, k] > F(1.0):
            break
        if x[i, k] < F(0.4):
            continue
        a[i, k + 1] = wp.sin(a[i, k]) * x[i, k]


case("until", until, (rows(3, 5), rows(3, 6)), (5,), in_out_argnames=["a"], launch_dims=3)


@wp.kernel
def counted(a: wp.array2d[F], n: int):
    """A while loop whose condition reads what the body stored."""
    i = wp.tid()
    k = 0
    while k < n and a[i, k] > F(0.25):
        a[i, k + 1] = a[i, k] * wp.cos(a[i, k + 1])
        k += 1


case("counted", counted, (rows(3, 6),), (5,), in_out_argnames=["a"], launch_dims=3)


@wp.kernel
def forward_solve(low: wp.array2d[F], b: wp.array2d[F], x: wp.array2d[F]):
    i = wp.tid()
    for r in range(b.shape[1]):
        s = b[i, r]
        for c in range(r):
            s -= low[r, c] * x[i, c]
        x[i, r] = s / low[r, r]


case("forward-solve", forward_solve, (rows(4, 4), rows(2, 4, seed=2)), launch_dims=2, output_dims={"x": (2, 4)})


@wp.kernel
def back_substitution(up: wp.array2d[F], x: wp.array2d[F]):
    """In place, element by element."""
    i = wp.tid()
    n = x.shape[1]
    for r in range(n - 1, -1, -1):
        for c in range(r + 1, n):
            x[i, r] -= up[r, c] * x[i, c]
        x[i, r] /= up[r, r]


case("back-substitution", back_substitution, (rows(4, 4), rows(2, 4)), in_out_argnames=["x"], launch_dims=2)


@wp.kernel
def table(x: wp.array2d[F], y: wp.array2d[F], t: wp.array3d[F]):
    """Alignment: a table whose elements depend on three neighbours."""
    i = wp.tid()
    for r in range(1, t.shape[1]):
        for c in range(1, t.shape[2]):
            d = x[i, r - 1] - y[i, c - 1]
            t[i, r, c] = d * d + wp.min(t[i, r - 1, c - 1], wp.min(t[i, r - 1, c], t[i, r, c - 1]) * F(1.1))


case("table", table, (rows(2, 3), rows(2, 4, seed=5), rows(2, 4, 5)), in_out_argnames=["t"], launch_dims=2)


@wp.kernel
def cholesky(a: wp.array3d[F], low: wp.array3d[F]):
    i = wp.tid()
    for r in range(a.shape[1]):
        for c in range(r):
            s = a[i, r, c]
            for k in range(c):
                s -= low[i, r, k] * low[i, c, k]
            low[i, r, c] = s / low[i, c, c]
        s = a[i, r, r]
        for k in range(r):
            s -= low[i, r, k] * low[i, r, k]
        low[i, r, r] = wp.sqrt(s)


DEFINITE = np.stack([m @ m.T + 2.0 * np.eye(3) for m in rows(2, 3, 3)])
case("cholesky", cholesky, (DEFINITE,), launch_dims=2, output_dims={"low": (2, 3, 3)})


@wp.kernel
def tridiagonal(a: wp.array2d[F], b: wp.array2d[F], d: wp.array2d[F], c: wp.array2d[F], x: wp.array2d[F]):
    """Thomas: coefficients forward, the solution backward."""
    i = wp.tid()
    n = a.shape[1]
    c[i, 0] = a[i, 0] / b[i, 0]
    d[i, 0] = d[i, 0] / b[i, 0]
    for k in range(1, n):
        m = b[i, k] - a[i, k] * c[i, k - 1]
        c[i, k] = a[i, k] / m
        d[i, k] = (d[i, k] - a[i, k] * d[i, k - 1]) / m
    x[i, n - 1] = d[i, n - 1]
    for k in range(n - 2, -1, -1):
        x[i, k] = d[i, k] - c[i, k] * x[i, k + 1]


case("tridiagonal", tridiagonal, (rows(2, 4), rows(2, 4, seed=2) + 2.0, rows(2, 4, seed=3)),
     in_out_argnames=["d"], num_outputs=3, launch_dims=2, output_dims={"c": (2, 4), "x": (2, 4)})  # fmt: skip


@wp.kernel
def alone(x: wp.array[F], a: wp.array[F]):
    """One thread, the whole array."""
    a[0] = x[0]
    for k in range(1, x.shape[0]):
        a[k] = wp.tanh(a[k - 1]) * x[k] + a[k - 1]


case("alone", alone, (rows(6),), launch_dims=1, output_dims={"a": 6})


@wp.kernel
def particles(p: wp.array2d[wp.vec2d], v: wp.array[wp.vec2d], n: int):
    """A trajectory: every state is stored, and the next one starts from it."""
    i = wp.tid()
    u = v[i]
    for k in range(n):
        u = u - p[i, k] * F(0.1) / wp.length(p[i, k])
        p[i, k + 1] = p[i, k] + u * F(0.1)


case("particles", particles, (rows(2, 5, 2), rows(2, 2)), (4,), in_out_argnames=["p"], launch_dims=2)


@wp.kernel
def many_sweeps(w: wp.array[F], a: wp.array2d[F], times: int):
    """Linear in a: no value that is overwritten is needed for its gradient."""
    i = wp.tid()
    for _ in range(times):
        for k in range(1, a.shape[1] - 1):
            a[i, k] = w[0] * (a[i, k - 1] + a[i, k + 1])
