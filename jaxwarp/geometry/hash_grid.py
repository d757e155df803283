"""`HashGrid`: points sorted by the cells that they are in, as a value of JAX and an argument of kernels."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

import jaxwarp as wp
from jaxwarp import compat
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.ids.living import id_of
from jaxwarp.arrays.ids.tables import give_ids
from jaxwarp.arrays.launching import launch_unrecorded
from jaxwarp.boundary import boundary, called, guarded
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.geometry.cells import find_cells, find_starts
from jaxwarp.geometry.operations import as_float32, operation
from jaxwarp.geometry.sorting import sort_order, taken
from jaxwarp.memory.convert import for_jax
from jaxwarp.memory.host_scope import HOST, set_contents
from jaxwarp.native.library import sort_cells
from jaxwarp.types import ABSENT_HINTS, HANDLE, Named, set_fields

_STATIC = {"static": True}
_MOST_CELLS = 1 << 30
_POINTS = {wp.float16: wp.vec3h, wp.float32: wp.vec3, wp.float64: wp.vec3d}


class _Build:
    """`build`, of the class a function that makes a grid, and of a grid the method that programs of Warp call."""

    def __get__(self, grid: Any, kind: type) -> Callable[..., Any]:
        return _built if grid is None else partial(_rebuild, grid)


@guarded
@wp.struct
class HashGrid:
    """A grid of cells that finds the points near a place.

    It is a pytree of JAX, and an argument of kernels. `HashGrid.build(points, radius, dims)` makes one from points; it
    works under `jit`, `vmap` and `scan`. Outside of JAX, as in Warp, `grid = HashGrid(128, 128, 128)` makes an empty
    grid, and `grid.build(points, radius)` fills it whenever the points have moved.

    Cells repeat: points that are `dim_x` cells apart along x share a cell. So points may be anywhere, also at negative
    coordinates. No query finds a point that has a NaN or infinite coordinate. The grid has no derivative; values that
    you compute from the points it finds have one.

    Attributes:
        start: (cells + 1) where the points of each cell start, in the order of cells.
        ids: (n,) numbers of the points in that order.
        groups: (n,) their groups in that order, or None.
        points: (n, 3) the points in that order, or None where they were given outside of JAX.
        per_length: cells per unit of length, of each axis.
        period: lengths of the periodic box; 0 where an axis is not periodic.
        dim_x, dim_y, dim_z: numbers of cells, static under transformations of JAX.

    Args:
        dim_x, dim_y, dim_z: numbers of cells.
        device: of the points, outside of JAX: "cpu", or a GPU; None: the one that is chosen.
        dtype: of the points: float16, float32 or float64.

    Raises:
        KernelTypeError, KernelValueError: a number of cells is none, or there are too many; another `dtype`.
    """

    start: wp.array[int]
    ids: wp.array[int]
    groups: wp.array[int]
    points: wp.array[wp.vec3]
    per_length: wp.vec3
    period: wp.vec3
    dim_x: int = dataclasses.field(default=1, metadata=_STATIC)
    dim_y: int = dataclasses.field(default=1, metadata=_STATIC)
    dim_z: int = dataclasses.field(default=1, metadata=_STATIC)

    build = _Build()

    if TYPE_CHECKING:  # checkers would make it of the fields

        def __init__(self, dim_x: int, dim_y: int, dim_z: int, device: Any = None, dtype: Any = None) -> None: ...

    @property
    def id(self) -> Any:
        """A number that names the grid, for kernels that take `uint64`; 0 is none. In JAX, the grid itself."""
        return id_of(self)

    @property
    def device(self) -> Any:
        """The device of the grid's arrays if they are outside of JAX; otherwise the CPU."""
        return self.start.device if isinstance(self.start, HostArray) else wp.get_device("cpu")

    @property
    def dtype(self) -> Any:
        """The scalar type of the points that programs of Warp build it of."""
        return self.__dict__.get("_dtype", wp.float32)

    @boundary
    def reserve(self, num_points: int, with_groups: bool = False) -> None:
        """Accepted, no effect: memory is taken when it is needed."""
        del with_groups
        _require_number("HashGrid.reserve: num_points", num_points, 0)


