"""Volumes of tiles, of voxels and of dense arrays: their fields, by NumPy where what they are made of is known."""

from __future__ import annotations

import operator
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxwarp.conversions import require_unmasked
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.geometry.operations import is_on_host
from jaxwarp.geometry.volumes.bricks import EDGE, VOXELS, hashed, ordered_by_jax, ordered_by_numpy, table_of
from jaxwarp.geometry.volumes.build import (
    TYPES,
    Fields,
    Transforms,
    background,
    fields,
    filled,
    in_jax,
    is_jax,
    kind_of,
    masked,
    places,
    require_few,
)
from jaxwarp.types import element_scalar, element_shape


def of_tiles(where: str, points: Any, frames: Transforms, bg_value: Any, mask: Any, capacity: int | None) -> Fields:
    """A brick around each point, all of the background.

    Args:
        points: (n, 3), voxels or places in world space.
        mask: (n,) which of them count, or None.
        capacity: how many bricks there is room for; None: as many as there are points, or, where these are known,
            as many as it takes.
    """
    name, value = background(where, bg_value)
    voxels, is_some = _some(where, points, frames, mask)
    if is_on_host(voxels) and (is_some is None or is_on_host(is_some)):
        bricks, _ = ordered_by_numpy(_kept(voxels, is_some) >> 3)
        return of_bricks(
            where, bricks[:capacity], frames, name, value, count=len(bricks), to_jax=is_jax(points, value, *frames)
        )
    room = len(points) if capacity is None else capacity
    require_few(where, room + 1)
    bricks, _, count = ordered_by_jax(voxels >> 3, _all(voxels, is_some), room)
    found = hashed(bricks, jnp.arange(room, dtype=jnp.int32))
    values = None if name is None else filled(name, jnp.asarray(value), room + 1)
    kept = jnp.minimum(count, room)
    return in_jax(fields(found, bricks * EDGE, frames, (count, VOXELS * kept), name, values))


def of_bricks(
    where: str,
    bricks: np.ndarray,
    frames: Transforms,
    name: str | None,
    value: Any,
    count: int = -1,
    to_jax: bool = False,
) -> Fields:
    """The same of bricks that are known, (b, 3), each once and in order."""
    require_few(where, len(bricks) + 1)
    found = table_of(bricks, np.arange(len(bricks), dtype=np.int32), len(bricks))
    values = None if name is None else filled(name, value, len(bricks) + 1)
    counts = (len(bricks) if count < 0 else count), VOXELS * len(bricks)
    made = fields(found, bricks * np.int32(EDGE), frames, counts, name, values)
    return in_jax(made) if to_jax else made


def of_voxels(
    where: str, points: Any, frames: Transforms, mask: Any, capacity: int | None, most: int | None = None
) -> Fields:
    """Indices of the voxels at points, each once: a grid without values."""
    voxels, is_some = _some(where, points, frames, mask)
    if is_on_host(voxels) and (is_some is None or is_on_host(is_some)):
        made = _of_known_voxels(where, _kept(voxels, is_some), frames, capacity, most)
        return in_jax(made) if is_jax(points, *frames) else made
    room = len(points) if capacity is None else capacity
    require_few(where, room + 1)
    bricks, number, count = ordered_by_jax(voxels >> 3, _all(voxels, is_some), room)
    place = jnp.where(number < room, number * VOXELS + _places_in(voxels, jnp), room * VOXELS)
    active = jnp.zeros(room * VOXELS, bool).at[place].set(True, mode="drop")
    order = jnp.cumsum(active, dtype=jnp.int32)
    found = hashed(bricks, jnp.arange(room, dtype=jnp.int32))
    voxel_count = order[-1] if room else 0
    return in_jax(
        fields(found, bricks * EDGE, frames, (count, voxel_count), None, None, jnp.where(active, order - 1, -1))
    )


def _of_known_voxels(
    where: str, voxels: np.ndarray, frames: Transforms, capacity: int | None, most: int | None
) -> Fields:
    bricks, number = ordered_by_numpy(voxels >> 3)
    count = len(bricks)
    bricks = bricks[:capacity]
    active = np.zeros((len(bricks) + 1) * VOXELS, bool)
    active[np.minimum(number, len(bricks)) * VOXELS + _places_in(voxels, np)] = True
    order = np.cumsum(active[:-VOXELS], dtype=np.int32)
    asked = int(order[-1]) if len(order) else 0
    kept = asked if most is None else min(asked, most)
    index = np.where(active[:-VOXELS] & (order <= kept), order - 1, np.int32(-1))
    made = of_bricks(where, bricks, frames, None, None, count)
    return made | {"index": index, "voxel_count": kept, "_asked_voxels": asked}


def _places_in(voxels: Any, np_or_jnp: Any) -> Any:
    """The place of each voxel in its brick."""
    x, y, z = (np_or_jnp.bitwise_and(voxels[:, k], 7) for k in range(3))
    return x * 64 + y * 8 + z


