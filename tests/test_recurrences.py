"""Recurrences along arrays, in reverse: against finite differences, and second order against forward mode."""

from __future__ import annotations

from typing import Any

import derivativekit as kit
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import recurrence_strategy
from recurrences import KERNELS, many_sweeps, rows

import jaxwarp as wp
from jaxwarp.errors import DifferentiationError
from jaxwarp.types import float64 as F
from jaxwarp.vjp.tangent import tangent


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def flat(tree: Any) -> Any:
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def scalar(f: Any) -> Any:
    return lambda *args: sum(jnp.vdot(jnp.cos(jnp.arange(y.size)), jnp.sin(y).ravel()) for y in f(*args))


@pytest.mark.parametrize("name", KERNELS)
def test_gradient_and_hessian(name):
    launched, args = KERNELS[name]
    every, f = tuple(range(len(args))), scalar(launched)
    gradient, value = jax.jit(jax.grad(f, every)), jax.jit(f)
    for seed in range(2):
        rng = np.random.default_rng(seed)
        along, eps = [rng.standard_normal(np.shape(a)) for a in args], 1e-6
        high, low = (value(*(a + e * t for a, t in zip(args, along, strict=True))) for e in (eps, -eps))
        slope = sum(np.vdot(g, t) for g, t in zip(gradient(*args), along, strict=True))
        np.testing.assert_allclose(slope, (high - low) / (2 * eps), rtol=1e-6)
    second = {
        "forward-forward": lambda *a: jax.jvp(lambda *a: jax.jvp(f, a, tuple(along))[1], a, tuple(along))[1],
        "forward-reverse": lambda *a: jnp.vdot(flat(jax.jvp(jax.grad(f, every), a, tuple(along))[1]), flat(along)),
        "reverse-forward": lambda *a: jnp.vdot(
            flat(jax.grad(lambda *a: jax.jvp(f, a, tuple(along))[1], every)(*a)), flat(along)
        ),
        "reverse-reverse": lambda *a: jnp.vdot(
            flat(jax.grad(lambda *a: jnp.vdot(flat(jax.grad(f, every)(*a)), flat(along)), every)(*a)), flat(along)
        ),
    }
    found = jax.jit(lambda *a: [g(*a) for g in second.values()])(*args)
    np.testing.assert_allclose(found, [found[0]] * 4, rtol=1e-8)
    high, low = (gradient(*(a + e * t for a, t in zip(args, along, strict=True))) for e in (eps, -eps))
    np.testing.assert_allclose(found[0], np.vdot(flat(high) - flat(low), flat(along)) / (2 * eps), rtol=1e-5)


def test_under_vmap_and_jacobians():
    launched, (x, a) = KERNELS["steps"]

    def reference(x, a):
        def step(last, now):
            x, old = now
            new = jnp.sin(last) * x + old
            return new, new

        _, rest = jax.lax.scan(step, a[:, 0], (x.T, a[:, 1:].T))
        return jnp.concatenate([a[:, :1], rest.T], 1)

    for transform in (jax.jacrev, lambda f, by: jax.jacrev(jax.jacrev(f, by), by)):
        derive = [jax.jit(transform(f, (0, 1))) for f in (lambda x, a: launched(x, a)[0], reference)]
        np.testing.assert_allclose(flat(derive[0](x, a)), flat(derive[1](x, a)), rtol=1e-10, atol=1e-12)
    many = np.stack([x, 1.1 * x, 0.9 * x])
    total = [lambda xs, a, f=f: jnp.sum(jnp.sin(jax.vmap(f, (0, None))(xs, a)))
             for f in (lambda x, a: launched(x, a)[0], reference)]  # fmt: skip
    found, expected = (jax.jit(jax.grad(f, (0, 1)))(many, a) for f in total)
    np.testing.assert_allclose(flat(found), flat(expected), rtol=1e-10)


