"""`sample_points`: random points on a mesh, uniform by area.

The face is found by the inverse of the distribution of areas (Devroye, Non-uniform random variate generation, 1986,
II.2): a block of faces by the sums of blocks, then a face in it. So faces of a millionth of the area keep their share
in float32. Sums of a block, and of blocks, are made by one thread each: they never decrease, and a face of no area is
never found.
"""

# ruff: noqa: UP018

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import jaxwarp as wp
from jaxwarp.boundary import boundary, guarded
from jaxwarp.errors import KernelValueError
from jaxwarp.geometry.cast import corners_of, require_mesh
from jaxwarp.geometry.mesh import Mesh
from jaxwarp.geometry.triangles import face_area, face_normal
from jaxwarp.memory.convert import for_jax


@guarded
class SampledPoints(NamedTuple):
    """The result of `sample_points`.

    Attributes:
        point: (n, 3).
        face: the face that each is on; -1 if the mesh has no area.
        u, v: weights of the face's first two corners.
        normal: of the face, (n, 3), of length 1.
    """

    point: jax.Array
    face: jax.Array
    u: jax.Array
    v: jax.Array
    normal: jax.Array


@wp.func
def _area(points: wp.array[wp.vec3], indices: wp.array[int], face: int) -> float:
    """0 of a face with a vertex that is not there, or is not finite."""
    area = float(0.0)
    is_there = True
    for k in range(3):
        vertex = indices[3 * face + k]
        is_there = is_there and vertex >= 0 and vertex < points.shape[0]
    if is_there:
        area = face_area(corners_of(points, indices, face))
    return area if wp.isfinite(area) else 0.0


@wp.kernel
def _sum_faces(
    points: wp.array[wp.vec3], indices: wp.array[int], block: int, within: wp.array[float], totals: wp.array[float]
) -> None:
    i = wp.tid()
    total = float(0.0)
    for face in range(i * block, wp.min((i + 1) * block, within.shape[0])):
        total += _area(points, indices, face)
        within[face] = total
    totals[i] = total


@wp.kernel
def _sum_blocks(totals: wp.array[float], ends: wp.array[float]) -> None:
    total = float(0.0)
    for i in range(totals.shape[0]):
        total += totals[i]
        ends[i] = total


@wp.kernel
def _choose(
    key: wp.PRNGKey, within: wp.array[float], ends: wp.array[float], block: int, faces: wp.array[int],
    u: wp.array[float], v: wp.array[float],
) -> None:  # fmt: skip
    i = wp.tid()
    state = wp.rand_init(key, i)
    total = ends[ends.shape[0] - 1]
    faces[i] = -1
    if total > 0.0:
        # A number above 0 is in no empty part; rounding may put it at the end of all.
        at = wp.min(wp.lower_bound(ends, (1.0 - wp.randf(state)) * total), ends.shape[0] - 1)
        first = at * block
        last = wp.min(first + block, within.shape[0])
        faces[i] = wp.lower_bound(within, first, last, (1.0 - wp.randf(state)) * within[last - 1])
        root = wp.sqrt(wp.randf(state))
        u[i] = 1.0 - root
        v[i] = root * wp.randf(state)


@wp.kernel
def _place(
    points: wp.array[wp.vec3], indices: wp.array[int], faces: wp.array[int], u: wp.array[float], v: wp.array[float],
    found: wp.array[wp.vec3], normals: wp.array[wp.vec3],
) -> None:  # fmt: skip
    i = wp.tid()
    face = faces[i]
    if face >= 0:
        corners = corners_of(points, indices, face)
        found[i] = u[i] * corners[0] + v[i] * corners[1] + (1.0 - u[i] - v[i]) * corners[2]
        normals[i] = face_normal(corners)


_call_faces, _call_blocks = wp.jax_kernel(_sum_faces, num_outputs=2), wp.jax_kernel(_sum_blocks)
_call_choose, _call_place = wp.jax_kernel(_choose, num_outputs=3), wp.jax_kernel(_place, num_outputs=2)


@boundary
def sample_points(mesh: Mesh, key: Any, count: int) -> SampledPoints:
    """Random points on a mesh, uniform by area.

    Differentiable in both modes, to every order, by the mesh's points: samples move with their faces. That faces change
    their areas, and so would get more or fewer points, is no part of a derivative. Works under `jit`, `vmap`, `scan`
    and the other transformations of JAX.

    Args:
        mesh: a `Mesh`. Faces with a vertex that is not there or not finite get no points.
        key: of JAX, `jax.random.key(0)`. The same one gives the same points.
        count: how many points. It is static.

    Returns:
        `SampledPoints(point, face, u, v, normal)`.

    Raises:
        KernelTypeError, KernelValueError: arguments of another type.
    """
    require_mesh("sample_points", mesh)
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise KernelValueError(f"sample_points: count: expected a number of points, got {count!r}")
    points, indices = (jnp.asarray(for_jax(x, "mesh")) for x in (mesh.points, mesh.indices))
    number = indices.size // 3
    block = max(1, math.isqrt(number))
    blocks = max(1, -(-number // block))
    held = jax.lax.stop_gradient(points)
    within, totals = _call_faces(
        held, indices, block, launch_dims=blocks, output_dims={"within": number, "totals": blocks}
    )
    (ends,) = _call_blocks(totals, launch_dims=1, output_dims=blocks)
    face, u, v = _call_choose(key, within, ends, block, launch_dims=count, output_dims=count)
    point, normal = _call_place(points, indices, face, u, v, launch_dims=count, output_dims=count)
    return SampledPoints(point, face, u, v, normal)
