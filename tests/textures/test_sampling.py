"""Samples of textures: every mode against scipy, formats, mip levels, what is not finite."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp import TextureAddressMode as Address
from jaxwarp import TextureFilterMode as Filter
from jaxwarp.errors import KernelTypeError
from tests.textures.kernels import CLASSES, KERNELS, expected, sampled

SIZES = (6, 7, 5)
RANDOM = np.random.default_rng(0)


def image(axes: int, channels: int) -> np.ndarray:
    return np.random.default_rng(axes).normal(size=(*reversed(SIZES[:axes]), channels)).astype(np.float32)


def places(axes: int, count: int = 200) -> np.ndarray:
    """In texels, up to two textures away on each side."""
    between = np.random.default_rng(1).uniform(-2.0, 3.0, (count, axes))
    return (between * SIZES[:axes]).astype(np.float32)


@pytest.mark.parametrize("axes", CLASSES)
@pytest.mark.parametrize("filter_mode", Filter)
@pytest.mark.parametrize("address_mode", Address)
@pytest.mark.parametrize("channels", [1, 4])
def test_samples_are_those_of_scipy(axes, filter_mode, address_mode, channels):
    data, where = image(axes, channels), places(axes)
    want = expected(data, where, filter_mode, address_mode)
    options = {"filter_mode": filter_mode, "address_mode": address_mode}
    texels = CLASSES[axes](data, normalized_coords=False, **options)
    np.testing.assert_allclose(sampled(texels, jnp.asarray(where)), want, atol=2e-5)
    normalized = sampled(CLASSES[axes](data, **options), jnp.asarray(where / np.array(SIZES[:axes], np.float32)))
    np.testing.assert_allclose(normalized, want, atol=2e-5)


@pytest.mark.parametrize("axes", CLASSES)
@pytest.mark.parametrize("filter_mode", Filter)
def test_the_interpreter_says_the_same(axes, filter_mode):
    modes = (Address.MIRROR, Address.BORDER, Address.WRAP)
    texture = CLASSES[axes](image(axes, 2), filter_mode=filter_mode, address_mode=modes, num_mip_levels=2)
    where = places(axes, 12) / np.array(SIZES[:axes], np.float32)
    stepped = np.zeros((12, 2), np.float32)
    given = where[:, 0] if axes == 1 else where
    KERNELS[axes, 2].interpret(texture, np.ascontiguousarray(given), np.float32(0.3), stepped, dim=12)
    np.testing.assert_allclose(sampled(texture, jnp.asarray(where), 0.3), stepped, atol=1e-6)


def test_each_axis_has_its_own_mode():
    data = image(2, 1)
    texture = wp.Texture2D(data, normalized_coords=False, address_mode=(Address.WRAP, Address.MIRROR))
    where = places(2)
    inside = where.copy()
    inside[:, 0] %= SIZES[0]
    wrapped = wp.Texture2D(data, normalized_coords=False, address_mode_u=0, address_mode=Address.MIRROR)
    np.testing.assert_allclose(sampled(texture, where), sampled(texture, inside), atol=2e-5)
    np.testing.assert_array_equal(sampled(texture, where), sampled(wrapped, where))
    assert (texture.address_mode_u, texture.address_mode_v) == (Address.WRAP, Address.MIRROR)


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [("uint8", 255), ("uint16", 65535), ("int8", 127), ("int16", 32767), ("int32", 1), ("uint32", 1), ("float16", 1)],
)
def test_integers_of_few_bits_are_fractions(dtype, scale):
    if dtype == "float16":
        data = RANDOM.normal(size=8).astype(dtype)
    else:
        limits = np.iinfo(dtype)
        data = np.array([limits.min, limits.max, 0, 1, 2, 3, 100, limits.max // 3], dtype)
    texture = wp.Texture1D(data, filter_mode=Filter.CLOSEST, normalized_coords=False)
    assert texture.dtype is getattr(wp, dtype)
    found = sampled(texture, np.arange(8, dtype=np.float32)[:, None] + 0.5)[:, 0]
    want = data.astype(np.float64) / scale
    np.testing.assert_allclose(found, np.maximum(want, -1.0) if scale > 1 else want, rtol=2e-7)


@wp.kernel
def read_all(tex: wp.Texture2D, one: wp.array[float], two: wp.array[wp.vec2], four: wp.array[wp.vec4]):
    one[0] = wp.texture_sample(tex, 0.5, 0.5, dtype=float)
    two[0] = wp.texture_sample(tex, wp.vec2(0.5, 0.5), dtype=wp.vec2)
    four[0] = wp.texture_sample(tex, 0.5, 0.5, dtype=wp.vec4)


def test_channels_that_there_are_not_are_zero():
    texture = wp.Texture2D(np.array([[[3.0, 4.0]]], np.float32))
    one, two, four = wp.jax_kernel(read_all, num_outputs=3, output_dims=1)(texture, launch_dims=1)
    assert one.tolist() == [3.0]
    assert two.tolist() == [[3.0, 4.0]]
    assert four.tolist() == [[3.0, 4.0, 0.0, 0.0]]


@wp.kernel
def measure(a: wp.Texture1D, b: wp.Texture2D, c: wp.Texture3D, out: wp.array[int]):
    out[0] = a.width
    out[1] = b.width
    out[2] = b.height
    out[3] = c.width * 100 + c.height * 10 + c.depth


def test_kernels_read_sizes():
    textures = [CLASSES[axes](image(axes, 1)) for axes in CLASSES]
    assert wp.jax_kernel(measure, output_dims=4)(*textures, launch_dims=1)[0].tolist() == [6, 6, 7, 675]


# What is far away, just outside, or nowhere


@pytest.mark.parametrize("filter_mode", Filter)
@pytest.mark.parametrize("address_mode", Address)
@pytest.mark.parametrize("axis", [0, 1])
def test_nan_gives_nan_or_the_border(filter_mode, address_mode, axis):
    texture = wp.Texture2D(image(2, 1), filter_mode=filter_mode, address_mode=address_mode)
    where = np.full((1, 2), 0.4, np.float32)
    where[0, axis] = np.nan
    found = sampled(texture, where)
    np.testing.assert_array_equal(found, [[0.0 if address_mode == Address.BORDER else np.nan]])


@pytest.mark.parametrize("filter_mode", Filter)
def test_infinite_places_are_outside(filter_mode):
    data = image(1, 1)
    where = np.array([[-np.inf], [np.inf], [-3e38], [3e38]], np.float32)
    held = sampled(wp.Texture1D(data, filter_mode=filter_mode), where)
    np.testing.assert_array_equal(held[:, 0], data[[0, -1, 0, -1], 0])
    border = wp.Texture1D(data, filter_mode=filter_mode, address_mode=Address.BORDER)
    np.testing.assert_array_equal(sampled(border, where), 0.0)
    wrapped = wp.Texture1D(data, filter_mode=filter_mode, address_mode=Address.WRAP)
    assert np.isnan(sampled(wrapped, where[:2])).all()
    assert np.isfinite(sampled(wrapped, where[2:])).all()


@pytest.mark.parametrize("is_normalized", [True, False])
@pytest.mark.parametrize("size", [4, 7])
def test_closest_texels_end_where_the_next_begin(is_normalized, size):
    """Just below and above each edge, exactly; -1e-30 is outside."""
    edges = np.arange(size + 1, dtype=np.float64) / (size if is_normalized else 1)
    near = np.float32(edges)
    where = np.concatenate([np.nextafter(near, np.float32(-9)), near, np.nextafter(near, np.float32(9)), [-1e-30]])
    where = where.astype(np.float32)
    texel = np.floor(where.astype(np.float64) * (size if is_normalized else 1)).astype(int)
    data = np.arange(1, size + 1, dtype=np.float32)
    options: dict[str, Any] = {"filter_mode": Filter.CLOSEST, "normalized_coords": is_normalized}
    border = wp.Texture1D(data, address_mode=Address.BORDER, **options)
    outside = (texel < 0) | (texel >= size)
    want = np.where(outside, 0, np.clip(texel, 0, size - 1) + 1)
    np.testing.assert_array_equal(sampled(border, where[:, None])[:, 0], want)
    wrapped = wp.Texture1D(data, address_mode=Address.WRAP, **options)
    np.testing.assert_array_equal(sampled(wrapped, where[:, None])[:, 0], texel % size + 1)


# Mip levels


def test_levels_are_averages():
    data = RANDOM.normal(size=(8, 4)).astype(np.float32)
    texture = wp.Texture2D(data, num_mip_levels=0, filter_mode=Filter.CLOSEST)
    assert texture.num_mip_levels == 4
    half = data.reshape(4, 2, 2, 2).mean((1, 3))
    quarter = half.reshape(2, 2, 1, 2).mean((1, 3))
    where = jnp.array([[0.1, 0.1], [0.9, 0.9]])
    np.testing.assert_allclose(sampled(texture, where, 1.0)[:, 0], half[[0, -1], [0, -1]], rtol=1e-6)
    np.testing.assert_allclose(sampled(texture, where, 2.0)[:, 0], quarter[[0, -1], [0, 0]], rtol=1e-5)
    np.testing.assert_allclose(sampled(texture, where, 9.0)[:, 0], [data.mean()] * 2, rtol=1e-4)
    np.testing.assert_array_equal(sampled(texture, where, np.nan)[:, 0], data[[0, -1], [0, -1]])
    between = 0.75 * half[[0, -1], [0, -1]] + 0.25 * quarter[[0, -1], [0, 0]]
    np.testing.assert_allclose(sampled(texture, where, 1.25)[:, 0], between, rtol=1e-5)


def test_the_closest_level_may_be_asked_for():
    texture = wp.Texture1D(np.array([0.0, 2.0], np.float32), num_mip_levels=0, mip_filter_mode=Filter.CLOSEST)
    found = [float(sampled(texture, jnp.zeros((1, 1)), lod)[0, 0]) for lod in (-1.0, 0.49, 0.51, 5.0)]
    assert found == [0.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "int16"])
def test_levels_are_the_same_in_jax(dtype):
    data = (RANDOM.normal(size=(7, 6, 2)) * 100).astype(dtype)
    outside, inside = wp.Texture2D(data, num_mip_levels=0), wp.Texture2D(jnp.asarray(data), num_mip_levels=0)
    assert isinstance(inside.texels, jax.Array)
    np.testing.assert_allclose(inside.texels, outside.texels, rtol=1e-3 if dtype == "float16" else 1e-6, atol=1e-6)


def test_sizes_that_are_odd_leave_the_last_texel_out():
    texture = wp.Texture1D(np.array([1.0, 3.0, 100.0], np.float32), num_mip_levels=2)
    assert float(sampled(texture, jnp.full((1, 1), 0.5), 1.0)[0, 0]) == 2.0


# Errors


@wp.kernel
def ask_vec3(tex: wp.Texture2D, out: wp.array[wp.vec3]):
    out[0] = wp.texture_sample(tex, wp.vec2(), dtype=wp.vec3)


@wp.kernel
def ask_at_vec3(tex: wp.Texture2D, out: wp.array[float]):
    out[0] = wp.texture_sample(tex, wp.vec3(), dtype=float)


def test_what_cannot_be_asked_for_is_an_error_of_the_line():
    texture = wp.Texture2D(image(2, 1))
    with pytest.raises(KernelTypeError, match=r"no overload of dtype_of_sample takes \(vec3\[float32\]\)") as caught:
        wp.jax_kernel(ask_vec3, output_dims=1)(texture, launch_dims=1)
    assert "out[0] = wp.texture_sample(tex, wp.vec2(), dtype=wp.vec3)" in str(caught.value)
    with pytest.raises(KernelTypeError, match=r"no overload of texture_sample takes \(Texture2D, vec3") as caught:
        wp.jax_kernel(ask_at_vec3, output_dims=1)(texture, launch_dims=1)
    assert "out[0] = wp.texture_sample(tex, wp.vec3(), dtype=float)" in str(caught.value)


@pytest.mark.parametrize("given", [1, 3])
def test_a_texture_of_other_axes_is_refused(given):
    texture = CLASSES[given](image(given, 1))
    with pytest.raises(KernelTypeError, match=f"'tex': expected struct Texture2D, got Texture{given}D"):
        wp.jax_kernel(KERNELS[2, 1])(texture, jnp.zeros((1, 2)), 0.0)


def test_samples_are_lowered_to_little_code():
    """Each texel is found once for all channels, and rules are lowered once: 4,579 lines have become 2,618."""

    @wp.kernel
    def one(tex: wp.Texture2D, out: wp.array[wp.vec4], lod: float):
        out[0] = wp.texture_sample(tex, wp.vec2(0.3, 0.4), dtype=wp.vec4, lod=lod)

    texture = wp.Texture2D(image(2, 4), num_mip_levels=0)
    given = one.given([texture, wp.zeros(1, dtype=wp.vec4), 0.5])
    types = [wp.array2d[float], wp.array[wp.vec4i], *(leaf.annotation for leaf in given.leaves[2:])]
    assert len(str(given.specialize(types)).splitlines()) < 3500
