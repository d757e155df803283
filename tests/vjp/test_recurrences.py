"""Recurrences along arrays, in reverse: against finite differences, and second order against forward mode."""

from __future__ import annotations

import derivativekit as kit
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import recurrence_strategy
from orders import check_orders, flat
from recurrences import KERNELS, many_sweeps, rows

import jaxwarp as wp
from jaxwarp.errors import DifferentiationError
from jaxwarp.vjp.forward.tangent import tangent


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("name", KERNELS)
def test_gradient_and_hessian(name):
    check_orders(*KERNELS[name])


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
    assert refused < (0.4 if name == "adjoint-of-tangent" else 0.6) * COUNT  # the others have no records
    assert settled >= 2
