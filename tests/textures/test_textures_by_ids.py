"""Arrays of textures: kernels find them by their ids, with samples beside those of the texture itself."""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp import TextureAddressMode as Address
from jaxwarp import TextureFilterMode as Filter
from jaxwarp.errors import DifferentiationError, KernelTypeError
from tests.textures.kernels import CLASSES, KERNELS, PLACES

RNG = np.random.default_rng(3)
SHAPE = (4, 5, 6)
# Data of every type, with each number of channels and each mode of an axis.
OPTIONS: list[tuple[str, int, dict[str, Any]]] = [
    ("float32", 4, {"num_mip_levels": 0}),
    ("uint8", 2, {"address_mode": Address.WRAP, "filter_mode": Filter.CLOSEST}),
    ("int8", 1, {"address_mode": (Address.MIRROR, Address.BORDER, Address.WRAP)}),
    ("uint16", 4, {"normalized_coords": False}),
    ("int16", 1, {"mip_filter_mode": Filter.CLOSEST, "num_mip_levels": 2}),
    ("float16", 2, {"address_mode": Address.BORDER}),
    ("int32", 1, {}),
    ("uint32", 2, {}),
]


def _sampler(texture: Any, place: Any) -> Any:
    @wp.kernel
    def sample_each(textures: wp.array[texture], places: wp.array[place], lod: float, out: wp.array2d[wp.vec4]):
        i, j = wp.tid()
        out[i, j] = wp.texture_sample(textures[i], places[j], dtype=wp.vec4, lod=lod)

    return sample_each


SAMPLERS = {axes: _sampler(CLASSES[axes], PLACES[axes]) for axes in CLASSES}


def textures_of(axes: int) -> list[Any]:
    made = []
    for name, channels, options in OPTIONS if axes == 2 else OPTIONS[:3]:
        data = RNG.uniform(-100, 100, (*SHAPE[:axes], channels)).astype(name if name[0] != "u" else "int32")
        made.append(CLASSES[axes](data.astype(name), **options))
    return made


def samples(textures: Any, places: Any, lod: float, axes: int = 2) -> np.ndarray:
    out = wp.zeros((len(textures), len(places)), dtype=wp.vec4)
    wp.launch(SAMPLERS[axes], out.shape, [textures, places, lod, out])
    return out.numpy()


@pytest.mark.parametrize("axes", CLASSES)
def test_samples_are_those_of_the_texture_itself(axes):
    textures = textures_of(axes)
    places = wp.array(RNG.uniform(-1.5, 2.5, (40, axes)).squeeze(), dtype=PLACES[axes])
    for lod in (-1.0, 0.7):
        found = samples(wp.array(textures, dtype=CLASSES[axes]), places, lod, axes)
        for texture, each in zip(textures, found, strict=True):
            out = wp.zeros(40, dtype=wp.vec4)
            wp.launch(KERNELS[axes, 4], 40, [texture, places, lod, out])
            np.testing.assert_array_equal(each, out.numpy())
        assert all(np.ptp(each) > 0 for each in found), [np.ptp(each) for each in found]


def test_an_array_keeps_its_textures_and_none_is_sampled_as_zeros():
    places = wp.array([(0.5, 0.5)], dtype=wp.vec2)
    held = wp.array([wp.Texture2D(np.full((2, 2), 3, np.float32)), None], dtype=wp.Texture2D)
    numbered = wp.array([wp.Texture2D(np.full((2, 2), 4, np.float32)).id, 0], dtype=wp.Texture2D)
    gc.collect()
    assert samples(held, places, -1.0)[:, 0, 0].tolist() == [3.0, 0.0]
    assert samples(numbered, places, -1.0)[:, 0, 0].tolist() == [4.0, 0.0]


def test_new_texels_are_seen():
    places = wp.array([(0.5, 0.5)], dtype=wp.vec2)
    texture = wp.Texture2D(np.full((2, 2), 51, np.uint8))
    held = wp.array([texture], dtype=wp.Texture2D)
    assert samples(held, places, -1.0)[0, 0, 0] == np.float32(0.2)
    texture.copy_from(np.full((2, 2), 102, np.uint8))
    assert samples(held, places, -1.0)[0, 0, 0] == np.float32(0.4)


@wp.kernel
def look_at(texture: wp.uint64, places: wp.array[wp.vec2], out: wp.array[float]):
    i = wp.tid()
    out[i] = wp.texture_sample(texture, places[i], dtype=float)


def test_a_texture_is_an_argument_by_its_id():
    texture = wp.Texture2D(np.full((2, 2), 3, np.float32))
    assert int(texture.id) > 0
    out = wp.zeros(1)
    wp.launch(look_at, 1, [texture.id, wp.array([(0.5, 0.5)], dtype=wp.vec2), out])
    assert out.list() == [3.0]


def test_a_tape_goes_back_through_an_id_that_is_converted():
    texture = wp.Texture2D(np.arange(4, dtype=np.float32).reshape(2, 2))
    places, out = wp.array([(0.5, 0.5)], dtype=wp.vec2, requires_grad=True), wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(look_at, 1, [wp.uint64(texture.id), places, out])
    tape.backward(grads={out: wp.ones(1)})
    assert places.grad.list()[0].tolist() == [2.0, 4.0]


def test_what_is_refused_of_arrays_of_textures():
    with pytest.raises(KernelTypeError, match="expected objects Texture2D, got Texture3D") as caught:
        wp.array([wp.Texture3D(np.zeros((2, 2, 2), np.float32))], dtype=wp.Texture2D)
    assert caught.value.hint
    with pytest.raises(KernelTypeError, match="expected objects Texture2D, got Texture3D"):
        wp.array([wp.Texture3D(np.zeros((2, 2, 2), np.float32)).id], dtype=wp.Texture2D)
    places = wp.array([(0.5, 0.5)], dtype=wp.vec2, requires_grad=True)
    held = wp.array([wp.Texture2D(np.zeros((2, 2), np.float32))], dtype=wp.Texture2D)
    out = wp.zeros((1, 1), dtype=wp.vec4, requires_grad=True)
    with pytest.raises(DifferentiationError, match="finds meshes"), wp.Tape():
        wp.launch(SAMPLERS[2], (1, 1), [held, places, -1.0, out])
