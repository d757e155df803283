"""Volumes that can be rebuilt in place, outside of JAX: what they may have, and what is said if it is too little."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.core
import numpy as np

from jaxwarp.arrays.moved import fields_on
from jaxwarp.boundary import boundary
from jaxwarp.errors import ArrayError, KernelTypeError, KernelValueError, type_text
from jaxwarp.geometry.volumes import allocate as made_of
from jaxwarp.geometry.volumes.bricks import EDGE, VOXELS
from jaxwarp.geometry.volumes.build import Fields, Transforms
from jaxwarp.memory.host_scope import HOST
from jaxwarp.memory.live_array import LiveArray
from jaxwarp.types import set_fields


class RebuildInfo(NamedTuple):
    """The capacities of a volume: `kind` is "tiles" or "voxels", or None if it cannot be rebuilt."""

    kind: str | None
    max_voxel_count: int
    max_leaf_node_count: int
    max_lower_node_count: int
    max_upper_node_count: int


class ActiveStats(NamedTuple):
    """The counts of a volume's voxels and nodes. The nodes are those that NanoVDB has for it."""

    voxel_count: int
    leaf_node_count: int
    lower_node_count: int
    upper_node_count: int


class Capacities(NamedTuple):
    """Numbers that were given, None where they were not."""

    is_rebuildable: bool
    points: int
    voxels: int | None
    leaves: int | None
    lower: int | None
    upper: int | None

    @classmethod
    def of(cls, where: str, points: Any, rebuildable: bool, *numbers: int | None) -> Capacities:
        """
        Raises:
            KernelTypeError, KernelValueError: a number is none, or not positive; the points are no array.
        """
        if not hasattr(points, "__len__"):
            name = "tile_points" if "tiles" in where else "voxel_points"
            raise KernelTypeError(
                f"{where}: {name}: expected an array, got {type_text(points)}", hint="(n, 3) of int32 or float32"
            )
        names = (
            "max_active_voxels",
            "max_tiles" if "tiles" in where else "max_leaf_nodes",
            "max_lower_nodes",
            "max_upper_nodes",
        )
        found = [_number(f"{where}: {name}", n) for name, n in zip(names, numbers, strict=True)]
        return cls(rebuildable or any(n is not None for n in found), len(points), *found)

    def info(self, kind: str) -> RebuildInfo:
        """Return the capacities. Those that were not given follow from the others."""
        if not self.is_rebuildable:
            return NONE
        voxels = self.points if self.voxels is None else self.voxels
        leaves = self.leaves if self.leaves is not None else self.points if kind == "tiles" else voxels
        lower = leaves if self.lower is None else self.lower
        upper = lower if self.upper is None else self.upper
        return RebuildInfo(kind, leaves * VOXELS if kind == "tiles" else voxels, leaves, lower, upper)


NONE = RebuildInfo(None, 0, 0, 0, 0)


def _number(where: str, value: Any) -> int | None:
    if value is None:
        return None
    try:
        number = operator.index(value)
    except TypeError:
        raise KernelTypeError(f"{where}: expected a number known before the program runs, got {value!r}") from None
    if not 0 < number < 1 << 32:
        raise KernelValueError(f"{where}: expected a positive number below 2^32, got {number}")
    return number


def built(  # noqa: PLR0913
    make: Callable[[Fields], Any],
    where: str,
    kind: str,
    points: Any,
    frames: Transforms,
    bg_value: Any,
    mask: Any,
    most: Capacities,
    status: Any,
) -> Any:
    """A volume of tiles or voxels, which `make` makes of its fields."""
    info = most.info(kind)
    made = make(_fields(where, kind, points, frames, bg_value, mask, info, most.leaves))
    if most.is_rebuildable and not isinstance(made.tile_count, jax.core.Tracer):
        set_fields(made, _rebuild_info=info)
        _finish(where, made, info, status)
    return made


def _fields(
    where: str,
    kind: str,
    points: Any,
    frames: Transforms,
    bg_value: Any,
    mask: Any,
    info: RebuildInfo,
    room: int | None,
) -> Any:
    leaves = room if info.kind is None else info.max_leaf_node_count
    if kind == "tiles":
        return made_of.of_tiles(where, points, frames, bg_value, mask, leaves)
    return made_of.of_voxels(where, points, frames, mask, leaves, info.max_voxel_count if info.kind else None)


