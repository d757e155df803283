"""`texture_sample`: values of textures between their texels.

A sample finds texels, which are integers, and then is a sum of values with weights: so it has all derivatives, by the
coordinates, by the level of detail and by the texels.
"""

# ruff: noqa: ANN201, ARG001, F811
# pyright: reportRedeclaration=false, reportOperatorIssue=false, reportArgumentType=false, reportAttributeAccessIssue=false
# pyright: reportInvalidTypeForm=false, reportReturnType=false, reportCallIssue=false

from __future__ import annotations

from typing import Any

import jaxwarp as wp
from jaxwarp.textures.addressing import CLOSEST, LINEAR, Cell, cell_of
from jaxwarp.textures.blending import blend, blend_eight, blend_four
from jaxwarp.textures.texture import Texture1D, Texture2D, Texture3D

# Texels


@wp.func
def decoded(value: wp.Float) -> float:
    return float(value)


@wp.func
def decoded(value: wp.uint8) -> float:
    return float(value) / 255.0


@wp.func
def decoded(value: wp.uint16) -> float:
    return float(value) / 65535.0


@wp.func
def decoded(value: wp.int8) -> float:
    return wp.max(float(value) / 127.0, -1.0)


@wp.func
def decoded(value: wp.int16) -> float:
    return wp.max(float(value) / 32767.0, -1.0)


@wp.func
def decoded(value: wp.int32) -> float:
    return float(value)


@wp.func
def decoded(value: wp.uint32) -> float:
    return float(value)


@wp.func
def texel(texels: wp.array2d[Any], at: int, channel: int, is_there: bool) -> float:
    """A number of a texel; 0 of a border, and of a channel that there is not."""
    channels = texels.shape[1]
    value = decoded(texels[at, wp.min(channel, channels - 1)])
    return value if is_there and channel < channels else 0.0


# A channel of a sample


@wp.func
def line(texels: wp.array2d[Any], x: Cell, start: int, channel: int, is_there: bool, is_linear: bool):
    """The two texels of a row that are around a place; of the closest, only the first."""
    first = texel(texels, start + x.first, channel, x.has_first and is_there)
    second = 0.0
    if is_linear:
        second = texel(texels, start + x.second, channel, x.has_second and is_there)
    return first, second


@wp.func
def channel_of(tex: Texture1D, level: wp.vec4i, x: Cell, y: Cell, z: Cell, channel: int) -> float:
    is_linear = tex.filter_mode == LINEAR
    a, b = line(tex.texels, x, level[3], channel, True, is_linear)
    return blend(a, b, x.share) if is_linear else a + x.share


@wp.func
def channel_of(tex: Texture2D, level: wp.vec4i, x: Cell, y: Cell, z: Cell, channel: int) -> float:
    is_linear = tex.filter_mode == LINEAR
    a, b = line(tex.texels, x, level[3] + y.first * level[0], channel, y.has_first, is_linear)
    value = a + x.share + y.share
    if is_linear:
        c, d = line(tex.texels, x, level[3] + y.second * level[0], channel, y.has_second, True)
        value = blend_four(a, b, c, d, x.share, y.share)
    return value


@wp.func
def channel_of(tex: Texture3D, level: wp.vec4i, x: Cell, y: Cell, z: Cell, channel: int) -> float:
    is_linear = tex.filter_mode == LINEAR
    near = level[3] + z.first * level[0] * level[1]
    a, b = line(tex.texels, x, near + y.first * level[0], channel, y.has_first and z.has_first, is_linear)
    value = a + x.share + y.share + z.share
    if is_linear:
        far = level[3] + z.second * level[0] * level[1]
        c, d = line(tex.texels, x, near + y.second * level[0], channel, y.has_second and z.has_first, True)
        e, f = line(tex.texels, x, far + y.first * level[0], channel, y.has_first and z.has_second, True)
        g, h = line(tex.texels, x, far + y.second * level[0], channel, y.has_second and z.has_second, True)
        value = blend_eight(a, b, c, d, e, f, g, h, x.share, y.share, z.share)
    return value


@wp.func
def channels_of(tex: Any, level: wp.vec4i, x: Cell, y: Cell, z: Cell, zero: float) -> float:
    return channel_of(tex, level, x, y, z, 0)


@wp.func
def channels_of(tex: Any, level: wp.vec4i, x: Cell, y: Cell, z: Cell, zero: wp.vec2) -> wp.vec2:
    return wp.vec2(channel_of(tex, level, x, y, z, 0), channel_of(tex, level, x, y, z, 1))


@wp.func
def channels_of(tex: Any, level: wp.vec4i, x: Cell, y: Cell, z: Cell, zero: wp.vec4) -> wp.vec4:
    return wp.vec4(
        channel_of(tex, level, x, y, z, 0),
        channel_of(tex, level, x, y, z, 1),
        channel_of(tex, level, x, y, z, 2),
        channel_of(tex, level, x, y, z, 3),
    )


