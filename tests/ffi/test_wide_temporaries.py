"""Arrays of 64-bit types that a `jax_callable` makes for itself, where JAX has no such types for others."""

from __future__ import annotations

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

import jaxwarp as wp
from jaxwarp import GraphMode
from jaxwarp.errors import KernelTypeError

SHIFT = 33
TRACED = [GraphMode.JAX, GraphMode.WARP]
MODES = [*TRACED, GraphMode.NONE]


@wp.kernel
def make_keys(x: wp.array[int], keys: wp.array[wp.int64]):
    i = wp.tid()
    keys[i] = (wp.int64(x[i]) << wp.int64(SHIFT)) + wp.int64(i)


@wp.kernel
def raise_keys(keys: wp.array[wp.int64], by: wp.int64, left: wp.array[int]):
    i = wp.tid()
    keys[i] = keys[i] + by
    if i == 0:
        left[0] = left[0] - 1


@wp.kernel
def read_keys(keys: wp.array[wp.int64], y: wp.array[int]):
    i = wp.tid()
    y[i] = int(keys[i] >> wp.int64(SHIFT)) * 100 + int(keys[i] & wp.int64(63))


@wp.kernel
def square(x: wp.array[float], y: wp.array[wp.float64]):
    i = wp.tid()
    y[i] = wp.float64(x[i]) * wp.float64(x[i])


@wp.kernel
def less_one(y: wp.array[wp.float64], z: wp.array[float]):
    i = wp.tid()
    z[i] = float(wp.float64(2.0) * (y[i] - wp.float64(1.0)))


def keys_of(mode, **options):
    """Keys are made, raised three times in a loop, changed in parts, copied and read."""

    def run(x: wp.array[int], y: wp.array[int]):
        keys = wp.empty(x.shape, dtype=wp.int64)
        left = wp.full(1, 3, dtype=int)
        wp.launch(make_keys, x.shape, inputs=[x], outputs=[keys])
        wp.capture_while(left, lambda: wp.launch(raise_keys, x.shape, inputs=[keys, 1 << SHIFT, left]))
        filled = wp.full(x.shape, (7 << SHIFT) + 5, dtype=wp.int64)
        keys[:1].assign(filled[1:2])
        keys[2:3].fill_((8 << SHIFT) + 6)
        whole = wp.empty((x.shape[0], 1), dtype=wp.int64)
        whole.assign(keys.reshape((-1, 1)))
        wp.launch(read_keys, x.shape, inputs=[wp.clone(whole).flatten()], outputs=[y])

    return wp.jax_callable(run, graph_mode=mode, **options)


def expected(x):
    found = (np.asarray(x) + 3) * 100 + np.arange(np.shape(x)[-1])
    found[..., 0], found[..., 2] = 705, 806
    return found


X = np.arange(1, 6, dtype=np.int32)
WORLDS = np.stack([X, X + 3])


def again(function):
    """The function applied twice, by a loop."""
    return lambda x: jax.lax.scan(lambda y, _: (function(y), None), x, None, length=2)[0]


@pytest.mark.parametrize("mode", MODES)
def test_what_lives_inside_may_have_64_bits_under_each_transformation(mode):
    call = keys_of(mode)

    def one(x):
        return call(x)[0]

    np.testing.assert_array_equal(one(X), expected(X))
    np.testing.assert_array_equal(jax.jit(one)(X), expected(X))
    for mapped in (jax.vmap(one), jax.jit(jax.vmap(one)), jax.vmap(jax.jit(one))):
        np.testing.assert_array_equal(mapped(WORLDS), expected(WORLDS))
    np.testing.assert_array_equal(jax.jit(again(jax.vmap(one)))(WORLDS), expected(expected(WORLDS)))
    chosen = jax.vmap(lambda x: jax.lax.cond(x[0] > 1, one, lambda x: x, x))(WORLDS)
    np.testing.assert_array_equal(chosen, [X, expected(WORLDS[1])])
    repeated = jax.jit(lambda x: jax.lax.while_loop(lambda x: x[1] < 100, one, x))(X)
    np.testing.assert_array_equal(repeated, expected(X))
    assert not jax.config.jax_enable_x64


@pytest.mark.parametrize("mode", TRACED)
def test_worlds_one_after_the_other_and_on_several_devices(mode):
    call = keys_of(mode, vmap_method="sequential")
    np.testing.assert_array_equal(jax.jit(jax.vmap(call))(WORLDS)[0], expected(WORLDS))
    devices = jax.devices()[:2]
    mesh = Mesh(np.array(devices), ("worlds",))
    spec = PartitionSpec("worlds")
    sharded = jax.shard_map(jax.vmap(lambda x: call(x)[0]), mesh=mesh, in_specs=spec, out_specs=spec)
    np.testing.assert_array_equal(jax.jit(sharded)(WORLDS), expected(WORLDS))


