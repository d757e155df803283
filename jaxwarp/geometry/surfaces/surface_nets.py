"""Surface nets: a vertex for each patch of the surface in a cell, and a quad around each edge that it passes.

The dual of marching cubes: a cell that the surface passes in two patches has two vertices (Nielson, Dual marching
cubes, 2004). A vertex is the mean of where its patch passes the edges of the cell (Gibson, Constrained elastic surface
nets, 1998).
"""

# ruff: noqa: RUF046, UP018

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import jax.numpy as jnp
import numpy as np

import jaxwarp as wp
from jaxwarp.boundary import boundary
from jaxwarp.geometry.surfaces.cases import CORNERS, EDGES, axis_of, patch_table
from jaxwarp.geometry.surfaces.extraction import Method, extract
from jaxwarp.geometry.surfaces.grid import Field, crosses, crossing, joined_case, node_at, slice_case, spacing
from jaxwarp.geometry.surfaces.surface import Surface, require_bounds, require_field, require_size
from jaxwarp.memory.convert import for_jax

# Where the parts of the table begin: of how many patches each case has, which of them passes each edge, the low corner
# and the axis of each edge, and which edge of a cell one along an axis is whose low corner is there.
_PATCHES, _LOWS, _EDGES = 256, 256 + 3072, 256 + 3072 + 48


@cache
def _table(_: tuple[int, ...]) -> np.ndarray:
    counts, patches = patch_table()
    lows = [(*CORNERS[ends[0]], axis_of(e)) for e, ends in enumerate(EDGES)]
    number_of = {low: e for e, low in enumerate(lows)}
    numbers = [number_of.get((x, y, z, axis), 0) for axis in range(3) for x, y, z in product((0, 1), repeat=3)]
    return np.array([*counts, *patches, *np.ravel(lows), *numbers], np.int32)


@wp.func
def _case(field: Field, i: int, j: int, k: int, threshold: float) -> int:
    return joined_case(slice_case(field, i, j, k, threshold), slice_case(field, i, j, k + 1, threshold))


@wp.func
def _next(axis: int, step: int) -> wp.vec3i:
    """A step along the axis that comes so many after another one."""
    at = (axis + step) % 3
    return wp.vec3i(1 if at == 0 else 0, 1 if at == 1 else 0, 1 if at == 2 else 0)


