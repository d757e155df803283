"""The functions of volumes in kernels: values at voxels and between them, and transforms of index and world space.

A sample finds voxels, which are integers, and then sums values with weights. So it has all derivatives, by the place
and by the values, and needs no rule for any. The sum is that of NanoVDB's trilinear sampler (Museth 2021).
"""

# ruff: noqa: A002, ANN201, ARG001, F811
# pyright: reportRedeclaration=false, reportOperatorIssue=false, reportArgumentType=false, reportAttributeAccessIssue=false
# pyright: reportInvalidTypeForm=false, reportReturnType=false, reportCallIssue=false

from __future__ import annotations

from typing import Any, TypeVar

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError
from jaxwarp.frontend.lowering.values import Expanded, describe, type_of
from jaxwarp.geometry.volumes.volume import Vec3, Vec4, Volume

Value = TypeVar("Value")
Vector: Any = wp.types.vector(length=Any, dtype=wp.Float)


# The voxel of a place


@wp.func
def brick_at(id: Volume, x: int, y: int, z: int) -> int:
    """The number of the brick at a place, in bricks: where there is none, that of the background."""
    if id.entries:
        return search(id, x, y, z)
    i = wp.clamp(x - id.low[0], 0, id.dims[0] - 1)
    j = wp.clamp(y - id.low[1], 0, id.dims[1] - 1)
    k = wp.clamp(z - id.low[2], 0, id.dims[2] - 1)
    return id.table[(i * id.dims[1] + j) * id.dims[2] + k]


@wp.func
def search(id: Volume, x: int, y: int, z: int) -> int:
    """The same by the hashed table."""
    mixed = (wp.uint32(x) * wp.uint32(73856093)) ^ (wp.uint32(y) * wp.uint32(19349663))
    mixed ^= wp.uint32(z) * wp.uint32(83492791)
    at = id.table[int((mixed ^ (mixed >> wp.uint32(15))) & wp.uint32(len(id.table) - 1))]
    found = len(id.tiles)
    while at >= 0:
        entry = id.entries[at]
        at = at + 1 if (entry[3] & 1) == 0 else -1
        if entry[0] == x and entry[1] == y and entry[2] == z:
            found = entry[3] >> 1
            at = -1
    return found


@wp.func
def neighbour(id: Volume, known: int, is_same: bool, x: int, y: int, z: int) -> int:
    """The same where the number may be known already, if it has to be searched for."""
    if id.entries:
        return known if is_same else search(id, x, y, z)
    return brick_at(id, x, y, z)


@wp.func
def place_in(i: int, j: int, k: int) -> int:
    """The place of a voxel in its brick."""
    return ((i & 7) << 6) | ((j & 7) << 3) | (k & 7)


@wp.func
def place_of(id: Volume, i: int, j: int, k: int) -> int:
    """Return where a volume has the value of a voxel."""
    return (brick_at(id, i >> 3, j >> 3, k >> 3) << 9) + place_in(i, j, k)


@wp.func
def _nearest(x: float) -> int:
    """The voxel along an axis; of NaN one that is outside of all."""
    return int(wp.round(x)) if x == x else -2147483648


@wp.func
def rounded(uvw: wp.vec3) -> wp.vec3i:
    return wp.vec3i(_nearest(uvw[0]), _nearest(uvw[1]), _nearest(uvw[2]))


# Values: of a volume itself, whose background is a brick, so that each place has one; or of an array that its voxels
# number, with another background.


@wp.func
def values_of(id: Volume, like: wp.Scalar):
    return of_type(id.scalars, like)


@wp.func
def values_of(id: Volume, like: Vec3):
    return of_type(id.vec3s, like)


@wp.func
def values_of(id: Volume, like: Vec4):
    return of_type(id.vec4s, like)


@wp.func
def _of_type(values: wp.array[Value], value: Value):
    return values


