"""Reversed loops around the trip counts where the schedule of checkpoints changes, against forward mode in float64."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp


@wp.kernel
def pendulum(x: wp.array[wp.float64], n: int, y: wp.array[wp.float64]):
    i = wp.tid()
    v = x[i]
    w = wp.float64(0.3)
    h = wp.float64(1.0) / wp.float64(n)
    for _ in range(n):
        w -= h * wp.sin(v) + h * wp.float64(0.1) * w * w
        v += h * w
    y[i] = v + w


@pytest.mark.parametrize("turns", [1, 2, 31, 32, 33, 34, 64, 527, 528, 529, 5984, 5985, 20000])
def test_any_number_of_turns(turns):
    with jax.enable_x64(True):
        x = jnp.linspace(0.5, 2.0, 37)
        call = lambda x: wp.jax_kernel(pendulum)(x, turns)[0]  # noqa: E731
        slope = jax.jvp(call, (x,), (jnp.ones(37),))[1]
        np.testing.assert_allclose(jax.grad(lambda x: call(x).sum())(x), slope, rtol=1e-9, atol=1e-11)
