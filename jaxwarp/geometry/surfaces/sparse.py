"""Surfaces on some cells of a grid, outside of JAX: the cells that a surface can pass, and marching cubes on cells.

What is found of cells, which are integers, is found by NumPy. Vertices are placed by a kernel, which a tape follows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import numpy as np

import jaxwarp as wp
from jaxwarp import compat
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.frontend.text.functions import Func
from jaxwarp.geometry.surfaces.cases import CORNERS, EDGES, axis_of, triangle_table
from jaxwarp.geometry.surfaces.given import integer, number, place
from jaxwarp.geometry.surfaces.grid import share
from jaxwarp.memory.devices import Device
from jaxwarp.native.library import sort_order as sort_on_host

_STEPS = np.array(CORNERS, np.int64)
_MOST_DEPTH = 30  # places of cells are int32
_MOST_PLACE = 1 << 62
Field = Callable[[Any], Any]


class _Tables(NamedTuple):
    """The tables of `cases` as arrays: starts of each case's corners, the edges they are on; ends and axes of edges."""

    starts: np.ndarray
    corners: np.ndarray
    ends: np.ndarray
    axes: np.ndarray


class Nodes(NamedTuple):
    """The nodes at the corners of cells, each once.

    Attributes:
        corners: (cells, 8) their numbers.
        places: (nodes, 3) in steps of the grid.
        source: (nodes,) a corner that each is, in the order of all corners of all cells.
    """

    corners: np.ndarray
    places: np.ndarray
    source: np.ndarray


@cache
def _tables() -> _Tables:
    starts, corners = triangle_table()
    found = np.array(starts), np.array(corners), np.array(EDGES), np.array([axis_of(e) for e in range(12)])
    return _Tables(*found)


# The cells that a surface can pass


def _measured(where: str, field: Field, places: np.ndarray, device: Device) -> Any:
    """The field at places, (n, 3): an array of n floats, outside of JAX, on a device.

    Raises:
        KernelTypeError, KernelValueError: it gives something else.
    """
    given = wp.array(places, dtype=wp.vec3, device=device)
    values = field(given)
    if isinstance(values, (jax.Array, np.ndarray)) and values.dtype == np.float32:
        values = wp.array(np.asarray(values), dtype=float, device=device)
    if not isinstance(values, HostArray) or values.dtype != wp.float32:
        kind = values.dtype if isinstance(values, HostArray) else type(values).__name__
        raise KernelTypeError(
            f"{where}: field: expected it to return an array of float32, got {kind}", hint="wp.zeros(n, dtype=float)"
        )
    if tuple(values.shape) != (len(places),):
        raise KernelValueError(
            f"{where}: field: expected {len(places)} values, one for each place, got the shape {tuple(values.shape)}"
        )
    return values.to(device)


def _require_field(where: str, field: Any, threshold: Any, lipschitz_bound: Any) -> None:
    if isinstance(field, Func) or not callable(field):
        raise KernelTypeError(
            f"{where}: field: expected a function of an array of places, got {type_text(field)}",
            hint="a function of Python that launches a kernel on the array, and returns an array of values",
        )
    if compat.is_tracing():
        raise KernelTypeError(
            f"{where}: in JAX arrays have a size that does not depend on values",
            hint="call it outside of jit; or geometry.marching_cubes(field, threshold, size=...)",
        )
    number(where, "threshold", threshold)
    if number(where, "lipschitz_bound", lipschitz_bound) < 0:
        raise KernelValueError(
            f"{where}: lipschitz_bound: expected 0 or more, got {lipschitz_bound}", hint="1 for distances"
        )


def _cells(
    measure: Callable[[np.ndarray], np.ndarray], origin: np.ndarray, width: np.ndarray, depth: int, threshold: float,
    bound: float, most: Any = None,
) -> tuple[np.ndarray, int]:  # fmt: skip
    """Cells of the finest level that the surface can pass, (n, 3), and how many were left out as beyond `most`.

    At the centre of a cell the field is off the threshold by at most the bound times half a diagonal, if the surface
    passes the cell. What is NaN there says nothing, and the cell is kept.
    """
    cells = np.zeros((1, 3), np.int64)
    for level in range(depth + 1):
        size = width / (1 << level)
        reach = np.float32(bound * 0.5 * np.linalg.norm(size))
        values = measure((origin + size * (cells + 0.5)).astype(np.float32))
        cells = cells[~(np.abs(values - np.float32(threshold)) > reach)]
        if level < depth:
            cells = (2 * cells[:, None] + _STEPS).reshape(-1, 3)
    is_inside = np.ones(len(cells), bool) if most is None else (cells < most).all(1)
    return cells[is_inside].astype(np.int32), int((~is_inside).sum())


