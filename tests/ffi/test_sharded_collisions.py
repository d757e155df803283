"""Threads that store to one element, over sharded arrays: the last one of the launch wins, or the rule is refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from test_colliding_stores import if_large, scatter, to_halves, to_one
from test_sharding_rule import operations, put

import jaxwarp as wp
from jaxwarp.errors import KernelValueError

N = 16
X = np.random.default_rng(1).uniform(0.1, 0.9, N).astype(np.float32)
INDEX = np.random.default_rng(2).integers(0, 4, N).astype(np.int32)
W = np.array([1.0, -2.0, 0.5, 3.0, 1.5, -1.0, 2.0, 0.25], np.float32)


@pytest.fixture
def mesh():
    return Mesh(np.array(jax.devices()[:8]).reshape(4, 2), ("a", "b"))


def loss(call):
    def total(x, index):
        y = call(x, index)[0]
        return jnp.sum(W[: y.shape[-1]] * y**2)

    return total


def gradient(call):
    return jax.grad(loss(call))


def along(f):
    """The tangent of a function of x and an index."""
    return lambda x, index: jax.jvp(lambda x: f(x, index), (x,), (jnp.cos(x),))[1]


DERIVED = {
    "value": lambda call: lambda x, index: call(x, index)[0],
    "gradient": gradient,
    "tangent": lambda call: along(lambda x, index: call(x, index)[0]),
    "batch": lambda call: lambda x, index: jax.vmap(gradient(call), (0, None))(jnp.stack([x, 1 - x]), index),
    "second": lambda call: along(gradient(call)),
}


@pytest.mark.parametrize("derived", DERIVED)
@pytest.mark.parametrize("kernel", [to_one, to_halves, if_large, scatter], ids=lambda k: k.name)
def test_the_last_thread_of_all_shards_wins(mesh, kernel, derived):
    """What the threads share is not cut, with a rule and without."""
    extent = 8 if kernel is to_halves else 4
    f = DERIVED[derived](wp.jax_kernel(kernel, output_dims=extent))
    expected = jax.jit(f)(X, INDEX)
    args = put(mesh, X, ("a", "b")), put(mesh, INDEX, "a")
    for rule in (None, "i, i -> n"):
        call = wp.jax_kernel(kernel, output_dims=extent, sharding_rule=rule)
        np.testing.assert_allclose(jax.jit(DERIVED[derived](call))(*args), expected, rtol=1e-6)


@pytest.mark.parametrize("kernel", [to_one, to_halves, if_large, scatter], ids=lambda k: k.name)
def test_a_rule_by_which_shards_would_meet_is_refused(kernel):
    call = wp.jax_kernel(kernel, output_dims=N, sharding_rule="i, i -> i")
    with pytest.raises(KernelValueError, match="cut along 'i': a thread uses elements of y other than its own"):
        call(X, INDEX)


@wp.kernel
def own_and_common(x: wp.array[float], index: wp.array[int], own: wp.array[float], common: wp.array[float]):
    i = wp.tid()
    own[i] = wp.sin(x[i])
    common[index[i]] = x[i] * x[i]


def test_an_output_of_all_shards_beside_one_of_each():
    dims = {"own": N, "common": 4}
    call = wp.jax_kernel(own_and_common, num_outputs=2, sharding_rule="i, i -> i, n", output_dims=dims)
    with pytest.raises(KernelValueError, match="threads along it write the same elements of common"):
        call(X, INDEX)


@wp.kernel
def last_of_the_row(x: wp.array2d[float], index: wp.array[int], y: wp.array2d[float]):
    i, j = wp.tid()
    y[i, index[j]] = x[i, j] * x[i, j]


@pytest.mark.parametrize("derived", DERIVED)
def test_collisions_within_a_shard(mesh, derived):
    """Along i the launch is cut, and nothing is gathered; along j threads meet."""
    rows = np.stack([np.roll(X, k) for k in range(8)])
    options = {"launch_dims": (8, N), "output_dims": (8, 4)}

    expected = jax.jit(DERIVED[derived](wp.jax_kernel(last_of_the_row, **options)))(rows, INDEX)
    cut = DERIVED[derived](wp.jax_kernel(last_of_the_row, **options, sharding_rule="i j, j -> i n"))
    args = put(mesh, rows, ("a", "b"), None), put(mesh, INDEX)
    np.testing.assert_allclose(jax.jit(cut)(*args), expected, rtol=1e-6)
    assert "all-gather" not in operations(cut, *args)


@pytest.mark.parametrize("derived", ["value", "gradient"])
def test_each_shard_of_a_shard_map_has_its_own_winner(mesh, derived):
    call = wp.jax_kernel(to_one, output_dims=1)
    f = jax.shard_map(lambda x, index: call(x, index)[0], mesh=mesh, in_specs=P("a"), out_specs=P("a"))
    last = np.arange(N) % 4 == 3
    if derived == "value":
        np.testing.assert_allclose(jax.jit(f)(X, INDEX), X[last] ** 2, rtol=1e-6)
    else:
        gradient = jax.jit(jax.grad(lambda x: jnp.sum(W[:4] * f(x, INDEX))))(X)
        np.testing.assert_allclose(gradient, np.where(last, 2 * X * np.repeat(W[:4], 4), 0), rtol=1e-6)