def _expand_of_type(call: Any, args: Any, keywords: Any) -> Any:
    """The values of a volume, which are of the type of `value`. A volume that is found by its id, whose type is not
    known, has an array for each type, all None but one."""
    values, value = args
    if not isinstance(values, tuple):
        return call(_of_type, args, keywords)
    found = [view for view in values if view.dtype == type_of(value)]
    if not found:
        raise KernelTypeError(f"there are no volumes of {describe(value)}", hint="ask for floats or vectors of them")
    return found[0]


of_type = Expanded("of_type", _expand_of_type)


@wp.func
def index_of(id: Volume, place: int) -> int:
    """The number of the voxel at a place of the volume's arrays; -1 if it has none."""
    if id.index:
        return id.index[place] if place < len(id.index) else -1
    return place if place < (len(id.tiles) << 9) else -1


@wp.func
def value_at(id: Volume, values: Any, place: int, background: bool):
    return values[place]


@wp.func
def value_at(id: Volume, values: Any, place: int, background: Any):
    index = index_of(id, place)
    value = background
    if index >= 0:
        value = values[index]
    return value


@wp.func
def interpolate(weight: float, value: wp.Float):
    return type(value)(weight) * value


@wp.func
def interpolate(weight: float, value: Vector):
    return type(value[0])(weight) * value


@wp.func
def slope(value: wp.Float, weight: wp.vec3):
    """The derivative by the place of a value times a weight, of which the derivative is given."""
    scalar = type(value)
    return wp.vec(scalar(weight[0]) * value, scalar(weight[1]) * value, scalar(weight[2]) * value)


@wp.func
def slope(value: Vector, weight: wp.vec3):
    scalar = type(value[0])
    return wp.outer(value, wp.vec(scalar(weight[0]), scalar(weight[1]), scalar(weight[2])))


# Samples


@wp.func
def corner(id: Volume, first: int, ijk: wp.vec3i, a: int, b: int, c: int) -> int:
    """Return where a volume has the value of one of the eight corners around a place.

    `first` is the brick of the lowest corner.
    """
    x = ijk[0] + a
    y = ijk[1] + b
    z = ijk[2] + c
    is_same = (x >> 3) == (ijk[0] >> 3) and (y >> 3) == (ijk[1] >> 3) and (z >> 3) == (ijk[2] >> 3)
    return (neighbour(id, first, is_same, x >> 3, y >> 3, z >> 3) << 9) + place_in(x, y, z)


@wp.func
def lowest(uvw: wp.vec3) -> wp.vec3i:
    return wp.vec3i(int(wp.floor(uvw[0])), int(wp.floor(uvw[1])), int(wp.floor(uvw[2])))


@wp.func
def share(x: float, side: int) -> float:
    """The weight of the lower or the upper corner along an axis, at a place from 0 to 1."""
    return x if side == 1 else 1.0 - x


@wp.func
def sample_linear(id: Volume, uvw: wp.vec3, values: Any, background: Any, zero: Any):
    ijk = lowest(uvw)
    x = uvw[0] - wp.floor(uvw[0])
    y = uvw[1] - wp.floor(uvw[1])
    z = uvw[2] - wp.floor(uvw[2])
    first = brick_at(id, ijk[0] >> 3, ijk[1] >> 3, ijk[2] >> 3)
    total = zero
    for a in range(2):
        for b in range(2):
            for c in range(2):
                value = value_at(id, values, corner(id, first, ijk, a, b, c), background)
                total += interpolate(share(x, a) * share(y, b) * share(z, c), value)
    return total


@wp.func
def sample_linear_grad(id: Volume, uvw: wp.vec3, values: Any, background: Any, zero: Any, grad: wp.ref[Any]):
    ijk = lowest(uvw)
    x = uvw[0] - wp.floor(uvw[0])
    y = uvw[1] - wp.floor(uvw[1])
    z = uvw[2] - wp.floor(uvw[2])
    first = brick_at(id, ijk[0] >> 3, ijk[1] >> 3, ijk[2] >> 3)
    total = zero
    for a in range(2):
        for b in range(2):
            for c in range(2):
                value = value_at(id, values, corner(id, first, ijk, a, b, c), background)
                total += interpolate(share(x, a) * share(y, b) * share(z, c), value)
                across = wp.vec3(
                    share(y, b) * share(z, c) * (1.0 if a == 1 else -1.0),
                    share(x, a) * share(z, c) * (1.0 if b == 1 else -1.0),
                    share(x, a) * share(y, b) * (1.0 if c == 1 else -1.0),
                )
                grad += slope(value, across)
    return total