@boundary
def lipschitz_octree(
    field: Field,
    origin: Any,
    root_width: float,
    max_depth: int,
    threshold: float = 0.0,
    lipschitz_bound: float = 1.0,
    device: Any = None,
) -> tuple[Any, float]:
    """The cells of a grid that the surface of a field can pass, found from coarse to fine, outside of JAX.

    It asks for the field at about as many places as there are cells at the surface.

    Args:
        field: a function of an array of `vec3`, places, that returns as many values: an array of float32, of jaxwarp,
            NumPy or JAX. Between two places it changes at most by `lipschitz_bound` times their distance.
        origin: the lowest corner of the grid, which is a cube.
        root_width: the length of its side.
        max_depth: it is cut in two so many times along each axis.
        threshold: the value at the surface.
        lipschitz_bound: 1 for distances.
        device: where the field is asked for, and where the cells are: "cpu", or a GPU; None: the device that is chosen.

    Returns:
        Cells, an array of `vec3i` by their lowest corners, and how wide they are: what
        `sparse_marching_cubes_from_cells` takes. Where the field is NaN at the centre of a cell, the cell is kept.

    Raises:
        KernelTypeError, KernelValueError: an argument is of another type, or out of range.

    Differentiability:
        None: cells are integers.

    Source: as `igl::lipschitz_octree` of libigl.
    """
    where, at = "lipschitz_octree", wp.get_device(device)
    _require_field(where, field, threshold, lipschitz_bound)
    max_depth = integer(where, "max_depth", max_depth, 0, _MOST_DEPTH)
    corner, width = np.array(place(where, "origin", origin)), np.full(3, number(where, "root_width", root_width, 0.0))
    measure = lambda places: _measured(where, field, places, at).numpy()  # noqa: E731
    cells, _ = _cells(measure, corner, width, max_depth, threshold, lipschitz_bound)
    return wp.array(cells, dtype=wp.vec3i, device=at), float(root_width) / (1 << max_depth)


# Marching cubes