@boundary
@called("HashGrid")
def _init(self: HashGrid, dim_x: int, dim_y: int, dim_z: int, device: Any = None, dtype: Any = None) -> None:
    dims = _dims("HashGrid", (dim_x, dim_y, dim_z), ("dim_x", "dim_y", "dim_z"))
    dtype = wp.float32 if dtype is None else wp.types.as_dtype(dtype)
    if dtype not in _POINTS:
        raise KernelTypeError(
            f"HashGrid: dtype: expected float16, float32 or float64, got {dtype!r}", hint="leave it out for float32"
        )
    empty = wp.zeros(0, dtype=int, device=device)
    start = wp.zeros(math.prod(dims) + 1, dtype=int, device=device)
    zeros = _fixed(np.zeros(3, np.float32))
    set_fields(self, _held(start, empty, None, None, zeros, zeros, dims), _dtype=dtype)


setattr(HashGrid, HANDLE, True)
give_ids(HashGrid, Named(frozenset(("groups", "points")), dict.fromkeys(("dim_x", "dim_y", "dim_z"), 1)))
setattr(HashGrid, "_HINT", "make another HashGrid; grid.build(points, radius) sets what it holds")  # noqa: B010 - no type knows it
setattr(HashGrid, ABSENT_HINTS, {"points": "a grid has points if it is made of float32 in JAX: pass them beside it"})
HashGrid.__init__ = _init


def _held(start: Any, ids: Any, groups: Any, points: Any, per_length: Any, period: Any, dims: Any) -> dict[str, Any]:
    return dict(zip(HashGrid.__match_args__, (start, ids, groups, points, per_length, period, *dims), strict=True))


def _fixed(values: np.ndarray) -> np.ndarray:
    """Numbers that do not change, as tables of ids count on."""
    values.flags.writeable = False
    return values


def _dims(where: str, given: Any, names: tuple[str, str, str] = ("dims", "dims", "dims")) -> tuple[int, int, int]:
    """Numbers of cells along the axes."""
    given = (given,) * 3 if np.ndim(given) == 0 else tuple(given)
    if len(given) != 3:
        raise KernelValueError(f"{where}: expected 3 numbers of cells, got {len(given)}", hint="dims=(64, 64, 64)")
    x, y, z = (_require_number(f"{where}: {name}", n, 1) for name, n in zip(names, given, strict=True))
    dims = x, y, z
    if math.prod(dims) > _MOST_CELLS:
        raise KernelValueError(f"{where}: expected at most 2^30 cells, got {' * '.join(map(str, dims))}")
    return dims


