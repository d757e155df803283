"""Rays and points against a `Mesh`, as functions of JAX's arrays.

A launch finds faces, on values without derivatives; another one evaluates what is asked of them, in plain code. So a
derivative costs about as much as the evaluation, and the search is done once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxwarp as wp
from jaxwarp import compat
from jaxwarp.boundary import boundary, guarded
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.geometry.mesh import Mesh
from jaxwarp.geometry.mesh_queries import mesh_query_point, mesh_query_ray_all
from jaxwarp.geometry.mesh_search import find_closest, find_hit
from jaxwarp.geometry.operations import as_number
from jaxwarp.geometry.sorting import curve_order, taken
from jaxwarp.geometry.triangles import closest_at, face_normal, ray_at, signed_distance_at
from jaxwarp.memory.convert import for_jax


@guarded
class RayHits(NamedTuple):
    """The result of `cast_rays`: arrays with the leading axes of the rays.

    Attributes:
        t: how far each ray goes, in lengths of its direction; infinite if it hits nothing.
        face: the face that it hits; -1 if it hits nothing.
        u, v: weights of the face's first two corners; 0 if it hits nothing.
        normal: of the face, (..., 3), of length 1; 0 if it hits nothing.
    """

    t: jax.Array
    face: jax.Array
    u: jax.Array
    v: jax.Array
    normal: jax.Array


@guarded
class ClosestPoints(NamedTuple):
    """The result of `closest_points`: arrays with the leading axes of the points.

    Attributes:
        distance: to the closest point; infinite if there is none.
        point: the closest point, (..., 3); the point itself if there is none.
        face: the face that it is on; -1 if there is none.
        u, v: weights of the face's first two corners; 0 if there is none.
    """

    distance: jax.Array
    point: jax.Array
    face: jax.Array
    u: jax.Array
    v: jax.Array


@boundary
def cast_rays(mesh: Mesh, origins: Any, directions: Any, max_t: Any = math.inf, *, hits: int | None = None) -> RayHits:
    """Find the first face that each ray hits, or with `hits=n` the nearest n faces that it crosses.

    The first hit counts borders. Several ones are crossings: a ray through a common edge of faces, or a vertex, crosses
    one of them, as if it were moved infinitely little towards higher coordinates. One that touches the outline of a
    closed mesh crosses it twice, or not at all, so that entries and exits alternate. On the border of an open mesh
    there may be no crossing.

    Differentiable in both modes, to every order, by the mesh's points, origins and directions. Where nothing is hit,
    derivatives are 0. Works under `jit`, `vmap`, `scan` and the other transformations of JAX.

    Args:
        mesh: a `Mesh`.
        origins, directions: (..., 3), float32, of which leading axes are broadcast. A direction of 0 hits nothing.
        max_t: hits are where 0 <= t < max_t.
        hits: how many crossings there are for each ray, the nearest first: a last axis of the results. None: the first
            hit, without an axis. Rays that cross less have face -1 at the end.

    Raises:
        KernelTypeError, KernelValueError: the arguments have other types or shapes.
    """
    o, d, shape = _rays_of("cast_rays", mesh, origins, directions)
    count = len(o)
    search = detached((mesh, o, d, as_number("cast_rays: max_t", max_t)))
    if hits is None:
        (face,) = _find_hits(*search, launch_dims=count, output_dims=count)
    else:
        (face,) = _find_all_hits(*search, launch_dims=count, output_dims=(count, _as_count(hits)))
        o, d, face = jnp.repeat(o, hits, axis=0), jnp.repeat(d, hits, axis=0), face.reshape(-1)
        shape, count = (*shape, hits), count * hits
    t, u, v, normal = _evaluate_hits(mesh.points, mesh.indices, face, o, d, launch_dims=count, output_dims=count)
    t, face, u, v = (x.reshape(shape) for x in (t, face, u, v))
    return RayHits(t, face, u, v, normal.reshape(*shape, 3))


@boundary
def any_hit(mesh: Mesh, origins: Any, directions: Any, max_t: Any = math.inf) -> jax.Array:
    """Return whether each ray hits a face, for shadows or lines of sight. This costs less than finding the first hit.

    It has no derivative. Works under `jit`, `vmap`, `scan` and the other transformations of JAX.

    Args:
        mesh: a `Mesh`.
        origins, directions: (..., 3), float32, of which leading axes are broadcast. A direction of 0 hits nothing.
        max_t: hits are where 0 <= t < max_t, in lengths of the direction: 1 between two points `a` and `b`, of the
            rays `a`, `b - a`.

    Returns:
        An array of bools with the leading axes of the rays.

    Raises:
        KernelTypeError, KernelValueError: the arguments have other types or shapes.
    """
    o, d, shape = _rays_of("any_hit", mesh, origins, directions)
    search = detached((mesh, o, d, as_number("any_hit: max_t", max_t)))
    return _find_any_hits(*search, launch_dims=len(o), output_dims=len(o))[0].reshape(shape)


@boundary
def closest_points(mesh: Mesh, points: Any, max_dist: Any = math.inf) -> ClosestPoints:
    """The point of a mesh that is closest to each point.

    Differentiable in both modes, to every order, by the mesh's points and by `points`. On the mesh, where the distance
    is 0, its derivative is 0. Works under `jit`, `vmap`, `scan` and the other transformations of JAX.

    Args:
        mesh: a `Mesh`.
        points: (..., 3), float32.
        max_dist: points that are closer than this are found.

    Raises:
        KernelTypeError, KernelValueError: the arguments have other types or shapes.
    """
    require_mesh("closest_points", mesh)
    p = as_points("closest_points: points", points)
    shape, count = p.shape[:-1], p.size // 3
    p = p.reshape(count, 3)
    (face,) = along_curve(_find_closest, *detached((mesh, p, as_number("closest_points: max_dist", max_dist))))
    found = _evaluate_closest(mesh.points, mesh.indices, face, p, launch_dims=count, output_dims=count)
    distance, u, v, face = (x.reshape(shape) for x in (*found[:3], face))
    return ClosestPoints(distance, found[3].reshape(*shape, 3), face, u, v)


@boundary
def signed_distance(mesh: Mesh, points: Any, max_dist: Any = math.inf) -> jax.Array:
    """Return how far each point is from a mesh, negative inside of it.

    A point is inside if two of the three rays along the axes leave through more faces than they enter through. So the
    mesh has to be closed, with the faces' fronts outside. The distance is differentiable in both modes, to every order,
    by the mesh's points and by `points`. On the surface, its slope is the normal of one of the faces there.

    Args:
        mesh: a `Mesh`.
        points: (..., 3), float32.
        max_dist: further away, the result is infinite.

    Raises:
        KernelTypeError, KernelValueError: the arguments have other types or shapes.
    """
    require_mesh("signed_distance", mesh)
    p = as_points("signed_distance: points", points)
    shape, count = p.shape[:-1], p.size // 3
    p = p.reshape(count, 3)
    face, sign = along_curve(_find_sides, *detached((mesh, p, as_number("signed_distance: max_dist", max_dist))))
    (found,) = _evaluate_signed(mesh.points, mesh.indices, face, sign, p, launch_dims=count, output_dims=count)
    return found.reshape(shape)


def _rays_of(where: str, mesh: Any, origins: Any, directions: Any) -> tuple[jax.Array, jax.Array, tuple[int, ...]]:
    """One origin and one direction for each ray, (n, 3), and the leading axes of the rays."""
    require_mesh(where, mesh)
    o, d = as_points(f"{where}: origins", origins), as_points(f"{where}: directions", directions)
    try:
        o, d = jnp.broadcast_arrays(o, d)
    except ValueError:
        raise KernelValueError(
            f"{where}: expected origins and directions of which axes can be broadcast, got {o.shape} and {d.shape}",
            hint="pass one for each ray, or one for all",
        ) from None
    count = o.size // 3
    return o.reshape(count, 3), d.reshape(count, 3), o.shape[:-1]


def _as_count(hits: Any) -> int:
    if not isinstance(hits, int) or isinstance(hits, bool) or hits < 1:
        raise KernelValueError(f"cast_rays: hits: expected an integer from 1, got {hits!r}")
    return hits


def detached(values: Any) -> Any:
    return jax.tree.map(jax.lax.stop_gradient, values)


def require_mesh(where: str, mesh: Any) -> None:
    if not isinstance(mesh, Mesh):
        raise KernelTypeError(
            f"{where}: mesh: expected a Mesh, got {type_text(mesh)}", hint="make one: Mesh(points, indices)"
        )
    if mesh.corners.ndim > 3:
        raise KernelValueError(
            f"{where}: mesh: expected one Mesh, got a batch of the shape {mesh.corners.shape[:-3]}",
            hint="map over it: jax.vmap",
        )


def as_points(where: str, value: Any) -> jax.Array:
    if not isinstance(value, (jax.Array, np.ndarray)):
        raise KernelTypeError(
            f"{where}: expected an array, got {type_text(value)}", hint="pass jnp.asarray(points, jnp.float32)"
        )
    if value.dtype != np.float32:
        name = where.rpartition(": ")[2]
        raise KernelTypeError(f"{where}: expected float32, got {value.dtype}", hint=f"pass {name}.astype('float32')")
    if value.ndim == 0 or value.shape[-1] != 3:
        raise KernelValueError(f"{where}: expected the shape (..., 3), got {value.shape}", hint="coordinates come last")
    return jnp.asarray(for_jax(value, where))


# Many points

# Fewer gain nothing. On a mesh of 960 faces, of 2,048 points closest ones and winding numbers take 0.7 to 0.75 of the
# time, of 16,384 0.55 to 0.65, of 262,144 0.4 to 0.5; on 48 faces up to 1.05, on 8 up to 1.8 (Xeon, code for AVX-512).
_FEW_POINTS = 1024
_FEW_FACES = 128


def along_curve(find: Callable[..., Sequence[jax.Array]], mesh: Mesh, points: jax.Array, value: Any) -> list[jax.Array]:
    """Launch a search for each point, and return the results in the order of `points`.

    Many points are sorted along a curve first. So the result of a point must not depend on the other points.

    Args:
        find: the launch, of a mesh, points and a number; results have an element for each point.
        mesh, points, value: its operands; points are (n, 3).
    """
    count = points.shape[0]
    if not _is_worth_it(mesh, points):
        return list(find(mesh, points, value, launch_dims=count, output_dims=count))
    order = curve_order(detached(points))
    found = find(mesh, taken(points, order), value, launch_dims=count, output_dims=count)
    return [jnp.zeros_like(x).at[order].set(x, mode="promise_in_bounds", unique_indices=True) for x in found]


def _is_worth_it(mesh: Mesh, points: jax.Array) -> bool:
    """Return whether to sort the points.

    It does not pay for few points or faces. Where a compiler may have split the points among devices, sorting would
    move them from one device to another.
    """
    count, faces = points.shape[0], mesh.indices.shape[0] // 3
    is_whole = jax.device_count() == 1 or bool(compat.varying_axes(jax.typeof(points)))
    return is_whole and isinstance(count, int) and count >= _FEW_POINTS and faces >= _FEW_FACES


# Kernels


@wp.kernel
def _hits(mesh: Mesh, origins: wp.array[wp.vec3], directions: wp.array[wp.vec3], max_t: float, faces: wp.array[int]):
    i = wp.tid()
    faces[i] = find_hit(mesh, origins[i], directions[i], max_t, False)


@wp.kernel
def _any_hits(mesh: Mesh, origins: wp.array[wp.vec3], directions: wp.array[wp.vec3], max_t: float, hit: wp.array[bool]):
    i = wp.tid()
    hit[i] = find_hit(mesh, origins[i], directions[i], max_t, True) >= 0


@wp.kernel
def _all_hits(
    mesh: Mesh, origins: wp.array[wp.vec3], directions: wp.array[wp.vec3], max_t: float, faces: wp.array2d[int]
):
    i = wp.tid()
    for j in range(faces.shape[1]):
        faces[i, j] = -1
    count = 0
    for face in mesh_query_ray_all(mesh, origins[i], directions[i], max_t):
        faces[i, count] = face
        count += 1  # noqa: SIM113
        if count == faces.shape[1]:
            break


@wp.kernel
def _closest(mesh: Mesh, points: wp.array[wp.vec3], max_dist: float, faces: wp.array[int]):
    i = wp.tid()
    faces[i] = find_closest(mesh, points[i], max_dist)


@wp.kernel
def _sides(mesh: Mesh, points: wp.array[wp.vec3], max_dist: float, faces: wp.array[int], signs: wp.array[float]):
    i = wp.tid()
    found = mesh_query_point(mesh, points[i], max_dist)
    faces[i] = found.face
    signs[i] = found.sign


@wp.func
def corners_of(points: wp.array[wp.vec3], indices: wp.array[int], face: int) -> wp.mat33:
    a = points[indices[3 * face]]
    b = points[indices[3 * face + 1]]
    c = points[indices[3 * face + 2]]
    return wp.mat33(a[0], a[1], a[2], b[0], b[1], b[2], c[0], c[1], c[2])


@wp.kernel
def _hit_values(  # noqa: PLR0913
    points: wp.array[wp.vec3],
    indices: wp.array[int],
    faces: wp.array[int],
    origins: wp.array[wp.vec3],
    directions: wp.array[wp.vec3],
    t: wp.array[float],
    u: wp.array[float],
    v: wp.array[float],
    normals: wp.array[wp.vec3],
):
    i = wp.tid()
    face = faces[i]
    t[i] = wp.inf
    if face >= 0:
        corners = corners_of(points, indices, face)
        at, bary_u, bary_v = ray_at(corners, origins[i], directions[i])
        t[i] = at
        u[i] = bary_u
        v[i] = bary_v
        normals[i] = face_normal(corners)


@wp.kernel
def _closest_values(
    points: wp.array[wp.vec3],
    indices: wp.array[int],
    faces: wp.array[int],
    queries: wp.array[wp.vec3],
    distances: wp.array[float],
    u: wp.array[float],
    v: wp.array[float],
    found: wp.array[wp.vec3],
):
    i = wp.tid()
    face = faces[i]
    point = queries[i]
    distances[i] = wp.inf
    found[i] = point
    if face >= 0:
        corners = corners_of(points, indices, face)
        b, c, _square = closest_at(corners, point)
        place = (1.0 - b - c) * corners[0] + b * corners[1] + c * corners[2]
        away = wp.dot(place - point, place - point)
        distances[i] = 0.0
        if away > 0.0:
            distances[i] = wp.sqrt(away)
        u[i] = 1.0 - b - c
        v[i] = b
        found[i] = place


@wp.kernel
def _signed_values(
    points: wp.array[wp.vec3],
    indices: wp.array[int],
    faces: wp.array[int],
    signs: wp.array[float],
    queries: wp.array[wp.vec3],
    distances: wp.array[float],
):
    i = wp.tid()
    distances[i] = wp.inf
    if faces[i] >= 0:
        distances[i] = signed_distance_at(corners_of(points, indices, faces[i]), queries[i], signs[i])


_find_hits = wp.jax_kernel(_hits)
_find_any_hits = wp.jax_kernel(_any_hits)
_find_all_hits = wp.jax_kernel(_all_hits)
_find_closest = wp.jax_kernel(_closest)
_find_sides = wp.jax_kernel(_sides, num_outputs=2)
_evaluate_hits = wp.jax_kernel(_hit_values, num_outputs=4)
_evaluate_closest = wp.jax_kernel(_closest_values, num_outputs=4)
_evaluate_signed = wp.jax_kernel(_signed_values)
