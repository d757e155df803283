"""What a volume says of itself on the host, and its files."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

import jaxwarp as wp
from jaxwarp.boundary import boundary
from jaxwarp.errors import ArrayError, KernelTypeError
from jaxwarp.geometry.volumes.bricks import STEPS, VOXELS
from jaxwarp.geometry.volumes.build import TYPES
from jaxwarp.types import element_scalar, element_shape

NAMES = {
    "float32": "float",
    "float64": "double",
    "int32": "int32",
    "int64": "int64",
    "uint32": "uint32",
    "vec3f": "Vec3f",
    "vec3d": "Vec3d",
    "vec4f": "Vec4f",
    "vec4d": "Vec4d",
}
"""Types of values as NanoVDB calls them."""


class GridInfo(NamedTuple):
    """What is known of a grid besides its voxels."""

    name: str
    size_in_bytes: int
    grid_index: int
    grid_count: int
    type_str: str
    translation: Any
    transform_matrix: Any


class Inspected:
    """Of a volume: questions that the host asks."""

    GridInfo = GridInfo

    @property
    def device(self) -> Any:
        """Where it is, outside of JAX."""
        return wp.get_device("cpu")

    @property
    def dtype(self) -> Any:
        """The type of the values; None of an index grid."""
        name = type_name(self)
        return None if name is None else TYPES[name]

    @property
    def is_index(self) -> bool:
        """Whether it has no values, but numbers of voxels."""
        return type_name(self) is None

    def get_tile_count(self) -> int:
        """How many bricks there are; of a volume that can be rebuilt, how many there may be."""
        made: Any = self
        most = made.get_rebuild_info()
        return most.max_leaf_node_count if most.kind else _known("get_tile_count", made.tile_count)

    def get_voxel_count(self) -> int:
        """How many voxels have a number; of a volume that can be rebuilt, how many may have."""
        made: Any = self
        most = made.get_rebuild_info()
        return most.max_voxel_count if most.kind else _known("get_voxel_count", made.voxel_count)

    @boundary
    def get_tiles(self, out: Any = None) -> Any:
        """The lowest voxel of each brick, (b, 3) of int32.

        Args:
            out: an array to write them to, and to return. Outside of JAX.

        Raises:
            KernelTypeError: in a program of JAX, where the number of bricks is not known: `tiles` has them.
            ArrayError: there are more than `out` has room for.
        """
        made: Any = self
        count = _known("get_tiles", made.tile_count)
        return _given(made.tiles[: min(count, len(made.tiles))], self.get_tile_count(), out, "get_tiles")

    @boundary
    def get_voxels(self, out: Any = None) -> Any:
        """The voxels in the order of their numbers, (n, 3) of int32.

        Args, Raises: as `get_tiles`.
        """
        made: Any = self
        count = _known("get_voxels", made.tile_count)
        tiles = np.asarray(made.tiles)[:count]
        place = np.arange(len(tiles) * VOXELS)
        if made.index is not None:
            index = np.asarray(made.index)[: len(place)]
            place = np.flatnonzero(index >= 0)
            place = place[np.argsort(index[place], kind="stable")]
        found = tiles[place // VOXELS] + STEPS[place % VOXELS]
        is_jax = isinstance(made.tiles, jax.Array)
        return _given(jnp.asarray(found) if is_jax else found, self.get_voxel_count(), out, "get_voxels")

    def get_voxel_size(self) -> tuple[float, float, float]:
        """The diagonal of a voxel in world space."""
        made: Any = self
        if isinstance(made.matrix, jax.core.Tracer):
            raise KernelTypeError("Volume.get_voxel_size: it is not known in a program of JAX", hint="volume.matrix")
        x, y, z = np.asarray(made.matrix).sum(1).tolist()
        return x, y, z


def type_name(volume: Any) -> str | None:
    """The name of the type of the values; None of an index grid."""
    values = volume.values
    if values is None:
        return None
    inner = values.shape[1:]
    return next(n for n, t in TYPES.items() if element_shape(t) == inner and element_scalar(t).numpy == values.dtype)


def _known(what: str, count: Any) -> int:
    if isinstance(count, jax.core.Tracer):
        raise KernelTypeError(
            f"Volume.{what}: the number is not known before the program runs",
            hint="call it outside of jit; volume.tiles has the bricks, volume.tile_count how many there are",
        )
    return int(count)


def _given(found: Any, most: int, out: Any, what: str) -> Any:
    """What was found, in `out` if that is given: outside of JAX an array of jaxwarp."""
    if out is None:
        return found if isinstance(found, jax.Array) else wp.array(np.array(found), dtype=int, device="cpu")
    held = out.numpy() if hasattr(out, "numpy") else None
    if held is None or held.dtype != np.int32 or held.ndim != 2 or held.shape[1] != 3:
        raise ArrayError(f"Volume.{what}: out: expected an array of vec3i, or of int32 of shape (n, 3), got {out!r}")
    if len(held) < max(most, len(found)):
        raise ArrayError(f"Volume.{what}: out: expected at least {most} rows, got {len(held)}")
    held[: len(found)] = found
    return out
