"""Keys of JAX as arguments of kernels: streams of `rand_init(key, i)`."""

from __future__ import annotations

from functools import partial

import hostcuda
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry_2x32
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from language import run

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError
from jaxwarp.passes.pipeline import prepare

N, DRAWS = 16, 3


@wp.kernel
def draw(key: wp.PRNGKey, out: wp.array2d[wp.uint32]):
    i = wp.tid()
    state = wp.rand_init(key, i)
    for j in range(out.shape[1]):
        out[i, j] = wp.randu(state)


@wp.kernel
def draw_each(keys: wp.array[wp.PRNGKey], out: wp.array2d[wp.uint32]):
    i = wp.tid()
    state = wp.rand_init(keys[i])
    for j in range(out.shape[1]):
        out[i, j] = wp.randu(state)


@wp.kernel
def scaled(key: wp.PRNGKey, x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    state = wp.rand_init(key, i)
    y[i] = x[i] * wp.randn(state) + wp.randf(state, 0.0, x[i])


f = wp.jax_kernel(draw, launch_dims=N, output_dims=(N, DRAWS))
g = wp.jax_kernel(draw_each, output_dims=(N, DRAWS))
h = wp.jax_kernel(scaled)


def expected(key: jax.Array, streams: int = N) -> np.ndarray:
    """The same by JAX's own Threefry."""
    own = jax.random.key_data(jax.random.fold_in(key, 0x6A617877))
    i, n = np.meshgrid(np.arange(streams), np.arange(DRAWS), indexing="ij")
    blocks = jnp.asarray(np.stack([i.ravel(), n.ravel()]), "uint32")
    return np.asarray(threefry_2x32(own, blocks)[0]).reshape(streams, DRAWS)


def test_streams_are_threefry_on_blocks_that_differ():
    key = jax.random.key(7)
    np.testing.assert_array_equal(f(key)[0], expected(key))
    np.testing.assert_array_equal(f(jax.random.PRNGKey(7))[0], expected(key))
    keys = jax.random.split(key, N)
    one_each = np.stack([expected(k, 1)[0] for k in keys])
    np.testing.assert_array_equal(g(keys)[0], one_each)
    np.testing.assert_array_equal(g(jax.random.key_data(keys))[0], one_each)


def test_interpreter_widths_and_cuda_draw_the_same():
    key = jax.random.key(7)
    data = np.asarray(jax.random.key_data(key))
    out = run(draw, N, data, np.zeros((N, DRAWS), np.uint32))[-1]
    np.testing.assert_array_equal(out, expected(key))
    on_cuda = np.zeros((N, DRAWS), np.uint32)
    hostcuda.run_host(prepare(draw.specialize()), (N,), [data, on_cuda])
    np.testing.assert_array_equal(on_cuda, expected(key))


def test_transformations():
    key = jax.random.key(3)
    keys = jax.random.split(key, 4)
    want = np.stack([expected(k) for k in keys])
    np.testing.assert_array_equal(jax.jit(f)(key)[0], expected(key))
    np.testing.assert_array_equal(jax.vmap(f)(keys)[0], want)
    np.testing.assert_array_equal(jax.jit(jax.vmap(f))(keys)[0], want)
    np.testing.assert_array_equal(jax.lax.map(lambda k: f(k)[0], keys), want)

    def step(carry, _):
        carry, own = jax.random.split(carry)
        return carry, f(own)[0]

    _, scanned = jax.lax.scan(step, key, length=2)
    chain, first = jax.random.split(key)
    np.testing.assert_array_equal(scanned[0], expected(first))
    np.testing.assert_array_equal(scanned[1], expected(jax.random.split(chain)[1]))
    mesh = Mesh(np.array(jax.devices()[:1]), ("d",))
    sharded = jax.shard_map(lambda k: f(k[0])[0], mesh=mesh, in_specs=P("d"), out_specs=P("d"))
    np.testing.assert_array_equal(sharded(keys[:1]), want[0])


def test_what_draws_are_multiplied_with_has_derivatives():
    key, x = jax.random.key(5), jnp.arange(1.0, 9.0)
    y = h(key, x)[0]
    np.testing.assert_allclose(jax.grad(lambda x: h(key, x)[0].sum())(x), y / x, rtol=1e-5)
    np.testing.assert_allclose(jax.jvp(lambda x: h(key, x)[0], (x,), (x,))[1], y, rtol=1e-5)
    per_key = jax.vmap(jax.grad(lambda x, k: h(k, x)[0].sum()), (None, 0))(x, jax.random.split(key, 2))
    assert per_key.shape == (2, 8)


def test_in_a_program():
    @partial(wp.jax_callable, num_outputs=1)
    def program(key: wp.PRNGKey, out: wp.array2d[wp.uint32]):
        wp.launch(draw, dim=out.shape[0], inputs=[key], outputs=[out])

    key = jax.random.key(7)
    np.testing.assert_array_equal(program(key, output_dims=(N, DRAWS))[0], expected(key))


@wp.struct
class Sampler:
    key: wp.PRNGKey
    scale: float


@wp.kernel
def draw_scaled(sampler: Sampler, out: wp.array[float]):
    i = wp.tid()
    state = wp.rand_init(sampler.key, i)
    out[i] = sampler.scale * wp.randf(state)


def test_a_field_of_a_struct():
    call = wp.jax_kernel(draw_scaled, launch_dims=N, output_dims=N)
    keys = jax.random.split(jax.random.key(1), 3)
    expected = call(Sampler(jax.random.key_data(keys[0]), 2.0))[0]
    for f in (call, jax.jit(call)):
        np.testing.assert_array_equal(f(Sampler(keys[0], 2.0))[0], expected)
    many = jax.vmap(call)(Sampler(keys, jnp.array([2.0, 1.0, 1.0])))[0]
    np.testing.assert_array_equal(many[0], expected)
    assert Sampler(keys[0]) == Sampler(keys[0])
    assert Sampler(keys[0]) != Sampler(keys[1])
    with pytest.raises(KernelTypeError, match=r"struct Sampler: field scale: expected float32, got key<fry>"):
        Sampler(scale=keys[0])


def test_launches_outside_of_jax():
    keys = jax.random.split(jax.random.key(1), 3)
    for kernel, given in ((draw, keys[0]), (draw_each, keys)):
        found, expected = wp.zeros((3, DRAWS), dtype=wp.uint32), wp.zeros((3, DRAWS), dtype=wp.uint32)
        for _ in range(2):
            wp.launch(kernel, dim=3, inputs=[given], outputs=[found])
        wp.launch(kernel, dim=3, inputs=[jax.random.key_data(given)], outputs=[expected])
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
        assert found.numpy().any()

    @wp.kernel
    def plain(x: wp.array[float], out: wp.array[float]):
        i = wp.tid()
        out[i] = x[i]

    for kernel, given, message in (
        (plain, keys, r"kernel plain: argument 'x': expected array\[float32, 1\], got key<fry> of shape \(3,\)"),
        (draw, jax.random.key(1, impl="rbg"), r"kernel draw: argument 'key': expected .* \(2,\), got .* \(4,\)"),
    ):
        with pytest.raises(KernelTypeError, match=message):
            wp.launch(kernel, dim=3, inputs=[given], outputs=[wp.zeros((3, DRAWS))])


def test_export():
    key = jax.random.key(1)
    exported = jax.export.export(jax.jit(f), disabled_checks=wp.export_checks())(key)
    again = jax.export.deserialize(exported.serialize())
    np.testing.assert_array_equal(again.call(key)[0], expected(key))


@pytest.mark.parametrize(
    ("call", "message"),
    {
        "f(jax.random.key(0, impl='rbg'))": "expected a key of the generator threefry2x32, got key<rbg> of shape ()",
        "f(jax.random.split(jax.random.key(0), 3))": "expected one key, got keys of shape (3,)",
        "g(jax.random.key(0))": "expected keys of shape (?,), got keys of shape ()",
        "h(jax.random.key(0), jax.random.key(0))": "expected float32 of shape (?,), got key<fry> of shape ()",
    }.items(),
)
def test_what_is_no_key_of_the_kernel(call, message):
    with pytest.raises(KernelTypeError) as caught:
        eval(call)
    assert message in caught.value.message
    assert caught.value.hint


def test_a_seed_is_no_key():
    with pytest.raises(KernelTypeError, match=r"argument 'key': expected uint32 of shape \(2,\), got int") as caught:
        f(42)
    assert caught.value.hint == "pass a key of JAX, jax.random.key(seed), or its 2 numbers"