def test_sweeps_that_overwrite_each_other_are_right_where_they_are_linear():
    """Nothing that was overwritten is needed: only the last argument is differentiated."""
    a, w = rows(2, 6), np.array([0.4])
    call = wp.jax_kernel(many_sweeps, in_out_argnames=["a"], launch_dims=2)

    def reference(w, a):
        a = jnp.asarray(a)
        for _ in range(3):
            for k in range(1, 5):
                a = a.at[:, k].set(w[0] * (a[:, k - 1] + a[:, k + 1]))
        return a

    found, expected = (jax.jit(jax.jacrev(f))(a) for f in (lambda a: call(w, a, 3)[0], lambda a: reference(w, a)))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    with pytest.raises(DifferentiationError, match="a is read here after it may have been overwritten") as error:
        jax.grad(lambda w: call(w, a, 3)[0].sum())(w)
    assert "a[i, k] = w[0] * (a[i, k - 1] + a[i, k + 1])" in str(error.value)
    forward = [jax.jit(jax.jacfwd(f))(w) for f in (lambda w: call(w, a, 3)[0], lambda w: reference(w, a))]
    np.testing.assert_allclose(*forward, rtol=1e-12)


@wp.kernel
def by_data(x: wp.array[F], place: wp.array[int], a: wp.array2d[F]):
    i = wp.tid()
    for k in range(3):
        a[i, k] = wp.sin(a[i, place[k]]) * x[i]


@wp.kernel
def twice(x: wp.array[F], n: int, a: wp.array2d[F]):
    """The second pass overwrites what the first one read, and changed."""
    i = wp.tid()
    for _ in range(2):
        for k in range(n):
            a[i, k + 1] = wp.sin(a[i, k]) * x[i]


@wp.kernel
def ahead(x: wp.array[F], a: wp.array2d[F], n: int):
    """The step is not known, so neither is what comes first."""
    i = wp.tid()
    for k in range(0, 3, n):
        a[i, k + 1] = wp.sin(a[i, k]) * x[i]


def test_what_cannot_be_had_again_is_refused():
    places = np.array([1, 0, 2], np.int32)
    for kernel, extra in ((by_data, (places,)), (twice, (3,))):
        call = wp.jax_kernel(kernel, in_out_argnames=["a"], launch_dims=2)
        with pytest.raises(DifferentiationError, match="a is read here after it may have been overwritten") as error:
            jax.grad(lambda a, call=call, extra=extra: call(rows(2), *extra, a)[0].sum())(rows(2, 5))
        assert "hint: carry the value in a local variable, or write to another output" in str(error.value)
    call = wp.jax_kernel(ahead, in_out_argnames=["a"], launch_dims=2)
    with pytest.raises(DifferentiationError, match="may have been overwritten"):
        jax.grad(lambda a: call(rows(2), a, 1)[0].sum())(rows(2, 5))


CHECKS = {
    "tangent": kit.check_tangent,
    "adjoint": kit.check_adjoint,
    "adjoint-of-tangent": kit.check_adjoint_of_tangent,
    "tangent-of-adjoint": kit.check_tangent_of_adjoint,
}
COUNT = 40


@pytest.mark.parametrize("name", CHECKS)
def test_random_recurrences_are_right_or_refused(name):
    """Some of each: refused, and only possible because the final contents are read."""
    refused = settled = 0
    for seed in range(COUNT):
        case = recurrence_strategy.random_case(seed)
        try:
            CHECKS[name](case)
        except DifferentiationError:
            assert name != "tangent"
            refused += 1
        except AssertionError:
            if "tangent" not in name or name == "adjoint-of-tangent":
                raise
            # A branch may be taken differently a little way off.
            CHECKS[name](case, 3e-8)
        else:
            settled += any(slot.kind == "final" for slot in tangent(case.kernel, case.wanted, case.grid).slots)
    assert refused < COUNT / 2
    assert settled >= 3
