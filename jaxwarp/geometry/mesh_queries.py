"""Queries of a `Mesh` in kernels: hits of rays, closest and furthest points, on which side of it a point is.

A query finds a face, which is an integer; what it returns is computed from that face. So derivatives by rays, points
and vertices are those of plain code, of every order, and 0 where nothing is found.
"""

# ruff: noqa: A001, A002, ARG001, F811, F841, PLR0913, RUF046, RUF059, UP018
# pyright: reportRedeclaration=false, reportUnusedVariable=false

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import jaxwarp as wp
from jaxwarp.geometry.bvh_queries import (
    BvhQuery,
    bvh_query_aabb,
    bvh_query_next,
    bvh_query_sphere,
    tile_bvh_query_aabb,
    tile_bvh_query_next,
)
from jaxwarp.geometry.mesh import Mesh
from jaxwarp.geometry.mesh_search import count_crossings, find_closest, find_furthest, find_hit, find_hit_after
from jaxwarp.geometry.mesh_values import face_corners, mesh_eval_face_normal
from jaxwarp.geometry.triangles import closest_at, closest_on, ray_at, unit_of


@wp.struct
class MeshQueryRay:
    """The result of `mesh_query_ray`. `u` and `v` are the weights of the face's first two corners.

    `sign` is 1 where the ray comes from the face's front, else -1. If `result` is False, `face` is -1 and all other
    fields are 0.
    """

    result: bool
    sign: float
    face: int
    t: float
    u: float
    v: float
    normal: wp.vec3


@wp.struct
class MeshQueryPoint:
    """The result of `mesh_query_point`. `u` and `v` are the weights of the face's first two corners.

    `sign` is -1 inside, else 1; queries without a sign set it to 0. If `result` is False, `face` is -1 and all other
    fields are 0.
    """

    result: bool
    sign: float
    face: int
    u: float
    v: float


# Rays


@wp.func
def mesh_eval_ray(id: Mesh, face: int, start: wp.vec3, dir: wp.vec3) -> MeshQueryRay:
    """Return where a ray meets the plane of a face, as `mesh_query_ray` does. If `face` is negative, `result` is False.

    Derivatives are by `start`, `dir` and the mesh's points.
    """
    hit = MeshQueryRay(False, 0.0, -1, 0.0, 0.0, 0.0, wp.vec3())
    if face >= 0:
        t, u, v = ray_at(face_corners(id, face), start, dir)
        normal = mesh_eval_face_normal(id, face)
        hit = MeshQueryRay(True, 1.0 if wp.dot(normal, unit_of(dir) * dir) < 0.0 else -1.0, face, t, u, v, normal)
    return hit


@wp.func
def mesh_query_ray(id: Mesh, start: wp.vec3, dir: wp.vec3, max_t: float, root: int = -1) -> MeshQueryRay:
    """The first hit of a ray, where 0 <= t < max_t; `t` is in lengths of `dir`.

    `root` is the root of a group, see `mesh_get_group_root`; -1 for all faces. Derivatives are by `start`, `dir` and
    the mesh's points.
    """
    return mesh_eval_ray(id, find_hit(id, start, dir, max_t, False, root), start, dir)


@wp.func
def mesh_query_ray(
    id: Mesh,
    start: wp.vec3,
    dir: wp.vec3,
    max_t: float,
    t: wp.ref[float],
    bary_u: wp.ref[float],
    bary_v: wp.ref[float],
    sign: wp.ref[float],
    normal: wp.ref[wp.vec3],
    face: wp.ref[int],
    root: int = -1,
) -> bool:
    """The same, for variables: they are set where the ray hits."""
    hit = mesh_query_ray(id, start, dir, max_t, root)
    if hit.result:
        t = hit.t
        bary_u = hit.u
        bary_v = hit.v
        sign = hit.sign
        normal = hit.normal
        face = hit.face
    return hit.result


@wp.func
def mesh_query_ray_anyhit(id: Mesh, start: wp.vec3, dir: wp.vec3, max_t: float, root: int = -1) -> bool:
    """Return whether a ray hits a face, where 0 <= t < max_t."""
    return find_hit(id, start, dir, max_t, True, root) >= 0


@wp.func
def mesh_query_ray_count_intersections(id: Mesh, start: wp.vec3, dir: wp.vec3, root: int = -1) -> int:
    """Return how many faces a ray crosses. A crossing at an edge or a vertex that faces share counts once.

    It is as if the ray were moved infinitely little towards higher coordinates. So a ray that touches the outline of a
    closed mesh crosses it twice, or not at all. Of an open mesh, borders at lower coordinates count, others do not.
    """
    return count_crossings(id, start, dir, False, root)


