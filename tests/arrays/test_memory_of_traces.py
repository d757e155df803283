"""Arrays outside of JAX that a function makes while JAX traces it: launches on them happen at once."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError


@wp.kernel
def double(a: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = a[i] * 2.0


def made():
    a = wp.array([1.0, 2.0, 3.0], dtype=float)
    b = wp.zeros_like(a)
    wp.launch(double, 3, [a], [b])
    wp.launch(double, 3, [b], [b])
    b[0] = 7.0
    part = b[1:]
    part.fill_(9.0)
    wp.copy(a, b)
    return np.array(a.numpy())


def test_arrays_of_the_traced_function_may_be_written():
    np.testing.assert_array_equal(jax.jit(lambda x: x + made())(jnp.zeros(3)), [7, 9, 9])
    found = jax.vmap(lambda x: x + made())(jnp.zeros((2, 3)))
    np.testing.assert_array_equal(found, [[7, 9, 9]] * 2)
    np.testing.assert_array_equal(jax.jacfwd(lambda x: x * made())(jnp.zeros(3)), np.diag([7, 9, 9]))


def test_other_arrays_may_not():
    outside, numbers = wp.zeros(3), np.zeros(3, np.float32)
    taken = wp.array(numbers, dtype=float, copy=False)
    kept = []

    def writes(x):
        wp.launch(double, 3, [np.ones(3, np.float32)], [outside])
        return x

    def shares(x):
        wp.array(numbers, dtype=float, copy=False).fill_(1.0)
        return x

    def takes(x):
        taken.fill_(1.0)
        return x

    def inner(x):
        mine = wp.zeros(3)

        def body(_, y):
            mine.fill_(1.0)
            return y

        return jax.lax.fori_loop(0, 3, body, x)

    def again(x):
        if kept:
            kept[0].fill_(1.0)
        kept.append(wp.zeros(3))
        return x

    jax.jit(again)(jnp.zeros(1))
    for function in (writes, shares, takes, inner, again):
        with pytest.raises(KernelTypeError, match="in a function that JAX traces"):
            jax.jit(function)(jnp.zeros(3))
    assert not outside.numpy().any()
    assert not numbers.any()
    kept[0].fill_(2.0)  # outside of all traces
    assert kept[0].numpy().tolist() == [2, 2, 2]
