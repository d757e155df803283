"""The values of a mesh at a vertex or a face, and between them."""

# ruff: noqa: A002

from __future__ import annotations

import jaxwarp as wp
from jaxwarp.geometry.bvh import Bvh
from jaxwarp.geometry.bvh_queries import bvh_get_group_root
from jaxwarp.geometry.mesh import Mesh
from jaxwarp.geometry.triangles import face_normal


@wp.func
def mesh_get(id: Mesh) -> Mesh:
    """The mesh, whose `points`, `velocities` and `indices` can be read."""
    return id


@wp.func
def mesh_get_bvh(id: Mesh) -> Bvh:
    """The tree over the faces of a mesh, for `bvh_query_aabb` and the like."""
    return id.bvh


@wp.func
def mesh_get_group_root(id: Mesh, group: int) -> int:
    """The node that the faces of a group are below, and no others: what queries take as `root`; -1 of no group."""
    return bvh_get_group_root(id.bvh, group)


@wp.func
def mesh_get_index(id: Mesh, index: int) -> int:
    """The vertex that is corner i % 3 of face i // 3."""
    return id.indices[index]


@wp.func
def mesh_get_point(id: Mesh, index: int) -> wp.vec3:
    """The place of corner i % 3 of face i // 3."""
    return id.points[id.indices[index]]


@wp.func
def mesh_get_velocity(id: Mesh, index: int) -> wp.vec3:
    """The velocity of corner i % 3 of face i // 3; zero of a mesh without velocities."""
    if id.velocities:
        return id.velocities[id.indices[index]]
    return wp.vec3()


@wp.func
def face_corners(mesh: Mesh, face: int) -> wp.mat33:
    a = mesh.points[mesh.indices[3 * face]]
    b = mesh.points[mesh.indices[3 * face + 1]]
    c = mesh.points[mesh.indices[3 * face + 2]]
    return wp.mat33(a[0], a[1], a[2], b[0], b[1], b[2], c[0], c[1], c[2])


@wp.func
def mesh_eval_position(id: Mesh, face: int, bary_u: float, bary_v: float) -> wp.vec3:
    """The point of a face where its first two corners have these weights."""
    corners = face_corners(id, face)
    return bary_u * corners[0] + bary_v * corners[1] + (1.0 - bary_u - bary_v) * corners[2]


@wp.func
def mesh_eval_velocity(id: Mesh, face: int, bary_u: float, bary_v: float) -> wp.vec3:
    """The velocity of the point of a face where its first two corners have these weights; zero without velocities."""
    a = mesh_get_velocity(id, 3 * face)
    b = mesh_get_velocity(id, 3 * face + 1)
    c = mesh_get_velocity(id, 3 * face + 2)
    return bary_u * a + bary_v * b + (1.0 - bary_u - bary_v) * c


@wp.func
def mesh_eval_face_normal(id: Mesh, face: int) -> wp.vec3:
    """The normal of a face, of length 1: its corners go round it counterclockwise."""
    return face_normal(face_corners(id, face))