def _finish(where: str, volume: Any, info: RebuildInfo, status: Any) -> None:
    """Says in `status` what was too little, and leaves bricks out that have no room."""
    stats = volume.get_active_stats()
    asked = int(volume.tile_count)
    flags = (
        (asked > info.max_leaf_node_count, Rebuilt.REBUILD_LEAF_CAPACITY_EXCEEDED),
        (stats.lower_node_count > info.max_lower_node_count, Rebuilt.REBUILD_LOWER_CAPACITY_EXCEEDED),
        (stats.upper_node_count > info.max_upper_node_count, Rebuilt.REBUILD_UPPER_CAPACITY_EXCEEDED),
        (_lacks_voxels(volume, info, asked), Rebuilt.REBUILD_VOXEL_CAPACITY_EXCEEDED),
    )
    set_fields(volume, tile_count=len(volume.tiles))
    if status is None:
        return
    if not isinstance(status, LiveArray) or status.shape != (1,) or status.numpy().dtype != np.uint32:
        raise ArrayError(f"{where}: status: expected an array of one uint32, got {status!r}")
    status.fill_(sum(flag for is_set, flag in flags if is_set))


def _lacks_voxels(volume: Any, info: RebuildInfo, asked: int) -> bool:
    if info.kind == "tiles":
        return asked * VOXELS > info.max_voxel_count
    return int(volume.__dict__["_asked_voxels"]) > info.max_voxel_count


class Rebuilt:
    """The methods of a volume that `rebuildable=True` is for."""

    REBUILD_SUCCESS: ClassVar[int] = 0
    REBUILD_LEAF_CAPACITY_EXCEEDED: ClassVar[int] = 1
    REBUILD_LOWER_CAPACITY_EXCEEDED: ClassVar[int] = 2
    REBUILD_UPPER_CAPACITY_EXCEEDED: ClassVar[int] = 4
    REBUILD_VOXEL_CAPACITY_EXCEEDED: ClassVar[int] = 8
    REBUILD_INVALID_INPUT: ClassVar[int] = 16

    RebuildInfo = RebuildInfo
    ActiveStats = ActiveStats

    @property
    def is_rebuildable(self) -> bool:
        """True if `rebuild` may be called."""
        return self.get_rebuild_info().kind is not None

    def get_rebuild_info(self) -> RebuildInfo:
        """Return the capacities of the volume."""
        return self.__dict__.get("_rebuild_info", NONE)

    def get_active_stats(self) -> ActiveStats:
        """Return how many voxels and nodes of NanoVDB there are."""
        made: Any = self
        tiles = np.asarray(made.tiles)[: int(made.tile_count)]
        nodes = [len(np.unique(tiles // n, axis=0)) for n in (16 * EDGE, 512 * EDGE)]
        return ActiveStats(int(made.voxel_count), len(tiles), *nodes)

    @boundary
    def rebuild(self, points: Any, status: Any = None, point_mask: Any = None) -> Any:
        """Gives the volume other bricks, or an index grid other voxels, in place and outside of JAX.

        The transform, the background and what there may be stay as they are; values become the background.

        Args:
            points: as they were given when it was made.
            status: an array of one uint32, which is set to `Volume.REBUILD_` flags.
            point_mask: (n,) of int32: points with 0 do not count.

        Returns:
            `status`.

        Raises:
            ArrayError: it was not made with `rebuildable=True`.
            KernelTypeError, KernelValueError: the points do not fit.
        """
        made: Any = self
        where, info = "Volume.rebuild", self.get_rebuild_info()
        if info.kind is None:
            raise ArrayError(f"{where}: the volume is not rebuildable", hint="make it with rebuildable=True")
        if isinstance(made.tiles, jax.Array):
            raise KernelTypeError(
                f"{where}: a volume does not change in JAX, where values do not",
                hint="make one: Volume.allocate_by_tiles",
            )
        if HOST.defers(where, lambda: self.rebuild(points, status, point_mask)):
            return status
        frames = Transforms(made.matrix, made.inverse, made.translation)
        bg_value = None if made.is_index else made.dtype(made.background)
        found = _fields(where, info.kind, points, frames, bg_value, point_mask, info, None)
        set_fields(self, fields_on(type(self), found, made.device))
        _finish(where, made, info, status)
        return status
