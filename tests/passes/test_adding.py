"""Kernels that add to arrays what they were made to leave in zeros."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.ffi.primitive import launch_p
from jaxwarp.ir.interpret import interpret
from jaxwarp.passes.launches.adding import adding


@wp.kernel
def once(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    if i % 2 == 0:
        y[i] = wp.sin(x[i])


@wp.kernel
def own(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * x[i] + wp.cos(x[i])


@wp.kernel
def neighbours(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * x[(i + 1) % x.shape[0]]


def reverse_of(kernel):
    """The launch that the reverse of a kernel over six elements is."""
    launched = wp.jax_kernel(kernel, launch_dims=6)
    ones = jnp.ones(6, jnp.float32)
    traced = jax.make_jaxpr(lambda x: jax.vjp(lambda x: launched(x)[0], x)[1](ones)[0])(ones)
    found = []

    def walk(jaxpr):
        for eqn in jaxpr.eqns:
            if eqn.primitive is launch_p:
                found.append(eqn.params["launch"])
            for value in eqn.params.values():
                if hasattr(value, "jaxpr"):
                    walk(value.jaxpr)

    walk(traced.jaxpr)
    return found[-1]


@pytest.mark.parametrize("kernel", [once, own, neighbours], ids=lambda kernel: kernel.name)
def test_sums_start_from_what_is_there(kernel):
    launch = reverse_of(kernel)
    (place,) = [i for i, role in enumerate(launch.roles) if role == "output"]
    random = np.random.default_rng(3)
    values = [random.uniform(0.5, 1.5, 6).astype(np.float32) for _ in launch.roles]
    before = values[place].copy()

    def result(ir, start):
        arrays = [start.copy() if i == place else value.copy() for i, value in enumerate(values)]
        interpret(ir, launch.grid, arrays)
        return arrays[place]

    zeros = np.zeros(6, np.float32)
    added = adding(launch.kernel, (place,))
    np.testing.assert_allclose(result(added, before), before + result(launch.kernel, zeros), rtol=1e-6)
    np.testing.assert_array_equal(result(added, zeros), result(launch.kernel, zeros))
    assert adding(launch.kernel, ()) is launch.kernel
