"""Gradients of kernels with known answers: right or refused, never wrong."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conformance import run

CASES = run.load("jaxwarp")


def test_there_are_enough():
    assert len(CASES) >= 40


@pytest.mark.parametrize("name", CASES)
def test_gradient(name):
    assert run.verdict(run.jaxwarp_gradient, CASES[name]) == "right"


COLLIDING = ["stored_by_all_threads", "stored_by_pairs_of_threads", "stored_by_some_threads", "stored_where_data_says",
             "kept_where_nobody_stores"]  # fmt: skip
MODES = (jax.jacfwd, jax.jacrev)


def differences(f, x):
    eps, unit = 1e-5, np.eye(len(x))
    return np.stack([(np.asarray(f(x + eps * e)) - np.asarray(f(x - eps * e))) / (2 * eps) for e in unit])


@pytest.mark.parametrize("name", COLLIDING)
def test_threads_that_store_to_one_element_in_every_mode(name):
    """Forward, reverse, finite differences, batches and second order say the same of who wins."""
    case = CASES[name]
    with jax.enable_x64(True):
        loss, x = jax.jit(run.jaxwarp_loss(case)), jnp.asarray(case.arguments[case.by])
        gradient, tangents = jax.jit(jax.grad(loss)), jax.jit(jax.jacfwd(loss))
        for found in (gradient(x), tangents(x), differences(loss, x)):
            np.testing.assert_allclose(found, case.expected, rtol=1e-8, atol=1e-8)
        xs = jnp.stack([x, x[::-1], 1.3 * x])  # the last one has another winner, where data decides
        for derivative in (gradient, tangents):
            np.testing.assert_array_equal(jax.vmap(derivative)(xs), [derivative(row) for row in xs])
        of_batch = jax.grad(lambda xs: jnp.sum(jax.vmap(loss)(xs)))(xs)
        np.testing.assert_array_equal(of_batch, [gradient(row) for row in xs])
        expected = differences(gradient, x)
        for outer, inner in itertools.product(MODES, repeat=2):
            np.testing.assert_allclose(jax.jit(outer(inner(loss)))(x), expected, rtol=1e-8, atol=1e-8)


NAMES = list(CASES)
LATER = NAMES[NAMES.index("product_of_quaternions") :]


def test_there_are_enough_of_what_kernels_got_later():
    """Quaternions, structs, random numbers, decompositions, slices, rules of several results."""
    assert len(LATER) >= 30


@pytest.mark.parametrize("name", LATER)
def test_forward_mode_and_second_order(name):
    case = CASES[name]
    with jax.enable_x64(True):
        loss, x = jax.jit(run.jaxwarp_loss(case)), jnp.asarray(case.arguments[case.by])
        # Where a component is 0 it stays: a length has no second derivative there.
        move = jnp.asarray(np.where(x != 0, np.cos(np.arange(x.size)).reshape(x.shape), 0.0))
        gradient = jax.jit(jax.grad(loss))
        slope, bend = jax.jit(lambda x: jax.jvp(gradient, (x,), (move,)))(x)
        np.testing.assert_allclose(slope, case.expected, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(jax.jvp(loss, (x,), (move,))[1], jnp.sum(case.expected * move), rtol=1e-8, atol=1e-8)
        eps = 1e-5
        expected = (gradient(x + eps * move) - gradient(x - eps * move)) / (2 * eps)
        np.testing.assert_allclose(bend, expected, rtol=1e-6, atol=1e-6)


def test_a_wrong_gradient_is_noticed():
    case = CASES["reciprocal"]
    assert run.verdict(lambda case: -case.expected, case) == "WRONG"
    assert run.verdict(lambda case: case.expected[:2], case) == "WRONG"
    assert run.verdict(lambda case: case.expected, case) == "right"