def _nodes(where: str, cells: np.ndarray) -> Nodes:
    """The nodes of cells, (n, 3), ordered by their places.

    Raises:
        KernelValueError: the cells are too far apart.
    """
    ends = [[int(n) for n in found] for found in (cells.min(0), cells.max(0))]
    dims = [b + 2 - a for a, b in zip(*ends, strict=True)]
    if min(ends[0]) < -_MOST_PLACE or max(ends[1]) > _MOST_PLACE:
        raise KernelValueError(
            f"{where}: cells: expected places from -2^62 to 2^62, got {ends[0]} to {ends[1]}", hint="use int32"
        )
    low = np.array(ends[0])
    if math.prod(dims) >= 1 << 63:
        raise KernelValueError(f"{where}: cells: they are too far apart: {dims} nodes are between them")
    at = (cells.astype(np.int64) - low)[:, None] + _STEPS
    keys = ((at[..., 0] * dims[1] + at[..., 1]) * dims[2] + at[..., 2]).reshape(-1)
    ordered, order = sort_on_host(keys.astype(np.uint64))
    is_first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    lowest = order[order % 8 == 0]  # the first corners, by their places
    if (keys[lowest[1:]] == keys[lowest[:-1]]).any():
        raise KernelValueError(f"{where}: cells: expected each cell once", hint="pass np.unique(cells, axis=0)")
    corners = np.empty(len(keys), np.int64)
    corners[order] = np.cumsum(is_first) - 1
    key = ordered[is_first].astype(np.int64)
    places = np.stack([key // (dims[1] * dims[2]), key // dims[2] % dims[1], key % dims[2]], axis=1)
    return Nodes(corners.reshape(-1, 8), places + low, order[is_first])


def _faces(corners: np.ndarray, values: np.ndarray, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """The triangles, and between which two nodes each vertex is, (vertices, 2). Cells with a NaN have none."""
    table = _tables()
    case = ((values >= np.float32(threshold))[corners] << np.arange(8)).sum(1)
    case[np.isnan(values)[corners].any(1)] = 0
    first, count = table.starts[case], table.starts[case + 1] - table.starts[case]
    cell = np.repeat(np.arange(len(corners)), count)
    edge = table.corners[np.arange(len(cell)) + np.repeat(first - (np.cumsum(count) - count), count)]
    low, high = corners[cell, table.ends[edge, 0]], corners[cell, table.ends[edge, 1]]
    place = 3 * low + table.axes[edge]
    other = np.full(3 * len(values), -1)
    other[place] = high
    used = np.flatnonzero(other >= 0)
    number = np.cumsum(other >= 0) - 1
    return number[place].astype(np.int32), np.stack([used // 3, other[used]], axis=1)


@wp.kernel
def _place(
    values: wp.array2d[float], threshold: float, ends: wp.array[wp.vec2i], low: wp.array[wp.vec3],
    high: wp.array[wp.vec3], points: wp.array[wp.vec3],
) -> None:  # fmt: skip
    """Vertices between two nodes each, whose values are at `ends` in the order of the rows of `values`."""
    n = wp.tid()
    a = ends[n][0]
    b = ends[n][1]
    columns = values.shape[1]
    t = share(values[a // columns, a % columns], values[b // columns, b % columns], threshold)
    points[n] = low[n] + t * (high[n] - low[n])


def _surface(nodes: Nodes, values: Any, sources: np.ndarray, places: np.ndarray, threshold: float) -> tuple[Any, Any]:
    """Vertices and indices, where the values are. `sources` say which of `values` a node has, `places` where it is."""
    at, known = values.device, values.numpy().reshape(-1)[sources]
    faces, ends = _faces(nodes.corners, known, threshold)
    points = wp.zeros(len(ends), dtype=wp.vec3, device=at, requires_grad=values.requires_grad)
    low, high = (wp.array(places[ends[:, k]], dtype=wp.vec3, device=at) for k in range(2))
    between = wp.array(sources[ends].astype(np.int32), dtype=wp.vec2i, device=at)
    wp.launch(_place, len(ends), [values, threshold, between, low, high], [points])
    return points, wp.array(faces, dtype=int, device=at)


def _nothing(device: Device, requires_grad: bool = False) -> tuple[Any, Any]:
    return (
        wp.zeros(0, dtype=wp.vec3, device=device, requires_grad=requires_grad),
        wp.zeros(0, dtype=int, device=device),
    )


@boundary
def sparse_marching_cubes_from_cells(
    cells: Any,
    corner_values: Any,
    origin: Any = (0.0, 0.0, 0.0),
    cell_width: float = 1.0,
    threshold: float = 0.0,
    device: Any = None,
) -> tuple[Any, Any]:
    """The surface in some cells of a grid, whose corners' values are known, as triangles, outside of JAX.

    Cells that share corners share vertices: the surface is closed where cells have neighbours.

    Args:
        cells: an array of `vec3i`, or (n, 3) integers: the lowest corner of each cell, each cell once.
        corner_values: (n, 8) of float32: values at `IsoSurfaceMarchingCubes.CUBE_CORNER_OFFSETS` from there, the same
            for the same corner of several cells.
        origin: where the corner (0, 0, 0) is.
        cell_width: the length of a side.
        threshold: the value at the surface. Corners that have it are above.
        device: where the surface is; None: where `corner_values` are.

    Returns:
        `vertices, indices`: arrays of `vec3`, and of int32, three for each triangle, counterclockwise as seen from
        above.

    Raises:
        KernelTypeError, KernelValueError: an argument is of another type or shape, or out of range.

    Differentiability:
        A `Tape` follows vertices, by the values: of a corner of several cells, by that of one of them.

    Source: Lorensen and Cline, Marching cubes, 1987.
    """
    where = "sparse_marching_cubes_from_cells"
    cell_width, threshold = number(where, "cell_width", cell_width, 0.0), number(where, "threshold", threshold)
    lowest = np.array(place(where, "origin", origin))
    found = np.asarray(cells.numpy() if isinstance(cells, HostArray) else cells)
    if not np.issubdtype(found.dtype, np.integer) or found.ndim != 2 or found.shape[1] != 3:
        raise KernelValueError(
            f"{where}: cells: expected integers, (n, 3), got {found.dtype} of {found.shape}", hint="an array of vec3i"
        )
    values = _corner_values(where, corner_values, len(found), device)
    if len(found) == 0:
        return _nothing(values.device, values.requires_grad)
    nodes = _nodes(where, found)
    return _surface(nodes, values, nodes.source, lowest + cell_width * nodes.places, threshold)


def _corner_values(where: str, given: Any, count: int, device: Any) -> Any:
    """An array of 8 floats for each cell, outside of JAX: on a device, or, without, where it is."""
    if not isinstance(given, HostArray):
        found = np.asarray(given)
        if found.dtype.kind not in "iuf":
            raise KernelTypeError(
                f"{where}: corner_values: expected float32, ({count}, 8), got {found.dtype}, {found.shape}",
                hint="convert them: np.asarray(values, np.float32)",
            )
        given = wp.array(found.astype(np.float32), dtype=float, device=device)
    if given.dtype != wp.float32 or given.size != 8 * count:
        raise KernelValueError(
            f"{where}: corner_values: expected float32, ({count}, 8), got {given.dtype}, {tuple(given.shape)}"
        )
    given = given if device is None else given.to(device)
    return given if tuple(given.shape) == (count, 8) else given.reshape((count, 8))


@boundary
def sparse_marching_cubes(  # noqa: PLR0913 - as Warp has it
    field: Field,
    nx: int,
    ny: int,
    nz: int,
    *,
    lower: Any = None,
    upper: Any = None,
    threshold: float = 0.0,
    lipschitz_bound: float = 1.0,
    device: Any = None,
    return_stats: bool = False,
) -> Any:
    """The surface of a field that is a function, outside of JAX, asked for only near the surface.

    The triangles are those of `IsoSurfaceMarchingCubes.extract` of the field at all nodes.

    Args:
        field: as of `lipschitz_octree`.
        nx, ny, nz: numbers of nodes.
        lower, upper: where the first and the last node are; by default at their indices.
        threshold, lipschitz_bound: as of `lipschitz_octree`.
        device: where the field is asked for, and where the surface is, as of `lipschitz_octree`.
        return_stats: also returns how many cells and nodes there are, and for how many places the field was asked.

    Returns:
        `vertices, indices[, stats]`, as `sparse_marching_cubes_from_cells`.

    Raises:
        KernelTypeError, KernelValueError: an argument is of another type, or out of range.

    Differentiability:
        A `Tape` follows vertices, by what `field` returns at the nodes.
    """
    where, at = "sparse_marching_cubes", wp.get_device(device)
    _require_field(where, field, threshold, lipschitz_bound)
    counts = zip(("nx", "ny", "nz"), (nx, ny, nz), strict=True)
    dims = np.array([integer(where, name, n, 2, 1 << _MOST_DEPTH) for name, n in counts])
    low = place(where, "lower", (0.0, 0.0, 0.0) if lower is None else lower)
    high = place(where, "upper", dims - 1 if upper is None else upper)
    if any(a == b for a, b in zip(low, high, strict=True)):
        raise KernelValueError(
            f"{where}: upper: expected other coordinates than lower, {low}, got {high}", hint="cells have a width"
        )
    step, depth = (np.array(high) - low) / (dims - 1), int(dims.max() - 2).bit_length()
    stats = {"leaf_cells": 0, "unique_corners": 0, "field_evaluations": 0, "resolution": 1 << depth,
             "requested_ncells": (nx - 1, ny - 1, nz - 1), "culled_cells": 0}  # fmt: skip

    def measure(places: np.ndarray) -> Any:
        stats["field_evaluations"] += len(places)
        return _measured(where, field, places, at)

    width = step * (1 << depth)
    cells, stats["culled_cells"] = _cells(
        lambda p: measure(p).numpy(), np.array(low), width, depth, threshold, lipschitz_bound, dims - 1
    )
    stats["leaf_cells"], found = len(cells), _nothing(at)
    if len(cells):
        nodes = _nodes(where, cells)
        places = (np.array(low) + step * nodes.places).astype(np.float32)
        stats["unique_corners"] = len(places)
        values = measure(places).reshape((len(places), 1))
        found = _surface(nodes, values, np.arange(len(places)), places, float(threshold))
    return (*found, stats) if return_stats else found
