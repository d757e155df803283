"""`Volume`: bricks of voxels and where they are, as a value of JAX and an argument of kernels."""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import jax.numpy as jnp
import numpy as np

import jaxwarp as wp
from jaxwarp.arrays.ids.living import id_of
from jaxwarp.arrays.ids.tables import give_ids
from jaxwarp.arrays.moved import device_for, fields_on
from jaxwarp.boundary import boundary, called, guarded
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.geometry.volumes import allocate as made_of
from jaxwarp.geometry.volumes import nanovdb
from jaxwarp.geometry.volumes.bricks import VOXELS
from jaxwarp.geometry.volumes.build import KINDS, is_jax, transforms
from jaxwarp.geometry.volumes.inspect import Inspected
from jaxwarp.geometry.volumes.rebuild import Capacities, Rebuilt, built
from jaxwarp.memory.devices import Device
from jaxwarp.memory.live_array import LiveArray
from jaxwarp.types import ABSENT_HINTS, HANDLE, Named, set_fields

Vec3: Any = wp.types.vector(length=3, dtype=Any)
Vec4: Any = wp.types.vector(length=4, dtype=Any)


@guarded
@wp.struct
class Volume(Inspected, Rebuilt):
    """Values at the voxels of a sparse grid, which kernels look up and sample.

    A volume is a struct: a pytree in JAX, and an argument of kernels, annotated `wp.Volume`, or `wp.uint64` as in Warp.
    `Volume.load_from_numpy`, `allocate`, `allocate_by_tiles`, `allocate_by_voxels` and `load_from_nvdb` make one. With
    JAX arrays the first four are pure functions, which work under `jit`, `vmap` and `scan`. Otherwise the volume has
    NumPy arrays, or jaxwarp arrays on a GPU, and kernels outside of JAX can write to it.

    Voxels are stored in bricks of 8 by 8 by 8. One array has all values: first those of the bricks, one brick after
    another, then a brick of the background, then a brick for each value that fills a larger part of a file. Values and
    transforms have derivatives.

    Attributes:
        table, entries, low, dims: the table that finds the brick at a place.
        tiles: the lowest voxel of each brick, of shape (b, 3).
        index: the numbers of the voxels, of shape (512 b,), if only active voxels have one. None: they are in order.
        scalars, vec3s, vec4s: the values. Only the array of the volume's type is not None; in an index grid, none is.
        matrix, inverse, translation: the transform from index to world space, and its inverse.
        tile_count, voxel_count: the numbers of bricks and of voxels.

    Args:
        data: an array of bytes: a NanoVDB grid in memory, without the header of a file.
        copy: accepted, but has no effect.
    """

    table: wp.array[int]
    entries: wp.array[wp.vec4i]
    low: wp.vec3i
    dims: wp.vec3i
    tiles: wp.array[wp.vec3i]
    index: wp.array[int]
    scalars: wp.array[Any]
    vec3s: wp.array[Vec3]
    vec4s: wp.array[Vec4]
    matrix: wp.mat33
    inverse: wp.mat33
    translation: wp.vec3
    tile_count: int
    voxel_count: int

    CLOSEST: ClassVar[int] = 0
    LINEAR: ClassVar[int] = 1

    if TYPE_CHECKING:  # checkers would make it of the fields

        def __init__(self, data: Any, copy: bool = True) -> None: ...

    @property
    def id(self) -> Any:
        """The id to pass to a kernel that takes `uint64`. In JAX it is the volume itself."""
        return id_of(self)

    @property
    def held_values(self) -> Any:
        """The array of `values`, where it is."""
        return next((vars(self)[k] for k in KINDS if vars(self)[k] is not None), None)

    @property
    def values(self) -> Any:
        """All values, of shape (n,) or (n, c), those of the background included. None for an index grid.

        For a volume on a GPU they are a copy in the memory of the host.
        """
        found = self.held_values
        return found.numpy() if isinstance(found, LiveArray) else found

    @property
    def bricks(self) -> Any:
        """The values of the bricks, of shape (b, 8, 8, 8) or (b, 8, 8, 8, c)."""
        values = self.values
        if values is None:
            raise KernelTypeError("Volume.bricks: an index grid has no values", hint="make an array for its voxels")
        return values[: len(self.tiles) * VOXELS].reshape(-1, 8, 8, 8, *values.shape[1:])

    @property
    def background(self) -> Any:
        """The value outside of all bricks. None for an index grid."""
        held, first = self.held_values, len(self.tiles) * VOXELS
        if isinstance(held, LiveArray):
            return held[first : first + 1].numpy()[0]
        return None if held is None else held[first]

    @property
    def overflow(self) -> Any:
        """True if some bricks did not fit: a program needed more than `max_tiles`."""
        return self.tile_count > len(self.tiles)

    @boundary
    def replace(self, bricks: Any = None, background: Any = None) -> Volume:
        """Make a volume with the same bricks, and other values or another background.

        Args:
            bricks: (b, 8, 8, 8[, c]).
            background: a value.

        Raises:
            KernelTypeError, KernelValueError: they are of another type or shape.
        """
        values = self.values
        if values is None:
            raise KernelTypeError("Volume.replace: an index grid has no values", hint="make an array for its voxels")
        first, rest = values[: len(self.tiles) * VOXELS], values[len(self.tiles) * VOXELS :]
        if bricks is not None:
            first = _fitting("bricks", bricks, self.bricks).reshape(first.shape)
        if background is not None:
            filled = _fitting("background", background, rest[0])
            rest = _joined(_spread(filled, rest[:VOXELS].shape), rest[VOXELS:])
        made = object.__new__(type(self))
        set_fields(made, self.__dict__)
        set_fields(made, {next(k for k in KINDS if vars(self)[k] is not None): _joined(first, rest)})
        set_fields(made, fields_on(type(self), made.__dict__, self.device))
        return made

    @classmethod
    @boundary
    def load_from_nvdb(cls, file_or_buffer: Any, device: Any = None) -> Volume:
        """The first grid of a file of NanoVDB; `load_next_grid` gives those that follow.

        Grids are of float, double, int32, int64, uint32, vectors of three or four floats or doubles, or of indices;
        codecs are none, zip and, with the package `blosc`, blosc.

        Args:
            file_or_buffer: a file that is open to read bytes, or bytes.
            device: where the volume is, outside of JAX: "cpu", or a GPU; None: the device that is chosen.

        Raises:
            KernelTypeError: it is neither.
            FormatError: it is not of NanoVDB, is damaged, or has what is not there yet.
        """
        return nanovdb.load(partial(cls._of, device=device_for(device, "Volume.load_from_nvdb")), file_or_buffer)

    @classmethod
    @boundary
    def load_from_numpy(
        cls,
        ndarray: Any,
        min_world: Any = (0.0, 0.0, 0.0),
        voxel_size: Any = 1.0,
        bg_value: Any = 0.0,
        device: Any = None,
    ) -> Volume:
        """The values of a dense array: a brick for every 8 by 8 by 8 of them.

        Args:
            ndarray: (nx, ny, nz), or (nx, ny, nz, 3 or 4) of vectors, of NumPy or JAX.
            min_world: where voxel (0, 0, 0) is.
            voxel_size: a number, or three.
            bg_value: the value elsewhere. It says of which type the volume is: an integer of Python that it is int32, a
                float float32, three or four numbers vec3f or vec4f, and `wp.float64(0.0)` and the like their type.
            device: where the volume is, outside of JAX: "cpu", or a GPU; None: where `ndarray` is, if it is an array of
                jaxwarp, or the device that is chosen.

        Raises:
            KernelTypeError, KernelValueError: the array is of another shape, there are no volumes of the type, or
                a voxel has no positive size.
        """
        where = "Volume.load_from_numpy"
        place = device_for(device, where, ndarray)
        if voxel_size is None:
            raise KernelTypeError(f"{where}: voxel_size: expected a number, or three, got None", hint="voxel_size=0.1")
        frames = transforms(where, voxel_size, min_world)
        return cls._of(made_of.of_dense(where, ndarray, frames, bg_value), place)

    @classmethod
    @boundary
    def allocate(
        cls,
        min: Any,  # noqa: A002
        max: Any,  # noqa: A002
        voxel_size: Any,
        bg_value: Any = 0.0,
        translation: Any = (0.0, 0.0, 0.0),
        points_in_world_space: bool = False,
        device: Any = None,
    ) -> Volume:
        """Bricks for all voxels of a box, of the background.

        Args:
            min, max: corners of the box, which are in it: voxels.
            voxel_size: a number, or three.
            bg_value: as in `load_from_numpy`, or None for an index grid.
            translation: where voxel (0, 0, 0) is.
            points_in_world_space: the corners are places in world space.
            device: where the volume is, outside of JAX: "cpu", or a GPU; None: the device that is chosen.

        Raises:
            KernelTypeError, KernelValueError: as `load_from_numpy`.
        """
        where = "Volume.allocate"
        place = device_for(device, where)
        frames = transforms(where, voxel_size, translation)
        return cls._of(made_of.of_box(where, min, max, frames, bg_value, points_in_world_space), place)

    @classmethod
    @boundary
    def allocate_by_tiles(  # noqa: PLR0913 - as Warp has it
        cls,
        tile_points: Any,
        voxel_size: Any = None,
        bg_value: Any = 0.0,
        translation: Any = (0.0, 0.0, 0.0),
        device: Any = None,
        transform: Any = None,
        rebuildable: bool = False,
        max_tiles: int | None = None,
        max_lower_nodes: int | None = None,
        max_upper_nodes: int | None = None,
        status: Any = None,
        point_mask: Any = None,
    ) -> Volume:
        """A brick around each point, of the background.

        Args:
            tile_points: (n, 3) or an array of `vec3i` or `vec3`: voxels of int32, or places in world space of float32.
            voxel_size: a number, or three; or `transform`.
            bg_value: as in `load_from_numpy`, or None for an index grid.
            translation: where voxel (0, 0, 0) is.
            device: where the volume is, outside of JAX: "cpu", or a GPU; None: where the points are, if they are an
                array of jaxwarp, or the device that is chosen.
            transform: (3, 3), from index to world space.
            rebuildable: `rebuild` may be called. So it may be if any of the following numbers is given.
            max_tiles: how many bricks there may be. Under `jit`, it is the number there is room for, and `overflow`
                says whether it was too few; by default it is the number of points.
            max_lower_nodes, max_upper_nodes: how many nodes of NanoVDB there may be.
            status: an array of one uint32, which is set to `Volume.REBUILD_` flags.
            point_mask: (n,) of int32: points with 0 do not count.

        Raises:
            KernelTypeError, KernelValueError: arguments of another type or shape; world space that is not finite.
        """
        where = "Volume.allocate_by_tiles"
        make = partial(cls._of, device=device_for(device, where, tile_points))
        frames = transforms(where, voxel_size, translation, transform)
        most = Capacities.of(where, tile_points, rebuildable, None, max_tiles, max_lower_nodes, max_upper_nodes)
        return built(make, where, "tiles", tile_points, frames, bg_value, point_mask, most, status)

    @classmethod
    @boundary
    def allocate_by_voxels(  # noqa: PLR0913
        cls,
        voxel_points: Any,
        voxel_size: Any = None,
        translation: Any = (0.0, 0.0, 0.0),
        device: Any = None,
        transform: Any = None,
        rebuildable: bool = False,
        max_active_voxels: int | None = None,
        max_leaf_nodes: int | None = None,
        max_lower_nodes: int | None = None,
        max_upper_nodes: int | None = None,
        status: Any = None,
        point_mask: Any = None,
    ) -> Volume:
        """An index grid of the voxels at points: it has no values, but a number for each of them.

        Args:
            voxel_points: as `tile_points` of `allocate_by_tiles`, and so are the others.
            max_active_voxels: how many voxels there may be.
            max_leaf_nodes: how many bricks there may be; under `jit`, how many there is room for.

        Raises:
            KernelTypeError, KernelValueError: as `allocate_by_tiles`.
        """
        where = "Volume.allocate_by_voxels"
        make = partial(cls._of, device=device_for(device, where, voxel_points))
        frames = transforms(where, voxel_size, translation, transform)
        numbers = (max_active_voxels, max_leaf_nodes, max_lower_nodes, max_upper_nodes)
        most = Capacities.of(where, voxel_points, rebuildable, *numbers)
        return built(make, where, "voxels", voxel_points, frames, None, point_mask, most, status)

    @classmethod
    def _of(cls, fields: dict[str, Any], device: Device) -> Any:
        made = object.__new__(cls)
        set_fields(made, fields_on(cls, fields, device))
        return made


