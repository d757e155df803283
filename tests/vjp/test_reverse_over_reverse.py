"""Reverse mode of reverse mode, against forward mode of forward mode and finite differences of it, in float64.

Forward mode alone (`jacfwd(jacfwd(f))`) shares no code with transposes, so it says what they must give.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.ffi.derivatives import second_order
from jaxwarp.types import float64 as F


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@wp.kernel
def nested(x: wp.array[F], w: wp.array[F], y: wp.array[F]):
    i = wp.tid()
    v = x[i]
    for k in range(3):
        u = v
        for j in range(k + 1):
            if u > F(0.9):
                u = wp.sin(u) * w[j]
            u = u * u + w[(i + j) % 3]
        v = v * F(0.5) + wp.tanh(u)
    y[i] = v


@wp.kernel
def until(x: wp.array[F], w: wp.array[F], y: wp.array[F]):
    i = wp.tid()
    v = x[i]
    n = 0
    while v > F(0.2) and n < 6:
        v = wp.cos(v) * v * w[i]
        n += 1
        if v < F(0.25):
            break
    y[i] = v


@wp.kernel
def in_place(x: wp.array[F], a: wp.array[F], b: wp.array[F]):
    i = wp.tid()
    for _ in range(4):
        a[i] = a[i] * a[i] * x[i] + F(0.1)
        wp.atomic_add(b, i % 2, a[i] * x[(i + 1) % 3])
    if x[i] > F(0.7):
        a[i] = F(0.0)


@wp.kernel
def gathered(x: wp.array[F], place: wp.array[int], y: wp.array[F], z: wp.array[F]):
    i = wp.tid()
    v = x[place[i]]
    for k in range(3):
        v = v * x[(place[i] + k) % 4] + wp.sin(v)
    y[place[i]] = v
    wp.atomic_max(z, i % 2, v * v)


@wp.kernel
def vectors(p: wp.array[wp.vec2d], m: wp.mat22d, s: wp.float64, out: wp.array[wp.vec2d]):
    i = wp.tid()
    v = p[i]
    for _ in range(3):
        v = wp.normalize(m * v) * s + v
    out[i] = v


@wp.kernel
def beside(x: wp.array[F], w: wp.array[F], n: int, y: wp.array[F], z: wp.array[F]):
    """What does not depend on x: w is of no use to any derivative."""
    i = wp.tid()
    v = x[i]
    for _ in range(n):
        v = wp.sin(v) * v
    y[i] = v
    z[i] = wp.exp(w[i])


@wp.kernel
def cleared(x: wp.array[F], a: wp.array[F]):
    """What `a` holds on entry is of no use to the reverse sweep, and an operand of the tangent kernel."""
    i = wp.tid()
    a[i] = F(0.0)
    for k in range(4):
        a[i] += x[i] * F(k)
        a[i] = a[i] * x[i]
        if k == 2:
            a[i] = x[i] * x[i]
        a[i] -= wp.sin(a[i])


PLACES = np.array([2, 0, 1, 3], np.int32)
call_nested, call_until, call_vectors = wp.jax_kernel(nested), wp.jax_kernel(until), wp.jax_kernel(vectors)
call_in_place = wp.jax_kernel(in_place, num_outputs=2, in_out_argnames=["a", "b"])
call_gathered = wp.jax_kernel(gathered, num_outputs=2, output_dims={"y": 4, "z": 2}, launch_dims=4)
call_cleared = wp.jax_kernel(cleared, in_out_argnames=["a"])
call_beside = wp.jax_kernel(beside, num_outputs=2)

W = np.array([0.3, 0.7, -0.4])
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "nested": (call_nested, (np.linspace(0.3, 1.2, 3), W)),
    "until": (call_until, (np.linspace(0.5, 1.2, 3), np.array([1.3, 1.1, 1.2]))),
    "in-place": (call_in_place, (np.linspace(0.3, 0.8, 3), W, np.array([0.5, 0.6]))),
    "gathered": (lambda x: call_gathered(x, PLACES), (np.linspace(0.3, 0.8, 4),)),
    "vectors": (call_vectors, (np.linspace(0.3, 0.8, 4).reshape(2, 2), np.eye(2) + 0.1, np.float64(0.7))),
    "cleared": (call_cleared, (np.linspace(0.3, 1.2, 3), W)),
    "beside": (lambda x: call_beside(x, W, 3), (np.linspace(0.3, 1.2, 3),)),
}


class Problem:
    """A scalar of a launch, its Hessian by forward mode, and the change of that along a direction."""

    def __init__(self, name: str):
        launched, self.args = CASES[name]
        self.every = tuple(range(len(self.args)))
        self.f = lambda *args: sum(jnp.sum(jnp.sin(y)) for y in launched(*args))
        self.along = tuple(np.cos(np.arange(np.size(a)) + 1.0).reshape(np.shape(a)) for a in self.args)
        self.gradient = jax.grad(self.f, self.every)

    def hessian(self, *args: Any) -> Any:
        return flat(jax.jacfwd(jax.jacfwd(self.f, self.every), self.every)(*args))

    def third(self, eps: float = 1e-5) -> Any:
        hessian = jax.jit(self.hessian)
        high, low = (hessian(*(a + e * t for a, t in zip(self.args, self.along, strict=True))) for e in (eps, -eps))
        return (high - low) / (2 * eps)

    def slope(self, *args: Any) -> Any:
        return sum(jnp.vdot(g, t) for g, t in zip(self.gradient(*args), self.along, strict=True))


def flat(tree: Any) -> Any:
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def close(a: Any, b: Any, rtol: float = 1e-9) -> None:
    np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


@pytest.fixture(params=CASES)
def problem(request: pytest.FixtureRequest) -> Problem:
    return Problem(request.param)


@pytest.fixture(autouse=True)
def nothing_missing(monkeypatch):
    """No formula lacks an operand in these cases: then the direct way would be tested, not this one."""

    def fail(*args: Any) -> None:
        raise AssertionError(args)

    monkeypatch.setattr(second_order.NotKeptError, "__init__", fail)


def test_gradient_of_gradient(problem):
    found = jax.jit(jax.jacrev(problem.gradient, problem.every))(*problem.args)
    close(flat(found), jax.jit(problem.hessian)(*problem.args))


THIRD = {
    "grad-grad-grad": lambda p: jax.jacrev(jax.grad(p.slope, p.every), p.every),
    "grad-forward-grad": lambda p: jax.jacrev(lambda *a: jax.jvp(p.gradient, a, p.along)[1], p.every),
    "grad-grad-forward": lambda p: jax.jacrev(jax.grad(lambda *a: jax.jvp(p.f, a, p.along)[1], p.every), p.every),
    "forward-grad-grad": lambda p: lambda *a: jax.jvp(jax.jacrev(p.gradient, p.every), a, p.along)[1],
}


@pytest.mark.parametrize("name", CASES)
def test_third_order(name):
    problem = Problem(name)
    # Each takes a second or two to compile: all of them for the cases that differ most.
    orders = THIRD if name in ("nested", "gathered") else ("grad-grad-grad",)
    expected = problem.third()
    for order in orders:
        close(flat(jax.jit(THIRD[order](problem))(*problem.args)), expected, 1e-6)


@pytest.mark.parametrize("name", ["nested", "in-place"])
def test_under_vmap_and_scan(name):
    """Some operands batched, others shared by all items; gradients by both."""
    problem = Problem(name)
    first, shared, *rest = problem.args
    items = np.stack([first, 1.1 * first, 0.9 * first])

    def mapped(items, shared):
        return jnp.sum(jnp.sin(jax.vmap(lambda x: problem.slope(x, shared, *rest))(items)))

    def scanned(items, shared):
        step = lambda total, x: (total + jnp.sin(problem.slope(x, shared, *rest)), None)  # noqa: E731
        return jax.lax.scan(step, 0.0, items)[0]

    def looped(items, shared):
        return sum(jnp.sin(problem.slope(x, shared, *rest)) for x in items)

    expected = jax.jit(jax.jacfwd(looped, (0, 1)))(items, shared)
    for f in (mapped, scanned):
        close(flat(jax.jit(jax.grad(f, (0, 1)))(items, shared)), flat(expected))


def test_vmap_of_third_order():
    problem = Problem("until")
    third = THIRD["grad-grad-grad"](problem)
    items = [np.stack([a, 0.97 * a]) for a in problem.args]
    alone = jax.jit(lambda *a: flat(third(*a)))
    expected = jnp.stack([alone(*(x[n] for x in items)) for n in range(2)])
    close(jax.jit(jax.vmap(lambda *a: flat(third(*a))))(*items), expected)


def test_learning_a_step_size_eagerly():
    """The gradient of a loss after steps of gradient descent, without jit."""

    def loss(x):
        return jnp.sum(call_until(x, W + 1.0)[0] ** 2)

    def after(step, x):
        return loss(x - step * jax.grad(loss)(x))

    x, eps = np.linspace(0.5, 1.2, 3), 1e-6
    close(jax.grad(after)(0.03, x), (after(0.03 + eps, x) - after(0.03 - eps, x)) / (2 * eps), 1e-7)


@wp.kernel
def halves(x: wp.array[wp.float16], s: wp.array[wp.float16], y: wp.array[wp.float16]):
    i = wp.tid()
    v = x[i]
    for _ in range(3):
        v = wp.sin(v) * s[0] + v
    y[i] = v


def test_half_precision():
    call = wp.jax_kernel(halves)

    def reference(x, s):
        for _ in range(3):
            x = jnp.sin(x) * s + x
        return x

    x, s = np.linspace(0.3, 1.2, 8).astype(np.float16), np.array([0.3], np.float16)
    penalty = lambda f: lambda x, s: jnp.sum(jax.grad(lambda x: jnp.sum(f(x, s)))(x) ** 2)  # noqa: E731
    found = jax.jit(jax.grad(penalty(lambda x, s: call(x, s)[0]), (0, 1)))(x, s)
    expected = jax.jit(jax.grad(penalty(reference), (0, 1)))(x.astype(np.float64), s.astype(np.float64))
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == np.float16
        np.testing.assert_allclose(a.astype(np.float64), b, rtol=2e-2)


@wp.kernel
def straight(x: wp.array[F], a: wp.array[F], y: wp.array[F]):
    i = wp.tid()
    y[i] = a[i] * x[i] + F(1.0)


def test_what_a_user_transposes_has_derivatives_too():
    """`jax.linear_transpose` of a launch with a constant part: its derivatives do not see the part."""
    call = wp.jax_kernel(straight)
    x, a = np.linspace(0.3, 1.2, 3), W

    def f(a, c):
        (back,) = jax.linear_transpose(lambda x: call(x, a)[0], x)(c)
        return jnp.sum(back**2)

    close(flat(jax.grad(f, (0, 1))(a, x)), flat((2 * a * x * x, 2 * a * a * x)))
    close(flat(jax.hessian(f, (0, 1))(a, x)), flat(jax.hessian(lambda a, c: jnp.sum((a * c) ** 2), (0, 1))(a, x)))
    twice = jax.linear_transpose(jax.linear_transpose(lambda x: call(x, a)[0], x), x)
    close(twice((x,))[0], a * x)