@wp.struct
class MeshQueryRayAll:
    """A query for all crossings of a ray, nearest first. Iterate over it, or advance it with `mesh_query_ray_next`."""

    mesh: Mesh
    start: wp.vec3
    dir: wp.vec3
    max_t: float
    root: int
    last: int  # the one of the mesh's `corners` that was crossed last

    if TYPE_CHECKING:  # kernels go over it: see func_next

        def __iter__(self) -> Iterator[int]: ...


@wp.func
def mesh_query_ray_all(id: Mesh, start: wp.vec3, dir: wp.vec3, max_t: float, root: int = -1) -> MeshQueryRayAll:
    """A query for the faces that a ray crosses where 0 <= t < max_t, the nearest first.

    `for face in query` goes over them; `mesh_eval_ray` gives `t` and the rest of one. Each costs a search, so a loop
    that ends after k faces costs k of them. Faces are those that `mesh_query_ray_count_intersections` counts: one
    where a ray meets a common edge or a vertex.
    """
    return MeshQueryRayAll(id, start, dir, max_t, root, -1)


@wp.func_next(MeshQueryRayAll)
@wp.func
def mesh_query_ray_next(query: wp.ref[MeshQueryRayAll], index: wp.ref[int]) -> bool:
    """Sets `index` to the face that a ray crosses next, and returns True; or returns False, when there is none."""
    last = find_hit_after(query.mesh, query.start, query.dir, query.max_t, query.last, query.root)
    if last >= 0:
        query.last = last
        index = query.mesh.bvh.order[last]
    return last >= 0


# Points


@wp.func
def on_face(mesh: Mesh, face: int, point: wp.vec3, sign: float) -> MeshQueryPoint:
    found = MeshQueryPoint(False, 0.0, -1, 0.0, 0.0)
    if face >= 0:
        v, w, square = closest_at(face_corners(mesh, face), point)
        found = MeshQueryPoint(True, sign, face, 1.0 - v - w, v)
    return found


@wp.func
def mesh_query_point_no_sign(id: Mesh, point: wp.vec3, max_dist: float) -> MeshQueryPoint:
    """The closest point of a mesh, if it is closer than `max_dist`."""
    return on_face(id, find_closest(id, point, max_dist), point, 0.0)


@wp.func
def _votes_inside(mesh: Mesh, point: wp.vec3, dir: wp.vec3) -> int:
    """1 if a ray leaves through more faces than it enters through: where two are at one place, either may be first."""
    return 1 if count_crossings(mesh, point, dir, True) > 0 else 0


@wp.func
def mesh_query_point(id: Mesh, point: wp.vec3, max_dist: float) -> MeshQueryPoint:
    """The closest point of a mesh, if it is closer than `max_dist`, and on which side of the mesh the point is.

    It is inside if two of the three rays along the axes leave through more faces than they enter through.
    """
    face = find_closest(id, point, max_dist)
    sign = float(0.0)
    if face >= 0:
        votes = _votes_inside(id, point, wp.vec3(1.0, 0.0, 0.0))
        votes += _votes_inside(id, point, wp.vec3(0.0, 1.0, 0.0))
        votes += _votes_inside(id, point, wp.vec3(0.0, 0.0, 1.0))
        sign = -1.0 if votes >= 2 else 1.0
    return on_face(id, face, point, sign)


@wp.func
def mesh_query_point_sign_parity(
    id: Mesh, point: wp.vec3, max_dist: float, n_sample: int = 1, perturbation_scale: float = 0.1
) -> MeshQueryPoint:
    """The closest point of a mesh, if it is closer than `max_dist`, and on which side of the mesh the point is.

    It is inside if at least half of `n_sample` rays cross an odd number of faces. The rays go along (1, 1, 1), each
    component changed by at most `perturbation_scale`: always the same ones.
    """
    face = find_closest(id, point, max_dist)
    sign = float(0.0)
    if face >= 0:
        odd = int(0)
        state = wp.rand_init(42)
        for _ in range(n_sample):
            x = wp.randf(state, -1.0, 1.0)
            y = wp.randf(state, -1.0, 1.0)
            z = wp.randf(state, -1.0, 1.0)
            dir = wp.vec3(1.0, 1.0, 1.0) + perturbation_scale * wp.vec3(x, y, z)
            odd += count_crossings(id, point, dir, False) & 1
        sign = -1.0 if 2 * odd >= n_sample else 1.0
    return on_face(id, face, point, sign)


