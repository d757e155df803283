"""XLA flushes subnormal numbers on the CPU; a kernel's arithmetic is that of the interpreter all the same."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp


@wp.kernel
def halve(x: wp.array[wp.float32], y: wp.array[wp.float32]):
    i = wp.tid()
    y[i] = x[i] * 0.5


@pytest.mark.parametrize("size", [8, 1_000_000], ids=["inline", "split"])
def test_subnormals_are_kept(size):
    x = np.full(size, 2e-39, np.float32)
    (y,) = jax.jit(wp.jax_kernel(halve))(x)
    np.testing.assert_array_equal(y, x * np.float32(0.5))


def test_what_runs_after_a_launch_has_the_mode_of_xla():
    x = jnp.full(8, 2e-39, jnp.float32)
    alone = np.asarray(jax.jit(lambda x: x * 0.5)(x))
    together = np.asarray(jax.jit(lambda x: wp.jax_kernel(halve)(x)[0] * 0.5)(x * 4))
    np.testing.assert_array_equal(alone == 0, together == 0)
