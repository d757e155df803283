"""Derivatives of samples where they change from texel to texel: at centres, edges and ends, in every address mode.

A sample has a kink at the centre of a texel, where its slope is that of the cell after it, and where an axis ends.
"""

from __future__ import annotations

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp import TextureAddressMode as Address
from jaxwarp import TextureFilterMode as Filter
from tests.slopekit import check_slopes
from tests.textures.kernels import CLASSES, sampled

SHAPES = {1: (4,), 2: (2, 4), 3: (2, 2, 4)}
# In texels: edges and centres in the texture, at its ends, a period away and more.
PLACES = {
    1: (-8.0, -4.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 3.5, 4.0, 4.5, 5.0, 8.0, 8.5),
    2: (-8.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.5, 4.0, 4.5),
    3: (-4.0, 0.0, 0.5, 1.0, 2.0, 3.5, 4.0),
}
STEP = 2.0**-7  # places, and so differences, are exact


def texels(axes: int, is_flat: bool) -> np.ndarray:
    """Small integers, of which neighbours are equal here and there, and some 0."""
    values = np.random.default_rng(axes).integers(-2, 3, SHAPES[axes])
    return np.where(is_flat, 2, values).astype(np.float32)


def places(axes: int) -> np.ndarray:
    return np.array(list(product(PLACES[axes], repeat=axes)), np.float32)


MODES = {f"{address.name} {filter_.name}": (address, filter_) for address, filter_ in product(Address, Filter)}


def in_every_mode(data: jax.Array, where: jax.Array) -> jax.Array:
    """Samples at places in texels, (n, modes)."""
    found = []
    for address, filter_ in MODES.values():
        options = {"address_mode": address, "filter_mode": filter_, "normalized_coords": False}
        found.append(sampled(CLASSES[data.ndim](data, **options), where))
    return jnp.concatenate(found, 1)


@pytest.mark.parametrize("axes", CLASSES)
def test_slopes_by_places(axes):
    """In every mode, of integers and of a flat texture: one program."""
    data = [jnp.asarray(texels(axes, is_flat)) for is_flat in (False, True)]
    names = [f"{mode} {kind}" for kind in ("integers", "flat") for mode in MODES]

    def samples(x):
        return jnp.concatenate([in_every_mode(values, x) for values in data], 1)

    check_slopes(samples, places(axes), np.eye(axes), eps=STEP, accuracy=1e-4, names=names)


@pytest.mark.parametrize("is_normalized", [True, False])
@pytest.mark.parametrize("axes", CLASSES)
def test_the_slope_at_a_centre_is_that_of_the_cell_after_it(axes, is_normalized):
    data = texels(axes, False)
    size = np.array(data.shape[::-1], np.float32)
    centres = np.array(list(np.ndindex(*[int(n) for n in size])), np.float32) + 0.5
    scale = size if is_normalized else np.ones(axes, np.float32)
    texture = CLASSES[axes](jnp.asarray(data), normalized_coords=is_normalized, address_mode=Address.CLAMP)
    found = jax.grad(lambda x: sampled(texture, x).sum())(centres / scale)
    ended = np.pad(data, [(0, 1)] * axes, mode="edge")
    here = tuple((centres - 0.5).astype(int).T[::-1])
    for a in range(axes):
        ahead = tuple(k + (n == axes - 1 - a) for n, k in enumerate(here))
        np.testing.assert_allclose(found[:, a], (ended[ahead] - ended[here]) * scale[a], atol=1e-5)


@pytest.mark.parametrize("axes", [1, 2])
def test_slopes_by_texels_also_of_weight_0(axes):
    data, where = texels(axes, False), places(axes)
    base = jax.jit(lambda data: in_every_mode(data, where))
    moved = [base(data + np.eye(data.size, dtype=np.float32)[k].reshape(data.shape)) for k in range(data.size)]
    expected = (np.stack(moved, -1) - np.asarray(base(data))[..., None]).reshape(-1, len(MODES), *data.shape)
    for k in range(len(MODES)):
        assert (expected[:, k] == 1.0).any()
        assert (expected[:, k] == 0.0).any()
    for jacobian in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(jax.jit(jacobian(base))(data), expected, atol=1e-5)


@pytest.mark.parametrize("mip_filter_mode", Filter)
def test_slopes_by_levels_of_detail(mip_filter_mode):
    """At a level they are those of the levels above it; below the first and from the last on they are 0."""
    data = np.random.default_rng(0).integers(-3, 4, (4, 8)).astype(np.float32)
    texture = wp.Texture2D(
        jnp.asarray(data), num_mip_levels=3, normalized_coords=False, mip_filter_mode=mip_filter_mode
    )
    where = jnp.array([[2.25, 1.75]])
    levels = np.array([-1.0, -0.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0], np.float32)[:, None]

    def samples(lod):
        return jax.vmap(lambda one: sampled(texture, where, one[0])[0])(lod)

    check_slopes(samples, levels, np.eye(1), eps=STEP, accuracy=1e-4, names=[mip_filter_mode.name])
    if mip_filter_mode is Filter.LINEAR:
        of = np.asarray(samples(jnp.arange(3.0)[:, None]))[:, 0]
        found = jax.grad(lambda lod: samples(lod).sum())(jnp.asarray(levels))[:, 0]
        first, second = of[1] - of[0], of[2] - of[1]
        np.testing.assert_allclose(found, [0, first, first, first, second, second, 0, 0], atol=1e-5)