# A weight that may be one of 0, after rounding.
_ON_EDGE = 1.0e-6


@wp.func
def _angle(mesh: Mesh, face: int, place: wp.vec3, within: float) -> float:
    """The angle of a face around a point: a whole turn inside of it, half of one on an edge; 0 further away."""
    corners = face_corners(mesh, face)
    v, w, square = closest_on(corners, place)
    u = 1.0 - v - w
    longest = wp.max(
        wp.length(corners[1] - corners[0]),
        wp.max(wp.length(corners[2] - corners[1]), wp.length(corners[0] - corners[2])),
    )
    least = within / wp.max(longest, 1.0e-30)
    on_edges = (1 if u <= least else 0) + (1 if v <= least else 0) + (1 if w <= least else 0)
    angle = 2.0 * wp.pi if on_edges == 0 else wp.pi
    if on_edges > 1:
        k = int(0)
        if v > u and v > w:
            k = 1
        elif w > u:
            k = 2
        one = wp.normalize(corners[(k + 1) % 3] - corners[k])
        two = wp.normalize(corners[(k + 2) % 3] - corners[k])
        angle = wp.atan2(wp.length(wp.cross(one, two)), wp.dot(one, two))
    return angle if square <= within * within else 0.0


@wp.func
def mesh_query_point_sign_normal(id: Mesh, point: wp.vec3, max_dist: float, epsilon: float = 1.0e-3) -> MeshQueryPoint:
    """The closest point of a mesh, if it is closer than `max_dist`, and on which side of the mesh the point is.

    The side is that of the faces' normals there: of one face, of the two at an edge, or of all around a vertex, each
    weighted by its angle (Baerentzen and Aanaes 2005). That is right for closed meshes that do not cut themselves.
    `epsilon` has no effect: what is on an edge is known.
    """
    face = find_closest(id, point, max_dist)
    sign = float(0.0)
    if face >= 0:
        corners = face_corners(id, face)
        v, w, square = closest_on(corners, point)
        u = 1.0 - v - w
        place = u * corners[0] + v * corners[1] + w * corners[2]
        normal = mesh_eval_face_normal(id, face)
        if u <= _ON_EDGE or v <= _ON_EDGE or w <= _ON_EDGE:
            # The middle of an edge is where the faces of the edge are, and no others.
            a = 1.0 if u > _ON_EDGE else 0.0
            b = 1.0 if v > _ON_EDGE else 0.0
            c = 1.0 if w > _ON_EDGE else 0.0
            probe = (a * corners[0] + b * corners[1] + c * corners[2]) / (a + b + c)
            one = wp.length(corners[1] - corners[0])
            within = 1.0e-5 * wp.max(
                one, wp.max(wp.length(corners[2] - corners[1]), wp.length(corners[0] - corners[2]))
            )
            normal = wp.vec3()
            for other in bvh_query_sphere(id.bvh, probe, within):
                normal += _angle(id, other, probe, within) * mesh_eval_face_normal(id, other)
        sign = -1.0 if wp.dot(normal, point - place) < 0.0 else 1.0
    return on_face(id, face, point, sign)


@wp.func
def mesh_query_furthest_point_no_sign(id: Mesh, point: wp.vec3, min_dist: float) -> MeshQueryPoint:
    """The furthest point of a mesh, which is a vertex, if it is further than `min_dist`."""
    face = find_furthest(id, point, min_dist)
    found = MeshQueryPoint(False, 0.0, -1, 0.0, 0.0)
    if face >= 0:
        corners = face_corners(id, face)
        a = wp.length_sq(corners[0] - point)
        b = wp.length_sq(corners[1] - point)
        c = wp.length_sq(corners[2] - point)
        is_a = a >= b and a >= c
        found = MeshQueryPoint(True, 0.0, face, 1.0 if is_a else 0.0, 1.0 if b >= c and not is_a else 0.0)
    return found


# Several faces


@wp.struct
class MeshQuery:
    """A query for faces of a mesh. Iterate over it with `for face in query`, or advance it with `mesh_query_next`."""

    mesh: Mesh
    boxes: BvhQuery
    radius: float

    if TYPE_CHECKING:  # kernels go over it: see func_next

        def __iter__(self) -> Iterator[int]: ...


MeshQueryAABB = MeshQuery
MeshQuerySphere = MeshQuery


