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
from jaxwarp.textures.blending import mixed, mixed_eight, mixed_four
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
def number(texels: wp.array2d[Any], at: int, channel: int, is_there: bool) -> float:
    """A number of a texel; 0 of a border, and of a channel that there is not."""
    channels = texels.shape[1]
    value = decoded(texels[at, wp.min(channel, channels - 1)])
    return value if is_there and channel < channels else 0.0


@wp.func
def texel(texels: wp.array2d[Any], at: int, is_there: bool, zero: float) -> float:
    return number(texels, at, 0, is_there)


@wp.func
def texel(texels: wp.array2d[Any], at: int, is_there: bool, zero: Any):
    value = zero
    for i in range(len(zero)):
        value[i] = number(texels, at, i, is_there)
    return value


@wp.func
def raised(a: float, share: float) -> float:
    """Return the value of the closest texel. The share is 0, or NaN where the place is."""
    return a + share


@wp.func
def raised(a: Any, share: float):
    value = a
    for i in range(len(a)):
        value[i] = a[i] + share
    return value


# A level, and the value between two


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
    x = across(tex, level, place)
    a = texel(tex.texels, level[3] + x.first, x.has_first, zero)
    value = raised(a, x.share)
    if tex.filter_mode == LINEAR:
        b = texel(tex.texels, level[3] + x.second, x.has_second, zero)
        value = mixed(a, b, x.share)
    return value


@wp.func
def of_level(tex: Texture2D, level: wp.vec4i, place: wp.vec2, zero: Any):
    x = across(tex, level, place[0])
    y = down(tex, level, place[1])
    row = level[3] + y.first * level[0]
    a = texel(tex.texels, row + x.first, x.has_first and y.has_first, zero)
    value = raised(a, x.share + y.share)
    if tex.filter_mode == LINEAR:
        next_row = level[3] + y.second * level[0]
        b = texel(tex.texels, row + x.second, x.has_second and y.has_first, zero)
        c = texel(tex.texels, next_row + x.first, x.has_first and y.has_second, zero)
        d = texel(tex.texels, next_row + x.second, x.has_second and y.has_second, zero)
        value = mixed_four(a, b, c, d, x.share, y.share)
    return value


@wp.func
def of_level(tex: Texture3D, level: wp.vec4i, place: wp.vec3, zero: Any):
    x = across(tex, level, place[0])
    y = down(tex, level, place[1])
    z = inwards(tex, level, place[2])
    near = level[3] + z.first * level[0] * level[1]
    row = near + y.first * level[0]
    a = texel(tex.texels, row + x.first, x.has_first and y.has_first and z.has_first, zero)
    value = raised(a, x.share + y.share + z.share)
    if tex.filter_mode == LINEAR:
        next_row = near + y.second * level[0]
        far = level[3] + z.second * level[0] * level[1]
        far_row = far + y.first * level[0]
        last_row = far + y.second * level[0]
        b = texel(tex.texels, row + x.second, x.has_second and y.has_first and z.has_first, zero)
        c = texel(tex.texels, next_row + x.first, x.has_first and y.has_second and z.has_first, zero)
        d = texel(tex.texels, next_row + x.second, x.has_second and y.has_second and z.has_first, zero)
        e = texel(tex.texels, far_row + x.first, x.has_first and y.has_first and z.has_second, zero)
        f = texel(tex.texels, far_row + x.second, x.has_second and y.has_first and z.has_second, zero)
        g = texel(tex.texels, last_row + x.first, x.has_first and y.has_second and z.has_second, zero)
        h = texel(tex.texels, last_row + x.second, x.has_second and y.has_second and z.has_second, zero)
        value = mixed_eight(a, b, c, d, e, f, g, h, x.share, y.share, z.share)
    return value


@wp.func
def of_levels(tex: Any, place: Any, lod: float, zero: Any):
    """A sample of the levels around a level of detail: below 0, and where it is NaN, of the first."""
    last = len(tex.levels) - 1
    detail = wp.float32(0.0)
    if lod >= 0.0:
        detail = float(last) if lod > float(last) else lod
    is_closest = tex.mip_filter_mode == CLOSEST
    first = int(wp.floor(detail + 0.5 if is_closest else detail))
    value = of_level(tex, tex.levels[first], place, zero)
    if not is_closest and lod >= 0.0 and first < last:
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
    """Sample a texture at a place. `dtype` is the type of the result: float, vec2 or vec4, for 1, 2 or 4 channels.

    The centre of the first texel is at 0.5 / width, that of the last at 1 - 0.5 / width. Without `normalized_coords`
    they are at 0.5 and width - 0.5. `lod` is the mip level; a fraction interpolates between two levels. Channels that
    the texture lacks are 0. A coordinate that is NaN gives NaN, or 0 with `BORDER`.
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