@wp.func
def _has_quad(field: Field, i: int, j: int, k: int, axis: int, threshold: float) -> bool:
    """Return whether the surface passes an edge with four cells around it, none of which has a NaN."""
    node, along, b, c = wp.vec3i(i, j, k), _next(axis, 0), _next(axis, 1), _next(axis, 2)
    size = wp.vec3i(field.shape[0], field.shape[1], field.shape[2])
    end, last = node + along, node + b + c
    is_inside = end[0] < size[0] and end[1] < size[1] and end[2] < size[2]
    is_inside = is_inside and last[0] < size[0] and last[1] < size[1] and last[2] < size[2]
    low = node - b - c
    is_inside = is_inside and low[0] >= 0 and low[1] >= 0 and low[2] >= 0
    found = is_inside and crosses(field[i, j, k], field[end[0], end[1], end[2]], threshold)
    if found:
        for q in range(18):
            at = low + (q % 3) * b + (q // 3 % 3) * c + (q // 9) * along
            found = found and not wp.isnan(field[at[0], at[1], at[2]])
    return found


@wp.kernel
def _count(
    field: Field, threshold: float, table: wp.array[int], vertices: wp.array2d[int], faces: wp.array2d[int]
) -> None:
    i, j = wp.tid()
    if i + 1 < field.shape[0] and j + 1 < field.shape[1]:
        low = slice_case(field, i, j, 0, threshold)
        found = int(0)
        for k in range(field.shape[2] - 1):
            high = slice_case(field, i, j, k + 1, threshold)
            found += table[joined_case(low, high)]
            low = high
        vertices[i, j] = found
    quads = int(0)
    for k in range(field.shape[2]):
        for axis in range(3):
            quads += 1 if _has_quad(field, i, j, k, axis, threshold) else 0
    faces[i, j] = quads


@wp.kernel
def _number(
    field: Field, threshold: float, table: wp.array[int], first: wp.array2d[int], numbers: wp.array[int],
    codes: wp.array[int],
) -> None:  # fmt: skip
    """Record the number of the first patch and the case of each cell, and `4 * cell + patch` of each number."""
    i, j = wp.tid()
    if i + 1 < field.shape[0] and j + 1 < field.shape[1]:
        n = first[i, j]
        low = slice_case(field, i, j, 0, threshold)
        for k in range(field.shape[2] - 1):
            high = slice_case(field, i, j, k + 1, threshold)
            case = joined_case(low, high)
            low = high
            cell = (i * field.shape[1] + j) * field.shape[2] + k
            numbers[2 * cell] = n
            numbers[2 * cell + 1] = case
            for patch in range(table[case]):
                if n < codes.shape[0]:
                    codes[n] = 4 * cell + patch
                n += 1


@wp.kernel
def _write(
    field: Field, threshold: float, table: wp.array[int], first: wp.array2d[int], numbers: wp.array[int],
    faces: wp.array2d[int],
) -> None:  # fmt: skip
    i, j = wp.tid()
    n = first[i, j]
    for k in range(field.shape[2]):
        for axis in range(3):
            if _has_quad(field, i, j, k, axis, threshold):
                if n < faces.shape[0]:
                    is_above = field[i, j, k] >= threshold
                    for q in range(4):
                        # Counterclockwise around the axis, or the other way round.
                        turn = 3 - q if is_above else q
                        at_b, at_c = 1 if turn == 0 or turn == 3 else 0, 1 if turn < 2 else 0
                        low = at_b * _next(axis, 1) + at_c * _next(axis, 2)
                        cell = ((i - low[0]) * field.shape[1] + j - low[1]) * field.shape[2] + k - low[2]
                        edge = table[_EDGES + 8 * axis + 4 * low[0] + 2 * low[1] + low[2]]
                        faces[n, q] = numbers[2 * cell] + table[_PATCHES + 12 * numbers[2 * cell + 1] + edge] + 1
                n += 1


@wp.kernel
def _place(
    field: Field, threshold: float, table: wp.array[int], lower: wp.vec3, upper: wp.vec3, codes: wp.array[int],
    count: wp.array[int], points: wp.array[wp.vec3],
) -> None:  # fmt: skip
    n = wp.tid()
    if n < count[0]:
        cell = node_at(field, codes[n] // 4)
        i, j, k = cell[0], cell[1], cell[2]
        case = _case(field, i, j, k, threshold)
        total = wp.vec3()
        passed = float(0.0)
        for edge in range(12):
            if table[_PATCHES + 12 * case + edge] == codes[n] % 4:
                at = _LOWS + 4 * edge
                total += crossing(field, threshold, i + table[at], j + table[at + 1], k + table[at + 2], table[at + 3])
                passed += 1.0
        points[n] = lower + wp.cw_mul(total / passed, spacing(field, lower, upper))


METHOD = Method(_count, _number, _write, _place, _table, places=2, corners=4)


def cut_quads(points: Any, quads: Any) -> Any:
    """Two triangles of each quad, by its shorter diagonal."""
    array = np if isinstance(quads, np.ndarray) else jnp
    a, b, c, d = (points[quads[:, k]] for k in range(4))
    is_first = (((c - a) ** 2).sum(1) <= ((d - b) ** 2).sum(1))[:, None]
    first, second = (0, 1, 2, 0, 2, 3), (1, 2, 3, 1, 3, 0)
    return array.where(is_first, quads[:, first], quads[:, second]).reshape(-1, 3)


@boundary
def surface_nets(
    field: Any,
    threshold: Any = 0.0,
    *,
    size: Any = None,
    lower: Any = None,
    upper: Any = None,
    quads: bool = False,
) -> Surface:
    """The surface where a field on a grid has a given value, with its vertices in the cells: faces are more even than
    those of `marching_cubes`.

    It ends a cell before the border of the grid, and at nodes that are NaN; elsewhere every edge is passed by as many
    faces in one direction as in the other: by one, but where two cells meet in an ambiguous side perhaps by two.
    Vertices are differentiable in both modes, to every order, by the field, the threshold and the corners.

    Args:
        field, threshold, lower, upper: as of `marching_cubes`.
        size: room for how many vertices, and twice as many triangles, or as many quads; or a tuple of both numbers. It
            is static. None: for as many as there are.
        quads: faces have four vertices, which need not be in one plane. Else these are cut by the shorter diagonal.

    Returns:
        `Surface(vertices, faces, vertex_count, face_count, overflow)`.

    Raises:
        KernelTypeError, KernelValueError: arguments of another type or shape; no `size` in a program.
    """
    where = "surface_nets"
    require_field(where, field)
    bounds = require_bounds(where, lower, upper, field.shape)
    if size is not None:
        vertices, faces = require_size(where, size)
        size = (vertices, faces if quads and isinstance(size, tuple) else faces // 2)
    threshold = jnp.asarray(threshold).astype(jnp.float32)
    found = extract(where, METHOD, jnp.asarray(for_jax(field, where)), threshold, bounds, size)
    if quads:
        return found
    return found._replace(faces=cut_quads(found.vertices, found.faces), face_count=2 * found.face_count)
