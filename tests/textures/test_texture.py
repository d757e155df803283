"""Textures outside of kernels: what they are made of, copies, what is refused."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp import TextureAddressMode as Address
from jaxwarp import TextureFilterMode as Filter
from jaxwarp.errors import KernelTypeError, KernelValueError

DATA = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_what_a_texture_says_of_itself():
    texture = wp.Texture2D(DATA)
    assert isinstance(texture, wp.Texture)
    assert (texture.width, texture.height, texture.depth, texture.ndim) == (4, 3, 1, 2)
    assert (texture.num_channels, texture.dtype, texture.num_mip_levels) == (1, wp.float32, 1)
    assert (texture.filter_mode, texture.address_mode_u) == (Filter.LINEAR, Address.CLAMP)
    assert texture.normalized_coords is True
    assert texture.is_mipmapped is False
    np.testing.assert_array_equal(texture.data[..., 0], DATA)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_data_may_be_of_numpy_of_jax_and_of_vectors(axes):
    values = np.arange(64, dtype=np.float32).reshape(*(2, 2, 2)[:axes], -1)[..., :4]
    kind = (wp.Texture1D, wp.Texture2D, wp.Texture3D)[axes - 1]
    for data in (values, jnp.asarray(values), wp.array(values), wp.array(values, dtype=wp.vec4)):
        texture = kind(data)
        assert (texture.width, texture.num_channels, texture.dtype) == (2, 4, wp.float32)
        np.testing.assert_array_equal(texture.data, values)


def test_a_texture_keeps_its_texels():
    data = DATA.copy()
    held = wp.array(data)
    textures = wp.Texture2D(data), wp.Texture2D(held)
    data[:] = 0
    held.zero_()
    for texture in textures:
        np.testing.assert_array_equal(texture.data[..., 0], DATA)


def test_without_data_it_is_zeros_of_the_sizes():
    texture = wp.Texture3D(width=2, height=3, depth=4, num_channels=2, dtype=int)
    assert texture.data.shape == (4, 3, 2, 2)
    assert texture.dtype is wp.int32
    assert texture.filter_mode == Filter.CLOSEST
    assert not texture.data.any()


def test_replace_keeps_the_options():
    texture = wp.Texture2D(DATA, address_mode=Address.WRAP, filter_mode=Filter.CLOSEST, num_mip_levels=2)
    other = texture.replace(DATA + 1)
    assert (other.address_mode_v, other.filter_mode, other.num_mip_levels) == (Address.WRAP, Filter.CLOSEST, 2)
    np.testing.assert_array_equal(other.data[..., 0], DATA + 1)


@pytest.mark.parametrize("requires_grad", [True, False])
def test_copies_there_and_back(requires_grad):
    texture = wp.Texture2D(wp.array(np.zeros_like(DATA), requires_grad=requires_grad))
    texture.copy_from(wp.array(DATA))
    to_array, to_numpy, to_texture = wp.zeros((3, 4)), np.zeros((3, 4), np.float32), wp.Texture2D(np.zeros_like(DATA))
    for into in (to_array, to_numpy, to_texture):
        texture.copy_to(into)
    np.testing.assert_array_equal(to_array.numpy(), DATA)
    np.testing.assert_array_equal(to_numpy, DATA)
    np.testing.assert_array_equal(to_texture.data[..., 0], DATA)


def test_copies_of_vectors():
    values = np.arange(24, dtype=np.float32).reshape(3, 4, 2)
    texture, into = wp.Texture2D(np.zeros_like(values)), wp.zeros((3, 4), dtype=wp.vec2)
    texture.copy_from(wp.array(values, dtype=wp.vec2))
    texture.copy_to(into)
    np.testing.assert_array_equal(into.numpy(), values)


def test_copies_that_do_not_fit_are_refused():
    texture = wp.Texture2D(DATA)
    with pytest.raises(KernelValueError, match=r"texture shape=\(3, 4\), source shape=\(2, 4\)"):
        texture.copy_from(DATA[:2])
    with pytest.raises(KernelValueError, match="texture dtype=float32, destination dtype=int32"):
        texture.copy_to(np.zeros((3, 4), np.int32))
    with pytest.raises(KernelValueError, match=r"destination shape=\(3, 4\), source shape=\(2, 4\)"):
        texture.copy_from(wp.Texture2D(DATA[:2]))
    with pytest.raises(KernelValueError, match="destination channels=1, source channels=2"):
        texture.copy_from(wp.Texture2D(np.zeros((3, 4, 2), np.float32)))
    with pytest.raises(KernelTypeError, match="copy_from is not there for textures with mip levels"):
        wp.Texture2D(DATA, num_mip_levels=2).copy_from(DATA)
    with pytest.raises(KernelTypeError, match="a texture of JAX never changes"):
        wp.Texture2D(jnp.asarray(DATA)).copy_from(DATA)
    with pytest.raises(KernelTypeError, match="an array of JAX never changes"):
        texture.copy_to(jnp.zeros((3, 4)))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: wp.Texture2D(DATA[0]),
            KernelValueError,
            r"data: expected the shape \(height, width\) or .* got \(4,\)",
        ),
        (
            lambda: wp.Texture2D(np.zeros((2, 2, 3), np.float32)),
            KernelValueError,
            "num_channels: expected 1, 2, or 4, got 3",
        ),
        (
            lambda: wp.Texture2D(DATA.astype(np.float64)),
            KernelTypeError,
            "data: expected one of the types .* got float64",
        ),
        (lambda: wp.Texture2D(np.ma.masked_less(DATA, 3)), KernelTypeError, "mask"),
        (lambda: wp.Texture2D([[1.0]]), KernelTypeError, "data: expected an array, got list"),
        (lambda: wp.Texture2D(DATA[:0]), KernelValueError, "height: expected a positive number, got 0"),
        (lambda: wp.Texture2D(DATA, width=3), KernelValueError, "width: expected 3, but the data has 4"),
        (lambda: wp.Texture2D(DATA, num_channels=2), KernelValueError, "num_channels: expected 2, but the data has 1"),
        (
            lambda: wp.Texture2D(DATA, dtype=wp.uint8),
            KernelValueError,
            "dtype: expected uint8, but the data has float32",
        ),
        (
            lambda: wp.Texture2D(width=2, height=2, num_channels=1),
            KernelTypeError,
            "dtype: expected one of .* got None",
        ),
        (lambda: wp.Texture2D(DATA, filter_mode=2), KernelValueError, "Invalid texture filter mode: 2"),
        (lambda: wp.Texture2D(DATA, mip_filter_mode="x"), KernelValueError, "Invalid texture mip filter mode: 'x'"),
        (lambda: wp.Texture2D(DATA, address_mode=(0, 4)), KernelValueError, "address_mode_v: Invalid .* mode: 4"),
        (lambda: wp.Texture2D(DATA, num_mip_levels=4), KernelValueError, "num_mip_levels: expected 0 to 3, got 4"),
        (lambda: wp.Texture2D(DATA, width="4"), KernelTypeError, "width: expected an integer, got '4'"),
        (lambda: wp.Texture2D(DATA, num_mip_levels=2.5), KernelTypeError, "num_mip_levels: expected an integer"),
        (lambda: wp.Texture2D(DATA, normalized_coords="no"), KernelTypeError, "normalized_coords: expected True or"),
        (lambda: wp.Texture2D(DATA, num_mip_levels=-1), KernelValueError, "num_mip_levels: expected 0 to 3, got -1"),
        (
            lambda: wp.Texture2D(DATA.astype(np.int32), filter_mode=Filter.LINEAR),
            KernelValueError,
            "filter_mode: integers of 32 bits are not interpolated",
        ),
        (
            lambda: wp.Texture2D(jnp.zeros((4, 4), jnp.int32), num_mip_levels=0),
            KernelTypeError,
            "mip levels of int32 are not made in JAX",
        ),
        (
            lambda: wp.Texture2D(wp.array(DATA, requires_grad=True), num_mip_levels=2),
            KernelTypeError,
            "mip levels of an array that requires a gradient",
        ),
        (lambda: wp.Texture(DATA), KernelTypeError, "expected one of its classes"),
        (lambda: wp.Texture2D(DATA, surface_access=True), KernelTypeError, "only supported for CUDA textures"),
        (lambda: wp.Texture2D(DATA).cuda_array, KernelTypeError, "only supported for CUDA textures"),
        (lambda: wp.Texture2D(DATA).cuda_surface, KernelTypeError, "only supported for CUDA textures"),
        (lambda: setattr(wp.Texture2D(DATA), "width", 3), KernelTypeError, "width cannot be set"),
    ],
)
def test_what_is_refused(make, error, message):
    with pytest.raises(error, match=message) as caught:
        make()
    assert caught.value.hint
