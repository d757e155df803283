"""Textures in JAX, and on tapes: derivatives by coordinates and texels, batches, devices, files."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jax.test_util import check_grads

import jaxwarp as wp
from jaxwarp import TextureAddressMode as Address
from jaxwarp import TextureFilterMode as Filter
from jaxwarp.errors import KernelTypeError
from tests.textures.kernels import CLASSES, KERNELS, sampled

SHAPES = {1: (4,), 2: (4, 8), 3: (4, 8, 4)}
RANDOM = np.random.default_rng(0)


def image(axes: int, channels: int = 1) -> jax.Array:
    return jnp.asarray(RANDOM.normal(size=(*SHAPES[axes], channels)), jnp.float32)


def places(axes: int, count: int = 6) -> jax.Array:
    """In texels, from -8 to 16, a quarter of a cell or more away from where derivatives jump."""
    cells = RANDOM.integers(-8, 16, (count, axes)) + 0.5 + RANDOM.uniform(0.25, 0.75, (count, axes))
    return jnp.asarray(cells, jnp.float32)


@pytest.mark.parametrize("axes", CLASSES)
def test_derivatives_by_places_and_texels(axes):
    """In every address mode: one program, of which each result is that of a mode."""
    where = places(axes)

    @jax.jit
    def samples(data, where):
        textures = [CLASSES[axes](data, address_mode=mode, normalized_coords=False) for mode in Address]
        return [sampled(texture, where) for texture in textures]

    check_grads(samples, (image(axes), where), order=2, modes=["fwd", "rev"], eps=1e-2, atol=2e-2, rtol=2e-2)


def test_derivatives_by_the_level_of_detail():
    @jax.jit
    def samples(data, where, lod):
        return sampled(wp.Texture2D(data, num_mip_levels=2, normalized_coords=False), where, lod)

    # At the centres of quarters of texels no level jumps.
    given = image(2), jnp.array([[2.25, 1.75], [4.75, 2.25]]), jnp.float32(0.4)
    check_grads(samples, given, order=2, modes=["fwd", "rev"], eps=1e-2, atol=2e-2, rtol=2e-2)
    slope = jax.grad(lambda lod: samples(given[0], given[1], lod).sum())
    assert slope(-0.5) == 0
    assert slope(1.5) == 0


def test_a_gradient_is_a_texture():
    data = image(2)
    texture = wp.Texture2D(data, normalized_coords=False)
    gradient = jax.grad(lambda t: sampled(t, jnp.array([[2.0, 1.5]])).sum(), allow_int=True)(texture)
    want = np.zeros((4, 8, 1))
    want[1, 1:3] = 0.5
    np.testing.assert_array_equal(gradient.data, want)


@pytest.mark.parametrize("axes", CLASSES)
def test_slopes_do_not_cancel_beside_a_large_value(axes):
    steps = 8.0 * (np.prod(np.indices(SHAPES[axes]) + 1.0, axis=0) - 1.0)
    where = jnp.full((1, axes), 1.3)

    def slopes(offset):
        texture = CLASSES[axes]((steps + offset).astype(np.float32), normalized_coords=False)
        return jax.grad(lambda x: sampled(texture, x).sum())(where)

    np.testing.assert_allclose(slopes(1e8), slopes(0.0), rtol=1e-6)


def test_the_closest_texel_has_no_slope():
    texture = wp.Texture2D(image(2), filter_mode=Filter.CLOSEST)
    slopes = jax.grad(lambda x: sampled(texture, x).sum())(places(2))
    np.testing.assert_array_equal(slopes, 0.0)


def test_making_is_a_function_of_jax():
    data, where = jnp.stack([image(2), image(2)]), places(2) / 8

    def samples(data):
        return sampled(wp.Texture2D(data, num_mip_levels=2), where, 0.5)

    each = jnp.stack([samples(d) for d in data])
    np.testing.assert_allclose(jax.vmap(samples)(data), each, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(samples)(data[0]), each[0], rtol=1e-6)
    many = jax.vmap(wp.Texture2D)(data)
    assert many.data.shape == (2, 4, 8, 1)
    np.testing.assert_allclose(jax.vmap(lambda t: sampled(t, where))(many)[1], sampled(wp.Texture2D(data[1]), where))


def test_integers_have_no_derivative_and_places_do():
    data = RANDOM.integers(0, 255, (4, 8)).astype(np.uint8)
    where = places(2) / 8
    as_floats = wp.Texture2D((data / 255.0).astype(np.float32))
    slopes = [jax.grad(lambda x: sampled(t, x).sum())(where) for t in (wp.Texture2D(data), as_floats)]  # noqa: B023
    np.testing.assert_allclose(*slopes, rtol=1e-4, atol=1e-5)


def test_places_are_cut_and_the_texture_is_not():
    devices = Mesh(np.array(jax.devices()[:4]), "d")
    texture, where = wp.Texture2D(image(2)), places(2, 64) / 8
    cut = jax.jit(jax.shard_map(sampled, mesh=devices, in_specs=(P(), P("d")), out_specs=P("d")))
    np.testing.assert_array_equal(cut(texture, where), sampled(texture, where))


def test_exported_programs_take_textures():
    texture, where = wp.Texture2D(image(2), address_mode=Address.MIRROR), places(2)
    made = export.export(jax.jit(sampled), disabled_checks=wp.export_checks())(texture, where)
    again = export.deserialize(made.serialize())
    np.testing.assert_array_equal(again.call(texture, where), sampled(texture, where))


# Outside of JAX


@wp.struct
class Layer:
    texture: wp.Texture2D
    weight: float


@wp.kernel
def weigh(layer: Layer, where: wp.array[wp.vec2], out: wp.array[float]):
    i = wp.tid()
    out[i] = wp.texture_sample(layer.texture, where[i], dtype=float) * layer.weight


def test_structs_have_textures():
    texture, where = wp.Texture2D(np.asarray(image(2))), np.asarray(places(2))
    layer = Layer()
    layer.texture, layer.weight = texture, 2.0
    out = wp.zeros(6)
    wp.launch(weigh, dim=6, inputs=[layer, wp.array(where, dtype=wp.vec2), out])
    np.testing.assert_allclose(out.numpy(), 2.0 * sampled(texture, where)[:, 0], rtol=1e-6)
    with pytest.raises(KernelTypeError, match="field texture: expected Texture2D, got Texture1D"):
        layer.texture = wp.Texture1D(np.zeros(3, np.float32))


@pytest.mark.parametrize("is_of_vectors", [True, False])
def test_tapes_go_back_to_the_array_of_a_texture(is_of_vectors):
    values = np.asarray(image(2, 2))
    data = wp.array(values, dtype=wp.vec2 if is_of_vectors else float, requires_grad=True)
    where = wp.array(np.asarray(places(2)), dtype=wp.vec2, requires_grad=True)
    out = wp.zeros(6, dtype=wp.vec2, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(KERNELS[2, 2], dim=6, inputs=[wp.Texture2D(data), where, -1.0, out])
    tape.backward(grads={out: wp.ones_like(out)})
    by_data, by_places = jax.grad(lambda d, x: sampled(wp.Texture2D(d), x).sum(), (0, 1))(values, where.numpy())
    np.testing.assert_allclose(data.grad.numpy(), by_data, atol=1e-6)
    np.testing.assert_allclose(where.grad.numpy(), by_places, rtol=1e-5, atol=1e-5)