def _require_number(what: str, value: Any, least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise KernelTypeError(f"{what}: expected a number known before the program runs, got {value!r}") from None
    if number < least:
        raise KernelValueError(f"{what}: expected at least {least}, got {number}")
    return number


# In JAX


@boundary
@called("HashGrid.build")
def _built(points: Any, radius: Any, dims: Any, groups: Any = None, period: Any = None) -> HashGrid:
    """A grid of points: `HashGrid.build(points, radius, dims)`.

    Args:
        points: (n, 3) of a float type.
        radius: the width of cells: about the radius of most queries.
        dims: numbers of cells along x, y and z, or one for all. They are static.
        groups: (n,) integers: queries may ask for the points of one group.
        period: lengths of a periodic box, (3,) or one for all, in place of the radius: the cells divide it, so there
            should be about period / radius of them. 0 for axes that are not periodic. Points should be within a few
            lengths of the box.

    Raises:
        KernelTypeError, KernelValueError: arguments of another type or shape; a radius or a period that is negative,
            where it is known.
    """
    where = "HashGrid.build"
    cells = _dims(where, dims)
    points = _points(where, points)
    if groups is not None:
        groups = jnp.asarray(for_jax(groups, f"{where}: groups"))
        if groups.shape != points.shape[:1] or not jnp.issubdtype(groups.dtype, jnp.integer):
            raise KernelValueError(
                f"{where}: groups: expected {points.shape[0]} integers, got shape {groups.shape} of {groups.dtype}"
            )
    per_length, lengths = _scales(where, radius, period, cells)
    count = points.shape[0]
    (found,) = wp.jax_kernel(find_cells, launch_dims=count, output_dims=count)(
        jax.lax.stop_gradient(points), per_length, *cells
    )
    order = None if groups is None else sort_order(groups)[1]
    ordered, ids = sort_order(found if order is None else taken(found, order))
    ids = ids if order is None else taken(order, ids)
    (start,) = _starts(ordered, size=math.prod(cells) + 1)
    by_cell = None if groups is None else taken(groups, ids).astype(jnp.int32)
    made = object.__new__(HashGrid)
    kept = taken(points, ids) if points.dtype == jnp.float32 else None
    set_fields(made, _held(start, ids, by_cell, kept, per_length, lengths, cells))
    return made


def _start_results(cells: Any, size: int) -> list[Any]:
    return [((*cells.shape[:-1], size), np.dtype(np.int32))]


def _starts_by_jax(cells: Any, size: int) -> Any:
    call = wp.jax_kernel(find_starts, launch_dims=cells.shape[-1] + 1, output_dims=size, mode="release")
    return (jnp.vectorize(lambda row: call(row)[0], signature="(n)->(m)")(cells),)


_starts = operation("jaxwarp_cell_starts", _start_results, _starts_by_jax)
"""Where the points of each cell start, of cells in order."""


def _points(where: str, points: Any) -> jax.Array:
    try:
        points = jnp.asarray(for_jax(points, f"{where}: points"))
    except (TypeError, ValueError):
        raise KernelTypeError(f"{where}: points: expected an array, got {points!r}") from None
    if points.ndim != 2 or points.shape[1] != 3:
        raise KernelValueError(
            f"{where}: points: expected the shape (n, 3), got {points.shape}", hint="use jax.vmap for several sets"
        )
    if points.dtype not in (jnp.float16, jnp.float32, jnp.float64):
        raise KernelTypeError(
            f"{where}: points: expected floats of 16, 32 or 64 bits, got {points.dtype}",
            hint="convert them: points.astype(jnp.float32)",
        )
    return points


def _scales(where: str, radius: Any, period: Any, dims: tuple[int, int, int]) -> tuple[jax.Array, jax.Array]:
    """Cells per unit of length, and the lengths of the box."""
    radius = as_float32(f"{where}: radius", radius)
    lengths = as_float32(f"{where}: period", 0.0 if period is None else period)
    if radius.ndim or lengths.shape not in ((), (3,)):
        raise KernelValueError(
            f"{where}: expected a number as radius, one or (3,) as period, got shapes {radius.shape}, {lengths.shape}"
        )
    lengths = jax.lax.stop_gradient(jnp.broadcast_to(lengths, (3,)))
    radius = jax.lax.stop_gradient(radius)
    if not isinstance(lengths, jax.core.Tracer) and not np.all((np.asarray(lengths) >= 0) & np.isfinite(lengths)):
        raise KernelValueError(f"{where}: period: expected lengths, got {period!r}", hint="0 where there is no period")
    needed = isinstance(lengths, jax.core.Tracer) or bool(np.any(np.asarray(lengths) == 0))
    if needed and not isinstance(radius, jax.core.Tracer) and not float(radius) > 0:
        raise KernelValueError(f"{where}: radius: expected a positive number, got {radius}")
    # Traced, what is no length is none: negative ones, infinite ones.
    is_periodic = (lengths > 0) & (lengths < jnp.inf)
    lengths = jnp.where(is_periodic | jnp.isnan(lengths), lengths, 0)
    count = jnp.array(dims, jnp.float32)
    return jnp.where(is_periodic, count / jnp.where(is_periodic, lengths, 1), 1 / abs(radius)), lengths


# Outside of JAX


@boundary
def _rebuild(grid: HashGrid, points: Any, radius: float, groups: Any = None) -> None:
    """Gives the grid its points, outside of JAX: `grid.build(points, radius)`.

    Args:
        points: an array of `vec3`, or `vec3h` or `vec3d` as `dtype` says.
        radius: the width of cells: about the radius of most queries.
        groups: an array of int32, as many: queries may ask for the points of one group.

    Raises:
        KernelTypeError, KernelValueError: arguments of another type or size.
    """
    where = "HashGrid.build"
    if compat.is_tracing() or isinstance(points, jax.Array):
        raise KernelTypeError(
            f"{where}: a grid does not change in JAX, where values do not",
            hint="make one: HashGrid.build(points, radius, dims)",
        )
    points = _points_of(grid, points)
    if not (np.ndim(radius) == 0 and isinstance(radius, (int, float, np.number)) and float(radius) > 0):
        raise KernelValueError(f"{where}: radius: expected a positive number, got {radius!r}")
    if groups is not None:
        _require_groups(groups, points)
        groups = groups.contiguous().flatten() if groups.ndim > 1 else groups
    count, dims = points.size, (grid.dim_x, grid.dim_y, grid.dim_z)
    held, per_length = grid.__dict__, np.full(3, 1 / np.float32(radius), np.float32)
    for name, dtype, is_there in (("ids", int, True), ("_cells", wp.uint32, True), ("groups", int, groups is not None)):
        if not is_there or held.get(name) is None or held[name].size != count:
            made = wp.zeros(count, dtype=dtype, device=grid.device) if is_there else None
            set_fields(grid, {name: made})
    if not np.array_equal(held["per_length"], per_length):
        set_fields(grid, per_length=_fixed(per_length))
    if points.scope is not HOST:
        set_fields(grid, _rooms=held.get("_rooms", {}))
        _build_on_gpu(grid, points, groups)
        return
    wp.launch(find_cells, count, [points, per_length, *dims], [held["_cells"]])
    _sort_cells(held["_cells"], groups, held["ids"], held["groups"], held["start"])


def _points_of(grid: HashGrid, points: Any) -> HostArray:
    wanted = _POINTS[grid.dtype]
    if not isinstance(points, HostArray) or points.dtype != wanted:
        given = points.dtype if isinstance(points, HostArray) else type(points).__name__
        raise KernelTypeError(
            f"HashGrid.build: points: expected an array of {wanted!r}, got {given!r}",
            hint=f"wp.array(points, dtype={wanted!r}); in JAX: HashGrid.build(points, radius, dims)",
        )
    if points.device != grid.device:
        raise KernelTypeError(
            f"HashGrid.build: points: expected an array on {grid.device}, where the grid is, got one on"
            f" {points.device}",
            hint=f'make the grid there: HashGrid(..., device="{points.device}")',
        )
    return points.contiguous().flatten() if points.ndim > 1 else points


def _require_groups(groups: Any, points: HostArray) -> None:
    if not isinstance(groups, HostArray) or groups.dtype != wp.int32:
        given = groups.dtype if isinstance(groups, HostArray) else type(groups).__name__
        raise KernelTypeError(f"HashGrid.build: groups: expected an array of int32, got {given!r}")
    if groups.size != points.size:
        raise KernelValueError(
            f"HashGrid.build: groups: expected as many as there are points, {points.size}, got {groups.size}"
        )
    if groups.device != points.device:
        raise KernelTypeError(
            f"HashGrid.build: groups: expected an array on {points.device}, where the points are, got one on"
            f" {groups.device}"
        )


def _build_on_gpu(grid: HashGrid, points: HostArray, groups: HostArray | None) -> None:
    """Find the cells of points on a GPU, sort them, and set where those of each cell start."""
    from jaxwarp.host import gpu_sorting  # its kernels are made when they are first used

    held, place = vars(grid), points.scope
    cells, ids, by_cell, start, rooms = (held[name] for name in ("_cells", "ids", "groups", "start", "_rooms"))
    numbers, bits = (held["per_length"], grid.dim_x, grid.dim_y, grid.dim_z), (start.size - 1).bit_length()

    def build() -> None:
        launch_unrecorded(place, find_cells, points.size, points, *numbers, cells)
        gpu_sorting.sort_cells(cells, groups, bits, ids, by_cell, rooms)
        launch_unrecorded(place, find_starts, cells.size + 1, cells, start)

    reads = [a.region for a in (points, groups) if a is not None]
    writes = [a.region for a in (cells, ids, by_cell, start) if a is not None]
    HOST.change("HashGrid.build", build, reads, writes, place)


def _sort_cells(
    cells: HostArray, groups: HostArray | None, ids: HostArray, by_cell: HostArray | None, start: HostArray
) -> None:
    """Sorts numbers of cells in place, within a cell by group, and sets those of the points in that order, their
    groups, and where those of each cell start."""
    sort = partial(_sort_on_host, cells, groups, ids, by_cell, start)
    reads = [a.region for a in (cells, groups) if a is not None]
    HOST.change("HashGrid.build", sort, reads, [a.region for a in (cells, ids, by_cell, start) if a is not None])


def _sort_on_host(
    cells: HostArray, groups: HostArray | None, ids: HostArray, by_cell: HostArray | None, start: HostArray
) -> None:
    keys, order = cells.numpy(), ids.numpy()
    if groups is None or by_cell is None:
        sort_cells(keys, order, start.numpy())
        return
    given = groups.numpy()
    turned = given.astype(np.int64).astype(np.uint64) & np.uint64(0xFFFFFFFF) ^ np.uint64(0x80000000)
    sort_cells(keys.astype(np.uint64) << np.uint64(32) | turned, order, start.numpy())
    set_contents(by_cell.region, given[order])