@pytest.mark.parametrize("mode", TRACED)
def test_derivatives_go_through_doubles(mode):
    def run(x: wp.array[float], z: wp.array[float]):
        y = wp.zeros(x.shape, dtype=wp.float64)
        wp.launch(square, x.shape, inputs=[x], outputs=[y])
        wp.launch(less_one, x.shape, inputs=[y], outputs=[z])

    call = wp.jax_callable(run, graph_mode=mode)
    x = jnp.array([1.0 + 2.0**-20, 3.0])
    # In single precision the first would be 2^-18 exactly: the square of 2^-20 is lost.
    np.testing.assert_array_equal(call(x)[0], np.array([2.0**-18 + 2.0**-39, 16.0], np.float32))

    def total(x):
        return call(x)[0].sum()

    for gradient in (jax.grad(total), jax.jit(jax.grad(total)), jax.grad(jax.jit(total))):
        np.testing.assert_allclose(gradient(x), 4.0 * x, rtol=1e-6)
        np.testing.assert_allclose(jax.vmap(gradient)(jnp.stack([x, -x])), 4.0 * jnp.stack([x, -x]), rtol=1e-6)
    _, tangent = jax.jvp(lambda x: call(x)[0], (x,), (jnp.ones_like(x),))
    np.testing.assert_allclose(tangent, 4.0 * x, rtol=1e-6)
    np.testing.assert_allclose(jax.hessian(total)(x), 4.0 * np.eye(2), rtol=1e-6)
    twice = jax.grad(lambda x: again(lambda x: call(x)[0])(x).sum())
    np.testing.assert_allclose(twice(x), 16.0 * x * (2.0 * x * x - 2.0), rtol=1e-4)


def test_what_comes_in_and_goes_out_obeys_jax():
    def takes(keys: wp.array[wp.int64], y: wp.array[int]):
        wp.launch(read_keys, y.shape, inputs=[keys], outputs=[y])

    def gives(x: wp.array[int], keys: wp.array[wp.int64]):
        wp.launch(make_keys, x.shape, inputs=[x], outputs=[keys])

    def shows(x: wp.array[int], y: wp.array[int]):
        keys = wp.zeros(x.shape, dtype=wp.int64)
        y.assign(keys.value)

    for function, given in ((takes, np.arange(3)), (gives, X), (shows, X)):
        with pytest.raises(KernelTypeError, match="int64, but 64-bit types are not enabled in JAX") as refused:
            wp.jax_callable(function)(given)
        assert "jax_enable_x64" in str(refused.value)
    with jax.enable_x64(True):
        assert wp.jax_callable(gives)(jnp.asarray(X))[0].dtype == jnp.int64


@pytest.mark.parametrize("mode", TRACED)
def test_derivatives_go_through_doubles_that_are_set_in_parts_and_sorted(mode):
    def run(x: wp.array[float], z: wp.array[float]):
        y = wp.zeros(x.shape, dtype=wp.float64)
        wp.launch(square, x.shape, inputs=[x], outputs=[y])
        y[1:2].fill_(5.0)
        wp.array(ptr=y.ptr, dtype=wp.float64, shape=(1,)).fill_(6.0)
        order = wp.zeros(x.shape, dtype=wp.int64)
        wp.launch(make_keys, x.shape, inputs=[wp.zeros(x.shape, dtype=int)], outputs=[order])
        wp.utils.radix_sort_pairs(y, order, 4)
        wp.launch(less_one, x.shape, inputs=[y], outputs=[z])

    call = wp.jax_callable(run, graph_mode=mode)
    x, weights = np.array([1.0, 2.0, 3.0, 2.0, 3.0], np.float32), np.arange(1.0, 6.0, dtype=np.float32)
    np.testing.assert_array_equal(call(x)[0], [6.0, 8.0, 10.0, 16.0, 16.0])
    gradient = jax.grad(lambda x: (call(x)[0] * weights).sum())
    expected = np.array([0.0, 0.0, 4.0 * 3.0 * 4.0, 4.0 * 2.0 * 1.0, 4.0 * 3.0 * 5.0])
    np.testing.assert_array_equal(jax.jit(gradient)(x), expected)
    np.testing.assert_array_equal(jax.jit(jax.vmap(gradient))(x[None]), expected[None])


def test_integers_that_may_not_fit_fill_no_array():
    def wide(x: wp.array[int], y: wp.array[int]):
        y.fill_(wp.full(1, 1 << 40, dtype=wp.int64)[0])

    def negative(x: wp.array[int], y: wp.array[int]):
        y.assign(wp.full(x.shape, x[0], dtype=wp.uint32).value.astype(np.int32))

    for function, types in ((wide, ("int32", "int64")), (negative, ("uint32", "int32"))):
        with pytest.raises(KernelTypeError, match="expected a value of {}, got {}".format(*types)):
            wp.jax_callable(function)(X)

    def fits(x: wp.array[int], y: wp.array[int]):
        wp.launch(read_keys, x.shape, inputs=[wp.full(x.shape, x[0], dtype=wp.int64)], outputs=[y])

    np.testing.assert_array_equal(wp.jax_callable(fits)(X)[0], X[0] + 0 * X)


@pytest.mark.parametrize("mode", TRACED)
def test_programs_are_exported_and_checked(mode, monkeypatch):
    call = keys_of(mode)
    stored = jax.export.export(jax.jit(call), disabled_checks=wp.export_checks())(jax.ShapeDtypeStruct((5,), np.int32))
    np.testing.assert_array_equal(jax.export.deserialize(stored.serialize()).call(X)[0], expected(X))
    monkeypatch.setattr(wp.config, "mode", "debug")
    np.testing.assert_array_equal(jax.jit(jax.vmap(call))(WORLDS)[0], expected(WORLDS))