@wp.func
def sample_any(id: Volume, uvw: wp.vec3, sampling_mode: int, values: Any, background: Any, zero: Any):
    value = zero
    if sampling_mode == Volume.CLOSEST:
        ijk = rounded(uvw)
        value = value_at(id, values, place_of(id, ijk[0], ijk[1], ijk[2]), background)
    elif sampling_mode == Volume.LINEAR:
        value = sample_linear(id, uvw, values, background, zero)
    return value


@wp.func
def sample_any_grad(
    id: Volume, uvw: wp.vec3, sampling_mode: int, values: Any, background: Any, zero: Any, grad: wp.ref[Any]
):
    value = zero
    grad = type(grad)()
    if sampling_mode == Volume.CLOSEST:
        ijk = rounded(uvw)
        value = value_at(id, values, place_of(id, ijk[0], ijk[1], ijk[2]), background)
    elif sampling_mode == Volume.LINEAR:
        value = sample_linear_grad(id, uvw, values, background, zero, grad)
    return value


@wp.func
def volume_sample(id: Volume, uvw: wp.vec3, sampling_mode: int, dtype: Any):
    """Sample a volume at a place in index space. `dtype` is the type of its values.

    `Volume.CLOSEST` takes the nearest voxel, and rounds halves away from zero. `Volume.LINEAR` interpolates between
    eight voxels, of floats or vectors of floats. Outside of all bricks the value is the background.
    """
    return sample_any(id, uvw, sampling_mode, values_of(id, dtype()), False, dtype())


@wp.func
def volume_sample_f(id: Volume, uvw: wp.vec3, sampling_mode: int) -> float:
    """`volume_sample` of float32."""
    return volume_sample(id, uvw, sampling_mode, wp.float32)


@wp.func
def volume_sample_v(id: Volume, uvw: wp.vec3, sampling_mode: int) -> wp.vec3:
    """`volume_sample` of vec3."""
    return volume_sample(id, uvw, sampling_mode, wp.vec3f)


@wp.func
def volume_sample_i(id: Volume, uvw: wp.vec3) -> int:
    """The value of the nearest voxel of an int32 volume."""
    return volume_sample(id, uvw, Volume.CLOSEST, wp.int32)


@wp.func
def volume_sample_grad(id: Volume, uvw: wp.vec3, sampling_mode: int, grad: wp.ref[Any], dtype: Any):
    """Sample as `volume_sample` does, and set `grad` to the derivative with respect to the place.

    `grad` is a vec3 for scalars, and a matrix with a row for each component for vectors. For `Volume.CLOSEST` it is 0.
    """
    return sample_any_grad(id, uvw, sampling_mode, values_of(id, dtype()), False, dtype(), grad)


@wp.func
def volume_sample_grad_f(id: Volume, uvw: wp.vec3, sampling_mode: int, grad: wp.ref[wp.vec3]) -> float:
    """`volume_sample_grad` of float32."""
    return volume_sample_grad(id, uvw, sampling_mode, grad, wp.float32)


@wp.func
def volume_sample_index(id: Volume, uvw: wp.vec3, sampling_mode: int, voxel_data: wp.array[Any], background: Any):
    """Sample the values of an array. Voxel i has `voxel_data[i]`, where i is its `volume_lookup_index`."""
    return sample_any(id, uvw, sampling_mode, voxel_data, background, voxel_data.dtype())


