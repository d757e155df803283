"""Marching cubes: a vertex on each edge that the surface passes, and triangles in each cell."""

# Kernels of a method have the same arguments first.
# ruff: noqa: RUF046, UP018, ARG001

from __future__ import annotations

from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np

import jaxwarp as wp
from jaxwarp.boundary import boundary
from jaxwarp.geometry.surfaces.cases import CORNERS, EDGES, axis_of, triangle_table
from jaxwarp.geometry.surfaces.extraction import Method, extract
from jaxwarp.geometry.surfaces.grid import Field, crosses, crossing, joined_case, node_at, slice_case, spacing
from jaxwarp.geometry.surfaces.surface import Surface, require_bounds, require_field
from jaxwarp.memory.convert import for_jax

# Where the parts of the table begin: of each case's triangles, of their corners, and the way to each edge of a cell.
_CORNERS, _WAYS = 257, 257 + 2460


@cache
def _table(shape: tuple[int, ...]) -> np.ndarray:
    _, ny, nz = shape
    low = [CORNERS[ends[0]] for ends in EDGES]
    ways = [3 * ((x * ny + y) * nz + z) + axis_of(e) for e, (x, y, z) in enumerate(low)]
    starts, corners = triangle_table()
    return np.array([*starts, *corners, *ways], np.int32)


@wp.kernel
def _count(
    field: Field, threshold: float, table: wp.array[int], vertices: wp.array2d[int], faces: wp.array2d[int]
) -> None:
    i, j = wp.tid()
    found = int(0)
    for k in range(field.shape[2]):
        here = field[i, j, k]
        if i + 1 < field.shape[0]:
            found += 1 if crosses(here, field[i + 1, j, k], threshold) else 0
        if j + 1 < field.shape[1]:
            found += 1 if crosses(here, field[i, j + 1, k], threshold) else 0
        if k + 1 < field.shape[2]:
            found += 1 if crosses(here, field[i, j, k + 1], threshold) else 0
    vertices[i, j] = found
    if i + 1 < field.shape[0] and j + 1 < field.shape[1]:
        low = slice_case(field, i, j, 0, threshold)
        corners = int(0)
        for k in range(field.shape[2] - 1):
            high = slice_case(field, i, j, k + 1, threshold)
            case = joined_case(low, high)
            corners += table[case + 1] - table[case]
            low = high
        faces[i, j] = corners // 3


@wp.kernel
def _number(
    field: Field, threshold: float, table: wp.array[int], first: wp.array2d[int], numbers: wp.array[int],
    codes: wp.array[int],
) -> None:  # fmt: skip
    """Number the edges that the surface passes, and record the edge of each number in `codes`."""
    i, j = wp.tid()
    n = first[i, j]
    for k in range(field.shape[2]):
        here = field[i, j, k]
        edge = 3 * ((i * field.shape[1] + j) * field.shape[2] + k)
        for axis in range(3):
            x = i + (1 if axis == 0 else 0)
            y = j + (1 if axis == 1 else 0)
            z = k + (1 if axis == 2 else 0)
            is_there = x < field.shape[0] and y < field.shape[1] and z < field.shape[2]
            if is_there and crosses(here, field[x, y, z], threshold):
                numbers[edge + axis] = n
                if n < codes.shape[0]:
                    codes[n] = edge + axis
                n += 1


@wp.kernel
def _write(
    field: Field, threshold: float, table: wp.array[int], first: wp.array2d[int], numbers: wp.array[int],
    faces: wp.array2d[int],
) -> None:  # fmt: skip
    i, j = wp.tid()
    if i + 1 < field.shape[0] and j + 1 < field.shape[1]:
        n = first[i, j]
        low = slice_case(field, i, j, 0, threshold)
        for k in range(field.shape[2] - 1):
            high = slice_case(field, i, j, k + 1, threshold)
            case = joined_case(low, high)
            low = high
            edge = 3 * ((i * field.shape[1] + j) * field.shape[2] + k)
            for at in range(table[case] // 3, table[case + 1] // 3):
                if n < faces.shape[0]:
                    for c in range(3):
                        faces[n, c] = numbers[edge + table[_WAYS + table[_CORNERS + 3 * at + c]]] + 1
                n += 1


@wp.kernel
def _place(
    field: Field, threshold: float, table: wp.array[int], lower: wp.vec3, upper: wp.vec3, codes: wp.array[int],
    count: wp.array[int], points: wp.array[wp.vec3],
) -> None:  # fmt: skip
    n = wp.tid()
    if n < count[0]:
        at = node_at(field, codes[n] // 3)
        place = crossing(field, threshold, at[0], at[1], at[2], codes[n] % 3)
        points[n] = lower + wp.cw_mul(place, spacing(field, lower, upper))


METHOD = Method(_count, _number, _write, _place, _table, places=3, corners=3)


@boundary
def marching_cubes(
    field: Any, threshold: Any = 0.0, *, size: Any = None, lower: Any = None, upper: Any = None
) -> Surface:
    """The surface where a field on a grid has a given value, as triangles with their vertices on edges of the grid.

    It is closed, but at the border of the grid and at nodes that are NaN. Vertices are differentiable in both modes, to
    every order, by the field, the threshold and the corners; faces are integers. Works under `jit`, `vmap`, `scan` and
    the other transformations of JAX, where `size` is needed.

    Args:
        field: values at the nodes of a grid, (nx, ny, nz) of float32, at least two along each axis.
        threshold: the value. Nodes that have it are above.
        size: room for how many vertices, and twice as many triangles; or a tuple of both numbers. It is static.
            None: for as many as there are.
        lower, upper: where the first and the last node are, (3,). By default they are 0 and (nx - 1, ny - 1, nz - 1).

    Returns:
        `Surface(vertices, faces, vertex_count, face_count, overflow)`.

    Raises:
        KernelTypeError, KernelValueError: arguments of another type or shape; no `size` in a program.

    Source:
        Lorensen and Cline, Marching cubes, 1987.
    """
    require_field("marching_cubes", field)
    bounds = require_bounds("marching_cubes", lower, upper, field.shape)
    threshold = jnp.asarray(threshold).astype(jnp.float32)
    return extract("marching_cubes", METHOD, jnp.asarray(for_jax(field, "marching_cubes")), threshold, bounds, size)
