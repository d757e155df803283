"""The construction of volumes from tiles, voxels or dense arrays. Functions here return the fields of a `Volume`."""

from __future__ import annotations

import math
import numbers
from typing import Any, NamedTuple, cast

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

import jaxwarp as wp
from jaxwarp.conversions import require_unmasked
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.geometry.operations import is_on_host
from jaxwarp.geometry.volumes.bricks import NOWHERE, VOXELS, BrickTable
from jaxwarp.memory.live_array import LiveArray
from jaxwarp.quaternions import HostValue
from jaxwarp.types import element_scalar, element_shape, types_equal

Fields = dict[str, Any]

TYPES: dict[str, Any] = {
    "float32": wp.float32,
    "float64": wp.float64,
    "int32": wp.int32,
    "int64": wp.int64,
    "uint32": wp.uint32,
    "vec3f": wp.vec3f,
    "vec3d": wp.vec3d,
    "vec4f": wp.vec4f,
    "vec4d": wp.vec4d,
}
KINDS = ("scalars", "vec3s", "vec4s")
_MOST_VOXELS = (1 << 31) - 1


class Transforms(NamedTuple):
    """The transform from index to world space, and back: (3, 3), (3, 3), (3,) of float32."""

    matrix: Any
    inverse: Any
    translation: Any


def is_jax(*values: Any) -> bool:
    return any(isinstance(v, jax.Array) for v in values)


# Transforms


def transforms(where: str, voxel_size: Any, translation: Any, transform: Any = None) -> Transforms:
    """Make transforms from the size of voxels, a number or three, or from a matrix, (3, 3).

    Raises:
        KernelTypeError, KernelValueError: both or none are given, or they are no such numbers.
    """
    if (voxel_size is None) == (transform is None):
        raise KernelValueError(
            f"{where}: expected voxel_size or transform, got {'neither' if transform is None else 'both'}",
            hint="pass one of them",
        )
    moved = _numbers(f"{where}: translation", translation, (3,))
    if transform is not None:
        matrix = _numbers(f"{where}: transform", transform, (3, 3))
        return _inverted(where, matrix, moved)
    size = voxel_sizes(where, voxel_size)
    if is_jax(size, moved):
        size = jnp.asarray(size)
        return Transforms(jnp.diag(size), jnp.diag(1 / size), jnp.asarray(moved))
    return Transforms(np.diag(size), np.diag((1 / size.astype(np.float64)).astype(np.float32)), moved)


def voxel_sizes(where: str, given: Any) -> Any:
    """(3,) of float32.

    Raises:
        KernelTypeError, KernelValueError: it is no number or three, or one is known not to be positive and finite.
    """
    if isinstance(given, (str, bytes)) or not (
        isinstance(given, numbers.Real) or hasattr(given, "__len__") or is_jax(given)
    ):
        raise KernelTypeError(f"{where}: voxel_size: expected a number, or three, got {given!r}", hint="voxel_size=0.1")
    shape = np.shape(cast("Any", given))
    if shape not in ((), (3,)):
        raise KernelValueError(
            f"{where}: voxel_size: expected a number, or three, got {shape}",
            hint="voxel_size=(0.1, 0.1, 0.2)",
        )
    if isinstance(given, jax.core.Tracer):
        return jnp.broadcast_to(given.astype(jnp.float32), (3,))
    size = np.broadcast_to(np.asarray(given, np.float64), 3)
    if not (np.isfinite(size) & (size > 0)).all():
        raise KernelValueError(
            f"{where}: voxel_size: expected positive numbers, got {given!r}", hint="pass the width of a voxel"
        )
    size = size.astype(np.float32)
    return jnp.asarray(size) if is_jax(given) else size


def _numbers(where: str, given: Any, shape: tuple[int, ...]) -> Any:
    try:
        found = given.astype(jnp.float32) if is_jax(given) else np.asarray(given, np.float32).view(np.ndarray)
    except (TypeError, ValueError):
        raise KernelTypeError(f"{where}: expected numbers of shape {shape}, got {given!r}") from None
    if found.shape != shape and not (found.size == math.prod(shape) and len(shape) == 2):
        raise KernelValueError(f"{where}: expected the shape {shape}, got {found.shape}")
    if not isinstance(found, jax.core.Tracer) and not np.isfinite(found).all():
        raise KernelValueError(f"{where}: expected finite numbers, got {np.asarray(found).tolist()}")
    return found.reshape(shape)


def _inverted(where: str, matrix: Any, moved: Any) -> Transforms:
    if is_jax(matrix, moved):
        return Transforms(jnp.asarray(matrix), jnp.linalg.inv(matrix), jnp.asarray(moved))
    try:
        inverse = np.linalg.inv(matrix.astype(np.float64)).astype(np.float32)
    except np.linalg.LinAlgError:
        inverse = np.full((3, 3), np.nan, np.float32)
    if not np.isfinite(inverse).all():
        raise KernelValueError(f"{where}: transform: expected a matrix with an inverse, got {matrix.tolist()}")
    return Transforms(matrix, inverse, moved)


# Values