@wp.func
def volume_sample_grad_index(
    id: Volume, uvw: wp.vec3, sampling_mode: int, voxel_data: wp.array[Any], background: Any, grad: wp.ref[Any]
):
    """Sample as `volume_sample_index` does, and set `grad` to the derivative with respect to the place."""
    return sample_any_grad(id, uvw, sampling_mode, voxel_data, background, voxel_data.dtype(), grad)


# Voxels


@wp.func
def volume_lookup(id: Volume, i: int, j: int, k: int, dtype: Any):
    """The value of voxel (i, j, k), or the background outside of all bricks. `dtype` is the type of the values."""
    values = values_of(id, dtype())
    return values[place_of(id, i, j, k)]


@wp.func
def volume_lookup_f(id: Volume, i: int, j: int, k: int) -> float:
    """`volume_lookup` of float32."""
    return volume_lookup(id, i, j, k, wp.float32)


@wp.func
def volume_lookup_v(id: Volume, i: int, j: int, k: int) -> wp.vec3:
    """`volume_lookup` of vec3."""
    return volume_lookup(id, i, j, k, wp.vec3f)


@wp.func
def volume_lookup_i(id: Volume, i: int, j: int, k: int) -> int:
    """`volume_lookup` of int32."""
    return volume_lookup(id, i, j, k, wp.int32)


@wp.func
def volume_lookup_index(id: Volume, i: int, j: int, k: int) -> int:
    """The number of voxel (i, j, k), from 0. It is -1 outside of all bricks, and for inactive voxels of index grids."""
    return index_of(id, place_of(id, i, j, k))


@wp.func
def volume_store(id: Volume, i: int, j: int, k: int, value: Any):
    """Store the value of voxel (i, j, k). `value` has the volume's type. Outside of all bricks nothing is stored."""
    place = place_of(id, i, j, k)
    if place < (len(id.tiles) << 9):
        values = values_of(id, value)
        values[place] = value


@wp.func
def volume_store_f(id: Volume, i: int, j: int, k: int, value: float):
    """`volume_store` of float32."""
    volume_store(id, i, j, k, value)


@wp.func
def volume_store_v(id: Volume, i: int, j: int, k: int, value: wp.vec3):
    """`volume_store` of vec3."""
    volume_store(id, i, j, k, value)


@wp.func
def volume_store_i(id: Volume, i: int, j: int, k: int, value: int):
    """`volume_store` of int32."""
    volume_store(id, i, j, k, value)


@wp.func
def volume_voxel_count(id: Volume) -> int:
    """The number of voxels that have a number."""
    return id.voxel_count


# Index and world space


@wp.func
def volume_index_to_world(id: Volume, uvw: wp.vec3) -> wp.vec3:
    """Convert a place from index space to world space."""
    return id.matrix * uvw + id.translation


@wp.func
def volume_world_to_index(id: Volume, xyz: wp.vec3) -> wp.vec3:
    """Convert a place from world space to index space."""
    return id.inverse * (xyz - id.translation)


@wp.func
def volume_index_to_world_dir(id: Volume, uvw: wp.vec3) -> wp.vec3:
    """Convert a direction from index space to world space."""
    return id.matrix * uvw


@wp.func
def volume_world_to_index_dir(id: Volume, xyz: wp.vec3) -> wp.vec3:
    """Convert a direction from world space to index space."""
    return id.inverse * xyz


@wp.func
def volume_index_to_world(id: Volume, uvw: wp.vec3d) -> wp.vec3d:
    return wp.mat33d(id.matrix) * uvw + wp.vec3d(id.translation)


@wp.func
def volume_world_to_index(id: Volume, xyz: wp.vec3d) -> wp.vec3d:
    return wp.mat33d(id.inverse) * (xyz - wp.vec3d(id.translation))


@wp.func
def volume_index_to_world_dir(id: Volume, uvw: wp.vec3d) -> wp.vec3d:
    return wp.mat33d(id.matrix) * uvw


@wp.func
def volume_world_to_index_dir(id: Volume, xyz: wp.vec3d) -> wp.vec3d:
    return wp.mat33d(id.inverse) * xyz