# A level, and what is between two


@wp.func
def across(tex: Any, level: wp.vec4i, u: float) -> Cell:
    return cell_of(u, tex.width, level[0], tex.address_mode_u, tex.normalized_coords, tex.filter_mode)


@wp.func
def down(tex: Any, level: wp.vec4i, v: float) -> Cell:
    return cell_of(v, tex.height, level[1], tex.address_mode_v, tex.normalized_coords, tex.filter_mode)


@wp.func
def inwards(tex: Any, level: wp.vec4i, w: float) -> Cell:
    return cell_of(w, tex.depth, level[2], tex.address_mode_w, tex.normalized_coords, tex.filter_mode)


@wp.func
def of_level(tex: Texture1D, level: wp.vec4i, place: float, zero: Any):
    return channels_of(tex, level, across(tex, level, place), Cell(), Cell(), zero)


@wp.func
def of_level(tex: Texture2D, level: wp.vec4i, place: wp.vec2, zero: Any):
    return channels_of(tex, level, across(tex, level, place[0]), down(tex, level, place[1]), Cell(), zero)


@wp.func
def of_level(tex: Texture3D, level: wp.vec4i, place: wp.vec3, zero: Any):
    x = across(tex, level, place[0])
    y = down(tex, level, place[1])
    return channels_of(tex, level, x, y, inwards(tex, level, place[2]), zero)


@wp.func
def mixed(a: float, b: float, x: float) -> float:
    return blend(a, b, x)


@wp.func
def mixed(a: wp.vec2, b: wp.vec2, x: float) -> wp.vec2:
    return wp.vec2(blend(a[0], b[0], x), blend(a[1], b[1], x))


@wp.func
def mixed(a: wp.vec4, b: wp.vec4, x: float) -> wp.vec4:
    return wp.vec4(blend(a[0], b[0], x), blend(a[1], b[1], x), blend(a[2], b[2], x), blend(a[3], b[3], x))


@wp.func
def of_levels(tex: Any, place: Any, lod: float, zero: Any):
    """A sample of the levels around a level of detail: below 0, and where it is NaN, of the first."""
    last = len(tex.levels) - 1
    detail = wp.float32(0.0)
    if lod >= 0.0:
        detail = float(last) if lod > float(last) else lod
    if tex.mip_filter_mode == CLOSEST:
        return of_level(tex, tex.levels[int(wp.floor(detail + 0.5))], place, zero)
    first = int(wp.floor(detail))
    value = of_level(tex, tex.levels[first], place, zero)
    if lod >= 0.0 and first < last:
        value = mixed(value, of_level(tex, tex.levels[first + 1], place, zero), detail - wp.floor(detail))
    return value


@wp.func
def sample(tex: Any, place: Any, lod: float, zero: Any):
    if tex.levels:
        return of_levels(tex, place, lod, zero)
    return of_level(tex, wp.vec4i(tex.width, tex.height, tex.depth, 0), place, zero)


@wp.func
def dtype_of_sample(dtype: float) -> float:
    return dtype


@wp.func
def dtype_of_sample(dtype: wp.vec2) -> wp.vec2:
    return dtype


@wp.func
def dtype_of_sample(dtype: wp.vec4) -> wp.vec4:
    return dtype


# What kernels call


@wp.func
def texture_sample(tex: Texture1D, u: float, dtype: Any, lod: float = -1.0):
    """The value of a texture at a place, of type `dtype`: float, vec2 or vec4, for 1, 2 or 4 channels.

    The centre of the first texel is at 0.5 / width, of the last at 1 - 0.5 / width; of a texture without
    `normalized_coords`, at 0.5 and width - 0.5. `lod` is the mip level, of which a fraction interpolates between two.
    Channels that a texture does not have are 0. NaN gives NaN, and 0 where a border is.
    """
    return sample(tex, u, lod, dtype_of_sample(dtype()))


@wp.func
def texture_sample(tex: Texture2D, uv: wp.vec2, dtype: Any, lod: float = -1.0):
    return sample(tex, uv, lod, dtype_of_sample(dtype()))


@wp.func
def texture_sample(tex: Texture2D, u: float, v: float, dtype: Any, lod: float = -1.0):
    return sample(tex, wp.vec2(u, v), lod, dtype_of_sample(dtype()))


@wp.func
def texture_sample(tex: Texture3D, uvw: wp.vec3, dtype: Any, lod: float = -1.0):
    return sample(tex, uvw, lod, dtype_of_sample(dtype()))


@wp.func
def texture_sample(tex: Texture3D, u: float, v: float, w: float, dtype: Any, lod: float = -1.0):
    return sample(tex, wp.vec3(u, v, w), lod, dtype_of_sample(dtype()))
