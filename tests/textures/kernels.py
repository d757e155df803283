"""A kernel for each number of axes and of channels, and what samples are by scipy."""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.ndimage import map_coordinates

import jaxwarp as wp
from jaxwarp import TextureAddressMode as Address
from jaxwarp import TextureFilterMode as Filter

CLASSES = {1: wp.Texture1D, 2: wp.Texture2D, 3: wp.Texture3D}
PLACES: dict[int, Any] = {1: float, 2: wp.vec2, 3: wp.vec3}
VALUES: dict[int, Any] = {1: float, 2: wp.vec2, 4: wp.vec4}
MODES = {
    Address.WRAP: "grid-wrap",
    Address.CLAMP: "nearest",
    Address.MIRROR: "reflect",
    Address.BORDER: "grid-constant",
}


def _sampler(texture: Any, place: Any, value: Any) -> Any:
    @wp.kernel
    def sample(tex: texture, places: wp.array[place], lod: float, out: wp.array[value]):
        i = wp.tid()
        out[i] = wp.texture_sample(tex, places[i], dtype=value, lod=lod)

    return sample


KERNELS = {(axes, n): _sampler(CLASSES[axes], PLACES[axes], VALUES[n]) for axes in CLASSES for n in VALUES}


def sampled(texture: Any, places: Any, lod: float = -1.0) -> Any:
    """Samples of a texture at places (n, axes), as a function of JAX: (n, channels)."""
    call = wp.jax_kernel(KERNELS[texture.ndim, texture.num_channels], launch_dims=len(places))
    found = call(texture, places[:, 0] if texture.ndim == 1 else places, lod)[0]
    return found.reshape(len(places), texture.num_channels)


def expected(data: np.ndarray, places: np.ndarray, filter_mode: Filter, address_mode: Address) -> np.ndarray:
    """The same by scipy, of data (depth, height, width, channels) at places in texels, by x, y and z."""
    found = [
        map_coordinates(
            data[..., c].astype(np.float64),
            places[:, ::-1].T.astype(np.float64) - 0.5,
            order=int(filter_mode),
            mode=MODES[address_mode],
            cval=0.0,
        )
        for c in range(data.shape[-1])
    ]
    return np.stack(found, -1)