@wp.func
def mesh_query_aabb(id: Mesh, low: wp.vec3, high: wp.vec3) -> MeshQuery:
    """A query for the faces whose boxes overlap a box."""
    return MeshQuery(id, bvh_query_aabb(id.bvh, low, high), -1.0)


@wp.func
def mesh_query_sphere(id: Mesh, center: wp.vec3, radius: float) -> MeshQuery:
    """A query for the faces that come as close to a centre as a radius."""
    return MeshQuery(id, bvh_query_sphere(id.bvh, center, radius), wp.max(radius, 0.0))


@wp.func_next(MeshQuery)
@wp.func
def mesh_query_next(query: wp.ref[MeshQuery], index: wp.ref[int]) -> bool:
    """Sets `index` to the next face that a query finds, and returns True; or returns False, when there is none."""
    boxes = query.boxes
    face = int(-1)
    is_found = bool(False)
    while not is_found and bvh_query_next(boxes, face):
        is_found = query.radius < 0.0
        if not is_found:
            v, w, square = closest_on(face_corners(query.mesh, face), boxes.a)
            is_found = square <= query.radius * query.radius
    if is_found:
        index = face
    query.boxes = boxes
    return is_found


mesh_query_aabb_next = mesh_query_next


@wp.func
def tile_mesh_query_aabb(id: Mesh, low: wp.vec3, high: wp.vec3) -> BvhQuery:
    """A query for the faces whose boxes overlap a box; `tile_mesh_query_aabb_next` advances it."""
    return tile_bvh_query_aabb(id.bvh, low, high)


tile_mesh_query_aabb_next = tile_bvh_query_next
MeshQueryAABBTiled = BvhQuery
mesh_query_aabb_tiled, mesh_query_aabb_next_tiled = tile_mesh_query_aabb, tile_bvh_query_next


# For variables, as programs of Warp have it


@wp.func
def hand_over(
    found: MeshQueryPoint,
    inside: wp.ref[float],
    face: wp.ref[int],
    bary_u: wp.ref[float],
    bary_v: wp.ref[float],
) -> bool:
    """Sets variables to a result, if there is one."""
    if found.result:
        inside = found.sign
        face = found.face
        bary_u = found.u
        bary_v = found.v
    return found.result


@wp.func
def mesh_query_point_no_sign(
    id: Mesh,
    point: wp.vec3,
    max_dist: float,
    face: wp.ref[int],
    bary_u: wp.ref[float],
    bary_v: wp.ref[float],
) -> bool:
    """The same, for variables: they are set where a point is found."""
    inside = float(0.0)
    return hand_over(mesh_query_point_no_sign(id, point, max_dist), inside, face, bary_u, bary_v)


@wp.func
def mesh_query_furthest_point_no_sign(
    id: Mesh,
    point: wp.vec3,
    min_dist: float,
    face: wp.ref[int],
    bary_u: wp.ref[float],
    bary_v: wp.ref[float],
) -> bool:
    """The same, for variables: they are set where a point is found."""
    inside = float(0.0)
    return hand_over(mesh_query_furthest_point_no_sign(id, point, min_dist), inside, face, bary_u, bary_v)


@wp.func
def mesh_query_point(
    id: Mesh,
    point: wp.vec3,
    max_dist: float,
    inside: wp.ref[float],
    face: wp.ref[int],
    bary_u: wp.ref[float],
    bary_v: wp.ref[float],
) -> bool:
    """The same, for variables: they are set where a point is found."""
    return hand_over(mesh_query_point(id, point, max_dist), inside, face, bary_u, bary_v)


@wp.func
def mesh_query_point_sign_parity(
    id: Mesh,
    point: wp.vec3,
    max_dist: float,
    inside: wp.ref[float],
    face: wp.ref[int],
    bary_u: wp.ref[float],
    bary_v: wp.ref[float],
    n_sample: int = 1,
    perturbation_scale: float = 0.1,
) -> bool:
    """The same, for variables: they are set where a point is found."""
    found = mesh_query_point_sign_parity(id, point, max_dist, n_sample, perturbation_scale)
    return hand_over(found, inside, face, bary_u, bary_v)


@wp.func
def mesh_query_point_sign_normal(
    id: Mesh,
    point: wp.vec3,
    max_dist: float,
    inside: wp.ref[float],
    face: wp.ref[int],
    bary_u: wp.ref[float],
    bary_v: wp.ref[float],
    epsilon: float = 1.0e-3,
) -> bool:
    """The same, for variables: they are set where a point is found."""
    return hand_over(mesh_query_point_sign_normal(id, point, max_dist, epsilon), inside, face, bary_u, bary_v)
