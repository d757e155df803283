"""The inspection of a volume on the host, and its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import boundary
from jaxwarp.errors import ArrayError, KernelTypeError
from jaxwarp.geometry.volumes import nanovdb
from jaxwarp.geometry.volumes.bricks import STEPS, VOXELS
from jaxwarp.geometry.volumes.build import TYPES, type_name
from jaxwarp.geometry.volumes.layout import TYPE_NAMES
from jaxwarp.types import element_scalar, element_shape
from jaxwarp.unlocked import address_of

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
    """The description of a grid, without its voxels."""

    name: str
    size_in_bytes: int
    grid_index: int
    grid_count: int
    type_str: str
    translation: Any
    transform_matrix: Any


class FeatureArrayInfo(NamedTuple):
    """The description of an array that came with a grid."""

    name: str
    ptr: int
    value_size: int
    value_count: int
    type_str: str


class Inspected:
    """The methods of a volume that inspect it on the host, and its files."""

    GridInfo = GridInfo
    FeatureArrayInfo = FeatureArrayInfo

    @property
    def device(self) -> Any:
        """The device of the volume's arrays if they are outside of JAX; otherwise the CPU."""
        made: Any = self
        return made.table.device if isinstance(made.table, HostArray) else wp.get_device("cpu")

    @property
    def dtype(self) -> Any:
        """The type of the values. None for an index grid."""
        name = type_name(self)
        return None if name is None else TYPES[name]

    @property
    def is_index(self) -> bool:
        """True if the volume has numbers of voxels instead of values."""
        return type_name(self) is None

    def get_tile_count(self) -> int:
        """Return the number of bricks. For a volume that can be rebuilt, it is the largest possible number."""
        made: Any = self
        most = made.get_rebuild_info()
        return most.max_leaf_node_count if most.kind else _known("get_tile_count", made.tile_count)

    def get_voxel_count(self) -> int:
        """Return the number of voxels that have a number. If the volume can be rebuilt, it is the largest possible."""
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
        tiles = made.tiles if isinstance(made.tiles, jax.Array) else np.asarray(made.tiles)
        return _given(self, tiles[: min(count, len(tiles))], self.get_tile_count(), out, "get_tiles")

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
        return _given(self, jnp.asarray(found) if is_jax else found, self.get_voxel_count(), out, "get_voxels")

    def get_voxel_size(self) -> tuple[float, float, float]:
        """The diagonal of a voxel in world space."""
        made: Any = self
        if isinstance(made.matrix, jax.core.Tracer):
            raise KernelTypeError("Volume.get_voxel_size: it is not known in a program of JAX", hint="volume.matrix")
        grid = self.__dict__.get("_grid")
        found = np.asarray(made.matrix).sum(1) if grid is None else grid.header["voxel_size"].astype(np.float32)
        x, y, z = found.tolist()
        return x, y, z

    @boundary
    def get_grid_info(self) -> GridInfo:
        """Return the description of the grid, without its voxels."""
        made: Any = self
        grid, size = self.__dict__.get("_grid"), len(nanovdb.bytes_of(made))
        _, index, count = nanovdb.following(made)[0]
        return GridInfo(
            "" if grid is None else grid.name, size, index, count, self._type_str(grid),
            wp.vec3(*np.asarray(made.translation).tolist()), wp.mat33(*np.asarray(made.matrix).reshape(-1).tolist()),
        )  # fmt: skip

    def _type_str(self, grid: Any) -> str:
        name = type_name(self)
        return NAMES[name] if name is not None else "OnIndex" if grid is None else TYPE_NAMES[grid.layout.number]

    @boundary
    def array(self) -> Any:
        """The volume as a grid of NanoVDB, and those that follow in its file: an array of uint8."""
        chain = nanovdb.following(self)
        found = b"".join(nanovdb.bytes_of(v, *place) for v, *place in chain)
        return wp.array(np.frombuffer(found, np.uint8), dtype=wp.uint8, device=self.device)

    @boundary
    def save_to_nvdb(self, path: Any, codec: str = "none") -> Any:
        """Writes a file of NanoVDB, with the grids that follow in the volume's own file.

        Args:
            path: its name.
            codec: "none", "zip" or, where the package `blosc` is installed, "blosc".

        Returns:
            `path`.

        Raises:
            KernelValueError, FormatError: there is no such codec; blosc is not installed.
            KernelTypeError: the volume is traced.
            ArrayError: the volume is not the first one of its file.
        """
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(self)):
            raise KernelTypeError(
                "Volume.save_to_nvdb: the volume is traced: it has no values yet", hint="return it, and save it outside"
            )
        Path(path).write_bytes(nanovdb.file_of(self, codec))
        return path

    @boundary
    def load_next_grid(self) -> Any:
        """The volume of the grid that follows in the file; None if there is none."""
        return nanovdb.next_of(self, self.device)

    def _features(self) -> Any:
        grid = self.__dict__.get("_grid")
        return () if grid is None else grid.features

    def get_feature_array_count(self) -> int:
        """Return how many arrays came with the grid."""
        return len(self._features())

    @boundary
    def get_feature_array_info(self, feature_index: int) -> FeatureArrayInfo:
        """Return the description of an array that came with the grid.

        Raises:
            ArrayError: there is none of that number.
        """
        found = self._feature(feature_index)
        count = len(found.data) // max(1, found.value_size)
        return FeatureArrayInfo(found.name, address_of(found.data), found.value_size, count, found.type_str)

    def _feature(self, index: int) -> Any:
        features = self._features()
        if not isinstance(index, (int, np.integer)) or not 0 <= index < len(features):
            raise ArrayError(f"Volume.feature_array: expected a number below {len(features)}, got {index!r}")
        return features[index]

    @boundary
    def feature_array(self, feature_index: int, dtype: Any = None) -> Any:
        """An array that came with the grid, copied.

        Args:
            feature_index: its number.
            dtype: the type of its elements; None: as the file says, or bytes.

        Raises:
            ArrayError: there is none of that number, or the type does not fit it.
        """
        found = self._feature(feature_index)
        name = next((n for n, text in NAMES.items() if text == found.type_str), None)
        t = wp.types.as_dtype(dtype) if dtype is not None else TYPES.get(name or "", wp.uint8)
        inner = element_shape(t)
        size = element_scalar(t).numpy.itemsize * int(np.prod(inner))
        if len(found.data) % size or (size not in (1, found.value_size) and found.value_size != 1):
            raise ArrayError(f"Volume.feature_array: elements of {found.value_size} bytes are not of {t!r}")
        data = np.array(found.data).view(element_scalar(t).numpy).reshape(-1, *inner)
        return wp.array(data, dtype=t, device=self.device)


def _known(what: str, count: Any) -> int:
    if isinstance(count, jax.core.Tracer):
        raise KernelTypeError(
            f"Volume.{what}: the number is not known before the program runs",
            hint="call it outside of jit; volume.tiles has the bricks, volume.tile_count how many there are",
        )
    return int(count)


def _given(volume: Inspected, found: Any, most: int, out: Any, what: str) -> Any:
    """Return the result in `out` if that is given; otherwise as an array of JAX, or outside of JAX, of jaxwarp."""
    if out is None:
        return found if isinstance(found, jax.Array) else wp.array(np.array(found), dtype=int, device=volume.device)
    held = out.numpy() if hasattr(out, "numpy") else None
    if held is None or held.dtype != np.int32 or held.ndim != 2 or held.shape[1] != 3:
        raise ArrayError(f"Volume.{what}: out: expected an array of vec3i, or of int32 of shape (n, 3), got {out!r}")
    if len(held) < max(most, len(found)):
        raise ArrayError(f"Volume.{what}: out: expected at least {most} rows, got {len(held)}")
    if isinstance(out, HostArray):
        out[: len(found)].assign(found)
    else:
        held[: len(found)] = found
    return out