def background(where: str, given: Any) -> tuple[str | None, Any]:
    """The name of the type of a volume, and its background; None, of an index grid.

    Raises:
        KernelTypeError: there are no volumes of this type.
    """
    if given is None:
        return None, None
    name = _type_name(given)
    if name is None:
        raise KernelTypeError(
            f"{where}: bg_value: expected a value of {', '.join(TYPES)}, got {given!r}",
            hint="pass None for a volume of indices",
        )
    if is_jax(given):
        return name, given
    scalar = element_scalar(TYPES[name]).numpy
    return name, np.asarray(given, scalar).view(np.ndarray).reshape(element_shape(TYPES[name]))


def _type_name(given: Any) -> str | None:
    if isinstance(given, HostValue) and given.type is not None:
        return next((n for n, t in TYPES.items() if types_equal(t, given.type)), None)
    if isinstance(given, (bool, str, bytes)):
        return None
    if isinstance(given, (int, float)) and not isinstance(given, np.generic):
        return "int32" if isinstance(given, int) else "float32"
    shape: Any = np.shape(given)
    dtype = getattr(given, "dtype", None)
    if shape == ():
        return dtype.name if dtype is not None and dtype.name in TYPES else None
    if shape not in ((3,), (4,)):
        return None
    return f"vec{shape[0]}{'d' if is_jax(given) and dtype == jnp.float64 else 'f'}"


def kind_of(name: str) -> str:
    """The field of a volume that has values of a type."""
    return f"{name[:4]}s" if name.startswith("vec") else "scalars"


def type_name(volume: Any) -> str | None:
    """The name of the type of the values; None of an index grid."""
    values = volume.held_values
    if values is None:
        return None
    if isinstance(values, LiveArray):
        return next(n for n, t in TYPES.items() if types_equal(t, values.dtype))
    inner = values.shape[1:]
    return next(n for n, t in TYPES.items() if element_shape(t) == inner and element_scalar(t).numpy == values.dtype)


def filled(name: str, value: Any, bricks: int) -> Any:
    """Values of bricks, all the same: (512 * bricks[, c])."""
    np_or_jnp = jnp if is_jax(value) else np
    shape = (bricks * VOXELS, *element_shape(TYPES[name]))
    made = np_or_jnp.broadcast_to(value, shape)
    return made if is_jax(value) else np.array(made, order="C")


def fields(
    found: BrickTable,
    tiles: Any,
    frames: Transforms,
    counts: tuple[Any, Any],
    name: str | None,
    values: Any,
    index: Any = None,
) -> Fields:
    """All fields of a volume. If the values or the tiles are arrays of JAX, all arrays are."""
    held: Fields = dict.fromkeys(KINDS)
    if name is not None:
        held[kind_of(name)] = values
    made = {**found._asdict(), "tiles": tiles, "index": index, **held, **frames._asdict()}
    made |= {"tile_count": counts[0], "voxel_count": counts[1]}
    return made


def in_jax(made: Fields) -> Fields:
    """Return the fields with arrays of JAX in place of those of NumPy."""
    return {k: jnp.asarray(v) if isinstance(v, np.ndarray) else v for k, v in made.items()}


# Places


def places(where: str, points: Any, frames: Transforms) -> tuple[Any, Any]:
    """Voxels, (n, 3) of int32, of integers, or of floats in world space; and which of them are some, None for all.

    Raises:
        KernelTypeError, KernelValueError: they are of another type or shape, or not finite.
    """
    require_unmasked(points)
    if isinstance(points, LiveArray):
        points = points.numpy()
    shape, dtype = getattr(points, "shape", None), getattr(points, "dtype", None)
    if shape is None or dtype not in (np.int32, np.float32):
        got = type(points).__name__ if dtype is None else dtype
        raise KernelTypeError(
            f"{where}: expected an array of int32, or of float32 in world space, got {got}",
            hint="convert it: points.astype('int32')",
        )
    if len(shape) != 2 or shape[1] != 3:
        raise KernelValueError(
            f"{where}: expected the shape (n, 3), got {tuple(shape)}", hint="pass a row for each point"
        )
    return (points, None) if dtype == np.int32 else _voxels(where, points, frames)


def _voxels(where: str, points: Any, frames: Transforms) -> tuple[Any, Any]:
    """The voxel that is next to each point in world space."""
    if is_on_host(points, frames.inverse, frames.translation):
        local = (np.asarray(points) - np.asarray(frames.translation)) @ np.asarray(frames.inverse).T
        if not (np.abs(local) < NOWHERE).all():
            raise KernelValueError(f"{where}: expected finite places, got some that are not", hint="leave them out")
        found = np.floor(local + np.float32(0.5)).astype(np.int32)
        return (jnp.asarray(found) if is_jax(points) else found), None
    local = (points - frames.translation) @ frames.inverse.T
    is_some = jnp.abs(local) < NOWHERE
    return jnp.where(is_some, jnp.floor(local + 0.5), 0).astype(jnp.int32), is_some.all(1)


def require_few(where: str, bricks: int) -> None:
    if bricks * VOXELS > _MOST_VOXELS:
        raise KernelValueError(f"{where}: expected fewer than 2^31 voxels, got {bricks} bricks of 512")


def masked(where: str, mask: Any, count: int) -> Any:
    """Return which points count: (n,) of bool, or None for all."""
    if mask is None:
        return None
    mask = mask.numpy() if isinstance(mask, LiveArray) else mask
    if np.shape(mask) != (count,):
        raise KernelValueError(f"{where}: point_mask: expected {count} numbers, one a point, got {np.shape(mask)}")
    return mask.astype(bool) if hasattr(mask, "astype") else np.asarray(mask, bool)