def _some(where: str, points: Any, frames: Transforms, mask: Any) -> tuple[Any, Any]:
    voxels, is_some = places(where, points, frames)
    is_meant = masked(where, mask, len(voxels))
    return voxels, is_meant if is_some is None else is_some if is_meant is None else is_some & is_meant


def _kept(voxels: Any, is_some: Any) -> np.ndarray:
    voxels = np.asarray(voxels)
    return voxels if is_some is None else voxels[np.asarray(is_some)]


def _all(voxels: Any, is_some: Any) -> Any:
    return jnp.ones(len(voxels), bool) if is_some is None else jnp.asarray(is_some)


# Dense arrays


def of_box(where: str, low: Any, high: Any, frames: Transforms, bg_value: Any, in_world: bool) -> Fields:
    """Bricks for all voxels from `low` to `high`, which are known."""
    name, value = background(where, bg_value)
    corners = [_corner(where, what, c) for what, c in (("min", low), ("max", high))]
    if in_world:
        if not is_on_host(*frames):
            raise KernelTypeError(
                f"{where}: points_in_world_space: expected a voxel_size that is known", hint="pass voxels"
            )
        size = np.diag(np.asarray(frames.matrix))
        corners = [np.around((c - np.asarray(frames.translation)) / size) for c in corners]
    first, last = (np.floor(c).astype(np.int64) // EDGE for c in corners)
    return of_bricks(where, _box(where, first, last), frames, name, value, to_jax=is_jax(value, *frames))


def _corner(where: str, what: str, given: Any) -> np.ndarray:
    try:
        found = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        found = None
    if found is None or found.shape != (3,) or not (np.abs(found) < 2**31).all():
        raise KernelValueError(f"{where}: {what}: expected three numbers that fit into int32, got {given!r}")
    return found


def _box(where: str, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """All bricks of a box, in order."""
    sides = np.maximum(last - first + 1, 0)
    require_few(where, int(np.prod(sides.astype(object))) + 1)
    grid = np.stack(np.meshgrid(*(np.arange(a, b + 1) for a, b in zip(first, last, strict=True)), indexing="ij"), -1)
    return ordered_by_numpy(grid.reshape(-1, 3).astype(np.int32))[0]


def of_dense(where: str, given: Any, frames: Transforms, bg_value: Any) -> Fields:
    """The values of an array, (nx, ny, nz[, c]), and the background in what is left of the last bricks."""
    name, value = background(where, bg_value)
    if name is None:
        raise KernelTypeError(f"{where}: bg_value: expected a value, got None", hint="bg_value=0.0")
    dtype = TYPES[name]
    require_unmasked(given)
    data = given if is_jax(given) else np.asarray(given)
    inner = element_shape(dtype)
    if not any(jnp.issubdtype(data.dtype, kind) for kind in (jnp.integer, jnp.floating, jnp.bool)):
        raise KernelTypeError(f"{where}: ndarray: expected real numbers, got {data.dtype}")
    if data.ndim != 3 + len(inner) or data.shape[3:] != inner:
        wanted = ("nx", "ny", "nz", *map(str, inner))
        raise KernelValueError(
            f"{where}: ndarray: expected the shape ({', '.join(wanted)}), got {data.shape}",
            hint="bg_value says what the values are: 0.0, or (0.0, 0.0, 0.0) for vectors",
        )
    to_jax = is_jax(data, value, *frames)
    data = data.astype(element_scalar(dtype).numpy)
    cells = [operator.floordiv(n + EDGE - 1, EDGE) for n in data.shape[:3]]
    bricks = _box(where, np.zeros(3, np.int64), np.array(cells, np.int64) - 1)
    made = of_bricks(where, bricks, frames, name, value, to_jax=to_jax)
    kind = kind_of(name)
    made[kind] = _cut(jnp if to_jax else np, data, value, cells, bricks, made[kind])
    return made


def _cut(np_or_jnp: Any, data: Any, value: Any, cells: list[int], bricks: np.ndarray, filled_values: Any) -> Any:
    """The values of bricks, of a dense array."""
    inner = data.shape[3:]
    sides = [n * EDGE for n in cells]
    if tuple(sides) != data.shape[:3]:
        if np_or_jnp is np:
            whole = np.empty((*sides, *inner), data.dtype)
            whole[...] = value
            whole[: data.shape[0], : data.shape[1], : data.shape[2]] = data
        else:
            whole = jnp.broadcast_to(jnp.asarray(value, data.dtype), (*sides, *inner))
            whole = whole.at[: data.shape[0], : data.shape[1], : data.shape[2]].set(data)
        data = whole
    x, y, z = cells
    axes = (0, 2, 4, 1, 3, 5, *range(6, 6 + len(inner)))
    by_brick = data.reshape(x, EDGE, y, EDGE, z, EDGE, *inner).transpose(axes).reshape(-1, VOXELS, *inner)
    order = (bricks[:, 0] * y + bricks[:, 1]) * z + bricks[:, 2]
    ordered = by_brick[order].reshape(-1, *inner)
    return np_or_jnp.concatenate([ordered, filled_values[len(bricks) * VOXELS :]])