setattr(Volume, HANDLE, True)
_OPTIONAL = ("entries", "index", "scalars", "vec3s", "vec4s")
give_ids(Volume, Named(frozenset(_OPTIONAL)))
setattr(Volume, "_HINT", "volume = volume.replace(bricks=...)")  # noqa: B010 - no type knows it
_VALUES = "the volume has values of another type, or indices only: volume.dtype says which"
setattr(Volume, ABSENT_HINTS, dict.fromkeys(("scalars", "vec3s", "vec4s"), _VALUES))


@boundary
@called("Volume")
def _init(self: Volume, data: Any, copy: bool = True) -> None:
    del copy
    make = partial(type(self)._of, device=device_for(None, "Volume", data))
    set_fields(self, nanovdb.from_memory(make, data).__dict__)


Volume.__init__ = _init


def _fitting(what: str, given: Any, held: Any) -> Any:
    """A value of the type of another.

    Raises:
        KernelTypeError, KernelValueError: it is none.
    """
    given = given if is_jax(given) else np.asarray(given)
    if given.shape != held.shape:
        raise KernelValueError(f"Volume.replace: {what}: expected the shape {held.shape}, got {given.shape}")
    if given.dtype != held.dtype and (what == "bricks" or not np.can_cast(given.dtype, held.dtype, "same_kind")):
        raise KernelTypeError(
            f"Volume.replace: {what}: expected {held.dtype}, got {given.dtype}", hint=f"{what}.astype('{held.dtype}')"
        )
    return given.astype(held.dtype)


def _joined(*parts: Any) -> Any:
    return (jnp if is_jax(*parts) else np).concatenate(parts)


def _spread(value: Any, shape: tuple[int, ...]) -> Any:
    return (jnp if is_jax(value) else np).broadcast_to(value, shape)
