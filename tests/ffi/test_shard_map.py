"""Launches on the shards of 8 virtual devices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxwarp as wp
from jaxwarp import jax_kernel


@wp.kernel
def axpy(s: float, x: wp.array[float], y: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = s * x[i] + y[i]


@wp.kernel
def fill(out: wp.array[float]):
    i = wp.tid()
    out[i] = float(i)


@wp.kernel
def total(x: wp.array[float], sums: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(sums, 0, x[i])


call = jax_kernel(axpy)
X = jnp.arange(32.0)


@pytest.fixture
def mesh():
    return Mesh(np.array(jax.devices()[:8]), "d")


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("wrap", [jax.jit, lambda f: f], ids=["jit", "eager"])
def test_shards(mesh, check_vma, wrap):
    def body(x, y):
        return call(2.0, x, y)[0] + jax.lax.psum(call(1.0, x, y)[0], "d")

    mapped = wrap(jax.shard_map(body, mesh=mesh, in_specs=(P("d"), P("d")), out_specs=P("d"), check_vma=check_vma))
    expected = 3 * X + np.tile(2 * X.reshape(8, 4).sum(0), 8)
    np.testing.assert_allclose(mapped(X, X), expected, rtol=1e-6)


@pytest.mark.parametrize("check_vma", [True, False])
def test_replicated_operands(mesh, check_vma):
    """Operands that vary over the mesh and operands that do not."""
    mapped = jax.shard_map(
        lambda s, x, y: call(s, x, y)[0], mesh=mesh, in_specs=(P(), P("d"), P()), out_specs=P("d"), check_vma=check_vma
    )
    y = jnp.arange(4.0)
    np.testing.assert_allclose(jax.jit(mapped)(3.0, X, y), 3 * X + jnp.tile(y, 8))
    everywhere = jax.shard_map(
        lambda x: call(1.0, x, np.ones(4, np.float32))[0], mesh=mesh, in_specs=P(), out_specs=P(), check_vma=check_vma
    )
    np.testing.assert_allclose(jax.jit(everywhere)(y), y + 1)


@pytest.mark.parametrize("check_vma", [True, False])
def test_in_out_and_no_inputs(mesh, check_vma):
    def body(x):
        (sums,) = jax_kernel(total, in_out_argnames=["sums"])(x, jnp.zeros(1))
        return sums + jax_kernel(fill)(launch_dims=1)[0]

    mapped = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("d"), out_specs=P("d"), check_vma=check_vma))
    np.testing.assert_allclose(mapped(X), X.reshape(8, 4).sum(1))


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("method", [None, "sequential", "broadcast_all"])
def test_vmap_inside_and_outside(mesh, check_vma, method):
    function = jax_kernel(axpy, vmap_method=method)
    kinds = {"mesh": mesh, "in_specs": (P("d"), P()), "out_specs": P("d"), "check_vma": check_vma}
    y = jnp.arange(4.0)
    inside = jax.shard_map(lambda x, y: jax.vmap(lambda s: function(s, x, y)[0], out_axes=1)(jnp.arange(3.0)), **kinds)
    expected = X[:, None] * jnp.arange(3.0) + jnp.tile(y, 8)[:, None]
    np.testing.assert_allclose(jax.jit(inside)(X, y), expected)
    outside = jax.vmap(jax.shard_map(lambda x, y: function(2.0, x, y)[0], **kinds), (0, None))
    np.testing.assert_allclose(jax.jit(outside)(jnp.stack([X, X + 1]), y), 2 * jnp.stack([X, X + 1]) + jnp.tile(y, 8))
    named = jax.vmap(jax.shard_map(lambda x, y: function(2.0, x, y)[0], **kinds), (0, None), spmd_axis_name="e")
    mesh2 = Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("e", "d"))
    kinds["mesh"] = mesh2
    named = jax.vmap(jax.shard_map(lambda x, y: function(2.0, x, y)[0], **kinds), (0, None), spmd_axis_name="e")
    y8 = jnp.arange(8.0)
    np.testing.assert_allclose(jax.jit(named)(jnp.stack([X, X + 1]), y8), 2 * jnp.stack([X, X + 1]) + jnp.tile(y8, 4))


def test_two_mesh_axes():
    mesh = Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("a", "b"))
    mapped = jax.shard_map(
        lambda x, y, s: call(s, x, y)[0], mesh=mesh, in_specs=(P("a"), P("b"), P()), out_specs=P(("a", "b"))
    )
    x, y = jnp.arange(8.0), jnp.arange(16.0)
    got = jax.jit(mapped)(x, y, 2.0).reshape(2, 4, 4)
    np.testing.assert_allclose(got, 2 * x.reshape(2, 1, 4) + y.reshape(1, 4, 4))


def test_explicit_mesh():
    mesh = jax.make_mesh((8,), ("d",), axis_types=(AxisType.Explicit,))
    with jax.set_mesh(mesh):
        x = jax.device_put(X, NamedSharding(mesh, P("d")))
        got = jax.jit(lambda x: call(2.0, x, x)[0] + x)(jnp.asarray(x))
        np.testing.assert_allclose(got, 4 * X)
        np.testing.assert_allclose(jax.jit(lambda: jax_kernel(fill)(launch_dims=4)[0])(), np.arange(4))


def test_jit_on_sharded_arrays(mesh):
    """Correct, though XLA gathers the operands: a launch is not partitioned without shard_map."""
    x = jax.device_put(X, NamedSharding(mesh, P("d")))
    np.testing.assert_allclose(jax.jit(call)(2.0, x, x)[0], 3 * X)
    np.testing.assert_allclose(call(2.0, x, x)[0], 3 * X)
